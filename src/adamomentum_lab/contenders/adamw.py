"""AdamW: Adam with decoupled weight decay."""

from torch.optim import AdamW

from adamomentum_lab.contender import Contender

CONTENDER = Contender(
    name="adamw",
    optimizer=AdamW,
    # Without weight decay, like all others here: it is tuned, or given by the workload.
    defaults={"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0},
    source="Loshchilov and Hutter 2019 (arXiv 1711.05101), Algorithm 2",
    summary="Adam with decoupled weight decay",
    role="paper",
    family="adaptive",
)
