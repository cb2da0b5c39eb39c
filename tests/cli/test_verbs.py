"""Every verb keeps the contract: on good input, on a bad verdict, on bad input, without an extra, interrupted, unread.

One entry of `CASES` per verb; a verb without one fails the suite.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bundling import by_hand
from sardonyx import registry, training
from sardonyx.cli import _contract, build, commands
from sardonyx.errors import Interrupted
from sardonyx.model import Model

Words = tuple[str, ...]
ROOT = Path(__file__).parent.parent.parent
BARE = ROOT / ".venv-bare" / "bin" / "python"
EVERY_EXTRA = sorted({module for modules in registry.EXTRAS.values() for module in modules})


@dataclass(frozen=True)
class Missing:
    """Words that need an extra."""

    words: Words
    extra: str


@dataclass(frozen=True)
class Case:
    """How a verb is called. `{out}` is a place to write to; every other file is one of the cabinet's."""

    good: Words
    verdicts: set[str]
    fields: set[str]
    bad: dict[Words, str] = field(default_factory=dict)
    failing: Words | None = None
    missing: Missing | None = None
    heavy: bool = False
    long: bool = False

    @property
    def writes(self) -> bool:
        return "{out}" in self.good


NOT_A_MODEL = {
    ("gone.onnx",): "not-found",
    ("text.onnx",): "not-a-model",
    ("empty.onnx",): "not-a-model",
    ("truncated.onnx",): "broken-model",
    ("outside.onnx",): "broken-model",
    (".",): "not-a-model",
}

