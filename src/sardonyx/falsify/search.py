"""The search: fixed kinds of values and sizes first, then untaken branches of the code, then the graphs of the exports.

Everything is seeded, and bounded by counts; only a model whose answers take long is bounded by seconds as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np

from sardonyx.agreement import Tolerance, judge
from sardonyx.falsify.cost import Cost
from sardonyx.falsify.graph_goals import GraphGoals
from sardonyx.falsify.hints import Hints
from sardonyx.falsify.integers import explore_integers, integer_probes
from sardonyx.falsify.kinds import value_kinds
from sardonyx.falsify.mutate import Gap, Mutator, moves
from sardonyx.falsify.probe import Answered, Probe
from sardonyx.falsify.sizes import first_sizes, later_sizes
from sardonyx.model import Model
from sardonyx.signature import Arrays, Signature
from sardonyx.sources import Branch, Failure, Outputs, Trial

# Probes asked in one go: between two goes the time is looked at.
GROUP = 32
# Answers besides those of new branches that are asked for again, and the share of the budget that it may take.
REPEATED, REPEATED_SHARE = 64, 0.25
# Answers after which the original is looked at for changes, and about how many calls each of them takes.
IN_A_ROW, CALLS_IN_A_ROW = 6, 6
# An answer may take so many times as long as the example's, and at least so many seconds.
SLOWER, PATIENCE = 50.0, 5.0
# Two exports that differ by more than this share of an output's size are a reason to ask the original.
DISAGREE = 1e-3
CORPUS = 24


@dataclass(frozen=True)
class Budget:
    """How far to search. `seconds` bounds the original's own answers; the counts bound a model that answers fast."""

    seconds: float = 8.0
    code_turns: int = 12
    graph_turns: int = 4
    mutants: int = 48


class Export(Protocol):
    """An export that is still in the race: it answers, and its conditions may be watched."""

    @property
    def model(self) -> Model: ...
    @property
    def goals(self) -> GraphGoals | None: ...
    def predict(self, batches: Sequence[Arrays]) -> list[Outputs | Failure]: ...


Explore = Callable[[Sequence[Arrays], float], list[Trial]]
Branches = Callable[[], tuple[list[Branch], list[object]]]


