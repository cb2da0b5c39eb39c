"""falsify: a bounded, seeded search for an input on which a model and its export differ.

`kinds` and `sizes` list the values and sizes that a type may take, `integers` finds out which ones the original accepts,
`hints` collects the numbers and words that stand in the code and in the graphs, `mutate` changes an input a little or moves it
towards an untaken branch, `graph_goals` watches the conditions inside an ONNX graph, and `search` drives them. The original
decides what is a valid input: what it refuses is no probe.
"""

from __future__ import annotations

from sardonyx.falsify.hints import Hints
from sardonyx.falsify.probe import Answered, Probe
from sardonyx.falsify.search import Budget, Search

__all__ = ["Answered", "Budget", "Hints", "Probe", "Search"]
