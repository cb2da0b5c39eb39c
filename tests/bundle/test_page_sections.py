"""The report's page as text: what it says, and that nothing in a report can hurt it."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser
from typing import Any

import pytest

import report_sample
from report_sample import HOSTILE, ratio
from sardonyx import registry
from sardonyx.bundle import charts, figures
from sardonyx.bundle.charts import Point
from sardonyx.bundle.markup import Markup, html, table, tag
from sardonyx.bundle.page import ORDER, SECTIONS, render
from sardonyx.bundle.sections.verdict import sentence
from sardonyx.bundle.story import Story

VOID = {"meta", "link", "img", "br", "input"}


class Reader(HTMLParser):
    """The page's text and tags, and whether every tag is closed by its own end."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, name: str, attributes: Any) -> None:  # noqa: ARG002
        self.tags.append(name)
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name

    def handle_data(self, data: str) -> None:
        if "script" not in self.open and "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def read(report: dict[str, Any]) -> Reader:
    found = Reader(render(report))
    assert found.open == []
    return found


def test_every_section_is_on_the_page_and_every_file_is_a_section() -> None:
    assert set(ORDER) == set(registry.names(SECTIONS))


def test_the_verdict_is_a_sentence_with_its_interval() -> None:
    assert sentence(Story(report_sample.report())) == (
        "Shipped as a quantised model (static_u8s8) that is 2.61 times as fast as the framework (2.44 to 2.80) and keeps "
        "accuracy at 96.90 %, where float has 97.20 %; the float model before it agrees with the original up to rounding."
    )


def test_a_float_model_agrees_itself() -> None:
    report = report_sample.report()
    report["stages"] = [row for row in report["stages"] if row["stage"] != "quantize"]
    assert sentence(Story(report)) == (
        "Shipped as an optimised float model that agrees with the original up to rounding and is 2.61 times as fast as the "
        "framework (2.44 to 2.80)."
    )


def test_the_page_tells_of_every_stage() -> None:
    text = read(report_sample.report()).text
    for words in (
        "1.22 to 1.37",  # the bench's interval
        "at most 10% of the tolerance",
        "by p50 alone",
        "Counterexample: probe 'sign flipped'",
        "the branch of the example is frozen in",
        "its answers differ by 0.3",
        "2 nodes stay float",
        "chosen",
        "Where the error grew most",
        "does not run",
        "no kernel for Foo",
        "onnxruntime 1.31.1",
        "176f42d02c32",
    ):
        assert words in text, words


def test_hostile_text_stays_text_wherever_it_stands() -> None:
    clean, hostile = read(report_sample.report("name")), read(report_sample.report(HOSTILE))
    assert hostile.tags == clean.tags
    assert " ".join(HOSTILE.split()) in hostile.text
    assert "onerror='" not in render(report_sample.report(HOSTILE))


@pytest.mark.parametrize("stage", ["convert", "compare", "optimize", "quantize", "bench"])
def test_a_stage_that_was_skipped_says_so(stage: str) -> None:
    report = report_sample.report()
    report["stages"] = [
        {"stage": stage, "verdict": "skipped", "ok": True, "reason": "because of the rain"}
        if row["stage"] == stage
        else row
        for row in report["stages"]
    ]
    report["metrics"]["speed"] = None if stage == "bench" else report["metrics"]["speed"]
    text = read(report).text
    assert "because of the rain" in text
    assert "kipped." in text


def test_a_run_that_ended_early_says_where() -> None:
    report = report_sample.report()
    failed = {"stage": "compare", "verdict": "mismatch", "ok": False, "summary": "logits differs by 0.5", "outputs": []}
    report |= {
        "ok": False,
        "verdict": "not-shipped",
        "stages": [*report["stages"][:2], failed],
        "metrics": {},
        "ledger": None,
    }
    text = read(report).text
    assert "Not shipped: compare ended with “mismatch”. logits differs by 0.5" in text
    assert "The run ended before this stage." in text


@pytest.mark.parametrize("report", [{}, {"ok": True, "stages": [], "ledger": {"nodes": []}, "metrics": None}])
def test_an_empty_report_has_a_page(report: dict[str, Any]) -> None:
    assert "Provenance" in read(report).text


@pytest.mark.parametrize(
    "field", ["stages", "ledger", "metrics", "machine", "provenance", "runs_on", "findings", "graph"]
)
def test_no_field_is_needed(field: str) -> None:
    report = report_sample.report()
    del report[field]
    read(report)


def test_numbers_without_end_are_no_trouble() -> None:
    report = report_sample.report()
    report["ledger"]["nodes"][0]["error"]["float"] = "Infinity"
    report["ledger"]["nodes"][1]["error"]["quantized"] = math.inf
    report["stages"][2]["outputs"][0]["error"] = "NaN"
    assert "NaN" in read(report).text


def test_text_is_escaped_and_markup_is_not() -> None:
    assert html("<b>\x1b&") == "&lt;b&gt;\\x1b&amp;"
    assert tag("p", Markup("<b>x</b>"), "<", class_='a"b') == '<p class="a&quot;b"><b>x</b>&lt;</p>'


def test_numbers_stand_on_the_right_and_empty_columns_are_left_out() -> None:
    made = table(("name", "empty", "size"), [("a", "", 1200), ("b", None, 7)])
    assert made.count('class="number"') == 3
    assert "empty" not in made
    assert "1,200" in made
    assert table(("name",), []) == ""


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (figures.duration(0.00123), "1.23 ms"),
        (figures.duration(61.5), "61.5 s"),
        (figures.duration(None), ""),
        (figures.error(0.0), "0"),
        (figures.error("NaN"), "NaN"),
        (figures.score("accuracy", 0.9722), "97.22 %"),
        (figures.score("mse", 0.5), "0.5"),
        (figures.times(1110.3), "1,110"),
        (figures.ratio_words(ratio(1.834, 1.7, 1.96), "float"), "1.83 times as fast as float (1.70 to 1.96)"),
        (figures.ratio_words(None, "float"), ""),
    ],
)
def test_numbers_read_as_people_write_them(made: str, words: str) -> None:
    assert made == words


def test_the_front_holds_what_nothing_beats() -> None:
    points = [
        Point(name, x, y, x, x) for name, x, y in (("a", 1, 0.9), ("b", 2, 0.8), ("worse", 1.5, 0.7), ("c", 2, 0.9))
    ]
    assert [point.name for point in charts.frontier(points)] == ["c"]
    assert {point.name for point in charts.frontier(points[:3])} == {"a", "b"}


def test_a_ratio_is_drawn_where_it_lies() -> None:
    drawn = charts.whisker(2.0, 1.0, 4.0, least=1.0, most=4.0, kind="good")
    assert re.search(r'<circle cx="80\.0"', drawn)
    assert 'x1="4.0" x2="156.0"' in drawn


def test_gaps_and_zeros_of_the_ledger_are_drawn() -> None:
    drawn = charts.by_node({"float": [1e-3, None, 1e-2, 0.0], "quantized": [None, None, None, None]}, up="error")
    assert drawn.count("<polyline") == 1
    assert drawn.count("<circle") == 1
    assert charts.by_node({"float": [0.0, None]}, up="error") == ""


def test_one_point_and_equal_points_have_a_scale() -> None:
    same = [Point("a", 1.0, 0.5, 1.0, 1.0), Point("b", 1.0, 0.5, 1.0, 1.0)]
    assert "nan" not in charts.pareto(same, across="x", up="y").lower()
