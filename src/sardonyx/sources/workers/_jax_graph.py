"""What a jaxpr compares its inputs with: thresholds, divisors, and tables that inputs are indices into."""

import numpy

from ._facts import Fact, Findings, stepped, together
from ._facts import of_constant as of_array

STEPS_WALKED = 50000  # counting a function again for each call
COMPARES = {
    "lt", "le", "gt", "ge", "eq", "ne", "max", "min", "clamp", "rem", "shift_left", "shift_right_arithmetic",
    "shift_right_logical",
}  # fmt: skip
CARRY = {
    "abs", "broadcast_in_dim", "ceil", "concatenate", "convert_element_type", "copy", "cumsum", "expand_dims", "floor", "gather",
    "pad", "reduce_max", "reduce_min", "reduce_sum", "reshape", "rev", "round", "slice", "sort", "squeeze", "stop_gradient",
    "transpose",
}  # fmt: skip
CONSTANT = {"broadcast_in_dim", "convert_element_type", "reshape", "squeeze", "stop_gradient", "copy"}
STEPS = {
    "add": "add", "add_any": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "neg": "negate", "square": "square",
    "sqrt": "sqrt", "exp": "exp", "log": "log", "logistic": "sigmoid", "tanh": "tanh",
}  # fmt: skip
INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr")


def look(closed, names):
    """The findings about a closed jaxpr; `names` has the input that each flat argument belongs to."""
    integers = {
        name
        for name, variable in zip(names, closed.jaxpr.invars)
        if numpy.issubdtype(variable.aval.dtype, numpy.integer)
    }
    walk = Walk(Findings(integers))
    walk.jaxpr(closed.jaxpr, [of_constant(constant) for constant in closed.consts], [Fact({name}) for name in names])
    return walk.findings


class Walk:
    """Goes through a jaxpr and those inside it."""

    def __init__(self, findings):
        self.findings, self._left = findings, STEPS_WALKED

    def jaxpr(self, jaxpr, constants, given):
        """The facts of the outputs."""
        facts = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *given)))

        def read(variable):
            return of_constant(variable.val) if hasattr(variable, "val") else facts.get(variable, Fact())

        for step in jaxpr.eqns:
            self._left -= 1
            if self._left < 0:
                break
            answers = self.step(step, [read(variable) for variable in step.invars])
            facts.update(zip(step.outvars, answers if isinstance(answers, list) else [answers] * len(step.outvars)))
        return [read(variable) for variable in jaxpr.outvars]

    def closed(self, closed, given):
        if not hasattr(closed, "consts"):
            return self.jaxpr(closed, [], given)
        return self.jaxpr(closed.jaxpr, [of_constant(constant) for constant in closed.consts], given)

    def step(self, step, given):
        """The fact of a step's outputs, or a list with the fact of each."""
        name, params = step.primitive.name, step.params
        self.notice(name, given)
        if name == "cond":
            ends = [self.closed(branch, given[1:]) for branch in params["branches"]]
            return [together((*facts, given[0])) for facts in zip(*ends)]
        if name == "scan":
            return self.scan(params, given)
        if name == "while":
            return self.loop(params, given)
        inner = next((params[key] for key in INNER if key in params), None)
        if inner is not None and not name.startswith(("reduce", "scatter")):
            return self.closed(inner, given)
        return _fact(name, given)

    def notice(self, name, given):
        """Adds to the findings what the step compares or indexes."""
        integer_division = name == "div" and given[1].constant is not None and given[1].constant.dtype.kind in "iu"
        if name in COMPARES or integer_division:
            self.findings.compare(given)
        if name == "select_n" and given[0].inputs:
            for index in range(-1, len(given)) if len(given) > 3 else ():
                self.findings.number(given[0], index)
        if name in ("gather", "dynamic_slice"):
            self.findings.gather(given[0], together(given[1:]))

    def scan(self, params, given):
        start = params["num_consts"]
        carried = start + params["num_carry"]
        ends = self.closed(params["jaxpr"], [*given[:start], *map(_moving, given[start:carried]), *given[carried:]])
        again = [together(pair) for pair in zip(map(_moving, given[start:carried]), ends)]
        return self.closed(params["jaxpr"], [*given[:start], *again, *given[carried:]])

    def loop(self, params, given):
        first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        start = list(map(_moving, given[second:]))
        ends = self.closed(params["body_jaxpr"], [*given[first:second], *start])
        mixed = [together(pair) for pair in zip(start, ends)]
        self.closed(params["cond_jaxpr"], [*given[:first], *mixed])
        return mixed


def of_constant(value):
    """The fact of a constant; a random key is none that can be read."""
    return Fact() if str(getattr(value, "dtype", "")).startswith("key<") else of_array(value)


def _moving(fact):
    """What a loop starts with is no constant inside it."""
    return fact if fact.inputs else Fact()


def _fact(name, given):
    if name in CONSTANT and given and not given[0].inputs:
        return Fact(constant=given[0].constant, rows=given[0].rows)
    if name in CARRY and given:
        return together(given).after(steps=given[0].steps)
    if name == "select_n":
        return together(given[1:]).after(steps=given[-1].steps)
    return stepped(STEPS.get(name, ""), given)
