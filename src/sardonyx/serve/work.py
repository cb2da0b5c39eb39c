"""One request on its way to the model and back, and the run that several of them share."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from sardonyx.errors import SardonyxError
from sardonyx.serve.join import Join
from sardonyx.serve.refusal import BAD, UNAVAILABLE, Refusal
from sardonyx.signature import Array

Answer = list[Array] | Exception
Runner = Callable[[tuple[str, ...], Sequence[Array]], list[Array]]
Moments = tuple[int, int, int, int]

_log = logging.getLogger(__name__)
DEFAULT_PRIORITY = 1 << 20


@dataclass(slots=True, eq=False)
class Work:
    """One request on its way. Only works with an equal `key` share a run; one of None runs alone."""

    inputs: list[Array]
    outputs: tuple[str, ...]
    rows: int
    key: Hashable
    answer: Callable[[Answer], None]
    timeout: float = 0.0
    priority: int = DEFAULT_PRIORITY
    gone: bool = False
    trace: bytes | None = None
    moments: Moments | None = None
    arrived: int = 0
    deadline: int = 0


@dataclass(slots=True)
class Done:
    """What a run gave to each of its requests, and when: None where it failed."""

    answers: list[Answer]
    moments: Moments | None


def execute(run: Runner, works: list[Work], join: Join) -> Done:
    """The answer of each work from one run of all. Where that fails, each runs alone, so that only the culprit is refused."""
    started = time.perf_counter_ns()
    try:
        if len(works) == 1:
            ready = started
            outputs = run(works[0].outputs, works[0].inputs)
            computed = time.perf_counter_ns()
            return Done([outputs], (started, ready, computed, computed))
        requests = [work.inputs for work in works]
        inputs = join.together(requests)
        ready = time.perf_counter_ns()
        outputs = run(works[0].outputs, inputs)
        computed = time.perf_counter_ns()
        answers = join.apart(works[0].outputs, outputs, requests)
        return Done([*answers], (started, ready, computed, time.perf_counter_ns()))
    except Exception as error:  # noqa: BLE001  whatever happens, everyone who waits is answered
        if len(works) > 1:
            alone = [execute(run, [work], join) for work in works]
            return Done([done.answers[0] for done in alone], alone[-1].moments)
        return Done([_named(error)], None)


def _named(error: Exception) -> Exception:
    if isinstance(error, Refusal):
        return error
    if isinstance(error, SardonyxError):
        return Refusal(BAD, error.message)
    if isinstance(error, MemoryError):
        return Refusal(UNAVAILABLE, "out of memory", retry_after=1)
    _log.error("a run failed", exc_info=error)
    return Refusal(BAD, f"the model failed on this request: {type(error).__name__}")
