"""Settings and rules of GANs by protocol: the paper's, and what the authors ran."""

from __future__ import annotations

from dataclasses import replace

from adamomentum_lab.space import Settings, Stated, Value
from adamomentum_paper.rules import AS_RUN

# The paper's appendix; its table is BigGAN's, and it states none other.
_ADAPTIVE: Settings = {"lr": 2e-4, "betas": (0.5, 0.999), "eps": 1e-8, "weight_decay": 0.0}
PAPER: Stated = {
    "sgdm": {"lr": 2e-4, "momentum": 0.9, "weight_decay": 0.0},
    "adam": _ADAPTIVE,
    "adamw": _ADAPTIVE,
    "yogi": _ADAPTIVE,
    "adabound": {**_ADAPTIVE, "final_lr": 0.02, "gamma": 1e-3},  # as run; the paper does not say
    "radam": _ADAPTIVE,
    "adabelief": {**_ADAPTIVE, "eps": 1e-16},
    "adamomentum": {**_ADAPTIVE, "eps": 1e-16},
}
# Where the fair protocol starts from: no default of an optimizer was made for GANs.
FAIR: Stated = {"*": _ADAPTIVE, **PAPER}
RECTIFIED = replace(AS_RUN, flaws=("rectified",))


def settings_of(adam: float, adabelief: float, **ours: Value) -> dict[str, Stated]:
    """Of each protocol.

    Args:
        adam: eps of Adam and AdamW as run.
        adabelief: its eps as run.
        **ours: what AdaMomentum is run with instead of the paper's settings.
    """
    as_run: Stated = {
        **PAPER,
        "adam": {**_ADAPTIVE, "eps": adam},
        "adamw": {**_ADAPTIVE, "eps": adam},
        "adabelief": {**_ADAPTIVE, "eps": adabelief, "rectify": True},
        "adamomentum": {**PAPER["adamomentum"], **ours},
    }
    return {"fair": FAIR, "paper": PAPER, "as-run": as_run}
