"""onnxruntime's two long calls, to load a model and to run it, ended when the deadline of their block passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnxruntime as ort

from sardonyx import deadline

CPU = ("CPUExecutionProvider",)


def load(model: str | bytes, options: ort.SessionOptions, providers: Sequence[str] = CPU) -> ort.InferenceSession:
    """A session of the model at a path, or of its bytes. onnxruntime looks at the flag between its graph transformations."""
    with deadline.stopping(lambda: options.set_load_cancellation_flag(True)):
        return ort.InferenceSession(model, options, providers=list(providers))


def compute(session: ort.InferenceSession, outputs: Sequence[str] | None, inputs: Mapping[str, Any]) -> list[Any]:
    """The outputs of these names, all of them by default. onnxruntime looks at the flag before each node."""
    found: list[Any]
    if deadline.current() is None:  # no options, which cost a microsecond, for calls that are timed
        found = session.run(outputs, inputs)
    else:
        chosen = ort.RunOptions()
        with deadline.stopping(lambda: setattr(chosen, "terminate", True)):
            found = session.run(outputs, inputs, chosen)
    return found
