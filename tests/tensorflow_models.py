"""Small Keras and TensorFlow models, as factories and as files. `python tensorflow_models.py FOLDER` writes the files.

TensorFlow is imported inside the factories only, so that the tables can be read without it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Case:
    """A factory of this file, its inputs as `convert` takes them, and the names of its outputs."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


KERAS: dict[str, Case] = {
    "cnn": Case(("image=float32[batch,12,12,3]",), ("classes",)),
    "two_in_dict_out": Case(("left=float32[batch,4]", "right=float32[batch,6]"), ("classes", "score")),
    "two_in_list_out": Case(("left=float32[batch,4]", "right=float32[batch,6]"), ("score", "classes")),
    "lstm": Case(("sequence=float32[batch,9,5]",), ("dense",)),
    "gru_any_length": Case(("tokens=int32[batch,length]",), ("scores",)),
    "separable": Case(("image=float32[batch,16,16,4]",), ("answer",)),
    "attention": Case(("sequence=float32[batch,7,8]",), ("answer",)),
    "normalized": Case(("rows=float32[batch,4]",), ("answer",)),
    "with_lambda": Case(("x=float32[batch,6]",), ("answer",)),
    "custom_layer": Case(("x=float32[batch,6]",), ("answer",)),
    "subclassed": Case(("x=float32[batch,6]",), ("output_0",)),
    "grouped": Case(("image=float32[batch,8,8,3]",), ("answer",)),
    "upsampling": Case(("image=float32[batch,6,6,3]",), ("answer",)),
}
FUNCTIONS: dict[str, Case] = {
    "branch": Case(("x=float32[batch,4]",), ("output_0",)),
    "while_loop": Case(("x=float32[batch,4]",), ("steps", "value")),
    "module": Case(("x=float32[batch,6]",), ("output_0",)),
    "guarded_log": Case(("x=float32[batch,4]",), ("output_0",)),
    "floor_division": Case(("x=int32[batch]",), ("floor", "other", "rest")),
    "one_hot": Case(("x=int32[batch,4]",), ("output_0",)),
    "no_signature": Case(("x=float32[batch,4]", "y=float32[batch,4]"), ("difference", "total")),
}
# Files of the real model packages, with the inputs to convert them with.
REAL: dict[str, tuple[str, ...]] = {
    "basic_pitch/saved_models/icassp_2022/nmp": ("input_2=float32[batch,43844,1]",),
    "basic_pitch/saved_models/icassp_2022/nmp.tflite": ("input_2=float32[batch,43844,1]",),
    "cifar_10_model/trained_models/cnn_model.h5": ("conv2d_input=float32[batch,32,32,3]",),
    "fer/data/emotion_model.hdf5": ("input_1=float32[batch,64,64,1]",),
    "fer/data/emotion_model_quantized.tflite": ("x=float32[1,64,64,1]",),
}


def _keras() -> Any:
    import keras

    keras.utils.set_random_seed(7)
    return keras


def cnn() -> Any:
    keras = _keras()
    spread = keras.initializers.RandomUniform(-1.0, 1.5, seed=3)
    return keras.Sequential([
        keras.Input((12, 12, 3), name="image"),
        keras.layers.Conv2D(6, 3, padding="same", activation="relu", bias_initializer=spread),
        keras.layers.BatchNormalization(gamma_initializer=spread, moving_mean_initializer=spread),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(8, 3, strides=2, padding="same", activation="silu"),
        keras.layers.Dropout(0.5),
        keras.layers.Flatten(),
        keras.layers.Dense(5, activation="softmax", kernel_initializer=spread, name="classes"),
    ])  # fmt: skip


def cnn_of_other_weights() -> Any:
    model = cnn()
    model.set_weights([weight + 0.25 for weight in model.get_weights()])
    return model


def plain() -> Any:
    keras = _keras()
    return keras.Sequential([keras.Input((6,), name="x"), keras.layers.Dense(3, activation="tanh")])


def _two_inputs(keras: Any) -> Any:
    left, right = keras.Input((4,), name="left"), keras.Input((6,), name="right")
    joined = keras.layers.Concatenate()([left, keras.layers.Dense(4, activation="tanh")(right)])
    return left, right, keras.layers.Dense(1, name="score")(joined), keras.layers.Dense(3, name="classes")(joined)


def two_in_dict_out() -> Any:
    keras = _keras()
    left, right, score, classes = _two_inputs(keras)
    return keras.Model({"right": right, "left": left}, {"score": score, "classes": classes})


def two_in_list_out() -> Any:
    keras = _keras()
    left, right, score, classes = _two_inputs(keras)
    return keras.Model([left, right], [score, classes])


