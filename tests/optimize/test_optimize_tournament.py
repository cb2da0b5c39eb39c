"""The tournament keeps what is equal and not slower, and puts out the rest with a reason."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

import faulty_runtime
import sardonyx
from sardonyx.child import Outcome
from sardonyx.compare import optimizer
from sardonyx.deadline import Deadline
from sardonyx.errors import BadData, UsageError
from sardonyx.history import step
from sardonyx.model import Model
from sardonyx.optimize import making, tournament
from sardonyx.optimize.candidates import _form, onnxruntime_extended
from sardonyx.optimize.candidates._form import Way
from sardonyx.optimize.candidates.onnxsim import make as onnxsim
from sardonyx.optimize.candidates.sardonyx import make as ours
from sardonyx.optimize.candidates.sardonyx_unrounded import make as unrounded
from sardonyx.optimize.gate import Gate
from sardonyx.report import Report
from sardonyx.run.session import Session, Settings, store_level, stored_level
from sardonyx.signature import Array, Arrays

HEAD = '<ir_version: 8, opset_import: ["": 18]>'
WEIGHTS = ", ".join(str((i * 7 % 11) / 5 - 1) for i in range(64 * 64))
WORK = f"""{HEAD} g (float[n,64] x) => (float[n,64] y) <float[64,64] w = {{{WEIGHTS}}}> {{
  k = Constant<value_float = 1.0>() p = Mul(x, k) a = MatMul(p, w) b = Transpose(a) c = Transpose(b) y = Tanh(c)
}}"""


Change = Callable[[Model], None]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    model = Model.from_text(WORK)
    model.ir.metadata_props["labels"] = "cat,dog"
    return model.record(step("convert")).save(tmp_path / "in.onnx")


def way(name: str, change: Change, *, level: str = "portable") -> Way:
    """A candidate that applies `change` to the input."""

    def make(source: Path, target: Path) -> list[object]:
        model = Model.load(source)
        change(model)
        model.save(target)
        return []

    return Way(name, make, None, level, in_child=False)  # type: ignore[arg-type]


def held(source: Path | Model, output: Path, *, seconds: float = 120, **options: object) -> Report:
    """A tournament that measures for a moment, and has time enough for the rest on any machine."""
    given: dict[str, Any] = {
        "level": "portable", "shapes": {}, "explain": False, "tune": False, "data": None, "measuring": 0.2, "seed": 0,
    }  # fmt: skip
    return tournament.hold(source, output, limit=Deadline(seconds), **{**given, **options})


@pytest.fixture
def compete(source: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Report]:
    """Holds a tournament among the given candidates alone."""

    def hold(*ways: Way, **options: object) -> Report:
        monkeypatch.setattr(tournament, "ways", lambda _: list(ways))
        return held(source, source.with_name("out.onnx"), **options)  # type: ignore[arg-type]

    return hold


def outcome(report: Report, name: str) -> tuple[str, str]:
    (found,) = (item for item in report["candidates"] if item["name"] == name)
    return found["verdict"], found["reason"]


def double_a_weight(model: Model) -> None:
    value = next(iter(model.ir.graph.initializers.values()))
    assert value.const_value is not None
    array = value.const_value.numpy().copy()
    array[3, 5] *= 1.001
    value.const_value = ir.Tensor(array, name=value.name)


def bake_the_batch(model: Model) -> None:
    first = next(iter(model.ir.graph))
    shape = ir.Value(name="shape", const_value=ir.Tensor(np.array([1, 64]), name="shape"))
    model.ir.graph.register_initializer(shape)
    reshape = ir.node("Reshape", [model.ir.graph.inputs[0], shape])
    reshape.outputs[0].name = "baked"
    model.ir.graph.insert_before(first, reshape)
    consumer = next(node for node in model.ir.graph if node.op_type == "Mul")
    consumer.replace_input_with(0, reshape.outputs[0])


def declare_a_batch_of_one(model: Model) -> None:
    model.ir.graph.inputs[0].shape = ir.Shape([1, 64])


def rename_the_output(model: Model) -> None:
    model.ir.graph.outputs[0].name = "other"


def use_an_operator_of_onnxruntime(model: Model) -> None:
    model.ir.opset_imports["com.microsoft"] = 1
    last = model.ir.graph.outputs[0].producer()
    assert last is not None
    gelu = ir.node("Gelu", [last.inputs[0]], domain="com.microsoft")
    model.ir.graph.insert_before(last, gelu)
    gelu.outputs[0].name = "unused_gelu"


def work_in_vain(model: Model) -> None:
    """Slower, by products that are multiplied by zero and added."""
    graph = model.ir.graph
    (last,) = (node for node in graph if node.op_type == "Tanh")
    zero = ir.Value(name="zero", const_value=ir.Tensor(np.zeros((), np.float32), name="zero"))
    graph.register_initializer(zero)
    value = last.inputs[0]
    made = []
    for operands in [("MatMul", graph.initializers["w"]), ("Tanh", None)] * 60 + [("Mul", zero), ("Add", value)]:
        given = made[-1].outputs[0] if made else value
        made.append(ir.node(operands[0], [given, operands[1]] if operands[1] is not None else [given]))
        made[-1].outputs[0].name = f"vain_{len(made)}"
    graph.insert_before(last, made)
    last.replace_input_with(0, made[-1].outputs[0])


def fail(_: Model) -> None:
    raise ValueError("no such luck")


OUT = {
    "wrong numbers": (double_a_weight, "wrong", "where"),
    "a batch baked into the graph": (bake_the_batch, "wrong", "a batch of 3"),
    "a batch baked into the interface": (declare_a_batch_of_one, "refused", "it fixes x[n,64] to [1,64]"),
    "another output": (rename_the_output, "refused", "its outputs are other, not y"),
    "operators of one runtime": (use_an_operator_of_onnxruntime, "refused", "com.microsoft"),
    "an error": (fail, "refused", "ValueError: no such luck"),
}


@pytest.mark.parametrize("fault", OUT)
def test_a_faulty_candidate_is_put_out_with_the_reason(fault: str, compete: Callable[..., Report]) -> None:
    change, verdict, words = OUT[fault]
    report = compete(way("faulty", change))
    assert (report.verdict, report["winner"]) == ("unchanged", "input")
    assert outcome(report, "faulty")[0] == verdict
    assert words in outcome(report, "faulty")[1]


def test_a_slower_candidate_does_not_win(compete: Callable[..., Report]) -> None:
    report = compete(way("slow", work_in_vain))
    assert (report.verdict, report["winner"]) == ("unchanged", "input")
    assert outcome(report, "slow")[0] in ("not-chosen", "slower")


def test_an_unchanged_model_is_written_byte_by_byte(source: Path, compete: Callable[..., Report]) -> None:
    report = compete(way("same", lambda _: None))
    assert report.ok
    assert Path(report["path"]).read_bytes() == source.read_bytes()
    assert report["speedup"]["ratio"] == 1.0


def test_the_winner_keeps_metadata_and_names_and_gains_a_step(source: Path, compete: Callable[..., Report]) -> None:
    report = compete(Way("ours", ours, None, "portable", in_child=False))
    assert (report.verdict, report["winner"]) == ("optimized", "ours")
    assert (report["nodes_before"], report["nodes_after"]) == (6, 2)
    before, after = Model.load(source), Model.load(report["path"])
    assert after.signature == before.signature
    assert after.ir.metadata_props["labels"] == "cat,dog"
    assert [item.verb for item in after.history] == ["convert", "optimize"]
    inputs = before.signature.sample(sizes={"n": 5})
    np.testing.assert_allclose(Session(after)(inputs)["y"], Session(before)(inputs)["y"], rtol=1e-4, atol=1e-5)


def test_a_machine_level_model_may_use_operators_of_the_runtime(compete: Callable[..., Report]) -> None:
    report = compete(way("gelu", use_an_operator_of_onnxruntime), level="machine")
    assert outcome(report, "gelu") == ("not-chosen", "")
    assert [item["portable"] for item in report["candidates"]] == [True, False]


def test_explain_says_what_passes_did_and_declined(compete: Callable[..., Report]) -> None:
    report = compete(Way("ours", ours, None, "portable", in_child=False), explain=True)
    assert {"pass", "node", "done", "reason"} == set(report["passes"][0])
    assert "what the passes did" in report.to_text()


def test_data_decides_what_is_compared(compete: Callable[..., Report]) -> None:
    report = compete(
        way("wrong", double_a_weight), data={"x": np.random.default_rng(0).normal(size=(9, 64)).astype(np.float32)}
    )
    assert outcome(report, "wrong")[0] == "wrong"
    with pytest.raises(BadData, match="no such input"):
        compete(data={"z": np.zeros((2, 64), np.float32)})


def test_shapes_are_fixed_on_request(compete: Callable[..., Report]) -> None:
    ways = Way("ours", ours, None, "portable", in_child=False)
    for asked in ({"n": 2}, {"x": (2, 64)}):
        model = Model.load(compete(ways, shapes=asked)["path"])
        assert [spec.shape for spec in (*model.signature.inputs, *model.signature.outputs)] == [(2, 64), (2, 64)]


SHAPES = {
    "no such name": ({"m": 2}, "no input and no dynamic dimension 'm'"),
    "a fixed size": ({"x": (2, 65)}, "cannot have the shape"),
    "another rank": ({"x": (2,)}, "cannot have the shape"),
    "zero": ({"n": 0}, "cannot be 0"),
    "two sizes": ({"n": 2, "x": (3, 64)}, "cannot be 3"),
}


@pytest.mark.parametrize("fault", SHAPES)
def test_shapes_that_do_not_fit_are_named(fault: str, source: Path, compete: Callable[..., Report]) -> None:
    shapes, words = SHAPES[fault]
    with pytest.raises(UsageError, match=words):
        compete(shapes=shapes)
    assert [path.name for path in source.parent.iterdir()] == ["in.onnx"]


def test_weights_outside_the_model_stay_outside(source: Path, compete: Callable[..., Report]) -> None:
    Model.load(source).save(source, external_data=True)
    for ways in ((), (Way("ours", ours, None, "portable", in_child=False),)):
        report = compete(*ways)
        assert report["winner"] == ("ours" if ways else "input")
        written = Model.load(report["path"])
        assert written.keeps_data_outside
        assert Session(report["path"]).output_names == ["y"]


def test_a_model_in_memory_is_taken_as_it_is_now(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tournament, "ways", lambda _: [])
    model = Model.load(source)
    double_a_weight(model)
    report = held(model, tmp_path / "out.onnx")
    inputs = model.signature.sample(sizes={"n": 2})
    np.testing.assert_array_equal(Session(report["path"])(inputs)["y"], Session(model)(inputs)["y"])


# The first only rounds, and less than before; of the second, integers change.
CASTS = {"y = Relu(b)": "winner", "c = Mul(b, b) d = Floor(c) y = Cast<to = 7>(d)": "wrong"}


@pytest.mark.parametrize("rest", CASTS)
def test_a_pair_of_casts_that_rounds_is_removed_only_within_rounding(
    rest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = "int64" if "Floor" in rest else "float"
    text = f"{HEAD} g (float[n,64] x) => ({kind}[n,64] y) {{ a = Cast<to = 10>(x) b = Cast<to = 1>(a) {rest} }}"
    path = Model.from_text(text).save(tmp_path / "in.onnx")
    chosen = Way("unrounded", unrounded, None, "portable", in_child=False)
    monkeypatch.setattr(tournament, "ways", lambda _: [chosen])
    report = held(path, tmp_path / "out.onnx")
    assert outcome(report, "unrounded")[0] == CASTS[rest]


def test_settings_of_the_session_do_not_change_the_files(source: Path) -> None:
    before = source.read_bytes()
    Session(source, Settings(threads=1, spinning=False, arena=False, prepacking=False, denormals_as_zero=True))
    assert source.read_bytes() == before


# Counts to the number that it is given, one step after the other.
COUNTING = f"""{HEAD} g (int64[1] times) => (float total) <bool go = {{1}}, float zero = {{0}}, float one = {{1}}> {{
  total = Loop(times, go, zero) <body = count (int64 i, bool c, float before) => (bool again, float after) {{
    again = Identity(c) after = Add(before, one)
  }}>
}}"""


@pytest.mark.heavy
def test_a_model_that_takes_longer_than_the_time_is_left_as_it_is_and_the_report_says_so(tmp_path: Path) -> None:
    path = Model.from_text(COUNTING).save(tmp_path / "in.onnx")
    report = sardonyx.optimize(path, tmp_path / "out.onnx", seconds=3, data={"times": np.array([1 << 60])})
    assert (report.verdict, report["winner"], report.ok) == ("unchanged", "input", True)
    assert {item["verdict"] for item in report["candidates"][1:]} == {"not-tried"}
    assert (tmp_path / "out.onnx").read_bytes() == path.read_bytes()
    assert report.findings is not None
    (late,) = (item for item in report.findings if item.code == "out-of-time")
    assert "nothing was tried" in late.message
    assert report.summary.endswith("the input as it is, for want of time")


@pytest.mark.rest
@pytest.mark.heavy
def test_a_candidate_whose_answers_take_longer_than_the_time_is_not_tried(compete: Callable[..., Report]) -> None:
    """It counts for ever and adds nothing; of the other candidate the verdict stands."""

    def endless(_: Path, target: Path) -> list[object]:
        text = f"""{HEAD} g (float[n,64] x) => (float[n,64] y)
        <int64 times = {{1152921504606846976}}, bool go = {{1}}, float zero = {{0}}> {{
          total = Loop(times, go, zero) <body = count (int64 i, bool c, float before) => (bool again, float after) {{
            again = Identity(c) after = Add(before, before)
          }}>
          y = Add(x, total)
        }}"""
        Model.from_text(text).save(target)
        return []

    report = compete(Way("endless", endless, None, "portable"), Way("ours", ours, None, "portable"), seconds=12)
    assert outcome(report, "endless") == ("not-tried", "not tried: time ran out")
    assert outcome(report, "ours")[0] in ("winner", "not-tried")
    assert Path(report["path"]).exists()


@pytest.mark.rest
@pytest.mark.heavy
def test_a_tool_that_sleeps_is_ended_and_reported(
    tmp_path: Path, compete: Callable[..., Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool of the same name that hangs, in the child process that the real one would run in."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "onnxsim.py").write_text(
        "import os, pathlib, time\n"
        "def simplify(*_, **__):\n"
        f"    pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\n"
        "    time.sleep(600)\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "tools"), *sys.path]))
    started = time.monotonic()
    report = compete(Way("onnxsim", onnxsim, "onnxsim", "portable", in_child=True), seconds=16)
    assert time.monotonic() - started < 120
    assert outcome(report, "onnxsim") == ("not-tried", "not tried: time ran out")
    assert report.findings is not None
    assert any("onnxsim was not tried" in item.message for item in report.findings)
    if (tmp_path / "pid").exists():  # it came so far before its time was over
        assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


@pytest.mark.heavy
def test_our_own_ways_run_together_in_a_child_on_a_larger_model(
    compete: Callable[..., Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "SMALL", 0)
    names = ("onnxscript", "sardonyx", "sardonyx_unrounded")
    report = compete(*(way for way in _form.ways("portable") if way.name in names), explain=True)
    assert [item["name"] for item in report["candidates"]] == ["input", *names]
    assert outcome(report, "sardonyx")[0] == "winner"
    assert outcome(report, "sardonyx_unrounded") == ("refused", "there is nothing for it to do")
    assert {"pass", "node", "done", "reason"} == set(report["passes"][0])


def test_of_ways_in_one_process_those_that_are_done_count_when_it_is_ended(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child's answers are known; only what becomes of them is looked at."""
    done = {"a": {"notes": [["pass", "node", True, "why"]], "reason": "", "seconds": 1.0}}
    Model.load(source).save(tmp_path / "a.onnx")
    monkeypatch.setattr(making.child, "call", lambda *_, **__: Outcome("timeout", done, "", "no answer within 5 s"))
    ways = [Way(name, ours, None, "portable") for name in "ab"]
    first, second = making.make(ways, source, tmp_path, "portable", Deadline(5), in_child=True)
    assert first.standing
    assert [note.reason for note in first.notes] == ["why"]
    assert (second.verdict, second.reason) == ("not-tried", "not tried: time ran out")
    (patient,) = making.make(ways[1:], source, tmp_path, "portable", Deadline(1000), in_child=True)
    assert (patient.verdict, patient.reason) == ("refused", "no answer within 5 s")


