"""HTML in pieces: whatever is not made here is text, and is escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from sardonyx.report import cell, visible

_NUMBER = re.compile(r"(at least )?[-+]?\d[\d,.]*(e[-+]?\d+)?( ?(%|[kMGT]|B|[KMG]iB|[munµ]?s|x|times))?")


class Markup(str):
    """HTML that is safe to stand as it is."""

    __slots__ = ()


def html(value: Any) -> Markup:
    """Markup as it is; anything else as escaped text, with control characters written out."""
    return value if isinstance(value, Markup) else Markup(escape(visible(cell(value))))


def tag(name: str, *content: Any, **attributes: str) -> Markup:
    """An element. `class_` is the attribute `class`."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items() if value
    )
    return Markup(f"<{name}{given}>{''.join(map(html, content))}</{name}>")


def joined(*content: Any) -> Markup:
    return Markup("".join(map(html, content)))


def section(name: str, heading: str, *content: Any) -> Markup:
    """A part of the page, with an anchor."""
    return tag("section", tag("h2", heading), *content, id=name)


def skipped(name: str, heading: str, why: str) -> Markup:
    """A part of the page whose stage did not run: it says so."""
    return section(name, heading, tag("p", tag("b", "Skipped. "), why or "It was asked so.", class_="skipped"))


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, caption: str = "") -> Markup:
    """Rows under their headings: numbers to the right, words to the left. Wide ones scroll by themselves, not the page."""
    if not rows:
        return Markup("")
    kept = [index for index in range(len(columns)) if any(html(row[index]) for row in rows)]
    right = {index for index in kept if _numeric([row[index] for row in rows])}
    head = joined(*(tag("th", columns[i], class_="number" if i in right else "", scope="col") for i in kept))
    body = joined(*(tag("tr", *(_cell(row[i], columns[i], i in right) for i in kept)) for row in rows))
    title = tag("caption", caption) if caption else ""
    return tag("div", tag("table", title, tag("thead", tag("tr", head)), tag("tbody", body)), class_="table")


def _cell(value: Any, column: str, number: bool) -> Markup:
    """A cell that knows its heading: on a narrow screen each row is a list of its own."""
    return tag("td", value, class_="number" if number else "", data_label=column)


def word(text: str, kind: str) -> Markup:
    """A verdict in its colour: good, bad or plain."""
    return tag("span", text, class_=f"word {kind}")


def more(summary: str, *content: Any) -> Markup:
    """Something that is folded away until it is asked for."""
    return tag("details", tag("summary", summary), *content)


def _numeric(values: Sequence[Any]) -> bool:
    texts = [cell(value) for value in values if not isinstance(value, Markup) and cell(value)]
    plain = [value for value in values if isinstance(value, Markup) and value]
    return bool(texts) and not plain and all(_NUMBER.fullmatch(text) for text in texts)
