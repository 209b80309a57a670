"""NAdam: Adam with Nesterov's momentum."""

from torch.optim import NAdam

from adamomentum_lab.contender import Contender

CONTENDER = Contender(
    name="nadam",
    optimizer=NAdam,
    defaults={
        "lr": 1e-3,
        "betas": (0.9, 0.999),
        "eps": 1e-8,
        "momentum_decay": 4e-3,
        "weight_decay": 0.0,
        "decoupled_weight_decay": True,
    },
    source="lr of Adam (arXiv 1412.6980), so that both start alike; Dozat 2016 as in torch else",
    summary="Adam with Nesterov's momentum; decoupled weight decay",
    role="extra",
    family="adaptive",
)
