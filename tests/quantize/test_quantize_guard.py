from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import quantizing
from sardonyx.bench.interleave import Timings
from sardonyx.bench.ratio import Ratio
from sardonyx.deadline import Deadline
from sardonyx.model import Model
from sardonyx.quantize import guard as guards
from sardonyx.quantize import paying, sensitivity
from sardonyx.quantize.candidates import Candidate
from sardonyx.quantize.evaluate import Judge, Reference, Score
from sardonyx.quantize.guard import Guard, Ruling
from sardonyx.quantize.metric import UNLABELLED, Budget
from sardonyx.quantize.prepare import copied, prepared
from sardonyx.quantize.qdq import quantizable
from sardonyx.quantize.search import Search, _worth
from sardonyx.quantize.steps import Plan
from sardonyx.quantize.subject import Subject, Variant
from sardonyx.run.session import Session, Settings
from sardonyx.samples import Batch

SETTINGS = Settings(threads=1)
JUDGE = Judge(UNLABELLED["cosine"], Budget.parse("1%"))


@pytest.fixture(scope="module")
def subject() -> Subject:
    batch = Batch(quantizing.rows(32, 128))
    return Subject(prepared(quantizing.perceptron(128, 3)), [batch], SETTINGS, vnni=False)


def guard(subject: Subject, rows: int = 32) -> Guard:
    session = Session(subject.model, SETTINGS)
    held_out = Reference.of(session, [Batch(quantizing.rows(rows, 128, seed=5))])
    return Guard(session, held_out, JUDGE, quantizing.rows(256, 128, seed=6), SETTINGS, vnni=False)


def ruined(model: Model) -> Model:
    """A scheme gone wrong: the weights of one product are noise."""
    own = copied(model)
    weight = own.ir.graph.initializers["w1"]
    noise = np.random.default_rng(3).standard_normal((128, 128)).astype(np.float32)
    weight.const_value = ir.tensor(noise, name="w1")
    return own


def slowed(model: Model, times: int = 3) -> Model:
    """A scheme that gives the right answer the long way: the first product is computed several times and averaged."""
    own = copied(model)
    graph = own.ir.graph
    first = next(node for node in graph if node.op_type == "MatMul")
    result = first.outputs[0]
    users = [(use.node, use.idx) for use in result.uses()]
    total = result
    for index in range(times):
        # Each copy differs a little, or common subexpressions would be merged.
        array = first.inputs[1].const_value.numpy() * np.float32(1 + 1e-5 * (index + 1))
        value = ir.Value(name=f"again{index}", const_value=ir.tensor(array, name=f"again{index}"))
        value.shape, value.dtype = ir.Shape(array.shape), ir.DataType.FLOAT
        graph.register_initializer(value)
        product = ir.node("MatMul", [first.inputs[0], value])
        sum_ = ir.node("Add", [total, product.outputs[0]])
        graph.extend([product, sum_])
        total = sum_.outputs[0]
    share = ir.Value(name="share", const_value=ir.tensor(np.array(1 / (times + 1), np.float32), name="share"))
    share.shape, share.dtype = ir.Shape(()), ir.DataType.FLOAT
    graph.register_initializer(share)
    mean = ir.node("Mul", [total, share])
    graph.append(mean)
    for user, index in users:
        user.replace_input_with(index, mean.outputs[0])
    graph.sort()
    return own


def test_a_scheme_that_ruins_the_metric_is_rejected_whatever_its_speed(subject: Subject) -> None:
    ruling = guard(subject).rule(Variant("ruined", "ruined", ruined(subject.model)), seconds=0.2, limit=Deadline(60))
    assert not ruling.passed
    assert ruling.reason == guards.ACCURACY
    assert ruling.score.loss > 0.01
    assert ruling.speedup is None


@pytest.mark.heavy
def test_a_scheme_that_is_slower_is_rejected_though_it_is_right(subject: Subject) -> None:
    ruling = guard(subject).rule(Variant("slowed", "slowed", slowed(subject.model, 6)), seconds=2, limit=Deadline(60))
    assert ruling.score.loss < 0.001
    assert not ruling.passed
    assert ruling.reason == guards.SLOWER
    assert ruling.speedup is not None
    assert ruling.speedup.verdict != "faster"


