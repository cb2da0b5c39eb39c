"""Whether JSON that somebody else wrote has the form that its reader needs, and if not, where not.

A form is written as the value would be: `{"files": {str: str}, "sizes": [int], "note?": str}`. A type stands for a value of it
(`float` for any number, `object` for anything), `[form]` for a list, `{str: form}` for an object with any names, other keys for
an object that must have these and may have more; a key that ends in `?` may be missing. A tuple means any of its forms, among
which None may be.
"""

from __future__ import annotations

from typing import Any

# Longer texts and lists than any report has; nobody's memory is worth them.
TEXT_AT_MOST, ITEMS_AT_MOST = 1 << 22, 1 << 20


def misfit(value: Any, form: Any, where: str = "") -> str:
    """Where the value differs from the form and how, in a few words; empty where it fits."""
    if isinstance(form, tuple):
        found = [misfit(value, each, where) for each in form]
        return "" if "" in found else found[0]
    if form is None or isinstance(form, type):
        return "" if _is(value, form) else f"{where or 'it'} is not {_NAMES.get(form, 'empty')}"
    if isinstance(form, list):
        return _of_list(value, form[0], where)
    if not isinstance(value, dict):
        return f"{where or 'it'} is not an object"
    if len(value) > ITEMS_AT_MOST:
        return f"{where or 'it'} has {len(value)} entries"
    if str in form:
        return next(filter(None, (misfit(item, form[str], _inner(where, key)) for key, item in value.items())), "")
    for key, inner in form.items():
        name = key.removesuffix("?")
        if name not in value:
            if name == key:
                return f"{_inner(where, name)} is missing"
        elif found_here := misfit(value[name], inner, _inner(where, name)):
            return found_here
    return ""


_NAMES: dict[Any, str] = {
    str: "a text", int: "a whole number", float: "a number", bool: "true or false", dict: "an object", list: "a list",
}  # fmt: skip


def _is(value: Any, form: type | None) -> bool:
    if form is None:
        return value is None
    if form is object:
        return True
    if form is float:
        return type(value) in (int, float)
    if form is str:
        return isinstance(value, str) and len(value) <= TEXT_AT_MOST
    return type(value) is form


def _of_list(value: Any, form: Any, where: str) -> str:
    if not isinstance(value, list):
        return f"{where or 'it'} is not a list"
    if len(value) > ITEMS_AT_MOST:
        return f"{where or 'it'} has {len(value)} items"
    return next(filter(None, (misfit(item, form, f"{where}[{index}]") for index, item in enumerate(value))), "")


def _inner(where: str, key: object) -> str:
    return f"{where}.{str(key)[:60]}" if where else str(key)[:60]
