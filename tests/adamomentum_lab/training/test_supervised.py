"""The loop: repeatable, continued bit for bit, honest about divergence."""

import math
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from adamomentum import AdaMomentum
from adamomentum_lab.catalog import find_workload
from adamomentum_lab.engine.job import Job, execute
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.errors import LabError
from adamomentum_lab.files import BusyError, locked
from adamomentum_lab.selection import select_epoch
from adamomentum_lab.source import Tensors
from adamomentum_lab.training import saving
from adamomentum_lab.training.checkpoints import Checkpoints
from adamomentum_lab.training.feed import feed, seed_for
from adamomentum_lab.training.outcome import shown_file
from adamomentum_lab.workload import Classification, Data
from tests.adamomentum_lab.loops import continues, kill_until_done, loop_of, weights
from tests.adamomentum_lab.problems import write_problem


def problem(tmp_path, name="plain", scale="mini", protocol="fair"):
    return find_workload(str(write_problem(tmp_path, name))).load()(scale, protocol)


def test_it_is_the_loop_anyone_would_write(tmp_path):
    workload = problem(tmp_path, "clipped")
    workload.batch = 16
    loop = loop_of(workload, seed=3)
    loop.run()

    torch.manual_seed(seed_for(3))
    model = workload.model()
    optimizer = AdaMomentum(model.parameters())
    (x, y), validation = workload.data().train, workload.data().validation
    for epoch in range(4):
        order = torch.randperm(100, generator=torch.Generator().manual_seed(seed_for(3, epoch)))
        total, model = 0.0, model.train()
        for update, indices in enumerate(order.split(16)):
            torch.manual_seed(seed_for(3, epoch, update, 0))
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x[indices]), y[indices])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            total += loss.detach()
        model.eval()
        with torch.no_grad():
            right = (model(validation[0]).argmax(1) == validation[1]).double().mean()
        record = loop.outcome.epochs[epoch]
        assert record["train"]["loss"] == float(total) / 7
        assert record["validation"]["accuracy"] == pytest.approx(100 * float(right))
    expected = torch.cat([param.detach().flatten() for param in model.parameters()])
    assert torch.equal(weights(loop), expected)


def test_test_may_be_read_at_the_last_epoch_alone(tmp_path):
    workload = problem(tmp_path, protocol="paper")
    whole, last = loop_of(workload), loop_of(workload)
    whole.run()
    workload.follows_test = False
    last.run()
    assert ["test" in record for record in last.outcome.epochs] == [False, False, False, True]
    assert last.outcome.epochs[-1] == whole.outcome.epochs[-1]
    assert torch.equal(weights(whole), weights(last))


def test_seeds_decide_everything(tmp_path):
    workload = problem(tmp_path)
    one, same, other = (loop_of(workload, seed=seed) for seed in (1, 1, 2))
    torch.manual_seed(99)  # what was drawn before does not matter
    for loop in (one, same, other):
        loop.run()
        torch.rand(7)
    assert torch.equal(weights(one), weights(same))
    assert one.outcome.epochs == same.outcome.epochs
    assert not torch.equal(weights(one), weights(other))


@pytest.mark.parametrize("at", [1, 6, 7, 8, 20, 27])
def test_stopped_at_any_update_it_continues_bit_for_bit(tmp_path, at):
    workload = problem(tmp_path)
    whole = loop_of(workload)
    whole.run()
    updates = []
    loop = loop_of(workload, tmp_path, on_update=updates.append, stopped=lambda: len(updates) == at)
    assert loop.run().status == "stopped"
    assert len(updates) == at
    resumed = loop_of(workload, tmp_path)
    assert resumed.run().status == "done"
    assert torch.equal(weights(whole), weights(resumed))
    assert whole.outcome.epochs == resumed.outcome.epochs
    assert resumed.outcome.updates == whole.outcome.updates == 28


def test_fewer_epochs_are_the_beginning_of_the_whole(tmp_path):
    workload = problem(tmp_path)
    whole = loop_of(workload)
    whole.run()
    short = loop_of(workload, tmp_path)
    assert short.run(epochs=2).epochs == whole.outcome.epochs[:2]
    longer = loop_of(workload, tmp_path)
    assert longer.run().epochs == whole.outcome.epochs
    again = loop_of(workload, tmp_path)
    assert again.run().epochs == whole.outcome.epochs
    assert torch.equal(weights(again), weights(whole))


