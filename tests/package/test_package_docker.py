"""A Docker context: every seeded fault is caught, a linter is content, and what it installs serves the model."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distribution, version
from pathlib import Path

import numpy as np
import pytest

import sardonyx
import serving
from sardonyx.package import docker
from sardonyx.package._dockerfile import exec_form, parse
from sardonyx.package._wheel import pins
from sardonyx.run.session import Session
from sardonyx.serve.client import Client

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scratch = tmp_path_factory.mktemp("docker")
    report = sardonyx.package(serving.save("tiny", scratch / "tiny.onnx"), scratch / "out", target="docker")
    assert report.ok
    return scratch / "out"


def test_the_image_is_small_by_what_it_leaves_out(context: Path) -> None:
    names = {line.partition("==")[0] for line in (context / "requirements.txt").read_text().splitlines()}
    assert {"numpy", "onnx", "onnxruntime", "uvloop", "httptools", "orjson", "grpcio", "protobuf", "typer"} <= names
    assert not names & {
        "onnxscript",
        "torch",
        "tensorflow",
        "scikit-learn",
        "jax",
        "pip",
        "setuptools",
        "pytest",
        "ray",
    }
    assert (context / ".dockerignore").read_text().splitlines()[0] == "*"


def test_the_last_stage_has_neither_pip_nor_root(context: Path) -> None:
    instructions = parse((context / "Dockerfile").read_text())
    last = max(index for index, each in enumerate(instructions) if each.word == "FROM")
    words = [each.word for each in instructions[last:]]
    assert "RUN" not in words
    assert words.index("USER") < words.index("ENTRYPOINT")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert instructions[last].rest == f"python:{version}-slim"


def test_the_same_model_gives_the_same_bytes(context: Path, tmp_path: Path) -> None:
    sardonyx.package(context.parent / "tiny.onnx", tmp_path / "again", target="docker")
    for name in ("Dockerfile", "requirements.txt", "sardonyx.json"):
        assert (tmp_path / "again" / name).read_bytes() == (context / name).read_bytes()


def test_the_wheel_holds_every_file_of_the_package_with_its_hash(context: Path) -> None:
    (path,) = context.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        record = next(name for name in names if name.endswith(".dist-info/RECORD"))
        listed = {line.partition(",")[0] for line in wheel.read(record).decode().splitlines()}
    package = ROOT / "src" / "sardonyx"
    sources = {f"sardonyx/{path.relative_to(package)}" for path in package.rglob("*.py")}
    assert sources <= names
    assert "sardonyx/py.typed" in names
    assert "sardonyx/web/try.html" in names
    assert listed == names
    assert not any("__pycache__" in name for name in names)


def test_every_version_is_the_one_that_is_installed_here() -> None:
    for pin in pins():
        name, _, number = pin.partition("==")
        assert version(name) == number


FAULTS = {
    "root": ("Dockerfile", "USER 10001:10001", "USER root", "runs as root"),
    "no user": ("Dockerfile", "USER 10001:10001\n", "", "no USER"),
    "a shell": ("Dockerfile", 'ENTRYPOINT ["sardonyx"]', "ENTRYPOINT sardonyx", "goes through a shell"),
    "no health": ("Dockerfile", "HEALTHCHECK ", "LABEL a=", "no HEALTHCHECK"),
    "a port": ("Dockerfile", "EXPOSE 8080 8081", "EXPOSE 80 8081", "it exposes 80 8081"),
    "no ports": ("Dockerfile", '"--port", "8080", ', "", "on which ports"),
    "a fat image": ("Dockerfile", "-slim\nENV", "\nENV", "not a slim image"),
    "one stage": ("Dockerfile", "FROM python:3.11-slim AS build\n", "ARG x=1\n", "one stage"),
    "no instruction": ("Dockerfile", "STOPSIGNAL", "STOPPED", "no instruction"),
    "a file that is not there": ("Dockerfile", "COPY models", "COPY model", "which is not there"),
    "a file that is ignored": (".dockerignore", "!models\n", "", "keeps out"),
    "a range": ("requirements.txt", "numpy==", "numpy>=", "not one exact version"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_seeded_fault_is_caught(context: Path, tmp_path: Path, fault: str) -> None:
    shutil.copytree(context, tmp_path / "copy")
    assert docker.check(tmp_path / "copy") == []
    name, old, new, words = FAULTS[fault]
    path = tmp_path / "copy" / name
    text = re.sub(r"python:\d+\.\d+", "python:3.11", path.read_text()) if name == "Dockerfile" else path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert any(words in finding.message for finding in docker.check(tmp_path / "copy"))


def test_a_context_without_its_model_is_caught(context: Path, tmp_path: Path) -> None:
    shutil.copytree(context, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "models" / "tiny")
    assert [finding.where for finding in docker.check(tmp_path / "copy")] == ["models"]


@pytest.mark.heavy
def test_a_linter_has_nothing_to_say(context: Path) -> None:
    linter = Path(sys.executable).with_name("hadolint")
    if not linter.exists():
        pytest.skip("hadolint is not installed; `make test` installs it")
    done = subprocess.run([linter, context / "Dockerfile"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def installed(context: Path, folder: Path) -> Path:
    """The environment that the first stage makes: its RUN lines, with the image's paths replaced by ours.

    Only the long download is not made again: what requirements.txt names, and nothing else, is linked from this environment.
    """
    pip = f"{sys.executable} -m pip --disable-pip-version-check"
    places = {"/opt/sardonyx": str(folder), "python -m": f"{sys.executable} -m", "pip --python": f"{pip} --python"}
    for each in parse((context / "Dockerfile").read_text()):
        if each.word == "RUN" and "-r requirements.txt" in each.rest:
            link(
                (context / "requirements.txt").read_text().splitlines(), next(folder.glob("lib/python*/site-packages"))
            )
        elif each.word == "RUN":
            command = each.rest
            for old, new in places.items():
                command = command.replace(old, new)
            done = subprocess.run(command, shell=True, cwd=context, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
    return folder


def link(names: list[str], folder: Path) -> None:
    for pin in names:
        found = distribution(pin.partition("==")[0])
        for file in found.files or ():
            if ".." not in file.parts and not (folder / file).exists():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).symlink_to(Path(str(found.locate_file(file))).resolve())


@pytest.mark.heavy
def test_what_the_image_installs_serves_the_model_and_is_found_healthy(context: Path, tmp_path: Path) -> None:
    environment = installed(context, tmp_path / "environment")
    assert not (environment / "bin" / "pip").exists()
    last = {each.word: each for each in parse((context / "Dockerfile").read_text())}
    words = [*(exec_form(last["ENTRYPOINT"].rest) or ()), *(exec_form(last["CMD"].rest) or ())]
    with serving.bound_port() as http, serving.bound_port() as grpc:
        ours = {"/models": str(context / "models"), "0.0.0.0": "127.0.0.1", "8080": str(http), "8081": str(grpc)}
    health = last["HEALTHCHECK"].rest.partition("CMD ")[2].replace("8080", ours["8080"])
    path = {"PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
    words = [ours.get(word, word) for word in words]
    with subprocess.Popen(
        [environment / "bin" / words[0], *words[1:]], env={**os.environ, **path}, cwd=tmp_path
    ) as server:
        try:
            with Client(f"http://127.0.0.1:{ours['8080']}") as client:
                client.wait(serving.PATIENCE)
                x = np.ones((2, 4), np.float32)
                expected = Session(context.parent / "tiny.onnx")({"x": x})["y"]
                np.testing.assert_array_equal(client.infer("tiny", {"x": x})["y"], expected)
            assert subprocess.run(json.loads(health), env={**os.environ, **path}).returncode == 0
        finally:
            server.terminate()
        assert server.wait() == 0
    assert subprocess.run(json.loads(health), env={**os.environ, **path}, stderr=subprocess.DEVNULL).returncode != 0
