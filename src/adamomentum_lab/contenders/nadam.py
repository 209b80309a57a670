"""NAdam: Adam with Nesterov's momentum."""

from torch.optim import NAdam

from adamomentum_lab.contender import ADAM, DECOUPLED, Contender

CONTENDER = Contender(
    NAdam,
    settings={**ADAM, **DECOUPLED, "momentum_decay": 4e-3},
    family="Adam",
    year=2016,
    source="lr of Adam (arXiv 1412.6980), so that both start alike; the rest of torch (Dozat 2016)",
    summary="Adam with Nesterov's momentum",
)
