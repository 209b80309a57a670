"""AdaBound: Adam with per-coordinate rates clipped between bounds that converge to SGD's rate."""

from torch import Tensor

from adamomentum.rule import remaining
from adamomentum_lab.contender import ADAM, COUPLED, Contender
from adamomentum_lab.contenders._formula import FormulaOptimizer, Group, average


class AdaBound(FormulaOptimizer):
    """theta -= clip(lr sqrt(1-b2^t) / (1-b1^t) / (sqrt(v) + eps), l, u) m.

    l = f (1 - 1/(gamma t + 1)) and u = f (1 + 1/(gamma t)) with f = final_lr lr/base_lr, so an lr
    schedule scales the bounds too. base_lr is the initial lr of a group. It is stored in the group,
    so that checkpoints keep it.
    """

    SETTINGS = {**ADAM, **COUPLED, "final_lr": 0.1, "gamma": 1e-3}
    START = {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters. Its lr becomes its base_lr."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        # A group whose lr starts at 0, as under warm-up, has no scale: use the optimizer's lr.
        base_lr = float(group["lr"]) or float(self.defaults["lr"]) or 1.0
        group.setdefault("base_lr", base_lr)

    @staticmethod
    def _formula(g: Tensor, t: int, group: Group, m: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        b1, b2 = group["betas"]
        m = average(m, g, b1)
        v = average(v, g * g, b2)
        # All three arguments of the clip are in units of lr.
        final = group["final_lr"] / group["base_lr"]
        passed = group["gamma"] * t
        rate = remaining(b2, t) ** 0.5 / remaining(b1, t) / (v.sqrt() + group["eps"])
        rate = rate.clamp(final * (1 - 1 / (passed + 1)), final * (1 + 1 / passed))
        return rate * m, m, v


CONTENDER = Contender(
    AdaBound,
    family="Adam",
    year=2019,
    source="Luo et al. 2019 (arXiv 1902.09843)",
    summary="Adam with rates clipped between bounds that converge to SGD's rate",
)
