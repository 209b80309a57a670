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

BATCH, LR = 100, 2e-3  # of Adam, falling linearly to 0


def trained(
    train: Split, classes: int, width: int, epochs: int, kept: Path | None
) -> FeatureClassifier:
    """The classifier of these images (bytes) and labels, in evaluation mode.

    Its seed is its own, and it is trained with one thread on the CPU, so that every process gets
    the same. Where there is a folder for it, it is trained once: others wait, and a process that
    is killed leaves nothing half done.
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
    """Of all that decides about its weights."""
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
    """With one thread: sums over several depend on their number."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
