"""onnxruntime-web, on its WebAssembly back end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from sardonyx import external
from sardonyx.check._kernels import bound_types, installed
from sardonyx.check._places import Place, type_name
from sardonyx.check._releases import RunsOn, refused_versions
from sardonyx.check._subject import Subject
from sardonyx.report import Finding
from sardonyx.runtime import Limits

CODES = {
    "web-versions": "The IR version or opset is newer than onnxruntime-web knows.",
    "web-operator": "onnxruntime-web was measured not to load this operator, or not with these types.",
    "web-type": "An input or output has a type that onnxruntime-web cannot pass to or from JavaScript.",
    "web-external-data": "The page has to fetch the model's external data itself and hand it over.",
}


def runs_on(subject: Subject) -> RunsOn:
    """Whether the browser loads it: by measured operators, on the ground of the load here."""
    name = f"onnxruntime-web {measured()['release']}"
    blocked = [finding for finding in findings(subject) if finding.severity == "error"]
    if blocked:
        return RunsOn("web", False, f"{blocked[0].where}: {blocked[0].message}")
    if not subject.load.ok:
        return RunsOn("web", False, "does not load on the CPU here, where more is known than on the web")
    unmeasured = sorted({place.node.op_type for place in subject.operators if not _is_measured(place)})
    if unmeasured:
        reason = f"{name} has the kernels of the CPU here, but was not measured with {', '.join(unmeasured)}"
    else:
        reason = f"{name} was measured to load every operator of it (WebAssembly); this model was not loaded there"
    return RunsOn("web", True, reason)


def findings(subject: Subject) -> Iterator[Finding]:
    """What keeps the model from running in a browser, and what a page must do for it."""
    name = f"onnxruntime-web {measured()['release']}"
    refusal = refused_versions(subject, limits())
    if refusal:
        hint = "export the model for an older opset, or use --fix OUT"
        yield Finding("error", "web-versions", subject.name, f"{name}: {refusal}", hint)
    graph = subject.proto.graph
    for value in (*graph.input, *graph.output):
        word = type_name(value.type) or ""
        if word.removeprefix("tensor(").removesuffix(")") in measured()["types_refused"]:
            message = f"{name} cannot pass {word} to or from JavaScript"
            yield Finding("error", "web-type", f"'{value.name}'", message, "cast to float32 inside the model")
    yield from _operators(subject, name)
    if external.entries(subject.proto):
        message = f"{name} fetches one file; the external data must be given to it by the page"
        hint = "pass it as externalData when the session is created, or save the model with its weights inside"
        yield Finding("info", "web-external-data", subject.name, message, hint)


def limits() -> Limits:
    table = measured()
    return Limits(table["release"], table["limits"]["opset"], table["limits"]["ml"], table["limits"]["ir"])


@cache
def measured() -> dict[str, Any]:
    """What was loaded in onnxruntime-web. Written by `scripts/measure_web_operators.py`."""
    table: dict[str, Any] = json.loads(files(__package__).joinpath("web_operators.json").read_text())
    return table


def _operators(subject: Subject, name: str) -> Iterator[Finding]:
    told = set()
    for place in subject.operators:
        refused = _refused_types(place)
        if refused is not None and (place.domain, place.node.op_type) not in told:
            told.add((place.domain, place.node.op_type))
            of = f" of {refused}" if refused else ""
            message = f"{name} does not load {place.node.op_type}-{_since(place)}{of}"
            yield Finding("error", "web-operator", place.where, message, "replace the operator or its type for the web")


def _refused_types(place: Place) -> str | None:
    """The types with which the node was refused, '' where it was refused with all; None where it was not."""
    refused = measured()["refused"].get(place.domain, {}).get(place.node.op_type, {}).get(str(_since(place)))
    if not refused:
        return None if refused is None else ""
    bound = bound_types(place, _schema(place))
    for types in refused:
        if all(bound.get(parameter) == word for parameter, word in types.items()):
            return ", ".join(types.values())
    return None


def _is_measured(place: Place) -> bool:
    return _since(place) in measured()["loads"].get(place.domain, {}).get(place.node.op_type, ())


def _schema(place: Place) -> Any | None:
    runtime = installed()
    return runtime.schema(place.domain, place.node.op_type, place.version or 0) if runtime else None


def _since(place: Place) -> int:
    schema = _schema(place)
    return int(schema.since_version) if schema is not None else 0
