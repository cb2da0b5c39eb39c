"""JAX functions and modules that draw random numbers or carry a state, and some that only look like it."""

from __future__ import annotations

import random
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

# Factory -> what differs between equal calls ("random", "state", or "" if nothing), and what a call changes.
UNSTEADY: dict[str, tuple[str, tuple[str, ...]]] = {
    "list_in_a_closure": ("state", ("seen",)),
    "inside_jit": ("state", ("seen",)),
    "inside_an_inner_jit": ("state", ("seen",)),
    "global_counter": ("state", ("CALLS",)),
    "running_mean": ("state", ("Running.mean",)),
    "module_counter": ("state", ("calls",)),
    "attribute_that_matters_late": ("state", ("Late.calls",)),
    "key_from_the_clock": ("random", ()),
    "numpy_random": ("random", ()),
    "numpy_generator": ("random", ()),
    "python_random": ("random", ()),
    "module_stream": ("random", ()),
    "module_dropout": ("random", ()),
    "called_back": ("random", ()),
    "fixed_key": ("", ()),
    "counted_for_nothing": ("", ()),
    "remembered": ("", ()),
}
CALLS = 0


def fixed_key() -> Any:
    return lambda x: x + jax.random.normal(jax.random.PRNGKey(0), (4,))


def key_from_the_clock() -> Any:
    return lambda x: x + jax.random.normal(jax.random.PRNGKey(time.perf_counter_ns() % 2**31), (4,))


def numpy_random() -> Any:
    return lambda x: jnp.sin(x) + np.random.rand()


def python_random() -> Any:
    return lambda x: jnp.sin(x) * random.random()


def numpy_generator() -> Any:
    generator = np.random.default_rng(0)
    return lambda x: jnp.sin(x) + generator.random()


def called_back() -> Any:
    """Draws behind a call back into Python, which a jaxpr does not show."""

    def draw(x: Any) -> Any:
        return (x + np.random.rand()).astype(np.float32)

    return lambda x: jax.pure_callback(draw, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def list_in_a_closure() -> Any:
    seen: list[int] = []

    def forward(x: Any) -> Any:
        seen.append(1)
        return jnp.sin(x) * len(seen)

    return forward


def inside_jit() -> Any:
    return jax.jit(list_in_a_closure())


def inside_an_inner_jit() -> Any:
    inner = jax.jit(list_in_a_closure())
    return lambda x: inner(x) + 1


def global_counter() -> Any:
    def forward(x: Any) -> Any:
        global CALLS
        CALLS += 1
        return jnp.sin(x) * CALLS

    return forward


def counted_for_nothing() -> Any:
    seen: dict[str, int] = {}

    def forward(x: Any) -> Any:
        seen["calls"] = seen.get("calls", 0) + 1
        return jnp.sin(x)

    return forward


def remembered() -> Any:
    """Keeps what it computed for a shape."""
    tables: dict[Any, Any] = {}

    def forward(x: Any) -> Any:
        if x.shape not in tables:
            tables[x.shape] = np.arange(x.shape[-1], dtype=np.float32)
        return jnp.sin(x) + tables[x.shape]

    return forward


class Running:
    """Adds a mean over the calls before."""

    def __init__(self) -> None:
        self.mean = jnp.zeros(4)

    def __call__(self, x: Any) -> Any:
        self.mean = 0.5 * self.mean + x.mean(0)
        return x + self.mean


class Late:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        return jnp.sin(x) if self.calls < 500 else x


def running_mean() -> Any:
    return Running()


def attribute_that_matters_late() -> Any:
    return Late()


class Counter(nnx.Module):
    def __init__(self) -> None:
        self.calls = nnx.Variable(jnp.zeros(()))

    def __call__(self, x: Any) -> Any:
        self.calls[...] = self.calls[...] + 1
        return x * self.calls[...]


class Stream(nnx.Module):
    def __init__(self) -> None:
        self.stream = nnx.Rngs(0)

    def __call__(self, x: Any) -> Any:
        return x + jax.random.normal(self.stream(), (4,))


class Dropping(nnx.Module):
    """Drops also in evaluation."""

    def __init__(self) -> None:
        self.dropout = nnx.Dropout(0.5, rngs=nnx.Rngs(0))

    def __call__(self, x: Any) -> Any:
        return self.dropout(x, deterministic=False)


def module_counter() -> Any:
    return Counter()


def module_stream() -> Any:
    return Stream()


def module_dropout() -> Any:
    return Dropping()


def everything(x: Any, i: Any) -> Any:
    """Steps with parameters of their own: loops, choices, solvers, scatters, types that are named."""
    matrix = jnp.eye(4) * 3 + jnp.outer(x[0], x[0])
    return {
        "choice": jax.lax.switch(i[0] % 3, [lambda a: a, lambda a: a * 2, lambda a: -a], x),
        "complex": jnp.abs(jnp.fft.rfft(x)),
        "draw": x + jax.random.normal(jax.random.PRNGKey(0), (4,)),
        "gather": jnp.linspace(0.0, 1.0, 400, dtype=jnp.float32).reshape(100, 4)[i],
        "half": x.astype(jnp.float16) * 2,
        "integers": i // 3,
        "loop": jax.lax.while_loop(lambda c: c.sum() < 1e3, lambda c: c * 2, jnp.abs(x) + 1),
        "named": jax.lax.conv(x[None, None], jnp.ones((1, 1, 2, 2), jnp.float32), (1, 1), "SAME"),
        "reduce": jax.lax.reduce(x, np.float32(0), jax.lax.add, (0,)),
        "scatter": jnp.zeros(4).at[i % 4].add(x[0, 0]),
        "solve": jnp.linalg.inv(matrix),
    }


def decides(x: Any) -> Any:
    """Can be called, and cannot be traced."""
    if x.sum() > 3:
        return jnp.sin(x)
    return x * 2


def halves(x: Any) -> Any:
    """Never ends on infinity."""
    return jax.lax.while_loop(lambda a: jnp.abs(a).max() > 0.5, lambda a: a / 2, x)
