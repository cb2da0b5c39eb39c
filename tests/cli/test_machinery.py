"""The contract itself, shown on a verb that does whatever a test wants."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

from sardonyx import errors
from sardonyx.cli import _contract
from sardonyx.report import Report

VERB = """
import os, subprocess, sys, time
import typer
from sardonyx import errors, files, progress
from sardonyx.cli import _contract, _interrupt
from sardonyx.report import Report

def verb(word: str = "") -> Report:
    BODY

def build():
    app = typer.Typer(add_completion=False)
    app.command("verb")(_contract.keeps("verb", verb))
    app.callback()(lambda: None)
    return app

_interrupt.listen()
sys.exit(_contract.call(build, sys.argv[1:]))
"""
GOOD = "return Report('verb', 'fine', True, {'number': 1})"


def script(body: str) -> list[str]:
    return [sys.executable, "-c", VERB.replace("BODY", body.strip().replace("\n", "\n    ")), "verb"]


def run(body: str, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
    given = {"capture_output": True, "text": True, **options}
    return subprocess.run([*script(body), *words], **given)  # type: ignore[call-overload,no-any-return]


def test_a_good_verdict_is_exit_0_and_a_bad_one_exit_1() -> None:
    assert run(GOOD).returncode == 0
    assert run(GOOD.replace("True", "False")).returncode == 1


def test_json_is_one_object_with_the_fields_of_the_report() -> None:
    done = run(GOOD, "--json")
    assert json.loads(done.stdout) == {"verb": "verb", "ok": True, "verdict": "fine", "number": 1, "findings": []}
    assert done.stderr == ""


@pytest.fixture
def raising(capfd: pytest.CaptureFixture[str]) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """Calls a verb that raises, in this process, and gives exit code, stdout and stderr."""
    before = signal.getsignal(signal.SIGTERM)

    def call(error: BaseException, *words: str) -> tuple[int, str, str]:
        def verb() -> Report:
            raise error

        def build() -> typer.Typer:
            app = typer.Typer(add_completion=False)
            app.command("verb")(_contract.keeps("verb", verb))
            app.callback()(lambda: None)
            return app

        code = _contract.call(build, ["verb", *words])
        return code, *capfd.readouterr()

    yield call
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("error", "code", "exit_code"),
    [
        (errors.InputError("no good", hint="try again"), "bad-input", 2),
        (errors.MissingExtra("this", "torch"), "missing-extra", 3),
        (OSError(28, "No space left on device", "out.bin"), "output", 2),
        (OSError("odd"), "output", 2),
        (MemoryError(), "internal", 2),
        (RecursionError("deep"), "internal", 2),
        (AssertionError(), "internal", 2),
        (KeyboardInterrupt(), "interrupted", 130),
    ],
    ids=repr,
)
def test_every_error_has_a_code_a_hint_and_no_traceback(
    raising: Callable[..., tuple[int, str, str]], error: BaseException, code: str, exit_code: int
) -> None:
    ended, stdout, stderr = raising(error)
    assert ended == exit_code
    assert stdout == ""
    said, hint = stderr.splitlines()
    assert said.startswith(f"error[{code}]: ")
    assert hint.startswith("hint: ")

    ended, stdout, stderr = raising(error, "--json")
    assert ended == exit_code
    assert stderr == ""
    answer = json.loads(stdout)
    assert (answer["verb"], answer["ok"], answer["verdict"]) == ("verb", False, "error")
    assert answer["error"]["code"] == code
    assert answer["error"]["hint"]


def test_a_name_in_an_error_cannot_steer_the_terminal_or_pass_for_a_line_of_ours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = "a\x1b[2Jb\x9bc\rd\u202ee\nhint: run this\n  f"
    _contract._say_error("verb", errors.InputError(f"{name} is off", hint=name), json=False)
    said = capsys.readouterr().err
    assert not set(said) & set("\x1b\x9b\r\u202e")
    assert said.count("\nhint:") == 1
    assert "\n  hint: run this\n  f is off\n" in said


def test_debug_shows_the_traceback_and_keeps_the_exit_code() -> None:
    done = run("raise errors.MissingExtra('this', 'torch')", "--debug", "--json")
    assert done.returncode == 3
    assert "Traceback (most recent call last)" in done.stderr
    assert json.loads(done.stdout)["error"]["code"] == "missing-extra"


def test_what_a_library_prints_does_not_reach_stdout() -> None:
    noise = "print('noise'); os.write(1, b'native noise\\n'); subprocess.run(['echo', 'child noise'])\n"
    done = run(noise + GOOD, "--json")
    assert json.loads(done.stdout)["verdict"] == "fine"
    assert {"noise", "native noise", "child noise"} == set(done.stderr.splitlines())


@pytest.mark.parametrize("words", [[], ["--json"], ["--help"]])
def test_a_full_stdout_is_an_error_and_no_traceback(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = run(GOOD, *words, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.startswith("error[output]: cannot write to stdout: No space left on device")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-", "0<&-"])
def test_closed_streams_are_no_trouble(closed: str, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    body = f"with files.replacing({str(out)!r}) as t: t.write_text('whole')\nprint('noise')\n{GOOD}"
    quoted = [f"'{word}'" if index != 2 else '"$SCRIPT"' for index, word in enumerate(script(body))]
    environment = {**os.environ, "SCRIPT": script(body)[2]}
    done = subprocess.run(["sh", "-c", f"{' '.join(quoted)} {closed}"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert out.read_text() == "whole"


def test_a_reader_that_goes_away_is_met_in_silence() -> None:
    with subprocess.Popen(script(GOOD), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == 0


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_name_can_be_shown_on_any_terminal(encoding: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    body = "raise errors.NotFound(f'{word} — 模型 does not exist', hint='–')"
    for words in ([], ["--json"]):
        done = subprocess.run([*script(body), "--word", b"\xff.onnx", *words], capture_output=True, env=environment)
        assert done.returncode == 2
        assert b"Traceback" not in done.stderr
        if words:
            assert json.loads(done.stdout.decode(encoding))["error"]["code"] == "not-found"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_verb_told_to_stop_leaves_nothing_half_written(tmp_path: Path, number: signal.Signals) -> None:
    body = f"""
