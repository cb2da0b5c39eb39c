"""The page of a model or a bundle on disk, or Netron instead of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sardonyx import progress, registry
from sardonyx.errors import BrokenModel, UsageError
from sardonyx.files import must_be_writable, write_text
from sardonyx.model import Model
from sardonyx.report import Report, Table, human_bytes
from sardonyx.view.graph import describe
from sardonyx.view.overlay import names
from sardonyx.view.page import render

BUNDLE, MODEL, REPORT = "bundle.json", "model.onnx", "report.json"
# Costs nothing, so every page has it.
ALWAYS = "precision"


def write_page(model: str | Path | Model, output: str | Path | None, overlays: Sequence[str], **looking: Any) -> Report:
    """Describes the model and writes its page."""
    if output is None:
        raise UsageError("there is no file to write the page to", hint="name one: sardonyx view M -o page.html")
    wrong = [name for name in overlays if name not in names()]
    if wrong:
        raise UsageError(f"there is no overlay '{wrong[0]}'", hint=f"the overlays are {', '.join(names())}")
    must_be_writable(output)
    opened, ledger = _opened(model)
    wanted = list(dict.fromkeys((*overlays, ALWAYS)))
    described = describe(opened, overlays=wanted, ledger=ledger, **looking)
    text = render(described, overlay=overlays[0] if overlays else "")
    write_text(output, text)
    shown = tuple((found["title"].lower(), len(found["values"]), _counted(found)) for found in described["overlays"])
    nodes, scopes = len(described["nodes"]), len(described["scopes"])
    return Report(
        "view", "ok", True,
        fields={"path": str(output), "nodes": nodes, "scopes": scopes, "bytes": len(text.encode()), "overlays": wanted},
        tables=(Table("overlays", ("overlay", "nodes", "what it says"), shown),),
        summary=f"{nodes:,} nodes to {output} ({human_bytes(len(text.encode()))}); open it in a browser",
    )  # fmt: skip


def open_netron(model: str | Path | Model) -> Report:
    """Serves the model to Netron in the browser until the user stops it."""
    registry.need("netron", for_what="view --netron")
    import netron

    path = Model.load(_opened(model)[0]).path
    if path is None:
        raise UsageError("Netron opens a file, and this model is only in memory", hint="save it first")
    host, port = netron.start(str(path))
    with progress.task(f"Netron shows {path.name} at http://{host}:{port}; stop it with Ctrl-C"):
        netron.wait()
    return Report(
        "view", "ok", True, fields={"path": None, "address": f"http://{host}:{port}"}, summary="Netron has ended"
    )


def _counted(overlay: Mapping[str, Any]) -> str:
    """What an overlay says in all: its words with their counts, or its note."""
    if overlay["kind"] == "number":
        return str(overlay["note"])
    words = Counter(overlay["values"].values())
    return ", ".join(filter(None, (*(f"{count} {word}" for word, count in words.most_common()), overlay["note"])))


def _opened(model: str | Path | Model) -> tuple[str | Path | Model, Mapping[str, Any] | None]:
    """The model to show, and the ledger where it lies in a bundle."""
    if isinstance(model, Model) or not (Path(model) / BUNDLE).is_file():
        return model, None
    folder = Path(model)
    try:
        report = json.loads((folder / REPORT).read_text(encoding="utf-8"))
        return folder / MODEL, report.get("ledger")
    except (OSError, ValueError, AttributeError) as error:
        raise BrokenModel(f"the bundle {folder} has no {REPORT} that can be read", hint="ship it again") from error
