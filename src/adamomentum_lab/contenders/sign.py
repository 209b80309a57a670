"""Sign descent: Rprop as the paper's Table 1 writes it, m_t = g and v_t = g^2."""

from torch import Tensor

from adamomentum_lab.contender import Contender
from adamomentum_lab.contenders._formula import FormulaOptimizer, Group, divide


class Sign(FormulaOptimizer):
    """theta -= lr g / |g|. Unlike torch.optim.Rprop, it adapts no step size per coordinate."""

    SETTINGS = {"lr": 1e-3, "weight_decay": 0.0, "decoupled_weight_decay": True}
    START = {}

    @staticmethod
    def _formula(g: Tensor, _t: int, _group: Group) -> tuple[Tensor, ...]:
        return (divide(g, g.abs()),)  # Tensor.sign would hide a NaN


CONTENDER = Contender(
    Sign,
    family="sign",
    year=1993,
    source="lr of Adam (arXiv 1412.6980), whose first step equals this one",
    summary="sign descent, the Rprop of the paper's Table 1",
)