def test_a_finished_run_is_not_written_again(tmp_path):
    workload = problem(tmp_path)
    loop_of(workload, tmp_path).run()
    before = (tmp_path / "last.ckpt").stat().st_mtime_ns
    assert loop_of(workload, tmp_path).run().status == "done"
    assert (tmp_path / "last.ckpt").stat().st_mtime_ns == before


def test_a_damaged_checkpoint_costs_only_time(tmp_path):
    workload = problem(tmp_path)
    whole = loop_of(workload)
    whole.run()
    updates = []
    loop_of(
        workload,
        tmp_path,
        checkpoint_seconds=0,
        on_update=updates.append,
        stopped=lambda: len(updates) == 12,
    ).run()
    (tmp_path / "last.ckpt").write_bytes(b"rubbish")
    resumed = loop_of(workload, tmp_path)
    with pytest.warns(UserWarning, match="damaged"):
        resumed.run()
    assert torch.equal(weights(whole), weights(resumed))
    assert whole.outcome.epochs == resumed.outcome.epochs


@pytest.mark.parametrize("name", ["diverges", "diverges_clipped"])
def test_divergence_ends_a_run_at_once(tmp_path, name):
    updates = []
    loop = loop_of(problem(tmp_path, name), tmp_path, on_update=updates.append)
    outcome = loop.run()
    assert outcome.status == "diverged"
    assert len(updates) == 1
    assert outcome.epochs == []
    again = loop_of(problem(tmp_path, name), tmp_path, on_update=updates.append)
    assert again.run().status == "diverged"
    assert len(updates) == 1


class Scripted(Classification):
    """Its scores are what a list says."""

    epochs: ClassVar = {"smoke": 5, "mini": 5, "full": 5}
    validation = (1.0, 3.0, 2.0, 3.0, 2.0)
    test = (5.0, 1.0, 9.0, 7.0, 2.0)

    def data(self):
        x, y = torch.zeros(4, 1), torch.zeros(4, dtype=torch.int64)
        return Data((x, y), (x, y), (x, y))

    def model(self):
        return nn.Linear(1, 2)

    def evaluate(self, model, split):
        self.asked.append("test" if split is self.marked else "validation")
        epoch = self.asked.count("validation") if self.protocol == "fair" else len(self.asked)
        scores = self.test if split is self.marked else self.validation
        return {"loss": 0.0, "accuracy": scores[epoch - 1]}

    def splits(self):
        self.asked = []
        data = super().splits()
        self.marked = data.test
        return data


@pytest.mark.parametrize(
    ("protocol", "epoch", "reads"), [("fair", 2, 2), ("paper", 5, 5), ("as-run", 3, 5)]
)
def test_which_epoch_is_reported(protocol, epoch, reads):
    workload = Scripted("mini", protocol)
    loop = loop_of(workload)
    # Under fair, test must not be another tuple than validation by identity alone.
    loop.data = Data(loop.data.train, loop.data.validation, tuple(loop.data.test))
    workload.marked = loop.data.test
    outcome = loop.run()
    record = select_epoch(outcome.epochs, workload)
    assert record["epoch"] == epoch
    assert workload.asked.count("test") == reads
    assert ("validation" in record) == (protocol == "fair")
    assert "test" in record


def test_a_missing_method_of_a_workload_is_named(tmp_path):
    workload = problem(tmp_path)
    workload.data = lambda: Data(((torch.zeros(4, 5)), torch.zeros(4)), None, None)
    with pytest.raises(LabError, match=r"but data\(\) of Problem returns none"):
        loop_of(workload)
    workload = problem(tmp_path)
    workload.metric = "f1"
    with pytest.raises(LabError, match="scores loss, accuracy; its metric 'f1' is not among them"):
        loop_of(workload).run()


def test_a_file_may_have_neighbours_and_must_not_change(tmp_path):
    file = write_problem(tmp_path)
    (tmp_path / "neighbour_of_a_problem.py").write_text("x = 1")
    file.write_text("import neighbour_of_a_problem\n" + file.read_text())
    origin = find_workload(str(file))
    assert origin.load().__name__ == "Problem"
    other = tmp_path / "other.py"
    other.write_text(file.read_text())
    origin = find_workload(str(other))
    other.write_text(other.read_text() + "\n")
    with pytest.raises(LabError, match=r"other\.py has changed since the start"):
        origin.load()


def test_only_fair_keeps_validation_examples_apart(tmp_path):
    sizes = {
        protocol: len(problem(tmp_path, protocol=protocol).splits().train[0])
        for protocol in ("fair", "paper", "as-run")
    }
    assert sizes == {"fair": 100, "paper": 150, "as-run": 150}


