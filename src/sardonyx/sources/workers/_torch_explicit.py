"""A PyTorch model whose state goes in and comes out: what a call changes in the module is an argument and a result of forward."""

import functools
import inspect

import torch

from ._torch_call import leaves, to_array
from ._torch_refusals import Refused

GIVEN, NEXT = "state_", "next_"


class Explicit(torch.nn.Module):
    """The module with the tensors of these names (`counter`, `encoder.memory`) handed in and out."""

    def __init__(self, inner, names):
        super().__init__()
        self.inner, self.names = inner, list(names)

    def _owner(self, name):
        *path, attribute = name.split(".")
        return functools.reduce(getattr, path, self.inner), attribute

    def value(self, name):
        owner, attribute = self._owner(name)
        return getattr(owner, attribute)

    def put(self, name, value):
        owner, attribute = self._owner(name)
        (owner._buffers if attribute in owner._buffers else owner.__dict__)[attribute] = value

    def described(self):
        """[{name, dtype, shape, value}] of the state as it is before the first call."""
        found = []
        for name in self.names:
            array = to_array(self.value(name))
            told = {"name": _flat(GIVEN, name), "dtype": str(array.dtype), "shape": list(array.shape)}
            found.append({**told, "value": array.tolist()})
        return found


def explicit(module, names):
    """The module in the form that hands its state in and out."""
    if not isinstance(module, torch.nn.Module) or isinstance(module, torch.jit.ScriptModule):
        raise Refused(
            "the state of a compiled model cannot be made an input", hint="convert the module that it was made from"
        )
    found = Explicit(module, names)
    for name in names:
        held = found.value(name)
        if not isinstance(held, torch.Tensor) or isinstance(held, torch.nn.Parameter):
            kind = "a parameter" if isinstance(held, torch.nn.Parameter) else f"a Python {type(held).__name__}"
            raise Refused(
                f"{name}, which a call changes, is {kind}, and only buffers and tensors can be made inputs",
                hint=f"make it a buffer: self.register_buffer({name.rpartition('.')[2]!r}, torch.tensor(...))",
            )
    signature = _signature(module, names)

    def forward(self, *args, **kwargs):
        given = signature.bind(*args, **kwargs)
        before = {name: self.value(name) for name in self.names}
        for name in self.names:
            self.put(name, given.arguments.pop(_flat(GIVEN, name)).clone())
        try:
            answer = self.inner(*given.args, **given.kwargs)
            after = {_flat(NEXT, name): self.value(name) for name in self.names}
        finally:
            for name, value in before.items():
                self.put(name, value)
        return {**dict(leaves(answer)), **after}

    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    forward.__signature__ = inspect.Signature([itself, *signature.parameters.values()])
    # A class of its own, because the signature of forward is read from the class; copies of the module share it.
    found.__class__ = type("Explicit", (Explicit,), {"forward": forward})
    return found.eval()


def _flat(prefix, name):
    return prefix + name.replace(".", "_")


def _signature(module, names):
    """What forward takes, and the state after the last of what it must be given."""
    own = list(inspect.signature(module.forward).parameters.values())
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    required = [p for p in own if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, kind)]
    state = [inspect.Parameter(_flat(GIVEN, name), kind) for name in names]
    return inspect.Signature([*required, *state, *(p for p in own if p not in required)])
