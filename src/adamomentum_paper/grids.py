"""The paper's search grids, from its appendix "Hyperparameter tuning rule".

A setting with one value is fixed. All lists of a setting have the same order, so that equal places
are equal quantiles.
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

_CNN: dict[str, Space] = {
    "sgdm": {"lr": _DECADES_OF_LR, "momentum": (0.9,), "weight_decay": _DECAYS},
    "adaptive": {
        "lr": _DECADES_OF_LR,
        "betas": ((0.9, 0.999),),
        "eps": _DECADES_OF_EPS,
        "weight_decay": _DECAYS,
    },
}

GRIDS: dict[str, dict[str, Space]] = {
    # "CNN for Image Classification"
    "cnn": _CNN,
    # "For ImageNet": its cosine ends at an lr that is searched, too
    "imagenet": {
        "sgdm": {**_CNN["sgdm"], "end_lr": (1e-3, 5e-4, 1e-4, 5e-5, 1e-5)},
        "adaptive": {**_CNN["adaptive"], "end_lr": (1e-5, 5e-6, 1e-6, 5e-7, 1e-7)},
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
            "final_lr": (30.0,),  # of AdaBound, whose default of 0.1 is too small here
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
            "final_lr": (0.02,),  # of AdaBound, as in the authors' scripts
        },
    },
}

# Values of the paper's other grids, for a setting to tune that the workload's grid fixes or lacks,
# or if the workload has no grid.
_ELSEWHERE: Space = {
    "lr": _DECADES_OF_LR,
    "weight_decay": _DECAYS,
    "eps": _DECADES_OF_EPS,
    "momentum": _MOMENTA,
    # b1 as for the LSTM, then b2 as for the Transformer
    "betas": (*((beta1, 0.999) for beta1 in _MOMENTA), (0.9, 0.99), (0.9, 0.98)),
}


def space(contender: Contender, kind: str | None, tune: Collection[str] = ()) -> Space:
    """Return the grid of a contender for a kind of workload.

    Args:
        contender: the optimizer. Settings that it does not have are left out.
        kind: the name of a grid. None has values of the settings to tune only.
        tune: search only these settings. Settings that the paper fixes stay fixed.
    """
    if kind is not None and kind not in GRIDS:
        raise LabError(unknown("grid", kind, GRIDS))
    # SGD with momentum is recognised by its settings: it has no eps.
    sgdm = "momentum" in contender.settings and "eps" not in contender.settings
    grid = GRIDS[kind]["sgdm" if sgdm else "adaptive"] if kind else {}
    mine = {name: values for name, values in grid.items() if _fits(contender, name, values)}
    if not tune:
        return mine
    fixed = {name: values for name, values in mine.items() if len(values) == 1}
    searched = {
        name: mine[name] if len(mine.get(name, ())) > 1 else _elsewhere(name, kind)
        for name in dict.fromkeys([*TUNABLE, *mine])
        if name in tune and _fits(contender, name, mine.get(name) or _elsewhere(name, kind))
    }
    return fixed | searched


def _fits(contender: Contender, name: str, values: tuple[Value, ...]) -> bool:
    """Whether a contender has a setting of this form: as many betas, and one eps."""
    if name not in contender.settings:
        return False

    def form(value: Value) -> int:
        return len(value) if isinstance(value, tuple) else 0

    return all(form(value) == form(contender.settings[name]) for value in values)


def _elsewhere(name: str, kind: str | None) -> tuple[Value, ...]:
    if name == "final_lr":
        # AdaBound ends as SGD with this lr (Luo et al. 2019), and the paper sets it
        # "matching SGDM". So it is searched over the values of SGDM's lr.
        rates = GRIDS[kind]["sgdm"]["lr"] if kind else ()
        return rates if len(rates) > 1 else _DECADES_OF_LR
    return _ELSEWHERE[name]
