"""The model in its own framework: what it takes, what it answers, and its exports. In this process or in another."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from sardonyx import registry
from sardonyx.deadline import Deadline
from sardonyx.errors import SourceFailed
from sardonyx.signature import Arrays
from sardonyx.sources._answers import Branch, Exported, Failure, Outputs, Steadiness, Trial
from sardonyx.sources._programs import confinement_of
from sardonyx.sources._randomness import same_randomness
from sardonyx.sources._recognise import PACKAGE, Source
from sardonyx.sources._worker import Worker, WorkerDied, source_failed
from sardonyx.sources.workers._harness import (
    answer,
    branches,
    coverage_of,
    describe_error,
    prepared,
    seconds_of,
    steadiness_of,
    versions,
)
from sardonyx.sources.workers._silence import silent

MORE_TIME = "give it more time with --timeout"
DAMAGED = "the file may be damaged or made to do harm; an .onnx file: sardonyx check says what is wrong with it"
# Exports, the original and the candidates run beside each other. Threads that spin while they wait would take the processors
# from those that work: a tournament then takes up to ten times as long.
PATIENT = {"OMP_WAIT_POLICY": "PASSIVE"}


# The time of a whole request, as a multiple of what one of its batches may take.
LIMITS = 4.0


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
        self._kept: dict[str, Any] = {}  # what a worker process would keep from task to task

    def __enter__(self) -> Original:
        self._scratch = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="sardonyx-")))
        try:
            self._stage()
            if self.source.live:
                self._stack.enter_context(same_randomness())
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
            with silent():
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

    def explore(
        self, batches: Sequence[Mapping[str, np.ndarray[Any, Any]]], *, limit: float | None = None
    ) -> list[Trial]:
        """As `predict`, and what every batch reached in the model's code. A batch that takes over `limit` seconds fails."""
        if self._worker is None:
            return [self._explore_here(batch, limit) for batch in batches]
        paths = [self._save(batch, index) for index, batch in enumerate(batches)]
        request = {"inputs": [str(path) for path in paths], "cover": True, "limit": limit}
        # A loop inside the framework does not hear of the limit; then the process is ended, and the batches are asked one by one.
        seconds = min(self.timeout, LIMITS * limit) if limit else None
        try:
            return [_trial(_read(result), result) for result in self._ask("predict", seconds, **request)["outputs"]]
        except SourceFailed as error:
            if self._worker.alive:
                raise
            return self._after_death(batches, limit, error)

    def _after_death(
        self, batches: Sequence[Mapping[str, np.ndarray[Any, Any]]], limit: float | None, error: SourceFailed
    ) -> list[Trial]:
        """Opens the source again, and asks one by one for what its process died of."""
        assert self._worker is not None, "only a process dies"
        self._worker.__exit__()
        self._worker = self._stack.enter_context(self._start(Deadline(self.timeout)))
        if len(batches) == 1:
            return [Trial(Failure(error.message))]
        return [trial for batch in batches for trial in self.explore([batch], limit=limit)]

    def branches(self) -> tuple[list[Branch], list[Any]]:
        """The conditions in the code that `explore` ran, and the numbers and strings that stand in it."""
        here = self._worker is None
        found = branches(None, self._kept, {}) if here else self._ask("branches")  # type: ignore[no-untyped-call]
        table = [{**row, "taken": tuple(row["taken"]), "raises": tuple(row["raises"])} for row in found["branches"]]
        return [Branch(**{**row, "numbers": tuple(row["numbers"])}) for row in table], list(found["numbers"])

    def steadiness(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Steadiness:
        """Whether the original answers the same inputs alike when it is asked again."""
        if self._worker is None:
            try:
                with silent():
                    found = steadiness_of(self._module(), self._live, dict(inputs))  # type: ignore[no-untyped-call]
            except Exception as error:
                raise source_failed(f"{self.source} failed", describe_error(error)) from error  # type: ignore[no-untyped-call]
        else:
            found = self._ask("steadiness", inputs=str(self._save(inputs, 0)))["steadiness"]
        return Steadiness(tuple(found["random"]), tuple(found["state"]), tuple(found.get("changes", ())))

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
                with silent():
                    notes = self._module().export(self._live, route, str(out), inputs=dict(example), **options) or {}
                return Exported(route, out, time.perf_counter() - started, notes=notes)
            folder = tempfile.TemporaryDirectory(prefix="sardonyx-")
            with folder as scratch, self._start(limit, Path(scratch), out.parent) as worker:
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

    def _start(self, limit: Deadline, *writes: Path) -> Worker:
        """A worker that has the source open before the limit. It may write below these folders, or the scratch folder."""
        worker = Worker(
            self.source.plugin, python=self.source.python, environment=self.environment,
            confinement=confinement_of(self.source, writes or (self._scratch,), (self._scratch,)),
        )  # fmt: skip
        try:
            answer = worker.ask("open", timeout=limit.left, source=self.source.to_request())
        except WorkerDied as died:
            worker.__exit__()  # its log as well
            last = died.last_words.splitlines()[-1] if died.last_words else ""
            if last.startswith("ModuleNotFoundError: "):  # of the worker's own first lines, before any framework
                kind, _, message = last.partition(": ")
                raise self._open_failed({"type": kind, "message": message}) from died
            late = limit.passed
            why, hint = (f"no answer within {self.timeout:g} s", MORE_TIME) if late else (died.reason, last or DAMAGED)
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

    def _ask(self, task: str, seconds: float | None = None, **request: Any) -> dict[str, Any]:
        assert self._worker is not None, "a live source has no worker"
        try:
            answer = self._worker.ask(task, timeout=self.timeout if seconds is None else seconds, **request)
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
            with silent():
                outputs = self._module().predict(self._live, dict(batch), double=double)
        except Exception as error:  # noqa: BLE001  the user's own model may raise anything
            return _failure(error)
        return Outputs(tuple(name for name, _ in outputs), tuple(np.asarray(array) for _, array in outputs))

    def _explore_here(self, batch: Mapping[str, np.ndarray[Any, Any]], limit: float | None) -> Trial:
        module = self._module()
        coverage = coverage_of(module, self._live, self._kept)  # type: ignore[no-untyped-call]
        try:
            with silent():
                outputs, seen = answer(module, self._live, dict(batch), False, coverage, limit)  # type: ignore[no-untyped-call]
        except Exception as error:  # noqa: BLE001  the user's own model may raise anything
            return Trial(_failure(error))
        names, arrays = zip(*outputs, strict=True) if outputs else ((), ())
        return _trial(Outputs(tuple(names), tuple(map(np.asarray, arrays))), seen)

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


def _trial(answer: Outputs | Failure, seen: Mapping[str, Any]) -> Trial:
    reached = frozenset((str(branch), bool(outcome)) for branch, outcome in seen.get("reached", ()))
    gaps = {str(branch): tuple(gap) for branch, gap in seen.get("gaps", {}).items()}
    return Trial(answer, reached, gaps, float(seen.get("seconds", 0.0)))


def _failure(error: Exception) -> Failure:
    """What a live object's error says, and where, in the words of the worker's own account of errors."""
    return _told(describe_error(error))  # type: ignore[no-untyped-call]


def _told(error: Mapping[str, str]) -> Failure:
    """A worker's account of an error. A `Refused` is the worker's own sentence and needs no type before it."""
    kind = "" if error["type"] == "Refused" else f"{error['type']}: "
    hint = f"; {error['hint']}" if error.get("hint") else ""
    return Failure(kind + _one_line(error["message"]) + hint, error["where"])


def _plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype(str) if array.dtype == object else array


# What frameworks put around the line that says what is wrong.
_FRAME = re.compile(
    r"\x1b\[[0-9;]*m"  # colours
    r"|^Exception encountered when calling .*$"  # Keras
    r"|^(?:Traceback \(most recent call last\)|in user code):\s*$"
    r"|^\S+\.(?:cpp|cc|h):\d+: ",  # the line of a library's own source
    re.MULTILINE,
)
_ARGUMENTS = re.compile(r"\n\s*(?:Call a|A)rguments received.*", re.DOTALL)


def _one_line(text: str, size: int = 2000) -> str:
    """The text in one line. Of a long one, its first line and its last: the error, and what it was caused by."""
    text = _FRAME.sub("", _ARGUMENTS.sub("", text))
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    whole = " ".join(lines)
    if len(whole) <= size:
        return whole
    first, last = (lines[0], lines[-1]) if len(lines) > 1 else (whole, whole)
    head = first if len(first) <= size // 2 else first[: size // 2].rstrip()
    room = size - len(head)
    return f"{head} … {last if len(last) <= room else last[-room:].lstrip()}"
