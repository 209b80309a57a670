"""Tuning: what is tried, for how long, and by what it is chosen."""

import itertools
import json
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import nn

from adamomentum_lab import contenders
from adamomentum_lab.catalog import find_workload
from adamomentum_lab.engine.job import Job, ended, execute, mark_stopped
from adamomentum_lab.engine.local import Local
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.engine.store import Run, Store
from adamomentum_lab.files import dumps
from adamomentum_lab.race.race import Race, budget, hold, kept
from adamomentum_lab.race.search import Rung, rungs, searched, trials
from adamomentum_lab.report.progress import duration
from tests.adamomentum_lab.problems import PROBLEMS, write_problem

KINDS = list(contenders.GRIDS)
everyone = st.sampled_from(contenders.names()).map(contenders.get)
kinds = st.sampled_from(KINDS)
tuned = st.sets(st.sampled_from(contenders.TUNABLE)).map(sorted)
counts = st.integers(1, 40)
searches = st.sampled_from(["grid", "random"])


def hashed(settings):
    return tuple(sorted(settings.items()))


@given(everyone, kinds, counts, searches, tuned)
def test_trials_differ_and_use_the_budget_while_there_is_more_to_try(
    contender, kind, count, search, tune
):
    tried = trials(contender, kind, contender.defaults, count, search, tune)
    assert len({hashed(settings) for settings in tried}) == len(tried) <= count
    space = searched(contender, kind, tune)
    first = tuple(tried[0][name] for name in space)
    in_grid = all(tried[0][name] in values for name, values in space.items())
    points = math.prod(map(len, space.values())) + (not in_grid)
    if search == "random" and contenders.LOGARITHMIC & space.keys():
        points = math.inf
    assert len(tried) == min(count, points)
    # The first is what it starts from, but for what the grid holds fixed.
    assert first == tuple(contender.defaults[name] for name in space)
    for settings in tried[1:]:
        assert settings.keys() == contender.defaults.keys()
        assert {k: v for k, v in settings.items() if k not in space} == {
            k: v for k, v in tried[0].items() if k not in space
        }
        for name, values in space.items():
            if search == "grid" or name not in contenders.LOGARITHMIC:
                assert settings[name] in values
            else:
                assert min(values) <= settings[name] <= max(values)


@given(everyone, kinds, counts, counts, tuned)
def test_a_larger_random_search_continues_a_smaller_one(contender, kind, one, other, tune):
    few, many = sorted([one, other])
    small = trials(contender, kind, contender.defaults, few, "random", tune)
    large = trials(contender, kind, contender.defaults, many, "random", tune)
    assert large[: len(small)] == small


@pytest.mark.parametrize("kind", KINDS)
def test_a_trial_has_the_same_quantile_for_every_contender(kind):
    def quantile(name, setting):
        contender = contenders.get(name)
        values = searched(contender, kind, ["lr", "weight_decay"])[setting]
        low, high = min(values), max(values)
        return [
            math.log(settings[setting] / low) / math.log(high / low)
            for settings in trials(
                contender, kind, contender.defaults, 9, "random", ["lr", "weight_decay"]
            )[1:]
        ]

    for setting in ("lr", "weight_decay"):
        ours = quantile("adamomentum", setting)
        for name in contenders.names():
            assert quantile(name, setting) == pytest.approx(ours, abs=1e-3)  # four digits


@pytest.mark.parametrize("kind", KINDS)
def test_lists_of_a_setting_run_the_same_way(kind):
    for setting in contenders.LOGARITHMIC:
        lists = [
            searched(contenders.get(name), kind, [setting]).get(setting, ())
            for name in contenders.names()
        ]
        assert len({values[0] > values[-1] for values in lists if values}) == 1


@pytest.mark.parametrize(
    ("kind", "setting"), [("cnn", "lr"), ("cnn", "eps"), ("cnn", "weight_decay"), ("lstm", "lr"),
                          ("transformer", "lr"), ("cnn", "final_lr"), ("lstm", "final_lr")]
)  # fmt: skip
def test_random_search_is_log_uniform_between_the_ends_of_the_grid(kind, setting):
    contender = contenders.get("adabound")
    tried = trials(contender, kind, contender.defaults, 501, "random", [setting])[1:]
    values = searched(contender, kind, [setting])[setting]
    low, high = math.log(min(values)), math.log(max(values))
    logs = [math.log(settings[setting]) for settings in tried]
    assert stats.kstest(logs, stats.uniform(low, high - low).cdf).pvalue > 0.05
    # The test can fail: uniform without the logarithm is told apart.
    assert (
        stats.kstest([math.exp(v) for v in logs], stats.uniform(0, max(values)).cdf).pvalue < 0.01
    )


def test_settings_of_a_trial_are_drawn_independently():
    contender = contenders.get("adamomentum")
    tried = trials(contender, "cnn", contender.defaults, 301, "random")[1:]
    columns = {
        name: [math.log(settings[name]) for settings in tried]
        for name in ("lr", "weight_decay", "eps")
    }
    for one, other in (("lr", "eps"), ("lr", "weight_decay"), ("eps", "weight_decay")):
        assert abs(stats.spearmanr(columns[one], columns[other]).statistic) < 0.15


