"""Which branches of a model's own Python code ran, what they depend on, and how far an untaken one was from being taken.

The code is watched by `sys.settrace` at the level of bytecode, so that `a if c else b`, `and`, `or` and loops count like an
`if`. Nothing of the code is changed. Needs the standard library; positions inside a line need Python 3.11.
"""

import ast
import dis
import linecache
import sys

# What a condition may ask of a tensor without depending on its values or sizes.
FIXED_FACTS = {
    "dtype", "device", "ndim", "dim", "rank", "layout", "requires_grad", "is_cuda", "is_sparse", "is_quantized", "training",
    "is_floating_point", "is_complex", "is_contiguous", "is_scripting", "is_tracing", "is_compiling", "is_exporting",
    "is_in_onnx_export", "is_grad_enabled", "is_autocast_enabled", "is_meta", "is_nested", "get_device", "type", "grad_fn",
}  # fmt: skip
SIZE_FACTS = {"shape", "size", "numel", "nelement", "__len__"}
STRUCTURE = {"isinstance", "hasattr", "callable", "issubclass", "getattr", "type", "id"}
PURE_BUILTINS = {"len", "int", "float", "bool", "abs", "max", "min", "sum", "round", "any", "all"}
RANKS = {"none": 0, "size": 1, "value": 2}
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
        self.reached, self.gaps = set(), {}

    def run(self, function):
        """What the function gives. `reached` and `gaps` then speak of this call alone."""
        self.reached, self.gaps = set(), {}
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
        """Notes what the condition depends on and, while one of its outcomes is missing, the numbers it compares."""
        if branch.test is None:
            return
        depends = _Dependence(frame, branch)
        kind = depends.of(branch.test)
        if RANKS[kind] > RANKS[branch.depends]:
            branch.depends = kind
        if not all(branch.taken):
            gap = _gap(branch.test, frame)
            if gap is not None:
                self.gaps[branch.key] = gap
                if len(branch.compared) < 4:
                    branch.compared.add(tuple(gap))
                for number in gap[2:4]:
                    _keep(branch.numbers, number)

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
                    _keep(made.numbers, node.value)
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


class _Dependence:
    """Whether a condition depends on the values or sizes of tensors, told from the code and from what the names hold now."""

    def __init__(self, frame, branch):
        self.frame, self.branch = frame, branch
        self.assigned = None
        self.seen = set()

    def of(self, node):
        if isinstance(node, ast.Compare) and all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            return "none"
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.Constant):
            return "none"
        return self._worst(ast.iter_child_nodes(node))

    def _worst(self, nodes):
        return max((self.of(node) for node in nodes), key=RANKS.__getitem__, default="none")

    def _call(self, node):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in STRUCTURE or name in FIXED_FACTS:
            return "none"
        if name == "len" and len(node.args) == 1:
            return "size" if self.of(node.args[0]) == "value" and _is_tensor(self._value(node.args[0])) else "none"
        if name in SIZE_FACTS and isinstance(node.func, ast.Attribute):
            return "size" if self.of(node.func.value) == "value" else "none"
        inside = [*node.args, *(keyword.value for keyword in node.keywords)]
        return self._worst([node.func.value, *inside] if isinstance(node.func, ast.Attribute) else inside)

    def _attribute(self, node):
        if node.attr in FIXED_FACTS:
            return "none"
        if node.attr in SIZE_FACTS:
            return "size" if self.of(node.value) == "value" else "none"
        value = self._value(node)
        if _is_tensor(value):
            return "value"
        self._note(node, value)
        return "none" if value is not None else self.of(node.value)

    def _name(self, name):
        locals_ = self.frame.f_locals
        value = locals_.get(name)
        if _is_tensor(value) or (isinstance(value, (list, tuple)) and any(map(_is_tensor, value[:8]))):
            return "value"
        if name in self.seen or name not in locals_:
            return "none"
        self.seen.add(name)
        self.branch.scalars.setdefault(name, set())
        _note_value(self.branch.scalars[name], value)
        return self._worst(self._sources(name))

    def _sources(self, name):
        """The expressions that the function assigns to a name."""
        if self.assigned is None:
            self.assigned = _assignments(self.frame.f_code)
        return self.assigned.get(name, ())

    def _value(self, node):
        """What a chain of names and attributes holds; None where finding out would run code."""
        if isinstance(node, ast.Name):
            return self.frame.f_locals.get(node.id, self.frame.f_globals.get(node.id))
        if isinstance(node, ast.Attribute):
            owner = self._value(node.value)
            return None if owner is None or _is_tensor(owner) else getattr(owner, node.attr, None)
        return None

    def _note(self, node, value):
        if isinstance(value, (bool, int, float, str)):
            _note_value(self.branch.scalars.setdefault(ast.dump(node), set()), value)
            _keep(self.branch.numbers, value)


