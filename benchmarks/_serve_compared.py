"""All servers on all models, in every form that they speak, with few and many connections: processor time a request, and rate."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import grpc
from _serve_load import SECONDS, Load, over_grpc, over_http
from _serve_models import TITLES, binary, text
from _serve_servers import PEERS, Ask, ours, theirs

KEPT = Path(__file__).parent.parent / "build" / "serve"
CONNECTIONS = (1, 16, 64)
OURS = "sardonyx"
OUR_FORMS: dict[str, Ask | None] = {"binary": binary, "JSON": text, "gRPC": None}
# Parsing a picture's text takes some servers a tenth of a second, and 64 connections must each be answered a few times.
SLOW_SECONDS = 4 * SECONDS
# By model, form and number of connections: microseconds and requests a second, or why there are none.
Cells = dict[str, dict[str, dict[str, list[float] | str]]]
Opened = Callable[[Path, str], AbstractContextManager[tuple[int, int]]]


def measured(paths: dict[str, Path], *, keep: bool) -> dict[str, Cells]:
    """What each server costs. `keep` takes what was measured before; ours is measured anew in any case."""
    KEPT.mkdir(parents=True, exist_ok=True)
    found = {OURS: _all(paths, _open_ours, OUR_FORMS)}
    for title, peer in PEERS.items():
        path = KEPT / f"{peer.script}.json"
        if not (keep and path.exists()):
            cells = _all(paths, lambda model, name, peer=peer: theirs(peer, model, name), peer.forms)  # type: ignore[misc]
            path.write_text(json.dumps(cells, indent=1))
        found[title] = json.loads(path.read_text())
    return found


def _open_ours(path: Path, name: str) -> AbstractContextManager[tuple[int, int]]:  # noqa: ARG001  all are called alike
    return ours(path, grpc=True)


def _all(paths: dict[str, Path], opened: Opened, forms: dict[str, Ask | None]) -> Cells:
    return {name: dict(_model(path, name, opened, forms)) for name, path in paths.items()}


def _model(
    path: Path, name: str, opened: Opened, forms: dict[str, Ask | None]
) -> Iterator[tuple[str, dict[str, list[float] | str]]]:
    try:
        with opened(path, name) as (port, pid):
            for form, ask in forms.items():
                yield form, {str(count): _cell(port, pid, name, ask, count) for count in CONNECTIONS}
    except RuntimeError as error:
        for form in forms:
            yield form, dict.fromkeys(map(str, CONNECTIONS), f"did not start: {str(error)[:80]}")


def _cell(port: int, pid: int, name: str, ask: Ask | None, count: int) -> list[float] | str:
    """`ask` is None for gRPC, which listens on the port behind that of HTTP."""
    try:
        load = over_grpc(port + 1, pid, name, count) if ask is None else _over_http(port, pid, name, ask, count)
    except (RuntimeError, grpc.RpcError) as error:
        return str(error).replace("\n", " ")[:80]
    print(f"{name} c{count}: {load}", file=sys.stderr, flush=True)
    return [load.cpu, load.rate]


def _over_http(port: int, pid: int, name: str, ask: Ask, count: int) -> Load:
    slow = name == "image" and ask is not binary
    return over_http(port, pid, ask(name), count, SLOW_SECONDS if slow else SECONDS)


def show(found: dict[str, Cells]) -> None:
    """A table for each model, and whether every other server costs more than ours in the same form."""
    print("\n### Beside other servers\n")
    print(
        "Microseconds of processor a request, and requests a second in brackets, by number of connections. Ray Serve's bytes"
    )
    print(
        "are the bare tensor, compared with our binary form; the JSON of LitServe and BentoML is nested lists. All batch the"
    )
    print("wide MLP where they can.")
    for name, title in TITLES.items():
        print(f"\n| {title} | form | {' | '.join(f'c{count}' for count in CONNECTIONS)} | least cost to ours |")
        print(f"|---|---|{'---|' * (len(CONNECTIONS) + 1)}")
        for server, cells in found.items():
            for form, by_count in cells[name].items():
                words = " | ".join(_words(by_count[str(count)]) for count in CONNECTIONS)
                print(f"| {server} | {form} | {words} | {_to_ours(found, server, name, form)} |")
    print(f"\n{_verdict(found)}")


def _words(cell: list[float] | str) -> str:
    return cell.replace("|", "/") if isinstance(cell, str) else f"{cell[0]:,.0f} ({cell[1]:,.0f})"


def _to_ours(found: dict[str, Cells], server: str, name: str, form: str) -> str:
    shares = [ratio for ratio, _ in _ratios(found, server, name, form)]
    return f"{min(shares):.1f}" if shares and server != OURS else ""


def _ratios(found: dict[str, Cells], server: str, name: str, form: str) -> Iterator[tuple[float, float]]:
    """Its cost over ours, and our rate over its, in the same form and with as many connections."""
    mine = found[OURS][name].get(form, found[OURS][name]["binary"])
    for count, cell in found[server][name][form].items():
        if not isinstance(cell, str):
            cost, rate = mine[count]
            assert not isinstance(cost, str)
            assert not isinstance(rate, str)
            yield cell[0] / cost, rate / cell[1]


def _verdict(found: dict[str, Cells]) -> str:
    pairs = [
        pair
        for server in found
        if server != OURS
        for name, forms in found[server].items()
        for form in forms
        for pair in _ratios(found, server, name, form)
    ]
    cheaper, faster = (sum(pair[side] > 1 for pair in pairs) for side in (0, 1))
    return (
        f"Ours takes less of the processor in {cheaper} of {len(pairs)} cells, and answers more a second in {faster}."
    )
