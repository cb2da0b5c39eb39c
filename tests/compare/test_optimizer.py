"""onnxruntime's own graph optimiser is not the truth: the reference runs without it, and another runtime decides in doubt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import faulty_runtime
import sardonyx
from faulty_runtime import ANSWER, HEAD, INPUTS, RIGHT, SCALE, VECTOR
from sardonyx.agreement import Judgement, judge
from sardonyx.compare import optimizer, sides
from sardonyx.compare.cases import Case
from sardonyx.compare.opinion import opinions
from sardonyx.compare.optimizer import Doubt, doubt_on, find_doubt
from sardonyx.compare.sides import OnnxSide
from sardonyx.errors import RuntimeRefused
from sardonyx.model import Model
from sardonyx.report import Report
from sardonyx.run.session import Session, Settings, store_level
from sardonyx.signature import Array
from sardonyx.sources import Failure, Outputs

Opinion = tuple[str, list[Array]]


def codes(report: Report) -> list[str]:
    return [finding["code"] for finding in report["findings"]]


@pytest.mark.parametrize(("level", "right"), [("all", False), ("extended", False), ("basic", True), ("none", True)])
def test_the_installed_onnxruntime_has_the_fault_that_these_tests_are_about(level: str, right: bool) -> None:
    answer = Session(Model.from_text(VECTOR), Settings(level=level))(INPUTS)["y"].tolist()
    assert (answer == ANSWER) is right, "find another fault of this onnxruntime for tests/faulty_runtime.py"


def test_a_model_that_the_optimiser_breaks_does_not_agree_with_itself_and_the_report_says_why() -> None:
    report = sardonyx.compare(Model.from_text(VECTOR), Model.from_text(VECTOR))
    assert (report.verdict, report["first_divergence"]) == ("mismatch", None)
    (finding,) = report["findings"]
    assert (finding["severity"], finding["code"], finding["where"]) == ("warning", "runtime-optimizer", "y")
    assert "reference: the unoptimised session, confirmed by onnx's reference evaluator" in finding["message"]
    assert "ORT_ENABLE_BASIC" in finding["hint"]


def test_the_reference_is_right_where_the_optimiser_is_wrong() -> None:
    report = sardonyx.compare(Model.from_text(VECTOR), Model.from_text(RIGHT))
    assert (report.verdict, codes(report)) == ("equal", [])


@pytest.mark.heavy
@pytest.mark.rest
def test_a_candidate_that_says_its_level_agrees() -> None:
    candidate = Model.from_text(VECTOR)
    store_level(candidate, "basic")
    report = sardonyx.compare(Model.from_text(VECTOR), candidate)
    assert (report.verdict, codes(report)) == ("equal", [])


@pytest.mark.heavy
@pytest.mark.rest
def test_a_fault_of_the_candidate_itself_is_not_blamed_on_the_optimiser() -> None:
    report = sardonyx.compare(
        Model.from_text(RIGHT), Model.from_text(RIGHT.replace("y = ", "a = MatMul(x, w) y = Neg(a) z = "))
    )
    assert report.verdict == "mismatch"
    assert report["first_divergence"]["op_type"] == "Neg"
    assert codes(report) == []


@pytest.mark.heavy
@pytest.mark.rest
def test_a_candidate_that_loads_only_without_the_optimiser_is_a_mismatch_with_the_reason() -> None:
    report = sardonyx.compare(Model.from_text(SCALE), Model.from_text(SCALE))
    assert report.verdict == "mismatch"
    assert codes(report) == ["runtime-optimizer"]
    assert "it fails: onnxruntime does not load" in report["findings"][0]["message"]


def test_a_candidate_that_does_not_load_at_all_is_an_error() -> None:
    with pytest.raises(RuntimeRefused, match="Frobnicate"):
        sardonyx.compare(Model.from_text(RIGHT), Model.from_text(RIGHT.replace("MatMul", "Frobnicate")))


@pytest.mark.heavy
@pytest.mark.rest
def test_equal_models_are_equal_although_only_one_of_them_is_optimised() -> None:
    """Two products in a row: with the optimiser another order of sums than without it."""
    numbers = np.random.default_rng(0).normal(size=(2, 64 * 64)).round(5).astype(str)
    weights = ", ".join(f"float[64,64] {name} = {{{','.join(row)}}}" for name, row in zip("vw", numbers, strict=True))
    body = "h = MatMul(x, w) a = Add(h, b) r = Relu(a) y = MatMul(r, v)"
    text = f"{HEAD} (float[n,64] x) => (float[n,64] y) <{weights}, float[64] b = {{{','.join(['0.3'] * 64)}}}> {{ {body} }}"
    assert sardonyx.compare(Model.from_text(text), Model.from_text(text)).verdict == "equal"


# What another runtime says.


def side(text: str = VECTOR) -> OnnxSide:
    return OnnxSide.of(Model.from_text(text))


def by_bits(cases: Sequence[Case]) -> optimizer.Judging:
    def judging(index: int, actual: Sequence[Sequence[Any]]) -> Judgement:
        return judge(cases[index].expected.arrays, actual[index], names=cases[index].expected.names)

    return judging


def doubt(monkeypatch: pytest.MonkeyPatch, *said: Opinion) -> Doubt | None:
    """The doubt about the faulty model if other runtimes said this."""
    subject = side()
    (plain,), (usual,) = subject.plain.predict([INPUTS]), subject.predict([INPUTS])
    assert isinstance(plain, Outputs)
    monkeypatch.setattr(optimizer, "opinions", lambda *_: iter(said))
    cases = [Case("a sample", INPUTS, plain, generated=True)]
    return find_doubt(subject, cases, [usual], by_bits(cases))


RIGHT_ANSWER, WRONG_ANSWER = np.array(ANSWER, np.float32), np.array([8, 26], np.float32)


def test_the_runtime_that_confirms_the_plain_session_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = doubt(monkeypatch, ("Abacus", [RIGHT_ANSWER]))
    assert found is not None
    assert (found.level, found.confirmed_by, found.reference) == ("basic", "Abacus", "the unoptimised session")


def test_the_optimised_session_is_the_reference_where_another_runtime_sides_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = doubt(monkeypatch, ("Abacus", [WRONG_ANSWER]))
    assert found is not None
    assert (found.level, found.confirmed_by, found.reference) == ("all", "Abacus", "the optimised session")


def test_a_runtime_that_sides_with_neither_leaves_the_word_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = (RIGHT_ANSWER + WRONG_ANSWER) / 2
    found = doubt(monkeypatch, ("Slide rule", [odd]), ("Abacus", [RIGHT_ANSWER]))
    assert found is not None
    assert found.confirmed_by == "Abacus"


def test_without_another_runtime_the_plain_session_counts_and_the_report_says_that_nothing_confirms_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = doubt(monkeypatch)
    assert found is not None
    assert (found.level, found.confirmed_by) == ("basic", "")
    assert "no other runtime here could decide" in found.message


@pytest.mark.heavy
@pytest.mark.rest
def test_onnx_s_evaluator_answers_and_one_that_refuses_is_left_out() -> None:
    assert ("onnx's reference evaluator", ANSWER) in [
        (name, answer.tolist()) for name, (answer,) in opinions(Model.from_text(VECTOR), INPUTS, ["y"])
    ]
    unknown = RIGHT.replace("MatMul", "com.example.MatMul").replace('["": 18]', '["": 18, "com.example": 1]')
    assert list(opinions(Model.from_text(unknown), INPUTS, ["y"])) == []


@pytest.mark.heavy
def test_every_runtime_that_is_asked_gives_the_right_answer(tmp_path: Path) -> None:
    found = dict(opinions(faulty_runtime.save(tmp_path), INPUTS, ["y"]))
    assert list(found) == ["onnx's reference evaluator", "OpenVINO"]
    assert [answer.tolist() for (answer,) in found.values()] == [ANSWER, ANSWER]


# What is no doubt.


def test_a_model_that_is_run_right_is_not_in_doubt() -> None:
    assert doubt_on(Model.from_text(RIGHT), [INPUTS]) is None


def test_a_model_that_draws_random_numbers_is_not_in_doubt() -> None:
    text = HEAD + "(float[n,8] x) => (float[n,8] y) { r = RandomNormalLike(x) y = Add(x, r) }"
    assert doubt_on(Model.from_text(text), [{"x": np.ones((3, 8), np.float32)}]) is None


@pytest.mark.heavy
@pytest.mark.rest
def test_a_model_whose_level_is_none_has_nothing_to_doubt() -> None:
    model = Model.from_text(VECTOR)
    assert doubt_on(model, [INPUTS]) is not None
    store_level(model, "none")
    assert doubt_on(model, [INPUTS]) is None


def test_a_quantised_model_is_its_own_reference_as_it_is_run() -> None:
    """Its integer kernels are made by the optimiser: without it, it would be another model."""
    text = HEAD + (
        "(float[n,4] x) => (float[n,4] y) <float s = {0.1}, uint8 z = {128}> "
        "{ q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }"
    )
    quantized = side(text)
    assert quantized.plain is quantized
    assert side(RIGHT).plain.level == "none"


class Moody:
    """A session whose runs give these answers, one after the other."""

    def __init__(self, *answers: float) -> None:
        self.answers: Iterator[float] = iter(answers)

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return {"y": inputs["x"] + np.float32(next(self.answers))}


@pytest.mark.parametrize(
    ("answers", "kept"),
    [((1, 1), 1), ((1, 2, 2), 2), ((1, 2, 3), 1)],
    ids=["the same each time", "only the first run differs", "random"],
)
def test_a_first_run_that_no_other_repeats_is_not_the_reference(answers: tuple[float, ...], kept: float) -> None:
    session: Any = Moody(*answers)
    batch = {"x": np.zeros(2, np.float32)}
    first = sides._answer(session, batch)
    found = sides._steady(session, batch, first)
    assert isinstance(found, Outputs)
    assert found.arrays[0].tolist() == [kept, kept]


def test_a_session_that_does_not_open_fails_on_every_batch() -> None:
    answers = optimizer.ask(replace(side(SCALE), level="all"), [{}, {}])
    assert [type(answer) for answer in answers] == [Failure, Failure]
