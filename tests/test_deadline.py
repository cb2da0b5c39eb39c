"""A deadline ends work: loops that ask, calls that another thread stops, and nothing that is done in time."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from sardonyx import deadline
from sardonyx.deadline import Deadline, OutOfTime


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_what_is_left_becomes_less_and_ends_at_nothing(clock: Clock) -> None:
    limit = Deadline(10, clock=clock)
    clock.now += 4
    assert (limit.taken, limit.left, limit.passed) == (4, 6, False)
    assert limit.allows(6)
    assert not limit.allows(6.1)
    clock.now += 7
    assert (limit.taken, limit.left, limit.passed) == (11, 0, True)


def test_a_share_is_of_what_is_left_and_a_part_ends_at_a_fraction_of_the_whole(clock: Clock) -> None:
    limit = Deadline(10, clock=clock)
    clock.now += 4
    assert limit.share(0.5).seconds == 3
    assert limit.at(0.5).seconds == 1
    clock.now += 4
    assert limit.at(0.5).passed
    assert limit.at(0.5).left == 0


def test_work_that_needs_more_than_is_left_is_not_begun(clock: Clock) -> None:
    limit = Deadline(10, clock=clock)
    limit.require(10)
    with pytest.raises(OutOfTime):
        limit.require(10.5)


def test_loops_in_the_block_end_and_those_outside_go_on(clock: Clock) -> None:
    rounds = 0

    def work() -> None:
        nonlocal rounds
        while True:
            deadline.check()
            rounds += 1
            clock.now += 1

    with pytest.raises(OutOfTime), Deadline(3, clock=clock).enforced():
        work()
    assert rounds == 3
    deadline.check()
    assert deadline.current() is None


@pytest.mark.parametrize(("outer", "inner"), [(2, 5), (5, 2)])
def test_the_nearer_of_two_deadlines_holds(clock: Clock, outer: float, inner: float) -> None:
    with Deadline(outer, clock=clock).enforced(), Deadline(inner, clock=clock).enforced():
        clock.now += 1
        deadline.check()
        clock.now += 1
        with pytest.raises(OutOfTime):
            deadline.check()


def test_an_attempt_gives_way_to_the_alternative_but_not_a_deadline_around_it(clock: Clock) -> None:
    def work() -> str:
        clock.now += 3
        deadline.check()
        return "done"

    assert Deadline(4, clock=clock).attempt(work, "not done") == "done"
    assert Deadline(2, clock=clock).attempt(work, "not done") == "not done"
    with pytest.raises(OutOfTime), Deadline(2.5, clock=clock).enforced():
        Deadline(2, clock=clock).attempt(work, "not done")


def test_a_block_whose_time_is_over_is_not_entered(clock: Clock) -> None:
    limit = Deadline(1, clock=clock)
    clock.now += 1
    with pytest.raises(OutOfTime), limit.enforced():
        raise AssertionError("entered")


def test_handlers_of_errors_do_not_catch_it() -> None:
    assert not issubclass(OutOfTime, Exception)


def until(event: threading.Event) -> Callable[[], None]:
    """A call that returns only when it is stopped."""

    def call() -> None:
        assert event.wait(60), "nobody stopped it"
        raise ValueError("stopped")

    return call


def test_a_long_call_is_stopped_from_another_thread_and_its_error_replaced() -> None:
    stopped = threading.Event()
    with pytest.raises(OutOfTime), Deadline(0.05).enforced(), deadline.stopping(stopped.set):
        until(stopped)()


def test_a_call_that_ends_in_time_is_left_alone_and_raises_its_own_errors() -> None:
    stopped: list[int] = []
    with Deadline(60).enforced():
        with deadline.stopping(lambda: stopped.append(1)):
            pass
        with pytest.raises(ValueError, match="its own"), deadline.stopping(lambda: stopped.append(2)):
            raise ValueError("its own")
    assert stopped == []


def test_without_a_deadline_nothing_watches() -> None:
    before = threading.active_count()
    with deadline.stopping(lambda: None):
        assert threading.active_count() == before


def test_a_nearer_end_wakes_the_watch_that_waits_for_a_later_one() -> None:
    late, soon = threading.Event(), threading.Event()
    with Deadline(600).enforced(), deadline.stopping(late.set):
        with pytest.raises(OutOfTime), Deadline(0.05).enforced(), deadline.stopping(soon.set):
            until(soon)()
        assert not late.is_set()
