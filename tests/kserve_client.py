"""Calls of KServe's own clients, over REST and gRPC, and what came back, as JSON on stdout.

In a process of its own: KServe's and Triton's messages have the same names, and one process holds only one of them.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import grpc
import httpx
import kserve
import numpy as np

X = np.arange(12, dtype=np.float32).reshape(3, 4)
WORDS = np.array([["one", "zwei", "très", ""]], object)
PAIR = (("a", np.array([[1.5, 2]], np.float32), "FP32"), ("b", np.array([[3, 4]], np.int64), "INT64"))


def request(name: str, *tensors: tuple[str, np.ndarray[Any, Any], str], binary: bool = True) -> Any:
    inputs = []
    for tensor, array, datatype in tensors:
        inputs.append(kserve.InferInput(tensor, list(array.shape), datatype))
        inputs[-1].set_data_from_numpy(array, binary_data=binary)
    return kserve.InferRequest(name, inputs, request_id="seven")


def outputs(answer: Any) -> dict[str, Any]:
    return {"id": answer.id, **{output.name: output.as_numpy().tolist() for output in answer.outputs}}


async def rest(base: str, headers: dict[str, str]) -> dict[str, Any]:
    client = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2", verify=False))

    async def infer(name: str, asked: Any) -> Any:
        try:
            return outputs(await client.infer(base, asked, model_name=name, headers=headers))
        except httpx.HTTPStatusError as error:
            return error.response.status_code

    try:
        return {
            "live": await client.is_server_live(base),
            "ready": await client.is_server_ready(base),
            "models": [await client.is_model_ready(base, name, headers=headers) for name in ("tiny", "none")],
            "binary": await infer("tiny", request("tiny", ("x", X, "FP32"))),
            "json": await infer("tiny", request("tiny", ("x", X, "FP32"), binary=False)),
            "words": await infer("text", request("text", ("words", WORDS, "BYTES"))),
            "bad": await infer("tiny", request("tiny", ("x", X[:, :3].copy(), "FP32"))),
        }
    finally:
        await client.close()


async def remote(address: str, headers: dict[str, str]) -> dict[str, Any]:
    async with kserve.InferenceGRPCClient(address) as client:

        async def infer(asked: Any) -> Any:
            try:
                return outputs(await client.infer(asked, headers=list(headers.items())))
            except grpc.aio.AioRpcError as error:
                return [error.code().name, error.details()]

        return {
            "live": await client.is_server_live(),
            "ready": await client.is_server_ready(),
            "raw": await infer(request("pair", *PAIR)),
            "listed": await infer(request("pair", *PAIR, binary=False)),
            "bad": await infer(request("tiny", ("x", X[:, :3].copy(), "FP32"))),
        }


async def main(http: str, address: str, *token: str) -> None:
    headers = {"authorization": f"Bearer {token[0]}"} if token else {}
    found = {"rest": await rest(f"http://{http}", headers), "grpc": await remote(address, headers)}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
