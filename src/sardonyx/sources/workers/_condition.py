"""What a condition in a model's code depends on, and the numbers that it compares. Part of _coverage.py."""

import ast
import linecache

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


class Dependence:
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
            keep(self.branch.numbers, value)


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


def gap_of(test, frame):
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


def keep(numbers, value):
    plain = isinstance(value, (int, float, str)) and not isinstance(value, bool) and value == value
    if plain and value not in numbers and len(numbers) < 16:
        numbers.append(value)
