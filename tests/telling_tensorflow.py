"""TensorFlow and Keras models whose graphs compare, index and look up, and models that no route carries.

TensorFlow is imported inside the factories only, so that the tables can be read without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Factory -> what its description must hold; `values` are among others.
TELLING: dict[str, dict[str, Any]] = {
    "thresholds": {"values": {"x": [3.25, -7.0, 5.0, 0.625]}},
    "threshold_in_a_branch": {"values": {"x": [40.0]}},
    "threshold_in_a_loop": {"values": {"x": [50.0]}},
    "weight_as_threshold": {"values": {"x": [2.5]}},
    "modulus": {"values": {"x": [60.0, 24.0]}},
    "cases": {"values": {"x": [0.0, 1.0, 2.0]}},
    "buckets": {"values": {"x": [-1.0, 0.5, 9.0]}},
    "embedding": {"tables": {"x": 11}},
    "sizes": {"sizes": [24]},
    "text_categories": {"words": {"x": ["blue", "green", "red"]}},
    "number_categories": {"values": {"x": [12.0, 77.0]}},
}
# Factory -> the route, words of its refusal, and words of its hint.
REFUSED: dict[str, tuple[str, str, str]] = {
    "calls_python": ("keras", "the operator PyFunc (node", "calls back into Python"),
    "hashes_text": ("saved-model", "the operator StringToHashBucketFast (node", "outside of the model"),
    "looks_up_text": ("function", "lookup table, which only the route saved-model carries", ""),
    "inverts": ("keras", "the operator MatrixInverse (node", "keep the result as a weight"),
    "complex_numbers": ("keras", "the operator Complex (node", "as two tensors"),
    "asks_numpy": ("function", "hands a tensor to numpy", "keras.ops"),
}


def _function(python: Callable[[Any], Any], shape: tuple[int | None, ...] = (None, 4), dtype: str = "float32") -> Any:
    import tensorflow as tf

    return tf.function(python, input_signature=[tf.TensorSpec(shape, dtype, name="x")])


def _model(call: Callable[[Any], Any], *, dtype: str = "float32", shape: tuple[int | None, ...] = (4,)) -> Any:
    import keras

    class Own(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def call(self, x: Any) -> Any:
            return call(x)

    return keras.Sequential([keras.Input(shape, name="x", dtype=dtype), Own(name="own")])


def thresholds() -> Any:
    """Compares with 3.25 and -7, cuts 2x + 1 at 11, and compares the square root with a number of its own."""
    import tensorflow as tf

    def python(x: Any) -> Any:
        near = tf.where(x > 3.25, x, tf.maximum(x, -7.0))
        return near + tf.clip_by_value(2 * x + 1, 0.0, 11.0) + tf.cast(tf.exp(x) < 1.8682459, tf.float32)

    return _function(python)


def threshold_in_a_branch() -> Any:
    import tensorflow as tf

    return _function(
        lambda x: tf.cond(tf.reduce_max(x) > 0, lambda: tf.where(x > 40.0, x, -x), lambda: x), shape=(None, 4)
    )


def threshold_in_a_loop() -> Any:
    import tensorflow as tf

    return _function(
        lambda x: tf.while_loop(lambda y: tf.reduce_max(tf.abs(y)) > 50.0, lambda y: [y / 2], [x], [x.shape])[0]
    )


def weight_as_threshold() -> Any:
    import tensorflow as tf

    limit = tf.Variable(2.5, name="limit")
    return _function(lambda x: tf.where(x > limit, x, -x))


def modulus() -> Any:
    return _function(lambda x: x // 60 % 24, shape=(None,), dtype="int32")


def cases() -> Any:
    import tensorflow as tf

    return _function(
        lambda x: tf.switch_case(x, [lambda: tf.constant(1.0), lambda: tf.constant(5.0), lambda: tf.constant(-3.0)]),
        shape=(),
        dtype="int32",
    )


def buckets() -> Any:
    import keras

    return keras.Sequential([keras.Input((4,), name="x"), keras.layers.Discretization([-1.0, 0.5, 9.0])])


def embedding() -> Any:
    import keras

    return keras.Sequential([keras.Input((3,), name="x", dtype="int32"), keras.layers.Embedding(11, 2)])


def sizes() -> Any:
    import tensorflow as tf

    return _function(lambda x: tf.cond(tf.shape(x)[0] < 24, lambda: x, lambda: -x))


def text_categories() -> Any:
    import keras

    layer = keras.layers.StringLookup(vocabulary=["blue", "green", "red"])
    return keras.Sequential([keras.Input((1,), name="x", dtype="string"), layer])


def number_categories() -> Any:
    import keras

    layer = keras.layers.IntegerLookup(vocabulary=[12, 77])
    return keras.Sequential([keras.Input((1,), name="x", dtype="int64"), layer])


# float64


def old_normalization() -> Any:
    """Holds operators of older Keras, which have no float64 on a CPU or answer in float32."""
    import tensorflow as tf

    def python(x: Any) -> Any:
        numbers = [tf.constant(values) for values in ([1.0, 2, 0.5], [0.1, 0.2, 0.3], [0.5, 0.1, 0.2], [2, 0.3, 1.0])]
        normal, _, _ = tf.compat.v1.nn.fused_batch_norm(x, *numbers, is_training=False)
        return tf.image.resize(tf.nn.conv2d(normal, tf.ones([3, 3, 3, 2]) * 0.3, 1, "SAME"), [5, 5])

    return _function(python, shape=(None, 4, 4, 3))


def step_without_float64() -> Any:
    import tensorflow as tf

    return _function(lambda x: tf.nn.local_response_normalization(x * 1.7, 2), shape=(None, 4, 4, 3))


def half() -> Any:
    import tensorflow as tf

    return _function(lambda x: tf.cast(tf.cast(x, tf.float16) * 3, tf.float32), shape=(None, 4, 4, 3))


def drawn_with_a_seed() -> Any:
    """Would draw other numbers in float64."""
    import tensorflow as tf

    return _function(lambda x: x / 3 + tf.random.stateless_normal([3], [1, 2]), shape=(None, 4, 4, 3))


def knows_its_type() -> Any:
    """Answers with the rounding error of its own type."""
    return _function(lambda x: (x * 0.1 - 0.1) * 1e9 + ((x + 1e-8) - x) * 1e9)


# Python code, and refusals


def python_branch() -> Any:
    import tensorflow as tf

    def python(x: Any) -> Any:
        if tf.reduce_sum(x) > 3:  # the branch
            return x * 2
        return x - 1

    return _function(python)


def calls_python() -> Any:
    import tensorflow as tf

    return _model(lambda x: tf.ensure_shape(tf.numpy_function(lambda array: array * 2, [x], tf.float32), [None, 4]))


def hashes_text() -> Any:
    import keras

    return keras.Sequential([keras.Input((1,), name="x", dtype="string"), keras.layers.Hashing(7)])


def looks_up_text() -> Any:
    return text_categories()


def inverts() -> Any:
    import tensorflow as tf

    return _model(lambda x: tf.linalg.inv(tf.eye(4) + tf.reduce_sum(x)))


def complex_numbers() -> Any:
    import tensorflow as tf

    return _model(lambda x: tf.math.angle(tf.complex(x, x)))


def asks_numpy() -> Any:
    import tensorflow as tf

    class Module(tf.Module):  # type: ignore[misc]
        def __call__(self, x: Any) -> Any:
            import numpy as np

            return x * np.asarray(x).sum()

    return Module()
