"""Opens PyTorch models, runs them and exports them. Needs torch and numpy, and for an export onnx; see _harness.py."""

import contextlib
import inspect
import logging
import os
import re
import sys
import warnings

import torch

from . import _torch_program, _torch_routes, _torch_state
from ._harness import is_user_code, reseed
from ._silence import silent
from ._torch_call import NUMBERS, Call, distinct, leaves, parameters, to_array, to_tensor
from ._torch_explicit import Explicit, explicit
from ._torch_refusals import Refused, first_words, refusal
from ._torch_repairs import open_up
from ._torch_state import SCRIPTED, Guard, changed, duplicate, parameters_of, twin
from ._torch_weights import load_weights

DISTRIBUTIONS = ("torch", "onnx", "onnxscript", "onnx-ir", "safetensors")
NAN_WORDS = re.compile(r"\b(is)?nan|isfinite|isinf")
WRAPPERS = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)


class Held:
    """An open model. `module` answers, `program` is the torch.export program it came from, if it did."""

    def __init__(self, module, program=None, remarks=(), copies=True, training=()):
        self.module, self.program, self.remarks, self.copies = module, program, list(remarks), copies
        self.training = list(training)  # parts that were in training mode while the whole was not
        self.parameters = parameters(module)
        self.double = None
        self.guard = Guard(module, with_buffers=not copies)

    @property
    def scripted(self):
        return isinstance(self.module, SCRIPTED)

    def fresh(self, double=False):
        """A copy whose state no earlier call has touched: a model may change its own buffers and attributes."""
        model = self.in_double() if double else self.module
        return twin(model) if self.copies else model

    def in_double(self):
        if self.program is not None:
            raise NotImplementedError("the number types of a torch.export program are fixed")
        if self.double is None:
            try:
                self.double = duplicate(self.module).double()
            except Exception as error:
                raise NotImplementedError(f"the model cannot be made float64: {first_words(error)}") from error
        return self.double

    def run(self, call, tensors, double=False):
        """The answer, as forward gives it, and the copy that gave it."""
        model = self.fresh(double)
        args, kwargs = call.arguments(tensors)
        try:
            with torch.no_grad():
                return model(*args, **kwargs), model
        finally:
            self.guard.restore()


def seed(number):
    """Makes a factory's random weights the same in every process."""
    torch.manual_seed(number)


def adopt(found, source):
    """What a factory built, or a live object, ready to answer. A live module is left as it is: a copy is put in eval mode."""
    found = found() if isinstance(found, type) else found
    if isinstance(found, torch.export.ExportedProgram):
        return _hold(found, source)
    if not isinstance(found, (torch.nn.Module, *SCRIPTED)):
        raise TypeError(f"{source['attribute']} gave a {type(found).__name__}; it must return a torch.nn.Module")
    return _hold(_unwrapped(found), source)


def load(source):
    """The model in a file: TorchScript, a torch.export program, or a trusted pickle."""
    return _hold(FORMS[source["form"]](source["path"], source), source)


def describe(held):
    """forward's own names. Types and sizes are known only to a program; TorchScript knows which are numbers."""
    if held.program is not None:
        return {**_torch_program.signature(held.program), "remarks": held.remarks}
    kept = [p for p in held.parameters if p.kind.name not in ("VAR_POSITIONAL", "VAR_KEYWORD")]
    return {
        "inputs": [
            {"name": name, "dtype": NUMBERS.get(p.number), "shape": [] if p.number else None}
            for p in kept
            if p.required
            for name in p.names
        ],
        "optional": [p.name for p in kept if not p.required],
        "outputs": [],
        "remarks": held.remarks,
        "training": held.training,
        "treats_nan": _treats_nan(held),
        "state": held.module.described() if isinstance(held.module, Explicit) else [],
    }


