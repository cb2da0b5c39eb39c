"""The notes of an export name the lines whose values became constants, and the conditions on sizes that became assumptions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from torch_runs import MODELS, ROWS, export, line_of

pytestmark = [pytest.mark.heavy, pytest.mark.filterwarnings("ignore")]


def place(text: str) -> tuple[str, int]:
    file, _, line = line_of(text, MODELS).rpartition(":")
    return file, int(line)


def test_a_trace_names_every_line_that_turns_a_value_into_a_constant(tmp_path: Path) -> None:
    from torch_models import Freezes

    inputs = ("x=float32[n,3]", "count=int64[]")
    example = {"x": ROWS, "count": np.array(2)}
    exported = export(Freezes(), "trace", tmp_path / "m.onnx", inputs, example)
    assert exported.failure is None
    frozen = exported.notes["frozen"]
    assert [(item["file"], item["line"]) for item in frozen] == [
        place("        if x.sum() > 0:"),
        place("        for row in x:"),
        place("        scale = torch.tensor([float(x.max())])"),
        place("        return x[:, : int(count)], total, scale"),
    ]
    assert frozen[0]["text"] == "if x.sum() > 0:"
    assert frozen[0]["why"] == "Converting a tensor to a Python boolean might cause the trace to be incorrect"
    assert frozen[2]["why"] == (
        "Converting a tensor to a Python float might cause the trace to be incorrect; "
        "torch.tensor results are registered as constants in the trace"
    )


@pytest.mark.parametrize("route", ["dynamo", "script", "trace"])
def test_code_without_choices_freezes_nothing(route: str, tmp_path: Path) -> None:
    from torch_models import Small

    exported = export(Small(), route, tmp_path / "m.onnx", ("x=float32[n,3]",), {"x": ROWS})
    assert (exported.notes["frozen"], exported.notes["guards"]) == ([], [])


def test_lines_of_pytorch_itself_are_left_out(tmp_path: Path) -> None:
    import torch

    model = torch.nn.MultiheadAttention(4, 2, batch_first=True).eval()
    inputs = tuple(f"{name}=float32[n,length,4]" for name in ("query", "key", "value"))
    example = {name: np.ones((2, 3, 4), np.float32) for name in ("query", "key", "value")}
    exported = export(model, "trace", tmp_path / "m.onnx", inputs, example)
    assert exported.notes["frozen"] == []


def test_dynamo_names_the_sizes_that_it_assumes_with_the_line(tmp_path: Path) -> None:
    from torch_models import Sized

    exported = export(
        Sized(), "dynamo", tmp_path / "m.onnx", ("x=float32[rows,columns]",), {"x": np.ones((3, 6), np.float32)}
    )
    guards = exported.notes["guards"]
    assert [(item["expression"], item["file"], item["line"]) for item in guards] == [
        ("rows <= 8", *place("        if x.size(0) > 8:")),
        ("Eq(Mod(columns, 2), 0)", *place("        if x.size(1) % 2 == 0:")),
    ]
    assert guards[0]["text"] == "if x.size(0) > 8:"


def test_pytorch_is_as_before_after_an_export(tmp_path: Path) -> None:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    from torch_models import Sized

    before = ShapeEnv._log_guard
    export(Sized(), "dynamo", tmp_path / "m.onnx", ("x=float32[rows,columns]",), {"x": np.ones((3, 6), np.float32)})
    assert ShapeEnv._log_guard is before
