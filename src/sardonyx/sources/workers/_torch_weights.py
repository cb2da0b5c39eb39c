"""Puts a file of weights into a module, or says in one message which of them do not fit."""

import torch

from ._torch_refusals import Refused

# A checkpoint keeps its state dict under one of these.
KEYS = ("state_dict", "model_state_dict", "model", "net", "network", "module", "weights", "params", "ema")
# What DataParallel, torch.compile and training frameworks put before every name.
PREFIXES = ("module.", "_orig_mod.", "model.", "net.")
SHOWN = 6


def load_weights(model, path):
    """Loads them and gives the remarks: what had to be unwrapped or renamed to make them fit."""
    state, remarks = _unwrap(_read(path))
    own = model.state_dict()
    state, renamed = _without_prefix(state, own)
    wrong = [key for key in state if key in own and tuple(state[key].shape) != tuple(own[key].shape)]
    problems = [
        f"{key} is {_shape(state[key])} in the file and {_shape(own[key])} in the model" for key in wrong[:SHOWN]
    ] + ([f"{len(wrong) - SHOWN} more shapes differ"] if len(wrong) > SHOWN else [])
    fitting = {key: value for key, value in state.items() if key not in wrong}
    on_meta = any(value.device.type == "meta" for value in own.values())
    result = model.load_state_dict(fitting, strict=False, **({"assign": True} if on_meta else {}))
    missing = [key for key in result.missing_keys if key not in wrong and not _tied(key, own, fitting)]
    problems += _listed("missing in the file", missing) + _listed("not in the model", result.unexpected_keys)
    if problems:
        raise Refused(
            f"the weights do not fit the model: {'; '.join(problems)}",
            hint="build the model with the settings that it was trained with, or pass the file of this model",
        )
    return remarks + renamed


def _read(path):
    with open(path, "rb") as file:
        head = file.read(10)
    if head[8:10] == b'{"':
        from safetensors.torch import load_file

        return load_file(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        said = str(error).replace("WeightsUnpickler error: ", "")
        first = next((line.strip() for line in said.splitlines() if "nsupported" in line), said.splitlines()[0][:200])
        raise Refused(
            f"{path} holds more than weights, or is damaged: {first}",
            hint="save the weights alone: torch.save(model.state_dict(), 'weights.pth')",
        ) from error


def _unwrap(found):
    """The state dict inside a checkpoint of a training run."""
    remarks = []
    while isinstance(found, dict) and not (found and all(isinstance(v, torch.Tensor) for v in found.values())):
        key = next((key for key in KEYS if isinstance(found.get(key), dict)), None)
        if key is None:
            break
        remarks.append(f"the weights are those under '{key}' in the checkpoint")
        found = found[key]
    if not isinstance(found, dict):
        raise Refused(
            f"the file holds a {type(found).__name__}, not a dict of named weights",
            hint="save the weights with torch.save(model.state_dict(), 'weights.pth')",
        )
    tensors = {key: value for key, value in found.items() if isinstance(value, torch.Tensor)}
    if hasattr(found, "_metadata"):  # versions of the layers, by which torch fills in what old files lack
        tensors = type(found)(tensors)
        tensors._metadata = found._metadata
    return tensors, remarks


def _without_prefix(state, own):
    for prefix in PREFIXES:
        if state and all(key.startswith(prefix) for key in state) and not any(key in own for key in state):
            stripped = {key[len(prefix) :]: value for key, value in state.items()}
            again, remarks = _without_prefix(stripped, own)
            return again, [f"'{prefix}' was taken off the names of the weights", *remarks]
    return state, []


def _tied(key, own, given):
    """Whether a missing weight is the same memory as one that is there; files often hold shared weights once."""
    return any(
        own[other].data_ptr() == own[key].data_ptr() and own[other].shape == own[key].shape
        for other in given
        if other in own and own[key].numel()
    )


def _listed(what, keys):
    if not keys:
        return []
    more = f" and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
    return [f"{what}: {', '.join(list(keys)[:SHOWN])}{more}"]


def _shape(tensor):
    return "[" + ",".join(map(str, tensor.shape)) + "]"
