"""The shape of the repository: names, sizes, and text that speaks of the project alone."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SOURCE = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
TEXT = [
    path
    for folder in (".ci", "benchmarks", "docs", "examples", "requirements", "scripts", "src", "tests")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".md", ".txt", ".json", ".html", "") and path.is_file()
]
TEXT += [*ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "pyproject.toml"]

EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}
# Examples to follow, with room to break them for a reason: most files are near 100 lines and most functions near 10.
LINES_OF_A_FILE = 350
LINES_OF_A_FUNCTION = 60


def test_no_file_has_a_name_that_says_nothing() -> None:
    assert [path for path in (*SOURCE, *TESTS) if path.stem.strip("_") in EMPTY_NAMES] == []


def test_files_and_functions_stay_small() -> None:
    assert [path.name for path in SOURCE if len(path.read_text().splitlines()) > LINES_OF_A_FILE] == []
    long = [
        f"{path.name}: {node.name}"
        for path in SOURCE
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= LINES_OF_A_FUNCTION
    ]
    assert long == []


def test_every_module_says_what_it_is() -> None:
    """The files of the commands hold one function each, whose docstring is the help."""
    silent = [
        path for path in SOURCE if path.read_text().strip() and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    commands = ROOT / "src" / "sardonyx" / "cli"
    assert [path for path in silent if path.parent != commands or path.stem.startswith("_")] == []


def test_test_files_have_one_name_each_and_no_package() -> None:
    """pytest imports them by name alone."""
    names = Counter(path.name for path in TESTS if path.name != "conftest.py")
    assert [name for name, count in names.items() if count > 1] == []
    assert "__init__.py" not in names


# Put together here, so that this file does not hold what it looks for.
ELSEWHERE = re.compile("|".join(("/wo" + "rk/", "/tmp/" + "w/", "/ro" + "ot/", "/ho" + "me/", r"\bpypi\." + "(?!org)")))


def test_the_text_names_no_place_of_one_machine() -> None:
    found = [f"{path.relative_to(ROOT)}: {hit}" for path in TEXT for hit in ELSEWHERE.findall(path.read_text())]
    assert found == []


def test_a_place_of_one_machine_would_be_seen() -> None:
    assert ELSEWHERE.search("see /tmp/" + "w/models")
    assert ELSEWHERE.search("/ro" + "ot/model.onnx")
    assert not ELSEWHERE.search("src/sardonyx/model.py")


def test_continuous_integration_runs_the_tests_and_nothing_else() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    commands = [line for line in script.read_text().splitlines() if line and not line.startswith("#")]
    assert [line for line in commands if not line.startswith(("set ", "cd "))] == ["make test", "make test-rest"]


@pytest.mark.parametrize("target", ["demo", "check", "test", "test-rest", "bench", "docs"])
def test_every_promised_target_is_there_and_explained(target: str) -> None:
    assert re.search(rf"^{target}:.*## \w", (ROOT / "Makefile").read_text(), re.MULTILINE)
