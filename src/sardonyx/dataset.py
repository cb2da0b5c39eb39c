"""What arrays and tables hold for a model: its inputs, its labels, and advice where the labels are called otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sardonyx.arrays import NAMELESS, Rows
from sardonyx.columns import assign
from sardonyx.errors import BadData, UsageError
from sardonyx.frame import Frame
from sardonyx.signature import Signature

LABEL = "label"
# What people call their labels.
_LIKELY = ("y", "target", "targets", "labels", "class", "classes", "y_true")


@dataclass(frozen=True)
class Dataset:
    """Data of any kind that `Samples.open` takes, with what the user says about it.

    `label` names the array or column of labels, and `columns` those that make up a matrix, in their order. Labels that are
    `ignored` are kept out of the inputs and not looked at.
    """

    source: Any
    label: str | None = None
    columns: Sequence[str] = ()
    ignored: bool = False

    @classmethod
    def of(cls, source: Any, label: str | None = None, *, ignored: bool = False) -> Dataset | None:
        """The data, or None where there is none; then there are no labels either."""
        if source is None and label is not None:
            raise UsageError(f"'{label}' names labels, and there is no data", hint="give the data as well: --data FILE")
        return None if source is None else cls(source, label, ignored=ignored)


@dataclass(frozen=True)
class Named:
    """Rows by input, the labels, what is wrong, the columns that went into each input, and the names that are left over.

    An input that nothing is there for is in none of these; a table that lacks some is no problem of its own.
    """

    inputs: dict[str, Rows]
    label: Rows | None
    problems: list[str] = field(default_factory=list)
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    spare: tuple[str, ...] = ()


def named(
    found: Mapping[str, Rows] | Frame,
    signature: Signature,
    *,
    label: str | None = None,
    columns: Sequence[str] = (),
    ignored: bool = False,
    where: str = "the data",
) -> Named:
    """The inputs and the labels among arrays or columns. A nameless array is the only input."""
    if label is not None and label not in found:
        raise BadData(f"{where} has no '{label}'", hint=f"it has {', '.join(list(found)[:20]) or 'nothing'}")
    name = label or LABEL
    if isinstance(found, Frame):
        return _of_frame(found, signature, name, columns, ignored)
    inputs = dict(found)
    labels = inputs.get(name) if name in signature.input_names else inputs.pop(name, None)
    if list(inputs) == [NAMELESS] and len(signature.inputs) == 1:
        inputs = {signature.inputs[0].name: inputs[NAMELESS]}
    spare = () if labels is not None else tuple(each for each in inputs if each not in signature.input_names)
    return Named(inputs, None if ignored else labels, spare=spare)


def _of_frame(frame: Frame, signature: Signature, label: str, columns: Sequence[str], ignored: bool) -> Named:
    found = assign(frame, signature, label=label, order=columns)
    problems, labels = list(found.problems), None
    if label in frame and not ignored:
        try:
            labels = frame[label].labels()
        except ValueError as error:
            problems.append(f"column '{label}': {error}")
    used = set() if problems else found.used
    spare = () if label in frame else tuple(name for name in frame if name not in used)
    return Named(dict(found.inputs), labels, problems, found.taken, spare)


def label_advice(spare: Iterable[str]) -> str:
    """How to name the labels, where one of these names looks like theirs; else an empty text."""
    likely = next((name for name in spare if name.lower() in _LIKELY), None)
    if likely is None:
        return ""
    return f"if '{likely}' holds the labels, say so with --label {likely} (in Python label='{likely}'), or call it '{LABEL}'"


def no_labels(spare: Iterable[str]) -> str:
    """What to do about data without labels where they are needed."""
    return label_advice(spare) or f"put them into an array or column called '{LABEL}', or name theirs with --label NAME"


def misfit(signature: Signature, problems: Iterable[str], spare: Iterable[str], *, what: str) -> BadData:
    """The error that names every problem, says what the model takes and, where it may help, how to name the labels."""
    error = signature.misfit(problems, what=what)
    advice = label_advice(spare)
    return BadData(error.message, hint=f"{error.hint}; {advice}" if advice else error.hint)


def in_memory(source: Mapping[str, Any]) -> dict[str, Rows]:
    """A dict of arrays, lists or tensors as arrays, or one error that names all that are none."""
    found: dict[str, Rows] = {}
    problems = []
    for name, value in source.items():
        try:
            found[name] = np.asarray(value)
        except (ValueError, TypeError, RuntimeError) as error:
            problems.append(f"{name}: {error}")
    if problems:
        raise BadData("not arrays:\n  " + "\n  ".join(problems), hint="give arrays with examples along axis 0")
    return found
