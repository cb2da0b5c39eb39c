"""Ways to run a model that can be stopped: in this process, or in a process of its own, whose death is an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import onnxruntime as ort

from sardonyx.errors import RuntimeRefused
from sardonyx.run.session import Session, plain
from sardonyx.serve.refusal import LATE, Refusal
from sardonyx.signature import Array

TOO_LONG = "the request computed longer than its timeout"


class Run(Protocol):
    """One run, which another thread may stop."""

    def __call__(self, outputs: tuple[str, ...], inputs: Sequence[Array]) -> list[Array]: ...

    def stop(self) -> None: ...


class Runs(Protocol):
    """Where a model is loaded: gives each run, for the thread that asks."""

    def fresh(self) -> Run: ...

    def __call__(self, outputs: tuple[str, ...], inputs: Sequence[Array]) -> list[Array]: ...

    def close(self) -> None: ...


class LocalRun:
    """A run of a session of this process. onnxruntime looks at the flag before each node."""

    def __init__(self, session: Session, names: Sequence[str]) -> None:
        self._session, self._names = session._session, names
        self._options = ort.RunOptions()

    def __call__(self, outputs: tuple[str, ...], inputs: Sequence[Array]) -> list[Array]:
        feed = dict(zip(self._names, inputs, strict=True))
        try:
            return self._session.run(outputs, feed, self._options)
        except Exception as error:
            if self._options.terminate:
                raise Refusal(LATE, TOO_LONG) from error
            raise RuntimeRefused(f"the model failed while running: {plain(error)}") from error

    def stop(self) -> None:
        self._options.terminate = True


class LocalRuns:
    """A session of this process."""

    def __init__(self, session: Session) -> None:
        self._session: Session | None = session
        self._names = session.signature.input_names

    def fresh(self) -> LocalRun:
        assert self._session is not None, "not closed"
        return LocalRun(self._session, self._names)

    def __call__(self, outputs: tuple[str, ...], inputs: Sequence[Array]) -> list[Array]:
        assert self._session is not None, "not closed"
        return self._session.run_some(outputs, dict(zip(self._names, inputs, strict=True)))

    def close(self) -> None:
        self._session = None
