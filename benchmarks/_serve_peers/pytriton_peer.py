"""PyTriton: Triton's server in front of a function of our own, with its dynamic batching."""

import sys

import numpy as np
import onnxruntime
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

SHAPES = {"tiny": ((16,), (4,)), "wide": ((2048,), (10,)), "image": ((3, 224, 224), (10,))}

if __name__ == "__main__":
    model, name, port = sys.argv[1:]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options)
    taken, given = SHAPES[name]

    @batch
    def infer(x):
        return session.run(["y"], {"x": x})

    ports = {"http_port": int(port), "grpc_port": int(port) + 1, "metrics_port": int(port) + 2}
    with Triton(config=TritonConfig(**ports, log_verbose=0)) as triton:
        triton.bind(
            model_name=name,
            infer_func=infer,
            inputs=[Tensor(name="x", dtype=np.float32, shape=taken)],
            outputs=[Tensor(name="y", dtype=np.float32, shape=given)],
            config=ModelConfig(max_batch_size=16, batcher=DynamicBatcher()),
        )
        triton.serve()
