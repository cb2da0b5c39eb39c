"""What goes into a model and what comes out: names, types and symbolic shapes."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sardonyx import columns, generate
from sardonyx.casting import lossless
from sardonyx.errors import BadData, UsageError

if TYPE_CHECKING:
    import onnx_ir as ir

Dim = int | str | None
Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

# Where a value that onnx_ir gives no type keeps the name of its type; see map_types.
TYPE_NAME = "sardonyx.type_name"

_NAMES = {"FLOAT": "float32", "DOUBLE": "float64"}
_SPEC = re.compile(r"\s*(?P<dtype>[a-z]\w*)\s*(?:\[(?P<dims>[^\]]*)\])?\s*")
# What exporters write for "I do not know", which must not tie two dimensions together as a name would.
_NAMELESS = ("", "?", "-1", "None", "none", "unknown")
_NUMPY_TYPES = frozenset((
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
))  # fmt: skip
_EXTENSION_TYPES = frozenset((
    "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float8e8m0", "float4e2m1",
    "int4", "uint4", "int2", "uint2",
))  # fmt: skip


@dataclass(frozen=True)
class TensorSpec:
    """One input or output. A shape of None means that even the rank is unknown.

    `between` is the span of integers that the graph expects, where it says so; generated inputs stay inside it. `columns` are
    the columns of a table that make up the input, where the model carries their names.
    """

    name: str
    dtype: str
    shape: tuple[Dim, ...] | None
    between: generate.Range | None = field(default=None, compare=False, repr=False)
    columns: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> TensorSpec:
        """`x=float32[batch,3,32,32]`: a number is fixed, a name is dynamic, `?` is dynamic and nameless."""
        name, _, spec = text.partition("=")
        parsed = parse_type(spec)
        if not name or parsed is None:
            raise UsageError(
                f"'{text}' is not an input", hint="write it as x=float32[batch,3,32,32]; a named dimension is dynamic"
            )
        return cls(name, *parsed)

    def __str__(self) -> str:
        return f"{self.name}={self.dtype}{'' if self.shape is None else dims(self.shape)}"

    @property
    def is_tensor(self) -> bool:
        """Whether it is an array at all, and not a sequence, a map or something the model does not declare."""
        return self.dtype == "string" or self.dtype in _NUMPY_TYPES or self.dtype in _EXTENSION_TYPES

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The type numpy holds it in; `object` for strings."""
        return _numpy_dtype(self.dtype)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "dtype": self.dtype, "shape": None if self.shape is None else list(self.shape)}


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs in the order of the model."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...] = ()

    @classmethod
    def parse(cls, inputs: Iterable[str]) -> Signature:
        return cls(tuple(TensorSpec.parse(text) for text in inputs))

    @classmethod
    def of(cls, graph: ir.Graph) -> Signature:
        """The signature of an ONNX graph. Inputs that an initializer already fills are optional and left out."""
        inputs = (value for value in graph.inputs if value.name not in graph.initializers)
        between = generate.ranges(graph)
        return cls(
            tuple(_spec(value, between.get(value.name or "")) for value in inputs), tuple(map(_spec, graph.outputs))
        )

    def shapes(self, sizes: Mapping[str, int] | None = None) -> dict[str, tuple[int, ...]]:
        """The shape that each generated input gets.

        A dynamic dimension takes its size from `sizes` by its name, or, without one, by its place, as `x.0`. A name that
        is arithmetic over others, as `past + 1`, is computed; else it is 1 where it comes first or is called a batch, and 64
        elsewhere. The same name means the same size in every input. An input of unknown rank becomes a scalar.
        """
        known = dict(sizes or {})
        for spec in self.inputs:
            for axis, dim in enumerate(spec.shape or ()):
                if isinstance(dim, str) and dim.isidentifier():
                    generate.size(dim, axis, known)
        return {
            spec.name: tuple(
                known[place] if (place := f"{spec.name}.{axis}") in known else generate.size(dim, axis, known)
                for axis, dim in enumerate(spec.shape or ())
            )
            for spec in self.inputs
        }

    def sample(
        self, *, seed: int = 0, sizes: Mapping[str, int] | None = None, only: Container[str] | None = None
    ) -> Arrays:
        """Generated inputs: normal floats, integers inside the span that the graph expects (else 0 and 1), short strings.

        Sizes are those of `shapes`. With `only`, just the inputs of these names.
        """
        if seed < 0:
            raise UsageError(f"the seed cannot be {seed}", hint="give 0 or more")
        shapes = self.shapes(sizes)
        return {
            spec.name: generate.draw(
                _drawable(spec), shapes[spec.name], seed=seed, name=spec.name, between=spec.between
            )
            for spec in self.inputs
            if only is None or spec.name in only
        }

    def fit(self, arrays: Mapping[str, Any]) -> Arrays:
        """The arrays as the model takes them, or one `BadData` that names every wrong name, type and shape.

        Types are converted only where every value survives: float64 to float32 of an .npz that numpy made, int32 to int64.
        """
        fitted, problems = self.try_fit(arrays)
        if problems:
            raise self.misfit(problems)
        return fitted

    def try_fit(self, arrays: Mapping[str, Any], sizes: Mapping[str, int] | None = None) -> tuple[Arrays, list[str]]:
        """What `fit` gives, and its problems as lines instead of an error. Dimensions must also agree with `sizes`."""
        problems = [f"{name}: the model has no such input" for name in arrays if name not in self.input_names]
        fitted: Arrays = {}
        symbols = {name: (size, "the sizes asked for") for name, size in (sizes or {}).items()}
        for spec in self.inputs:
            if spec.name not in arrays:
                problems.append(f"{spec.name}: missing ({spec})")
                continue
            fitted[spec.name], found = _fit(spec, arrays[spec.name], symbols)
            problems += found
        return fitted, problems

    def misfit(self, problems: Iterable[str], *, what: str = "the inputs") -> BadData:
        """The error that names every problem and says what the model takes."""
        lines = "\n  ".join(problems)
        return BadData(f"{what} cannot go into the model:\n  {lines}", hint=f"the model takes {self.describe()}")

    def describe(self) -> str:
        return ", ".join(map(str, self.inputs)) or "no inputs"

    @property
    def dynamic(self) -> list[str]:
        """The dynamic dimensions of the inputs; one without a name is called by its place, as `x.0`."""
        places = ((spec, axis, dim) for spec in self.inputs for axis, dim in enumerate(spec.shape or ()))
        names = (dim or f"{spec.name}.{axis}" for spec, axis, dim in places if not isinstance(dim, int))
        return list(dict.fromkeys(names))

    @property
    def input_names(self) -> list[str]:
        return [spec.name for spec in self.inputs]


