"""Yogi: Adam whose second moment moves by a step that does not depend on its distance."""

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


class Yogi(FormulaOptimizer):
    """v -= (1 - b2) sign(v - g^2) g^2; the step is Adam's."""

    SETTINGS: ClassVar = {
        "lr": 1e-2,
        "betas": (0.9, 0.999),
        "eps": 1e-3,
        "weight_decay": 0.0,
        "decoupled_weight_decay": False,
    }
    # As in Optax and in the authors' copy; Yogi's paper has m_0 = 0 and v_0 from a first batch.
    START: ClassVar = {"exp_avg": 1e-6, "exp_avg_sq": 1e-6}

    @staticmethod
    def _direction(
        g: Tensor, averages: Averages, t: int, group: Group, /
    ) -> tuple[Tensor, Averages]:
        b1, b2 = group["betas"]
        m = average(averages["exp_avg"], g, b1)
        v = averages["exp_avg_sq"]
        v = v - (1 - b2) * (v - g * g).sign() * (g * g)
        direction = divided(corrected(m, b1, t), corrected(v, b2, t).sqrt() + group["eps"])
        return direction, {"exp_avg": m, "exp_avg_sq": v}


CONTENDER = Contender(
    name="yogi",
    optimizer=Yogi,
    defaults=Yogi.SETTINGS,
    source="Zaheer et al. 2018 (NeurIPS, Adaptive Methods for Nonconvex Optimization)",
    summary="Yogi, whose v moves additively; coupled weight decay",
    role="paper",
    family="adaptive",
)
