"""A report as JSON that every parser takes, as text that lines up, and as HTML that nothing escapes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sardonyx.report import Finding, Report, Table, cell, human_bytes, visible


def report(**fields: Any) -> Report:
    return Report("check", "ok", True, fields)


def strict(text: str) -> Any:
    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (-float("inf"), "-Infinity"),
        (np.float32("nan"), "NaN"),
        (np.float64(0.5), 0.5),
        (np.float16(0.5), 0.5),
        (np.int64(7), 7),
        (np.uint8(255), 255),
        (np.bool_(True), True),
        (np.array([1.0, np.inf]), [1.0, "Infinity"]),
        (np.array([[1, 2]]), [[1, 2]]),
        ((1, 2), [1, 2]),
        ({1: float("nan")}, {"1": "NaN"}),
        (Path("a/b"), "a/b"),
        (None, None),
        (2**70, 2**70),
    ],
)
def test_json_holds_what_strict_parsers_take(value: Any, written: Any) -> None:
    assert strict(report(value=value).to_json())["value"] == written


def test_json_opens_with_the_verb_and_keeps_the_findings() -> None:
    found = Report("check", "problems", False, {"a": 1}, (Finding("error", "bad", "node x", "is bad", "fix it"),))
    answer = strict(found.to_json())
    assert list(answer)[:3] == ["verb", "ok", "verdict"]
    assert answer["findings"] == [
        {"severity": "error", "code": "bad", "where": "node x", "message": "is bad", "hint": "fix it"}
    ]


def test_findings_are_always_a_list_in_json_and_iterable_in_python() -> None:
    plain = Report("check", "ok", True)
    assert plain.findings == ()
    assert plain["findings"] == []
    assert json.loads(plain.to_json())["findings"] == []


def test_json_survives_a_file_name_that_is_not_unicode() -> None:
    text = report(path="bad\udcff.onnx").to_json()
    text.encode("utf-8")
    assert strict(text)["path"] == "bad\udcff.onnx"


def test_json_keeps_other_scripts_readable() -> None:
    assert "größe 模型" in report(name="größe 模型").to_json()


def test_fields_are_read_by_name() -> None:
    assert report(opset=17)["opset"] == 17
    with pytest.raises(KeyError):
        report()["opset"]


def lines(*tables: Table, width: int = 80, **more: Any) -> list[str]:
    return Report("run", "ok", True, {}, (), tables, **more).to_text(width=width).splitlines()


def test_numbers_and_quantities_line_up_on_the_right() -> None:
    table = Table(
        "sizes", ("name", "count", "bytes"), (("a", 5, "1.0 MiB"), ("long name", 12345, "860 B"), ("c", None, ""))
    )
    title, head, rule, first, second, *_ = lines(table)
    assert title == "sizes"
    assert len(first) == len(second) == len(rule)
    assert head.index("count") + len("count") == first.index("5") + 1 == second.index("12,345") + len("12,345")
    assert first.endswith("1.0 MiB")
    assert second.endswith("860 B")


def test_words_line_up_on_the_left_even_beside_numbers() -> None:
    table = Table("t", ("name", "value"), (("a", "12"), ("b", "twelve")))
    _, _, _, first, second, *_ = lines(table)
    assert first.index("12") == second.index("twelve")


def test_nameless_columns_have_no_header() -> None:
    assert lines(Table("facts", ("", ""), (("opset", "17"),)))[:2] == ["facts", "  opset  17"]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    table = Table(
        "wide",
        ("name", "message", "number", "shape"),
        (("/model/layers.0/" * 6 + "end", "a sentence that goes on for a while " * 4, 123456, "[1, 3, 224, 224]"),),
    )
    finding = Finding("warning", "some-code", "a node", "words " * 40, "more words " * 20)
    text = Report("check", "ok", True, {}, (finding,), (table,), "summary " * 20).to_text(width=width)
    assert max(map(len, text.splitlines())) <= width


def test_a_long_name_in_a_listing_keeps_both_ends_and_one_line() -> None:
    name = "/model/" + "deep/" * 30 + "Conv_output_0"
    shown = lines(Table("t", ("name", "kind", "bytes"), ((name, "weight", 3),)), width=60)
    assert len(shown) == 6
    assert "/model/" in shown[3]
    assert "…" in shown[3]
    assert "Conv_output_0" in shown[3]


def test_a_long_value_in_a_list_of_facts_is_kept_whole() -> None:
    path = "/very/long/" * 12 + "model.onnx"
    shown = "".join(line.strip() for line in lines(Table("facts", ("", ""), (("path", path),)), width=60)[1:])
    assert path in shown.replace("path  ", "")


def test_colour_appears_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Report(
        "check", "problems", False, {}, (Finding("error", "bad", "", "is bad"),), (Table("t", ("a",), ((1,),)),)
    )
    assert "\033[" not in found.to_text()
    assert "\033[" in found.to_text(colour=True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\033[" not in found.to_text(), "the caller decides, not the environment"


def test_no_colour_wins_over_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    from sardonyx.cli._terminal import wants_colour

    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wants_colour(Terminal())  # type: ignore[arg-type]
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour(Terminal())  # type: ignore[arg-type]


def test_names_cannot_steer_the_terminal() -> None:
    hostile = "a\033[2J\x07b\x9bc\r"
    finding, table = Finding("info", "x", hostile, hostile, hostile), Table(hostile, ("n",), ((hostile,),))
    text = Report("check", "ok", True, {}, (finding,), (table,), hostile).to_text()
    assert not any(character in text for character in "\033\x07\x9b\r")
    assert "\\x1b[2J" in text


def test_square_brackets_are_text_and_no_markup() -> None:
    assert "[red]x[/red]" in "\n".join(lines(Table("t", ("[bold]n",), (("[red]x[/red]",),))))


def test_html_escapes_everything_it_is_given() -> None:
    evil = "<script>alert('x')</script>&\""
    found = Report(
        evil, evil, False, {}, (Finding("error", evil, evil, evil, evil),), (Table(evil, (evil,), ((evil,),)),), evil
    )
    html = found.to_html()
    assert "<script>" not in html
    assert html.count("&lt;script&gt;") == 10


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "yes"),
        (False, "no"),
        (1234567, "1,234,567"),
        (0.00123456, "0.001235"),
        (1e-9, "1e-09"),
        ("x", "x"),
    ],
)
def test_cells_read_as_a_person_would_write_them(value: object, text: str) -> None:
    assert cell(value) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 20, "1.0 MiB"), (5 << 40, "5120.0 GiB")]
)
def test_bytes_read_as_a_person_would_write_them(count: int, text: str) -> None:
    assert human_bytes(count) == text


def test_visible_leaves_ordinary_text_alone() -> None:
    assert visible("größe 模型\nline") == "größe 模型\nline"
