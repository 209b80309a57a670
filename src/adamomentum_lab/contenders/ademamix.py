"""AdEMAMix: Adam with a second, much slower momentum."""

import math

from torch import Tensor

from adamomentum_lab.contender import ADAM, DECOUPLED, Contender
from adamomentum_lab.contenders._formula import (
    FormulaOptimizer,
    Group,
    average,
    correct_bias,
    divide,
)


class AdEMAMix(FormulaOptimizer):
    """theta -= lr (m_hat + alpha m_slow) / (sqrt(v_hat) + eps), with averages m by b1, v of g^2 by
    b2 and m_slow by b3.

    Over the first `warmup` updates alpha grows from 0, and the half-life of m_slow from that of m.
    """

    SETTINGS = {**ADAM, **DECOUPLED, "betas": (0.9, 0.999, 0.9999), "alpha": 5.0, "warmup": 0}
    START = {"exp_avg": 0.0, "exp_avg_slow": 0.0, "exp_avg_sq": 0.0}

    @staticmethod
    def _formula(
        g: Tensor, t: int, group: Group, m: Tensor, slow: Tensor, v: Tensor
    ) -> tuple[Tensor, ...]:
        b1, b2, b3 = group["betas"]
        part = min(1.0, t / group["warmup"]) if group["warmup"] else 1.0
        if part < 1.0 and 0 < b1 < b3:
            fast, final = math.log(b1), math.log(b3)
            b3 = math.exp(fast * final / ((1 - part) * final + part * fast))
        m, slow, v = average(m, g, b1), average(slow, g, b3), average(v, g * g, b2)
        root = correct_bias(v, b2, t).sqrt() + group["eps"]
        both = correct_bias(m, b1, t) + part * group["alpha"] * slow
        return divide(both, root), m, slow, v


CONTENDER = Contender(
    AdEMAMix,
    family="Adam",
    year=2024,
    source="Pagliardini et al. 2024 (arXiv 2409.03137), Algorithm 1; without its warm-up, whose "
    "length is that of the run",
    summary="Adam with a fast and a slow momentum",
)