class Search:
    """Asks the original for more and more inputs. `answered` holds all that it answered, the example first."""

    def __init__(
        self,
        explore: Explore,
        branches: Branches,
        signature: Signature,
        example: Arrays,
        hints: Hints,
        *,
        seed: int = 0,
        budget: Budget | None = None,
    ) -> None:
        self._explore, self._branches = explore, branches
        self._signature, self._example, self._hints = signature, example, hints
        self._random = np.random.default_rng(seed)
        self._budget = budget or Budget()
        self._asked: dict[bytes, Answered | None] = {}
        self._reached: set[tuple[str, bool]] = set()
        self._by_nothing: set[tuple[str, bool]] = set()  # reached by answers without an element, which show no value
        self._known: dict[str, Branch] = {}
        self._gaps: dict[tuple[str, bool], tuple[float, Gap, Arrays]] = {}
        self._corpus: list[Arrays] = [example]
        self._cost = Cost()
        self._spent = 0.0  # processor seconds of the original's answers
        self.answered: list[Answered] = []
        self.first_on: list[Answered] = []  # those that took a branch of the code which none before had taken
        self.skipped = 0  # probes that would have taken too long
        self.refused = 0  # probes that the original did not answer

    def ask(self, probes: Sequence[Probe]) -> list[Answered]:
        """The original's answers to those probes that are new, affordable and accepted."""
        before = len(self.answered)
        self._ask(probes)
        return self.answered[before:]

    def first(self, extra: Sequence[Probe] = ()) -> Failure | list[Answered]:
        """The example, the user's own data, and other sizes. A failure on the example is returned."""
        (trial,) = self._explore([self._example], 0.0)
        if isinstance(trial.answer, Failure):
            return trial.answer
        example = Probe("the example", self._example)
        # The first call may be slow for reasons of its own, so that the second tells the cost.
        (again,) = self._explore([self._example], 0.0)
        self._cost.note(example.size, again.seconds or trial.seconds)
        self._spent += again.seconds
        self._asked[example.digest()] = self._note(Answered(example, trial.answer, trial))
        self.ask(extra)
        self.ask(list(first_sizes(self._signature, self._example, self._random)))
        return self.answered

    def rounds(self, exports: Callable[[], Sequence[Export]]) -> Iterator[list[Answered]]:
        """Further answers, a group at a time. `exports` gives those that are still in the race."""
        self._hints = self._hints.with_code(*self._told()).with_graphs(export.model for export in exports())
        before = len(self.answered)
        domains = explore_integers(self._example, self._hints, self._accepts)
        yield self.answered[before:]
        yield from self._groups(
            [
                *integer_probes(self._signature, self._example, domains, self._random),
                *value_kinds(self._example, self._hints, self._random),
                *later_sizes(self._signature, self._example, self._hints.sizes, self._random),
            ]
        )
        mutator = Mutator(self._signature, self._hints, domains, self._random)
        yield from self._into_code(mutator)
        yield from self._into_graphs(mutator, exports)

    def to_repeat(self) -> list[Answered]:
        """Answers to ask for again: of every branch, then of every kind."""
        apart = len(self.answered) // REPEATED + 1
        chosen = {item.probe.digest(): item for item in (*self.first_on, *self.answered[::apart])}
        return self._within_share(list(chosen.values()), 1)

    def to_call_in_a_row(self) -> list[Answered]:
        """A few answers on which to see whether a call changes the original: of new branches, or one of every few."""
        apart = len(self.answered) // IN_A_ROW + 1
        # Code that is not Python shows no branches.
        return self._within_share(self.first_on[1 : 1 + IN_A_ROW] or self.answered[apart::apart], CALLS_IN_A_ROW)

    def _within_share(self, items: Sequence[Answered], calls: int) -> list[Answered]:
        """Those that fit into a share of the budget, each called so often."""
        found, left = [], REPEATED_SHARE * self._budget.seconds
        for item in items:
            left -= calls * self._cost.of(item.probe.size)
            if left >= 0:
                found.append(item)
        return found

    def unreached(self) -> list[tuple[Branch, bool]]:
        """The outcomes of conditions on the inputs that no probe brought about."""
        self._told()
        return [
            (branch, outcome)
            for branch in self._known.values()
            for outcome in (False, True)
            if (branch.id, outcome) not in self._reached and self._is_missing(branch, outcome)
        ]

    def lines_on_values(self) -> set[tuple[str, int]]:
        """The lines, by file and number, of conditions that depend on values of the inputs."""
        return {(branch.file, branch.line) for branch in self._known.values() if branch.depends == "value"}

    def _is_missing(self, branch: Branch, outcome: bool) -> bool:
        """Whether no answer shows an outcome. `all` of nothing is true: an empty answer counts for conditions on sizes alone."""
        return outcome in branch.missing or (branch.depends == "value" and (branch.id, outcome) in self._by_nothing)

    def _told(self) -> tuple[list[Branch], list[object]]:
        """The conditions of the code, also those of a process that has ended since."""
        branches, constants = self._branches()
        self._known |= {branch.id: branch for branch in branches}
        return list(self._known.values()), constants

    def _groups(self, probes: Sequence[Probe]) -> Iterator[list[Answered]]:
        for start in range(0, len(probes), GROUP):
            yield self.ask(probes[start : start + GROUP])

    def _accepts(self, probes: Sequence[Probe]) -> list[bool]:
        return [item is not None for item in self._ask(probes)]

    def _ask(self, probes: Sequence[Probe]) -> list[Answered | None]:
        """Asks in groups; None where the original refuses, or where the probe is not asked."""
        found: list[Answered | None] = [None] * len(probes)
        waiting = []
        for index, probe in enumerate(probes):
            digest = probe.digest()
            if digest in self._asked:
                found[index] = self._asked[digest]
                continue
            self._asked[digest] = None
            waiting.append((index, digest))
        for start in range(0, len(waiting), GROUP):
            part = self._affordable(
                [(index, digest, probes[index]) for index, digest in waiting[start : start + GROUP]]
            )
            limit = max([PATIENCE, *(SLOWER * self._cost.of(probe.size) for _, _, probe in part)])
            trials = self._explore([probe.arrays for _, _, probe in part], limit) if part else []
            for (index, digest, probe), trial in zip(part, trials, strict=True):
                self._spent += trial.seconds
                if isinstance(trial.answer, Outputs):
                    self._cost.note(probe.size, trial.seconds)
                    found[index] = self._asked[digest] = self._note(Answered(probe, trial.answer, trial))
                else:
                    self.refused += 1
        return found

    def _affordable(self, items: Sequence[tuple[int, bytes, Probe]]) -> list[tuple[int, bytes, Probe]]:
        """Those whose answers fit into what is left of the budget."""
        left = self._budget.seconds - self._spent
        found = []
        for item in items:
            left -= self._cost.of(item[2].size)
            if left < 0:
                self.skipped += 1
            else:
                found.append(item)
        return found

    def _note(self, item: Answered) -> Answered:
        """Keeps an answer and what it reached. Where a soft probe takes a new branch, the code was written for such values."""
        novel = item.trial.reached - self._reached
        meant = item.probe.soft and not item.compares_nan and (novel or (item.handled and self._hints.treats_nan))
        item = replace(item, probe=replace(item.probe, soft=(item.probe.soft and not meant) or item.overflows))
        if any(array.size for array in item.outputs.arrays):
            self._reached |= item.trial.reached
        else:
            self._by_nothing |= item.trial.reached
        self.first_on += [item] if novel else []
        if novel and len(self._corpus) < CORPUS:
            self._corpus.append(item.probe.arrays)
        for branch, gap in item.trial.gaps.items():
            for outcome in (False, True):
                distance = _distance(gap, outcome)
                if (branch, outcome) not in self._gaps or distance < self._gaps[branch, outcome][0]:
                    self._gaps[branch, outcome] = (distance, gap, item.probe.arrays)
        self.answered.append(item)
        return item

    def _into_code(self, mutator: Mutator) -> Iterator[list[Answered]]:
        """Turns of moves towards the untaken branches, and of mutations where moves are used up."""
        for _ in range(self._budget.code_turns):
            missing = self.unreached()
            if not missing or self._spent > self._budget.seconds:
                return
            probes = [
                Probe(f"towards {branch.text[:60]} {'true' if outcome else 'false'}", inputs)
                for branch, outcome in missing[:8]
                for inputs in self._towards(branch, outcome)
            ]
            fresh = [probe for probe in probes if probe.digest() not in self._asked]
            chosen = [fresh[i] for i in sorted(self._random.permutation(len(fresh))[:GROUP])]
            chosen += [self._mutant(mutator) for _ in range(GROUP // 2)]
            yield self.ask(chosen)

    def _towards(self, branch: Branch, outcome: bool) -> Iterator[Arrays]:
        known = self._gaps.get((branch.id, outcome))
        if known is not None:
            yield from moves(self._signature, known[2], known[1], outcome)
        for number in branch.numbers:
            if isinstance(number, int | float):
                gap = (0.0, 0.0, float(number), float(number), "Eq")
                yield from moves(self._signature, self._example, gap, outcome)

    def _into_graphs(self, mutator: Mutator, exports: Callable[[], Sequence[Export]]) -> Iterator[list[Answered]]:
        """Mutants that reach new conditions of an export, or on which exports differ, and a few of the others."""
        for export in exports():
            if export.goals is not None and self._affords(len(self.answered)):
                export.goals.look([item.probe.arrays for item in self.answered])
        for _ in range(self._budget.graph_turns):
            racing = exports()
            if not racing or not self._affords(self._budget.mutants):
                return
            mutants = [self._mutant(mutator) for _ in range(self._budget.mutants)]
            mutants += self._towards_goals(racing)
            interesting = self._interesting([probe.arrays for probe in mutants], racing)
            yield self.ask([probe for probe, chosen in zip(mutants, interesting, strict=True) if chosen])

    def _towards_goals(self, exports: Sequence[Export]) -> list[Probe]:
        found = []
        for export in exports:
            goals = export.goals
            for number, outcome in [] if goals is None else goals.missing[:6]:
                assert goals is not None, "there is something missing"
                if number in goals.gaps:
                    gap, inputs = goals.gaps[number]
                    near = list(moves(self._signature, inputs, gap, outcome))
                    picked = self._random.permutation(len(near))[:8]
                    found += [Probe("towards a condition of the graph", near[index]) for index in picked]
        return found

    def _interesting(self, batches: Sequence[Arrays], exports: Sequence[Export]) -> list[bool]:
        chosen = self._random.random(len(batches)) < 0.25
        for export in exports:
            if export.goals is not None and export.goals.conditions:
                chosen |= np.array(export.goals.look(batches))
        answers = [export.predict(batches) for export in exports[:3]]
        for one, two in pairwise(answers):
            chosen |= np.array([_differ(a, b) for a, b in zip(one, two, strict=True)])
        return [bool(choice) for choice in chosen]

    def _mutant(self, mutator: Mutator) -> Probe:
        return Probe("a mutation", mutator.mutate(self._corpus))

    def _affords(self, probes: int) -> bool:
        size = sum(array.size for array in self._example.values())
        return self._spent + self._cost.of(size) * probes <= self._budget.seconds


def _differ(one: Outputs | Failure, two: Outputs | Failure) -> bool:
    """Whether two exports answer differently: what both refuse tells nothing."""
    if isinstance(one, Failure) or isinstance(two, Failure):
        return isinstance(one, Failure) != isinstance(two, Failure)
    sizes = [
        np.abs(array[np.isfinite(array)]).max(initial=0.0) if array.dtype.kind == "f" else 0.0 for array in one.arrays
    ]
    allowed = [Tolerance(DISAGREE * float(size), DISAGREE) for size in sizes]
    return judge(one.arrays, two.arrays, allowed, same_shape=False).verdict == "mismatch"


def _distance(gap: Gap, wanted: bool) -> float:
    """How far the comparison is from the outcome, as a share of the numbers compared."""
    low, high, other_low, other_high, operator = gap
    rising = (operator in ("Gt", "GtE")) == wanted
    distance = other_low - high if rising else low - other_high
    size = max(abs(high), abs(other_low), 1e-12)
    return abs(distance) / size if np.isfinite(distance) else np.inf
