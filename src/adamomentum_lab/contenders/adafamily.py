"""AdaFamily: one formula with Adam, AdaBelief and AdaMomentum at 0, 1/2 and 1."""

from torch import Tensor

from adamomentum_lab.contender import ADAM, DECOUPLED, Contender
from adamomentum_lab.contenders._formula import (
    FormulaOptimizer,
    Group,
    average,
    correct_bias,
    divide,
)


class AdaFamily(FormulaOptimizer):
    """v = b2 v + (1 - b2) (c ((1 - mu) g - mu m))^2 + eps with c = 2 (1 - |mu - 1/2|);
    theta -= lr m_hat / sqrt(v_hat)."""

    SETTINGS = {**ADAM, **DECOUPLED, "eps": 1e-16, "mu": 0.75}
    START = {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    @staticmethod
    def _formula(g: Tensor, t: int, group: Group, m: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        (b1, b2), mu = group["betas"], group["mu"]
        m = average(m, g, b1)
        blend = 2 * (1 - abs(mu - 0.5)) * ((1 - mu) * g - mu * m)
        v = average(v, blend**2, b2) + group["eps"]
        return divide(correct_bias(m, b1, t), correct_bias(v, b2, t).sqrt()), m, v


CONTENDER = Contender(
    AdaFamily,
    family="AdaMomentum",
    year=2022,
    source="Fassold 2022 (arXiv 2203.01603), at mu = 3/4, one of the two values that it advises",
    summary="between Adam, AdaBelief and AdaMomentum",
)