def lstm() -> Any:
    keras = _keras()
    layers = [keras.layers.Bidirectional(keras.layers.LSTM(4, return_sequences=True)), keras.layers.LSTM(6)]
    return keras.Sequential([keras.Input((9, 5), name="sequence"), *layers, keras.layers.Dense(2, name="dense")])


def gru_any_length() -> Any:
    keras = _keras()
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    hidden = keras.layers.GRU(6)(keras.layers.Embedding(2, 5)(tokens))
    return keras.Model(tokens, keras.layers.Dense(3, name="scores")(hidden))


def separable() -> Any:
    keras = _keras()
    return keras.Sequential([
        keras.Input((16, 16, 4), name="image"),
        keras.layers.SeparableConv2D(8, 3, padding="same", activation="relu6"),
        keras.layers.DepthwiseConv2D(3, strides=2, depth_multiplier=2),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(3, name="answer"),
    ])  # fmt: skip


def attention() -> Any:
    keras = _keras()
    sequence = keras.Input((7, 8), name="sequence")
    mixed = keras.layers.MultiHeadAttention(num_heads=2, key_dim=4)(sequence, sequence)
    normal = keras.layers.LayerNormalization()(sequence + mixed)
    return keras.Model(sequence, keras.layers.Dense(8, activation="gelu", name="answer")(normal))


def normalized() -> Any:
    keras = _keras()
    import numpy as np

    scale = keras.layers.Normalization()
    scale.adapt(np.random.default_rng(0).normal(3, 2, (64, 4)).astype("float32"))
    return keras.Sequential([keras.Input((4,), name="rows"), scale, keras.layers.Dense(2, name="answer")])


def with_lambda() -> Any:
    keras = _keras()
    square = keras.layers.Lambda(lambda tensor: tensor * tensor + 1.0)
    return keras.Sequential([keras.Input((6,), name="x"), square, keras.layers.Dense(2, name="answer")])


def custom_layer() -> Any:
    keras = _keras()

    class Gate(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def build(self, shape: Any) -> None:
            self.gate = self.add_weight(shape=(shape[-1],), initializer="random_normal")

        def call(self, inputs: Any) -> Any:
            return inputs * keras.ops.sigmoid(self.gate)

    return keras.Sequential([keras.Input((6,), name="x"), Gate(), keras.layers.Dense(2, name="answer")])


def subclassed() -> Any:
    keras = _keras()

    class Network(keras.Model):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = keras.layers.Dense(8, activation="elu"), keras.layers.Dense(3)

        def call(self, x: Any) -> Any:
            return self.second(self.first(x))

    return Network()


def upsampling() -> Any:
    keras = _keras()
    return keras.Sequential([
        keras.Input((6, 6, 3), name="image"),
        keras.layers.Conv2DTranspose(4, 3, strides=2, padding="same", activation="leaky_relu"),
        keras.layers.UpSampling2D(2, interpolation="bilinear"),
        keras.layers.ZeroPadding2D(((1, 0), (0, 2))),
        keras.layers.Conv2D(2, 3, dilation_rate=2, name="answer"),
    ])  # fmt: skip


def branch() -> Any:
    """Takes another path where the sum of the input is negative."""
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])  # type: ignore[untyped-decorator]
    def function(x: Any) -> Any:
        return tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2, lambda: x - 1)

    return function


def while_loop() -> Any:
    """Halves until small, and says how often."""
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])  # type: ignore[untyped-decorator]
    def function(x: Any) -> Any:
        steps = tf.constant(0)
        while tf.reduce_max(tf.abs(x)) > 0.3:
            x, steps = x / 2, steps + 1
        return {"value": x, "steps": steps}

    return function


def module() -> Any:
    import tensorflow as tf

    class Linear(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.weight = tf.Variable(tf.reshape(tf.range(18, dtype=tf.float32), [6, 3]) / 10)

        @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.float32)])  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            return tf.nn.softmax(x @ self.weight)

    return Linear()


def no_signature() -> Any:
    import tensorflow as tf

    return tf.function(lambda x, y: {"total": x + y, "difference": x - y})


def guarded_log() -> Any:
    """Computes NaN and infinity on the side that `where` does not take."""
    import tensorflow as tf

    signature = [tf.TensorSpec([None, 4], tf.float32, name="x")]
    return tf.function(lambda x: tf.where(x > 0, tf.math.log(x), -1.0), input_signature=signature)


