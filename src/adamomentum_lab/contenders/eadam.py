"""Adam with AdaMomentum's eps. The two differ only in what the second moment averages."""

from torch import Tensor

from adamomentum_lab.contender import ADAM, DECOUPLED, Contender
from adamomentum_lab.contenders._formula import (
    FormulaOptimizer,
    Group,
    average,
    correct_bias,
    divide,
)


class EAdam(FormulaOptimizer):
    """v = b2 v + (1-b2) g^2 + eps; theta -= lr m_hat / sqrt(v_hat).

    EAdam as published (Yuan and Gao 2020, arXiv 2011.02150) also adds eps outside the root. This
    control does not.
    """

    SETTINGS = {**ADAM, **DECOUPLED, "eps": 1e-16}
    START = {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    @staticmethod
    def _formula(g: Tensor, t: int, group: Group, m: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        b1, b2 = group["betas"]
        m = average(m, g, b1)
        v = average(v, g * g, b2) + group["eps"]
        return divide(correct_bias(m, b1, t), correct_bias(v, b2, t).sqrt()), m, v


CONTENDER = Contender(
    EAdam,
    family="controls",
    source="those of AdaMomentum, so that only the second moment differs",
    summary="Adam with eps inside its second moment",
    like={"*": "adamomentum"},
)
