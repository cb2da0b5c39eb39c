"""Golden cases: inputs with a model's answers, the tolerance of each answer, and marks of every tensor on the way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.agreement import Judgement, Tolerance, flatten, judge
from sardonyx.errors import BrokenModel
from sardonyx.files import replacing
from sardonyx.signature import Array, Arrays

# The file's name in a bundle and in a package.
GOLDEN = "golden.safetensors"
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

    def judge(self, index: int, answer: Mapping[str, Any]) -> Judgement:
        """How an answer to a case compares with what was kept, by the tolerances that were kept with it."""
        kept, allowed = self.cases[index].outputs, self.tolerances[index]
        given = dict(flatten(list(answer.values()), list(answer)))
        found = [given.get(name) for name in kept]
        return judge(list(kept.values()), found, [Tolerance(*allowed[name]) for name in kept], names=list(kept))


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
                    # ascontiguousarray alone would make a scalar an array of one.
                    tensors[f"{index}/{kind}/{name}"] = np.ascontiguousarray(array).reshape(array.shape)
    held = {"tolerances": golden.tolerances, "marks": golden.marks, "strings": strings, "cases": len(golden.cases)}
    with replacing(target) as temporary:  # save_file would make it readable by its owner alone
        temporary.write_bytes(serialized(tensors, metadata={META: json.dumps(held)}))


def load(path: Path) -> Golden:
    """The golden cases of a file. No pickle is opened, and a file that does not hold cases is named."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            held = json.loads((file.metadata() or {}).get(META, "null"))
            tensors: Arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  it is no dict
        tensors |= {
            name: np.array(item["values"], object).reshape(item["shape"]) for name, item in held["strings"].items()
        }
        if not 0 < held["cases"] <= len(tensors):
            raise ValueError(f"it says that it holds {held['cases']} cases")
        found = [_case(tensors, index) for index in range(held["cases"])]
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