def job_of(tmp_path, name="plain", folder="run", precision="32-true", scale="mini", **options):
    origin = find_workload(str(write_problem(tmp_path, name)))
    spec = Spec.of(
        {"lr": 1e-2},
        workload=name,
        code=origin.code,
        optimizer="adamomentum",
        seed=1,
        scale=scale,
        protocol="fair",
        precision=precision,
    )
    place = tmp_path / folder
    place.mkdir(exist_ok=True)
    return Job(spec, origin, place, **options)


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true", "64-true"])
def test_precisions(tmp_path, precision):
    run = execute(job_of(tmp_path, precision=precision))
    plain = execute(job_of(tmp_path, folder="plain"))
    assert run.status == "done"
    losses = [r.epochs[-1]["validation"]["loss"] for r in (run, plain)]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.2)


def test_one_process_at_a_time(tmp_path):
    job = job_of(tmp_path)
    with (
        locked(job.folder / "lock", "held here"),
        pytest.raises(BusyError, match="another process is training the run in"),
    ):
        execute(job)
    assert execute(job).status == "done"


def test_checkpoints_cost_at_most_2_percent(tmp_path, monkeypatch):
    loop = loop_of(problem(tmp_path), tmp_path)
    now = [0.0]
    monkeypatch.setattr(saving.time, "monotonic", lambda: now[0])
    loop._saved_at, loop._saving = 0.0, 0.1
    for now[0], late in ((14.9, False), (15.0, True)):
        assert loop._agree() == (False, late)
    loop._saving = 3.0  # 1.2 GB on a slow disk
    for now[0], late in ((149.0, False), (150.0, True)):
        assert loop._agree() == (False, late)
    loop.checkpoint_seconds = 20.0  # as the user says
    now[0] = 20.0
    assert loop._agree() == (False, True)


def test_a_finished_run_is_read_from_its_checkpoint(tmp_path):
    first = loop_of(problem(tmp_path), tmp_path)
    first.run()
    again = loop_of(problem(tmp_path), tmp_path)
    assert again.run() == first.outcome
    assert torch.equal(weights(again), weights(first))


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize(("every", "kills"), [(0.0, 22), (0.2, 8)])
def test_killed_at_random_instants_the_end_is_the_same(tmp_path, every, kills, monkeypatch):
    whole = job_of(tmp_path, "slow", "whole", scale="full")
    monkeypatch.setenv("SECONDS_PER_UPDATE", "0")
    execute(whole)
    monkeypatch.delenv("SECONDS_PER_UPDATE")  # the server of processes takes it over
    expected = Checkpoints(whole.folder).load()
    job = job_of(tmp_path, "slow", "killed", scale="full", checkpoint_seconds=every)
    kill_until_done(job, kills)
    found = Checkpoints(job.folder).load()
    assert found["epochs"] == expected["epochs"]
    assert found["updates"] == expected["updates"]
    assert found["model"].keys() == expected["model"].keys()
    for name, value in expected["model"].items():
        assert torch.equal(found["model"][name], value)
    assert "optimizer" not in found  # the run is finished
    assert not Checkpoints(job.folder).previous.exists()


def test_seeds_of_runs_differ_from_the_first_weight_on(tmp_path):
    workload = problem(tmp_path)
    starts = [weights(loop_of(workload, seed=seed)) for seed in range(6)]
    for i, one in enumerate(starts):
        assert not any(torch.equal(one, other) for other in starts[:i])
    assert len({seed_for(seed) for seed in range(1000)}) == 1000


def test_stopped_after_a_shorter_run_it_is_not_done(tmp_path):
    workload = problem(tmp_path)
    assert loop_of(workload, tmp_path).run(epochs=1).status == "done"
    again = loop_of(workload, tmp_path, stopped=lambda: True)
    assert again.run().status == "stopped"


def test_batches_and_data_may_draw_from_torch(tmp_path):
    workload = problem(tmp_path)
    fixed = workload.data

    def noisy():
        data = fixed()
        return data.train[0] + torch.randn(100, 5), data.train[1]

    class Noisy(Tensors):
        def load(self, examples):
            x, y = super().load(examples)
            return x + torch.randn(()), y

    workload.data = lambda: Data(noisy(), fixed().validation, fixed().test)
    workload.source = lambda split, training: (Noisy if training else Tensors)(split, 16)
    whole = loop_of(workload)
    whole.run()
    updates = []
    loop_of(workload, tmp_path, on_update=updates.append, stopped=lambda: len(updates) == 9).run()
    torch.rand(3)
    resumed = loop_of(workload, tmp_path)
    resumed.run()
    assert torch.equal(weights(whole), weights(resumed))


