"""The verb: variants of any kind side by side, with inputs that fit all of them, and clear words where they do not."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sardonyx
from sardonyx.bench.accuracy import score_variants
from sardonyx.bench.inputs import examples, fitted, make_inputs, signature_of
from sardonyx.bench.latency import latency
from sardonyx.bench.lineup import line_up
from sardonyx.bench.variants._variant import How
from sardonyx.errors import BadData, InputError, NotFound, SardonyxError, UsageError
from sardonyx.model import Model
from sardonyx.signature import Signature

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
QUICK: dict[str, Any] = {"seconds": 0.05, "cold": False, "threads": 1}


def model(text: str) -> Model:
    return Model.from_text(f"{HEAD} g {text}")


DOUBLE = "(float[n,3] x) => (float[n,3] y) { y = Add(x, x) }"


@pytest.fixture
def double(tmp_path: Path) -> Path:
    return model(DOUBLE).save(tmp_path / "double.onnx")


def test_two_models_give_rows_and_one_ratio(double: Path) -> None:
    report = sardonyx.bench(double, double, **QUICK)
    assert report.ok
    assert report.verdict == "measured"
    first, second = report["variants"]
    assert (first["name"], second["name"]) == ("double.onnx", "double.onnx (2)")
    assert 0 < first["p50"] <= first["p95"] <= first["p99"]
    low, high = first["intervals"]["p50"]
    assert low <= first["p50"] <= high
    assert first["size"] == double.stat().st_size
    assert first["throughput"] > 0
    (ratio,) = report["ratios"]
    assert (ratio["of"], ratio["to"]) == ("double.onnx", "double.onnx (2)")
    assert ratio["low"] <= ratio["ratio"] <= ratio["high"]
    assert ratio["verdict"] in ("faster", "slower", "no-difference")


def test_more_work_is_slower() -> None:
    """Two hundred matrix products against two."""
    few, many = (_products(count) for count in (2, 200))
    report = sardonyx.bench({"many": many, "few": few}, batch=8, **QUICK)
    assert report["ratios"][0]["verdict"] == "faster"
    assert report["ratios"][0]["ratio"] > 5
    assert "few is" in report.summary
    assert "times faster than many" in report.summary


def test_ratios_and_rates_can_be_computed_again_from_the_numbers_beside_them() -> None:
    found = sardonyx.bench({"many": _products(40), "few": _products(2)}, batch=[1, 8], **QUICK).to_dict()
    rows = {(row["name"], row["batch"]): row for row in found["variants"]}
    for ratio in found["ratios"]:
        of, to = (rows[ratio[side], ratio["batch"]] for side in ("of", "to"))
        assert ratio["p50_ratio"] == pytest.approx(of["p50"] / to["p50"])
        assert ratio["low"] <= ratio["ratio"] <= ratio["high"]
        words = "faster" if ratio["low"] > 1 + found["margin"] else "slower" if ratio["high"] < 1 else "no-difference"
        assert ratio["verdict"] == words


# Counts to a number that takes for ever, or nearly so.
COUNTING = """(int64[1] times) => (float total) <bool go = {1}, float zero = {0}, float one = {1}> {
  total = Loop(times, go, zero) <body = count (int64 i, bool c, float before) => (bool again, float after) {
    again = Identity(c) after = Add(before, one)
  }>
}"""


@pytest.mark.heavy
def test_a_model_that_never_answers_is_ended_and_named() -> None:
    quick = model("(int64[1] times) => (float[1] total) { total = Cast<to = 1>(times) }")
    report = sardonyx.bench(
        {"quick": quick, "endless": model(COUNTING)}, data={"times": np.array([1 << 60])}, timeout=4, **QUICK
    )
    assert [row["name"] for row in report["variants"] if "p50" in row] == ["quick"]
    assert report.findings is not None
    (failed,) = (item for item in report.findings if item.code == "variant-failed")
    assert "endless gave no answer within 4 s" in failed.message


def test_a_model_that_is_too_slow_for_the_time_is_called_once_and_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock on which each look takes a fifth of a second."""
    now = iter(range(1 << 20))
    monkeypatch.setattr(time, "perf_counter", lambda: next(now) / 5)
    report = sardonyx.bench({"a": model(DOUBLE), "b": model(DOUBLE)}, seconds=0.1, cold=False, threads=1)
    monkeypatch.undo()
    assert [row["calls"] for row in report["variants"]] == [1, 1]
    assert report["ratios"] == []
    assert report.findings is not None
    (late,) = (item for item in report.findings if item.code == "out-of-time")
    assert "not compared" in late.message
    assert late.hint.startswith("give --seconds")


