"""A regression from a CSV file: `adamomentum race examples/houses.py`.

The rows of houses.csv are made up.
"""

import csv
from pathlib import Path

import torch
from torch import nn

from adamomentum_lab import Cosine, Data, Workload


class Houses(Workload):
    """The price of a house by its area, rooms and age."""

    epochs = {"smoke": 2, "mini": 20, "full": 60}
    batch = 16
    schedule = Cosine()

    def data(self):
        with Path(__file__).with_name("houses.csv").open() as file:
            rows = [[float(value) for value in row.values()] for row in csv.DictReader(file)]
        table = torch.tensor(rows)
        table = (table - table[:140].mean(0)) / table[:140].std(0)
        x, y = table[:, :3], table[:, 3:]
        return Data((x[:140], y[:140]), (x[140:190], y[140:190]), (x[190:], y[190:]))

    def model(self):
        return nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1))

    def loss(self, model, batch):
        x, y = batch
        return nn.functional.mse_loss(model(x), y)
