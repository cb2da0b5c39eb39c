"""The model in its own framework: what it takes, what it answers, and its exports. In this process or in another."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from sardonyx import registry
from sardonyx.deadline import Deadline
from sardonyx.errors import SourceFailed
from sardonyx.signature import Arrays
from sardonyx.sources._recognise import PACKAGE, Source
from sardonyx.sources._worker import Worker, WorkerDied, source_failed
from sardonyx.sources.workers._harness import describe_error, prepared, seconds_of, versions

MORE_TIME = "give it more time with --timeout"
# Exports, the original and the candidates run beside each other. Threads that spin while they wait would take the processors
# from those that work: a tournament then takes up to ten times as long.
PATIENT = {"OMP_WAIT_POLICY": "PASSIVE"}


@dataclass(frozen=True)
class Outputs:
    """What the original answered to one batch, in its own order."""

    names: tuple[str, ...]
    arrays: tuple[np.ndarray[Any, Any], ...]


@dataclass(frozen=True)
class Failure:
    """Why there is no answer: one readable line, and the user's line of code where it is known."""

    reason: str
    where: str = ""


@dataclass(frozen=True)
class Exported:
    """The end of one export: a model file, or a reason."""

    route: str
    path: Path | None
    seconds: float
    failure: Failure | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)


