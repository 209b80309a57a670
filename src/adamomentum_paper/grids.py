"""The grids the paper searched: its appendix, "Hyperparameter tuning rule".

A setting with one value is one the paper holds fixed. The final lr of ImageNet's cosine belongs to
the schedule and is not here. All lists of a setting run the same way, so that the same place in two
of them is the same quantile.
"""

from __future__ import annotations

from collections.abc import Collection

from adamomentum_lab.contender import Contender
from adamomentum_lab.errors import LabError, unknown
from adamomentum_lab.space import TUNABLE, Space, Value

_DECADES_OF_LR = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
_DECADES_OF_EPS = tuple(float(f"1e-{n}") for n in range(5, 17))
_DECAYS = (1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2)
_MOMENTA = (0.5, 0.6, 0.7, 0.8, 0.9)

GRIDS: dict[str, dict[str, Space]] = {
    # "CNN for Image Classification"
    "cnn": {
        "sgdm": {"lr": _DECADES_OF_LR, "momentum": (0.9,), "weight_decay": _DECAYS},
        "adaptive": {
            "lr": _DECADES_OF_LR,
            "betas": ((0.9, 0.999),),
            "eps": _DECADES_OF_EPS,
            "weight_decay": _DECAYS,
        },
    },
    # "LSTM for Language Modeling"; its "1 0.1" lacks a comma
    "lstm": {
        "sgdm": {
            "lr": (100.0, 50.0, 30.0, 10.0, 1.0, 0.1),
            "momentum": _MOMENTA,
            "weight_decay": (1.2e-4,),
        },
        "adaptive": {
            "lr": _DECADES_OF_LR,
            "betas": tuple((beta1, 0.999) for beta1 in _MOMENTA),
            "eps": _DECADES_OF_EPS,
            "weight_decay": (1.2e-4,),
            "final_lr": (30.0,),  # of AdaBound, which its default of 0.1 would hold back
        },
    },
    # "Transformer for Neural Machine Translation"
    "transformer": {
        "sgdm": {"lr": _DECADES_OF_LR, "momentum": _MOMENTA, "weight_decay": _DECAYS},
        "adaptive": {
            "lr": (3e-3, 2e-3, 1.5e-3, 1e-3, 5e-4, 1e-4),
            "betas": tuple((0.9, beta2) for beta2 in (0.98, 0.99, 0.999)),
            "eps": _DECADES_OF_EPS,
            "weight_decay": _DECAYS,
        },
    },
    # "Generative Adversarial Network"; lr of the GAN section, no weight decay by the GAN table
    "gan": {
        "sgdm": {"lr": (2e-4,), "momentum": _MOMENTA, "weight_decay": (0.0,)},
        "adaptive": {
            "lr": (2e-4,),
            "betas": tuple((0.5, beta2) for beta2 in (0.98, 0.99, 0.999)),
            "eps": _DECADES_OF_EPS,
            "weight_decay": (0.0,),
            "final_lr": (0.02,),  # of AdaBound, as the authors' scripts have it
        },
    },
}

# Values of a setting that is asked for where the grid of a workload holds it fixed or has none, or
# the workload has no grid: those of the paper's other grids.
_ELSEWHERE: Space = {
    "lr": _DECADES_OF_LR,
    "weight_decay": _DECAYS,
    "eps": _DECADES_OF_EPS,
    "momentum": _MOMENTA,
    # b1 as for the LSTM, then b2 as for the Transformer
    "betas": (*((beta1, 0.999) for beta1 in _MOMENTA), (0.9, 0.99), (0.9, 0.98)),
}


def space(contender: Contender, kind: str | None, tune: Collection[str] = ()) -> Space:
    """The grid of a contender for a kind of workload, over the settings that it has.

    With `tune`, of these settings alone, and of those the paper holds fixed where they are not in
    it. What the contender does not have is left out. Without a kind there is no grid, but values of
    the settings to tune.
    """
    if kind is not None and kind not in GRIDS:
        raise LabError(unknown("grid", kind, GRIDS))
    # SGD with momentum divides by no root, so it has no eps.
    sgdm = "momentum" in contender.settings and "eps" not in contender.settings
    grid = GRIDS[kind]["sgdm" if sgdm else "adaptive"] if kind else {}
    mine = {name: values for name, values in grid.items() if name in contender.settings}
    if not tune:
        return mine
    fixed = {name: values for name, values in mine.items() if len(values) == 1}
    searched = {
        name: mine[name] if len(mine.get(name, ())) > 1 else _elsewhere(name, kind)
        for name in TUNABLE
        if name in tune and name in contender.settings
    }
    return fixed | searched


def _elsewhere(name: str, kind: str | None) -> tuple[Value, ...]:
    if name == "final_lr":
        # AdaBound ends as SGD with this lr (Luo et al. 2019), and the paper sets it
        # "matching SGDM": it is searched where SGDM's lr is.
        rates = GRIDS[kind]["sgdm"]["lr"] if kind else ()
        return rates if len(rates) > 1 else _DECADES_OF_LR
    return _ELSEWHERE[name]
