"""What Python code keeps from call to call is read, compared, put back, and moved."""

from __future__ import annotations

import itertools
import random
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sardonyx.sources.workers._held import Snapshot
from sardonyx.sources.workers._steady import roughly, steadiness

TOTAL = 0


class Layer:
    """A user's object with state of every kind."""

    shared: list[int] = []  # noqa: RUF012  a class attribute that instances write is what is tested

    def __init__(self) -> None:
        self.calls, self.seen, self.table = 0, [1], {"a": 1}
        self.array = np.zeros(3)
        self.generator = np.random.default_rng(0)
        self.inner: Any = None
        self.recent, self.counts = deque([1], maxlen=2), OrderedDict(a=1)
        self.ready = False


def attribute(layer: Layer) -> None:
    layer.calls += 1


def new_attribute(layer: Layer) -> None:
    layer.fresh = 3  # type: ignore[attr-defined]


def item_of_a_list(layer: Layer) -> None:
    layer.seen.append(2)


def entry_of_a_dict(layer: Layer) -> None:
    layer.table["a"] = 5


def element_of_an_array(layer: Layer) -> None:
    layer.array[1] = 7


def item_of_a_deque(layer: Layer) -> None:
    layer.recent.append(2)


def entry_of_an_ordered_dict(layer: Layer) -> None:
    layer.counts["a"] = 2


def class_attribute(layer: Layer) -> None:
    layer.shared.append(1)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (attribute, "Layer.calls"),
        (new_attribute, "Layer.fresh"),
        (item_of_a_list, "Layer.seen"),
        (entry_of_a_dict, "Layer.table.a"),
        (element_of_an_array, "Layer.array"),
        (item_of_a_deque, "Layer.recent"),
        (entry_of_an_ordered_dict, "Layer.counts.a"),
        (class_attribute, "Layer.shared"),
    ],
)
def test_a_change_is_named_and_put_back(change: Callable[[Layer], None], name: str) -> None:
    layer = Layer()
    before = Snapshot(layer)
    change(layer)
    assert before.changed() == [name]
    before.restore()
    assert before.changed() == []
    assert not hasattr(layer, "fresh")
    assert (layer.calls, layer.seen, layer.table, layer.array.sum(), layer.shared) == (0, [1], {"a": 1}, 0, [])


def test_random_generators_are_no_state_but_are_put_back() -> None:
    layer = Layer()
    before = Snapshot(layer)
    first = layer.generator.random()
    assert before.changed() == []
    before.restore(generators_only=True)
    assert layer.generator.random() == first
    before.restore()
    before.stir()
    assert layer.generator.random() != first


def test_variables_of_functions_and_modules_are_put_back() -> None:
    count, numbers, drawn = 0, itertools.count(1), random.Random(0)

    def function() -> tuple[int, int, int, float]:
        nonlocal count
        global TOTAL
        count, TOTAL = count + 1, TOTAL + 1
        return count, TOTAL, next(numbers), drawn.random()

    before = Snapshot(function)
    first = function()
    assert before.changed() == ["TOTAL", "count", "numbers"]
    assert function() != first
    for _ in range(2):
        before.restore()
        assert function() == first
    before.restore()


def test_what_is_built_during_a_call_stays() -> None:
    layer = Layer()
    before = Snapshot(layer)
    layer.inner, layer.ready, layer.calls = Layer(), True, 1
    before.restore()
    assert layer.inner is not None
    assert layer.ready, "or it would be built again, with other weights"


def test_frameworks_and_modules_are_not_entered() -> None:
    layer = Layer()
    layer.inner = np.random  # type: ignore[assignment]
    Snapshot(layer).restore()
    assert not any(place.changed() for place in Snapshot(np).places)


def steady(function: Callable[[float], Any]) -> dict[str, Any]:
    def seed(number: int) -> None:
        random.seed(number)

    found: dict[str, Any] = steadiness(lambda: [("y", np.float32(function(3.0)))], seed, lambda: Snapshot(function))
    return found


def test_a_state_is_told_from_a_draw_and_from_a_count_that_nobody_reads() -> None:
    seen: list[int] = []

    def stateful(x: float) -> float:
        seen.append(1)
        return x * len(seen)

    def harmless(x: float) -> float:
        seen.append(1)
        return x

    assert steady(stateful) == {"random": [], "state": ["y"], "changes": ["seen"]}
    assert steady(harmless) == {"random": [], "state": [], "changes": []}
    assert steady(lambda x: x + random.random()) == {"random": ["y"], "state": [], "changes": []}
    assert seen == [1, 1], "only the first call of each, which may build something, is left"


def test_a_state_that_equal_inputs_hide_is_seen_after_others() -> None:
    kept = [0.0]

    def answer(x: float) -> list[tuple[str, Any]]:
        moved, kept[0] = x - kept[0], x
        return [("y", np.array(moved))]

    def asked(others: Callable[[], Any] | None) -> dict[str, Any]:
        return steadiness(lambda: answer(3.0), lambda _: None, lambda: Snapshot(answer), others)

    assert asked(None) == {"random": [], "state": [], "changes": []}
    assert asked(lambda: answer(7.0)) == {"random": [], "state": ["y"], "changes": ["kept"]}


def test_a_count_that_matters_only_after_many_calls_is_a_state() -> None:
    layer = Layer()

    def late(x: float) -> float:
        layer.calls += 1
        return x if layer.calls < 500 else -x

    assert steady(late)["state"] == ["y"]


def test_a_float64_answer_of_another_computation_is_told_apart() -> None:
    x = np.linspace(-1, 1, 9, dtype=np.float32)
    assert roughly(x, x.astype(np.float64) + 1e-5)
    assert not roughly(x, x.astype(np.float64) + 1)
    assert not roughly(x, x), "it must be float64"
