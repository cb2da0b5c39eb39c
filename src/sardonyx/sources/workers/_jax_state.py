"""What a JAX callable carries from call to call: values that its Python code holds, and the variables of a Flax NNX module."""

import contextlib
import random

import jax
import numpy

from ._held import Snapshot, reached


class State(Snapshot):
    """The Python values of a callable and the variables of an NNX module as they are now. `restore` puts them back."""

    def __init__(self, function):
        super().__init__(function)
        self._module = function if is_nnx(function) else None
        self._saved = self._read()

    def changed(self):
        now = self._read()
        moved = [
            name for name, value in self._saved.items() if not _is_random(name) and not _same(value, now.get(name))
        ]
        return sorted({*moved, *super().changed()})

    def restore(self, *, generators_only=False):
        super().restore(generators_only=generators_only)
        self._write({n: value for n, value in self._saved.items() if _is_random(n) or not generators_only})

    def disturb(self):
        now = self._read()
        moved = {n: v * 3 + 5 for n, v in now.items() if not _is_random(n) and not _same(v, self._saved.get(n))}
        self._write(moved)
        return super().disturb() or bool(moved)

    def stir(self):
        super().stir()
        self._write({name: value + 1 for name, value in self._saved.items() if _is_random(name) and _is_plain(value)})

    def _read(self):
        """{name: array} of the module's variables."""
        if self._module is None:
            return {}
        return {_name(path): value for path, value in self._leaves()[0]}

    def _write(self, values):
        if self._module is None or not values:
            return
        from flax import nnx

        leaves, structure = self._leaves()
        nnx.update(
            self._module,
            jax.tree_util.tree_unflatten(structure, [values.get(_name(path), value) for path, value in leaves]),
        )

    def _leaves(self):
        from flax import nnx

        return jax.tree_util.tree_flatten_with_path(nnx.state(self._module))


def is_nnx(function):
    return any(kind.__module__.startswith("flax.nnx") for kind in type(function).__mro__)


@contextlib.contextmanager
def own_seeds():
    """Leaves the random numbers of Python and numpy as they were: the process may be the user's own."""
    before = random.getstate(), numpy.random.get_state()
    try:
        yield
    finally:
        random.setstate(before[0])
        numpy.random.set_state(before[1])


def forget_traces(function):
    """Makes the jitted functions behind a callable run their Python code again."""
    for value in reached(function):
        if callable(getattr(value, "clear_cache", None)) and hasattr(value, "__wrapped__"):
            value.clear_cache()


def _name(path):
    words = [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", "")))) for key in path]
    return ".".join(word for word in words if word != "value")


def _is_random(name):
    """Whether it is the key or the counter of an NNX random stream."""
    return name.rpartition(".")[2] in ("key", "count")


def _is_plain(value):
    return not jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)


def _same(one, two):
    if two is None or not _is_plain(one):
        return two is not None
    return numpy.asarray(one).tobytes() == numpy.asarray(two).tobytes()
