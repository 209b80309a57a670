"""What every installed workload must do, whatever it trains on."""

import pytest
import torch

from adamomentum_lab.adversarial import Adversarial
from adamomentum_lab.catalog import find_workload, workload_names
from adamomentum_lab.errors import LabError
from adamomentum_lab.rules import SCALES, at_scale
from adamomentum_lab.source import Source, count_examples
from adamomentum_lab.training.feed import feed
from adamomentum_lab.workload_checks import check_splits

NAMES = workload_names()
FAST = {name for name in NAMES if find_workload(name).module.startswith("adamomentum_lab.")}
FAST |= {"digits_dcgan"}


@pytest.mark.parametrize("name", NAMES)
def test_its_class_says_what_it_is(name):
    cls = find_workload(name).load()  # checks its values
    assert cls.__doc__
    for scale in SCALES:
        workload = cls(scale)
        assert at_scale(workload.epochs, scale) >= 1
        assert workload.batch >= 1
        assert isinstance(workload.metric, str)
        assert workload.better(2.0, 1.0) == workload.larger_is_better


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in NAMES],
)
def test_its_batches_go_through_the_feed(name):
    """Shared and resumed, they are those of an undisturbed pass."""
    workload = find_workload(name).load()("smoke")
    try:
        data = workload.data()
    except LabError as error:
        pytest.skip(str(error))
    check_splits(workload, data)
    source = workload.source(data.train, training=True)
    assert isinstance(source, Source)
    batches = list(feed(source, 1, 0))
    assert abs(len(batches) - len(source)) <= 1
    for got, expected in zip(feed(source, 1, 0, skip=1), batches[1:], strict=True):
        assert str(got) == str(expected)
    shares = [next(feed(source, 1, 0, rank=rank, world=2)) for rank in range(2)]
    along = 1 if name.startswith("ptb") else 0  # texts have time first
    assert sum(batch[0].shape[along] for batch in shares) == batches[0][0].shape[along]
    model = workload.model()
    torch.manual_seed(0)
    losses = [workload.loss(model, batches[0])]
    if isinstance(workload, Adversarial):
        parts = list(workload.parts(batches[0]))
        assert sum(map(count_examples, parts)) == count_examples(batches[0])
        losses.append(workload.discriminator_loss(model, parts[0]))
    assert all(loss.ndim == 0 and loss.isfinite() for loss in losses)
