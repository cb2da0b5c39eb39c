"""Small JAX models: plain functions, a scan, an attention, Flax and Equinox modules. Each factory takes nothing."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx

random = np.random.default_rng(0)


def _weights(*shape: int) -> Any:
    return jnp.asarray(random.standard_normal(shape) / np.sqrt(shape[0]), jnp.float32)


def mlp() -> Any:
    w1, b1, w2 = _weights(6, 16), _weights(16), _weights(16, 3)

    def forward(x: Any) -> Any:
        return jax.nn.softmax(jax.nn.gelu(x @ w1 + b1) @ w2)

    return forward


def cnn() -> Any:
    kernel, head = _weights(3, 3, 1, 4), _weights(4, 5)

    def forward(image: Any) -> Any:
        found = jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        pooled = jax.lax.reduce_window(jax.nn.relu(found), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return jnp.mean(pooled, axis=(1, 2)) @ head

    return forward


def attention() -> Any:
    q, k, v = (_weights(8, 8) for _ in range(3))

    def forward(tokens: Any, mask: Any) -> Any:
        scores = jnp.einsum("btd,bsd->bts", tokens @ q, tokens @ k) / np.sqrt(8)
        shares = jax.nn.softmax(jnp.where(mask[:, None, :], scores, -1e9))
        return {"context": shares @ (tokens @ v), "shares": shares}

    return forward


def recurrence() -> Any:
    """A scan: a running state over time."""
    w, u = _weights(4, 4), _weights(3, 4)

    def forward(x: Any) -> Any:
        def step(state: Any, now: Any) -> Any:
            state = jnp.tanh(state @ w + now @ u)
            return state, state.sum(-1)

        last, sums = jax.lax.scan(step, jnp.zeros((x.shape[0], 4), x.dtype), jnp.swapaxes(x, 0, 1))
        return last, sums

    return forward


def branches() -> Any:
    """A branch that depends on the data."""

    def forward(x: Any) -> Any:
        return jax.lax.cond(x.sum() > 0, lambda a: a * 2 + 1, lambda a: jnp.sin(a), x)

    return forward


def equinox_mlp() -> Any:
    model = eqx.nn.MLP(in_size=6, out_size=2, width_size=8, depth=2, key=jax.random.PRNGKey(0))
    return jax.vmap(model)


class Block(nnx.Module):
    """A layer with normalisation and dropout, which must be off in an export."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(6, 8, rngs=rngs)
        self.norm = nnx.LayerNorm(8, rngs=rngs)
        self.batch = nnx.BatchNorm(8, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.last = nnx.Linear(8, 2, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.last(self.dropout(self.batch(self.norm(nnx.relu(self.first(x))))))


class Convolutions(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Conv(1, 4, (3, 3), rngs=rngs)
        self.last = nnx.Linear(4, 5, rngs=rngs)

    def __call__(self, image: Any) -> Any:
        pooled = nnx.avg_pool(nnx.relu(self.first(image)), window_shape=(2, 2), strides=(2, 2))
        return self.last(pooled.mean((1, 2)))


def flax_cnn() -> Any:
    return Convolutions(nnx.Rngs(0))


def flax_nnx() -> Any:
    return Block(nnx.Rngs(0))


class Dense(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        return linen.Dense(2)(linen.tanh(linen.Dense(8)(x)))


def flax_linen() -> Any:
    model = Dense()
    return model.bind(model.init(jax.random.PRNGKey(0), jnp.zeros((1, 6))))


def unbound_linen() -> Any:
    return Dense()


# Factory -> the inputs that it takes, as on the command line.
INPUTS: dict[str, tuple[str, ...]] = {
    "mlp": ("x=float32[batch,6]",),
    "cnn": ("image=float32[batch,12,12,1]",),
    "flax_cnn": ("image=float32[batch,12,12,1]",),
    "attention": ("tokens=float32[batch,7,8]", "mask=bool[batch,7]"),
    "recurrence": ("x=float32[2,5,3]",),
    "branches": ("x=float32[2,3]",),
    "equinox_mlp": ("x=float32[batch,6]",),
    "flax_nnx": ("x=float32[batch,6]",),
    "flax_linen": ("x=float32[batch,6]",),
}