CASES: dict[str, Case] = {
    "bench": Case(
        good=("good.onnx", "same.onnx", "--seconds", "0.05"),
        verdicts={"measured"},
        fields={"variants", "ratios"},
        bad={
            ("gone.onnx", "good.onnx"): "not-found",
            ("good.onnx", "text.onnx"): "not-a-model",
            ("good.onnx", "--seconds", "0"): "usage",
            ("good.onnx", "--batch", "1,none"): "usage",
            ("good.onnx", "--provider", "abacus"): "usage",
            ("good.onnx", "abacus:good.onnx"): "usage",
            ("picture.onnx", "--batch", "8"): "usage",
            ("good.onnx", "picture.onnx"): "bad-input",
            ("unknown.onnx",): "runtime-refused",
        },
        missing=Missing(("good.onnx", "openvino:good.onnx"), "openvino"),
    ),
    "check": Case(
        good=("good.onnx",),
        verdicts={"ok"},
        fields={"findings", "runs_on", "fixed"},
        failing=("unknown.onnx",),
        bad={("gone.onnx",): "not-found", ("text.onnx",): "not-a-model", ("good.onnx", "--ort", "0.1"): "usage"},
    ),
    "compare": Case(
        good=("good.onnx", "same.onnx"),
        verdicts={"equal", "rounding"},
        fields={"outputs", "first_divergence"},
        failing=("good.onnx", "other.onnx"),
        bad={("gone.onnx", "good.onnx"): "not-found", ("good.onnx", "text.onnx"): "not-a-model"},
        missing=Missing(("tree.pkl", "good.onnx", "--trust"), "sklearn"),
    ),
    "convert": Case(
        good=("good.onnx", "-o", "{out}"),
        verdicts={"agrees"},
        fields={"route", "path", "opset", "ir_version", "inputs", "outputs", "candidates", "repairs", "unreached"},
        bad={
            ("gone.onnx", "-o", "{out}"): "not-found",
            ("tree.pkl", "-o", "{out}"): "untrusted",
            ("good.onnx", "-o", "{out}", "--input", "nonsense"): "usage",
        },
        missing=Missing(("tree.pkl", "-o", "{out}", "--trust"), "sklearn"),
        heavy=True,
    ),
    "demo": Case(
        good=("-o", "{out}", "--epochs", "1"),
        verdicts={"shipped"},
        fields={"stages", "accuracy", "verified"},
        bad={("-o", "{out}", "--epochs", "none"): "usage"},
        missing=Missing(("-o", "{out}"), "torch"),
        heavy=True,
        long=True,
    ),
    "doctor": Case(good=(), verdicts={"ok"}, fields=set()),
    "inspect": Case(
        good=("good.onnx",),
        verdicts={"ok"},
        fields={"parameters", "macs", "inputs", "outputs", "opset", "operators", "memory"},
        bad={**NOT_A_MODEL, ("good.onnx", "--size", "n"): "usage"},
    ),
    "optimize": Case(
        good=("good.onnx", "-o", "{out}", "--seconds", "0.2"),
        verdicts={"optimized", "unchanged"},
        fields={"path", "winner", "nodes_before", "nodes_after", "speedup", "candidates"},
        bad={
            **{(*words, "-o", "{out}"): code for words, code in NOT_A_MODEL.items()},
            ("unknown.onnx", "-o", "{out}"): "runtime-refused",
            ("good.onnx", "-o", "{out}", "--level", "moon"): "usage",
            ("good.onnx", "-o", "{out}", "--shape", "height=3"): "usage",
            ("good.onnx", "-o", "{out}", "--shape", "n=three"): "usage",
            ("good.onnx", "-o", "{out}", "--data", "gone.npz"): "not-found",
        },
        heavy=True,
    ),
    "package": Case(
        good=("good.onnx", "--target", "triton", "-o", "{out}"),
        verdicts={"packaged"},
        fields={"target", "name", "path", "files", "steps", "findings"},
        bad={
            **{(*words, "--target", "triton", "-o", "{out}"): code for words, code in NOT_A_MODEL.items()},
            ("unknown.onnx", "--target", "triton", "-o", "{out}"): "runtime-refused",
            ("good.onnx", "--target", "abacus", "-o", "{out}"): "usage",
            ("good.onnx", "--target", "triton", "-o", "{out}", "--name", "../up"): "usage",
            ("good.onnx", "--target", "triton", "-o", "{out}", "--image", "x:1"): "usage",
            ("good.onnx", "--target", "kserve", "-o", "{out}", "--storage-uri", "ftp://x"): "usage",
            ("good.onnx", "-o", "{out}"): "usage",
        },
        missing=Missing(("good.onnx", "--target", "kserve", "-o", "{out}"), "package"),
    ),
    "quantize": Case(
        good=("matrix.onnx", "-o", "{out}", "--data", "rows.npz", "--time", "1"),
        verdicts={"quantized", "kept-float"},
        fields={"path", "scheme", "metric", "speedup", "reverted", "candidates"},
        bad={
            **{(*words, "-o", "{out}", "--data", "rows.npz"): code for words, code in NOT_A_MODEL.items()},
            ("matrix.onnx", "-o", "{out}", "--data", "gone.npz"): "not-found",
            ("picture.onnx", "-o", "{out}", "--data", "rows.npz"): "bad-data",
            ("matrix.onnx", "-o", "{out}", "--data", "rows.npz", "--metric", "accuracy"): "bad-data",
            ("matrix.onnx", "-o", "{out}", "--data", "rows.npz", "--scheme", "int3"): "usage",
            ("matrix.onnx", "-o", "{out}", "--data", "rows.npz", "--budget", "little"): "usage",
            ("matrix.onnx", "-o", "{out}"): "usage",
        },
        missing=Missing(("matrix.onnx", "-o", "{out}", "--data", "rows.npz", "--plot", "tried.png"), "report"),
        heavy=True,
    ),
    "run": Case(
        good=("good.onnx", "-o", "{out}"),
        verdicts={"ok"},
        fields={"outputs", "seconds"},
        bad={
            **NOT_A_MODEL,
            ("good.onnx", "--input", "y=1"): "bad-data",
            ("good.onnx", "--task", "guess"): "usage",
            ("good.onnx", "--labels", "text.onnx"): "usage",
            ("picture.onnx", "--input", "x=text.onnx", "--task", "classify"): "bad-data",
            ("picture.onnx", "--input", "x=picture.png", "--task", "detect"): "bad-data",
            ("good.onnx", "--provider", "abacus"): "usage",
            ("unknown.onnx",): "runtime-refused",
        },
        missing=Missing(("picture.onnx", "--input", "x=picture.png"), "vision"),
    ),
    "serve": Case(
        good=("good.onnx", "--check"),
        verdicts={"ready"},
        fields={"models"},
        bad={
            # The folder itself is a repository: a bundle lies in it.
            **{words: code for words, code in NOT_A_MODEL.items() if words != (".",)},
            ("prepared",): "not-found",
            ("good.onnx", "--check", "--max-batch", "0"): "usage",
            ("good.onnx", "--tls-key", "gone.pem"): "usage",
            ("unknown.onnx",): "runtime-refused",
        },
        missing=Missing(("good.onnx", "--check"), "serve"),
    ),
    "ship": Case(
        good=(
            "good.onnx",
            "-o",
            "{out}",
            "--skip",
            "optimize",
            "--set",
            "bench.seconds=0.02",
            "--set",
            "bench.cold=false",
        ),
        verdicts={"shipped"},
        fields={"bundle", "stages"},
        bad={
            ("gone.onnx", "-o", "{out}"): "not-found",
            ("good.onnx", "-o", "{out}", "--config", "gone.toml"): "not-found",
            ("good.onnx", "-o", "{out}", "--skip", "quantise"): "usage",
            ("good.onnx", "-o", "{out}", "--set", "quantize.budgets=1%"): "usage",
            ("good.onnx", "-o", "{out}", "--set", "quantize"): "usage",
        },
        missing=Missing(("tree.pkl", "-o", "{out}", "--trust"), "sklearn"),
        heavy=True,
        long=True,
    ),
    "train evaluate": Case(
        good=("prepared", "--data", "taught.npz"),
        verdicts={"evaluated"},
        fields={"checkpoint", "steps", "metrics"},
        bad={
            (".", "--data", "taught.npz"): "not-found",
            ("prepared", "--data", "gone.npz"): "not-found",
            ("prepared", "--data", "rows.npz"): "bad-data",
            ("prepared", "--data", "taught.npz", "--checkpoint", "worst"): "not-found",
        },
    ),
    "train export": Case(
        good=("prepared", "-o", "{out}"),
        verdicts={"exported"},
        fields={"path", "checkpoint", "max_error"},
        bad={(".", "-o", "{out}"): "not-found"},
    ),
    "train prepare": Case(
        good=("learner.onnx", "-o", "{out}"),
        verdicts={"prepared"},
        fields={"folder", "trainable", "frozen", "blockers", "parameters", "bytes", "seconds_per_step"},
        failing=("stopped.onnx", "-o", "{out}"),
        bad={
            ("gone.onnx", "-o", "{out}"): "not-found",
            ("text.onnx", "-o", "{out}"): "not-a-model",
            ("learner.onnx", "-o", "{out}", "--loss", "regret"): "usage",
            ("learner.onnx", "-o", "{out}", "--optimizer", "hope"): "usage",
            ("learner.onnx", "-o", "{out}", "--optimizer-option", "momentum"): "usage",
            ("learner.onnx", "-o", "{out}", "--freeze", "nothing"): "not-found",
            ("learner.onnx", "-o", "{out}", "--freeze", "w"): "bad-input",
        },
        missing=Missing(("tree.pkl", "-o", "{out}", "--trust"), "sklearn"),
    ),
    "train run": Case(
        good=("prepared", "--data", "taught.npz", "--restart"),
        verdicts={"trained"},
        fields={"folder", "steps", "epochs", "loss", "best", "metrics", "history", "checkpoint"},
        bad={
            (".", "--data", "taught.npz"): "not-found",
            ("prepared", "--data", "rows.npz", "--restart"): "bad-data",
            ("prepared", "--data", "taught.npz", "--restart", "--resume"): "usage",
            ("prepared", "--data", "taught.npz", "--restart", "--schedule", "moon"): "usage",
        },
        missing=Missing(("prepared", "--data", "taught.npz", "--restart", "--plot", "curve.png"), "report"),
    ),
    "verify": Case(
        good=("bundle",),
        verdicts={"verified"},
        fields={"files", "cases"},
        failing=("tampered",),
        bad={("gone",): "not-found", (".",): "bad-input"},
        heavy=True,
    ),
    "view": Case(
        good=("good.onnx", "-o", "{out}"),
        verdicts={"ok"},
        fields={"path", "nodes", "scopes", "bytes", "overlays"},
        bad={
            **{(*words, "-o", "{out}"): code for words, code in NOT_A_MODEL.items()},
            ("good.onnx",): "usage",
            ("good.onnx", "-o", "{out}", "--overlay", "moods"): "usage",
            ("good.onnx", "-o", "{out}", "--overlay", "diff"): "usage",
        },
        missing=Missing(("good.onnx", "--netron"), "netron"),
    ),
}

