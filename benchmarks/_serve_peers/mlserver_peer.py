"""MLServer with a model of our own, batching as its settings allow."""

import json
import sys
import tempfile
from pathlib import Path

import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse


class Onnx(MLModel):
    async def load(self) -> bool:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(self.settings.parameters.uri, options)
        return True

    async def predict(self, payload):
        x = NumpyCodec.decode_input(payload.inputs[0])
        (y,) = self._session.run(["y"], {"x": x})
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("y", y)])


if __name__ == "__main__":
    import os

    model, name, port = sys.argv[1:]
    folder = Path(tempfile.mkdtemp())
    server = {
        "http_port": int(port),
        "grpc_port": int(port) + 1,
        "metrics_port": int(port) + 2,
        "parallel_workers": 0,
        "debug": False,
    }
    (folder / "settings.json").write_text(json.dumps(server))
    settings = {"name": name, "implementation": "mlserver_peer.Onnx", "parameters": {"uri": model}}
    if name == "wide":
        settings |= {"max_batch_size": 16, "max_batch_time": 0.002}
    (folder / "model-settings.json").write_text(json.dumps(settings))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command = str(Path(sys.executable).with_name("mlserver"))
    os.execve(command, [command, "start", str(folder)], environment)
