"""Does a model answer the same inputs in the same way? It is called again: with other seeds, and after it was called before."""

import numpy

NOISE = 64  # units in the last place: threads may add up in another order


def steadiness(call, seed, snapshot):
    """What differs when the same inputs come again; the model is left as it was.

    "random": names of outputs that other draws change; "state": names of outputs that depend on earlier calls; "changes": names
    of what a call changes in the model, where an answer depends on it. `call()` gives [(name, array)], `snapshot()` what the
    model holds.
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


def differing(first, second):
    """The names of the outputs that differ by more than rounding."""
    return {name for (name, one), (_, two) in zip(first, second) if not close(numpy.asarray(one), numpy.asarray(two))}


def close(one, two):
    if one.shape != two.shape or one.dtype != two.dtype:
        return False
    if one.dtype.kind not in "fc":
        return numpy.array_equal(one, two)
    finite = numpy.abs(one[numpy.isfinite(one)])
    slack = NOISE * numpy.finfo(one.dtype).eps * float(finite.max(initial=0))
    return numpy.allclose(one, two, rtol=0, atol=slack, equal_nan=True)