def predict(held, inputs, *, double=False):
    """[(name, array)] of the model's answer in eval mode; in float64 if `double`, where every output follows."""
    call = Call(held.parameters, inputs)
    tensors = [to_tensor(name, inputs[name], double) for name in call.names]
    with quiet():
        try:
            answer, _ = held.run(call, tensors, double)
        except NotImplementedError:
            raise
        except Exception as error:
            if double:  # a type is written into the code, such as .float() or a float32 constant
                raise NotImplementedError(f"the model does not run in float64: {first_words(error)}") from error
            raise
    found = leaves(answer)
    names = distinct([name for name, _ in found], inputs)
    arrays = [to_array(tensor) for _, tensor in found]
    if double and any(array.dtype.kind == "f" and array.dtype.itemsize < 8 for array in arrays):
        raise NotImplementedError("the model casts to a smaller type on the way")
    return list(zip(names, arrays))


def watches(held):
    """Says of a file whether it is the model's own code: the user's, or a library's that defines a part of the model."""
    files = set()
    if not held.scripted:
        kinds = {type(module) for module in held.module.modules() if not isinstance(module, Explicit)}
        for kind in kinds:
            if kind.__module__.partition(".")[0] != "torch":
                with contextlib.suppress(TypeError, OSError):  # a class made in a console has no file
                    files.add(inspect.getfile(kind))
    return lambda filename: filename in files or is_user_code(filename)


def _treats_nan(held):
    """Whether the code of the model's own classes names NaN or infinities; also where the code cannot be read."""
    if held.scripted:
        return True
    kinds = {type(module) for module in held.module.modules()}
    for kind in kinds:
        if kind.__module__.partition(".")[0] != "torch" and not issubclass(kind, Explicit):
            try:
                text = inspect.getsource(kind)
            except (TypeError, OSError):
                return True
            if NAN_WORDS.search(text):
                return True
    return False


def steadiness(held, inputs):
    """The outputs that change when the same copy is asked again, or with other seeds, and what a call changes in the model."""
    with quiet():
        return _torch_state.steadiness(held, inputs, lambda number: reseed(sys.modules[__name__], number))


def prepare(held, inputs, *, threads=None, compiled=False, **_):
    """A call of forward with the tensors made once; of torch.compile's version of it if `compiled`."""
    call = Call(held.parameters, inputs)
    args, kwargs = call.arguments([to_tensor(name, inputs[name]) for name in call.names])
    if threads:
        torch.set_num_threads(threads)
    if compiled and held.scripted:
        raise Refused("TorchScript is compiled already", hint="compile the module that it was made from")
    model = torch.compile(held.fresh()) if compiled else held.fresh()

    def answer():
        with torch.inference_mode():
            return model(*args, **kwargs)

    with quiet():
        try:
            answer()
        except Exception as error:
            if "compiler" in type(error).__name__.lower() + str(error).lower() and compiled:
                raise Refused(
                    f"torch.compile failed: {first_words(error)}", hint="it needs a C++ compiler, as g++"
                ) from error
            raise
    return answer


def export(held, route, out, *, inputs, dynamic=None, opset=18, input_names=(), output_names=(), training=False):
    """Writes the ONNX model of one route to `out`. Notes: the constants frozen into it, its opset, remarks."""
    call = Call(held.parameters, inputs)
    tensors = [to_tensor(name, inputs[name]) for name in call.names]
    with quiet():
        answer, after = held.run(call, tensors)
        names = dict(zip(inputs, _asked(input_names, list(inputs), "input")))
        job = _torch_routes.Job(
            call=call,
            tensors=tensors,
            axes=[_axes(dynamic, name) for name in call.names],
            inputs=[names[name] for name in call.names],
            outputs=_asked(output_names, distinct([name for name, _ in leaves(answer)], names.values()), "output"),
            answer=answer,
            state=changed(held.module, after),
            opset=opset,
            training=training,
            out=out,
        )
        try:
            written = _torch_routes.run(route, held, job)
        except Refused:
            raise
        except Exception as error:
            raise refusal(error, route, job, held) from error
    remarks = held.remarks + _state_remarks(job)
    return {"constants": call.constants, "opset": written, "remarks": remarks, **job.notes}


