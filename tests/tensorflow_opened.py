"""A TensorFlow source in a worker that is shared by many tests, because one such process is too dear for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from sardonyx.signature import Signature
from sardonyx.sources import recognise
from sardonyx.sources._worker import Worker

SIZES = {"batch": 2, "length": 5}
OTHER = {"batch": 5, "length": 8}


class Opened:
    """A source that the shared worker has open."""

    def __init__(self, worker: Worker, source: str | Path, folder: Path, **options: Any) -> None:
        self.worker, self.folder = worker, folder
        self.answer = worker.ask("open", timeout=800, source=recognise(source, **options).to_request())

    def error(self) -> dict[str, Any]:
        assert not self.answer["ok"], "it opened"
        error: dict[str, Any] = self.answer["error"]
        return error

    def describe(self) -> dict[str, Any]:
        description: dict[str, Any] = self.ask("describe")["description"]
        return description

    def predict(self, arrays: dict[str, np.ndarray], *, double: bool = False) -> list[tuple[str, np.ndarray]]:
        self.save("in.npz", arrays)
        result = self.ask("predict", inputs=[str(self.folder / "in.npz")], double=double)["outputs"][0]
        assert "error" not in result, result
        with np.load(result["path"]) as file:
            return [(name, file[key]) for name, key in zip(result["names"], sorted(file.files), strict=True)]

    def export(self, route: str, example: dict[str, np.ndarray], **options: Any) -> dict[str, Any]:
        self.save("example.npz", example)
        plain: dict[str, Any] = {"dynamic": {}, "opset": 18, "input_names": [], "output_names": [], "training": False}
        options = {**plain, **options, "example": str(self.folder / "example.npz")}
        return self.worker.ask("export", timeout=800, route=route, out=str(self.folder / "m.onnx"), options=options)

    def save(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        plain = {key: array.astype(str) if array.dtype == object else array for key, array in arrays.items()}
        np.savez(self.folder / name, **plain)  # type: ignore[arg-type]

    def ask(self, task: str, **request: Any) -> dict[str, Any]:
        assert self.answer["ok"], self.answer
        answer = self.worker.ask(task, timeout=800, **request)
        assert answer["ok"], answer
        return answer


def dynamic(signature: Signature) -> dict[str, dict[int, str]]:
    return {
        spec.name: {axis: dim for axis, dim in enumerate(spec.shape or ()) if isinstance(dim, str)}
        for spec in signature.inputs
    }


def agrees(
    opened: Opened, route: str, inputs: tuple[str, ...], *, tolerance: float = 1e-5
) -> onnxruntime.InferenceSession:
    """The export by a route, after comparing it with the original on two sizes of every dynamic dimension."""
    signature = Signature.parse(inputs)
    answer = opened.export(route, signature.sample(sizes=SIZES), dynamic=dynamic(signature))
    assert answer["ok"], answer["error"]["message"]
    session = onnxruntime.InferenceSession(opened.folder / "m.onnx")
    assert [value.name for value in session.get_inputs()] == [spec.name for spec in signature.inputs]
    assert [tuple(value.shape) for value in session.get_inputs()] == [spec.shape for spec in signature.inputs]
    for seed, sizes in enumerate((SIZES, OTHER)):
        arrays = signature.sample(seed=seed, sizes=sizes)
        expected = opened.predict(arrays)
        assert [value.name for value in session.get_outputs()] == [name for name, _ in expected]
        for got, (name, array) in zip(session.run(None, arrays), expected, strict=True):
            assert got.dtype == array.dtype
            np.testing.assert_allclose(got, array, rtol=tolerance, atol=tolerance, err_msg=name)
    return session
