"""bfloat16 training reaches what float32 reaches, on real images, within the spread of seeds."""

import math
import statistics

import pytest
import torch
from torch.nn import functional

from adamomentum import AdaMomentum

datasets = pytest.importorskip("sklearn.datasets")
SEEDS = range(5)


def train_digits(seed, dtype, **options):
    """Test loss of a small network on scikit-learn's digits, evaluated in float32."""
    digits = datasets.load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32) / 16
    y = torch.tensor(digits.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    x, y = x[order], y[order]
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