@contextlib.contextmanager
def quiet():
    """Warnings, logs, prints and dumps of the exporter kept off the caller's stdout and stderr."""
    before = logging.root.manager.disable
    torch._C._jit_set_onnx_log_output_stream("stderr")
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), silent():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _hold(found, source):
    weights = source.get("weights")
    if isinstance(found, torch.export.ExportedProgram):
        if source.get("state"):
            raise Refused("a program's state cannot be made an input", hint="convert the module that it was made from")
        if weights:
            raise ValueError("a torch.export program brings its own weights; --weights is for a factory")
        return Held(found.module(), found)
    away = any(parameter.device.type not in ("cpu", "meta") for parameter in parameters_of(found))
    remarks = []
    try:
        model = duplicate(found).cpu() if away or weights else twin(found)
    except Exception as error:  # it holds a lock, a file or the like
        model = found
        remarks.append(f"the model cannot be copied, so it is used itself, in eval mode ({first_words(error)})")
    if weights:
        remarks += load_weights(model, weights)
    if model is not found and not isinstance(model, SCRIPTED):
        remarks += open_up(model)
    training = _training_parts(found)
    model = model if isinstance(model, torch.jit.ScriptFunction) else model.eval()
    copied = model is not found
    if source.get("state"):
        model = explicit(model, source["state"])
    return Held(model, remarks=remarks, copies=copied, training=training)


def _training_parts(model):
    """The modules that somebody left in training mode on purpose: those of a model that as a whole is in evaluation mode."""
    if isinstance(model, torch.jit.ScriptFunction) or model.training:
        return []
    return [name for name, module in model.named_modules() if module.training and not isinstance(module, SCRIPTED)]


def _unwrapped(model):
    """The module inside torch.compile's or a parallel wrapper."""
    while hasattr(model, "_orig_mod") or isinstance(model, WRAPPERS):
        model = model._orig_mod if hasattr(model, "_orig_mod") else model.module
    return model


def _script(path, source):
    return torch.jit.load(path, map_location="cpu")


def _program(path, source):
    if not source.get("trust"):  # torch.export.load would fall back to a plain pickle for what it does not know
        os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
    return torch.export.load(path)


def _pickle(path, source):
    sys.path[:0] = [os.path.dirname(os.path.abspath(path)), os.getcwd()]
    try:
        found = torch.load(path, map_location="cpu", weights_only=False)
    except (AttributeError, ImportError) as error:
        raise Refused(
            f"the pickle names a class that is not to be found here: {error}",
            hint="put the module that defines it beside the file, or convert file.py:factory --weights weights.pth",
        ) from error
    inside = [value for value in found.values() if isinstance(value, torch.nn.Module)] if type(found) is dict else []
    found = inside[0] if len(inside) == 1 else found
    if not isinstance(found, torch.nn.Module):
        raise TypeError(f"the pickle holds a {type(found).__name__}, not one torch.nn.Module")
    return _unwrapped(found)


FORMS = {"torchscript": _script, "program": _program, "pickle-module": _pickle}


def _axes(dynamic, name):
    """{axis: dimension name} of one input. JSON turns the axes into strings."""
    return {int(axis): dim for axis, dim in (dynamic or {}).get(name, {}).items()}


def _asked(names, known, what):
    """The names that were asked for, or else those that are known."""
    if names and len(names) != len(known):
        raise ValueError(f"{len(names)} {what} names for the {len(known)} {what}s of the model: {', '.join(known)}")
    return list(names) or known


def _state_remarks(job):
    """What to know about a model that changes itself: an ONNX model keeps nothing from one call to the next."""
    if not job.state:
        return []
    return [
        f"forward changes {', '.join(job.state)}; the ONNX model answers every call as the original answers the first"
    ]
