"""Is an exported file right? The original is called in its own framework, the file in plain onnxruntime, on a trap's own cases.

Nothing here uses Sardonyx: neither its probes nor its tolerances decide what is true about a trap.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from traps._trap import Array, Arrays, Trap


def expected(trap: Trap) -> list[tuple[Arrays, list[Array]]]:
    """Every case with the original's answer. One model answers all, in order, so that state it carries along shows."""
    model = trap.build()
    call = trap.call or CALLS[trap.framework]
    answered = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in trap.cases(np.random.default_rng(0)):
            copies = {name: np.array(array) for name, array in case.items()}
            answered.append((case, [np.array(array) for array in call(model, copies)]))
    return answered


def differences(trap: Trap, answered: list[tuple[Arrays, list[Array]]], path: Path) -> list[tuple[Arrays, str]]:
    """The cases on which the file differs from the original, each with what differs; empty if it is right on all of them."""
    import onnxruntime

    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(path), quiet, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001  onnxruntime's own errors have no common parent
        return [(answered[0][0], f"does not load: {error}")]
    found = []
    for number, (case, answer) in enumerate(answered):
        try:
            got = session.run(None, feed(session, case))
        except Exception as error:  # noqa: BLE001
            found.append((case, f"case {number}: fails: {str(error)[:300]}"))
            continue
        said = (trap.judge or plain(trap))(answer, got)
        if said:
            found.append((case, f"case {number}: {said}"))
    return found


def feed(session: Any, case: Arrays) -> Arrays:
    """The case as the file takes it: a float64 column becomes float32 where that is what the file asks for."""
    types = {
        "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(int32)": np.int32,
        "tensor(bool)": np.bool_, "tensor(string)": object, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8,
        "tensor(float16)": np.float16, "tensor(int16)": np.int16,
    }  # fmt: skip
    with np.errstate(over="ignore", invalid="ignore"):
        return {item.name: case[item.name].astype(types[item.type]) for item in session.get_inputs()}


def plain(trap: Trap) -> Callable[[list[Array], list[Array]], str]:
    """The comparison of a framework: PyTorch, Keras and JAX to the type of integers, estimators up to shape and ties."""
    exact = trap.framework in ("torch", "jax")

    def judge(answer: list[Array], got: list[Array]) -> str:
        if exact and len(answer) != len(got):
            return f"{len(got)} outputs instead of {len(answer)}"
        apart = [
            (index, differs(one, np.asarray(two), rtol=trap.rtol, atol=trap.atol, exact=exact))
            for index, (one, two) in enumerate(zip(answer, got, strict=False))
        ]
        faults = [f"output {index}: {said}" for index, said in apart if said]
        if not exact and faults and apart[0][1] and len(faults) == 1 and tied(trap, answer, got):
            return ""
        return "; ".join(faults)

    return judge


def differs(answer: Array, got: Array, *, rtol: float, atol: float, exact: bool) -> str:
    """How two arrays differ, or "". Numbers may differ by `rtol` of themselves and `atol` of the largest, or of one."""
    if answer.shape != got.shape:
        if exact or answer.size != got.size:
            return f"shape {got.shape} instead of {answer.shape}"
        got = got.reshape(answer.shape)
    kinds = [
        {"U": "text", "S": "text", "O": "text", "f": "float", "b": "bool"}.get(a.dtype.kind, "int")
        for a in (answer, got)
    ]
    if "text" in kinds or (kinds[0] != "float" and not exact):
        return "" if np.array_equal(answer.astype(str), got.astype(str)) else f"{_first(answer, got, answer != got)}"
    if kinds[0] != kinds[1] or (exact and kinds[0] == "int" and answer.dtype != got.dtype):
        return f"type {got.dtype} instead of {answer.dtype}"
    if kinds[0] != "float":
        return "" if np.array_equal(answer, got) else _first(answer, got, answer != got)
    wanted, given = answer.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(wanted)
    with np.errstate(invalid="ignore"):
        same = (wanted == given) | (np.isnan(wanted) & np.isnan(given))
        largest = np.abs(wanted[finite]).max(initial=1.0)
        near = finite & np.isfinite(given) & (np.abs(wanted - given) <= rtol * np.abs(wanted) + atol * largest)
    return "" if (same | near).all() else _first(answer, got, ~(same | near))


def _first(answer: Array, got: Array, where: Array) -> str:
    index = tuple(int(i) for i in np.argwhere(np.atleast_1d(where))[0])
    place = f" at {list(index)}" if answer.ndim else ""
    return f"{np.atleast_1d(got)[index]} instead of {np.atleast_1d(answer)[index]}{place}"


