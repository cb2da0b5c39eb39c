"""Every node against the kernels that onnxruntime really has: operator, version, types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sardonyx.check._kernels import Answer, Runtime, bound_types, installed
from sardonyx.check._places import Place
from sardonyx.check._subject import Subject
from sardonyx.report import Finding

CODES = {
    "no-kernel": "onnxruntime knows the operator but has no CPU kernel for this version of it.",
    "no-kernel-for-types": "onnxruntime has a CPU kernel for the operator, but not for these types.",
    "float16-as-float32": "onnxruntime computes float16 nodes in float32 on the CPU, with casts around them.",
    "kernels-unknown": "This onnxruntime release does not list its kernels, so that only the trial load speaks.",
}
_CODE: dict[Answer, str] = {"no kernel": "no-kernel", "no kernel for these types": "no-kernel-for-types"}


def findings(subject: Subject) -> Iterator[Finding]:
    """Nodes that no kernel computes; one finding for each kind of node. A model that loads has none."""
    if subject.load.ok and not _has_half(subject):
        return  # the load has asked every kernel already
    runtime = installed()
    if runtime is None:
        yield Finding("info", "kernels-unknown", "onnxruntime", "lists no kernels; the trial load is the only judge")
        return
    answers = [(place, runtime.answer(place)) for place in subject.operators]
    if not subject.load.ok:
        yield from _missing(answers, runtime)
    halves = Counter(place.node.op_type for place, answer in answers if answer == "as float32")
    if halves:
        listed = ", ".join(f"{operator} ({count})" for operator, count in halves.most_common())
        message = f"computes in float32 what the model has in float16: {listed}"
        yield Finding("info", "float16-as-float32", "onnxruntime", message, "on the CPU, float16 saves space, not time")


def _has_half(subject: Subject) -> bool:
    return any("tensor(float16)" in types for scope in subject.scopes for types in scope.types.maps[0].values())


def _missing(answers: list[tuple[Place, Answer]], runtime: Runtime) -> Iterator[Finding]:
    alike: dict[tuple[str, str], list[Place]] = {}
    for place, answer in answers:
        if answer in _CODE:
            alike.setdefault((_CODE[answer], _signature(place, runtime)), []).append(place)
    for (code, signature), found in alike.items():
        more = f", nor for {len(found) - 1} more like it" if len(found) > 1 else ""
        hint = (
            "cast to a type that onnxruntime has, usually float32, around the node or in the whole model"
            if code == "no-kernel-for-types"
            else "export the model at another opset, or replace the operator by others"
        )
        yield Finding("error", code, found[0].where, f"no CPU kernel for {signature}{more}", hint)


def _signature(place: Place, runtime: Runtime) -> str:
    """'Einsum-12 of tensor(float16)'."""
    schema = runtime.schema(place.domain, place.node.op_type, place.version or 0)
    types = dict.fromkeys(bound_types(place, schema).values())
    of = f" of {', '.join(types)}" if types else ""
    return f"{place.node.op_type}-{schema.since_version if schema else place.version}{of}"
