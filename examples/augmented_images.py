"""Augmented images, loaded by two processes: `adamomentum race examples/augmented_images.py`."""

import random

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset

from adamomentum_lab import Classification, Data


class Digits(Dataset):
    """Digits of 8 x 8 pixels; those for training are moved by up to a pixel."""

    def __init__(self, first, last, moved=False):
        images, labels = load_digits(return_X_y=True)
        self.images = torch.tensor(images[first:last], dtype=torch.float32).view(-1, 1, 8, 8) / 16
        self.labels, self.moved = labels[first:last], moved

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        image = self.images[i]
        if self.moved:
            image = image.roll((random.randint(-1, 1), random.randint(-1, 1)), (1, 2))
        return image, int(self.labels[i])


class AugmentedImages(Classification):
    """Which digit is it?"""

    epochs = {"smoke": 1, "mini": 5, "full": 20}

    def data(self):
        train = Digits(0, 1200, moved=True)
        return Data(
            lambda: DataLoader(train, 64, shuffle=True, num_workers=2),
            Digits(1200, 1500),
            Digits(1500, 1797),
        )

    def model(self):
        return nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 10))
