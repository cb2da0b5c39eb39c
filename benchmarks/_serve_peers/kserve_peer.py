"""KServe's model server with a model of our own."""

import sys

import onnxruntime
from kserve import InferOutput, InferResponse, Model, ModelServer


class Onnx(Model):
    def __init__(self, name, path):
        super().__init__(name)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(path, options)
        self.ready = True

    def predict(self, payload, headers=None, response_headers=None):
        x = payload.inputs[0].as_numpy()
        (y,) = self._session.run(["y"], {"x": x})
        output = InferOutput("y", list(y.shape), "FP32")
        output.set_data_from_numpy(y, binary_data=bool(payload.from_grpc or payload.request_outputs))
        return InferResponse(payload.id or "0", self.name, [output])


if __name__ == "__main__":
    model, name, port = sys.argv[1:]
    server = ModelServer(http_port=int(port), grpc_port=int(port) + 1, workers=1, access_log_format=None)
    server.start([Onnx(name, model)])
