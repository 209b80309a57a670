"""What torch's own suites demand of an optimizer, restated: one row for each demand.

The options are those with which torch tests Adam, and AdaMomentum's own; each is tried in every
implementation. Demands on GPUs and on huge tensors are left out. Those on memory and on
torch.compile are in test_optimizer.py, those on what a step refuses in test_validation.py.
"""

import copy
import io
import math

import pytest
import torch
from torch.optim import lr_scheduler
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from adamomentum import AdaMomentum
from adamomentum.torch import _single
from adamomentum_lab.contract import gradient, parameter

common = pytest.importorskip("torch.testing._internal.common_optimizers")
ADAM = next(info for info in common.optim_db if info.optim_cls is torch.optim.Adam)
OWN = [
    {"decoupled_weight_decay": False, "weight_decay": 0.1},
    {"nesterov": True},
    {"debias_momentum": True},
    {"rectify": True},
    {"weight_decay": torch.tensor(0.1), "eps": torch.tensor(1e-8)},
    {"state_dtype": torch.bfloat16},
]


def inputs(device, dtype=None):
    own = [common.OptimizerInput(None, dict(options), ", ".join(options)) for options in OWN]
    return ADAM.optim_inputs_func(device) + own


INFO = common.OptimizerInfo(
    AdaMomentum,
    optim_inputs_func=inputs,
    scheduler_inputs=ADAM.scheduler_inputs,
    optim_error_inputs_func=ADAM.optim_error_inputs_func,
    supported_impls=ADAM.supported_impls,
    not_og_supported_flags=ADAM.not_og_supported_flags,
    has_capturable_arg=True,
    supports_fused_on=("cpu",),
)


# Torch has no foreach among its own on a CPU.
IMPLEMENTATIONS = ("single", "foreach", "fused", "differentiable")


def configurations():
    """Options times implementations; `make check` has the defaults in each."""
    for one in INFO.optim_inputs_func("cpu"):
        for chosen in IMPLEMENTATIONS:
            flags = {flag: flag == chosen for flag in INFO.supported_impls}
            if not (chosen == "differentiable" and "state_dtype" in one.kwargs):
                yield pytest.param(
                    {**one.kwargs, **flags},
                    id=f"{one.desc}-{chosen}",
                    marks=[pytest.mark.slow] if one.kwargs else [],
                )


DEMANDS = []


def demand(function):
    DEMANDS.append(function)
    return function


def plain(options):
    """The same options, one parameter after the other."""
    return {**options, "foreach": False, "fused": False}


class Affine:
    """A weight and a bias, the least squares of which torch's suite descends or ascends."""

    def __init__(self, gaps=False, dtype=torch.float32):
        generator = torch.Generator().manual_seed(0)
        weight, bias, self.x = (
            torch.randn(shape, generator=generator).to(dtype) for shape in ((10, 5), (10,), (5,))
        )
        self.params = [weight.requires_grad_(), bias.requires_grad_()]
        if gaps:
            wide = [param.detach().unsqueeze(-1).repeat_interleave(2, -1) for param in self.params]
            self.params = [param[..., 0].requires_grad_() for param in wide]

    def loss(self):
        weight, bias = self.params
        return (weight.mv(self.x) + bias).square().sum()

    def backward(self):
        for param in self.params:
            param.grad = None
        loss = self.loss()
        loss.backward(inputs=[param for param in self.params if param.requires_grad])
        return loss

    def named(self, yes=True):
        return list(zip("ab", self.params, strict=True)) if yes else self.params


def walk(task, optimizer, steps):
    for _ in range(steps):
        task.backward()
        optimizer.step()


def leaves(options, *params):
    """Parameters, or copies of them through which autograd can run."""
    return [p.clone() if options["differentiable"] else p for p in params]


def same(one, other, **tolerance):
    torch.testing.assert_close(one, other, equal_nan=True, **tolerance)


def without_names(state_dict):
    groups = [
        {key: value for key, value in group.items() if key != "param_names"}
        for group in state_dict["param_groups"]
    ]
    return {**state_dict, "param_groups": groups}


def trainable(options):
    return not options["differentiable"]  # its parameters must not be leaves