def dtype_name(dtype: ir.DataType) -> str:
    """The name that numpy users know: FLOAT -> float32."""
    return _NAMES.get(dtype.name, dtype.name.lower())


def dims(shape: Iterable[Dim]) -> str:
    """(None, 3, 'width') -> '[?,3,width]'."""
    return f"[{','.join('?' if dim is None else str(dim) for dim in shape)}]"


def parse_type(text: str) -> tuple[str, tuple[Dim, ...] | None] | None:
    """'float32[batch,3]' -> ('float32', ('batch', 3)), or None where the text is not a type with an optional shape."""
    match = _SPEC.fullmatch(text)
    if not match or not TensorSpec("", match["dtype"], None).is_tensor:
        return None
    if match["dims"] is None:
        return match["dtype"], None
    words = [word.strip() for word in match["dims"].split(",")] if match["dims"].strip() else []
    if any(not word or word.startswith("-") for word in words):
        return None
    return match["dtype"], tuple(None if word == "?" else int(word) if word.isdigit() else word for word in words)


def _spec(value: ir.Value, between: generate.Range | None = None) -> TensorSpec:
    name, kind = value.name or "", value.type
    if kind is None:
        return TensorSpec(name, value.meta.get(TYPE_NAME, "unknown"), None)
    if type(kind).__name__ != "TensorType":
        return TensorSpec(name, _container(kind), None)
    shape = None if value.shape is None else tuple(map(_declared, value.shape))
    return TensorSpec(name, dtype_name(kind.dtype), shape, between, value.meta.get(columns.KEY, ()))


def _declared(dim: int | ir.SymbolicDim) -> Dim:
    if isinstance(dim, int):
        return dim if dim >= 0 else None
    return None if dim.value in _NAMELESS else dim.value


def _container(kind: Any) -> str:
    """SequenceType(TensorType(FLOAT)) -> 'sequence(float32)'."""
    word = type(kind).__name__.removesuffix("Type").lower()
    inner = getattr(kind, "elem_type", None)
    if hasattr(inner, "name"):
        return f"{word}({dtype_name(inner)})" if word != "tensor" else dtype_name(inner)
    return f"{word}({_container(inner)})" if inner is not None else word


def _numpy_dtype(name: str) -> np.dtype[Any]:
    if name == "string":
        return np.dtype(object)
    if name in _EXTENSION_TYPES:
        import onnx_ir

        return np.dtype(onnx_ir.DataType[name.upper()].numpy())
    return np.dtype(name)


def _drawable(spec: TensorSpec) -> np.dtype[Any]:
    if not spec.is_tensor:
        raise BadData(f"input {spec.name} is a {spec.dtype}, which cannot be generated", hint="give it from Python")
    return spec.numpy_dtype


def _fit(spec: TensorSpec, value: Any, symbols: dict[str, tuple[int, str]]) -> tuple[Array, list[str]]:
    """The value as an array in the type of the spec, and what is wrong with it."""
    if not spec.is_tensor:
        return value, []  # the runtime takes its own lists and dicts for sequences and maps
    problems = []
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:  # a ragged list, a tensor that still wants its gradient
        return np.empty(0), [f"{spec.name}: not an array: {error}"]
    try:
        array = lossless(array, spec.dtype, spec.numpy_dtype)
    except ValueError as error:
        problems.append(f"{spec.name}: {error}")
    if spec.shape is not None:
        problems += _misshapen(spec, spec.shape, array.shape, symbols)
    return array, problems


def _misshapen(
    spec: TensorSpec, wanted: tuple[Dim, ...], shape: tuple[int, ...], symbols: dict[str, tuple[int, str]]
) -> list[str]:
    fixed = zip(shape, wanted, strict=False)
    if len(shape) != len(wanted) or any(isinstance(dim, int) and size != dim for size, dim in fixed):
        return [f"{spec.name}: shape {dims(shape)}, the model takes {dims(wanted)}"]
    problems = []
    for axis, (size, dim) in enumerate(zip(shape, wanted, strict=True)):
        if not isinstance(dim, int):
            name = dim or f"{spec.name}.{axis}"
            first, other = symbols.setdefault(name, (size, spec.name))
            if first != size:
                problems.append(f"{spec.name}: {name} is {size} here and {first} in {other}")
    return problems
