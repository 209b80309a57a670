"""Saving and loading beyond the contract: dtypes, old files, other optimizers' files."""

import copy
import pickle

import numpy as np
import pytest
import torch

from adamomentum import AdaMomentum
from adamomentum_lab.contract import feed, network, parameter, through_file, train

MOMENTS = ("exp_avg", "exp_avg_momentum_sq", "max_exp_avg_momentum_sq")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "options", [{"amsgrad": True}, {"state_dtype": torch.bfloat16}, {"stochastic_rounding": True}]
)
def test_half_precision_continues_bit_for_bit(dtype, options):
    model = network(dtype=dtype)
    optimizer = AdaMomentum(model.parameters(), lr=1e-2, weight_decay=0.1, **options)
    train(model, optimizer, range(5))
    weights, saved = through_file(model.state_dict()), through_file(optimizer.state_dict())
    resumed = network(seed=1, dtype=dtype)
    resumed.load_state_dict(weights)
    again = AdaMomentum(resumed.parameters())
    again.load_state_dict(saved)
    for a, b in zip(optimizer.state.values(), again.state.values(), strict=True):
        for key in a:
            assert a[key].dtype is b[key].dtype
            assert torch.equal(a[key], b[key])
    train(model, optimizer, range(5, 10))
    train(resumed, again, range(5, 10))
    for a, b in zip(model.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)


def test_moments_survive_where_half_precision_would_lose_them():
    param = parameter(3, dtype=torch.float16)
    optimizer = AdaMomentum([param])
    param.grad = torch.full((3,), 1e-6, dtype=torch.float16)
    optimizer.step()
    again = AdaMomentum([parameter(3, dtype=torch.float16)])
    again.load_state_dict(optimizer.state_dict())
    (state,) = again.state.values()
    assert state["exp_avg_momentum_sq"].dtype is torch.float32
    assert (state["exp_avg_momentum_sq"] > 0).all()
    assert (state["exp_avg_momentum_sq"].half() == 0).all()


@pytest.mark.parametrize("change", ["double", "bfloat16", "state_dtype"])
def test_moments_keep_their_dtype_as_a_live_run_does(change):
    model = network()
    optimizer = AdaMomentum(model.parameters(), lr=1e-2)
    train(model, optimizer, range(3))
    if change == "state_dtype":
        optimizer.param_groups[0]["state_dtype"] = "bfloat16"
    else:
        getattr(model, change)()
    resumed = copy.deepcopy(model)
    again = AdaMomentum(resumed.parameters())
    again.load_state_dict(through_file(optimizer.state_dict()))
    for state in again.state.values():
        assert state["exp_avg"].dtype is torch.float32
    train(model, optimizer, range(3, 6))
    train(resumed, again, range(3, 6))
    for a, b in zip(model.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)


def test_loading_copies():
    param, other = parameter(3), parameter(3)
    optimizer, again = AdaMomentum([param]), AdaMomentum([other])
    feed(optimizer, [param], range(3))
    again.load_state_dict(optimizer.state_dict())
    before = copy.deepcopy(optimizer.state_dict()["state"][0])
    feed(again, [other], range(3))
    for key, value in optimizer.state_dict()["state"][0].items():
        assert torch.equal(value, before[key])


def test_options_that_did_not_exist_yet_get_their_defaults():
    param = parameter(3)
    optimizer = AdaMomentum([param], lr=0.1)
    feed(optimizer, [param], range(2))
    saved = optimizer.state_dict()
    old = {"lr", "betas", "eps", "weight_decay", "amsgrad", "params"}
    saved["param_groups"] = [{key: group[key] for key in old} for group in saved["param_groups"]]
    again = AdaMomentum([parameter(3)], decoupled_weight_decay=False, nesterov=True)
    again.load_state_dict(saved)
    (group,) = again.param_groups
    assert group["lr"] == 0.1
    assert group["decoupled_weight_decay"] is True
    assert group["nesterov"] is False
    feed(again, group["params"], range(2, 4))


def test_unpickling_an_object_from_before_an_option():
    optimizer = AdaMomentum([parameter(3)], lr=0.1)
    for options in (optimizer.defaults, *optimizer.param_groups):
        del options["rectify"]
    again = pickle.loads(pickle.dumps(optimizer))
    assert again.param_groups[0]["rectify"] is False
    again.add_param_group({"params": [parameter(2)]})
    assert again.param_groups[1]["rectify"] is False


def test_a_plain_number_as_step_is_understood():
    param = parameter(3)
    optimizer = AdaMomentum([param])
    feed(optimizer, [param], range(2))
    saved = optimizer.state_dict()
    saved["state"][0]["step"] = 2
    again = AdaMomentum([parameter(3)])
    again.load_state_dict(saved)
    (state,) = again.state.values()
    assert torch.equal(state["step"], torch.tensor(2.0))


def test_numpy_numbers_as_options_are_saved_as_plain_ones():
    param = parameter(3)
    optimizer = AdaMomentum([param], lr=np.float64(0.1), betas=(np.float32(0.5), 0))
    saved = through_file(optimizer.state_dict())
    assert type(saved["param_groups"][0]["lr"]) is float
    assert saved["param_groups"][0]["betas"] == (0.5, 0.0)


@pytest.mark.parametrize("adam", [torch.optim.Adam, torch.optim.AdamW])
def test_a_checkpoint_of_adam_is_refused(adam):
    param = parameter(3)
    theirs = adam([param])
    feed(theirs, [param], range(2))
    optimizer = AdaMomentum([param], lr=0.5)
    before = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(ValueError, match="from_adam"):
        optimizer.load_state_dict(theirs.state_dict())
    assert optimizer.state_dict() == before


