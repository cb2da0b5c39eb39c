"""Writes the pages of `docs/reference` from the code: commands, Python names, errors and findings.

    python scripts/write_reference.py            # or: make docs

The tests compare what is committed with what this would write, so the pages cannot fall behind.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import os
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import sardonyx
from sardonyx import errors
from sardonyx.cli import build
from sardonyx.cli import commands as all_commands
from sardonyx.errors import SardonyxError

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "docs" / "reference"
SOURCE = ROOT / "src" / "sardonyx"


def main() -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (TARGET / name).write_text(text, encoding="utf-8")
        print(f"docs/reference/{name}: {len(text.splitlines())} lines")


def pages() -> dict[str, str]:
    """The text of each page by its file name."""
    return {"commands.md": commands(), "api.md": api(), "errors.md": error_codes(), "findings.md": finding_codes()}


def _page(title: str, introduction: str, *sections: str) -> str:
    head = f"# {title}\n\n<!-- Written by scripts/write_reference.py from the code. Run `make docs` after a change. -->\n\n"
    return head + "\n\n".join((introduction, *sections)).rstrip() + "\n"


# Commands


def commands() -> str:
    verbs = all_commands()
    listed = "\n".join(f"- [`sardonyx {verb}`](#sardonyx-{verb.replace(' ', '-')})" for verb in verbs)
    introduction = (
        "Data goes to stdout, progress to stderr. With `--json`, stdout is exactly one object with `verb`, `ok` and `verdict`.\n"
        "Exit codes: 0, done and the verdict is good; 1, done and the verdict is bad; 2, bad usage or bad input; 3, an extra is\n"
        "missing; 130, interrupted."
    )
    sections = [f"## sardonyx\n\n```text\n{help_text()}```\n\n{listed}"]
    sections += [f"## sardonyx {verb}\n\n```text\n{help_text(*verb.split())}```" for verb in verbs]
    return _page("Commands", introduction, *sections)


def help_text(*words: str) -> str:
    """What `sardonyx WORDS --help` prints on a terminal of 80 columns."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "80"
    shown = io.StringIO()
    try:
        with contextlib.redirect_stdout(shown):
            build()([*words, "--help"], prog_name="sardonyx", standalone_mode=False)
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
    return shown.getvalue()


# Python


def api() -> str:
    introduction = "Every name that `import sardonyx` offers. A verb here is the verb of the command line."
    return _page("Python", introduction, *(_entry(name, getattr(sardonyx, name)) for name in sardonyx.__all__))


def _entry(name: str, value: object) -> str:
    signature = "" if inspect.isclass(value) and issubclass(value, Exception) else _signature(value)
    members = [_member(name, member, found) for member, found in _members(value)] if inspect.isclass(value) else []
    return "\n\n".join((f"## {name}", _code(name, signature), _words(value), *members))


def _members(kind: type) -> Iterator[tuple[str, object]]:
    """The public methods and properties that the class itself defines, in the order of its source."""
    for name, value in vars(kind).items():
        found = getattr(value, "__func__", value)
        if not name.startswith("_") and (callable(found) or isinstance(found, property | cached_property)):
            yield name, found


def _member(owner: str, name: str, value: object) -> str:
    if isinstance(value, property | cached_property):
        getter = value.fget if isinstance(value, property) else value.func
        result = inspect.signature(getter).return_annotation  # type: ignore[arg-type]
        return f"{_code(f'{owner}.{name}', f' -> {result}')}\n\n{_words(value)}".rstrip()
    return f"{_code(f'{owner}.{name}', _signature(value))}\n\n{_words(value)}".rstrip()


class _Written(str):
    """An annotation as it stands in the source, without the quotes of a string."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _signature(value: object) -> str:
    signature = inspect.signature(value)  # type: ignore[arg-type]
    kept = [
        item.replace(annotation=_Written(item.annotation)) if isinstance(item.annotation, str) else item
        for name, item in signature.parameters.items()
        if name not in ("self", "cls")
    ]
    result = signature.return_annotation
    result = _Written(result) if isinstance(result, str) else result
    shown = str(signature.replace(parameters=kept, return_annotation=result))
    return re.sub(r"<factory>", "...", shown).removesuffix(" -> None")


def _code(name: str, signature: str) -> str:
    """The call as Python writes it, one argument a line where it is long."""
    call = f"{name}{signature}"
    if len(call) > 100:
        opening, _, rest = call.partition("(")
        arguments, _, result = rest.rpartition(")")
        lines = ",\n    ".join(_split(arguments))
        call = f"{opening}(\n    {lines},\n){result}"
    return f"```python\n{call}\n```"


def _split(arguments: str) -> list[str]:
    """The arguments at the commas outside brackets."""
    pieces, depth = [""], 0
    for letter in arguments:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            pieces.append("")
        else:
            pieces[-1] += letter
    return [piece.strip() for piece in pieces]


def _words(value: object) -> str:
    return inspect.getdoc(value) or ""


# Errors and findings


def error_codes() -> str:
    introduction = (
        "Every error has a code that never changes, a message that names the thing, and a hint that says the next step.\n"
        "On a terminal it reads `error[CODE]: message` and `hint: ...`; with `--json` the same fields are in `error`; in\n"
        "Python the class of the exception tells it, from `sardonyx.errors`."
    )
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, SardonyxError)]
    rows = [
        f"| `{kind.code}` | {kind.exit_code} | `{kind.__name__}` | {_words(kind)} |"
        for kind in sorted(kinds, key=lambda kind: kind.code)
        if kind is not SardonyxError
    ]
    return _page("Errors", introduction, _table("code | exit | class | when", rows))


def finding_codes() -> str:
    introduction = "What the verbs report about a model or a machine. A code never changes its meaning."
    sections = [
        f"## {stage}\n\n{_table('code | when', [f'| `{code}` | {words} |' for code, words in sorted(codes.items())])}"
        for stage, codes in all_findings().items()
    ]
    return _page("Findings", introduction, *sections)


def all_findings() -> dict[str, dict[str, str]]:
    """Stage -> finding code -> words, from every `CODES` table in the code, read without importing it."""
    stages: dict[str, dict[str, str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if isinstance(target, ast.Name) and target.id == "CODES":
                stage = path.relative_to(SOURCE).parts[0].removesuffix(".py")
                stages.setdefault(stage, {}).update(ast.literal_eval(node.value))  # type: ignore[attr-defined]
    return {stage: codes for stage, codes in stages.items() if codes}


def _table(columns: str, rows: list[str]) -> str:
    ruler = "|".join("---" for _ in columns.split("|"))
    return "\n".join((f"| {columns} |", f"|{ruler}|", *(re.sub(r"\s+", " ", row) for row in rows)))


if __name__ == "__main__":
    main()
