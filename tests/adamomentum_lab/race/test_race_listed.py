"""Races over a grid or at random: trials by validation alone, halving, resuming, the budget."""

import json
import math
from dataclasses import replace

import pytest

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.engine.events import EpochEnded, RunsDropped
from adamomentum_lab.engine.job import Job, execute, is_complete, mark_stopped
from adamomentum_lab.engine.local import Local
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.engine.store import Run, Store
from adamomentum_lab.files import dumps
from adamomentum_lab.race.plan import make_plan
from adamomentum_lab.race.race import run_race
from adamomentum_lab.race.reuse import show_stored_runs
from adamomentum_lab.report.data import as_json
from adamomentum_lab.report.progress import Pace
from adamomentum_lab.report.sentences import of_search
from tests.adamomentum_lab.command_line import without_machine
from tests.adamomentum_lab.problems import PROBLEMS, write_problem
from tests.adamomentum_lab.races import problem, race_of, run_in_turn


class Poisoned(dict):
    """The record of an epoch that nobody may read the test scores of."""

    def _check(self, key):
        assert key != "test", "a trial's test scores were read"

    def __getitem__(self, key):
        self._check(key)
        return super().__getitem__(key)

    def get(self, key, default=None):
        self._check(key)
        return super().get(key, default)


class Invented:
    """An engine whose runs have these scores: `score(optimizer, trial, epoch)` is accuracy and loss
    on validation, or None where the run diverges."""

    def __init__(self, plan, score, epochs):
        self.plan, self.score, self.epochs = plan, score, epochs
        self.asked, self.say = [], pytest.fail

    def run(self, jobs, emit, follow=lambda *_: []):
        return run_in_turn(jobs, lambda job: self.one(job, emit), emit, follow)

    def one(self, job, emit):
        spec, records, status = job.spec, [], "done"
        self.asked.append((spec.optimizer, spec.seed, job.epochs))
        number = 0
        if spec.seed == 0:
            own = self.plan.trials[spec.optimizer]
            frozen = [Spec.of(s, **BASE).settings for s in own]
            number = frozen.index(spec.settings)
        for epoch in range(1, (job.epochs or self.epochs) + 1):
            scores = self.score(spec.optimizer, number, epoch)
            if scores is None:
                status = "diverged"
                break
            accuracy, loss = scores
            record = {"epoch": epoch, "validation": {"accuracy": accuracy, "loss": loss}}
            record["test"] = {"accuracy": -accuracy}
            records.append(Poisoned(record) if spec.seed == 0 else record)
            emit(EpochEnded(job.stage, spec, records[-1], 0.1))
        return mark_stopped(job, Run(spec, status, records, [0.1] * len(records)))


BASE = {"workload": "", "code": "", "optimizer": "", "seed": 0, "scale": "mini", "protocol": "fair"}


def invented(tmp_path, score, *optimizers, **options):
    origin = problem(tmp_path, epochs=20, spaces={"*": {"lr": (0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3)}})
    options = {"search": "grid"} | options
    race = race_of(origin, *(optimizers or ("adam", "sgdm")), **options)
    plan = make_plan(race, origin.load())
    engine = Invented(plan, score, plan.epochs)
    pace, events = Pace(plan), []
    result = run_race(plan, origin, Store(tmp_path), engine, [pace.hear, events.append])
    assert pace.left == 0  # at the end
    assert pace.computed == sum(isinstance(event, EpochEnded) for event in events)
    return result, engine, [event for event in events if isinstance(event, RunsDropped)]


@pytest.mark.parametrize("halving", [False, True])
def test_no_choice_reads_test(tmp_path, halving):
    """Test scores are the opposite of validation's, and reading a trial's fails."""
    result, _, _ = invented(tmp_path, lambda _, trial, epoch: (trial, 1.0), halving=halving)
    assert [own.chosen for own in result.tuned.values()] == [5, 5]
    assert result.rows[0].sensitivity is not None  # which reads all trials
    of_search(result)


def test_halving_by_hand(tmp_path):
    # By epoch 5 the order is 5 4 3 | 2 1 0; by epoch 10 trial 3 leads 4 and 5; at the end 4 wins.
    def score(_, trial, epoch):
        second = {3: 300, 4: 200, 5: 100}.get(trial, 0) if epoch > 5 else 0
        third = {3: 900, 4: 9000}.get(trial, 0) if epoch > 10 else 0
        return 10 * trial + second + third, 1.0

    result, engine, drops = invented(tmp_path, score, halving=True)
    for name, own in result.tuned.items():
        assert [len(run.epochs) for run in own.runs] == [5, 5, 5, 20, 20, 10]
        assert [run.status for run in own.runs] == ["stopped"] * 3 + ["done"] * 2 + ["stopped"]
        assert own.chosen == 4
        assert own.epochs == 5 * 6 + 5 * 3 + 10 * 2
        assert [epochs for who, seed, epochs in engine.asked if who == name and seed == 0] == [
            5, 5, 5, 5, 5, 5, 10, 10, 10, None, None
        ]  # fmt: skip
    assert drops == []


