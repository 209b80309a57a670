"""AdaMomentum with the square of bias-corrected momentum, which avoids long first steps."""

import functools

from adamomentum.torch import AdaMomentum
from adamomentum_lab.contender import ADAM, DECOUPLED, Contender

CONTENDER = Contender(
    functools.partial(AdaMomentum, debias_momentum=True),
    settings={**ADAM, **DECOUPLED, "eps": 1e-16},
    family="controls",
    source="those of AdaMomentum, so that nothing else differs",
    summary="AdaMomentum with a first step of lr instead of lr/(1-b1)",
    like={"*": "adamomentum"},
)
