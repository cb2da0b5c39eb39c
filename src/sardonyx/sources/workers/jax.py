"""Opens JAX functions and Flax and Equinox modules, asks them and exports them by jax2onnx; see _harness.py."""

import inspect
import warnings

import jax
import numpy

enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
DISTRIBUTIONS = ("jax", "jaxlib", "jax2onnx", "flax", "equinox", "onnx")
# How normalisation layers are written: as plain arithmetic, or as the operator that ONNX has for them.
NORMALIZATION = {"jax2onnx": "auto", "jax2onnx-native": "prefer_native"}


class Refused(Exception):
    """What was handed in cannot be used or exported: a line that says why, and a hint."""

    def __init__(self, message, hint=""):
        super().__init__(message)
        self.hint = hint


class Held:
    """A callable that is ready for inference, and the names of its arguments."""

    def __init__(self, function):
        self.function = function
        self.jitted = jax.jit(lambda *given: function(*given))  # not every module can be a static argument itself
        self.names = _argument_names(function)

    def arguments(self, inputs):
        """The inputs in the order of the arguments: by name where the names are the function's own, else as they come."""
        if set(inputs) <= set(self.names):
            return [inputs[name] for name in self.names if name in inputs]
        return list(inputs.values())


def adopt(function, source):
    """The callable in inference mode. A module that was handed in stays as it was: a copy is switched."""
    if source.get("weights"):
        raise ValueError("a JAX callable carries its own parameters; load them in the factory and leave --weights out")
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"expected a function or a module with its parameters, got {function!r:.80}")
    return Held(_for_inference(function))


def load(source):
    raise Refused("a JAX model has no file of its own", "name a factory: file.py:name")


def describe(held):
    """The names of the arguments; their shapes are not written anywhere."""
    return {"inputs": [{"name": name, "shape": None} for name in held.names], "outputs": [], "framework": "jax"}


def predict(held, inputs, *, double=False):
    """The jitted function's answer; with `double`, to float64 inputs under JAX's 64-bit mode."""
    arguments = held.arguments(inputs)
    if double:
        arguments = [array.astype(numpy.float64) if array.dtype.kind == "f" else array for array in arguments]
    wide = any(array.dtype.itemsize == 8 for array in arguments)
    with enable_x64(wide):
        answer = held.jitted(*arguments)
        return _named([numpy.asarray(leaf) for leaf in jax.tree_util.tree_leaves(answer)], answer)


def export(held, route, out, *, inputs, dynamic, opset, input_names=(), output_names=(), training=False):
    """Writes the function as ONNX."""
    import jax2onnx

    if training:
        raise Refused("jax2onnx exports inference only", "leave --training out")
    ordered = _in_order(held, inputs)
    wide = any(array.dtype.itemsize == 8 for array in ordered.values())
    names = list(output_names) or [name for name, _ in predict(held, inputs)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            jax2onnx.to_onnx(
                held.function,
                inputs=[_spec(array, (dynamic or {}).get(name, {})) for name, array in ordered.items()],
                opset=opset,
                enable_double_precision=wide,
                return_mode="file",
                output_path=out,
                input_names=list(ordered),
                output_names=names,
                normalization_mode=NORMALIZATION[route],
            )
    except Exception as error:
        raise _refusal(error) from error


def _in_order(held, inputs):
    by_name = set(inputs) <= set(held.names)
    return {name: inputs[name] for name in (held.names if by_name else inputs) if name in inputs}


def _spec(array, axes):
    """The shape with the names of its dynamic dimensions, which jax2onnx turns into symbols."""
    named = {int(axis): dim for axis, dim in axes.items()}
    return jax.ShapeDtypeStruct(tuple(named.get(axis, size) for axis, size in enumerate(array.shape)), array.dtype)


def _named(leaves, answer):
    """The leaves of an answer under the keys that lead to them."""
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(answer)[0]]
    words = [
        "_".join(str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", "")))) for key in path)
        for path in paths
    ]
    names = [word if word and not word[0].isdigit() else f"output_{word}" if word else "output" for word in words]
    return list(zip(names, leaves))


def _argument_names(function):
    """The positional arguments without a default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters if p.kind in kinds and p.default is inspect.Parameter.empty]


def _for_inference(function):
    packages = {cls.__module__.partition(".")[0] for cls in type(function).__mro__}
    modules = {cls.__module__ for cls in type(function).__mro__}
    if any(name.startswith("flax.nnx") for name in modules):
        from flax import nnx

        copy = nnx.clone(function)
        copy.eval()
        return copy
    if any(name.startswith("flax.linen") for name in modules) and getattr(function, "scope", None) is None:
        raise Refused(
            f"this {type(function).__name__} has no parameters yet",
            "bind them: return model.bind(variables) from the factory",
        )
    if "equinox" in packages:
        import equinox

        return equinox.nn.inference_mode(function)
    return function


def _refusal(error):
    """The exporter's reason in one line, with the primitive that it does not know."""
    text = " ".join(str(error).split())
    hint = (
        "write that step with other jax.numpy functions"
        if "primitive" in text.lower() or "plugin" in text.lower()
        else ""
    )
    return Refused(f"jax2onnx: {text[:300] or type(error).__name__}", hint)
