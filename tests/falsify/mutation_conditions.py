"""The conditions behind which faults are seeded: each as nodes of a graph, as Python, and with an input that meets it."""

# ruff: noqa: E501  a table reads best with one row a line

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from falsify.mutation_bases import COLOURS
from sardonyx.signature import TensorSpec

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
ELEMENTS = {
    "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64, "int32": TensorProto.INT32,
    "uint8": TensorProto.UINT8, "bool": TensorProto.BOOL, "string": TensorProto.STRING,
}  # fmt: skip


class Writer:
    """Appends nodes to a graph. With `hidden` no comparison is written: a step is made of Sign and Relu instead."""

    def __init__(self, graph: onnx.GraphProto, *, hidden: bool = False) -> None:
        self.graph, self.hidden = graph, hidden
        self._count = 0

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """The name of the only output of a new node."""
        self._count += 1
        output = f"fault_{self._count}"
        self.graph.node.append(helper.make_node(op_type, list(inputs), [output], f"{output}_{op_type}", **attributes))
        return output

    def constant(self, value: Any, dtype: Any) -> str:
        self._count += 1
        name = f"fault_{self._count}"
        array = np.array(value, dtype)
        if array.dtype == object:
            texts = [str(text).encode() for text in array.ravel()]
            tensor = helper.make_tensor(name, TensorProto.STRING, array.shape, texts)
        else:
            tensor = numpy_helper.from_array(array, name)
        self.graph.initializer.append(tensor)
        return name

    def number(self, tensor: str) -> str:
        """A float64 copy, so that integers up to 2^53 and floats are compared alike."""
        return self.op("Cast", tensor, to=TensorProto.DOUBLE)

    def above(self, tensor: str, bound: float) -> str:
        if not self.hidden:
            return self.op("Greater", tensor, self.constant(bound, np.float64))
        step = self.op("Relu", self.op("Sign", self.op("Add", tensor, self.constant(-bound, np.float64))))
        return self.op("Cast", step, to=TensorProto.BOOL)

    def below(self, tensor: str, bound: float) -> str:
        if not self.hidden:
            return self.op("Less", tensor, self.constant(bound, np.float64))
        return self.above(self.op("Neg", tensor), -bound)

    def equal(self, tensor: str, value: float) -> str:
        if not self.hidden:
            return self.op("Equal", tensor, self.constant(value, np.float64))
        apart = self.op("Abs", self.op("Sign", self.op("Add", tensor, self.constant(-value, np.float64))))
        return self.op("Not", self.op("Cast", apart, to=TensorProto.BOOL))

    def zero(self, tensor: str) -> str:
        return self.equal(tensor, 0.0)

    def over_rows(self, mask: str) -> str:
        """[n] from [n, ...]: whether anything in the row is true."""
        rows = self.op("Flatten", self.op("Cast", mask, to=TensorProto.INT32), axis=1)
        most = self.op("ReduceMax", rows, self.constant([1], np.int64), keepdims=0)
        return self.op("Cast", most, to=TensorProto.BOOL)

    def over_all(self, mask: str) -> str:
        numbers = self.op("Cast", mask, to=TensorProto.INT32)
        return self.op("Cast", self.op("ReduceMax", numbers, keepdims=0), to=TensorProto.BOOL)

    def reduced(self, op_type: str, tensor: str, rank: int) -> str:
        """The largest, smallest or sum of each row, [n]."""
        if rank <= 1:
            return tensor
        return self.op(op_type, tensor, self.constant(list(range(1, rank)), np.int64), keepdims=0)

    def column(self, tensor: str, index: int) -> str:
        return self.op("Gather", tensor, self.constant(index, np.int64), axis=-1)

    def size(self, tensor: str, axis: int) -> str:
        sizes = self.op("Shape", tensor)
        return self.number(self.op("Gather", sizes, self.constant(axis, np.int64), axis=0))


@dataclass(frozen=True)
class Condition:
    """When a fault shows. `rows`: it is decided for each row; else once for the batch."""

    name: str
    family: str
    takes: Callable[[TensorSpec], bool]
    # (writer, input, spec) -> a mask whose first dimension are the rows if `rows`, else of any shape
    mask: Callable[[Writer, str, TensorSpec], str]
    # (example, input) -> inputs that meet it
    witness: Callable[[Arrays, str], Arrays]
    code: str = ""  # the same in PyTorch, with {x} for the input
    rows: bool = True
    needle: bool = False  # found only by one who reads the constant: is never hidden