def test_error_and_tolerance_of_a_candidate_are_of_one_element(compete: Callable[..., Report]) -> None:
    report = compete(Way("ours", ours, None, "portable"), way("wrong", double_a_weight))
    right, wrong = report["candidates"][1:]
    assert right["max_error"] <= right["tolerance"]
    assert wrong["max_error"] > wrong["tolerance"]
    assert f"off by {wrong['max_error']:.3g}, where {wrong['tolerance']:.3g} is rounding" in wrong["reason"]


@pytest.mark.rest
@pytest.mark.heavy
def test_every_candidate_that_is_installed_competes(compete: Callable[..., Report]) -> None:
    report = compete(*_form.ways("machine"), level="machine")
    told = {item["name"]: item for item in report["candidates"]}
    assert set(told) == {
        "input", "onnxruntime_all", "onnxruntime_basic", "onnxruntime_extended", "onnxscript", "onnxsim", "onnxslim",
        "sardonyx", "sardonyx_unrounded",
    }  # fmt: skip
    refused = {name for name, item in told.items() if item["verdict"] not in ("winner", "not-chosen", "slower")}
    assert refused == {"sardonyx_unrounded"}
    assert report["nodes_after"] <= 2


# What onnxruntime's own optimiser gets wrong.


def level_of(report: Report) -> str | None:
    return stored_level(Model.load(report["path"]))


