"""Requests that share a run: greedy batches with no delay by default, a bounded queue, priorities and deadlines.

Everything here but `execute` runs on the event loop, so nothing needs a lock. Requests that arrive in one turn of the loop, or
while the model is busy, leave together. Whoever has gone or waited too long is dropped before any computing, but for the one
run that lies ready for a quick model.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

from sardonyx.serve.join import Join
from sardonyx.serve.options import Batching
from sardonyx.serve.policy import Policy
from sardonyx.serve.refusal import LATE, TOO_MANY, UNAVAILABLE, Refusal
from sardonyx.serve.runs import Run
from sardonyx.serve.statistics import Statistics
from sardonyx.serve.work import DEFAULT_PRIORITY, Done, Runner, Work, execute
from sardonyx.signature import Array

_log = logging.getLogger(__name__)
# How far a batch looks past requests of another shape. Those keep their place.
_LOOKS_AHEAD = 64
_SWEEP_SECONDS = 0.05
# A run that was stopped and goes on for so long is inside one operator, which does not look up. Its thread is given up, and
# another takes its place, but only so many times: each keeps a CPU busy.
_GRACE_SECONDS = 5.0
_MOST_LOST = 2
# A model that was measured as quick and is not, on real requests, moves to a thread of its own.
# One slow run may be the system's doing: it takes many, and quick ones in between count against them.
_INLINE_NS_AT_MOST = 2_000_000
_INLINE_ROWS = 64
_SLOW_WEIGHT, _SLOW_LIMIT = 8, 64
# A batch waits on while others keep coming, but no longer than so many times the moment that it waits for the next.
_MOMENTS = 4


class Lane:
    """A thread that runs the model, and what it runs now: since when, how to stop it, and for whom."""

    def __init__(self) -> None:
        self.current: tuple[int, Run, list[Work]] | None = None
        self.told: tuple[Run, int] | None = None  # which run was stopped, and when
        self.given_up: list[Work] | None = None


class Plain:
    """A run of a function, which cannot be stopped."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    def __call__(self, outputs: tuple[str, ...], inputs: Sequence[Array]) -> list[Array]:
        return self._run(outputs, inputs)

    def stop(self) -> None:
        """It ends by itself, or not at all."""


