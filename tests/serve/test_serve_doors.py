"""The other ways in: our own client, an ASGI host, the description of the addresses, and the page."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import serving
from sardonyx.errors import InputError, RuntimeRefused, UsageError
from sardonyx.serve.asgi import Application
from sardonyx.serve.client import Client
from serving import Running

X = np.array([[1, 2, 3, 4]], np.float32)
Y = np.array([[70, 80, 90]], np.float32)


def test_the_client_speaks_every_verb(server: Running) -> None:
    with Client(f"http://{server.http}") as client:
        assert client.live()
        assert client.ready()
        assert client.ready("tiny")
        assert not client.ready("none")
        assert client.metadata()["name"] == "sardonyx"
        assert client.metadata("pair")["inputs"][1]["datatype"] == "INT64"
        np.testing.assert_array_equal(client.infer("tiny", {"x": X})["y"], Y)
        np.testing.assert_array_equal(client.infer("tiny", {"x": X}, version="1")["y"], Y)
        found = client.infer("pair", {"a": X[:, :2], "b": np.array([[1, 2]])}, outputs=["twice"])
        assert {name: array.tolist() for name, array in found.items()} == {"twice": [[2, 4]]}
        for words in (np.array([["né", ""]]), np.array([["né", ""]], object)):
            assert client.infer("text", {"words": words})["same"].tolist() == [["né", ""]]
        assert client.statistics("tiny", "1")["inference_count"] >= 1


def test_the_client_raises_what_the_server_refuses(server: Running) -> None:
    client = Client(f"http://{server.http}")
    with pytest.raises(InputError, match="400: input x: datatype FP64"):
        client.infer("tiny", {"x": X.astype(np.float64)})
    with pytest.raises(UsageError, match="no type for complex64"):
        client.infer("tiny", {"x": X.astype(np.complex64)})
    np.testing.assert_array_equal(client.infer("tiny", {"x": X})["y"], Y)
    client.close()
    for url in ("ftp://x", "localhost:80"):
        with pytest.raises(UsageError, match="not the address of a server"):
            Client(url)
    with serving.bound_port() as port, pytest.raises(RuntimeRefused, match="does not answer"):
        Client(f"http://127.0.0.1:{port}", timeout=0.2).live()


def test_the_client_sends_its_token(models: Path) -> None:
    with serving.running(models, tokens=("secret",)) as server:
        with Client(f"http://{server.http}", token="secret") as client:
            np.testing.assert_array_equal(client.infer("tiny", {"x": X})["y"], Y)
        with pytest.raises(InputError, match="401"), Client(f"http://{server.http}") as client:
            client.infer("tiny", {"x": X})


async def ask(app: Application, method: str, path: str, body: bytes = b"", **more: Any) -> tuple[int, Any]:
    """The status and the JSON that an ASGI host gets."""
    pieces = [body[: len(body) // 2], body[len(body) // 2 :]]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def send(message: Any) -> None:
        sent.append(message)

    await app({"type": "http", "method": method, "path": path, "headers": [], **more}, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


def test_the_application_answers_under_somebody_elses_server(models: Path) -> None:
    async def visit() -> None:
        app = Application(models, threads=1, tokens=("key",))
        token = {"headers": [(b"authorization", b"Bearer key")]}
        assert await ask(app, "POST", "/predict/tiny", b"[1,2,3,4]", **token) == (200, {"y": Y.tolist()})
        mounted = await ask(app, "GET", "/models/v2/health/live", root_path="/models")
        assert mounted == (200, {"live": True})
        assert (await ask(app, "GET", "/v2/models/tiny"))[0] == 401
        assert (await ask(app, "POST", "/predict/tiny", b"{", **token))[0] == 400
        await app.close()

    asyncio.run(visit())


@pytest.mark.heavy
def test_the_application_starts_and_ends_with_its_host(models: Path) -> None:
    async def live() -> list[str]:
        words, sent = ["lifespan.startup", "lifespan.shutdown"], []

        async def receive() -> dict[str, str]:
            return {"type": words.pop(0)}

        async def send(message: Any) -> None:
            sent.append(message["type"])

        await Application(models / "tiny" / "1" / "model.onnx")({"type": "lifespan"}, receive, send)
        return sent

    assert asyncio.run(live()) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_every_address_of_the_description_is_there(server: Running) -> None:
    document = server.get("/openapi.json").json
    assert document["openapi"] == "3.1.0"
    x = document["paths"]["/predict/tiny"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    row = {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4}
    assert x["properties"]["x"]["anyOf"] == [{"type": "array", "items": row}, row]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            answer = server.ask(method.upper(), path, b"{}" if method == "post" else b"")
            assert answer.status == (400 if method == "post" else 200), path
            assert str(answer.status) in operation["responses"]


def test_the_page_comes_with_the_server_and_loads_nothing_from_elsewhere(server: Running) -> None:
    answer = server.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert b"Try a model" in answer.body
    assert b"://" not in answer.body
    assert {"name": "tiny", "version": "2"} in server.get("/v2/models").json["models"]