def runs_right(path: str | Path) -> bool:
    return Session(path)(faulty_runtime.INPUTS)["y"].tolist() == faulty_runtime.ANSWER


def add_an_identity(model: Model) -> None:
    first = next(iter(model.ir.graph))
    copy = ir.node("Identity", [model.ir.graph.inputs[1]])
    copy.outputs[0].name = "copy"
    model.ir.graph.insert_before(first, copy)
    next(node for node in model.ir.graph if node.op_type == "MatMul").replace_input_with(1, copy.outputs[0])


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Report]:
    """Holds a tournament of the given candidates over a model that onnxruntime's optimiser breaks."""

    def hold(*chosen: Way, **options: object) -> Report:
        monkeypatch.setattr(tournament, "ways", lambda _: list(chosen))
        path = faulty_runtime.save(tmp_path)
        return held(path, tmp_path / "out.onnx", **options)  # type: ignore[arg-type]

    return hold


def test_a_model_that_the_runtime_breaks_is_written_with_the_level_at_which_it_does_not(
    broken: Callable[..., Report],
) -> None:
    report = broken()
    assert (report["winner"], level_of(report)) == ("input", "basic")
    assert runs_right(report["path"])
    (finding,) = (item for item in report["findings"] if item["code"] == "runtime-optimizer")
    assert "confirmed by onnx's reference evaluator" in finding["message"]
    assert "ORT_ENABLE_BASIC" in finding["hint"]


