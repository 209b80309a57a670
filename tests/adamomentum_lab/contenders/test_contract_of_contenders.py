"""The contract of a contender: names, settings, spaces, needs."""

import pkgutil
from pathlib import Path

import pytest
import torch

from adamomentum_lab import contenders
from adamomentum_lab.contender import Contender
from adamomentum_lab.contenders import get, names
from adamomentum_lab.errors import LabError
from adamomentum_lab.space import DECADES_OF_LR
from adamomentum_paper.grids import GRIDS, space
from tests.adamomentum_lab.contenders.test_contenders import DECOUPLED, build


def test_names_are_in_order():
    standard = ["sgdm", "adam", "adamw", "yogi", "adabound", "radam", "adabelief", "adamomentum"]
    assert list(contenders.STANDARD) == names()[:8] == standard
    assert contenders.BASELINE in standard
    assert names()[8:] == sorted(names()[8:])
    controls = {
        "adam-matched-rms",
        "adam-translated",
        "adamomentum-debiased",
        "adamomentum-outer-eps",
    }
    controls |= {"adamomentum-rectified", "eadam"}
    assert {*controls, "nadam", "rmsprop", "sign"} <= set(names())
    names().clear()
    assert names()


def test_a_contender_is_a_file_of_its_name():
    folder = str(Path(contenders.__file__).parent)
    files = {module.name for module in pkgutil.iter_modules([folder])}
    assert {name.replace("-", "_") for name in names()} == {
        file for file in files if not file.startswith("_")
    }


def test_an_unknown_name_gets_the_most_similar_one():
    with pytest.raises(
        LabError,
        match=r"^there is no optimizer 'adam_translated' \(did you mean 'adam-translated'\?\); "
        r"there are sgdm, adam, .* sign.*\.$",
    ):
        get("adam_translated")
    with pytest.raises(LabError, match=r"^there is no optimizer 'lbfgs'; there are sgdm"):
        get("lbfgs")


@pytest.mark.parametrize("name", names())
def test_sentences_of_a_contender(name):
    contender = get(name)
    assert contender.name == name
    assert contender.source
    assert contender.summary
    assert not {"\n"} & set(contender.source + contender.summary)
    assert contender.settings["weight_decay"] == 0.0
    decoupled = contender.settings.get("decoupled_weight_decay", DECOUPLED.get(name))
    assert contender.decay == ("decoupled" if decoupled else "coupled")
    assert hash(contender)


def test_settings_and_spaces_of_the_standard_ones():
    for name in (*contenders.STANDARD, "nadam", "rmsprop", "sign"):
        contender = get(name)
        assert contender.settings["lr"] == {"sgdm": 0.1, "yogi": 1e-2}.get(name, 1e-3)
        assert contender.settings.get("betas", (0.9, 0.999)) == (0.9, 0.999)
        assert contender.space == {"lr": DECADES_OF_LR}
        assert not contender.needs


@pytest.mark.parametrize("name", [name for name in names() if get(name).like])
def test_a_control_has_the_settings_of_what_it_is_like(name):
    control = get(name)
    for setting, value in control.settings.items():
        other = get(control.like.get(setting, control.like.get("*")))
        form = setting == "decoupled_weight_decay"  # which may be another
        assert form or other.settings[setting] == value


@pytest.mark.parametrize("name", names())
def test_defaults_and_settings_reach_the_groups(name):
    contender = get(name)
    before = dict(contender.settings)
    group = build(name, weight_decay=0.25).param_groups[0]
    for key, value in {**contender.settings, "weight_decay": 0.25}.items():
        assert group[key] == value
    with pytest.raises(
        LabError,
        match=f"^{name} has no setting 'speed'; it has lr, .*weight_decay.*\\.$",
    ):
        build(name, speed=3)
    if len(contender.settings.get("betas", ())) == 2:
        assert build(name, betas=[0.5, 0.99]).param_groups[0]["betas"] == (0.5, 0.99)
    assert contender.settings == before


@pytest.mark.parametrize("kind", GRIDS)
@pytest.mark.parametrize("name", names())
def test_every_grid_value_can_be_built(name, kind):
    grid = space(get(name), kind)
    assert {"lr", "weight_decay"} <= grid.keys() <= get(name).settings.keys()
    for setting, values in grid.items():
        for value in values:
            assert build(name, **{setting: value}).param_groups[0][setting] == value


def test_grids_of_the_paper():
    cnn = space(get("adam"), "cnn")
    assert cnn["lr"] == (0.1, 0.01, 0.001, 1e-4, 1e-5)
    assert len(cnn["eps"]) == 12
    assert (cnn["eps"][0], cnn["eps"][-1]) == (1e-5, 1e-16)
    assert space(get("sgdm"), "lstm")["lr"] == (100, 50, 30, 10, 1, 0.1)
    assert space(get("sgdm"), "gan").keys() == {"lr", "momentum", "weight_decay"}
    assert space(get("sign"), "cnn").keys() == {"lr", "weight_decay"}
    assert space(get("radam"), "transformer")["betas"] == ((0.9, 0.98), (0.9, 0.99), (0.9, 0.999))
    with pytest.raises(
        LabError, match=r"^there is no grid 'mlp'; there are cnn, imagenet, lstm, transformer, gan"
    ):
        space(get("adam"), "mlp")


