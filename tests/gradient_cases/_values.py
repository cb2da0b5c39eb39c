"""Numbers for the cases, and PyTorch where they are compared with it."""

from __future__ import annotations

from typing import Any

import numpy as np

_random = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return _random.normal(size=shape)


def away(*shape: int) -> np.ndarray[Any, Any]:
    """Values that keep clear of zero, one, two and three, where many functions have a corner."""
    return _random.uniform(0.1, 0.9, shape) + _random.integers(-4, 4, shape)


def within(low: float, high: float, *shape: int) -> np.ndarray[Any, Any]:
    return _random.uniform(low, high, shape)


def distinct(*shape: int) -> np.ndarray[Any, Any]:
    """No two values nearer than a step of the differences."""
    count = int(np.prod(shape))
    return _random.permutation(count).reshape(shape) * (5 / count) + 0.1


def ints(high: int, *shape: int) -> np.ndarray[Any, Any]:
    return _random.integers(0, high, shape)


def torch_op(name: str, *args: Any, **kwargs: Any) -> Any:
    """A function of `torch` or `torch.nn.functional`, found when it is called."""

    def call(*tensors: Any) -> Any:
        import torch

        function = getattr(torch, name, None) or getattr(torch.nn.functional, name)
        return function(*tensors, *args, **kwargs)

    return call


def functional() -> Any:
    import torch

    return torch.nn.functional