def test_scores_become_plain_numbers(tmp_path):
    workload = problem(tmp_path)
    workload.evaluate = lambda *_: {"accuracy": np.float64(3), "loss": torch.tensor(1.0)}
    loop_of(workload, tmp_path).run(epochs=1)
    outcome = loop_of(workload, tmp_path).run()
    assert outcome.epochs[0]["validation"] == {"accuracy": 3.0, "loss": 1.0}
    assert type(outcome.epochs[-1]["validation"]["accuracy"]) is float


def test_of_several_processes_none_goes_without(tmp_path):
    workload = problem(tmp_path)
    split = (torch.arange(17.0)[:, None], torch.arange(17))
    shares = [
        list(feed(workload.source(split, True), 0, 0, rank=rank, world=2)) for rank in range(2)
    ]
    assert [[len(y) for _, y in share] for share in shares] == [[8, 1], [8, 1]]


def test_seeds_of_stages_differ():
    seeds = {seed_for(seed, epoch, update, 0) for seed in range(5) for epoch in range(20)
             for update in range(20)}  # fmt: skip
    assert len(seeds) == 2000
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_the_mean_of_the_last_epochs_is_evaluated(tmp_path):
    plain, workload = problem(tmp_path), problem(tmp_path)
    workload.averaged = 3
    past, means = [], []
    evaluate = type(workload).evaluate

    def watched(model, split):
        means.append(torch.cat([param.flatten() for param in model.parameters()]))
        return evaluate(workload, model, split)

    workload.evaluate = watched
    with_means = loop_of(workload)
    without = loop_of(plain, on_epoch=lambda *_: past.append(weights(without).clone()))
    for loop in (with_means, without):
        loop.run()
    assert torch.equal(weights(with_means), weights(without))  # training goes on as it was
    expected = [torch.stack(past[max(0, i - 2) : i + 1]).mean(0) for i in range(4)]
    for mean in means:
        assert any(torch.allclose(mean, value, atol=1e-7) for value in expected)
    for value in expected:
        assert any(torch.allclose(mean, value, atol=1e-7) for mean in means)

    workload.evaluate = lambda model, split: evaluate(workload, model, split)
    updates = []
    loop_of(workload, tmp_path, on_update=updates.append, stopped=lambda: len(updates) == 24).run()
    resumed = loop_of(workload, tmp_path)
    resumed.run()
    assert resumed.outcome.epochs == with_means.outcome.epochs


def test_the_accuracy_on_training_batches_is_recorded(tmp_path):
    """That of the network in training, at each update, also of a run that is continued."""
    workload, by_hand = problem(tmp_path), []

    def loss(model, batch):
        kind = type(workload)
        state = torch.get_rng_state()
        with torch.no_grad():
            right = model(batch[0]).argmax(-1) == batch[1]
        torch.set_rng_state(state)  # the same units are dropped
        by_hand.append(right)
        return kind.loss(workload, model, batch)

    workload.loss = loss
    loop = loop_of(workload)
    loop.run()
    for i, record in enumerate(loop.outcome.epochs):
        batches = by_hand[i * loop.per_epoch : (i + 1) * loop.per_epoch]
        assert record["train"]["accuracy"] == 100 * float(torch.cat(batches).double().mean())
    assert continues(problem(tmp_path), tmp_path, after=10)


def test_a_workload_may_measure_more(tmp_path):
    workload = problem(tmp_path)

    def loss(model, batch):
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        if len(batch[0]) == workload.batch:  # the last batch is smaller
            workload.measured["twice"] = 2 * loss
        return loss

    workload.loss = loss
    loop = loop_of(workload)
    loop.run(epochs=1)
    [record] = loop.outcome.epochs
    # The mean over the full batches alone, of which there are all but one.
    assert record["train"]["twice"] == pytest.approx(2 * record["train"]["loss"], rel=0.05)
    assert "accuracy" not in record["train"]


