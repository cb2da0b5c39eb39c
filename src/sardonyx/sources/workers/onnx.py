"""Opens ONNX models, runs them with onnxruntime and writes them at another opset; see _harness.py."""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import onnxruntime

DISTRIBUTIONS = ("onnx", "onnxruntime", "onnxscript")
DTYPES = {"tensor(float)": "float32", "tensor(double)": "float64"}
# Where a model keeps how far onnxruntime may change its graph; run/session.py writes it.
LEVEL_KEY = "sardonyx.optimization_level"
LEVELS = {
    "none": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
}


class Refused(Exception):
    """What was handed in cannot be opened or exported: a line that says why, and a hint."""

    def __init__(self, message, hint=""):
        super().__init__(message)
        self.hint = hint


class Held:
    """An open model, and where it came from: a path, or a ModelProto."""

    def __init__(self, origin):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        self.origin = origin
        source = origin if isinstance(origin, str) else origin.SerializeToString()
        try:
            self.session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
            level = LEVELS.get(self.session.get_modelmeta().custom_metadata_map.get(LEVEL_KEY))
            if level is not None:
                options.graph_optimization_level = level
                self.session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise Refused(
                f"onnxruntime does not load it: {_plain(error)}", "sardonyx check says what is wrong with it"
            ) from error

    def graph(self):
        import onnx_ir

        return onnx_ir.load(self.origin) if isinstance(self.origin, str) else onnx_ir.from_proto(self.origin)


def adopt(proto, source):
    if source.get("weights"):
        raise ValueError("an ONNX model carries its own weights; leave --weights out")
    return Held(proto)


def load(source):
    return Held(source["path"])


def describe(held):
    return {
        "inputs": list(map(_described, held.session.get_inputs())),
        "outputs": list(map(_described, held.session.get_outputs())),
        "framework": "onnx",
    }


def predict(held, inputs, *, double=False):
    if double:
        raise NotImplementedError("the number types of an ONNX model are fixed")
    names = [output.name for output in held.session.get_outputs()]
    try:
        return list(zip(names, held.session.run(names, inputs)))
    except Exception as error:
        raise RuntimeError(_plain(error)) from error


def export(held, route, out, *, opset, **_):
    """`as-is` writes the model again, with one import for each domain; `upgrade` rewrites its operators for the opset."""
    import onnx_ir

    model = held.graph()
    if route == "upgrade":
        _upgrade(model, opset)
    onnx_ir.save(model, out, external_data=os.path.basename(out) + ".data" if _has_external(model) else None)


def _upgrade(model, opset):
    from onnxscript import version_converter

    found = model.opset_imports.get("", 0)
    if found >= opset:
        raise Refused(f"the model is at opset {found} already", f"ask for a newer one with --opset, or keep {found}")
    version_converter.convert_version(model, opset, fallback=True)  # by onnx's own converter below opset 18
    if model.opset_imports.get("", 0) != opset:
        raise Refused(f"no version converter takes this model from opset {found} to {opset}")


def _has_external(model):
    return any(type(value.const_value).__name__ == "ExternalTensor" for value in model.graph.initializers.values())


def _described(value):
    shape = value.shape if isinstance(value.shape, list) else None
    return {"name": value.name, "dtype": DTYPES.get(value.type, value.type[len("tensor(") : -1]), "shape": shape}


def _plain(error):
    """onnxruntime's message without its status prefix, in one line."""
    text = str(error).strip()
    return " ".join((text.split(" : ", 3)[-1] if text.startswith("[ONNXRuntimeError]") else text).split())