def tied(trap: Trap, answer: list[Array], got: list[Array]) -> bool:
    """Whether the labels differ only on rows whose two best scores are nearly even."""
    if len(answer) < 2 or answer[0].ndim != 1 or answer[1].dtype.kind != "f":
        return False
    rows = answer[0].astype(str) != np.asarray(got[0]).reshape(answer[0].shape).astype(str)
    scores = np.sort(np.asarray(answer[1], np.float64).reshape(len(rows), -1), axis=1)[rows]
    if scores.shape[1] < 2:
        return False
    return bool((scores[:, -1] - scores[:, -2] <= 2 * (trap.atol + trap.rtol * np.abs(scores[:, -1]))).all())


def call_torch(model: Any, arrays: Arrays) -> list[Array]:
    """forward's outputs, flat and in order; in eval mode, because that is what `convert` exports."""
    import torch

    nested: dict[str, Any] = {}
    for name, array in arrays.items():
        *path, last = name.split(".")
        place = nested
        for word in path:
            place = place.setdefault(word, {})
        place[last] = torch.from_numpy(array)
    with torch.no_grad():
        return torch_leaves(model.eval()(**{name: _sequence(value) for name, value in nested.items()}))


def _sequence(value: Any) -> Any:
    """{'0': a, '1': b} as a list; other dicts stay dicts."""
    if not isinstance(value, dict):
        return value
    inner = {key: _sequence(item) for key, item in value.items()}
    return [inner[key] for key in sorted(inner, key=int)] if all(key.isdigit() for key in inner) else inner


def torch_leaves(answer: Any) -> list[Array]:
    """The arrays of a tensor, of a number, or of nested containers of them."""
    if answer is None:
        return []
    if isinstance(answer, dict):
        return [leaf for item in answer.values() for leaf in torch_leaves(item)]
    if isinstance(answer, list | tuple):
        return [leaf for item in answer for leaf in torch_leaves(item)]
    if isinstance(answer, bool | int | float):
        return [np.asarray(answer, np.float32 if isinstance(answer, float) else None)]
    return [answer.detach().numpy()]


def call_estimator(model: Any, arrays: Arrays, table: Any = None) -> list[Array]:
    """Labels and probabilities (or scores), predictions, or what `transform` gives, for the one matrix or a given table."""
    table = next(iter(arrays.values())) if table is None else table
    for method in ("predict_proba", "decision_function"):
        if hasattr(model, method) and hasattr(model, "predict"):
            scores = np.asarray(getattr(model, method)(table))
            scores = np.stack([-scores, scores], 1) if scores.ndim == 1 else scores
            return [np.asarray(model.predict(table)), scores]
    answer = model.predict(table) if hasattr(model, "predict") else model.transform(table)
    return [np.asarray(answer.toarray() if hasattr(answer, "toarray") else answer)]


def call_with_texts(model: Any, arrays: Arrays) -> list[Array]:
    """An estimator that takes a list of texts."""
    return call_estimator(model, arrays, [str(text) for text in next(iter(arrays.values())).ravel()])


def call_with_frame(model: Any, arrays: Arrays) -> list[Array]:
    """An estimator that takes a data frame with a column for each input."""
    import pandas

    columns = {
        name: array.ravel().astype(object) if array.dtype.kind in "US" else array.ravel()
        for name, array in arrays.items()
    }
    return call_estimator(model, arrays, pandas.DataFrame(columns))


def call_keras(model: Any, arrays: Arrays) -> list[Array]:
    """A Keras model called on tensors, in inference mode: one tensor, or a dict of them where it has several inputs."""
    given = next(iter(arrays.values())) if len(arrays) == 1 else arrays
    return array_leaves(model(given, training=False))


def call_jax(model: Any, arrays: Arrays) -> list[Array]:
    """A function called on the arrays in order."""
    return array_leaves(model(*arrays.values()))


def array_leaves(answer: Any) -> list[Array]:
    """The arrays of nested dicts, lists and tuples, in order."""
    if answer is None:
        return []
    if isinstance(answer, dict):
        return [leaf for key in sorted(answer) for leaf in array_leaves(answer[key])]
    if isinstance(answer, list | tuple):
        return [leaf for item in answer for leaf in array_leaves(item)]
    return [np.asarray(answer)]


CALLS: dict[str, Callable[[Any, Arrays], list[Array]]] = {
    "torch": call_torch, "sklearn": call_estimator, "boosting": call_estimator, "keras": call_keras, "jax": call_jax,
}  # fmt: skip