@demand
def goes_in_the_right_direction(options):
    if not trainable(options):
        return
    for gaps in (False, True):
        if gaps and options["fused"]:
            continue
        for schedule in ([], *INFO.scheduler_inputs):
            task = Affine(gaps)
            optimizer = AdaMomentum(task.params, **copy.deepcopy(options))
            schedulers = [make(optimizer) for make in schedule]
            before = task.loss().item()
            for _ in range(10):
                loss = task.backward()
                optimizer.step()
                for scheduler in schedulers:
                    plateau = isinstance(scheduler, lr_scheduler.ReduceLROnPlateau)
                    scheduler.step(*([loss.item()] if plateau else []))
            assert (task.loss().item() > before) == options.get("maximize", False)


@demand
def matches_the_loop(options):
    """With a layer frozen for a while, a step without gradients, and a 0-dim parameter."""
    if not trainable(options):
        return
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        if dtype is torch.float64 and options.get("state_dtype"):
            continue
        half = torch.finfo(dtype).bits == 16
        params, optimizers = [], []
        for chosen in (options, plain(options)):
            torch.manual_seed(1)
            model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)).to(dtype)
            params.append([*model.parameters(), parameter(dtype=dtype)])
            optimizers.append(AdaMomentum(params[-1], **chosen))
        for seed in range(7):
            for ours in params:
                for i, param in enumerate(ours):
                    frozen = seed == 2 or (i >= 2 and 3 <= seed < 5)
                    param.grad = None if frozen else gradient(param, 10 * seed + i)
            for optimizer in optimizers:
                optimizer.step()
            tolerance = {"rtol": 5e-3, "atol": 5e-3} if half else {}
            for one, other in zip(*params, strict=True):
                same(one, other, **tolerance)
                states = [o.state[p] for o, p in zip(optimizers, (one, other), strict=True)]
                assert states[0].keys() == states[1].keys()
                for key in states[0]:
                    same(states[0][key], states[1][key])
                    states[0][key].copy_(states[1][key])
                with torch.no_grad():
                    one.copy_(other)


@demand
def dtypes_mix_in_a_group(options):
    """An integer parameter that never has a gradient is among them."""
    if not trainable(options) or options.get("state_dtype"):
        return
    results = []
    for chosen in (options, plain(options)):
        dtypes = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
        params = [parameter(2, 3, dtype=dtype) for dtype in dtypes]
        optimizer = AdaMomentum([*params, torch.arange(6)], **chosen)
        for seed in range(3):
            for param in params:
                param.grad = gradient(param, seed)
            optimizer.step()
        results.append(params)
    for one, other in zip(*results, strict=True):
        tolerance = {"rtol": 5e-3, "atol": 5e-3} if torch.finfo(one.dtype).bits == 16 else {}
        same(one, other, **tolerance)


@demand
def takes_a_tensor_as_lr(options):
    """Of any shape with one element; a scheduler changes it in place."""
    if not trainable(options):
        return
    if options["foreach"]:
        with pytest.raises(ValueError, match="lr as a Tensor is not supported"):
            AdaMomentum(Affine().params, **{**options, "lr": torch.tensor(1e-3)})
        return
    for shape in ((), (1,), (1, 1)):
        results = []
        for lr in (1e-3, torch.full(shape, 1e-3, dtype=torch.float64)):
            task = Affine()
            optimizer = AdaMomentum(task.params, **{**options, "lr": lr})
            given = optimizer.param_groups[0]["lr"]
            scheduler = lr_scheduler.StepLR(optimizer, 2, 0.5)
            for _ in range(5):
                walk(task, optimizer, 1)
                scheduler.step()
            if isinstance(lr, torch.Tensor):
                assert optimizer.param_groups[0]["lr"] is given
                assert given.item() == pytest.approx(2.5e-4)
            results.append(task.params)
        same(*results)


