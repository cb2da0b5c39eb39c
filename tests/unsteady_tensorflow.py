"""TensorFlow and Keras models that draw random numbers or carry a state, and some that only look like it.

TensorFlow is imported inside the factories only, so that the table can be read without it.
"""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

X = ("x=float32[2,4]",)
# Factory -> what differs between equal calls ("random", "state", or "" if nothing), and what a call changes.
UNSTEADY: dict[str, tuple[str, tuple[str, ...]]] = {
    "stateful_gru": ("state", ("sequential/gru/rnn_state",)),
    "counter_in_a_layer": ("state", ("own/calls",)),
    "attribute": ("state", ("own.calls",)),
    "attribute_that_matters_late": ("state", ("own.calls",)),
    "list_in_a_closure": ("state", ("seen",)),
    "iterator_in_a_closure": ("state", ("numbers",)),
    "function_with_a_variable": ("state", ("total",)),
    "module_with_a_variable": ("state", ("count",)),
    "function_without_a_signature": ("state", ("seen",)),
    "filled_table": ("state", ("a lookup table",)),
    "dropout_always_on": ("random", ()),
    "noise_always_on": ("random", ()),
    "tensorflow_random": ("random", ()),
    "seeded_tensorflow_random": ("random", ()),
    "keras_random": ("random", ()),
    "python_random": ("random", ()),
    "numpy_random": ("random", ()),
    "numpy_generator": ("random", ()),
    "clock": ("random", ()),
    "drawn_while_traced": ("random", ()),
    "tensorflow_generator": ("random", ()),
    "dropout_off": ("", ()),
    "fixed_seed": ("", ()),
    "stateless_random": ("", ()),
    "counted_for_nothing": ("", ()),
    "variable_that_is_overwritten": ("", ()),
    "attribute_for_nothing": ("", ()),
    "traced_once": ("", ()),
}


def inputs(name: str) -> tuple[str, ...]:
    return ("x=float32[2,5,3]",) if name == "stateful_gru" else X


