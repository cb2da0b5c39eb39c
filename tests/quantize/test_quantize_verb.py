from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

import faulty_runtime
import quantizing
import real
import sardonyx
from sardonyx import machine, registry
from sardonyx.deadline import Deadline
from sardonyx.errors import BadData, InputError, NotFound, SardonyxError, UsageError
from sardonyx.model import Model
from sardonyx.quantize import split
from sardonyx.quantize.prepare import prepared
from sardonyx.quantize.schemes import bf16
from sardonyx.quantize.search import SCHEMES
from sardonyx.quantize.subject import Subject, Variant
from sardonyx.quantize.verb import quantize_model
from sardonyx.report import Report
from sardonyx.run.session import Session, Settings, stored_level
from sardonyx.samples import Batch

IMAGES = {"x": quantizing.images(40)}


@pytest.fixture
def network(tmp_path: Path) -> Path:
    return quantizing.network().save(tmp_path / "network.onnx")


def labelled(count: int = 40) -> dict[str, np.ndarray]:
    images = quantizing.images(count)
    scores = Session(quantizing.network(), Settings(threads=1))({"x": images})["y"]
    return {"x": images, "label": scores.argmax(1)}


def quantized(source: Path, output: Path, *, seconds: float = 1, **options: Any) -> Report:
    """The verb with little time to measure in, and enough on any machine for everything else."""
    given: dict[str, Any] = {
        "metric": "auto", "budget": "1%", "scheme": "auto", "calibrator": "auto", "batch": 1, "threads": None,
        "plot_file": None, "seed": 0,
    }  # fmt: skip
    return quantize_model(source, output, **{**given, **options}, limit=Deadline(240), measuring=seconds)


def test_a_tiny_network_keeps_float_byte_by_byte_or_passes_both_sides(network: Path, tmp_path: Path) -> None:
    report = quantized(network, tmp_path / "q.onnx", data=labelled(), scheme="dynamic")
    assert report.ok
    assert report["metric"]["name"] == "accuracy"
    assert report["metric"]["before"] == 1
    if report.verdict == "kept-float":
        assert (tmp_path / "q.onnx").read_bytes() == network.read_bytes()
        assert {item["node"] for item in report["reverted"]} == {"first", "depthwise", "last"}
        assert all(item["reason"] for item in report["reverted"])
    else:
        assert report["speedup"]["low"] > 1
        assert report["metric"]["loss"] <= 0.01


@pytest.mark.heavy
def test_wide_products_are_quantised_and_the_result_runs(tmp_path: Path) -> None:
    source = quantizing.perceptron(512, 4).save(tmp_path / "float.onnx")
    data = quantizing.rows(64, 512)
    report = quantized(
        source, tmp_path / "q.onnx", data=data, budget="5%", scheme="static_u8s8", seconds=12, batch=32, threads=1,
        plot_file=tmp_path / "tried.png",
    )  # fmt: skip
    assert report["metric"]["against"] == "float"
    assert [finding.code for finding in report.findings or ()][:1] == ["no-labels"]
    assert (tmp_path / "tried.png").read_bytes().startswith(b"\x89PNG")
    real, found = (Session(path)(data)["y"] for path in (source, tmp_path / "q.onnx"))
    assert (real * found).sum() / np.linalg.norm(real) / np.linalg.norm(found) > 0.95
    if report.verdict == "quantized":  # speed is this machine's to decide
        assert (tmp_path / "q.onnx").stat().st_size < 0.3 * source.stat().st_size
        assert report["scheme"] == "static_u8s8"
        assert Model.load(tmp_path / "q.onnx").history[-1].verb == "quantize"
        with pytest.raises(InputError, match="already quantised"):
            sardonyx.quantize(tmp_path / "q.onnx", tmp_path / "again.onnx", data=data)


