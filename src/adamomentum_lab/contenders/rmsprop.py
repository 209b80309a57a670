"""RMSprop, a row of the paper's Table 1."""

from torch.optim import RMSprop

from adamomentum_lab.contender import Contender

CONTENDER = Contender(
    RMSprop,
    settings={"lr": 1e-3, "alpha": 0.99, "eps": 1e-8, "momentum": 0.0, "weight_decay": 0.0},
    decay="coupled",
    family="Adam",
    year=2012,
    source="lr of Tieleman and Hinton 2012 (lecture 6.5); alpha and eps of torch",
    summary="gradients divided by the root of their averaged squares",
)
