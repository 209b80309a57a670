"""LaProp: Adam that divides each gradient before it averages them."""

from torch import Tensor

from adamomentum_lab.contender import ADAM, DECOUPLED, Contender
from adamomentum_lab.contenders._formula import (
    FormulaOptimizer,
    Group,
    average,
    correct_bias,
    divide,
)


class LaProp(FormulaOptimizer):
    """n averages g^2 by b2, m averages g / (sqrt(n_hat) + eps) by b1; theta -= lr m_hat."""

    SETTINGS = {**ADAM, **DECOUPLED, "lr": 4e-4, "eps": 1e-15}
    START = {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    @staticmethod
    def _formula(g: Tensor, t: int, group: Group, m: Tensor, n: Tensor) -> tuple[Tensor, ...]:
        b1, b2 = group["betas"]
        n = average(n, g * g, b2)
        m = average(m, divide(g, correct_bias(n, b2, t).sqrt() + group["eps"]), b1)
        return correct_bias(m, b1, t), m, n


CONTENDER = Contender(
    LaProp,
    family="Adam",
    year=2020,
    source="Ziyin et al. 2020 (arXiv 2002.04839), Algorithm 1",
    summary="Adam that normalises before it averages",
)
