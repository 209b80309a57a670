"""Every contender against its float64 oracle and, where Optax has the method, against Optax."""

import itertools
import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose as close

from adamomentum_lab.contenders import get, names
from adamomentum_lab.contenders._formula import FormulaOptimizer
from adamomentum_lab.contract import through_file
from tests.adamomentum_lab.contenders.oracles import ORACLES, WHOLE, orthogonal, walk

STEPS, DECAY = 60, 1e-2
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}  # rtol = atol
# Where the class has no choice. Everywhere else both forms are tested.
DECOUPLED = {"sgdm": False, "adamw": True, "rmsprop": False}
DECOUPLED |= {"muon": True, "adafactor": True, "schedule-free": True}
LOOSE = {"muon": 5e-4}  # orthogonal to bfloat16; a run moves by up to 0.03
LOOSE |= {"soap": 1e-11}  # in float64; eigenvectors amplify rounding by the range of the gradients
TABLE = [name for name in names() if get(name).optimizer in FormulaOptimizer.__subclasses__()]

# Beside the defaults: at those, eps does not show, nor which beta goes where.
OTHERS = {"lr": 3e-3, "betas": (0.8, 0.95), "eps": 1e-4, "alpha": 0.9, "momentum": 0.7}
OTHERS |= {"final_lr": 0.02, "gamma": 0.05, "momentum_decay": 0.03}
OTHERS |= {"mu": 0.25, "warmup": 40, "warmup_steps": 7, "beta2_decay": -0.5, "d": 1.5}
OTHERS |= {"precondition_frequency": 3, "max_precond_dim": 3}
# Of another form than those of the others.
OWN = {
    "adan": {"betas": (0.8, 0.7, 0.95)},
    "ademamix": {"betas": (0.8, 0.95, 0.99), "alpha": 2.0},
    "adafactor": {"eps": (None, 0.7)},
}


def variants(name):
    defaults = get(name).settings
    others = {**OTHERS, **OWN.get(name, {})}
    others = {key: value for key, value in others.items() if key in defaults}
    forms = [{}]
    if "decoupled_weight_decay" in defaults:
        forms = [{"decoupled_weight_decay": decoupled} for decoupled in (False, True)]
    choices = [{}, others]
    if "rectify" in defaults:
        choices.append({**others, "rectify": True})
    for form, settings in itertools.product(forms, choices):
        yield {**form, **settings}


CASES = [(name, settings) for name in names() for settings in variants(name)]


def start():
    return np.random.default_rng(0).normal(size=(4, 3))


def gradients(narrow=False):
    """Over eight orders of magnitude or of one, with a coordinate that stays zero."""
    random = np.random.default_rng(1)
    scale = 10.0 ** random.uniform(-6, 2, size=(4, 3))
    scale = np.ones((4, 3)) if narrow else scale
    scale[0, 0] = 0
    return random.normal(size=(STEPS, 4, 3)) * scale + 0.3 * scale


