"""The costs of all steps summed up by operator: multiply-accumulates and the bytes that are read and written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from sardonyx.inspect.facts import Body, Step, operator_name
from sardonyx.inspect.macs import has_rule, macs
from sardonyx.inspect.memory import SHARES_INPUT


@dataclass
class Costs:
    """Sums by operator name, and what they leave out."""

    macs: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    uncounted: list[Step] = field(default_factory=list)
    loops_once: int = 0
    choices: int = 0
    empty: int = 0

    @property
    def total(self) -> int:
        return self.macs.total()

    def add(self, other: Costs, times: int = 1) -> None:
        for mine, theirs in ((self.macs, other.macs), (self.bytes, other.bytes)):
            for name, amount in theirs.items():
                mine[name] += amount * times
        self.uncounted += other.uncounted
        self.loops_once += other.loops_once
        self.choices += other.choices
        self.empty += other.empty


def costs(steps: Iterable[Step]) -> Costs:
    """Costs of running the steps once. Where either of two branches may run, the costlier one counts."""
    found = Costs()
    for step in steps:
        if all(fact.constant for fact in step.outputs):
            continue  # depends on weights alone: computed once, when the model is loaded
        name, amount = operator_name(step.node), macs(step)
        if amount is None:
            found.uncounted.append(step)
        found.macs[name] += amount or 0
        found.empty += has_rule(step) and step.outputs[0].elements == 0
        found.bytes[name] += _moved(step)
        if len(step.bodies) > 1:
            found.choices += 1
            found.add(
                max(
                    (costs(body.steps) for body in step.bodies), key=lambda branch: (branch.total, branch.bytes.total())
                )
            )
        elif step.bodies:
            found.add(_repeated(step.bodies[0]))
    return found


def _repeated(body: Body) -> Costs:
    found = Costs(loops_once=0 if body.exact else 1)
    found.add(costs(body.steps), body.times)
    return found


def _moved(step: Step) -> int:
    """Bytes in and out. A node with a body hands its values on; what they cost is counted inside."""
    if step.bodies or step.node.op_type in SHARES_INPUT:
        return 0
    return sum(fact.nbytes or 0 for fact in (*step.inputs, *step.outputs))