def test_ties_go_by_loss_and_then_by_number(tmp_path):
    losses = [3.0, 2.0, 1.0, 2.0, 3.0, 1.0]
    for halving in (False, True):
        result, _, _ = invented(
            tmp_path, lambda _, trial, epoch: (50.0, losses[trial]), halving=halving
        )
        assert result.tuned["adam"].chosen == 2
    assert [len(run.epochs) for run in result.tuned["adam"].runs] == [5, 10, 20, 5, 5, 20]


def test_diverged_trials_drop_out(tmp_path):
    def score(name, trial, epoch):
        if name == "adam" and (trial != 1 or epoch > 12):
            return None
        return 50.0, 1.0

    result, _, drops = invented(tmp_path, score, halving=True)
    adam = result.tuned["adam"]
    assert {run.status for run in adam.runs} == {"diverged"}
    assert [len(run.epochs) for run in adam.runs] == [0, 12, 0, 0, 0, 0]
    assert drops == [
        RunsDropped("tuning", "adam", 2, 2 * 5),
        RunsDropped("tuning", "adam", 1, 10),
    ]
    assert result.tuned["sgdm"].epochs == 65
    assert adam.chosen == 0  # nobody is left: what it starts from is raced


def test_who_stopped_early_is_raced_only_if_all_that_went_on_diverged(tmp_path):
    def score(_, trial, epoch):
        return None if trial >= 3 and epoch > 5 else (trial, 1.0)

    result, _, drops = invented(tmp_path, score, halving=True)
    assert result.tuned["adam"].chosen == 2
    assert drops == [RunsDropped("tuning", name, 2, 2 * 10) for name in ("adam", "sgdm")]


def test_the_budget_is_what_is_spent(tmp_path):
    for options in ({"halving": True}, {"halving": False}, {"trials": 0}):
        result, engine, _ = invented(tmp_path, lambda *_: (1.0, 1.0), **options)
        plan = engine.plan
        spent = sum(own.epochs for own in result.tuned.values()) + 2 * 20
        assert spent == plan.all_epochs == sum(map(plan.epochs_of, ("adam", "sgdm")))
        assert sum(map(plan.runs_of, ("adam", "sgdm"))) == len(engine.asked)


class Here:
    """An engine in this process; it is interrupted after `limit` epochs."""

    def __init__(self, store, limit=math.inf):
        self.store, self.limit = store, limit
        self.computed, self.say = 0, pytest.fail

    def run(self, jobs, emit, follow=lambda *_: []):
        return run_in_turn(jobs, self._one, emit, follow)

    def _one(self, job):
        run = self.store.get(job.spec)
        return run if is_complete(job, run) else self._compute(job)

    def _compute(self, job):
        def heard(record, seconds):
            self.computed += 1
            self.store.epoch(job.spec, record, seconds)

        self.store.begin(job.spec, {})
        run = execute(job, heard, stopped=lambda: self.computed >= self.limit)
        if run.status == "stopped":
            raise KeyboardInterrupt
        run = mark_stopped(job, run)
        self.store.finish(run)
        return run


def held(folder, file, limit=math.inf, **options):
    """A race in this process: its JSON and how many epochs were computed."""
    origin, store = find_workload(str(file)), Store(folder)
    race = race_of(origin, "adam", "adamomentum", **({"trials": 4, "search": "grid"} | options))
    engine = Here(store, limit)
    plan = make_plan(race, origin.load())
    result = run_race(plan, origin, store, engine)
    return without_machine(json.loads(dumps(as_json(result)))), engine.computed


def apart_from_looks(found):
    """The JSON of a race without what depends on the looks that were taken before it."""
    spent = ("looks", "verdicts", "headline", "continue")
    rest = {key: value for key, value in found.items() if key not in spent}
    return {**rest, "ranking": [{**row, "verdict": None} for row in found["ranking"]]}