class Batcher:
    """The queue of one model, and the threads that run it.

    A run that takes longer than a request may wait is stopped. `runs` gives each run, where that can be done.
    """

    def __init__(
        self,
        run: Runner,
        policy: Policy,
        batching: Batching,
        statistics: Statistics,
        *,
        join: Join,
        instances: int = 1,
        runs: Callable[[], Run] | None = None,
    ) -> None:
        self._join = join
        self._runs = runs or (lambda: Plain(run))
        self._run_ns = int(1e9 * batching.timeout_seconds)
        self._lanes: list[Lane] = []
        self._lost = 0
        self._run, self.policy, self._batching, self._statistics = run, policy, batching, statistics
        self._loop = asyncio.get_running_loop()
        self._levels: dict[int, deque[Work]] = {DEFAULT_PRIORITY: deque()}
        self._jobs: queue.SimpleQueue[list[Work] | None] = queue.SimpleQueue()
        # Runs that are under way or lie ready for a thread.
        self._slots = instances + policy.ahead
        self._waiting, self._free = 0, self._slots
        self._scheduled = self._closed = False
        self._expected = self._freed = self._latest = self._rows_under_way = 0
        self._inline, self._slow = policy.inline, 0
        self._sweeper: asyncio.TimerHandle | None = None
        self._delay: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        for _ in range(instances):
            self._add_lane()

    @property
    def waiting(self) -> int:
        return self._waiting

    def submit(self, work: Work) -> None:
        """Queues the work; `work.answer` is called with its outputs, or with what went wrong."""
        if self._closed:
            raise Refusal(UNAVAILABLE, "the model is being unloaded", retry_after=1)
        if not self._lanes:
            raise Refusal(UNAVAILABLE, "runs of this model do not end; load it again")
        if self._waiting >= self._batching.queue:
            self._statistics.refused += 1
            raise Refusal(TOO_MANY, f"{self._waiting} requests are waiting for this model", retry_after=1)
        work.arrived = self._latest = time.perf_counter_ns()
        work.deadline = work.arrived + int(1e9 * (work.timeout or self._batching.timeout_seconds))
        self._level(work.priority).append(work)
        self._waiting += 1
        if not self._scheduled and self._free:
            self._scheduled = True
            self._loop.call_soon(self._dispatch)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _sweep_soon(self) -> None:
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _add_lane(self) -> None:
        self._lanes.append(lane := Lane())
        threading.Thread(target=self._serve, args=(lane,), daemon=True).start()

    async def close(self, *, at_once: bool = False) -> None:
        """Answers what is queued, takes nothing new, and ends the threads. `at_once` also stops what is under way."""
        self._closed = True
        if at_once:
            for level in self._levels.values():
                while level:
                    self._drop(level.popleft())
            self._stop_runs(time.perf_counter_ns() + self._run_ns)
        while (self._waiting or self._free < self._slots) and self._lanes:
            self._idle.clear()
            self._sweep_soon()
            await self._idle.wait()
        for handle in (self._sweeper, self._delay):
            if handle is not None:
                handle.cancel()
        for _ in self._lanes:
            self._jobs.put(None)

    def _level(self, priority: int) -> deque[Work]:
        level = self._levels.get(priority)
        if level is None:
            self._levels[priority] = level = deque()
            self._levels = dict(sorted(self._levels.items()))
        return level

    def _dispatch(self) -> None:
        self._scheduled = False
        while self._waiting and self._free and not self._held_back():
            works = self._take()
            if not works:
                continue
            self._free -= 1
            self._rows_under_way = sum(work.rows for work in works)
            # What was measured as quick is so for as many rows as were measured.
            if self._inline and self._rows_under_way <= _INLINE_ROWS and not (works[0].rows == 0 and _large(works[0])):
                done = execute(self._run, works, self._join)
                self._free += 1
                self._answer(works, done)
            else:
                self._jobs.put(works)
        if not self._waiting and self._free == self._slots:
            self._idle.set()

    def _held_back(self) -> bool:
        """Whether the batch waits for more: as long as was asked for, or while those just answered keep coming back."""
        if self._free <= self.policy.ahead:
            return not self._lies_ready()
        asked = self._batching.delay_seconds
        delay = asked or (self.policy.patience if self._expected > 1 else 0.0)
        full = self.policy.most if asked else min(self.policy.most, self._expected)
        if not delay or self._closed or self.policy.most == 1 or self._waiting >= full:
            return False
        works = [work for level in self._levels.values() for work in level]
        oldest, moment = min(work.arrived for work in works), delay * 1e9
        until = oldest + moment
        if not asked:
            # A request that came while the model was busy has waited, but nobody had a chance to come back yet.
            began = max(oldest, self._freed)
            until = min(max(began, self._latest) + moment, began + _MOMENTS * moment)
        left = until - time.perf_counter_ns()
        if left <= 0 or sum(max(work.rows, 1) for work in works) >= full:
            return False
        if self._delay is None:
            self._delay = self._loop.call_later(left / 1e9, self._delayed)
        return True

    def _lies_ready(self) -> bool:
        """Whether the next run may leave while all threads are busy: a full one, behind a run no larger than was measured."""
        level = next(level for level in self._levels.values() if level)
        first = level[0]
        alike = (work for work in islice(level, _LOOKS_AHEAD) if work.key == first.key)
        full = first.key is None or sum(max(work.rows, 1) for work in alike) >= self.policy.most
        return full and self._rows_under_way <= self.policy.most

    def _delayed(self) -> None:
        self._delay = None
        self._dispatch()

    def _take(self) -> list[Work]:
        """The next works that can run together, oldest of the most urgent first; those too late are answered here."""
        level = next(level for level in self._levels.values() if level)
        works: list[Work] = []
        passed: list[Work] = []
        rows, most, now = 0, self.policy.most, time.perf_counter_ns()
        while level and len(passed) < _LOOKS_AHEAD:
            work = level.popleft()
            if work.gone or work.deadline < now:
                self._drop(work)
            elif not works:
                works.append(work)
                rows = work.rows
                if work.key is None or rows >= most:
                    break
            elif work.key == works[0].key and rows + work.rows <= most:
                works.append(work)
                rows += work.rows
                if rows == most:
                    break
            else:
                passed.append(work)
        level.extendleft(reversed(passed))
        self._waiting -= len(works)
        return works

    def _drop(self, work: Work) -> None:
        self._waiting -= 1
        if not work.gone:
            self._statistics.fail.add(1, time.perf_counter_ns() - work.arrived)
            work.answer(Refusal(LATE, "the request waited longer than its timeout", retry_after=1))

    def _sweep(self) -> None:
        """Answers the late ones even while the model is busy, and stops runs that take too long."""
        self._sweeper = None
        now = time.perf_counter_ns()
        for level in self._levels.values():
            late = [work for work in level if work.gone or work.deadline < now]
            for work in late:
                level.remove(work)
                self._drop(work)
        self._stop_runs(now)
        if self._waiting or self._free < self._slots:
            self._sweeper = self._loop.call_later(_SWEEP_SECONDS, self._sweep)
        else:
            self._idle.set()

    def _stop_runs(self, now: int) -> None:
        for lane in list(self._lanes):
            current, told = lane.current, lane.told
            if current is None or (now - current[0] < self._run_ns and told is None):
                continue
            if told is None or told[0] is not current[1]:
                lane.told = current[1], time.perf_counter_ns()
                current[1].stop()
            elif now - told[1] > int(1e9 * _GRACE_SECONDS):
                self._lose(lane, current[2])

    def _lose(self, lane: Lane, works: list[Work]) -> None:
        """Goes on without a thread that does not come back."""
        _log.error("a run of a model does not end and cannot be stopped")
        lane.given_up = works
        self._lanes.remove(lane)
        self._lost += 1
        if self._lost <= _MOST_LOST:
            self._add_lane()
        late = Refusal(LATE, "the request computed longer than its timeout")
        self._end(works, Done([late] * len(works), None))
        if not self._lanes:
            for level in self._levels.values():
                while level:
                    self._drop(level.popleft())
            self._idle.set()

    def _serve(self, lane: Lane) -> None:
        """A thread: runs what it is given, until it is given None or given up."""
        while lane.given_up is None and (works := self._jobs.get()) is not None:
            run = self._runs()
            lane.current = time.perf_counter_ns(), run, works
            done = execute(run, works, self._join)
            lane.current = None
            try:
                self._loop.call_soon_threadsafe(self._finish, lane, works, done)
            except RuntimeError:  # the loop has ended, and with it everyone who waited
                return

    def _finish(self, lane: Lane, works: list[Work], done: Done) -> None:
        lane.told = None
        if works is not lane.given_up:  # else everyone has been answered
            self._end(works, done)

    def _end(self, works: list[Work], done: Done) -> None:
        self._free += 1
        self._freed = time.perf_counter_ns()
        self._expected = len(works) + self._waiting  # clients that ask again as soon as they are answered
        self._dispatch()  # the model is busy again before the answers are written
        self._answer(works, done)

    def _answer(self, works: list[Work], done: Done) -> None:
        self._count(works, done)
        for work, answer in zip(works, done.answers, strict=True):
            if not work.gone:
                work.moments = done.moments
                work.answer(answer)

    def _count(self, works: list[Work], done: Done) -> None:
        if done.moments is None:
            now = time.perf_counter_ns()
            for work in works:
                self._statistics.fail.add(1, now - work.arrived)
            return
        started, ready, computed, _ = done.moments
        if self._inline:
            self._slow = self._slow + _SLOW_WEIGHT if computed - ready > _INLINE_NS_AT_MOST else max(0, self._slow - 1)
            self._inline = self._slow < _SLOW_LIMIT
        waited = len(works) * started - sum(work.arrived for work in works)
        rows = sum(max(work.rows, 1) for work in works)
        self._statistics.ran(requests=len(works), rows=rows, waited=waited, moments=done.moments)


def _large(work: Work) -> bool:
    """Whether a request that cannot share a run has a long first dimension."""
    return any(array.ndim and len(array) > _INLINE_ROWS for array in work.inputs)
