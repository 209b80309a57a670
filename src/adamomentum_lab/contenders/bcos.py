"""BCOS in its momentum form: momentum over the root of its own second moment."""

from torch import Tensor

from adamomentum_lab.contender import DECOUPLED, Contender
from adamomentum_lab.contenders._formula import FormulaOptimizer, Group, average, divide


class BCOS(FormulaOptimizer):
    """m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) m^2, theta -= lr m / (sqrt(v) + eps).

    Averages start from the first gradient, m = g and v = g^2, and are not corrected.
    """

    SETTINGS = {
        "lr": 1e-3,
        "betas": (0.9, 0.9),
        "eps": 1e-6,
        "weight_decay": 0.0,
        **DECOUPLED,
    }
    START = {"exp_avg": 0.0, "exp_avg_momentum_sq": 0.0}

    @staticmethod
    def _formula(g: Tensor, t: int, group: Group, m: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        b1, b2 = group["betas"]
        m = average(m, g, b1) if t > 1 else g
        v = average(v, m * m, b2) if t > 1 else m * m
        return divide(m, v.sqrt() + group["eps"]), m, v


CONTENDER = Contender(
    BCOS,
    family="AdaMomentum",
    year=2025,
    source="Jiang et al. 2025 (arXiv 2507.08963), with momentum; one beta for both averages",
    summary="momentum over the root of its second moment, uncorrected",
)
