"""Optimizers with modes of their own, and those that evaluate the loss again."""

import json
from dataclasses import replace

import pytest
import torch

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.contenders import find, origin
from adamomentum_lab.engine.job import Job, execute
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.facts import caveats_of
from adamomentum_lab.race.plan import base_settings
from adamomentum_lab.schedules import Constant, Step
from adamomentum_lab.training.checkpoints import Checkpoints
from adamomentum_lab.training.feed import feed
from tests.adamomentum_lab.command_line import no_workers, run_here
from tests.adamomentum_lab.loops import loop_of, weights
from tests.adamomentum_lab.problems import HEAD

__all__ = ["no_workers"]


class Averaged(torch.optim.SGD):
    """Evaluates the mean of all weights so far. Its mode is not in its state_dict."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, lr)
        self.calls, self.training = [], True

    def train(self):
        self.calls.append("train")
        self._switch(True)

    def eval(self):
        self.calls.append("eval")
        self._switch(False)

    def _switch(self, training):
        if training != self.training:
            for param, state in self.state.items():
                now = param.detach().clone()
                param.data.copy_(state["other"])
                state["other"] = now
        self.training = training

    @torch.no_grad()
    def step(self, closure=None):
        assert self.training, "a step in the mode for evaluation"
        super().step(closure)
        for group in self.param_groups:
            for param in group["params"]:
                state = self.state[param]
                n = state["n"] = state.get("n", 0) + 1
                mean = state.setdefault("other", torch.zeros_like(param))
                mean.lerp_(param, 1 / n)


def problem(folder, extra="", name="mine.py"):
    file = folder / name
    file.write_text(HEAD + extra)
    return find_workload(str(file)).load()("smoke")


SCORES = """
    seen = []

    def scores(self, model, batch):
        Problem.seen.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
        return super().scores(model, batch)
"""


def test_modes_are_switched_for_evaluation_and_checkpoints(tmp_path):
    workload = problem(tmp_path, SCORES)
    loop = loop_of(workload, tmp_path, build=Averaged)
    loop.run()
    assert loop.optimizer.calls == ["train", "eval"] * 2
    # What is evaluated is the mean, and the last checkpoint has it as the weights.
    assert torch.equal(weights(loop), type(workload).seen[-1])
    saved = Checkpoints(tmp_path).load()
    flat = torch.cat([value.flatten() for value in saved["model"].values()])
    assert torch.equal(flat, type(workload).seen[-1])
    assert saved["training"] is False


@pytest.mark.parametrize("after", [3, 7, 8, 14])
@pytest.mark.parametrize("optimizer", ["averaged", "schedulefree"])
def test_a_run_with_modes_continues_bit_for_bit(tmp_path, after, optimizer):
    """Stopped in an epoch, at its end, and in the next. There are 7 updates in an epoch."""
    build = Averaged
    if optimizer == "schedulefree":
        free = pytest.importorskip("schedulefree").AdamWScheduleFree
        build = lambda params: free(params, lr=0.05, warmup_steps=3)  # noqa: E731
    workload = problem(tmp_path)
    whole = loop_of(workload, build=build)
    whole.run()
    updates = []
    first = loop_of(workload, tmp_path, build=build, on_update=updates.append,
                    stopped=lambda: len(updates) == after)  # fmt: skip
    assert first.run().status in ("stopped", "done")
    again = loop_of(workload, tmp_path, build=build)
    assert again.run().epochs == whole.outcome.epochs
    assert torch.equal(weights(again), weights(whole))


NORMED = """
    def model(self):
        return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
