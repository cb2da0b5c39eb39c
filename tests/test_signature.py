import numpy as np
import pytest

from sardonyx.errors import BadData, UsageError
from sardonyx.model import Model
from sardonyx.signature import Signature, TensorSpec, dims, parse_type

TWO = """<ir_version: 8, opset_import: ["" : 17]>
two (float[batch,3] x, float[2,batch] state, int64 sr) => (float[batch,3] y) { y = Identity(x) }"""


def signature(*inputs: str) -> Signature:
    return Signature.parse(inputs)


def problems(signed: Signature, arrays: dict[str, object]) -> str:
    with pytest.raises(BadData) as caught:
        signed.fit(arrays)
    return caught.value.message


def test_a_spec_is_written_as_it_is_read() -> None:
    for text in ("x=float32[batch,3,32,32]", "x=int64[]", "a/b:0=string[?]", "x=bfloat16", "x=float32[past + 1]"):
        assert str(TensorSpec.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["x", "=float32[1]", "x=", "x=float[1]", "x=float32[1", "x=float32[1,,2]", "x=float32[-1]", "x=nonsense"]
)
def test_what_is_no_spec_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        TensorSpec.parse(text)
    assert "x=float32[batch,3,32,32]" in caught.value.hint


def test_a_type_may_come_without_a_shape() -> None:
    assert parse_type("float32") == ("float32", None)
    assert parse_type("int64[]") == ("int64", ())
    assert parse_type("[1,2,3]") is None
    assert dims((None, 3, "width")) == "[?,3,width]"


def test_inputs_that_an_initializer_fills_are_left_out() -> None:
    model = Model.from_text(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }"""
    )
    assert model.signature.input_names == ["x"]


def test_dimensions_that_mean_unknown_are_nameless() -> None:
    from onnx import TensorProto, helper

    shape = ["batch", -1, "?", "", "None", None, 4]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    signed = Model.from_proto(helper.make_model(graph)).signature
    assert signed.inputs[0].shape == ("batch", None, None, None, None, None, 4)
    assert signed.outputs[0].shape is None


def test_sequences_keep_their_kind() -> None:
    model = Model.from_text(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (seq(float[2]) y) { y = SplitToSequence(x) }"""
    )
    assert model.signature.outputs[0].dtype == "sequence(float32)"
    assert not model.signature.outputs[0].is_tensor


def test_a_name_has_one_size_in_every_generated_input() -> None:
    shapes = Model.from_text(TWO).signature.shapes({"batch": 5})
    assert shapes == {"x": (5, 3), "state": (2, 5), "sr": ()}


def test_sizes_default_to_one_example_and_64_of_the_rest() -> None:
    signed = signature("x=float32[n,length,?]", "state=float32[2,batch_size]")
    assert signed.shapes() == {"x": (1, 64, 64), "state": (2, 1)}


def test_arithmetic_over_names_is_computed_whatever_comes_first() -> None:
    signed = signature("mask=int64[batch,past + length]", "past=float32[batch,past]", "x=int64[batch,length]")
    assert signed.shapes({"past": 7, "length": 2})["mask"] == (1, 9)
    assert signed.shapes()["mask"] == (1, 128)


def test_generated_inputs_depend_on_the_seed_and_not_on_the_other_inputs() -> None:
    both = signature("x=float32[4]", "y=float32[4]")
    assert np.array_equal(both.sample(seed=1)["y"], signature("y=float32[4]").sample(seed=1)["y"])
    assert np.array_equal(both.sample(seed=1)["y"], both.sample(seed=1, only=["y"])["y"])
    assert not np.array_equal(both.sample(seed=1)["y"], both.sample(seed=2)["y"])
    assert not np.array_equal(both.sample(seed=1)["x"], both.sample(seed=1)["y"])


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int64", "float16", "float64", "bfloat16", "int4", "float8e4m3fn", "string", "complex64"]
)
def test_every_type_can_be_generated_and_fits(dtype: str) -> None:
    signed = signature(f"x={dtype}[3,2]", f"scalar={dtype}[]")
    sample = signed.sample()
    assert sample["x"].shape == (3, 2)
    assert signed.fit(sample)["x"].dtype == signed.inputs[0].numpy_dtype


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(UsageError, match="seed"):
        signature("x=float32[1]").sample(seed=-1)


def test_one_error_names_every_problem() -> None:
    message = problems(
        Model.from_text(TWO).signature,
        {"x": np.zeros((4, 2), np.float32), "state": np.zeros((2, 5), np.int32), "extra": np.zeros(1)},
    )
    assert "extra: the model has no such input" in message
    assert "x: shape [4,2], the model takes [batch,3]" in message
    assert "state: type int32, the model takes float32" in message
    assert "sr: missing (sr=int64[])" in message


def test_a_name_that_differs_between_inputs_is_named() -> None:
    arrays = {"x": np.zeros((4, 3), np.float32), "state": np.zeros((2, 5), np.float32), "sr": np.int64(1)}
    assert "state: batch is 5 here and 4 in x" in problems(Model.from_text(TWO).signature, arrays)


def test_a_wrong_rank_is_named() -> None:
    assert "x: shape [3], the model takes [batch,3]" in problems(signature("x=float32[batch,3]"), {"x": np.zeros(3)})


def test_types_are_converted_where_every_value_survives() -> None:
    signed = signature("f=float32[2]", "i=int64[2]", "h=float16[2]")
    fitted = signed.fit({"f": np.array([0.1, 2.0]), "i": np.array([1, 2], np.int8), "h": np.array([1, np.inf])})
    assert [array.dtype.name for array in fitted.values()] == ["float32", "int64", "float16"]


@pytest.mark.parametrize(
    ("spec", "values", "said"),
    [
        ("int8", np.array([300]), "values of int64 that do not fit int8"),
        ("uint8", np.array([-1]), "values of int64 that do not fit uint8"),
        ("float16", np.array([1e9]), "values of float64 that do not fit float16"),
        ("float32", np.array([1]), "type int64, the model takes float32"),
        ("int64", np.array([1.0]), "type float64, the model takes int64"),
        ("string", np.array([1]), "type int64, the model takes string"),
        ("string", np.array([1], dtype=object), "an item of type int, the model takes string"),
        ("float32", [[1.0], [1.0, 2.0]], "not an array"),
    ],
)
def test_types_that_would_change_a_value_are_refused(spec: str, values: object, said: str) -> None:
    assert said in problems(signature(f"x={spec}"), {"x": values})


def test_text_of_any_kind_becomes_strings() -> None:
    for text in (np.array(["é", "b"]), np.array(["é", "b"], dtype=object), np.array(["é".encode(), b"b"])):
        assert signature("x=string[2]").fit({"x": text})["x"].tolist() == ["é", "b"]


def test_sequences_go_through_untouched() -> None:
    signed = Signature((TensorSpec("x", "sequence(float32)", None),))
    value = [np.zeros(2), np.zeros(3)]
    assert signed.fit({"x": value})["x"] is value
    with pytest.raises(BadData, match="cannot be generated"):
        signed.sample()