def test_a_wrong_answer_of_the_runtime_s_own_optimiser_is_not_written_into_the_file(
    broken: Callable[..., Report],
) -> None:
    fused = Way("onnxruntime_extended", onnxruntime_extended.make, None, "machine", in_child=True)
    report = broken(fused, level="machine")
    assert report["winner"] == "input"
    verdict, reason = outcome(report, "onnxruntime_extended")
    assert verdict == "wrong"
    assert reason.startswith("onnxruntime's graph optimiser changes this model's answers: ")
    assert runs_right(report["path"])


def test_a_candidate_that_the_runtime_does_not_break_wins_and_needs_no_level(broken: Callable[..., Report]) -> None:
    report = broken(way("same", add_an_identity), Way("ours", ours, None, "portable"))
    assert (report["winner"], level_of(report)) == ("ours", None)
    assert runs_right(report["path"])
    assert "right only at onnxruntime's optimisation level 'basic'" in outcome(report, "same")[1]
    assert "use the output" in report["findings"][0]["hint"]


def test_a_level_is_found_out_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime may have been mended since, or another one."""
    monkeypatch.setattr(tournament, "ways", lambda _: [])
    model = Model.from_text(faulty_runtime.RIGHT)
    store_level(model, "none")
    path = model.save(tmp_path / "in.onnx")
    report = held(path, tmp_path / "out.onnx")
    assert level_of(report) is None
    assert "runtime-optimizer" not in {finding["code"] for finding in report["findings"]}
    for given in (path, Model.load(path)):  # but not where there is no time to
        assert level_of(held(given, tmp_path / "out.onnx", seconds=1e-3)) == "none"


def test_the_answers_of_the_optimised_session_are_the_reference_where_another_runtime_sides_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the unoptimised kernels were at fault: the optimised answers are then what candidates are held against."""

    def sides_with_the_optimised(
        source: Path, batch: Arrays, names: tuple[str, ...]
    ) -> Iterator[tuple[str, list[Array]]]:
        yield "Abacus", [Session(source)(batch)[name] for name in names]

    monkeypatch.setattr(optimizer, "opinions", sides_with_the_optimised)
    path = faulty_runtime.save(tmp_path)
    gate = Gate(path, Model.load(path).signature, None, 0)
    assert gate.doubt is not None
    assert (gate.doubt.level, gate.level) == ("all", None)
    assert gate.judge(path)[1] == ""


def test_a_model_that_loads_only_without_the_optimiser_is_optimised_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tournament, "ways", lambda _: [])
    path = faulty_runtime.save(tmp_path, faulty_runtime.SCALE)
    data = {"x": np.array([[1.0, 2.0]]), "w": np.array([[1.0, 2.0], [3.0, 4.0]])}
    report = held(path, tmp_path / "out.onnx", data=data)
    assert level_of(report) == "basic"
    assert Session(report["path"])(data)["y"].tolist() == [[np.inf, np.inf]]
