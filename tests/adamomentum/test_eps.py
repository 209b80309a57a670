"""Adam's eps causes a warning, unless it was chosen for AdaMomentum."""

import warnings

import pytest
import torch

from adamomentum import AdaMomentum
from adamomentum._eps import TunedEps
from adamomentum.torch import recommended
from adamomentum_lab import contenders
from adamomentum_lab.contract import parameter

MESSAGE = r"^eps=1e-08 is Adam's default, .* = 0\.003, .* Omit eps; the default is 1e-16\."


def test_adams_eps_warns_with_the_line_of_the_caller():
    with pytest.warns(UserWarning, match=MESSAGE) as caught:
        AdaMomentum([parameter(2)], eps=1e-8)
    assert [warning.filename for warning in caught] == [__file__]


def test_from_adam_warns_with_the_line_of_the_caller():
    adam = torch.optim.Adam([parameter(2)])
    with pytest.warns(UserWarning, match=MESSAGE) as caught:
        AdaMomentum.from_adam(adam, eps=1e-8)
    assert [warning.filename for warning in caught] == [__file__]


def test_a_line_warns_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            AdaMomentum([parameter(2)], eps=1e-8)
    assert len(caught) == 1


def test_the_suggested_filter_silences_the_warning():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="eps=1e-08")
        AdaMomentum([parameter(2)], eps=1e-8)


@pytest.mark.parametrize("eps", [1e-16, 0.0, 1e-6, 1e-4, TunedEps(1e-8), torch.tensor(1e-8)])
def test_other_values_do_not_warn(eps):
    AdaMomentum([parameter(2)], eps=eps)  # warnings are errors here


def test_presets_do_not_warn():
    setting = recommended("cifar10")
    optimizer = AdaMomentum([parameter(2)], **setting.options)
    assert type(optimizer.param_groups[0]["eps"]) is float
    AdaMomentum([parameter(2)], **recommended("dcgan").as_run)
    assert "eps=1e-08" in str(setting)


def test_the_lab_does_not_warn():
    contenders.get("adamomentum").build([parameter(2)], eps=1e-8)


def test_optax_warns():
    pytest.importorskip("optax")
    from adamomentum.optax import adamomentum, scale_by_adamomentum

    for make in (lambda: adamomentum(1e-3, eps=1e-8), lambda: scale_by_adamomentum(eps=1e-8)):
        with pytest.warns(UserWarning, match=MESSAGE) as caught:
            make()
        assert [warning.filename for warning in caught] == [__file__]


def test_keras_warns_but_not_when_a_model_is_loaded():
    pytest.importorskip("keras")
    from adamomentum.keras import AdaMomentum as Keras

    with pytest.warns(UserWarning, match=r"^epsilon=1e-07 is Adam's default, .* = 0\.01, "):
        optimizer = Keras(epsilon=1e-7)
    Keras.from_config(optimizer.get_config())
