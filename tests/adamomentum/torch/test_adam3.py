"""Checkpoints of the authors' class, AdaM3: they load, and the run goes on as it would have."""

import copy
import math

import pytest
import torch

from adamomentum import AdaMomentum
from adamomentum.torch import state_dict_from_adam3
from adamomentum_lab.contract import feed, parameter, through_file


class Miniature(torch.optim.Optimizer):
    """The authors' update in its variants, from its description: paper/NOTES.md, section 1.

    As in their class, weight_decouple and rectify are attributes and so in no checkpoint.
    """

    def __init__(self, params, weight_decouple=True, rectify=False, **options):
        self.weight_decouple, self.rectify = weight_decouple, rectify
        defaults = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-16, "weight_decay": 0.0}
        super().__init__(
            params, {**defaults, "amsgrad": False, "buffer": [[None] * 3] * 10, **options}
        )

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            lr, (b1, b2), eps, decay = (
                group[name] for name in ("lr", "betas", "eps", "weight_decay")
            )
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    for key in ("exp_avg", "exp_avg_var", "max_exp_avg_var"):
                        state[key] = torch.zeros_like(p)
                    if not group["amsgrad"]:
                        del state["max_exp_avg_var"]
                g = p.grad if self.weight_decouple else p.grad + decay * p
                if self.weight_decouple:
                    p -= lr * decay * p
                t = state["step"] = state["step"] + 1
                m = state["exp_avg"] = b1 * state["exp_avg"] + (1 - b1) * g
                v = state["exp_avg_var"] = b2 * state["exp_avg_var"] + (1 - b2) * m**2 + eps
                if group["amsgrad"]:
                    largest = state["max_exp_avg_var"] = torch.maximum(state["max_exp_avg_var"], v)
                m_hat = m / (1 - b1**t)
                if not self.rectify:
                    used = largest if group["amsgrad"] else v
                    p -= lr * m_hat / (used / (1 - b2**t)).sqrt()
                    continue
                rho_inf = 2 / (1 - b2) - 1
                rho = rho_inf - 2 * t * b2**t / (1 - b2**t)
                if rho < 5:
                    p -= lr * m_hat
                else:
                    r = (rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)
                    p -= lr * math.sqrt(r * (1 - b2**t)) * m_hat / (v.sqrt() + eps)


def trained(steps=30, **options):
    params = [parameter(5), parameter(4, 3, seed=1)]
    theirs = Miniature(params, lr=1e-2, weight_decay=0.1, **options)
    feed(theirs, params, range(steps))
    return params, theirs


@pytest.mark.parametrize("steps", [2, 30])  # before and after the rectified step sets in
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"eps": 1e-8},
        {"amsgrad": True},
        {"weight_decouple": False},
        {"rectify": True},
        {"rectify": True, "eps": 1e-4},
        {"rectify": True, "amsgrad": True},  # which they ignore
    ],
    ids=str,
)
def test_a_run_of_theirs_goes_on(options, steps):
    params, theirs = trained(steps, **options)
    saved = through_file(theirs.state_dict())
    twins = copy.deepcopy(params)
    ours = AdaMomentum(twins)
    ours.load_state_dict(
        state_dict_from_adam3(
            saved,
            decoupled_weight_decay=theirs.weight_decouple,
            rectify=theirs.rectify,
        )
    )
    feed(theirs, params, range(steps, steps + 50))
    feed(ours, twins, range(steps, steps + 50))
    for a, b in zip(params, twins, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)
    assert ours.param_groups[0]["lr"] == 1e-2
    assert "buffer" not in ours.param_groups[0]


def test_groups_that_hold_their_options_keep_them():
    _, theirs = trained()
    saved = theirs.state_dict()
    saved["param_groups"][0] |= {"weight_decouple": False, "rectify": True, "initial_lr": 0.5}
    before = copy.deepcopy(saved)
    (group,) = state_dict_from_adam3(saved)["param_groups"]
    assert (group["decoupled_weight_decay"], group["rectify"]) == (False, True)
    assert group["initial_lr"] == 0.5
    assert saved["param_groups"] == before["param_groups"]


def test_decay_that_does_not_follow_lr_is_refused_where_it_decays():
    _, theirs = trained()
    saved = theirs.state_dict()
    (group,) = saved["param_groups"]
    group["fixed_decay"] = True
    with pytest.raises(ValueError, match=r"does not support fixed_decay=True .*weight_decay / lr"):
        state_dict_from_adam3(saved)
    group["weight_decay"] = 0.0
    assert "fixed_decay" not in state_dict_from_adam3(saved)["param_groups"][0]


def test_a_state_that_may_be_adabeliefs_does_not_load():
    params, theirs = trained()
    ours = AdaMomentum(params)
    with pytest.raises(ValueError, match=r"AdaM3 or by AdaBelief.*state_dict_from_adam3"):
        ours.load_state_dict(theirs.state_dict())
    assert not ours.state


def test_what_is_not_theirs():
    adam = torch.optim.Adam([parameter(2)])
    feed(adam, adam.param_groups[0]["params"], range(1))
    with pytest.raises(ValueError, match=r"not saved by AdaM3.*but not \['exp_avg_var'\]"):
        state_dict_from_adam3(adam.state_dict())
    with pytest.raises(ValueError, match="state_dict_from_adam3 expects the result of"):
        state_dict_from_adam3({"model": 1})