# The tiniest PNG: one black pixel.
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63606060000000040001f61738550000000049454e44ae426082"
)


@pytest.fixture(scope="session")
def cabinet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of good and bad files."""
    folder = tmp_path_factory.mktemp("cabinet")
    body = "w = Constant<value = float[3] {VALUES}>() y = OPERATOR(x, w)"
    text = f'<ir_version: 10, opset_import: ["": 20]> g (float[n,3] x) => (float[n,3] y) {{ {body} }}'
    for name, operator, values in (
        ("good", "Mul", "1.0,2.0,3.0"),
        ("same", "Mul", "1.0,2.0,3.0"),
        ("other", "Mul", "1.0,2.0,9.0"),
        ("unknown", "Frobnicate", "1.0,2.0,3.0"),
    ):
        Model.from_text(text.replace("OPERATOR", operator).replace("VALUES", values)).save(folder / f"{name}.onnx")
    Model.from_text(text.replace("float[n,3]", "float[1,3,1,1]").replace("OPERATOR", "Mul").replace("VALUES", "1,1,1")
                    .replace("y = Mul(x, w)", "y = Relu(x)")).save(folder / "picture.onnx")  # fmt: skip
    matrix = text.replace("float[n,3] y", "float[n,8] y").replace(
        "float[3] {VALUES}", f"float[3,8] {{{','.join('1' * 24)}}}"
    )
    Model.from_text(matrix.replace("OPERATOR", "MatMul")).save(folder / "matrix.onnx")
    np.savez(folder / "rows.npz", x=np.linspace(-1, 1, 48, dtype=np.float32).reshape(16, 3))
    _teachable(folder)
    by_hand(folder / "bundle")
    by_hand(folder / "tampered")
    (folder / "tampered" / "model.onnx").write_bytes(b"another model")
    (folder / "picture.png").write_bytes(PIXEL)
    (folder / "text.onnx").write_text("this is no model\n" * 20)
    (folder / "empty.onnx").touch()
    (folder / "truncated.onnx").write_bytes((folder / "good.onnx").read_bytes()[:-9])
    outside = Model.load(folder / "good.onnx").to_proto()
    tensor = outside.graph.initializer.add(name="v", data_type=1, dims=[3], data_location=1)
    tensor.external_data.add(key="location", value="../secret")
    (folder / "outside.onnx").write_bytes(outside.SerializeToString())
    (folder / "tree.pkl").write_bytes(b"\x80\x04csklearn.tree._classes\nDecisionTreeClassifier\n)R.")
    return folder


def _teachable(folder: Path) -> None:
    """What training needs: a model with a weight, one whose gradient is stopped, labelled data, and artifacts."""
    head = '<ir_version: 10, opset_import: ["": 20]> g (float[n,3] x) => (float[n,3] y) <float[3,3] w = {1,0,0,0,2,0,0,0,3}>'
    Model.from_text(head + "{ y = MatMul(x, w) }").save(folder / "learner.onnx")
    Model.from_text(head + "{ d = Det(w) y = Mul(x, d) }").save(folder / "stopped.onnx")
    x = np.linspace(-1, 1, 48, dtype=np.float32).reshape(16, 3)
    np.savez(folder / "taught.npz", x=x, label=np.arange(16) % 3)
    training.prepare(folder / "learner.onnx", folder / "prepared")


WITHOUT = """
import sys
from importlib.machinery import PathFinder
hidden = set(sys.argv.pop(1).split(","))
class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in hidden else super().find_spec(name, path, target)
sys.meta_path[:] = [Without if finder is PathFinder else finder for finder in sys.meta_path]
from sardonyx.cli import main
main()
"""


@dataclass(frozen=True)
class Done:
    exit_code: int
    stdout: str
    stderr: str

    def answer(self) -> dict[str, Any]:
        """The one object on stdout."""
        value = json.loads(self.stdout)
        assert isinstance(value, dict)
        return value


@dataclass(frozen=True)
class Desk:
    """Calls verbs in the cabinet and lets them write to a folder of its own."""

    cabinet: Path
    folder: Path
    capture: pytest.CaptureFixture[str]

    def call(self, verb: str, *words: str) -> Done:
        """The verb in this process, which has the heavy imports behind it."""
        exit_code = _contract.call(build, [*verb.split(), *self._filled(verb, words)])
        return self._quiet(Done(exit_code, *self.capture.readouterr()))

    def command(self, verb: str, *words: str, bare: bool = False) -> list[str]:
        return [
            str((BARE if bare else Path(sys.executable)).with_name("sardonyx")),
            *verb.split(),
            *self._filled(verb, words),
        ]

    def start(self, verb: str, *words: str, bare: bool = False) -> Done:
        """The verb as a user starts it."""
        return self._run(self.command(verb, *words, bare=bare))

    def start_without_extras(self, verb: str, *words: str) -> Done:
        hidden = ",".join(EVERY_EXTRA)
        return self._run([sys.executable, "-c", WITHOUT, hidden, *verb.split(), *self._filled(verb, words)])

    def written(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def _filled(self, verb: str, words: Words) -> list[str]:
        out = self.folder / ("out.npz" if verb == "run" else "out")
        return [word.replace("{out}", str(out)) for word in words]

    def _run(self, command: list[str]) -> Done:
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.cabinet)
        return self._quiet(Done(done.returncode, done.stdout, done.stderr))

    def _quiet(self, done: Done) -> Done:
        assert "Traceback" not in done.stderr, done.stderr
        return done


@pytest.fixture
def desk(
    cabinet: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Desk]:
    monkeypatch.chdir(cabinet)
    before = signal.getsignal(signal.SIGTERM)
    yield Desk(cabinet, tmp_path, capfd)
    signal.signal(signal.SIGTERM, before)


def verbs(
    only: Callable[[Case], object] = bool, *, heavy: bool = False, first: Collection[str] = CASES
) -> pytest.MarkDecorator:
    """A test for each verb; the slow ones, or all of them, are left to `make test`, and those not in `first` to the rest."""
    chosen = [verb for verb in CASES if only(CASES[verb])]
    marks = {verb: [pytest.mark.heavy] if heavy or CASES[verb].heavy else [] for verb in chosen}
    marks |= {verb: [pytest.mark.heavy, pytest.mark.rest] for verb in chosen if verb not in first}
    return pytest.mark.parametrize("verb", [pytest.param(verb, marks=marks[verb]) for verb in chosen])


# What every verb has from the same few lines of the command line is shown on these first.
FEW = ("check", "convert", "train prepare", "verify")


def test_every_verb_has_its_case_and_every_case_its_verb() -> None:
    assert set(CASES) == set(commands())


@verbs()
def test_good_input_gives_one_json_object_and_exit_0(desk: Desk, verb: str) -> None:
    case = CASES[verb]
    done = desk.call(verb, *case.good, "--json")
    assert done.exit_code == 0, done.stderr + done.stdout
    answer = done.answer()
    assert answer["verb"] == verb
    assert answer["ok"] is True
    assert answer["verdict"] in case.verdicts
    assert case.fields <= set(answer)
    assert isinstance(answer["findings"], list)
    assert bool(desk.written()) == case.writes
    assert not any(name.endswith(".part") for name in desk.written())


@verbs(lambda case: not case.long, heavy=True, first=FEW)
def test_good_input_reads_well_without_a_terminal(desk: Desk, verb: str) -> None:
    done = desk.start(verb, *CASES[verb].good)
    assert done.exit_code == 0
    assert any(verdict in done.stdout for verdict in CASES[verb].verdicts)
    assert "\x1b" not in done.stdout + done.stderr


@verbs(lambda case: case.failing)
def test_a_bad_verdict_is_exit_1(desk: Desk, verb: str) -> None:
    case = CASES[verb]
    done = desk.call(verb, *(case.failing or ()), "--json")
    assert done.exit_code == 1, done.stderr
    answer = done.answer()
    assert answer["ok"] is False
    assert answer["verdict"] not in case.verdicts


BAD = [(verb, words, code) for verb, case in CASES.items() for words, code in case.bad.items()]


@pytest.mark.parametrize(("verb", "words", "code"), BAD, ids=[" ".join((verb, *words)) for verb, words, _ in BAD])
def test_bad_input_is_exit_2_with_its_code_and_a_hint(desk: Desk, verb: str, words: Words, code: str) -> None:
    done = desk.call(verb, *words, "--json")
    assert done.exit_code == 2
    answer = done.answer()
    assert (answer["verb"], answer["ok"], answer["verdict"]) == (verb, False, "error")
    assert answer["error"]["code"] == code
    assert answer["error"]["message"]
    assert answer["error"]["hint"]
    assert answer["findings"] == []
    assert desk.written() == []


@verbs(lambda case: case.bad, heavy=True, first=FEW)
def test_bad_input_is_named_on_stderr_and_stdout_stays_empty(desk: Desk, verb: str) -> None:
    words, code = next(iter(CASES[verb].bad.items()))
    done = desk.start(verb, *words)
    assert done.exit_code == 2
    assert done.stdout == ""
    error, *_, hint = done.stderr.splitlines()
    assert error.startswith(f"error[{code}]: ")
    assert hint.startswith("hint: ")


@verbs()
def test_an_unknown_option_is_a_usage_error(desk: Desk, verb: str) -> None:
    done = desk.call(verb, *CASES[verb].good, "--frobnicate")
    assert done.exit_code == 2
    assert done.stderr.startswith("error[usage]: No such option '--frobnicate'")
    assert f"hint: see sardonyx {verb} --help" in done.stderr
    assert desk.written() == []


@verbs(lambda case: case.missing)
def test_a_missing_extra_is_exit_3_with_the_pip_command(desk: Desk, verb: str) -> None:
    missing = CASES[verb].missing
    assert missing is not None
    done = desk.start_without_extras(verb, *missing.words, "--json")
    assert done.exit_code == 3, done.stdout + done.stderr
    error = done.answer()["error"]
    assert error["code"] == "missing-extra"
    assert error["hint"] == f"pip install 'sardonyx[{missing.extra}]'"
    assert desk.written() == []


@verbs(lambda case: case.missing is None, heavy=True, first=FEW)
def test_a_verb_that_needs_no_extra_works_without_any(desk: Desk, verb: str) -> None:
    assert desk.start_without_extras(verb, *CASES[verb].good).exit_code == 0


@verbs(heavy=True, first=FEW)
def test_the_bare_install_does_its_work_or_names_the_extra(desk: Desk, verb: str) -> None:
    if not BARE.exists():
        pytest.skip("there is no bare install; `make test` makes it")
    case = CASES[verb]
    if case.missing is not None:
        done = desk.start(verb, *case.missing.words, bare=True)
        assert done.exit_code == 3
        assert f"hint: pip install 'sardonyx[{case.missing.extra}]'" in done.stderr
    if verb not in ("demo", "serve"):  # which do nothing without their extra
        assert desk.start(verb, *case.good, bare=True).exit_code == 0


UNWRITABLE = {"a folder that is not there": "missing/out.npz", "a place nobody may write": "/proc/out.npz"}


@pytest.mark.parametrize("place", UNWRITABLE.values(), ids=UNWRITABLE)
@verbs(lambda case: case.writes)
def test_an_output_that_cannot_be_written_is_named(desk: Desk, verb: str, place: str) -> None:
    words = [str(desk.folder / place) if word == "{out}" else word for word in CASES[verb].good]
    done = desk.call(verb, *words)
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-2].startswith("error[output]: ")
    assert desk.written() == []


READY = "import os; from sardonyx.cli import main; os.write(2, b'ready\\n'); main()"


@verbs(heavy=True, first=FEW)
def test_ctrl_c_ends_a_verb_with_nothing_half_written(desk: Desk, verb: str) -> None:
    """The moment is any: the verb may have finished, in which case its output is whole."""
    command = [sys.executable, "-c", READY, *desk.command(verb, *CASES[verb].good)[1:]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        assert child.stderr.readline() == "ready\n"
        time.sleep(3 if CASES[verb].long else 0.3)
        child.send_signal(signal.SIGINT)
        _, stderr = child.communicate()
    assert not any(name.endswith(".part") for name in desk.written())
    if (
        child.returncode == -signal.SIGABRT
    ):  # it struck inside a library's own code, which ends the process: rare, and not ours
        assert stderr.startswith("terminate called")
        return
    assert "Traceback" not in stderr
    if child.returncode == Interrupted.exit_code:
        assert "error[interrupted]" in stderr
    else:  # it had finished, and Python may have been on its way out
        assert child.returncode in (0, -signal.SIGINT)
        assert bool(desk.written()) == CASES[verb].writes


@verbs(lambda case: not case.long, heavy=True, first=FEW)
def test_a_reader_that_goes_away_is_met_in_silence(desk: Desk, verb: str) -> None:
    command = desk.command(verb, *CASES[verb].good)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=desk.cabinet
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        stderr = child.stderr.read()
    assert "Traceback" not in stderr
    assert "Broken" not in stderr
    assert child.returncode == 0
