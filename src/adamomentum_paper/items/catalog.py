"""The tables and figures of arXiv 2106.11514, numbered in the order of its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from adamomentum_lab.errors import LabError, unknown

Kind = Literal["scores", "settings", "curves", "landscape", "samples", "theory", "formulas"]

EIGHT = {
    "sgdm": "SGDM", "adam": "Adam", "adamw": "AdamW", "yogi": "Yogi", "adabound": "AdaBound",
    "radam": "RAdam", "adabelief": "AdaBelief", "adamomentum": "Ours",
}  # fmt: skip
"""The columns of most tables: optimizer -> heading."""
_GAN = {name: label for name, label in EIGHT.items() if name != "adamw"} | {"adam": "Adam(W)"}
CNNS = {
    "cifar10_vgg16": "VGGNet-16",
    "cifar10_resnet34": "ResNet-34",
    "cifar10_densenet121": "DenseNet-121",
}
LSTMS = {f"ptb_lstm{n}": f"{n} layer{'s' if n > 1 else ''}" for n in (1, 2, 3)}
GANS = {"cifar10_dcgan": "DCGAN", "cifar10_sngan": "SNGAN", "cifar10_biggan": "BigGAN"}


@dataclass(frozen=True)
class Item:
    """A table or a figure."""

    name: str
    title: str
    kind: Kind
    rows: dict[str, str]
    """workload -> heading. Of theory, the name of its page."""
    columns: dict[str, str]
    """optimizer -> heading."""
    seeds: int = 5
    """Runs of each optimizer on each workload. Their seeds are 1, 2, ..."""
    single: tuple[tuple[str, str, int], ...] = ()
    """Runs with seeds that a caption names: (workload, optimizer, seed)."""
    needs: str = ""
    """The table whose runs this item shows too."""
    split: str = ""
    """Of curves: `train`, `test` or both."""


def _choose(*names: str) -> dict[str, str]:
    return {name: EIGHT[name] for name in names}


ITEMS = {
    item.name: item
    for item in (
        Item("table1", "m_t and v_t of each method", "formulas", {}, {}),
        Item("table2", "test accuracy (%) of CNNs on CIFAR-10", "scores", CNNS, EIGHT),
        Item(
            "table3", "top-1 test accuracy (%) on ImageNet", "scores",
            {"imagenet_resnet18": "ResNet-18"}, _choose("sgdm", "adam", "adamomentum"), seeds=3,
        ),
        Item("table4", "test perplexity of LSTMs on Penn Treebank", "scores", LSTMS, EIGHT),
        Item("table5", "FID of GANs on CIFAR-10", "scores", GANS, _GAN),
        Item(
            "table6", "BLEU of a Transformer on IWSLT'14 DE-EN", "scores",
            {"iwslt14_transformer": "Transformer"},
            _choose("sgdm", "adam", "adamw", "adabelief", "adamomentum"),
        ),
        Item(
            "table7", "settings of CNNs on CIFAR-10", "settings",
            {"cifar10_resnet34": "CNN"}, _choose(*[*EIGHT][1:]),
        ),
        *(
            Item(
                f"table{7 + n}", f"settings of the {n}-layer LSTM on Penn Treebank", "settings",
                {f"ptb_lstm{n}": "LSTM"}, _choose(*[*EIGHT][1:]),
            )
            for n in (1, 2, 3)
        ),
        Item(
            "table11", "settings of the Transformer on IWSLT'14 DE-EN", "settings",
            {"iwslt14_transformer": "Transformer"},
            _choose("adam", "adamw", "adabelief", "adamomentum"),
        ),
        Item(
            "table12", "settings of BigGAN", "settings", {"cifar10_biggan": "BigGAN"},
            _choose("adam", "yogi", "adabound", "radam", "adabelief", "adamomentum"),
        ),
        Item("figure1", "AdaMomentum and Adam on a general loss curve", "theory",
             {"curvature": ""}, {}),
        Item("figure2", "Assumption 5, measured", "theory", {"assumption": ""}, {}),
        Item("figure3", "trajectories on the sphere function", "theory", {"sphere": ""}, {}),
        Item("figure4", "train and test accuracy on CIFAR-10", "curves", CNNS, EIGHT,
             needs="table2", split="train test"),
        Item(
            "figure5", "basins of ResNet-34 on CIFAR-10, seed 0", "landscape",
            {"cifar10_resnet34": "ResNet-34"}, _choose("adam", "adamomentum"),
            single=(("cifar10_resnet34", "adam", 0), ("cifar10_resnet34", "adamomentum", 0)),
        ),
        Item("figure6", "train perplexity on Penn Treebank", "curves", LSTMS, EIGHT,
             needs="table4", split="train"),
        Item("figure7", "test perplexity on Penn Treebank", "curves", LSTMS, EIGHT,
             needs="table4", split="test"),
        Item(
            "figure8", "images of DCGAN (seed 0) and BigGAN (seed 2)", "samples", GANS,
            _choose("adamomentum"),
            single=(("cifar10_dcgan", "adamomentum", 0), ("cifar10_biggan", "adamomentum", 2)),
        ),
    )
}  # fmt: skip


def get(name: str) -> Item:
    """Return a table or figure by its name."""
    if name not in ITEMS:
        raise LabError(unknown("table or figure", name, ITEMS))
    return ITEMS[name]


# Of tables 7 to 12: a line for each setting, in the order of the columns.
PUBLISHED_SETTINGS: dict[str, dict[str, tuple[float, ...]]] = {
    "table7": {
        "lr": (1e-3,) * 7, "b1": (0.9,) * 7, "b2": (0.999,) * 7, "weight_decay": (5e-4,) * 7,
        "eps": (1e-8,) * 7,
    },
    "table8": {
        "lr": (1e-3, 1e-3, 1e-2, 1e-2, 1e-3, 1e-3, 1e-3), "b1": (0.9,) * 7, "b2": (0.999,) * 7,
        "weight_decay": (1.2e-4,) * 7, "eps": (1e-12, 1e-12, 1e-8, 1e-8, 1e-12, 1e-16, 1e-16),
    },
    **{
        name: {
            "lr": (1e-2, 1e-3, 1e-2, 1e-2, 1e-3, 1e-2, 1e-3), "b1": (0.9,) * 7,
            "b2": (0.999,) * 7, "weight_decay": (1.2e-4,) * 7,
            "eps": (1e-12, 1e-12, 1e-8, 1e-8, 1e-12, 1e-12, 1e-16),
        }
        for name in ("table9", "table10")
    },
    "table11": {
        "lr": (1.5e-3, 1.5e-3, 1.5e-3, 5e-4), "b1": (0.9,) * 4, "b2": (0.98, 0.98, 0.999, 0.999),
        "weight_decay": (1e-4,) * 4, "eps": (1e-8, 1e-8, 1e-16, 1e-16),
    },
    "table12": {
        "b1": (0.5,) * 6, "b2": (0.999,) * 6, "weight_decay": (0.0,) * 6,
        "eps": (1e-8, 1e-8, 1e-8, 1e-8, 1e-16, 1e-16),
    },
}  # fmt: skip

_MEAN = "(1-b1) sum b1^(t-i) g_i"
FORMULAS = (
    ("Optimizer", "m_t", "v_t"),
    ("SGD", "g_t", "1"),
    ("Rprop", "g_t", "g_t^2"),
    ("RMSprop", "g_t", "(1-b2) sum b2^(t-i) g_i^2"),
    ("Adam", _MEAN, "(1-b2) sum b2^(t-i) g_i^2"),
    ("Ours", _MEAN, "(1-b2) sum b2^(t-i) m_i^2"),
)
"""Table 1: theta -= lr m_t / sqrt(v_t), without bias correction and eps."""