@demand
def groups_follow_a_scheduler(options):
    """Each with its own lr, as if it had an optimizer and a scheduler of its own."""
    if not trainable(options) or torch.is_tensor(options.get("lr")):
        return
    for make in INFO.scheduler_inputs:
        together, apart = Affine(), Affine()
        weight, bias = together.params
        groups = [{"params": [weight], "lr": 1e-2}, {"params": [bias]}]
        optimizers = [AdaMomentum(groups, **{**options, "lr": 1e-3})]
        for param, lr in zip(apart.params, (1e-2, 1e-3), strict=True):
            optimizers.append(AdaMomentum([param], **{**options, "lr": lr}))
        schedulers = [[one(optimizer) for one in make] for optimizer in optimizers]
        for _ in range(4):
            losses = [together.backward().item(), apart.backward().item()]
            for optimizer, own in zip(optimizers, schedulers, strict=True):
                optimizer.step()
                for scheduler in own:
                    plateau = isinstance(scheduler, lr_scheduler.ReduceLROnPlateau)
                    scheduler.step(*(losses[:1] if plateau else []))
        same(together.params, apart.params)


@demand
def empty_parameters_are_no_obstacle(options):
    """Without elements, with a gradient or none, beside one that has elements."""
    if not trainable(options):
        return
    results = []
    for shapes in ([(3,)], [(0,), (3,), (2, 0)]):
        params = [parameter(*shape) for shape in shapes]
        optimizer = AdaMomentum(params, **options)
        for seed in range(2):
            for param in params:
                param.grad = gradient(param, seed) if param.numel() or seed else None
            optimizer.step()
        results.append(next(param for param in params if param.numel()))
    same(*results)


@demand
def parameters_are_listed_once(options):
    """Twice in a group is a warning, in two groups an error."""
    param = parameter(2)
    with pytest.warns(UserWarning, match="duplicate parameters"):
        AdaMomentum([param, param], **options)
    with pytest.raises(ValueError, match="more than one parameter group"):
        AdaMomentum([{"params": [param]}, {"params": [param]}], **options)
    with pytest.raises(TypeError, match="iterable of Tensors"):
        AdaMomentum(param, **options)


@demand
def complex_parameters_are_pairs(options):
    """Beside a real one, and in every step."""
    if not trainable(options) or options.get("state_dtype"):
        return
    generator = torch.Generator().manual_seed(0)
    numbers = [
        torch.randn(4, 3, dtype=torch.complex64, generator=generator).requires_grad_(),
        torch.randn(4, dtype=torch.complex64, generator=generator).requires_grad_(),
        torch.randn(4, 3, generator=generator).requires_grad_(),
    ]

    def real(x):
        return torch.view_as_real(x.detach()).clone() if x.is_complex() else x.detach().clone()

    pairs = [real(x).requires_grad_() for x in numbers]
    optimizers = [AdaMomentum(numbers, **options), AdaMomentum(pairs, **options)]
    for _ in range(3):
        for number, pair in zip(numbers, pairs, strict=True):
            number.grad = torch.randn(number.shape, dtype=number.dtype, generator=generator)
            pair.grad = real(number.grad)
        for optimizer in optimizers:
            optimizer.step()
        same([real(x) for x in numbers], [x.detach() for x in pairs])


@demand
def groups_have_their_own_weight_decay(options):
    if not trainable(options):
        return
    task = Affine()
    weight, bias = task.params
    optimizer = AdaMomentum(
        [{"params": [weight], **options}, {"params": [bias], **options, "weight_decay": 0.0}]
    )
    before = task.loss().item()
    walk(task, optimizer, 10)
    assert (task.loss().item() > before) == options.get("maximize", False)


@demand
def groups_have_their_own_lr(options):
    if not trainable(options):
        return
    task, aside = Affine(), parameter(2)
    before, start = aside.detach().clone(), task.loss().item()
    optimizer = AdaMomentum(
        [{"params": task.params, "lr": 1e-3, **options}, {"params": [aside]}], lr=1e-28
    )
    aside.grad = torch.ones(2)
    walk(task, optimizer, 10)
    assert (task.loss().item() > start) == options.get("maximize", False)
    assert torch.equal(aside, before)


@demand
def does_nothing_without_gradients(options):
    params = [torch.randn(2, 3), torch.randn(2, 3)]
    before = copy.deepcopy(params)
    optimizer = AdaMomentum(params, **options)
    assert optimizer.step(lambda: torch.tensor([1.0])) == 1
    same(params, before, rtol=0, atol=0)
    assert not optimizer.state


