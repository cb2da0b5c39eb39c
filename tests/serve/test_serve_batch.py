"""Batching: who shares a run, in which order, what is refused, and that one bad request harms no other."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import serving
from sardonyx.errors import UsageError
from sardonyx.model import Model as OnnxModel
from sardonyx.serve import batch
from sardonyx.serve import served as served_file
from sardonyx.serve.batch import Batcher
from sardonyx.serve.join import Join
from sardonyx.serve.options import Batching, Options
from sardonyx.serve.policy import Policy, choose, measure, why_not_batched
from sardonyx.serve.refusal import Refusal
from sardonyx.serve.repository import Entry
from sardonyx.serve.served import Served
from sardonyx.serve.server import run_loop
from sardonyx.serve.statistics import Statistics
from sardonyx.serve.work import Answer, Work
from sardonyx.signature import Signature, TensorSpec

Array = np.ndarray[Any, Any]


class Model:
    """Adds one, remembers the rows of every run, refuses 13, and waits while `held`."""

    def __init__(self) -> None:
        self.runs: list[list[float]] = []
        self.held = threading.Event()
        self.held.set()

    def __call__(self, outputs: tuple[str, ...], inputs: Sequence[Array]) -> list[Array]:  # noqa: ARG002
        self.held.wait()
        self.runs.append(inputs[0][:, 0].tolist())
        if 13 in inputs[0]:
            raise ValueError("thirteen")
        return [inputs[0] + 1]


class Desk:
    """A batcher over `Model`, and what came back, by the number that was sent."""

    def __init__(
        self, *, most: int = 4, inline: bool = False, patience: float = 0.0, ahead: int = 0, **options: Any
    ) -> None:
        self.model, self.statistics = Model(), Statistics()
        signature = Signature.parse(["x=float64[n,width]"])
        batching = Batching(**options)
        policy = Policy(most, inline, "", patience, ahead=ahead)
        self.batcher = Batcher(self.model, policy, batching, self.statistics, join=Join(signature))
        self.answers: dict[float, Answer] = {}

    def send(self, number: float, *, rows: int = 1, width: int = 1, **more: Any) -> Work:
        work = Work(
            inputs=[np.full((rows, width), number)],
            outputs=("y",),
            rows=rows,
            key=width,
            answer=lambda answer: self.answers.__setitem__(number, answer),
            **more,
        )
        self.batcher.submit(work)
        return work

    async def until(self, count: int) -> None:
        while len(self.answers) < count:
            await asyncio.sleep(0.001)


class Clock:
    """The time of one desk's batcher, which passes when the test says so. The batcher takes it for its event loop, too."""

    def __init__(self, desk: Desk) -> None:
        self.now, self.timers = 0.0, []
        self.loop = desk.batcher._loop
        desk.batcher._loop = self  # type: ignore[assignment]

    def perf_counter_ns(self) -> int:
        return int(self.now * 1e9)

    def call_later(self, seconds: float, call: Callable[[], None]) -> asyncio.Handle:
        handle = asyncio.Handle(call, (), self.loop)
        self.timers.append((self.now + seconds, handle))
        return handle

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loop, name)

    async def passes(self, seconds: float) -> None:
        """So many seconds later; the timers that are due then have been called, and the loop has turned."""
        self.now += seconds
        due = [handle for moment, handle in self.timers if moment <= self.now]
        self.timers = [(moment, handle) for moment, handle in self.timers if moment > self.now]
        for handle in due:
            if not handle.cancelled():
                handle._run()
        await asyncio.sleep(0.01)


@contextmanager
def by_hand(desk: Desk) -> Iterator[Clock]:
    clock = Clock(desk)
    with mock.patch.object(batch, "time", clock):
        yield clock


def on_a_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def wrapper() -> None:
        run_loop(test())  # type: ignore[arg-type]

    wrapper.__name__ = test.__name__
    wrapper.__doc__ = test.__doc__
    return wrapper


