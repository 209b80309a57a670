"""The network of the paper's Figure 2 on real images, and its gradients as one vector."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from adamomentum_lab.digits import digits

WIDTH, LAYERS = 30, 5  # as in the paper, which does not name the data


class Network:
    """Five fully connected layers of width 30, whose weights are one vector.

    The paper names neither the data nor the activation. Here they are the digits and ReLU.
    """

    def __init__(self, seed: int) -> None:
        (x, self.labels), *_ = digits()
        self.images = x.flatten(1)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            widths = [self.images.shape[1], *[WIDTH] * (LAYERS - 1), 10]
            layers: list[nn.Module] = []
            for i, o in pairwise(widths):
                layers += [nn.Linear(i, o), nn.ReLU()]
            self._model = nn.Sequential(*layers[:-1])
        self.weights = nn.Parameter(parameters_to_vector(self._model.parameters()).detach())

    def gradient(self, rows: Tensor | None = None) -> tuple[float, Tensor]:
        """Return loss and gradient at the weights, over these examples or all."""
        images, labels = self.images, self.labels
        if rows is not None:
            images, labels = images[rows], labels[rows]
        vector_to_parameters(self.weights.detach(), self._model.parameters())
        loss = functional.cross_entropy(self._model(images), labels)
        parts = torch.autograd.grad(loss, list(self._model.parameters()))
        return loss.item(), torch.cat([part.flatten() for part in parts])

    def batch(self, size: int, random: torch.Generator) -> Tensor:
        """Draw indices of examples without replacement."""
        return torch.randperm(len(self.labels), generator=random)[:size]