def test_asked_for_where_the_paper_held_it_fixed():
    def values(name, kind, setting):
        return searched(contenders.get(name), kind, [setting])[setting]

    momenta = (0.5, 0.6, 0.7, 0.8, 0.9)
    assert values("sgdm", "cnn", "momentum") == values("rmsprop", "lstm", "momentum") == momenta
    assert values("adam", "cnn", "betas")[4:] == ((0.9, 0.999), (0.9, 0.99), (0.9, 0.98))
    assert values("adam", "gan", "lr") == values("adam", "cnn", "lr")
    assert values("adam", "lstm", "weight_decay") == values("adam", "cnn", "weight_decay")
    for kind in ("cnn", "lstm", "transformer"):  # AdaBound ends as SGD
        assert values("adabound", kind, "final_lr") == values("sgdm", kind, "lr")
    assert values("adabound", "gan", "final_lr") == values("sgdm", "cnn", "lr")
    assert searched(contenders.get("sgdm"), "cnn", ["eps"]) == {}


def test_what_is_not_asked_for_stays():
    contender = contenders.get("adam")
    tried = trials(contender, "lstm", contender.defaults, 6, tune=["lr"])
    assert [s["lr"] for s in tried[1:]] != [1e-3] * 5
    assert {(s["betas"], s["eps"], s["weight_decay"]) for s in tried} == {
        ((0.9, 0.999), 1e-8, 1.2e-4)
    }


def test_the_nearest_free_point_takes_the_place_of_one_that_was_tried():
    sgdm = contenders.get("sgdm")
    tried = trials(sgdm, "gan", sgdm.defaults, 4)
    # A Latin hypercube of three in five values: 0.5, 0.7 and 0.9, which is the first.
    assert sorted(s["momentum"] for s in tried) == [0.5, 0.7, 0.8, 0.9]
    assert tried[0]["momentum"] == 0.9
    assert sorted(s["momentum"] for s in trials(sgdm, "gan", sgdm.defaults, 9)) == [
        0.5, 0.6, 0.7, 0.8, 0.9
    ]  # fmt: skip


@given(everyone, kinds, counts, searches, tuned)
def test_every_trial_can_be_built(contender, kind, count, search, tune):
    for settings in trials(contender, kind, contender.defaults, count, search, tune):
        contender.build([nn.Parameter(torch.zeros(1))], **settings)


@pytest.mark.parametrize(
    ("count", "epochs", "expected"),
    [
        (12, 20, [(12, 5), (6, 10), (3, 20)]),
        (6, 15, [(6, 4), (3, 8), (2, 15)]),
        (5, 8, [(5, 2), (3, 4), (2, 8)]),
        (1, 20, [(1, 5), (1, 10), (1, 20)]),
        (8, 2, [(8, 1), (2, 2)]),
        (8, 1, [(8, 1)]),
    ],
)
def test_rungs(count, epochs, expected):
    assert rungs(count, epochs, True) == tuple(Rung(*rung) for rung in expected)
    assert rungs(count, epochs, False) == (Rung(count, epochs),)


@given(st.integers(1, 100), st.integers(1, 300))
def test_rungs_narrow_and_lead_to_the_end(count, epochs):
    found = rungs(count, epochs, True)
    assert found[0].trials == count
    assert found[-1].epochs == epochs
    assert found[-1].trials >= 1
    assert all(a.trials >= b.trials and a.epochs < b.epochs for a, b in itertools.pairwise(found))


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
        self.asked = []

    def run(self, jobs, on_epoch=lambda *_: None, on_run=lambda *_: None):
        runs = []
        for job in jobs:
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
                on_epoch(job, record)
            run = mark_stopped(job, Run(spec, status, records, [0.1] * len(records)))
            runs.append(run)
            on_run(run)
        return runs


BASE = {"workload": "", "code": "", "optimizer": "", "seed": 0, "scale": "mini", "protocol": "fair"}


def race_of(origin, *optimizers, **options):
    options = {"trials": 6, "seeds": 1, "scale": "mini", "protocol": "fair"} | options
    return Race(workload=origin.name, code=origin.code, optimizers=optimizers, **options)


def invented(tmp_path, score, *optimizers, **options):
    origin = find_workload("digits_mlp")
    race = race_of(origin, *(optimizers or ("adam", "sgdm")), **options)
    cls = origin.load()
    engine = Invented(budget(race, cls), score, cls.epochs["mini"])
    paces, drops = [], []
    result = hold(
        race,
        origin,
        Store(tmp_path),
        engine,
        lambda *_: None,
        lambda *now: paces.append(now),
        lambda *drop: drops.append(drop),
    )
    assert paces[-1][1] == 0  # nothing is left at the end
    return result, engine, drops


