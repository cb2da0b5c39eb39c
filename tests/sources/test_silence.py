"""What exporters print stays off the caller's terminal, and nothing else is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sardonyx.sources.workers._silence import silent

WORKERS = Path(__file__).parent.parent.parent / "src" / "sardonyx" / "sources" / "workers"
NOISY = """import os, sys, warnings
import torch


class Noisy(torch.nn.Module):
    def forward(self, x):
        print("printed")
        warnings.warn("warned")
        os.write(1, b"to stdout itself\\n")
        os.write(2, b"to stderr itself\\n")
        if x.sum() > 0:
            return torch.fft.rfft(x).abs()
        return torch.fft.rfft(-x).abs()
"""


def say(word: str) -> None:
    for stream, descriptor in ((sys.stdout, 1), (sys.stderr, 2)):
        stream.write(f"{word}\n")
        stream.flush()
        os.write(descriptor, word.encode() + b"\n")


def test_nothing_inside_is_seen_and_everything_around_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    say("before")
    with silent():
        say("inside")
        with silent():
            say("deep inside")
        say("still inside")
    say("after")
    for seen in capfd.readouterr():
        assert seen.split() == ["before", "before", "after", "after"]


def test_an_error_puts_the_streams_back(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="inside"), silent():
        raise ValueError("inside")
    say("after")
    assert capfd.readouterr().out.split() == ["after", "after"]


def test_blocks_of_several_threads_end_in_any_order(capfd: pytest.CaptureFixture[str]) -> None:
    first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        with silent():
            first_in.set()
            second_in.wait(60)
        first_out.set()

    thread = threading.Thread(target=first)
    thread.start()
    first_in.wait(60)
    with silent():
        second_in.set()
        first_out.wait(60)
        say("inside")
    thread.join()
    say("after")
    assert capfd.readouterr().out.split() == ["after", "after"]


def test_a_program_without_a_terminal_may_be_silent_too() -> None:
    script = "import os, sys\nos.close(1)\nsys.path.insert(0, sys.argv[1])\nfrom _silence import silent\nwith silent(): pass\n"
    done = subprocess.run([sys.executable, "-c", script, str(WORKERS)], stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.rest
@pytest.mark.heavy
def test_a_live_module_is_converted_by_every_route_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    import sardonyx

    (tmp_path / "noisy_module.py").write_text(NOISY)
    monkeypatch.syspath_prepend(str(tmp_path))
    from noisy_module import Noisy

    capfd.readouterr()
    report = sardonyx.convert(Noisy(), tmp_path / "m.onnx", inputs=["x=float32[batch,8]"])
    assert {item["route"] for item in report["candidates"]} == {"dynamo", "script", "trace"}
    assert capfd.readouterr() == ("", "")


@pytest.mark.heavy
@pytest.mark.rest
def test_libraries_that_write_to_the_terminal_themselves_are_not_seen(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    catboost = pytest.importorskip("catboost")
    import sardonyx

    rows = [[float(i), float(i % 3)] for i in range(30)]
    model = catboost.CatBoostClassifier(iterations=3, verbose=0, allow_writing_files=False).fit(
        rows, [i % 2 for i in range(30)]
    )
    capfd.readouterr()
    assert sardonyx.convert(model, tmp_path / "m.onnx").ok
    assert capfd.readouterr() == ("", "")
