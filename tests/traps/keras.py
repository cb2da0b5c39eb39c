"""Keras, TensorFlow and TFLite models that a careless export gets wrong. TensorFlow is imported inside the factories only."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from traps._oracle import array_leaves
from traps._trap import Array, Arrays, Traps, floats

TRAPS = Traps(
    "keras", inputs=("x=float32[n,4]",), cases=lambda _: [{"x": floats(3, 4)}, {"x": floats(5, 4, seed=1, scale=30)}]
)
add = TRAPS.add
VALUES, SIZES, INTEGERS = "control flow on values", "control flow on sizes", "control flow on integers"
EMPTY, ARGUMENTS, MODES = "empty and single-element inputs", "dict, optional and list inputs", "train and eval mode"


def called(model: Any, arrays: Arrays) -> list[Array]:
    """A tf.function called on tensors in order."""
    import tensorflow as tf

    return array_leaves(model(*(tf.constant(array) for array in arrays.values())))


def interpreted(path: Any, arrays: Arrays) -> list[Array]:
    """A TFLite file by an interpreter that has not answered before."""
    import tensorflow as tf

    interpreter = tf.lite.Interpreter(str(path))
    details = interpreter.get_input_details()
    for detail, array in zip(details, arrays.values(), strict=True):
        interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    for detail, array in zip(details, arrays.values(), strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def function(python: Callable[..., Any], *specs: tuple[str, tuple[int | None, ...], str]) -> Any:
    """A tf.function of these inputs."""
    import tensorflow as tf

    specs = specs or (("x", (None, 4), "float32"),)
    return tf.function(python, input_signature=[tf.TensorSpec(shape, dtype, name=name) for name, shape, dtype in specs])


def layer(call: Callable[[Any, Any], Any], prepare: Callable[[Any], object] = id, **given: Any) -> Any:
    """A Keras model of one layer of the user's own."""
    import keras

    keras.utils.set_random_seed(7)

    class Own(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__(name="own")
            prepare(self)

        def call(self, x: Any) -> Any:
            return call(self, x)

    shape, dtype = given.get("shape", (4,)), given.get("dtype", "float32")
    return keras.Sequential([keras.Input(shape, name="x", dtype=dtype), Own()])


def lite(python: Any, owner: Any = None) -> str:
    """The path of the TFLite file of a tf.function."""
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_concrete_functions([python.get_concrete_function()], owner)
    converter.experimental_enable_resource_variables = True
    path = Path(tempfile.mkdtemp(prefix="trap-")) / "model.tflite"
    path.write_bytes(converter.convert())
    return str(path)


def on_both_sides(limit: float) -> Callable[[Any], list[Arrays]]:
    return lambda _: [
        {"x": floats(3, 4)},
        {"x": np.full((2, 4), limit * 1.5, np.float32)},
        {"x": -floats(3, 4, scale=2 * limit)},
    ]


# Control flow on values


@add(VALUES, call=called, cases=on_both_sides(5000))
def graph_branch_far_away() -> Any:
    """Takes another path only where a value is beyond 5000."""
    import tensorflow as tf

    return function(lambda x: tf.cond(tf.reduce_max(tf.abs(x)) > 5000, lambda: x / 2, lambda: x + 1))  # trap


@add(VALUES, call=called, cases=on_both_sides(50))
def halving_loop() -> Any:
    """Halves until small: the number of rounds depends on the values."""
    import tensorflow as tf

    def python(x: Any) -> Any:
        while tf.reduce_max(tf.abs(x)) > 50:  # trap
            x = x / 2
        return x

    return function(python)


@add(VALUES, call=called, cases=lambda _: [{"x": floats(3, 4)}, {"x": np.array([[1, np.nan, 2, 3]], np.float32)}])
def nan_branch() -> Any:
    """Cleans its input only if something is missing."""
    import tensorflow as tf

    def python(x: Any) -> Any:
        if tf.reduce_any(tf.math.is_nan(x)):  # trap
            return tf.where(tf.math.is_nan(x), -1.0, x)
        return x * 3

    return function(python)


@add(VALUES, expect="refuse", cases=on_both_sides(40))
def layer_that_asks_numpy() -> Any:
    """Decides in numpy, which runs in a plain call and not in a graph."""

    def call(_: Any, x: Any) -> Any:
        if hasattr(x, "numpy") and x.numpy().max() > 40:  # trap
            return x - 40.0
        return x * 1.0

    return layer(call)


@add(VALUES, cases=on_both_sides(1e6))
def clipped_far_away() -> Any:
    """Cuts at a million and at minus a thousand."""
    import keras

    return layer(lambda _, x: keras.ops.clip(x * 2, -1000.0, 1e6))  # trap


# Control flow on sizes


@add(SIZES, expect="refuse", cases=lambda _: [{"x": floats(3, 4)}, {"x": floats(30, 4)}])
def large_batch_in_python() -> Any:
    """Treats large batches differently; a graph for any batch does not know its size."""
    return layer(lambda _, x: x * 2 if (x.shape[0] or 0) < 24 else -x)  # trap


@add(SIZES, call=called, cases=lambda _: [{"x": floats(n, 4)} for n in (1, 23, 24, 60)])
def large_batch_in_the_graph() -> Any:
    """Treats large batches differently, in the graph."""
    import tensorflow as tf

    return function(lambda x: tf.cond(tf.shape(x)[0] < 24, lambda: x * 2, lambda: -x))  # trap


@add(SIZES, inputs=("x=float32[n,length,3]",), cases=lambda _: [{"x": floats(2, n, 3)} for n in (1, 5, 40)])
def any_length() -> Any:
    """A recurrent layer over sequences of any length."""
    import keras

    keras.utils.set_random_seed(7)
    return keras.Sequential([keras.Input((None, 3), name="x"), keras.layers.GRU(4), keras.layers.Dense(2)])


# Control flow on integers


@add(
    INTEGERS,
    call=called,
    inputs=("x=float32[n,4]", "mode=int32[]"),
    cases=lambda _: [{"x": floats(3, 4), "mode": np.array(mode, np.int32)} for mode in (0, 1, 2, 7, -1)],
)
def heads() -> Any:
    """Chooses one of three heads by a number; beyond the last, TensorFlow takes the last."""
    import tensorflow as tf

    def python(x: Any, mode: Any) -> Any:
        return tf.switch_case(mode, [lambda: x, lambda: x * 10, lambda: -x])  # trap

    return function(python, ("x", (None, 4), "float32"), ("mode", (), "int32"))


@add(
    INTEGERS,
    call=called,
    inputs=("x=float32[n,4]", "times=int32[]"),
    cases=lambda _: [{"x": floats(3, 4), "times": np.array(times, np.int32)} for times in (0, 1, 3, 9)],
)
def repeated() -> Any:
    """Repeats a step as often as it is told to."""
    import tensorflow as tf

    def python(x: Any, times: Any) -> Any:
        for _ in tf.range(times):  # trap
            x = x * 1.5 + 1
        return x

    return function(python, ("x", (None, 4), "float32"), ("times", (), "int32"))


@add(
    INTEGERS,
    call=called,
    inputs=("x=float32[n,6]", "width=int32[]"),
    said="width = 2147483647",
    cases=lambda _: [
        {"x": floats(3, 6), "width": np.array(width, np.int32)} for width in (0, 1, 4, 6, -2, 9, 2**31 - 1)
    ],
)
def slice_by_a_number() -> Any:
    """Takes the first columns, as many as it is told; counted from the end if negative."""

    def python(x: Any, width: Any) -> Any:
        return x[:, :width]  # trap

    return function(python, ("x", (None, 6), "float32"), ("width", (), "int32"))


# Integer arithmetic

INTEGER_INPUT = (("x", (None,), "int32"),)
SIGNED = np.array([-(2**31), -121, -61, -7, -1, 0, 1, 7, 59, 60, 1441, 2**31 - 1], np.int32)


@add("integer arithmetic", call=called, inputs=("x=int32[n]",), cases=lambda _: [{"x": SIGNED}])
def hours() -> Any:
    """Floors and takes remainders of negative integers."""
    return function(lambda x: x // 60 % 24, *INTEGER_INPUT)  # trap


@add("integer arithmetic", call=called, inputs=("x=int32[n]",), cases=lambda _: [{"x": SIGNED}])
def truncated_remainder() -> Any:
    """Divides towards zero, with the sign of the dividend."""
    import tensorflow as tf

    return function(lambda x: tf.truncatediv(x, 7) * 100 + tf.truncatemod(x, 7), *INTEGER_INPUT)  # trap


@add("integer arithmetic", call=called, inputs=("x=int32[n]",), cases=lambda _: [{"x": SIGNED}])
def arithmetic_shift() -> Any:
    """Shifts negative integers to the right, which keeps their sign."""
    import tensorflow as tf

    return function(lambda x: tf.bitwise.right_shift(x, 1), *INTEGER_INPUT)  # trap


@add("integer arithmetic", call=called, cases=lambda _: [{"x": np.array([[-2.5, -0.5, 1.5, 2.5]], np.float32)}])
def rounded_to_even() -> Any:
    """Rounds halves to even, and casts towards zero."""
    import tensorflow as tf

    return function(lambda x: tf.cast(tf.round(x), tf.int32) * 100 + tf.cast(x, tf.int32))  # trap


# Text, categories, vocabularies


def words(*texts: str) -> Callable[[Any], list[Arrays]]:
    return lambda _: [{"x": np.array([[text] for text in texts])}]


@add("text", inputs=("x=string[n,1]",), cases=words("red", "blau", "grün", "Grün", "gru\u0308n", "", "unknown", "red "))
def colours() -> Any:
    """Looks words up, one of them with an umlaut."""
    import keras

    lookup = keras.layers.StringLookup(vocabulary=["red", "grün", "blau"])  # trap
    return keras.Sequential([keras.Input((1,), name="x", dtype="string"), lookup])


@add("text", inputs=("x=string[n,1]",), expect="refuse", cases=words("a b", "B c", "d"))
def split_words() -> Any:
    """Lowers, strips and splits texts: no exporter carries it."""
    import keras

    layers = [keras.layers.TextVectorization(vocabulary=["a", "b", "c"], output_sequence_length=3)]
    return keras.Sequential([keras.Input((1,), name="x", dtype="string"), *layers])


@add("categories", inputs=("x=string[n,1]",), cases=words("low", "high", "middle", "none", ""))
def words_to_one_hot() -> Any:
    """One column for each word, and one for all others."""
    import keras

    lookup = keras.layers.StringLookup(vocabulary=["low", "middle", "high"], output_mode="one_hot")  # trap
    return keras.Sequential([keras.Input((1,), name="x", dtype="string"), lookup])


@add(
    "categories",
    inputs=("x=int64[n,1]",),
    cases=lambda _: [{"x": np.array([[12], [77], [13], [-5], [0], [1000]], np.int64)}],
)
def known_numbers() -> Any:
    """Looks category codes up that are neither small nor dense."""
    import keras

    return keras.Sequential([
        keras.Input((1,), name="x", dtype="int64"),
        keras.layers.IntegerLookup(vocabulary=[12, 77, 1000]),  # trap
    ])  # fmt: skip


@add("categories", cases=lambda _: [{"x": np.array([[-1.0, -1.5, 0.5, 9.0], [8.9, 100, -100, 0.49]], np.float32)}])
def bins() -> Any:
    """Sorts numbers into bins: a boundary belongs to the bin above it."""
    import keras

    return keras.Sequential([keras.Input((4,), name="x"), keras.layers.Discretization([-1.0, 0.5, 9.0])])  # trap


@add(
    "tables and vocabularies",
    inputs=("x=int32[n,5]",),
    cases=lambda _: [{"x": np.array([[1, 2, 0, 3, 0], [0, 0, 0, 0, 4], [5, 6, 7, 8, 9]], np.int32)}],
)
def masked_sequence() -> Any:
    """Zeros are padding: a recurrent layer behind the embedding skips them, also in the middle."""
    import keras

    keras.utils.set_random_seed(7)
    layers = [keras.layers.Embedding(10, 4, mask_zero=True), keras.layers.LSTM(3)]  # trap
    return keras.Sequential([keras.Input((5,), name="x", dtype="int32"), *layers])


@add(
    "tables and vocabularies",
    inputs=("x=int32[n]",),
    call=called,
    cases=lambda _: [{"x": np.arange(300, dtype=np.int32)}],
)
def one_odd_row() -> Any:
    """A table of which one row is unlike all others."""
    import tensorflow as tf

    rows = np.linspace(0, 1, 300, dtype=np.float32)
    rows[257] = 1e6  # trap
    return function(lambda x: tf.gather(tf.constant(rows), x), *INTEGER_INPUT)


# Missing values

HOLES = np.array([[1, np.nan, -2, 3], [np.nan] * 4, [0, np.inf, -np.inf, 1]], np.float32)


@add("missing values", cases=lambda _: [{"x": floats(3, 4)}, {"x": HOLES}])
def rectified_holes() -> Any:
    """TensorFlow's relu leaves NaN as it is."""
    import keras

    return keras.Sequential([keras.Input((4,), name="x"), keras.layers.ReLU()])  # trap


@add("missing values", call=called, cases=lambda _: [{"x": floats(3, 4)}, {"x": HOLES}])
def imputed() -> Any:
    """Puts a number in the place of what is missing, and counts it."""
    import tensorflow as tf

    def python(x: Any) -> Any:
        missing = tf.math.is_nan(x)
        return tf.where(missing, 7.0, x), tf.reduce_sum(tf.cast(missing, tf.int32), axis=1)  # trap

    return function(python)


@add("missing values", call=called, cases=lambda _: [{"x": floats(3, 4)}, {"x": HOLES}])
def largest_beside_holes() -> Any:
    """The largest of values of which some are missing."""
    import tensorflow as tf

    return function(lambda x: tf.reduce_max(x, axis=1))  # trap


# Random and state


@add("random", expect="random")
def dropout_in_a_layer() -> Any:
    """Drops in evaluation too, as Monte Carlo dropout does."""
    import keras

    def prepare(own: Any) -> None:
        own.dropout = keras.layers.Dropout(0.5)

    return layer(lambda own, x: own.dropout(x, training=True), prepare)  # trap


@add("random", expect="random", call=called)
def noise_in_a_graph() -> Any:
    """Adds noise from TensorFlow's generator."""
    import tensorflow as tf

    return function(lambda x: x + tf.random.normal(tf.shape(x)))  # trap


@add("random", expect="random", call=called)
def frozen_draw() -> Any:
    """Draws with numpy while it is traced: the number is another one in each process."""
    return function(lambda x: x * np.random.rand())  # trap


@add("random", expect="random")
def pythons_chance() -> Any:
    """Chance comes from Python's own generator."""
    return layer(lambda _, x: x * (2.0 if random.random() < 0.5 else 3.0))  # trap


@add("random", honest=True)
def seeded_noise() -> Any:
    """The same noise at each call: that is a constant."""
    import keras

    return layer(lambda _, x: x + keras.random.normal((4,), seed=3))


@add("state", expect="state", inputs=("x=float32[2,5,3]",), cases=lambda _: [{"x": floats(2, 5, 3)}] * 2)
def stateful_recurrence() -> Any:
    """A GRU that goes on from where the last batch ended."""
    import keras

    keras.utils.set_random_seed(7)
    return keras.Sequential([keras.Input(batch_shape=(2, 5, 3), name="x"), keras.layers.GRU(4, stateful=True)])  # trap


@add("state", expect="state")
def counting_layer() -> Any:
    """Counts its calls in a variable, and answers with the count."""

    def prepare(own: Any) -> None:
        own.calls = own.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")

    def call(own: Any, x: Any) -> Any:
        own.calls.assign_add(1.0)
        return x + own.calls  # trap

    return layer(call, prepare)


@add("state", expect="state")
def motion_since_the_last_frame() -> Any:
    """Keeps the last inputs in a variable. Asked the same again and again, it answers the same."""

    def prepare(own: Any) -> None:
        own.before = own.add_weight(shape=(4,), initializer="zeros", trainable=False, name="before")

    def call(own: Any, x: Any) -> Any:
        moved = x - own.before  # trap
        own.before.assign(x[0])
        return moved

    return layer(call, prepare)


@add("state", expect="state")
def warming_up() -> Any:
    """Is another model after a hundred calls; the count is a Python number."""

    def prepare(own: Any) -> None:
        own.calls = 0

    def call(own: Any, x: Any) -> Any:
        own.calls += 1
        return x if own.calls < 100 else x * 2  # trap

    return layer(call, prepare)


@add(
    "state",
    expect="state",
    live=True,
    call=interpreted,
    inputs=("x=float32[2,4]",),
    cases=lambda _: [{"x": floats(2, 4)}] * 2,
)
def running_sum_in_a_file() -> Any:
    """A TFLite file that adds up what it was given."""
    import tensorflow as tf

    class Sum(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.total = tf.Variable(tf.zeros([2, 4]))

        @tf.function(input_signature=[tf.TensorSpec([2, 4], tf.float32, name="x")])  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            self.total.assign_add(x)
            return self.total * 2  # trap

    holder = Sum()
    return lite(holder.__call__, holder)


@add("state", honest=True)
def counted_for_a_log() -> Any:
    """Counts its calls for nobody: the answers do not depend on it."""

    def prepare(own: Any) -> None:
        own.calls = own.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")

    def call(own: Any, x: Any) -> Any:
        own.calls.assign_add(1.0)
        return x * 2

    return layer(call, prepare)


# Precision and types


@add("precision", call=called, rtol=1e-2, atol=1e-3, cases=lambda _: [{"x": 1e4 + floats(8, 4)}, {"x": floats(3, 4)}])
def variance_of_large_numbers() -> Any:
    """A variance that loses its digits if it is computed from squares."""
    import tensorflow as tf

    return function(lambda x: tf.math.reduce_variance(x, axis=1))  # trap


@add("precision", cases=lambda _: [{"x": np.array([[1e-8, -1e-8, 1e-4, 80]], np.float32)}], atol=1e-30)
def small_logarithms() -> Any:
    """log(1 + x) near zero."""
    import keras

    return layer(lambda _, x: keras.ops.log1p(keras.ops.abs(x)))  # trap


@add("precision", rtol=1e-2, atol=1e-2)
def half_precision() -> Any:
    """Computes in float16 and keeps float32 weights, as mixed precision does."""
    import keras

    keras.utils.set_random_seed(7)
    layers = [keras.layers.Dense(16, activation="relu", dtype="mixed_float16"), keras.layers.Dense(2, dtype="float32")]
    return keras.Sequential([keras.Input((4,), name="x"), *layers])


@add(
    "dtype promotion",
    call=called,
    inputs=("x=int32[n]",),
    said="x = 2147483647",
    cases=lambda _: [{"x": np.array([2**30, 2**30, 2**30, 5], np.int32)}, {"x": SIGNED}],
)
def sum_that_wraps() -> Any:
    """A sum of int32 stays int32, and wraps."""
    import tensorflow as tf

    return function(lambda x: tf.reduce_sum(x), *INTEGER_INPUT)  # trap


@add(
    "dtype promotion",
    call=called,
    inputs=("x=uint8[n]",),
    cases=lambda _: [{"x": np.array([0, 1, 100, 200, 255], np.uint8)}],
)
def brightness() -> Any:
    """Adds to bytes, which wrap at 256."""
    import tensorflow as tf

    return function(lambda x: x + tf.constant(100, tf.uint8), ("x", (None,), "uint8"))  # trap


@add(
    "dtype promotion",
    inputs=("x=uint8[n,4,4,3]",),
    cases=lambda _: [{"x": np.arange(96, dtype=np.uint8).reshape(2, 4, 4, 3) * 2}],
)
def image_bytes() -> Any:
    """Bytes of an image become floats before they are scaled."""
    import keras

    return keras.Sequential(
        [keras.Input((4, 4, 3), name="x", dtype="uint8"), keras.layers.Rescaling(1 / 127.5, offset=-1)]
    )  # trap


# In-place writes, empty inputs, arguments, modes


@add(
    "in-place and aliasing",
    call=called,
    inputs=("x=float32[n]", "at=int32[n]"),
    cases=lambda _: [{"x": floats(5), "at": np.array(at, np.int32)} for at in ([0, 1, 2, 3, 4], [2, 2, 2, 0, 0])],
)
def scattered_sums() -> Any:
    """Adds into places that may be the same."""
    import tensorflow as tf

    def python(x: Any, at: Any) -> Any:
        return tf.tensor_scatter_nd_add(tf.zeros([8]), at[:, None], x)  # trap

    return function(python, ("x", (None,), "float32"), ("at", (None,), "int32"))


@add(EMPTY, call=called, cases=lambda _: [{"x": floats(n, 4)} for n in (1, 2, 0)])
def mean_over_nothing() -> Any:
    """The mean and the largest of an empty batch."""
    import tensorflow as tf

    return function(lambda x: (tf.reduce_mean(x, axis=0), tf.reduce_sum(x, axis=0)))  # trap


@add(EMPTY, call=called, cases=lambda _: [{"x": floats(n, 4)} for n in (1, 2, 7)])
def squeezed_batch() -> Any:
    """Squeezes only the axis that it names, whatever the size of the batch."""
    import tensorflow as tf

    return function(lambda x: tf.squeeze(tf.reduce_sum(x, axis=1, keepdims=True), axis=1))  # trap


@add(
    ARGUMENTS,
    inputs=("a=float32[n,2]", "b=float32[n,2]"),
    cases=lambda _: [
        {"a": floats(3, 2), "b": floats(3, 2, seed=1)},
        {"a": floats(1, 2, seed=2), "b": floats(1, 2, seed=3)},
    ],
)
def swapped_dict() -> Any:
    """Takes a dict whose keys are in another order than its layers."""
    import keras

    b, a = keras.Input((2,), name="b"), keras.Input((2,), name="a")
    return keras.Model({"b": b, "a": a}, {"first": a - 2 * b, "also": b * a})  # trap


@add(ARGUMENTS, call=called, cases=lambda _: [{"x": floats(3, 4)}])
def nested_answer() -> Any:
    """Answers with a dict of tuples; names sort otherwise than the code has them."""
    return function(lambda x: {"z": (x, x * 2), "a": {"second": -x, "first": x + 1}})  # trap


@add(MODES)
def frozen_statistics() -> Any:
    """Normalises by the statistics of training, not of the batch, and does not drop."""
    import keras

    keras.utils.set_random_seed(7)
    spread = keras.initializers.RandomUniform(0.5, 2.0, seed=3)
    normal = keras.layers.BatchNormalization(moving_mean_initializer=spread, moving_variance_initializer=spread)
    return keras.Sequential(
        [keras.Input((4,), name="x"), normal, keras.layers.Dropout(0.9), keras.layers.Dense(2)]
    )  # trap


@add(MODES, cases=lambda _: [{"x": floats(n, 4, seed=n)} for n in (2, 5, 9)])
def statistics_of_the_batch() -> Any:
    """Normalises by the batch in evaluation too: the answer for a row depends on the others."""
    import keras

    def prepare(own: Any) -> None:
        own.normal = keras.layers.BatchNormalization()

    return layer(lambda own, x: own.normal(x, training=True), prepare)  # trap


@add(
    "tables and vocabularies",
    live=True,
    call=interpreted,
    inputs=("x=int32[n]",),
    cases=lambda _: [{"x": np.arange(9, dtype=np.int32)}],
)
def table_in_a_file() -> Any:
    """A TFLite file that looks rows up and treats the last ones differently."""
    import tensorflow as tf

    rows = tf.constant(np.linspace(-1, 1, 27, dtype=np.float32).reshape(9, 3))
    return lite(function(lambda x: tf.where(x > 7, 1.5, -1.0)[:, None] * tf.gather(rows, x), *INTEGER_INPUT))  # trap


@add(VALUES, live=True, call=interpreted, inputs=("x=float32[2,4]",), cases=lambda _: [
    {"x": floats(2, 4)}, {"x": np.full((2, 4), 80, np.float32)}, {"x": np.full((2, 4), -80, np.float32)}])  # fmt: skip
def threshold_in_a_file() -> Any:
    """A TFLite file that treats values beyond 60 differently."""
    import tensorflow as tf

    return lite(function(lambda x: tf.where(x > 60.0, x - 60.0, tf.nn.relu6(x)), ("x", (2, 4), "float32")))  # trap