@demand
def does_nothing_for_zero_gradients(options):
    if options.get("weight_decay", 0) != 0:
        return
    (param,) = leaves(options, parameter(5, 1))
    before = param.detach().clone()
    param.grad = torch.zeros(5, 1)
    AdaMomentum([param], **options).step()
    assert torch.equal(param, before)


@demand
def gradients_are_never_written(options):
    (param,) = leaves(options, parameter(5, 3))
    param.grad = gradient(param, 0)
    before, version = param.grad.clone(), param.grad._version
    optimizer = AdaMomentum([param], **options)
    optimizer.step()
    optimizer.step()
    assert torch.equal(param.grad, before)
    assert param.grad._version == version


@demand
def can_be_printed(options):
    assert repr(AdaMomentum([parameter(2)], **options)).startswith("AdaMomentum (")


@demand
def a_state_dict_is_deterministic(options):
    """Whether either optimizer knows names or not."""
    if not trainable(options):
        return
    for first, second in ((True, True), (True, False), (False, True), (False, False)):
        task = Affine()
        optimizer = AdaMomentum(task.named(first), **options)
        walk(task, optimizer, 3)
        other = Affine()
        for param, value in zip(other.params, task.params, strict=True):
            param.data.copy_(value)
        again = AdaMomentum(other.named(second), **options)
        again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        walk(task, optimizer, 3)
        walk(other, again, 3)
        same(task.params, other.params, rtol=0, atol=0)
        one, two = without_names(optimizer.state_dict()), without_names(again.state_dict())
        same(one["state"], two["state"], rtol=0, atol=0)
        assert str(one["param_groups"]) == str(two["param_groups"])
        if first or second:
            assert again.state_dict()["param_groups"][0]["param_names"] == ["a", "b"]
        again.param_groups.extend(again.param_groups)
        repeated = without_names(again.state_dict())["param_groups"]
        assert str(repeated[-1]) == str(one["param_groups"][-1])


@demand
def loads_what_older_versions_saved(options):
    """Without the options that came later, and with the step as a number."""
    if not trainable(options):
        return
    task = Affine()
    optimizer = AdaMomentum(task.params, **options)
    walk(task, optimizer, 2)
    old = copy.deepcopy(optimizer.state_dict())
    for group in old["param_groups"]:
        for flag in INFO.not_og_supported_flags:
            group.pop(flag, None)
    for state in old["state"].values():
        state["step"] = state["step"].item()
    optimizer.load_state_dict(old)
    walk(task, optimizer, 1)
    assert {float(state["step"]) for state in optimizer.state.values()} == {3.0}


@demand
def a_file_holds_the_state(options):
    if not trainable(options):
        return
    for named in (True, False):
        task = Affine()
        optimizer = AdaMomentum(task.named(named), **options)
        walk(task, optimizer, 3)
        saved = optimizer.state_dict()
        for weights_only in (True, False):
            file = io.BytesIO()
            torch.save(saved, file)
            file.seek(0)
            loaded = torch.load(file, weights_only=weights_only)
            same(loaded["state"], saved["state"], rtol=0, atol=0)
            assert str(loaded["param_groups"]) == str(saved["param_groups"])


@demand
def state_dict_hooks_are_called(options):
    optimizer = AdaMomentum([parameter(2)], **options)
    post = optimizer.register_state_dict_post_hook(
        lambda _, saved: {**saved, "seen": saved["state"].pop("mark", None)}
    )
    assert optimizer.state_dict()["seen"] is None
    optimizer.register_state_dict_pre_hook(lambda o: o.state.update(mark=1))
    saved = optimizer.state_dict()
    assert saved["seen"] == 1
    assert "mark" not in saved["state"]
    post.remove()
    assert optimizer.state_dict()["state"]["mark"] == 1


