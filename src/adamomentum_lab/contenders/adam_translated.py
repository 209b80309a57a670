"""Adam with steps as long as AdaMomentum's. This control shows what a larger lr alone achieves."""

from torch import Tensor

from adamomentum.torch import lr_from_adam
from adamomentum_lab.contender import ADAM, COUPLED, Contender
from adamomentum_lab.contenders._formula import FormulaOptimizer, Group, adam_step, average


class AdamTranslated(FormulaOptimizer):
    """Adam with the learning rate sqrt((1+b1)/(1-b1)) lr, 4.36 lr for b1 = 0.9.

    `lr` has AdaMomentum's meaning, in groups and in schedules. torch's Adam with a larger lr would
    not do: decoupled weight decay would then grow with it. Here it uses `lr`, as AdaMomentum does.
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
    family="controls",
    source="lr of AdaMomentum, since lr has its meaning here; the others of Adam (arXiv 1412.6980)",
    summary="Adam with sqrt((1+b1)/(1-b1)) times AdaMomentum's lr",
    like={"*": "adam", "lr": "adamomentum"},
)