def own(**fields):
    given = {"settings": {"lr": 1e-2, "weight_decay": 0.0}, "decay": "coupled"}
    return Contender(torch.optim.Adagrad, source="torch", summary="Adagrad", **{**given, **fields})


def test_a_contender_of_ones_own():
    mine = own(name="mine")
    param = torch.nn.Parameter(torch.ones(2))
    assert isinstance(mine.build([param], lr=0.1), torch.optim.Adagrad)
    assert space(mine, "cnn").keys() == {"lr", "weight_decay"}
    assert mine.space == {"lr": DECADES_OF_LR}
    assert own(settings={"lr": 1e-2}, decay=None).decay is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"settings": {"eps": 1e-8}},
            "its settings have no lr; name every setting with its default",
        ),
        ({"space": {"eps": (1e-8,)}}, "its space has 'eps', which is not among its settings"),
        ({"space": {"lr": ()}}, "its space has no values for 'lr'"),
        ({"decay": None}, "its decay must be 'coupled' or 'decoupled', as it has weight_decay"),
        ({"decay": "l2"}, "its decay must be 'coupled' or 'decoupled', as it has weight_decay"),
        (
            {"settings": {"lr": 1e-2, "decoupled_weight_decay": True}},
            "its decay is 'coupled', but its settings say 'decoupled'",
        ),
        (
            {"needs": frozenset({"a GPU"})},
            "its needs have 'a GPU'; known needs are closure, modes, constant lr",
        ),
    ],
)
def test_a_contender_that_cannot_be_meant(fields, words):
    with pytest.raises(LabError, match=f"^the contender Adagrad: {words}\\.$"):
        own(**fields)


def test_a_contender_has_the_name_of_its_module(monkeypatch):
    files = {"adm": "adamomentum_lab.contenders.adam", "sum": "math"}
    monkeypatch.setattr(contenders, "_files", lambda: files)
    assert get.__wrapped__("adm").name == "adm"
    with pytest.raises(LabError, match=r"math.* defines no CONTENDER = Contender\(\.\.\.\)\.$"):
        get.__wrapped__("sum")


def test_whose_settings_a_protocol_states():
    stated = {"*": {"lr": 1.0, "eps": 2.0, "momentum": 3.0}, "adam": {"lr": 4.0, "eps": 5.0}}
    assert get("adam").settings_for(stated) == {"lr": 4.0, "eps": 5.0}
    # Everyone has those of "*" that are settings of theirs.
    assert get("sgdm").settings_for(stated) == {"lr": 1.0, "momentum": 3.0}
    assert get("yogi").settings_for(stated) == {"lr": 1.0, "eps": 2.0}
    assert get("adam").settings_for({**stated, "adam": {"betas": (0.5, 0.9)}}) == {
        "lr": 1.0,
        "eps": 2.0,
        "betas": (0.5, 0.9),
    }
    # A control has those of the contender that it is like, setting by setting.
    stated["adamomentum"] = {"lr": 6.0, "eps": 7.0, "rectify": True}
    assert get("eadam").settings_for(stated) == {"lr": 6.0, "eps": 7.0}
    assert get("adam-translated").settings_for(stated) == {"lr": 6.0, "eps": 5.0}
    assert get("adamomentum-outer-eps").settings_for(stated) == {"lr": 6.0, "eps": 2.0}
    # What is stated for the control itself goes before.
    assert get("eadam").settings_for({**stated, "eadam": {"lr": 8.0}}) == {"lr": 8.0, "eps": 2.0}
    assert get("eadam").settings_for({}) == {}


@pytest.mark.parametrize("name", contenders.names())
def test_decoupled_weight_decay_shrinks_weights_by_lr_times_its_strength(name):
    """One step with decay minus one without is -lr * weight_decay * theta, for every contender."""
    contender = contenders.get(name)
    if "weight_decay" not in contender.settings:
        pytest.skip("has no weight decay")

    def step(strength):
        param = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64))
        frozen = torch.nn.Parameter(torch.tensor([5.0], dtype=torch.float64))
        settings = contender.decoupled({"lr": 0.01, "weight_decay": strength})
        optimizer = contender.build([param, frozen], **settings)
        param.grad = torch.tensor([0.3, 0.1, -0.2], dtype=torch.float64)
        optimizer.step()
        assert frozen.item() == 5.0  # without a gradient nothing happens to it
        return param.detach()

    expected = -0.01 * 0.5 * torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    torch.testing.assert_close(step(0.5) - step(0.0), expected, rtol=0, atol=1e-12)


def test_decay_that_the_lab_applies_survives_a_checkpoint_and_follows_the_schedule():
    def build():
        param = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
        sgdm = contenders.get("sgdm")
        return param, sgdm.build([param], **sgdm.decoupled({"lr": 0.1, "weight_decay": 0.5}))

    param, optimizer = build()
    param.grad = torch.zeros_like(param)
    optimizer.step()
    assert param.item() == pytest.approx(1 - 0.1 * 0.5)
    restored, other = build()
    other.load_state_dict(optimizer.state_dict())
    other.param_groups[0]["lr"] = 0.01
    restored.grad = torch.zeros_like(restored)
    other.step()
    assert restored.item() == pytest.approx(1 - 0.01 * 0.5)


def test_the_form_an_optimizer_is_known_by_is_the_default():
    param = torch.nn.Parameter(torch.ones(1))
    optimizer = contenders.get("sgdm").build([param], weight_decay=0.5)
    assert optimizer.param_groups[0]["weight_decay"] == 0.5
