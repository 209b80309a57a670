"""RAdam: Adam with steps scaled down while its second moment is unreliable."""

from torch.optim import RAdam

from adamomentum_lab.contender import ADAM, DECOUPLED, Contender

CONTENDER = Contender(
    RAdam,
    settings={**ADAM, **DECOUPLED},
    family="Adam",
    year=2019,
    source="Liu et al. 2020 (arXiv 1908.03265), whose code decouples weight decay; eps of torch",
    summary="Adam with rectified steps at the start",
)
