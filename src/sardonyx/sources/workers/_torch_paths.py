"""Where an exporter kept one path of several: values of a recorded run that became constants, and conditions on sizes."""

import contextlib
import itertools
import linecache
import os
import re
import traceback
import warnings

import torch

from ._torch_refusals import is_users

# Sizes to try a condition on: one that holds for all of them does not narrow anything. An exporter leaves out 0 and 1 by itself.
SIZES = {1: (2, 3, 4, 5, 7, 8, 9, 16, 31, 64, 100, 1000, 10**6), 2: (2, 3, 7, 64, 10**6)}  # by the number of symbols
# Functions that answer with Python's own truth, without a warning of the recorder.
COMPARISONS = ("equal", "allclose")
_HERE = os.path.dirname(os.path.realpath(__file__)) + os.sep


@contextlib.contextmanager
def recorded(found):
    """While the block lasts, adds the user's line to the list for each value of a recorded run that becomes a constant."""
    with warnings.catch_warnings(record=True) as caught, _comparisons(found):
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", torch.jit.TracerWarning)
        try:
            yield
        finally:
            for item in caught:
                if issubclass(item.category, torch.jit.TracerWarning) and is_users(item.filename):
                    _explain(found, _line(item.filename, item.lineno), _first_sentence(item.message))


@contextlib.contextmanager
def _comparisons(found):
    """Adds the user's lines that compare whole tensors: their answer is Python's own, and the recorder says nothing of it."""
    places = [(holder, name) for holder in (torch, torch.Tensor) for name in COMPARISONS]
    usual = [(holder, name, getattr(holder, name), name in vars(holder)) for holder, name in places]
    for holder, name, function, _ in usual:
        setattr(holder, name, _noting(found, function))
    try:
        yield
    finally:
        for holder, name, function, own in usual:
            setattr(holder, name, function) if own else delattr(holder, name)


def _noting(found, function):
    def compare(*args, **kwargs):
        where = _innermost(traceback.extract_stack()[:-1])
        if where is not None:
            _explain(found, where, f"{function.__name__} of tensors gives a Python bool, which becomes a constant")
        return function(*args, **kwargs)

    return compare


@contextlib.contextmanager
def guarded(found):
    """While the block lasts, adds each condition on sizes that the exporter takes as true, with the user's line, to the list."""
    from torch.fx.experimental import symbolic_shapes

    usual = getattr(
        symbolic_shapes.ShapeEnv, "_log_guard", None
    )  # PyTorch's own; another version may have no such thing
    if usual is None:
        yield
        return

    known = {}  # the same condition is asked again and again

    def log(self, prefix, expression, *arguments, **named):
        if expression not in known:
            known[expression] = _narrows(expression)
        if known[expression]:
            where = _innermost(traceback.extract_stack()[:-1])
            if where is not None:
                symbols = sorted(map(str, expression.free_symbols))
                _add(found, {"expression": str(expression), "symbols": symbols, **where})
        return usual(self, prefix, expression, *arguments, **named)

    symbolic_shapes.ShapeEnv._log_guard = log
    try:
        yield
    finally:
        symbolic_shapes.ShapeEnv._log_guard = usual


def of_named_sizes(guards, shapes, axes):
    """The conditions that are about the user's own dimensions, with their names in the place of the exporter's symbols."""
    names = {
        str(shape[axis]): name
        for shape, named in zip(shapes, axes)
        for axis, name in named.items()
        if axis < len(shape) and not isinstance(shape[axis], int)
    }
    found = []
    for guard in guards:
        guard = dict(guard)
        if set(guard.pop("symbols")) <= set(names):
            guard["expression"] = re.sub(r"[A-Za-z_]\w*", lambda word: names.get(word[0], word[0]), guard["expression"])
            _add(found, guard)
    return found


def _narrows(expression):
    """Whether some sizes make the condition false."""
    symbols = sorted(getattr(expression, "free_symbols", ()), key=str)
    if len(symbols) not in SIZES:
        return bool(symbols)
    return any(
        expression.subs(dict(zip(symbols, sizes))) == False  # noqa: E712  sympy's own false
        for sizes in itertools.product(SIZES[len(symbols)], repeat=len(symbols))
    )


def _innermost(stack):
    """The innermost line of the user's code inside the call that the exporter makes; what called us is no part of it."""
    ours = [place for place, frame in enumerate(stack) if os.path.realpath(frame.filename).startswith(_HERE)]
    inside = [frame for frame in stack[ours[-1] + 1 if ours else 0 :] if is_users(frame.filename)]
    return _line(inside[-1].filename, inside[-1].lineno) if inside else None


def _line(filename, number):
    return {"file": filename, "line": number, "text": linecache.getline(filename, number).strip()}


def _first_sentence(message):
    return " ".join(str(message).split()).partition(". ")[0].rstrip(".")


def _explain(found, line, why):
    """Adds a line with its reason, or a reason to the line that is there already."""
    known = next((entry for entry in found if entry["file"] == line["file"] and entry["line"] == line["line"]), None)
    if known is None:
        found.append({**line, "why": why})
    elif why not in known["why"]:
        known["why"] += f"; {why}"


def _add(found, entry):
    if entry not in found:
        found.append(entry)
