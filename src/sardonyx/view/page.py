"""Pages put together from the sources in `web`: one file each, with nothing to fetch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

# In this order: each uses what stands before it.
SCRIPTS = ("hierarchy", "arrange", "colours", "canvas", "panel", "listen", "view")
_SLOT = re.compile(r"\{\{(\w+)\}\}")
# Inside a script element, these could end it or start a comment; JSON may write any of them as an escape.
_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def render(described: Mapping[str, Any], *, overlay: str = "") -> str:
    """The page of one graph, coloured by `overlay` when it opens."""
    title = f"{described['model']['name']}: graph"
    slots = {
        "title": escape(title),
        "style": source("page.css") + source("graph.css"),
        "graph": graph_part(described, overlay=overlay),
    }
    return fill("view.html", slots)


def graph_part(described: Mapping[str, Any], *, overlay: str = "", embedded: bool = False) -> str:
    """The elements that draw a graph into the element with the id `graph`."""
    scripts = "\n".join(source(f"graph/{name}.js") for name in SCRIPTS)
    licence = source("vendor/dagre.LICENSE.txt")
    options = json_text({"overlay": overlay, "embedded": embedded})
    start = (
        "const read = id => document.getElementById(id).textContent;\n"
        f'const options = {{ ...{options}, dagre: read("dagre") }};\n'
        'window.sardonyx = mount(document.getElementById("graph"), JSON.parse(read("graph-data")), options);\n'
    )
    return (
        f'<script type="application/json" id="graph-data">{json_text(described)}</script>\n'
        f'<script type="text/plain" id="dagre">/* {licence} */\n{source("vendor/dagre.min.js")}</script>\n'
        f'<script>\n"use strict";\n(() => {{\n{scripts}\n{start}}})();\n</script>'
    )


def fill(template: str, slots: Mapping[str, str]) -> str:
    """A template with every `{{slot}}` filled in one pass, so that what is filled in is never a template itself."""
    return _SLOT.sub(lambda match: slots[match[1]], source(template))


def json_text(value: Any) -> str:
    """JSON that may stand inside a script element, whatever the names in a model are."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&]", lambda match: _ESCAPED[match[0]], text)


@cache
def source(name: str) -> str:
    """A file of `web`."""
    return files("sardonyx").joinpath("web", *name.split("/")).read_text(encoding="utf-8")
