"""One walk for the frameworks that are held against the oracle: starts, gradients, options."""

import functools
import itertools
import operator

import numpy as np

from tests.oracle import Oracle

STEPS = 300
LR, DECAY = 1e-3, 1e-2
# The whole walk, rtol = atol.
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}
SHAPES = [(4, 3), (), (5,)]
CHOICES = [
    [{}, {"amsgrad": True}, {"rectify": True}],
    [{}, {"nesterov": True}],
    [{}, {"debias_momentum": True}],
]
OPTIONS = [functools.reduce(operator.or_, chosen) for chosen in itertools.product(*CHOICES)]


def name_of(options):
    return "+".join(sorted(options)) or "plain"


def starts():
    random = np.random.default_rng(0)
    return [random.normal(size=shape) for shape in SHAPES]


@functools.cache
def gradients():
    """Gradients over eight orders of magnitude, and a coordinate that stays zero."""
    random = np.random.default_rng(1)
    walks = []
    for shape in SHAPES:
        scale = 10.0 ** random.uniform(-6, 2, size=shape)
        walk = random.normal(size=(STEPS, *shape)) * scale + 0.3 * scale
        if shape == (5,):
            walk[:, 0] = 0
        walks.append(walk)
    return walks


def expected(**options):
    """The oracles, one per shape, after the walk."""
    return _expected(tuple(options.items()))


@functools.cache
def _expected(options):
    oracles = []
    for start, walk in zip(starts(), gradients(), strict=True):
        oracle = Oracle(start, lr=LR, weight_decay=DECAY, **dict(options))
        for g in walk:
            oracle.step(g)
        oracles.append(oracle)
    return oracles
