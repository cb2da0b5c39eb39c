"""Does a model answer the same inputs in the same way? It is called again: with other seeds, and after it was called before."""

import numpy

NOISE = 64  # units in the last place: threads may add up in another order


def steadiness(call, seed, snapshot):
    """{"random": names of outputs, "state": names of what a call changes and a later answer depends on}.

    `call()` gives [(name, array)], `snapshot()` what the model holds. The model is left as it was.
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
        state = set(changed) if changed and _matters(call, seed, first, before, after, random) else set()
    finally:
        before.restore()
    return {"random": sorted(random), "state": sorted(state)}


def _matters(call, seed, first, before, after, random):
    """Whether an output that is not random depends on what a call changed: on the next call, or far later."""
    for disturb in (False, True):
        after.restore()
        before.restore(generators_only=True)
        if disturb and not before.disturb():
            return False
        seed(1)
        try:
            later = call()
        except Exception:  # it cannot go on from there
            return True
        if differing(first, later) - random:
            return True
    return False


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
