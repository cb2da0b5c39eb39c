"""The protocol over HTTP: facts, inference in JSON and binary, refusals that name what is wrong, and HTTP itself."""

from __future__ import annotations

import gzip
import json
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import serving
from sardonyx.serve.options import Batching, Limits
from serving import Answer, Running, tensor, until

X = np.array([[1, 2, 3, 4]], np.float32)
Y = [70.0, 80.0, 90.0]
INFER = "/v2/models/tiny/infer"


def good(**more: Any) -> dict[str, Any]:
    return {"inputs": [tensor("x", X, "FP32")], **more}


def binary(array: np.ndarray[Any, Any] = X, **more: Any) -> tuple[bytes, dict[str, str]]:
    entry = {
        "name": "x",
        "datatype": "FP32",
        "shape": list(array.shape),
        "parameters": {"binary_data_size": array.nbytes},
    }
    head = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}, **more}).encode()
    return head + array.tobytes(), {"Inference-Header-Content-Length": str(len(head))}


def test_the_server_says_what_it_is(server: Running) -> None:
    assert server.get("/v2").json["name"] == "sardonyx"
    assert "binary_tensor_data" in server.get("/v2").json["extensions"]
    assert server.get("/v2/health/live").json == {"live": True}
    assert server.get("/v2/health/ready").json == {"ready": True}
    assert server.get("/v2/models/tiny/ready").json == {"name": "tiny", "ready": True}


def test_metadata_is_read_from_the_model(server: Running) -> None:
    found = server.get("/v2/models/pair").json
    assert found["platform"] == "onnxruntime_onnx"
    assert found["inputs"] == [
        {"name": "a", "datatype": "FP32", "shape": [-1, 2]},
        {"name": "b", "datatype": "INT64", "shape": [-1, 2]},
    ]
    assert [output["name"] for output in found["outputs"]] == ["sum", "twice"]
    assert server.get("/v2/models/tiny").json["versions"] == ["1", "2"]
    assert server.get("/v2/models/tiny/config").json["input"] == [
        {"name": "x", "data_type": "TYPE_FP32", "dims": [-1, 4]}
    ]


