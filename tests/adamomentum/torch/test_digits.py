"""On real images: bfloat16 reaches what float32 reaches, and Adam hands over without a jump."""

import copy
import math
import statistics

import pytest
import torch
from torch.nn import functional

from adamomentum import AdaMomentum

datasets = pytest.importorskip("sklearn.datasets")
SEEDS = range(5)


def shuffled_digits():
    digits = datasets.load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32) / 16
    y = torch.tensor(digits.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    return x[order], y[order]


def train_digits(seed, dtype, **options):
    """Test loss of a small network on scikit-learn's digits, evaluated in float32."""
    x, y = shuffled_digits()
    torch.manual_seed(seed)
    layers = (torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    model = torch.nn.Sequential(*layers).to(dtype)
    optimizer = AdaMomentum(model.parameters(), lr=1e-3, weight_decay=1e-2, **options)
    epochs, batch = 15, 64
    steps = epochs * math.ceil(1400 / batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=2e-3, total_steps=steps, cycle_momentum=False
    )
    for _ in range(epochs):
        for rows in torch.randperm(1400).split(batch):
            optimizer.zero_grad()
            functional.cross_entropy(model(x[rows].to(dtype)), y[rows]).backward()
            optimizer.step()
            schedule.step()
    model.float()
    with torch.no_grad():
        return functional.cross_entropy(model(x[1400:]), y[1400:]).item()


@pytest.mark.slow
def test_small_floats_reach_the_loss_of_float32():
    reference = [train_digits(seed, torch.float32) for seed in SEEDS]
    small = [
        train_digits(seed, torch.bfloat16, state_dtype=torch.bfloat16, stochastic_rounding=True)
        for seed in SEEDS
    ]
    assert statistics.mean(reference) < 0.23  # it has learned: chance is ln 10 = 2.3
    spread = math.hypot(statistics.stdev(reference), statistics.stdev(small)) / math.sqrt(5)
    # Welch's t with five seeds a side; 2.9 is its 99 % point at 8 degrees of freedom.
    assert statistics.mean(small) - statistics.mean(reference) < 2.9 * spread


@pytest.mark.parametrize("at", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_adam_hands_over_without_a_jump(at):
    x, y = (values[:1400] for values in shuffled_digits())
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, 8, 8)),
        torch.nn.Conv2d(1, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(512, 10),
    )

    def take_step(model, optimizer, step):
        rows = torch.randperm(1400, generator=torch.Generator().manual_seed(step))[:64]
        optimizer.zero_grad()
        functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()

    def losses_of(model, optimizer, steps):
        """The loss over all images before each step."""
        losses = []
        for step in steps:
            with torch.no_grad():
                losses.append(functional.cross_entropy(model(x), y).item())
            take_step(model, optimizer, step)
        return losses

    adam = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(at):
        take_step(model, adam, step)
    twins = [copy.deepcopy((model, adam)) for _ in range(2)]
    steps = range(at, at + 30)
    continued = losses_of(model, adam, steps)
    taken_over = losses_of(twins[0][0], AdaMomentum.from_adam(twins[0][1]), steps)
    fresh = losses_of(twins[1][0], AdaMomentum(twins[1][0].parameters(), lr=3e-3), steps)
    assert max(taken_over) < 1.1 * max(continued)
    assert taken_over[1] == pytest.approx(continued[1], rel=0.02)
    assert taken_over[-1] < taken_over[0]
    assert fresh[1] > 1.5 * fresh[0]  # what is to be avoided
