"""AdaBelief: Adam whose second moment averages squared distances of gradients from their mean."""

from torch import Tensor

from adamomentum.rule import rectification, remaining
from adamomentum_lab.contender import ADAM, DECOUPLED, Contender
from adamomentum_lab.contenders._formula import (
    FormulaOptimizer,
    Group,
    adam_step,
    average,
    correct_bias,
    divide,
)


class AdaBelief(FormulaOptimizer):
    """s = b2 s + (1-b2) (g - m)^2 + eps; theta -= lr m_hat / (sqrt(s_hat) + eps).

    With `rectify` the step is RAdam's, as in the authors' runs on translation and GANs.
    """

    SETTINGS = {**ADAM, **DECOUPLED, "eps": 1e-16, "rectify": False}
    START = {"exp_avg": 0.0, "exp_avg_var": 0.0}

    @staticmethod
    def _formula(g: Tensor, t: int, group: Group, m: Tensor, s: Tensor) -> tuple[Tensor, ...]:
        (b1, b2), eps = group["betas"], group["eps"]
        m = average(m, g, b1)
        s = average(s, (g - m) ** 2, b2) + eps
        if not group["rectify"]:
            return adam_step(m, s, t, group), m, s
        on, r = rectification(b2, t)
        m_hat = correct_bias(m, b1, t)
        scale = r * remaining(b2, t) ** 0.5
        return divide(m_hat * scale, s.sqrt() + eps) if on else m_hat, m, s


CONTENDER = Contender(
    AdaBelief,
    family="Adam",
    year=2020,
    source="Zhuang et al. 2020 (arXiv 2010.07468) and its published package: eps, decoupled decay",
    summary="Adam with the variance of the gradients as second moment",
)
