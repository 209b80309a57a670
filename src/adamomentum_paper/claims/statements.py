"""The paper's claims as data: the statement, its place, and the rule that judges it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from adamomentum_lab.race.result import Result
from adamomentum_paper.claims import rules
from adamomentum_paper.claims.rules import Judged

ADAPTIVE = ("adam", "adamw", "yogi", "adabound", "radam", "adabelief")
SEVEN = ("sgdm", *ADAPTIVE)
CIFAR = ("cifar10_vgg16", "cifar10_resnet34", "cifar10_densenet121")
PTB = ("ptb_lstm1", "ptb_lstm2", "ptb_lstm3")
GANS = ("cifar10_dcgan", "cifar10_sngan", "cifar10_biggan")
TUNED = (*CIFAR, "imagenet_resnet18", *PTB, "iwslt14_transformer", *GANS)


@dataclass(frozen=True)
class Claim:
    """A claim of the paper about training, and the rule that judges it from a race."""

    says: str
    place: str
    rule: Callable[[Result], Judged]
    workloads: tuple[str, ...]
    joint: bool = False
    """Whether all workloads share one verdict."""
    untested: str = "Not raced."


@dataclass(frozen=True)
class Theorem:
    """A claim of the paper's theory or toy experiments, and the statement that tests it."""

    says: str
    place: str
    record: str
    statement: str
    """The beginning of the statement."""


def _effect_of(change_from: str) -> Callable[[Result], Judged]:
    """Return the rule that compares AdaMomentum with a contender that lacks one of its changes."""
    return partial(rules.effect, before=change_from, after=rules.OURS)


_FULL_ONLY = "At `mini` the workload uses other data (see Other data); `full` needs GPUs."

CLAIMS = (
    Claim("“In testing phase, AdaMomentum can exhibit performance as good as SGDM”",
          "section 5.2.1", partial(rules.as_good_as, name="sgdm"), CIFAR),
    Claim("“and far exceeds other baseline adaptive gradient methods”", "section 5.2.1",
          partial(rules.better_than, names=ADAPTIVE), CIFAR),
    Claim("“far exceeds Adam in Top-1 test accuracy and even performs slightly better than SGDM”",
          "section 5.2.1, ImageNet", partial(rules.better_than, names=("adam", "sgdm")),
          ("imagenet_resnet18",), untested=_FULL_ONLY),
    Claim("“achieves the lowest perplexity in all the settings and consistently outperform other "
          "competitors by a considerable margin”", "section 5.2.2",
          partial(rules.better_than, names=SEVEN), PTB),
    Claim("“our optimizer achieves the highest average BLEU score”", "section 5.2.3",
          partial(rules.better_than, names=("sgdm", "adam", "adamw", "adabelief")),
          ("iwslt14_transformer",), untested=_FULL_ONLY),
    Claim("“with the lowest variance”", "section 5.2.3",
          partial(rules.least_varied, names=("sgdm", "adam", "adamw", "adabelief")),
          ("iwslt14_transformer",), untested=_FULL_ONLY),
    Claim("“outperforms all the best tuned baseline optimizers for all the GANs by a considerable "
          "margin”", "section 5.2.4",
          partial(rules.better_than, names=tuple(name for name in SEVEN if name != "adamw")), GANS),
    Claim("Accuracy improves “much faster than SGDM”",
          "section 5.2.1; only the comparison with SGDM is judged",
          partial(rules.faster_than, names=("sgdm",)), CIFAR),
    Claim("Makes the perplexity descend “faster than SGDM and most other adaptive gradient "
          "methods”", "appendix, LSTM",
          partial(rules.faster_than, names=("sgdm",), most=ADAPTIVE), PTB),
    Claim("“the default parameter setting for adaptive gradient method works well consistently”",
          "section 1; 5.2: lr 0.001, betas 0.9 and 0.999", rules.default_works, TUNED, joint=True),
    Claim("“requires little effort in hyperparameter tuning”", "section 1",
          partial(rules.robust_to_lr, names=SEVEN), TUNED, joint=True),
    Claim("Replacing g by m in v “can resolve the issue” of generalization",
          "abstract; change 1 of Algorithm 1", _effect_of("eadam"), TUNED, joint=True),
    Claim("Moving eps inside the root “can consistently enhance performance”",
          "section 2; change 2 of Algorithm 1", _effect_of("adamomentum-outer-eps"), TUNED,
          joint=True),
)  # fmt: skip

THEOREMS = (
    Theorem("Adapts to loss curves: larger steps where a descent begins", "section 3.1",
            "curvature", "In area A"),
    Theorem("Adapts to loss curves: smaller steps in the basin", "section 3.1",
            "curvature", "In area C, where"),
    Theorem("Adapts to loss curves: more stable near the optimum, and faster", "section 3.1",
            "curvature", "So AdaMomentum"),
    Theorem("eps inside the root enhances convergence and stability", "section 3.1",
            "epsilon", "Moving eps inside enhances"),
    Theorem("Stays longer than Adam in flat basins, so converges to flatter minima",
            "section 3.2, Proposition 1", "escape", "AdaMomentum stays longer"),
    Theorem("The gradient noise falls below the momentum: “mild”, and validated by a figure",
            "section 3.2, Assumption 5", "assumption", "The squared noise is consistently"),
    Theorem("Regret at most the theorem's bound", "section 4.1", "regret", "With D_inf"),
    Theorem("“the average regret of AdaMomentum converges to zero”", "section 4.1",
            "regret", "The average regret"),
    Theorem("Mean squared gradient at most the theorem's bound, with the constants of its proof",
            "section 4.2", "nonconvex", "Under its conditions"),
    Theorem("The same, with the constants as printed", "section 4.2",
            "nonconvex", "The bound, with b_{l,t} as printed"),
    Theorem("Its conditions “are mild and reasonable”", "section 4.2",
            "nonconvex", "The conditions on the step size"),
    Theorem("Rate of O(log(T)/sqrt(T))", "section 4.2", "nonconvex", "With alpha_t"),
    Theorem("Sphere: with the same lr “Adam is much slower”", "section 5.1",
            "sphere", "With the same lr"),
    Theorem("Sphere: with a larger lr Adam “will oscillate much more violently”", "section 5.1",
            "sphere", "With a larger lr, 0.5"),
)  # fmt: skip

BEYOND: tuple[tuple[str, Callable[[Result], Judged]], ...] = (
    ("Better than the paper's seven other optimizers?", partial(rules.better_than, names=SEVEN)),
    ("Faster to the target than these?", partial(rules.faster_than, names=SEVEN)),
    ("Does the default work?", rules.default_works),
    ("Are more learning rates good?", partial(rules.robust_to_lr, names=SEVEN)),
    ("Does m instead of g in v help?", _effect_of("eadam")),
    ("Does eps inside the root help?", _effect_of("adamomentum-outer-eps")),
    ("Better than Adam with a larger lr?", _effect_of("adam-translated")),
)
