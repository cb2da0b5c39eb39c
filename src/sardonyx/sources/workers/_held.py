"""Values that Python code keeps from call to call: attributes, closures, class attributes, globals and random generators.

A `Snapshot` reads them, says what a call changed, and puts them back. Frameworks' own objects are not entered; their variables
are the business of the worker that knows them.
"""

import collections
import copy
import dis
import functools
import itertools
import random
import sys
import types

import numpy

from ._generators import Generator

MOST = 20000  # containers and objects looked at: far more than a model holds, few enough for a tenth of a second
LARGEST = 1 << 22  # bytes of an array that is copied; a larger one is a table of weights
# Packages whose objects keep their state in variables or not at all.
FOREIGN = {
    "equinox", "flax", "jax", "jaxlib", "keras", "ml_dtypes", "numpy", "onnx", "tensorflow", "tf_keras", "torch",
    *getattr(sys, "stdlib_module_names", ("builtins", "collections", "functools", "logging", "re", "threading", "typing")),
}  # fmt: skip
PLAIN = (bool, int, float, complex, str, bytes, type(None), numpy.generic)
GENERATORS = (random.Random, numpy.random.Generator, numpy.random.RandomState)


class Snapshot:
    """What the roots hold now. `random` holds the generators apart: they change by being used."""

    def __init__(self, *roots, ignored=()):
        self._roots, self._ignored = roots, frozenset(ignored)
        self.random, self.places = [], []
        for place in _places(roots, self._ignored):
            (self.random if isinstance(place, Generator) else self.places).append(place)

    def changed(self):
        """The names of the values that are no longer as they were, without those of random generators."""
        return sorted({name for place in self.places for name in place.changed()})

    def drawn(self):
        """Whether a random generator was used."""
        return any(place.changed() for place in self.random)

    def restore(self, *, generators_only=False):
        for place in self.random if generators_only else (*self.random, *self.places):
            place.restore()

    def disturb(self):
        """Moves every number that changed far away, as many calls might; True if there was one."""
        moved = [place.disturb() for place in self.places]
        return any(moved)

    def stir(self):
        """Moves the random generators on."""
        for place in self.random:
            place.advance()


def reached(*roots):
    """Every object that the walk from the roots looks at."""
    seen = []
    for _ in _places(roots, frozenset(), seen):
        pass
    return seen


class _Mapping:
    """The values of a dict: of an instance's attributes, of a module's globals, or of a dict itself."""

    def __init__(self, name, holder, keys=None):
        self._name, self._holder, self._keys = name, holder, keys
        self._saved = {key: _kept(value) for key, value in holder.items() if keys is None or key in keys}

    def _now(self):
        return {key: value for key, value in self._holder.items() if self._keys is None or key in self._keys}

    def changed(self):
        now = self._now()
        keys = [key for key in {**self._saved, **now} if not _same(self._saved.get(key, self), now.get(key, self))]
        return [_joined(self._name, key) for key in keys]

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


class _Attributes(_Mapping):
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


class _Sequence:
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


class _Cell:
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


class _Array:
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


# The walk


def _places(roots, ignored, visited=None):
    """Everything that can change behind the roots, each once. What was looked at is added to `visited`."""
    waiting = collections.deque((_called(root), root) for root in roots)
    seen, visited = set(), [] if visited is None else visited
    while waiting and len(seen) < MOST:
        name, value = waiting.popleft()
        if id(value) in seen or isinstance(value, (*PLAIN, types.ModuleType)):
            continue
        seen.add(id(value))
        visited.append(value)  # and kept, so that no other object gets its id
        if isinstance(value, GENERATORS):
            yield Generator(name, value)
        elif isinstance(value, numpy.ndarray):
            if value.nbytes <= LARGEST and value.flags.writeable:
                yield _Array(name, value)
        elif type(value) is dict:
            yield _Mapping(name, value)
            waiting.extend((_joined(name, key), item) for key, item in value.items())
        elif isinstance(value, (list, set, collections.deque)) and type(value).__module__ in (
            "builtins",
            "collections",
        ):
            yield _Sequence(name, value)
            waiting.extend((name, item) for item in value)
        elif isinstance(value, (tuple, frozenset)):
            waiting.extend((name, item) for item in value)
        elif isinstance(value, types.FunctionType):
            yield from _function(value, waiting)
        elif isinstance(value, types.MethodType):
            waiting.extend([(name, value.__self__), (name, value.__func__)])
        elif isinstance(value, functools.partial):
            waiting.extend((name, item) for item in (value.func, *value.args, *value.keywords.values()))
        elif isinstance(value, type):
            if _is_theirs(value):
                yield _Attributes(value)
                waiting.extend((_joined(value.__name__, key), item) for key, item in list(vars(value).items()))
        else:
            yield from _instance(name, value, waiting, ignored)


