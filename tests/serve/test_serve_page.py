"""The page to try a model by hand, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import serving
from browsing import PATIENCE
from sardonyx.model import Model
from serving import Running

pytestmark = pytest.mark.heavy
playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = "/usr/bin/chromium"
# The mean of each colour, so that the answer says how the picture was read.
COLOURS = "(float[n,3,8,8] image) => (float[n,3,1,1] mean) { mean = GlobalAveragePool(image) }"


@pytest.fixture(scope="module")
def trying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    source = serving.repository(tmp_path_factory.mktemp("try"), ("tiny", "pair"))
    (source / "colours" / "1").mkdir(parents=True)
    Model.from_text(serving.HEAD + COLOURS).save(source / "colours" / "1" / "model.onnx")
    with serving.running(source) as running:
        yield running


@pytest.fixture
def page(trying: Running) -> Iterator[Any]:
    """The page, which must not complain on its console."""
    complaints: list[str] = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.goto(f"http://{trying.http}/")
        page.wait_for_selector("#inputs textarea")
        yield page
        browser.close()
    assert complaints == []


def test_numbers_are_typed_and_the_answer_comes_with_its_time(page: Any) -> None:
    page.select_option("#model", "tiny")
    page.wait_for_selector("#input-x")
    page.fill("#input-x", "[[1, 2, 3, 4]]")
    page.click("button")
    page.wait_for_selector("#best table")
    assert "70, 80, 90" in page.inner_text("#answer")
    assert page.inner_text("#status").startswith("answered in ")
    assert page.inner_text("#best tr:nth-child(2)").split() == ["2", "90.0000"]


def test_what_the_server_refuses_is_said(trying: Running) -> None:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(f"http://{trying.http}/")
        page.wait_for_selector("#inputs textarea")
        page.select_option("#model", "tiny")
        page.wait_for_selector("#input-x")
        page.fill("#input-x", "[[1, 2]]")
        page.click("button")
        playwright.expect(page.locator("#status")).to_contain_text("the model takes", timeout=PATIENCE)
        browser.close()


def test_a_picture_is_uploaded_and_read_as_the_model_wants_it(page: Any, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.zeros((16, 16, 3), np.uint8)
    pixels[..., 0], pixels[..., 2] = 255, 51
    image.fromarray(pixels).save(tmp_path / "red.png")
    page.select_option("#model", "colours")
    page.wait_for_selector("#input-image")
    page.set_input_files("input[type=file]", tmp_path / "red.png")
    playwright.expect(page.locator("#input-image")).to_have_value(re.compile("^the picture"), timeout=PATIENCE)
    page.click("button")
    page.wait_for_selector("#answer:not([hidden])")
    found = page.evaluate("JSON.parse(document.getElementById('answer').textContent).mean[0].flat(2)")
    np.testing.assert_allclose(found, [1, 0, 0.2], atol=1e-3)
