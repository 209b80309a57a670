"""Lion: the sign of a momentum that leans towards the last gradient."""

from torch import Tensor

from adamomentum_lab.contender import DECOUPLED, Contender
from adamomentum_lab.contenders._formula import FormulaOptimizer, Group, average, divide


class Lion(FormulaOptimizer):
    """c = b1 m + (1 - b1) g; theta -= lr sign(c); m = b2 m + (1 - b2) g."""

    SETTINGS = {"lr": 1e-4, "betas": (0.9, 0.99), "weight_decay": 0.0, **DECOUPLED}
    START = {"exp_avg": 0.0}

    @staticmethod
    def _formula(g: Tensor, _t: int, group: Group, m: Tensor) -> tuple[Tensor, ...]:
        b1, b2 = group["betas"]
        c = average(m, g, b1)
        return divide(c, c.abs()), average(m, g, b2)  # not Tensor.sign, which hides a NaN


CONTENDER = Contender(
    Lion,
    family="sign",
    year=2023,
    source="Chen et al. 2023 (arXiv 2302.06675), Program 1; lr a tenth of Adam's, as they advise",
    summary="sign of an interpolated momentum",
)
