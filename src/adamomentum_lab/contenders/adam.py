"""Adam."""

from torch.optim import Adam

from adamomentum_lab.contender import ADAM, COUPLED, Contender

CONTENDER = Contender(
    Adam,
    settings={**ADAM, **COUPLED},
    family="Adam",
    year=2014,
    source="Kingma and Ba 2015 (arXiv 1412.6980), Algorithm 1",
    summary="Adam",
)
