"""AdaBelief: Adam whose second moment averages how far gradients lie from their mean."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from adamomentum.rule import rectification, remaining
from adamomentum_lab.contender import Contender
from adamomentum_lab.contenders._formula import (
    Averages,
    FormulaOptimizer,
    Group,
    average,
    corrected,
    divided,
)


class AdaBelief(FormulaOptimizer):
    """s = b2 s + (1-b2) (g - m)^2 + eps; theta -= lr m_hat / (sqrt(s_hat) + eps).

    With `rectify` the step is RAdam's, as in the authors' translation and GAN runs.
    """

    SETTINGS: ClassVar = {
        "lr": 1e-3,
        "betas": (0.9, 0.999),
        "eps": 1e-16,
        "weight_decay": 0.0,
        "decoupled_weight_decay": True,
        "rectify": False,
    }
    START: ClassVar = {"exp_avg": 0.0, "exp_avg_var": 0.0}

    @staticmethod
    def _direction(
        g: Tensor, averages: Averages, t: int, group: Group, /
    ) -> tuple[Tensor, Averages]:
        (b1, b2), eps = group["betas"], group["eps"]
        m = average(averages["exp_avg"], g, b1)
        s = average(averages["exp_avg_var"], (g - m) ** 2, b2) + eps
        m_hat = corrected(m, b1, t)
        if group["rectify"]:
            on, r = rectification(b2, t)
            scale = r * remaining(b2, t) ** 0.5
            direction = divided(m_hat * scale, s.sqrt() + eps) if on else m_hat
        else:
            direction = divided(m_hat, corrected(s, b2, t).sqrt() + eps)
        return direction, {"exp_avg": m, "exp_avg_var": s}


CONTENDER = Contender(
    name="adabelief",
    optimizer=AdaBelief,
    defaults=AdaBelief.SETTINGS,
    source="Zhuang et al. 2020 (arXiv 2010.07468) and its published package: eps, decoupled decay",
    summary="Adam by the variance of gradients about their mean; decoupled weight decay",
    role="paper",
    family="adaptive",
)
