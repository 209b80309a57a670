"""AdamW: Adam with decoupled weight decay."""

from torch.optim import AdamW

from adamomentum_lab.contender import ADAM, Contender

CONTENDER = Contender(
    name="adamw",
    optimizer=AdamW,
    # Without weight decay, like all others here: it is tuned, or given by the workload.
    defaults=ADAM,
    source="Loshchilov and Hutter 2019 (arXiv 1711.05101), Algorithm 2",
    summary="Adam with decoupled weight decay",
    role="paper",
    family="adaptive",
)
