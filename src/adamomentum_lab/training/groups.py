"""The parameter groups of a workload: the same for every optimizer."""

from __future__ import annotations

from collections import Counter

from torch import nn

from adamomentum_lab.contender import FACTORS, Group
from adamomentum_lab.errors import LabError
from adamomentum_lab.workload import Workload


def groups_of(workload: Workload, model: nn.Module) -> list[Group]:
    """The groups of a network, checked: every parameter that is trained is in one of them.

    Frozen parameters, with `requires_grad` False, may be left out.
    """
    where = f"parameter_groups() of {type(workload).__name__}"
    groups = [dict(group) for group in workload.parameter_groups(model)]
    for group in groups:
        if "params" not in group:
            raise LabError(f"{where} gives a group without 'params'.")
        if strange := sorted(group.keys() - {"params", *FACTORS}):
            known = " and ".join(f"{factor}_factor" for factor in ("lr", "weight_decay"))
            raise LabError(
                f"{where} gives a group with {strange[0]!r}; there are {known}, by which those of "
                "each optimizer are multiplied."
            )
        group["params"] = [*group["params"]]
    names = {param: name for name, param in model.named_parameters()}
    times = Counter(param for group in groups for param in group["params"])
    if lost := [n for param, n in names.items() if param.requires_grad and not times[param]]:
        raise LabError(f"{where} leaves out {lost[0]}; every parameter must be in a group.")
    if twice := [names.get(param, "a parameter") for param, n in times.items() if n > 1]:
        raise LabError(f"{where} has {twice[0]} in two groups.")
    return groups
