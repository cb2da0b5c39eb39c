"""Only `agreement.py` decides whether two answers are the same: elsewhere there are no tolerances of one's own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent.parent / "src" / "sardonyx"
HOME = "agreement.py"

# Functions that compare numbers with a tolerance, whichever library has them.
COMPARING = frozenset(
    ("allclose", "isclose", "assert_allclose", "assert_almost_equal", "assert_array_almost_equal", "approx")
)
# Constants that are tolerances by their names.
TOLERANCE = re.compile(r"(^|_)(RTOL|ATOL|TOLERANCES?|RELATIVE|ABSOLUTE|AGREES|CLOSE|EPSILON)(_|$)", re.IGNORECASE)

# What is not a decision about the same answer, with the reason.
EXCEPTIONS = {
    "compare/region.py": "pairs tensors to find the node that differs; the verdict is made before",
    "convert/evaluate.py": "asks whether a source is another model each time it is opened",
    "convert/repairs.py": "compares an attribute of two nodes",
    "quantize/evaluate.py": "asks whether rows are probabilities",
    "sources/workers/_harness.py": "asks whether a model answers alike a second time; runs where Sardonyx is not installed",
    "sources/workers/_steady.py": "asks whether a model answers alike a second time; runs where Sardonyx is not installed",
    "sources/workers/_tf_network.py": "asks whether a model computes in float64; runs where Sardonyx is not installed",
    "sources/workers/jax.py": "asks whether a model computes in float64; runs where Sardonyx is not installed",
}


def decisions(root: Path) -> Iterator[tuple[str, str]]:
    """Every file with a comparison or a tolerance of its own, and what it is."""
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name == HOME:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            words = _words(node)
            if words:
                yield name, f"{name}:{getattr(node, 'lineno', 0)} {words}"


def _words(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in COMPARING:
            return f"calls {called}"
        given = {word.arg for word in node.keywords if word.arg and _is_number(word.value)}
        if given & {"rtol", "atol"} or (called == "Tolerance" and any(map(_is_number, [*node.args, *_values(node)]))):
            return f"gives {called} a tolerance of its own"
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _is_number(node.value):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for name in (item.id for target in targets for item in ast.walk(target) if isinstance(item, ast.Name)):
            if name.isupper() and TOLERANCE.search(name):
                return f"sets {name}"
    return ""


def _values(node: ast.Call) -> list[ast.expr]:
    return [word.value for word in node.keywords]


def _is_number(node: ast.expr) -> bool:
    """A number other than 0, or a tuple or table of numbers, as it stands in the source."""
    if isinstance(node, ast.Tuple | ast.List):
        return any(map(_is_number, node.elts))
    if isinstance(node, ast.Dict):
        return any(map(_is_number, node.values))
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value != 0


def test_no_other_file_decides_what_is_the_same_answer() -> None:
    assert [words for file, words in decisions(SOURCE) if file not in EXCEPTIONS] == []


@pytest.mark.parametrize("file", EXCEPTIONS)
def test_every_exception_is_still_needed(file: str) -> None:
    assert file in {found for found, _ in decisions(SOURCE)}


FAULTS = {
    "numpy's comparison": "import numpy as np\ndef f(a, b):\n    return np.allclose(a, b)",
    "numpy's comparison by name": "from numpy import isclose\ndef f(a, b):\n    return isclose(a, b)",
    "an assertion": "import numpy\ndef f(a, b):\n    numpy.testing.assert_allclose(a, b)",
    "a constant": "_TOLERANCE = 1e-3",
    "several constants": "_RELATIVE, _ABSOLUTE = 1e-5, 1e-6",
    "a table of constants": "_AGREES: dict[int, float] = {2: 1e-2, 4: 1e-3}",
    "a tolerance by position": "from sardonyx.agreement import Tolerance\nallowed = Tolerance(1e-3)",
    "a tolerance by name": "from sardonyx.agreement import Tolerance\nallowed = Tolerance(relative=1e-3)",
    "a keyword": "def f(same, a, b):\n    return same(a, b, rtol=1e-3)",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_seeded_fault_is_caught(tmp_path: Path, fault: str) -> None:
    (tmp_path / "serve").mkdir()
    (tmp_path / "serve" / "policy.py").write_text(FAULTS[fault])
    ((file, _),) = decisions(tmp_path)
    assert file == "serve/policy.py"


def test_what_is_allowed_is_not_caught(tmp_path: Path) -> None:
    (tmp_path / HOME).write_text(FAULTS["a constant"])
    (tmp_path / "compare.py").write_text(
        "def compare(a, b, *, rtol=None, atol=None):\n"
        "    return judge(a, b, Tolerance(atol or 0.0, rtol or 0.0))\n"
        "EXACT = Tolerance()\nSAFETY = 16.0\nJUST_ABOVE_ZERO = 0.0\n"
    )
    assert list(decisions(tmp_path)) == []
