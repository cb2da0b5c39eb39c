"""Where a model runs: the answer for one target, and for onnxruntime releases that are not installed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import onnx

from sardonyx import runtime
from sardonyx.check._subject import Subject
from sardonyx.runtime import Limits


@dataclass(frozen=True)
class RunsOn:
    """Whether the model runs on a target, and how that is known."""

    target: str
    ok: bool
    reason: str

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def release(subject: Subject, version: str) -> RunsOn:
    """The answer for another onnxruntime release, from the measured table of versions."""
    name, refusal = f"onnxruntime {version}", refused_versions(subject, runtime.limits(version))
    if refusal:
        return RunsOn(name, False, refusal)
    if _refused_for_itself(subject):
        return RunsOn(name, False, "its versions are known there, but it does not load here")
    return RunsOn(name, True, f"{_versions(subject)} are within its limits; by table, not loaded")


def oldest_release(subject: Subject) -> RunsOn:
    """The oldest measured release that knows the model's versions."""
    knowing = [limits for limits in runtime.measured().values() if not refused_versions(subject, limits)]
    if not knowing:
        newest = list(runtime.measured().values())[-1]
        return RunsOn(f"onnxruntime {newest.release}", False, refused_versions(subject, newest))
    name = f"onnxruntime >= {knowing[0].release}"
    if _refused_for_itself(subject):
        return RunsOn(name, False, "its versions are known there, but it does not load here")
    return RunsOn(name, True, f"{_versions(subject)} are known from {knowing[0].release} on; by table, not loaded")


def _refused_for_itself(subject: Subject) -> bool:
    """Whether the installed onnxruntime refuses the model for anything but its versions."""
    return not subject.load.ok and not refused_versions(subject, runtime.limits())


def refused_versions(subject: Subject, limits: Limits) -> str:
    """Why a release does not know the model's versions, and whether a new stamp would do; nothing where it knows them."""
    reasons = []
    if subject.proto.ir_version > limits.ir_version:
        reasons.append(f"IR version {subject.proto.ir_version} is above its {limits.ir_version}")
    for domain, version, newest in too_new(subject, limits):
        changed = sorted(changed_after(subject, domain, newest))
        why = f"{', '.join(changed)} may differ there" if changed else "a new stamp would do"
        reasons.append(f"opset {version}{f' of {domain}' if domain else ''} is above its {newest} ({why})")
    return "; ".join(reasons)


def _versions(subject: Subject) -> str:
    return f"opset {subject.imports.get('', 0)} and IR version {subject.proto.ir_version}"


def too_new(subject: Subject, limits: Limits) -> Iterator[tuple[str, int, int]]:
    """(domain, imported version, newest known version) of the imports that a release does not know."""
    for domain, newest in (("", limits.opset), ("ai.onnx.ml", limits.ml_opset)):
        version = subject.imports.get(domain, 0)
        if version > newest:
            yield domain, version, newest


def changed_after(subject: Subject, domain: str, newest: int) -> set[str]:
    """The model's operators whose definition is younger than `newest`, so that an older stamp would not do."""
    heard = onnx.defs.onnx_ml_opset_version() if domain else onnx.defs.onnx_opset_version()
    used = {(place.node.op_type, place.version or 0) for place in subject.places if place.domain == domain}
    # What changed in an opset that the installed onnx has not heard of, nobody here can say.
    return {operator for operator, version in used if version > heard or since(operator, domain, version) > newest}


def since(operator: str, domain: str, version: int) -> int:
    """The opset that defined the operator as it is in `version`; 0 where it is not in it."""
    try:
        return int(onnx.defs.get_schema(operator, version, domain).since_version)
    except onnx.defs.SchemaError:
        return 0
