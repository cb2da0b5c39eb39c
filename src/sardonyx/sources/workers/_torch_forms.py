"""Which container a parameter of `forward` takes, told from its annotation and from the keys that the code reads."""

import ast
import collections
import dataclasses
import inspect
import re
import textwrap
import typing

DICT, LIST, TUPLE = "dict", "list", "tuple"
# The words for containers, whether they come as a class or as text.
KINDS = {
    "dict": DICT, "Dict": DICT, "Mapping": DICT, "MutableMapping": DICT, "OrderedDict": DICT, "defaultdict": DICT,
    "BatchEncoding": DICT, "BatchFeature": DICT, "UserDict": DICT, "TensorDict": DICT,
    "list": LIST, "List": LIST, "Sequence": LIST, "MutableSequence": LIST, "Iterable": LIST,
    "tuple": TUPLE, "Tuple": TUPLE,
}  # fmt: skip
_GENERIC = re.compile(r"(?s)(?:[\w.]*\.)?(\w+)(?:\[(.*)\])?")


def kind(annotation):
    """(dict, list, tuple or None, the annotations inside)."""
    if isinstance(annotation, str):
        return _kind_of_text(annotation)
    if fields(annotation) is not None:
        return None, []
    origin, inside = typing.get_origin(annotation), list(typing.get_args(annotation))
    if origin is typing.Union or type(annotation).__name__ == "UnionType":
        return _first_container(inside)
    if dict in getattr(annotation, "__mro__", ()):  # also a TypedDict, which forbids issubclass
        return DICT, inside
    return KINDS.get(getattr(origin or annotation, "__name__", "")), inside


def fields(annotation):
    """{name: annotation} of a named tuple or dataclass, which is called with them; None for anything else."""
    if not isinstance(annotation, type):
        return None
    if hasattr(annotation, "_fields"):
        return {name: getattr(annotation, "__annotations__", {}).get(name) for name in annotation._fields}
    if dataclasses.is_dataclass(annotation):
        return {field.name: field.type for field in dataclasses.fields(annotation)}
    return None


def hints(function):
    """The annotations of a function, as classes where they can be resolved and as text where they cannot."""
    try:
        return typing.get_type_hints(function)
    except Exception:  # a name that is imported for type checkers only, or syntax of a newer Python
        return {}


def keys_read(function):
    """{parameter: {key: whether it must be there}} of parameters whose items are read by a constant name."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):  # generated code has no source
        return {}
    found = collections.defaultdict(dict)
    for node in ast.walk(tree):
        read = _read(node)
        if read is not None:
            name, key, must = read
            found[name][key] = must and found[name].get(key, True)
    return dict(found)


def _read(node):
    """(name, key, whether it must be there) of x["key"], x.get("key") and "key" in x."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        key = node.slice.value if isinstance(node.slice, getattr(ast, "Index", ())) else node.slice
        return _named(node.value, key, True)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop"):
        return _named(node.func.value, node.args[0], False) if node.args else None
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        return _named(node.comparators[0], node.left, False)
    return None


def _named(value, key, must):
    constant = isinstance(key, ast.Constant) and isinstance(key.value, str)
    return (value.id, key.value, must) if isinstance(value, ast.Name) and constant else None


def _kind_of_text(text):
    text = text.strip().strip("'\"")
    parts = _split(text, "|")
    if len(parts) > 1:
        return _first_container(parts)
    found = _GENERIC.fullmatch(text)
    if found is None:
        return None, []
    inside = _split(found[2], ",") if found[2] else []
    if found[1] in ("Optional", "Union"):
        return _first_container(inside)
    return KINDS.get(found[1]), inside


def _first_container(annotations):
    return next((found for found in map(kind, annotations) if found[0]), (None, []))


def _split(text, mark):
    """The text at the marks that are not inside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(letter, 0)
        if letter == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]
