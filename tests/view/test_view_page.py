from __future__ import annotations

import json
import re
from pathlib import Path

import netron
import pytest

import sardonyx
from sardonyx.errors import BrokenModel, UsageError
from sardonyx.model import Model
from sardonyx.view import page
from sardonyx.view.page import SCRIPTS, fill, json_text, source

NET = '<ir_version: 10, opset_import: ["" : 18]> net (float[2] x) => (float[2] y) { [ "n" ] y = Neg(x) }'
WEB = Path(sardonyx.__file__).parent / "web"


def test_no_text_ends_the_script_that_holds_it() -> None:
    text = json_text({"</script>": "<!-- & -->"})
    assert not set("<>&") & set(text)
    assert json.loads(text) == {"</script>": "<!-- & -->"}


def test_a_template_is_filled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "source", lambda _: "{{one}} {{two}}")
    assert fill("any", {"one": "{{two}}", "two": "2"}) == "{{two}} 2"


def test_every_script_of_the_graph_is_in_the_page() -> None:
    assert {path.stem for path in (WEB / "graph").glob("*.js")} == set(SCRIPTS)
    assert "Permission is hereby granted" in source("vendor/dagre.LICENSE.txt")


def test_the_page_is_one_file_that_names_no_address(tmp_path: Path) -> None:
    report = sardonyx.view(Model.from_text(NET), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert report["bytes"] == len(text.encode())
    assert not re.search(r"""(src|href)=["'](?!data:)""", text)
    assert "@import" not in text


def test_a_page_needs_a_place() -> None:
    with pytest.raises(UsageError, match="no file to write"):
        sardonyx.view(Model.from_text(NET))


def test_a_bundle_shows_its_model_with_its_ledger(tmp_path: Path) -> None:
    Model.from_text(NET).save(tmp_path / "model.onnx")
    (tmp_path / "bundle.json").write_text("{}")
    ledger = {"stages": ["float"], "nodes": [{"node": "n", "tensor": "y", "error": {"float": 0.5}}]}
    (tmp_path / "report.json").write_text(json.dumps({"ledger": ledger}))
    report = sardonyx.view(tmp_path, tmp_path / "page.html", overlays=["error"])
    assert report["overlays"] == ["error", "precision"]
    (tmp_path / "report.json").write_text("{")
    with pytest.raises(BrokenModel, match=r"report\.json"):
        sardonyx.view(tmp_path, tmp_path / "page.html")


def test_netron_is_handed_the_file_and_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(netron, "start", lambda file: shown.append(file) or ("localhost", 8081))
    monkeypatch.setattr(netron, "wait", lambda: shown.append("waited"))
    path = Model.from_text(NET).save(tmp_path / "net.onnx")
    report = sardonyx.view(path, netron=True)
    assert shown == [str(path), "waited"]
    assert report["address"] == "http://localhost:8081"
    with pytest.raises(UsageError, match="only in memory"):
        sardonyx.view(Model.from_text(NET), netron=True)
