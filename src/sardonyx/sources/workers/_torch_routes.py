"""The ways from PyTorch to ONNX: dynamo (torch.export), script (the compiled code) and trace (one recorded run).

Whatever forward takes and gives, what is exported takes tensors and gives a tuple of tensors, in the order of the names.
"""

import contextlib
import inspect

import torch
from torch.onnx import _constants

from ._torch_call import leaves
from ._torch_graph import keep_batch_statistics, tidy, weight_bytes
from ._torch_paths import guarded, of_named_sizes, recorded
from ._torch_program import signature
from ._torch_refusals import Refused
from ._torch_repairs import mend, plain_attention
from ._torch_symbolics import in_pytorchs_way
from ._torch_wrapper import is_plain, wrapped

DYNAMO_NEWEST = getattr(_constants, "ONNX_MAX_OPSET", 18)
SCRIPT_NEWEST = getattr(_constants, "ONNX_TORCHSCRIPT_EXPORTER_MAX_OPSET", 17)
SCRIPT_OLDEST = 7
HOOKS = ("_forward_hooks", "_forward_pre_hooks")
ONE_FILE = 1_800_000_000  # protobuf holds 2 GB; beyond this many bytes the weights go into a file beside the model


class Job:
    """What to export: tensors with their names and dynamic axes, the outputs' names, and where to write.

    `answer` is forward's own for these tensors; `state` holds the buffers that a call changes, as they were before it.
    `repairs` names what was changed in the copy that is exported; `frozen` are the lines whose values a recorded run took as
    constants, `guards` the conditions on sizes that torch.export took as true.
    """

    def __init__(self, *, call, tensors, axes, inputs, outputs, answer, state, opset, training, out):
        self.call, self.tensors, self.axes, self.inputs, self.outputs = call, tensors, axes, inputs, outputs
        self.answer, self.state, self.opset, self.training, self.out = answer, state, opset, training, out
        self.repairs, self.frozen, self.guards = [], [], []

    @property
    def notes(self):
        """What there is to know about the export."""
        return {"repairs": self.repairs, "frozen": self.frozen, "guards": self.guards}


def run(route, held, job):
    """Exports by one route; gives the opset that was written."""
    kind = "program" if held.program is not None else "torchscript" if held.scripted else "module"
    if job.training and kind == "program":
        raise Refused(
            "a torch.export program stays in the mode in which it was exported",
            hint="convert the module itself with --training",
        )
    # Where gradients could be asked for, attention takes another path, whose memory does not allow every view.
    with plain_attention(), torch.set_grad_enabled(job.training):
        return ROUTES[kind, route](held, job)


def module_dynamo(held, job):
    tensors = _wide(held, job)
    with _prepared(held, job, "dynamo") as model, flat(model, job.call):
        return _dynamo(model, tensors, job)


def module_script(held, job):
    with _prepared(held, job, "script") as model:
        compiled = torch.jit.script(model)
        return _torchscript(compiled if is_plain(held, job) else wrapped(compiled, job), job)


def module_trace(held, job):
    with _prepared(held, job, "trace") as model, flat(model, job.call):
        return _torchscript(model, job)


def script_dynamo(held, job):
    return _dynamo(_Followed(held, job), job.tensors, job)


def script_trace(held, job):
    return _torchscript(_Followed(held, job), job)


def program_dynamo(held, job):
    described = [item["name"] for item in signature(held.program)["inputs"]]
    asked = dict(zip(job.call.names, job.inputs))
    names = [asked[name] for name in described] if set(described) == set(asked) else job.inputs
    return _dynamo(held.program, None, job, inputs=names)


ROUTES = {
    ("module", "dynamo"): module_dynamo,
    ("module", "script"): module_script,
    ("module", "trace"): module_trace,
    ("torchscript", "script"): module_script,
    ("torchscript", "dynamo"): script_dynamo,
    ("torchscript", "trace"): script_trace,
    ("program", "dynamo"): program_dynamo,
    ("program", "trace"): module_trace,
}


@contextlib.contextmanager
def flat(model, call):
    """Gives the model a `forward` of tensors only while the block lasts. A module around it would rename its weights."""
    own, hooks = vars(model).get("forward"), {name: vars(model)[name] for name in HOOKS if vars(model).get(name)}
    model.forward = flattened(_hooked(model, hooks) if hooks else model.forward, call)
    vars(model).update({name: type(kept)() for name, kept in hooks.items()})
    try:
        yield
    finally:
        vars(model).update(hooks)
        del model.forward
        if own is not None:
            model.forward = own


