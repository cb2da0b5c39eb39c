"""The rules of every file in `rules/`, joined: the folder is the registry.

A rule file may define four names.

`RULES`       operator -> the gradient. Either one function, which gives the gradient of the first input or a tuple of one per
              input (a control-flow rule gives a dict by value), or a tuple of functions, one per input, of which only those
              that somebody needs are called; None where an input has none. Each is called with `g, y, *inputs`. `g` and `y` are
              tuples where the operator can have several outputs, with None for a missing one; a missing input is None. Attributes
              are keyword arguments, with ONNX's defaults; `at` is the `Site`.
`EXPANSIONS`  operator -> the operator written in simpler ones, called with `*inputs` and attributes; its gradient is theirs.
`ZERO`        operators whose gradient is zero wherever it exists, or whose outputs are no function of float inputs.
`BROADCASTS`  operators whose inputs are broadcast; the engine sums each gradient back to the shape of its input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from sardonyx import registry

PACKAGE = "sardonyx.gradient.rules"
Function = Callable[..., Any]
Rule = Function | tuple[Function | None, ...]


@dataclass(frozen=True)
class Tables:
    """What the engine knows about operators."""

    rules: Mapping[str, Rule]
    expansions: Mapping[str, Function]
    zero: frozenset[str]
    broadcasts: frozenset[str]


@cache
def tables() -> Tables:
    """The tables of every rule file. Two files may not speak of the same operator."""
    rules: dict[str, Rule] = {}
    expansions: dict[str, Function] = {}
    zero: set[str] = set()
    broadcasts: set[str] = set()
    for name in registry.names(PACKAGE):
        module = registry.load(PACKAGE, name)
        mine = {*getattr(module, "RULES", {}), *getattr(module, "EXPANSIONS", {}), *getattr(module, "ZERO", ())}
        twice = mine & {*rules, *expansions, *zero}
        assert not twice, f"{name} repeats {sorted(twice)}"
        rules.update(getattr(module, "RULES", {}))
        expansions.update(getattr(module, "EXPANSIONS", {}))
        zero.update(getattr(module, "ZERO", ()))
        broadcasts.update(getattr(module, "BROADCASTS", ()))
    return Tables(MappingProxyType(rules), MappingProxyType(expansions), frozenset(zero), frozenset(broadcasts))
