"""AdaMomentum."""

from adamomentum.torch import AdaMomentum
from adamomentum_lab.contender import Contender

CONTENDER = Contender(
    name="adamomentum",
    optimizer=AdaMomentum,
    defaults={
        "lr": 1e-3,
        "betas": (0.9, 0.999),
        "eps": 1e-16,
        "weight_decay": 0.0,
        "decoupled_weight_decay": True,
        "rectify": False,
    },
    source="the authors' class (arXiv 2106.11514)",
    summary="Adam by the average of squared momentum, eps inside it; decoupled weight decay",
    role="paper",
    family="adaptive",
)
