"""The model under examination: what its file says, and what onnx and onnxruntime said of it in their child processes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import onnx

from sardonyx import child, external, runtime
from sardonyx.check._places import Place, Scope, imports_of, places, scopes
from sardonyx.check._text import made_readable
from sardonyx.child import Outcome
from sardonyx.files import temporary_folder
from sardonyx.proto import read_proto
from sardonyx.report import Finding, Severity
from sardonyx.runtime import Limits

State = Literal["loaded", "refused", "crashed", "timeout", "memory", "skipped"]

# What a load may cost: a base, and more for a model that has more to it.
_SECONDS, _BYTES_A_SECOND, _NODES_A_SECOND = 6.0, 16 << 20, 5000
_MEMORY, _TIMES_ITS_SIZE = 2 << 30, 6
# Computing time is the limit that counts. The clock is only for a child that waits, and a busy machine slows that too.
_CLOCK = 10
_OUT_OF_MEMORY = re.compile(r"bad_alloc|Failed to allocate|MemoryError|out of memory", re.IGNORECASE)
_SOURCE = re.compile(r"/onnxruntime_src/\S+:\d+ ")
_LONGEST = 1000


@dataclass(frozen=True)
class Budget:
    """What a child may use: seconds of computing, seconds on the clock, bytes of address space."""

    cpu: float
    clock: float
    memory: int

    @classmethod
    def of(cls, size: int, nodes: int, timeout: float | None) -> Budget:
        cpu = timeout or _SECONDS + size / _BYTES_A_SECOND + nodes / _NODES_A_SECOND
        return cls(cpu, timeout or _CLOCK * cpu, _MEMORY + _TIMES_ITS_SIZE * size)


@dataclass(frozen=True)
class Load:
    """How the trial load ended, and what there is to say about it."""

    state: State
    message: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.state == "loaded"


@dataclass(frozen=True)
class Examination:
    """What onnx's checker and strict shape inference said, and the model with the types it inferred."""

    checker: str | None
    shapes: str | None
    typed: onnx.ModelProto
    failed_in: str = ""
    failure: Outcome | None = None


@dataclass(frozen=True)
class Subject:
    """One model, with everything that a check may ask about it."""

    path: Path
    proto: onnx.ModelProto
    limits: Limits
    asked_release: str | None
    budget: Budget
    size: int
    trouble: tuple[Finding, ...]
    _load: Callable[[], Load]
    _examine: Callable[[], Examination]

    @cached_property
    def load(self) -> Load:
        """The trial load by the installed onnxruntime; waits for it to end."""
        return self._load()

    @cached_property
    def examination(self) -> Examination:
        return self._examine()

    @cached_property
    def scopes(self) -> list[Scope]:
        return list(scopes(self.examination.typed))

    @cached_property
    def places(self) -> list[Place]:
        return list(places(self.examination.typed))

    @cached_property
    def imports(self) -> dict[str, int]:
        return imports_of(self.proto.opset_import)

    @property
    def name(self) -> str:
        return self.path.name

    @cached_property
    def operators(self) -> list[Place]:
        """The nodes that call an operator of some runtime: not a function of the model, and not a plain constant."""
        local = {(function.domain, function.name) for function in self.proto.functions}
        return [
            place
            for place in self.places
            if (place.node.domain, place.node.op_type) not in local and place.node.op_type != "Constant"
        ]

    @property
    def severity(self) -> Severity:
        """How bad a doubt about the model is. The real load has the last word."""
        return "warning" if self.load.ok else "error"


@contextmanager
def opened(path: Path, *, ort: str | None = None, timeout: float | None = None) -> Iterator[Subject]:
    """The model at `path`, with both children at work on it while the block begins."""
    limits, proto = runtime.limits(ort), made_readable(read_proto(path))
    trouble = tuple(external.findings(proto, path.parent))
    size = path.stat().st_size + (0 if trouble else _external_bytes(proto, path.parent))
    budget = Budget.of(size, sum(len(scope.graph.node) for scope in scopes(proto)), timeout)
    with ExitStack() as stack:
        scratch = stack.enter_context(temporary_folder())
        request = {
            "path": str(path.absolute()),
            "read_external": not trouble,
            "inferred": str(scratch / "inferred.onnx"),
        }
        # Checking and inferring cost far less than a load.
        half = replace(budget, cpu=budget.cpu / 2, memory=budget.memory // 2)
        examining = stack.enter_context(_child("_examine", request, half))
        loading = None if trouble else stack.enter_context(_child("_load", request, budget))
        yield Subject(
            path=path,
            proto=proto,
            limits=limits,
            asked_release=ort,
            budget=budget,
            size=size,
            trouble=trouble,
            _load=lambda: _load_of(loading() if loading else None),
            _examine=lambda: _examination_of(examining(), proto, scratch / "inferred.onnx"),
        )


def plain(message: str) -> str:
    """An error of onnxruntime or onnx on one line, without status codes and places in their source."""
    text = " ".join(message.split())
    if "[ONNXRuntimeError]" in text:
        text = text.rpartition("[ONNXRuntimeError]")[2].split(" : ", 3)[-1]
    text = re.sub(r"^Load model from .*? failed: ?", "", text)
    while (place := _SOURCE.search(text)) is not None:
        text = text[: place.start()] + _after_signature(text[place.end() :])
    return text.strip()[:_LONGEST]


def _after_signature(text: str) -> str:
    """What follows the C++ signature at the start of the text: 'void f(int (*)(int)) const message' -> 'message'."""
    depth, first = 0, text.find("(")
    for index in range(max(first, 0), len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return re.sub(r"^\)\s*(const\b)?\s*(\[with .*?\])?\s*", "", text[index:]) if first >= 0 else text
    return text


def _child(module: str, request: dict[str, object], budget: Budget) -> AbstractContextManager[Callable[[], Outcome]]:
    command = child.module(f"sardonyx.check.{module}")
    return child.started(command, request, timeout=budget.clock, cpu=budget.cpu, memory=budget.memory)


def _external_bytes(proto: onnx.ModelProto, folder: Path) -> int:
    return sum((folder / name).stat().st_size for name in {entry.location for entry in external.entries(proto)})


def _load_of(outcome: Outcome | None) -> Load:
    if outcome is None:
        return Load("skipped", "its external data is not safe to open")
    answer = outcome.answer
    message = plain(str(answer.get("message", "")))
    if outcome.end == "memory" or _OUT_OF_MEMORY.search(outcome.stderr) or _OUT_OF_MEMORY.search(message):
        return Load("memory", message)
    if outcome.end != "answered":
        return Load(outcome.end, outcome.reason)
    return Load("loaded" if answer["loaded"] else "refused", message, float(answer["seconds"]))


def _examination_of(outcome: Outcome, proto: onnx.ModelProto, inferred: Path) -> Examination:
    if outcome.end != "answered":
        stage = "checker" if "stage: shapes" not in outcome.stderr else "shapes"
        return Examination(None, None, proto, stage, outcome)
    typed = made_readable(onnx.ModelProto.FromString(inferred.read_bytes()))
    return Examination(outcome.answer["checker"], outcome.answer["shapes"], typed)
