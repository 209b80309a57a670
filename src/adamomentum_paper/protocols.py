"""The paper's protocols: its text, and what its authors ran."""

from __future__ import annotations

from adamomentum_lab.protocols import Protocol

_NO_DECAY = ("Adam has no weight decay, all others have.",)
_RECTIFIED = ("AdaMomentum and AdaBelief are rectified, which the paper does not say.",)

PROTOCOLS = {
    "paper": Protocol(
        select="last",
        tune=False,
        summary="its settings, last epoch",
        words="The settings are those the paper states, and the defaults where it states none. "
        "Nothing was tuned here, and the last epoch is reported.",
        flaws=(
            "The scripts behind the paper monitored test; its settings may have been chosen on it.",
            (
                "It gives most adaptive methods the same lr, although AdaMomentum's steps are 4.36 "
                "times Adam's at the same lr where gradients are noisy."
            ),
        ),
    ),
    "as-run": Protocol(
        select="test",
        tune=False,
        summary="what the authors' scripts do",
        words="As the authors' published scripts do it where they are known, errors included: for "
        "comparison with their numbers, not for a verdict.",
        flaws_on={
            "cifar10_vgg": _NO_DECAY,
            "cifar10_resnet": _NO_DECAY,
            "cifar10_densenet": _NO_DECAY,
            "ptb": (
                "The recurrent matrices stay at their initial values.",
                "SGDM has no momentum, and weight decay is 1.2e-6 instead of 1.2e-4.",
            ),
            "iwslt14": _RECTIFIED,
            "cifar10_sngan": _RECTIFIED,
            "cifar10_biggan": _RECTIFIED,
        },
    ),
}
