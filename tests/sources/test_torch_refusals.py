"""What a PyTorch exporter's refusal says: one line with the operator, the user's line, and what would take it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import torch_runs
from sardonyx.signature import Signature
from sardonyx.sources import Failure
from torch_runs import MODELS, ROWS, TRAPS

pytestmark = pytest.mark.heavy


def refusal(
    model: Any, route: str, tmp_path: Path, inputs: tuple[str, ...] = ("x=float32[n,3]",), **options: Any
) -> Failure:
    example = Signature.parse(inputs).sample(sizes={"n": 3})
    failure = torch_runs.export(model, route, tmp_path / "m.onnx", inputs, example, **options).failure
    assert failure is not None
    return failure


def test_a_refused_branch_names_the_line_and_the_route_that_takes_it(tmp_path: Path) -> None:
    from torch_traps import Branch

    failure = refusal(Branch(), "dynamo", tmp_path)
    assert failure.reason == (
        "the path depends on the values of a tensor, and dynamo follows one path; route script keeps both"
    )
    assert failure.where == torch_runs.line_of("        if x.sum() > 0:", TRAPS)


@pytest.mark.parametrize("route", ["script", "trace"])
def test_a_refused_operator_is_named_with_its_line(route: str, tmp_path: Path) -> None:
    from torch_traps import Spectrum

    failure = refusal(Spectrum(), route, tmp_path)
    assert (
        failure.reason == f"there is no ONNX form of aten::fft_rfft in {route} at opset 18; route dynamo may have one"
    )
    assert failure.where == torch_runs.line_of("        return torch.fft.rfft(x, dim=-1).abs()", TRAPS)


def test_an_operator_that_dynamo_lacks_is_named_with_its_line(tmp_path: Path) -> None:
    from torch_models import Singular

    failure = refusal(Singular(), "dynamo", tmp_path, ("x=float32[3,3]",))
    assert failure.reason.startswith("there is no ONNX form of aten._linalg_svd in dynamo")
    assert failure.where == torch_runs.line_of("        return torch.linalg.svd(x)[1]", MODELS)


def test_an_operator_that_needs_a_newer_opset_says_which(tmp_path: Path) -> None:
    from torch_models import Sampled

    failure = refusal(Sampled(), "trace", tmp_path, ("x=float32[1,1,4,4]",), opset=13)
    assert failure.reason == "aten::grid_sampler has an ONNX form from opset 16 on; opset 13 was asked for"


def test_a_size_that_the_code_fixes_is_named(tmp_path: Path) -> None:
    from torch_traps import ShapeLoop

    failure = refusal(ShapeLoop(), "dynamo", tmp_path)
    assert failure.reason == "the code works only with size 3 in dimension 0 of x, which was asked to be dynamic"


def test_code_that_cannot_be_compiled_is_quoted_with_its_line(tmp_path: Path) -> None:
    from torch_models import ThroughNumpy

    failure = refusal(ThroughNumpy(), "script", tmp_path)
    assert "has no attribute or method 'numpy'; routes dynamo and trace do not compile it" in failure.reason
    assert failure.where == torch_runs.line_of("        return torch.from_numpy(x.numpy() * 2)", MODELS)


@pytest.mark.parametrize(("route", "opset"), [("dynamo", 9), ("trace", 6)])
def test_an_opset_that_cannot_be_written_is_refused(route: str, opset: int, tmp_path: Path) -> None:
    from torch_models import Small

    failure = refusal(Small(), route, tmp_path, opset=opset)
    assert f"opset {opset}" in failure.reason


def test_a_program_cannot_be_trained(tmp_path: Path) -> None:
    import torch

    from torch_models import Small

    program = torch.export.export(Small().eval(), (torch.from_numpy(ROWS),))
    failure = refusal(program, "dynamo", tmp_path, ("x=float32[2,3]",), training=True)
    assert "stays in the mode" in failure.reason


def cases() -> list[str]:
    """The names in torch_refused.py, read without importing torch."""
    text = (TRAPS.parent / "torch_refused.py").read_text()
    return re.findall(r'^    "([^"]+)": \(', text[text.index("REFUSED: dict") :], re.MULTILINE)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", cases())
def test_a_refusal_for_a_known_reason_says_what_to_do(name: str, tmp_path: Path) -> None:
    from torch_refused import REFUSED

    build, inputs, route, said = REFUSED[name]
    failure = refusal(build().eval(), route, tmp_path, inputs)
    assert said in failure.reason
    assert len(failure.reason) < 200
    assert "\n" not in failure.reason


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("model", "inputs", "route", "said"),
    [
        pytest.param(
            "CompiledFunction",
            ("x=float32[n,3]",),
            "trace",
            "cannot record a function that torch.compile made",
            marks=pytest.mark.rest,
        ),
        (
            "Padded",
            ("x=float32[n,length,8]", "padding=bool[n,length]"),
            "script",
            "fast path for attention has no ONNX form",
        ),
        ("RenormedTied", ("tokens=int64[n,3]",), "dynamo", "a call changes a weight of the model"),
    ],
)
def test_what_no_repair_helps_is_explained(
    model: str, inputs: tuple[str, ...], route: str, said: str, tmp_path: Path
) -> None:
    import torch_models

    assert said in refusal(getattr(torch_models, model)().eval(), route, tmp_path, inputs).reason


@pytest.mark.filterwarnings("ignore")
def test_a_view_that_the_memory_does_not_allow_is_explained(tmp_path: Path) -> None:
    from torch_models import FusedAttention

    failure = refusal(FusedAttention(), "dynamo", tmp_path, ("x=float32[n,5,4]",), training=True)
    assert "write reshape in place of view" in failure.reason
    assert failure.where == torch_runs.line_of(
        "        return found.transpose(1, 2).view(x.shape[0], x.shape[1], 4)", MODELS
    )


def test_a_long_message_ends_with_a_sentence_or_a_word() -> None:
    from sardonyx.sources.workers._torch_refusals import first_words

    sentences = first_words(ValueError("It is so. " + "This is why it is so. " * 20))
    assert sentences.endswith("so")
    assert len(sentences) < 260
    word = first_words(ValueError("a message without any end " * 20))
    assert word.endswith(" …")
    assert word.removesuffix(" …").split()[-1] in ("a", "message", "without", "any", "end")
