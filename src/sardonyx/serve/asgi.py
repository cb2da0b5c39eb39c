"""The same server as an ASGI application, to mount under a path of somebody else's: `app = Application("model.onnx")`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from sardonyx.serve.access import Access
from sardonyx.serve.engine import Models
from sardonyx.serve.exchange import HEADERS, Exchange, Part
from sardonyx.serve.meter import Meter
from sardonyx.serve.options import Options
from sardonyx.serve.refusal import TOO_LARGE, Refusal
from sardonyx.serve.routes import Routes

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Application:
    """Loads its models when the host starts it, or with the first request where the host does not say when it starts."""

    def __init__(self, source: str | Path, **options: Any) -> None:
        self._options = Options(Path(source), **options)
        self._routes: Routes | None = None
        self._meter: Meter | None = None
        self._starting: asyncio.Lock | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(await self._started(), scope, receive, send)

    async def close(self) -> None:
        """Answers what is under way and lets the models go."""
        if self._routes is not None:
            await self._routes.models.close()

    async def _started(self) -> Routes:
        self._starting = self._starting or asyncio.Lock()
        async with self._starting:
            if self._routes is None:
                models = Models(self._options)
                await models.load_all()
                access = Access(self._options.tokens, self._options.token_file)
                self._routes = Routes(models, access, self._options.limits)
                self._meter = Meter(self._options.limits)
            return self._routes

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self._started()
            elif message["type"] == "lifespan.shutdown":
                await self.close()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return

    async def _answer(self, routes: Routes, scope: Message, receive: Receive, send: Send) -> None:
        done: asyncio.Future[tuple[int, bytes, Sequence[Part], bytes]] = asyncio.get_running_loop().create_future()

        def answer(_: Exchange, status: int, kind: bytes, parts: Sequence[Part], extra: bytes) -> None:
            if not done.done():
                done.set_result((status, kind, parts, extra))

        assert self._meter is not None, "started"
        exchange = Exchange(answer, self._meter, str((scope.get("client") or ("",))[0]))
        try:
            self._read_head(exchange, scope)
            routes.admit(exchange)
            await self._read_body(exchange, receive)
            routes.handle(exchange)
        except Refusal as refusal:
            exchange.refuse(refusal)
        try:
            status, kind, parts, extra = await done
        finally:
            exchange.let_go()
            if exchange.work is not None:
                exchange.work.gone = True
        headers = [(b"content-type", kind), (b"content-length", b"%d" % sum(map(len, parts)))]
        headers += [_pair(line) for line in extra.split(b"\r\n") if line]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        body = b"" if exchange.method == b"HEAD" else b"".join(parts)
        await send({"type": "http.response.body", "body": body})

    def _read_head(self, exchange: Exchange, scope: Message) -> None:
        """Fills the exchange but for its body. Where the application is mounted, the path is without the mount's part."""
        path = scope["path"].removeprefix(scope.get("root_path", "")) or "/"
        exchange.method, exchange.target = scope["method"].encode(), path.encode()
        for name, value in scope["headers"]:
            if name in HEADERS and name not in (
                b"content-length",
                b"transfer-encoding",
                b"expect",
            ):  # the host's to judge
                HEADERS[name](exchange, value)
        if exchange.refusal is not None:
            raise exchange.refusal

    async def _read_body(self, exchange: Exchange, receive: Receive) -> None:
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            more = message.get("more_body", False)
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            exchange.hold(len(parts[-1]))
            if size > self._options.limits.body_bytes:
                raise Refusal(TOO_LARGE, f"the body is above the limit of {self._options.limits.body_bytes} bytes")
        exchange.body = b"".join(parts)


def _pair(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b": ")
    return name.lower(), value
