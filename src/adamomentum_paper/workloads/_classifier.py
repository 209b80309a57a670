"""The network of fd-cnn: a small classifier, the same for every run on the same images."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.nn import functional

from adamomentum_lab.files import locked
from adamomentum_lab.source import Split
from adamomentum_lab.training.checkpoints import Checkpoints
from adamomentum_paper.models import classifier
from adamomentum_paper.models.classifier import FeatureClassifier

BATCH, LR = 100, 2e-3  # for Adam; the lr falls linearly to 0


def train_classifier(
    train: Split, classes: int, width: int, epochs: int, kept: Path | None
) -> FeatureClassifier:
    """Train the classifier on images (bytes) and labels, or load it. It is in evaluation mode.

    It has a fixed seed and is trained on the CPU with one thread, so that every process gets the
    same network. If `kept` is a folder, only one process trains it and the others wait.
    """
    if kept is None:
        return _train(train, classes, width, epochs)
    folder = kept / f"fd-cnn-{_digest(train, classes, width, epochs)}"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        checkpoints = Checkpoints(folder)
        state = checkpoints.load()
        if state is None:
            network = _train(train, classes, width, epochs)
            checkpoints.save(network.state_dict())
            return network
    network = FeatureClassifier(train[0].shape[1], width, classes)
    network.load_state_dict(state)
    return network.eval()


def _digest(train: Split, *settings: int) -> str:
    """Return a digest of everything that determines the weights."""
    digest = hashlib.sha256(f"{torch.__version__} {settings}".encode())
    for code in (__file__, classifier.__file__):
        digest.update(Path(code).read_bytes())
    for tensor in train:
        digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()[:16]


def _train(train: Split, classes: int, width: int, epochs: int) -> FeatureClassifier:
    images, labels = train
    updates = epochs * -(-len(labels) // BATCH)
    with _alone(), torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        network = FeatureClassifier(images.shape[1], width, classes)
        optimizer = torch.optim.Adam(network.parameters(), lr=LR)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 1 - t / updates)
        for _ in range(epochs):
            for indices in torch.split(torch.randperm(len(labels)), BATCH):
                optimizer.zero_grad()
                logits = network.head(network(images[indices]))
                torch.autograd.backward(functional.cross_entropy(logits, labels[indices]))
                optimizer.step()
                schedule.step()
    return network.requires_grad_(False).eval()


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Use one thread, since rounding depends on the number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
