"""Random steps of the native kernel, ordinary ones and abuse, beside the float64 oracle.

    python -m tests.adamomentum.torch.fuzz --cases 1000 --seed 0

Each case builds one optimizer twice from the same seed, with fused=None and with foreach=False,
and takes the same steps with both. Every number of both must lie within the rounding errors of
bounds.py around the oracle's step from the state before. Both must raise the same exception, with
nothing changed, or have NaN in the same places. Where parameters share memory, the order of
updates counts and backends may choose it: there the kernel is compared with itself, bit for bit.
`make fuzz` runs this under sanitizers.
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings

import numpy as np
import torch

from adamomentum import AdaMomentum
from adamomentum.torch import _native
from tests.adamomentum.torch.bounds import Dtypes, State, expect

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
KEYS = ("exp_avg", "exp_avg_momentum_sq", "max_exp_avg_momentum_sq")


def values(rng, shape, dtype):
    """Numbers of some size; now and then zeros, infinities or NaNs."""
    x = torch.randn(shape, dtype=torch.float64, generator=rng.torch)
    x = x * 10.0 ** rng.choice([-30, -6, -3, 0, 0, 0, 2, 8, 30])
    kind = rng.random()
    if kind < 0.1:
        x = torch.zeros_like(x)
    elif kind < 0.2 and x.numel():
        x.view(-1)[rng.randrange(x.numel())] = rng.choice(
            [float("inf"), float("-inf"), float("nan")]
        )
    return x.to(dtype)


def laid_out(rng, x):
    """The same numbers in another place or order of memory."""
    kind = rng.random()
    if kind < 0.5 or not x.numel():
        return x.clone()
    if kind < 0.6 and x.dim() == 4:
        return x.contiguous(memory_format=torch.channels_last)
    if kind < 0.7 and x.dim() >= 2:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if kind < 0.75:  # with gaps
        gaps = torch.zeros(2 * x.numel(), dtype=x.dtype)
        view = gaps[::2].view(x.shape)
        return view.copy_(x)
    if kind < 0.8:  # not at a multiple of its width
        raw = bytearray(x.numel() * x.element_size() + 1)
        view = torch.frombuffer(raw, dtype=x.dtype, offset=1, count=x.numel()).view(x.shape)
        return view.copy_(x)
    if kind < 0.85:
        return torch._neg_view(-x)
    return x.clone()


def shape_of(rng):
    """Seldom more than the 65,536 elements from which on threads share the work."""
    dims = rng.choice([0, 1, 1, 1, 2, 2, 3, 4])
    if dims == 2 and rng.random() < 0.05:
        return 70, 1030
    return tuple(rng.choice([0, 1, 2, 3, 5, 8, 17, 1030][: 7 if dims == 2 else 8]) if dims < 3
                 else rng.randrange(1, 6) for _ in range(dims))  # fmt: skip


def options_of(rng):
    found = {
        "lr": rng.choice([0.0, 1e-3, 0.1, 100.0]),
        "betas": rng.choice([(0.9, 0.999), (0.0, 0.0), (0.5, 0.9), (0.999, 0.999)]),
        "eps": rng.choice([1e-16, 0.0, 1e-8, 1e-40]),
        "weight_decay": rng.choice([0.0, 0.01, 1.0]),
    }
    for flag in ("decoupled_weight_decay", "amsgrad", "nesterov", "rectify", "debias_momentum",
                 "maximize", "stochastic_rounding"):  # fmt: skip
        found[flag] = rng.random() < 0.3
    if found["amsgrad"]:
        found["rectify"] = False
    found["state_dtype"] = rng.choice([None, None, torch.float32, torch.bfloat16, torch.float64])
    return found


class Case:
    """One optimizer and what happens to it, by a seed alone."""

    def __init__(self, seed, backend):
        self.rng = random.Random(seed)
        self.rng.torch = torch.Generator().manual_seed(seed)
        rng = self.rng
        dtype = rng.choice(DTYPES)
        self.params, self.aliased, self.undefined = [], False, False
        for _ in range(rng.choice([1, 1, 2, 3, 8])):
            if self.params and rng.random() < 0.1:  # another view of memory that is there
                param = (
                    self.params[-1].detach()[: rng.randrange(3)] if self.params[-1].dim() else None
                )
                if param is not None:
                    self.aliased = True
                    self.params.append(torch.nn.Parameter(param))
                    continue
            x = values(rng, shape_of(rng), dtype)
            x = laid_out(rng, x.nan_to_num(0.0, 1.0, -1.0))
            self.params.append(torch.nn.Parameter(x.resolve_neg() if x.is_neg() else x))
        listed = list(self.params)
        if rng.random() < 0.1:
            listed.insert(rng.randrange(len(listed)), rng.choice(listed))
        cut = rng.randrange(len(listed) + 1) if rng.random() < 0.3 else 0
        second = [p for p in listed[cut:] if not any(p is q for q in listed[:cut])]
        groups = [{"params": g} for g in (listed[:cut], second) if g]
        self.steps = rng.choice([1, 2, 5])
        self.options = options_of(rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.optimizer = AdaMomentum(groups, **self.options, **backend)

    def prepare(self):
        """New gradients, and now and then abuse."""
        rng = self.rng
        for param in self.params:
            if rng.random() < 0.1:
                param.grad = None
                continue
            grad = values(rng, param.shape, param.dtype)
            param.grad = laid_out(rng, grad)
        if rng.random() < 0.15:
            self.abuse()
        if rng.random() < 0.1:
            self.optimizer.grad_scale = torch.tensor(rng.choice([1.0, 65536.0, 0.0]))

    def step(self):
        """Take a step; returns the type of the exception, if there is one."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.optimizer.step()
        except (TypeError, ValueError, RuntimeError) as error:
            return type(error)
        return None

    def abuse(self):
        """Do to the state or the options what no one should."""
        rng, state = self.rng, self.optimizer.state
        param = rng.choice(self.params)
        entries = state.get(param) or {}
        kind = rng.choice(
            ["step", "replace", "negate", "resize", "alias", "option", "data", "drop"]
        )
        if kind == "step" and entries:
            entries["step"].fill_(rng.choice([-0.0, -1.0, float("nan"), 3.0, 2.0**24, 2.0**40]))
        elif kind == "replace" and entries:
            entries[rng.choice(list(entries))] = rng.choice(
                [1, None, torch.zeros(3), torch.zeros(3, dtype=torch.int64), "x"]
            )
        elif kind == "negate" and "exp_avg" in entries and torch.is_tensor(entries["exp_avg"]):
            entries["exp_avg"] = torch._neg_view(entries["exp_avg"])
        elif kind == "resize" and "exp_avg" in entries and torch.is_tensor(entries["exp_avg"]):
            entries["exp_avg"] = entries["exp_avg"].new_zeros((rng.randrange(4), 2))
        elif kind == "alias" and "exp_avg" in entries:
            entries["exp_avg"] = entries.get("exp_avg_momentum_sq")
            self.undefined = True
        elif kind == "option":
            group = rng.choice(self.optimizer.param_groups)
            name = rng.choice(["eps", "lr", "weight_decay", "betas", "amsgrad", "nesterov"])
            group[name] = rng.choice([None, "x", -1.0, (0.5, 0.5), True])
        elif kind == "data":
            param.data = torch._neg_view(param.data)
        elif kind == "drop":
            state.pop(param, None)


