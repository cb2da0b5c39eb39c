"""Places where Python code keeps a value: each knows whether it changed, puts it back, and moves it.

Every place has `changed()` (names of what is no longer as it was), `restore()` and `disturb()` (moves a number that changed far
away, as many calls might, and says whether there was one).
"""

import collections
import copy
import itertools
import random

import numpy

PLAIN = (bool, int, float, complex, str, bytes, type(None), numpy.generic)


class Mapping:
    """The values of a dict: of an instance's attributes, of a module's globals, or of a dict itself."""

    def __init__(self, name, holder, keys=None):
        self._name, self._holder, self._keys = name, holder, keys
        self._saved = {key: _kept(value) for key, value in holder.items() if keys is None or key in keys}

    def _now(self):
        return {key: value for key, value in self._holder.items() if self._keys is None or key in self._keys}

    def changed(self):
        now = self._now()
        keys = [key for key in {**self._saved, **now} if not _same(self._saved.get(key, self), now.get(key, self))]
        return [joined(self._name, key) for key in keys]

    def restore(self):
        now = self._now()
        moved = {key: value for key, value in now.items() if self._saved.get(key, self) is not value}
        if not all(map(_is_value, moved.values())):  # something was built, and the rest may say that it was
            return
        for key in moved.keys() - self._saved.keys():
            del self._holder[key]
        for key, value in self._saved.items():
            if now.get(key, self) is not value:
                self._holder[key] = _kept(value)

    def disturb(self):
        now = self._now()
        moved = {
            key: _far(value)
            for key, value in now.items()
            if _is_number(value) and not _same(self._saved.get(key), value)
        }
        self._holder.update(moved)
        return bool(moved)


class Attributes(Mapping):
    """The class attributes of a user's class, which only `setattr` can write."""

    def __init__(self, kind):
        names = {key for key, value in vars(kind).items() if not key.startswith("__") and _is_value(value)}
        super().__init__(kind.__name__, _ClassDict(kind), names)


class _ClassDict:
    def __init__(self, kind):
        self._kind = kind

    def items(self):
        return vars(self._kind).items()

    def __setitem__(self, key, value):
        setattr(self._kind, key, value)

    def __delitem__(self, key):
        delattr(self._kind, key)

    def update(self, values):
        for key, value in values.items():
            setattr(self._kind, key, value)


class Sequence:
    """A list, set or deque."""

    def __init__(self, name, holder):
        self._name, self._holder, self._saved = name, holder, list(holder)

    def changed(self):
        now = list(self._holder)
        same = len(now) == len(self._saved) and all(map(_same, now, self._saved))
        return [] if same else [self._name]

    def restore(self):
        known = set(map(id, self._saved))
        if self.changed() and all(_is_value(item) for item in self._holder if id(item) not in known):
            self._holder.clear()
            (self._holder.update if isinstance(self._holder, set) else self._holder.extend)(self._saved)

    def disturb(self):
        """A container that grows is disturbed by calling again, not from outside."""
        return False


class Cell:
    """A variable of an enclosing function."""

    def __init__(self, name, cell):
        self._name, self._cell, self._saved = name, cell, _kept(cell.cell_contents)

    def changed(self):
        return [] if _same(self._cell.cell_contents, self._saved) else [self._name]

    def restore(self):
        if self._cell.cell_contents is not self._saved and _is_value(self._cell.cell_contents):
            self._cell.cell_contents = _kept(self._saved)

    def disturb(self):
        moves = bool(self.changed()) and _is_number(self._cell.cell_contents)
        if moves:
            self._cell.cell_contents = _far(self._cell.cell_contents)
        return moves


class Array:
    """A numpy array, which code may write into."""

    def __init__(self, name, array):
        self._name, self._array, self._saved = name, array, array.copy()

    def changed(self):
        return [] if _same(self._array, self._saved) else [self._name]

    def restore(self):
        if self._array.flags.writeable:
            self._array[...] = self._saved

    def disturb(self):
        moves = bool(self.changed()) and self._array.dtype.kind in "iuf"
        if moves:
            self._array[...] = self._array * 3 + 5
        return moves


class Generator:
    """A random generator."""

    def __init__(self, name, generator):
        self._name, self._generator, self._saved = name, generator, copy.deepcopy(_state(generator))

    def changed(self):
        return [] if repr(_state(self._generator)) == repr(self._saved) else [self._name]

    def restore(self):
        if isinstance(self._generator, random.Random):
            self._generator.setstate(self._saved)
        elif isinstance(self._generator, numpy.random.RandomState):
            self._generator.set_state(self._saved)
        else:
            self._generator.bit_generator.state = self._saved

    def advance(self):
        """Draws once, so that the next draw gives other numbers."""
        self._generator.random() if not isinstance(
            self._generator, numpy.random.RandomState
        ) else self._generator.rand()


def _state(generator):
    if isinstance(generator, random.Random):
        return generator.getstate()
    return generator.get_state() if isinstance(generator, numpy.random.RandomState) else generator.bit_generator.state


def joined(name, key):
    return f"{name}.{key}" if name else str(key)


def _kept(value):
    """The value, or a copy of a counter, which moves on by being read."""
    return copy.copy(value) if isinstance(value, itertools.count) else value


def _is_value(value):
    """Whether it is data. What else appears during a call, such as a layer, was built by it and must stay."""
    tensor = hasattr(value, "dtype") and hasattr(value, "shape") and not hasattr(value, "assign")
    return tensor or isinstance(value, (*PLAIN, list, dict, set, collections.deque, tuple, itertools.count))


def _is_number(value):
    return isinstance(value, (int, float, numpy.number)) and not isinstance(value, bool)


def values_of(value):
    """The values of a PyTorch tensor as an array that shares its memory; None for others, and for types that numpy lacks."""
    if not (hasattr(value, "detach") and hasattr(value, "numpy")):
        return None
    try:
        return value.detach().cpu().numpy()
    except (
        AttributeError,
        RuntimeError,
        TypeError,
    ):  # a sparse or quantised one, bfloat16, a meta tensor, a key of JAX
        return None


def _far(value):
    return value + (100_000 if isinstance(value, (int, numpy.integer)) else 1000.0)


def _same(one, two):
    if one is two:
        return True
    if type(one) is not type(two):
        return False
    one, two = (value if values_of(value) is None else values_of(value) for value in (one, two))
    if isinstance(one, numpy.ndarray):
        return one.shape == two.shape and one.dtype == two.dtype and one.tobytes() == two.tobytes()
    if isinstance(one, itertools.count):
        return repr(one) == repr(two)
    return isinstance(one, PLAIN) and (one == two or (one != one and two != two))
