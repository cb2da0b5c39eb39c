"""inference.GRPCInferenceService on grpc.aio, over the same models and queues as HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import grpc
import numpy as np
from google.protobuf.message import DecodeError

from sardonyx.errors import OutputError
from sardonyx.serve.access import Access, bearer
from sardonyx.serve.batch import DEFAULT_PRIORITY, Answer, Work
from sardonyx.serve.engine import Models, Served
from sardonyx.serve.messages import MESSAGES, PACKAGE
from sardonyx.serve.options import Limits, Options
from sardonyx.serve.refusal import NOT_FOUND, Refusal, bad
from sardonyx.serve.routes import server_facts
from sardonyx.serve.shared_memory import Regions, span
from sardonyx.serve.tensors import NUMPY, count, from_bytes, from_numbers, shaped, to_bytes
from sardonyx.serve.terms import Given
from sardonyx.signature import Array

_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT, 401: grpc.StatusCode.UNAUTHENTICATED, 403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND, 413: grpc.StatusCode.RESOURCE_EXHAUSTED, 429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE, 504: grpc.StatusCode.DEADLINE_EXCEEDED,
}  # fmt: skip
# Where a request that sends values and not raw bytes puts them. FP16 and BF16 have no such place.
_CONTENTS = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents", "INT64": "int64_contents",
    "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents", "UINT64": "uint64_contents",
    "FP32": "fp32_contents", "FP64": "fp64_contents", "BYTES": "bytes_contents",
}  # fmt: skip
# Triton's numbers for datatypes, which its model configuration uses.
_TYPE_NUMBERS = {
    name: number
    for number, name in enumerate(
        ("TYPE_BOOL", "TYPE_UINT8", "TYPE_UINT16", "TYPE_UINT32", "TYPE_UINT64", "TYPE_INT8", "TYPE_INT16", "TYPE_INT32",
         "TYPE_INT64", "TYPE_FP16", "TYPE_FP32", "TYPE_FP64", "TYPE_STRING", "TYPE_BF16"), start=1,
    )
}  # fmt: skip


async def open_grpc(models: Models, access: Access, options: Options, regions: Regions) -> tuple[Any, int]:
    """The server that listens, and its port."""
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", options.limits.body_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", int(options.workers > 1)),
        ]
    )
    service = Service(models, access, options.limits, regions)
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


class Service:
    """The methods of the service. Each takes a request message and gives the answer."""

    def __init__(self, models: Models, access: Access, limits: Limits, regions: Regions) -> None:
        self._models, self._access, self._limits, self._regions = models, access, limits, regions

    def handlers(self) -> Any:
        methods = {
            "ServerLive": self._live,
            "ServerReady": self._ready,
            "ServerMetadata": self._server,
            "ModelReady": self._model_ready,
            "ModelMetadata": self._metadata,
            "ModelConfig": self._config,
            "ModelStatistics": self._statistics,
            "ModelInfer": self._infer,
            "SystemSharedMemoryStatus": self._shared_status,
            "SystemSharedMemoryRegister": self._shared_register,
            "SystemSharedMemoryUnregister": self._shared_unregister,
        }
        # Requests come as bytes: gRPC answers for a deserializer that fails as if the server were at fault.
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                _guarded(method, f"{name}Request"), response_serializer=MESSAGES[f"{name}Response"].SerializeToString
            )
            for name, method in methods.items()
        }
        handlers["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(
            self._stream, response_serializer=MESSAGES["ModelStreamInferResponse"].SerializeToString
        )
        return grpc.method_handlers_generic_handler(f"{PACKAGE}.GRPCInferenceService", handlers)

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
        self._access.check(caller.token, request.name or None)
        models = [self._models.find(request.name, request.version or None)] if request.name else self._models.all()
        return MESSAGES["ModelStatisticsResponse"](
            model_stats=[served.statistics.to_dict(served.name, served.version) for served in models]
        )

    async def _infer(self, request: Any, caller: Caller) -> Any:
        served = self._model(request.model_name, request.model_version, caller)
        outputs = served.terms.chosen([output.name for output in request.outputs])
        inputs, rows = self._inputs(served, request)
        key = served.key(outputs, [array.shape for array in inputs], rows)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def answer(found: Answer) -> None:
            if not future.done():
                future.set_result(found)

        work = Work(inputs, outputs, rows, key, answer, *_urgency(request.parameters), trace=caller.trace)
        served.submit(work)
        try:
            found = await future
        finally:
            work.gone = True  # also when the client gives up
        if isinstance(found, Exception):
            raise found
        return self._answer(served, request, outputs, found)

    async def _stream(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
        caller = _caller(context)
        async for data in requests:
            name = ""
            try:
                request = _parsed(data, "ModelInferRequest")
                name = request.id
                answer = await self._infer(request, caller)
            except Refusal as refusal:
                yield MESSAGES["ModelStreamInferResponse"](error_message=refusal.message, infer_response={"id": name})
            else:
                yield MESSAGES["ModelStreamInferResponse"](infer_response=answer)

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
        self._access.check(caller.token)
        if not self._regions.on:
            raise Refusal(NOT_FOUND, "shared memory is off; start the server with --shared-memory PREFIX")

    def _inputs(self, served: Served, request: Any) -> tuple[list[Array], int]:
        """The inputs in the model's order, and their rows."""
        given = [Given(tensor.name, tensor.datatype, tuple(tensor.shape)) for tensor in request.inputs]
        rows = served.terms.check(given)
        spans = [span(_params(tensor.parameters), f"input {tensor.name}") for tensor in request.inputs]
        raw = list(request.raw_input_contents)
        if raw and len(raw) != spans.count(None):
            raise bad(f"{len(raw)} raw contents for {spans.count(None)} inputs")
        rest = iter(raw)
        arrays = {
            tensor.name: _raw(self._regions.read(place), tensor)
            if place is not None
            else _raw(next(rest), tensor)
            if raw
            else _listed(message.contents, tensor)
            for tensor, place, message in zip(given, spans, request.inputs, strict=True)
        }
        return [arrays[spec.name] for spec in served.signature.inputs], rows

    def _answer(self, served: Served, request: Any, outputs: tuple[str, ...], arrays: list[Array]) -> Any:
        if sum(array.nbytes for array in arrays) > self._limits.output_bytes:
            raise bad(f"the answer is above the limit of {self._limits.output_bytes} bytes")
        response = MESSAGES["ModelInferResponse"](model_name=served.name, model_version=served.version, id=request.id)
        spans = {output.name: span(_params(output.parameters), f"output {output.name}") for output in request.outputs}
        for name, array in zip(outputs, arrays, strict=True):
            output = response.outputs.add(name=name, datatype=served.terms.datatypes[name], shape=array.shape)
            data, place = bytes(to_bytes(array)), spans.get(name)
            # One for every output, or clients would take the next one's for it.
            response.raw_output_contents.append(data if place is None else b"")
            if place is not None:
                self._regions.write(place, data)
                output.parameters["shared_memory_region"].string_param = place.region
                output.parameters["shared_memory_byte_size"].int64_param = len(data)
        return response


