"""What ship, verify and package read back from a folder is a stranger's: it is checked, copied by its hash, or left alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import onnx
import pytest

import sardonyx
from bundling import QUICK, SKIP, by_hand, must_verify, network, resealed, write_inputs
from mutating import snapshot
from sardonyx import machine
from sardonyx.bundle import page, stages
from sardonyx.bundle.contents import canonical, digest, read_record
from sardonyx.bundle.settings import Settings
from sardonyx.bundle.work import at_work
from sardonyx.errors import BrokenModel, InputError, OutputError, UnsafePath
from sardonyx.files import sha256


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shipped")
    write_inputs(folder)
    assert ship(folder).verdict == "shipped"
    return folder


@pytest.fixture
def folder(shipped: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(shipped, tmp_path / "desk"))


def ship(folder: Path) -> Any:
    skip = (*SKIP, "bench", "compare", "check")
    return sardonyx.ship(
        folder / "net.onnx",
        folder / "bundle",
        data=folder / "rows.npz",
        settings={"golden": QUICK["golden"]},
        skip=skip,
    )


def forged(folder: Path, change: Any) -> None:
    """The shipped bundle with provenance as `change` makes it, sealed as if ship had written it."""
    record = read_record(folder / "bundle")
    change(record["provenance"])
    record["digest"] = digest(record)
    (folder / "bundle" / "bundle.json").write_text(canonical(record))


@pytest.mark.rest
@pytest.mark.heavy
@pytest.mark.parametrize("name", ["../victim", "/{place}/victim", "sub/../../victim", "bundle.json", "report.html"])
def test_outputs_of_a_hostile_bundle_overwrite_nothing(folder: Path, name: str) -> None:
    """The record says that a stage wrote a file outside, with the hash of a file that the bundle has."""
    (folder / "victim").write_text("mine")
    name = name.format(place=str(folder).lstrip("/"))
    bytes_of_theirs = sha256(folder / "bundle" / "golden.safetensors")
    forged(folder, lambda found: found[0]["outputs"].update({name: bytes_of_theirs}))
    report = ship(folder)
    assert report.verdict == "shipped"
    assert "convert" not in report["resumed"], "a stage with such a name is not taken over"
    assert (folder / "victim").read_text() == "mine"
    assert sorted(path.name for path in folder.iterdir()) == ["bundle", "net.onnx", "rows.npz", "victim"]
    must_verify(folder / "bundle")


@pytest.mark.rest
@pytest.mark.heavy
def test_a_link_in_the_place_of_the_unfinished_work_is_not_followed(folder: Path) -> None:
    (folder / "theirs" / "bundle").mkdir(parents=True)
    (folder / "theirs" / "stages").mkdir()
    (folder / "theirs" / "bundle" / "thesis.txt").write_text("years of work")
    for link in ("bundle.unfinished", "bundle.unfinished/bundle", "bundle.unfinished/old"):
        (folder / "bundle.unfinished").mkdir() if "/" in link else None
        (folder / link).symlink_to(folder / "theirs" if "/" not in link else folder / "theirs" / "bundle")
        before = snapshot(folder / "theirs")
        with pytest.raises(OutputError, match="in the way"):
            ship(folder)
        assert snapshot(folder / "theirs") == before
        (folder / link).unlink()
        shutil.rmtree(folder / "bundle.unfinished", ignore_errors=True)


@pytest.mark.heavy
def test_links_and_pipes_among_the_unfinished_work_are_removed_and_not_opened(folder: Path) -> None:
    made = folder / "bundle.unfinished" / "bundle"
    made.mkdir(parents=True)
    (folder / "bundle.unfinished" / "stages").mkdir()
    (folder / "victim").write_text("mine")
    (made / "float.onnx").symlink_to(folder / "victim")
    os.mkfifo(made / "model.onnx")
    os.link(folder / "victim", made / "golden.safetensors")
    assert ship(folder).verdict == "shipped"
    assert (folder / "victim").read_text() == "mine"
    must_verify(folder / "bundle")


@pytest.mark.heavy
@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "[" * 100_000, "{}", '{"provenance": 1, "told": 2}', '{"provenance": {"stage": []}}', "\0"],
)
def test_an_unfinished_stage_that_is_none_is_run_anew(folder: Path, text: str) -> None:
    stored = folder / "bundle.unfinished" / "stages"
    stored.mkdir(parents=True)
    (stored / "convert.json").write_text(text)
    os.mkfifo(stored / "golden.json")
    (stored / "check.json").symlink_to("/dev/zero")
    job = stages.Job(
        folder / "net.onnx", folder / "bundle.unfinished" / "bundle", folder / "rows.npz", Settings(QUICK, SKIP)
    )
    with at_work(folder / "bundle") as work:
        for stage in stages.STAGES:
            work.take(stage.name, stage.key(job, stage.inputs(job)))


@pytest.mark.rest
@pytest.mark.heavy
def test_stages_that_do_not_fit_together_are_run_anew(folder: Path) -> None:
    """Every word of the right type, and a ledger that nothing can be made of."""
    path = folder / "bundle" / "report.json"
    report = json.loads(path.read_text())
    for stage in report["stages"]:
        if stage["stage"] == "golden":
            stage["tolerances"] = 7
            stage.pop("noise")
    path.write_text(json.dumps(report))
    resealed(folder / "bundle")
    report = ship(folder)
    assert report.verdict == "shipped"
    assert report["resumed"] == []
    must_verify(folder / "bundle")


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return by_hand(tmp_path / "bundle")


def test_a_name_of_two_lines_cannot_pass_for_a_verdict(bundle: Path) -> None:
    name = "x\nverified  everything is fine\x1b[8m"
    record = read_record(bundle)
    record["files"][name], record["sizes"][name] = "0", 1
    record["digest"] = digest(record)
    (bundle / "bundle.json").write_text(canonical(record))
    text = sardonyx.verify(bundle).to_text()
    assert "tampered" in text
    assert "\x1b" not in text
    assert not any(line.strip().startswith("verified") for line in text.splitlines())


def test_a_bundle_larger_than_the_machine_is_refused_before_it_is_hashed(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (bundle / "sparse").open("wb") as file:
        file.truncate(300 << 30)
    record = read_record(bundle)
    record["files"]["sparse"], record["sizes"]["sparse"] = "0" * 64, 300 << 30
    record["digest"] = digest(record)
    (bundle / "bundle.json").write_text(canonical(record))
    monkeypatch.setattr(machine, "memory_bytes", lambda: 16 << 30)
    with pytest.raises(InputError, match=r"says that its files have 300\.0 GiB"):
        sardonyx.verify(bundle)


def test_a_sparse_file_of_another_size_than_recorded_is_not_hashed(bundle: Path) -> None:
    with (bundle / "model.onnx").open("r+b") as file:
        file.truncate(300 << 30)
    report = sardonyx.verify(bundle)
    assert report.verdict == "tampered"
    assert "instead of" in report.summary + str(report["files"])


STRANGE_FACTS: dict[str, Any] = {
    "versions that are no texts": {"versions": {"onnxruntime": 1}},
    "features that are no table": {"machine": {"features": [1, 2]}},
    "threads that are no number": {"machine": {"threads": "four"}},
    "stages that are no objects": {"provenance": [1, 2]},
    "no digest of a text": {"digest": 3},
}


@pytest.mark.parametrize("fault", STRANGE_FACTS)
def test_a_record_of_another_form_is_named_and_never_a_traceback(bundle: Path, fault: str) -> None:
    record = {**read_record(bundle), **STRANGE_FACTS[fault]}
    record["digest"] = record["digest"] if record["digest"] == 3 else digest(record)
    (bundle / "bundle.json").write_text(canonical(record))
    report = sardonyx.verify(bundle)
    assert report.verdict == "tampered"
    assert [file["name"] for file in report["files"]] == ["bundle.json"]


def test_metrics_of_another_form_are_no_claims(bundle: Path) -> None:
    from sardonyx.bundle.claims import claims

    record = read_record(bundle)
    for speed in (3, "fast", {"ratio": "x"}, {"ratio": 1, "low": None, "high": 2}, [1]):
        strange = {**record, "metrics": {"speed": speed, "quantize": speed, "optimize": {"speedup": speed}}}
        assert claims(strange, {}, {"cpu": "", "features": {}, "threads": 1}) == []


REPLAY = """
import sys
import sardonyx
from sardonyx import child
started = child.subprocess.Popen
def tell(*words, **options):
    process = started(*words, **options)
    print(process.pid, flush=True)
    return process
