"""SGD with heavy-ball momentum: the paper's strongest rival on image classification."""

from torch.optim import SGD

from adamomentum_lab.contender import Contender

CONTENDER = Contender(
    SGD,
    settings={"lr": 0.1, "momentum": 0.9, "weight_decay": 0.0},
    decay="coupled",
    family="SGD",
    year=1964,
    source="the paper's tuned values for CIFAR-10 and ImageNet (appendix, Image classification)",
    summary="SGD with momentum, b = mu b + g",
)
