"""Debian's Chromium, driven by Playwright: pages are opened as files, and every complaint of theirs is kept."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Milliseconds that a page may take for a step, on the slowest machine.
PATIENCE = 300_000


@dataclass
class Opened:
    """A page, with what it wrote to the console or asked the network for."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def js(self, script: str, argument: Any = None) -> Any:
        return self.page.evaluate(script, argument)

    def wait_for_graph(self) -> None:
        self.page.wait_for_selector("#graph[data-ready]")

    def settle(self) -> None:
        """Until the layout is done and a frame has been drawn."""
        self.page.wait_for_function("() => !document.getElementById('graph').dataset.busy")
        self.js("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def fits(self) -> bool:
        """Whether the page is no wider than its window."""
        return bool(self.js("() => document.documentElement.scrollWidth <= innerWidth"))


@contextmanager
def chromium() -> Iterator[Any]:
    """A headless browser."""
    from playwright.sync_api import sync_playwright

    binary = shutil.which("chromium")
    assert binary is not None, "the tests of pages need Debian's chromium"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=binary, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, path: Path, *, width: int = 1280, height: int = 800, **options: Any) -> Iterator[Opened]:
    """The file in a window of its own. `options` are those of a Playwright context, as color_scheme="dark"."""
    context = browser.new_context(viewport={"width": width, "height": height}, offline=True, **options)
    found = Opened(context.new_page())
    found.page.set_default_timeout(PATIENCE)
    found.page.on("console", lambda message: found.complaints.append(f"{message.type}: {message.text}"))
    found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
    found.page.on("request", lambda request: found.requests.append(request.url))
    found.page.goto(path.resolve().as_uri())
    yield found
    context.close()
