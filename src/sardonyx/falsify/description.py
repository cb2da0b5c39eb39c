"""What a framework says of its model, under the names that the user gave to the inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sardonyx.signature import Signature

# What is said of each input by its name.
BY_INPUT = ("landmarks", "categories", "missing", "values", "words", "texts", "tables")


def under_names(description: Mapping[str, Any], signature: Signature) -> dict[str, Any]:
    """The description with the inputs named as in the signature, in order. What belongs to no input of it is left out."""
    said = [item["name"] for item in description.get("inputs") or ()]
    names = [spec.name for spec in signature.inputs]
    as_named = dict(zip(said, names, strict=True)) if len(said) == len(names) and set(said) != set(names) else {}
    found = dict(description)
    for key in BY_INPUT:
        if isinstance(description.get(key), Mapping):
            found[key] = _by_name(description[key], as_named, names)
    if description.get("paths"):
        found["paths"] = _paths(description["paths"], as_named, names)
    return found


def _by_name(told: Mapping[str, Any], as_named: Mapping[str, str], names: list[str]) -> dict[str, Any]:
    found = {as_named.get(name, name): value for name, value in told.items()}
    return {name: value for name, value in found.items() if name in names}


def _paths(paths: Mapping[str, Any], as_named: Mapping[str, str], names: list[str]) -> dict[str, Any]:
    """Rows are only good whole: where one column belongs to no input, there are none."""
    told = [*(paths.get("rows") or {}), *((paths.get("edges") or {}).get("rows") or {})]
    if any(as_named.get(name, name) not in names for name in told):
        return {key: value for key, value in paths.items() if key not in ("rows", "edges")}
    found = dict(paths)
    if paths.get("rows"):
        found["rows"] = _by_name(paths["rows"], as_named, names)
    if paths.get("edges"):
        edges = paths["edges"]
        cells = [[as_named.get(name, name), place] for name, place in edges["cells"]]
        found["edges"] = {**edges, "rows": _by_name(edges["rows"], as_named, names), "cells": cells}
    return found
