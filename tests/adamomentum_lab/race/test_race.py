"""Races with a bracketing search, from the plan to the record."""

import io
import json
import math
import random

import pytest
from rich.console import Console
from typer.testing import CliRunner

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.cli import app
from adamomentum_lab.engine.events import EpochEnded, RunBegun, RunEnded, RunsAdded, RunsDropped
from adamomentum_lab.engine.inline import Inline
from adamomentum_lab.engine.store import Store
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.plan import make_plan
from adamomentum_lab.race.race import run_race
from adamomentum_lab.race.record import Record
from adamomentum_lab.race.result import Result, write
from adamomentum_lab.report.data import as_json
from adamomentum_lab.report.page import load, render_races
from adamomentum_lab.report.progress import Pace
from adamomentum_lab.report.sentences import of_result
from adamomentum_lab.report.terminal import ranking_table
from tests.adamomentum_lab.command_line import without_machine
from tests.adamomentum_lab.problems import write_problem
from tests.adamomentum_lab.races import MadeUp, problem, race_of

# By hand, from the scores that the problem's docstring states. Adam climbs by decades from its
# start until 10 is worse than 1, and SGD finds 1 worse than 0.1 and goes down. Then the wider gap
# beside the best is halved, of equal gaps the upper, until both are a quarter of a decade.
ADAM = [1e-3, 1e-2, 0.1, 1.0, 10.0, 3.16228, 0.316228, 1.77828, 0.562341]
SGDM = [0.1, 1.0, 0.01, 1e-3, 0.0316228, 3.16228e-3, 0.0177828, 5.62341e-3]


def bowl(folder, *listeners, optimizers=("adam", "sgdm"), runs="runs", **options):
    """A race on the problem `bowl`, really trained."""
    file = folder / "bowl.py"
    origin = find_workload(str(file if file.exists() else write_problem(folder, "bowl")))
    race = race_of(origin, *optimizers, **({"trials": 10, "seeds": 5} | options))
    store = Store(folder / runs)
    engine = Inline(store)
    plan = make_plan(race, origin.load())
    pace, begun, ended = Pace(plan), set(), set()

    def follow(event):
        pace.hear(event)
        if isinstance(event, RunBegun):
            begun.add(event.spec.id)
        if isinstance(event, RunEnded):
            ended.add(event.spec.id)

    result = run_race(plan, origin, store, engine, [follow, *listeners])
    assert pace.left == 0
    assert ended == {run.id for run in result.runs}
    check_record(result.record)
    return result, begun


def check_record(record):
    """That the record is the same when it is written and read, and that so is all it says."""
    again = Record.from_json(json.loads(record.dumps()))
    assert again == record
    assert Result(again).verdicts == Result(record).verdicts


def rates(result, name, stage="tuning"):
    runs = {"tuning": result.tuned.get(name), "check": None}[stage]
    return [run.settings["lr"] for run in (runs.runs if runs else result.checks[name])]


def numbers(result):
    return without_machine(result.record.as_json())


def test_a_race_is_searched_by_hand(tmp_path):
    events = []
    result, begun = bowl(tmp_path, events.append)
    assert (rates(result, "adam"), rates(result, "sgdm")) == (ADAM, SGDM)
    assert {name: own.chosen for name, own in result.tuned.items()} == {"adam": 3, "sgdm": 2}
    assert [own.exhausted for own in result.tuned.values()] == [False, False]
    assert [run.point for run in result.tuned["sgdm"].runs[:3]] == [(0.0,), (1.0,), (-1.0,)]
    dropped = [event for event in events if isinstance(event, RunsDropped)]
    assert sorted(dropped, key=lambda one: one.optimizer) == [
        RunsDropped("tuning", "adam", 1, 1), RunsDropped("tuning", "sgdm", 2, 2)
    ]  # fmt: skip
    for name, lr in (("adam", 1.0), ("sgdm", 0.01)):
        assert [(run.spec.seed, run.settings["lr"]) for run in result.finals[name]] == [
            (seed, lr) for seed in (1, 2, 3, 4, 5)
        ]
    assert len(begun) == len(result.runs)