def _guarded(method: Callable[[Any, Caller], Any], kind: str) -> Callable[[bytes, Any], Any]:
    """The method as gRPC calls it, with refusals as its status codes."""

    async def call(data: bytes, context: Any) -> Any:
        try:
            return await method(_parsed(data, kind), _caller(context))
        except Refusal as refusal:
            return await context.abort(_CODES.get(refusal.status, grpc.StatusCode.UNKNOWN), refusal.message)

    return call


def _parsed(data: bytes, kind: str) -> Any:
    try:
        return MESSAGES[kind].FromString(data)
    except DecodeError as error:
        raise bad(f"the bytes are no {kind}") from error


def _caller(context: Any) -> Caller:
    metadata = dict(context.invocation_metadata() or ())
    key, trace = metadata.get("x-api-key"), metadata.get("traceparent")
    token = None if key is None else key.encode()
    if "authorization" in metadata:
        token = bearer(metadata["authorization"].encode())
    return Caller(token, None if trace is None else trace.encode())


def _params(parameters: Any) -> dict[str, Any]:
    """The parameters with their bare values."""
    return {
        key: getattr(value, value.WhichOneof("parameter_choice") or "int64_param") for key, value in parameters.items()
    }


def _raw(data: bytes, tensor: Given) -> Array:
    needed = count(tensor.shape) * NUMPY[tensor.datatype].itemsize
    if tensor.datatype != "BYTES" and len(data) != needed:
        raise bad(f"input {tensor.name}: {len(data)} bytes, and its shape and datatype need {needed}")
    return from_bytes(data, tensor.datatype, tensor.shape, tensor.name)


def _listed(contents: Any, tensor: Given) -> Array:
    place = _CONTENTS.get(tensor.datatype)
    if place is None:
        raise bad(f"input {tensor.name}: {tensor.datatype} is sent in raw_input_contents only")
    values = getattr(contents, place)
    if tensor.datatype in ("FP32", "FP64", "BOOL"):
        return shaped(np.array(values, NUMPY[tensor.datatype]), tensor.shape, tensor.name)
    return from_numbers(list(values), tensor.datatype, tensor.shape, tensor.name)


def _urgency(parameters: Any) -> tuple[float, int]:
    """The timeout in seconds and the priority of a request; 0 where it names none."""
    found = _params(parameters)
    timeout, priority = found.get("timeout", 0), found.get("priority", 0)
    if type(timeout) is not int or type(priority) is not int or timeout < 0 or priority < 0:
        raise bad("timeout and priority are whole numbers of 0 or more")
    return timeout / 1e6, priority or DEFAULT_PRIORITY
