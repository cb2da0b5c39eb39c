"""The first node that goes wrong: bisection over intermediate tensors, a few at a time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sardonyx.agreement import OutputVerdict
from sardonyx.compare.align import Alignment, align, source_of
from sardonyx.compare.difference import explain
from sardonyx.compare.flow import Flow, Step
from sardonyx.compare.look import Both
from sardonyx.compare.partial import Trace
from sardonyx.compare.region import match_values, odd_one_out, steps_between
from sardonyx.errors import InputError, RuntimeRefused
from sardonyx.progress import task
from sardonyx.signature import Array

# Tensors looked at in one round. Twelve cut a thousand suspects to none in three rounds.
PROBES = 12
ATTEMPTS = 4
# After so many runs the search ends with what it has; to confirm that takes a few more.
MOST_RUNS = 20
_NAMED_NODE = re.compile(r"\w+ node '(?P<name>[^']+)'")


@dataclass(frozen=True)
class Divergence:
    """Where the candidate parts ways: one node, or the last node of a region that has no counterpart inside.

    `confirmed` says that the node goes wrong even when it is fed what the reference computed. `runs` is what the search took.
    """

    node: str
    op_type: str
    tensor: str
    source: str | None
    reference_node: str | None
    why: str
    max_abs: float | None
    confirmed: bool
    region: tuple[str, ...]
    runs: int

    def to_dict(self) -> dict[str, Any]:
        return {
            "node": self.node, "op_type": self.op_type, "tensor": self.tensor, "source": self.source,
            "reference_node": self.reference_node, "why": self.why, "max_abs": self.max_abs, "confirmed": self.confirmed,
            "region": list(self.region), "runs": self.runs,
        }  # fmt: skip


def localize(
    reference: Flow,
    candidate: Flow,
    inputs: Mapping[str, Array],
    *,
    output: str,
    inputs_of: Mapping[str, str],
    outputs_of: Mapping[str, str],
    memory: int,
    own: Mapping[str, Array] | None = None,
) -> Divergence:
    """The first node of the candidate that diverges on these inputs, searched from its output `output`.

    `inputs` are named as the reference names them; `inputs_of` and `outputs_of` map the candidate's names to those. `own`
    are the candidate's inputs where it takes them in another type. At most `memory` bytes of intermediate tensors are held at
    a time. A candidate that fails before it comes to its output is searched up to the node that fails.
    """
    theirs = Trace(reference, inputs)
    ours = Trace(candidate, own or {name: inputs[other] for name, other in inputs_of.items()})
    with task("locating the first diverging node"):
        theirs.settle()
        ours.settle()
        alignment = align(theirs.flow, ours.flow, inputs_of, outputs_of)
        search = Search(Both(theirs, ours, alignment.pairs, memory), alignment)
        try:
            search.both.survey()
        except RuntimeRefused as error:
            return search.find_failure(error.message)
        return search.find(output)


@dataclass
class Search:
    """The state of one search. A tensor diverges if it uses more than `limit` of its tolerance."""

    both: Both
    alignment: Alignment
    limit: float = 1.0
    hides: bool = True
    asked: bool = False

    @property
    def flow(self) -> Flow:
        return self.both.candidate.flow

    def find(self, output: str) -> Divergence:
        """The node that makes `output` differ."""
        if self._open(output) and not any(map(self._diverges, self.both.look([output]))):
            raise InputError(
                "run node by node, the two agree; the runtime's own graph optimisation makes the difference"
            )
        bad = output
        for _ in range(ATTEMPTS):
            bad = self._descend(bad)
            frontier = self._frontier(bad)
            verdict = self.both.replay(bad, frontier) if bad in self.both.sizes else None
            confirmed = verdict is not None and verdict.used > self.limit
            origin = max(frontier, key=self.both.used, default="")
            if verdict is None or confirmed or not self.both.used(origin) or self.both.runs >= MOST_RUNS:
                break
            # The node only enlarged a difference that it was given. Look for the origin of that with a finer measure.
            self.limit = self.both.used(origin) / 2
            bad = origin
        if bad in self.both.sizes and len(self.flow.needed([bad], frontier)) > 1 and self.both.runs < MOST_RUNS:
            matched = match_values(self.both, bad, frontier, self.alignment.pairs)
            self.alignment.pairs |= matched
            self.alignment.same |= matched.keys()
            frontier = self._frontier(bad)
        return self._describe(bad, frontier, confirmed, verdict)

    def find_failure(self, message: str) -> Divergence:
        """The node behind a failure of the runtime: the one that fails, or one before it whose output diverges."""
        named = _NAMED_NODE.search(message)
        step = next((step for step in self.flow.steps if named and step.name == named["name"]), None)
        if step is None:
            raise RuntimeRefused(message, hint="run sardonyx check on the candidate")
        self.both.candidate.flow = self.flow.up_to(step)
        self.both.candidate.forget()
        self.both.survey()
        before = [name for name in step.reads if self._open(name)]
        wrong = [name for name in (self.both.look(before) if before else []) if self._diverges(name)]
        if wrong:
            return self.find(min(wrong, key=self.flow.producer.__getitem__))
        runs = self.both.runs
        return Divergence(
            step.name, step.op_type, step.outputs[0], source_of(step), None, message, None, True, (step.name,), runs
        )

    def _descend(self, bad: str) -> str:
        """The earliest diverging tensor above `bad` that the probes lead to; everything it is made from agrees."""
        while True:
            if self.both.runs >= MOST_RUNS:
                return bad
            probes = self._suspects(bad) or self._unseen_frontier(bad)
            wrong = [name for name in self.both.look(probes) if self._diverges(name)] if probes else []
            # A tensor that was paired by its place alone, and diverges before one that agrees, was paired wrongly.
            hidden = self._before_agreeing()
            guessed = [name for name in wrong if self.alignment.ways.get(name) == "structure"]
            wrong = [name for name in wrong if name not in guessed or self.flow.producer[name] not in hidden]
            if not probes:
                wrong = [name for name in self._frontier(bad) if self._diverges(name)]
                if not wrong:
                    return bad
            bad = min(wrong, key=self.flow.producer.__getitem__, default=bad)

    def _suspects(self, bad: str) -> list[str]:
        """Paired tensors above `bad` that may still diverge: evenly spread, the middle first, and before all the earliest.

        Everything before the earliest is computed alike on both sides, so it is the first to ask; but only once, since in a
        graph that was rewritten throughout it tells little.
        """
        above = set(self.flow.needed([bad]))
        # What an agreeing tensor is made from agrees too, unless an operator on the way hides it; the frontier will tell.
        hidden = self._before_agreeing() if self.hides else set[int]()
        names = [name for index in sorted(above - hidden) for name in self.flow.steps[index].outputs]
        waiting = [name for name in names if name != bad and self._open(name)]
        count = min(PROBES, len(waiting))
        places = sorted(range(count), key=lambda index: abs(2 * index + 1 - count))
        spread = [waiting[(2 * index + 1) * len(waiting) // (2 * count)] for index in places]
        asked, self.asked = self.asked, True
        return spread if asked else list(dict.fromkeys([*waiting[:1], *spread]))

    def _before_agreeing(self) -> set[int]:
        """The steps behind tensors that agree. Integers do not count: a shape agrees whatever the values are."""
        kinds = self.both.candidate.types
        agreeing = (name for name in self.both.looks if not self._diverges(name))
        return set(self.flow.needed(name for name in agreeing if "float" in kinds[name] or "double" in kinds[name]))

    def _unseen_frontier(self, bad: str) -> list[str]:
        unseen = [name for name in self._frontier(bad) if self._open(name)]
        self.hides = self.hides and not unseen
        return unseen

    def _frontier(self, bad: str) -> list[str]:
        """The nearest paired tensors and inputs that `bad` is made from."""
        found, seen, waiting = dict[str, None](), set[int](), [bad]
        while waiting:
            index = self.flow.producer[waiting.pop()]
            if index in seen:
                continue
            seen.add(index)
            for name in self.flow.steps[index].reads:
                if name in self.alignment.pairs and (name in self.both.sizes or name in self.flow.inputs):
                    found[name] = None
                elif name in self.flow.producer:
                    waiting.append(name)
        return list(found)

    def _open(self, name: str) -> bool:
        """Whether a look at the tensor is possible and would tell something new."""
        seen = name in self.both.looks or name in self.alignment.same
        return not seen and name in self.both.sizes and name in self.alignment.pairs

    def _diverges(self, name: str) -> bool:
        return self.both.used(name) > self.limit

    def _describe(
        self, bad: str, frontier: Sequence[str], confirmed: bool, verdict: OutputVerdict | None
    ) -> Divergence:
        region = steps_between(self.flow, frontier, bad)
        step, other = self._guilty(region, frontier, bad)
        sources = [source_of(item) for item in (step, other, self._counterpart(bad)) if item is not None]
        return Divergence(
            node=step.name,
            op_type=step.op_type,
            tensor=bad if bad in step.outputs else step.outputs[0],
            source=next(filter(None, sources), None),
            reference_node=None if other is None else other.name,
            why=explain(self.both.reference.flow, self.flow, step, other, self.alignment.pairs),
            max_abs=None if verdict is None else verdict.max_abs,
            confirmed=confirmed,
            region=tuple(item.name for item in region),
            runs=self.both.runs,
        )

    def _counterpart(self, name: str) -> Step | None:
        """The step of the reference that makes what belongs to this tensor."""
        reference = self.both.reference.flow
        made = reference.producer.get(self.alignment.pairs.get(name, ""))
        return None if made is None else reference.steps[made]

    def _guilty(self, region: Sequence[Step], frontier: Sequence[str], bad: str) -> tuple[Step, Step | None]:
        """The step of the region that has no equal in the reference, and what the reference has instead.

        The last step if that is not one alone.
        """
        reference, pairs = self.both.reference.flow, self.alignment.pairs
        if len(region) > 1 and bad in pairs:
            counterpart = steps_between(reference, [pairs[name] for name in frontier], pairs[bad])
            odd, other = odd_one_out(reference, self.flow, region, counterpart)
            if odd is not None:
                return odd, other or self._counterpart(odd.outputs[0])
        return self.flow.steps[self.flow.producer[bad]], self._counterpart(bad)
