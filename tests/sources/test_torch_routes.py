"""PyTorch to ONNX: which route takes which trap, what a refusal says, and what the options do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from halves import split
from sardonyx.sources import Original, Outputs, recognise
from torch_runs import ROUTES, ROWS, export, run, verdict

pytestmark = pytest.mark.heavy

# What each route makes of each trap, measured with torch 2.13: agrees with PyTorch on every probe, wrong on one, or refused.
# A trap whose verdict changes with a new torch is news for the conversion table.
VERDICTS = {
    #                    dynamo     script     trace
    "branch":           ("refused", "agrees",  "wrong"),
    "shape-loop":       ("refused", "agrees",  "wrong"),
    "while-loop":       ("refused", "agrees",  "wrong"),
    "size-branch":      ("wrong",   "agrees",  "wrong"),
    "in-place":         ("agrees",  "agrees",  "agrees"),
    "integer-division": ("agrees",  "agrees",  "agrees"),
    "half":             ("agrees",  "agrees",  "agrees"),
    "bfloat16":         ("wrong",   "wrong",   "wrong"),
    "spectrum":         ("agrees",  "refused", "refused"),
    "complex-output":   ("agrees",  "refused", "refused"),
    "dict":             ("agrees",  "agrees",  "agrees"),
    "tuple":            ("agrees",  "agrees",  "agrees"),
    "optional-given":   ("agrees",  "agrees",  "agrees"),
    "optional-absent":  ("agrees",  "agrees",  "agrees"),
    "none-output":      ("agrees",  "agrees",  "agrees"),
    "state":            ("agrees",  "agrees",  "agrees"),
    "where-nan":        ("agrees",  "agrees",  "agrees"),
    "clamp-infinity":   ("agrees",  "agrees",  "agrees"),
    "non-contiguous":   ("agrees",  "agrees",  "agrees"),
    "tied":             ("agrees",  "agrees",  "agrees"),
    "custom-function":  ("agrees",  "refused", "agrees"),
    "packed-rnn":       ("refused", "refused", "wrong"),
    "padded-rnn":       ("refused", "refused", "agrees"),
    "rnn":              ("agrees",  "agrees",  "agrees"),
    "masked":           ("agrees",  "agrees",  "agrees"),
    "scalar":           ("agrees",  "agrees",  "agrees"),
    "list-output":      ("agrees",  "agrees",  "agrees"),
}  # fmt: skip
CASES = [(trap, route, row[index]) for trap, row in VERDICTS.items() for index, route in enumerate(ROUTES)]
# These run in `make test`.
FIRST = [
    "-".join(case) for case in CASES if case[0] in ("branch", "size-branch", "bfloat16", "spectrum", "state", "tied")
]


def test_every_trap_has_a_verdict() -> None:
    from torch_traps import TRAPS

    assert set(VERDICTS) == set(TRAPS)


@pytest.mark.parametrize(("trap", "route", "expected"), split(CASES, *FIRST, ids=["-".join(case) for case in CASES]))
def test_traps(trap: str, route: str, expected: str, tmp_path: Path) -> None:
    from torch_traps import TRAPS

    entry = TRAPS[trap]
    found, exported = verdict(entry.factory(), route, tmp_path / "m.onnx", entry.inputs, entry.example())
    assert found == expected, exported.failure
    if found == "refused":
        assert exported.failure is not None
        assert "\n" not in exported.failure.reason
        assert len(exported.failure.reason) < 200
    else:
        graph = onnx.load(tmp_path / "m.onnx").graph
        assert [value.name for value in graph.input] == list(entry.example())


# The other forms.


@pytest.mark.parametrize("route", ["dynamo", "trace"])
def test_a_program_is_exported_as_it_is(route: str, tmp_path: Path) -> None:
    import torch

    from torch_traps import TRAPS

    entry = TRAPS["dict"]
    batch = {"x": torch.randn(2, 4), "scale": torch.randn(2, 1)}
    rows = {name: {0: torch.export.Dim("rows")} for name in batch}
    program = torch.export.export(entry.factory(), (batch,), dynamic_shapes=(rows,))
    found, exported = verdict(program, route, tmp_path / "m.onnx", entry.inputs, entry.example())
    assert (found, exported.failure) == ("agrees", None)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("trap", ["branch", "dict"])
def test_torchscript_keeps_its_branches_and_containers(trap: str, tmp_path: Path) -> None:
    import torch

    from torch_traps import TRAPS

    entry = TRAPS[trap]
    found, exported = verdict(
        torch.jit.script(entry.factory()), "script", tmp_path / "m.onnx", entry.inputs, entry.example()
    )
    assert (found, exported.failure) == ("agrees", None)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_torchscript_is_followed_where_it_cannot_be_exported(tmp_path: Path) -> None:
    import torch

    from torch_traps import Spectrum

    scripted = torch.jit.script(Spectrum())
    example = {"x": np.random.default_rng(0).standard_normal((2, 16)).astype(np.float32)}
    assert export(scripted, "script", tmp_path / "s.onnx", ("x=float32[2,16]",), example).failure is not None
    found, exported = verdict(scripted, "dynamo", tmp_path / "d.onnx", ("x=float32[2,16]",), example)
    assert (found, exported.failure) == ("agrees", None)


@pytest.mark.rest
def test_silero_is_followed_with_its_rate_frozen(tmp_path: Path) -> None:
    from torch_real import REAL

    entry = REAL["silero"]
    with Original(recognise(entry.source())) as original:
        asked = [entry.example(seed) for seed in range(3)]
        right = original.predict(asked)
        exported = original.export("trace", tmp_path / "m.onnx", example=asked[0], dynamic={}, opset=18)
    assert exported.notes["constants"] == {"sr": 16000}
    for arrays, answer in zip(asked, right, strict=True):
        assert isinstance(answer, Outputs)
        assert np.allclose(run(tmp_path / "m.onnx", {"x": arrays["x"]})[0], answer.arrays[0], atol=1e-6)


@pytest.mark.rest
def test_a_real_network_agrees_when_traced(tmp_path: Path) -> None:
    from torch_real import REAL

    entry = REAL["mobilenet-v2"]
    with Original(recognise(entry.source(), weights=entry.weights_path())) as original:
        (right,) = original.predict([entry.example(1)])
        exported = original.export("trace", tmp_path / "m.onnx", example=entry.example(), dynamic={}, opset=18)
    assert exported.failure is None
    assert isinstance(right, Outputs)
    found = run(tmp_path / "m.onnx", entry.example(1))
    assert all(np.allclose(a, b, atol=1e-4) for a, b in zip(found, right.arrays, strict=True))


# The options.


@pytest.mark.parametrize("route", ROUTES)
def test_names_are_those_that_were_asked_for(route: str, tmp_path: Path) -> None:
    from torch_traps import TRAPS

    entry = TRAPS["tuple"]
    names = {"input_names": ["a", "b", "c"], "output_names": ["p", "q", "r"]}
    exported = export(entry.factory(), route, tmp_path / "m.onnx", entry.inputs, entry.example(), **names)
    graph = onnx.load(tmp_path / "m.onnx").graph
    assert exported.failure is None
    assert [value.name for value in graph.input] == ["a", "b", "c"]
    assert [value.name for value in graph.output] == ["p", "q", "r"]


@pytest.mark.parametrize("route", ROUTES)
def test_weights_keep_their_names(route: str, tmp_path: Path) -> None:
    from torch_traps import TRAPS

    entry = TRAPS["dict"]
    export(entry.factory(), route, tmp_path / "m.onnx", entry.inputs, entry.example())
    names = {item.name for item in onnx.load(tmp_path / "m.onnx").graph.initializer}
    assert {"linear.weight", "linear.bias"} <= names


@pytest.mark.parametrize("route", ROUTES)
def test_training_keeps_dropout_and_batch_statistics(route: str, tmp_path: Path) -> None:
    from torch_models import Normed

    model = Normed().eval()
    export(model, route, tmp_path / "m.onnx", ("x=float32[n,3]",), {"x": ROWS}, training=True)
    graph = onnx.load(tmp_path / "m.onnx").graph
    operators = [node.op_type for node in graph.node]
    norm = graph.node[operators.index("BatchNormalization")]
    assert "Dropout" in operators
    assert {item.name: item.i for item in norm.attribute}["training_mode"] == 1
    assert {"linear.weight", "norm.weight", "norm.running_mean"} <= {item.name for item in graph.initializer}
    assert not model.training
    onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))


@pytest.mark.parametrize(
    ("route", "asked", "written"), [("dynamo", 26, 23), ("dynamo", 20, 20), ("trace", 26, 20), ("trace", 13, 13)]
)
def test_the_opset_is_the_newest_that_the_route_writes_well(
    route: str, asked: int, written: int, tmp_path: Path
) -> None:
    from torch_models import Small

    exported = export(Small(), route, tmp_path / "m.onnx", ("x=float32[n,3]",), {"x": ROWS}, opset=asked)
    stamp = {item.domain: item.version for item in onnx.load(tmp_path / "m.onnx").opset_import}
    assert (exported.notes["opset"], stamp[""]) == (written, written)


def test_dynamo_opens_a_dimension_that_is_one_in_the_example(tmp_path: Path) -> None:
    from torch_models import Small

    export(Small(), "dynamo", tmp_path / "m.onnx", ("x=float32[n,3]",), {"x": ROWS[:1]})
    assert run(tmp_path / "m.onnx", {"x": np.repeat(ROWS, 4, axis=0)})[0].shape == (8, 2)


@pytest.mark.parametrize("route", ROUTES)
def test_a_view_of_what_fused_attention_gives_is_exported(route: str, tmp_path: Path) -> None:
    from torch_models import FusedAttention

    example = {"x": np.random.default_rng(0).standard_normal((2, 5, 4)).astype(np.float32)}
    found, exported = verdict(FusedAttention().eval(), route, tmp_path / "m.onnx", ("x=float32[n,length,4]",), example)
    assert (found, exported.failure) == ("agrees", None)


@pytest.mark.parametrize("route", ["dynamo", "trace"])
def test_a_hook_of_the_outermost_module_sees_what_it_sees_in_pytorch(route: str, tmp_path: Path) -> None:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()).eval()
    model.register_forward_hook(lambda _module, _given, answer: answer.softmax(-1))
    model.register_forward_pre_hook(lambda _module, given: (given[0] * 2,))
    found, exported = verdict(model, route, tmp_path / "m.onnx", ("input=float32[n,3]",), {"input": ROWS})
    assert (found, exported.failure) == ("agrees", None)
    assert (len(model._forward_hooks), len(model._forward_pre_hooks)) == (1, 1), "the user's module is left as it was"


@pytest.mark.parametrize("route", ROUTES)
def test_an_input_that_is_not_used_stays_an_input(route: str, tmp_path: Path) -> None:
    from torch_models import Unused

    export(Unused(), route, tmp_path / "m.onnx", ("x=float32[n,3]", "y=int64[n]"), {"x": ROWS, "y": np.arange(2)})
    graph = onnx.load(tmp_path / "m.onnx").graph
    assert [value.name for value in graph.input] == ["x", "y"]
    assert np.array_equal(run(tmp_path / "m.onnx", {"x": ROWS, "y": np.arange(2)})[0], ROWS * 2)


def test_dynamo_leaves_the_users_lines_on_the_nodes(tmp_path: Path) -> None:
    from torch_traps import InPlace

    export(InPlace(), "dynamo", tmp_path / "m.onnx", ("x=float32[n,4]",), {"x": np.ones((2, 4), np.float32)})
    traces = [
        item.value
        for node in onnx.load(tmp_path / "m.onnx").graph.node
        for item in node.metadata_props
        if "stack_trace" in item.key
    ]
    assert any("torch_traps.py" in trace for trace in traces)


def test_an_export_prints_nothing_to_stdout(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from torch_models import Talks
    from torch_traps import Spectrum

    export(Spectrum(), "trace", tmp_path / "m.onnx", ("x=float32[2,3]",), {"x": ROWS})
    for route in ("dynamo", "trace"):
        export(Talks(), route, tmp_path / "m.onnx", ("x=float32[2,3]",), {"x": ROWS})
    assert capfd.readouterr().out == ""


def test_a_changing_buffer_is_remarked(tmp_path: Path) -> None:
    from torch_traps import TRAPS

    entry = TRAPS["state"]
    exported = export(entry.factory(), "trace", tmp_path / "m.onnx", entry.inputs, entry.example())
    assert exported.notes["remarks"] == [
        "forward changes mean; the ONNX model answers every call as the original answers the first"
    ]