def with_value(value: Any, place: int = 0) -> Callable[[Arrays, str], Arrays]:
    """The example with one element of the input replaced, in its first row."""

    def witness(example: Arrays, name: str) -> Arrays:
        array = example[name].copy()
        array.reshape(-1)[place] = value
        return {**example, name: array}

    return witness


def filled(change: Callable[[Array], Array]) -> Callable[[Arrays, str], Arrays]:
    """The example with the whole input changed."""

    def witness(example: Arrays, name: str) -> Arrays:
        return {**example, name: np.asarray(change(example[name])).astype(example[name].dtype)}

    return witness


def sized(size: int, axis: int) -> Callable[[Arrays, str], Arrays]:
    """The example at another size of one axis of the input, and of the first axis of every input for the batch."""

    def witness(example: Arrays, name: str) -> Arrays:
        def grown(array: Array, at: int) -> Array:
            return np.take(array, np.arange(size) % array.shape[at], axis=at)

        if axis == 0:
            return {key: grown(array, 0) if array.ndim else array for key, array in example.items()}
        return {**example, name: grown(example[name], axis)}

    return witness


def kind(*dtypes: str, rank: int = 1, last: int = 0) -> Callable[[TensorSpec], bool]:
    """Inputs of these types, with at least `rank` dimensions and, if it is fixed, `last` elements in the last one."""

    def takes(spec: TensorSpec) -> bool:
        shape = spec.shape or ()
        wide = not last or (bool(shape) and isinstance(shape[-1], int) and shape[-1] >= last)
        return spec.dtype in dtypes and len(shape) >= rank and wide

    return takes


def scalar(*dtypes: str) -> Callable[[TensorSpec], bool]:
    return lambda spec: spec.dtype in dtypes and spec.shape == ()


def dynamic(axis: int) -> Callable[[TensorSpec], bool]:
    """Inputs of which this axis is dynamic."""
    return lambda spec: len(spec.shape or ()) > axis and isinstance((spec.shape or ())[axis], str)


FLOATS = ("float32", "float64")
INTEGERS = ("int64", "int32")


def rank_of(spec: TensorSpec) -> int:
    return len(spec.shape or ())


def _rows_equal(writer: Writer, x: str, _: TensorSpec) -> str:
    first = writer.op(
        "Slice", x, writer.constant([0], np.int64), writer.constant([1], np.int64), writer.constant([0], np.int64)
    )
    apart = writer.op("ReduceMax", writer.op("Abs", writer.number(writer.op("Sub", x, first))), keepdims=0)
    several = writer.op("And", writer.zero(apart), writer.above(writer.size(x, 0), 1.5))
    return writer.op("And", several, writer.above(writer.op("ReduceMin", writer.number(x), keepdims=0), 0.1))


def _matches(pattern: str) -> Callable[[Writer, str, TensorSpec], str]:
    return lambda w, x, _: w.op("RegexFullMatch", x, pattern=pattern)


def _unknown(writer: Writer, x: str, _: TensorSpec) -> str:
    known = [writer.op("Equal", x, writer.constant(colour, object)) for colour in COLOURS]
    seen = known[0]
    for one in known[1:]:
        seen = writer.op("Or", seen, one)
    return writer.op("Not", seen)


def _text_equals(value: str) -> Callable[[Writer, str, TensorSpec], str]:
    return lambda w, x, _: w.op("Equal", x, w.constant(value, object))


def _odd(writer: Writer, tensor: str) -> str:
    """Whether a whole number is odd, without a comparison."""
    half = writer.op("Mul", tensor, writer.constant(0.5, np.float64))
    return writer.op("Not", writer.zero(writer.op("Sub", half, writer.op("Floor", half))))


def _compared(test: str, bound: float, reduce: str = "") -> Callable[[Writer, str, TensorSpec], str]:
    """A comparison of every element, or of the row's reduction."""

    def mask(writer: Writer, x: str, spec: TensorSpec) -> str:
        tensor = writer.number(x)
        if reduce:
            tensor = writer.reduced(reduce, tensor, rank_of(spec))
        return getattr(writer, test)(tensor, bound)

    return mask


def _of_column(test: str, index: int, bound: float) -> Callable[[Writer, str, TensorSpec], str]:
    return lambda w, x, _: getattr(w, test)(w.number(w.column(x, index)), bound)