def test_a_model_without_products_is_kept_and_the_report_says_why(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["": 18]> g (float[n,3] x) => (float[n,3] y) { y = Relu(x) }"""
    source = Model.from_text(text).save(tmp_path / "m.onnx")
    report = sardonyx.quantize(source, tmp_path / "q.onnx", data={"x": np.zeros((20, 3), np.float32)})
    assert (report.verdict, report.ok) == ("kept-float", True)
    assert "no Conv, MatMul or Gemm" in report.summary
    assert (tmp_path / "q.onnx").read_bytes() == source.read_bytes()


WRONG: dict[str, tuple[dict, type[SardonyxError], str]] = {
    "a wrong name": ({"data": {"z": IMAGES["x"]}}, BadData, "no such input"),
    "a wrong shape": ({"data": {"x": np.zeros((40, 3, 4, 4), np.float32)}}, BadData, "shape"),
    "a wrong type": ({"data": {"x": np.zeros((40, 3, 8, 8), np.int64)}}, BadData, "type int64"),
    "too few": ({"data": {"x": IMAGES["x"][:7]}}, BadData, "at least 8"),
    "no data": ({"data": "gone.npz"}, NotFound, "gone.npz"),
    "no labels": ({"data": IMAGES, "metric": "accuracy"}, BadData, "needs labels"),
    "an unknown metric": ({"data": IMAGES, "metric": "beauty"}, UsageError, "beauty"),
    "an unknown scheme": ({"data": IMAGES, "scheme": "int3"}, UsageError, "int3"),
    "an unknown calibrator": ({"data": IMAGES, "calibrator": "moon"}, UsageError, "moon"),
    "a budget that is none": ({"data": IMAGES, "budget": "little"}, UsageError, "little"),
    "no time": ({"data": IMAGES, "time": 0}, UsageError, "seconds"),
    "labels of another shape": (
        {"data": {**IMAGES, "label": np.zeros((40, 3), np.int64)}}, BadData, "labels have shape",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_bad_input_is_named_and_nothing_is_written(network: Path, tmp_path: Path, case: str) -> None:
    options, error, words = WRONG[case]
    with pytest.raises(error, match=words):
        sardonyx.quantize(network, tmp_path / "q.onnx", **options)
    assert {path.name for path in tmp_path.iterdir()} == {"network.onnx"}


def test_the_two_parts_never_overlap_and_follow_the_seed() -> None:
    signature = quantizing.network().signature
    data = {"x": quantizing.images(300)}

    def parts(seed: int) -> tuple[set[bytes], set[bytes]]:
        opened = split.opened(data, signature, seed=seed)
        each = [
            {row.tobytes() for batch in part for row in batch.inputs["x"]}
            for part in (opened.calibration, opened.held_out)
        ]
        return each[0], each[1]

    first, second = parts(0)
    assert not first & second
    assert len(first | second) == 300
    assert parts(0) == (first, second)
    assert parts(1) != (first, second)


def test_fewer_held_out_examples_are_drawn_from_all_of_them_and_one_batch_is_left() -> None:
    opened = split.opened({"x": quantizing.images(400)}, quantizing.network().signature, seed=0)
    fewer = opened.judged_by(40, seed=0)
    assert fewer.held_out_examples == 40
    assert fewer.held_out.chosen < opened.held_out.chosen
    assert max(fewer.held_out.chosen) > 25
    assert fewer == opened.judged_by(40, seed=0)
    assert opened.judged_by(1, seed=0).held_out_examples == split.BATCH
    assert opened.judged_by(10_000, seed=0).held_out_examples == opened.held_out_examples


def test_data_that_takes_too_long_to_read_is_used_as_far_as_it_was_read() -> None:
    now = [0.0]

    def batches() -> Iterator[dict[str, np.ndarray]]:
        for _ in range(1000):
            now[0] += 1
            yield {"x": quantizing.images(8)}

    opened = split.opened(batches, quantizing.network().signature, seed=0, limit=Deadline(10, clock=lambda: now[0]))
    assert opened.cut
    assert opened.examples == 80
    assert not split.opened({"x": quantizing.images(40)}, quantizing.network().signature, seed=0).cut


def test_batches_of_a_function_are_split_too() -> None:
    def batches():
        for index in range(6):
            yield {"x": quantizing.images(40)[index * 4 : index * 4 + 3]}

    opened = split.opened(batches, quantizing.network().signature, seed=0)
    assert (opened.examples, opened.held_out_examples) == (18, 9)


@pytest.mark.parametrize("scheme", registry.names(SCHEMES))
def test_every_scheme_gives_models_that_run_and_are_near_or_says_why_not(scheme: str) -> None:
    model = prepared(quantizing.network(channels=32))
    images = quantizing.images()
    subject = Subject(model, [Batch({"x": images})], Settings(threads=1), vnni=False)
    module = registry.load(SCHEMES, scheme)
    refusal = getattr(module, "refusal", lambda _: None)(subject)
    if refusal is not None:
        assert "no " in refusal
        return
    real = Session(model, Settings(threads=1))({"x": images})["y"]
    for variant in module.variants(subject):
        found = Session(variant.model, Settings(threads=1))({"x": images})["y"]
        assert (real * found).sum() / np.linalg.norm(real) / np.linalg.norm(found) > 0.98, variant.name
        assert variant.scheme == scheme


@pytest.mark.parametrize("scheme", ["static_u8s8", "dynamic"])
def test_weights_are_spread_wider_with_vnni_and_near_by_exact_arithmetic_either_way(scheme: str) -> None:
    """onnxruntime's integer kernels saturate or not as the CPU has it, so none of them is asked."""
    model, rows = prepared(quantizing.perceptron(32, 2)), quantizing.rows(32, 32)
    real, largest = _exact(model, rows), {}
    for vnni in (False, True):
        subject = Subject(model, [Batch(rows)], Settings(threads=1), vnni=vnni)
        for variant in registry.load(SCHEMES, scheme).variants(subject):
            found = _exact(variant.model, rows)
            assert (real * found).sum() / np.linalg.norm(real) / np.linalg.norm(found) > 0.99, (variant.name, vnni)
            weights = [onnx.numpy_helper.to_array(item) for item in variant.model.to_proto().graph.initializer]
            integers = [item.astype(int) for item in weights if item.dtype == np.int8 and item.ndim == 2]
            largest[vnni] = max(np.abs(item[::2] + item[1::2]).max() for item in integers)
    assert largest[False] <= 128 < largest[True]


def _exact(model: Model, rows: dict[str, np.ndarray]) -> np.ndarray:
    """The output by floats where integers stand between casts, else by ONNX's own reference."""
    if any(node.op_type == "MatMulInteger" for node in model.ir.graph):
        return ReferenceEvaluator(model.to_proto()).run(None, rows)[0]
    return Session(model, Settings(threads=1, optimize=False))(rows)["y"]


@pytest.mark.parametrize("scheme", ["weight_int4", "weight_int8"])
def test_weight_only_reaches_a_gemm(scheme: str) -> None:
    subject = Subject(prepared(quantizing.network(channels=32)), [], Settings(threads=1))
    (variant,) = registry.load(SCHEMES, scheme).variants(subject)
    assert [node.op_type for node in variant.model.ir.graph].count("MatMulNBits") == 1


def test_dynamic_weights_come_closer_than_its_tool_brings_them_and_overflow_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sardonyx.quantize.schemes import dynamic

    model, rows = prepared(quantizing.perceptron(128, 3)), quantizing.rows(32, 128)
    subject = Subject(model, [Batch(rows)], Settings(threads=1), vnni=False)
    real = Session(model)(rows)["y"]

    def away() -> float:
        [variant] = dynamic.variants(subject)
        found, exact = (Session(variant.model, Settings(threads=1, optimize=on))(rows)["y"] for on in (True, False))
        assert np.abs(found - exact).max() < 1e-3 * np.abs(exact).max()
        return float(np.linalg.norm(found - real))

    closer = away()
    monkeypatch.setattr(dynamic, "_bring_closer", lambda *_: None)
    assert closer < 0.9 * away()


def test_dynamic_leaves_no_trace_of_its_tools(capfd: pytest.CaptureFixture[str]) -> None:
    subject = Subject(prepared(quantizing.network()), [], Settings(threads=1))
    (variant,) = registry.load(SCHEMES, "dynamic").variants(subject)
    assert not [key for key in variant.model.ir.metadata_props if key.startswith("onnx.quant.")]
    assert capfd.readouterr().err == ""


def test_bfloat16_is_a_valid_graph_even_where_no_cpu_runs_it() -> None:
    model = prepared(quantizing.network())
    narrow = bf16.narrowed(model, bf16.PRODUCTS)
    assert [node.op_type for node in narrow.ir.graph].count("Cast") == 4
    onnx.checker.check_model(narrow.to_proto(), full_check=True)
    assert narrow.signature == model.signature


@pytest.mark.parametrize("operator", bf16.PRODUCTS)
def test_a_kernel_is_known_by_running_it(operator: str) -> None:
    assert bf16.runs(operator, kind=ir.DataType.FLOAT)
    assert not bf16.runs(operator, kind=ir.DataType.INT8)


@pytest.mark.parametrize(
    ("kernels", "casts"), [((), None), (("MatMul",), None), (("Gemm",), 4), (("Gemm", "MatMul"), 4)]
)
@pytest.mark.parametrize("instructions", [True, False])
def test_bfloat16_is_tried_where_onnxruntime_has_the_kernel_whatever_the_cpu_has(
    monkeypatch: pytest.MonkeyPatch, kernels: tuple[str, ...], casts: int | None, instructions: bool
) -> None:
    monkeypatch.setattr(machine, "features", lambda: {"AMX BF16": instructions})
    monkeypatch.setattr(bf16, "runs", lambda operator, _: operator in kernels)
    subject = Subject(prepared(quantizing.network()), [], Settings(threads=1))
    if casts is None:
        assert bf16.refusal(subject) == "no bfloat16 kernel for Gemm in onnxruntime on this CPU"
        return
    assert bf16.refusal(subject) is None
    (variant,) = bf16.variants(subject)
    assert [node.op_type for node in variant.model.ir.graph].count("Cast") == casts


def test_a_tool_that_breaks_the_model_is_a_scheme_that_failed_and_not_the_users_fault(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onnxruntime.transformers import float16

    def broken(proto: onnx.ModelProto, **_: object) -> onnx.ModelProto:
        proto.graph.node[0].output[0] = proto.graph.node[-1].output[0]
        return proto

    monkeypatch.setattr(float16, "convert_float_to_float16", broken)
    report = quantized(network, tmp_path / "q.onnx", data=IMAGES, scheme="fp16")
    assert (report.verdict, report.ok) == ("kept-float", True)
    assert "float16 converter gave a broken model" in report["candidates"][0]["reason"]
    assert (tmp_path / "q.onnx").read_bytes() == network.read_bytes()


@pytest.mark.heavy
@pytest.mark.parametrize(
    "file", ["magika/models/standard_v3_3/model.onnx", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx"]
)
def test_half_precision_of_a_real_model_with_shared_constants_loads(file: str) -> None:
    subject = Subject(prepared(Model.load(real.path(file))), [], Settings(threads=1))
    (variant,) = registry.load(SCHEMES, "fp16").variants(subject)
    Session(variant.model, Settings(threads=1))


def test_a_kept_node_tells_what_became_of_the_fastest_try_with_it(network: Path, tmp_path: Path) -> None:
    options = {"data": IMAGES, "budget": "0", "metric": "cosine"}
    report = quantized(network, tmp_path / "q.onnx", scheme="static_s8s8", **options)
    assert report.verdict == "kept-float"
    assert {item["reason"] for item in report["reverted"]} == {"accuracy"}


@pytest.mark.heavy
def test_a_real_forest_is_kept_with_the_reason(tmp_path: Path) -> None:
    from skl2onnx import to_onnx
    from sklearn.datasets import load_iris
    from sklearn.ensemble import RandomForestClassifier

    flowers, label = load_iris(return_X_y=True)
    forest = RandomForestClassifier(10, random_state=0).fit(flowers, label)
    source = tmp_path / "forest.onnx"
    source.write_bytes(to_onnx(forest, flowers[:1].astype(np.float32), target_opset=18).SerializeToString())
    data = {"X": flowers.astype(np.float32), "label": label}
    report = sardonyx.quantize(source, tmp_path / "q.onnx", data=data)
    assert (report.verdict, report.ok) == ("kept-float", True)
    assert "TreeEnsembleClassifier" in report.summary
    assert (tmp_path / "q.onnx").read_bytes() == source.read_bytes()


def _found(proto: onnx.ModelProto) -> None:
    """Adds the scores above a half, of which there are more or fewer as rounding has it."""
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(0.5), "half"))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.int64([-1]), "flat"))
    proto.graph.node.append(onnx.helper.make_node("Greater", ["y", "half"], ["above"]))
    proto.graph.node.append(onnx.helper.make_node("Reshape", ["above", "flat"], ["each"]))
    proto.graph.node.append(onnx.helper.make_node("Compress", ["y", "each"], ["found"]))
    proto.graph.output.append(onnx.helper.make_tensor_value_info("found", onnx.TensorProto.FLOAT, ["k"]))