"""


def test_batch_norm_has_the_statistics_of_the_weights_that_are_evaluated(tmp_path):
    workload = problem(tmp_path, NORMED)
    loop = loop_of(workload, build=lambda params: Averaged(params, lr=1.0))
    loop.run()
    model, norm = loop.model, loop.model[1]
    with torch.no_grad():  # the evaluated weights: the run has ended with them
        batches = [model[0](x) for x, _ in feed(loop.source, loop.seed, 1)]
    means = torch.stack([batch.mean(0) for batch in batches]).mean(0)
    torch.testing.assert_close(norm.running_mean, means)
    assert norm.momentum == 0.1
    assert norm.num_batches_tracked == 7
    # Without modes nothing is refreshed.
    plain = loop_of(workload, build=lambda params: torch.optim.SGD(params, lr=1.0))
    plain.run()
    assert plain.model[1].num_batches_tracked == 14


def lbfgs(params):
    return torch.optim.LBFGS(params, lr=0.1, max_iter=4)


def test_a_closure_sees_the_same_loss_again(tmp_path):
    """With dropout: the same random numbers in every evaluation of a step."""
    seen = []

    class Twice(torch.optim.SGD):
        def step(self, closure):
            seen.append((closure().item(), closure().item()))
            super().step()

    loop = loop_of(problem(tmp_path), build=lambda p: Twice(p, lr=0.1), closure=True)
    loop.run()
    assert len(seen) == 14
    assert all(first == second for first, second in seen)
    assert len({first for first, _ in seen}) == 14
    plain = loop_of(problem(tmp_path), build=lambda p: torch.optim.SGD(p, lr=0.1))
    assert plain.run().epochs == loop.outcome.epochs


def test_a_closure_leaves_the_carried_state_of_one_evaluation(tmp_path):
    counting = """
    def loss(self, model, batch):
        self.state = torch.tensor(0) if self.state is None else self.state + 1
        return super().loss(model, batch)
"""
    workload = problem(tmp_path, counting)
    loop_of(workload, build=lbfgs, closure=True).run()
    assert workload.state == 6  # of 7 updates in an epoch


def test_a_run_with_a_closure_continues_bit_for_bit(tmp_path):
    workload = problem(tmp_path, "\n    clip = 0.5\n")
    whole = loop_of(workload, build=lbfgs, closure=True)
    whole.run()
    updates = []
    loop_of(workload, tmp_path, build=lbfgs, closure=True, on_update=updates.append,
            stopped=lambda: len(updates) == 5).run()  # fmt: skip
    again = loop_of(workload, tmp_path, build=lbfgs, closure=True)
    assert again.run().epochs == whole.outcome.epochs
    assert torch.equal(weights(again), weights(whole))


def test_a_step_that_does_not_evaluate_raises_an_error(tmp_path):
    class Lazy(torch.optim.SGD):
        def step(self, closure):
            pass

    with pytest.raises(LabError, match=r"^Lazy did not evaluate the loss in its step"):
        loop_of(problem(tmp_path), build=Lazy, closure=True).run()


def test_a_closure_on_an_adversarial_workload_gets_a_sentence():
    cls = find_workload("cifar10_dcgan").load()
    contender = find("torch.optim.LBFGS")
    with pytest.raises(LabError, match=r"^LBFGS cannot be raced on \w+: its step evaluates the"):
        base_settings(contender, cls, "fair")
    assert base_settings(contender, find_workload("digits_mlp").load(), "fair")["max_iter"] == 20


def test_a_schedule_that_must_be_off_is_off_and_said_to_be(tmp_path):
    pytest.importorskip("schedulefree")
    contender = find("schedulefree.AdamWScheduleFree")
    assert contender.needs == {"modes", "constant lr"}
    assert contender.schedule(Step()) == Constant()
    assert find("torch.optim.Adam").schedule(Step()) == Step()
    stepped = problem(tmp_path, "\n    schedule = __import__('adamomentum_lab').Step((0.5,))\n")
    (note,) = caveats_of([contender, find("adam")], stepped)
    assert note == "AdamWScheduleFree trains at a constant lr, without the schedule of the others"
    constant = problem(tmp_path, name="constant.py")
    assert caveats_of([contender], constant) == ()

    def run(reference, folder):
        spec = Spec.of(
            contender.settings, workload=reference.name, code="", optimizer=contender.name,
            seed=1, scale="smoke", protocol="fair", **origin(contender.name, contender.entry),
        )  # fmt: skip
        (tmp_path / folder).mkdir()
        return execute(Job(spec, reference, tmp_path / folder, entry=contender.entry))

    both = [run(find_workload(str(tmp_path / f"{name}.py")), name) for name in ("mine", "constant")]
    assert both[0].epochs == both[1].epochs


def test_a_race_of_all_needs(no_workers, tmp_path):
    pytest.importorskip("schedulefree")
    (tmp_path / "mine.py").write_text(HEAD)
    names = "adamw,torch.optim.LBFGS(max_iter=3),schedulefree.AdamWScheduleFree"
    done = run_here("race", tmp_path / "mine.py", "--optimizers", names, "--trials", "0", "--seeds",
                    "1", "--scale", "smoke", "--runs", tmp_path / "runs", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {run["status"] for run in json.loads(done.stdout)["runs"]} == {"done"}
    assert replace(find("torch.optim.LBFGS"), name="x").needs == {"closure"}
