"""Budgets: the baseline at other lengths, from the option to the record and the headline."""

import json
import math
import random
from fractions import Fraction

import pytest

from adamomentum_lab.errors import LabError
from adamomentum_lab.race.bracket import Axis, SearchSpace
from adamomentum_lab.race.budgets import Budgets, lengths, parse_budgets
from adamomentum_lab.race.plan import Race
from adamomentum_lab.race.record import Record
from adamomentum_lab.race.result import Result
from adamomentum_lab.report.savings import of_budgets, share_in_words
from adamomentum_lab.report.sentences import of_result
from adamomentum_lab.stats.speedup import Speedup
from tests.adamomentum_lab.races import MadeUp, problem, race_of, run_and_write
from tests.adamomentum_lab.races import budgets as race_with_budgets

EPOCHS = 4  # of the problem `plain` at mini


def test_what_is_given():
    assert parse_budgets("0.5, 2") == ((0.5, 1.0, 2.0), False)
    assert parse_budgets("auto") == ((0.5, 1.0, 2.0), True)
    for text in ("", "0,1", "-1,1", "nan", "x", "1", "1e9"):
        with pytest.raises(LabError, match="--budgets"):
            parse_budgets(text)


def test_lengths_are_whole_epochs():
    assert lengths((0.5, 1.0, 2.0), 10) == (5, 20)
    assert lengths((0.5, 1.0, 2.0), 1, strict=False) == (2,)
    for bad in ((0.04, 1.0), (1.0, 1.04)):
        with pytest.raises(LabError, match="no length of its own"):
            lengths(bad, 10)


def conduct(best, low=None, high=None):
    """Budgets of one length whose best position on the lr axis is `best`; what was tried."""
    space = SearchSpace({}, (Axis("lr", 0.1, low=low, high=high),))
    budgets = Budgets(space, (Fraction(0),), 0, [1, 2])
    tasks, tried, raced = budgets.begin([5]), [], []
    while tasks:
        task = tasks.pop(0)
        assert task.epochs == 5
        (tried if task.stage == "tuning" else raced).append(task)
        tasks += budgets.tell(task, (abs(float(task.point[0]) - best), 0.0))
    assert {task.seed for task in tried} == {0}
    assert [task.seed for task in raced] == [1, 2]
    assert len({task.point for task in raced}) == 1
    return [float(task.point[0]) for task in tried], float(raced[0].point[0])


def test_the_learning_rate_is_checked_at_its_neighbours():
    assert conduct(0.0) == ([0.0, 0.25, -0.25], 0.0)
    assert conduct(-0.5) == ([0.0, 0.25, -0.25, -0.5, -0.75], -0.5)
    assert conduct(9.0) == ([0.0, 0.25, -0.25, 0.5, 0.75, 1.0, 1.25], 1.25)  # and no further
    assert conduct(9.0, high=Fraction(1, 4)) == ([0.0, 0.25, -0.25], 0.25)


def test_without_a_learning_rate_nothing_is_checked():
    budgets = Budgets(SearchSpace({"lr": 0.1}), (), 0, [1, 2, 3])
    assert [task.stage for task in budgets.begin([2, 4])] == ["final"] * 6


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    folder = tmp_path_factory.mktemp("budgets")
    return folder, race_with_budgets(folder)


def test_a_race_measures_how_much_training_is_saved(raced):
    _, result = raced
    assert [(b.factor, b.epochs, len(b.runs)) for b in result.budgets] == [
        (0.5, 2, 3), (1.0, 4, 3), (2.0, 8, 3)
    ]  # fmt: skip
    assert result.budgets[0].lr == pytest.approx(1e-3)
    assert result.budgets[2].lr == pytest.approx(1.77828e-3)  # the neighbour was better
    assert {run.spec.seed for run in result.budgets[0].runs} == {1, 2, 3}
    yogi, adam = result.speedups["yogi"], result.speedups["adam"]
    assert yogi.factor == pytest.approx(1 / 0.7, rel=0.05)
    assert yogi.low < yogi.factor < yogi.high
    assert adam.factor == 0.0  # it needs five times: outside the range


def test_the_record_says_the_same_when_it_is_read_again(raced):
    _, result = raced
    again = Result(Record.from_json(json.loads(result.record.dumps())), result.name)
    assert again.speedups == result.speedups
    assert again.verdicts == result.verdicts
    assert "--budgets 0.5,1,2" in result.command


def test_auto_goes_on_until_all_lie_within(tmp_path):
    result = race_with_budgets(tmp_path, "adamw", "adam", seeds=2, more_budgets=True)
    assert [b.epochs for b in result.budgets] == [1, 2, 4, 8]
    assert "--budgets auto" in result.command


def test_a_damaged_record_is_refused(raced):
    _, result = raced
    data = json.loads(result.record.dumps())
    data["budgets"][0]["spec"]["optimizer"] = "yogi"
    with pytest.raises(LabError, match="no run of the baseline at another length"):
        Record.from_json(data)


def test_budgets_need_a_baseline():
    with pytest.raises(LabError, match="baseline"):
        Race("w", "c", ("adam", "sgdm"), 1, 1, "mini", "fair", baseline=None, budgets=(0.5, 1.0))


def test_ids_without_budgets_stay():
    race = Race("w", "c", ("adam", "sgdm"), 1, 1, "mini", "fair")
    assert race.id == "b9822bbdc5eb9885"
    assert race.spec("adam", {}, 1).id == "67996465de8c72ef"


def test_the_headline_says_what_is_saved(raced):
    _, result = raced
    words = of_result(result)
    assert "yogi: the same accuracy as adamw in 0.7" in words
    assert "of the updates" in words
    assert "adam: the same accuracy as adamw takes more than 2.00 times the updates." in words
    assert "never beyond them" in " ".join(of_budgets(result))


@pytest.mark.parametrize(
    ("factor", "low", "high", "words"),
    [
        (1.25, 1.0, 2.0, "0.80 (0.50 to 1.00)"),
        (1.6, 1.25, math.inf, "0.62 (less than 0.50 to 0.80)"),
        (math.inf, math.inf, math.inf, "less than 0.50"),
        (0.0, 0.0, 0.8, "more than 2.00 (1.25 to more than 2.00)"),
        (1.25, None, None, "0.80"),
    ],
)
def test_shares_in_words(factor, low, high, words):
    assert share_in_words(Speedup(factor, low, high, 0.5, 2.0, 3)) == words


def test_itself_saves_nothing(tmp_path):
    """Two names of the same method, whose scores have chance of their own."""

    def alike(spec):
        own = random.Random(f"{spec.optimizer} {spec.seed} {spec.epochs} {spec.settings}")
        chance = own.gauss(0.0, 0.1)
        return 90.0 + 2 * math.log2((spec.epochs or EPOCHS) / EPOCHS) + chance

    origin = problem(tmp_path)
    race = race_of(origin, "adamw", "adam", seeds=5, budgets=(0.5, 1.0, 2.0))
    result = run_and_write(race, origin, tmp_path, MadeUp(alike, EPOCHS))
    found = result.speedups["adam"]
    assert found.low < 1.0 < found.high
    assert "which may be chance" in of_result(result)
