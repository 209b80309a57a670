"""RAdam: Adam that waits for the variance of its second moment."""

from torch.optim import RAdam

from adamomentum_lab.contender import ADAM, DECOUPLED, Contender

CONTENDER = Contender(
    name="radam",
    optimizer=RAdam,
    defaults=ADAM | DECOUPLED,
    source="Liu et al. 2020 (arXiv 1908.03265), whose code decouples weight decay; torch's eps",
    summary="Adam with rectified variance; decoupled weight decay",
    role="paper",
    family="adaptive",
)
