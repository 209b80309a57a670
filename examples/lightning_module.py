"""Lightning: an MLP on scikit-learn's digits, with warm-up, and a checkpoint after every epoch.

pip install -c constraints.txt '.[torch]' lightning scikit-learn
python examples/lightning_module.py [FOLDER]

Seconds on one core. Kill it and start it again: it continues with the next epoch, though with other
batches than it would have drawn, since Lightning does not save the states of random generators.
"""

import sys
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from adamomentum import AdaMomentum
from adamomentum.torch import lr_from_adam, no_decay_groups

EPOCHS = 10


class Digits(lightning.LightningModule):
    """1,797 images of 8 x 8 pixels; the last 300 are for the test."""

    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(64, 128), nn.LayerNorm(128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10)
        )
        x, y = load_digits(return_X_y=True)
        x, y = torch.tensor(x, dtype=torch.float32) / 16, torch.tensor(y)
        self.train_set, self.test_set = TensorDataset(x[:-300], y[:-300]), (x[-300:], y[-300:])

    def configure_optimizers(self):
        # AdamW does well at 5e-3 here; where noise dominates, steps are 4.36 times as long. Weight
        # decay is AdamW's 0.01 times that, since it acts as lr * weight_decay.
        optimizer = AdaMomentum(no_decay_groups(self, 0.04), lr=lr_from_adam(5e-3))
        steps = int(self.trainer.estimated_stepping_batches)
        # Warm-up, because the first step is ten times lr.
        warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=50)
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps - 50)
        schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], [50])
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }

    def train_dataloader(self):
        return DataLoader(self.train_set, batch_size=32, shuffle=True)

    def training_step(self, batch):
        x, y = batch
        loss = nn.functional.cross_entropy(self.network(x), y)
        self.log("loss", loss)
        return loss

    def on_train_epoch_end(self):
        print(f"epoch {self.current_epoch + 1}: loss {self.trainer.callback_metrics['loss']:.4f}")

    @torch.no_grad()
    def accuracy(self):
        x, y = (tensor.to(self.device) for tensor in self.test_set)
        self.eval()
        right = (self.network(x).argmax(1) == y).float().mean().item()
        self.train()
        return 100 * right


def main(folder="lightning-run"):
    lightning.seed_everything(0, verbose=False)
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        callbacks=[ModelCheckpoint(folder, "{epoch}", save_last=True, save_top_k=-1)],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Digits()
    last = Path(folder, "last.ckpt")
    trainer.fit(model, ckpt_path=last if last.exists() else None)
    print(f"test accuracy {model.accuracy():.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