def test_points_that_secure_a_verdict_are_billed_and_shown(tmp_path):
    """SGD loses by 0.49, once its settings beside 0.01 cannot make up for that."""
    events = []
    result, _ = bowl(tmp_path, events.append)
    (verdict,) = result.verdicts
    assert (verdict.a, verdict.b, verdict.kind) == ("sgdm", "adam", "worse")
    assert verdict.difference == pytest.approx(0.49005, abs=1e-6)
    assert 0 < verdict.interval[0] < verdict.difference
    assert verdict.interval[1] is None  # nothing was run beside the winner's settings
    assert result.checks["adam"] == ()
    checks = result.checks["sgdm"]
    assert {run.stage for run in checks} == {"check"}
    where = sorted({run.settings["lr"] for run in checks})
    # The neighbours that tuning had tried, and the middles of the gaps towards 0.01.
    assert {where[0], where[-1]} == {5.62341e-3, 0.0177828}
    middles = [10**position for position in (-2.125, -2.0625, -1.96875, -1.9375, -1.875)]
    assert where[1:-1] == pytest.approx(middles, rel=1e-5)
    assert [run.spec.seed for run in checks] == [1, 2, 3, 4, 5] * len(where)
    added = [event for event in events if isinstance(event, RunsAdded)]
    assert {(event.stage, event.optimizer) for event in added} == {("check", "sgdm")}
    assert sum(event.runs for event in added) == len(checks) == 35
    assert next(event.runs for event in added) == 10  # both neighbours at once
    assert "sgdm is worse than adam." in of_result(result)


def test_without_points_beside_the_tuned_ones_a_verdict_stays_open(tmp_path):
    result, _ = bowl(tmp_path, certify=0)
    assert len(result.checks["sgdm"]) == 10  # neighbours are not limited
    (verdict,) = result.verdicts
    assert verdict.kind == "undecided"
    assert verdict.seed_interval[0] > 0  # chance alone explains nothing
    reason = verdict.reasons[0]
    assert (reason.why, reason.contender, reason.setting) == ("gap", "sgdm", "lr")
    assert (reason.low, reason.high) in ((0.01, 0.0177828), (5.62341e-3, 0.01))


def test_trials_are_at_most_so_many_and_more_continue_the_search(tmp_path):
    few, begun = bowl(tmp_path, trials=4)
    assert (rates(few, "adam"), rates(few, "sgdm")) == (ADAM[:4], SGDM[:4])
    more, new = bowl(tmp_path, trials=10)
    assert (rates(more, "adam"), rates(more, "sgdm")) == (ADAM, SGDM)
    assert not new & begun
    assert len(new) < len(more.runs)
    kept = {run.id for run in few.runs} & {run.id for run in more.runs}
    assert len(kept) >= 4 + 4 + 5 + 5  # both settings were found by the fourth trial
    assert {run.id for run in more.runs} == kept | new
    fresh, _ = bowl(tmp_path, trials=10, runs="fresh")
    assert [(run.id, run.stage, run.point, run.epochs) for run in more.runs] == [
        (run.id, run.stage, run.point, run.epochs) for run in fresh.runs if run.stage != "check"
    ]
    # It is the second look at the question with five seeds. The first has spent their part, so
    # there is nothing that further settings could secure.
    assert [look.level for look in fresh.record.looks] == [0.01]
    assert [(look.level, look.spent) for look in more.record.looks] == [(0.0, 0.01)]
    assert [reason.why for reason in more.verdicts[0].reasons] == ["looks"]


def test_the_same_race_again_computes_nothing_and_spends_nothing(tmp_path):
    first, _ = bowl(tmp_path)
    again, begun = bowl(tmp_path)
    assert begun == set()
    assert numbers(again) == numbers(first)


@pytest.mark.parametrize("after", [1, 7, 17, 22, 30, 61])
def test_an_interrupted_race_continues_to_the_same_record(tmp_path, after):
    fresh, _ = bowl(tmp_path, runs="fresh")
    ended = []

    def interrupt(event):
        if isinstance(event, EpochEnded):
            ended.append(event.spec.id)
            if len(ended) == after:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bowl(tmp_path, interrupt)
    again, begun = bowl(tmp_path)
    assert numbers(again) == numbers(fresh)
    assert not begun & set(ended[:-1])


