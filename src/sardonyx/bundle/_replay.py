"""Child process: replays the golden cases of a bundle, and looks for the first changed tensor where an answer has changed.

Request: `folder`, `files`, `memory`, `parent`. Answer: `cases`, `first_divergence`, `remark`; or `stray`, the models whose
weights lie in no file of the bundle; or `refused` with the runtime's reason.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from sardonyx import external, process
from sardonyx.agreement import Judgement
from sardonyx.bundle.contents import MODEL
from sardonyx.bundle.marks import first_change
from sardonyx.errors import SardonyxError
from sardonyx.golden import GOLDEN, Golden, load
from sardonyx.model import Model
from sardonyx.proto import read_proto
from sardonyx.run.session import Session, Settings

SAME = "node by node every tensor is as it was, so the runtime's own graph optimisation makes the difference"
UNMARKED = "the bundle has no marks to find the node by"


def replay(folder: Path, memory: int) -> dict[str, Any]:
    """The verdict of every case, and the first changed node if there is one."""
    golden, same = load(folder / GOLDEN), False
    session = Session(folder / MODEL)
    judged = [golden.judge(index, session(case.inputs)) for index, case in enumerate(golden.cases)]
    del session
    if any(item.verdict != "equal" for item in judged):
        judged, same = _without_optimiser(folder, golden, judged)
    cases = [
        {"case": index, "verdict": found.verdict, "outputs": [output.to_dict() for output in found.outputs]}
        for index, found in enumerate(judged)
    ]
    found, remark = None, ""
    if any(item.verdict == "mismatch" for item in judged):
        found, remark = (None, SAME) if same else _search(folder, golden, memory)
    return {"cases": cases, "first_divergence": found, "remark": remark}


def _without_optimiser(folder: Path, golden: Golden, judged: list[Judgement]) -> tuple[list[Judgement], bool]:
    """The judgements, with `equal` for what only onnxruntime's optimiser rounds, and whether all agree without it.

    The kept answers were given without the optimiser, so that on the same kernels these are the same bits.
    """
    session = Session(folder / MODEL, Settings(optimize=False))
    plain = [golden.judge(index, session(case.inputs)) for index, case in enumerate(golden.cases)]
    exact = [
        two if (one.verdict, two.verdict) == ("rounding", "equal") else one
        for one, two in zip(judged, plain, strict=True)
    ]
    return exact, all(item.verdict != "mismatch" for item in plain)


def _search(folder: Path, golden: Golden, memory: int) -> tuple[dict[str, Any] | None, str]:
    if not golden.marks:
        return None, UNMARKED
    found = first_change(Model.load(folder / MODEL), golden.cases[0].inputs, golden.marks, memory=memory)
    return (None, SAME) if found is None else (found, "")


def stray(folder: Path, files: list[str]) -> dict[str, str]:
    """Models whose weights lie in files that the record does not name, and the first such file."""
    found: dict[str, str] = {}
    for name in files:
        if name.endswith(".onnx"):
            outside = {entry.location for entry in external.entries(read_proto(folder / name))}
            found |= {name: min(outside - set(files))} if outside - set(files) else {}
    return found


def main() -> None:
    request = json.load(sys.stdin)
    process.end_with_parent(int(request["parent"]))
    folder, answer = Path(request["folder"]), dict[str, Any]()
    try:
        answer = {"stray": stray(folder, request["files"])}
        if not answer["stray"]:
            answer |= replay(folder, int(request["memory"]))
    except SardonyxError as error:
        answer = {"refused": error.message, "hint": error.hint}
    Path(request["answer"]).write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
