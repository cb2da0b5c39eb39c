"""Makes the golden cases of a bundle: a few inputs, the model's answers to them, and how far rounding may move each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sardonyx.errors import UsageError
from sardonyx.golden import Case, Golden, save
from sardonyx.progress import task
from sardonyx.report import Report, Table, human_bytes
from sardonyx.signature import Array, Arrays

# Golden cases are replayed after every upgrade: a few, and not many megabytes.
CASES, BATCH = 4, 4
BYTES_AT_MOST = 32 << 20


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
    """Runs the model on the first batches of the data, or on generated inputs, and writes what verify replays."""
    from sardonyx.agreement import flatten
    from sardonyx.bundle.marks import mark_tensors
    from sardonyx.compare.graph_noise import measure
    from sardonyx.dataset import Dataset
    from sardonyx.model import Model
    from sardonyx.run.session import Session

    if cases < 1 or batch < 1:
        raise UsageError("there must be at least one golden case of one example", hint="give 1 or more")
    session = Session(model)
    inputs = _inputs(session.signature, Dataset.of(data, label, ignored=True), cases, batch)
    answers = [session(item) for item in inputs]
    with task("measuring the noise floor"):
        noise = measure(Model.load(model), inputs, [list(answer.values()) for answer in answers], memory=memory)
    named = [dict(flatten(list(answer.values()), list(answer))) for answer in answers]
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
    return Report(
        "golden", "kept", True,
        fields={
            "cases": len(inputs), "bytes": size, "noise": noise.method, "marks": len(marks),
            "tolerances": [
                {name: {"absolute": a, "relative": r} for name, (a, r) in item.items()} for item in tolerances
            ],
        },
        tables=(Table("golden cases", ("case", "inputs", "outputs"), rows),),
        summary=f"{len(inputs)} golden cases and marks of {len(marks)} tensors, {human_bytes(size)}",
    )  # fmt: skip


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