@on_a_loop
async def test_requests_of_one_turn_leave_together_and_come_back_apart() -> None:
    for inline in (False, True):
        desk = Desk(inline=inline)
        for number in range(4):
            desk.send(number)
        await desk.until(4)
        assert desk.model.runs == [[0, 1, 2, 3]]
        assert {number: answer[0].tolist() for number, answer in desk.answers.items()} == {  # type: ignore[index]
            number: [[number + 1]] for number in range(4)
        }
        assert (desk.statistics.rows, desk.statistics.runs, desk.statistics.success.count) == (4, 1, 4)
        await desk.batcher.close()


@on_a_loop
async def test_one_run_lies_ready_where_that_was_asked_for_and_the_rest_waits() -> None:
    """What lies ready is not queued any more; closing still waits for its answer."""
    for ahead in (0, 1):
        desk = Desk(most=1, ahead=ahead)
        desk.model.held.clear()
        for number in range(4):
            desk.send(number)
        await asyncio.sleep(0.01)
        assert desk.batcher.waiting == 3 - ahead
        closing = asyncio.ensure_future(desk.batcher.close())
        await asyncio.sleep(0.01)
        assert not closing.done()
        desk.model.held.set()
        await closing
        assert desk.model.runs == [[0], [1], [2], [3]]
        assert sorted(desk.answers) == [0, 1, 2, 3]


@on_a_loop
async def test_while_the_model_is_busy_only_a_full_batch_leaves_ahead() -> None:
    desk = Desk(most=2, ahead=1)
    desk.model.held.clear()
    desk.send(0)
    await asyncio.sleep(0.01)
    desk.send(1)
    await asyncio.sleep(0.01)
    assert desk.batcher.waiting == 1  # it may still get company
    for number in (2, 3):
        desk.send(number)
    await asyncio.sleep(0.01)
    assert desk.batcher.waiting == 1
    desk.model.held.set()
    await desk.until(4)
    assert desk.model.runs == [[0], [1, 2], [3]]
    await desk.batcher.close()


@on_a_loop
async def test_what_is_full_is_told_by_the_rows_that_can_share_a_run() -> None:
    for sent, ready in (
        ([{"width": 1}, {"width": 2}], 0),  # of two shapes, neither fills a run
        ([{"rows": 2}], 1),
        ([{"width": 1}, {"width": 2}, {"width": 1}], 2),
        ([{"priority": 1}, {}], 0),
    ):
        desk = Desk(most=2, ahead=1)
        desk.model.held.clear()
        desk.send(0)
        await asyncio.sleep(0.01)
        for number, more in enumerate(sent):
            desk.send(number + 1, **more)
        await asyncio.sleep(0.01)
        assert desk.batcher.waiting == len(sent) - ready
        desk.model.held.set()
        await desk.until(1 + len(sent))
        await desk.batcher.close()


@on_a_loop
async def test_nothing_lies_ready_behind_a_run_that_is_larger_than_was_measured() -> None:
    """Whoever waits for it can still be late, or be overtaken."""
    desk = Desk(most=2, ahead=1)
    desk.model.held.clear()
    desk.send(0, rows=5)
    await asyncio.sleep(0.01)
    for number in (1, 2):
        desk.send(number, timeout=0.02)
    await desk.until(2)
    assert {number: type(answer) for number, answer in desk.answers.items()} == {1: Refusal, 2: Refusal}
    desk.model.held.set()
    await desk.until(3)
    assert desk.model.runs == [[0] * 5]
    await desk.batcher.close()


@on_a_loop
async def test_those_that_come_while_the_model_is_busy_form_the_next_batch() -> None:
    desk = Desk()
    desk.model.held.clear()
    desk.send(0)
    await asyncio.sleep(0.01)
    for number in range(1, 4):
        desk.send(number)
        await asyncio.sleep(0.001)
    desk.model.held.set()
    await desk.until(4)
    assert desk.model.runs == [[0], [1, 2, 3]]
    await desk.batcher.close()


@on_a_loop
async def test_a_batch_never_has_more_rows_than_the_policy_says() -> None:
    desk = Desk(most=4)
    for number, rows in enumerate((3, 2, 1, 9)):
        desk.send(number, rows=rows)
    await desk.until(4)
    assert [len(run) for run in desk.model.runs] == [4, 2, 9]
    await desk.batcher.close()