def test_checkpoints_of_others_are_refused():
    param = parameter(3)
    theirs = torch.optim.SGD([param], momentum=0.9)
    feed(theirs, [param], range(2))
    optimizer = AdaMomentum([param])
    with pytest.raises(ValueError, match=r"not saved by AdaMomentum.*momentum_buffer"):
        optimizer.load_state_dict(theirs.state_dict())

    another = AdaMomentum([parameter(4)])
    feed(another, another.param_groups[0]["params"], range(1))
    with pytest.raises(ValueError, match=r"another model.*\(4,\).*\(3,\)"):
        optimizer.load_state_dict(another.state_dict())
    two = AdaMomentum([parameter(3), parameter(3)])
    with pytest.raises(ValueError, match="doesn't match the size"):
        optimizer.load_state_dict(two.state_dict())
    assert not optimizer.state


def test_users_hooks_see_what_is_really_loaded():
    param = parameter(3, dtype=torch.bfloat16)
    optimizer = AdaMomentum([param])
    feed(optimizer, [param], range(2))
    saved = optimizer.state_dict()
    again = AdaMomentum([parameter(3, dtype=torch.bfloat16)])
    seen = []

    def halve(_, state_dict):
        state_dict["state"] = {
            0: {**state_dict["state"][0], "exp_avg": state_dict["state"][0]["exp_avg"] / 2}
        }

    again.register_load_state_dict_pre_hook(halve)
    again.register_load_state_dict_post_hook(lambda o: seen.append(*o.state.values()))
    for _ in range(2):  # and the hooks of the first load are gone at the second
        again.load_state_dict(saved)
    assert len(seen) == 2
    assert seen[0]["exp_avg"].dtype is torch.float32
    torch.testing.assert_close(2 * seen[0]["exp_avg"], saved["state"][0]["exp_avg"])
    assert len(again._optimizer_load_state_dict_pre_hooks) == 1


def test_capturable_follows_the_checkpoint():
    param = parameter(3)
    optimizer = AdaMomentum([param], capturable=True)
    feed(optimizer, [param], range(2))
    other = parameter(3)
    again = AdaMomentum([other])
    again.load_state_dict(through_file(optimizer.state_dict()))
    assert again.param_groups[0]["capturable"] is True
    feed(again, [other], range(2, 3))
    assert again.state[other]["step"] == 3


def test_what_is_no_state_dict():
    param = parameter(3)
    optimizer = AdaMomentum([param], lr=0.5)
    feed(optimizer, [param], range(1))

    def spoiled(**changes):
        saved = copy.deepcopy(optimizer.state_dict())
        saved["state"][0].update(changes)
        return saved

    cases = [
        ("checkpoint.pt", "expects the result of optimizer.state_dict.. *.*checkpoint.pt"),
        ({"model": 1, "optimizer": 2}, r"but got \['model', 'optimizer'\]"),
        (spoiled(step=None), "'step' of parameter 0 must be one number, but is None"),
        (spoiled(step=torch.ones(3)), "'step' of parameter 0 must be one number"),
        (spoiled(exp_avg=None), "'exp_avg' of parameter 0 must be a floating-point tensor"),
        (spoiled(exp_avg=torch.ones(3) * 1j), "'exp_avg' of parameter 0 must be a floating-point"),
        (
            {**spoiled(), "state": {"0": spoiled()["state"][0]}},
            r"groups list parameters \[0\], but its state belongs to \['0'\]",
        ),
        (
            {**spoiled(), "param_groups": [{**spoiled()["param_groups"][0], "lr": -1.0}]},
            "Invalid learning rate: -1.0",
        ),
        (
            {**spoiled(), "param_groups": [{**spoiled()["param_groups"][0], "amsgrad": "no"}]},
            "amsgrad must be True or False, but is 'no'",
        ),
    ]
    before = copy.deepcopy(optimizer.state_dict())
    for bad, words in cases:
        with pytest.raises((ValueError, TypeError), match=words):
            optimizer.load_state_dict(bad)
        assert str(optimizer.state_dict()) == str(before)


def test_loading_in_inference_mode():
    param = parameter(3)
    optimizer = AdaMomentum([param])
    feed(optimizer, [param], range(1))
    again = AdaMomentum([param], foreach=False)
    with torch.inference_mode():
        again.load_state_dict(optimizer.state_dict())
    feed(again, [param], range(1, 2))
    assert again.state[param]["step"] == 2


def test_state_dtype_is_saved_as_a_name():
    param = parameter(3)
    optimizer = AdaMomentum([param], state_dtype=torch.bfloat16)
    saved = through_file(optimizer.state_dict())
    assert saved["param_groups"][0]["state_dtype"] == "bfloat16"
    again = AdaMomentum([param])
    again.load_state_dict(saved)
    feed(again, [param], range(1))
    assert again.state[param]["exp_avg"].dtype is torch.bfloat16


def test_copying_a_run_whose_schedule_has_rounded_lr_below_zero():
    optimizer = AdaMomentum([parameter(3)])
    optimizer.param_groups[0]["lr"] = -1e-20
    assert copy.deepcopy(optimizer).param_groups[0]["lr"] == -1e-20
    assert pickle.loads(pickle.dumps(optimizer)).param_groups[0]["lr"] == -1e-20


def test_loaded_options_take_their_plain_form():
    saved = AdaMomentum([parameter(3)]).state_dict()
    saved["param_groups"][0].update(betas=[0.5, 0.9], state_dtype=torch.bfloat16)
    again = AdaMomentum([parameter(3)])
    again.load_state_dict(saved)
    assert again.param_groups[0]["betas"] == (0.5, 0.9)
    assert again.param_groups[0]["state_dtype"] == "bfloat16"
