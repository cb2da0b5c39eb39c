"""How named arrays become the arguments of a PyTorch model, and its answer becomes named arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sardonyx.sources import Failure, Original, recognise
from torch_runs import MODELS, ROWS, answer, line_of

pytestmark = pytest.mark.heavy


def test_a_live_module_answers_in_eval_mode_and_is_left_alone() -> None:
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with Original(recognise(model)) as original:
        first, second = answer(original, {"input": ROWS}), answer(original, {"input": ROWS})
    with torch.no_grad():
        right = model.eval()(torch.from_numpy(ROWS)).numpy()
    assert np.array_equal(first.arrays[0], right)
    assert np.array_equal(first.arrays[0], second.arrays[0])
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_live_module_stays_in_training_mode() -> None:
    from torch import nn

    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5)).train()
    with Original(recognise(model)) as original:
        answer(original, {"input": ROWS})
    assert all(module.training for module in model.modules())
    assert "forward" not in vars(model)


def test_inputs_are_bound_by_name_and_else_in_order() -> None:
    from torch_traps import TRAPS

    twos = np.full((2, 3), 2, np.float32)
    with Original(recognise(TRAPS["optional-given"].factory())) as original:
        named = answer(original, {"mask": twos, "x": ROWS})
        ordered = answer(original, {"images": ROWS, "where": twos})
        number = answer(original, {"x": ROWS, "scale": np.array(3.0)})
        described = original.describe()
    assert np.array_equal(named.arrays[0], ROWS * 4)
    assert np.array_equal(ordered.arrays[0], ROWS * 4)
    assert np.array_equal(number.arrays[0], ROWS * 3)
    assert [item["name"] for item in described["inputs"]] == ["x"]
    assert described["optional"] == ["mask", "scale"]


def test_answers_are_flattened_in_order_and_named() -> None:
    from torch_traps import TRAPS

    names = {}
    for trap in ("dict", "tuple", "none-output", "list-output", "branch"):
        with Original(recognise(TRAPS[trap].factory())) as original:
            names[trap] = answer(original, TRAPS[trap].example()).names
    assert names == {
        "dict": ("logits", "argmax"),
        "tuple": ("output_0", "output_1", "output_2"),
        "none-output": ("output_0", "output_1"),
        "list-output": ("output_0", "output_1", "output_2"),
        "branch": ("output",),
    }


def test_a_stateful_module_answers_the_same_every_time() -> None:
    from torch_traps import TRAPS

    model = TRAPS["state"].factory()
    example = TRAPS["state"].example()
    with Original(recognise(model)) as original:
        first, second = answer(original, example), answer(original, example)
    assert np.array_equal(first.arrays[0], second.arrays[0])
    assert model.calls == 0
    assert not model.mean.any()


def test_types_that_numpy_lacks_are_widened() -> None:
    from torch_traps import TRAPS

    with Original(recognise(TRAPS["bfloat16"].factory())) as original:
        wide = answer(original, TRAPS["bfloat16"].example()).arrays[0]
    with Original(recognise(TRAPS["complex-output"].factory())) as original:
        pairs = answer(original, TRAPS["complex-output"].example()).arrays[0]
    spectrum = np.fft.fft(TRAPS["complex-output"].example()["x"])
    assert wide.dtype == np.float32
    assert np.allclose(pairs[..., 0] + 1j * pairs[..., 1], spectrum, atol=1e-4)


@pytest.mark.rest
def test_bfloat16_survives_the_way_into_another_process(tmp_path: Path) -> None:
    import torch_traps

    example = torch_traps.TRAPS["bfloat16"].example()
    path = tmp_path / "low.py"
    path.write_text("import torch\nfrom torch_traps import Low, seeded\nbuild = seeded(Low, torch.bfloat16)\n")
    (tmp_path / "torch_traps.py").write_text(Path(torch_traps.__file__).read_text())
    with (
        Original(recognise(torch_traps.TRAPS["bfloat16"].factory())) as here,
        Original(recognise(f"{path}:build")) as there,
    ):
        assert np.array_equal(answer(here, example).arrays[0], answer(there, example).arrays[0])


def test_float64_answers_show_the_rounding_of_float32() -> None:
    from torch_traps import TRAPS

    example = TRAPS["rnn"].example()
    with Original(recognise(TRAPS["rnn"].factory())) as original:
        single, double = answer(original, example), answer(original, example, double=True)
    assert double.arrays[0].dtype == np.float64
    assert 0 < np.abs(single.arrays[0] - double.arrays[0]).max() < 1e-5


def test_float64_is_declined_where_the_code_casts() -> None:
    from torch import Tensor, nn

    class Casts(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.float() * 2

    with Original(recognise(Casts())) as original:
        (found,) = original.predict([{"x": ROWS}], double=True)
    assert isinstance(found, Failure)
    assert "NotImplementedError" in found.reason


def test_a_module_that_cannot_be_copied_is_used_itself_and_said_so(tmp_path: Path) -> None:
    import threading

    from torch import Tensor, nn

    class Locked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lock = threading.Lock()

        def forward(self, x: Tensor) -> Tensor:
            return x * 2

    model = Locked()
    with Original(recognise(model)) as original:
        assert "cannot be copied" in original.describe()["remarks"][0]
        exported = original.export("trace", tmp_path / "m.onnx", example={"x": ROWS}, dynamic={}, opset=18)
        assert np.array_equal(answer(original, {"x": ROWS}).arrays[0], ROWS * 2)
    assert exported.failure is None
    assert "forward" not in vars(model)


def test_wrong_examples_fail_in_torchs_words_at_the_users_line() -> None:
    with Original(recognise(f"{MODELS}:Small")) as original:
        shape, name, text = original.predict(
            [{"x": np.zeros((2, 7), np.float32)}, {"x": ROWS, "y": ROWS, "z": ROWS}, {"x": np.array([["a"]])}]
        )
    assert isinstance(shape, Failure)
    assert "shapes cannot be multiplied" in shape.reason
    assert shape.where == line_of("        return self.dropout(self.linear(x))", MODELS)
    assert isinstance(name, Failure)
    assert "forward takes x; the inputs are x, y, z" in name.reason
    assert isinstance(text, Failure)
    assert "takes numbers" in text.reason


def test_names_that_only_partly_fit_are_not_guessed() -> None:
    from torch_traps import TRAPS

    with Original(recognise(TRAPS["optional-given"].factory())) as original:
        (found,) = original.predict([{"mask": ROWS, "images": ROWS}])
    assert isinstance(found, Failure)
    assert "forward takes x, mask, scale; the inputs are mask, images" in found.reason


@pytest.mark.rest
@pytest.mark.parametrize("net", ["proposals", "refinement", "landmarks"])
def test_mtcnn_answers_like_its_published_onnx_model(net: str) -> None:
    import onnxruntime

    import real
    from torch_real import REAL

    entry = REAL[f"mtcnn-{net}"]
    session = onnxruntime.InferenceSession(str(real.path(f"mtcnnruntime/weights/{net[0].replace('l', 'o')}net.onnx")))
    example = {name: array[:1] for name, array in entry.example().items()}
    with Original(recognise(entry.source(), weights=entry.weights_path())) as original:
        mine = answer(original, example).arrays
    theirs = session.run(None, {session.get_inputs()[0].name: next(iter(example.values()))})
    assert all(any(a.shape == b.shape and np.allclose(a, b, atol=1e-4) for b in theirs) for a in mine)
