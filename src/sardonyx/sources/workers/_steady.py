"""Does a model answer the same inputs in the same way? It is called again: with other seeds, and after it was called before."""

import numpy

from ._harness import alike


def steadiness(call, seed, snapshot, others=None):
    """What differs when the same inputs come again; the model is left as it was.

    "random": names of outputs that other draws change; "state": names of outputs that depend on earlier calls; "changes": names
    of what a call changes in the model, where an answer depends on it. `call()` gives [(name, array)], `snapshot()` what the
    model holds; `others()` calls it with other inputs.
    """
    call()  # what is built at the first call is built now
    before = snapshot()
    try:
        seed(1)
        first = call()
        changed, after = before.changed(), snapshot()
        before.restore()
        again = call()
        before.restore()
        before.stir()
        seed(2)
        other = call()
        random = differing(first, again) | differing(first, other)
        state = _depending(call, seed, first, before, after) - random if changed else set()
        if not state and others is not None:
            changed, state = _after_others(call, seed, first, before, others)
            state -= random
    finally:
        before.restore()
    return {"random": sorted(random), "state": sorted(state), "changes": changed if state else []}


def _depending(call, seed, first, before, after):
    """The outputs that depend on what a call changed: on the next call, or far later."""
    for disturb in (False, True):
        after.restore()
        before.restore(generators_only=True)
        if disturb and not before.disturb():
            break
        seed(1)
        try:
            found = differing(first, call())
        except Exception:  # it cannot go on from there
            return {name for name, _ in first}
        if found:
            return found
    return set()


def _after_others(call, seed, first, before, others):
    """What a call with other inputs changes, and the outputs that depend on it: it may keep the last inputs, or their mean."""
    before.restore()
    seed(1)
    try:
        others()
        changed = before.changed()
        seed(1)
        return changed, differing(first, call())
    except Exception:  # it does not take such inputs
        return [], set()


def differing(first, second):
    """The names of the outputs that differ by more than rounding."""
    return {name for (name, one), (_, two) in zip(first, second) if not alike(one, two)}


def roughly(single, double):
    """Whether an answer in float64 is that of the same computation: one of other values would be worse than none."""
    slack = 0.05 * numpy.abs(double[numpy.isfinite(double)]).max(initial=0)
    return double.dtype == numpy.float64 and numpy.allclose(single, double, rtol=0.05, atol=slack, equal_nan=True)
