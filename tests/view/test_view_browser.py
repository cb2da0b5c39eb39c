"""The page of a graph in a real browser: it opens in silence, answers to hands and keys, and stays light when it is large."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

import real
import sardonyx
from browsing import Opened, chromium, opened
from large_graph import large
from report_sample import HOSTILE
from sardonyx.model import Model

pytestmark = pytest.mark.heavy
LEGENDS = {
    "precision": "float32",
    "provider": "CPU",
    "diff": "changed",
    "error": "root mean square",
    "": "matrix products",
}
SIZES = {"input.0": 1, "input.1": 512}
# Where an item is on the screen: its middle, near its top.
SPOT = """item => {
  const { x, y, scale } = sardonyx.state.view, box = document.querySelector("canvas").getBoundingClientRect();
  return [box.left + (item.left + item.width / 2) * scale + x, box.top + (item.top + 8) * scale + y];
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages that several tests open."""
    folder = tmp_path_factory.mktemp("pages")
    vad = real.path("silero_vad/data/silero_vad_16k_op15.onnx")
    sardonyx.view(
        vad, folder / "vad.html", overlays=["time", "provider", "error", "diff"], against=changed(vad), sizes=SIZES
    )
    sardonyx.view(large(10_000, scoped=True), folder / "scoped.html")
    sardonyx.view(large(10_000, scoped=False), folder / "flat.html")
    return {path.stem: path for path in folder.iterdir()}


def changed(path: Path) -> Model:
    """The model with one weight a little larger."""
    model = Model.load(path)
    weight = next(value for value in model.ir.graph.initializers.values() if value.const_value.size > 1000)
    weight.const_value = ir.Tensor(weight.const_value.numpy() * np.float32(1.01), name=weight.name)
    return model


def graph_of(found: Opened) -> Opened:
    found.wait_for_graph()
    return found


def test_a_real_model_opens_in_silence_without_the_network(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["vad"]) as found:
        graph_of(found)
        assert found.complaints == []
        assert [url for url in found.requests if not url.startswith(("file:", "data:", "blob:"))] == []
        assert found.js("() => sardonyx.stats.boxes") > 10
        assert found.fits()


def test_search_counts_lists_and_goes_to_what_it_found(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["vad"]) as found:
        page = graph_of(found).page
        page.get_by_label("Search nodes").fill("lstm")
        assert page.locator(".count").inner_text() == "2 matches"
        assert page.locator(".results li").count() == 2
        page.keyboard.press("Enter")
        page.wait_for_selector(".details h2:has-text('LSTM')")
        found.settle()
        assert found.js("() => sardonyx.state.selected.about.op") == "LSTM"
        middle, top = found.js(f"() => ({SPOT})(sardonyx.state.selected)")
        assert 0 < middle < 940
        assert 0 < top < 800
        page.get_by_label("Search nodes").fill("there is no such node")
        assert page.locator(".count").inner_text() == "0 matches"
        assert not page.locator(".results").is_visible()


def test_the_details_show_attributes_shapes_and_statistics_of_weights(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["vad"]) as found:
        page = graph_of(found).page
        page.get_by_label("Search nodes").fill("Conv")
        page.keyboard.press("Enter")
        words = page.locator(".details").inner_text().lower()
        assert all(word in words for word in ("attributes", "strides", "inputs", "float32", "min", "std", "zeros"))
        assert page.locator(".details svg rect").count() == 32


def test_every_overlay_colours_nodes_and_has_a_legend(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["vad"]) as found:
        page = graph_of(found).page
        choice = page.get_by_label("Colour by")
        assert choice.input_value() == "time"
        pictures = {found.js("() => document.querySelector('canvas').toDataURL()")}
        for name, legend in LEGENDS.items():
            choice.select_option(name)
            found.settle()
            assert legend in page.locator(".legend").inner_text()
            assert page.locator(".legend i").count() > 0
            pictures.add(found.js("() => document.querySelector('canvas').toDataURL()"))
        assert len(pictures) == 6
        assert found.complaints == []


def test_a_scope_opens_and_closes_by_hand(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["scoped"]) as found:
        page = graph_of(found).page
        found.js("() => sardonyx.every(false)")
        found.settle()
        closed = found.js("() => sardonyx.stats.boxes")
        middle, top = found.js(
            f"() => ({SPOT})(sardonyx.state.graph.root.children.find(child => child.type === 'scope'))"
        )
        page.mouse.dblclick(middle, top)
        page.wait_for_function("() => sardonyx.state.graph.root.children.some(child => child.open && child.arranged)")
        found.settle()
        assert found.js("() => sardonyx.stats.boxes") != closed
        page.get_by_role("button", name="Close this scope").click()
        found.settle()
        assert found.js("() => sardonyx.state.graph.root.children.some(child => child.open)") is False


def test_hands_and_keys_pan_and_zoom(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["vad"]) as found:
        page = graph_of(found).page
        view = "() => ({ ...sardonyx.state.view })"
        before = found.js(view)
        page.mouse.move(300, 400)
        page.mouse.down()
        page.mouse.move(360, 430, steps=3)
        page.mouse.up()
        panned = found.js(view)
        assert (panned["x"] - before["x"], panned["y"] - before["y"]) == (60, 30)
        page.mouse.wheel(0, -300)
        page.wait_for_function("scale => sardonyx.state.view.scale > scale", arg=panned["scale"])
        page.locator("canvas").focus()
        page.keyboard.press("-")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("/")
        assert found.js("() => document.activeElement.type") == "search"


@pytest.mark.parametrize("name", ["scoped", "flat"])
def test_ten_thousand_nodes_open_with_few_boxes_and_few_layouts(
    browser: Any, pages: dict[str, Path], name: str
) -> None:
    with opened(browser, pages[name]) as found:
        graph_of(found)
        assert found.js("() => sardonyx.state.graph.leaves.length") == 10_000
        assert found.js("() => sardonyx.layouts.computed()") < 12
        assert found.js("() => sardonyx.stats.visited") < 500
        assert found.complaints == []


def test_ten_thousand_open_nodes_are_culled_while_panning(browser: Any, pages: dict[str, Path]) -> None:
    """Every frame draws what is in the window and no more, near or far."""
    with opened(browser, pages["scoped"]) as found:
        graph_of(found)
        found.js("() => sardonyx.every(true)")
        found.settle()
        assert found.js("() => sardonyx.layouts.computed()") < 40, "equal blocks share a layout"
        drawn = found.js("""async () => {
          const seen = { boxes: 0, visited: 0, frames: 0 }, root = sardonyx.state.graph.root, before = sardonyx.stats.frames;
          for (const scale of [0.9, 0.3, 0.05]) for (let step = 0; step < 10; step += 1) {
            sardonyx.state.view = { scale, x: 100, y: -root.height * scale * step / 10 };
            sardonyx.redraw();
            await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
            seen.boxes = Math.max(seen.boxes, sardonyx.stats.boxes);
            seen.visited = Math.max(seen.visited, sardonyx.stats.visited);
          }
          return { ...seen, frames: sardonyx.stats.frames - before };
        }""")
        assert drawn["frames"] == 30, "one frame for each movement"
        assert 10 < drawn["boxes"] < 1500
        assert drawn["visited"] < 3000


def test_a_far_node_of_ten_thousand_is_found_and_shown(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["flat"]) as found:
        page = graph_of(found).page
        page.get_by_label("Search nodes").fill("node_9876")
        page.keyboard.press("Enter")
        page.wait_for_selector(".details:has-text('node_9876')")
        found.settle()
        middle, top = found.js(f"() => ({SPOT})(sardonyx.state.selected)")
        page.mouse.click(middle, top)
        assert found.js("() => sardonyx.state.selected.about.name") == "node_9876"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light"), (320, "dark")])
def test_the_page_fits_a_phone_and_the_dark(browser: Any, pages: dict[str, Path], width: int, scheme: str) -> None:
    with opened(browser, pages["vad"], width=width, height=700, color_scheme=scheme) as found:
        graph_of(found)
        assert found.fits()
        assert found.js("() => document.documentElement.scrollHeight <= innerHeight")
        bright = found.js("() => getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0] > 128")
        assert bright == (scheme == "light")
        assert found.complaints == []


def test_hostile_names_are_text(browser: Any, tmp_path: Path) -> None:
    model = large(30, scoped=True)
    for node in model.ir.graph:
        node.name = f"/{HOSTILE.replace('/', '|')}/{HOSTILE}"
        node.doc_string = HOSTILE
    model.ir.graph.inputs[0].name = HOSTILE
    sardonyx.view(model, tmp_path / "page.html", overlays=["precision"])
    with opened(browser, tmp_path / "page.html") as found:
        page = graph_of(found).page
        page.get_by_label("Search nodes").fill("onerror")
        page.keyboard.press("Enter")
        found.settle()
        assert HOSTILE in page.locator(".details").inner_text()
        assert found.js("() => window.hurt") is None
        assert found.complaints == []
