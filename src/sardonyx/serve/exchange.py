"""One request over HTTP, as far as an answer needs it, and the way to answer it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from sardonyx.serve.access import bearer
from sardonyx.serve.meter import Meter
from sardonyx.serve.refusal import UNKNOWN_CALLER, Refusal, bad
from sardonyx.serve.work import Work

Part = bytes | memoryview
JSON, OCTETS = b"application/json", b"application/octet-stream"


class Exchange:
    """A request, and `respond` to answer it, once. A header that cannot be is kept as `refusal`.

    `held` bytes of it are counted for its `client`. `route` is what answers it, found before its body is read.
    """

    __slots__ = (
        "_answer", "body", "client", "encoding", "expects_continue", "framed", "held", "host", "json_bytes", "keep_alive",
        "length", "meter", "method", "origin", "over", "refusal", "route", "started", "target", "token", "trace", "work",
    )  # fmt: skip

    def __init__(
        self, answer: Callable[[Exchange, int, bytes, Sequence[Part], bytes], None], meter: Meter, client: str = ""
    ) -> None:
        self._answer, self.meter, self.client = answer, meter, client
        self.over = False
        self.method = self.target = self.encoding = b""
        self.host: bytes | None = None
        self.origin: bytes | None = None
        self.held = 0
        self.route: Any = None
        self.body: Part = b""
        self.json_bytes: int | None = None
        self.token: bytes | None = None
        self.trace: bytes | None = None
        self.length = 0
        self.framed = self.expects_continue = False
        self.keep_alive = True
        self.refusal: Refusal | None = None
        self.work: Work | None = None
        self.started = 0.0

    def hold(self, count: int) -> None:
        """Counts bytes that are held for this request, or raises a refusal."""
        self.meter.take(self.client, count)
        self.held += count

    def let_go(self) -> None:
        """The request is answered, or its client has gone: nothing is held for it any longer."""
        self.over = True
        if self.held:
            self.meter.give(self.client, self.held)
            self.held = 0

    def respond(self, status: int, kind: bytes, parts: Sequence[Part], extra: bytes = b"") -> None:
        """Sends the answer. `extra` are whole header lines."""
        self._answer(self, status, kind, parts, extra)

    def refuse(self, refusal: Refusal) -> None:
        """Sends a refusal as `{"error": ...}`."""
        extra = b"" if refusal.retry_after is None else b"Retry-After: %d\r\n" % refusal.retry_after
        if refusal.allow:
            extra += b"Allow: %s\r\n" % ", ".join(refusal.allow).encode()
        if refusal.status == UNKNOWN_CALLER:
            extra += b"WWW-Authenticate: Bearer\r\n"
        self.respond(refusal.status, JSON, [orjson.dumps({"error": refusal.message})], extra)


def _length(exchange: Exchange, value: bytes) -> None:
    _framed_once(exchange)
    if not value.isdigit() or len(value) > 18:
        exchange.refusal = bad("Content-Length is not a number")
    else:
        exchange.length = int(value)


def _transfer(exchange: Exchange, value: bytes) -> None:
    _framed_once(exchange)
    if value.strip().lower() != b"chunked":
        exchange.refusal = bad("of transfer encodings, only chunked is known here")


def _framed_once(exchange: Exchange) -> None:
    """Two lengths that two servers read in two ways are how a request is smuggled past one of them."""
    if exchange.framed:
        exchange.refusal = bad("the length of the body is given twice")
    exchange.framed = True


def _json_length(exchange: Exchange, value: bytes) -> None:
    if not value.isdigit() or len(value) > 18:
        exchange.refusal = bad("Inference-Header-Content-Length is not a number")
    else:
        exchange.json_bytes = int(value)


def _authorization(exchange: Exchange, value: bytes) -> None:
    exchange.token = bearer(value)


def _key(exchange: Exchange, value: bytes) -> None:
    exchange.token = value.strip()


def _trace(exchange: Exchange, value: bytes) -> None:
    exchange.trace = value


def _encoding(exchange: Exchange, value: bytes) -> None:
    exchange.encoding = value.strip().lower()


def _host(exchange: Exchange, value: bytes) -> None:
    if exchange.host is not None:
        exchange.refusal = bad("the Host is given twice")
    exchange.host = value


def _origin(exchange: Exchange, value: bytes) -> None:
    exchange.origin = value


def _expect(exchange: Exchange, value: bytes) -> None:
    exchange.expects_continue = value.strip().lower() == b"100-continue"


# The headers that matter, and what each says.
HEADERS: dict[bytes, Callable[[Exchange, bytes], None]] = {
    b"content-length": _length,
    b"transfer-encoding": _transfer,
    b"inference-header-content-length": _json_length,
    b"authorization": _authorization,
    b"x-api-key": _key,
    b"content-encoding": _encoding,
    b"traceparent": _trace,
    b"expect": _expect,
    b"host": _host,
    b"origin": _origin,
}
