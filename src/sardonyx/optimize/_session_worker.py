"""Child process: a session with its settings, driven by sources/workers/_harness.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sardonyx.model import Model
from sardonyx.run.session import Session, Settings, stored_level
from sardonyx.signature import Array, Arrays

DISTRIBUTIONS = ("onnxruntime",)


def load(source: dict[str, Any]) -> Session:
    # With its signature given, a session does not look for settings that the model was tuned to before.
    model = Model.load(source["path"])
    settings = Settings(**source["settings"], level=stored_level(model))
    return Session(source["path"], settings, signature=model.signature)


def predict(session: Session, inputs: Arrays, *, double: bool = False) -> list[tuple[str, Array]]:
    assert not double, "nobody asks for it"
    return list(session.run_fitted(inputs).items())


def prepare(session: Session, inputs: Arrays) -> Callable[[], object]:
    return lambda: session.run_fitted(inputs)