@demand
def load_hooks_are_called_in_order(options):
    def changed(lr):
        def hook(_, saved):
            saved = copy.deepcopy(saved)
            saved["param_groups"][0]["lr"] = lr
            return saved

        return hook

    optimizer = AdaMomentum([parameter(2)], **options)
    saved = optimizer.state_dict()
    optimizer.register_load_state_dict_pre_hook(changed(0.002))
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append(o.param_groups[0]["lr"]))
    seen = []
    optimizer.load_state_dict(saved)
    optimizer.register_load_state_dict_pre_hook(changed(0.003), prepend=True)
    optimizer.load_state_dict(saved)
    optimizer.register_load_state_dict_pre_hook(changed(0.004))
    optimizer.load_state_dict(saved)
    assert seen == [0.002, 0.002, 0.004]


@demand
def step_hooks_are_called_in_order(options):
    optimizer = AdaMomentum([torch.ones(2)], **options)
    calls = []
    handles = [
        register_optimizer_step_pre_hook(lambda *_: calls.append("all before")),
        register_optimizer_step_post_hook(lambda *_: calls.append("all after")),
        optimizer.register_step_pre_hook(lambda *_: calls.append("before")),
        optimizer.register_step_post_hook(lambda *_: calls.append("after")),
    ]
    try:
        optimizer.step()
    finally:
        for handle in handles:
            handle.remove()
    optimizer.step()
    assert calls == ["all before", "before", "after", "all after"]


@demand
def a_hook_sees_the_call_and_may_change_it(options):
    optimizer = AdaMomentum([torch.ones(2)], **options)
    seen = []

    def before(hooked, args, kwargs):
        seen.append((hooked, args, kwargs))
        return (*args, lambda: torch.tensor(2.0)), kwargs

    optimizer.register_step_pre_hook(before)
    optimizer.register_step_post_hook(lambda *call: seen.append(call))
    assert optimizer.step() == 2
    assert [call[0] for call in seen] == [optimizer, optimizer]
    assert [len(call[1]) for call in seen] == [1, 2]  # with the optimizer itself


@demand
def a_deep_copy_has_the_public_attributes(options):
    task = Affine()
    optimizer = AdaMomentum(task.params, **options)
    if trainable(options):
        walk(task, optimizer, 2)
    copied = copy.deepcopy(optimizer)
    public = [{key for key in vars(o) if key[0] != "_"} for o in (optimizer, copied)]
    assert public[0] == public[1]


@demand
def a_step_makes_a_state(options):
    (param,) = leaves(options, parameter(3))
    optimizer = AdaMomentum([param], **options)
    param.grad = gradient(param, 0)
    optimizer.step()
    assert all(len(state) > 0 for state in optimizer.state.values())
    assert len(optimizer.state) == 1


@demand
def autograd_runs_through_parameter_gradient_and_state(options):
    if trainable(options):
        return
    keys = ["exp_avg", "exp_avg_momentum_sq", "max_exp_avg_momentum_sq"]
    keys = keys if options.get("amsgrad") else keys[:2]

    def after(start, grad, *moments):
        param = start.clone()
        param.grad = grad
        optimizer = AdaMomentum([param], **{"lr": 0.9, **options})
        state = {key: moment.clone() for key, moment in zip(keys, moments, strict=True)}
        optimizer.state[param].update(step=torch.tensor(10.0, dtype=torch.float64), **state)
        optimizer.step()
        return param, *(optimizer.state[param][key] for key in keys)

    torch.manual_seed(0)
    given = [torch.rand(4, dtype=torch.float64, requires_grad=True) for _ in range(2 + len(keys))]
    assert torch.autograd.gradcheck(after, given)


@demand
def autograd_runs_back_to_the_options(options):
    if trainable(options):
        return

    def meta_loss(lr, weight_decay, beta1, beta2):
        params = torch.tensor([0.3, 0.6], dtype=torch.float64, requires_grad=True).clone()
        optimizer = AdaMomentum(
            [params],
            **{**options, "lr": lr, "betas": (beta1, beta2), "weight_decay": weight_decay},
        )
        for _ in range(3):
            loss = (params.sum() - 2).square()
            (params.grad,) = torch.autograd.grad(loss, params, create_graph=True)
            optimizer.step()
        return (params.sum() - 2).square()

    given = [
        torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (1e-3, 0.1, 0.9, 0.99)
    ]
    assert torch.autograd.gradcheck(meta_loss, given)


