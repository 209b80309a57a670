"""Each mistake gets one sentence that names the argument and the value, and changes nothing."""

import copy
import re

import numpy as np
import pytest
import torch

from adamomentum import AdaMomentum
from adamomentum_lab.contract import feed, parameter

INF, NAN = float("inf"), float("nan")

ARGUMENTS = [
    ({"lr": -1}, ValueError, "learning rate: -1 (lr "),
    ({"lr": NAN}, ValueError, "learning rate: nan (lr "),
    ({"lr": INF}, ValueError, "learning rate: inf (lr "),
    ({"lr": torch.tensor(-0.5)}, ValueError, "learning rate: -0.5 (lr "),
    ({"lr": torch.tensor(NAN)}, ValueError, "learning rate: nan (lr "),
    ({"lr": torch.ones(2)}, ValueError, "Tensor lr must be 1-element, but has shape (2,)"),
    ({"lr": "0.1"}, TypeError, "lr must be a number or a 1-element tensor, but is '0.1'"),
    ({"lr": None}, TypeError, "lr must be a number or a 1-element tensor, but is None"),
    ({"eps": -1e-8}, ValueError, "epsilon value: -1e-08 (eps "),
    ({"eps": NAN}, ValueError, "epsilon value: nan (eps "),
    ({"eps": INF}, ValueError, "epsilon value: inf (eps "),
    ({"eps": "small"}, TypeError, "eps must be a number or a 1-element tensor, but is 'small'"),
    ({"weight_decay": -0.1}, ValueError, "weight_decay value: -0.1"),
    ({"weight_decay": NAN}, ValueError, "weight_decay value: nan"),
    ({"weight_decay": INF}, ValueError, "weight_decay value: inf"),
    (
        {"weight_decay": [0.1]},
        TypeError,
        "weight_decay must be a number or a 1-element tensor, but",
    ),
    ({"betas": (1.0, 0.999)}, ValueError, "beta parameter at index 0: 1.0"),
    ({"betas": (-0.1, 0.999)}, ValueError, "beta parameter at index 0: -0.1"),
    ({"betas": (0.9, 1.5)}, ValueError, "beta parameter at index 1: 1.5"),
    ({"betas": (0.9, NAN)}, ValueError, "beta parameter at index 1: nan"),
    ({"betas": (0.9,)}, ValueError, "betas must be a pair of numbers, but is (0.9,)"),
    ({"betas": 0.9}, TypeError, "betas must be a pair of numbers, but is 0.9"),
    ({"betas": ("a", "b")}, TypeError, "betas[0] must be a number or a 1-element tensor"),
    ({"betas": (torch.ones(2), torch.ones(2))}, ValueError, "Tensor betas[0] must be 1-element"),
    ({"betas": (0.9, torch.tensor(0.9))}, ValueError, "both floats or both Tensors"),
    ({"amsgrad": "yes"}, TypeError, "amsgrad must be True or False, but is 'yes'"),
    ({"nesterov": 2}, TypeError, "nesterov must be True or False, but is 2"),
    ({"foreach": "no"}, TypeError, "foreach must be True, False or None, but is 'no'"),
    ({"state_dtype": "bf16"}, TypeError, "state_dtype must be a torch.dtype or None, but is"),
    ({"state_dtype": torch.float16}, ValueError, "state_dtype=torch.float16 is not supported (eps"),
    ({"state_dtype": torch.int8}, ValueError, "state_dtype=torch.int8 is not supported; use"),
    ({"amsgrad": True, "rectify": True}, ValueError, "amsgrad=True and rectify=True"),
    ({"foreach": True, "fused": True}, RuntimeError, "fused=True and foreach=True"),
    ({"fused": True, "differentiable": True}, RuntimeError, "fused=True and differentiable=True"),
    ({"foreach": True, "differentiable": True}, RuntimeError, "foreach=True and differ"),
    ({"differentiable": True, "stochastic_rounding": True}, ValueError, "no derivative"),
    ({"differentiable": True, "state_dtype": torch.bfloat16}, ValueError, "no derivative"),
    ({"foreach": True, "lr": torch.tensor(0.1)}, ValueError, "lr as a Tensor is not supported"),
]


def sentence(error):
    text = str(error.value)
    assert text.endswith((".", ")."))
    assert "\n" not in text
    return text


@pytest.mark.parametrize(("options", "kind", "words"), ARGUMENTS, ids=lambda x: str(x)[:40])
def test_arguments(options, kind, words):
    with pytest.raises(kind, match=re.escape(words)) as error:
        AdaMomentum([parameter(2)], **options)
    sentence(error)


@pytest.mark.parametrize(("options", "kind", "words"), ARGUMENTS, ids=lambda x: str(x)[:40])
def test_arguments_of_a_group(options, kind, words):
    optimizer = AdaMomentum([parameter(2)])
    before = copy.deepcopy(optimizer.param_groups)
    with pytest.raises(kind, match=re.escape(words)):
        optimizer.add_param_group({"params": [parameter(3)], **options})
    assert str(optimizer.param_groups) == str(before)
    with pytest.raises(kind, match=re.escape(words)):
        AdaMomentum([{"params": [parameter(2)], **options}])


