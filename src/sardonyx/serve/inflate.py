"""Compressed bodies: decompressed in small steps, in a thread where they are large, and never beyond their limit."""

from __future__ import annotations

import zlib

from sardonyx.serve.exchange import Exchange
from sardonyx.serve.refusal import TOO_LARGE, Refusal, bad

WINDOWS = {b"gzip": 31, b"deflate": 15}
# A body that is no larger is decompressed where it is read: a thread would cost more than the work.
AT_ONCE = 256 << 10
_STEP = 1 << 20


class Inflation:
    """The body of one request on its way from compressed to plain, of at most so many bytes. `held` are those counted so far."""

    def __init__(self, exchange: Exchange, most: int) -> None:
        if exchange.encoding not in WINDOWS:
            raise Refusal(415, "of content encodings, gzip and deflate are known here")
        self._exchange = exchange
        self._inflater = zlib.decompressobj(WINDOWS[exchange.encoding])
        self._body, self._place = memoryview(exchange.body), 0
        self._tail = b""
        self._most = most
        self.held = 0
        self._parts: list[bytes] = []
        self._size = 0

    def small(self) -> bytes | None:
        """The whole body if it is small, else None: then `rest` goes on."""
        return self._joined() if self._step(AT_ONCE) else None

    def rest(self) -> bytes:
        """The whole body. Takes its time: call it in a thread."""
        while not self._step(_STEP):
            pass
        return self._joined()

    def hand_over(self) -> None:
        """Counts what is held for the request from now on. On the event loop, when nothing is decompressed any more."""
        if self._exchange.over:
            self._exchange.meter.give(self._exchange.client, self.held)
        else:
            self._exchange.held += self.held

    def _step(self, most: int) -> bool:
        """Whether the body is whole after one more step, of as much plain text at most."""
        source: bytes | memoryview = self._tail
        if not self._tail:
            source = self._body[self._place : self._place + AT_ONCE]
            self._place += len(source)
        try:
            part = self._inflater.decompress(source, most)
        except zlib.error as error:
            raise bad(f"the body does not decompress: {error}") from None
        self._tail = self._inflater.unconsumed_tail
        self._size += len(part)
        if self._size > self._most:
            raise Refusal(TOO_LARGE, f"the decompressed body is above the limit of {self._most} bytes")
        if self._exchange.over:
            raise bad("the client has gone")
        self._exchange.meter.take(self._exchange.client, len(part))
        self.held += len(part)
        self._parts.append(part)
        if self._inflater.eof:
            return True
        if not source and not part:
            raise bad("the compressed body ends too early")
        return False

    def _joined(self) -> bytes:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