def _of_size(test: str, axis: int, bound: float) -> Callable[[Writer, str, TensorSpec], str]:
    return lambda w, x, _: getattr(w, test)(w.size(x, axis), bound)


def _column_is_nan(writer: Writer, x: str, _: TensorSpec) -> str:
    return writer.op("IsNaN", writer.column(x, 1))


def _infinite(**sides: int) -> Callable[[Writer, str, TensorSpec], str]:
    return lambda w, x, _: w.op("IsInf", w.op("Cast", x, to=TensorProto.FLOAT), **sides)


def _columns_equal(writer: Writer, x: str, _: TensorSpec) -> str:
    one, two = (writer.number(writer.column(x, index)) for index in (0, 1))
    return writer.op("And", writer.zero(writer.op("Sub", one, two)), writer.above(one, 0.1))


def _window(writer: Writer, x: str, spec: TensorSpec) -> str:
    mean = writer.reduced("ReduceMean", writer.number(x), rank_of(spec))
    return writer.op("And", writer.above(mean, 0.2), writer.below(mean, 0.25))


def _opposed(writer: Writer, x: str, _: TensorSpec) -> str:
    one, two = (writer.number(writer.column(x, index)) for index in (0, 1))
    return writer.op("And", writer.above(one, 0.0), writer.below(two, 0.0))


def _whole(writer: Writer, x: str, spec: TensorSpec) -> str:
    number = writer.number(x)
    apart = writer.op("Abs", writer.op("Sub", number, writer.op("Floor", number)))
    whole = writer.zero(writer.reduced("ReduceMax", apart, rank_of(spec)))
    return writer.op("And", whole, writer.above(writer.reduced("ReduceMax", number, rank_of(spec)), 0.1))


def _zeros(writer: Writer, x: str, spec: TensorSpec) -> str:
    return writer.zero(writer.reduced("ReduceMax", writer.op("Abs", writer.number(x)), rank_of(spec)))


def _negative_odd(writer: Writer, x: str, _: TensorSpec) -> str:
    number = writer.number(x)
    return writer.op("And", writer.below(number, 0.0), _odd(writer, number))


def named(name: str) -> Callable[[TensorSpec], bool]:
    return lambda spec: spec.name == name


def named_string(name: str) -> Callable[[TensorSpec], bool]:
    return lambda spec: spec.name == name and spec.dtype == "string"


def copied(other: str) -> Callable[[Arrays, str], Arrays]:
    """The example with one input the same as another."""
    return lambda example, name: {**example, name: example[other]}


def _equal_to(other: str) -> Callable[[Writer, str, TensorSpec], str]:
    def mask(writer: Writer, x: str, _: TensorSpec) -> str:
        apart = writer.op("ReduceMax", writer.op("Abs", writer.number(writer.op("Sub", x, other))), keepdims=0)
        most = writer.op("ReduceMax", writer.number(x), keepdims=0)
        return writer.op("And", writer.zero(apart), writer.above(most, 0.1))

    return mask


def _above_all(other: str) -> Callable[[Writer, str, TensorSpec], str]:
    return lambda w, x, _: w.above(w.op("ReduceMin", w.number(w.op("Sub", x, other)), keepdims=0), 0.0)


def _short(writer: Writer, lengths: str, _: TensorSpec) -> str:
    longest = writer.op("ReduceMax", writer.number(lengths), keepdims=0)
    return writer.below(writer.op("Sub", longest, writer.size("x", 1)), 0.0)


def _constant_row(array: Array) -> Array:
    return np.broadcast_to(array[:1], array.shape)


def _opposite(array: Array) -> Array:
    changed = array.copy()
    changed[..., 0], changed[..., 1] = 1, -1
    return changed


def _alike(array: Array) -> Array:
    changed = array.copy()
    changed[..., 1] = changed[..., 0]
    return changed


