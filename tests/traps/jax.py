"""JAX functions and modules that a careless export gets wrong. JAX is imported inside the factories only."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from traps._trap import Arrays, Traps, floats

TRAPS = Traps(
    "jax", inputs=("x=float32[3,4]",), cases=lambda _: [{"x": floats(3, 4)}, {"x": floats(3, 4, seed=1, scale=30)}]
)
add = TRAPS.add
VALUES, SIZES, INTEGERS = "control flow on values", "control flow on sizes", "control flow on integers"
EMPTY, ARGUMENTS, MODES = "empty and single-element inputs", "dict, optional and list inputs", "train and eval mode"


def on_both_sides(limit: float) -> Callable[[Any], list[Arrays]]:
    return lambda _: [
        {"x": floats(3, 4)},
        {"x": np.full((3, 4), limit * 1.5, np.float32)},
        {"x": floats(3, 4, scale=-2 * limit)},
    ]


# Control flow


@add(VALUES, cases=on_both_sides(40))
def choice_by_a_sum() -> Any:
    """Takes another path where the sum is beyond 400."""
    import jax
    import jax.numpy as jnp

    return lambda x: jax.lax.cond(x.sum() > 400, lambda a: a / 2, jnp.sin, x)  # trap


@add(VALUES, cases=on_both_sides(50))
def halving() -> Any:
    """Halves until small: the number of rounds depends on the values."""
    import jax
    import jax.numpy as jnp

    return lambda x: jax.lax.while_loop(lambda a: jnp.abs(a).max() > 50, lambda a: a / 2, x)  # trap


@add(VALUES, expect="refuse", cases=on_both_sides(40))
def python_decides() -> Any:
    """Decides in Python: it runs as it is, and no trace can hold both paths."""
    import jax.numpy as jnp

    def forward(x: Any) -> Any:
        if x.max() > 40:  # trap
            return x - 40
        return jnp.tanh(x)

    return forward


@add(SIZES, expect="refuse", inputs=("x=float32[n,4]",), cases=lambda _: [{"x": floats(n, 4)} for n in (3, 24, 40)])
def batches_over_twenty() -> Any:
    """Treats large batches differently; the size of an open dimension is not known while it is traced."""
    import jax.numpy as jnp

    return lambda x: jnp.sin(x) if x.shape[0] < 24 else jnp.cos(x)  # trap


@add(
    INTEGERS,
    inputs=("x=float32[3,4]", "mode=int32[]"),
    cases=lambda _: [{"x": floats(3, 4), "mode": np.array(mode, np.int32)} for mode in (0, 1, 2, 9, -3)],
)
def switched() -> Any:
    """Chooses one of three functions; a number beyond them is brought back to the nearest."""
    import jax
    import jax.numpy as jnp

    return lambda x, mode: jax.lax.switch(mode, [jnp.sin, lambda a: a * 10, lambda a: -a], x)  # trap


@add(
    INTEGERS,
    inputs=("x=float32[3,4]", "times=int32[]"),
    cases=lambda _: [{"x": floats(3, 4), "times": np.array(times, np.int32)} for times in (0, 1, 4, 11, -2)],
)
def counted_rounds() -> Any:
    """Repeats a step as often as it is told to."""
    import jax

    return lambda x, times: jax.lax.fori_loop(0, times, lambda _, a: a * 1.5 + 1, x)  # trap


@add(
    INTEGERS,
    inputs=("x=float32[3,8]", "start=int32[]"),
    cases=lambda _: [{"x": floats(3, 8), "start": np.array(start, np.int32)} for start in (0, 2, 5, 7, 100, -1, -50)],
)
def window() -> Any:
    """Takes three columns from a start that is brought back into the array; a negative one counts from the end."""
    import jax

    return lambda x, start: jax.lax.dynamic_slice_in_dim(x, start, 3, axis=1)  # trap


# Integers

SIGNED = np.array([-(2**31), -121, -61, -7, -1, 0, 1, 7, 59, 60, 1441, 2**31 - 1], np.int32)


@add("integer arithmetic", inputs=("x=int32[12]",), cases=lambda _: [{"x": SIGNED}])
def clock_hours() -> Any:
    """Floors and takes remainders of negative integers."""
    return _uses_jax(lambda x: x // 60 % 24)  # trap


@add("integer arithmetic", inputs=("x=int32[12]",), cases=lambda _: [{"x": SIGNED}])
def shifted() -> Any:
    """Shifts negative integers to the right, which keeps their sign."""
    return _uses_jax(lambda x: (x >> 1) - (x >> 4))  # trap


@add("integer arithmetic", inputs=("x=int32[12]",), cases=lambda _: [{"x": SIGNED}])
def wrapped_product() -> Any:
    """Products of int32 wrap."""
    return _uses_jax(lambda x: x * 48271 + 11)  # trap


@add(
    "dtype promotion", inputs=("x=int8[6]",), cases=lambda _: [{"x": np.array([-128, -100, -1, 0, 100, 127], np.int8)}]
)
def small_integers() -> Any:
    """int8 stays int8 beside a Python number, and wraps; its sum is int8 as well."""
    return _uses_jax(lambda x: (x + 100, x.sum(dtype=x.dtype)))  # trap


@add(
    "dtype promotion", inputs=("x=bool[3,4]",), cases=lambda _: [{"x": floats(3, 4) > 0}, {"x": np.zeros((3, 4), bool)}]
)
def counted_booleans() -> Any:
    """Booleans are added up as integers, and averaged as floats."""
    return _uses_jax(lambda x: (x.sum(axis=1), x.mean(axis=1)))  # trap


# Tables and writes


@add(
    "tables and vocabularies",
    inputs=("i=int32[6]",),
    cases=lambda _: [{"i": np.array([0, 1, 2, 3, 4, 5], np.int32)}, {"i": np.array([-1, -6, -7, 6, 7, 100], np.int32)}],
)
def table_with_edges() -> Any:
    """A negative index counts from the end; one beyond the table is brought back to its edge."""
    import jax.numpy as jnp

    rows = jnp.asarray(np.linspace(-1, 1, 18, dtype=np.float32).reshape(6, 3))
    return lambda i: rows[i]  # trap


@add(
    "tables and vocabularies",
    inputs=("i=int32[6]",),
    cases=lambda _: [{"i": np.array([0, 1, 2, 3, 4, 5], np.int32)}, {"i": np.array([-1, -6, -7, 6, 7, 100], np.int32)}],
)
def table_filled_with_nan() -> Any:
    """`take` answers NaN for an index beyond the table."""
    import jax.numpy as jnp

    rows = jnp.asarray(np.linspace(-1, 1, 6, dtype=np.float32))
    return lambda i: jnp.take(rows, i)  # trap


@add(
    "in-place and aliasing",
    inputs=("x=float32[5]", "at=int32[5]"),
    cases=lambda _: [
        {"x": floats(5), "at": np.array(at, np.int32)} for at in ([0, 1, 2, 3, 4], [2, 2, 2, 0, 0], [-1, 9, 3, 3, 8])
    ],
)
def added_at() -> Any:
    """Adds at places that may be the same, count from the end, or lie beyond the array and are dropped."""
    import jax.numpy as jnp

    return lambda x, at: jnp.zeros(8).at[at].add(x)  # trap


# Missing values and precision

HOLES = np.array([[1, np.nan, -2, 3], [np.nan] * 4, [0, np.inf, -np.inf, 1]], np.float32)


@add("missing values", cases=lambda _: [{"x": floats(3, 4)}, {"x": HOLES}])
def cleaned() -> Any:
    """Puts numbers in the place of NaN and of the infinities."""
    import jax.numpy as jnp

    return lambda x: jnp.nan_to_num(x, nan=7.0, posinf=100.0, neginf=-100.0)  # trap


@add("missing values", cases=lambda _: [{"x": floats(3, 4)}, {"x": HOLES[[0, 0, 2]]}])
def largest_of_what_is_there() -> Any:
    """The largest of what is not missing, and the largest, which is NaN if anything is."""
    import jax.numpy as jnp

    return lambda x: (jnp.nanmax(x, axis=1), x.max(axis=1))  # trap


@add("precision", cases=lambda _: [{"x": floats(3, 4, scale=100)}, {"x": np.full((3, 4), 200, np.float32)}])
def sum_of_exponentials() -> Any:
    """Overflows unless the largest is taken out first."""
    import jax

    return lambda x: jax.nn.logsumexp(x, axis=1)  # trap


@add("precision", rtol=1e-2, atol=1e-3, inputs=("x=float32[8,4]",), cases=lambda _: [{"x": 1e4 + floats(8, 4)}])
def spread_of_large_numbers() -> Any:
    """A variance that loses its digits if it is computed from squares."""
    return _uses_jax(lambda x: x.var(axis=0))  # trap


# Random and state


@add("random", expect="random")
def key_from_the_clock() -> Any:
    """Another key at each call."""
    import jax

    return lambda x: x + jax.random.normal(jax.random.PRNGKey(time.time_ns() % 2**31), (4,))  # trap


@add("random", expect="random")
def numpy_while_traced() -> Any:
    """Draws with numpy while it is traced: the number is another one for each size."""
    return _uses_jax(lambda x: x * np.random.rand())  # trap


@add("random", honest=True)
def fixed_key() -> Any:
    """The same key at each call: that is a constant."""
    import jax

    return lambda x: x + jax.random.uniform(jax.random.PRNGKey(0), (4,))


@add("state", expect="state")
def growing_closure() -> Any:
    """Multiplies by the number of calls so far."""
    seen: list[int] = []

    def forward(x: Any) -> Any:
        seen.append(1)
        return x * len(seen)  # trap

    return _uses_jax(forward)


@add("state", expect="state")
def mean_of_a_closure() -> Any:
    """Takes off the mean of what came before. Asked the same again and again, it answers the same."""
    import jax.numpy as jnp

    seen = {"calls": 0, "mean": jnp.zeros(4)}

    def forward(x: Any) -> Any:
        y = x - seen["mean"]  # trap
        seen["calls"] += 1
        seen["mean"] = seen["mean"] + (x.mean(0) - seen["mean"]) / seen["calls"]
        return y

    return _uses_jax(forward)


@add("state", expect="state")
def counter_of_a_module() -> Any:
    """A Flax module that counts its calls in a variable."""
    import jax.numpy as jnp
    from flax import nnx

    class Counting(nnx.Module):
        def __init__(self) -> None:
            self.calls = nnx.Variable(jnp.zeros(()))

        def __call__(self, x: Any) -> Any:
            self.calls[...] = self.calls[...] + 1
            return x * self.calls[...]  # trap

    return Counting()


# Empty inputs, arguments, modes


@add(EMPTY, inputs=("x=float32[n,4]",), cases=lambda _: [{"x": floats(n, 4)} for n in (3, 1, 0)])
def sums_of_nothing() -> Any:
    """The sum and the mean of an empty batch."""
    return _uses_jax(lambda x: (x.sum(axis=0), x.mean(axis=0)))  # trap


@add(
    ARGUMENTS,
    inputs=("b=float32[3,2]", "a=float32[3,2]"),
    cases=lambda _: [{"b": floats(3, 2), "a": floats(3, 2, seed=1)}],
)
def named_answers() -> Any:
    """Answers with a dict of tuples; keys sort otherwise than the code has them."""
    return _uses_jax(lambda b, a: {"z": (b, a - b), "a": {"second": a * 2, "first": b + 1}})  # trap


@add(MODES)
def module_in_evaluation() -> Any:
    """Normalises by the statistics of training, and does not drop."""
    import jax.numpy as jnp
    from flax import nnx

    class Block(nnx.Module):
        def __init__(self) -> None:
            self.normal = nnx.BatchNorm(4, rngs=nnx.Rngs(0))
            self.normal.mean[...] = jnp.asarray([1.0, -2, 0, 3])
            self.dropout = nnx.Dropout(0.9, rngs=nnx.Rngs(0))

        def __call__(self, x: Any) -> Any:
            return self.dropout(self.normal(x))  # trap

    model = Block()
    model.eval()
    return model


def _uses_jax(function: Callable[..., Any]) -> Any:
    """The function on JAX arrays also where it is called on numpy's."""
    import jax.numpy as jnp

    def forward(*given: Any) -> Any:
        return function(*(jnp.asarray(array) for array in given))

    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    import inspect

    forward.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    )
    return forward