def _note_value(values, value):
    if isinstance(value, (bool, int, float, str)) and len(values) < 4:
        values.add(value)


_ASSIGNMENTS = {}


def _assignments(code):
    """{name: expressions} of the function that a code object was compiled from."""
    if code not in _ASSIGNMENTS:
        found = {}
        try:
            tree = ast.parse("".join(linecache.getlines(code.co_filename)))
        except SyntaxError:
            tree = ast.Module(body=[], type_ignores=[])
        for function in ast.walk(tree):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and _begins(function, code):
                for node in ast.walk(function):
                    for target, value in _targets(node):
                        for name in ast.walk(target):
                            if isinstance(name, ast.Name):
                                found.setdefault(name.id, []).append(value)
        _ASSIGNMENTS[code] = found
    return _ASSIGNMENTS[code]


def _begins(function, code):
    first = min([function.lineno, *(d.lineno for d in getattr(function, "decorator_list", ()))])
    return first == code.co_firstlineno or function.lineno == code.co_firstlineno


def _targets(node):
    if isinstance(node, ast.Assign):
        return [(target, node.value) for target in node.targets]
    if isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        return [(node.target, node.value)]
    if isinstance(node, (ast.For, ast.comprehension)):
        return [(node.target, node.iter)]
    return []


def _is_tensor(value):
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _gap(test, frame):
    """[left min, left max, right min, right max, operator] of the comparison inside a condition, if it can be had safely."""
    compare = next((node for node in ast.walk(test) if isinstance(node, ast.Compare) and len(node.ops) == 1), None)
    if compare is None or not (_pure(compare.left) and _pure(compare.comparators[0])):
        return None
    try:
        sides = [_extremes(_evaluate(side, frame)) for side in (compare.left, compare.comparators[0])]
    except Exception:
        return None
    if any(side is None for side in sides):
        return None
    return [*sides[0], *sides[1], type(compare.ops[0]).__name__]


def _evaluate(node, frame):
    expression = ast.fix_missing_locations(ast.Expression(body=node))
    return eval(compile(expression, "<condition>", "eval"), frame.f_globals, frame.f_locals)


def _extremes(value):
    """(smallest, largest) of a number or of a tensor of numbers."""
    if isinstance(value, (bool, int, float)):
        return float(value), float(value)
    if _is_tensor(value) and getattr(value, "size", None) is not None:
        flat = value.detach().cpu().double().reshape(-1).numpy() if hasattr(value, "detach") else _flat(value)
        return (float(flat.min()), float(flat.max())) if flat.size else None
    return None


def _flat(value):
    import numpy

    return numpy.asarray(value, dtype=float).reshape(-1)


def _pure(node):
    """Whether evaluating the expression once more changes nothing."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            name = part.func.id if isinstance(part.func, ast.Name) else getattr(part.func, "attr", "_")
            if isinstance(part.func, ast.Name) and name not in PURE_BUILTINS:
                return False
            if name.endswith("_") or "rand" in name or name in ("pop", "append", "next", "read", "normal", "bernoulli"):
                return False
        elif isinstance(part, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda)):
            return False
    return True


def _keep(numbers, value):
    plain = isinstance(value, (int, float, str)) and not isinstance(value, bool) and value == value
    if plain and value not in numbers and len(numbers) < 16:
        numbers.append(value)
