"""Copies of a PyTorch model, what a call changes in it, and whether it answers alike when it is asked again."""

import copy
import time

import torch

from ._harness import alike, differences, is_user_code, other_values
from ._held import Snapshot
from ._torch_call import Call, distinct, leaves, to_array, to_tensor

# Calls in a row that are made of a model that changes itself, at least and at most, and the seconds that they may take.
FEWEST_CALLS, MOST_CALLS, SECONDS = 12, 256, 1.0
# Calls that the counters of such a model are then set ahead by.
MANY = 100_000
# What torch.nn.Module keeps for itself. Tensors and parts of a module are looked at by name.
OWN = frozenset(vars(torch.nn.Module()))
# Objects among the globals of a model's code that are put back after each call. With more of them, they are data.
OUTSIDE = 2000
SCRIPTED = (torch.jit.ScriptModule, torch.jit.ScriptFunction)


class Guard:
    """The parameters as they were: copies of a model share them, and a call may change them, as Embedding(max_norm=1) does."""

    LOOKS = 2  # calls after which every value is compared; later ones are told by the tensors' own counters of changes

    def __init__(self, module, with_buffers):
        self._module, self._with_buffers, self._kept, self._calls = module, with_buffers, None, 0
        self.changed = []
        self._outside = _outside(module)
        self._keep()

    def _tensors(self):
        if isinstance(self._module, torch.jit.ScriptFunction):
            return []
        named = list(self._module.named_parameters())
        return named + list(self._module.named_buffers()) if self._with_buffers else named

    def _keep(self):
        self._kept = [(name, tensor, tensor.detach().clone()) for name, tensor in self._tensors()]
        self._versions = [tensor._version for _, tensor, _ in self._kept]

    def restore(self):
        """Puts back what the last call changed, and notes its name."""
        self._outside.restore()
        self._calls += 1
        versions = [tensor._version for _, tensor, _ in self._kept]
        if versions == self._versions and self._calls > self.LOOKS:
            return
        for name, tensor, before in self._kept:
            if not _same(before, tensor):
                with torch.no_grad():
                    tensor.copy_(before)
                self.changed += [name] if name not in self.changed else []
        self._versions = [tensor._version for _, tensor, _ in self._kept]


def steadiness(held, inputs, reseed):
    """The outputs that change when the same copy is asked again, or with other seeds, and what a call changes in the model."""
    call = Call(held.parameters, inputs)
    tensors = [to_tensor(name, inputs[name]) for name in call.names]

    def ask(model, number, values=None):
        reseed(number)
        given = tensors if values is None else [to_tensor(name, values[name]) for name in call.names]
        args, kwargs = call.arguments([tensor.clone() for tensor in given])
        with torch.no_grad():
            found = leaves(model(*args, **kwargs))
        return list(
            zip(distinct([name for name, _ in found], inputs), [to_array(tensor).copy() for _, tensor in found])
        )

    model = duplicate(held.module) if held.copies else held.module
    before = _state(model)
    first = ask(model, 1)
    changes = _differing(before, _state(model))
    kept = _python_values(model)  # what is built at the first call is built by now
    later = ask(model, 1)
    changes += [name for name in kept.changed() if name not in changes]
    if held.copies and changes:
        later = _later(ask, model, other_values(inputs), (changes, kept), first)
    if held.copies and not differences(first, later, first)["state"]:
        later = _after_others(ask, duplicate(held.module), other_values(inputs), first)
    other = ask(duplicate(held.module) if held.copies else held.module, 2)
    held.guard.restore()
    reseed(0)
    found = differences(first, later, other)
    drawn = [name for (name, one), (_, two) in zip(first, other) if not alike(one, two)]  # both by fresh copies
    return {**found, "random": drawn, "changes": changes}


def _after_others(ask, model, others, first):
    """The answer of a copy that was asked something else before: it may keep what it saw first, or the largest."""
    try:
        ask(model, 1, others)
    except Exception:  # it does not take such values
        return first
    return ask(model, 1)


