"""Changes to the copy of a model that is exported, where PyTorch's own way of computing an answer has no ONNX form.

Each leaves the answers as they are. What was done is named in the notes of the export.
"""

import contextlib

import torch
from torch import nn
from torch.nn.utils import parametrize

NESTED = "nested tensors replaced by padding: nn.TransformerEncoder answers as with enable_nested_tensor=True"
NORMED = "rows of {0} renormalised once in place of at each look-up (max_norm)"
COMPUTED = "weights that are computed from others ({0}) computed once"
UNCOMPILED = "torch.compile taken off {0}"
UNCACHED = "use_cache set to False in the configuration of {0}: the answers have no cache of keys and values"


@contextlib.contextmanager
def plain_attention():
    """While the block lasts, attention takes its plain path: the fused operators of the fast one have no ONNX form."""
    attention = getattr(torch.backends, "mha", None)
    if not hasattr(attention, "set_fastpath_enabled"):  # before torch 2.2
        yield
        return
    fast = attention.get_fastpath_enabled()
    attention.set_fastpath_enabled(False)
    try:
        yield
    finally:
        attention.set_fastpath_enabled(fast)


def open_up(model):
    """Changes a copy of the user's model so that it answers with tensors and its modules can be seen; gives the repairs."""
    return [*_without_compilation(model), *_without_cache(model)]


def mend(model, route, training):
    """Changes the copy that is exported; gives a list of the repairs, which grows while the model runs."""
    done = []
    if training or isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        return done
    done += _compute_weights(model)
    if route != "dynamo":  # which computes it at each look-up, also where forward reads the rows in another way
        done += _renormalise(model)
    if route != "script":  # a replaced forward cannot be compiled
        for module in model.modules():
            if _takes_nested(module):
                _pad(module, done)
    return done


def _without_compilation(model):
    """Puts modules in the place of what torch.compile made of them."""
    found = []
    for parent_name, parent in list(model.named_modules()):
        for name, child in list(parent.named_children()):
            if hasattr(child, "_orig_mod"):
                parent._modules[name] = child._orig_mod
                found.append(_path(parent_name.replace("_orig_mod.", ""), name))
    return [UNCOMPILED.format(", ".join(found))] if found else []


def _without_cache(model):
    """Models of the transformers package answer with a cache object unless their configuration says otherwise."""
    found = []
    for module in model.modules():
        config = getattr(module, "config", None)
        if getattr(config, "use_cache", None) is True:
            config.use_cache = False
            found.append(type(module).__name__)
    return [UNCACHED.format(", ".join(dict.fromkeys(found)))] if found else []


def _compute_weights(model):
    """Puts plain weights in the place of weight_norm, spectral_norm and other parametrisations, old and new."""
    found = []
    for path, module in list(model.named_modules()):
        if parametrize.is_parametrized(module):
            found += [_path(path, name) for name in _settle(module)]
        for hook in list(module._forward_pre_hooks.values()):
            if type(hook).__name__ in HOOKS and type(hook).__module__.startswith("torch.nn.utils."):
                HOOKS[type(hook).__name__](module, hook.name)
                found.append(_path(path, hook.name))
    return [COMPUTED.format(", ".join(found))] if found else []


def _settle(module):
    """Puts the values of parametrised weights in their place; gives their names. PyTorch's own removal would change the class
    and the parameters that the copy shares with the user's model."""
    weights = {name: getattr(module, name).detach().clone() for name in module.parametrizations}
    module.__class__ = parametrize.type_before_parametrizations(module)
    del module.parametrizations
    for name, weight in weights.items():
        module.register_parameter(name, nn.Parameter(weight, requires_grad=weight.is_floating_point()))
    return list(weights)


# Hooks that compute a weight before each call, and what puts the weight in their place.
HOOKS = {"WeightNorm": nn.utils.remove_weight_norm, "SpectralNorm": nn.utils.remove_spectral_norm}


def _renormalise(model):
    """Gives embeddings whose rows may not be longer than max_norm the rows that they would have after all were looked up."""
    owners = {}
    for path, module in model.named_modules():
        for name, weight in module._parameters.items():
            if weight is not None:
                owners.setdefault(id(weight), []).append((path, name))
    found = []
    for path, module in model.named_modules():
        if not isinstance(module, (nn.Embedding, nn.EmbeddingBag)) or module.max_norm is None:
            continue
        if (
            len(owners.get(id(module.weight), ())) != 1
        ):  # another layer reads the rows, of which a call changes only some
            continue
        rows = torch.arange(module.weight.shape[0])
        weight = module.weight.detach().clone()
        torch.embedding_renorm_(weight, rows, module.max_norm, module.norm_type)
        module.weight = nn.Parameter(weight, requires_grad=module.weight.requires_grad)
        module.max_norm = None
        found.append(path or type(module).__name__)
    return [NORMED.format(", ".join(found))] if found else []


def _takes_nested(module):
    plain = isinstance(module, nn.TransformerEncoder) and type(module).forward is nn.TransformerEncoder.forward
    return plain and not module.training and getattr(module, "use_nested_tensor", False)


def _pad(encoder, done):
    """Gives an encoder a forward that answers as nested tensors do: zero where there is padding.

    PyTorch takes nested tensors where all padding is at the end of its row. Otherwise every place has an answer, and
    those of a row that is all padding are NaN.
    """
    encoder.use_nested_tensor = False
    usual, checks = encoder.forward, getattr(encoder, "mask_check", True)

    def forward(src, mask=None, src_key_padding_mask=None, is_causal=None):
        if src_key_padding_mask is None or mask is not None or src.dim() != 3:
            return usual(src, mask, src_key_padding_mask, is_causal)
        if NESTED not in done:
            done.append(NESTED)
        kept = (
            src_key_padding_mask.logical_not()
            if src_key_padding_mask.dtype is torch.bool
            else src_key_padding_mask == 0
        )
        place = torch.arange(src.shape[1], device=src.device)
        leading = place < kept.sum(1, keepdim=True)
        nested = (leading == kept).all()
        if not checks:  # the user vouches for it
            src_key_padding_mask, nested = leading.logical_not(), torch.ones_like(nested)
        output = src
        for layer in encoder.layers:
            output = layer(output, src_key_padding_mask=src_key_padding_mask)
        nothing = torch.where(nested, 0.0, torch.nan).to(output.dtype)
        outside = (nested & ~leading) | (~nested & ~kept.any(1, keepdim=True))
        output = torch.where(outside.unsqueeze(2), nothing, output)
        return output if encoder.norm is None else encoder.norm(output)

    encoder.forward = forward


def _path(*names):
    return ".".join(name for name in names if name)
