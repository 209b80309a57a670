"""The classifier whose features stand in for Inception's."""

import pytest
import torch

from adamomentum_paper.workloads import _classifier
from adamomentum_paper.workloads._classifier import train_classifier


def examples(n=60):
    chance = torch.Generator().manual_seed(0)
    x = torch.randint(256, (n, 1, 8, 8), dtype=torch.uint8, generator=chance)
    return x, torch.randint(10, (n,), generator=chance)


def same(one, other):
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_the_classifier_depends_on_its_images_alone(tmp_path):
    one = train_classifier(examples(), 10, 4, 2, None)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        other = train_classifier(examples(), 10, 4, 2, tmp_path)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(torch.get_rng_state(), before)
    assert same(one, other)
    assert not other.training
    assert other(examples()[0]).shape == (60, other.number) == (60, 16)
    assert not any(param.requires_grad for param in other.parameters())


def test_the_classifier_learns():
    x = torch.zeros(200, 1, 8, 8, dtype=torch.uint8)
    y = torch.arange(200) % 2
    x[y == 1, :, :, :4] = 200
    network = train_classifier((x, y), 2, 4, 10, None)
    assert (network.head(network(x)).argmax(1) == y).all()


def test_the_classifier_is_trained_once(tmp_path, monkeypatch):
    first = train_classifier(examples(), 10, 4, 1, tmp_path)
    (folder,) = tmp_path.iterdir()
    (folder / "last.tmp").write_bytes(b"of a process that was killed")
    original = _classifier._train
    monkeypatch.setattr(_classifier, "_train", lambda *_: pytest.fail("trained again"))
    assert same(train_classifier(examples(), 10, 4, 1, tmp_path), first)
    monkeypatch.setattr(_classifier, "_train", original)
    train_classifier(examples(61), 10, 4, 1, tmp_path)  # other images, another classifier
    assert len(list(tmp_path.iterdir())) == 2
    (folder / "last.ckpt").write_bytes(b"rubbish")
    with pytest.warns(UserWarning, match="damaged"):
        assert same(train_classifier(examples(), 10, 4, 1, tmp_path), first)
