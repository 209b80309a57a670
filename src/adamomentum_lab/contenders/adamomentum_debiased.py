"""AdaMomentum without its long first steps: squares the bias-corrected momentum."""

import functools

from adamomentum.torch import AdaMomentum
from adamomentum_lab.contender import ADAM, DECOUPLED, Contender

CONTENDER = Contender(
    functools.partial(AdaMomentum, debias_momentum=True),
    settings={**ADAM, **DECOUPLED, "eps": 1e-16},
    source="AdaMomentum's, so that nothing else differs",
    summary="AdaMomentum whose first step is lr and not lr/(1-b1)",
    like={"*": "adamomentum"},
)
