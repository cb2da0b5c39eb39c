"""What each address of the server answers: the Open Inference Protocol, statistics, metrics, and `/predict` for people."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from importlib.resources import files
from typing import Any
from urllib.parse import unquote

import orjson

import sardonyx
from sardonyx.serve.access import Access
from sardonyx.serve.batch import Answer, Work
from sardonyx.serve.engine import Models, Served
from sardonyx.serve.exchange import JSON, OCTETS, Exchange
from sardonyx.serve.metrics import CONTENT_TYPE, Metrics
from sardonyx.serve.openapi import describe
from sardonyx.serve.options import Limits
from sardonyx.serve.plain import read_plain, write_plain
from sardonyx.serve.protocol import Plan, Reader, parse
from sardonyx.serve.refusal import NOT_ALLOWED, NOT_FOUND, TOO_LARGE, Refusal, bad
from sardonyx.serve.shared_memory import Regions

EXTENSIONS = ["binary_tensor_data", "model_configuration", "schedule_policy", "statistics"]
_KEPT_TARGETS = 1024
# The page loads nothing from elsewhere, and nothing from elsewhere may frame it.
_PAGE_HEADERS = (
    b"Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    b"connect-src 'self'; img-src blob:; frame-ancestors 'none'\r\nX-Content-Type-Options: nosniff\r\n"
)
_SHARED = r"/v2/systemsharedmemory(?:/region/(?P<name>[^/]+))?"
_MODEL = r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<version>[^/]+))?"


class Routes:
    """Answers requests for the models of a server."""

    def __init__(self, models: Models, access: Access, limits: Limits, regions: Regions | None = None) -> None:
        self.models, self.access, self._limits = models, access, limits
        self.regions = regions or Regions(None)
        self.metrics = Metrics(models)
        self._readers: dict[bytes, Reader] = {}
        self._generation = models.generation
        self._table: list[tuple[bytes, re.Pattern[str], Callable[..., None]]] = [
            (method, re.compile(pattern), answer)
            for method, pattern, answer in (
                (b"GET", r"/v2/health/live", self._live),
                (b"GET", r"/v2/health/ready", self._ready),
                (b"GET", r"/v2", self._server),
                (b"GET", r"", self._page),
                (b"GET", r"/openapi.json", self._openapi),
                (b"GET", r"/v2/models", self._list),
                (b"GET", r"/v2/models/stats", self._all_statistics),
                (b"POST", _MODEL + "/infer", self._infer),
                (b"GET", _MODEL + "/ready", self._model_ready),
                (b"GET", _MODEL + "/stats", self._statistics),
                (b"GET", _MODEL + "/config", self._config),
                (b"GET", _MODEL, self._metadata),
                (b"POST", r"/predict(?:/(?P<name>[^/]+))?", self._predict),
                (b"GET", r"/metrics", self._metrics),
                (b"GET", _SHARED + "/status", self._shared_status),
                (b"POST", _SHARED + "/register", self._shared_register),
                (b"POST", _SHARED + "/unregister", self._shared_unregister),
            )
        ]

    def handle(self, exchange: Exchange) -> None:
        reader = self._readers.get(exchange.target)
        if reader is not None and exchange.method == b"POST" and self._generation == self.models.generation:
            self._infer_with(reader, exchange)
            return
        path = exchange.target.partition(b"?")[0].decode("latin-1")
        allowed = []
        for method, pattern, answer in self._table:
            match = pattern.fullmatch(path.rstrip("/"))
            if match is not None:
                if method == exchange.method or (exchange.method == b"HEAD" and method == b"GET"):
                    words = {key: unquote(value) if value else None for key, value in match.groupdict().items()}
                    answer(exchange, **words)
                    return
                allowed.append(method.decode())
        if allowed:
            raise Refusal(NOT_ALLOWED, f"this address takes {' or '.join(allowed)}", allow=tuple(allowed))
        raise Refusal(NOT_FOUND, f"there is nothing at {path}")

    # Inference.

    def _infer(self, exchange: Exchange, name: str, version: str | None) -> None:
        self.access.check(exchange.token, name)
        reader = Reader(self.models.find(name, version), self._limits, self.regions)
        if self._generation != self.models.generation or len(self._readers) >= _KEPT_TARGETS:
            self._readers.clear()
            self._generation = self.models.generation
        self._readers[exchange.target] = reader
        self._infer_with(reader, exchange)

    def _infer_with(self, reader: Reader, exchange: Exchange) -> None:
        if not self.access.open:
            self.access.check(exchange.token, reader.served.name)
        plan, inputs = reader.read(unpacked(exchange, self._limits), exchange.json_bytes)

        def answer(found: Answer) -> None:
            self._send(exchange, reader, plan, found)

        exchange.work = work = Work(
            inputs, plan.outputs, plan.rows, plan.key, answer, plan.timeout, plan.priority, trace=exchange.trace
        )
        reader.served.submit(work)

    def _send(self, exchange: Exchange, reader: Reader, plan: Plan, found: Answer) -> None:
        try:
            if isinstance(found, Exception):
                raise found
            head, data = reader.write(plan, found)
        except Refusal as refusal:
            exchange.refuse(refusal)
            return
        if data or (plan.binary and all(plan.binary)):
            exchange.respond(200, OCTETS, [head, *data], b"Inference-Header-Content-Length: %d\r\n" % len(head))
        else:
            exchange.respond(200, JSON, [head])

    def _predict(self, exchange: Exchange, name: str | None) -> None:
        served = self.models.find(name) if name else self.models.only()
        self.access.check(exchange.token, served.name)
        inputs, rows, key = read_plain(served, unpacked(exchange, self._limits))

        def answer(found: Answer) -> None:
            if isinstance(found, Refusal):
                exchange.refuse(found)
            elif isinstance(found, list):
                exchange.respond(200, JSON, [write_plain(served, found)])

        exchange.work = Work(inputs, served.terms.output_names, rows, key, answer, trace=exchange.trace)
        served.submit(exchange.work)

    # Facts.

    def _live(self, exchange: Exchange) -> None:
        _json(exchange, {"live": True})

    def _ready(self, exchange: Exchange) -> None:
        self.models.ready()
        _json(exchange, {"ready": True})

    def _server(self, exchange: Exchange) -> None:
        _json(exchange, server_facts(self.regions))

    def _model(self, exchange: Exchange, name: str, version: str | None) -> Served:
        self.access.check(exchange.token, name)
        return self.models.find(name, version)

    def _model_ready(self, exchange: Exchange, name: str, version: str | None) -> None:
        self._model(exchange, name, version)
        self.models.ready()
        _json(exchange, {"name": name, "ready": True})

    def _metadata(self, exchange: Exchange, name: str, version: str | None) -> None:
        served = self._model(exchange, name, version)
        _json(exchange, {**served.metadata, "versions": self.models.versions(name)})

    def _config(self, exchange: Exchange, name: str, version: str | None) -> None:
        _json(exchange, self._model(exchange, name, version).config)

    def _statistics(self, exchange: Exchange, name: str, version: str | None) -> None:
        served = self._model(exchange, name, version)
        _json(exchange, {"model_stats": [served.statistics.to_dict(served.name, served.version)]})

    def _all_statistics(self, exchange: Exchange) -> None:
        self.access.check(exchange.token)
        entries = [served.statistics.to_dict(served.name, served.version) for served in self.models.all()]
        _json(exchange, {"model_stats": entries})

    def _list(self, exchange: Exchange) -> None:
        self.access.check(exchange.token)
        _json(exchange, {"models": [{"name": each.name, "version": each.version} for each in self.models.all()]})

    def _openapi(self, exchange: Exchange) -> None:
        self.access.check(exchange.token)
        _json(exchange, describe(self.models))

    def _page(self, exchange: Exchange) -> None:
        page = files("sardonyx").joinpath("web", "try.html").read_bytes()
        exchange.respond(200, b"text/html; charset=utf-8", [page], _PAGE_HEADERS)

    def _metrics(self, exchange: Exchange) -> None:
        self.access.check(exchange.token)
        exchange.respond(200, CONTENT_TYPE, [self.metrics.text()])

    # Shared memory.

    def _shared(self, exchange: Exchange) -> None:
        self.access.check(exchange.token)
        if not self.regions.on:
            raise Refusal(NOT_FOUND, "shared memory is off; start the server with --shared-memory PREFIX")

    def _shared_status(self, exchange: Exchange, name: str | None) -> None:
        self._shared(exchange)
        _json(exchange, self.regions.status(name))

    def _shared_register(self, exchange: Exchange, name: str | None) -> None:
        self._shared(exchange)
        message = parse(unpacked(exchange, self._limits))
        self.regions.register(name or "", message.get("key"), message.get("offset", 0), message.get("byte_size"))
        _json(exchange, {})

    def _shared_unregister(self, exchange: Exchange, name: str | None) -> None:
        self._shared(exchange)
        self.regions.unregister(name)
        _json(exchange, {})


def server_facts(regions: Regions) -> dict[str, Any]:
    """What the server says of itself over either transport."""
    extensions = [*EXTENSIONS, "system_shared_memory"] if regions.on else EXTENSIONS
    return {"name": "sardonyx", "version": sardonyx.__version__, "extensions": extensions}


class Control:
    """The model-repository extension, on a port and with a token of its own."""

    def __init__(self, models: Models, access: Access, spawn: Callable[[Any], Any]) -> None:
        self._models, self._access, self._spawn = models, access, spawn

    def handle(self, exchange: Exchange) -> None:
        self._access.check(exchange.token)
        path = exchange.target.partition(b"?")[0].decode("latin-1")
        if exchange.method != b"POST":
            raise Refusal(NOT_ALLOWED, "model control takes POST", allow=("POST",))
        if path == "/v2/repository/index":
            _json(exchange, self._models.index())
            return
        match = re.fullmatch(r"/v2/repository/models/([^/]+)/(load|unload)", path)
        if match is None:
            raise Refusal(NOT_FOUND, f"there is nothing at {path}")
        name = unquote(match[1])
        change = self._models.load(name) if match[2] == "load" else self._models.unload(name)
        self._spawn(self._answer_after(exchange, change))

    async def _answer_after(self, exchange: Exchange, change: Any) -> None:
        try:
            await change
        except Refusal as refusal:
            exchange.refuse(refusal)
        else:
            _json(exchange, {})


def unpacked(exchange: Exchange, limits: Limits) -> bytes | memoryview:
    """The body, decompressed where the client says so, and never beyond the limit."""
    encoding = exchange.encoding
    if not encoding or encoding == b"identity":
        return exchange.body
    windows = {b"gzip": 31, b"deflate": 15}
    if encoding not in windows:
        raise Refusal(415, "of content encodings, gzip and deflate are known here")
    inflater = zlib.decompressobj(windows[encoding])
    try:
        body = inflater.decompress(exchange.body, limits.body_bytes + 1)
    except zlib.error as error:
        raise bad(f"the body does not decompress: {error}") from None
    if len(body) > limits.body_bytes:
        raise Refusal(TOO_LARGE, f"the decompressed body is above the limit of {limits.body_bytes} bytes")
    if not inflater.eof:
        raise bad("the compressed body ends too early")
    return body


def _json(exchange: Exchange, message: Any) -> None:
    exchange.respond(200, JSON, [orjson.dumps(message)])