def test_nothing_is_tried_if_nothing_is_searched(tmp_path):
    result, _ = bowl(tmp_path, trials=0)
    assert result.tuned == {}
    assert {run.stage for run in result.runs} == {"final"}
    assert {name: runs[0].settings["lr"] for name, runs in result.finals.items()} == {
        "adam": 1e-3, "sgdm": 0.1
    }  # fmt: skip
    (verdict,) = result.verdicts
    assert (verdict.kind, verdict.tuned) == ("worse", False)
    assert verdict.interval == verdict.seed_interval  # the question is about these settings
    words = of_result(result)
    assert words.startswith("At their defaults, untuned: ")
    assert "is worse" not in words


def test_weight_decay_is_searched_after_lr_and_then_lr_again(tmp_path):
    """SGD with lr 0.01 and lr * weight_decay = p leaves ((0.99 - p)^2 + 100 p^2) / 2."""
    options = {"optimizers": ("sgdm",), "tune": ("lr", "weight_decay")}
    result, _ = bowl(tmp_path, trials=20, **options)
    settings = [run.settings for run in result.tuned["sgdm"].runs]
    first, then, last = settings[:8], settings[8:18], settings[18:]
    assert [own["lr"] for own in first] == SGDM
    assert {own["weight_decay"] for own in first} == {0.0}
    # None was tried with lr; then 1e-5 and a decade to either side, and up to 0.1, which is worse
    # than 0.01. Then the gaps beside 0.01.
    assert {own["lr"] for own in then} == {0.01}
    p = [1e-5, 1e-4, 1e-6, 1e-3, 1e-2, 0.1, 10**-1.5, 10**-2.5, 10**-1.75, 10**-2.25]
    assert [0.01 * own["weight_decay"] for own in then] == pytest.approx(p, rel=1e-5)
    # The best lr may have moved: it is tried a quarter of a decade to either side, at the same p.
    assert [own["lr"] for own in last] == [0.0177828, 5.62341e-3]
    assert 0.0177828 * last[0]["weight_decay"] == pytest.approx(0.01, rel=1e-5)
    assert {own["decoupled_weight_decay"] for own in settings} == {True}
    assert result.finals["sgdm"][0].settings["weight_decay"] == 1.0
    capped, begun = bowl(tmp_path, trials=19, **options)
    assert rates(capped, "sgdm") == [own["lr"] for own in settings[:19]]
    assert begun == set()


def score_by_lr(peaks, width=1.0, noise=0.1, **special):
    """Accuracies that fall with the square of the decades from the best lr: `peaks` has for each
    optimizer its best accuracy and the logarithm of its best lr. `special` says by optimizer what
    else becomes of a run."""

    def accuracy(spec):
        lr = dict(spec.settings)["lr"]
        if (status := special.get(spec.optimizer, lambda *_: None)(lr, spec.seed)) is not None:
            return status
        peak, best = peaks[spec.optimizer]
        chance = random.Random(f"{spec.optimizer} {spec.seed}").gauss(0, noise)
        return peak - width * (math.log10(lr) - best) ** 2 + chance

    return accuracy


def made_up(folder, accuracy, *optimizers, **options):
    """A race with these accuracies, of which larger is better; test is one below validation."""
    origin = problem(folder)
    race = race_of(origin, *optimizers, **({"trials": 10, "seeds": 5} | options))
    plan, engine, events = make_plan(race, origin.load()), MadeUp(accuracy), []
    pace = Pace(plan)
    result = run_race(plan, origin, Store(folder / "runs"), engine, [pace.hear, events.append])
    assert engine.said == []
    assert pace.left == 0
    check_record(result.record)
    return result, events


PEAKS = {"adam": (90.0, -2.0), "sgdm": (90.0, -1.0), "yogi": (80.0, -2.0), "adamw": (90.0, -2.0)}


