"""Moving a run from Adam: nothing jumps, nothing is lost, nothing of Adam's is changed."""

import copy
import math

import pytest
import torch
from torch import nn

from adamomentum import AdaMomentum
from adamomentum.torch import lr_from_adam, no_decay_groups
from adamomentum_lab.contract import feed, gradient, network, parameter, train

FACTOR = math.sqrt(1.9 / 0.1)  # 4.36


def test_lr_from_adam():
    assert lr_from_adam(1e-3) == pytest.approx(1e-3 / 4.3589, rel=1e-4)
    assert lr_from_adam(1e-3, beta1=0.0) == 1e-3


@pytest.mark.parametrize("adam", [torch.optim.Adam, torch.optim.AdamW])
@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        torch.bfloat16,
        pytest.param(torch.float64, marks=pytest.mark.slow),
        pytest.param(torch.complex64, marks=pytest.mark.slow),
    ],
)
def test_the_next_step_is_adams(adam, amsgrad, dtype):
    params = [parameter(50, dtype=dtype), parameter(4, 3, dtype=dtype, seed=1)]
    theirs = adam(params, lr=1e-2, weight_decay=0.1, amsgrad=amsgrad)
    feed(theirs, params, range(600))
    before = copy.deepcopy((params, theirs.state_dict()["state"]))
    ours = AdaMomentum.from_adam(theirs)
    for param, start in zip(params, before[0], strict=True):
        assert torch.equal(param, start)

    feed(ours, params, range(600, 601))
    moved_ours = [(p - start).detach() for p, start in zip(params, before[0], strict=True)]
    with torch.no_grad():
        for param, start in zip(params, before[0], strict=True):
            param.copy_(start)
    for i, entries in theirs.state_dict()["state"].items():
        for key, value in entries.items():
            assert torch.equal(value, before[1][i][key])
    feed(theirs, params, range(600, 601))
    for ours_, param, start in zip(moved_ours, params, before[0], strict=True):
        # v takes in m^2 instead of g^2, with a weight of 1/450 at step 600: 1 % for a g of 3 sigma.
        rounding = 8e-3 if dtype is torch.bfloat16 else 0
        torch.testing.assert_close(ours_, (param - start).detach(), rtol=0.02, atol=1e-4 + rounding)


def test_groups_and_their_options_come_along():
    a, b = parameter(3), parameter(2)
    theirs = torch.optim.AdamW(
        [
            {"params": [("a", a)], "lr": 1e-2, "weight_decay": 0.5, "note": "head"},
            {"params": [("b", b)], "betas": (0.5, 0.9), "maximize": True, "weight_decay": 0.0},
        ],
        lr=1e-3,
        eps=1e-4,
    )
    torch.optim.lr_scheduler.StepLR(theirs, step_size=1)
    ours = AdaMomentum.from_adam(theirs, rectify=True)
    first, second = ours.param_groups
    assert first["lr"] == pytest.approx(1e-2 / FACTOR)
    assert first["initial_lr"] == pytest.approx(1e-2 / FACTOR)
    assert first["lr"] * first["weight_decay"] == pytest.approx(1e-2 * 0.5)
    assert first["note"] == "head"
    assert first["param_names"] == ["a"]
    assert second["lr"] == pytest.approx(1e-3 / math.sqrt(3))
    assert second["betas"] == (0.5, 0.9)
    assert second["maximize"] is True
    for group in ours.param_groups:
        assert group["eps"] == 1e-16
        assert group["rectify"] is True
        assert group["decoupled_weight_decay"] is True


def test_untranslated_and_coupled():
    param = parameter(3)
    ours = AdaMomentum.from_adam(
        torch.optim.Adam([param], lr=1e-2, weight_decay=0.5), translate_lr=False, eps=1e-9
    )
    (group,) = ours.param_groups
    assert (group["lr"], group["weight_decay"], group["eps"]) == (1e-2, 0.5, 1e-9)
    assert group["decoupled_weight_decay"] is False
    translated = AdaMomentum.from_adam(torch.optim.Adam([param], lr=1e-2, weight_decay=0.5))
    assert translated.param_groups[0]["weight_decay"] == 0.5


