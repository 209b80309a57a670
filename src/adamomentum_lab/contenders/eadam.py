"""Adam with AdaMomentum's eps: what is left between the two is the average of squared momentum."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from adamomentum_lab.contender import Contender
from adamomentum_lab.contenders._formula import (
    Averages,
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

    SETTINGS: ClassVar = {
        "lr": 1e-3,
        "betas": (0.9, 0.999),
        "eps": 1e-16,
        "weight_decay": 0.0,
        "decoupled_weight_decay": True,
    }
    START: ClassVar = {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    @staticmethod
    def _direction(
        g: Tensor, averages: Averages, t: int, group: Group, /
    ) -> tuple[Tensor, Averages]:
        b1, b2 = group["betas"]
        m = average(averages["exp_avg"], g, b1)
        v = average(averages["exp_avg_sq"], g * g, b2) + group["eps"]
        direction = divided(corrected(m, b1, t), corrected(v, b2, t).sqrt())
        return direction, {"exp_avg": m, "exp_avg_sq": v}


CONTENDER = Contender(
    name="eadam",
    optimizer=EAdam,
    defaults=EAdam.SETTINGS,
    source="AdaMomentum's, so that only the second moment differs",
    summary="Adam with eps inside its second moment; decoupled weight decay",
    role="control",
    family="adaptive",
    shares={"adamomentum": ("lr", "betas", "eps", "weight_decay", "decoupled_weight_decay")},
)
