"""What other tools make of a float ONNX model, each as its documentation says, with its defaults, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _environments import environment

NNCF_NEEDS = ("nncf==3.4.0", "openvino==2026.4.1")
# quantize_static keeps every tensor of every calibration example until the end.
CALIBRATED = 64
NNCF = "NNCF accuracy control"


@dataclass(frozen=True)
class Made:
    """The file that a peer made, or the reason why there is none."""

    path: Path | None
    reason: str = ""


def make(name: str, model: Path, given: Path, expected: Path, metric: str, folder: Path, patience: float) -> Made:
    """The peer's model in `folder`, made in at most `patience` seconds; one that lies there already is taken."""
    target = folder / (f"{name.replace(' ', '-')}.xml" if name == NNCF else f"{name.replace(' ', '-')}.onnx")
    failed = target.with_suffix(".reason")
    if failed.exists():
        return Made(None, failed.read_text())
    if not target.exists():
        reason = _run(_command(name, model, given, expected, metric, target), patience)
        if reason or not target.exists():
            failed.write_text(reason or "it wrote no file")
            return Made(None, failed.read_text())
    return Made(target)


def names() -> list[str]:
    return [*TOOLS, NNCF]


def _command(name: str, model: Path, given: Path, expected: Path, metric: str, target: Path) -> list[str]:
    if name != NNCF:
        return [sys.executable, __file__, name, str(model), str(given), str(target)]
    python = environment("nncf", *NNCF_NEEDS)
    script = Path(__file__).with_name("_nncf.py")
    return [str(python), str(script), str(model), str(given), str(expected), metric, str(target)]


def _run(command: list[str], patience: float) -> str:
    """Why it failed; empty if it did not. Some tools leave files where they run."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=patience, check=False, cwd=scratch)
        except subprocess.TimeoutExpired:
            return f"not ready after {patience:g} s"
    if done.returncode == 0:
        return ""
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return said[-1][:160] if said else f"it ended with {done.returncode}"


def _onnxsim(model: str, _given: str, target: str) -> None:
    import onnx
    import onnxsim

    simplified, right = onnxsim.simplify(onnx.load(model))
    if not right:
        sys.exit("its own check failed")
    onnx.save(simplified, target)


def _onnxslim(model: str, _given: str, target: str) -> None:
    import onnxslim

    onnxslim.slim(model, target)


def _static(model: str, given: str, target: str) -> None:
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._rows = _rows(given)

        def get_next(self) -> Any:
            return next(self._rows, None)

    quantize_static(_prepared(model, target), target, Reader())


def _dynamic(model: str, _given: str, target: str) -> None:
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(_prepared(model, target), target)


def _prepared(model: str, target: str) -> str:
    """The model after onnxruntime's own preparation for quantising; as it is where that fails."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    path = f"{target}.prepared"
    for skip in (False, True):
        try:
            quant_pre_process(model, path, skip_symbolic_shape=skip)
        except Exception as error:  # noqa: BLE001  it raises whatever it likes
            print(f"quant_pre_process: {error}", file=sys.stderr)
        else:
            return path
    return model


def _rows(given: str) -> Iterator[dict[str, Any]]:
    with np.load(given) as file:
        arrays = {name: file[name] for name in file.files if name != "label"}
    count = min(CALIBRATED, len(next(iter(arrays.values()))) // 2)
    for index in range(count):
        yield {name: array[index : index + 1] for name, array in arrays.items()}


TOOLS: dict[str, Callable[[str, str, str], None]] = {
    "onnxsim": _onnxsim,
    "OnnxSlim": _onnxslim,
    "quantize_static": _static,
    "quantize_dynamic": _dynamic,
}

if __name__ == "__main__":
    TOOLS[sys.argv[1]](*sys.argv[2:])
