"""RAdam: Adam that waits for the variance of its second moment."""

from torch.optim import RAdam

from adamomentum_lab.contender import ADAM, DECOUPLED, Contender

CONTENDER = Contender(
    RAdam,
    settings={**ADAM, **DECOUPLED},
    source="Liu et al. 2020 (arXiv 1908.03265), whose code decouples weight decay; torch's eps",
    summary="Adam with rectified variance",
)
