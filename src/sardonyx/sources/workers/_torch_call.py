"""Named arrays as the arguments of `forward`, and its answer as a flat list of named tensors."""

import collections.abc
import dataclasses
import inspect
import re

import numpy
import torch
from torch.utils import _pytree as pytree

from . import _torch_forms as forms

# An annotation, as a class or as text, that asks for a Python number and not for a tensor.
_NUMBER = re.compile(r"(?:typing\.)?(?:Optional\[)?(int|float|bool)\]?(?: \| None)?")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
NUMBERS = {"int": "int64", "float": "float32", "bool": "bool"}


class Parameter:
    """One parameter of `forward`. `number` is int, float or bool where Python's own number is asked for.

    `container` is dict, list or tuple where one is asked for; `keys` are those that the code reads from a dict, with
    whether each must be there.
    """

    def __init__(self, name, kind=inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=None, required=True, keys=()):
        self.name, self.kind, self.annotation, self.required = name, kind, annotation, required
        self.keys = dict(keys)
        self.container = forms.kind(annotation)[0] or (forms.DICT if self.keys else None)
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", None) or str(annotation)
        found = _NUMBER.fullmatch(str(annotation) if text == "Optional" else text)
        self.number = found[1] if found else None

    @property
    def names(self):
        """What its inputs are called: its own name, or one for every entry that must be there."""
        inside = forms.fields(self.annotation) or [key for key, must in self.keys.items() if must]
        return [f"{self.name}.{name}" for name in inside] or [self.name]

    def holds(self, names):
        """Whether these can be the names of its entries."""
        inside = forms.fields(self.annotation)
        return self.container == forms.DICT if inside is None else set(names) <= set(inside)

    def advice(self):
        """How to write its inputs; empty for a tensor."""
        if self.container in (forms.LIST, forms.TUPLE):
            return f"{self.name} is a {self.container}: write --input {self.name}.0=TYPE[SIZES], {self.name}.1=…"
        if self.container == forms.DICT or forms.fields(self.annotation):
            shown = self.names if self.names != [self.name] else [f"{self.name}.KEY"]
            return f"{self.name} is a {self.container or 'structure'}: write --input {'=…, '.join(shown)}=TYPE[SIZES]"
        return ""


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
    known, keys = forms.hints(model.forward), forms.keys_read(model.forward)
    return [
        Parameter(p.name, p.kind, known.get(p.name, p.annotation), p.default is p.empty, keys.get(p.name, ()))
        for p in found
    ]


