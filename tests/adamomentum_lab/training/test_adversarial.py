"""The loop of two networks: by hand, continued bit for bit, honest about collapse."""

import json
import math
import random
import time

import pytest
import torch
from lightning_fabric import Fabric
from torch import nn
from typer.testing import CliRunner

from adamomentum import AdaMomentum
from adamomentum_lab.catalog import find_workload
from adamomentum_lab.cli import app
from adamomentum_lab.engine.job import Job
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.errors import LabError
from adamomentum_lab.schedules import Step
from adamomentum_lab.selection import select_epoch
from adamomentum_lab.training.adversarial import AdversarialLoop
from adamomentum_lab.training.checkpoints import Checkpoints
from adamomentum_lab.training.feed import feed, seed_for
from adamomentum_lab.training.outcome import shown_file
from adamomentum_paper.workloads import _cifar10_gan
from tests.adamomentum_lab.loops import kill_until_done
from tests.adamomentum_paper.noise import noise_where_missing
from tests.adamomentum_paper.workloads.test_gans import NAMES


@pytest.fixture
def images(monkeypatch):
    """The real ones where there are, else noise of their shape."""
    noise_where_missing(monkeypatch, _cifar10_gan)


def small(name="digits_dcgan", protocol="fair", batch=8, **changed):
    """A workload of seconds."""
    workload = find_workload(name).load()("smoke", protocol)
    workload.batch, workload.steps = batch, {"smoke": 4}
    for attribute, value in changed.items():
        setattr(workload, attribute, value)
    return workload


def build(network):
    return AdaMomentum(network.parameters(), lr=2e-4, betas=(0.5, 0.999))


def loop_of(workload, folder=None, seed=1, **options):
    checkpoints = Checkpoints(folder) if folder else None
    return AdversarialLoop(workload, build, seed, checkpoints=checkpoints, **options)


def leaves(state):
    """All tensors and numbers of nested states."""
    if isinstance(state, dict):
        return [leaf for key in state for leaf in leaves(state[key])]
    if isinstance(state, (list, tuple)):
        return [leaf for item in state for leaf in leaves(item)]
    return [state]


def same(one, other):
    pairs = list(zip(leaves(one), leaves(other), strict=True))
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs)


