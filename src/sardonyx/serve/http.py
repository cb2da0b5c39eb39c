"""HTTP/1.1 on asyncio's protocols: parsed by httptools, answered in order, with limits on size and on time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from typing import Protocol as Interface

import httptools

from sardonyx.serve.exchange import HEADERS, Exchange, Part
from sardonyx.serve.memory import aligned, trim
from sardonyx.serve.meter import Meter
from sardonyx.serve.options import Limits
from sardonyx.serve.refusal import BAD, HEADERS_TOO_LARGE, REASONS, TOO_LARGE, TOO_SLOW, UNAVAILABLE, Refusal, plain

_log = logging.getLogger(__name__)
_access_log = logging.getLogger("sardonyx.serve.access_log")
_LINGER_SECONDS = 1.0
_SMALL = 64 << 10
# What is read at once, of headers and small bodies; larger bodies are read into memory of their own. What has come of those
# with the headers is copied twice, so it is not much.
_READ_BYTES = 32 << 10
# Freed memory stays with the process until it is given back. That takes milliseconds, so only after this much and in a pause.
_TRIM_AFTER = 64 << 20
_HEADS = {status: f"HTTP/1.1 {status} {reason}\r\n".encode() for status, reason in REASONS.items()}
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Handler(Interface):
    """What answers requests: `admit` sees a request before its body is read, and `handle` the whole of it.

    Both may raise a `Refusal`. `handle` calls `exchange.respond` now or later. `rest` is called after much work, in a pause.
    """

    def admit(self, exchange: Exchange) -> None: ...

    def handle(self, exchange: Exchange) -> None: ...

    def rest(self) -> None: ...


class Listener:
    """The open connections of a port, and the clock that ends the slow ones."""

    def __init__(
        self, handler: Handler, limits: Limits, *, meter: Meter | None = None, access_log: bool = False
    ) -> None:
        self.handler, self.limits, self.access_log = handler, limits, access_log
        self.meter = meter or Meter(limits)
        self.connections: set[Connection] = set()
        self.stopping = False
        self._counted = 0
        # One for all connections: the loop reads and hands over before it turns to the next.
        self.buffer = memoryview(bytearray(_READ_BYTES))
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(0.5, self._sweep)

    def connection(self) -> Connection:
        return Connection(self)

    async def drain(self, seconds: float) -> None:
        """Lets requests that are under way end, and closes every connection."""
        self.stopping = True
        end = time.monotonic() + seconds
        for connection in list(self.connections):
            connection.close_when_idle()
        while self.connections and time.monotonic() < end:
            await asyncio.sleep(0.01)
        self._timer.cancel()
        for connection in list(self.connections):
            connection.abort()

    def _sweep(self) -> None:
        now = time.monotonic()
        for connection in list(self.connections):
            connection.check_time(now)
        busy, self._counted = self.meter.held or self.meter.since_trim != self._counted, self.meter.since_trim
        if self.meter.since_trim > _TRIM_AFTER and not busy:
            self.meter.since_trim = 0
            self.handler.rest()
            trim()
        self._timer = self._loop.call_later(0.5, self._sweep)


class Connection(asyncio.BufferedProtocol):
    """One client. Requests that it sends ahead wait for their turn."""

    def __init__(self, listener: Listener) -> None:
        self._listener, self._limits, self._client = listener, listener.limits, ""
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # there from connection_made on
        self._waiting: deque[Exchange] = deque()
        self._current: Exchange | None = None
        self._reading: Exchange | None = None
        self._refusal: Refusal | None = None
        self._in_headers = self._closing = self._writing_paused = self._reading_paused = False
        self._parts: list[bytes] = []
        self._large: memoryview | None = None
        self._head_bytes = self._headers = self._body_bytes = 0
        self._since = time.monotonic()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._client = str((transport.get_extra_info("peername") or ("",))[0])
        if len(self._listener.connections) >= self._limits.connections or self._listener.stopping:
            self._listener.connections.add(self)
            self._fail(Refusal(UNAVAILABLE, "too many connections", retry_after=1))
            return
        self._listener.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self._closing = True
        self._listener.connections.discard(self)
        for exchange in (self._current, self._reading, *self._waiting):
            if exchange is not None:
                exchange.let_go()
                if exchange.work is not None:
                    exchange.work.gone = True
        self._waiting.clear()
        self._current, self._reading, self._large, self._parts = None, None, None, []

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._listener.buffer if self._large is None or self._closing else self._large[self._body_bytes :]

    def buffer_updated(self, count: int) -> None:
        if self._large is None or self._closing:
            self._feed(self._listener.buffer[:count])
            return
        self._body_bytes += count
        if self._body_bytes == len(self._large):
            self._parser = httptools.HttpRequestParser(self)  # the old one still waits for the body
            self.on_message_complete()

    def _feed(self, data: memoryview) -> None:
        if self._closing:
            return
        if self._reading is None and self._current is None:
            self._since = time.monotonic()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refusal = self._refusal or Refusal(BAD, "this server speaks HTTP/1.1 and nothing else")
        except httptools.HttpParserError as error:
            self._refusal = self._refusal or Refusal(BAD, f"this is not HTTP/1.1: {error}")
        if self._in_headers:
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.header_bytes:
                self._refusal = Refusal(HEADERS_TOO_LARGE, "the header is too large")
        if self._refusal is not None:
            self._fail(self._refusal)
        elif len(self._waiting) > self._limits.pipelined and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._since = time.monotonic()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._next()

    # What the parser calls.

    def on_message_begin(self) -> None:
        self._reading = Exchange(self.answer, self._listener.meter, self._client)
        self._in_headers = True
        self._head_bytes = self._headers = self._body_bytes = 0

    def on_url(self, url: bytes) -> None:
        if self._reading is not None:
            self._reading.target += url
            self._head_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers += 1
        self._head_bytes += len(name) + len(value)
        keep = HEADERS.get(name.lower())
        if keep is not None and self._reading is not None:
            keep(self._reading, value)

    def on_headers_complete(self) -> None:
        exchange = self._reading
        assert exchange is not None
        self._in_headers = False
        self._since = time.monotonic()
        exchange.method = self._parser.get_method()
        exchange.keep_alive = self._parser.should_keep_alive()
        self._refusal = self._refusal or exchange.refusal
        if self._headers > self._limits.headers or self._head_bytes > self._limits.header_bytes:
            self._refusal = Refusal(HEADERS_TOO_LARGE, "the header is too large")
        elif exchange.length > self._limits.body_bytes:
            self._refuse_body()
        elif self._refusal is None and self._admitted(exchange):
            if exchange.expects_continue and self._current is None:
                self._transport.write(_CONTINUE)
            if exchange.length > _READ_BYTES:
                self._large = aligned(exchange.length, exchange.json_bytes or 0)

    def _admitted(self, exchange: Exchange) -> bool:
        """Whether the body may be read. A small one is, so that the connection can go on, also when the request is refused."""
        try:
            if exchange.length > _READ_BYTES:
                exchange.hold(exchange.length)
            self._listener.handler.admit(exchange)
        except Refusal as refusal:
            small = exchange.length <= _READ_BYTES and (exchange.length or not exchange.framed)
            if small and not exchange.expects_continue:
                exchange.refusal = refusal
            else:
                self._refusal = refusal
        return self._refusal is None and exchange.refusal is None

    def on_body(self, body: bytes) -> None:
        start = self._body_bytes
        self._body_bytes += len(body)
        if self._body_bytes > self._limits.body_bytes:
            self._refuse_body()
        elif self._large is not None:
            self._large[start : self._body_bytes] = body
        else:
            self._parts.append(body)
            if self._reading is not None and not self._reading.length:  # in chunks: nobody has said how many
                self._hold_more(self._reading, len(body))

    def _hold_more(self, exchange: Exchange, count: int) -> None:
        try:
            exchange.hold(count)
        except Refusal as refusal:
            self._refusal = self._refusal or refusal

    def on_message_complete(self) -> None:
        exchange, self._reading = self._reading, None
        if exchange is None or self._refusal is not None:
            return
        parts, self._parts = self._parts, []
        large, self._large = self._large, None
        exchange.body = large or (parts[0] if len(parts) == 1 else b"".join(parts))
        if self._current is None and not self._waiting and not self._writing_paused:
            self._start(exchange)
        else:
            if not exchange.held:
                self._hold_more(exchange, len(exchange.body))
            self._waiting.append(exchange)

    def _refuse_body(self) -> None:
        limit = self._limits.body_bytes
        self._refusal = self._refusal or Refusal(TOO_LARGE, f"the body is above the limit of {limit} bytes")

    # Answering.

    def _start(self, exchange: Exchange) -> None:
        self._current = exchange
        exchange.started = time.monotonic()
        try:
            if exchange.refusal is not None:
                raise exchange.refusal
            self._listener.handler.handle(exchange)
        except Refusal as refusal:
            exchange.refuse(refusal)
        except Exception:  # noqa: BLE001  the client is told, and the log says what
            _log.exception("a request failed by a fault of the server")
            exchange.refuse(Refusal(500, "a fault of the server; its log says more"))

    def answer(self, exchange: Exchange, status: int, kind: bytes, parts: Sequence[Part], extra: bytes) -> None:
        """Writes the answer of the exchange that is current, and turns to the next."""
        if exchange is not self._current:
            return  # the client has gone
        self._current = None
        if exchange.held:
            exchange.let_go()
        keep = exchange.keep_alive and not self._listener.stopping
        length = sum(map(len, parts))
        head = b"%sContent-Type: %s\r\nContent-Length: %d\r\n%s%s\r\n" % (
            _HEADS[status], kind, length, extra, b"" if keep else b"Connection: close\r\n",
        )  # fmt: skip
        if exchange.method == b"HEAD":
            parts = ()
        if length < _SMALL:
            self._transport.write(b"".join((head, *parts)))
        else:
            self._transport.writelines((head, *parts))
        self._since = time.monotonic()
        if self._listener.access_log:
            took = 1000 * (self._since - exchange.started)
            _access_log.info("%s %s %d %d %.1fms", exchange.method.decode(), plain(exchange.target.decode("latin-1")),
                             status, length, took)  # fmt: skip
        if not keep:
            self._closing = True
            self._transport.close()
        elif self._waiting and not self._writing_paused:
            self._listener._loop.call_soon(self._next)

    def _next(self) -> None:
        if self._closing or self._current is not None or self._writing_paused:
            return
        if self._waiting:
            self._start(self._waiting.popleft())
        if self._reading_paused and len(self._waiting) <= self._limits.pipelined // 2:
            self._reading_paused = False
            self._transport.resume_reading()

    # Ending.

    def _fail(self, refusal: Refusal) -> None:
        """Answers what cannot be read any further, and closes once the client has had a moment to read it."""
        if self._closing:
            return
        if self._current is not None:  # its answer would come after this one
            self.connection_lost(None)
            self._transport.abort()
            return
        self._current = exchange = Exchange(self.answer, self._listener.meter, self._client)
        exchange.keep_alive = True  # the closing is done here, gently: unread bytes would reset the connection
        exchange.refuse(refusal)
        self._closing = True
        if self._reading is not None:
            self._reading.let_go()
        self._reading, self._large, self._parts = None, None, []
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._listener._loop.call_later(_LINGER_SECONDS, self.abort)

    def close_when_idle(self) -> None:
        if self._current is None and self._reading is None:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def check_time(self, now: float) -> None:
        """Ends the connection if the client has kept the server waiting for too long."""
        spent, limits = now - self._since, self._limits
        if self._closing or (self._current is not None and not self._writing_paused):
            return
        if self._writing_paused:
            if spent > limits.write_seconds:
                self.abort()
        elif self._reading is not None:
            if spent > (limits.header_seconds if self._in_headers else limits.body_seconds):
                self._fail(Refusal(TOO_SLOW, "the request did not come in time"))
        elif spent > limits.idle_seconds:
            self._transport.close()
