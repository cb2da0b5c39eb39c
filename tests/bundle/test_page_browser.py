"""The report in a real browser: on a screen, on a phone, in the dark, on paper, and with names that mean harm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import report_sample
from browsing import chromium, opened
from report_sample import HOSTILE
from sardonyx.bundle.page import render
from sardonyx.model import Model
from sardonyx.view.graph import describe

pytestmark = pytest.mark.heavy
NET = """
<ir_version: 10, opset_import: ["" : 18]>
net (float[2,4] x) => (float[2,4] t2) {
  [ "/stem/Neg" ] t0 = Neg(x)
  [ "/stem/Abs" ] t1 = Abs(t0)
  [ "/head/Add" ] t2 = Add(t1, x)
}
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def written(folder: Path, name: str = "digits.py:make") -> Path:
    model = Model.from_text(NET)
    model.ir.graph[1].name = f"/{name.replace('/', '|')}/Abs"
    path = folder / "report.html"
    path.write_text(render({**report_sample.report(name), "graph": describe(model)}))
    return path


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (320, "dark")])
def test_the_report_opens_in_silence_at_every_width(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    with opened(browser, written(tmp_path), width=width, color_scheme=scheme) as found:
        found.wait_for_graph()
        assert found.complaints == []
        assert [url for url in found.requests if not url.startswith(("file:", "data:", "blob:"))] == []
        assert found.fits()
        wide = found.js(WIDE)
        assert wide == []
        assert found.page.locator("h1").inner_text() == "digits.py:make"
        assert found.js(CONTRAST) >= 4.5


# What stands out of the window to the right; tables that scroll by themselves may.
WIDE = """() => [...document.querySelectorAll("main *")]
  .filter(element => element.getBoundingClientRect().right > innerWidth + 1 && !element.closest(".table, .graph"))
  .map(element => element.outerHTML.slice(0, 80))"""
# The least contrast of text against the page, of all elements that hold text of their own; the graph has colours of its own.
CONTRAST = """() => {
  const light = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number).map(value => value / 255)
    .map(value => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
    .reduce((sum, value, index) => sum + value * [0.2126, 0.7152, 0.0722][index], 0);
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const own = element => [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
  const texts = [...document.querySelectorAll("main *")].filter(element => own(element) && !element.closest(".graph, svg"));
  return Math.min(...texts.map(element => light(getComputedStyle(element).color))
    .map(ink => (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05)));
}"""


def test_the_graph_inside_shows_the_ledger_and_leaves_the_wheel_to_the_page(browser: Any, tmp_path: Path) -> None:
    with opened(browser, written(tmp_path)) as found:
        found.wait_for_graph()
        page = found.page
        assert page.get_by_label("Colour by").input_value() == "error"
        page.locator("canvas").scroll_into_view_if_needed()
        before = found.js("() => [sardonyx.state.view.scale, scrollY]")
        page.locator("canvas").hover()
        page.mouse.wheel(0, -200)
        page.wait_for_function("y => scrollY < y", arg=before[1])
        assert found.js("() => sardonyx.state.view.scale") == before[0]
        page.locator("canvas").scroll_into_view_if_needed()
        page.locator("canvas").click(position={"x": 5, "y": 5})
        page.mouse.wheel(0, -200)
        page.wait_for_function("scale => sardonyx.state.view.scale > scale", arg=before[0])


def test_hostile_names_run_nothing(browser: Any, tmp_path: Path) -> None:
    with opened(browser, written(tmp_path, HOSTILE)) as found:
        found.wait_for_graph()
        assert found.js("() => window.hurt") is None
        assert found.complaints == []
        assert found.page.locator("img").count() == 0
        assert found.fits()


def test_the_report_prints_in_ink_without_its_tools(browser: Any, tmp_path: Path) -> None:
    with opened(browser, written(tmp_path), color_scheme="dark") as found:
        found.wait_for_graph()
        found.page.emulate_media(media="print", color_scheme="light")
        found.settle()
        assert found.js("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert not found.page.locator(".graph .bar").is_visible()
        corner = found.js("() => { const canvas = document.querySelector('canvas');"
                          " return [...canvas.getContext('2d').getImageData(0, 0, 1, 1).data]; }")  # fmt: skip
        assert corner[3] == 0, "the picture lies on the paper's own white"
        printed = found.page.pdf(format="A4", print_background=True)
        assert printed.startswith(b"%PDF")
        assert printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page/") + printed.count(b"/Type /Page ") > 0


def test_without_a_graph_there_is_no_script(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(render(report_sample.report()))
    with opened(browser, path) as found:
        assert found.page.locator("script").count() == 0
        assert "The report holds no graph." in found.page.locator("main").inner_text()
        assert found.complaints == []