def _hooked(model, hooks):
    """A call of the model with its own hooks: they take what its `forward` gives, not the tuple that is exported."""
    usual = model.forward

    def call(*args, **kwargs):
        exported, model.forward = model.forward, usual
        vars(model).update(hooks)
        try:
            return model(*args, **kwargs)
        finally:
            model.forward = exported
            vars(model).update({name: type(kept)() for name, kept in hooks.items()})

    return call


def flattened(function, call):
    """The function as one of tensors, in the order of the call's names, to a tuple of tensors."""

    def forward(*tensors):
        args, kwargs = call.arguments(tensors)
        return tuple(tensor for _, tensor in leaves(function(*args, **kwargs)))

    return forward


class _Followed(torch.nn.Module):
    """The operators that the TorchScript interpreter ran for the example. Its sizes and its branches are fixed in it."""

    def __init__(self, held, job):
        from torch.fx.experimental.proxy_tensor import make_fx

        super().__init__()
        function = flattened(held.fresh(), job.call)
        with torch.no_grad():
            self.followed = make_fx(function, _allow_non_fake_inputs=True)(*job.tensors)

    def forward(self, *tensors):
        return self.followed(*tensors)


def _dynamo(model, tensors, job, inputs=None):
    shapes = (tuple(axes or None for axes in job.axes),) if tensors is not None and any(job.axes) else None
    guards = []
    with guarded(guards):
        program = _export(
            model,
            tuple(tensors or ()),
            dynamo=True,
            verbose=False,
            input_names=inputs or job.inputs,
            output_names=job.outputs,
            opset_version=min(job.opset, DYNAMO_NEWEST),
            dynamic_shapes=shapes,
            optimize=not job.training,
        )
    job.guards = of_named_sizes(guards, _input_shapes(program), job.axes)
    written = program.model.opset_imports.get("", job.opset)
    if written > job.opset:
        raise Refused(f"dynamo cannot write opset {job.opset}, only {written} and newer; routes script and trace can")
    if job.training:
        keep_batch_statistics(program.model)
    program.save(job.out, external_data=weight_bytes(program.model) > ONE_FILE)
    return written


def _input_shapes(program):
    """The sizes of the program's inputs, in which dynamic ones are symbols."""
    traced = getattr(program, "exported_program", None)
    if traced is None:
        return []
    values = {node.name: node.meta.get("val") for node in traced.graph.nodes if node.op == "placeholder"}
    named = [values.get(name) for name in traced.graph_signature.user_inputs]
    return [value.shape if isinstance(value, torch.Tensor) else () for value in named]


def _torchscript(model, job):
    if job.opset < SCRIPT_OLDEST:
        raise Refused(f"PyTorch writes opset {SCRIPT_OLDEST} and newer; opset {job.opset} was asked for")
    opset = min(job.opset, SCRIPT_NEWEST)
    with in_pytorchs_way(opset), recorded(job.frozen):
        _export(
            model,
            tuple(job.tensors),
            job.out,
            dynamo=False,
            opset_version=opset,
            input_names=job.inputs,
            output_names=job.outputs,
            dynamic_axes={name: axes for name, axes in zip(job.inputs, job.axes) if axes},
            training=torch.onnx.TrainingMode.TRAINING if job.training else torch.onnx.TrainingMode.EVAL,
            do_constant_folding=not job.training and not job.state,
        )
    tidy(job)
    return opset


def _export(model, tensors, out=None, **options):
    """torch.onnx.export with the options that this version of torch knows."""
    known = inspect.signature(torch.onnx.export).parameters
    if options["dynamo"] and "dynamo" not in known:
        raise Refused(f"torch {torch.__version__} has no dynamo exporter; it came with 2.5")
    return torch.onnx.export(model, tensors, out, **{key: value for key, value in options.items() if key in known})


@contextlib.contextmanager
def _prepared(held, job, route):
    """A fresh copy of the model in the mode that was asked for, with the repairs that its export needs."""
    model = held.fresh()
    if held.copies:
        job.repairs = mend(model, route, job.training)
    if job.training:
        model.train()
    try:
        yield model
    finally:
        if job.training:  # where the model cannot be copied, this is the one that answers
            model.eval()


def _wide(held, job):
    """The example with every dynamic dimension of size 1 doubled, if the model takes it: torch.export fixes a size of 1."""
    wide = []
    for tensor, axes in zip(job.tensors, job.axes):
        for axis in axes:
            if tensor.shape[axis] == 1:
                tensor = torch.cat([tensor, tensor], dim=axis)
        wide.append(tensor)
    if all(new is old for new, old in zip(wide, job.tensors)):
        return job.tensors
    try:
        held.run(job.call, wide)
    except Exception:  # another size is tied to this one: the exporter gets the example as it is
        return job.tensors
    return wide