def numbers(case):
    """Everything that a step may change."""
    found = [p.detach() for p in case.params]
    for p in case.params:
        state = case.optimizer.state.get(p) or {}
        found += [state[key] for key in sorted(state) if torch.is_tensor(state[key])]
    return [x.resolve_neg().clone() for x in found]


def array(x):
    return x.detach().resolve_neg().double().numpy().copy()


def snapshot(case):
    """What the oracle needs of each parameter that has a gradient: its state and its gradient."""
    found = {}
    for i, param in enumerate(case.params):
        if param.grad is None:
            continue
        state = case.optimizer.state.get(param) or {}
        theta = array(param)
        moments = [state.get(key) for key in KEYS]
        if not all(x is None or (torch.is_tensor(x) and x.shape == param.shape) for x in moments):
            continue  # no step can be taken with it
        m, v, v_max = (np.zeros_like(theta) if x is None else array(x) for x in moments)
        step = state.get("step")
        t = float(step) if torch.is_tensor(step) and step.numel() == 1 else 0.0
        found[i] = State(theta, m, v, v_max, t), array(param.grad)
    return found


class Tally:
    """How many numbers were held against the oracle, and how many no bound holds for."""

    checked = unbounded = 0


def far_from_oracle(case, before):
    """Which number is further from the oracle's than rounding explains, or nothing."""
    scale = getattr(case.optimizer, "grad_scale", None)
    scale = 1.0 if scale is None else float(scale)
    for group in case.optimizer.param_groups:
        for i, param in enumerate(case.params):
            times = sum(param is x for x in group["params"])
            if not times or i not in before:
                continue
            state, error = before[i][0], State(0.0, 0.0, 0.0, 0.0, 0.0)
            entries = case.optimizer.state[param]
            kinds = [entries[key].dtype if key in entries else param.dtype for key in KEYS]
            random = group["stochastic_rounding"] and param.dtype is torch.bfloat16
            dtypes = Dtypes(param.dtype, tuple(kinds), random)
            for _ in range(times):
                state, error = expect(state, error, before[i][1], group, scale, dtypes)
            t = torch.tensor(state.t, dtype=entries["step"].dtype)
            if state.t < 2**24 and entries["step"] != t:
                return f"step of parameter {i}: {float(entries['step'])}, not {state.t}"
            inputs = [before[i][1], *before[i][0][:4]]
            finite = np.all([np.isfinite(x) for x in inputs], axis=0) & (scale != 0)
            names = ("param", *KEYS) if group["amsgrad"] else ("param", *KEYS[:2])
            for name, value, limit in zip(names, state, error, strict=False):
                got = array(param if name == "param" else entries[name])
                bound = finite & np.isfinite(limit)
                Tally.checked += int(bound.sum())
                Tally.unbounded += int((~bound).sum())
                with np.errstate(invalid="ignore"):
                    wrong = bound & ~(np.abs(got - value) <= limit)
                if wrong.any():
                    at = tuple(np.argwhere(wrong)[0])
                    return (
                        f"{name} of parameter {i} at {at}: {got[at]!r}, the oracle has "
                        f"{value[at]!r} +- {limit[at]:.2g}"
                    )
    return ""


