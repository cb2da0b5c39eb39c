"""A TorchScript module around another that takes tensors, gives tensors, and fills in everything else."""

import torch

from ._torch_refusals import Refused

INNER = "inner"  # what the module inside is called; its weights get this in front of their names


def is_plain(held, job):
    """Whether forward itself already takes all of its parameters as tensors, in this order, and gives tensors."""
    straight = [parameter.name for parameter in held.parameters] == [slot.name for slot in job.call.slots.values()]
    by_position = all(parameter.kind.name == "POSITIONAL_OR_KEYWORD" for parameter in held.parameters)
    answers = job.answer if type(job.answer) is tuple else (job.answer,)
    tensors = not job.call.constants and all(isinstance(answer, torch.Tensor) for answer in answers)
    return straight and by_position and tensors and not job.call.nested


def wrapped(model, job):
    """The wrapper for the arguments and the answer of this job."""
    tensors = [_Code(f"t{index}") for index in range(len(job.tensors))]
    args, kwargs = job.call.arguments(tensors)
    given = ", ".join([*map(_literal, args), *(f"{name}={_literal(value)}" for name, value in kwargs.items())])
    taken = "".join(f", {name}: Tensor" for name in tensors)
    call = f"self.{INNER}({given})" if isinstance(model, torch.jit.ScriptFunction) else f"self.{INNER}.forward({given})"
    source = f"def forward(self{taken}):\n    answer = {call}\n    return {', '.join(_picked(job.answer, 'answer'))}\n"

    class Wrapper(torch.jit.ScriptModule):
        def __init__(self):
            super().__init__()
            setattr(self, INNER, model)
            self.define(source)

    return Wrapper().train(job.training)


class _Code(str):
    """A piece of TorchScript."""


def _literal(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple):
        return "(" + "".join(f"{_literal(item)}, " for item in value) + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    return str(value) if isinstance(value, _Code) else repr(value)


def _picked(answer, path):
    """The expressions that take every tensor out of an answer like this one."""
    if answer is None:
        return []
    if isinstance(answer, torch.Tensor):
        return [path]
    if isinstance(answer, dict):
        return [piece for key, item in answer.items() for piece in _picked(item, f"{path}[{key!r}]")]
    if isinstance(answer, (tuple, list)):
        return [piece for index, item in enumerate(answer) for piece in _picked(item, f"{path}[{index}]")]
    raise Refused(
        f"script gives tensors only, and forward gives a Python {type(answer).__name__}; route dynamo takes it"
    )
