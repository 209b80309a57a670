"""Several studies: the unit of chance is the study, not the seed."""

import json
import math

import pytest
from typer.testing import CliRunner

from adamomentum_lab.cli import app
from adamomentum_lab.engine.store import Store
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.plan import make_plan
from adamomentum_lab.race.race import run_race
from adamomentum_lab.race.result import Result, write
from adamomentum_lab.race.studies import group_studies, judge_studies, record_studies, studies_of
from adamomentum_lab.report import page
from tests.adamomentum_lab.races import MadeUp, problem, race_of

T_975_2 = 4.302652729749462  # of t with 2 degrees of freedom, from a table


def lucky(spec):
    """All seeds of a study score alike: what varies is the study."""
    study = spec.seed // 1000
    gap = {0: 3.0, 1: 5.0, 2: 4.0}[study] if spec.optimizer == "sgdm" else 0.0
    return 80.0 + gap + 0.001 * spec.seed % 2


def run_studies(folder, count=3, accuracy=lucky, **options):
    folder.mkdir(exist_ok=True)
    origin = problem(folder)
    options = {"trials": 3, "seeds": 2, "studies": count, "looks": "all", **options}
    race = race_of(origin, "adam", "sgdm", **options)
    store = Store(folder)
    results = []
    for one in studies_of(race):
        results.append(run_race(make_plan(one, origin.load()), origin, store, MadeUp(accuracy)))
    results = record_studies(results, store)
    for one in results:
        write(one, folder / "races" / one.race.id)
    return results


def test_the_seeds_of_a_study_are_its_own(tmp_path):
    results = run_studies(tmp_path)
    seeds = [{run.spec.seed for run in one.runs if run.stage == "tuning"} for one in results]
    assert seeds == [{0}, {1000}, {2000}]
    finals = [{run.spec.seed for run in one.finals["adam"]} for one in results]
    assert finals == [{1, 2}, {1001, 1002}, {2001, 2002}]
    # The question is about settings as they are tuned: no others are run on the final seeds.
    assert not any(run.stage == "check" for one in results for run in one.runs)
    assert not any(one.verdicts for one in results)


def test_the_interval_by_hand(tmp_path):
    (verdict,) = judge_studies(run_studies(tmp_path))
    # Differences 3, 5 and 4 have the mean 4 and the standard deviation 1.
    assert (verdict.a, verdict.b, verdict.kind) == ("sgdm", "adam", "better")
    assert (verdict.seeds, verdict.unit, verdict.level) == (3, "study", 0.05)
    assert verdict.difference == pytest.approx(4.0)
    half = T_975_2 / math.sqrt(3)
    assert verdict.interval == pytest.approx((4.0 - half, 4.0 + half))


def test_more_seeds_do_not_make_studies_surer(tmp_path):
    few = judge_studies(run_studies(tmp_path / "few", seeds=2))
    many = judge_studies(run_studies(tmp_path / "many", seeds=9))
    assert few[0].interval == pytest.approx(many[0].interval, abs=1e-2)


def test_two_studies_that_differ_much_decide_nothing(tmp_path):
    results = run_studies(tmp_path, 2, seeds=9)
    (verdict,) = judge_studies(results)
    assert verdict.kind == "undecided"
    assert [reason.why for reason in verdict.reasons] == ["seeds"]


@pytest.mark.parametrize(("how", "kind"), [("failed", "not comparable"), ("diverged", "undecided")])
def test_a_lost_run(tmp_path, how, kind):
    def accuracy(spec):
        return how if spec.seed == 1001 and spec.optimizer == "sgdm" else lucky(spec)

    (verdict,) = judge_studies(run_studies(tmp_path, accuracy=accuracy))
    assert verdict.kind == kind
    assert verdict.reasons[0].contender == "sgdm"


def test_looks_at_studies_are_remembered(tmp_path):
    results = run_studies(tmp_path)
    assert [look.level for look in results[0].record.looks] == [0.05]
    # The same race again looks at the same numbers; more seeds a study would be another look.
    again = run_studies(tmp_path)
    assert again[0].record.looks == results[0].record.looks
    other = run_studies(tmp_path, seeds=3)
    assert [look.level for look in other[0].record.looks] == [0.0]
    assert judge_studies(other)[0].reasons[0].why == "looks"


def test_records_and_the_page_show_them_together(tmp_path):
    results = run_studies(tmp_path)
    read = [Result.read(tmp_path / "races" / one.race.id) for one in results]
    assert judge_studies(read) == judge_studies(results)
    loaded = page.load(tmp_path)
    ((first, second, third),) = group_studies(loaded)
    assert [one.race.study for one in (first, second, third)] == [0, 1, 2]
    text = page.render_races(loaded, tmp_path)
    assert text.count("<h3>All studies together</h3>") == 3
    assert "study 2 of 3" in text
    assert "sgdm is better than adam: test accuracy differs by" in text
    assert "the luck of tuning, on this test set: the unit is the study." in text


def test_too_many_seeds_for_a_study(tmp_path):
    with pytest.raises(LabError, match="fewer than 1000 seeds"):
        race_of(problem(tmp_path), "adam", "sgdm", seeds=1000, studies=2)


@pytest.mark.slow
def test_from_the_command_line(tmp_path):
    file = problem(tmp_path).file
    words = f"race {file} --optimizers adam,sgdm --studies 2 --seeds 2 --trials 2 --scale smoke"
    words = [*words.split(), "--jobs", "1", "--runs", str(tmp_path / "runs")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "2 studies. Undecided beside adam: sgdm." in " ".join(done.stdout.split())
    assert "Study 2 of 2" in done.stderr
    found = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert found["verdicts"][0]["unit"] == "study"
    assert [one["spec"]["study"] for one in found["studies"]] == [0, 1]
    assert "--studies 2" in found["studies"][0]["machine"]["command"]