def differ(a, b):
    """Whether two lists of tensors have other bits, NaN being equal to NaN."""
    return not all(
        x.dtype == y.dtype and torch.equal(x.nan_to_num(0.5), y.nan_to_num(0.5))
        and torch.equal(x.isnan(), y.isnan())
        for x, y in zip(a, b, strict=True)
    )  # fmt: skip


def other_nans(a, b, inputs):
    """Whether NaNs are in different places, of numbers that came from the same kinds."""
    kinds = [[np.stack([np.isfinite(x) for x in (*state[:4], grad)]) for state, grad in
              before.values()] for before in inputs]  # fmt: skip
    if not all(np.array_equal(x, y) for x, y in zip(*kinds, strict=True)):
        return False
    return any(not torch.equal(x.isnan(), y.isnan()) for x, y in zip(a, b, strict=True))


def run(seed):
    """One case: what is wrong, or nothing."""
    fused = Case(seed, {})
    single = Case(seed, {} if fused.aliased else {"foreach": False})
    for i in range(fused.steps):
        fused.prepare(), single.prepare()
        before, inputs = numbers(fused), [snapshot(fused), snapshot(single)]
        errors = fused.step(), single.step()
        if fused.undefined:  # one tensor for two moments: no number is right, but nothing may break
            return ""
        if errors[0] is not errors[1]:
            return f"seed {seed}, step {i}: {errors[0]} against {errors[1]}"
        after = numbers(fused), numbers(single)
        if errors[0]:
            if len(before) != len(after[0]) or differ(before, after[0]):
                return f"seed {seed}, step {i}: a partial step"
            return ""
        if fused.aliased:
            if differ(*after):
                return f"seed {seed}, step {i}: the kernel differs from itself"
            continue
        for name, case, began in zip(("fused", "single"), (fused, single), inputs, strict=True):
            if wrong := far_from_oracle(case, began):
                return f"seed {seed}, step {i}, {name}: {wrong}"
        if other_nans(*after, inputs):
            return f"seed {seed}, step {i}: NaN in other places than the single backend"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    words = parser.parse_args()
    if reason := _native.unavailable(torch.device("cpu")):
        sys.exit(f"no native kernel: {reason}")
    failed = [said for seed in range(words.seed, words.seed + words.cases) if (said := run(seed))]
    share = Tally.checked / max(1, Tally.checked + Tally.unbounded)
    lines = [
        *failed[:20],
        f"{Tally.checked:,} numbers were held against the oracle ({share:.0%} of all)",
        f"{words.cases - len(failed)} passed, {len(failed)} failed",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
