"""What a TensorFlow model carries from call to call: variables that it writes, and values that its Python code holds."""

import functools

import keras
import tensorflow as tf

from ._held import Snapshot
from ._tf_graph import RANDOM_STATE


class State:
    """The variables and Python values of a model as they are now. `restore` puts them back."""

    def __init__(self, variables, roots):
        self._python = Snapshot(*roots, ignored=base_attributes())
        # A read shares the variable's memory; TensorFlow copies it when the variable is written.
        self._saved = [(variable, variable.read_value()) for variable in variables]

    def changed(self):
        """The names of what is no longer as it was, without the states of random generators."""
        moved = [variable for variable, saved in self._saved if not _is_random(variable) and not _same(variable, saved)]
        return sorted({variable_name(variable) for variable in moved}) + self._python.changed()

    def restore(self, *, generators_only=False):
        for variable, saved in self._saved:
            if (_is_random(variable) or not generators_only) and not _same(variable, saved):
                variable.assign(saved)
        self._python.restore(generators_only=generators_only)

    def disturb(self):
        """Moves what a call changed far away, as many calls might; True if there was something."""
        moved = [
            variable
            for variable, saved in self._saved
            if not _is_random(variable)
            and (variable.dtype.is_floating or variable.dtype.is_integer)
            and not _same(variable, saved)
        ]
        for variable in moved:
            variable.assign(variable * 3 + 5)
        return self._python.disturb() or bool(moved)

    def stir(self):
        """Moves the random generators on."""
        for variable, saved in self._saved:
            if _is_random(variable):
                variable.assign(saved + tf.ones_like(saved))
        self._python.stir()


def variable_name(variable):
    return variable.name.partition(":")[0]


def keras_variables(model):
    """The TensorFlow variables of a Keras model, with those that its layers keep beside their weights, as recurrent states."""
    layers = list(model._flatten_layers())
    held = [value for layer in layers for item in vars(layer).values() for value in keras.tree.flatten(item)]
    found = [*model.variables, *(value for value in held if isinstance(value, (keras.Variable, tf.Variable)))]
    plain = [value if isinstance(value, tf.Variable) else getattr(value, "_value", None) for value in found]
    return list({id(value): value for value in plain if isinstance(value, tf.Variable)}.values())


def keras_code(model):
    """The layers whose Python code is the user's own, and the functions of Lambda layers."""
    layers = list(model._flatten_layers())
    own = [layer for layer in layers if not type(layer).__module__.startswith("keras.")]
    return [*own, *(layer.function for layer in layers if isinstance(layer, keras.layers.Lambda))]


@functools.lru_cache(maxsize=None)
def base_attributes():
    """The attributes that Keras itself keeps in every layer and model."""
    return frozenset({*vars(keras.layers.Layer()), *vars(keras.Model())})


def _is_random(variable):
    return RANDOM_STATE.search(variable.name) is not None


def _same(variable, saved):
    now = variable.read_value()
    return now.shape == saved.shape and now.numpy().tobytes() == saved.numpy().tobytes()
