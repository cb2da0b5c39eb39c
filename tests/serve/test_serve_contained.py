"""Models of strangers: what they do to the process that loads or runs them is not done to the server."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import crashing
import serving
from sardonyx.errors import BrokenModel, OutputError
from sardonyx.files import sha256
from sardonyx.model import Model
from sardonyx.serve.options import Batching
from sardonyx.serve.repository import find
from sardonyx.serve.served import hangs_on_values
from sardonyx.serve.server import claim
from serving import Answer, Running, tensor, until
from serving_command import children, command

KEY = {"Authorization": "Bearer key"}
CONTROL = {"control_port": 0, "control_token": "key"}
TURNS = 1 << 60


def load(server: Running, name: str) -> Answer:
    return server.post(f"/v2/repository/models/{name}/load", {}, headers=KEY, port="control")


@pytest.mark.rest
@pytest.mark.heavy
def test_a_model_that_crashes_when_it_is_loaded_is_refused_at_the_start_and_over_the_control_port(
    tmp_path: Path,
) -> None:
    source = serving.repository(tmp_path, ("tiny",))
    crashing.gather_nd(source / "crash" / "1" / "model.onnx")
    with serving.running(source, **CONTROL) as server:
        assert server.get("/v2/models/tiny").status == 200
        assert server.get("/v2/models/crash").status == 404
        crashing.gather_nd(source / "again" / "1" / "model.onnx")
        answer = load(server, "again")
        assert answer.status == 400
        assert "ends the process" in answer.json["error"]
        assert server.get("/v2/models/tiny").status == 200
    with pytest.raises(BrokenModel, match="ends the process"), serving.running(source / "crash" / "1" / "model.onnx"):
        pass


@pytest.mark.heavy
@pytest.mark.parametrize(("kind", "good"), [("LSTM", {"length"}), ("GRU", set())])
def test_sizes_of_0_are_taken_where_a_child_survived_them(tmp_path: Path, kind: str, good: set[str]) -> None:
    path = crashing.recurrent(tmp_path / "recurrent.onnx", kind)

    def ask(length: int, batch: int) -> Answer:
        return server.post("/v2/models/recurrent/infer", {"inputs": [tensor("x", np.ones((length, batch, 3)), "FP32")]})

    with serving.running(path) as server:
        assert ask(2, 2).status == 200
        for shape, name in (((0, 2), "length"), ((2, 0), "batch")):
            answer = ask(*shape)
            assert ("a size of 0" in answer.json.get("error", "")) == (name not in good)
        assert "a size of 0" in ask(0, 0).json["error"]
        assert server.post("/predict", [[]]).status == 400
        assert ask(2, 2).status == 200


def test_a_harmless_model_takes_sizes_of_0(server: Running) -> None:
    found = server.post("/v2/models/tiny/infer", {"inputs": [tensor("x", np.ones((0, 4)), "FP32")]})
    assert found.json["outputs"][0]["shape"] == [0, 3]


@pytest.mark.heavy
def test_a_request_that_loops_is_stopped_and_neither_its_model_nor_others_wait_for_it(tmp_path: Path) -> None:
    source = serving.repository(tmp_path, ("tiny",))
    crashing.endless(source / "endless" / "1" / "model.onnx")
    with serving.running(source, batching=Batching(timeout_seconds=1.0)) as server:
        answers: list[Answer] = []
        message = {"inputs": [tensor("x", np.array([TURNS]), "INT64")]}
        thread = threading.Thread(target=lambda: answers.append(server.post("/v2/models/endless/infer", message)))
        thread.start()
        until(lambda: server.server.models.find("endless")._batcher._lanes[0].current)  # type: ignore[union-attr]
        assert server.post("/predict/tiny", [1, 2, 3, 4]).status == 200
        thread.join()
        assert answers[0].status == 504
        message = {"inputs": [tensor("x", np.array([3]), "INT64")]}
        assert server.post("/v2/models/endless/infer", message).json["outputs"][0]["data"] == [8]


@pytest.mark.heavy
def test_a_request_that_loops_does_not_hold_up_the_end(tmp_path: Path) -> None:
    path = crashing.endless(tmp_path / "endless.onnx")
    with serving.running(path, drain_seconds=0.2) as server:
        client = socket.create_connection(("127.0.0.1", server.server.ports["http"]))
        body = json.dumps({"inputs": [tensor("x", np.array([TURNS]), "INT64")]}).encode()
        head = f"POST /v2/models/endless/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        until(lambda: server.server.models.find("endless")._batcher._lanes[0].current)  # type: ignore[union-attr]
    client.close()  # the block has ended, though the timeout of requests is far off


@pytest.mark.rest
@pytest.mark.heavy
def test_a_load_that_does_not_end_is_given_up_and_holds_up_no_other(tmp_path: Path) -> None:
    source = serving.repository(tmp_path, ("tiny",))
    with serving.running(source, load_seconds=20.0, **CONTROL) as server:
        crashing.endless_load(source / "stuck" / "1" / "model.onnx")
        serving.repository(source, ("pair",))
        answers: list[Answer] = []
        thread = threading.Thread(target=lambda: answers.append(load(server, "stuck")))
        thread.start()
        until(lambda: "stuck" in server.server.models._changing)
        assert load(server, "pair").status == 200
        assert not answers
        assert server.get("/v2/models/pair").status == 200
        thread.join()
        assert answers[0].status == 400
        assert "not loaded and run in time" in answers[0].json["error"]


@pytest.mark.rest
@pytest.mark.heavy
def test_a_model_in_its_own_process_dies_alone_and_is_started_again(tmp_path: Path) -> None:
    source = serving.repository(tmp_path, ("tiny", "pair", "text"))
    with command(source, "--isolate", "--timeout-ms", "120000") as server:
        (first, *others) = children(server.process.pid)
        assert len(others) == 3  # tiny has two versions
        assert server.predict("/predict/tiny") == {"y": [[70.0, 80.0, 90.0]]}
        assert asked(server.port, "text", tensor("words", np.array([["é", ""]], object), "BYTES")) == ["é", ""]
        for pid in (first, *others):
            os.kill(pid, 9)
        statuses = {posted(server.port, "/predict/tiny", b"[1, 2, 3, 4]") for _ in range(3)}
        assert statuses <= {200, 503}
        assert server.predict("/predict/tiny") == {"y": [[70.0, 80.0, 90.0]]}
        pids = children(server.process.pid)
        code, _ = server.stop()
    assert code == 0
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


@pytest.mark.rest
@pytest.mark.heavy
def test_a_run_that_loops_in_its_own_process_is_ended_with_it(tmp_path: Path) -> None:
    path = crashing.endless(tmp_path / "endless.onnx")
    with serving.running(path, isolate=True, batching=Batching(timeout_seconds=5.0)) as server:
        message = {"inputs": [tensor("x", np.array([TURNS]), "INT64")]}
        assert server.post("/v2/models/endless/infer", message).status == 504
        message = {"inputs": [tensor("x", np.array([3]), "INT64")]}
        until(lambda: server.post("/v2/models/endless/infer", message).status == 200)


def posted(port: int, path: str, body: bytes) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=serving.PATIENCE)
    connection.request("POST", path, body)
    status = connection.getresponse().status
    connection.close()
    return status


def asked(port: int, name: str, *inputs: Any) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=serving.PATIENCE)
    connection.request("POST", f"/v2/models/{name}/infer", json.dumps({"inputs": inputs}))
    found = json.loads(connection.getresponse().read())["outputs"][0]["data"]
    connection.close()
    return found


@pytest.mark.parametrize(
    ("text", "hangs"),
    [
        ("(float[n,4] x) => (float[n,4] y) { y = Relu(x) }", False),
        ("(int64[1] x) => (float[m] y) { y = ConstantOfShape(x) }", True),
        ("(float[n,1] x) => (float[n,4] y) <int64[2] s = {1, 4}> { y = Expand(x, s) }", False),
        ("(float[n,1] x, int64[2] s) => (float[n,4] y) { y = Expand(x, s) }", True),
    ],
)
def test_a_model_whose_time_hangs_on_values_never_runs_on_the_event_loop(text: str, *, hangs: bool) -> None:
    assert hangs_on_values(Model.from_text(serving.HEAD + text)) == hangs


def test_a_loop_in_a_function_of_the_model_is_found(tmp_path: Path) -> None:
    loop = onnx.load(crashing.endless(tmp_path / "m.onnx"))
    body = [*loop.graph.node]
    function = onnx.helper.make_function(
        "own", "f", ["x", "go", "one"], ["y"], body, [onnx.helper.make_opsetid("", 23)]
    )
    del loop.graph.node[:]
    loop.graph.node.append(onnx.helper.make_node("f", ["x", "go", "one"], ["y"], domain="own"))
    loop.functions.append(function)
    loop.opset_import.append(onnx.helper.make_opsetid("own", 1))
    assert hangs_on_values(Model.from_proto(loop))


# What lies in the source.


@pytest.mark.heavy
def test_one_odd_or_broken_model_of_a_repository_leaves_the_others(tmp_path: Path) -> None:
    source = serving.repository(tmp_path, ("tiny",))
    crashing.scalar(source / "scalar" / "1" / "model.onnx")
    for name, record in (
        ("deep", "[" * 100_000),
        ("odd", '{"files": 3}'),
        ("null", "\0"),
        ("listed", '{"files": {"model.onnx": {}}}'),
    ):
        (source / name).mkdir()
        serving.save("pair", source / name / "model.onnx")
        (source / name / "bundle.json").write_text(record)
    (source / "many" / ("9" * 5000)[:200]).mkdir(parents=True)
    with serving.running(source) as server:
        assert {row["name"] for row in server.get("/v2/models").json["models"]} == {"tiny", "scalar"}
        assert server.post("/predict/scalar", 3).json == {"y": -3}


def test_weights_beside_a_bundles_model_are_hashed_too(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    proto = Model.from_text(serving.HEAD + serving.TEXTS["tiny"]).to_proto()
    (weight,) = proto.graph.initializer
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight), weight.name))
    onnx.save_model(proto, path, save_as_external_data=True, location="model.data", size_threshold=0)
    files = {file.name: sha256(file) for file in tmp_path.iterdir()}
    (tmp_path / "bundle.json").write_text(json.dumps({"files": files}))
    assert find(tmp_path)[0].path == path
    data = tmp_path / "model.data"
    data.write_bytes(bytes(data.stat().st_size))
    with pytest.raises(BrokenModel, match="not the file that the bundle was made with"):
        find(tmp_path)
    (tmp_path / "bundle.json").write_text(json.dumps({"files": {"model.onnx": files["model.onnx"]}}))
    with pytest.raises(BrokenModel, match="is no file of the bundle"):
        find(tmp_path)


# Processes and ports.


@pytest.mark.rest
@pytest.mark.heavy
def test_workers_import_nothing_from_the_current_folder(tmp_path: Path) -> None:
    model = serving.save("tiny", tmp_path / "tiny.onnx")
    folder = tmp_path / "download"
    folder.mkdir()
    for name in ("json", "pickle", "numpy", "onnxruntime", "sardonyx", "usercustomize", "sitecustomize"):
        (folder / f"{name}.py").write_text(f"open('ran-{name}', 'w').close()\n")
    words = ["-P", "-m", "sardonyx", "serve", str(model), "--port", "0", "--grpc-port", "-1", "--workers", "2"]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(
        [sys.executable, *words], cwd=folder, stderr=subprocess.PIPE, text=True, env=variables
    ) as server:
        assert server.stderr is not None
        lines = []
        for line in server.stderr:
            lines.append(line)
            if "serving on" in line:
                break
        server.terminate()
    assert "serving on" in lines[-1]
    assert [file.name for file in folder.iterdir() if file.name.startswith("ran-")] == []


def test_two_servers_with_workers_do_not_share_a_port() -> None:
    first = claim("127.0.0.1", 0)
    port = first[0].getsockname()[1]
    with pytest.raises(OutputError, match="another server has it"):
        claim("127.0.0.1", port)
    for held in first:
        held.close()
    for held in claim("127.0.0.1", port):
        held.close()
