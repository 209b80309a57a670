"""Adam with AdaMomentum's eps: what is left between the two is the average of squared momentum."""

from torch import Tensor

from adamomentum_lab.contender import ADAM, DECOUPLED, Contender
from adamomentum_lab.contenders._formula import (
    FormulaOptimizer,
    Group,
    average,
    corrected,
    divided,
)


class EAdam(FormulaOptimizer):
    """v = b2 v + (1-b2) g^2 + eps; theta -= lr m_hat / sqrt(v_hat).

    EAdam as published (Yuan and Gao 2020, arXiv 2011.02150) adds eps outside the root as well;
    the control does not.
    """

    SETTINGS = {**ADAM, **DECOUPLED, "eps": 1e-16}
    START = {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    @staticmethod
    def _formula(g: Tensor, t: int, group: Group, m: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        b1, b2 = group["betas"]
        m = average(m, g, b1)
        v = average(v, g * g, b2) + group["eps"]
        return divided(corrected(m, b1, t), corrected(v, b2, t).sqrt()), m, v


CONTENDER = Contender(
    EAdam,
    source="AdaMomentum's, so that only the second moment differs",
    summary="Adam with eps inside its second moment",
    like={"*": "adamomentum"},
)
