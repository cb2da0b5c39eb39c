"""A JAX function computed in float64: the jaxpr of its plain call, step by step, with every narrower float type widened.

Running the function itself on float64 would not do: code may name float32, or refuse operands of two types.
"""

import jax
import jax.numpy as jnp
import numpy
from jax import lax

enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
WIDER = {
    numpy.dtype("float32"): numpy.dtype("float64"), numpy.dtype("float16"): numpy.dtype("float64"),
    numpy.dtype(jnp.bfloat16): numpy.dtype("float64"), numpy.dtype("complex64"): numpy.dtype("complex128"),
}  # fmt: skip
INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr")  # where a step that only calls another function keeps it
BITS = {"bitcast_convert_type", "nextafter", "reduce_precision", "random_bits"}  # steps that are about the type itself


def in_double(closed, leaves):
    """The leaves of the answer, in float64, of a closed jaxpr to flat arguments."""
    with enable_x64(True):
        return [numpy.asarray(leaf) for leaf in _closed(closed, [widen(jnp.asarray(leaf)) for leaf in leaves])]


def widen(array):
    wider = WIDER.get(getattr(array, "dtype", None))
    return array if wider is None else lax.convert_element_type(array, wider)


def _closed(closed, given):
    return _evaluate(closed.jaxpr, closed.consts, given)


def _evaluate(jaxpr, constants, given):
    """The outputs of a jaxpr."""
    values = dict(zip(jaxpr.constvars, (widen(jnp.asarray(constant)) for constant in constants)))
    values.update(zip(jaxpr.invars, given))

    def read(variable):
        return widen(jnp.asarray(variable.val, variable.aval.dtype)) if hasattr(variable, "val") else values[variable]

    for step in jaxpr.eqns:
        answers = _run(step, [read(variable) for variable in step.invars])
        values.update(zip(step.outvars, answers))
    return [read(variable) for variable in jaxpr.outvars]


def _run(step, given):
    name = step.primitive.name
    if name in RULES:
        return RULES[name](step.params, given)
    inner = next((step.params[key] for key in INNER if key in step.params), None)
    if inner is not None and not name.startswith(("reduce", "scatter")):
        return _closed(inner, given) if hasattr(inner, "consts") else _evaluate(inner, (), given)
    return _bind(step, given)


def _bind(step, given):
    """The step in float64. Those about bits are run as the jaxpr has them: in another type they mean another thing."""
    if step.primitive.name not in BITS:
        return _ask(step, given, {key: _wider(value) for key, value in step.params.items()})
    narrow = [
        lax.convert_element_type(value, variable.aval.dtype) if value.dtype in WIDER.values() else value
        for value, variable in zip(given, step.invars)
    ]
    return [widen(answer) for answer in _ask(step, narrow, step.params)]


def _ask(step, given, params):
    bound = step.primitive.get_bind_params(params)  # older versions give (functions, params)
    functions, params = bound if isinstance(bound, tuple) else ((), bound)
    answer = step.primitive.bind(*functions, *given, **params)
    return list(answer) if step.primitive.multiple_results else [answer]


def _wider(value):
    """A parameter with the wider type in the place of a type."""
    is_type = isinstance(value, numpy.dtype) or (isinstance(value, type) and issubclass(value, numpy.generic))
    return WIDER.get(numpy.dtype(value), value) if is_type else value


# Control flow


def _scan(params, given):
    start = params["num_consts"] + params["num_carry"]
    constants, carry, sequences = given[: params["num_consts"]], given[params["num_consts"] : start], given[start:]

    def body(state, now):
        answers = _closed(params["jaxpr"], [*constants, *state, *now])
        return answers[: len(state)], answers[len(state) :]

    last, collected = lax.scan(body, carry, sequences, length=params["length"], reverse=params["reverse"])
    return [*last, *collected]


def _while(params, given):
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    return lax.while_loop(
        lambda state: _closed(params["cond_jaxpr"], [*given[:first], *state])[0],
        lambda state: _closed(params["body_jaxpr"], [*given[first:second], *state]),
        given[second:],
    )


def _cond(params, given):
    branches = [lambda *operands, branch=branch: _closed(branch, operands) for branch in params["branches"]]
    return lax.switch(given[0], branches, *given[1:])


def _solve(params, given):
    """The solution that a linear solver's own jaxpr computes."""
    lengths, jaxprs = params["const_lengths"], params["jaxprs"]
    start = lengths.matvec + lengths.vecmat
    constants, right = given[start : start + lengths.solve], given[sum(lengths) :]
    return _closed(jaxprs.solve, [*constants, *right])


def _scatter(function):
    """A scatter that combines: it holds how as a jaxpr of the old type, which the public function makes anew."""
    kept = ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")
    return lambda params, given: [function(*given, **{key: params[key] for key in kept})]


RULES = {
    "scan": _scan, "while": _while, "cond": _cond, "custom_linear_solve": _solve, "scatter-add": _scatter(lax.scatter_add),
    "scatter-mul": _scatter(lax.scatter_mul), "scatter_mul": _scatter(lax.scatter_mul),
    "scatter-min": _scatter(lax.scatter_min), "scatter_min": _scatter(lax.scatter_min),
    "scatter-max": _scatter(lax.scatter_max), "scatter_max": _scatter(lax.scatter_max),
}  # fmt: skip
