"""A JAX function computed step by step, from the jaxpr of its call: in float64, or with loops that a signal can end.

Running the function itself on float64 would not do: code may name float32, or refuse operands of two types. And a compiled loop
that does not end, as on infinity, cannot be interrupted.
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
SCATTERS = {
    f"scatter{dash}{name}": getattr(lax, f"scatter_{name}") for name in ("add", "mul", "min", "max") for dash in "-_"
}


def in_double(closed, leaves):
    """The leaves of the answer, in float64, of a closed jaxpr to flat arguments."""
    with enable_x64(True):
        return [numpy.asarray(leaf) for leaf in Steps(WIDER).closed(closed, [jnp.asarray(leaf) for leaf in leaves])]


def in_steps(closed, leaves):
    """The leaves of the answer, computed one step after the other, so that a signal can end a loop."""
    return [numpy.asarray(leaf) for leaf in Steps({}).closed(closed, [jnp.asarray(leaf) for leaf in leaves])]


def has_loop(jaxpr):
    """Whether it holds a loop whose rounds depend on values, outside of branches and scans."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    inner = [
        step.params[key] for step in jaxpr.eqns for key in INNER if key in step.params and step.primitive.name != "scan"
    ]
    return any(step.primitive.name == "while" for step in jaxpr.eqns) or any(map(has_loop, inner))


class Steps:
    """Runs the steps of a jaxpr. `wider`: {type: the type that takes its place}."""

    def __init__(self, wider):
        self._wider = wider

    def closed(self, closed, given):
        constants = [jnp.asarray(constant) for constant in closed.consts]
        return self.jaxpr(closed.jaxpr, [self.widen(constant) for constant in constants], list(map(self.widen, given)))

    def jaxpr(self, jaxpr, constants, given):
        """The outputs."""
        values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *given)))

        def read(variable):
            if hasattr(variable, "val"):
                return self.widen(jnp.asarray(variable.val, variable.aval.dtype))
            return values[variable]

        for step in jaxpr.eqns:
            values.update(zip(step.outvars, self.run(step, [read(variable) for variable in step.invars])))
        return [read(variable) for variable in jaxpr.outvars]

    def widen(self, array):
        wider = self._wider.get(getattr(array, "dtype", None))
        return array if wider is None else lax.convert_element_type(array, wider)

    def run(self, step, given):
        name, params = step.primitive.name, step.params
        rule = {"scan": self.scan, "while": self.loop, "cond": self.branch, "custom_linear_solve": self.solve}.get(name)
        if rule is not None:
            return rule(params, given)
        if (
            name in SCATTERS
        ):  # they hold how they combine as a jaxpr of the old type, which the public function makes anew
            kept = ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")
            return [SCATTERS[name](*given, **{key: params[key] for key in kept})]
        inner = next((params[key] for key in INNER if key in params), None)
        if inner is not None and not name.startswith(("reduce", "scatter")):
            return self.closed(inner, given) if hasattr(inner, "consts") else self.jaxpr(inner, (), given)
        return self.bind(step, given)

    def bind(self, step, given):
        """The step itself. Those about bits run in their own type: in another they mean other things."""
        if step.primitive.name not in BITS:
            return _ask(step, given, {key: self._typed(value) for key, value in step.params.items()})
        narrow = [
            lax.convert_element_type(value, variable.aval.dtype) if value.dtype in self._wider.values() else value
            for value, variable in zip(given, step.invars)
        ]
        return [self.widen(answer) for answer in _ask(step, narrow, step.params)]

    def _typed(self, value):
        """A parameter with the wider type in the place of a type."""
        is_type = isinstance(value, numpy.dtype) or (isinstance(value, type) and issubclass(value, numpy.generic))
        return self._wider.get(numpy.dtype(value), value) if is_type else value

    def scan(self, params, given):
        start = params["num_consts"] + params["num_carry"]
        constants, carry, sequences = given[: params["num_consts"]], given[params["num_consts"] : start], given[start:]

        def body(state, now):
            answers = self.closed(params["jaxpr"], [*constants, *state, *now])
            return answers[: len(state)], answers[len(state) :]

        last, collected = lax.scan(body, carry, sequences, length=params["length"], reverse=params["reverse"])
        return [*last, *collected]

    def loop(self, params, given):
        """A loop in Python, except inside of a scan, where there are no values."""
        first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]

        def goes_on(state):
            return self.closed(params["cond_jaxpr"], [*given[:first], *state])[0]

        def body(state):
            return self.closed(params["body_jaxpr"], [*given[first:second], *state])

        state = given[second:]
        if any(isinstance(value, jax.core.Tracer) for value in given):
            return lax.while_loop(goes_on, body, state)
        while bool(goes_on(state)):
            state = body(state)
        return state

    def branch(self, params, given):
        branches = [lambda *operands, branch=branch: self.closed(branch, operands) for branch in params["branches"]]
        return lax.switch(given[0], branches, *given[1:])

    def solve(self, params, given):
        """The solution that a linear solver's own jaxpr computes."""
        lengths, jaxprs = params["const_lengths"], params["jaxprs"]
        start = lengths.matvec + lengths.vecmat
        constants, right = given[start : start + lengths.solve], given[sum(lengths) :]
        return self.closed(jaxprs.solve, [*constants, *right])


def _ask(step, given, params):
    bound = step.primitive.get_bind_params(params)  # older versions give (functions, params)
    functions, params = bound if isinstance(bound, tuple) else ((), bound)
    answer = step.primitive.bind(*functions, *given, **params)
    return list(answer) if step.primitive.multiple_results else [answer]
