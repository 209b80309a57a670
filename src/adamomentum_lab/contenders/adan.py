"""Adan: Adam with a Nesterov momentum that is estimated from differences of gradients."""

from torch import Tensor

from adamomentum_lab.contender import DECOUPLED, Contender
from adamomentum_lab.contenders._formula import (
    FormulaOptimizer,
    Group,
    average,
    correct_bias,
    divide,
)


class Adan(FormulaOptimizer):
    """With the difference d = g - g_before, averages m of g, v of d and n of (g + b2 d)^2;
    theta -= lr (m_hat + b2 v_hat) / (sqrt(n_hat) + eps)."""

    SETTINGS = {
        "lr": 1e-3,
        "betas": (0.98, 0.92, 0.99),
        "eps": 1e-8,
        "weight_decay": 0.0,
        **DECOUPLED,
    }
    START = {"exp_avg": 0.0, "exp_avg_diff": 0.0, "exp_avg_sq": 0.0, "previous_grad": 0.0}

    @staticmethod
    def _formula(
        g: Tensor, t: int, group: Group, m: Tensor, v: Tensor, n: Tensor, before: Tensor
    ) -> tuple[Tensor, ...]:
        b1, b2, b3 = group["betas"]
        d = g - (before if t > 1 else g)
        m, v = average(m, g, b1), average(v, d, b2)
        n = average(n, (g + b2 * d) ** 2, b3)
        momentum = correct_bias(m, b1, t) + b2 * correct_bias(v, b2, t)
        root = correct_bias(n, b3, t).sqrt()
        return divide(momentum, root + group["eps"]), m, v, n, g


CONTENDER = Contender(
    Adan,
    family="Adam",
    year=2022,
    source="Xie et al. 2022 (arXiv 2208.06677), Algorithm 1, with the bias correction and the "
    "settings of the authors' code",
    summary="Adam with Nesterov momentum from differences of gradients",
)
