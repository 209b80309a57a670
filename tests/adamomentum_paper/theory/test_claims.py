"""What the theory's pages compute, against the optimizers and cases worked by hand."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from adamomentum_lab import contenders
from adamomentum_paper.theory import assumption, curvature, epsilon, escape, noise_ratio, sphere
from adamomentum_paper.theory._network import Network
from adamomentum_paper.theory._pair import TwoOptimizers


def test_which_method_stays_longer():
    def case(a, b):
        return {"adamomentum": dict(zip(("low", "high"), a, strict=True)),
                "adam": dict(zip(("low", "high"), b, strict=True))}  # fmt: skip

    assert escape.longer(case((3, 4), (1, 2))) is True
    assert escape.longer(case((1, 2), (3, 4))) is False
    assert escape.longer(case((1, 3), (2, 4))) is None
    assert escape.longer(case((3, None), (1, 2))) is True
    assert escape.longer(case((1, 2), (3, None))) is False
    assert escape.longer(case((1, None), (2, None))) is None


@pytest.mark.parametrize("name", ["adam", "adamomentum"])
def test_descent_of_the_sphere_is_the_optimizer_s(name):
    start, lr = torch.tensor([[3.0, -1.0]], dtype=torch.float64), 0.25
    run = sphere.Descent(name, start, torch.tensor([[lr]], dtype=torch.float64))
    x = nn.Parameter(start.clone())
    optimizer = contenders.get(name).build([x], lr=lr, eps=0.0)
    beyond = torch.zeros(2, dtype=torch.float64)
    for _ in range(60):
        run.step()
        x.grad = 2 * x.detach()
        optimizer.step()
        torch.testing.assert_close(run.x, x.detach(), rtol=1e-9, atol=1e-12)
        beyond = torch.maximum(beyond, -x.detach()[0] * start[0].sign())
    assert run.overshoot.item() == pytest.approx(float(beyond.norm() / start.norm()))


def test_settling_by_hand(monkeypatch):
    run = sphere.Descent("adam", torch.ones(1, 2).double(), torch.ones(1, 1).double())
    places = iter([0.5, *[0.001] * 60, 0.5])
    monkeypatch.setattr(
        run._optimizer, "step", lambda: run._scaled.data.fill_(next(places)), raising=True
    )
    for _ in range(1 + sphere.STAY):
        assert run.settled.isinf().all()
        run.step()
    assert run.settled.tolist() == [2.0]  # the second step was the first within
    assert not run.left.any()
    for _ in range(11):
        run.step()
    assert run.left.all()
    assert run.settled.tolist() == [2.0]


@pytest.mark.parametrize("beta1", [0.0, 0.5, 0.9])
def test_noise_ratio_between_its_ends(beta1):
    assert noise_ratio.predicted(0.0, beta1) == pytest.approx(math.sqrt((1 + beta1) / (1 - beta1)))
    assert noise_ratio.predicted(1e6, beta1) == pytest.approx(1.0)


def test_pair_divides_the_same_momentum():
    x = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    pair = TwoOptimizers(x, 0.1, (0.9, 0.99))
    random = torch.Generator().manual_seed(0)
    for _ in range(20):
        pair.step(torch.randn(3, generator=random, dtype=torch.float64))
    theirs, ours = pair.squares()
    before = x.detach().clone(), pair._shadow.detach().clone()
    pair.step(torch.randn(3, generator=random, dtype=torch.float64))
    steps = [now.detach() - then for now, then in zip((x, pair._shadow), before, strict=True)]
    theirs, ours = pair.squares()
    torch.testing.assert_close(steps[1] / steps[0], (theirs / ours).sqrt())


def test_ratio_over_replicas_by_hand():
    factor, half = noise_ratio.over_replicas(
        torch.tensor([[2.0, 6.0]]).double(), torch.tensor([[1.0, 1.0]]).double()
    )
    assert factor == [2.0]
    # theirs/mean is 0.5 and 1.5, deviation sqrt(0.5); relative error of a root: half of it.
    assert half[0] == pytest.approx(1.96 * 2 * math.sqrt(0.5) / (2 * math.sqrt(2)))


def test_effective_step_with_eps_in_both_places():
    g = torch.tensor([1e-18, 1.0], dtype=torch.float64)
    inside = epsilon.effective_step("adamomentum", 1e-8, g, 3_000)
    assert inside[0].item() == pytest.approx(math.sqrt(1e-3) * epsilon.LR / 1e-4, rel=1e-3)
    outside = epsilon.effective_step("adamomentum-outer-eps", 1e-8, g, 3_000)
    assert outside[0].item() == pytest.approx(epsilon.LR / 1e-8, rel=1e-3)
    # Far from the floor both are lr over the root of v, whose start is remembered for 1,000 steps.
    assert inside[1].item() == pytest.approx(outside[1].item(), rel=1e-4)


def test_height_of_the_curve_has_its_slope():
    xs = [k / 1000 for k in range(4001)]
    f = torch.tensor(curvature.height(xs, 0.05))
    assert f.min() == 0
    assert f.argmin().item() == pytest.approx(1000 * curvature.MINIMUM, abs=2)
    numeric = (f[2:] - f[:-2]) / 0.002
    exact = curvature.slope(torch.tensor(xs[1:-1]).double(), torch.tensor(0.05))
    torch.testing.assert_close(numeric.double(), exact, atol=2e-3, rtol=0)


def test_network_of_figure_2():
    net = Network(0)
    # 64-30-30-30-30-10
    assert net.weights.numel() == 64 * 30 + 30 + 3 * (30 * 30 + 30) + 30 * 10 + 10
    loss, gradient = net.gradient()
    assert loss == pytest.approx(math.log(10), abs=0.1)
    # The whole gradient is the mean of the parts'.
    rows = torch.arange(len(net.labels))
    thirds = [net.gradient(part)[1] for part in rows.split(299)]
    torch.testing.assert_close(torch.stack(thirds).mean(0), gradient, atol=1e-6, rtol=1e-4)
    # And it is the loss's.
    with torch.no_grad():
        net.weights -= 1e-2 * gradient
    assert net.gradient()[0] == pytest.approx(loss - 1e-2 * float(gradient @ gradient), rel=1e-4)
    assert functional.one_hot(net.labels).sum(0).min() > 80  # all classes


def test_pure_noise_misses_assumption_5_by_23():
    assert pytest.approx(0.9 / 1.1 * 0.1 / 1.9) == assumption.PURE_NOISE
    assert round(1 / assumption.PURE_NOISE) == 23
