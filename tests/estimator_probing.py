"""Asks an estimator and an export of it for the rows and texts of `sardonyx.falsify`, and says where they differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import agreement
from sardonyx.falsify import features, texts
from sardonyx.model import Model
from sardonyx.run.session import Session
from sardonyx.signature import Array, Arrays, Signature, TensorSpec
from sardonyx.sources import Original, Outputs, recognise

# Far from the data an estimator of another kind than trees rounds more than any tolerance for the data allows.
FAR_AWAY = ("times ", "plus ")


@dataclass(frozen=True)
class Asked:
    """An estimator's answers to the batches that it accepts, and its exports by route."""

    batches: dict[str, Arrays]
    answers: dict[str, Outputs]
    exports: dict[str, Path]
    refusals: dict[str, str]
    deciding: Mapping[str, str]

    def differences(self, model: Any) -> dict[str, str]:
        """Batch -> how an export differs from the estimator on it; `model` is a path, or a session's model."""
        session = Session(Model.load(model) if isinstance(model, Path) else model)
        found = {name: self._difference(session, name) for name in self.answers}
        return {name: text for name, text in found.items() if text}

    def _difference(self, session: Session, name: str) -> str:
        answer = self.answers[name]
        try:
            given = list(session(self.batches[name]).values())
        except Exception as error:  # noqa: BLE001  whatever keeps it from answering is the difference
            return str(error)[:200]
        named = dict(zip(answer.names, answer.arrays, strict=True))
        for label, expected, got in zip(answer.names, answer.arrays, given, strict=True):
            text = _differ(expected, np.asarray(got), named.get(self.deciding.get(label, "")))
            if text:
                return f"{label} {text}"
        return ""


def ask(
    model: Any, example: Arrays, folder: Path, *, kind: str = "float32", routes: tuple[str, ...] = (), far: bool = True
) -> Asked:
    """The estimator's answers to all batches for inputs of a float type, and its exports by the routes, or by all."""
    example = {name: _typed(array, kind) for name, array in example.items()}
    signature = Signature(tuple(_spec(name, array) for name, array in example.items()))
    with Original(recognise(model)) as original:
        description = original.describe()
        random = np.random.default_rng(0)
        batches = features.around(signature, example, description, random)
        batches |= texts.around(signature, example, description, random)
        batches = {name: arrays for name, arrays in batches.items() if far or not name.startswith(FAR_AWAY)}
        replies = dict(zip(batches, original.predict(list(batches.values())), strict=True))
        exports, refusals = {}, {}
        for route in routes or original.source.routes():
            path = folder / f"{route}.onnx"
            settings = {"dynamic": agreement.dynamic(example), **agreement.OPTIONS}
            exported = original.export(route, path, example=example, **settings)
            if exported.failure is None:
                exports[route] = path
            else:
                refusals[route] = exported.failure.reason
    answers = {name: answer for name, answer in replies.items() if isinstance(answer, Outputs)}
    return Asked(batches, answers, exports, refusals, description.get("decided_by") or {})


def _typed(array: Array, kind: str) -> Array:
    if array.dtype.kind in "OUS":
        return array.astype(object)
    return array.astype(kind) if array.dtype.kind == "f" else array


def _spec(name: str, array: Array) -> TensorSpec:
    dtype = "string" if array.dtype == object else str(array.dtype)
    return TensorSpec(name, dtype, ("batch", *array.shape[1:]))


def _differ(expected: Array, got: Array, scores: Array | None) -> str:
    """What differs by more than rounding; a label may differ where the scores that decide it are nearly even."""
    if expected.shape != got.shape:
        return f"has the shape {got.shape}, not {expected.shape}"
    if expected.dtype.kind == "f":
        wrong = _far(expected.astype(np.float64), got.astype(np.float64))
    elif expected.dtype.kind in "OUS":
        wrong = expected.astype(str) != got.astype(str)
    else:
        wrong = expected != got
    rows = wrong.reshape(len(wrong), -1).any(axis=1)
    if expected.dtype.kind != "f" and scores is not None:
        rows &= ~_nearly_even(scores)
    return f"differs in {int(rows.sum())} of {len(rows)} rows" if rows.any() else ""


def _far(expected: Array, got: Array) -> Array:
    finite = np.isfinite(expected) & np.isfinite(got)
    spread = float(np.std(expected[finite])) if finite.any() else 0.0
    with np.errstate(invalid="ignore"):
        close = np.abs(expected - got) <= 1e-4 * (np.abs(expected) + spread) + 1e-6
    return ~np.where(finite, close, (expected == got) | (np.isnan(expected) & np.isnan(got)))


def _nearly_even(scores: Array) -> Array:
    table = np.nan_to_num(scores.reshape(len(scores), -1).astype(np.float64))
    size = float(np.abs(table).max(initial=1e-9))
    if table.shape[1] == 1:
        return np.abs(table[:, 0]) < 1e-5 * size
    best = np.sort(table, axis=1)
    return best[:, -1] - best[:, -2] < 1e-5 * size
