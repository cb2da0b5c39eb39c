"""Every other server beside ours, in turns: all models, every form that they speak, few and many connections.

Both run at once and are asked one after the other: the machine is not equally fast from one minute to the next.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

import grpc
from _serve_load import SECONDS, Load, cpu, over_grpc, over_http
from _serve_models import TITLES, binary, text
from _serve_servers import PEERS, Ask, Peer, ours, theirs

KEPT = Path(__file__).parent.parent / "build" / "serve"
CONNECTIONS = (1, 16, 64)
OURS = "sardonyx"
# How ours is asked where another server is asked in a form; None is gRPC.
OUR_FORMS: dict[str, Ask | None] = {"binary": binary, "JSON": text, "gRPC": None, "bytes": binary}
# Turns of each, where one costs at most so many times the other: the closer they are, the more it takes to tell.
TURNS = {1.25: 7, 2.0: 3, math.inf: 1}
# Parsing a picture's text takes some servers a tenth of a second, and 64 connections must each be answered a few times.
SLOW_SECONDS = 4 * SECONDS
# A server is asked when it has nothing left to do of what was asked before: at most this share of a core, or this long after.
IDLE_SHARE, IDLE_SECONDS = 0.1, 15.0

Server = tuple[int, int]


class Cell(TypedDict):
    """Microseconds and requests a second of both, and how many times as much the other costs, and ours answers."""

    ours: tuple[float, float]
    theirs: tuple[float, float]
    cost: float
    rate: float


# By model, form and number of connections; or why there is none.
Cells = dict[str, dict[str, dict[str, Cell | str]]]


def measured(paths: dict[str, Path], *, keep: bool) -> dict[str, Cells]:
    """What each server costs beside ours. `keep` takes what was measured before."""
    KEPT.mkdir(parents=True, exist_ok=True)
    found = {}
    for title, peer in PEERS.items():
        path = KEPT / f"{peer.script}.json"
        if not (keep and path.exists()):
            cells = {name: dict(_model(peer, model, name)) for name, model in paths.items()}
            path.write_text(json.dumps(cells, indent=1))
        found[title] = json.loads(path.read_text())
    return found


def _model(peer: Peer, path: Path, name: str) -> Iterator[tuple[str, dict[str, Cell | str]]]:
    try:
        with ours(path, grpc=True) as mine, theirs(peer, path, name) as other:
            for form in peer.forms:
                yield form, {str(count): _cell(mine, other, peer, name, form, count) for count in CONNECTIONS}
    except RuntimeError as error:
        for form in peer.forms:
            yield form, dict.fromkeys(map(str, CONNECTIONS), f"did not start: {str(error)[:80]}")


def _cell(mine: Server, other: Server, peer: Peer, name: str, form: str, count: int) -> Cell | str:
    pairs: list[tuple[Load, Load]] = []
    slow = SLOW_SECONDS if name == "image" and form not in ("binary", "gRPC") else SECONDS
    try:
        while not pairs or len(pairs) < _turns(pairs):
            mines = _load(mine, name, OUR_FORMS[form], count, SECONDS)
            pairs.append((mines, _load(other, name, peer.forms[form], count, slow)))
    except (RuntimeError, grpc.RpcError) as error:
        return str(error).replace("\n", " ")[:80]
    print(f"{peer.script} {name} {form} c{count}: {pairs}", file=sys.stderr, flush=True)
    medians = [
        (_median(load.cpu for load in loads), _median(load.rate for load in loads))
        for loads in zip(*pairs, strict=True)
    ]
    return Cell(
        ours=medians[0], theirs=medians[1],
        cost=_median(other.cpu / own.cpu for own, other in pairs),
        rate=_median(own.rate / other.rate for own, other in pairs),
    )  # fmt: skip


def _turns(pairs: list[tuple[Load, Load]]) -> int:
    ratio = _median(other.cpu / own.cpu for own, other in pairs)
    return next(turns for times, turns in TURNS.items() if max(ratio, 1 / ratio) <= times)


def _median(values: Iterator[float]) -> float:
    return statistics.median(values)


def _load(server: Server, name: str, ask: Ask | None, count: int, seconds: int) -> Load:
    """`ask` is None for gRPC, which listens on the port behind that of HTTP."""
    port, pid = server
    _wait_until_idle(pid)
    if ask is None:
        return over_grpc(port + 1, pid, name, count)
    return over_http(port, pid, ask(name), count, seconds)


def _wait_until_idle(pid: int) -> None:
    end, pause = time.monotonic() + IDLE_SECONDS, 0.2
    while time.monotonic() < end:
        before = cpu(pid)
        time.sleep(pause)
        if cpu(pid) - before <= IDLE_SHARE * pause:
            return


def show(found: dict[str, Cells]) -> None:
    """A table for each model, and whether every other server costs more than ours in the same form."""
    print("\n### Beside other servers\n")
    print(
        "Microseconds of processor a request, and requests a second in brackets, by number of connections. Ours and one\n"
        f"other take turns, up to {max(TURNS.values())} where they are close; the last columns are how many times as much the\n"
        "other costs. Ours is the median beside all others. Ray Serve's bytes are the bare tensor, compared with our binary\n"
        "form; the JSON of LitServe and BentoML is nested lists. All batch the wide MLP where they can."
    )
    counts = [str(count) for count in CONNECTIONS]
    for name, title in TITLES.items():
        heads = [f"c{count}" for count in counts] + [f"cost, c{count}" for count in counts]
        print(f"\n| {title} | form | {' | '.join(heads)} |")
        print(f"|---|---|{'---|' * len(heads)}")
        for form in ("binary", "JSON", "gRPC"):
            words = [_own(found, name, form, count) for count in counts]
            print(f"| {OURS} | {form} | {' | '.join(words)} |{'  |' * len(counts)}")
        for server, cells in found.items():
            for form, by_count in cells[name].items():
                words = [_words(by_count[count]) for count in counts] + [_times(by_count[count]) for count in counts]
                print(f"| {server} | {form} | {' | '.join(words)} |")
    print(f"\n{_verdict(found)}")


def _own(found: dict[str, Cells], name: str, form: str, count: str) -> str:
    cells = [cells[name][form][count] for cells in found.values() if form in cells[name]]
    known = [cell["ours"] for cell in cells if not isinstance(cell, str)]
    return f"{_median(cost for cost, _ in known):,.0f} ({_median(rate for _, rate in known):,.0f})"


def _words(cell: Cell | str) -> str:
    return cell.replace("|", "/") if isinstance(cell, str) else "{:,.0f} ({:,.0f})".format(*cell["theirs"])


def _times(cell: Cell | str) -> str:
    return "" if isinstance(cell, str) else f"{cell['cost']:.2f}"


def _verdict(found: dict[str, Cells]) -> str:
    cells = [
        cell
        for by_model in found.values()
        for by_form in by_model.values()
        for by_count in by_form.values()
        for cell in by_count.values()
        if not isinstance(cell, str)
    ]
    cheaper, faster = (sum(cell[side] > 1 for cell in cells) for side in ("cost", "rate"))
    return (
        f"Ours takes less of the processor in {cheaper} of {len(cells)} cells, and answers more a second in {faster}."
    )