def _parts(proto: onnx.ModelProto) -> None:
    """Adds the rows of the scores as a sequence."""
    proto.graph.node.append(onnx.helper.make_node("SplitToSequence", ["y"], ["parts"]))
    kind = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
    proto.graph.output.append(onnx.helper.make_value_info("parts", onnx.helper.make_sequence_type_proto(kind)))


def _endless(proto: onnx.ModelProto) -> None:
    """Adds an output that is counted for ever."""
    body = onnx.parser.parse_graph(
        "count (int64 i, bool c, float before) => (bool again, float after) { again = Identity(c) after = Add(before, before) }"
    )
    for name, value in (("times", np.int64(1 << 60)), ("go", np.array(True)), ("none", np.float32(0))):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    proto.graph.node.append(onnx.helper.make_node("Loop", ["times", "go", "none"], ["total"], body=body))
    proto.graph.output.append(onnx.helper.make_tensor_value_info("total", onnx.TensorProto.FLOAT, []))


@pytest.mark.heavy
def test_a_model_that_takes_longer_than_the_time_is_kept_and_the_report_says_so(tmp_path: Path) -> None:
    proto = quantizing.network().to_proto()
    _endless(proto)
    onnx.save(proto, tmp_path / "endless.onnx")
    report = sardonyx.quantize(tmp_path / "endless.onnx", tmp_path / "q.onnx", data=IMAGES, time=3)
    assert (report.verdict, report.ok) == ("kept-float", True)
    assert (tmp_path / "q.onnx").read_bytes() == (tmp_path / "endless.onnx").read_bytes()
    assert [finding.code for finding in report.findings or ()] == ["out-of-time"]
    assert "3 s are too few to try anything" in report.summary
    assert (report["time"], report["candidates"]) == (3, [])