def test_a_loser_is_run_with_its_other_choices_too(tmp_path):
    """On the tuning seed SGD looks best at momentum 0.9. On the others, 0.5 makes up the gap."""

    def accuracy(spec):
        settings, tuning = dict(spec.settings), spec.seed == 0
        lost = 0 if settings.get("momentum", 0.5) == (0.9 if tuning else 0.5) else 5
        chance = random.Random(f"{spec.optimizer} {spec.seed}").gauss(0, 0.1)
        return 90 - lost - (math.log10(settings["lr"]) + 1) ** 2 + chance

    space = ("sgdm.momentum=0.9,0.5",)
    result, _ = made_up(tmp_path, accuracy, "adam", "sgdm", space=space, looks="all")
    assert result.finals["sgdm"][0].settings["momentum"] == 0.9
    assert {run.settings["momentum"] for run in result.checks["sgdm"]} == {0.9, 0.5}
    (verdict,) = result.verdicts
    assert (verdict.kind, [reason.why for reason in verdict.reasons]) == ("undecided", ["seeds"])


def test_larger_may_be_better(tmp_path):
    result, _ = made_up(tmp_path, score_by_lr(PEAKS), "adam", "yogi")
    assert result.finals["yogi"][0].settings["lr"] == 0.01
    (verdict,) = result.verdicts
    assert verdict.kind == "worse"
    assert verdict.difference == pytest.approx(-10, abs=0.3)
    assert verdict.interval[0] is None
    assert verdict.difference < verdict.interval[1] < 0
    assert [row.optimizer for row in result.rows] == ["adam", "yogi"]


def test_a_start_where_everything_diverges_goes_down_by_decades(tmp_path):
    def lost(lr, seed):
        return "diverged" if lr > 2e-5 else None

    peaks = {**PEAKS, "adam": (90.0, -5.5)}
    result, _ = made_up(tmp_path, score_by_lr(peaks, adam=lost), "adam", "sgdm")
    # 1e-5 is the first that does not diverge; 1e-6 is as far from the best, and so as good, and
    # of the two the nearer to the start counts: the upper gap is halved, then the lower.
    assert rates(result, "adam") == [
        1e-3, 1e-4, 1e-5, 1e-6, 3.16228e-5, 3.16228e-6, 5.62341e-6, 1.77828e-6
    ]  # fmt: skip
    assert [run.status for run in result.tuned["adam"].runs[:3]] == ["diverged"] * 2 + ["done"]
    assert result.finals["adam"][0].settings["lr"] == 3.16228e-6


def test_a_contender_that_diverges_everywhere_loses_no_verdict_and_no_budget(tmp_path):
    def lost(lr, seed):
        return "diverged"

    result, _ = made_up(tmp_path, score_by_lr(PEAKS, adam=lost), "adam", "sgdm", trials=4)
    assert rates(result, "adam") == [1e-3, 1e-4, 1e-5, 1e-6]
    assert result.finals["adam"][0].settings["lr"] == 1e-3
    # On the final seeds it is looked for below all that tuning tried, up to eight times.
    below = [10.0**-k for k in range(4, 13)]  # a neighbour that was tried, and eight more
    assert sorted({run.settings["lr"] for run in result.checks["adam"]}) == below[::-1]
    (verdict,) = result.verdicts
    assert verdict.kind == "undecided"
    assert (verdict.difference, verdict.interval[0]) == (None, None)
    reasons = [(reason.why, reason.contender) for reason in verdict.reasons]
    assert reasons[0] == ("diverged", "adam")
    assert [row.optimizer for row in result.rows] == ["sgdm", "adam"]


def _shown(table):
    out = io.StringIO()
    Console(file=out).print(table)
    return out.getvalue()


@pytest.mark.parametrize("seed", [0, 3])
def test_a_run_that_failed_makes_a_pair_incomparable(tmp_path, seed):
    """Whether it was a trial or a final run: what it would have scored is not known."""

    def fault(lr, at):
        return "failed" if (lr, at) == (0.01, seed) else None

    result, _ = made_up(tmp_path, score_by_lr(PEAKS, yogi=fault), "adam", "yogi", "sgdm")
    about = {verdict.a: verdict for verdict in result.verdicts}
    assert about["yogi"].kind == "not comparable"
    assert [(reason.why, reason.contender) for reason in about["yogi"].reasons] == [
        ("lost runs", "yogi")
    ]
    assert about["yogi"].difference is None
    assert len(result.faults) == 1
    if seed == 0:  # it is not raced with settings that were not tuned, and its page can be made
        assert result.finals["yogi"] == result.checks["yogi"] == ()
        assert result.tuned["yogi"].chosen is None
        assert [row.optimizer for row in result.rows][-1] == "yogi"
        write(result, tmp_path / "races" / "one")
        assert Result.read(tmp_path / "races" / "one").rows == result.rows
        assert "not raced" in _shown(ranking_table(result.rows, result.workload, "adam"))
        assert "yogi" in render_races(load(tmp_path), tmp_path)
    assert about["sgdm"].kind == "undecided"  # the other pair is judged
    assert "Not comparable beside adam: yogi." in of_result(result)


