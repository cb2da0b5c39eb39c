"""Numbers and words that Python code compares something with, read from its source: thresholds, sizes, keys."""

import ast
import inspect
import textwrap

MOST = 48  # of each kind
# Calls whose numbers are limits or telling values.
LIMITS = {
    "clip", "clip_by_value", "minimum", "maximum", "where", "isclose", "equal", "not_equal", "greater", "greater_equal", "less",
    "less_equal", "floor_mod", "mod", "remainder", "floor_divide", "searchsorted", "digitize", "one_hot", "range", "arange",
    "top_k", "switch", "min", "max", "clamp",
}  # fmt: skip
SIZES = {"shape", "size", "ndim", "len", "rank"}


def compared(functions):
    """{"values": [numbers], "sizes": [ints], "words": [strings]} that the functions compare with, in the order of the code."""
    found = {"values": [], "sizes": [], "words": []}
    for function in functions:
        tree = _tree(function)
        if tree is not None:
            _read(tree, _known(function), found)
    return {kind: list(dict.fromkeys(items))[:MOST] for kind, items in found.items()}


def _tree(function):
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):  # no source, or a lambda in the middle of an expression
        return None


def _known(function):
    """The plain numbers that names in the code stand for."""
    names = {name: function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    return {name: value for name, value in names.items() if isinstance(value, (int, float, str))}


def _read(tree, known, found):
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mod, ast.FloorDiv, ast.RShift, ast.LShift)):
            sides = [node.left, node.right]
        elif isinstance(node, ast.Call) and _called(node) in LIMITS:
            sides = [*node.args, *(keyword.value for keyword in node.keywords)]
        elif isinstance(node, (ast.Slice, ast.Subscript)):
            sides = [node]
        else:
            continue
        sized = any(_is_size(side) for side in sides)
        for side in sides:
            _take(side, known, found, sized)


def _take(side, known, found, sized):
    for value in _constants(side, known):
        if isinstance(value, bool):
            continue
        if isinstance(value, str):
            found["words"].append(value)
        elif sized and float(value).is_integer() and 0 <= value <= 4096:
            found["sizes"].append(int(value))
        elif not sized:
            found["values"].append(value)


def _constants(node, known):
    """The numbers and words of a side: itself, with its sign, or those of a tuple, list, set or slice."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str)):
        return [node.value]
    if isinstance(node, ast.Name) and node.id in known:
        return [known[node.id]]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return [-value for value in _constants(node.operand, known) if not isinstance(value, str)]
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return [value for item in node.elts for value in _constants(item, known)]
    if isinstance(node, ast.Slice):
        return [
            value
            for item in (node.lower, node.upper, node.step)
            if item is not None
            for value in _constants(item, known)
        ]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        both = [_constants(side, known) for side in (node.left, node.right)]
        small = all(len(side) == 1 and isinstance(side[0], (int, float)) and abs(side[0]) <= 64 for side in both)
        return [both[0][0] ** both[1][0]] if small and (both[0][0] or both[1][0] > 0) else []
    return []


def _is_size(node):
    """Whether the expression asks for a shape or a length."""
    for part in ast.walk(node):
        name = part.attr if isinstance(part, ast.Attribute) else part.id if isinstance(part, ast.Name) else ""
        if name in SIZES:
            return True
    return False


def _called(node):
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
