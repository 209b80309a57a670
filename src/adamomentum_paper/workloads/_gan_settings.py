"""Settings and rules of GANs by protocol: the paper's, and what the authors ran."""

from __future__ import annotations

from dataclasses import replace

from adamomentum_lab.space import Settings, Stated, Value
from adamomentum_paper.rules import AS_RUN
from adamomentum_paper.rules import PAPER as AS_WRITTEN

# From the paper's appendix, whose only table is for BigGAN.
_ADAPTIVE: Settings = {"lr": 2e-4, "betas": (0.5, 0.999), "eps": 1e-8, "weight_decay": 0.0}
PAPER: Stated = {
    "sgdm": {"lr": 2e-4, "momentum": 0.9, "weight_decay": 0.0},
    "adam": _ADAPTIVE,
    "adamw": _ADAPTIVE,
    "yogi": _ADAPTIVE,
    "adabound": {**_ADAPTIVE, "final_lr": 0.02, "gamma": 1e-3},  # as run; not in the paper
    "radam": _ADAPTIVE,
    "adabelief": {**_ADAPTIVE, "eps": 1e-16},
    "adamomentum": {**_ADAPTIVE, "eps": 1e-16},
}
# The fair protocol starts from these, since defaults of optimizers do not suit GANs.
FAIR: Stated = {"*": _ADAPTIVE, **PAPER}
BEST = replace(
    AS_WRITTEN,
    select="test",
    summary="the paper's settings, best evaluation on test",
    words="Settings are those of the paper, or defaults if it states none. Nothing was tuned here, "
    "and the best evaluation on test is reported, as in the captions of the paper's samples "
    '("best FID score 43.52, iteration 26000").',
)
RULES = {"paper": BEST}
RECTIFIED = {**RULES, "as-run": replace(AS_RUN, flaws=("rectified",))}


def settings_of(adam: float, adabelief: float, **ours: Value) -> dict[str, Stated]:
    """Return the settings under each protocol.

    Args:
        adam: eps of Adam and AdamW in the authors' scripts.
        adabelief: eps of AdaBelief in the authors' scripts.
        **ours: settings of AdaMomentum in the authors' scripts that differ from the paper's.
    """
    as_run: Stated = {
        **PAPER,
        "adam": {**_ADAPTIVE, "eps": adam},
        "adamw": {**_ADAPTIVE, "eps": adam},
        "adabelief": {**_ADAPTIVE, "eps": adabelief, "rectify": True},
        "adamomentum": {**PAPER["adamomentum"], **ours},
    }
    return {"fair": FAIR, "paper": PAPER, "as-run": as_run}