class Call:
    """How the arrays of one name each become arguments: by name where the names are forward's, else in order.

    `names` are the inputs that become tensors; `constants` are those that forward takes as Python numbers. `batch.x` is the
    entry x of the argument batch. Where forward takes one dict, names that it does not know are entries of that.
    """

    def __init__(self, parameters, arrays):
        self.parameters = parameters
        paths = {name: name.split(".") for name in arrays}
        holder = self._holder(paths)
        known = {p.name for p in parameters}
        self.paths = {
            name: path if path[0] in known or holder is None else [holder.name, *path] for name, path in paths.items()
        }
        self.roots = list(dict.fromkeys(path[0] for path in self.paths.values()))
        self.slots = dict(zip(self.roots, self._slots()))
        self._require_entries()
        self.constants = {
            name: _number(name, array, self.slots[name].number)
            for name, array in arrays.items()
            if name in self.slots and self.slots[name].number
        }
        self.names = [name for name in arrays if name not in self.constants]

    @property
    def nested(self):
        """Whether an argument is a container of several inputs."""
        return any(len(path) > 1 for path in self.paths.values())

    def arguments(self, tensors):
        """(args, kwargs) of forward, from tensors in the order of `names`."""
        values = {**self.constants, **dict(zip(self.names, tensors))}
        nested = _nest([(self.paths[name], value) for name, value in values.items()])
        given = {slot.name: _shaped(nested[root], slot.annotation) for root, slot in self.slots.items()}
        args = []
        for parameter in self.parameters:  # some can only be given by position; the first that is left out ends that
            if parameter.kind not in _POSITIONAL or parameter.name not in given:
                break
            args.append(given.pop(parameter.name))
        spread = [slot.name for slot in self.slots.values() if slot.kind is inspect.Parameter.VAR_POSITIONAL]
        return [*args, *(given.pop(name) for name in spread)], given

    def _holder(self, paths):
        """The dict that takes names which are not forward's own, if there is exactly one."""
        own = [p for p in self.parameters if p.kind.name not in ("VAR_POSITIONAL", "VAR_KEYWORD")]
        roots = {path[0] for path in paths.values()}
        strange = roots - {p.name for p in self.parameters}
        free = [p for p in own if p.name not in roots]
        fitting = [p for p in free if p.holds(strange)]
        lone = (
            len(own) == 1 == len(self.parameters) and len(strange) > 1 and own[0].annotation in (None, inspect._empty)
        )
        fitting = fitting or (free if lone else [])  # one argument for several inputs, and nothing says what it is
        return fitting[0] if strange and len(fitting) == 1 else None

    def _slots(self):
        """The parameter that takes each root name."""
        known = {p.name: p for p in self.parameters if p.kind.name not in ("VAR_POSITIONAL", "VAR_KEYWORD")}
        spread = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in self.parameters)
        keywords = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in self.parameters)
        if all(root in known or (keywords and not spread) for root in self.roots):
            missing = [p.name for p in known.values() if p.required and p.name not in self.roots]
            if missing:
                raise TypeError(
                    f"forward needs {', '.join(missing)}, which the inputs do not name; it takes {self._takes()}"
                )
            return [known.get(root) or Parameter(root, inspect.Parameter.KEYWORD_ONLY) for root in self.roots]
        ordered = [p for p in known.values() if p.kind in _POSITIONAL]
        room = len(self.roots) >= sum(p.required for p in ordered) and (spread or len(self.roots) <= len(ordered))
        if not room or any(root in known for root in self.roots):  # half by name and half in order would be a guess
            raise TypeError(f"forward takes {self._takes()}; the inputs are {', '.join(self.roots)}")
        extra = [Parameter(root, inspect.Parameter.VAR_POSITIONAL) for root in self.roots[len(ordered) :]]
        return [*ordered[: len(self.roots)], *extra]

    def _takes(self):
        advice = "; ".join(filter(None, (p.advice() for p in self.parameters)))
        return (", ".join(p.name for p in self.parameters) or "nothing") + (f" ({advice})" if advice else "")

    def _require_entries(self):
        """Raises where an array is given for what forward takes as a container."""
        for name, path in self.paths.items():
            slot = self.slots.get(path[0])
            if len(path) == 1 and slot is not None and slot.advice():
                raise TypeError(f"the input {name} is one array, and {slot.advice()}")


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
                advice = "; call it with use_cache=False" if "cache" in type(value).__name__.lower() else ""
                raise TypeError(f"the model answers with a {type(value).__name__}, which is no tensor{advice}")
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


def _nest(pairs):
    """[(['pair', '0'], a), (['pair', '1'], b)] -> {'pair': {'0': a, '1': b}}."""
    nested = {}
    for (*path, last), value in pairs:
        place = nested
        for word in path:
            place = place.setdefault(word, {})
        place[last] = value
    return nested


def _shaped(value, annotation=None):
    """Dicts in the form that forward's annotation asks for; without one, dicts whose keys are 0, 1, 2... are tuples."""
    if not isinstance(value, dict):
        return value
    named = forms.fields(annotation)
    if named is not None:
        return annotation(**{key: _shaped(item, named.get(key)) for key, item in value.items()})
    kind, inside = forms.kind(annotation)
    numbered = all(key.isdigit() for key in value)
    if kind == forms.DICT or not numbered:
        to_key = int if kind == forms.DICT and numbered and "int" in str(inside[:1]) else str
        return {to_key(key): _shaped(item, inside[1] if len(inside) > 1 else None) for key, item in value.items()}
    items = [value[key] for key in sorted(value, key=int)]
    each = inside if kind == forms.TUPLE and Ellipsis not in inside and "..." not in inside else inside[:1] * len(items)
    shaped = [_shaped(item, each[index] if index < len(each) else None) for index, item in enumerate(items)]
    return shaped if kind == forms.LIST else tuple(shaped)
