"""What each address of the server answers: the Open Inference Protocol, statistics, metrics, and `/predict` for people."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.resources import files
from typing import Any
from urllib.parse import unquote

import orjson

import sardonyx
from sardonyx.serve.access import Access
from sardonyx.serve.engine import Models
from sardonyx.serve.exchange import JSON, OCTETS, Exchange
from sardonyx.serve.hosts import Hosts
from sardonyx.serve.inflate import Inflation
from sardonyx.serve.metrics import CONTENT_TYPE, Metrics
from sardonyx.serve.openapi import describe
from sardonyx.serve.options import Limits
from sardonyx.serve.parser import LARGE_JSON, Parser
from sardonyx.serve.plain import read_plain, write_plain
from sardonyx.serve.protocol import Plan, Reader
from sardonyx.serve.refusal import NOT_ALLOWED, NOT_FOUND, Refusal
from sardonyx.serve.served import Served
from sardonyx.serve.shared_memory import Regions
from sardonyx.serve.work import Answer, Work

EXTENSIONS = ["binary_tensor_data", "model_configuration", "schedule_policy", "statistics"]
_log = logging.getLogger(__name__)
_KEPT_TARGETS, _KEPT_TARGET_BYTES = 1024, 512
# The page loads nothing from elsewhere, and nothing from elsewhere may frame it.
_PAGE_HEADERS = (
    b"Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    b"connect-src 'self'; img-src blob:; frame-ancestors 'none'\r\nX-Content-Type-Options: nosniff\r\n"
)
_SHARED = r"/v2/systemsharedmemory(?:/region/(?P<name>[^/]+))?"
_MODEL = r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<version>[^/]+))?"


class Routes:
    """Answers requests for the models of a server."""

    def __init__(
        self,
        models: Models,
        access: Access,
        limits: Limits,
        regions: Regions | None = None,
        hosts: Hosts | None = None,
    ) -> None:
        self.models, self.access, self._limits, self._hosts = models, access, limits, hosts
        self.regions = regions or Regions(None)
        self.metrics = Metrics(models)
        self._parser = Parser(limits)
        self._readers: dict[bytes, Reader] = {}
        self._generation = models.generation
        self._inflaters = ThreadPoolExecutor(1, thread_name_prefix="sardonyx-inflate")
        self._table: list[tuple[bytes, re.Pattern[str], Callable[..., None], bool]] = [
            (method, re.compile(pattern), answer, asks)
            for method, pattern, answer, asks in (
                (b"GET", r"/v2/health/live", self._live, False),
                (b"GET", r"/v2/health/ready", self._ready, False),
                (b"GET", r"/v2", self._server, False),
                (b"GET", r"", self._page, False),
                (b"GET", r"/openapi.json", self._openapi, True),
                (b"GET", r"/v2/models", self._list, True),
                (b"GET", r"/v2/models/stats", self._all_statistics, True),
                (b"POST", _MODEL + "/infer", self._infer, True),
                (b"GET", _MODEL + "/ready", self._model_ready, True),
                (b"GET", _MODEL + "/stats", self._statistics, True),
                (b"GET", _MODEL + "/config", self._config, True),
                (b"GET", _MODEL, self._metadata, True),
                (b"POST", r"/predict(?:/(?P<name>[^/]+))?", self._predict, True),
                (b"GET", r"/metrics", self._metrics, True),
                (b"GET", _SHARED + "/status", self._shared_status, True),
                (b"POST", _SHARED + "/register", self._shared_register, True),
                (b"POST", _SHARED + "/unregister", self._shared_unregister, True),
            )
        ]

    def admit(self, exchange: Exchange) -> None:
        """Finds what answers the request. Checks its names, its token and its size, none of which takes its body."""
        hosts = self._hosts
        if hosts is not None and (exchange.host not in hosts.good or exchange.origin is not None):
            hosts.check(exchange)
        if self._generation != self.models.generation:
            self._readers.clear()
            self._generation = self.models.generation
        reader = self._readers.get(exchange.target) if exchange.method == b"POST" else None
        if reader is not None:
            if not self.access.open:
                self.access.check(exchange.token, reader.served.name)
            exchange.route = reader
        else:
            exchange.route = self._found(exchange)
        if exchange.length > self._limits.text_bytes:
            self._parser.must_be_short(exchange.length if exchange.json_bytes is None else exchange.json_bytes)

    def _found(self, exchange: Exchange) -> Callable[[], None]:
        path = exchange.target.partition(b"?")[0].decode("latin-1")
        allowed = []
        for method, pattern, answer, asks in self._table:
            match = pattern.fullmatch(path.rstrip("/"))
            if match is not None:
                if method == exchange.method or (exchange.method == b"HEAD" and method == b"GET"):
                    words = {key: unquote(value) if value else None for key, value in match.groupdict().items()}
                    if asks:
                        self.access.check(exchange.token, None if answer in self._shared_ones else words.get("name"))
                    return partial(answer, exchange, **words)
                allowed.append(method.decode())
        if allowed:
            raise Refusal(NOT_ALLOWED, f"this address takes {' or '.join(allowed)}", allow=tuple(allowed))
        raise Refusal(NOT_FOUND, f"there is nothing at {path}")

    @property
    def _shared_ones(self) -> tuple[Callable[..., None], ...]:
        """The answers whose name is not a model's."""
        return (self._shared_status, self._shared_register, self._shared_unregister)

    def handle(self, exchange: Exchange) -> None:
        route = exchange.route
        if type(route) is not Reader:
            route()
        elif self._generation == self.models.generation and self._readers.get(exchange.target) is route:
            self._infer_with(route, exchange)
        else:  # another version was loaded while the body arrived
            self._found(exchange)()

    def rest(self) -> None:
        self._parser.rest()

    # Inference.

    def _infer(self, exchange: Exchange, name: str, version: str | None) -> None:
        served = self.models.find(name, version)
        # One for a model: a client may write its address in as many ways as it likes.
        reader = next((known for known in self._readers.values() if known.served is served), None)
        if reader is None:
            reader = Reader(served, self._limits, self.regions, self._parser)
        if len(self._readers) >= _KEPT_TARGETS:
            self._readers.clear()
        if len(exchange.target) <= _KEPT_TARGET_BYTES:
            self._readers[exchange.target] = reader
        self._infer_with(reader, exchange)

    def _infer_with(self, reader: Reader, exchange: Exchange) -> None:
        if exchange.encoding:
            most = self._limits.text_bytes if exchange.json_bytes is None else self._limits.body_bytes
            self._unpack(exchange, most, lambda body: self._ask(reader, exchange, body))
        else:
            self._ask(reader, exchange, exchange.body)

    def _ask(self, reader: Reader, exchange: Exchange, body: bytes | memoryview) -> None:
        plan, inputs = reader.read(body, exchange.json_bytes)
        if plan.shared:
            self.access.check_all(exchange.token)

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
        served = self.models.find(name) if name else self.models.only(self.access.check(exchange.token))
        self._unpack(exchange, self._limits.text_bytes, lambda body: self._ask_plainly(served, exchange, body))

    def _ask_plainly(self, served: Served, exchange: Exchange, body: bytes | memoryview) -> None:
        inputs, rows, key = read_plain(served, body, self._parser)

        def answer(found: Answer) -> None:
            try:
                if isinstance(found, Exception):
                    raise found
                written = write_plain(served, found, self._limits)
            except Refusal as refusal:
                exchange.refuse(refusal)
                return
            exchange.respond(200, JSON, [written])

        exchange.work = Work(inputs, served.terms.output_names, rows, key, answer, trace=exchange.trace)
        served.submit(exchange.work)

    def _unpack(self, exchange: Exchange, most: int, go_on: Callable[[bytes | memoryview], None]) -> None:
        """Goes on with the plain body: now, or once a thread has decompressed it."""
        if exchange.encoding in (b"", b"identity"):
            go_on(exchange.body)
            return
        inflation = Inflation(exchange, most)
        try:
            body = inflation.small()
        except Refusal:
            inflation.hand_over()
            raise
        if body is not None:
            inflation.hand_over()
            go_on(body)
            return
        work = asyncio.get_running_loop().run_in_executor(self._inflaters, inflation.rest)
        work.add_done_callback(lambda done: _inflated(exchange, inflation, done, go_on))

    # Facts.

    def _live(self, exchange: Exchange) -> None:
        send_json(exchange, {"live": True})

    def _ready(self, exchange: Exchange) -> None:
        self.models.ready()
        send_json(exchange, {"ready": True})

    def _server(self, exchange: Exchange) -> None:
        send_json(exchange, server_facts(self.regions))

    def _visible(self, exchange: Exchange) -> list[Served]:
        """The models that the caller's token is for."""
        return self.models.all(self.access.check(exchange.token))

    def _model_ready(self, exchange: Exchange, name: str, version: str | None) -> None:
        self.models.find(name, version)
        self.models.ready()
        send_json(exchange, {"name": name, "ready": True})

    def _metadata(self, exchange: Exchange, name: str, version: str | None) -> None:
        served = self.models.find(name, version)
        send_json(exchange, {**served.metadata, "versions": self.models.versions(name)})

    def _config(self, exchange: Exchange, name: str, version: str | None) -> None:
        send_json(exchange, self.models.find(name, version).config)

    def _statistics(self, exchange: Exchange, name: str, version: str | None) -> None:
        served = self.models.find(name, version)
        send_json(exchange, {"model_stats": [served.statistics.to_dict(served.name, served.version)]})

    def _all_statistics(self, exchange: Exchange) -> None:
        entries = [served.statistics.to_dict(served.name, served.version) for served in self._visible(exchange)]
        send_json(exchange, {"model_stats": entries})

    def _list(self, exchange: Exchange) -> None:
        send_json(
            exchange, {"models": [{"name": each.name, "version": each.version} for each in self._visible(exchange)]}
        )

    def _openapi(self, exchange: Exchange) -> None:
        send_json(exchange, describe(self._visible(exchange)))

    def _page(self, exchange: Exchange) -> None:
        page = files("sardonyx").joinpath("web", "try.html").read_bytes()
        exchange.respond(200, b"text/html; charset=utf-8", [page], _PAGE_HEADERS)

    def _metrics(self, exchange: Exchange) -> None:
        exchange.respond(200, CONTENT_TYPE, [self.metrics.text(self.access.check(exchange.token))])

    # Shared memory.

    def _shared(self, exchange: Exchange) -> None:
        self.access.check_all(exchange.token)
        if not self.regions.on:
            raise Refusal(NOT_FOUND, "shared memory is off; start the server with --shared-memory PREFIX")

    def _shared_status(self, exchange: Exchange, name: str | None) -> None:
        self._shared(exchange)
        send_json(exchange, self.regions.status(name))

    def _shared_register(self, exchange: Exchange, name: str | None) -> None:
        self._shared(exchange)

        def go_on(body: bytes | memoryview) -> None:
            message = self._parser.small_object(body)
            self.regions.register(name or "", message.get("key"), message.get("offset", 0), message.get("byte_size"))
            send_json(exchange, {})

        self._unpack(exchange, LARGE_JSON, go_on)

    def _shared_unregister(self, exchange: Exchange, name: str | None) -> None:
        self._shared(exchange)
        self.regions.unregister(name)
        send_json(exchange, {})


def server_facts(regions: Regions) -> dict[str, Any]:
    """What the server says of itself over either transport."""
    extensions = [*EXTENSIONS, "system_shared_memory"] if regions.on else EXTENSIONS
    return {"name": "sardonyx", "version": sardonyx.__version__, "extensions": extensions}


def _inflated(
    exchange: Exchange, inflation: Inflation, done: asyncio.Future[bytes], go_on: Callable[[bytes], None]
) -> None:
    inflation.hand_over()
    try:
        go_on(done.result())
    except Refusal as refusal:
        exchange.refuse(refusal)
    except Exception:  # noqa: BLE001  the client is told, and the log says what
        _log.exception("a request failed by a fault of the server")
        exchange.refuse(Refusal(500, "a fault of the server; its log says more"))


def send_json(exchange: Exchange, message: Any) -> None:
    exchange.respond(200, JSON, [orjson.dumps(message)])
