"""Where in the user's program a node belongs: the modules around it, outermost first."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

import onnx_ir as ir

Scope = tuple[str, ...]

# What exporters write on a node.
NAME_SCOPES, CLASSES, NAMESPACE = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy", "namespace"
# TensorFlow joins the names of fused nodes by these.
_FUSED = re.compile(r"[;,]")
MOST_LEVELS = 30


def scope_of(node: ir.Node) -> Scope | None:
    """The names of the modules around a node, by what the exporter wrote or by its name; None where neither tells."""
    written = _listed(node.metadata_props.get(NAME_SCOPES))
    if written:
        return _with_classes(written[:-1], _listed(node.metadata_props.get(CLASSES)))
    namespace = node.metadata_props.get(NAMESPACE)
    if namespace:
        return _short([part.strip() for part in namespace.split("/")[:-1]])
    parts = _FUSED.split(node.name or "")[0].split("/")
    if len(parts) < 2:
        return None
    return _short([part for part in parts[:-1] if part])


def trimmed(scopes: Sequence[Scope]) -> list[Scope]:
    """The scopes without the levels that all of them share, which would only be boxes around everything."""
    shared = len(_shared(scopes)) if scopes else 0
    return [scope[shared:] for scope in scopes]


def adopted(scopes: Sequence[Scope | None], neighbours: Sequence[Sequence[int]]) -> list[Scope]:
    """The scopes, with nodes that name none where the nodes around them are: converters add such nodes without a place.

    `neighbours` are the places of the nodes that each node reads from or feeds.
    """
    found = list(scopes)
    for order in (range(len(found)), reversed(range(len(found)))):
        for place in order:
            around = [scope for other in neighbours[place] if (scope := found[other]) is not None]
            if found[place] is None and around:
                found[place] = _shared(around)
    return [scope or () for scope in found]


def _shared(scopes: Sequence[Scope]) -> Scope:
    """The levels that all of them begin with."""
    levels = []
    for labels in zip(*scopes, strict=False):
        if len(set(labels)) > 1:
            break
        levels.append(labels[0])
    return tuple(levels)


def _listed(text: str | None) -> list[str]:
    """The strings of a list that an exporter wrote as Python; none where it wrote something else."""
    if not text:
        return []
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [str(item) for item in value] if isinstance(value, list | tuple) else []


def _with_classes(names: Sequence[str], classes: Sequence[str]) -> Scope:
    """['', 'features', 'features.0'] and the classes of each -> ('features: Sequential', '0: Conv2d')."""
    labels = []
    for index, name in enumerate(names):
        kind = classes[index].rpartition(".")[2] if index < len(classes) else ""
        labels.append(f"{name}: {kind}" if kind else name)
    return _short(labels)


def _short(labels: Iterable[str]) -> Scope:
    """Each label without what it repeats of the one around it; labels without a name are left out."""
    found, before = [], ""
    for label in labels:
        name, _, kind = label.partition(":")
        name, kind = name.strip(), kind.strip().rpartition(".")[2]
        if not name:
            continue
        own = name[len(before) + 1 :] if before and name.startswith(f"{before}.") else name
        found.append(f"{own}: {kind}" if kind else own)
        before = name
    return tuple(found[:MOST_LEVELS])
