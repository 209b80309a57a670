"""The grids the paper searched: its appendix, "Hyperparameter tuning rule".

A setting with one value is one the paper holds fixed. The final lr of ImageNet's cosine belongs to
the schedule and is not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adamomentum_lab.contenders import Contender

_DECADES_OF_LR = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
_DECADES_OF_EPS = tuple(float(f"1e-{n}") for n in range(5, 17))
_DECAYS = (1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2)
_MOMENTA = (0.5, 0.6, 0.7, 0.8, 0.9)

GRIDS: dict[str, dict[str, dict[str, tuple[Any, ...]]]] = {
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
            "lr": (1e-4, 5e-4, 1e-3, 1.5e-3, 2e-3, 3e-3),
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


def space(contender: Contender, kind: str) -> dict[str, tuple[Any, ...]]:
    """The grid of a contender for a kind of workload, over the settings that it has."""
    if kind not in GRIDS:
        raise ValueError(f"There is no grid for {kind!r}; there are {', '.join(GRIDS)}.")
    grid = GRIDS[kind][contender.family]
    return {name: values for name, values in grid.items() if name in contender.defaults}