@pytest.mark.parametrize("halving", [False, True])
def test_no_choice_reads_test(tmp_path, halving):
    """Test scores are the opposite of validation's, and reading a trial's fails."""
    result, _, _ = invented(tmp_path, lambda _, trial, epoch: (trial, 1.0), halving=halving)
    assert [own.chosen for own in result.tuned.values()] == [5, 5]
    dumps(result.tuned["adam"].as_json(result.workload))


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
    assert drops == [("adam", 2), ("adam", 1)]
    assert result.tuned["sgdm"].epochs == 65
    assert adam.chosen == 0  # nobody is left: what it starts from is raced


def test_who_stopped_early_is_raced_only_if_all_that_went_on_diverged(tmp_path):
    def score(_, trial, epoch):
        return None if trial >= 3 and epoch > 5 else (trial, 1.0)

    result, _, drops = invented(tmp_path, score, halving=True)
    assert result.tuned["adam"].chosen == 2
    assert drops == [("adam", 2), ("sgdm", 2)]


def test_the_budget_is_what_is_spent(tmp_path):
    for options in ({"halving": True}, {"halving": False}, {"trials": 0}):
        result, engine, _ = invented(tmp_path, lambda *_: (1.0, 1.0), **options)
        plan = engine.plan
        spent = sum(own.epochs for own in result.tuned.values()) + 2 * 20
        assert spent == plan.all_epochs == sum(map(plan.epochs_of, ("adam", "sgdm")))
        assert sum(map(plan.runs_of, ("adam", "sgdm"))) == len(engine.asked)


def test_a_grid_smaller_than_the_budget_is_told():
    cls = find_workload("digits_dcgan").load()
    race = race_of(find_workload("digits_dcgan"), "sgdm", "adam", "sign", halving=True)
    plan = budget(race, cls)
    assert [len(plan.trials[name]) for name in race.optimizers] == [5, 6, 1]
    assert plan.exhausted == ["sgdm", "sign"]
    assert "sgdm: 5 of 6 trials try all there is; nobody gets the rest." in plan.lines()
    assert "Searched (grid) for sign: nothing." in plan.lines()
    assert plan.parts("sgdm") == [(5, 3), (3, 2), (2, 5)]
    assert plan.parts("sign") == [(1, 3), (1, 2), (1, 5)]
    assert plan.as_json()["contenders"]["sgdm"]["exhausted"] is True


def test_a_random_search_states_its_ends():
    race = race_of(find_workload("digits_mlp"), "sgdm", search="random", tune=("lr", "momentum"))
    plan = budget(race, find_workload("digits_mlp").load())
    assert plan.space_as_json("sgdm") == {
        "lr": {"from": 1e-5, "to": 0.1},
        "momentum": [0.5, 0.6, 0.7, 0.8, 0.9],
    }
    assert plan.lines() == ["Searched (random) for sgdm: lr 1e-5..0.1, momentum 0.5 to 0.9."]


class Here:
    """An engine in this process; it is interrupted after `limit` epochs."""

    def __init__(self, store, limit=math.inf):
        self.store, self.limit = store, limit
        self.computed = 0

    def run(self, jobs, on_epoch=lambda *_: None, on_run=lambda *_: None):
        runs = []
        for job in jobs:
            run = self.store.get(job.spec)
            if not ended(job, run):
                run = self._compute(job, on_epoch)
            runs.append(run)
            on_run(run)
        return runs

    def _compute(self, job, on_epoch):
        def heard(record, seconds):
            self.computed += 1
            self.store.epoch(job.spec, record, seconds)
            on_epoch(job, record)

        self.store.begin(job.spec, {})
        run = execute(job, heard, stopped=lambda: self.computed >= self.limit)
        if run.status == "stopped":
            raise KeyboardInterrupt
        run = mark_stopped(job, run)
        self.store.finish(run)
        return run


def without_machine(value):
    if isinstance(value, dict):
        return {k: without_machine(v) for k, v in value.items() if k != "machine"}
    return [without_machine(v) for v in value] if isinstance(value, list) else value


def held(folder, file, limit=math.inf, **options):
    """A race in this process: its JSON and how many epochs were computed."""
    origin, store = find_workload(str(file)), Store(folder)
    race = race_of(origin, "adam", "adamomentum", **({"trials": 4} | options))
    engine = Here(store, limit)
    result = hold(race, origin, store, engine, lambda *_: None)
    return without_machine(json.loads(dumps(result.as_json()))), engine.computed


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
    assert later == whole
    assert computed <= 2 * (4 * 4 - 8 + 4)
    # And halving after the whole finds its trials, and takes of them what it would have seen.
    after, _ = held(tmp_path / "whole", file, halving=True)
    assert after == fresh
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
    found = kept(race, budget(race, origin.load()), Store(tmp_path / "runs"))
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


def test_durations():
    assert [duration(s) for s in (0.2, 40, 100, 720, 7200, 86400 * 3)] == [
        "1 s", "40 s", "2 min", "12 min", "2 h", "3 days"
    ]  # fmt: skip
