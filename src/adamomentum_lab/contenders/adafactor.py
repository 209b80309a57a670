"""Adafactor: Adam without momentum whose second moment is a product of rows and columns."""

from torch.optim import Adafactor

from adamomentum_lab.contender import Contender

CONTENDER = Contender(
    Adafactor,
    family="Adam",
    year=2018,
    settings={
        "lr": 1e-2,
        "beta2_decay": -0.8,
        "eps": (None, 1e-3),  # type: ignore[dict-item]
        "d": 1.0,
        "weight_decay": 0.0,
    },
    decay="decoupled",
    source="Shazeer and Stern 2018 (arXiv 1804.04235), Algorithm 4, as torch.optim has it; lr is "
    "relative to the size of the parameters",
    summary="factored second moment, steps relative to the parameters",
)
