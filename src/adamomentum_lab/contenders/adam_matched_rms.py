"""Adam at the step lengths of AdaMomentum, tensor by tensor: tells where a lead comes from.

If AdaMomentum leads Adam but not this control, the lead is one of step sizes: over time and between
tensors. What it leads this control by is one of directions within tensors.
"""

from torch import Tensor

from adamomentum_lab.contender import ADAM, DECOUPLED, Contender
from adamomentum_lab.contenders._formula import (
    FormulaOptimizer,
    Group,
    average,
    correct_bias,
    divide,
)


class AdamMatchedRMS(FormulaOptimizer):
    """theta -= lr a rms(b) / rms(a), with the rms over all elements of a parameter.

    a = m_hat / sqrt(v_hat) with v = b2 v + (1-b2) g^2 + eps is Adam's direction, with the eps of
    AdaMomentum; b = m_hat / sqrt(u_hat) with u = b2 u + (1-b2) m^2 + eps is AdaMomentum's. Both
    share m and see the gradients at this optimizer's own weights. Not for sharded parameters,
    whose rms would be that of a shard.
    """

    SETTINGS = {**ADAM, **DECOUPLED, "eps": 1e-16}
    START = {"exp_avg": 0.0, "exp_avg_sq": 0.0, "exp_avg_momentum_sq": 0.0}
    ELEMENTWISE = False

    @staticmethod
    def _formula(
        g: Tensor, t: int, group: Group, m: Tensor, v: Tensor, u: Tensor
    ) -> tuple[Tensor, ...]:
        (b1, b2), eps = group["betas"], group["eps"]
        m = average(m, g, b1)
        v = average(v, g * g, b2) + eps
        u = average(u, m * m, b2) + eps
        a, b = (divide(correct_bias(m, b1, t), correct_bias(s, b2, t).sqrt()) for s in (v, u))
        return a * divide(rms(b), rms(a)), m, v, u


def rms(x: Tensor) -> Tensor:
    """The root of the mean square of all elements."""
    return x.square().mean().sqrt()


CONTENDER = Contender(
    AdamMatchedRMS,
    source="AdaMomentum's, so that only the second moment differs",
    summary="Adam, each tensor's step scaled to the rms of AdaMomentum's",
    like={"*": "adamomentum"},
)
