"""What is known about a tensor of a graph, and what a walk through the graph finds: numbers that inputs are compared with."""

import numpy

SMALL = 64  # elements of a constant that is read; a larger one is a table
KEPT = 48  # numbers kept for each input
WORDS = 400  # entries of a vocabulary kept for each input
# (step, whether the constant comes second) -> what the tensor was before, from what it is compared with.
BEFORE = {
    ("add", True): lambda value, number: value - number,
    ("add", False): lambda value, number: value - number,
    ("subtract", True): lambda value, number: value + number,
    ("subtract", False): lambda value, number: number - value,
    ("multiply", True): lambda value, number: value / number,
    ("multiply", False): lambda value, number: value / number,
    ("divide", True): lambda value, number: value * number,
    ("divide", False): lambda value, number: number / value,
    ("negate", None): lambda value, _: -value,
    ("square", None): lambda value, _: value**0.5,
    ("sqrt", None): lambda value, _: value**2,
    ("exp", None): lambda value, _: numpy.log(value),
    ("log", None): lambda value, _: numpy.exp(value),
    ("sigmoid", None): lambda value, _: numpy.log(value / (1 - value)),
    ("tanh", None): lambda value, _: numpy.arctanh(value),
}


class Fact:
    """What is known about a tensor.

    `inputs`: the names of those behind it; `steps` since the input (None: not known); `sized`: it is a shape or a length;
    `constant`: its value; `rows`: those of a table; `held`: the variable or lookup table itself; `reads`: names of variables.
    """

    def __init__(self, inputs=(), *, steps=(), sized=False, constant=None, rows=None, held=None, reads=()):
        self.inputs, self.steps, self.sized = frozenset(inputs), steps, sized
        self.constant, self.rows, self.held, self.reads = constant, rows, held, frozenset(reads)

    def after(self, **changes):
        """The fact of what is computed from this tensor."""
        return Fact(**{**vars(self), "constant": None, "rows": None, "held": None, **changes})


def of_constant(array):
    """The fact of a value that no input changes: its numbers where it is small, its rows where it is a table."""
    array = numpy.asarray(array)
    return Fact(constant=array if array.size <= SMALL else None, rows=len(array) if array.ndim else None)


def together(facts):
    """The fact of a tensor that is computed from all of these."""
    facts = list(facts)
    depending = [fact for fact in facts if fact.inputs]
    return Fact(
        frozenset().union(*(fact.inputs for fact in facts)),
        steps=depending[0].steps if len(depending) == 1 else None,
        sized=bool(depending) and all(fact.sized for fact in depending),
        reads=frozenset().union(*(fact.reads for fact in facts)),
    )


def stepped(step, given):
    """The fact after a step of `BEFORE`, which can be turned back if all else is one number."""
    whole = together(given)
    taken = _invertible(step, given)
    return whole.after(steps=(*whole.steps, taken) if taken and whole.steps is not None else None)


def _invertible(step, given):
    """(step, whether the constant comes second, the constant), if `BEFORE` has it."""
    if len(given) == 1:
        return (step, None, None) if (step, None) in BEFORE else None
    if len(given) != 2:
        return None
    for second, (fact, other) in ((True, given), (False, reversed(given))):
        constant = other.constant
        plain = constant is not None and constant.size == 1 and constant.dtype.kind in "iuf"
        if fact.inputs and plain and (step, second) in BEFORE:
            return step, second, float(constant.ravel()[0])
    return None


def before(steps, value):
    """The input for which a chain of steps gives this value, as far as they can be turned back; NaN if there is none."""
    with numpy.errstate(all="ignore"):
        for step, second, number in reversed(steps):
            try:
                value = float(BEFORE[step, second](value, number))
            except (ArithmeticError, TypeError, ValueError):  # no such input
                return float("nan")
    return value


class Findings:
    """What the walk through a graph collects. `integers`: the inputs that may be indices."""

    def __init__(self, integers=()):
        self.integers = frozenset(integers)
        self.values, self.tables, self.words, self.sizes = {}, {}, {}, []
        self.written, self.read, self.random = set(), frozenset(), []

    def compare(self, given):
        """Takes the constants among the facts as what the others are compared with."""
        for index, fact in enumerate(given):
            for other in given[:index] + given[index + 1 :] if fact.inputs else ():
                if other.constant is not None and other.constant.dtype.kind in "iuf":
                    for number in other.constant.ravel()[:SMALL]:
                        self.number(fact, number)

    def number(self, fact, number):
        """Takes a number that a tensor is compared with, as a size or as a value of the inputs behind it."""
        if fact.sized:
            if float(number).is_integer() and 0 <= number <= 4096:
                self.sizes.append(int(number))
            return
        for value in dict.fromkeys((float(number), before(fact.steps or (), float(number)))):
            if numpy.isfinite(value):
                for name in fact.inputs:
                    self.values.setdefault(name, []).append(value)

    def gather(self, table, indices):
        """Takes indices into a table: those of a single input of integers are to visit every row."""
        if table.rows is None or table.inputs or indices.sized:
            return
        if len(indices.inputs) == 1 and indices.inputs <= self.integers:
            self.tables.setdefault(next(iter(indices.inputs)), []).append(table.rows)
        elif indices.inputs:
            self.number(indices, table.rows)

    def described(self):
        """The keys that `describe` gives, without those that hold nothing."""
        found = {
            "values": {name: list(dict.fromkeys(values))[:KEPT] for name, values in self.values.items()},
            "tables": {name: max(rows) for name, rows in self.tables.items()},
            "words": {name: list(dict.fromkeys(words))[:WORDS] for name, words in self.words.items()},
            "sizes": sorted(set(self.sizes))[:KEPT],
        }
        return {key: value for key, value in found.items() if value}