def test_the_same_model_again_is_not_faster(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """By equal times, which chance does not change."""
    equal = np.full(30, 1e-3)
    monkeypatch.setattr(
        guards, "measure", lambda turns, **_: Timings(dict.fromkeys(turns, equal), dict.fromkeys(turns, equal))
    )
    ruling = guard(subject).rule(Variant("same", "static", copied(subject.model)), seconds=0.3, limit=Deadline(60))
    assert ruling.score.loss == 0
    assert ruling.reason == guards.NO_VNNI


class _Saturating(Session):
    """onnxruntime on a CPU that adds two products of 8 bits in 16: its integer kernels lose what lies above."""

    def run_fitted(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = super().run_fitted(inputs)
        return {name: np.minimum(value, 64) for name, value in found.items()} if self.settings.optimize else found


@pytest.mark.parametrize(("vnni", "reason"), [(False, guards.SATURATES), (True, guards.ACCURACY)])
def test_full_range_that_saturates_is_told_from_bad_rounding_where_there_is_no_vnni(
    monkeypatch: pytest.MonkeyPatch, vnni: bool, reason: str
) -> None:
    """Weights and inputs at the ends of their ranges, so that sums of two products leave 16 bits."""
    model = quantizing.perceptron(128, 1)
    model.ir.graph.initializers["w0"].const_value = ir.tensor(np.ones((128, 128), np.float32), name="w0")
    data = Batch({"x": np.full((16, 128), 1.0, np.float32) + quantizing.rows(16, 128)["x"] * 0.01})
    work = Subject(prepared(model), [data], SETTINGS, vnni=vnni)
    names = frozenset(node.name or "" for node in quantizable(work.model))
    session = Session(work.model, SETTINGS)
    full, reduced = (work.built(Plan(names, reduce_range=less)) for less in (False, True))
    right = session(data.inputs)["y"]
    # On any CPU, by real kernels: a reduced range does not saturate.
    assert np.abs(Session(reduced, SETTINGS)(data.inputs)["y"] / right - 1).max() < 0.02
    judge = Judge(_relative(), Budget.parse("0.02"))
    watch = Guard(session, Reference.of(session, [data]), judge, data.inputs, SETTINGS, vnni)
    monkeypatch.setattr(guards, "Session", _Saturating)
    assert watch.rule(Variant("full", "static", full, Plan(names)), seconds=0.2, limit=Deadline(60)).reason == reason


def _relative():
    from sardonyx.quantize.metric import Metric

    def rows(found: np.ndarray, real: np.ndarray) -> np.ndarray:
        return (np.abs(found - real).max(axis=1) / np.abs(real).max(axis=1))[:, None]

    return Metric("relative", rows, lambda rows: float(rows.mean()), higher_is_better=False, against="float")


class _Fake:
    """A scheme folder of two faults and nothing else."""

    @staticmethod
    def variants(subject: Subject) -> Iterator[Variant]:
        yield Variant("ruined", "fake", ruined(subject.model))
        yield Variant("slowed", "fake", slowed(subject.model, 8))


@pytest.mark.heavy
def test_a_search_among_faults_finds_nothing(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    from sardonyx import registry

    monkeypatch.setattr(registry, "load", lambda *_: _Fake)
    session = Session(subject.model, SETTINGS)
    screening = Reference.of(session, subject.calibration)
    search = Search(subject, JUDGE, screening, session, quantizing.rows(256, 128), Deadline(120), 8.0)
    assert search.run(["fake"], guard(subject)) is None
    reasons = {item.name: item.to_dict()["reason"] for item in search.candidates}
    assert reasons == {"ruined": guards.ACCURACY, "slowed": guards.SLOWER}


class _Rulings:
    """A guard whose rulings are known: how many times faster each variant is, none where it loses the metric."""

    def __init__(self, found: dict[str, float | None], doubts: dict[str, float] | None = None) -> None:
        self.found, self.doubts, self.heard = found, doubts or {}, []

    def rule(self, variant: Variant, *, seconds: float, limit: Deadline) -> Ruling:  # noqa: ARG002
        self.heard.append(variant.name)
        ratio = self.found[variant.name]
        doubt = self.doubts.get(variant.name, 0.0)
        score = Score(1.0, 1.0, 0.0, -1.96 * doubt, 1.96 * doubt)
        return Ruling(score, None, guards.ACCURACY) if ratio is None else Ruling(score, Ratio(ratio, ratio, ratio))


def test_the_fastest_that_passes_is_kept_though_screening_preferred_another(subject: Subject) -> None:
    session = Session(subject.model, SETTINGS)
    search = Search(subject, JUDGE, Reference.of(session, subject.calibration), session, {}, Deadline(120), 8.0)
    screened = {"lucky": 1.6, "ruined": 1.5, "steady": 1.4, "slow": 1.1}
    search.candidates = [
        Candidate(name, "x", Variant(name, "x", subject.model), ratio=Ratio(ratio, ratio, ratio))
        for name, ratio in screened.items()
    ]
    guard = _Rulings({"lucky": 1.2, "ruined": None, "steady": 1.4, "slow": 1.1})
    winner = search._hear(guard)  # type: ignore[arg-type]
    assert winner is not None
    assert winner.name == "steady"
    assert guard.heard == ["lucky", "ruined", "steady"]


def test_being_sure_of_the_budget_is_worth_some_speed_and_no_more(subject: Subject) -> None:
    session = Session(subject.model, SETTINGS)
    for speed, kept in ((1.45, "sure"), (1.2, "doubtful")):
        search = Search(subject, JUDGE, Reference.of(session, subject.calibration), session, {}, Deadline(120), 8.0)
        found: dict[str, float | None] = {"doubtful": 1.5, "sure": speed}
        search.candidates = [
            Candidate(name, "x", Variant(name, "x", subject.model), ratio=Ratio(ratio, ratio, ratio))
            for name, ratio in found.items()
            if ratio is not None
        ]
        winner = search._hear(_Rulings(found, {"doubtful": 0.02}))  # type: ignore[arg-type]
        assert winner is not None
        assert winner.name == kept


def test_a_loss_is_within_the_budget_for_sure_perhaps_or_not_at_all() -> None:
    """A budget of 1 % and a standard error of 0.5 %."""
    said = {
        loss: (JUDGE.surely_within(score), JUDGE.within(score), JUDGE.perhaps_within(score))
        for loss in (0.004, 0.009, 0.014, 0.016)
        for score in [Score(1.0, 1.0 - loss, loss, loss - 0.0098, loss + 0.0098)]
    }
    assert said == {
        0.004: (True, True, True),
        0.009: (False, True, True),
        0.014: (False, False, True),
        0.016: (False, False, False),
    }


@pytest.fixture(scope="module")
def lopsided() -> tuple[Subject, Plan, Reference]:
    """One product has a lonely huge input value: rounded with all others, it drowns them."""
    model = quantizing.perceptron(64, 3)
    weight = model.ir.graph.initializers["w0"].const_value.numpy().copy()
    weight[:, 0] *= 3000
    model.ir.graph.initializers["w0"].const_value = ir.tensor(weight, name="w0")
    after = model.ir.graph.initializers["w1"].const_value.numpy().copy()
    after[0] = 0
    model.ir.graph.initializers["w1"].const_value = ir.tensor(after, name="w1")
    batch = Batch(quantizing.rows(32, 64))
    work = Subject(prepared(model), [batch], SETTINGS, vnni=False)
    plan = Plan(frozenset(node.name or "" for node in quantizable(work.model)), reduce_range=True)
    return work, plan, Reference.of(Session(work.model, SETTINGS), [batch])


def test_the_sensitive_node_is_the_one_left_in_float(lopsided: tuple[Subject, Plan, Reference]) -> None:
    work, plan, reference = lopsided
    found = sensitivity.spared(work, plan, "minmax", JUDGE, reference, limit=Deadline(60))
    assert found is not None
    assert plan.nodes - found.nodes == {"product1"}


@pytest.mark.parametrize("seconds", [60, 0])
def test_the_most_harmful_node_comes_first_whether_it_is_measured_or_told_by_its_noise(
    lopsided: tuple[Subject, Plan, Reference], seconds: float
) -> None:
    work, plan, reference = lopsided
    order = sensitivity.ranked(work, plan, "minmax", reference, Deadline(seconds))
    assert order[0] == {"product1"}
    assert frozenset().union(*order) == plan.nodes


def test_noise_that_no_output_shows_is_harmless_once_it_is_measured() -> None:
    """What the noisy product gives is multiplied by nearly nothing and taken from the rest."""
    proto = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["": 21]>
        g (float[n,64] x) => (float[n,64] y) <float small = {1e-6}>
        { noisy = MatMul(x, loud)  hushed = Mul(noisy, small)  plain = MatMul(x, quiet)  y = Sub(plain, hushed) }
    """)
    random = np.random.default_rng(0)
    for name, weight in zip(("loud", "quiet"), random.standard_normal((2, 64, 64)).astype(np.float32), strict=True):
        weight[0] *= 300 if name == "loud" else 1
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    for node in proto.graph.node:
        node.name = node.input[1]
    model = Model.from_proto(proto)
    batch = Batch({"x": random.standard_normal((32, 64)).astype(np.float32)})
    work = Subject(prepared(model), [batch], SETTINGS, vnni=False)
    plan = Plan(frozenset(["loud", "quiet"]), per_channel=False)
    noise = sensitivity.local_noise(work, plan, "minmax")
    assert noise["loud"] > noise["quiet"]
    reference = Reference.of(Session(work.model, SETTINGS), [batch])
    measured, told = (sensitivity.ranked(work, plan, "minmax", reference, Deadline(seconds)) for seconds in (60, 0))
    assert [*measured[0]] == ["quiet"]
    assert [*told[0]] == ["loud"]


def test_noise_decides_where_no_output_is_a_float(lopsided: tuple[Subject, Plan, Reference]) -> None:
    work, plan, reference = lopsided
    blind = Reference(reference.batches, tuple({"class": np.int64([1])} for _ in reference.outputs))
    order = sensitivity.ranked(work, plan, "minmax", blind, Deadline(60))
    assert order[0] == {"product1"}


def test_sparing_every_node_is_no_answer(lopsided: tuple[Subject, Plan, Reference]) -> None:
    work, _, reference = lopsided
    only = Plan(frozenset(["product1"]), reduce_range=True)
    assert sensitivity.spared(work, only, "minmax", JUDGE, reference, limit=Deadline(60)) is None


def test_neighbours_are_measured_together_where_time_is_short(
    lopsided: tuple[Subject, Plan, Reference], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock on which each node takes a second: three of them take longer than the two seconds there are."""
    work, plan, reference = lopsided
    now, measured = [0.0], sensitivity.distance

    def slow(*words: Any) -> float:
        now[0] += 1
        return measured(*words)

    monkeypatch.setattr(sensitivity, "distance", slow)
    order = sensitivity.ranked(work, plan, "minmax", reference, Deadline(4, clock=lambda: now[0]))
    assert [len(group) for group in order] == [2, 1]
    assert "product1" in order[0]
    assert frozenset().union(*order) == plan.nodes


def test_the_distance_is_that_of_the_worst_output_and_infinite_where_there_is_no_number() -> None:
    real = ({"a": np.float32([3.0, 4.0]), "b": np.float32([1.0]), "n": np.int64([7]), "s": [np.float32([1])]},)
    reference = Reference((Batch({"x": np.zeros(1)}),), real)
    assert reference.distance(real) == 0.0
    off = {"a": np.float32([3.0, 4.5]), "b": np.float32([1.5]), "n": np.int64([9]), "s": []}
    assert reference.distance([off]) == pytest.approx(0.25)
    assert reference.distance([{**off, "a": np.float32([np.nan, 4.0])}]) == float("inf")
    assert reference.distance([{**off, "b": np.float32([1.0, 1.0])}]) == float("inf")


def test_an_output_that_is_nothing_in_float_does_not_decide_the_distance() -> None:
    reference = Reference((Batch({}),), ({"y": np.float32([1.0]), "zero": np.float32([0.0])},))
    assert reference.distance([{"y": np.float32([1.1]), "zero": np.float32([1e-5])}]) == pytest.approx(0.01, rel=1e-3)


def test_of_candidates_as_fast_as_each_other_the_closest_to_float_is_heard_first(subject: Subject) -> None:
    candidates = [
        Candidate(name, "x", Variant(name, "x", subject.model), ratio=Ratio(ratio, ratio, ratio), distance=distance)
        for name, ratio, distance in (("far", 1.51, 0.02), ("close", 1.50, 0.01), ("slow", 1.2, 0.0))
    ]
    assert [item.name for item in sorted(candidates, key=_worth, reverse=True)] == ["close", "far", "slow"]


@pytest.mark.parametrize(
    ("batch", "examples"),
    [
        (Batch({"x": np.zeros((3, 2)), "y": np.zeros(5)}), 3),
        (Batch({"x": np.zeros((1, 2))}, np.zeros(4)), 4),
        (Batch({"scale": np.array(1.0), "x": np.zeros((8, 4))}), 8),
        (Batch({"x": np.array(1.0)}), 1),
        (Batch({"x": np.zeros((0, 2))}), 0),
        (Batch({}), 1),
    ],
)
def test_a_batch_knows_how_many_examples_it_holds(batch: Batch, examples: int) -> None:
    assert batch.examples == examples


@pytest.mark.parametrize(
    ("sizes", "wanted", "taken"),
    [((8, 8, 8), 8, 1), ((1, 64, 64), 8, 2), ((16, 1, 1, 16), 32, 4), ((16, 1, 15, 16), 32, 3), ((2, 2), 100, 2)],
)
def test_a_reference_takes_whole_batches_until_there_are_enough(
    sizes: tuple[int, ...], wanted: int, taken: int
) -> None:
    batches = tuple(Batch({"x": np.zeros((size, 1))}) for size in sizes)
    assert len(Reference(batches, tuple({} for _ in sizes)).take(wanted).batches) == taken


def test_nodes_of_both_models_are_timed_in_turn_and_a_few_runs_do_when_time_is_up(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, seen = slowed(subject.model), []
    opened = paying._profiled

    def watched(model: Model, prefix: Path, settings: Settings) -> object:
        session = opened(model, prefix, settings)
        run = session.run
        session.run = lambda *words: seen.append(model is slow) or run(*words)
        return session

    monkeypatch.setattr(paying, "_profiled", watched)
    first, second = paying.node_times([subject.model, slow], quantizing.rows(64, 128), SETTINGS, limit=Deadline(0))
    assert seen == [False, True] * paying.RUNS_AT_LEAST
    assert {"product0", "product1", "product2"} <= set(first)
    assert sum(second.values()) > sum(first.values())
