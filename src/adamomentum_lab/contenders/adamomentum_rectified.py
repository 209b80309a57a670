"""AdaMomentum with RAdam's rectification, as the authors ran IWSLT'14, SNGAN and BigGAN."""

import functools

from adamomentum.torch import AdaMomentum
from adamomentum_lab.contender import Contender

CONTENDER = Contender(
    name="adamomentum-rectified",
    optimizer=functools.partial(AdaMomentum, rectify=True),
    defaults={
        "lr": 1e-3,
        "betas": (0.9, 0.999),
        "eps": 1e-16,
        "weight_decay": 0.0,
        "decoupled_weight_decay": True,
    },
    source="AdaMomentum's, so that nothing else differs",
    summary="AdaMomentum with RAdam's rectification, as the authors ran it; decoupled weight decay",
    role="control",
    family="adaptive",
    shares={"adamomentum": ("lr", "betas", "eps", "weight_decay", "decoupled_weight_decay")},
)
