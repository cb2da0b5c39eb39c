"""Values that Python code keeps from call to call: attributes, closures, class attributes, globals and random generators.

A `Snapshot` reads them, says what a call changed, and puts them back. Frameworks' own objects are not entered; their variables
are the business of the worker that knows them.
"""

import collections
import dis
import functools
import random
import sys
import types

import numpy

from ._places import PLAIN, Array, Attributes, Cell, Generator, Mapping, Sequence, joined, values_of

MOST = 20000  # containers and objects looked at: far more than a model holds, few enough for a tenth of a second
LARGEST = 1 << 22  # bytes of an array that is copied; a larger one is a table of weights
# Packages whose objects keep their state in variables or not at all.
FOREIGN = {
    "equinox", "flax", "jax", "jaxlib", "keras", "ml_dtypes", "numpy", "onnx", "tensorflow", "tf_keras", "torch",
    *getattr(sys, "stdlib_module_names", ("builtins", "collections", "functools", "logging", "re", "threading", "typing")),
}  # fmt: skip
GENERATORS = (random.Random, numpy.random.Generator, numpy.random.RandomState)


class Snapshot:
    """What the roots hold now. `random` holds the generators apart: they change by being used.

    `names` are those of the roots; attributes that are `ignored` are not looked at, and neither are more than `most` objects.
    """

    def __init__(self, *roots, ignored=(), names=None, most=MOST):
        self.random, self.places = [], []
        named = zip(map(_called, roots) if names is None else names, roots)
        for place in _places(named, frozenset(ignored), most=most):
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
    for _ in _places([(_called(root), root) for root in roots], frozenset(), seen):
        pass
    return seen


# The walk


def _places(named, ignored, visited=None, most=MOST):
    """Everything that can change behind the named roots, each once. What was looked at is added to `visited`."""
    waiting = collections.deque(named)
    seen, visited = set(), [] if visited is None else visited
    while waiting and len(seen) < most:
        name, value = waiting.popleft()
        if id(value) in seen or isinstance(value, (*PLAIN, types.ModuleType)):
            continue
        seen.add(id(value))
        visited.append(value)  # and kept, so that no other object gets its id
        if isinstance(value, GENERATORS):
            yield Generator(name, value)
        elif isinstance(value, numpy.ndarray):
            if value.nbytes <= LARGEST and value.flags.writeable:
                yield Array(name, value)
        elif values_of(value) is not None:  # a tensor of PyTorch, whose values are seen through an array
            view = values_of(value)
            if view.nbytes <= LARGEST:
                yield Array(name, view)
        elif type(value) in (dict, collections.OrderedDict, collections.defaultdict, collections.Counter):
            yield Mapping(name, value)
            waiting.extend((joined(name, key), item) for key, item in value.items())
        elif isinstance(value, (list, set, collections.deque)) and type(value).__module__ in (
            "builtins",
            "collections",
        ):
            yield Sequence(name, value)
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
                yield Attributes(value)
                waiting.extend((joined(value.__name__, key), item) for key, item in list(vars(value).items()))
        else:
            yield from _instance(name, value, waiting, ignored)


def _function(function, waiting):
    """The cells of a function, its defaults, and the globals that its code names."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            content = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        yield Cell(name, cell)
        waiting.append((name, content))
    waiting.extend((function.__name__, item) for item in function.__defaults__ or ())
    if _is_foreign(function.__module__):
        return
    written, read = _globals_of(function.__code__)
    if written & function.__globals__.keys():
        yield Mapping("", function.__globals__, written)
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
        yield Mapping(name, attributes, keys)
        waiting.extend((joined(name, key), item) for key, item in attributes.items() if key not in ignored)


def _called(root):
    """What to call a root: a layer by its name, another object by its class."""
    name = getattr(root, "name", None)
    return name if isinstance(name, str) else "" if isinstance(root, types.FunctionType) else type(root).__name__


def _is_theirs(kind):
    return not _is_foreign(kind.__module__)


def _is_foreign(module):
    return (module or "").partition(".")[0] in FOREIGN
