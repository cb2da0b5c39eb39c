"""Makes the golden cases of a bundle: a few inputs, the model's answers to them, and how far rounding may move each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sardonyx.errors import RuntimeRefused, UsageError
from sardonyx.golden import Case, Golden, save
from sardonyx.progress import task
from sardonyx.report import Report, Table, human_bytes
from sardonyx.signature import Array, Arrays
from sardonyx.sources import Outputs

if TYPE_CHECKING:
    from sardonyx.compare.sides import OnnxSide

# Golden cases are replayed after every upgrade: a few, and not many megabytes.
CASES, BATCH = 4, 4
BYTES_AT_MOST = 32 << 20
HINT = "let sardonyx optimize find a graph that onnxruntime runs right, or the level at which it runs this one right"


def keep_cases(
    model: Path,
    target: Path,
    *,
    data: Any = None,
    label: str | None = None,
    cases: int = CASES,
    batch: int = BATCH,
    memory: int = 1 << 30,
) -> Report:
    """Runs the model on the first batches of the data, or on generated inputs, and writes what verify replays.

    The answers come from onnxruntime without its graph optimiser. A model that it does not run with the same answers is not
    kept: verify would call it changed.
    """
    from sardonyx.agreement import flatten
    from sardonyx.bundle.marks import mark_tensors
    from sardonyx.compare.graph_noise import measure
    from sardonyx.compare.optimizer import doubt_on
    from sardonyx.compare.sides import OnnxSide
    from sardonyx.dataset import Dataset
    from sardonyx.model import Model

    if cases < 1 or batch < 1:
        raise UsageError("there must be at least one golden case of one example", hint="give 1 or more")
    side = OnnxSide.of(model)
    inputs = _inputs(side.signature, Dataset.of(data, label, ignored=True), cases, batch)
    with task("running the model with and without onnxruntime's optimiser"):
        doubt = doubt_on(model, inputs, memory=memory)
        answers = _answers(side if doubt is not None and doubt.level == "all" else side.plain, inputs)
    with task("measuring the noise floor"):
        noise = measure(Model.load(model), inputs, [answer.arrays for answer in answers], memory=memory)
    named = [dict(flatten(answer.arrays, answer.names)) for answer in answers]
    tolerances = [
        {name: (allowed.absolute, allowed.relative) for name, allowed in zip(answer, row, strict=True)}
        for answer, row in zip(named, noise.tolerances, strict=True)
    ]
    with task("marking the tensors of the first case"):
        marks = mark_tensors(Model.load(model), inputs[0], memory=memory)
    golden = Golden(tuple(map(Case, inputs, named)), tuple(tolerances), tuple(marks))
    save(golden, target)
    size = target.stat().st_size
    rows = tuple((index, _told(case.inputs), _told(case.outputs)) for index, case in enumerate(golden.cases))
    wrong = doubt is not None and doubt.level != "all"
    return Report(
        "golden", "not-kept" if wrong else "kept", not wrong,
        fields={
            "cases": len(inputs), "bytes": size, "noise": noise.method, "marks": len(marks),
            "tolerances": [
                {name: {"absolute": a, "relative": r} for name, (a, r) in item.items()} for item in tolerances
            ],
        },
        findings=() if doubt is None else (doubt.finding(HINT if wrong else ""),),
        tables=(Table("golden cases", ("case", "inputs", "outputs"), rows),),
        summary=f"{len(inputs)} golden cases and marks of {len(marks)} tensors, {human_bytes(size)}",
    )  # fmt: skip


def _answers(side: OnnxSide, inputs: Sequence[Arrays]) -> list[Outputs]:
    found = []
    for index, answer in enumerate(side.predict(inputs)):
        if not isinstance(answer, Outputs):
            raise RuntimeRefused(f"the model fails on golden case {index}: {answer.reason}", hint="check the data")
        found.append(answer)
    return found


def _inputs(signature: Any, data: Any, cases: int, batch: int) -> list[Arrays]:
    """The inputs of the cases, of which there are fewer where they are large."""
    from sardonyx.samples import Samples

    if data is None:
        found: Sequence[Arrays] = [signature.sample(seed=seed) for seed in range(cases)]
    else:
        first = next(iter(Samples.open(data, signature, batch=1))).inputs
        fitting = BYTES_AT_MOST // max(1, cases * sum(array.nbytes for array in first.values()))
        walk = Samples.open(data, signature, batch=max(1, min(batch, fitting))).take(cases)
        found = [dict(item.inputs) for item in walk]
    kept, held = list[Arrays](), 0
    for item in found:
        held += sum(array.nbytes for array in item.values())
        if kept and held > BYTES_AT_MOST:
            break
        kept.append(item)
    return kept


def _told(arrays: Mapping[str, Array]) -> str:
    return ", ".join(f"{name} {array.dtype}{list(array.shape)}" for name, array in arrays.items())
