"""How named arrays become forward's arguments: dicts, lists, structures and what may be left out, on every route."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np
import pytest

if TYPE_CHECKING:
    from torch import Tensor

pytestmark = [pytest.mark.heavy, pytest.mark.filterwarnings("ignore")]

X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
SCALE = np.array([[2.0], [-3.0]], np.float32)
BOTH = {"x": X, "scale": SCALE}
# The model, the inputs as a user names them, and the routes that take it.
CASES = [
    ("FromDict", {"batch.x": X, "batch.scale": SCALE}, "dynamo script trace"),
    ("FromDict", BOTH, "dynamo script trace"),
    ("FromDictAndMore", {**BOTH, "gain": np.zeros((1, 3), np.float32)}, "dynamo script trace"),
    ("FromUnknown", BOTH, "dynamo trace"),
    ("FromUnknown", {"batch.x": X, "batch.scale": SCALE}, "dynamo trace"),
    ("FromAnything", BOTH, "dynamo trace"),
    ("FromEntries", BOTH, "dynamo trace"),
    ("FromPair", BOTH, "dynamo trace"),
    ("FromBatch", {"batch.x": X, "batch.scale": SCALE}, "dynamo trace"),
    ("FromBatch", BOTH, "dynamo trace"),
    ("MaybeScaled", BOTH, "dynamo trace"),
    ("FromList", {"xs.0": X, "xs.1": SCALE}, "dynamo script trace"),
    ("FromMaybeList", {"x": X, "more.0": SCALE}, "dynamo script trace"),
    ("FromListInDict", {"batch.all.0": X, "batch.all.1": SCALE}, "dynamo script trace"),
    ("FromListInDict", {"all.0": X, "all.1": SCALE}, "dynamo script trace"),
    ("FromDictInDict", {"batch.inner.x": X, "batch.inner.scale": SCALE}, "dynamo trace"),
    ("FromDictInDict", {"inner.x": X, "inner.scale": SCALE}, "dynamo trace"),
    ("FromNumbers", {"levels.0": X, "levels.1": SCALE}, "dynamo trace"),
]


def model(name: str) -> Any:
    import torch_containers

    return getattr(torch_containers, name)()


@pytest.mark.rest
@pytest.mark.parametrize(("name", "inputs", "routes"), CASES)
def test_named_arrays_reach_the_container_on_every_route(
    name: str, inputs: dict[str, Any], routes: str, tmp_path: Path
) -> None:
    from sardonyx.sources import Original, Outputs, recognise
    from torch_runs import run

    with Original(recognise(model(name))) as original:
        (found,) = original.predict([inputs])
        assert isinstance(found, Outputs), found
        np.testing.assert_allclose(found.arrays[0], X * SCALE, rtol=1e-6)
        for route in routes.split():
            exported = original.export(route, tmp_path / f"{route}.onnx", example=inputs, dynamic={}, opset=18)
            assert exported.failure is None, (route, exported.failure)
            answer = run(tmp_path / f"{route}.onnx", inputs)[0]
            np.testing.assert_allclose(answer, X * SCALE, rtol=1e-6)


def test_entries_that_the_code_can_do_without_may_be_left_out() -> None:
    from sardonyx.sources import Original, Outputs, recognise

    with Original(recognise(model("MaybeScaled"))) as original:
        (found,) = original.predict([{"x": X}])
        assert [item["name"] for item in original.describe()["inputs"]] == ["batch.x"]
    assert isinstance(found, Outputs), found
    np.testing.assert_allclose(found.arrays[0], X * 2)


@pytest.mark.parametrize(
    ("name", "inputs", "said"),
    [
        ("FromDict", {"batch": X}, "batch is a dict: write --input batch.x=…, batch.scale=TYPE[SIZES]"),
        ("FromList", {"xs": X}, "xs is a list: write --input xs.0=TYPE[SIZES], xs.1=…"),
        ("FromList", {"a": X, "b": X}, "forward takes xs (xs is a list: write --input xs.0=TYPE[SIZES], xs.1=…)"),
        ("FromBatch", {"batch": X}, "batch is a structure: write --input batch.x=…, batch.scale=TYPE[SIZES]"),
        (
            "FromDictAndMore",
            BOTH,
            "forward needs gain, which the inputs do not name; it takes batch, gain (batch is a dict",
        ),
    ],
)
def test_an_error_says_how_to_write_the_inputs(name: str, inputs: Any, said: str) -> None:
    from sardonyx.sources import Failure, Original, recognise

    with Original(recognise(model(name))) as original:
        (found,) = original.predict([inputs])
    assert isinstance(found, Failure)
    assert said in found.reason


class _Point(NamedTuple):
    x: Tensor


class _Keys(TypedDict):
    x: Tensor


@dataclasses.dataclass
class _Fields:
    x: Tensor


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (dict, "dict"), (dict[str, int], "dict"), ("Dict[str, Tensor]", "dict"), (_Keys, "dict"), ("dict | None", "dict"),
        (list, "list"), (list[int], "list"), ("typing.List[Tensor]", "list"), ("Optional[List[Tensor]]", "list"),
        (list[int] | None, "list"), (tuple[int, int], "tuple"), ("Tuple[Tensor, Tensor]", "tuple"),
        ("Tensor", None), (int, None), (None, None), (_Point, None), (_Fields, None),
        ("Union[Tensor, Dict[str, Tensor]]", "dict"),
        ("Dict[str, Tuple[Tensor, Tensor]]", "dict"), ("[", None), ("'Dict[str, Tensor]'", "dict"),
    ],
)  # fmt: skip
def test_annotations_are_read_as_classes_and_as_text(annotation: Any, kind: str | None) -> None:
    from sardonyx.sources.workers import _torch_forms

    assert _torch_forms.kind(annotation)[0] == kind
