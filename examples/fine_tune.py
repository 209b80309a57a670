"""A language model, fine-tuned from a checkpoint: `adamomentum race examples/fine_tune.py`.

`python examples/fine_tune.py` makes the checkpoint first, base.pt beside this file. The body is
trained with a tenth of the lr, and each batch in two parts.
"""

import sys
from pathlib import Path

import torch
from torch import nn

from adamomentum_lab import Data, Tokens, Workload

BASE = Path(__file__).with_name("base.pt")
TEXT = "\n".join(sys.__doc__ or "" for _ in range(2)) + (torch.__doc__ or "") * 8


class Network(nn.Module):
    """Predicts the next letter."""

    def __init__(self):
        super().__init__()
        self.body = nn.ModuleDict(
            {"letters": nn.Embedding(128, 32), "memory": nn.GRU(32, 64, batch_first=True)}
        )
        self.head = nn.Linear(64, 128)

    def forward(self, x):
        return self.head(self.body["memory"](self.body["letters"](x))[0])


def tokens(text):
    return torch.tensor([min(ord(letter), 127) for letter in text])


class FineTune(Workload):
    """The next letter of a text."""

    epochs = {"smoke": 1, "mini": 3, "full": 10}
    accumulate = 2

    def data(self):
        text = tokens(TEXT)
        third = len(text) // 3
        return Data(*(Tokens(part, 8, 16) for part in text[: 3 * third].split(third)))

    def model(self):
        model = Network()
        model.load_state_dict(torch.load(BASE))
        return model

    def parameter_groups(self, model):
        return [
            {"params": model.body.parameters(), "lr_factor": 0.1},
            {"params": model.head.parameters()},
        ]

    def loss(self, model, batch):
        x, y = batch
        return nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.save(Network().state_dict(), BASE)
