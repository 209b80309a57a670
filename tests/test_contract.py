"""Every optimizer against every check of the contract."""

import warnings

import pytest
import torch

from adamomentum import AdaMomentum
from adamomentum_lab import contenders
from adamomentum_lab.contract import CHECKS, Case, parameter
from adamomentum_lab.contract._steps import descends
from tests.adamomentum.torch.test_backends import use_triton

ALL_ERRORS = "get_error_inputs_for_all_optims"  # of torch's common_optimizers
ADAM_ERRORS = "optim_error_inputs_func_adam"
# Adam's without those of foreach and of betas as tensors, which only Adam and AdaMomentum have.
BETA_ERRORS = "optim_error_inputs_func_radam"

OPTIONS = {
    "default": {},
    "foreach": {"foreach": True},
    "single": {"foreach": False},
    "amsgrad": {"amsgrad": True},
    "amsgrad-foreach": {"amsgrad": True, "foreach": True},
    "coupled": {"decoupled_weight_decay": False},
    "nesterov": {"nesterov": True},
    "rectify": {"rectify": True},
    "debiased": {"debias_momentum": True},
    "no-eps": {"eps": 0.0},
    "wide-state": {"state_dtype": torch.float64},
}


# What kept implementations do otherwise, and why. A check that they pass one day says so.
EXCEPTIONS = {
    ("contender-adafactor", "odd_shapes_are_fine"): "torch divides by the size of an empty one",
    (
        "contender-adafactor",
        "only_the_faulty_element_becomes_nan",
    ): "its step has the size of the whole parameter",
    (
        "contender-schedule-free",
        "a_parameter_without_gradient_is_left_alone",
    ): "its average counts the steps of the group",
}
OF_REALS = ("adafactor", "muon", "schedule-free")
UNCHECKED = ("contender-muon", "contender-schedule-free")  # their classes do not check betas


def contender(name):
    """A contender as it is raced, at the lr of the checks."""
    found = contenders.get(name)
    options = {key: value for key, value in found.settings.items() if key != "lr"}
    return Case(
        f"contender-{name}",
        found.optimizer,
        options,
        takes_complex=name not in OF_REALS,
        starts_at_zero=not any(getattr(found.optimizer, "START", {}).values()),
        has_momentum=bool({"betas", "momentum"} & found.settings.keys()),
        elementwise=getattr(found.optimizer, "ELEMENTWISE", True),
    )


def error_inputs(case):
    """Which of torch's lists of bad arguments an optimizer must refuse."""
    if case.name == "torch-adamw" or case.name in OPTIONS:
        return ADAM_ERRORS
    return (
        BETA_ERRORS if case.name.startswith("contender") and "betas" in case.options else ALL_ERRORS
    )


CASES = [
    Case("torch-adamw", torch.optim.AdamW),
    Case("torch-sgd", torch.optim.SGD, {"momentum": 0.9}),
    *(Case(name, AdaMomentum, options) for name, options in OPTIONS.items()),
    Case("fused", AdaMomentum, {"fused": True}, takes_gaps=False),
    # Torch's error inputs ask for capturable=False, and bfloat16 has no complex counterpart.
    Case("capturable", AdaMomentum, {"capturable": True}),
    Case("small-state", AdaMomentum, {"state_dtype": torch.bfloat16}, takes_complex=False),
    *map(contender, contenders.names()),
]


def is_regular_contender(case):
    return case.name.startswith("contender") and case.starts_at_zero and case.has_momentum


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case, marks=[pytest.mark.slow] if is_regular_contender(case) else [], id=case.name
        )
        for case in CASES
    ],
)
def test_contract(case, check):
    if (case.name, check.__name__) in EXCEPTIONS:
        with pytest.raises((AssertionError, ArithmeticError)):
            check(case)
        return
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_input_is_refused_as_torch_refuses_it(case):
    if case.name in UNCHECKED:
        pytest.skip("the kept implementation checks its input in other words, or not")
    from torch.testing._internal import common_optimizers

    for error in getattr(common_optimizers, error_inputs(case))("cpu", torch.float32):
        given = error.optimizer_error_input
        params = [parameter(1, 1)] if given.params is None else given.params
        kwargs = {**case.options, **given.kwargs}
        if issubclass(error.error_type, Warning):
            with pytest.warns(error.error_type, match=error.error_regex):
                case.optimizer(params, **kwargs)
        else:
            with (
                warnings.catch_warnings(),
                pytest.raises(error.error_type, match=error.error_regex),
            ):
                case.optimizer(params, **kwargs)


def triton_cases():
    """Every check with both kinds of state. Fifty steps that round the state take 10 s: `full`;
    test_rounding.py compares such steps with those of the other backends."""
    return [
        pytest.param(
            check,
            options,
            marks=[pytest.mark.full] if check is descends and options else [],
            id=f"{check.__name__}-{options}",
        )
        for check in CHECKS
        for options in ({}, {"state_dtype": torch.bfloat16})
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # of its NumPy
@pytest.mark.parametrize(("check", "options"), triton_cases())
def test_contract_of_the_triton_backend(check, options, monkeypatch):
    use_triton(monkeypatch)
    check(Case("triton", AdaMomentum, options, takes_complex=not options))
