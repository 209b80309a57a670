"""AdaMomentum with eps where Adam has it: tells what the paper's inner eps contributes."""

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


class AdaMomentumOuterEps(FormulaOptimizer):
    """v = b2 v + (1-b2) m^2; theta -= lr m_hat / (sqrt(v_hat) + eps)."""

    SETTINGS: ClassVar = {
        "lr": 1e-3,
        "betas": (0.9, 0.999),
        "eps": 1e-8,
        "weight_decay": 0.0,
        "decoupled_weight_decay": True,
    }
    START: ClassVar = {"exp_avg": 0.0, "exp_avg_momentum_sq": 0.0}

    @staticmethod
    def _direction(
        g: Tensor, averages: Averages, t: int, group: Group, /
    ) -> tuple[Tensor, Averages]:
        b1, b2 = group["betas"]
        m = average(averages["exp_avg"], g, b1)
        v = average(averages["exp_avg_momentum_sq"], m * m, b2)
        direction = divided(corrected(m, b1, t), corrected(v, b2, t).sqrt() + group["eps"])
        return direction, {"exp_avg": m, "exp_avg_momentum_sq": v}


CONTENDER = Contender(
    name="adamomentum-outer-eps",
    optimizer=AdaMomentumOuterEps,
    defaults=AdaMomentumOuterEps.SETTINGS,
    source="AdaMomentum's lr and betas, Adam's eps (arXiv 1412.6980), since it stands where Adam's",
    summary="AdaMomentum with eps outside the root, as Adam has it; decoupled weight decay",
    role="control",
    family="adaptive",
    shares={"adamomentum": ("lr", "betas", "weight_decay", "decoupled_weight_decay")},
)