def floor_division() -> Any:
    """Rounds down, where ONNX's own division cuts towards zero."""
    import tensorflow as tf

    signature = [tf.TensorSpec([None], tf.int32, name="x")]
    return tf.function(lambda x: {"floor": x // 3, "rest": x % 3, "other": x // -2}, input_signature=signature)


def one_hot() -> Any:
    """Gives a row without a one below zero, where ONNX's own operator counts from the end."""
    import tensorflow as tf

    return tf.function(lambda x: tf.one_hot(x, 3), input_signature=[tf.TensorSpec([None, 4], tf.int32, name="x")])


def grouped() -> Any:
    """A grouped convolution, which Keras compiles with XLA on a CPU, and an activation that tf2onnx has no rule for."""
    keras = _keras()
    return keras.Sequential(
        [keras.Input((8, 8, 3), name="image"), keras.layers.Conv2D(6, 3, groups=3, activation="celu", name="answer")]
    )


def left_over() -> Any:
    """Operators that tf2onnx has no rule for, and Sardonyx has."""
    import tensorflow as tf

    def function(x: Any) -> Any:
        buckets = tf.raw_ops.Bucketize(input=x, boundaries=[-1.0, 0.0, 0.5])
        return {"erfc": tf.math.erfc(x), "expm1": tf.math.expm1(x), "log1p": tf.math.log1p(x), "bucket": buckets}

    return tf.function(function, input_signature=[tf.TensorSpec([None], tf.float32, name="x")])


def running_total() -> Any:
    """Holds an operator that ONNX has from opset 11 on."""
    import tensorflow as tf

    return tf.function(lambda x: tf.cumsum(x, 1), input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])


def counter() -> Any:
    """Changes a variable at every call."""
    import tensorflow as tf

    total = tf.Variable(0.0)
    return tf.function(
        lambda x: x + total.assign_add(1.0), input_signature=[tf.TensorSpec([None], tf.float32, name="x")]
    )


def unsupported() -> Any:
    """Holds an operator that ONNX does not have."""
    import tensorflow as tf

    return tf.function(
        lambda x: tf.math.betainc(x, x, x), input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")]
    )


def inverse() -> Any:
    """Holds an operator that neither ONNX nor TFLite has; TFLite can borrow it from TensorFlow."""
    import tensorflow as tf

    return tf.function(tf.linalg.inv, input_signature=[tf.TensorSpec([4, 4], tf.float32, name="x")])


def raises() -> Any:
    import keras

    return keras.layers.Dense(-1)


def write(folder: Path) -> None:
    """Every kind of file, as users have them, and some that cannot be used."""
    import keras
    import numpy as np
    import tensorflow as tf

    model = cnn()
    model.save(folder / "cnn.keras")
    model.save(folder / "cnn.h5")
    model.save_weights(folder / "cnn.weights.h5")
    model.export(str(folder / "cnn"), verbose=False)
    with_lambda().save(folder / "lambda.keras")
    with_lambda().save(folder / "lambda.h5")
    function = while_loop()
    holder = tf.Module()
    holder.function = function
    tf.saved_model.save(holder, str(folder / "loop"), signatures={"step": function, "again": function})
    tf.saved_model.save(tf.Module(), str(folder / "unsigned"))
    _freeze(function.get_concrete_function(), folder / "loop.pb")
    image = tf.TensorSpec([None, 12, 12, 3], name="image")
    _freeze(tf.function(lambda x: model(x)).get_concrete_function(image), folder / "cnn.pb")
    words = keras.layers.StringLookup(vocabulary=["a", "b", "c"])
    text = keras.Input((3,), dtype="string", name="words")
    keras.Model(text, words(text)).export(str(folder / "words"), verbose=False)
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    (folder / "cnn.tflite").write_bytes(converter.convert())
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    random = np.random.default_rng(0)
    converter.representative_dataset = lambda: (
        [random.normal(size=(1, 12, 12, 3)).astype("float32")] for _ in range(20)
    )
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    (folder / "cnn_int8.tflite").write_bytes(converter.convert())
    (folder / "flex.tflite").write_bytes(_foreign(inverse(), tf.lite.OpsSet.SELECT_TF_OPS))
    (folder / "custom.tflite").write_bytes(_foreign(unsupported()))


def _freeze(concrete: Any, path: Path) -> None:
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    path.write_bytes(convert_variables_to_constants_v2(concrete).graph.as_graph_def().SerializeToString())


def _foreign(function: Any, *more: Any) -> bytes:
    """A TFLite file with an operator that TFLite itself does not have."""
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()])
    converter.allow_custom_ops = not more
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, *more]
    data: bytes = converter.convert()
    return data


if __name__ == "__main__":
    write(Path(sys.argv[1]))
