"""The server on Ray Serve: the protocol's routes, the answers of the model, and an end when it is told to."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sardonyx
import serving
from sardonyx import registry
from sardonyx.errors import OutputError, SardonyxError, UsageError
from sardonyx.run.session import Session
from sardonyx.serve import ray_serve
from sardonyx.serve.client import Client
from sardonyx.serve.server import bound


@pytest.mark.heavy
@pytest.mark.rest
def test_a_model_on_ray_answers_as_the_model_does_until_it_is_told_to_stop(tmp_path: Path) -> None:
    if not registry.installed("ray"):
        pytest.skip("ray is not installed; `make test` installs it")
    path = serving.save("tiny", tmp_path / "tiny.onnx")
    (port,) = ray_serve.spare_ports(1)
    words = ["serve", str(path), "--engine", "ray", "--port", str(port), "--threads", "1", "--token", "secret"]
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    with subprocess.Popen(
        [Path(sys.executable).with_name("sardonyx"), *words, "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        timer = threading.Timer(600, server.kill)  # so that a hang is a failure and not the end of the suite
        timer.start()
        try:
            assert server.stderr is not None
            said = _until("serving on", server.stderr)
            assert f"http://127.0.0.1:{port} with Ray" in said[-1], "".join(said)
            _ask(port, path)
        finally:
            server.send_signal(signal.SIGTERM)
            output, errors = server.communicate()
            timer.cancel()
    assert server.returncode == 0, errors
    assert '"verdict": "stopped"' in output
    assert "Traceback" not in errors


def _until(beginning: str, lines: Iterable[str]) -> list[str]:
    """The lines as far as one that begins so, or all of them: the reason is among them."""
    said = [""]
    for line in lines:
        said.append(line)
        if line.startswith(beginning):
            break
    return said


def _ask(port: int, path: Path) -> None:
    x = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
    expected = Session(path)({"x": x})["y"]
    with Client(f"http://127.0.0.1:{port}", token="secret") as client:
        client.wait(serving.PATIENCE)
        assert client.live()
        assert client.metadata("tiny")["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
        for _ in range(20):
            np.testing.assert_array_equal(client.infer("tiny", {"x": x})["y"], expected)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/models/tiny")
    assert refused.value.code == 401
    refused.value.close()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/predict", b"[1,2,3]", {"X-API-Key": "secret"})
    with pytest.raises(urllib.error.HTTPError) as wrong:
        urllib.request.urlopen(request)
    assert wrong.value.code == 400
    assert b"input x" in wrong.value.read()


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"engine": "abacus"}, UsageError, "no engine 'abacus'"),
        ({"tls_cert": "a.pem", "tls_key": "b.pem"}, UsageError, "no --tls-cert"),
        ({"control_port": 0, "control_token": "x"}, UsageError, "no --control-port"),
        ({"shared_memory": "x"}, UsageError, "no --shared-memory"),
        ({"promote_tolerance": 0.1}, UsageError, "no --promote-tolerance"),
        ({"access_log": True}, UsageError, "no --access-log"),
        ({"host": "203.0.113.1", "port": 1}, OutputError, "cannot listen"),
    ],
)
def test_what_ray_does_not_do_is_refused_before_it_starts(
    tmp_path: Path, options: dict[str, Any], error: type[SardonyxError], words: str
) -> None:
    if not registry.installed("ray"):
        pytest.skip("ray is not installed; `make test` installs it")
    path = serving.save("tiny", tmp_path / "tiny.onnx")
    with pytest.raises(error, match=words):
        sardonyx.serve(path, **{"engine": "ray", **options})
    assert "ray" not in sys.modules or not sys.modules["ray"].is_initialized()


@pytest.mark.heavy
def test_a_model_that_does_not_load_is_refused_before_ray_starts(tmp_path: Path) -> None:
    if not registry.installed("ray"):
        pytest.skip("ray is not installed; `make test` installs it")
    (tmp_path / "text.onnx").write_text("no model")
    with pytest.raises(SardonyxError):
        sardonyx.serve(tmp_path / "text.onnx", engine="ray", port=0)
    assert "ray" not in sys.modules or not sys.modules["ray"].is_initialized()


def test_two_servers_on_one_machine_take_ports_of_their_own() -> None:
    ports = ray_serve.spare_ports(20)
    assert len(set(ports)) == 20
    with contextlib.ExitStack() as stack:
        for port in ports:  # all can be had, and are not given again while somebody has them
            stack.enter_context(contextlib.closing(bound("0.0.0.0", port)))
        assert not set(ports) & set(ray_serve.spare_ports(20))
