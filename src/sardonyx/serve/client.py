"""A client for the server: the protocol's verbs as functions, with arrays in and out as binary data."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np

from sardonyx.errors import InputError, RuntimeRefused, UsageError
from sardonyx.serve.tensors import DATATYPES, NUMPY, from_bytes, to_bytes
from sardonyx.signature import Array

_NAMES = {np.dtype(name): datatype for name, datatype in DATATYPES.items() if name not in ("bfloat16", "string")}


class Client:
    """`Client("http://127.0.0.1:8080").infer("digits", {"x": array})` gives the outputs by name.

    Keeps one connection open; use one client a thread. A refusal of the server is raised as `InputError`.
    """

    def __init__(self, url: str, *, token: str | None = None, timeout: float = 60.0, tls: Any = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise UsageError(f"'{url}' is not the address of a server", hint="write it as http://127.0.0.1:8080")
        if parts.scheme == "https":
            context = tls or ssl.create_default_context()
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=timeout, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def live(self) -> bool:
        return bool(self._json("GET", "/v2/health/live")["live"])

    def ready(self, model: str | None = None) -> bool:
        """Whether the server, or one of its models, takes requests."""
        try:
            return bool(self._json("GET", f"{_path(model)}/ready" if model else "/v2/health/ready")["ready"])
        except InputError:
            return False

    def wait(self, seconds: float) -> None:
        """Returns once the server takes requests, or raises what it last said."""
        end = time.monotonic() + seconds
        while True:
            try:
                self._json("GET", "/v2/health/ready")
                return
            except (InputError, RuntimeRefused):
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def metadata(self, model: str | None = None, version: str | None = None) -> dict[str, Any]:
        """What the server, or one of its models, says of itself."""
        return dict(self._json("GET", _path(model, version) if model else "/v2"))

    def statistics(self, model: str, version: str | None = None) -> dict[str, Any]:
        return dict(self._json("GET", f"{_path(model, version)}/stats")["model_stats"][0])

    def infer(
        self, model: str, inputs: Mapping[str, Any], *, outputs: Sequence[str] = (), version: str | None = None
    ) -> dict[str, Array]:
        """The outputs, all of them or those of `outputs`, for arrays in the model's own types."""
        arrays = {name: np.asarray(value) for name, value in inputs.items()}
        data = [to_bytes(_text_objects(array)) for array in arrays.values()]
        head = json.dumps(
            {
                "inputs": [
                    {
                        "name": name,
                        "datatype": _datatype(name, array),
                        "shape": list(array.shape),
                        "parameters": {"binary_data_size": len(part)},
                    }
                    for (name, array), part in zip(arrays.items(), data, strict=True)
                ],
                "outputs": [{"name": name, "parameters": {"binary_data": True}} for name in outputs],
                "parameters": {"binary_data_output": True},
            }
        ).encode()
        headers = {"Inference-Header-Content-Length": str(len(head))}
        body, length = self._ask("POST", f"{_path(model, version)}/infer", b"".join((head, *data)), headers)
        return _outputs(body, length)

    def _json(self, method: str, path: str) -> Any:
        return json.loads(self._ask(method, path)[0])

    def _ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[bytes, int]:
        try:
            self._connection.request(method, path, body, {**self._headers, **(headers or {})})
            answer = self._connection.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise RuntimeRefused(
                f"the server does not answer: {error}", hint="is it running, and is this its port?"
            ) from error
        if answer.status != 200:
            retry = answer.headers.get("Retry-After")
            hint = f"try again in {retry} s" if retry else "the message names what to change"
            raise InputError(f"the server refuses with {answer.status}: {_reason(data)}", hint=hint)
        return data, int(answer.headers.get("Inference-Header-Content-Length", len(data)))


def _path(model: str, version: str | None = None) -> str:
    return f"/v2/models/{quote(model, safe='')}" + (f"/versions/{quote(version, safe='')}" if version else "")


def _datatype(name: str, array: Array) -> str:
    if array.dtype.kind in "OUS":
        return "BYTES"
    if array.dtype not in _NAMES:
        raise UsageError(
            f"input {name}: the protocol has no type for {array.dtype}", hint="cast it to the model's type"
        )
    return _NAMES[array.dtype]


def _text_objects(array: Array) -> Array:
    return array.astype(object) if array.dtype.kind in "US" else array


def _outputs(body: bytes, length: int) -> dict[str, Array]:
    found, start = {}, length
    for output in json.loads(body[:length])["outputs"]:
        size = output.get("parameters", {}).get("binary_data_size")
        part = memoryview(body)[start : start + (size or 0)]
        found[output["name"]] = (
            from_bytes(part, output["datatype"], output["shape"], output["name"])
            if size is not None
            else np.array(output["data"], NUMPY[output["datatype"]]).reshape(output["shape"])
        )
        start += size or 0
    return found


def _reason(data: bytes) -> str:
    try:
        return str(json.loads(data)["error"])
    except (ValueError, KeyError, TypeError):
        return data[:200].decode(errors="replace")
