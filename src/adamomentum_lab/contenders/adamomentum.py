"""AdaMomentum."""

from adamomentum.torch import AdaMomentum
from adamomentum_lab.contender import ADAM, DECOUPLED, Contender

CONTENDER = Contender(
    AdaMomentum,
    settings={**ADAM, **DECOUPLED, "eps": 1e-16, "rectify": False},
    family="AdaMomentum",
    year=2021,
    source="the authors' class (arXiv 2106.11514)",
    summary="Adam with the average of squared momentum as second moment, eps inside it",
)
