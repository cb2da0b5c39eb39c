"""What a request costs the server: processor time and rate, beside onnxruntime alone in one process and beside other servers.

Prints its section of RESULTS.md. Every server runs in a process of its own with one onnxruntime thread, and is asked by wrk or by
grpc.aio from another. Its processor time is that of all of its threads and processes, as the system counts it.

    python benchmarks/serve.py              # all; the other servers in environments of their own under build/peers
    python benchmarks/serve.py --alone      # ours against onnxruntime, without the others
    python benchmarks/serve.py --keep       # takes from build/serve what was measured there of others
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from _serve_compared import measured, show
from _serve_load import Load, alone, over_grpc, over_http
from _serve_models import binary, drawn, text, write
from _serve_servers import ours

from sardonyx.run.session import Session, Settings

ROUNDS = 5
MANY = 16


@dataclass(frozen=True)
class Row:
    """Medians of all rounds, and the median of the ratios of server to onnxruntime within each round."""

    name: str
    alone: float
    server: float
    ratio: float
    rate: float

    def show(self, goal: str = "") -> None:
        print(
            f"| {self.name} | {self.alone:.0f} | {self.server:.0f} | {self.ratio:.2f} | {goal} | {self.rate:.0f} |",
            flush=True,
        )


def main(words: list[str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        paths = write(Path(scratch))
        print("## Serve\n")
        print(
            "Processor time of the server a request, all threads and the kernel's part in it, one onnxruntime thread,"
        )
        print(
            f"against onnxruntime called in a loop. Both take turns in {ROUNDS} rounds; the ratio is the median of theirs."
        )
        print("`c` is the number of connections, each with one request at a time, from wrk or, for gRPC, grpc.aio.\n")
        print("| model and transport | onnxruntime alone, us | server, us | ratio | goal | requests/s |")
        print("|---|---|---|---|---|---|")
        _ours(paths)
        if "--alone" not in words:
            show(measured(paths, keep="--keep" in words))


def _ours(paths: dict[str, Path]) -> None:
    costs = {}
    raw = _raw(paths, "tiny")
    with ours(paths["tiny"]) as server:
        for connections in (1, MANY, 64):
            row = _rounds(f"tiny MLP, binary, c{connections}", raw, _http(server, binary, "tiny", connections))
            row.show("at most 100 us" if connections == MANY else "")
            costs["tiny"] = row if connections == MANY else costs.get("tiny", row)
        _rounds(f"tiny MLP, JSON, c{MANY}", raw, _http(server, text, "tiny", MANY)).show()
    with ours(paths["tiny"], grpc=True) as (port, pid):
        _rounds(f"tiny MLP, gRPC, c{MANY}", raw, lambda: over_grpc(port + 1, pid, "tiny", MANY)).show()
    with ours(paths["wide"]) as server, ours(paths["wide"], "--max-batch", "1") as single:
        many = _raw(paths, "wide", MANY)
        costs["wide"] = _rounds(f"wide MLP, binary, c{MANY}; alone is a row of 16", many, _http(server, binary, "wide"))
        costs["wide"].show("at most 1.6 times")
        more = _rounds("wide MLP, binary, c64; alone is a row of 16", many, _http(server, binary, "wide", 64))
        more.show()
        once = _rounds(f"wide MLP, never batched, c{MANY}", _raw(paths, "wide"), _http(single, binary, "wide"))
        once.show()
    with ours(paths["image"]) as server:
        raw = _raw(paths, "image")
        costs["image"] = _rounds(f"image model, 602 KB binary, c{MANY}", raw, _http(server, binary, "image"))
        costs["image"].show("at most 1.5 times")
        costs["json"] = _rounds("image model, 150528 floats of JSON, c1", raw, _http(server, text, "image", 1))
        costs["json"].show("at most 10 ms more")
    gains = [row.rate / once.rate for row in (costs["wide"], more)]
    print(
        f"\nBatching gives {gains[0]:.1f} times the rate of the wide MLP with {MANY} connections, and {gains[1]:.1f} with 64; "
        "the goal is 5."
    )


def _http(
    server: tuple[int, int], ask: Callable[[str], object], name: str, connections: int = MANY
) -> Callable[[], Load]:
    return lambda: over_http(*server, ask(name), connections)  # type: ignore[arg-type]


def _raw(paths: dict[str, Path], name: str, rows: int = 1) -> Callable[[], float]:
    session, feed = Session(paths[name], Settings(threads=1)), {"x": drawn(name, rows)}
    return lambda: alone(lambda: session.run_some(["y"], feed), rows)


def _rounds(name: str, raw: Callable[[], float], drive: Callable[[], Load]) -> Row:
    pairs = [(raw(), drive()) for _ in range(ROUNDS)]
    ratio = statistics.median(load.cpu / lone for lone, load in pairs)
    server, rate = (statistics.median(getattr(load, part) for _, load in pairs) for part in ("cpu", "rate"))
    return Row(name, statistics.median(lone for lone, _ in pairs), server, ratio, rate)


if __name__ == "__main__":
    main(sys.argv[1:])
