"""The server: loads the models, opens the ports, serves until it is told to stop, and drains."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from sardonyx.errors import OutputError, UsageError
from sardonyx.serve.access import Access
from sardonyx.serve.control import Control
from sardonyx.serve.engine import Models
from sardonyx.serve.hosts import Hosts
from sardonyx.serve.http import Handler, Listener
from sardonyx.serve.meter import Meter
from sardonyx.serve.options import Options
from sardonyx.serve.routes import Routes
from sardonyx.serve.shared_memory import Regions

_log = logging.getLogger(__name__)
_BACKLOG = 1024


class Server:
    """One process's server. `start` loads and listens; `stop` drains. `ports` are those that it really has."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.ports: dict[str, int] = {}
        self.answered = 0
        self.models = Models(options)
        self._listeners: list[Listener] = []
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._grpc: Any = None
        self._regions = Regions(options.shared_memory)
        self._meter = Meter(options.limits)

    async def start(self) -> None:
        options = self.options
        access = Access(options.tokens, options.token_file)
        tls = _tls(options)
        await self.models.load_all()
        hosts = Hosts(options.host, options.allow_hosts)
        routes = Routes(self.models, access, options.limits, self._regions, hosts)
        await self._listen("http", routes, options.port, tls, shared=options.workers > 1)
        if options.control_port is not None and options.control_token is not None:
            control = Control(self.models, Access((options.control_token,)), hosts, self._spawn)
            await self._listen("control", control, options.control_port, tls)
        if options.grpc_port is not None:
            from sardonyx.serve.grpc import open_grpc

            self._grpc, self.ports["grpc"] = await open_grpc(self.models, access, options, self._regions, self._meter)

    async def stop(self) -> None:
        """Takes no new connection, answers what is under way, and lets the models go."""
        self.models.stopping = True
        for server in self._servers:
            server.close()
        seconds = self.options.drain_seconds
        await asyncio.gather(*(listener.drain(seconds) for listener in self._listeners))
        if self._grpc is not None:
            await self._grpc.stop(seconds)
        self.answered = sum(served.statistics.success.count for served in self.models.all())
        await self.models.close(at_once=True)
        self._regions.unregister()

    async def _listen(
        self, name: str, handler: Handler, port: int, tls: ssl.SSLContext | None, *, shared: bool = False
    ) -> None:
        listener = Listener(handler, self.options.limits, meter=self._meter, access_log=self.options.access_log)
        listening = bound(self.options.host, port, shared=shared)
        server = await asyncio.get_running_loop().create_server(
            listener.connection, sock=listening, ssl=tls, backlog=_BACKLOG
        )
        self._listeners.append(listener)
        self._servers.append(server)
        self.ports[name] = listening.getsockname()[1]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def bound(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A socket bound to the address, which several processes may share."""
    listening: socket.socket | None = None
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, number)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind(address)
    except (OSError, OverflowError) as error:
        if listening is not None:
            listening.close()
        raise OutputError(
            f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}",
            hint="choose another --host or --port; port 0 takes any that is free",
        ) from error
    listening.setblocking(False)
    return listening


def claim(host: str, port: int) -> tuple[socket.socket, ...]:
    """Sockets to hold open while workers share the port; the first is bound to it.

    Raises `OutputError` where somebody has the port already. A second server of ours could share it too, and would answer
    for half of the requests: a name in the system's list of local sockets keeps it out.
    """
    with bound(host, port) as probing:  # alone, which fails where somebody listens
        number = probing.getsockname()[1]
        name = socket.socket(socket.AF_UNIX)
        try:
            if sys.platform == "linux":
                name.bind(f"\0sardonyx-serve-{host}-{number}")
        except OSError as error:
            name.close()
            raise OutputError(
                f"cannot listen on {host}:{number}: another server has it", hint="choose another --port"
            ) from error
    return bound(host, number, shared=True), name


def _tls(options: Options) -> ssl.SSLContext | None:
    if options.tls_cert is None or options.tls_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(options.tls_cert, options.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"cannot use {options.tls_cert} with {options.tls_key}: {error}", hint="give both as PEM files"
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


async def serve_until_told(options: Options, ready: Callable[[Server], None]) -> Server:
    """Serves until SIGTERM or SIGINT, and gives back the server that has stopped."""
    server, told = Server(options), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    try:
        await server.start()
        ready(server)
        await told.wait()
    finally:
        await server.stop()
    return server


def run_loop(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of the coroutine on uvloop."""
    import uvloop

    return uvloop.run(work)