@demand
def every_scheduler_drives_it_as_it_drives_adam(options):
    if not trainable(options):
        return
    for make in SCHEDULERS:
        rates = []
        for cls, chosen in ((AdaMomentum, options), (torch.optim.Adam, {})):
            task = Affine()
            optimizer = cls(task.params, **{**chosen, "lr": 0.05})
            scheduler = make(optimizer)
            rates.append([])
            for _ in range(6):
                task.backward()
                optimizer.step()
                plateau = isinstance(scheduler, lr_scheduler.ReduceLROnPlateau)
                scheduler.step(*([1.0] if plateau else []))
                group = optimizer.param_groups[0]
                rates[-1].append((float(group["lr"]), float(group["betas"][0])))
            assert all(param.isfinite().all() for param in task.params)
        assert rates[0] == rates[1]


SCHEDULERS = [
    lambda o: lr_scheduler.LambdaLR(o, lambda t: 0.9**t),
    lambda o: lr_scheduler.MultiplicativeLR(o, lambda t: 0.9),
    lambda o: lr_scheduler.StepLR(o, 2),
    lambda o: lr_scheduler.MultiStepLR(o, [1, 3]),
    lambda o: lr_scheduler.ConstantLR(o, 0.5, 3),
    lambda o: lr_scheduler.LinearLR(o, 0.1, total_iters=4),
    lambda o: lr_scheduler.ExponentialLR(o, 0.5),
    lambda o: lr_scheduler.PolynomialLR(o, 4),
    lambda o: lr_scheduler.CosineAnnealingLR(o, 4),
    lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2),
    lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0),
    lambda o: lr_scheduler.CyclicLR(o, 1e-3, 0.1, step_size_up=2),
    lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=8),
    lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, 0.5, 3), lr_scheduler.ExponentialLR(o, 0.9)]
    ),
    lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, 0.5, 3), lr_scheduler.ExponentialLR(o, 0.9)], [2]
    ),
    lambda o: torch.optim.swa_utils.SWALR(o, 0.01, anneal_epochs=3),
]


@demand
def a_scaler_unscales_once_and_skips(options):
    """Also where `unscale_` came first, and where a gradient went away after it."""
    if not trainable(options):
        return

    def run(scaled, unscale, drop, spoil=False):
        task = Affine()
        optimizer = AdaMomentum(task.params, **options)
        scaler = torch.amp.GradScaler("cpu", init_scale=128.0, enabled=scaled)
        for _ in range(2):
            for param in task.params:
                param.grad = None
            scaler.scale(task.loss()).backward()
            if spoil:
                task.params[1].grad[0] = math.inf
            if unscale:
                scaler.unscale_(optimizer)
            if drop:
                task.params[0].grad = None
            scaler.step(optimizer)
            scaler.update()
        return task.params

    for drop in (False, True):
        expected = run(False, False, drop)
        for unscale in (False, True):
            same(run(True, unscale, drop), expected)
    same(run(True, False, False, spoil=True), Affine().params, rtol=0, atol=0)


@demand
def a_scaler_serves_two_optimizers(options):
    """With accumulated and clipped gradients, of which one optimizer's overflow."""
    if not trainable(options):
        return

    def run(scaled):
        tasks = [Affine(), Affine()]
        optimizers = [AdaMomentum(task.params, **options) for task in tasks]
        scaler = torch.amp.GradScaler("cpu", init_scale=128.0, growth_interval=1, enabled=scaled)
        for i in range(3):
            for task, optimizer in zip(tasks, optimizers, strict=True):
                optimizer.zero_grad()
                for _ in range(2):
                    scaler.scale(task.loss()).backward()
            if i == 1:
                tasks[1].params[0].grad[0, 0] = math.inf
            scaler.unscale_(optimizers[0])
            torch.nn.utils.clip_grad_norm_(tasks[0].params, 0.5)
            scaler.step(optimizers[0])
            if scaled or i != 1:
                scaler.step(optimizers[1])
            scaler.update()
        return [task.params for task in tasks], scaler.get_scale()

    (expected, _), (found, scale) = run(False), run(True)
    same(found, expected)
    assert scale == 256  # twice as large, a half, twice as large