@on_a_loop
async def test_other_shapes_wait_and_keep_their_place() -> None:
    desk = Desk()
    for number, width in enumerate((1, 2, 1, 2)):
        desk.send(number, width=width)
    await desk.until(4)
    assert desk.model.runs == [[0, 2], [1, 3]]
    await desk.batcher.close()


@on_a_loop
async def test_the_urgent_go_first() -> None:
    desk = Desk(most=1)
    desk.send(0)
    desk.send(1, priority=2)
    desk.send(2, priority=1)
    await desk.until(3)
    assert desk.model.runs == [[2], [1], [0]]
    await desk.batcher.close()


@on_a_loop
async def test_one_that_fails_does_not_fail_the_others() -> None:
    desk = Desk()
    for number in (1, 13, 2):
        desk.send(number)
    await desk.until(3)
    assert desk.model.runs == [[1, 13, 2], [1], [13], [2]]
    failure = desk.answers.pop(13)
    assert isinstance(failure, Refusal)
    assert failure.status == 400
    assert [answer[0].item() for answer in desk.answers.values()] == [2, 3]  # type: ignore[index]
    await desk.batcher.close()


@on_a_loop
async def test_a_full_queue_refuses_and_says_when_to_come_again() -> None:
    desk = Desk(queue=2)
    desk.model.held.clear()
    desk.send(0)
    await asyncio.sleep(0.01)
    desk.send(1)
    desk.send(2)
    with pytest.raises(Refusal) as refused:
        desk.send(3)
    assert (refused.value.status, refused.value.retry_after) == (429, 1)
    desk.model.held.set()
    await desk.until(3)
    await desk.batcher.close()


@on_a_loop
async def test_the_late_are_told_while_the_model_is_still_busy_and_the_gone_never_run() -> None:
    desk = Desk()
    desk.model.held.clear()
    desk.send(0)
    await asyncio.sleep(0.01)
    desk.send(1, timeout=0.01)
    desk.send(2).gone = True
    await desk.until(1)
    late = desk.answers[1]
    assert isinstance(late, Refusal)
    assert late.status == 504
    desk.model.held.set()
    await desk.until(2)
    await desk.batcher.close()
    assert desk.model.runs == [[0]]
    assert 2 not in desk.answers


@on_a_loop
async def test_with_a_delay_a_batch_waits_for_company_but_not_when_it_is_full() -> None:
    desk = Desk(most=2, delay_seconds=0.05)
    with by_hand(desk) as clock:
        desk.send(0)
        await clock.passes(0.04)
        assert desk.model.runs == []
        desk.send(1)
        await desk.until(2)
        assert desk.model.runs == [[0, 1]]
        desk.send(2)
        await clock.passes(0.06)
        await desk.until(3)
        assert desk.model.runs == [[0, 1], [2]]
        await desk.batcher.close()


@on_a_loop
async def test_after_a_batch_the_first_to_come_back_waits_a_moment_for_the_others_and_a_lone_one_never() -> None:
    desk = Desk(patience=0.05)
    with by_hand(desk) as clock:
        for number in (0, 1):
            desk.send(number)
        await desk.until(2)
        desk.send(2)
        await clock.passes(0.04)
        assert desk.model.runs == [[0, 1]]
        desk.send(3)
        await desk.until(4)
        assert desk.model.runs == [[0, 1], [2, 3]]
        desk.send(4)
        await clock.passes(0.04)
        assert len(desk.model.runs) == 2
        await clock.passes(0.02)
        await desk.until(5)
        desk.send(5)
        await desk.until(6)
        assert desk.model.runs[2:] == [[4], [5]]
        await desk.batcher.close()


@on_a_loop
async def test_a_batch_waits_on_while_others_keep_coming_back() -> None:
    desk = Desk(patience=0.4)
    with by_hand(desk) as clock:
        for number in range(4):
            desk.send(number)
        await desk.until(4)
        for number in (4, 5, 6):  # the last comes when one moment since the first is over
            assert desk.model.runs == [[0, 1, 2, 3]]
            desk.send(number)
            await clock.passes(0.25)
        assert desk.model.runs == [[0, 1, 2, 3]]
        desk.send(7)
        await desk.until(8)
        assert desk.model.runs[1:] == [[4, 5, 6, 7]]
        await desk.batcher.close()


