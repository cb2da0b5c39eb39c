"""The smallest fix: new stamps first, a converted opset where stamps do not do, each proven by loading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import onnx

from sardonyx import child, files, progress
from sardonyx.check._releases import refused_versions
from sardonyx.check._subject import Subject, plain
from sardonyx.errors import OutputError

# Where onnxscript's converter begins and ends; below its beginning it calls onnx's own.
_CONVERTER_OLDEST, _CONVERTER_NEWEST = 18, 25
_TIMES_THE_LOAD = 4


@dataclass(frozen=True)
class Fix:
    """What was done to the model and how it was proven, or why nothing was written."""

    done: tuple[str, ...] = ()
    written: bool = False
    reason: str = ""
    tried: tuple[str, ...] = ()


def mend(subject: Subject, out: Path) -> Fix:
    """Writes the first plan whose result loads and agrees with the original to `out`."""
    if subject.trouble:
        return Fix(reason="its external data is not safe to open")
    if not out.parent.is_dir():
        raise OutputError(f"cannot write {out}: the folder {out.parent} does not exist", hint=f"mkdir -p {out.parent}")
    tried = []
    for opset in dict.fromkeys(plans(subject)):
        with files.scratch(out) as scratch:
            fix = _attempt(subject, scratch / "model.onnx", opset)
            if fix.written:
                from sardonyx.model import Model  # takes long to import, and most checks mend nothing

                Model.load(scratch / "model.onnx").save(out)
                return fix
        tried.append(f"{'new stamps' if opset is None else f'opset {opset}'}: {fix.reason}")
    return Fix(
        reason=f"no new stamp or opset gives a model that loads and agrees ({len(tried)} tried)", tried=tuple(tried)
    )


def plans(subject: Subject) -> Iterator[int | None]:
    """The opsets to try, None for new stamps alone; the smallest change first."""
    yield None
    opset, newest = subject.imports.get("", 0), subject.limits.opset
    if subject.load.ok and not refused_versions(subject, subject.limits):
        return
    needed = max((_first(place.domain, place.node.op_type) for place in subject.places), default=0)
    yield from (wanted for wanted in (needed, _CONVERTER_OLDEST, _CONVERTER_NEWEST) if opset < wanted <= newest)
    if opset > newest:
        yield newest


def _attempt(subject: Subject, out: Path, opset: int | None) -> Fix:
    request = {"path": str(subject.path.absolute()), "out": str(out), "opset": opset, "release": subject.asked_release}
    with progress.task(f"mending {subject.path.name}"):
        answer = _asked(subject, "_mend", request)
        if isinstance(answer, str) or answer["reason"]:
            return Fix(reason=answer if isinstance(answer, str) else str(answer["reason"]))
        original = str(subject.path.absolute()) if subject.load.ok else None
        proof = _asked(subject, "_prove", {"original": original, "mended": str(out)})
    if isinstance(proof, str):
        return Fix(reason=proof)
    good = proof["loads"] and proof["equal"] is not False
    return Fix(tuple(answer["done"]), bool(good), plain(str(proof["message"])))


def _asked(subject: Subject, module: str, request: Mapping[str, Any]) -> dict[str, Any] | str:
    """The child's answer, or why it gave none."""
    budget = subject.budget
    outcome = child.call(
        child.module(f"sardonyx.check.{module}"),
        dict(request),
        timeout=_TIMES_THE_LOAD * budget.clock,
        cpu=_TIMES_THE_LOAD * budget.cpu,
        memory=budget.memory,
    )
    if outcome.end == "answered":
        return outcome.answer
    return f"{'mending' if module == '_mend' else 'proving'} the model failed: {outcome.reason}"


@cache
def _first(domain: str, operator: str) -> int:
    """The opset that brought a standard operator."""
    if domain:
        return 0
    versions = [
        s.since_version for s in onnx.defs.get_all_schemas_with_history() if (s.domain, s.name) == ("", operator)
    ]
    return min(versions, default=0)
