"""A child that answers, crashes, hangs or eats memory is an answer, not our end."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from sardonyx import child

PREAMBLE = "import json, os, sys, signal, time; request = json.load(sys.stdin)\n"


def call(script: str, *, timeout: float = 300, memory: int | None = None, **request: object) -> child.Outcome:
    return child.call([sys.executable, "-c", PREAMBLE + script], dict(request), timeout=timeout, memory=memory)


def answering(expression: str) -> str:
    return f"open(request['answer'], 'w').write(json.dumps({expression}))"


def test_the_child_gets_the_request_and_its_answer_comes_back() -> None:
    outcome = call(answering("{'twice': request['n'] * 2}"), n=21)
    assert outcome.end == "answered"
    assert outcome.answer == {"twice": 42}


def test_what_the_child_prints_is_kept_apart_from_the_answer() -> None:
    outcome = call("print('{\"not\": 1}'); print('warned', file=sys.stderr)\n" + answering("{'ok': True}"))
    assert outcome.answer == {"ok": True}
    assert "warned" in outcome.stderr


def test_a_child_that_is_ended_has_answered_what_it_wrote_until_then() -> None:
    outcome = call(answering("{'first': 1}") + "\ntime.sleep(600)", timeout=3)
    assert outcome.end == "timeout"
    assert outcome.answer == {"first": 1}


def test_a_native_crash_is_named_by_its_signal() -> None:
    outcome = call("os.kill(os.getpid(), signal.SIGSEGV)")
    assert outcome.end == "crashed"
    assert outcome.reason == "killed by SIGSEGV"


def test_an_uncaught_error_leaves_its_last_words() -> None:
    outcome = call("raise ValueError('the last words')")
    assert outcome.end == "crashed"
    assert outcome.reason == "ended with exit code 1"
    assert outcome.stderr.endswith("ValueError: the last words")


def test_a_child_that_hangs_is_ended_with_all_it_started() -> None:
    script = (
        "import subprocess; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('grandchild', p.pid, flush=True); time.sleep(600)"
    )
    for seconds in (2, 20, 200):  # until it has come so far as to start one
        outcome = call(script, timeout=seconds)
        assert outcome.end == "timeout"
        assert outcome.reason == f"no answer within {seconds} s"
        if "grandchild" in outcome.stderr:
            break
    assert gone(int(outcome.stderr.split()[-1]))


def gone(process: int) -> bool:
    """Whether the process ends soon; where nobody collects it, it stays as a zombie."""
    for _ in range(1000):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_a_memory_bomb_meets_its_limit() -> None:
    outcome = call("bomb = bytearray(8 << 30)", memory=1 << 30)
    assert outcome.end == "memory"
    assert outcome.reason == "ran out of the memory it was given"


def test_the_system_s_own_end_for_eating_memory_is_read_as_such() -> None:
    assert call("os.kill(os.getpid(), signal.SIGKILL)").end == "memory"


@pytest.mark.parametrize("written", ['{"half": ', "", "[1]", "\\xff"])
def test_an_answer_cut_off_in_the_middle_is_a_crash(written: str) -> None:
    outcome = call(f"open(request['answer'], 'w').write('{written}'); os._exit(9)")
    assert outcome.end == "crashed"
    assert outcome.reason == "ended with exit code 9"


def test_a_child_that_never_reads_its_request_is_no_trouble() -> None:
    outcome = child.call([sys.executable, "-c", "raise SystemExit(4)"], {"big": "x" * 1_000_000}, timeout=300)
    assert (outcome.end, outcome.reason) == ("crashed", "ended with exit code 4")


def test_telemetry_is_off_in_every_child() -> None:
    assert call(answering("{'off': os.environ['ORT_DISABLE_TELEMETRY']}")).answer == {"off": "1"}


def test_a_child_works_beside_the_block() -> None:
    with child.started([sys.executable, "-c", PREAMBLE + answering("{'done': True}")], {}, timeout=300) as outcome:
        assert outcome().answer == {"done": True}


def test_our_own_modules_run_with_this_interpreter() -> None:
    assert child.module("sardonyx.child")[0] == sys.executable
    assert child.module("sardonyx.child")[-1] == "sardonyx.child"


def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    call(answering("{}"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.heavy
def test_a_child_that_computes_without_end_meets_its_limit_of_computing_time() -> None:
    command = [sys.executable, "-c", "while True: pass"]
    outcome = child.call(command, {}, timeout=300, cpu=1)
    assert (outcome.end, outcome.reason) == ("timeout", "used up the computing time it was given")


def test_two_children_work_beside_each_other_and_end_with_the_block() -> None:
    command = [sys.executable, "-c", PREAMBLE + answering("{'process': os.getpid()}") + "\ntime.sleep(600)"]
    with child.started(command, {}, timeout=300), child.started(command, {}, timeout=0.1) as second:
        assert second().end == "timeout"


def test_leaving_the_block_kills_a_child_that_nobody_waited_for(tmp_path: Path) -> None:
    script = f"open({str(tmp_path / 'id')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with child.started([sys.executable, "-c", PREAMBLE + script], {}, timeout=300):
        while not (tmp_path / "id").exists() or not (tmp_path / "id").read_text():
            time.sleep(0.05)
    assert gone(int((tmp_path / "id").read_text()))
