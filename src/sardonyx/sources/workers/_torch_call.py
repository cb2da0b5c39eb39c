"""Named arrays as the arguments of `forward`, and its answer as a flat list of named tensors."""

import collections.abc
import dataclasses
import inspect
import re

import numpy
import torch
from torch.utils import _pytree as pytree

# An annotation, as a class or as text, that asks for a Python number and not for a tensor.
_NUMBER = re.compile(r"(?:typing\.)?(?:Optional\[)?(int|float|bool)\]?(?: \| None)?")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
NUMBERS = {"int": "int64", "float": "float32", "bool": "bool"}


class Parameter:
    """One parameter of `forward`. `number` is int, float or bool where Python's own number is asked for."""

    def __init__(self, name, kind=inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=None, required=True):
        self.name, self.kind, self.annotation, self.required = name, kind, annotation, required
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", None) or str(annotation)
        found = _NUMBER.fullmatch(str(annotation) if text == "Optional" else text)
        self.number = found[1] if found else None


def parameters(model):
    """What `forward` takes: from the schema of a TorchScript model, else from the Python signature."""
    schema = getattr(model, "schema", None) if isinstance(model, torch.jit.ScriptFunction) else None
    if isinstance(model, torch.jit.ScriptModule):
        schema = model.forward.schema
    if schema is not None:
        return [
            Parameter(argument.name, annotation=str(argument.type), required=not argument.has_default_value())
            for argument in schema.arguments
            if argument.name != "self"
        ]
    found = inspect.signature(model.forward).parameters.values()
    return [Parameter(p.name, p.kind, p.annotation, p.default is p.empty) for p in found]


class Call:
    """How the arrays of one name each become arguments: by name where the names are forward's, else in order.

    `names` are the inputs that become tensors; `constants` are those that forward takes as Python numbers.
    """

    def __init__(self, parameters, arrays):
        self.parameters = parameters
        self.roots = list(dict.fromkeys(name.partition(".")[0] for name in arrays))
        self.slots = dict(zip(self.roots, self._slots()))
        self.constants = {
            name: _number(name, array, self.slots[name].number)
            for name, array in arrays.items()
            if name in self.slots and self.slots[name].number
        }
        self.names = [name for name in arrays if name not in self.constants]

    def arguments(self, tensors):
        """(args, kwargs) of forward, from tensors in the order of `names`."""
        nested = _nest({**self.constants, **dict(zip(self.names, tensors))})
        given = {slot.name: _shaped(nested[root], slot.annotation) for root, slot in self.slots.items()}
        args = []
        for parameter in self.parameters:  # some can only be given by position; the first that is left out ends that
            if parameter.kind not in _POSITIONAL or parameter.name not in given:
                break
            args.append(given.pop(parameter.name))
        spread = [slot.name for slot in self.slots.values() if slot.kind is inspect.Parameter.VAR_POSITIONAL]
        return [*args, *(given.pop(name) for name in spread)], given

    def _slots(self):
        """The parameter that takes each root name."""
        known = {p.name: p for p in self.parameters if p.kind.name not in ("VAR_POSITIONAL", "VAR_KEYWORD")}
        spread = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in self.parameters)
        keywords = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in self.parameters)
        takes = ", ".join(p.name for p in self.parameters) or "nothing"
        if all(root in known or (keywords and not spread) for root in self.roots):
            missing = [p.name for p in known.values() if p.required and p.name not in self.roots]
            if missing:
                raise TypeError(f"forward needs {', '.join(missing)}, which the inputs do not name; it takes {takes}")
            return [known.get(root) or Parameter(root, inspect.Parameter.KEYWORD_ONLY) for root in self.roots]
        ordered = [p for p in known.values() if p.kind in _POSITIONAL]
        room = len(self.roots) >= sum(p.required for p in ordered) and (spread or len(self.roots) <= len(ordered))
        if not room or any(root in known for root in self.roots):  # half by name and half in order would be a guess
            raise TypeError(f"forward takes {takes}; the inputs are {', '.join(self.roots)}")
        extra = [Parameter(root, inspect.Parameter.VAR_POSITIONAL) for root in self.roots[len(ordered) :]]
        return [*ordered[: len(self.roots)], *extra]


