"""How tests run PyTorch sources: one answer, one export, and the verdict of the probes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from sardonyx.falsify import Hints
from sardonyx.falsify.kinds import value_kinds
from sardonyx.falsify.sizes import first_sizes
from sardonyx.signature import Signature
from sardonyx.sources import Exported, Original, Outputs, recognise

MODELS = Path(__file__).parent / "torch_models.py"
TRAPS = Path(__file__).parent / "torch_traps.py"
ROUTES = ("dynamo", "script", "trace")
ROWS = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)


def line_of(text: str, path: Path) -> str:
    """file:line of a line of code."""
    return f"{path}:{path.read_text().splitlines().index(text) + 1}"


def answer(original: Original, inputs: dict[str, Any], **options: Any) -> Outputs:
    (found,) = original.predict([inputs], **options)
    assert isinstance(found, Outputs), found
    return found


def export(source: Any, route: str, out: Path, inputs: tuple[str, ...], example: Any, **options: Any) -> Exported:
    """The export with the dimensions that `inputs` names left open."""
    dynamic = {
        spec.name: {str(axis): dim for axis, dim in enumerate(spec.shape or ()) if isinstance(dim, str)}
        for spec in Signature.parse(inputs).inputs
    }
    settings = {"opset": 18, "input_names": [], "output_names": [], "training": False, **options}
    with Original(recognise(source)) as original:
        return original.export(route, out, example=example, dynamic=dynamic, **settings)


def run(path: Path, arrays: Any) -> list[Any]:
    return list(onnxruntime.InferenceSession(str(path)).run(None, arrays))


def verdict(source: Any, route: str, out: Path, inputs: tuple[str, ...], example: Any) -> tuple[str, Exported]:
    """How the export compares with the original on every probe that the original answers."""
    exported = export(source, route, out, inputs, example)
    if exported.failure is not None:
        return "refused", exported
    try:
        session = onnxruntime.InferenceSession(str(out))
    except Exception:  # noqa: BLE001  onnxruntime's errors share no parent of their own
        return "wrong", exported
    asked = _asked(Signature.parse(inputs), example)
    with Original(recognise(source)) as original:
        answers = original.predict(asked)
    assert isinstance(answers[0], Outputs), answers[0]
    kept = [(arrays, found.arrays) for arrays, found in zip(asked, answers, strict=True) if isinstance(found, Outputs)]
    return ("agrees" if all(_agrees(session, *pair) for pair in kept) else "wrong"), exported


def _asked(signature: Signature, example: Any) -> list[Any]:
    """The example, other sizes and other values."""
    random = np.random.default_rng(0)
    probes = [*first_sizes(signature, example, random), *value_kinds(example, Hints(), random)]
    return [example, *(probe.arrays for probe in probes if not probe.soft and "widely" not in probe.name)]


def _agrees(session: Any, arrays: Any, right: Any) -> bool:
    try:
        found = session.run(None, {name: np.asarray(array) for name, array in arrays.items()})
    except Exception:  # noqa: BLE001  a fixed size is found only when another one is fed
        return False
    return len(found) == len(right) and all(
        a.shape == b.shape
        and np.allclose(a, b, rtol=1e-3 if a.dtype == np.float32 else 2e-2, atol=1e-4, equal_nan=True)
        for a, b in zip(found, right, strict=True)
    )