child.subprocess.Popen = tell
sardonyx.verify(sys.argv[1])
"""


@pytest.mark.heavy
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_replay_ends_with_the_verify_that_started_it(tmp_path: Path) -> None:
    """A model that runs for minutes, and a verify that is killed meanwhile."""
    text = """<ir_version: 10, opset_import: ["": 20]> g (float[n] x) => (float[n] y)
    <int64 count = {1}, bool go = {1}>
    { y = Loop(count, go, x) <body = b (int64 i, bool c, float[n] a) => (bool d, float[n] e) { d = Identity(c) e = Neg(a) }> }"""
    endless = sardonyx.Model.from_text(text)
    bundle = by_hand(tmp_path / "bundle", endless)
    proto = onnx.load(bundle / "model.onnx")
    proto.graph.initializer[0].CopyFrom(
        onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(proto.graph.initializer[0]) * (1 << 50), "count")
    )
    onnx.save(proto, bundle / "model.onnx")
    resealed(bundle)
    with subprocess.Popen([sys.executable, "-c", REPLAY, bundle], stdout=subprocess.PIPE) as verify:
        assert verify.stdout is not None
        replay = Path("/proc") / verify.stdout.readline().decode().strip()
        until = time.monotonic() + 120
        while b"_replay" not in (replay / "cmdline").read_bytes() or not _computes(replay):
            assert time.monotonic() < until
            time.sleep(0.05)
        verify.send_signal(signal.SIGKILL)
    while _runs(replay):
        assert time.monotonic() < until, "the replay outlives its verify"
        time.sleep(0.05)


def _computes(process: Path) -> bool:
    """Whether it has used more than a second and a half of computing time, and so has come to the model."""
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) > 1.5 * os.sysconf("SC_CLK_TCK")


def _runs(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    "fault", ["unhashed weights", "linked weights", "linked golden cases", "unlisted golden cases", "none"]
)
def test_package_copies_only_what_the_record_names_with_these_bytes(tmp_path: Path, bundle: Path, fault: str) -> None:
    import onnx_ir as ir

    model = network()
    ir.save(model.ir, bundle / "model.onnx", external_data="w.data", size_threshold_bytes=0)
    record = read_record(bundle)
    record["files"]["w.data"] = ""
    record["sizes"]["w.data"] = 0
    record["digest"] = digest(record)
    (bundle / "bundle.json").write_text(canonical(record))
    resealed(bundle)
    if fault == "unhashed weights":
        (bundle / "w.data").write_bytes(bytes((bundle / "w.data").stat().st_size))
    if fault == "linked weights":
        (bundle / "w.data").rename(tmp_path / "secret")
        (bundle / "w.data").symlink_to(tmp_path / "secret")
    if fault == "linked golden cases":
        (bundle / "golden.safetensors").rename(tmp_path / "secret")
        (bundle / "golden.safetensors").symlink_to(tmp_path / "secret")
    if fault == "unlisted golden cases":
        record = read_record(bundle)
        record["files"].pop("golden.safetensors")
        (bundle / "bundle.json").write_text(json.dumps(record))
    if fault == "none":
        assert sardonyx.package(bundle, tmp_path / "out", target="triton").ok
        assert (tmp_path / "out" / "bundle" / "1" / "w.data").read_bytes() == (bundle / "w.data").read_bytes()
        return
    with pytest.raises((BrokenModel, UnsafePath)):
        sardonyx.package(bundle, tmp_path / "out", target="triton")
    assert not (tmp_path / "out").exists()


def test_a_page_of_hostile_words_is_inert() -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m"
    stage = {
        "stage": evil, "verb": evil, "verdict": evil, "ok": True, "summary": evil, "seconds": 1,
        "tables": [{"title": evil, "columns": [evil], "rows": [[evil]]}], "findings": [],
    }  # fmt: skip
    names = ("convert", "check", "compare", "optimize", "quantize", "bench", "golden")
    report = {
        "verb": "ship", "verdict": evil, "ok": True, "source": evil, "summary": evil, "machine": {"cpu": evil},
        "stages": [{**stage, "stage": name} for name in names], "provenance": [{"stage": evil, "versions": {evil: evil}}],
        "graph": {"nodes": [], "values": [], "overlays": [], "name": evil},
    }  # fmt: skip
    text = page.render(report)
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert "\x1b" not in text
