"""How long work may take: a value that is handed down, and that the work in its block does not outlive.

    limit = Deadline(10)
    with limit.at(0.5).enforced():   # ends after half of the time
        for node in nodes:
            deadline.check()         # raises OutOfTime when it has passed
            ...

Loops ask by `check`. A long call into a library is ended from another thread, by what `stopping` is given. What can be ended
in neither way runs in a child process, with what is `left` as its time.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from sardonyx import process

Clock = Callable[[], float]
Result = TypeVar("Result")
OUT_OF_TIME = "not tried: time ran out"


class OutOfTime(BaseException):
    """The time of the work is up. Whoever set the deadline catches it.

    No `Exception`, as asyncio's `CancelledError` is none: a handler for errors of the work must not take it for one.
    """


class Deadline:
    """The moment at which work must be done, `seconds` from now or from when it was begun by that clock."""

    def __init__(self, seconds: float, *, clock: Clock = time.monotonic, begun: float | None = None) -> None:
        self.seconds = seconds
        self._clock = clock
        self._begun = clock() if begun is None else begun

    @property
    def taken(self) -> float:
        """The seconds that have passed."""
        return self._clock() - self._begun

    @property
    def left(self) -> float:
        """The seconds until then; 0 when it has passed."""
        return max(0.0, self.seconds - self.taken)

    @property
    def passed(self) -> bool:
        return self.taken >= self.seconds

    def share(self, fraction: float) -> Deadline:
        """The deadline of a part of the work: it may take this fraction of what is left."""
        return Deadline(fraction * self.left, clock=self._clock)

    def at(self, fraction: float) -> Deadline:
        """The deadline of everything up to a part of the work: this fraction of the whole time, counted from its beginning."""
        return Deadline(max(0.0, fraction * self.seconds - self.taken), clock=self._clock)

    def allows(self, seconds: float) -> bool:
        """Whether so many seconds are left."""
        return seconds <= self.left

    def require(self, seconds: float = 0.0) -> None:
        """Raises `OutOfTime` if it has passed, or if less than `seconds` are left."""
        if self.passed or not self.allows(seconds):
            raise OutOfTime(f"{self.seconds:g} s are over")

    def attempt(self, work: Callable[[], Result], otherwise: Result) -> Result:
        """What the work gives, or `otherwise` where it is not done by then. A deadline of a block around it still holds."""
        try:
            with self.enforced():
                return work()
        except OutOfTime:
            check()
            return otherwise

    @contextmanager
    def enforced(self) -> Iterator[None]:
        """Work in the block ends by `OutOfTime` when this deadline passes, or one of a block around it."""
        self.require()
        outer = _current.get()
        token = _current.set(self if outer is None or self.left < outer.left else outer)
        try:
            yield
        finally:
            _current.reset(token)


def asked_for(seconds: float, verb: str) -> Deadline:
    """The deadline of a verb for which the user allows so many seconds. A command has used some of them to start."""
    begun = process.begun() if process.command() == verb else None
    return Deadline(seconds, begun=begun)


_current: ContextVar[Deadline | None] = ContextVar("sardonyx_deadline", default=None)


def current() -> Deadline | None:
    """The deadline of the block that is running, if it has one."""
    return _current.get()


def check() -> None:
    """Raises `OutOfTime` where the deadline of the block has passed. To be called in loops that may take long."""
    limit = _current.get()
    if limit is not None:
        limit.require()


@contextmanager
def stopping(stop: Callable[[], object]) -> Iterator[None]:
    """Calls `stop`, from another thread, if the deadline of the block passes while this block runs. Then raises `OutOfTime`.

    `stop` makes a long call into a library return or raise; what it raises is replaced.
    """
    limit = _current.get()
    if limit is None:
        yield
        return
    limit.require()
    ticket = _watch.add(limit.left, stop)
    try:
        yield
    except Exception as error:
        if limit.passed:
            raise OutOfTime(str(error)) from error
        raise
    finally:
        _watch.remove(ticket)


class _Watch:
    """One thread that calls what is due. It ends when nothing is waiting for it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[int, tuple[float, Callable[[], object]]] = {}
        self._tickets = itertools.count()
        self._awake_at: float | None = None  # None while there is no thread

    def add(self, seconds: float, stop: Callable[[], object]) -> int:
        end, ticket = time.monotonic() + seconds, next(self._tickets)
        with self._changed:
            self._waiting[ticket] = end, stop
            if self._awake_at is None:
                self._awake_at = end
                threading.Thread(target=self._wait, name="sardonyx-deadline", daemon=True).start()
            elif end < self._awake_at:
                self._changed.notify()
        return ticket

    def remove(self, ticket: int) -> None:
        with self._changed:  # also so that `stop` is not being called any more
            self._waiting.pop(ticket, None)

    def _wait(self) -> None:
        with self._changed:
            while self._waiting:
                now = time.monotonic()
                for ticket, (end, stop) in list(self._waiting.items()):
                    if end <= now:
                        del self._waiting[ticket]
                        stop()
                if self._waiting:
                    self._awake_at = min(end for end, _ in self._waiting.values())
                    self._changed.wait(max(0.0, self._awake_at - time.monotonic()))
            self._awake_at = None


_watch = _Watch()
