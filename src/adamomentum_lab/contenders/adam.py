"""Adam."""

from torch.optim import Adam

from adamomentum_lab.contender import Contender

CONTENDER = Contender(
    name="adam",
    optimizer=Adam,
    defaults={
        "lr": 1e-3,
        "betas": (0.9, 0.999),
        "eps": 1e-8,
        "weight_decay": 0.0,
        "decoupled_weight_decay": False,
    },
    source="Kingma and Ba 2015 (arXiv 1412.6980), Algorithm 1",
    summary="Adam; coupled weight decay",
    role="paper",
    family="adaptive",
)