@demand
def a_penalty_on_gradients_goes_through_a_scaler(options):
    if not trainable(options):
        return

    def run(scaled):
        task = Affine()
        optimizer = AdaMomentum(task.params, **options)
        scaler = torch.amp.GradScaler("cpu", init_scale=128.0, enabled=scaled)
        for _ in range(2):
            optimizer.zero_grad()
            loss = task.loss()
            grads = torch.autograd.grad(scaler.scale(loss), task.params, create_graph=True)
            penalty = sum((grad / scaler.get_scale()).square().sum() for grad in grads)
            scaler.scale(loss + 0.01 * penalty).backward()
            scaler.step(optimizer)
            scaler.update()
        return task.params

    same(run(True), run(False))


@demand
def what_a_scaler_found_is_no_step(options):
    if not options["fused"]:
        return
    for scale in (None, torch.ones(1)):
        params = [torch.ones(1) for _ in range(3)]
        for param in params:
            param.grad = torch.ones(1)
        optimizer = AdaMomentum(params, **options)
        optimizer.grad_scale, optimizer.found_inf = scale, torch.tensor(1.0)
        optimizer.step()
        same(params, [torch.ones(1)] * 3, rtol=0, atol=0)
        assert all(state["step"] == 0 for state in optimizer.state.values())


@demand
def a_checkpoint_may_switch_the_implementation(options):
    """One that was written where another was in use: on a GPU, say."""
    if not trainable(options):
        return
    for flag in ("fused", "capturable"):
        if flag == "fused" and options["foreach"]:
            continue
        task = Affine()
        optimizer = AdaMomentum(task.params, **options)
        walk(task, optimizer, 1)
        saved = copy.deepcopy(optimizer.state_dict())
        saved["param_groups"][0][flag] = True
        again = AdaMomentum(task.params, **{**options, flag: True})
        again.load_state_dict(saved)
        walk(task, again, 1)
        assert again.state[task.params[0]]["step"] == 2


@pytest.mark.parametrize("options", list(configurations()))
@pytest.mark.parametrize("check", DEMANDS, ids=lambda check: check.__name__)
def test_torch_demands(check, options):
    check(copy.deepcopy(options))


def errors():
    found = INFO.optim_error_inputs_func("cpu", torch.float32)
    # These two torch lists for GPUs alone.
    pair = {
        "`fused` and `foreach` cannot be `True` together": {"foreach": True, "fused": True},
        "`fused` does not support `differentiable`": {"fused": True, "differentiable": True},
    }
    return found + [
        common.ErrorOptimizerInput(
            common.OptimizerInput([torch.ones(2)], options, words), error_regex=words
        )
        for words, options in pair.items()
    ]


@pytest.mark.parametrize("error", errors(), ids=lambda e: e.optimizer_error_input.desc)
def test_torch_demands_an_error(error):
    given = error.optimizer_error_input
    params = [torch.ones(2)] if given.params is None else given.params
    is_warning = issubclass(error.error_type, Warning)
    catch = pytest.warns if is_warning else pytest.raises
    with catch(error.error_type, match=error.error_regex):
        AdaMomentum(params, **given.kwargs)


@pytest.mark.parametrize("options", ADAM.optim_inputs_func("cpu"), ids=lambda o: o.desc)
def test_the_loop_is_not_the_default(options, monkeypatch):
    monkeypatch.setattr(_single, "run", None)
    task = Affine()
    walk(task, AdaMomentum(task.params, **options.kwargs), 1)


@pytest.mark.parametrize("default", [torch.float64, torch.float16])
def test_the_default_dtype_does_not_part_implementations(default):
    before = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        results = []
        for chosen in ({"foreach": True}, {"foreach": False}, {}):
            task = Affine(dtype=torch.float64)
            optimizer = AdaMomentum(task.params, **chosen)
            walk(task, optimizer, 7)
            results.append(task.params)
            steps = {state["step"].dtype for state in optimizer.state.values()}
            assert steps == {torch.float64 if default is torch.float64 else torch.float32}
    finally:
        torch.set_default_dtype(before)
    same(results[0], results[1])
    same(results[2], results[1])