def test_json_in_gives_json_out_with_the_id(server: Running) -> None:
    answer = server.post(INFER, good(id="seven")).json
    assert answer["id"] == "seven"
    assert (answer["model_name"], answer["model_version"]) == ("tiny", "2")
    assert answer["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [1, 3], "data": Y}]
    assert server.post("/v2/models/tiny/versions/1/infer", good()).json["model_version"] == "1"


def test_nested_data_are_flattened(server: Running) -> None:
    entry = {"name": "x", "datatype": "FP32", "shape": [2, 4], "data": [[1, 2, 3, 4], [0, 0, 0, 1]]}
    assert server.post(INFER, {"inputs": [entry]}).json["outputs"][0]["data"] == [*Y, 10.0, 11.0, 12.0]


@pytest.mark.parametrize("rows", [1, 5, 40_000])
def test_binary_tensors_go_in_and_out(server: Running, rows: int) -> None:
    """The largest is read into memory of its own."""
    array = np.random.default_rng(0).standard_normal((rows, 4)).astype(np.float32)
    for _ in range(2):  # the second time, what the JSON says is known
        body, headers = binary(array)
        answer = server.ask("POST", INFER, body, headers=headers)
        length = int(answer.headers["inference-header-content-length"])
        head = json.loads(answer.body[:length])
        assert head["outputs"] == [
            {"name": "y", "datatype": "FP32", "shape": [rows, 3], "parameters": {"binary_data_size": rows * 12}}
        ]
        found = np.frombuffer(answer.body[length:], np.float32).reshape(rows, 3)
        expected = np.maximum(array @ np.arange(1, 13, dtype=np.float32).reshape(4, 3), 0)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_large_json_takes_the_other_parser_and_gives_the_same(server: Running) -> None:
    array = np.random.default_rng(0).standard_normal((3000, 4)).astype(np.float32)
    whole = server.post(INFER, {"inputs": [tensor("x", array, "FP32")]}).json["outputs"][0]["data"]
    few = server.post(INFER, {"inputs": [tensor("x", array[:5], "FP32")]}).json["outputs"][0]["data"]
    np.testing.assert_allclose(whole[:15], few, rtol=1e-6)


def test_every_datatype_survives(server: Running) -> None:
    inputs = [
        tensor("x", np.array([True, False]), "BOOL"),
        tensor("u", np.array([1, 100]), "UINT8"),
        tensor("d", np.array([0.1, -2]), "FP64"),
    ]
    outputs = server.post("/v2/models/flags/infer", {"inputs": inputs}).json["outputs"]
    assert [output["data"] for output in outputs] == [[False, True], [2, 200], [-0.1, 2.0]]
    half = tensor("x", np.array([[1.5, 2]]), "FP16")
    assert server.post("/v2/models/half/infer", {"inputs": [half]}).json["outputs"][0]["data"] == [3.0, 4.0]
    words = {"name": "words", "datatype": "BYTES", "shape": [1, 2], "data": ["né", ""]}
    assert server.post("/v2/models/text/infer", {"inputs": [words]}).json["outputs"][0]["data"] == ["né", ""]


def test_only_the_outputs_asked_for_come(server: Running) -> None:
    inputs = [tensor("b", np.array([[1, 2]]), "INT64"), tensor("a", np.array([[0.5, 1]]), "FP32")]
    answer = server.post("/v2/models/pair/infer", {"inputs": inputs, "outputs": [{"name": "twice"}]}).json
    assert [(output["name"], output["data"]) for output in answer["outputs"]] == [("twice", [2, 4])]


def test_plain_json_for_people(server: Running) -> None:
    assert server.post("/predict/tiny", [1, 2, 3, 4]).json == {"y": [Y]}
    assert server.post("/predict/tiny", {"x": X.tolist()}).json == {"y": [Y]}
    answer = server.post("/predict", [1])
    assert answer.status == 404
    assert "name a model: " in answer.json["error"]
    assert "input q" in server.post("/predict/tiny", {"q": [1]}).json["error"]


WRONG: dict[str, tuple[Any, str]] = {
    "not JSON": (b"{", "not JSON"),
    "a list": ([], "not a JSON object"),
    "no input": ({"inputs": []}, "input x: missing"),
    "unknown input": ({"inputs": [tensor("z", X, "FP32")]}, "input z: the model has no such input"),
    "twice": ({"inputs": [tensor("x", X, "FP32")] * 2}, "input x: given twice"),
    "datatype": ({"inputs": [tensor("x", X, "FP64")]}, "input x: datatype FP64, the model takes FP32"),
    "rank": ({"inputs": [tensor("x", X[0], "FP32")]}, "input x: shape [4], the model takes [n,4]"),
    "size": ({"inputs": [tensor("x", X[:, :3], "FP32")]}, "input x: shape [1,3]"),
    "too few values": (
        {"inputs": [{**tensor("x", X, "FP32"), "data": [1]}]}, "input x: 1 values for the shape [1, 4]"
    ),
    "strings": ({"inputs": [{**tensor("x", X, "FP32"), "data": ["1", "2", "3", "4"]}]}, "input x: the data are not"),
    "ragged": ({"inputs": [{**tensor("x", X, "FP32"), "data": [[1, 2], [3], 4]}]}, "input x: the data are not"),
    "negative size": ({"inputs": [{**tensor("x", X, "FP32"), "shape": [-1, 4]}]}, "negative size"),
    "huge": ({"inputs": [{**tensor("x", X, "FP32"), "shape": [1 << 40, 4]}]}, "above the limit"),
    "huge behind a zero": ({"inputs": [{**tensor("x", X, "FP32"), "shape": [1 << 40, 0]}]}, "above the limit"),
    "no shape": ({"inputs": [{"name": "x", "datatype": "FP32", "data": [1]}]}, "input x: its shape is not"),
    "no data": ({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4]}]}, "input x: has neither data"),
    "unknown output": (good(outputs=[{"name": "q"}]), "output q: the model has no such output; it gives y"),
    "output twice": (good(outputs=[{"name": "y"}] * 2), "asked for twice"),
    "id": (good(id=7), "id is not a string"),
    "parameters": (good(parameters=[1]), "parameters is not an object"),
    "timeout": (good(parameters={"timeout": -1}), "timeout is not a whole number"),
    "inputs": ({"inputs": {"x": 1}}, "inputs is not a list"),
    "an input that is no object": ({"inputs": [1]}, "not an object"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_bad_input_is_400_and_named(server: Running, case: str) -> None:
    message, words = WRONG[case]
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    for padding in (0, 40_000):  # the small and the large parser
        answer = server.ask("POST", INFER, body + b" " * padding)
        assert answer.status == 400
        assert list(answer.json) == ["error"]
        assert words in answer.json["error"]


def test_values_out_of_range_are_refused(server: Running) -> None:
    for data, words in (([256, 0], "out of the range of UINT8"), ([1.5, 0], "not UINT8 values"), ([-1, 0], "range")):
        inputs = [
            tensor("x", np.array([True, False]), "BOOL"),
            {"name": "u", "datatype": "UINT8", "shape": [2], "data": data},
            tensor("d", np.array([0.1, -2]), "FP64"),
        ]
        answer = server.post("/v2/models/flags/infer", {"inputs": inputs})
        assert answer.status == 400
        assert words in answer.json["error"]


def test_symbolic_sizes_must_agree_between_inputs(server: Running) -> None:
    inputs = [tensor("a", np.zeros((2, 2)), "FP32"), tensor("b", np.zeros((3, 2), int), "INT64")]
    answer = server.post("/v2/models/pair/infer", {"inputs": inputs})
    assert (answer.status, answer.json["error"]) == (400, "input b: n is 3 here and 2 in a")


def test_binary_data_of_the_wrong_length_are_refused(server: Running) -> None:
    body, headers = binary()
    for wrong in (body[:-1], body + b"x"):
        assert server.ask("POST", INFER, wrong, headers=headers).status == 400
    answer = server.ask("POST", INFER, body, headers={"Inference-Header-Content-Length": "99999"})
    assert "99999" in answer.json["error"]
    head = json.loads(body[: int(headers["Inference-Header-Content-Length"])])
    head["inputs"][0]["parameters"]["binary_data_size"] = 15
    text = json.dumps(head).encode()
    answer = server.ask("POST", INFER, text + b"0" * 15, headers={"Inference-Header-Content-Length": str(len(text))})
    assert "input x: binary_data_size is 15" in answer.json["error"]


def test_what_the_model_itself_refuses_is_400_too(server: Running) -> None:
    answer = server.post("/v2/models/picky/infer", {"inputs": [tensor("i", np.array([9]), "INT64")]})
    assert answer.status == 400
    assert "indices element out of data bounds" in answer.json["error"]


def test_unknown_places_and_methods(server: Running) -> None:
    assert server.get("/nowhere").status == 404
    assert server.get("/v2/models/none").json == {"error": "no model none is loaded here"}
    assert server.get("/v2/models/tiny/versions/9").status == 404
    assert server.get("/v2/models/../../etc/passwd").status == 404
    assert server.get(INFER).status == 405
    assert server.ask("HEAD", "/v2").body == b""


def test_statistics_and_metrics_count_what_was_done(models: Path) -> None:
    with serving.running(models / "tiny" / "1" / "model.onnx") as server:
        for _ in range(3):
            assert server.post("/v2/models/model/infer", good()).status == 200
        assert server.post("/predict", [1, 2, 3, 4]).status == 200
        (found,) = server.get("/v2/models/model/stats").json["model_stats"]
        assert found["inference_count"] == 4
        assert found["inference_stats"]["success"]["count"] == 4
        assert found["inference_stats"]["compute_infer"]["ns"] > 0
        assert found == server.get("/v2/models/stats").json["model_stats"][0]
        text = server.get("/metrics").body.decode()
        for prefix in ("nv", "sardonyx"):
            assert f'{prefix}_inference_request_success{{model="model",version="1"}} 4.0' in text
        assert "process_resident_memory_bytes" in text


def test_compressed_bodies_are_read_and_bombs_are_not(models: Path) -> None:
    with serving.running(models, limits=Limits(body_bytes=1 << 20)) as server:
        body = gzip.compress(json.dumps(good()).encode())
        assert server.ask("POST", INFER, body, headers={"Content-Encoding": "gzip"}).json["outputs"][0]["data"] == Y
        bomb = gzip.compress(b" " * (2 << 20))
        assert server.ask("POST", INFER, bomb, headers={"Content-Encoding": "gzip"}).status == 413
        assert server.ask("POST", INFER, b"junk", headers={"Content-Encoding": "gzip"}).status == 400
        assert server.ask("POST", INFER, b"x", headers={"Content-Encoding": "br"}).status == 415


def test_requests_sent_ahead_are_answered_in_order(server: Running) -> None:
    def request(number: int, close: bool) -> bytes:
        body = json.dumps({"id": str(number), "inputs": [tensor("x", X * number, "FP32")]}).encode()
        end = "Connection: close\r\n" if close else ""
        return f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\n{end}Content-Length: {len(body)}\r\n\r\n".encode() + body

    rest = server.raw(b"".join(request(number, number == 49) for number in range(50)))
    for number in range(50):
        answer = Answer.of(rest)
        assert answer.json["id"] == str(number)
        assert answer.json["outputs"][0]["data"] == [value * number for value in Y]
        rest = answer.rest
    assert rest == b""


def test_a_body_in_chunks_and_a_body_that_waits_for_leave(server: Running) -> None:
    body = json.dumps(good()).encode()
    head = f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n".encode()
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(body[i : i + 9]), body[i : i + 9]) for i in range(0, len(body), 9))
    answer = Answer.of(server.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"))
    assert answer.json["outputs"][0]["data"] == Y
    with socket.create_connection(("127.0.0.1", server.server.ports["http"])) as client:
        client.sendall(head + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(body)
        assert b"200 OK" in client.recv(1000)


SMUGGLED = {
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "the same length twice": b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "length and chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "other encoding": b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked that is not last": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "length with sign": b"Content-Length: +5\r\n\r\nhello",
    "length with list": b"Content-Length: 5, 5\r\n\r\nhello",
    "length as hex": b"Content-Length: 0x5\r\n\r\nhello",
    "folded header": b"Content-Length: 5\r\n 6\r\n\r\nhello",
    "space before colon": b"Content-Length : 5\r\n\r\nhello",
    "bare line feed in a chunk size": b"Transfer-Encoding: chunked\r\n\r\n0\n\r\n",
    "negative chunk": b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    "null in a header": b"X: a\0b\r\n\r\n",
}


@pytest.mark.parametrize("case", SMUGGLED)
def test_a_length_that_could_be_read_in_two_ways_is_refused_and_the_connection_closed(
    server: Running, case: str
) -> None:
    second = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = Answer.of(server.raw(f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\n".encode() + SMUGGLED[case] + second))
    assert answer.status == 400
    assert answer.rest == b""


def test_too_large_is_refused_before_it_is_read(models: Path) -> None:
    limits = Limits(body_bytes=1000, header_bytes=2000)
    with serving.running(models, limits=limits) as server:
        head = f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\n".encode()
        assert Answer.of(server.raw(head + b"Content-Length: 1001\r\n\r\n")).status == 413
        chunk = b"Transfer-Encoding: chunked\r\n\r\n" + b"190\r\n" + b" " * 400 + b"\r\n"
        assert Answer.of(server.raw(head + chunk + 2 * (b"190\r\n" + b" " * 400 + b"\r\n"))).status == 413
        assert Answer.of(server.raw(head + b"X: " + b"y" * 3000)).status == 431
        assert Answer.of(server.raw(head + b"X: y\r\n" * 300 + b"\r\n")).status == 431
        assert Answer.of(server.raw(b"GET /" + b"a" * 3000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")).status == 431


def test_too_slow_is_refused_and_idle_is_closed(models: Path) -> None:
    limits = Limits(header_seconds=0.2, body_seconds=0.2, idle_seconds=0.2)
    with serving.running(models, limits=limits) as server:
        head = f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\n".encode()
        assert Answer.of(server.raw(head)).status == 408
        assert Answer.of(server.raw(head + b"Content-Length: 50\r\n\r\nhalf")).status == 408
        assert server.raw(b"") == b""


# A batch waits for company, and a client for its turn, longer than any test lasts.
ENDLESS = 3600.0


def sent(server: Running, client: socket.socket) -> None:
    """Sends a request that lies in the queue when this returns."""
    body = json.dumps(good()).encode()
    client.sendall(f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    until(lambda: server.server.models.find("tiny").waiting == 1)


def test_a_full_queue_is_429(models: Path) -> None:
    batching = Batching(queue=1, delay_seconds=ENDLESS, timeout_seconds=ENDLESS)
    with (
        serving.running(models, batching=batching) as server,
        socket.create_connection(("127.0.0.1", server.server.ports["http"])) as waiting,
    ):
        sent(server, waiting)
        refused = server.post(INFER, good())
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")


def test_a_late_request_is_504(models: Path) -> None:
    with serving.running(models, batching=Batching(delay_seconds=ENDLESS, timeout_seconds=0.1)) as server:
        late = server.post(INFER, good())
        assert (late.status, late.json["error"]) == (504, "the request waited longer than its timeout")


def test_work_of_a_client_that_has_gone_is_dropped(models: Path) -> None:
    batching = Batching(delay_seconds=ENDLESS, timeout_seconds=ENDLESS)
    with serving.running(models, batching=batching) as server:
        tiny = server.server.models.find("tiny")
        with socket.create_connection(("127.0.0.1", server.server.ports["http"])) as client:
            sent(server, client)
        until(lambda: tiny.waiting == 0)
        assert tiny.statistics.runs == 0
