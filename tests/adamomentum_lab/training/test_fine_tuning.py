"""Fine-tuning: frozen parts, accumulation, an average of the weights."""

import pytest
import torch
from torch import nn

from adamomentum_lab import Classification, Data
from adamomentum_lab.errors import LabError
from adamomentum_lab.training.groups import groups_of
from adamomentum_lab.training.supervised import Supervised
from tests.adamomentum_lab.loops import continues, loop_of, weights


class Tuned(Classification):
    """Two half planes; batches are dictionaries."""

    epochs = 3
    batch = 16
    frozen = False

    def data(self):
        x = torch.randn(200, 5, generator=torch.Generator().manual_seed(0))
        rows = [{"x": one, "y": (one[0] > 0).long()} for one in x]
        return Data(Rows(rows[:100]), Rows(rows[100:150]), Rows(rows[150:]))

    def model(self):
        model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
        model[0].requires_grad_(not self.frozen)
        return model

    def loss(self, model, batch):
        return super().loss(model, (batch["x"], batch["y"]))

    def scores(self, model, batch):
        return super().scores(model, (batch["x"], batch["y"]))


class Rows(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class Plain(Tuned):
    def model(self):
        return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))


def test_a_batch_in_parts_is_the_same_update():
    class InParts(Plain):
        accumulate = 3
        clip = 0.5

    class Whole(Plain):
        clip = 0.5

    one, other = loop_of(Whole()), loop_of(InParts())
    one.run()
    other.run()
    assert torch.allclose(weights(one), weights(other), rtol=1e-4, atol=1e-6)
    for ours, theirs in zip(one.outcome.epochs, other.outcome.epochs, strict=True):
        assert ours["train"] == pytest.approx(theirs["train"], rel=1e-4)


@pytest.mark.parametrize("after", [1, 7, 10])
def test_a_run_with_all_of_it_continues(tmp_path, after):
    class All(Tuned):
        accumulate, ema, frozen = 2, 0.9, True

    assert continues(All(), tmp_path, after)


def test_an_ema_is_evaluated_and_not_trained():
    class Averaged(Plain):
        ema = 0.8

    trained = loop_of(Plain())
    trained.run()
    loop = loop_of(Averaged(), on_update=lambda _: seen.append(weights(loop).clone()))
    seen = [weights(loop).clone()]
    loop.run()
    assert torch.equal(weights(loop), weights(trained))
    average = seen[0]
    for one in seen[1:]:
        average = 0.8 * average + 0.2 * one
    found = torch.cat([part.flatten() for part in loop._average])
    assert torch.allclose(found, average, atol=1e-6)
    model = Plain().model()
    nn.utils.vector_to_parameters(average, model.parameters())
    with torch.no_grad():
        expected = Plain().evaluate(model.eval(), Plain().data().test)
    assert loop.outcome.epochs[-1]["test"]["loss"] == pytest.approx(expected["loss"], rel=1e-4)


def test_frozen_parts_stay_and_need_no_group():
    class Frozen(Tuned):
        frozen = True

        def parameter_groups(self, model):
            trained = [param for param in model.parameters() if param.requires_grad]
            return [{"params": trained[:2], "lr_factor": 0.1}, {"params": trained[2:]}]

    workload = Frozen()
    assert len(groups_of(workload, workload.model())) == 2
    loop = Supervised(workload, lambda model: torch.optim.AdamW(model.parameters(), 0.1), 1)
    before = loop.model[0].weight.clone()
    loop.run()
    assert torch.equal(loop.model[0].weight, before)


def test_a_part_that_is_trained_needs_a_group():
    class Forgotten(Tuned):
        def parameter_groups(self, model):
            return [{"params": model[3].parameters()}]

    with pytest.raises(LabError, match=r"leaves out 0\.weight"):
        groups_of(Forgotten(), Forgotten().model())
