"""RAdam: Adam that waits for the variance of its second moment."""

from torch.optim import RAdam

from adamomentum_lab.contender import Contender

CONTENDER = Contender(
    name="radam",
    optimizer=RAdam,
    defaults={
        "lr": 1e-3,
        "betas": (0.9, 0.999),
        "eps": 1e-8,
        "weight_decay": 0.0,
        "decoupled_weight_decay": True,
    },
    source="Liu et al. 2020 (arXiv 1908.03265), whose code decouples weight decay; torch's eps",
    summary="Adam with rectified variance; decoupled weight decay",
    role="paper",
    family="adaptive",
)
