"""Accelerate: a loop of your own on scikit-learn's digits, on one device or several.

pip install -c constraints.txt '.[torch]' accelerate scikit-learn
python examples/accelerate_loop.py [FOLDER]
accelerate launch --num_processes 2 examples/accelerate_loop.py

Seconds on one core. Kill it and start it again: it continues with the next epoch.
"""

import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from adamomentum import AdaMomentum
from adamomentum.torch import lr_from_adam, no_decay_groups

EPOCHS, BATCH, WARMUP = 10, 32, 50


def main(folder="accelerate-run"):
    set_seed(0)
    accelerator = Accelerator()
    x, y = load_digits(return_X_y=True)  # 1,797 images of 8 x 8 pixels; 300 are for the test
    x, y = torch.tensor(x, dtype=torch.float32) / 16, torch.tensor(y)
    model = nn.Sequential(
        nn.Linear(64, 128), nn.LayerNorm(128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10)
    )
    # AdamW does well at 5e-3 here; where noise dominates, steps are 4.36 times as long. Weight
    # decay is AdamW's 0.01 times that, since it acts as lr * weight_decay.
    optimizer = AdaMomentum(no_decay_groups(model, 0.04), lr=lr_from_adam(5e-3))
    loader = DataLoader(TensorDataset(x[:-300], y[:-300]), batch_size=BATCH, shuffle=True)
    # Warm-up, because the first step is ten times lr.
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=WARMUP)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * len(loader) - WARMUP)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], [WARMUP])

    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    done = [int(path.name) for path in Path(folder).glob("[0-9]*")]
    if done:
        accelerator.load_state(Path(folder, str(max(done))))
    for epoch in range(max(done, default=0), EPOCHS):
        model.train()
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            schedule.step()
        accelerator.print(f"epoch {epoch + 1}: loss {loss.item():.4f}")
        accelerator.save_state(Path(folder, str(epoch + 1)))  # moments, schedule and random states

    model.eval()
    with torch.no_grad():
        guesses = model(x[-300:].to(accelerator.device)).argmax(1).cpu()
    accelerator.print(f"test accuracy {100 * (guesses == y[-300:]).float().mean():.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
