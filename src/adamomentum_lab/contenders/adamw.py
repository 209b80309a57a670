"""AdamW: Adam with decoupled weight decay."""

from torch.optim import AdamW

from adamomentum_lab.contender import ADAM, Contender

CONTENDER = Contender(
    AdamW,
    # Without weight decay, like all contenders: a search or the workload sets it.
    settings=ADAM,
    decay="decoupled",
    family="Adam",
    year=2017,
    source="Loshchilov and Hutter 2019 (arXiv 1711.05101), Algorithm 2",
    summary="Adam with decoupled weight decay",
)