floats, integers, strings, texts = kind(*FLOATS), kind(*INTEGERS), kind("string"), named_string("X")
columns = kind(*FLOATS, rank=2, last=2)
whole_columns = kind(*INTEGERS, rank=2, last=2)
CONDITIONS = (
    Condition("one feature is negative", "sign", columns, _of_column("below", 1, 0.0), with_value(-1.0, 1), "({x}[..., 1] < 0).any()"),
    Condition("every value is negative", "sign", floats, _compared("below", 0.0, "ReduceMax"), filled(lambda a: -np.abs(a) - 0.1), "{x}.max() < 0"),
    Condition("two features have opposite signs", "sign", columns, _opposed, filled(_opposite), "(({x}[..., 0] > 0) & ({x}[..., 1] < 0)).any()"),
    Condition("a value above 10", "magnitude", floats, _compared("above", 10.0), with_value(12.0), "{x}.max() > 10"),
    Condition("a value above 100", "magnitude", floats, _compared("above", 100.0), with_value(130.0), "({x} > 100).any()"),
    Condition("a value above 5000", "magnitude", floats, _compared("above", 5000.0), with_value(6000.0), "{x}.abs().max() > 5000"),
    Condition("a value below -100", "magnitude", floats, _compared("below", -100.0), with_value(-130.0), "{x}.min() < -100"),
    Condition("a NaN anywhere", "missing value", floats, lambda w, x, _: w.op("IsNaN", x), with_value(np.nan), "{x}.isnan().any()", needle=True),
    Condition("a NaN in one column", "missing value", columns, _column_is_nan, with_value(np.nan, 1), "{x}[..., 1].isnan().any()", needle=True),
    Condition("an infinity", "infinity", floats, _infinite(detect_negative=0), with_value(np.inf), "({x} == float('inf')).any()", needle=True),
    Condition("a negative infinity", "infinity", floats, _infinite(detect_positive=0), with_value(-np.inf), "torch.isneginf({x}).any()", needle=True),
    Condition("a negative sum", "sum", floats, _compared("below", 0.0, "ReduceSum"), filled(lambda a: -a), "{x}.sum() < 0"),
    Condition("a sum above 500", "sum", floats, _compared("above", 500.0, "ReduceSum"), filled(lambda a: a * 0 + 600), "{x}.sum() > 500"),
    Condition("a row of zeros", "zero", floats, _zeros, filled(np.zeros_like), "({x} == 0).all()"),
    Condition("a zero anywhere", "zero", floats, _compared("equal", 0.0), with_value(0.0), "({x} == 0).any()"),
    Condition("all rows equal, not zero", "equality", kind(*FLOATS, rank=2), _rows_equal, filled(_constant_row), "{x}.size(0) > 1 and bool(({x} == {x}[:1]).all()) and {x}.min() > 0.1", rows=False),
    Condition("two features equal, not zero", "equality", columns, _columns_equal, filled(_alike), "(({x}[..., 0] == {x}[..., 1]) & ({x}[..., 0] > 0.1)).any()"),
    Condition("a feature is exactly 0.5", "exact threshold", columns, _of_column("equal", 0, 0.5), with_value(0.5), "({x}[..., 0] == 0.5).any()", needle=True),
    Condition("a feature is exactly -3.25", "exact threshold", columns, _of_column("equal", 1, -3.25), with_value(-3.25, 1), "({x}[..., 1] == -3.25).any()", needle=True),
    Condition("a mean between 0.2 and 0.25", "window", floats, _window, filled(lambda a: a * 0 + 0.22), "{x}.mean() > 0.2 and {x}.mean() < 0.25", needle=True),
    Condition("whole numbers, not zero", "whole numbers", floats, _whole, filled(lambda a: np.round(a) + 2), "({x} == {x}.floor()).all() and {x}.max() > 0.1"),
    Condition("an integer is negative", "negative integer", integers, _compared("below", 0.0), with_value(-3), "({x} < 0).any()"),
    Condition("a negative odd integer", "negative integer", integers, _negative_odd, with_value(-7), "(({x} < 0) & ({x} % 2 == 1)).any()"),
    Condition("an integer is 5", "one integer", integers, _compared("equal", 5.0), with_value(5), "({x} == 5).any()"),
    Condition("an integer is 37", "one integer", integers, _compared("equal", 37.0), with_value(37), "({x} == 37).any()", needle=True),
    Condition("an integer is 0", "one integer", integers, _compared("equal", 0.0), with_value(0), "({x} == 0).any()"),
    Condition("an integer above 1000", "large integer", integers, _compared("above", 1000.0), with_value(1500), "{x}.max() > 1000"),
    Condition("an integer beyond 32 bits", "large integer", kind("int64"), _compared("above", 2.0**31), with_value(2**31 + 9), "({x} > 2147483648).any()"),
    Condition("two neighbours equal, not zero", "repeated integer", whole_columns, _columns_equal, filled(_alike), "(({x}[..., 0] == {x}[..., 1]) & ({x}[..., 0] > 0.1)).any()"),
    Condition("the integer is 5", "scalar integer", scalar("int64"), _compared("equal", 5.0), filled(lambda _: 5), "int({x}) == 5", rows=False),
    Condition("the integer is 0", "scalar integer", scalar("int64"), _compared("equal", 0.0), filled(lambda _: 0), "int({x}) == 0", rows=False),
    Condition("the integer is negative", "scalar integer", scalar("int64"), _compared("below", 0.0), filled(lambda _: -2), "int({x}) < 0", rows=False),
    Condition("the integer is above 8", "scalar integer", scalar("int64"), _compared("above", 8.0), filled(lambda _: 11), "int({x}) > 8", rows=False),
    Condition("the flag is true", "flag", scalar("bool"), lambda w, x, _: w.op("Identity", x), filled(lambda _: True), "bool({x})", rows=False),
    Condition("more than 24 rows", "batch size", dynamic(0), _of_size("above", 0, 24.0), sized(30, 0), "{x}.size(0) > 24", rows=False),
    Condition("more than 32 rows", "batch size", dynamic(0), _of_size("above", 0, 32.0), sized(40, 0), "{x}.size(0) > 32", rows=False),
    Condition("exactly 7 rows", "batch size", dynamic(0), _of_size("equal", 0, 7.0), sized(7, 0), "{x}.size(0) == 7", rows=False),
    Condition("one row", "batch size", dynamic(0), _of_size("equal", 0, 1.0), sized(1, 0), "{x}.size(0) == 1", rows=False),
    Condition("an odd length", "length", dynamic(1), lambda w, x, _: _odd(w, w.size(x, 1)), sized(5, 1), "{x}.size(1) % 2 == 1", rows=False),
    Condition("more than 40 positions", "length", dynamic(1), _of_size("above", 1, 40.0), sized(50, 1), "{x}.size(1) > 40", rows=False),
    Condition("exactly 16 positions", "length", dynamic(1), _of_size("equal", 1, 16.0), sized(16, 1), "{x}.size(1) == 16", rows=False),
    Condition("both inputs equal, not zero", "two inputs", named("b"), _equal_to("a"), copied("a"), "({x} == a).all() and a.max() > 0.1", rows=False),
    Condition("all of one above the other", "two inputs", named("b"), _above_all("a"), filled(lambda b: b + 9), "({x} > a).all()", rows=False),
    Condition("all shorter than the padding", "two inputs", named("lengths"), _short, filled(lambda a: a * 0 + 1), "{x}.max() < x.size(1)", rows=False),
    Condition("a white pixel", "pixel", kind("uint8"), _compared("equal", 255.0), with_value(255), "({x} == 255).any()"),
    Condition("a black picture", "pixel", kind("uint8"), _zeros, filled(np.zeros_like), "({x} == 0).all()"),
    Condition("one word", "word", texts, _text_equals("sugar"), with_value("sugar"), needle=True),
    Condition("another word", "word", texts, _text_equals("stale"), with_value("stale"), needle=True),
    Condition("one colour", "category", named("colour"), _text_equals("gold"), with_value("gold"), needle=True),
    Condition("another colour", "category", named("colour"), _text_equals("brown"), with_value("brown"), needle=True),
    Condition("one place", "category", named("place"), _text_equals("west"), with_value("west"), needle=True),
    Condition("an unknown colour", "unknown category", named("colour"), _unknown, with_value("mauve"), needle=True),
    Condition("an empty text", "empty text", strings, _text_equals(""), with_value(""), needle=True),
    Condition("an accent", "accents", strings, _matches(r".*[^\x00-\x7f].*"), with_value("café"), needle=True),
    Condition("a letter in upper case", "upper case", strings, _matches(r".*[A-Z].*"), with_value("Coffee"), needle=True),
    Condition("an apostrophe", "punctuation", texts, _matches(r".*'.*"), with_value("don't"), needle=True),
    Condition("a comma", "punctuation", texts, _matches(r".*,.*"), with_value("tea, cake"), needle=True),
    Condition("two blanks in a row", "blanks", texts, _matches(r".*  .*"), with_value("tea  cake"), needle=True),
    Condition("a text of more than 200 letters", "long text", texts, _matches(r"(?s).{200}.*"), with_value("tea " * 60), needle=True),
)  # fmt: skip
