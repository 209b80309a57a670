"""AdaMomentum with RAdam's rectification, as the authors ran IWSLT'14, SNGAN and BigGAN."""

import functools

from adamomentum.torch import AdaMomentum
from adamomentum_lab.contender import ADAM, DECOUPLED, Contender

CONTENDER = Contender(
    functools.partial(AdaMomentum, rectify=True),
    settings={**ADAM, **DECOUPLED, "eps": 1e-16},
    family="controls",
    source="those of AdaMomentum, so that nothing else differs",
    summary="AdaMomentum with RAdam's rectification, as the authors ran it",
    like={"*": "adamomentum"},
)
