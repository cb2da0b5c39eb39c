"""What a torch.export program says about its own inputs and outputs."""

import inspect

import torch
from torch.utils import _pytree as pytree

from ._torch_call import output_name, step


def signature(program):
    """Names, types and sizes, as `describe` gives them. Dynamic dimensions have the program's own symbols."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    inputs = [
        _spec(name, values[node]) for name, node in zip(_input_names(program), program.graph_signature.user_inputs)
    ]
    answer = pytree.tree_unflatten(list(program.graph_signature.user_outputs), program.call_spec.out_spec)
    found = [(keys, values.get(node)) for keys, node in pytree.tree_flatten_with_path(answer)[0]]
    tensors = [([step(key) for key in keys], value) for keys, value in found if isinstance(value, torch.Tensor)]
    return {
        "inputs": inputs,
        "outputs": [_spec(output_name(path, index), value) for index, (path, value) in enumerate(tensors)],
    }


def _input_names(program):
    """For every tensor that the program takes, forward's name for it, with the way into a container: batch.x, pair.0."""
    names = list(inspect.signature(program.module().forward).parameters)
    spec = program.call_spec.in_spec
    args, kwargs = pytree.tree_unflatten([0] * spec.num_leaves, spec)
    given = {**dict(zip(names, args)), **kwargs}
    return [
        ".".join(str(step(key)) for key in keys)
        for name, value in given.items()
        for keys, _ in pytree.tree_flatten_with_path({name: value})[0]
    ]


def _spec(name, value):
    shape = [dim if isinstance(dim, int) else str(dim) for dim in value.shape]
    return {"name": name, "dtype": str(value.dtype).replace("torch.", ""), "shape": shape}
