"""What the size of the test set adds to the uncertainty, from the scores of single examples."""

import math

import pytest
import torch

from adamomentum_lab.engine.inline import Inline
from adamomentum_lab.engine.store import Store
from adamomentum_lab.race.plan import make_plan
from adamomentum_lab.race.race import run_race
from adamomentum_lab.race.record import Record
from adamomentum_lab.race.referee import Pair
from adamomentum_lab.race.result import write
from adamomentum_lab.race.sampling import measure_sampling
from adamomentum_lab.report.sentences import of_pairs
from adamomentum_lab.training.outcome import examples_file
from tests.adamomentum_lab.races import problem, race_of


def kept(folder, *runs):
    """The folders of runs with these scores of single examples; None where there are none."""
    folders = []
    for i, scores in enumerate(runs):
        folders.append(folder / str(i))
        folders[-1].mkdir(parents=True)
        if scores is not None:
            torch.save(torch.tensor(scores), examples_file(folders[-1]))
    return folders


def test_the_error_by_hand(tmp_path):
    folders = {
        "a": kept(tmp_path / "a", [100.0, 0.0, 100.0, 100.0], [100.0, 100.0, 100.0, 0.0]),
        "b": kept(tmp_path / "b", [100.0, 0.0, 0.0, 100.0], [0.0, 0.0, 0.0, 0.0]),
    }
    # Means by example: a 100, 50, 100, 50; b 50, 0, 0, 50. Differences 50, 50, 100, 0 have the
    # mean 50 and the standard deviation sqrt(5000 / 3).
    (found,) = measure_sampling([Pair("a", "b")], folders)
    assert found.examples == 4
    assert found.error == pytest.approx(math.sqrt(5000 / 3) / 2)


@pytest.mark.parametrize("b", [[None], [[1.0, 0.0, 1.0]], []])
def test_pairs_without_scores_of_examples_are_left_out(tmp_path, b):
    folders = {"a": kept(tmp_path / "a", [1.0, 0.0]), "b": kept(tmp_path / "b", *b)}
    assert measure_sampling([Pair("a", "b")], folders) == ()


def test_a_damaged_file_is_left_out(tmp_path):
    folders = {"a": kept(tmp_path / "a", [1.0, 0.0]), "b": kept(tmp_path / "b", [1.0, 0.0])}
    examples_file(folders["b"][0]).write_bytes(b"nothing")
    assert measure_sampling([Pair("a", "b")], folders) == ()


def test_a_race_records_it(tmp_path):
    origin = problem(tmp_path)
    race = race_of(origin, "adam", "sgdm", trials=0, seeds=2, scale="smoke")
    plan = make_plan(race, origin.load())
    store = Store(tmp_path / "runs")
    with Inline(store) as engine:
        result = run_race(plan, origin, store, engine)
    (found,) = result.record.sampling
    (run, *_) = result.finals["adam"]
    examples = torch.load(examples_file(tmp_path / "runs" / run.id), weights_only=True)
    assert found.examples == len(examples)
    assert float(examples.mean()) == pytest.approx(result.score(run))
    assert run.resolution == result.resolution == 100 / len(examples)
    write(result, tmp_path / "race")
    assert Record.read(tmp_path / "race" / "race.json").sampling == (found,)
    (words,) = of_pairs(result).values()
    assert f"The size of the test set ({len(examples)} examples) adds an uncertainty" in words
