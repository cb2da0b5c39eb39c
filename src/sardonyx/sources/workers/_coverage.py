"""Which branches of a model's own Python code ran, what they depend on, and how far an untaken one was from being taken.

The code is watched by `sys.settrace` at the level of bytecode, so that `a if c else b`, `and`, `or` and loops count like an
`if`. Nothing of the code is changed. Needs the standard library; positions inside a line need Python 3.11.
"""

import ast
import dis
import linecache
import sys

from ._condition import RANKS, Dependence, gap_of, keep

MOST_NUMBERS = 200


class Branch:
    """One condition in the code, with the outcomes seen so far."""

    def __init__(self, key, file, line, text, test, raises):
        self.key, self.file, self.line, self.text, self.test, self.raises = key, file, line, text, test, raises
        self.negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        self.taken = [False, False]  # was false, was true
        self.compared = set()  # what the sizes that it compares were, to tell fixed ones from dynamic ones
        self.depends = "none"
        self.scalars = {}  # a name in the condition -> the values it was seen to have
        self.numbers = []

    @property
    def varying(self):
        """Whether a plain number or string in the condition was different from call to call."""
        return any(len(values) > 1 for values in self.scalars.values())

    def to_dict(self):
        depends = "value" if self.depends == "none" and self.varying else self.depends
        if depends == "size" and len(self.compared) == 1 and not self.varying:
            depends = "none"  # a dimension that is fixed
        return {
            "id": self.key, "file": self.file, "line": self.line, "text": self.text, "depends": depends,
            "taken": self.taken, "raises": self.raises, "numbers": self.numbers,
        }  # fmt: skip


class Coverage:
    """Watches the code for which `watches(filename)` is true, while `run` calls a function."""

    def __init__(self, watches):
        self._watches = watches
        self._codes = {}  # code -> its conditional jumps, or None where it is not watched
        self._files = {}
        self._branches = {}
        self._constants = {}
        self.reached, self.gaps, self._every = set(), {}, False

    def run(self, function, every=False):
        """What the function gives. `reached` and `gaps` then speak of this call alone.

        Numbers are looked at where one of a condition's outcomes is missing, or `every` time.
        """
        self.reached, self.gaps, self._every = set(), {}, every
        before = sys.gettrace()
        sys.settrace(self._entered)
        try:
            return function()
        finally:
            sys.settrace(before)

    def branches(self):
        return [branch.to_dict() for branch in self._branches.values()]

    def numbers(self):
        """The numbers and strings that stand in the code that ran."""
        return list(self._constants)[:MOST_NUMBERS]

    def _entered(self, frame, event, argument):
        code = frame.f_code
        if code not in self._codes:
            self._codes[code] = self._jumps(code) if self._watches(code.co_filename) else None
        jumps = self._codes[code]
        if jumps is None:
            return None
        if not jumps:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        pending = [None]

        def local(frame, event, argument):
            if event == "opcode":
                self._step(frame, jumps, pending)
            return local

        return local

    def _step(self, frame, jumps, pending):
        at, last = frame.f_lasti, pending[0]
        if last is not None:
            branch, target, truth_of_jump = last
            truth = truth_of_jump if at == target else not truth_of_jump
            self._take(branch, truth != branch.negated)  # `if not x` jumps on x itself
            pending[0] = None
        jump = jumps.get(at)
        if jump is not None:
            pending[0] = jump
            self._look(jump[0], frame)

    def _take(self, branch, outcome):
        branch.taken[outcome] = True
        self.reached.add((branch.key, outcome))

    def _look(self, branch, frame):
        """Notes what the condition depends on and the numbers it compares."""
        if branch.test is None:
            return
        depends = Dependence(frame, branch)
        kind = depends.of(branch.test)
        if RANKS[kind] > RANKS[branch.depends]:
            branch.depends = kind
        if self._every or not all(branch.taken):
            gap = gap_of(branch.test, frame)
            if gap is not None:
                self.gaps[branch.key] = gap
                if len(branch.compared) < 4:
                    branch.compared.add(tuple(gap))
                for number in gap[2:4]:
                    keep(branch.numbers, number)

    def _jumps(self, code):
        """{offset: (branch, target, truth of a taken jump)} of the conditional jumps of one code object."""
        for constant in code.co_consts:
            if isinstance(constant, (int, float, str)) and not isinstance(constant, bool):
                self._constants.setdefault(constant, None)
        positions = list(code.co_positions()) if hasattr(code, "co_positions") else None
        tests = self._tests(code.co_filename)
        found, line = {}, code.co_firstlineno
        for instruction in dis.get_instructions(code):
            starts = instruction.starts_line
            if starts and starts is not True:
                line = starts
            name = instruction.opname
            if "JUMP" not in name or ("IF_TRUE" not in name and "IF_FALSE" not in name):
                continue
            place = positions[instruction.offset // 2] if positions else None
            if place is None or place[0] is None:
                place = (getattr(instruction, "line_number", None) or line, None, None, None)
            branch = self._branch(code, place, tests)
            if branch is not None:
                found[instruction.offset] = (branch, instruction.argval, "IF_TRUE" in name)
        return found

    def _branch(self, code, place, tests):
        line, end, column, end_column = place
        owner = tests.get((line, column, end, end_column)) or tests.get(line)
        test, statement = owner if owner else (None, None)
        if test is None or isinstance(statement, ast.Assert):
            return None
        key = (code.co_filename, test.lineno, test.col_offset, test.end_lineno, test.end_col_offset)
        if key not in self._branches:
            text = linecache.getline(code.co_filename, test.lineno).strip()
            made = Branch(":".join(map(str, key[:3])), code.co_filename, test.lineno, text, test, _raising(statement))
            for node in ast.walk(test):
                if isinstance(node, ast.Constant):
                    keep(made.numbers, node.value)
            self._branches[key] = made
        return self._branches[key]

    def _tests(self, filename):
        """The conditions in a file, by the position of the condition or of its statement, and by line."""
        if filename not in self._files:
            self._files[filename] = found = {}
            try:
                tree = ast.parse("".join(linecache.getlines(filename)))
            except SyntaxError:
                return found
            for statement in ast.walk(tree):
                for test in _conditions(statement):
                    found.setdefault(test.lineno, (test, statement))
                    found[_place(test)] = (test, statement)
                    if test is getattr(statement, "test", None) and isinstance(statement, (ast.If, ast.While)):
                        found.setdefault(_place(statement), (test, statement))
                    if isinstance(test, ast.UnaryOp):
                        found.setdefault(_place(test.operand), (test, statement))
        return self._files[filename]


def _place(node):
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _conditions(node):
    """The conditions that one node of the syntax tree decides by; of `and` and `or` every part."""
    if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
        yield from _parts(node.test)
    elif isinstance(node, ast.comprehension):
        for test in node.ifs:
            yield from _parts(test)
    elif isinstance(node, ast.BoolOp):
        for part in node.values:
            yield from _parts(part)


def _parts(test):
    if isinstance(test, ast.BoolOp):
        for part in test.values:
            yield from _parts(part)
    else:
        yield test


def _raising(statement):
    """The outcomes [false, true] behind which the code only raises: inputs that get there are refused, not answered."""
    if not isinstance(statement, ast.If):
        return [False, False]
    return [_only_raises(statement.orelse), _only_raises(statement.body)]


def _only_raises(body):
    return bool(body) and isinstance(body[-1], ast.Raise)
