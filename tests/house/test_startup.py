"""Importing the package and asking for help load nothing heavy, and work on the bare install."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sardonyx
from sardonyx import registry

ROOT = Path(__file__).parent.parent.parent
BARE = ROOT / ".venv-bare" / "bin" / "python"
VERBS = registry.names("sardonyx.cli")
HEAVY = {
    "numpy",
    "onnx",
    "onnx_ir",
    "onnxruntime",
    "onnxscript",
    "torch",
    "tensorflow",
    "sklearn",
    "jax",
    "PIL",
    "rich",
}

LOADED = "import sys; sys.stderr.write(' '.join(sys.modules))"
HELP = f"""
import sys
from sardonyx.cli import _contract, build
code = _contract.call(build, sys.argv[1:])
{LOADED}
sys.exit(code)
"""


def python(script: str, *words: str, executable: str | Path = sys.executable) -> subprocess.CompletedProcess[str]:
    return subprocess.run([executable, "-c", script, *words], capture_output=True, text=True)


def heavy_modules(done: subprocess.CompletedProcess[str]) -> set[str]:
    return HEAVY & {name.partition(".")[0] for name in done.stderr.split()}


def test_importing_the_package_imports_nothing_heavy() -> None:
    done = python(f"import sardonyx; {LOADED}")
    assert done.returncode == 0
    assert heavy_modules(done) == set()


def test_the_look_at_loaded_modules_would_see_a_heavy_one() -> None:
    assert heavy_modules(python(f"import sardonyx.model; {LOADED}")) >= {"numpy", "onnx", "onnx_ir"}


@pytest.mark.parametrize("words", [[], *([verb] for verb in VERBS)], ids=["sardonyx", *VERBS])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    done = python(HELP, *words, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: ")
    assert heavy_modules(done) == set()


@pytest.mark.heavy
@pytest.mark.parametrize("words", [[], *([verb] for verb in VERBS)], ids=["sardonyx", *VERBS])
def test_help_works_on_the_bare_install(words: list[str]) -> None:
    if not BARE.exists():
        pytest.skip("there is no bare install; `make test` makes it")
    done = python(HELP, *words, "--help", executable=BARE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage: ")
    assert heavy_modules(done) == set()


def test_the_package_is_a_command_of_every_interpreter() -> None:
    done = subprocess.run([sys.executable, "-m", "sardonyx", "--version"], capture_output=True, text=True)
    assert done.stdout == f"sardonyx {sardonyx.__version__}\n"


@pytest.mark.parametrize("given", [None, "0", "1"])
def test_telemetry_is_off_unless_somebody_switched_it_on(given: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    if given is not None:
        environment["ORT_DISABLE_TELEMETRY"] = given
    script = "import sardonyx, os; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == (given or "1")