def _products(count: int) -> Model:
    body = " ".join(f"h{i + 1} = MatMul(h{i}, w)" for i in range(count))
    fill = "s = Constant<value = int64[2] {64, 64}>() w = ConstantOfShape(s)"
    return model(f"(float[n,64] h0) => (float[n,64] h{count}) {{ {fill} {body} }}")


def test_every_batch_size_has_its_rows_and_its_ratio(double: Path) -> None:
    report = sardonyx.bench(double, double, batch=[1, 4], **QUICK)
    assert [row["batch"] for row in report["variants"]] == [1, 1, 4, 4]
    assert [row["batch"] for row in report["ratios"]] == [1, 4]
    assert "batch 4" in report.to_text()


def test_a_start_in_a_fresh_process_has_its_time_and_memory(double: Path) -> None:
    report = sardonyx.bench(double, seconds=0.05)
    (row,) = report["variants"]
    assert row["cold_start"] > row["p50"]
    assert row["memory"] > 10 << 20
    assert "double.onnx: a call takes" in report.summary


def test_external_data_counts_for_the_size(tmp_path: Path) -> None:
    kept = model(
        "(float[n,3000] x) => (float[n,3000] y) <float[3000] w = {" + ",".join(["1.5"] * 3000) + "}> { y = Mul(x, w) }"
    )
    path = kept.save(tmp_path / "kept.onnx", external_data=True)
    whole = sum(item.stat().st_size for item in tmp_path.iterdir())
    assert whole > path.stat().st_size
    assert sardonyx.bench(path, **QUICK)["variants"][0]["size"] == whole


def test_a_bundle_stands_for_its_model(tmp_path: Path) -> None:
    model(DOUBLE).save(tmp_path / "model.onnx")
    (tmp_path / "bundle.json").write_text("{}")
    assert sardonyx.bench(tmp_path, **QUICK)["variants"][0]["p50"] > 0


def test_names_come_from_the_call(double: Path) -> None:
    other = double.parent / "deep" / "double.onnx"
    other.parent.mkdir()
    other.write_bytes(double.read_bytes())
    names = [entry.name for entry in line_up([f"fp32={double}", str(double), str(other)])]
    assert names == ["fp32", str(double), str(other)]


def test_a_file_with_an_equals_sign_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model(DOUBLE).save("a=b.onnx")
    (entry,) = line_up(["a=b.onnx"])
    assert (entry.name, entry.source) == ("a=b.onnx", "a=b.onnx")


