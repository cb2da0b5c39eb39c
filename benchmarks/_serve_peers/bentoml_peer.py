"""BentoML with a service of our own: JSON lists, and batches where the model is wide."""

import os
import sys
from pathlib import Path

import bentoml
import numpy as np
import onnxruntime

MODEL, NAME = os.environ.get("PEER_MODEL", ""), os.environ.get("PEER_NAME", "")


@bentoml.service(workers=1, traffic={"timeout": 60}, logging={"access": {"enabled": False}})
class Onnx:
    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(MODEL, options)

    @bentoml.api(route="/infer", batchable=NAME == "wide", max_batch_size=16, max_latency_ms=10_000)
    def infer(self, x: np.ndarray) -> np.ndarray:
        return self._session.run(["y"], {"x": x.astype(np.float32)})[0]


if __name__ == "__main__":
    model, name, port = sys.argv[1:]
    environment = {**os.environ, "PEER_MODEL": model, "PEER_NAME": name, "BENTOML_DO_NOT_TRACK": "true"}
    command = str(Path(sys.executable).with_name("bentoml"))
    words = [command, "serve", "bentoml_peer:Onnx", "--host", "127.0.0.1", "--port", port]
    os.chdir(Path(__file__).parent)
    os.execve(command, words, environment)