def rates(lr):
    """A schedule: a warm-up from zero, then lr, then a fifth of it."""
    return [lr * min(t / 3, 1) if t < STEPS // 2 else lr / 5 for t in range(STEPS)]


def run(optimizer, gradients):
    (group,) = optimizer.param_groups
    (param,) = group["params"]
    for g, lr in zip(gradients, rates(group["lr"]), strict=True):
        group["lr"] = lr
        param.grad = torch.as_tensor(g).to(param.dtype)
        optimizer.step()
    return param.detach().double().numpy()


def build(name, dtype=torch.float64, **settings):
    param = torch.nn.Parameter(torch.as_tensor(start()).to(dtype))
    return get(name).build([param], **{"weight_decay": DECAY, **settings})


@pytest.fixture
def default_dtype(request):
    """For torch's NAdam, which keeps the product of its momenta in the default dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(before)


@pytest.mark.parametrize("default_dtype", TOLERANCE, ids=str, indirect=True)
@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
def test_agrees_with_the_oracle(name, settings, default_dtype):
    optimizer = build(name, default_dtype, **settings)
    # Float32 does not resolve eigenvalues that are 1e-16 of others.
    narrow = name == "soap" and default_dtype is torch.float32
    reached = run(optimizer, gradients(narrow))
    chosen = {**get(name).settings, **settings}
    given = start(), gradients(narrow), rates(chosen["lr"])
    if name in WHOLE:
        expected = WHOLE[name](*given, DECAY, chosen)
    else:
        expected = walk(
            ORACLES[name],
            *given,
            decay=DECAY,
            decoupled=chosen.get("decoupled_weight_decay", DECOUPLED.get(name)),
            settings=chosen,
        )
    tolerance = max(LOOSE.get(name, 0), TOLERANCE[default_dtype])
    close(reached, expected, rtol=tolerance, atol=tolerance)


def test_every_contender_has_an_oracle():
    assert {*ORACLES, *WHOLE} == set(names())


# One step from theta = 10 with gradient 2, lr 1, betas (1/2, 3/4), eps 1/4: m = 1, m_hat = 2,
# g^2 averages to 1 (corrected 4) and m^2 to 1/4 (corrected 1); eps inside v corrects to 1.
BY_HAND = {
    "sgdm": 2,
    "adam": 2 / (2 + 1 / 4),
    "adamw": 2 / (2 + 1 / 4),
    # v = 1e-6 + 1/4*4, m = 1 + 1e-6/2
    "yogi": 2 * (1 + 5e-7) / (math.sqrt(4 * (1 + 1e-6)) + 1 / 4),
    # rate (1/2)/(1/2)/(1+1/4) = 4/5, above the upper bound 1/4 (1 + 1) = 1/2
    "adabound": 1 / 2,
    # rho_1 = 7 - 6 = 1: not rectified
    "radam": 2,
    # g - m = 1: s = 1/4 + 1/4, corrected 2
    "adabelief": 2 / (math.sqrt(2) + 1 / 4),
    "adamomentum": 2 / math.sqrt(2),
    # Of one element the rms is all there is of a step.
    "adam-matched-rms": 2 / math.sqrt(2),
    "adam-translated": math.sqrt(3) * 2 / (2 + 1 / 4),
    "adamomentum-debiased": 2 / math.sqrt(5),
    "adamomentum-outer-eps": 2 / (1 + 1 / 4),
    "adamomentum-rectified": 2,
    "eadam": 2 / math.sqrt(5),
    # With momentum_decay 0 mu = b1/2 = 1/4: 1/4*1/(1 - 1/16) + 3/4*2/(1 - 1/4) = 4/15 + 2
    "nadam": (4 / 15 + 2) / (2 + 1 / 4),
    "rmsprop": 2 / (math.sqrt(4 / 4) + 1 / 4),
    "sign": 1,
    "lion": 1,
    # No difference of gradients yet: Adam's.
    "adan": 2 / (2 + 1 / 4),
    # The first gradient only starts the second moment.
    "adopt": 0,
    # The slow momentum is 2/8.
    "ademamix": (2 + 2 * 2 / 8) / (2 + 1 / 4),
    "laprop": 2 / (2 + 1 / 4),
    # c = 3/2 and (g/4 - 3/4 m) = -1/4: v = 1/4*(3/8)^2 + 1/4, corrected (3/8)^2 + 1
    "adafamily": 2 / math.sqrt((3 / 8) ** 2 + 1),
    "bcos": 2 / (2 + 1 / 4),
    "muon": 2 / (2 + 1 / 4),  # of a vector: AdamW's
    # The first gradient only gives the axes.
    "soap": 0,
    # g / |g| times the size of the parameter
    "adafactor": 10,
    # z moves by Adam's step without momentum, and x and y are z.
    "schedule-free": 2 / (2 + 1 / 4),
}
HAND_OF = {
    "adan": {"betas": (0.5, 0.25, 0.75)},
    "ademamix": {"betas": (0.5, 0.75, 0.875), "alpha": 2.0},
    "adafactor": {"eps": (None, 1e-3)},
}
HAND = {"lr": 1.0, "betas": (0.5, 0.75), "eps": 0.25, "alpha": 0.75}
HAND |= {"final_lr": 0.25, "gamma": 1.0, "momentum_decay": 0.0, "mu": 0.75}


@pytest.mark.parametrize("name", names())
def test_first_step_by_hand(name):
    hand = {**HAND, **HAND_OF.get(name, {})}
    settings = {**get(name).settings, **hand}
    if name in WHOLE:
        step = 10 - WHOLE[name](np.array([10.0]), np.array([[2.0]]), [1.0], 0.0, settings)
    else:
        step = ORACLES[name](np.array([[2.0]]), 1.0, settings)
    assert step[0] == pytest.approx(BY_HAND[name], rel=1e-14)
    param = torch.nn.Parameter(torch.tensor([10.0], dtype=torch.float64))
    optimizer = get(name).build(
        [param], **{key: value for key, value in hand.items() if key in get(name).settings}
    )
    param.grad = torch.full_like(param, 2.0)
    optimizer.step()
    # torch's NAdam keeps a product in float32.
    assert param.item() == pytest.approx(10 - BY_HAND[name], rel=1e-7)


def test_second_steps_by_hand():
    """Gradients 2 then 4: m = 5/2, m_hat = 10/3, v_hat = (3/4 + 4)/(7/16) = 76/7."""
    gs, settings = np.array([[2.0], [4.0]]), {**HAND, "momentum": 0.5, "rectify": False}
    assert ORACLES["sgdm"](gs, 1.0, settings)[0] == 5
    adams = (10 / 3) / (math.sqrt(76 / 7) + 1 / 4)
    assert ORACLES["adam"](gs, 1.0, settings)[0] == pytest.approx(adams, rel=1e-14)
    # g - m is 1, then 3/2: s = 1/2*3/4 + 9/16 + 1/4 = 19/16, corrected 19/7.
    beliefs = (10 / 3) / (math.sqrt(19 / 7) + 1 / 4)
    assert ORACLES["adabelief"](gs, 1.0, settings)[0] == pytest.approx(beliefs, rel=1e-14)
    # Yogi's v falls where g^2 is below it: 1e-6 + 1, and then - 1/4 * 1/4.
    yogis = ORACLES["yogi"](np.array([[2.0], [0.5]]), 1.0, settings)[0]
    m = (1 / 2 + 1 / 4 + 1e-6 / 4) / (3 / 4)
    v = (1e-6 + 1 - 1 / 16) / (7 / 16)
    assert yogis == pytest.approx(m / (math.sqrt(v) + 1 / 4), rel=1e-14)


def test_matched_rms_by_hand():
    """Gradients 2 and 4 of one tensor: m_hat = (2, 4), v_hat = (5, 17), u_hat = (2, 5)."""
    gs, settings = np.array([[2.0, 4.0]]), {**get("adam-matched-rms").settings, **HAND}
    adams, ours = (2 / math.sqrt(5), 4 / math.sqrt(17)), (2 / math.sqrt(2), 4 / math.sqrt(5))
    factor = math.hypot(*ours) / math.hypot(*adams)
    expected = [factor * step for step in adams]
    close(ORACLES["adam-matched-rms"](gs, 1.0, settings), expected, rtol=1e-14)
    param = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
    optimizer = get("adam-matched-rms").build([param], lr=1.0, betas=(0.5, 0.75), eps=0.25)
    param.grad = torch.tensor([2.0, 4.0], dtype=torch.float64)
    optimizer.step()
    close(-param.detach(), expected, rtol=1e-12)


def test_matched_rms_has_adamomentums_lengths_and_adams_directions():
    """On two tensors with the same gradients, at every step."""
    walks = {}
    for name in ("adam-matched-rms", "adamomentum", "eadam"):
        params = [torch.nn.Parameter(torch.zeros(n, dtype=torch.float64)) for n in (6, 6)]
        optimizer = get(name).build(params, lr=1.0)
        steps = walks[name] = []
        for g in gradients()[:20].reshape(-1, 2, 6) + 1e-3:
            before = [param.detach().clone() for param in params]
            for param, part in zip(params, g, strict=True):
                param.grad = torch.as_tensor(part)
            optimizer.step()
            steps += [old - new.detach() for old, new in zip(before, params, strict=True)]
    for own, length, direction in zip(*walks.values(), strict=True):
        assert float(own.norm()) == pytest.approx(float(length.norm()), rel=1e-9)
        close(own / own.norm(), direction / direction.norm(), atol=1e-9)
    # They differ: neither is the other.
    assert not np.allclose(walks["adamomentum"][-1], walks["adam-matched-rms"][-1], rtol=0.01)
    assert float(walks["adamomentum"][-1].norm() / walks["eadam"][-1].norm()) > 1.5


def test_muon_makes_matrices_and_filters_orthogonal():
    """One step of momentum 0 from a matrix and from filters, to the precision of bfloat16."""
    for shape in ((3, 5), (8, 4), (6, 2, 3, 3)):
        random = np.random.default_rng(2)
        g = random.normal(size=shape)
        param = torch.nn.Parameter(torch.zeros(shape, dtype=torch.float64))
        optimizer = get("muon").build([param], lr=1.0, momentum=0.0)
        param.grad = torch.as_tensor(g)
        optimizer.step()
        flat = g.reshape(len(g), -1)
        expected = 0.2 * math.sqrt(max(flat.shape)) * orthogonal(flat)
        error = np.linalg.norm(param.detach().numpy().reshape(flat.shape) + expected)
        # bfloat16 has 8 bits, and the polynomial multiplies errors: 1 to 3 %; 6e-7 in float32.
        assert error < 0.05 * np.linalg.norm(expected)
        # Root mean square 0.2 or so, that of AdamW's steps (arXiv 2502.16982, section 2.2).
        assert 0.1 < param.detach().square().mean().sqrt() < 0.25


def step_soap(gradients, **settings):
    """The last step, from zero, and the state after it."""
    param = torch.nn.Parameter(torch.zeros_like(gradients[0]))
    optimizer = get("soap").build([param], lr=1.0, **settings)
    for g in gradients:
        before = param.detach().clone()
        param.grad = g.clone()
        optimizer.step()
    return before - param.detach(), optimizer.state[param]


def test_soap_by_hand():
    """The eigenvectors of [[3, 1], [1, 3]] are (1, 1) and (1, -1) over the root of 2. In these, the
    second gradient [[1, 0], [0, 0]] has four elements of 1/2, and Adam's first step is 1 in each.
    """
    first = torch.tensor([[3.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
    second = torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    step, state = step_soap([first, second], eps=0.0, betas=(0.5, 0.75))
    close(step, [[2, 0], [0, 0]], atol=1e-15)
    # 1/4 of ([[10, 6], [6, 10]] times 3/4, and the square of the second)
    close(state["covariance_0"], [[17 / 8, 9 / 8], [9 / 8, 15 / 8]], rtol=1e-15)
    # A diagonal first gradient leaves the axes as they are: Adam's step, but in the second update.
    step, _ = step_soap([torch.diag(torch.tensor([2.0, 1.0])).double(), second + 1], eps=0.0)
    close(step, np.ones((2, 2)), atol=1e-15)


def test_soap_of_filters_and_of_long_axes():
    """Axes of 2 to 6, of which those above 3 are not turned in the second run."""
    gs = np.random.default_rng(3).normal(size=(12, 6, 2, 3, 4))
    for longest in (10, 3):
        settings = {"precondition_frequency": 2, "max_precond_dim": longest}
        expected = ORACLES["soap"](gs, 1.0, {**get("soap").settings, **settings})
        step, state = step_soap(list(torch.as_tensor(gs)), **settings)
        close(step, expected, rtol=1e-9, atol=1e-9)
        turned = [axis for axis in range(4) if f"basis_{axis}" in state]
        assert turned == [axis for axis, length in enumerate((6, 2, 3, 4)) if length <= longest]


def test_soap_shows_a_gradient_that_is_not_finite():
    """`torch.linalg.eigh` raises an error for one."""
    for gradients in ([math.nan], [1.0, math.inf], [1.0] * 10 + [math.nan] * 2):
        step, _ = step_soap([torch.eye(3) * g for g in gradients])
        assert step.isnan().all()


# Where Optax differs, settings at which it does not.
AS_OPTAX = {
    "nadam": {"momentum_decay": 1e9},  # Optax does not warm the momentum, and this ends it at once
    "radam": {"eps": 1e-30},  # Optax adds eps to the bias-corrected root, torch before that
    "rmsprop": {"momentum": 0.0},  # Optax's momentum holds the lr of each step, torch's does not
    "adabelief": {"rectify": False},  # Optax has no other
}


def scaled_adam(optax, rate, betas, eps):
    factor = math.sqrt((1 + betas["b1"]) / (1 - betas["b1"]))
    return optax.adam(lambda t: factor * rate(t), **betas, **eps)


# The methods that Optax has, without weight decay: (optax, rate, betas, eps, settings) -> a method.
OPTAX = {
    "sgdm": lambda optax, rate, _b, _e, s: optax.sgd(rate, momentum=s["momentum"]),
    "adam": lambda optax, rate, betas, eps, _: optax.adam(rate, **betas, **eps),
    "adamw": lambda optax, rate, betas, eps, _: optax.adam(rate, **betas, **eps),
    "adam-translated": lambda optax, rate, betas, eps, _: scaled_adam(optax, rate, betas, eps),
    "yogi": lambda optax, rate, betas, eps, _: optax.yogi(rate, **betas, **eps),
    "radam": lambda optax, rate, betas, eps, _: optax.radam(rate, **betas, **eps),
    # Optax names the two places of eps.
    "adabelief": lambda optax, rate, betas, eps, s: optax.adabelief(
        rate, **betas, **eps, eps_root=s["eps"]
    ),
    "nadam": lambda optax, rate, betas, eps, _: optax.nadam(rate, **betas, **eps),
    # Optax puts eps under the root by default.
    "rmsprop": lambda optax, rate, _, eps, s: optax.rmsprop(
        rate, decay=s["alpha"], **eps, eps_in_sqrt=False
    ),
    "sign": lambda optax, rate, *_: optax.sign_sgd(rate),
    "lion": lambda optax, rate, betas, *_: optax.lion(rate, **betas, weight_decay=0.0),
}


@pytest.mark.parametrize("default_dtype", [torch.float64], ids=str, indirect=True)
@pytest.mark.parametrize(
    ("name", "settings"), [case for case in CASES if case[0] in OPTAX], ids=str
)
def test_agrees_with_optax(name, settings, default_dtype):
    jax = pytest.importorskip("jax")
    optax = pytest.importorskip("optax")
    settings = settings | AS_OPTAX.get(name, {})
    chosen = get(name).settings | settings
    with jax.enable_x64(True):
        scheduled = jax.numpy.array(rates(chosen["lr"]))
        betas = dict(zip(("b1", "b2"), chosen.get("betas", ()), strict=False))
        eps = {"eps": chosen.get("eps")}
        method = OPTAX[name](optax, lambda t: scheduled[t], betas, eps, chosen)
        decoupled = chosen.get("decoupled_weight_decay", DECOUPLED.get(name))
        theta = jax.numpy.array(start())
        state = method.init(theta)
        update_of = jax.jit(method.update)
        for g, lr in zip(gradients(), rates(chosen["lr"]), strict=True):
            g = jax.numpy.array(g if decoupled else g + DECAY * np.array(theta))
            update, state = update_of(g, state, theta)
            theta = theta * (1 - lr * DECAY if decoupled else 1)
            theta = optax.apply_updates(theta, update)
        expected = np.array(theta)
    close(run(build(name, **settings), gradients()), expected, rtol=1e-10, atol=1e-10)


def test_adam_translated_is_adam_at_another_lr():
    lr = 1e-3 * math.sqrt(1.9 / 0.1)
    assert lr == pytest.approx(4.36e-3, rel=1e-3)
    adam = run(build("adam", lr=lr), gradients())
    close(run(build("adam-translated", lr=1e-3), gradients()), adam, rtol=1e-12)


@pytest.mark.parametrize("name", TABLE)
def test_maximize_is_the_gradient_turned_round(name):
    up, down = build(name), build(name)
    up.param_groups[0]["maximize"] = True
    close(run(up, -gradients()), run(down, gradients()), rtol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", TABLE)
def test_half_precision_keeps_float32_averages_through_a_checkpoint(name, dtype):
    halves = np.clip(gradients(), -10, 10)
    first, again = build(name, dtype, lr=1e-2), build(name, dtype, lr=0.5)
    run(first, halves)
    saved = through_file(first.state_dict())
    (old,), (new,) = (optimizer.param_groups[0]["params"] for optimizer in (first, again))
    new.data.copy_(old.data)
    again.load_state_dict(saved)
    assert new.dtype is dtype
    assert all(
        value.dtype is torch.float32 and value.isfinite().all()
        for value in again.state[new].values()
    )
    for optimizer in (first, again):
        run(optimizer, halves[::-1])
    assert torch.equal(old, new)


@pytest.mark.parametrize("name", TABLE)
def test_zero_gradients_without_eps_are_no_nan(name):
    param = torch.nn.Parameter(torch.ones(3))
    settings = {"eps": 0.0} if "eps" in get(name).settings else {}
    optimizer = get(name).build([param], **settings)
    for _ in range(3):
        param.grad = torch.zeros(3)
        optimizer.step()
    # Yogi's momentum starts at 1e-6.
    close(param.detach(), torch.ones(3), rtol=0, atol=0.1 if name == "yogi" else 0)


def test_adabound_keeps_the_lr_it_began_with():
    optimizer = build("adabound", lr=1e-2)
    optimizer.param_groups[0]["lr"] = 1e-4
    again = build("adabound", lr=1e-4)
    again.load_state_dict(through_file(optimizer.state_dict()))
    assert again.param_groups[0]["base_lr"] == 1e-2


def test_adabound_of_a_group_that_begins_at_zero():
    param = torch.nn.Parameter(torch.ones(3))
    optimizer = get("adabound").build([{"params": [param], "lr": 0.0}], lr=1e-2)
    assert optimizer.param_groups[0]["base_lr"] == 1e-2
    assert get("adabound").build([param], lr=0.0).param_groups[0]["base_lr"] == 1.0


@pytest.mark.parametrize("name", TABLE)
def test_sparse_gradients_are_refused(name):
    param = torch.nn.Parameter(torch.ones(3))
    optimizer = get(name).build([param])
    param.grad = torch.ones(3).to_sparse()
    with pytest.raises(RuntimeError, match="does not support sparse gradients"):
        optimizer.step()


@pytest.mark.parametrize(
    ("name", "settings", "error", "words"),
    [
        ("yogi", {"lr": -1.0}, ValueError, "Invalid learning rate: -1.0"),
        ("yogi", {"lr": math.nan}, ValueError, "Invalid learning rate: nan"),
        ("yogi", {"lr": "fast"}, TypeError, "lr must be a number, but is 'fast'"),
        ("eadam", {"eps": -1e-8}, ValueError, "Invalid epsilon value: -1e-08"),
        ("eadam", {"betas": [0.9, 1.5]}, ValueError, "Invalid beta parameter at index 1: 1.5"),
        ("adabound", {"final_lr": -1.0}, ValueError, "Invalid final_lr value: -1.0"),
        ("adabound", {"gamma": 0.0}, ValueError, "gamma must be above 0"),
        ("adabelief", {"rectify": "false"}, TypeError, "rectify must be True or False"),
        ("soap", {"precondition_frequency": 0}, ValueError, "Invalid precondition_frequency: 0"),
        ("soap", {"max_precond_dim": 2.5}, ValueError, "Invalid max_precond_dim: 2.5"),
    ],
)
def test_settings_that_cannot_be_meant(name, settings, error, words):
    with pytest.raises(error, match=words):
        build(name, **settings)


def test_a_table_optimizer_has_only_its_options():
    with pytest.raises(TypeError, match="Sign has no option 'eps'"):
        get("sign").optimizer([torch.nn.Parameter(torch.ones(1))], eps=1.0)
    optimizer = build("sign")
    with pytest.raises(ValueError, match="Invalid learning rate"):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))], "lr": -1.0})
    assert len(optimizer.param_groups) == 1