def test_runtimes_are_named_by_prefix_and_by_pair(double: Path) -> None:
    entries = line_up([f"openvino:{double}", "torch-compile:file.py:factory", ("torch-compile", object())])
    assert [entry.runtime for entry in entries] == ["openvino", "torch_compile", "torch_compile"]
    assert entries[1].source == "file.py:factory"


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda _: sardonyx.bench(), UsageError, "nothing to measure"),
        (lambda _: sardonyx.bench("gone.onnx"), NotFound, "gone.onnx does not exist"),
        (lambda path: sardonyx.bench(path, seconds=0), UsageError, "cannot measure in 0 seconds"),
        (lambda path: sardonyx.bench(path, threads=0), UsageError, "0 threads"),
        (lambda path: sardonyx.bench(path, batch=0, **QUICK), UsageError, "a batch cannot hold 0"),
        (lambda path: sardonyx.bench(("abacus", path)), UsageError, "no runtime 'abacus'"),
        (lambda path: sardonyx.bench(path, plot="here.txt", **QUICK), SardonyxError, "cannot draw"),
        (lambda path: sardonyx.bench(path, data={"y": np.ones((2, 3))}, **QUICK), BadData, "no such input"),
        (lambda path: sardonyx.bench(path, data={"x": np.ones((2, 3))}, batch=4, **QUICK), BadData, "fewer than a batch of 4"),
        (lambda path: sardonyx.bench(path, model(DOUBLE.replace("3]", "4]")), **QUICK), InputError, "do not go into"),
        (lambda path: sardonyx.bench(path, model("(float[n] a, float[n] b) => (float[n] y) { y = Add(a, b) }"), **QUICK),
         InputError, "the inputs differ"),
        (lambda _: sardonyx.bench(model(DOUBLE.replace("n,", "2,")), batch=8, **QUICK), UsageError, "fixed at 2"),
    ],
)  # fmt: skip
def test_bad_input_is_named(double: Path, call: Any, error: type[SardonyxError], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        call(double)
    assert caught.value.hint


def test_a_variant_that_fails_has_its_reason_and_the_others_are_measured(double: Path) -> None:
    broken = model("(float[n,3] x) => (float[m,k] y) { s = Constant<value = int64[1] {7}>() y = Reshape(x, s) }")
    report = sardonyx.bench({"good": double, "broken": broken}, **QUICK)
    assert report.ok
    assert [row["name"] for row in report["variants"]] == ["good", "broken"]
    assert "Reshape" in report["variants"][1]["reason"]
    assert report["findings"][0]["code"] == "variant-failed"
    with pytest.raises(SardonyxError, match="Reshape"):
        sardonyx.bench(broken, double, **QUICK)


def test_data_gives_the_first_batch() -> None:
    signature = Signature.parse(["x=float32[n,2]"])
    rows = np.arange(20, dtype=np.float32).reshape(10, 2)
    found = make_inputs(signature, batch=4, data={"x": rows})
    assert np.array_equal(found["x"], rows[:4])
    assert examples(found) == 4


def test_inputs_of_other_names_and_widths_are_matched_in_order() -> None:
    half = Signature.parse(["a=float16[n,2]"])
    found = fitted("half", half, {"x": np.array([[0.1, 0.2]], np.float32)})
    assert found["a"].dtype == np.float16


def test_no_signature_asks_for_the_inputs() -> None:
    with pytest.raises(UsageError, match="none of the variants says"):
        signature_of({}, ())
    assert signature_of({}, ["x=float32[2]"]).input_names == ["x"]


def test_percentiles_have_intervals_that_hold_them() -> None:
    calls = np.random.default_rng(0).lognormal(-7, 0.3, 50_000)
    found = latency(calls, 8)
    assert found["throughput"] == pytest.approx(8 / calls.mean())
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        low, high = found["intervals"][name]
        assert found[name] == pytest.approx(np.quantile(calls, share))
        assert low <= found[name] <= high
        assert high / low < 1.1
    assert latency(np.array([0.5]), 1)["p99"] == 0.5


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_plot_is_a_picture(double: Path, suffix: str) -> None:
    target = double.with_suffix(suffix)
    sardonyx.bench(double, double, batch=[1, 2], plot=target, **QUICK)
    start = target.read_bytes()[:64]
    assert start.startswith(b"\x89PNG") if suffix == ".png" else b"<?xml" in start


FACTORY = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        return torch.relu(self.layer(x))
"""


@pytest.mark.heavy
def test_pytorch_from_a_file_is_measured_beside_onnx(double: Path) -> None:
    (double.parent / "net.py").write_text(FACTORY)
    report = sardonyx.bench(double, f"{double.parent}/net.py:Net", seconds=0.1, threads=1, batch=2)
    row = report["variants"][1]
    assert row["name"] == "net.py:Net"
    assert row["p50"] > 0
    assert row["memory"] > 50 << 20
    assert row["size"] is None


@pytest.mark.heavy
def test_a_live_module_is_measured_and_leaves_its_threads_alone() -> None:
    import torch

    before = torch.get_num_threads()
    report = sardonyx.bench({"eager": torch.nn.Linear(3, 3)}, inputs=["x=float32[n,3]"], **QUICK)
    assert report["variants"][0]["p50"] > 0
    assert torch.get_num_threads() == before


@pytest.mark.heavy
@pytest.mark.rest
def test_torch_compile_is_a_variant_or_says_what_it_needs(double: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (double.parent / "net.py").write_text(FACTORY)
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(double.parent / "cache"))
    report = sardonyx.bench(double, f"torch-compile:{double.parent}/net.py:Net", **QUICK)
    assert "compiler" in report["variants"][1]["reason"]


@pytest.mark.heavy
def test_a_scikit_learn_estimator_is_a_variant() -> None:
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression

    fitted_one = LogisticRegression(max_iter=500).fit(*load_iris(return_X_y=True))
    report = sardonyx.bench(fitted_one, batch=8, **QUICK)
    assert report["variants"][0]["name"] == "LogisticRegression"
    assert report["variants"][0]["batch"] == 8


@pytest.mark.heavy
def test_openvino_is_a_variant(double: Path) -> None:
    report = sardonyx.bench(double, f"openvino:{double}", seconds=0.1, threads=1)
    assert report["variants"][1]["cold_start"] > 0
    assert report["ratios"][0]["to"] == "openvino:double.onnx"


@pytest.mark.heavy
@pytest.mark.rest
def test_tflite_is_a_variant() -> None:
    import real

    folder = real.path("basic_pitch/saved_models/icassp_2022")
    report = sardonyx.bench(folder / "nmp.onnx", folder / "nmp.tflite", **QUICK)
    assert report["variants"][1]["p50"] > 0
    assert report["variants"][1]["size"] == (folder / "nmp.tflite").stat().st_size


CLASSES = "(float[n,3] x) => (float[n,3] y) { y = Identity(x) }"
LOOKED_UP = (
    "(string[n] word) => (int64[n] label) "
    '{ label = ai.onnx.ml.LabelEncoder<keys_strings = ["a", "b"], values_int64s = [1, 2]>(word) }'
)


def labelled(**changes: Any) -> dict[str, Any]:
    scores = np.eye(3, dtype=np.float32)[np.arange(40) % 3]
    return {"x": scores, "label": np.arange(40) % 3, **changes}


def test_labels_give_an_accuracy_to_every_variant() -> None:
    wrong = labelled(label=np.where(np.arange(40) < 10, 9, np.arange(40) % 3))
    report = sardonyx.bench(
        {"right": model(CLASSES), "negative": model(CLASSES.replace("Identity", "Neg"))}, data=wrong, **QUICK
    )
    assert [row["accuracy"] for row in report["variants"]] == [0.75, 0.0]
    assert (report["metric"], report["judged"]) == ("accuracy", 40)
    assert "accuracy" in report.to_text()
    assert not report.findings


def test_labels_of_another_name_are_found_and_numbers_are_judged_by_their_error() -> None:
    data = {"x": np.ones((8, 3), np.float32), "y": np.ones((8, 3)) * 3}
    report = sardonyx.bench(model(DOUBLE), data=data, label="y", **QUICK)
    assert report["variants"][0]["rmse"] == pytest.approx(1.0)
    with pytest.raises(BadData) as caught:
        sardonyx.bench(model(DOUBLE), data=data, **QUICK)
    assert "--label y" in caught.value.hint


def test_without_labels_there_is_no_such_column() -> None:
    report = sardonyx.bench(model(DOUBLE), data={"x": np.ones((2, 3))}, **QUICK)
    assert "accuracy" not in report["variants"][0]
    assert "metric" not in report.to_dict()


def test_answers_that_do_not_fit_the_labels_are_said_and_the_times_stay() -> None:
    report = sardonyx.bench(model(CLASSES), data=labelled(label=np.array(["a", "b"] * 20)), **QUICK)
    assert report["variants"][0]["accuracy"] is None
    assert report["variants"][0]["p50"] > 0
    (finding,) = report.findings
    assert finding.code == "not-judged"
    assert "labels of <U1" in finding.message


def test_a_slow_variant_is_judged_on_fewer_examples() -> None:
    slow = model("(float[n,3] x) => (float[n,3] y) { y = Identity(x) }")
    rows = [{"p50": 1.0, "batch": 1}]
    with line_up([slow])[0].opened(How(threads=1)) as variant:
        scores = score_variants({"slow": variant}, slow.signature, labelled(), rows, seconds=2)
    assert scores.examples == 32, "one batch, which is the least"
    assert scores.values == {"slow": 1.0}


@pytest.mark.parametrize("cold", [False, pytest.param(True, marks=pytest.mark.heavy)])
def test_models_of_text_are_measured_and_judged(tmp_path: Path, cold: bool) -> None:
    head = '<ir_version: 10, opset_import: ["": 20, "ai.onnx.ml": 4]> g '
    path = Model.from_text(head + LOOKED_UP).save(tmp_path / "words.onnx")
    (tmp_path / "words.csv").write_text("word,label\na,1\nb,2\na,2\nb,2\n")
    report = sardonyx.bench(path, data=tmp_path / "words.csv", seconds=0.05, threads=1, cold=cold)
    assert report["variants"][0]["accuracy"] == 0.75
    assert sardonyx.bench(path, seconds=0.05, threads=1, cold=cold)["variants"][0]["p50"] > 0
    if cold:
        assert report["variants"][0]["cold_start"] > 0


@pytest.mark.heavy
def test_frameworks_are_judged_beside_their_exports(tmp_path: Path) -> None:
    from sklearn.linear_model import LogisticRegression

    random = np.random.default_rng(0)
    rows = random.normal(size=(60, 2))
    words = np.where(rows[:, 0] > 0, "yes", "no")
    estimator = LogisticRegression().fit(rows, words)
    sardonyx.convert(estimator, tmp_path / "m.onnx")
    data = {"X": rows, "label": words}
    report = sardonyx.bench({"sklearn": estimator, "onnx": tmp_path / "m.onnx"}, data=data, **QUICK)
    first, second = (row["accuracy"] for row in report["variants"])
    assert first == second == pytest.approx(estimator.score(rows, words))


@pytest.mark.heavy
@pytest.mark.rest
def test_openvino_is_judged_as_well(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    path = model(CLASSES).save(tmp_path / "m.onnx")
    report = sardonyx.bench(path, f"openvino:{path}", data=labelled(), **QUICK)
    assert [row["accuracy"] for row in report["variants"]] == [1.0, 1.0]