@pytest.mark.slow
def test_halving_is_the_same_whatever_was_done_before(tmp_path):
    file = write_problem(tmp_path)  # four epochs
    fresh, computed = held(tmp_path / "fresh", file, halving=True)
    # Of each: 4 trials to 1, 2 to 2, 1 to 4, and one seed.
    assert computed == 2 * (4 * 1 + 2 * 1 + 1 * 2 + 4)
    assert {own["epochs"] for own in fresh["tuning"]["contenders"].values()} == {8}
    for own in fresh["tuning"]["contenders"].values():
        assert sorted(trial["epochs"] for trial in own["trials"]) == [1, 1, 2, 4]
        assert own["trials"][own["chosen"] - 1]["epochs"] == 4
    again, computed = held(tmp_path / "fresh", file, halving=True)
    assert (again, computed) == (fresh, 0)

    # Without halving the same runs go on, to what they would have been.
    whole, computed = held(tmp_path / "whole", file)
    assert computed == 2 * (4 * 4 + 4)
    later, computed = held(tmp_path / "fresh", file)
    assert apart_from_looks(later) == apart_from_looks(whole)
    assert computed <= 2 * (4 * 4 - 8 + 4)
    # But another search is another look at the same question, and 1 % was spent.
    assert (whole["looks"][0]["level"], later["looks"][0]["level"]) == (0.01, 0)
    # And halving after the whole finds its trials, and takes of them what it would have seen.
    after, _ = held(tmp_path / "whole", file, halving=True)
    assert apart_from_looks(after) == apart_from_looks(fresh)
    assert {run.status for run in Store(tmp_path / "whole").all()} == {"done"}


def test_a_part_of_a_run_is_not_kept_as_done(tmp_path):
    file = write_problem(tmp_path)
    held(tmp_path / "runs", file, halving=True)
    kinds = {(run.status, len(run.epochs)) for run in Store(tmp_path / "runs").all()}
    assert kinds == {("stopped", 1), ("stopped", 2), ("done", 4)}


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 9, 13, 20])
def test_an_interrupted_race_with_halving_continues(tmp_path, limit):
    file = write_problem(tmp_path)
    fresh, _ = held(tmp_path / "fresh", file, halving=True)
    with pytest.raises(KeyboardInterrupt):
        held(tmp_path / "runs", file, limit, halving=True)
    again, computed = held(tmp_path / "runs", file, halving=True)
    assert again == fresh
    assert computed == 24 - limit


@pytest.mark.slow
def test_more_trials_of_a_random_search_cost_only_the_new_ones(tmp_path):
    file = write_problem(tmp_path)
    held(tmp_path / "runs", file, search="random", trials=2)
    origin = find_workload(str(file))
    race = race_of(origin, "adam", "adamomentum", search="random", trials=4)
    plan = make_plan(race, origin.load())
    found, changes = show_stored_runs(plan, origin, Store(tmp_path / "runs"))
    assert not changes
    assert [(run.spec.optimizer, run.status) for run in found] == [
        ("adam", "done"), ("adam", "done"), ("adamomentum", "done"), ("adamomentum", "done")
    ]  # fmt: skip


@pytest.mark.slow
def test_other_test_data_changes_no_choice(tmp_path):
    """The whole way, through the loop: only the labels of test differ."""
    (tmp_path / "other").mkdir()
    one = write_problem(tmp_path)
    other = tmp_path / "other" / "plain.py"
    text = PROBLEMS["plain"].replace("(x[150:], y[150:])", "(x[150:], 1 - y[150:])")
    assert text != PROBLEMS["plain"]
    other.write_text(text)
    for halving in (False, True):
        a, _ = held(tmp_path / "a", one, halving=halving)
        b, _ = held(tmp_path / "b", other, halving=halving)
        for name in ("adam", "adamomentum"):
            of = [found["tuning"]["contenders"][name] for found in (a, b)]
            assert of[0]["chosen"] == of[1]["chosen"]
            assert [t["validation"] for t in of[0]["trials"]] == [
                t["validation"] for t in of[1]["trials"]
            ]
        assert a["ranking"][0]["values"] != b["ranking"][0]["values"]


@pytest.mark.slow
def test_workers_stop_and_go_on(tmp_path):
    store = Store(tmp_path / "runs")
    origin = find_workload(str(write_problem(tmp_path)))
    spec = race_of(origin, "adam").spec("adam", {"lr": 1e-2}, 1)
    whole = Job(spec, origin, store.folder_of(spec))
    with Local(store, 1, lambda _: None) as engine:
        (part,) = engine.run([replace(whole, epochs=2)])
        assert (part.status, len(part.epochs)) == ("stopped", 2)
        assert store.get(spec).status == "stopped"
        (again,) = engine.run([replace(whole, epochs=1)])
        assert again.epochs == part.epochs
        (run,) = engine.run([whole])
        assert (run.status, len(run.epochs)) == ("done", 4)
    assert store.get(spec).status == "done"
    alone = Job(spec, origin, tmp_path)
    assert execute(alone).epochs == run.epochs
