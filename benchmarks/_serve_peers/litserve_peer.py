"""LitServe with a model of our own: JSON lists, and batches where the model is wide."""

import sys

import litserve
import numpy as np
import onnxruntime


class Onnx(litserve.LitAPI):
    def __init__(self, path, **options):
        super().__init__(**options)
        self._path = path

    def setup(self, device):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(self._path, options)

    def decode_request(self, request):
        return np.asarray(request["x"], np.float32)

    def batch(self, inputs):
        return np.concatenate(inputs)

    def unbatch(self, output):
        return list(output[:, None])

    def predict(self, x):
        return self._session.run(["y"], {"x": x})[0]

    def encode_response(self, output):
        return {"y": output.tolist()}


if __name__ == "__main__":
    model, name, port = sys.argv[1:]
    batching = {"max_batch_size": 16, "batch_timeout": 0.002} if name == "wide" else {}
    api = Onnx(model, api_path=f"/v2/models/{name}/infer", **batching)
    litserve.LitServer(api, accelerator="cpu", workers_per_device=1).run(
        host="127.0.0.1", port=int(port), num_api_servers=1, log_level="error", generate_client_file=False
    )