def test_what_a_workload_shows_and_carries(tmp_path):
    workload = problem(tmp_path)
    carried = []

    def loss(model, batch):
        carried.append(workload.state)
        workload.state = (0 if workload.state is None else workload.state) + torch.ones(())
        return type(workload).loss(workload, model, batch)

    workload.loss = loss
    workload.show = lambda model, data, folder: f"{len(data.test[0])} shown"
    updates = []
    stopped = loop_of(
        workload, tmp_path, on_update=updates.append, stopped=lambda: len(updates) == 10
    )
    stopped.run()
    assert shown_file(tmp_path, 1).read_text() == "50 shown"
    workload.state = None
    loop_of(workload, tmp_path).run()
    told = [None if value is None else int(value) for value in carried]
    assert told == [None, *range(1, 7)] * 4


def test_lr_is_scaled_by_the_batch(tmp_path):
    workload = problem(tmp_path)
    workload.lr_factor = lambda batch: len(batch[0]) / 16
    seen = []
    loop = loop_of(workload, on_update=lambda _: seen.append(loop.optimizer.param_groups[0]["lr"]))
    loop.run(epochs=1)
    assert seen == [1e-3] * 6 + [1e-3 / 4]


def test_the_epoch_that_is_reported_is_the_one_that_is_shown(tmp_path):
    workload = problem(tmp_path, protocol="as-run")
    scores = iter([10.0, 30.0, 20.0, 25.0])
    workload.evaluate = lambda *_: {"accuracy": next(scores)}
    workload.show = lambda *_: "words"
    loop_of(workload, tmp_path).run()
    assert [i for i in range(1, 5) if shown_file(tmp_path, i).exists()] == [1, 2]


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: {"hello": "world"},
        lambda state: {key: value for key, value in state.items() if key != "optimizer"},
        lambda state: {**state, "model": {"0.weight": torch.zeros(1)}},
        lambda state: {**state, "model": {k: v[:1] for k, v in state["model"].items()}},
        lambda state: {**state, "optimizer": {"state": {}, "param_groups": []}},
        lambda state: {**state, "epoch": "one"},
        lambda state: {**state, "epochs": None},
    ],
)
@pytest.mark.parametrize("both", [False, True])
def test_a_checkpoint_with_other_contents_is_not_used(tmp_path, damage, both):
    """The one before is, or else the run begins again: the end is the same."""
    whole = loop_of(problem(tmp_path))
    whole.run()
    loop = loop_of(problem(tmp_path), tmp_path)
    loop.run(epochs=1)
    loop_of(problem(tmp_path), tmp_path).run(epochs=2)
    checkpoints = Checkpoints(tmp_path)
    state = checkpoints.load()
    checkpoints.save(damage(state))
    if both:
        checkpoints.save(damage(state))
    resumed = loop_of(problem(tmp_path), tmp_path)
    with pytest.warns(UserWarning, match="does not fit the run"):
        assert resumed.run().epochs == whole.outcome.epochs
    assert torch.equal(weights(resumed), weights(whole))


def resolution_of(workload, *args, **options):
    loop = loop_of(workload, *args, **options)
    loop.run()
    return loop.outcome.resolution


def test_the_smallest_difference_that_means_anything(tmp_path):
    """One test example of 50 in per cent; else a millionth of the score before training."""
    workload = problem(tmp_path)
    assert resolution_of(workload) == 100 / 50
    bowl = problem(tmp_path, "bowl")
    torch.manual_seed(seed_for(1))
    height = 50.5 + bowl.model().noise.item()
    assert resolution_of(bowl) == pytest.approx(1e-6 * height, rel=1e-5)


def test_a_loss_of_exactly_0_counts_no_examples(tmp_path):
    workload = problem(tmp_path)
    workload.metric, workload.larger_is_better = "distance", False
    trained = []
    before = type(workload).loss

    def loss(model, batch):
        trained.append(True)
        return before(workload, model, batch)

    workload.loss = loss
    workload.scores = lambda model, batch: {
        "loss": before(workload, model, batch),
        "distance": torch.full((len(batch[0]),), 0.0 if trained else 3.0),
    }
    assert resolution_of(workload) == pytest.approx(3e-6)


def test_a_score_that_is_no_number_is_no_measure(tmp_path):
    validation, test = iter([1.0, 2.0, 3.0, 4.0]), iter([math.nan, math.inf, 0.5, 7.0])
    scores = (next(split) for _ in range(4) for split in (validation, test))
    own = {"evaluate": lambda *_: {"accuracy": next(scores)}}
    workload = type("Own", (type(problem(tmp_path)),), own)("mini", "fair")
    assert resolution_of(workload) == pytest.approx(1e-6 * 0.5)
