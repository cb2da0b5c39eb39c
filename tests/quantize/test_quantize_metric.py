from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sardonyx.deadline import Deadline, OutOfTime
from sardonyx.errors import BadData, UsageError
from sardonyx.quantize.metric import DRAWS_AT_LEAST, LABELLED, UNLABELLED, Budget, chosen, decided, spread

SCORES = np.array([[0.9, 0.1, 0.0], [0.1, 0.8, 0.1], [0.2, 0.3, 0.5], [0.6, 0.3, 0.1]], np.float32)
TRUTH = np.array([0, 1, 1, 0])


def value(name: str, outputs: np.ndarray, truth: np.ndarray) -> float:
    metric = LABELLED[name]
    return metric.total(metric.rows(outputs, truth))


def test_accuracy_counts_hits() -> None:
    assert value("accuracy", SCORES, TRUTH) == 0.75


def test_top5_looks_at_five() -> None:
    scores = np.tile(np.arange(8.0), (2, 1))
    assert value("top5", scores, np.array([3, 2])) == 0.5


def test_f1_is_the_macro_mean_that_scikit_learn_gives() -> None:
    from sklearn.metrics import f1_score

    random = np.random.default_rng(0)
    scores, truth = random.random((200, 4)), random.integers(0, 4, 200)
    assert value("f1", scores, truth) == pytest.approx(f1_score(truth, scores.argmax(1), average="macro"))


def test_errors_are_means_over_examples() -> None:
    found, truth = np.array([[1.0], [2.0]]), np.array([0.0, 4.0])
    assert value("mae", found, truth) == 1.5
    assert value("rmse", found, truth) == pytest.approx(np.sqrt(2.5))


def test_cosine_of_the_same_is_one_even_for_zeros() -> None:
    assert value("cosine", np.zeros((2, 3)), np.zeros((2, 3))) == 1
    assert value("cosine", np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])) == 0


def test_a_single_score_is_decided_at_the_middle() -> None:
    assert decided(np.array([[0.2], [0.7]])).tolist() == [0, 1]
    assert decided(np.array([[-2.0], [7.0]])).tolist() == [0, 1]


@pytest.mark.parametrize("name", [*LABELLED])
def test_a_metric_that_needs_labels_says_so(name: str) -> None:
    if name in UNLABELLED:
        assert chosen(name, labelled=False, classifier=True, integer_labels=False).against == "float"
        return
    with pytest.raises(BadData, match="needs labels"):
        chosen(name, labelled=False, classifier=True, integer_labels=False)


def test_auto_takes_what_the_task_offers() -> None:
    def name(labelled: bool, classifier: bool, integers: bool) -> str:
        return chosen("auto", labelled=labelled, classifier=classifier, integer_labels=integers).name

    assert name(True, True, True) == "accuracy"
    assert name(True, False, False) == "rmse"
    assert name(False, True, False) == "agreement"
    assert name(False, False, False) == "cosine"


def test_an_unknown_metric_is_named_with_those_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        chosen("acuracy", labelled=True, classifier=True, integer_labels=True)
    assert "accuracy" in caught.value.hint


def test_budgets_are_shares_or_amounts() -> None:
    assert Budget.parse("1%").share(0.004, 0.5) == pytest.approx(0.008)
    assert Budget.parse("0.01").share(0.004, 0.5) == 0.004
    assert str(Budget.parse("0.5 %")) == "0.5%"
    for wrong in ("", "much", "-1%", "nan", "inf"):
        with pytest.raises(UsageError):
            Budget.parse(wrong)


def test_the_interval_holds_the_loss_and_narrows_with_data() -> None:
    metric, budget, random = LABELLED["accuracy"], Budget.parse("1%"), np.random.default_rng(0)
    widths = []
    for count in (100, 10_000):
        before = np.ones((count, 1))
        after = (random.random((count, 1)) > 0.05).astype(float)
        low, high = spread(metric, before, after, budget, seed=0)
        assert low <= 1 - after.mean() <= high
        widths.append(high - low)
    assert widths[1] < widths[0] / 5


@pytest.mark.parametrize(("name", "high"), [("agreement", 3 / 128), ("cosine", 0.0)])
def test_examples_that_all_agree_do_not_prove_that_others_will(name: str, high: float) -> None:
    rows = np.ones((128, 1))
    assert spread(UNLABELLED[name], rows, rows, Budget.parse("1%"), seed=0) == (0.0, high)


def test_data_without_labels_says_how_to_name_them() -> None:
    with pytest.raises(BadData) as caught:
        chosen("accuracy", labelled=False, classifier=True, integer_labels=False, label_hint="give --label y")
    assert caught.value.hint.startswith("give --label y; or use --metric agreement")


def test_labels_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(BadData, match="labels have shape"):
        value("accuracy", SCORES, np.zeros((4, 2)))


def test_the_users_own_metric_is_called_with_outputs_and_labels(tmp_path, monkeypatch) -> None:
    (tmp_path / "mine.py").write_text("def hits(y, t):\n    return (y.argmax(1) == t).mean()\n")
    monkeypatch.chdir(tmp_path)
    metric = chosen("mine.py:hits", labelled=True, classifier=True, integer_labels=True)
    assert metric.total(metric.rows(SCORES, TRUTH)) == 0.75


def test_a_metric_that_takes_long_is_drawn_less_often_and_never_beyond_its_time() -> None:
    now, calls = [0.0], [0]

    def total(rows: np.ndarray) -> float:
        now[0] += 1
        calls[0] += 1
        return float(rows.mean())

    slow = replace(UNLABELLED["cosine"], total=total)
    rows = np.linspace(0.5, 1, 20)[:, None]
    for seconds, draws in ((100_000, 500), (2_000, 50), (200, DRAWS_AT_LEAST)):
        calls[0] = 0
        with Deadline(seconds, clock=lambda: now[0]).enforced():
            low, high = spread(slow, rows, rows * 0.99, Budget.parse("1%"), seed=0)
        assert calls[0] == 2 * draws
        assert low <= 0.01 <= high + 1e-12
    with pytest.raises(OutOfTime), Deadline(20, clock=lambda: now[0]).enforced():
        spread(slow, rows, rows, Budget.parse("1%"), seed=0)
