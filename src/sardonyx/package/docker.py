"""A folder that `docker build` makes a small image of, which serves the model as a user without rights."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from sardonyx.package._dockerfile import Instruction, exec_form, parse
from sardonyx.package._subject import Subject, Wishes
from sardonyx.report import Finding

REQUIRES = "serve"
TAKES: set[str] = set()
STEPS = (
    "docker build -t {label}:1 {folder}",
    "docker run --rm -p 8080:8080 -p 8081:8081 {label}:1",
    "curl http://127.0.0.1:8080/v2/models/{name}",
)
CODES = {"docker-context": "The Dockerfile, or a file that it needs, is not as it must be."}
HTTP, GRPC, USER = 8080, 8081, 10001
_HEALTH = f"import urllib.request as r; r.urlopen('http://127.0.0.1:{HTTP}/v2/health/ready', timeout=2)"
_CMD = ["serve", "/models", "--host", "0.0.0.0", "--port", str(HTTP), "--grpc-port", str(GRPC)]
# pip stays in the first stage: it installs into an environment that has none.
_DOCKERFILE = """\
FROM python:{python}-slim AS build
RUN python -m venv --without-pip /opt/sardonyx
WORKDIR /build
COPY requirements.txt ./
RUN pip --python /opt/sardonyx/bin/python install --no-cache-dir --no-deps -r requirements.txt
COPY {wheel} ./
RUN pip --python /opt/sardonyx/bin/python install --no-cache-dir --no-deps {wheel}

FROM python:{python}-slim
ENV PATH=/opt/sardonyx/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 ORT_DISABLE_TELEMETRY=1
COPY --from=build /opt/sardonyx /opt/sardonyx
COPY models /models
USER {user}:{user}
EXPOSE {http} {grpc}
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s CMD {health}
ENTRYPOINT ["sardonyx"]
CMD {cmd}
"""
_README = """# {name} in a container

    docker build -t {label}:1 .
    docker run --rm -p 8080:8080 -p 8081:8081 {label}:1
    curl http://127.0.0.1:8080/v2/models/{name}

Add `--read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges` to `docker run` to lock it up further. Everyone who
reaches the port may call: append the words of CMD and `--token-file FILE` to ask for a token.
"""


def package(subject: Subject, folder: Path, wishes: Wishes) -> list[Finding]:  # noqa: ARG001  all are called alike
    from sardonyx.package._wheel import pins, write_wheel

    subject.must_be_servable()
    subject.write(folder / "models" / subject.name / "1")
    wheel = write_wheel(folder).name
    (folder / "requirements.txt").write_text("\n".join((*pins(), "")))
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    words = {"python": python, "wheel": wheel, "user": USER, "http": HTTP, "grpc": GRPC}
    text = _DOCKERFILE.format(**words, health=json.dumps(["python", "-c", _HEALTH]), cmd=json.dumps(_CMD))
    (folder / "Dockerfile").write_text(text)
    # Everything stays out but what the image takes in.
    (folder / ".dockerignore").write_text(f"*\n!requirements.txt\n!{wheel}\n!models\n")
    (folder / "README.md").write_text(_README.format(name=subject.name, label=subject.label))
    return []


def check(folder: Path) -> list[Finding]:
    """Reads the Dockerfile again: what it copies is there and not ignored, the user has no rights, and versions are exact."""
    return [
        Finding("error", "docker-context", where, message, "package the model again")
        for where, message in _problems(folder)
    ]


def _problems(folder: Path) -> Iterator[tuple[str, str]]:
    for line in (folder / "requirements.txt").read_text().splitlines():
        if not re.fullmatch(r"[a-z0-9-]+==[\w.!+-]+", line):
            yield "requirements.txt", f"'{line}' is not one exact version"
    if not any(folder.glob("models/*/*/model.onnx")):
        yield "models", "it holds no model"
    try:
        instructions = parse((folder / "Dockerfile").read_text())
    except ValueError as error:
        yield "Dockerfile", str(error)
        return
    allowed = {line[1:] for line in (folder / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for problem in (*_copies(instructions, folder, allowed), *_last_stage(instructions)):
        yield "Dockerfile", problem


def _copies(instructions: list[Instruction], folder: Path, allowed: set[str]) -> Iterator[str]:
    for each in instructions:
        if each.word == "COPY" and "--from=build" not in each.flags:
            *sources, _ = each.rest.split()
            for source in sources:
                if not (folder / source).exists():
                    yield f"it copies {source}, which is not there"
                elif source not in allowed:
                    yield f"it copies {source}, which .dockerignore keeps out"


def _last_stage(instructions: list[Instruction]) -> Iterator[str]:
    """What the image that runs must have."""
    start = max(index for index, each in enumerate(instructions) if each.word == "FROM")
    last = {each.word: each for each in instructions[start:]}
    if sum(each.word == "FROM" for each in instructions) < 2:
        yield "it has one stage, so what builds the image stays in it"
    if "-slim" not in instructions[start].rest:
        yield f"{instructions[start].rest} is not a slim image"
    for word in ("USER", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"):
        if word not in last:
            yield f"it has no {word}"
            return
    if last["USER"].rest.split(":")[0] in ("0", "root"):
        yield "it runs as root"
    for word in ("ENTRYPOINT", "CMD"):
        if exec_form(last[word].rest) is None:
            yield f"{word} goes through a shell, which keeps the signal to stop to itself"
    words = exec_form(last["CMD"].rest) or []
    if {"--port", "--grpc-port"} <= set(words):
        ports = {words[words.index(option) + 1] for option in ("--port", "--grpc-port")}
        if ports != set(last["EXPOSE"].rest.split()):
            yield f"it exposes {last['EXPOSE'].rest}, and the server listens on {', '.join(sorted(ports))}"
    else:
        yield "CMD does not say on which ports the server listens"
