"""AdaMomentum with eps where Adam has it. This control shows what the inner eps contributes."""

from torch import Tensor

from adamomentum_lab.contender import ADAM, DECOUPLED, Contender
from adamomentum_lab.contenders._formula import FormulaOptimizer, Group, adam_step, average


class AdaMomentumOuterEps(FormulaOptimizer):
    """v = b2 v + (1-b2) m^2; theta -= lr m_hat / (sqrt(v_hat) + eps)."""

    SETTINGS = {**ADAM, **DECOUPLED}
    START = {"exp_avg": 0.0, "exp_avg_momentum_sq": 0.0}

    @staticmethod
    def _formula(g: Tensor, t: int, group: Group, m: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        b1, b2 = group["betas"]
        m = average(m, g, b1)
        v = average(v, m * m, b2)
        return adam_step(m, v, t, group), m, v


CONTENDER = Contender(
    AdaMomentumOuterEps,
    family="controls",
    source="lr and betas of AdaMomentum; eps of Adam (arXiv 1412.6980), as it has Adam's place",
    summary="AdaMomentum with eps outside the root, as Adam has it",
    like={"*": "adamomentum", "eps": "adamomentum-outer-eps"},
)