def _own(call: Callable[[Any, Any], Any], prepare: Callable[[Any], object] = id) -> Any:
    """A Keras model of one layer of the user's own."""
    import keras

    class Own(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__(name="own")
            prepare(self)

        def call(self, x: Any) -> Any:
            return call(self, x)

    return keras.Sequential([keras.Input((4,), name="x"), Own()])


def _function(python: Callable[[Any], Any], *, signature: bool = True) -> Any:
    import tensorflow as tf

    given = {"input_signature": [tf.TensorSpec([None, 4], tf.float32, name="x")]} if signature else {}
    return tf.function(python, **given)


def stateful_gru() -> Any:
    import keras

    layer = keras.layers.GRU(4, stateful=True, name="gru")
    return keras.Sequential([keras.Input(batch_shape=(2, 5, 3), name="x"), layer], name="sequential")


def _count(layer: Any) -> None:
    layer.calls = layer.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")


def counter_in_a_layer() -> Any:
    def call(layer: Any, x: Any) -> Any:
        layer.calls.assign_add(1.0)
        return x * layer.calls

    return _own(call, _count)


def counted_for_nothing() -> Any:
    def call(layer: Any, x: Any) -> Any:
        layer.calls.assign_add(1.0)
        return x * 2

    return _own(call, _count)


def variable_that_is_overwritten() -> Any:
    import keras

    def call(layer: Any, x: Any) -> Any:
        layer.calls.assign(keras.ops.sum(x))
        return x * layer.calls

    return _own(call, _count)


def _python_count(layer: Any) -> None:
    layer.calls = 0


def attribute() -> Any:
    def call(layer: Any, x: Any) -> Any:
        layer.calls += 1
        return x * layer.calls

    return _own(call, _python_count)


def attribute_that_matters_late() -> Any:
    def call(layer: Any, x: Any) -> Any:
        layer.calls += 1
        return x * 2 if layer.calls < 500 else x

    return _own(call, _python_count)


def attribute_for_nothing() -> Any:
    def call(layer: Any, x: Any) -> Any:
        layer.calls += 1
        return x * 2

    return _own(call, _python_count)


def list_in_a_closure() -> Any:
    seen: list[int] = []

    def call(_: Any, x: Any) -> Any:
        seen.append(1)
        return x * len(seen)

    return _own(call)


def iterator_in_a_closure() -> Any:
    numbers = itertools.count(1)
    return _own(lambda _, x: x * next(numbers))


def function_with_a_variable() -> Any:
    import tensorflow as tf

    total = tf.Variable(0.0, name="total")
    return _function(lambda x: x + total.assign_add(1.0))


def module_with_a_variable() -> Any:
    import tensorflow as tf

    class Module(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.count = tf.Variable(0.0, name="count")

        def __call__(self, x: Any) -> Any:
            self.count.assign_add(1.0)
            return x + self.count

    return Module()


def function_without_a_signature() -> Any:
    """Is traced again for every new size, and then multiplies by another number."""
    seen: list[int] = []

    def function(x: Any) -> Any:
        seen.append(1)
        return x * len(seen)

    return _function(function, signature=False)


def traced_once() -> Any:
    seen: list[int] = []

    def function(x: Any) -> Any:
        seen.append(1)
        return x * len(seen)

    return _function(function)


def filled_table() -> Any:
    import tensorflow as tf

    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)

    def function(x: Any) -> Any:
        key = tf.constant([1], tf.int64)
        number = table.lookup(key) + 1
        table.insert(key, number)
        return x * tf.cast(number, tf.float32)

    return _function(function)


def _with(layer: str, *arguments: Any) -> Any:
    import keras

    def prepare(own: Any) -> None:
        own.inner = getattr(keras.layers, layer)(*arguments)

    return _own(lambda own, x: own.inner(x, training=True), prepare)


def dropout_always_on() -> Any:
    return _with("Dropout", 0.5)


def noise_always_on() -> Any:
    return _with("GaussianNoise", 0.5)


def dropout_off() -> Any:
    import keras

    layers = [keras.layers.Dropout(0.5), keras.layers.Dense(2)]
    return keras.Sequential([keras.Input((4,), name="x"), *layers])


def tensorflow_random() -> Any:
    import tensorflow as tf

    return _own(lambda _, x: x + tf.random.normal(tf.shape(x)))


def seeded_tensorflow_random() -> Any:
    """Draws other numbers at each call in spite of its seed."""
    import tensorflow as tf

    return _function(lambda x: x + tf.random.normal(tf.shape(x), seed=3))


def keras_random() -> Any:
    import keras

    return _own(lambda _, x: x + keras.random.normal(keras.ops.shape(x)))


def fixed_seed() -> Any:
    import keras

    return _own(lambda _, x: x + keras.random.normal((4,), seed=3))


def stateless_random() -> Any:
    import tensorflow as tf

    return _function(lambda x: x + tf.random.stateless_normal([4], [1, 2]))


def python_random() -> Any:
    return _own(lambda _, x: x + random.random())


def numpy_random() -> Any:
    return _own(lambda _, x: x + np.random.rand())


def numpy_generator() -> Any:
    generator = np.random.default_rng(0)
    return _own(lambda _, x: x + float(generator.random()))


def clock() -> Any:
    return _own(lambda _, x: x + (time.perf_counter_ns() % 1_000_003))


def drawn_while_traced() -> Any:
    return _function(lambda x: x + np.random.rand())


def tensorflow_generator() -> Any:
    import tensorflow as tf

    generator = tf.random.Generator.from_seed(1)
    return _function(lambda x: x + generator.normal([4]))


def write(folder: Path) -> None:
    """TFLite files that carry a state, draw numbers, and compare and index."""
    import tensorflow as tf

    signature = [tf.TensorSpec([2, 4], tf.float32, name="x")]

    class Sum(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.total = tf.Variable(tf.zeros([2, 4]))

        @tf.function(input_signature=signature)  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            self.total.assign_add(x)
            return self.total * 2

    table = tf.reshape(tf.range(21, dtype=tf.float32), [7, 3])
    index = [tf.TensorSpec([3], tf.int32, name="x")]
    holder = Sum()
    functions = {
        "sum": holder.__call__,
        "random": tf.function(lambda x: x + tf.random.normal([2, 4]), input_signature=signature),
        "guarded": tf.function(lambda x: tf.where(x > 0, tf.math.log(x), x * 0 - 1), input_signature=signature),
        "gather": tf.function(
            lambda x: tf.where(x > 4, 1.5, -1.5)[:, None] * tf.gather(table, x), input_signature=index
        ),
    }
    for name, function in functions.items():
        converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()], holder)
        converter.experimental_enable_resource_variables = True
        (folder / f"{name}.tflite").write_bytes(converter.convert())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