def test_a_race_in_which_everything_fails_is_no_race(tmp_path):
    def fault(lr, seed):
        return "failed"

    with pytest.raises(LabError, match=r"^every optimizer lost trials; the first: Runtime"):
        made_up(tmp_path, score_by_lr(PEAKS, adam=fault, sgdm=fault), "adam", "sgdm")


def test_equivalent_needs_a_margin_and_points_beside_both(tmp_path):
    accuracy = score_by_lr(PEAKS)
    result, _ = made_up(tmp_path, accuracy, "adam", "sgdm")
    assert result.verdicts[0].kind == "undecided"
    assert result.checks == {"adam": (), "sgdm": ()}
    result, _ = made_up(tmp_path, accuracy, "adam", "sgdm", margin=0.5)
    (verdict,) = result.verdicts
    assert verdict.kind == "equivalent"
    low, high = verdict.interval
    assert -0.5 < low < verdict.difference < high < 0.5
    assert all(result.checks.values())
    assert "sgdm is equivalent to adam." in of_result(result)


def test_looks_until_decided_add_seeds_to_open_pairs_alone(tmp_path):
    """sgdm is as good as the baseline: it gets 5, 10 and 20 seeds; yogi is worse after 5."""
    accuracy = score_by_lr(PEAKS)
    names = ("adam", "sgdm", "yogi")
    result, events = made_up(tmp_path, accuracy, *names, looks="until decided")
    assert {name: len(runs) for name, runs in result.finals.items()} == {
        "adam": 20, "sgdm": 20, "yogi": 5
    }  # fmt: skip
    about = {verdict.a: verdict for verdict in result.verdicts}
    assert (about["yogi"].kind, about["yogi"].seeds, about["yogi"].level) == ("worse", 5, 0.01)
    assert (about["sgdm"].kind, about["sgdm"].seeds) == ("undecided", 20)
    assert about["sgdm"].level == 0.025
    looks = [(look.a, look.seeds, look.level, look.spent) for look in result.record.looks]
    assert looks == [
        ("sgdm", 5, 0.01, 0.05), ("sgdm", 10, 0.015, 0.05), ("sgdm", 20, 0.025, 0.05),
        ("yogi", 5, 0.01, 0.01),
    ]  # fmt: skip
    added = [event for event in events if isinstance(event, RunsAdded)]
    more = [event for event in added if event.stage == "final"]
    assert [(event.optimizer, event.runs) for event in more] == [
        ("adam", 5), ("sgdm", 5), ("adam", 10), ("sgdm", 10)
    ]  # fmt: skip
    checks = [event for event in added if event.stage == "check"]
    assert {event.optimizer for event in checks} == {"yogi"}


def test_every_two_are_compared(tmp_path):
    result, _ = made_up(tmp_path, score_by_lr(PEAKS), "adam", "yogi", "sgdm", baseline=None)
    assert [(v.a, v.b, v.kind) for v in result.verdicts] == [
        ("yogi", "adam", "worse"), ("sgdm", "adam", "undecided"), ("sgdm", "yogi", "better")
    ]  # fmt: skip
    assert {verdict.pairs for verdict in result.verdicts} == {3}
    assert len(result.record.looks) == 3
    assert all(row.verdict is None for row in result.rows)
    words = of_result(result)
    assert "yogi is worse than adam. sgdm is better than yogi." in words
    assert "1 of 3 pairs is undecided." in words


