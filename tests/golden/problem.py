"""A problem of four epochs: the shortest run that halving stops twice."""

import torch
from torch import nn

from adamomentum_lab import Classification, Data


class Golden(Classification):
    """Two classes of points in the plane."""

    epochs = {"smoke": 4, "mini": 4, "full": 4}
    batch = 32

    def data(self):
        x = torch.randn(160, 2, generator=torch.Generator().manual_seed(0))
        y = (x[:, 0] * x[:, 1] > 0).long()
        return Data((x[:96], y[:96]), (x[96:128], y[96:128]), (x[128:], y[128:]))

    def model(self):
        return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