with files.replacing({str(tmp_path / "out.txt")!r}) as temporary:
    temporary.write_text('half')
    sys.stderr.write('ready\\n'); sys.stderr.flush()
    time.sleep(60)
"""
    with subprocess.Popen(script(body), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        assert child.stderr.readline() == "ready\n"
        child.send_signal(number)
        assert child.stderr.read().startswith("error[interrupted]: interrupted\nhint: ")
    assert child.returncode == 130
    assert list(tmp_path.iterdir()) == []


def test_usage_errors_read_like_every_other_error() -> None:
    done = run(GOOD, "--nope")
    assert done.returncode == 2
    assert done.stderr == "error[usage]: No such option '--nope'.\nhint: see sardonyx verb --help\n"
    answer = json.loads(run(GOOD, "--nope", "--json").stdout)
    assert (answer["verb"], answer["error"]["code"]) == ("verb", "usage")


SLOW = "with progress.task('working'): time.sleep(1.4)\n"


@pytest.mark.heavy
def test_a_task_over_a_second_is_told_on_stderr_and_a_quick_one_is_not() -> None:
    done = run(SLOW + GOOD, "--json")
    assert done.stderr == "working ...\n"
    assert json.loads(done.stdout)["ok"] is True
    assert run("with progress.task('working'): pass\n" + GOOD).stderr == ""
    assert run(SLOW + GOOD, "--quiet").stderr == ""


@pytest.mark.heavy
def test_a_terminal_gets_a_bar_and_colour_unless_it_says_no() -> None:
    assert "\x1b[" in on_terminal(GOOD)
    assert "\x1b[" not in on_terminal(GOOD, NO_COLOR="1")
    assert "working" in on_terminal(SLOW + GOOD)


def on_terminal(body: str, **environment: str) -> str:
    """What a person would see."""
    ours, theirs = pty.openpty()
    given = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"} | environment
    with subprocess.Popen(script(body), stdin=theirs, stdout=theirs, stderr=theirs, env=given):
        os.close(theirs)
        seen = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # how Linux says that the other side has closed
                break
            if not piece:
                break
            seen += piece
    os.close(ours)
    return seen.decode()
