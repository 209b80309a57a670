"""A workload of your own: `adamomentum race examples/breast_cancer.py`."""

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

from adamomentum_lab import Classification, Cosine, Data


class BreastCancer(Classification):
    """569 tumours by 30 measurements, malignant or not (Wisconsin, 1995)."""

    epochs = 20
    batch = 32
    schedule = Cosine()
    target = 97.0  # optional: epochs are counted until validation reaches it

    def data(self):
        x, y = load_breast_cancer(return_X_y=True)
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
        x, y = torch.tensor(x, dtype=torch.float32)[order], torch.tensor(y)[order]
        x = (x - x[:300].mean(0)) / x[:300].std(0)
        return Data(
            train=(x[:300], y[:300]),
            validation=(x[300:400], y[300:400]),
            test=(x[400:], y[400:]),
        )

    def model(self):
        return nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 2))