@on_a_loop
async def test_closing_answers_what_waits_and_takes_nothing_new() -> None:
    desk = Desk()
    for number in range(9):
        desk.send(number)
    await desk.batcher.close()
    assert len(desk.answers) == 9
    with pytest.raises(Refusal, match="being unloaded"):
        desk.send(10)


def test_outputs_that_are_not_one_row_per_row_are_not_shared_out() -> None:
    join = Join(Signature.parse(["x=float32[n]"]))
    requests = [[np.zeros(rows)] for rows in (2, 0, 3)]
    assert [part[0].tolist() for part in join.apart("y", [np.arange(5)], requests)] == [[0, 1], [], [2, 3, 4]]
    for wrong in (np.arange(4), np.array(1)):
        with pytest.raises(ValueError, match="one row per row"):
            join.apart("y", [wrong], requests)


# Variable lengths.


def test_padded_requests_come_back_in_their_own_length() -> None:
    given = TensorSpec("y", "int64", ("n", "length", 2))
    join = Join(Signature((TensorSpec("x", "int64", ("n", "length")),), (given,)), ("length",))
    requests = [[np.array([[1, 2, 3]])], [np.array([[4, 5, 6, 7, 8], [9, 9, 9, 9, 9]])]]
    (together,) = join.together(requests)
    assert together.tolist() == [[1, 2, 3, 0, 0], [4, 5, 6, 7, 8], [9, 9, 9, 9, 9]]
    parts = join.apart(("y",), [np.stack([together, together], -1)], requests)
    assert [part[0].shape for part in parts] == [(1, 3, 2), (2, 5, 2)]
    assert parts[0][0][0, :, 0].tolist() == [1, 2, 3]


def test_only_like_lengths_share_a_run() -> None:
    join = Join(Signature.parse(["x=int64[n,length]"]), ("length",))
    assert join.key(("y",), [(1, 3)]) == join.key(("y",), [(4, 8)]) != join.key(("y",), [(1, 9)])
    assert join.key(("y",), [(1, 9)]) == join.key(("y",), [(1, 16)])
    plain = Join(Signature.parse(["x=int64[n,length]"]))
    assert plain.key(("y",), [(1, 3)]) != plain.key(("y",), [(1, 4)])


# What the warm-up finds out.


def served(name: str, folder: Path, **options: Any) -> Served:
    path = serving.save(name, folder / f"{name}.onnx")
    return Served(Entry(name, "1", path), Options(path, **{"threads": 1, **options}))


def test_rows_that_change_each_other_are_never_put_together(tmp_path: Path) -> None:
    policy = served("mixing", tmp_path).policy
    assert policy.most == 1
    assert policy.reason == "output y of a request changes with the requests beside it"


def test_a_fixed_first_dimension_cannot_be_batched(tmp_path: Path) -> None:
    assert "no dynamic first dimension" in served("fixed", tmp_path).policy.reason


@pytest.mark.parametrize(("share", "may"), [("0.0000002", True), ("0.0005", False)])
def test_rounding_between_requests_is_no_reason_not_to_batch_and_anything_more_is(
    tmp_path: Path, share: str, may: bool
) -> None:
    path = OnnxModel.from_text(serving.HEAD + serving.mixing_by(share)).save(tmp_path / "m.onnx")
    found = Served(Entry("m", "1", path), Options(path, threads=1))
    why = why_not_batched(found.run, found.signature, found.terms)
    assert why == ("" if may else "output y of a request changes with the requests beside it")


def test_a_batchable_model_is_measured_and_can_be_told(tmp_path: Path) -> None:
    policy = served("tiny", tmp_path).policy
    assert set(policy.row_microseconds or {}) == {1, 2, 4, 8, 16, 32, 64}
    off = served("tiny", tmp_path, batching=Batching(most=1)).policy
    assert (off.most, off.reason) == (1, "batching is switched off")
    assert max(served("tiny", tmp_path, batching=Batching(most=6)).policy.row_microseconds or {}) == 6