def test_the_baseline_is_adamw_the_one_that_is_named_or_the_first(tmp_path):
    def compared(*names, **options):
        result, _ = made_up(tmp_path, score_by_lr(PEAKS), *names, trials=1, seeds=2, **options)
        return [(verdict.a, verdict.b) for verdict in result.verdicts]

    assert compared("adam", "adamw") == [("adam", "adamw")]
    assert compared("sgdm", "adam") == [("adam", "sgdm")]
    assert compared("sgdm", "adamw", "yogi", baseline="yogi") == [
        ("sgdm", "yogi"), ("adamw", "yogi")
    ]  # fmt: skip


def test_weight_decay_is_matched_unless_each_has_its_own(tmp_path):
    def forms(**options):
        result, _ = made_up(tmp_path, score_by_lr(PEAKS), "adamw", "sgdm", "adam", **options)
        return {
            (run.spec.optimizer, run.settings.get("decoupled_weight_decay")) for run in result.runs
        }

    assert forms() == {("adamw", None), ("sgdm", True), ("adam", True)}
    assert forms(own_decay=True) == {("adamw", None), ("sgdm", None), ("adam", False)}


def test_runs_of_one_contender_alone_are_a_race_without_a_verdict(tmp_path):
    result, _ = made_up(tmp_path, score_by_lr(PEAKS), "adam")
    assert (result.verdicts, result.record.looks) == ((), ())
    assert "There was nobody to compare it with." in of_result(result)


def test_flips_of_signs_stand_beside_a_verdict_from_six_seeds_on(tmp_path):
    """Of 2^n choices of signs, that of the scores and its opposite are as far from 0."""

    def flips(accuracy, seeds, **options):
        result, _ = made_up(tmp_path, accuracy, "adam", "yogi", seeds=seeds, trials=1, **options)
        (verdict,) = as_json(result)["verdicts"]
        assert verdict["sign_flips"] == result.sign_flips(result.verdicts[0])
        return verdict["sign_flips"]

    worse = score_by_lr(PEAKS)
    assert [flips(worse, seeds) for seeds in (1, 5, 6, 8)] == [None, None, 2**-5, 2**-7]
    # At their starts, 1e-3 and 0.01, both are a decade from the best.
    assert flips(score_by_lr({**PEAKS, "yogi": (90.0, -3.0)}, noise=0.0), 6) == 1.0

    def lost(lr, seed):
        return "diverged" if seed == 3 else None

    assert flips(score_by_lr(PEAKS, yogi=lost), 8) is None
    # The pair is decided after 6 seeds, also where the baseline goes on.
    names, options = ("adam", "sgdm", "yogi"), {"looks": "until decided"}
    folder = tmp_path / "another store, in which no looks are spent"
    folder.mkdir()
    result, _ = made_up(folder, worse, *names, seeds=6, **options)
    about = {verdict.a: result.sign_flips(verdict) for verdict in result.verdicts}
    assert len(result.finals["adam"]) == 20
    assert about["yogi"] == 2**-5


NO_LR = """
import torch


class Fixed(torch.optim.Optimizer):
    '''Signs of the gradient, of a fixed length.'''

    def __init__(self, params, momentum=0.9):
        super().__init__(params, {"momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad.sign(), alpha=-1e-3)
"""


def test_a_contender_without_an_lr_has_nothing_to_search(tmp_path, no_workers):
    """Its potential is 0, and that is said. Schedules leave it alone."""
    (tmp_path / "fixed.py").write_text(NO_LR)
    fixed = f"{tmp_path / 'fixed.py'}:Fixed"
    words = ["race", "digits_mlp", "--optimizers", f"adamw,{fixed}", "--trials", "3"]
    words += ["--seeds", "2", "--scale", "smoke", "--jobs", "1", "--runs", str(tmp_path / "runs")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "Fixed: nothing is searched." in done.stderr
    assert "Fixed has no lr: nothing of it is searched" in " ".join(done.stdout.split())
    (record,) = (tmp_path / "runs" / "races").iterdir()
    result = Result.read(record)
    own = result.contenders["Fixed"]
    assert "lr" not in result.finals["Fixed"][0].settings
    assert len(result.tuned["Fixed"].runs) == 1
    assert own.standing(2).reach == 0.0
    made = CliRunner().invoke(app, ["report", "--runs", str(tmp_path / "runs")])
    assert made.exit_code == 0, made.output