@pytest.mark.rest
@pytest.mark.heavy
def test_a_scheme_without_end_is_ended_and_what_it_gave_counts(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Endless:
        @staticmethod
        def variants(subject: Subject) -> Iterator[Variant]:
            for number in itertools.count():
                yield Variant(f"copy {number}", "dynamic", subject.model)

    loaded = registry.load
    monkeypatch.setattr(
        registry, "load", lambda package, name: Endless if package == SCHEMES else loaded(package, name)
    )
    report = sardonyx.quantize(network, tmp_path / "q.onnx", data=labelled(), scheme="dynamic", time=15)
    names = [item["name"] for item in report["candidates"]]
    assert names[0] == "copy 0"
    assert names[-1] == "dynamic, the rest"
    assert report["candidates"][-1]["reason"] == "not tried: time ran out"
    assert any(finding.code == "out-of-time" for finding in report.findings or ())


def test_a_loss_can_be_computed_again_from_the_numbers_beside_it(network: Path, tmp_path: Path) -> None:
    for budget in ("1%", "0.5"):
        report = quantized(network, tmp_path / "q.onnx", data=labelled(), scheme="static_s8s8", budget=budget)
        for item in (item for item in report["candidates"] if item["loss"] is not None):
            lost = item["before"] - item["metric"]
            assert item["loss"] == pytest.approx(lost / item["before"] if budget == "1%" else lost)
            assert item["data"] == ("held-out" if item["verdict"] == "passed" else item["data"])
        told = report["metric"]
        lost = told["before"] - told["after"]
        assert told["loss"] == pytest.approx(lost / told["before"] if budget == "1%" else lost)


@pytest.mark.parametrize("add", [_found, _parts])
@pytest.mark.parametrize("scheme", ["static_u8s8", "weight_int8"])
def test_outputs_that_cannot_be_told_apart_by_distance_do_no_harm(tmp_path: Path, add: object, scheme: str) -> None:
    proto = quantizing.network().to_proto()
    add(proto)  # type: ignore[operator]
    onnx.save(proto, tmp_path / "two.onnx")
    report = quantized(tmp_path / "two.onnx", tmp_path / "q.onnx", data=labelled(), scheme=scheme)
    assert report.ok
    assert report.verdict in ("kept-float", "quantized")
    assert any(candidate["loss"] is not None for candidate in report["candidates"])


def test_a_float_model_that_the_runtime_breaks_is_judged_by_its_right_answers(tmp_path: Path) -> None:
    path = faulty_runtime.save(tmp_path, faulty_runtime.ROWS)
    rows = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    report = quantized(path, tmp_path / "out.onnx", data={"x": rows}, scheme="static_u8u8")
    (finding,) = [item for item in report["findings"] if item["code"] == "runtime-optimizer"]
    assert "ORT_ENABLE_BASIC" in finding["hint"]
    if report.verdict == "quantized":
        exact, found = (
            Session(file, Settings(optimize=False))({"x": rows})["y"] for file in (path, tmp_path / "out.onnx")
        )
        # Of half of the answers: a row outside the calibrated range is cut off, which is no fault of the judging.
        assert np.median(np.abs(exact - found)) < 0.1 * np.median(np.abs(exact))
        assert stored_level(Model.load(tmp_path / "out.onnx")) == "basic"
