"""What a verb found: one verdict, findings, tables for people and the same facts as JSON."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import RenderableType

Severity = Literal["error", "warning", "info"]
SEVERITIES = ("error", "warning", "info")
_COLOUR = {"error": "red", "warning": "yellow", "info": "cyan"}
# A number as cell() or human_bytes() write it, with a unit or without.
_QUANTITY = re.compile(r"(at least )?[-+]?\d[\d,.]*(e[-+]?\d+)?( ?(%|[kMGT]|B|[KMG]iB|[munµ]?s|x))?")
# Besides what steers a terminal, the characters that turn the direction of text: they hide how a name really reads.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_GAP, _NARROWEST = 2, 8


@dataclass(frozen=True)
class Finding:
    """One thing worth knowing: how bad, a stable code, where, what, and what to do about it."""

    severity: Severity
    code: str
    where: str
    message: str
    hint: str = ""


@dataclass(frozen=True)
class Table:
    """Rows for people. Numbers and quantities are aligned right, everything else left. Nameless columns have no header."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


@dataclass(frozen=True)
class Report:
    """The result of a verb: `report.ok`, `report.verdict`, and its JSON fields by name, `report["opset"]`.

    What a program wants but JSON does not hold (arrays, models) is in `artifacts`. `listing` is text that people read as it is,
    line by line, before the tables.
    """

    verb: str
    verdict: str
    ok: bool
    fields: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    tables: tuple[Table, ...] = ()
    summary: str = ""
    artifacts: Mapping[str, Any] = field(default_factory=dict)
    listing: str = ""

    def __getitem__(self, name: str) -> Any:
        return self.to_dict()[name]

    def to_dict(self) -> dict[str, Any]:
        found = [asdict(finding) for finding in self.findings]
        return {"verb": self.verb, "ok": self.ok, "verdict": self.verdict, **self.fields, "findings": found}

    def to_json(self, *, indent: int | None = None) -> str:
        text = json.dumps(plain(self.to_dict()), indent=indent, allow_nan=False, ensure_ascii=False)
        # A file name that is not UTF-8 must not stop the output.
        return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)

    def to_text(self, *, width: int = 100, colour: bool = False) -> str:
        from rich.console import Console
        from rich.text import Text

        # A file that nobody reads as a terminal: rich must not guess from our own stdout.
        console = Console(
            file=io.StringIO(),
            width=width,
            force_terminal=colour,
            no_color=not colour,
            highlight=False,
            legacy_windows=False,
        )
        with console.capture() as capture:
            if self.listing:
                console.print(Text("\n".join(map(visible, self.listing.split("\n"))) + "\n"), soft_wrap=True)
            for part in self._parts(width):
                console.print(part)
        return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"

    def to_html(self) -> str:
        """A fragment: a heading, the summary, findings and tables."""
        head = f"<h2>{escape(self.verb)}: {escape(self.verdict)}</h2>" + (
            f"<p>{escape(self.summary)}</p>" if self.summary else ""
        )
        listing = f"<pre>{escape(self.listing)}</pre>" if self.listing else ""
        return f"<section>{head}{listing}{''.join(map(_html_table, self._all_tables()))}</section>"

    def _all_tables(self) -> Iterable[Table]:
        yield from self.tables
        if self.findings:
            rows = tuple((f.severity, f.code, f.where, f.message, f.hint) for f in self.findings)
            yield Table("findings", ("severity", "code", "where", "message", "hint"), rows)

    def _parts(self, width: int) -> Iterable[RenderableType]:
        from rich.padding import Padding
        from rich.text import Text

        for table in self.tables:
            if table.title:
                yield Text(visible(table.title), "bold")
            yield _rich_table(table, width)
            yield ""
        for finding in self.findings:
            where = f" {finding.where}:" if finding.where else ""
            yield Text.assemble(
                (f"{finding.severity}[{finding.code}]:", _COLOUR[finding.severity]),
                visible(f"{where} {finding.message}"),
            )
            if finding.hint:
                yield Padding(Text.assemble(("hint:", "dim"), visible(f" {finding.hint}")), (0, 0, 0, _GAP))
        if self.findings:
            yield ""
        yield Text.assemble(
            (self.verdict, "bold green" if self.ok else "bold red"), visible(f"  {self.summary}").rstrip()
        )


def _rich_table(table: Table, width: int) -> RenderableType:
    from rich import box
    from rich.padding import Padding
    from rich.table import Table as RichTable
    from rich.text import Text

    cells = [[visible(cell(value)) for value in row] for row in table.rows]
    widths = _widths([list(table.columns), *cells], width - _GAP)
    rich = RichTable(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0), collapse_padding=True,
        show_header=any(table.columns),
    )  # fmt: skip
    for index, name in enumerate(table.columns):
        side: Literal["left", "right"] = "right" if _numeric([row[index] for row in cells]) else "left"
        rich.add_column(name, justify=side, overflow="fold", width=widths[index])
    for row in cells:
        # A listing keeps one line per row; in a list of facts the whole value matters more.
        fitted = row if len(row) < 3 else [_shortened(text, size) for text, size in zip(row, widths, strict=True)]
        rich.add_row(*map(Text, fitted))
    return Padding(rich, (0, 0, 0, _GAP))


def _widths(rows: list[list[str]], available: int) -> list[int]:
    """The width of each column: what it needs, and less for the widest ones where the terminal is too narrow."""
    from rich.cells import cell_len

    widths = [
        max((cell_len(line) for text in column for line in text.split("\n")), default=0)
        for column in zip(*rows, strict=True)
    ]
    excess = sum(widths) + _GAP * len(widths) - 1 - available
    while excess > 0 and max(widths) > _NARROWEST:
        widest = widths.index(max(widths))
        second = max([_NARROWEST, *(size for size in widths if size < widths[widest])])
        step = max(1, min(excess, widths[widest] - second))
        widths[widest] -= step
        excess -= step
    return widths


def _numeric(texts: list[str]) -> bool:
    filled = [text for text in texts if text]
    return bool(filled) and all(_QUANTITY.fullmatch(text) for text in filled)


def _shortened(text: str, width: int) -> str:
    """A name that is too long, with its middle left out: both ends say more. Sentences are left to wrap."""
    from rich.cells import cell_len

    if cell_len(text) <= width or " " in text or width < 5:
        return text
    head = (width - 1) // 3
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def visible(text: str) -> str:
    """The text with control characters written out, so that a name in a model cannot steer the terminal."""
    safe = _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
    return _SURROGATE.sub("\ufffd", safe).replace("\t", " ")


def one_line(text: str) -> str:
    """A name of a stranger as `visible` shows it, on one line: what follows a line end cannot pass for words of ours."""
    return visible(text).replace("\n", "\\n")


def inset(text: str) -> str:
    """The text as `visible` shows it, with its further lines indented: none can pass for a line of ours."""
    return re.sub(r"\n(?!  )", "\n  ", visible(text))


def cell(value: object) -> str:
    """A value as a person would write it: 1,234, 0.00123, yes."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def human_bytes(count: float) -> str:
    """1536 -> '1.5 KiB'."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell(v))}</td>" for v in row) + "</tr>" for row in table.rows)
    return f"<table><caption>{escape(table.title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def plain(value: Any) -> Any:
    """`value` as strict JSON has it: non-finite floats become the words NaN, Infinity and -Infinity."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return (
            value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        )
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return plain(value.tolist())
    return str(value)
