"""Optimizers that do what few do. They are raced, or a sentence says why not."""

import collections
import dataclasses
import functools
import math

import torch
from torch.optim import SGD, Optimizer

COUNT = {"steps": 0}
LR = torch.tensor(1e-2)


class Plain(Optimizer):
    def __init__(self, params, lr=1e-2):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad, alpha=float(group["lr"]))


class Sharp(Plain):
    """Evaluates the loss twice a step, as SAM does."""

    @torch.no_grad()
    def step(self, closure):
        params = self.param_groups[0]["params"]
        with torch.enable_grad():
            loss = closure()
        before = [p.clone() for p in params]
        torch._foreach_add_(params, [p.grad for p in params], alpha=0.05)
        with torch.enable_grad():
            closure()
        torch._foreach_copy_(params, before)
        super().step()
        return loss


class Sparse(Plain):
    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            p.data.sub_(p.grad.coalesce().to_dense())


class NoOptimizer:
    def __init__(self, params, lr=1e-2):
        self.params, self.lr = list(params), lr


class NoGroups(Optimizer):
    def __init__(self, params, lr=1e-2):
        self.params = list(params)


class Halves(Plain):
    def step(self, closure=None):
        super().step()
        for p in self.param_groups[0]["params"]:
            p.data = p.data.bfloat16()


class Doubles(Plain):
    def __init__(self, params, lr=1e-2):
        params = list(params)
        for p in params:
            p.data = p.data.double()
        super().__init__(params, lr)


class OfModel(Plain):
    def __init__(self, model, lr=1e-2):
        super().__init__(model.parameters(), lr)
        self.model = model


class OwnSchedule(Plain):
    def step(self, closure=None):
        super().step()
        for group in self.param_groups:
            group["lr"] *= 0.9


def with_scheduler(params, lr=1e-2):
    optimizer = SGD(params, lr=lr)
    return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1)


class NotANumber(Plain):
    @torch.no_grad()
    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            p.fill_(math.nan)


class StateOfNumbers(Plain):
    def step(self, closure=None):
        super().step()
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            state["steps"] = state.get("steps", 0) + 1
            state["log"] = {"name": "x", "last": [None, True, float(p.detach().sum())]}


class StateOfAQueue(Plain):
    def step(self, closure=None):
        super().step()
        for p in self.param_groups[0]["params"]:
            self.state[p]["last"] = collections.deque([1.0], maxlen=3)


class StateOfAFunction(Plain):
    def step(self, closure=None):
        super().step()
        for p in self.param_groups[0]["params"]:
            self.state[p]["function"] = lambda: 3


class RenamedLr(Optimizer):
    def __init__(self, params, learning_rate=1e-2):
        super().__init__(params, {"learning_rate": learning_rate})

    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            p.data.sub_(p.grad, alpha=self.param_groups[0]["learning_rate"])


class HiddenLr(Optimizer):
    def __init__(self, params, lr=1e-2):
        super().__init__(params, {"eta": lr})

    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            p.data.sub_(p.grad, alpha=self.param_groups[0]["eta"])


class TensorLr(Plain):
    def __init__(self, params, lr=LR):
        super().__init__(params, torch.as_tensor(lr))


class NoLr(Plain):
    def __init__(self, params, lr=None):
        super().__init__(params, 1e-2 if lr is None else lr)


class Foreach(Plain):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            grads = [p.grad for p in group["params"]]
            torch._foreach_add_(group["params"], grads, alpha=-group["lr"])


class Slots(Plain):
    __slots__ = ("extra",)

    def __init__(self, params, lr=1e-2):
        super().__init__(params, lr)
        self.extra = 3


@dataclasses.dataclass(frozen=True)
class Factory:
    momentum: float = 0.9

    def __call__(self, params, lr=1e-2):
        return SGD(params, lr=lr, momentum=self.momentum)


def decorate(function):
    @functools.wraps(function)
    def inner(*args, **options):
        return function(*args, **options)

    return inner


def decorate_badly(function):
    def inner(*args, **options):
        return function(*args, **options)

    return inner


@decorate
def decorated(params, lr=3e-2):
    return SGD(params, lr=lr)


@decorate_badly
def disguised(params, lr=3e-2):
    return SGD(params, lr=lr)


built = Factory(0.5)
shortest = lambda params, lr=1e-2: SGD(params, lr=lr)  # noqa: E731
partial = functools.partial(SGD, momentum=0.9, lr=0.05)


class Counting(Plain):
    def step(self, closure=None):
        COUNT["steps"] += 1
        super().step()


class Talking(Plain):
    def __init__(self, params, lr=1e-2):
        print("made")  # noqa: T201
        super().__init__(params, lr)

    def step(self, closure=None):
        print("a step")  # noqa: T201
        super().step()


class Refuses(Plain):
    def __init__(self, params, lr=1e-2):
        raise RuntimeError("not today")


class Exits(Plain):
    def step(self, closure=None):
        raise SystemExit(0)


class ExitsLate(Plain):
    def step(self, closure=None):
        super().step()
        for p in self.param_groups[0]["params"]:
            self.state[p]["n"] = self.state[p].get("n", 0) + 1
            if self.state[p]["n"] > 5:
                raise SystemExit(0)


class LrFirst(Optimizer):
    def __init__(self, lr, params):
        super().__init__(params, {"lr": lr})


class WantsALoss(Plain):
    def step(self, loss=None):
        if loss is None:
            raise TypeError("step() needs the loss")


class Outer:
    class Inner(Plain):
        pass


class Größe(Plain):
    """Of any name."""
