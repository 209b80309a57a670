"""The paper's protocols: `paper` follows its text, `as-run` follows the authors' scripts."""

from __future__ import annotations

from adamomentum_lab.rules import Rules

FLAWS = {
    "chosen on test": (
        "The scripts behind the paper monitored test; its settings may have been chosen on it."
    ),
    "one lr for all": (
        "Most adaptive methods have the same lr, although AdaMomentum's steps are 4.36 times as "
        "long as Adam's at the same lr if gradients are noisy."
    ),
    "Adam without decay": "Adam has no weight decay; all other optimizers have.",
    "frozen matrices": "The recurrent matrices stay at their initial values.",
    "decay of PTB": "SGDM has no momentum, and weight decay is 1.2e-6 instead of 1.2e-4.",
    "rectified": "AdaMomentum and AdaBelief are rectified, which the paper does not say.",
}
PAPER = Rules(
    select="last",
    tune=False,
    decay="own",
    summary="the paper's settings, last epoch",
    words="Settings are those of the paper, or defaults if it states none. Nothing was tuned here, "
    "and the last epoch is reported.",
    flaws=("chosen on test", "one lr for all"),
)
AS_RUN = Rules(
    select="test",
    tune=False,
    decay="own",
    summary="as in the authors' scripts",
    words="Everything is done as in the authors' published scripts, errors included, as far as "
    "they are known. This serves to compare with their numbers, not for a verdict.",
)
PROTOCOLS = {"paper": PAPER, "as-run": AS_RUN}
