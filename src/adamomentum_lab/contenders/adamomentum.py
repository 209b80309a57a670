"""AdaMomentum."""

from adamomentum.torch import AdaMomentum
from adamomentum_lab.contender import ADAM, DECOUPLED, Contender

CONTENDER = Contender(
    AdaMomentum,
    settings={**ADAM, **DECOUPLED, "eps": 1e-16, "rectify": False},
    source="the authors' class (arXiv 2106.11514)",
    summary="Adam by the average of squared momentum, eps inside it",
)