def _function(function, waiting):
    """The cells of a function, its defaults, and the globals that its code names."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            content = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        yield _Cell(name, cell)
        waiting.append((name, content))
    waiting.extend((function.__name__, item) for item in function.__defaults__ or ())
    if _is_foreign(function.__module__):
        return
    written, read = _globals_of(function.__code__)
    if written & function.__globals__.keys():
        yield _Mapping("", function.__globals__, written)
    waiting.extend((name, function.__globals__[name]) for name in read if name in function.__globals__)


def _globals_of(code):
    """(names of globals that the code writes, names that it mentions), with the functions inside it."""
    written = {item.argval for item in dis.get_instructions(code) if item.opname == "STORE_GLOBAL"}
    read = set(code.co_names)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            more = _globals_of(inner)
            written, read = written | more[0], read | more[1]
    return written, read


def _instance(name, value, waiting, ignored):
    """The attributes of a user's object, and those of its classes; of a framework's wrapper, the function it wraps."""
    for inside in ("python_function", "__wrapped__"):
        wrapped = vars(value).get(inside) if hasattr(value, "__dict__") else None
        wrapped = wrapped or (getattr(value, inside, None) if _is_foreign(type(value).__module__) else None)
        if callable(wrapped):
            waiting.append((name, wrapped))
    theirs = [kind for kind in type(value).__mro__ if _is_theirs(kind)]
    if not theirs:
        return
    waiting.extend((kind.__name__, kind) for kind in theirs)
    attributes = getattr(value, "__dict__", None)
    if type(attributes) is dict:
        keys = None if not ignored else {key for key in attributes if key not in ignored}
        yield _Mapping(name, attributes, keys)
        waiting.extend((_joined(name, key), item) for key, item in attributes.items() if key not in ignored)


def _called(root):
    """What to call a root: a layer by its name, another object by its class."""
    name = getattr(root, "name", None)
    return name if isinstance(name, str) else "" if isinstance(root, types.FunctionType) else type(root).__name__


def _joined(name, key):
    return f"{name}.{key}" if name else str(key)


def _is_theirs(kind):
    return not _is_foreign(kind.__module__)


def _is_foreign(module):
    return (module or "").partition(".")[0] in FOREIGN


def _kept(value):
    """The value, or a copy of a counter, which moves on by being read."""
    return copy.copy(value) if isinstance(value, itertools.count) else value


def _is_value(value):
    """Whether it is data. What else appears during a call, such as a layer, was built by it and must stay."""
    tensor = hasattr(value, "dtype") and hasattr(value, "shape") and not hasattr(value, "assign")
    return tensor or isinstance(value, (*PLAIN, list, dict, set, collections.deque, tuple, itertools.count))


def _is_number(value):
    return isinstance(value, (int, float, numpy.number)) and not isinstance(value, bool)


def _far(value):
    return value + (1000 if isinstance(value, (int, numpy.integer)) else 1000.0)


def _same(one, two):
    if one is two:
        return True
    if type(one) is not type(two):
        return False
    if isinstance(one, numpy.ndarray):
        return one.shape == two.shape and one.dtype == two.dtype and one.tobytes() == two.tobytes()
    if isinstance(one, itertools.count):
        return repr(one) == repr(two)
    return isinstance(one, PLAIN) and (one == two or (one != one and two != two))
