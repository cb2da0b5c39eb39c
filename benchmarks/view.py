"""What a page of 10,000 nodes costs in the browser: to open it, to open all of it, and to pan over it.

Prints its section of RESULTS.md.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

import sardonyx

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from large_graph import large

NODES, FRAMES, OPENINGS = 10_000, 120, 5
PAN = """async ([scale, frames]) => {
  const root = sardonyx.state.graph.root, times = [];
  let last = await new Promise(requestAnimationFrame);
  for (let step = 0; step < frames; step += 1) {
    sardonyx.state.view = { scale, x: 100, y: -root.height * scale * step / frames };
    sardonyx.redraw();
    const now = await new Promise(requestAnimationFrame);
    times.push(now - last);
    last = now;
  }
  return { times, boxes: sardonyx.stats.boxes };
}"""
IDLE = """async frames => {
  const times = [];
  let last = await new Promise(requestAnimationFrame);
  for (let step = 0; step < frames; step += 1) {
    const now = await new Promise(requestAnimationFrame);
    times.push(now - last);
    last = now;
  }
  return times;
}"""


def main() -> None:
    print("## View\n")
    print(
        f"A page of {NODES:,} nodes in headless Chromium: until its first picture, until every scope of it is open, and the"
    )
    print("time between frames while panning with all of them open, against the same browser with nothing to draw.\n")
    print("| graph | page | first picture | all opened | layouts | frame, near | frame, whole | frame, idle |")
    print("|---|---|---|---|---|---|---|---|")
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as scratch:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, scoped in (("with scopes", True), ("without scopes", False)):
            path = Path(scratch) / f"{scoped}.html"
            size = sardonyx.view(large(NODES, scoped=scoped), path)["bytes"]
            print(f"| {name} | {size / 1e6:.1f} MB | {' | '.join(measured(browser, path))} |", flush=True)
        browser.close()


def measured(browser: Any, path: Path) -> list[str]:
    """The cells of a row."""
    first = [opening(browser, path) for _ in range(OPENINGS)]
    page = opened(browser, path)
    started = time.perf_counter()
    page.evaluate("() => sardonyx.every(true)")
    everything = time.perf_counter() - started
    layouts = page.evaluate("() => sardonyx.layouts.computed()")
    idle = page.evaluate(IDLE, FRAMES)
    near = page.evaluate(PAN, [0.9, FRAMES])["times"]
    whole = page.evaluate(PAN, [0.02, FRAMES])["times"]
    page.close()
    frames = [f"{np.median(times):.1f} ms (95 % below {np.percentile(times, 95):.1f})" for times in (near, whole, idle)]
    return [f"{np.median(first) * 1e3:.0f} ms", f"{everything:.1f} s", str(layouts), *frames]


def opening(browser: Any, path: Path) -> float:
    started = time.perf_counter()
    page = opened(browser, path)
    seconds = time.perf_counter() - started
    page.close()
    return seconds


def opened(browser: Any, path: Path) -> Any:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(path.as_uri())
    page.wait_for_selector("#graph[data-ready]")
    return page


if __name__ == "__main__":
    main()
