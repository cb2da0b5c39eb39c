"""Golden cases: inputs with the model's answers, the tolerance of each answer, and marks of every tensor on the way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.errors import BrokenModel, UsageError
from sardonyx.files import replacing
from sardonyx.progress import task
from sardonyx.report import Report, Table, human_bytes
from sardonyx.signature import Array, Arrays

# Golden cases are replayed after every upgrade: a few, and not many megabytes.
CASES, BATCH = 4, 4
BYTES_AT_MOST = 32 << 20
META = "sardonyx"


@dataclass(frozen=True)
class Case:
    """Inputs, and the flattened outputs by name."""

    inputs: Arrays
    outputs: Arrays


@dataclass(frozen=True)
class Golden:
    """All cases, the tolerance of every output as (absolute, relative), and marks of the first case's tensors."""

    cases: tuple[Case, ...]
    tolerances: tuple[Mapping[str, tuple[float, float]], ...]
    marks: tuple[Mapping[str, Any], ...] = field(repr=False, default=())


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
    from sardonyx.compare.noise import measure
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


def save(golden: Golden, target: Path) -> None:
    """Writes the cases as tensors `0/input/x`; tolerances, marks and strings go into the file's metadata as JSON."""
    from safetensors.numpy import save as serialized

    tensors: Arrays = {}
    strings: dict[str, Any] = {}
    for index, case in enumerate(golden.cases):
        for kind, arrays in (("input", case.inputs), ("output", case.outputs)):
            for name, array in arrays.items():
                if array.dtype.kind in "OSU":
                    strings[f"{index}/{kind}/{name}"] = {
                        "shape": array.shape,
                        "values": array.astype(str).ravel().tolist(),
                    }
                else:
                    tensors[f"{index}/{kind}/{name}"] = np.ascontiguousarray(array)
    held = {"tolerances": golden.tolerances, "marks": golden.marks, "strings": strings, "cases": len(golden.cases)}
    with replacing(target) as temporary:  # save_file would make it readable by its owner alone
        temporary.write_bytes(serialized(tensors, metadata={META: json.dumps(held)}))


def load(path: Path) -> Golden:
    """The golden cases of a file. No pickle is opened, and a file that does not hold cases is named."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            held = json.loads((file.metadata() or {})[META])
            tensors: Arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  it is no dict
        tensors |= {
            name: np.array(item["values"], object).reshape(item["shape"]) for name, item in held["strings"].items()
        }
        found = [_case(tensors, index) for index in range(int(held["cases"]))]
        tolerances = [{name: (float(a), float(r)) for name, (a, r) in item.items()} for item in held["tolerances"]]
        whole = len(tolerances) == len(found) > 0 and all(
            set(allowed) == set(case.outputs) for allowed, case in zip(tolerances, found, strict=True)
        )
        marks = tuple(map(dict, held["marks"]))
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise BrokenModel(f"{path} does not hold golden cases: {error}", hint="ship the model again") from error
    if not whole:
        raise BrokenModel(f"{path}: cases and tolerances do not belong together", hint="ship the model again")
    return Golden(tuple(found), tuple(tolerances), marks)


def _case(tensors: Mapping[str, Array], index: int) -> Case:
    def named(kind: str) -> Arrays:
        head = f"{index}/{kind}/"
        return {name.removeprefix(head): array for name, array in tensors.items() if name.startswith(head)}

    return Case(named("input"), named("output"))


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
