"""AdaMomentum without its long first steps: squares the bias-corrected momentum."""

import functools

from adamomentum.torch import AdaMomentum
from adamomentum_lab.contender import ADAM, DECOUPLED, Contender

CONTENDER = Contender(
    name="adamomentum-debiased",
    optimizer=functools.partial(AdaMomentum, debias_momentum=True),
    defaults={**ADAM, **DECOUPLED, "eps": 1e-16},
    source="AdaMomentum's, so that nothing else differs",
    summary="AdaMomentum whose first step is lr and not lr/(1-b1); decoupled weight decay",
    role="control",
    family="adaptive",
    shares={"adamomentum": ("lr", "betas", "eps", "weight_decay", "decoupled_weight_decay")},
)
