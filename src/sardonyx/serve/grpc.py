"""inference.GRPCInferenceService on grpc.aio, over the same models and queues as HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import grpc

from sardonyx.errors import OutputError
from sardonyx.serve.access import Access, bearer
from sardonyx.serve.calls import Calls, in_stream, parsed
from sardonyx.serve.engine import Models
from sardonyx.serve.messages import MESSAGES, PACKAGE
from sardonyx.serve.meter import Meter
from sardonyx.serve.options import Limits, Options
from sardonyx.serve.refusal import NOT_FOUND, Refusal
from sardonyx.serve.routes import server_facts
from sardonyx.serve.served import Served
from sardonyx.serve.shared_memory import Regions
from sardonyx.serve.work import Answer, Work

_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT, 401: grpc.StatusCode.UNAUTHENTICATED, 403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND, 413: grpc.StatusCode.RESOURCE_EXHAUSTED, 429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE, 504: grpc.StatusCode.DEADLINE_EXCEEDED,
}  # fmt: skip
# Nobody asks the other end how fast the line is, and what that would have found out is set: 1 to 7 % less of the processor for
# 600 KB, and 30 to 45 KB more for each connection.
_LARGE_PIECES = {
    "grpc.http2.max_frame_size": 1 << 20,
    "grpc.http2.lookahead_bytes": 1 << 20,
    "grpc.http2.bdp_probe": 0,
    "grpc.experimental.tcp_read_chunk_size": 1 << 16,
    "grpc.experimental.tcp_min_read_chunk_size": 1 << 16,
}
# Messages that are no larger are not counted: the number of calls bounds them.
_COUNTED_BYTES = 32 << 10
# What can be asked without a token, for probes.
_OPEN = ("ServerLive", "ServerReady", "ServerMetadata")
# Triton's numbers for datatypes, which its model configuration uses.
_TYPE_NUMBERS = {
    name: number
    for number, name in enumerate(
        ("TYPE_BOOL", "TYPE_UINT8", "TYPE_UINT16", "TYPE_UINT32", "TYPE_UINT64", "TYPE_INT8", "TYPE_INT16", "TYPE_INT32",
         "TYPE_INT64", "TYPE_FP16", "TYPE_FP32", "TYPE_FP64", "TYPE_STRING", "TYPE_BF16"), start=1,
    )
}  # fmt: skip


async def open_grpc(
    models: Models, access: Access, options: Options, regions: Regions, meter: Meter
) -> tuple[Any, int]:
    """The server that listens, and its port."""
    server = grpc.aio.server(
        maximum_concurrent_rpcs=options.limits.calls,
        options=[
            ("grpc.max_receive_message_length", options.limits.body_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", int(options.workers > 1)),
            *_LARGE_PIECES.items(),
        ],
    )
    service = Service(models, access, options.limits, regions, meter)
    server.add_generic_rpc_handlers((service.handlers(),))
    address = f"{options.host}:{options.grpc_port}"
    try:
        if options.tls_cert is not None and options.tls_key is not None:
            pair = (options.tls_key.read_bytes(), options.tls_cert.read_bytes())
            port = server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
        else:
            port = server.add_insecure_port(address)
    except RuntimeError as error:
        raise OutputError(f"cannot listen on {address}", hint="choose another --grpc-port; 0 takes any") from error
    await server.start()
    return server, port


class Caller(NamedTuple):
    """What the metadata of a call say of who called."""

    token: bytes | None
    trace: bytes | None
    peer: str = ""


class Service:
    """The methods of the service. Each takes a request message and gives the answer."""

    def __init__(self, models: Models, access: Access, limits: Limits, regions: Regions, meter: Meter) -> None:
        self._models, self._access, self._regions, self._meter = models, access, regions, meter
        self._calls = Calls(models, access, limits, regions)

    def handlers(self) -> Any:
        methods = {
            "ServerLive": self._live,
            "ServerReady": self._ready,
            "ServerMetadata": self._server,
            "ModelReady": self._model_ready,
            "ModelMetadata": self._metadata,
            "ModelConfig": self._config,
            "ModelStatistics": self._statistics,
            "SystemSharedMemoryStatus": self._shared_status,
            "SystemSharedMemoryRegister": self._shared_register,
            "SystemSharedMemoryUnregister": self._shared_unregister,
        }
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(_guarded(_with_messages(method, name)))
            for name, method in methods.items()
        }
        handlers["ModelInfer"] = grpc.unary_unary_rpc_method_handler(_guarded(self._infer_counted))
        handlers["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(self._stream)
        inner = grpc.method_handlers_generic_handler(f"{PACKAGE}.GRPCInferenceService", handlers)
        return _Guard(inner, self._access)

    async def _live(self, request: Any, caller: Caller) -> Any:  # noqa: ARG002
        return MESSAGES["ServerLiveResponse"](live=True)

    async def _ready(self, request: Any, caller: Caller) -> Any:  # noqa: ARG002
        return MESSAGES["ServerReadyResponse"](ready=not self._models.stopping)

    async def _server(self, request: Any, caller: Caller) -> Any:  # noqa: ARG002
        return MESSAGES["ServerMetadataResponse"](**server_facts(self._regions))

    async def _model_ready(self, request: Any, caller: Caller) -> Any:
        try:
            self._model(request.name, request.version, caller)
        except Refusal as refusal:
            if refusal.status != 404:
                raise
            return MESSAGES["ModelReadyResponse"](ready=False)
        return MESSAGES["ModelReadyResponse"](ready=not self._models.stopping)

    async def _metadata(self, request: Any, caller: Caller) -> Any:
        served = self._model(request.name, request.version, caller)
        return MESSAGES["ModelMetadataResponse"](**{**served.metadata, "versions": self._models.versions(served.name)})

    async def _config(self, request: Any, caller: Caller) -> Any:
        config = self._model(request.name, request.version, caller).config
        tensors = {
            side: [{**tensor, "data_type": _TYPE_NUMBERS[tensor["data_type"]]} for tensor in config[side]]
            for side in ("input", "output")
        }
        return MESSAGES["ModelConfigResponse"](config={**config, **tensors})

    async def _statistics(self, request: Any, caller: Caller) -> Any:
        visible = self._access.check(caller.token, request.name or None)
        models = (
            [self._models.find(request.name, request.version or None)] if request.name else self._models.all(visible)
        )
        return MESSAGES["ModelStatisticsResponse"](
            model_stats=[served.statistics.to_dict(served.name, served.version) for served in models]
        )

    async def _infer_counted(self, data: bytes, caller: Caller) -> bytes:
        """Infers, and counts a large message for its client until it is answered."""
        if len(data) <= _COUNTED_BYTES:
            return await self._infer(data, caller)
        client = caller.peer.rpartition(":")[0]
        self._meter.take(client, len(data))
        try:
            return await self._infer(data, caller)
        finally:
            self._meter.give(client, len(data))

    async def _infer(self, data: bytes, caller: Caller) -> bytes:
        call, inputs = self._calls.read(data, caller.token)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def answer(found: Answer) -> None:
            if not future.done():
                future.set_result(found)

        work = Work(inputs, call.outputs, call.rows, call.key, answer, call.timeout, call.priority, trace=caller.trace)
        call.served.submit(work)
        try:
            found = await future
        finally:
            work.gone = True  # also when the client gives up
        if isinstance(found, Exception):
            raise found
        return self._calls.write(call, found)

    async def _stream(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        caller = _caller(context.invocation_metadata(), context.peer())
        async for data in requests:
            try:
                yield in_stream(await self._infer_counted(data, caller))
            except Refusal as refusal:
                said = {"error_message": refusal.message, "infer_response": {"id": _id_of(data)}}
                yield MESSAGES["ModelStreamInferResponse"](**said).SerializeToString()

    def _model(self, name: str, version: str, caller: Caller) -> Served:
        self._access.check(caller.token, name)
        return self._models.find(name, version or None)

    async def _shared_status(self, request: Any, caller: Caller) -> Any:
        self._shared(caller)
        regions = {region["name"]: region for region in self._regions.status(request.name or None)}
        return MESSAGES["SystemSharedMemoryStatusResponse"](regions=regions)

    async def _shared_register(self, request: Any, caller: Caller) -> Any:
        self._shared(caller)
        self._regions.register(request.name, request.key, request.offset, request.byte_size)
        return MESSAGES["SystemSharedMemoryRegisterResponse"]()

    async def _shared_unregister(self, request: Any, caller: Caller) -> Any:
        self._shared(caller)
        self._regions.unregister(request.name or None)
        return MESSAGES["SystemSharedMemoryUnregisterResponse"]()

    def _shared(self, caller: Caller) -> None:
        self._access.check_all(caller.token)
        if not self._regions.on:
            raise Refusal(NOT_FOUND, "shared memory is off; start the server with --shared-memory PREFIX")


class _Guard(grpc.GenericRpcHandler):  # type: ignore[misc]  # gRPC has no types
    """Checks the token before a message is read: who has none gets an answer, and sends nothing."""

    def __init__(self, inner: Any, access: Access) -> None:
        self._inner, self._access = inner, access

    def service(self, handler_call_details: Any) -> Any:
        handler = self._inner.service(handler_call_details)
        if handler is None or self._access.open or handler_call_details.method.rpartition("/")[2] in _OPEN:
            return handler
        try:
            self._access.check(_caller(handler_call_details.invocation_metadata).token)
        except Refusal as refusal:
            return _refusing(refusal)
        return handler


def _refusing(refusal: Refusal) -> Any:
    """A handler that answers without reading."""

    async def refuse(requests: AsyncIterator[bytes], context: Any) -> None:  # noqa: ARG001
        await context.abort(_CODES.get(refusal.status, grpc.StatusCode.UNKNOWN), refusal.message)

    return grpc.stream_unary_rpc_method_handler(refuse)


def _guarded(method: Callable[[bytes, Caller], Any]) -> Callable[[bytes, Any], Any]:
    """The method as gRPC calls it, with refusals as its status codes."""

    async def call(data: bytes, context: Any) -> Any:
        try:
            return await method(data, _caller(context.invocation_metadata(), context.peer()))
        except Refusal as refusal:
            return await context.abort(_CODES.get(refusal.status, grpc.StatusCode.UNKNOWN), refusal.message)

    return call


def _with_messages(method: Callable[[Any, Caller], Any], name: str) -> Callable[[bytes, Caller], Any]:
    """The method with bytes in and out. gRPC answers for a deserializer that fails as if the server were at fault."""

    async def call(data: bytes, caller: Caller) -> bytes:
        answer = await method(parsed(data, f"{name}Request"), caller)
        return bytes(answer.SerializeToString())

    return call


def _id_of(data: bytes) -> str:
    try:
        return str(parsed(data, "ModelInferRequest").id)
    except Refusal:
        return ""


def _caller(metadata: Any, peer: str = "") -> Caller:
    metadata = dict(metadata or ())
    key, trace = metadata.get("x-api-key"), metadata.get("traceparent")
    token = None if key is None else key.encode()
    if "authorization" in metadata:
        token = bearer(metadata["authorization"].encode())
    return Caller(token, None if trace is None else trace.encode(), peer)