class Original:
    """Opens a source and keeps it open. Use it in a `with` block: its process ends with the block."""

    def __init__(self, source: Source, *, timeout: float = 300, environment: Mapping[str, str] | None = None) -> None:
        if source.python is None:
            extra = registry.requires(PACKAGE, source.plugin)
            if extra is not None:
                registry.need(extra, for_what=f"a {source.plugin} source")
        self.source = source
        self.timeout = timeout
        self.environment = PATIENT if environment is None else environment
        self.versions: dict[str, str] = {}
        self._stack = ExitStack()
        self._worker: Worker | None = None
        self._live: Any = None

    def __enter__(self) -> Original:
        self._scratch = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="sardonyx-")))
        try:
            self._stage()
            if self.source.live:
                self._live = self._adopt()
            else:
                self._worker = self._stack.enter_context(self._start(Deadline(self.timeout)))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def describe(self) -> dict[str, Any]:
        """What the framework itself says about inputs and outputs; the keys are those that it knows."""
        if self._worker is None:
            answer: dict[str, Any] = self._module().describe(self._live)
            return answer
        description: dict[str, Any] = self._ask("describe")["description"]
        return description

    def predict(
        self, batches: Sequence[Mapping[str, np.ndarray[Any, Any]]], *, double: bool = False
    ) -> list[Outputs | Failure]:
        """The original's answer to every batch; in float64 where `double` is set and the framework can."""
        if self._worker is None:
            return [self._predict_here(batch, double) for batch in batches]
        paths = [self._save(batch, index) for index, batch in enumerate(batches)]
        results = self._ask("predict", inputs=[str(path) for path in paths], double=double)["outputs"]
        return [_read(result) for result in results]

    def prepare(self, inputs: Mapping[str, np.ndarray[Any, Any]], **options: Any) -> Callable[[int], Any]:
        """A function that makes so many calls with these inputs and gives the seconds of each, taken where the model is."""
        if self._worker is None:
            try:
                call = prepared(self._module(), self._live, dict(inputs), options)  # type: ignore[no-untyped-call]
            except Exception as error:
                raise source_failed(f"{self.source} failed", describe_error(error)) from error  # type: ignore[no-untyped-call]
            return lambda repeats: np.array(seconds_of(call, repeats))  # type: ignore[no-untyped-call]
        self._ask("prepare", inputs=str(self._save(inputs, 0)), options=options)
        return lambda repeats: np.array(self._ask("time", repeats=repeats)["taken"])

    @property
    def processor_seconds(self) -> float:
        """What its process has computed so far; a live object has none of its own."""
        return 0.0 if self._worker is None else self._worker.processor_seconds

    def peak_memory(self) -> int | None:
        """The most bytes that the model's own process has held; None for a live object, which has no process of its own."""
        return None if self._worker is None else self._ask("peak")["peak"]

    def export(self, route: str, out: Path, *, example: Mapping[str, np.ndarray[Any, Any]], **options: Any) -> Exported:
        """The export by one route, in a fresh process, so that no route sees what another left behind.

        To open the source there and to export it takes at most the `timeout`. A live object is exported in this process,
        which nothing ends.
        """
        started, limit = time.perf_counter(), Deadline(self.timeout)
        try:
            if self.source.live:
                notes = self._module().export(self._live, route, str(out), inputs=dict(example), **options) or {}
                return Exported(route, out, time.perf_counter() - started, notes=notes)
            with tempfile.TemporaryDirectory(prefix="sardonyx-") as scratch, self._start(limit) as worker:
                inputs = Path(scratch) / "example.npz"
                np.savez(inputs, **{name: _plain(array) for name, array in example.items()})  # type: ignore[arg-type]
                answer = worker.ask(
                    "export",
                    timeout=limit.left,
                    route=route,
                    out=str(out),
                    options={**options, "example": str(inputs)},
                )
        except WorkerDied as died:
            why = f"no answer within {self.timeout:g} s" if limit.passed else died.reason
            reason = f"{why}: {died.last_words.splitlines()[-1]}" if died.last_words else why
            return Exported(route, None, time.perf_counter() - started, Failure(reason))
        except SourceFailed as error:
            return Exported(route, None, time.perf_counter() - started, Failure(error.message))
        except Exception as error:  # noqa: BLE001  an exporter may raise anything; a live object has no process to catch it
            return Exported(route, None, time.perf_counter() - started, _failure(error))
        if not answer["ok"]:
            return Exported(route, None, answer["seconds"], _told(answer["error"]))
        return Exported(route, out, answer["seconds"], notes=answer["notes"])

    def _stage(self) -> None:
        """Writes a live object to a file where its plugin wants another process to have it."""
        stage = getattr(registry.load_light(PACKAGE, self.source.plugin), "stage", None)
        if self.source.live and stage is not None:
            form, path = stage(self.source.value, self._scratch)
            self.source = replace(self.source, value=None, form=form, path=path, staged=str(self.source))

    def _adopt(self) -> Any:
        """The live object as its worker holds it, or the error that another process would have given."""
        worker = self._module()
        try:
            held = worker.adopt(self.source.value, self.source.to_request())
        except Exception as error:
            raise self._open_failed(describe_error(error)) from error  # type: ignore[no-untyped-call]
        self.versions = versions(worker)  # type: ignore[no-untyped-call]
        return held

    def _start(self, limit: Deadline) -> Worker:
        """A worker that has the source open before the limit."""
        worker = Worker(self.source.plugin, python=self.source.python, environment=self.environment)
        try:
            answer = worker.ask("open", timeout=limit.left, source=self.source.to_request())
        except WorkerDied as died:
            worker.__exit__()  # its log as well
            last = died.last_words.splitlines()[-1] if died.last_words else ""
            if last.startswith("ModuleNotFoundError: "):  # of the worker's own first lines, before any framework
                kind, _, message = last.partition(": ")
                raise self._open_failed({"type": kind, "message": message}) from died
            late = limit.passed
            why, hint = (f"no answer within {self.timeout:g} s", MORE_TIME) if late else (died.reason, last)
            raise SourceFailed(f"{self.source} could not be opened: {why}", hint=hint) from died
        except BaseException:
            worker.__exit__()  # its log as well
            raise
        if not answer["ok"]:
            worker.__exit__()  # its log as well
            raise self._open_failed(answer["error"])
        self.versions = answer["versions"]
        return worker

    def _open_failed(self, error: dict[str, Any]) -> SourceFailed:
        if error["type"] in ("ModuleNotFoundError", "ImportError") and self.source.python is not None:
            error = {**error, "hint": f"install it there: {self.source.python} -m pip install ..."}
        return source_failed(f"{self.source} could not be opened", error)

    def _ask(self, task: str, **request: Any) -> dict[str, Any]:
        assert self._worker is not None, "a live source has no worker"
        try:
            answer = self._worker.ask(task, timeout=self.timeout, **request)
        except WorkerDied as died:
            raise SourceFailed(
                f"{self.source}: {task}: {died.reason}",
                hint=died.last_words[-500:] or MORE_TIME,
            ) from died
        if not answer["ok"]:
            raise source_failed(f"{self.source} failed to {task}", answer["error"])
        return answer

    def _predict_here(self, batch: Mapping[str, np.ndarray[Any, Any]], double: bool) -> Outputs | Failure:
        try:
            outputs = self._module().predict(self._live, dict(batch), double=double)
        except Exception as error:  # noqa: BLE001  the user's own model may raise anything
            return _failure(error)
        return Outputs(tuple(name for name, _ in outputs), tuple(np.asarray(array) for _, array in outputs))

    def _module(self) -> ModuleType:
        return import_module(f"{PACKAGE}.workers.{self.source.plugin}")

    def _save(self, batch: Mapping[str, np.ndarray[Any, Any]], index: int) -> Path:
        path = self._scratch / f"{index}.npz"
        np.savez(path, **{name: _plain(array) for name, array in batch.items()})  # type: ignore[arg-type]
        return path


def _read(result: dict[str, Any]) -> Outputs | Failure:
    if "error" in result:
        return _told(result["error"])
    with np.load(result["path"], allow_pickle=False) as file:
        arrays: Arrays = {key: file[key] for key in file.files}
    return Outputs(tuple(result["names"]), tuple(arrays[key] for key in sorted(arrays)))


def _failure(error: Exception) -> Failure:
    """What a live object's error says, and where, in the words of the worker's own account of errors."""
    return _told(describe_error(error))  # type: ignore[no-untyped-call]


def _told(error: Mapping[str, str]) -> Failure:
    """A worker's account of an error. A `Refused` is the worker's own sentence and needs no type before it."""
    kind = "" if error["type"] == "Refused" else f"{error['type']}: "
    return Failure(_one_line(kind + error["message"]), error["where"])


def _plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype(str) if array.dtype == object else array


def _one_line(text: str, size: int = 400) -> str:
    return " ".join(text.split())[:size]
