"""The command: says where it listens, drains on SIGTERM, speaks TLS, and starts a killed worker again."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import threading
from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper

import sardonyx
import serving
from sardonyx.errors import OutputError, UsageError
from sardonyx.serve.server import bound
from serving_command import command, resident

# Made for these tests, for localhost, and good for nothing else.
KEY = """-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgpqjg008mE3LrK7WK
oF2Uv3zDgMjf9OEJFeyaABohml6hRANCAAThGzeE3PQEWmbiJrTKkhMeKTWs7Ebk
aI6wcUP5pbCRbALtsh99WLc/Y37rrTL0bBLZeSE2rXUoSKAavQvKiiwK
-----END PRIVATE KEY-----
"""
CERTIFICATE = """-----BEGIN CERTIFICATE-----
MIIBmjCCAUGgAwIBAgIUGSehXO/OmB0FEpWrMBP0QA4YPi0wCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTExNjAwMjg0MFoYDzIxMjYxMDIz
MDAyODQwWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAThGzeE3PQEWmbiJrTKkhMeKTWs7EbkaI6wcUP5pbCRbALtsh99WLc/
Y37rrTL0bBLZeSE2rXUoSKAavQvKiiwKo28wbTAdBgNVHQ4EFgQUB3H5j2DDxudS
NdT+UcBmdQZNEsMwHwYDVR0jBBgwFoAUB3H5j2DDxudSNdT+UcBmdQZNEsMwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDRwAwRAIgLG3JG7igAoOoDi7FCj7cQxCeMTz3fa/AGaEvLjJSEewCIBnk
KoztMeFx218IJyKcifxUMk73EiNveU14tJfSW1nR
-----END CERTIFICATE-----
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return serving.save("tiny", tmp_path / "tiny.onnx")


@pytest.mark.heavy
def test_it_says_what_and_where_answers_and_ends_well_on_sigterm(model: Path) -> None:
    with command(model, "--access-log") as server:
        assert server.lines[0].startswith("loaded tiny version 1: ")
        assert server.predict() == {"y": [[70.0, 80.0, 90.0]]}
        code, answer = server.stop()
    assert code == 0
    assert answer == {"verb": "serve", "ok": True, "verdict": "stopped", "answered": 1, "findings": []}
    assert any("POST /predict 200" in line for line in server.lines)


@pytest.mark.rest
@pytest.mark.heavy
def test_a_request_under_way_is_answered_before_the_end(model: Path) -> None:
    with command(model, "--max-delay-ms", "3000", "--max-batch", "8") as server:
        answers: list[object] = []
        thread = threading.Thread(target=lambda: answers.append(server.predict()))
        thread.start()
        serving.until(lambda: answers or server.waiting())
        code, answer = server.stop()
        thread.join()
    assert answers == [{"y": [[70.0, 80.0, 90.0]]}]
    assert (code, answer["answered"]) == (0, 1)


@pytest.mark.heavy
def test_tls_is_spoken_with_the_given_certificate(model: Path, tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_text(CERTIFICATE)
    key.write_text(KEY)
    with serving.running(model, tls_cert=cert, tls_key=key) as server:
        context = ssl.create_default_context(cadata=CERTIFICATE)
        connection = http.client.HTTPSConnection(
            "localhost", server.server.ports["http"], timeout=serving.PATIENCE, context=context
        )
        for _ in range(2):
            connection.request("POST", "/predict", "[1, 2, 3, 4]")
            assert json.loads(connection.getresponse().read()) == {"y": [[70.0, 80.0, 90.0]]}
        connection.close()
    with pytest.raises(UsageError, match="cannot use"), serving.running(model, tls_cert=model, tls_key=key):
        pass


@pytest.mark.heavy
def test_grpc_speaks_tls_too_and_nothing_else_then(model: Path, tmp_path: Path) -> None:
    triton = pytest.importorskip("tritonclient.grpc")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_text(CERTIFICATE)
    key.write_text(KEY)
    x = triton.InferInput("x", [1, 4], "FP32")
    x.set_data_from_numpy(np.array([[1, 2, 3, 4]], np.float32))
    with serving.running(model, grpc_port=0, tls_cert=cert, tls_key=key) as server:
        place = f"localhost:{server.server.ports['grpc']}"
        with triton.InferenceServerClient(place, ssl=True, root_certificates=str(cert)) as client:
            np.testing.assert_array_equal(client.infer("tiny", [x]).as_numpy("y"), [[70, 80, 90]])
        with triton.InferenceServerClient(place) as plain, pytest.raises(triton.InferenceServerException):
            plain.infer("tiny", [x], client_timeout=5)


@pytest.mark.rest
@pytest.mark.heavy
def test_workers_say_what_is_wrong_with_a_model(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_text("this is no model\n" * 20)
    with command(tmp_path / "bad.onnx", "--workers", "2") as server:
        assert server.process.wait() == 2
        assert server.process.stdout is not None
        assert json.loads(server.process.stdout.read())["error"]["code"] == "not-a-model"


@pytest.mark.rest
@pytest.mark.heavy
def test_unloading_gives_the_memory_back(tmp_path: Path) -> None:
    (tmp_path / "large" / "1").mkdir(parents=True)
    serving.repository(tmp_path, ("tiny",))
    weight = numpy_helper.from_array(np.ones((5000, 5000), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [helper.make_tensor_value_info("x", 1, ["n", 5000])],
        [helper.make_tensor_value_info("y", 1, ["n", 5000])], [weight],
    )  # fmt: skip
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)])
    (tmp_path / "large" / "1" / "model.onnx").write_bytes(model.SerializeToString())
    with command(tmp_path, "--control-port", "0", "--control-token", "key") as server:
        place = re.search(r"control on http://127.0.0.1:(\d+)", "".join(server.lines))
        assert place is not None
        before = resident(server.process.pid)
        connection = http.client.HTTPConnection("127.0.0.1", int(place[1]), timeout=serving.PATIENCE)
        connection.request("POST", "/v2/repository/models/large/unload", "{}", {"X-API-Key": "key"})
        assert connection.getresponse().status == 200
        connection.close()
        assert before - resident(server.process.pid) > 80 << 20


def test_a_check_loads_and_serves_nothing(model: Path) -> None:
    report = sardonyx.serve(model, check=True, threads=1)
    assert (report.verdict, report.ok) == ("ready", True)
    (row,) = report["models"]
    assert (row["name"], row["inputs"][0]["shape"]) == ("tiny", [-1, 4])
    assert row["batching"]["max_batch"] >= 1


def test_a_port_that_is_taken_is_named(model: Path) -> None:
    with bound("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OutputError, match=f"cannot listen on 127.0.0.1:{port}"), serving.running(model, port=port):
            pass
