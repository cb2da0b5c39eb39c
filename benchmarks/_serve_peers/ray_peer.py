"""Ray Serve with a deployment of our own: raw bytes in and out, and batches where the model is wide."""

import os
import sys

os.environ |= {"RAY_SERVE_ENABLE_HA_PROXY": "1", "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1", "RAY_USAGE_STATS_ENABLED": "0"}
import signal
import time

import numpy as np
import onnxruntime
import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import Response

SHAPES = {"tiny": (16,), "wide": (2048,), "image": (3, 224, 224)}


@serve.deployment(num_replicas=1, max_ongoing_requests=64)
class Onnx:
    def __init__(self, model, name):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session, self._name = onnxruntime.InferenceSession(model, options), name

    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.0)
    async def together(self, rows):
        return list(self._session.run(["y"], {"x": np.concatenate(rows)})[0])

    async def __call__(self, request: Request) -> Response:
        x = np.frombuffer(await request.body(), np.float32).reshape(1, *SHAPES[self._name])
        y = await self.together(x) if self._name == "wide" else self._session.run(["y"], {"x": x})[0]
        return Response(y.tobytes(), media_type="application/octet-stream")


if __name__ == "__main__":
    model, name, port = sys.argv[1:]
    ray.init(num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": int(port)})
    serve.run(Onnx.bind(model, name), route_prefix="/")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        while True:
            time.sleep(1)
    finally:
        serve.shutdown()
        ray.shutdown()
