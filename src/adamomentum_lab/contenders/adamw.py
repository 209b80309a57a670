"""AdamW: Adam with decoupled weight decay."""

from torch.optim import AdamW

from adamomentum_lab.contender import ADAM, Contender

CONTENDER = Contender(
    AdamW,
    # Without weight decay, like all others here: it is tuned, or given by the workload.
    settings=ADAM,
    decay="decoupled",
    source="Loshchilov and Hutter 2019 (arXiv 1711.05101), Algorithm 2",
    summary="Adam, its weight decay apart from the gradient",
)
