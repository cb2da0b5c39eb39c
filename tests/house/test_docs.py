"""Docs cannot rot: what the code offers is on a page, and what the pages say is so."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import sardonyx
from sardonyx import errors, registry
from sardonyx.cli import commands
from sardonyx.errors import SardonyxError

ROOT = Path(__file__).parent.parent.parent
REFERENCE = ROOT / "docs" / "reference"
PAGES = ("commands.md", "api.md", "errors.md", "findings.md")


def _load_writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_reference", ROOT / "scripts" / "write_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WRITER = _load_writer()


@cache
def written() -> dict[str, str]:
    pages: dict[str, str] = WRITER.pages()
    return pages


@pytest.mark.parametrize("page", PAGES)
def test_what_is_committed_is_what_the_code_says(page: str) -> None:
    assert (REFERENCE / page).read_text() == written()[page], "run `make docs`"


def test_there_is_no_page_that_nobody_writes() -> None:
    assert {path.name for path in REFERENCE.glob("*.md")} == set(written()) == set(PAGES)


@pytest.mark.parametrize("name", sardonyx.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    value = getattr(sardonyx, name)
    assert inspect.getdoc(value)
    page = (REFERENCE / "api.md").read_text()
    assert f"\n## {name}\n" in page
    for member in vars(value) if inspect.isclass(value) else ():
        if not member.startswith("_") and inspect.isroutine(getattr(value, member)):
            assert f"{name}.{member}(" in page


def test_the_public_names_are_sorted_and_listed_by_dir() -> None:
    assert sardonyx.__all__ == sorted(sardonyx.__all__)
    assert set(sardonyx.__all__) <= set(dir(sardonyx))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'frobnicate'"):
        _ = sardonyx.frobnicate


@pytest.mark.parametrize("verb", registry.names("sardonyx.cli"))
def test_every_verb_is_a_function_with_the_name_of_its_command(verb: str) -> None:
    assert verb in sardonyx.__all__
    assert inspect.isfunction(getattr(sardonyx, verb))
    page = (REFERENCE / "commands.md").read_text()
    mine = [command for command in commands() if command.partition(" ")[0] == verb]
    assert mine
    assert all(f"\n## sardonyx {command}\n" in page for command in mine)


def test_every_error_code_is_documented() -> None:
    page = (REFERENCE / "errors.md").read_text()
    for _, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, SardonyxError) and kind is not SardonyxError:
            assert f"| `{kind.code}` | {kind.exit_code} |" in page


# Where the code stands among the arguments of what makes a finding.
PLACES = {"Finding": 1, "_note": 0}


def codes_in(source: str) -> set[str]:
    """The codes that are written out where a finding is made."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    made = [
        call.args[place : place + 1] for call in calls if (place := PLACES.get(getattr(call.func, "id", ""), -1)) >= 0
    ]
    return {code.value for arguments in made for code in arguments if isinstance(code, ast.Constant)}


def test_every_finding_code_is_documented() -> None:
    documented = {code for codes in WRITER.all_findings().values() for code in codes}
    page = (REFERENCE / "findings.md").read_text()
    assert all(f"| `{code}` |" in page for code in documented)
    made = {code: path.name for path in (ROOT / "src").rglob("*.py") for code in codes_in(path.read_text())}
    assert {code: file for code, file in made.items() if code not in documented} == {}


def test_an_undocumented_finding_would_be_seen() -> None:
    assert codes_in("Finding('error', 'brand-new', 'here', 'words')") == {"brand-new"}


def test_help_has_the_same_width_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    before = WRITER.help_text("check")
    monkeypatch.setenv("COLUMNS", "50")
    assert WRITER.help_text("check") == before


# Prose


PROSE = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]


@pytest.mark.parametrize("page", PROSE, ids=[str(path.relative_to(ROOT)) for path in PROSE])
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))


@pytest.mark.parametrize("page", DECISIONS, ids=[path.stem for path in DECISIONS])
def test_every_decision_says_context_decision_and_consequences(page: Path) -> None:
    text = page.read_text()
    assert re.match(r"# \d{4}: ", text)
    assert text.startswith(f"# {page.name[:4]}: ")
    headings = re.findall(r"^## (\w+)", text, re.MULTILINE)
    assert headings == ["Context", "Decision", "Consequences"]
    assert len(text.splitlines()) < 80, "one page"


def test_decisions_are_numbered_without_a_gap() -> None:
    assert [int(path.name[:4]) for path in DECISIONS] == list(range(1, len(DECISIONS) + 1))


def test_the_changelog_knows_this_version() -> None:
    assert f"## {sardonyx.__version__}" in (ROOT / "CHANGELOG.md").read_text()