def _later(ask, model, others, changed, first):
    """The answer of a later call that differs from the first, or the last one: after some calls, and after very many."""
    answer, start = first, time.perf_counter()
    for number in range(MOST_CALLS):
        if number >= FEWEST_CALLS and time.perf_counter() - start > SECONDS:
            break
        # Every other time something else: a mean over the last inputs is the answer itself while they are all the same.
        answer = _after_others(ask, model, others, first) if number % 2 else ask(model, 1)
        if not all(alike(one, two) for (_, one), (_, two) in zip(first, answer)):
            return answer
    _set_ahead(model, *changed)
    try:
        return ask(model, 1)
    except Exception:  # it cannot be called so often
        return answer


def _set_ahead(model, changes, kept):
    """Moves every counter that a call changed, as very many calls would."""
    kept.disturb()
    for name in changes:
        path, _, attribute = name.rpartition(".")
        owner = model.get_submodule(path) if path in dict(model.named_modules()) else None
        value = getattr(owner, attribute, None)
        if (
            isinstance(value, torch.Tensor)
            and not value.is_floating_point()
            and not isinstance(value, torch.nn.Parameter)
        ):
            value += MANY


def _python_values(model):
    """What the Python code of a model keeps now: in attributes, in objects and containers behind them, and in globals."""
    if isinstance(model, SCRIPTED):
        return Snapshot()
    parts = {name: part for name, part in model.named_modules() if not _is_torchs(part)}
    return Snapshot(*parts.values(), names=parts, ignored=OWN)


def _outside(module):
    """What the user's own code keeps outside of the model: in globals, class attributes and closures. Copies share it."""
    if isinstance(module, SCRIPTED):
        return Snapshot()
    kinds = {type(part) for part in module.modules() if not _is_torchs(part)}
    return Snapshot(*(kind for kind in kinds if _is_users(kind)), most=OUTSIDE)


def _is_torchs(part):
    return type(part).__module__.partition(".")[0] == "torch"


def _is_users(kind):
    code = getattr(getattr(kind, "forward", None), "__code__", None)
    return code is not None and is_user_code(code.co_filename)


def _state(model):
    """Every tensor and plain value that the modules hold, by name."""
    if isinstance(model, SCRIPTED):
        return {name: value.clone() for name, value in getattr(model, "state_dict", dict)().items()}
    found = {name: value.detach().clone() for name, value in (*model.named_parameters(), *model.named_buffers())}
    for prefix, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, (bool, int, float, str)):
                found[f"{prefix}.{name}".lstrip(".")] = value
            elif isinstance(value, torch.Tensor):
                found[f"{prefix}.{name}".lstrip(".")] = value.detach().clone()
    return found


def _differing(before, after):
    """The names whose values changed; a value that was not there before was computed and kept, which changes no answer yet."""
    return [
        name
        for name, value in before.items()
        if name in after
        and not (_same(value, after[name]) if isinstance(value, torch.Tensor) else value == after[name])
    ]


def twin(model):
    """A copy that shares the parameters and nothing else."""
    return duplicate(model, {id(parameter): parameter for parameter in parameters_of(model)})


def duplicate(model, shared=()):
    if isinstance(model, torch.jit.ScriptFunction):  # it has no state
        return model
    return copy.deepcopy(model, {**_memo(model), **dict(shared)})


def _memo(model):
    """Tensors that a module computed and kept, as weight_norm does: they cannot be copied with their history."""
    kept = (value for module in model.modules() for value in vars(module).values())
    return {id(v): v.detach() for v in kept if isinstance(v, torch.Tensor) and not v.is_leaf}


def parameters_of(model):
    return () if isinstance(model, torch.jit.ScriptFunction) else model.parameters()


def changed(before, after):
    """The buffers that a call changed, as they were before it."""
    if isinstance(before, torch.jit.ScriptFunction):
        return {}
    now = dict(after.named_buffers())
    return {name: value for name, value in before.named_buffers() if name in now and not _same(value, now[name])}


def _same(first, second):
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    return (
        torch.equal(first.nan_to_num(), second.nan_to_num())
        if first.is_floating_point()
        else torch.equal(first, second)
    )
