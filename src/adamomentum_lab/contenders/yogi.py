"""Yogi: Adam whose second moment grows and shrinks by additive steps."""

from torch import Tensor

from adamomentum_lab.contender import ADAM, COUPLED, Contender
from adamomentum_lab.contenders._formula import FormulaOptimizer, Group, adam_step, average


class Yogi(FormulaOptimizer):
    """v -= (1 - b2) sign(v - g^2) g^2; the step is Adam's."""

    SETTINGS = {**ADAM, **COUPLED, "lr": 1e-2, "eps": 1e-3}
    # As in Optax and in the authors' copy. Yogi's paper has m_0 = 0, and v_0 from a first batch.
    START = {"exp_avg": 1e-6, "exp_avg_sq": 1e-6}

    @staticmethod
    def _formula(g: Tensor, t: int, group: Group, m: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        b1, b2 = group["betas"]
        m = average(m, g, b1)
        v = v - (1 - b2) * (v - g * g).sign() * (g * g)
        return adam_step(m, v, t, group), m, v


CONTENDER = Contender(
    Yogi,
    family="Adam",
    year=2018,
    source="Zaheer et al. 2018 (NeurIPS, Adaptive Methods for Nonconvex Optimization)",
    summary="Adam with additive updates of the second moment",
)
