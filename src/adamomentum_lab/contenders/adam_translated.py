"""Adam at the step length AdaMomentum has: tells whether it is more than a larger lr."""

from torch import Tensor

from adamomentum.torch import lr_from_adam
from adamomentum_lab.contender import ADAM, COUPLED, Contender
from adamomentum_lab.contenders._formula import FormulaOptimizer, Group, adam_step, average


class AdamTranslated(FormulaOptimizer):
    """Adam at sqrt((1+b1)/(1-b1)) lr, 4.36 lr for b1 = 0.9.

    `lr` is AdaMomentum's, in groups and in schedules, which is why this is not torch's Adam built
    with another lr. Decoupled weight decay would go by that lr too, as AdaMomentum's does.
    """

    SETTINGS = {**ADAM, **COUPLED}
    START = {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    @staticmethod
    def _formula(g: Tensor, t: int, group: Group, m: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        b1, b2 = group["betas"]
        m = average(m, g, b1)
        v = average(v, g * g, b2)
        return adam_step(m, v, t, group) / lr_from_adam(1.0, b1), m, v


CONTENDER = Contender(
    AdamTranslated,
    source="AdaMomentum's lr, which is what its lr means; the others Adam's (arXiv 1412.6980)",
    summary="Adam at AdaMomentum's lr times sqrt((1+b1)/(1-b1))",
    like={"*": "adam", "lr": "adamomentum"},
)
