"""The paper's protocols: its text, and what its authors ran."""

from __future__ import annotations

from adamomentum_lab.rules import Rules

FLAWS = {
    "chosen on test": (
        "The scripts behind the paper monitored test; its settings may have been chosen on it."
    ),
    "one lr for all": (
        "It gives most adaptive methods the same lr, although AdaMomentum's steps are 4.36 times "
        "Adam's at the same lr where gradients are noisy."
    ),
    "Adam without decay": "Adam has no weight decay, all others have.",
    "frozen matrices": "The recurrent matrices stay at their initial values.",
    "decay of PTB": "SGDM has no momentum, and weight decay is 1.2e-6 instead of 1.2e-4.",
    "rectified": "AdaMomentum and AdaBelief are rectified, which the paper does not say.",
}
PAPER = Rules(
    select="last",
    tune=False,
    summary="its settings, last epoch",
    words="The settings are those the paper states, and the defaults where it states none. "
    "Nothing was tuned here, and the last epoch is reported.",
    flaws=("chosen on test", "one lr for all"),
)
AS_RUN = Rules(
    select="test",
    tune=False,
    summary="what the authors' scripts do",
    words="As the authors' published scripts do it where they are known, errors included: for "
    "comparison with their numbers, not for a verdict.",
)
PROTOCOLS = {"paper": PAPER, "as-run": AS_RUN}
