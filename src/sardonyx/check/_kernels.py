"""What the installed onnxruntime can really compute: its operator schemas and kernels, with versions and types."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import onnx

from sardonyx.check._places import Place

Answer = Literal["kernel", "function", "as float32", "no such operator", "no kernel", "no kernel for these types"]
_OPEN_END = 2**31 - 1
_HALF, _SINGLE = "tensor(float16)", "tensor(float)"


@dataclass(frozen=True)
class Kernel:
    """One implementation: the operator versions it serves, and the types it takes by name of the type parameter."""

    first: int
    last: int
    types: Mapping[str, frozenset[str]]

    def serves(self, since: int) -> bool:
        """onnxruntime's own rule: a kernel without an end serves only the version it names."""
        return self.first == since or (self.first < since <= self.last != _OPEN_END)

    def takes(self, bound: Mapping[str, str]) -> bool:
        return all(bound[name] in allowed for name, allowed in self.types.items() if name in bound)


class Runtime:
    """The schemas and CPU kernels of the onnxruntime that is installed."""

    def __init__(self, schemas: list[Any], kernels: list[Any]) -> None:
        self._schemas: dict[tuple[str, str], list[Any]] = defaultdict(list)
        for schema in schemas:
            self._schemas[schema.domain, schema.name].append(schema)
        self._kernels: dict[tuple[str, str], list[Kernel]] = defaultdict(list)
        for kernel in kernels:
            types = {name: frozenset(allowed) for name, allowed in kernel.type_constraints.items()}
            first, last = kernel.version_range
            self._kernels[kernel.domain, kernel.op_name].append(Kernel(first, last, types))
        self._known: dict[tuple[Any, ...], Answer] = {}

    def knows(self, domain: str, operator: str) -> bool:
        return (domain, operator) in self._schemas

    def schema(self, domain: str, operator: str, version: int) -> Any | None:
        """The definition that holds at a version of the domain."""
        fitting = [s for s in self._schemas.get((domain, operator), ()) if s.since_version <= version]
        return max(fitting, key=lambda schema: int(schema.since_version), default=None)

    def answer(self, place: Place) -> Answer:
        """Whether and how onnxruntime computes this node. A type that is not known never speaks against it."""
        schema = self.schema(place.domain, place.node.op_type, place.version or 0)
        if schema is None or schema.deprecated:
            return "no such operator"
        bound = bound_types(place, schema)
        key = (place.domain, place.node.op_type, schema.since_version, tuple(sorted(bound.items())))
        if key not in self._known:
            self._known[key] = self._look_up(place.domain, place.node.op_type, schema.since_version, bound)
        return self._known[key]

    def _look_up(self, domain: str, operator: str, since: int, bound: Mapping[str, str]) -> Answer:
        serving = [kernel for kernel in self._kernels.get((domain, operator), ()) if kernel.serves(since)]
        if any(kernel.takes(bound) for kernel in serving):
            return "kernel"
        if _has_function(domain, operator, since):
            return "function"
        widened = {name: word.replace(_HALF, _SINGLE) for name, word in bound.items()}
        # onnxruntime puts Casts around a float16 node that it has only in float32.
        if widened != bound and any(kernel.takes(widened) for kernel in serving):
            return "as float32"
        return "no kernel for these types" if serving else "no kernel"


@cache
def installed() -> Runtime | None:
    """The tables of the installed onnxruntime, or None where this release does not give them: they are private."""
    import sardonyx  # noqa: F401  switches onnxruntime's telemetry off before its import

    try:
        from onnxruntime.capi import onnxruntime_pybind11_state as state

        return Runtime(state.get_all_operator_schema(), state.get_all_opkernel_def())
    except (ImportError, AttributeError):
        return None


def bound_types(place: Place, schema: Any) -> dict[str, str]:
    """The schema's type parameters, and its parameters by name, with the types that this node gives them."""
    bound: dict[str, str] = {}
    for names, formals in ((place.node.input, schema.inputs), (place.node.output, schema.outputs)):
        for index, name in enumerate(names):
            formal = formals[min(index, len(formals) - 1)] if formals else None
            word = place.types.get(name)
            if formal is None or word is None or not formal.isHomogeneous:
                continue
            bound[formal.typeStr] = word
            bound.setdefault(formal.name, word)
    return bound


def _has_function(domain: str, operator: str, since: int) -> bool:
    """Whether onnx defines the operator by other operators, which onnxruntime then runs instead."""
    try:
        schema = onnx.defs.get_schema(operator, since, domain)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)
