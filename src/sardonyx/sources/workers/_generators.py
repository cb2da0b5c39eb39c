"""Random generators of Python and numpy that a model holds: their state, kept and put back."""

import copy
import random

import numpy


class Generator:
    """A random generator."""

    def __init__(self, name, generator):
        self._name, self._generator, self._saved = name, generator, copy.deepcopy(_state(generator))

    def changed(self):
        return [] if repr(_state(self._generator)) == repr(self._saved) else [self._name]

    def restore(self):
        if isinstance(self._generator, random.Random):
            self._generator.setstate(self._saved)
        elif isinstance(self._generator, numpy.random.RandomState):
            self._generator.set_state(self._saved)
        else:
            self._generator.bit_generator.state = self._saved

    def advance(self):
        """Draws, so that whoever draws next gets other numbers."""
        self._generator.random() if not isinstance(
            self._generator, numpy.random.RandomState
        ) else self._generator.rand()


def _state(generator):
    if isinstance(generator, random.Random):
        return generator.getstate()
    return generator.get_state() if isinstance(generator, numpy.random.RandomState) else generator.bit_generator.state