def test_what_looks_odd_but_is_fine():
    AdaMomentum([parameter(2)], lr=0, betas=(0, 0), eps=0, weight_decay=0)
    AdaMomentum([parameter(2)], lr=np.float32(1e-3), betas=[0.9, 0.99])
    AdaMomentum([parameter(2)], capturable=True)
    AdaMomentum([parameter(2)], capturable=True, foreach=True, lr=torch.tensor(0.1))
    AdaMomentum([{"params": [parameter(2)], "name": "head"}])


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8, torch.float8_e4m3fn])
def test_parameters_that_cannot_be_optimized(dtype):
    bad = torch.zeros(3, dtype=dtype)
    bad.grad = torch.zeros(3, dtype=dtype)
    optimizer = AdaMomentum([parameter(2), bad])
    with pytest.raises(TypeError, match=f"parameter 1 of group 0, which is {dtype}") as error:
        optimizer.step()
    sentence(error)
    optimizer = AdaMomentum([("body", parameter(2)), ("head", bad)])
    with pytest.raises(TypeError, match="parameter 'head', which is"):
        optimizer.step()


def test_complex_parameters_with_a_small_state():
    number = torch.nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    with pytest.raises(ValueError, match=r"torch.bfloat16 cannot hold .* parameter 0 of group 0"):
        AdaMomentum([number], state_dtype=torch.bfloat16)


def sparse(param):
    param.grad = torch.sparse_coo_tensor([[0]], [1.0], (4,), check_invariants=True)


def shape(param):
    param.grad = torch.ones(4)
    param.data = torch.ones(5)


def dtype(param):
    param.grad = torch.ones(4)
    param.data = torch.ones(4, dtype=torch.float64)


class Stray(torch.nn.Parameter):
    """Torch's own setter never lets it come to this; a subclass may."""

    grad = property(lambda _: torch.ones(4, device="meta"))


def device(param):
    param.__class__ = Stray


GRADIENTS = [
    (sparse, RuntimeError, "does not support sparse gradients"),
    (shape, ValueError, r"has shape \(4,\), .* has \(5,\)"),
    (dtype, TypeError, "is torch.float32, .* torch.float64"),
    (device, ValueError, "is on meta, .* on cpu"),
]


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize(("spoil", "kind", "words"), GRADIENTS)
def test_a_bad_gradient_changes_nothing(spoil, kind, words, foreach, started):
    good, also_good, bad = parameter(3), parameter(2), parameter(4)
    optimizer = AdaMomentum([("a", good), ("b", also_good)], foreach=foreach)
    optimizer.add_param_group({"params": [("c", bad)], "lr": 0.1})
    if started:
        feed(optimizer, [good, also_good], range(2))
    good.grad = torch.ones(3)
    spoil(bad)
    params = [p.detach().clone() for p in (good, also_good)]
    state = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(kind, match=words) as error:
        optimizer.step()
    assert "parameter 'c'" in sentence(error)
    assert torch.equal(good, params[0])
    assert torch.equal(also_good, params[1])
    assert str(optimizer.state_dict()) == str(state)
    assert torch.equal(good.grad, torch.ones(3))


def test_a_model_changed_after_the_first_step():
    param = parameter(3)
    optimizer = AdaMomentum([param])
    feed(optimizer, [param], range(1))
    param.data = torch.zeros(4)
    param.grad = torch.ones(4)
    with pytest.raises(ValueError, match=r"'exp_avg' of parameter 0 of group 0 is \(3,\) on cpu"):
        optimizer.step()
    assert torch.equal(param, torch.zeros(4))


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"lr": "x"}, TypeError, "lr must be a number"),
        ({"lr": NAN}, ValueError, "learning rate: nan"),
        ({"lr": torch.ones(3)}, ValueError, "Tensor lr must be 1-element"),
        ({"betas": (0.9,)}, ValueError, "betas must be a pair"),
        ({"betas": 0.9}, TypeError, "betas must be a pair of numbers, but is 0.9"),
        ({"betas": (0.9, 1.0)}, ValueError, "beta parameter at index 1"),
        ({"amsgrad": True, "rectify": True}, ValueError, "amsgrad=True and rectify=True"),
    ],
    ids=lambda x: str(x)[:40],
)
def test_options_changed_in_mid_run(changes, kind, words):
    first, second = parameter(3), parameter(2)
    optimizer = AdaMomentum([{"params": [first]}, {"params": [second]}])
    feed(optimizer, [first, second], range(2))
    optimizer.param_groups[1].update(changes)
    before = first.detach().clone()
    with pytest.raises(kind, match=re.escape(words)) as error:
        optimizer.step()
    sentence(error)
    assert torch.equal(first, before)
    assert optimizer.state[first]["step"] == 2


def test_expanded_and_negated_parameters():
    param = torch.nn.Parameter(torch.ones(3))
    optimizer = AdaMomentum([param])
    param.data = torch.ones(1).expand(3)
    param.grad = torch.ones(3)
    with pytest.raises(ValueError, match="parameter 0 of group 0 is expanded"):
        optimizer.step()
    negated = torch.nn.Parameter(torch.tensor([1j, 2j]).conj().imag)
    assert negated.is_neg()
    with pytest.raises(ValueError, match=r"pass its resolve_neg\(\)"):
        AdaMomentum([negated])


def test_fused_where_it_cannot_be(monkeypatch):
    with_gaps = torch.nn.Parameter(torch.zeros(4, 4)[::2, ::2])
    fine = parameter(3)
    optimizer = AdaMomentum([fine, with_gaps], fused=True)
    before = fine.detach().clone()
    fine.grad, with_gaps.grad = torch.ones(3), torch.ones(2, 2)
    words = r"fused=True is not supported for parameter 1 of group 0.*strides \(8, 2\)"
    with pytest.raises(RuntimeError, match=words) as error:
        optimizer.step()
    sentence(error)
    assert torch.equal(fine, before)
    assert not optimizer.state
    monkeypatch.setattr("adamomentum.torch._native.unavailable", lambda _: "it is not built")
    with pytest.raises(RuntimeError, match="parameter 0 of group 0: it is not built"):
        AdaMomentum([parameter(2)], fused=True)