def test_the_state_is_a_copy_and_counts_on():
    param = parameter(3)
    theirs = torch.optim.Adam([param])
    feed(theirs, [param], range(7))
    ours = AdaMomentum.from_adam(theirs)
    first = ours.state[param]["exp_avg"]
    assert torch.equal(first, theirs.state[param]["exp_avg"])
    assert first is not theirs.state[param]["exp_avg"]
    feed(ours, [param], range(7, 8))
    assert ours.state[param]["step"] == 8
    assert theirs.state[param]["step"] == 7
    # With its eps already accumulated: v never lies below what Algorithm 1 would hold.
    floor = 1e-6 * (1 - 0.999**7) / (1 - 0.999)
    silent = AdaMomentum.from_adam(theirs, eps=1e-6).state[param]["exp_avg_momentum_sq"]
    assert (silent >= floor * (1 - 1e-6)).all()


def test_training_goes_on_smoothly():
    model = network()
    theirs = torch.optim.AdamW(model.parameters(), lr=1e-2)
    train(model, theirs, range(100))
    twin, theirs2 = copy.deepcopy((model, theirs))
    ours = AdaMomentum.from_adam(theirs2)
    start = torch.cat([p.detach().flatten() for p in model.parameters()])
    train(model, theirs, range(100, 105))
    train(twin, ours, range(100, 105))
    moved = [
        (torch.cat([p.detach().flatten() for p in m.parameters()]) - start).norm()
        for m in (model, twin)
    ]
    assert moved[1] / moved[0] == pytest.approx(1, abs=0.1)


def test_refuses_what_is_not_adam():
    with pytest.raises(TypeError, match=r"from_adam expects a torch.optim.Adam or AdamW"):
        AdaMomentum.from_adam(torch.optim.SGD([parameter(2)]))
    with pytest.raises(TypeError, match="but got Adam;"):
        AdaMomentum.from_adam(torch.optim.Adam)
    adam = torch.optim.Adam([parameter(2)])
    with pytest.raises(TypeError, match="but got a dict; load a checkpoint into"):
        AdaMomentum.from_adam(adam.state_dict())
    with pytest.raises(TypeError, match=r"unknown options of AdaMomentum: \['nestrov'\]; the opt"):
        AdaMomentum.from_adam(adam, nestrov=True)
    with pytest.raises(ValueError, match="Invalid beta1: 1"):
        lr_from_adam(1e-3, beta1=1)


def test_an_adam_without_steps_becomes_a_fresh_adamomentum():
    param, other = parameter(3), parameter(3)
    ours = AdaMomentum.from_adam(torch.optim.AdamW([param], lr=1e-2, weight_decay=0.0))
    plain = AdaMomentum([other], lr=lr_from_adam(1e-2))
    for p, optimizer in ((param, ours), (other, plain)):
        p.grad = gradient(p, 0)
        optimizer.step()
    assert torch.equal(param, other)


def test_options_given_are_taken_as_they_are():
    adam = torch.optim.AdamW([parameter(2)], lr=1e-2, weight_decay=0.1)

    def taken(**options):
        (group,) = AdaMomentum.from_adam(adam, **options).param_groups
        return group["lr"], group["weight_decay"]

    assert taken() == pytest.approx((1e-2 / FACTOR, 0.1 * FACTOR))
    assert taken(lr=1e-3) == (1e-3, 0.1)
    assert taken(weight_decay=0.2) == pytest.approx((1e-2 / FACTOR, 0.2))
    assert taken(decoupled_weight_decay=False) == pytest.approx((1e-2 / FACTOR, 0.1))
    assert taken(betas=(0.5, 0.999))[0] == pytest.approx(1e-2 / math.sqrt(3))


