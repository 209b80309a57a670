"""ADOPT: Adam that divides by the second moment of earlier gradients alone."""

from torch import Tensor

from adamomentum_lab.contender import ADAM, DECOUPLED, Contender
from adamomentum_lab.contenders._formula import FormulaOptimizer, Group, average, divide


class Adopt(FormulaOptimizer):
    """m = b1 m + (1 - b1) clip(g / max(sqrt(v), eps), c) with c = (t - 1)^(1/4); theta -= lr m;
    v = b2 v + (1 - b2) g^2. The first gradient makes v = g^2 and no step."""

    SETTINGS = {**ADAM, **DECOUPLED, "betas": (0.9, 0.9999), "eps": 1e-6}
    START = {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    @staticmethod
    def _formula(g: Tensor, t: int, group: Group, m: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        b1, b2 = group["betas"]
        if t == 1:
            return 0 * g, m, g * g
        ratio = divide(g, v.sqrt().clamp(min=group["eps"]))
        limit = (t - 1) ** 0.25
        m = average(m, ratio.clamp(-limit, limit) + 0 * ratio, b1)  # 0 * inf shows what is clipped
        return m, m, average(v, g * g, b2)


CONTENDER = Contender(
    Adopt,
    family="Adam",
    year=2024,
    source="Taniguchi et al. 2024 (arXiv 2411.02853), Algorithm 2 (clipped)",
    summary="Adam whose second moment leaves the present gradient out",
)