def to_tensor(name, array, double=False):
    """The array as a tensor of its own memory, whatever its strides were."""
    array = numpy.asarray(array)
    if array.dtype.kind == "V" or array.dtype.name == "bfloat16":  # .npz keeps bfloat16 as two nameless bytes
        tensor = torch.from_numpy(numpy.array(array, order="C").view(numpy.int16)).view(torch.bfloat16)
    elif array.dtype.kind in "biufc":
        tensor = torch.from_numpy(numpy.array(array, order="C"))
    else:
        raise TypeError(f"input {name} is of type {array.dtype}; a PyTorch model takes numbers")
    return tensor.double() if double and tensor.is_floating_point() else tensor


def to_array(tensor):
    """The tensor as numpy and ONNX can hold it: bfloat16 widened, complex numbers as a last dimension of two."""
    tensor = tensor.detach().cpu()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if tensor.dtype is torch.bfloat16 or "float8" in str(tensor.dtype):
        tensor = tensor.float()
    return tensor.resolve_neg().numpy()


def leaves(answer):
    """[(name, tensor)] of everything in the answer, in order. None is left out, as ONNX leaves it out."""
    found = [(path, value) for path, value in _walk(answer, ()) if value is not None]
    named = []
    for index, (path, value) in enumerate(found):
        if not isinstance(value, torch.Tensor):
            if not isinstance(value, (bool, int, float, torch.SymInt, torch.SymFloat)):
                raise TypeError(f"the model answers with a {type(value).__name__}, which is no tensor")
            value = torch.scalar_tensor(value, dtype=_scalar_type(value))
        named.append((output_name(path, index), value))
    return named


def distinct(names, taken):
    """The names with a number added where one is used twice or is an input's."""
    seen, result = set(taken), []
    for name in names:
        fresh, count = name, 1
        while fresh in seen:
            fresh, count = f"{name}_{count}", count + 1
        seen.add(fresh)
        result.append(fresh)
    return result


def _walk(value, path):
    pairs, _ = pytree.tree_flatten_with_path(value)
    for keys, leaf in pairs:
        here = (*path, *(step(key) for key in keys))
        if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            fields = {field.name: getattr(leaf, field.name) for field in dataclasses.fields(leaf)}
            yield from _walk(fields, here)
        elif isinstance(leaf, collections.abc.Mapping):
            yield from _walk(dict(leaf), here)
        else:
            yield here, leaf


def step(key):
    """A step into a container: a position, or the name of a key or field."""
    return key.idx if hasattr(key, "idx") else str(key.key if hasattr(key, "key") else key.name)


def output_name(path, index):
    """Keys and fields name an output; one that has only positions is numbered through."""
    named = any(isinstance(word, str) for word in path)
    return ".".join(map(str, path)) if named else f"output_{index}" if path else "output"


def _scalar_type(value):
    if isinstance(value, bool):
        return torch.bool
    return torch.int64 if isinstance(value, (int, torch.SymInt)) else torch.float32


def _number(name, array, kind):
    if numpy.size(array) != 1:
        raise TypeError(f"forward takes {name} as one {kind}, not as an array of {numpy.size(array)}")
    return {"int": int, "float": float, "bool": bool}[kind](numpy.reshape(array, ())[()])


def _nest(values):
    """{'pair.0': a, 'pair.1': b} -> {'pair': {'0': a, '1': b}}."""
    nested = {}
    for name, value in values.items():
        *path, last = name.split(".")
        place = nested
        for word in path:
            place = place.setdefault(word, {})
        place[last] = value
    return nested


def _shaped(value, annotation=None):
    """Dicts whose keys are 0, 1, 2... as tuples, or as lists where forward's annotation says so."""
    if not isinstance(value, dict):
        return value
    inner = {key: _shaped(item) for key, item in value.items()}
    if isinstance(annotation, type) and (hasattr(annotation, "_fields") or dataclasses.is_dataclass(annotation)):
        return annotation(**inner)
    if all(key.isdigit() for key in inner):
        ordered = [inner[key] for key in sorted(inner, key=int)]
        return ordered if "list" in str(annotation).lower().split("[")[0] else tuple(ordered)
    return inner