def test_it_is_the_loop_anyone_would_write():
    workload = small(ema=0.9, ema_from=3)
    loop = loop_of(workload, seed=3)
    loop.run(epochs=1)

    data = workload.splits()
    torch.manual_seed(seed_for(3))
    networks = workload.model()
    generator, discriminator = networks.generator, networks.discriminator
    of_g, of_d = build(generator), build(discriminator)
    average = [param.detach().clone() for param in generator.parameters()]
    chance = torch.Generator().manual_seed(seed_for(3, 0))
    order = torch.randperm(len(data.train[0]), generator=chance)
    totals = torch.zeros(2)
    for step in range(4):
        torch.manual_seed(seed_for(3, 0, step, 0))
        for part in range(2):
            indices = order[16 * step + 8 * part : 16 * step + 8 * part + 8]
            real = data.train[0][indices] / 127.5 - 1
            noise, classes = torch.randn(8, 32), torch.randint(10, (8,))
            with torch.no_grad():
                fake = generator(noise, classes)
            of_d.zero_grad()
            outputs = discriminator(real, None), discriminator(fake, None)
            loss = nn.functional.softplus(-outputs[0]).mean()
            loss = loss + nn.functional.softplus(outputs[1]).mean()
            loss.backward()
            of_d.step()
            totals[1] += loss.detach() / 2
        of_g.zero_grad()
        fake = generator(torch.randn(8, 32), torch.randint(10, (8,)))
        loss = nn.functional.softplus(-discriminator(fake, None)).mean()
        loss.backward()
        of_g.step()
        totals[0] += loss.detach()
        for mean, param in zip(average, generator.parameters(), strict=True):
            keep = 0.9 if step + 1 >= 3 else 0.0  # until then the average is the generator
            mean.copy_(keep * mean + (1 - keep) * param.detach())
    for ours, theirs in zip(loop.networks.parameters(), networks.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    for ours, theirs in zip(loop.average.parameters(), average, strict=True):
        torch.testing.assert_close(ours.detach(), theirs, rtol=1e-5, atol=1e-7)
    assert not any(param.requires_grad for param in loop.average.parameters())
    record = loop.outcome.epochs[0]["train"]
    assert record["loss"] == pytest.approx(float(totals[0]) / 4, rel=1e-5)
    assert record["d_loss"] == pytest.approx(float(totals[1]) / 4, rel=1e-5)


@pytest.mark.parametrize("precision", ["64-true", "bf16-mixed"])
def test_in_every_precision_it_continues_bit_for_bit(precision, tmp_path):
    """Where Fabric wraps the networks."""
    workload = small(ema=0.9, ema_from=2)
    workload.steps = {"smoke": 2}
    fabric = Fabric(accelerator="cpu", devices=1, precision=precision)
    whole = loop_of(workload, fabric=fabric)
    whole.run()
    updates = []
    loop_of(
        workload, tmp_path, fabric=fabric, on_update=updates.append, stopped=lambda: updates
    ).run()
    assert len(updates) == 1
    resumed = loop_of(workload, tmp_path, fabric=fabric)
    assert resumed.run().status == "done"
    assert whole.outcome.epochs == resumed.outcome.epochs
    assert same(whole._states(), resumed._states())


def test_in_half_precision_the_average_moves_too(tmp_path):
    """Of bfloat16's three digits, a decay of 0.9999 would change none."""
    workload = small(ema=0.9999, ema_from=1)
    fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-true")
    loop = loop_of(workload, tmp_path, fabric=fabric)
    generator = loop.networks.generator
    means = [param.detach().double() for param in generator.parameters()]

    def follow(_):
        for mean, param in zip(means, generator.parameters(), strict=True):
            mean += 1e-4 * (param.detach() - mean)

    loop.on_update = follow
    loop.run(epochs=1)
    assert next(generator.parameters()).dtype == torch.bfloat16
    for ours, mean in zip(loop.average.parameters(), means, strict=True):
        torch.testing.assert_close(ours.double(), mean, rtol=1e-5, atol=1e-7)
    again = loop_of(workload, tmp_path, fabric=fabric)
    again.run(epochs=1)
    assert same(loop._states(), again._states())


@pytest.mark.parametrize(
    ("name", "at"),
    [
        *(
            pytest.param(name, 6, marks=[pytest.mark.slow] if "cifar" in name else [])
            for name in NAMES
        ),
        ("digits_dcgan", 1),
        ("digits_dcgan", 4),
    ],
)
def test_stopped_at_any_update_it_continues_bit_for_bit(name, at, images, tmp_path):
    workload = small(name)
    if "digits" in name:
        workload.ema, workload.ema_from = 0.9, 2
    whole = loop_of(workload)
    assert whole.run().status == "done"
    updates = []
    stopped = loop_of(
        workload, tmp_path, on_update=updates.append, stopped=lambda: len(updates) == at
    )
    assert stopped.run().status == "stopped"
    torch.rand(3)
    resumed = loop_of(workload, tmp_path)
    assert resumed.run().status == "done"
    assert resumed.outcome.updates == whole.outcome.updates == 8
    assert whole.outcome.epochs == resumed.outcome.epochs
    assert (whole.average is not None) == (name in ("cifar10_biggan", "digits_dcgan"))
    states = whole._states()
    assert len(states["optimizers"]) == 2
    assert same(states, resumed._states())


@pytest.mark.slow
@pytest.mark.full
def test_killed_at_random_instants_the_end_is_the_same(tmp_path):
    origin = find_workload("digits_dcgan")
    spec = Spec.of(
        {"lr": 2e-4},
        workload=origin.name,
        code=origin.code,
        optimizer="adamomentum",
        seed=1,
        scale="smoke",
        protocol="fair",
    )
    jobs = []
    for name in ("whole", "killed"):
        (tmp_path / name / "run").mkdir(parents=True)
        jobs.append(Job(spec, origin, tmp_path / name / "run", checkpoint_seconds=0.0))
    kill_until_done(jobs[0], 0)
    instants = random.Random(0)

    def after_an_update(process):
        """Soon after a new checkpoint: to begin takes seconds, an update milliseconds."""
        file = jobs[1].folder / "last.ckpt"
        before = file.stat().st_mtime_ns if file.exists() else 0
        while process.is_alive() and (not file.exists() or file.stat().st_mtime_ns == before):
            time.sleep(0.002)
        process.join(instants.uniform(0, 0.02))

    kill_until_done(jobs[1], 4, after_an_update)
    whole, killed = (Checkpoints(job.folder).load() for job in jobs)
    for key in ("networks", "average", "start", "epochs", "updates"):
        assert same(whole[key], killed[key])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_is_recorded_and_drawn(name, images, tmp_path):
    loop = loop_of(small(name), tmp_path)
    outcome = loop.run()
    assert outcome.status == "done"
    first, second = outcome.epochs
    assert first["start"].keys() == first["validation"].keys() == {"fd-cnn"}
    assert "start" not in second
    for record in outcome.epochs:
        assert set(record["train"]) == {"loss", "d_loss", "spread", "collapsed"}
        assert all(math.isfinite(value) for value in record["train"].values())
        assert record["validation"]["fd-cnn"] > 0
    sheets = [tmp_path / f"sheet-000{i}.png" for i in range(3)]
    assert len({sheet.read_bytes() for sheet in sheets}) == 3
    assert (tmp_path / "interpolation.png").exists()
    words = shown_file(tmp_path, select_epoch(outcome.epochs, loop.workload)["epoch"]).read_text()
    assert f"{tmp_path}/sheet-*.png" in words
    assert f"{tmp_path}/interpolation.png" in words


def test_sheets_and_scores_are_of_the_same_noise():
    workload = small()
    loop_of(workload)
    generator = workload.generator().eval()
    torch.manual_seed(1)
    with torch.no_grad():
        one = workload.samples(generator), workload.evaluate(generator, workload.splits().test)
        torch.rand(5)
        other = workload.samples(generator), workload.evaluate(generator, workload.splits().test)
    assert torch.equal(one[0], other[0])
    assert one[1] == other[1]


def test_batches_go_over_the_examples_in_passes():
    workload = small(batch=10)
    split = (torch.arange(50), torch.arange(50))
    source = workload.source(split, training=True)
    batches = list(feed(source, 0, 0))
    assert [len(x) for x, _ in batches] == [20] * 4
    drawn = torch.cat([x for x, _ in batches])
    assert len(drawn[:50].unique()) == 50
    assert all(torch.equal(x, y) for x, y in batches)
    rest = list(feed(source, 0, 0, skip=2))
    assert all(torch.equal(a[0], b[0]) for a, b in zip(batches[2:], rest, strict=True))
    assert [[len(x) for x, _ in workload.parts(batch)] for batch in batches] == [[10, 10]] * 4


def test_both_follow_the_schedule(tmp_path):
    loop = loop_of(small(), schedule=Step(at=(0.5,), factor=0.1))
    seen = []
    loop.on_update = lambda _: seen.append(
        {group["lr"] for optimizer, _ in loop._optimizers for group in optimizer.param_groups}
    )
    loop.run()
    assert seen == [{2e-4}] * 4 + [{2e-4 * 0.1}] * 4


def test_divergence_is_recorded(tmp_path):
    workload = small()
    plain = workload.discriminator_loss
    workload.discriminator_loss = lambda *args: plain(*args) * math.nan
    updates = []
    outcome = loop_of(workload, tmp_path, on_update=updates.append).run()
    assert (outcome.status, outcome.epochs, len(updates)) == ("diverged", [], 1)
    assert loop_of(workload, tmp_path).run().status == "diverged"


class Constant(nn.Module):
    """One picture, whatever the noise."""

    def __init__(self, value):
        super().__init__()
        self.value = nn.Parameter(torch.tensor(value))

    def forward(self, z, classes):
        return self.value.tanh().expand(len(z), 1, 8, 8)


@pytest.mark.parametrize("value", [0.3, math.nan])
def test_all_samples_equal_is_a_collapse_and_no_error(value, tmp_path):
    workload = small(generator=lambda: Constant(value))
    workload.loss = lambda model, _: 0.0 * model.generator.value.nan_to_num().sum()
    workload.discriminator_loss = lambda model, _: sum(
        param.square().sum() for param in model.discriminator.parameters()
    )
    outcome = loop_of(workload, tmp_path).run()
    assert outcome.status == "done"
    assert [record["train"]["collapsed"] for record in outcome.epochs] == [1.0, 1.0]
    scores = [record["validation"]["fd-cnn"] for record in outcome.epochs]
    assert all(map(math.isnan, scores)) if math.isnan(value) else min(scores) > 0


def test_a_discriminator_that_has_won_is_a_collapse():
    workload = small()
    plain = workload.discriminator_loss
    workload.discriminator_loss = lambda *args: plain(*args) * 1e-6
    record = loop_of(workload).run(epochs=1).epochs[0]["train"]
    assert record["collapsed"] == 1.0
    assert record["spread"] > 0.01
    assert loop_of(small()).run(epochs=1).epochs[0]["train"]["collapsed"] == 0.0


def test_without_inception_nothing_is_begun(images, tmp_path, monkeypatch):
    monkeypatch.setenv("ADAMOMENTUM_INCEPTION", str(tmp_path / "inception.pt"))
    with pytest.raises(LabError, match=r"FID needs the Inception .*inception\.pt does not exist"):
        loop_of(find_workload("cifar10_dcgan").load()("full"))


def test_one_device_only():
    class Two:
        world_size = 2

    loop = AdversarialLoop.__new__(AdversarialLoop)
    loop.fabric, loop.workload = Two(), small()
    with pytest.raises(LabError, match=r"DigitsDCGAN trains two networks; .* one device only"):
        loop._set_up(None, build)


def test_the_command(tmp_path):
    args = ["train", "digits_dcgan", "--optimizer", "adamomentum", "--scale", "smoke"]
    args += ["--runs", str(tmp_path)]
    result = CliRunner().invoke(app, [*args, "--epochs", "1", "--json"])
    assert result.exit_code == 0, result.output
    (record,) = json.loads(result.stdout)["epochs"]
    assert record["start"]["fd-cnn"] > 0
    result = CliRunner().invoke(app, args)  # goes on
    assert result.exit_code == 0, result.output
    assert "sheet-*.png" in result.stdout
    assert "Note: fd-cnn goes by a small classifier of the same images: NOT FID." in result.stdout
    assert len(list((tmp_path / "kept").iterdir())) == 1


@pytest.mark.slow
def test_a_race(tmp_path):
    args = ["race", "digits_dcgan", "--optimizers", "adam,adamomentum", "--scale", "smoke"]
    args += ["--search", "grid"]
    args += ["--trials", "2", "--seeds", "1", "--runs", str(tmp_path), "--json"]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, result.output
    ranking = json.loads(result.stdout)["ranking"]
    assert {row["optimizer"] for row in ranking} == {"adam", "adamomentum"}
    assert all(row["settings"]["lr"] == 2e-4 for row in ranking)
    assert len(list((tmp_path / "kept").iterdir())) == 1