def test_late_groups_get_the_translated_defaults():
    adam = torch.optim.AdamW([parameter(2)], lr=1e-2, weight_decay=0.1, betas=(0.5, 0.9))
    ours = AdaMomentum.from_adam(adam)
    ours.add_param_group({"params": [parameter(3)]})
    first, late = ours.param_groups
    assert {k: v for k, v in first.items() if k != "params"} == {
        k: v for k, v in late.items() if k != "params"
    }


def test_a_schedule_continues():
    def decay(epoch):
        return 0.5**epoch

    adam = torch.optim.Adam([parameter(2)], lr=1e-2)
    schedule = torch.optim.lr_scheduler.LambdaLR(adam, decay)
    for _ in range(3):
        feed(adam, adam.param_groups[0]["params"], range(1))
        schedule.step()
    ours = AdaMomentum.from_adam(adam)
    again = torch.optim.lr_scheduler.LambdaLR(ours, decay, last_epoch=schedule.last_epoch - 1)
    assert again.last_epoch == 3
    assert ours.param_groups[0]["lr"] == pytest.approx(1e-2 / 8 / FACTOR)


def test_one_cycle_continues_at_the_translated_lr():
    # The scheduler keeps its bounds in the groups, and reads them there when it is made again.
    adam = torch.optim.AdamW([parameter(2)], lr=1e-2)
    cycle = {"max_lr": 1e-2, "total_steps": 10, "cycle_momentum": False}
    theirs = torch.optim.lr_scheduler.OneCycleLR(adam, **cycle)
    for _ in range(3):
        feed(adam, adam.param_groups[0]["params"], range(1))
        theirs.step()
    ours = AdaMomentum.from_adam(adam)
    mine = torch.optim.lr_scheduler.OneCycleLR(ours, **cycle, last_epoch=theirs.last_epoch - 1)
    for _ in range(6):
        assert ours.param_groups[0]["lr"] == pytest.approx(adam.param_groups[0]["lr"] / FACTOR)
        for optimizer, schedule in ((adam, theirs), (ours, mine)):
            optimizer.step()
            schedule.step()


class Odd(nn.Module):
    """What a rule by shape or by name alone would get wrong."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.conv = nn.Conv1d(4, 4, 3)
        self.norms = nn.ModuleList(
            [nn.BatchNorm1d(4), nn.GroupNorm(2, 4), nn.LayerNorm((4, 3)), nn.RMSNorm((4, 3))]
        )
        self.attention = nn.MultiheadAttention(4, 2, add_bias_kv=True)
        self.bias = nn.Parameter(torch.zeros(1, 4, 1))
        self.scale = nn.Parameter(torch.ones(()))
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.head = nn.Linear(4, 7)
        self.head.weight = self.embedding.weight


def test_no_decay_groups():
    model = Odd()
    decayed, undecayed = no_decay_groups(model, 1e-2)
    assert (decayed["weight_decay"], undecayed["weight_decay"]) == (1e-2, 0.0)
    names = {id(param): name for name, param in model.named_parameters()}
    matrices = ["embedding.weight", "conv.weight"]
    matrices += ["attention.in_proj_weight", "attention.out_proj.weight"]
    assert sorted(names[id(p)] for p in decayed["params"]) == sorted(matrices)
    both = [*decayed["params"], *undecayed["params"]]
    assert len(both) == len({id(p) for p in both})
    assert {id(p) for p in both} == {id(p) for p in model.parameters() if p.requires_grad}

    AdaMomentum(no_decay_groups(nn.Linear(2, 2, bias=False), 1e-2))  # one group is empty
    with pytest.raises(TypeError, match="got a generator; pass the model, not its parameters"):
        no_decay_groups(model.parameters(), 1e-2)
    with pytest.raises(ValueError, match=r"'0.weight' has no shape yet; run a batch through"):
        no_decay_groups(nn.Sequential(nn.LazyLinear(2)), 1e-2)