def test_a_batch_is_as_small_as_pays_almost_as_much() -> None:
    scaling = {1: 1.0, 2: 1.1, 4: 1.2, 8: 1.5, 16: 2.9}
    assert choose(scaling, quick=False).most == 8
    assert choose({1: 1.0, 2: 2.0, 4: 4.1}, quick=False).most == 1
    assert "does not pay" in choose({1: 1.0, 2: 1.9}, quick=False).reason


def test_a_model_is_not_batched_because_others_had_the_machine_while_it_ran_alone(tmp_path: Path) -> None:
    model, now, alone = served("tiny", tmp_path), [0.0], [0]

    def run(outputs: tuple[str, ...], inputs: Sequence[Array]) -> list[Array]:
        rows = len(inputs[0])
        alone[0] += rows == 1
        now[0] += rows if rows > 1 or alone[0] % 16 == 0 else 100
        return model.run(outputs, inputs)

    policy = measure(run, model.signature, model.terms, most=None, quick=False, clock=lambda: now[0])
    assert policy.most == 1, policy.row_microseconds


@pytest.mark.parametrize(("threads", "clock"), [(1, time.thread_time), (2, time.perf_counter)])
def test_a_run_in_one_thread_is_timed_by_that_threads_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, clock: Callable[[], float]
) -> None:
    asked: list[Callable[[], float]] = []

    def measured(*_: Any, clock: Callable[[], float], **__: Any) -> Policy:
        asked.append(clock)
        return Policy()

    monkeypatch.setattr(served_file, "measure", measured)
    served("tiny", tmp_path, threads=threads)
    assert asked == [clock]


def test_only_what_is_quicker_than_a_switch_of_threads_runs_on_the_loop() -> None:
    assert choose({1: 20e-6, 2: 21e-6}, quick=True).inline
    assert not choose({1: 20e-6, 2: 21e-6}, quick=False).inline
    assert not choose({1: 0.02, 2: 0.021}, quick=True).inline


def test_a_batch_that_is_chosen_pays() -> None:
    """Also where the smallest that is nearly as good as the best would not."""
    assert choose({1: 1e-3, 2: 1.7e-3, 4: 3.4e-3}, quick=True).most == 2
    assert choose({1: 1e-3, 2: 1.86e-3, 4: 3e-3}, quick=True).most == 4


def test_a_run_lies_ready_for_a_quick_model() -> None:
    assert choose({1: 1e-3, 2: 2e-3}, quick=True).ahead == 1
    assert choose({1: 1e-3, 2: 2e-3}, quick=False).ahead == 0  # the next may take a minute
    assert choose({1: 0.1, 2: 0.2}, quick=True).ahead == 0
    assert choose({1: 1e-3, 2: 1.1e-3}, quick=True).ahead == 1
    assert choose({1: 1e-5, 2: 2e-5}, quick=True).ahead == 0


def test_padding_that_changes_answers_is_refused(tmp_path: Path) -> None:
    """A sum does not see zeros, and a mean does."""
    for operator, safe in (("ReduceSum", True), ("ReduceMean", False)):
        text = f"(float[n,length] x) => (float[n,1] y) <int64[1] one = {{1}}> {{ y = {operator}(x, one) }}"
        path = OnnxModel.from_text(serving.HEAD + text).save(tmp_path / f"{operator}.onnx")
        options = Options(path, threads=1, batching=Batching(pad=("length",)))
        if safe:
            assert Served(Entry("m", "1", path), options).policy.most > 1
        else:
            with pytest.raises(UsageError, match="padding length changes the model's answers"):
                Served(Entry("m", "1", path), options)


def test_a_batch_has_the_answers_of_its_requests_alone(tmp_path: Path) -> None:
    model = served("tiny", tmp_path)
    rows = np.random.default_rng(0).standard_normal((32, 4)).astype(np.float32)
    (whole,) = model.run(("y",), [rows])
    alone = np.concatenate([model.run(("y",), [rows[i : i + 1]])[0] for i in range(32)])
    np.testing.assert_allclose(whole, alone, rtol=1e-5, atol=1e-5)
