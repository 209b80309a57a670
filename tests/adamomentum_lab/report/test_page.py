"""The report page: its numbers and its worst inputs."""

import html
import json
import random
import subprocess
import sys

import pytest
from PIL import Image
from typer.testing import CliRunner

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.cli import app
from adamomentum_lab.engine.store import Store
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.plan import Race
from adamomentum_lab.report import page as report
from adamomentum_lab.report.sentences import continuation
from adamomentum_lab.report.together import together
from adamomentum_lab.report.verdicts import difference, sentence
from adamomentum_lab.stats.estimates import Estimate
from adamomentum_paper import published
from tests.adamomentum_lab.command_line import ROOT
from tests.adamomentum_lab.races import (
    EVIL,
    MadeUp,
    made,
    noisy,
    problem,
    race_of,
    raced,
    run_and_write,
    worst,
)


def data_of(file):
    text = file.read_text().split('<script type="application/json" id="data">')[1]
    return json.loads(text.split("</script>")[0])


def test_the_paper_is_quoted():
    assert published.PAPER["cifar10_resnet34"].values["adamomentum"] == (96.33, 0.07)
    assert published.PAPER["ptb_lstm3"].values["sgdm"] == (63.52, 0.16)
    assert published.PAPER["cifar10_biggan"].values["adabelief"] == (7.22, 0.09)
    for name, results in published.PAPER.items():
        metric = find_workload(name).load()("full", "paper").metric
        assert results.metric == metric, name


def test_what_the_page_says(tmp_path):
    result = raced(tmp_path, problem(tmp_path))
    text = made(tmp_path).read_text()
    row = next(row for row in result.rows if row.optimizer == "adamomentum")
    assert f"{row.score.mean:.1f}"[:4] in text
    assert "Two noisy half planes" in text
    assert "What holds here" in text or "what holds here need not hold" in text
    assert "adamomentum race" in text
    sentences = [sentence(one, "test accuracy") for one in result.verdicts]
    assert len(sentences) == 2
    for words in sentences:
        assert words.replace("'", "&#39;") in text
    for verdict in result.verdicts:
        assert f'<td class="number">{difference(verdict)}</td>\n<td>{verdict.kind}</td>' in text
    assert continuation(result) in html.unescape(text)


def test_intervals_in_the_ranking():
    assert report._interval(Estimate(97.2222, None, 1)) == "97.222"
    assert report._interval(Estimate(97.2222, 0.0, 2)) == "97.222 ± 0"
    assert report._interval(Estimate(0.5234, 0.32, 2), sign=True) == "+0.52 ± 0.32"


def test_what_was_not_tuned_is_not_called_tuned(tmp_path):
    raced(tmp_path, problem(tmp_path), trials=0)
    text = made(tmp_path).read_text()
    assert "Nothing was tuned; test was read at the epoch that validation chose." in text
    assert "had the same number of tuning runs" not in text
    assert "luck of tuning" not in text
    raced(tmp_path / "tuned", problem(tmp_path), trials=3)
    assert "had the same number of tuning runs" in made(tmp_path / "tuned").read_text()


def test_flaws_of_the_rules_are_explained(tmp_path):
    raced(tmp_path, problem(tmp_path), trials=3)
    luck = "but not the luck of tuning the other settings."
    assert luck in made(tmp_path).read_text()
    file = next(tmp_path.glob("races/*/race.json"))
    race = json.loads(file.read_text())
    race["workload"]["flaws"] = ["frozen matrices", "Words of a workload."]
    file.write_text(json.dumps(race))
    text = made(tmp_path).read_text()
    assert "The recurrent matrices stay at their initial values." in text
    assert "Words of a workload." in text
    assert luck not in text
    del race["workload"]["flaws"]  # as in records of version 0.1
    file.write_text(json.dumps(race))
    assert luck in made(tmp_path).read_text()


def test_trials_keep_their_test_scores_to_themselves(tmp_path):
    raced(tmp_path, problem(tmp_path))
    runs = data_of(made(tmp_path))["races"][0]["runs"]
    trials = [run for run in runs if run["stage"] == "tuning"]
    assert len(trials) == 9
    assert all(run["test"] is None for run in trials)
    assert not [c for run in trials for c in run["columns"] if c[0] == "test"]
    assert all(run["test"] is not None for run in runs if run["stage"] == "final")


def test_a_race_within_another_is_left_out(tmp_path):
    origin = problem(tmp_path)
    raced(tmp_path, origin, seeds=2, trials=0)
    raced(tmp_path, origin, seeds=4, trials=0)
    raced(tmp_path, origin, seeds=3, trials=0, names=("sgdm", "adabelief"))
    assert [race.race.seeds for race in report.load(tmp_path)] in ([3, 4], [4, 3])


def test_nothing_to_report(tmp_path):
    with pytest.raises(LabError, match="there is no finished race in"):
        report.load(tmp_path)
    result = CliRunner().invoke(app, ["report", "--runs", str(tmp_path / "none")])
    assert isinstance(result.exception, LabError)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [("{", "cannot be read"), ("[]", "another version"), ("{}", "it has no 'spec'")],
)
def test_a_damaged_race(tmp_path, content, sentence):
    file = tmp_path / "races" / "a" / "race.json"
    file.parent.mkdir(parents=True)
    file.write_text(content)
    with pytest.raises(LabError, match=sentence):
        report.load(tmp_path)


def _parts(value, path=()):
    """Where all the parts of a JSON value are."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key)
        if isinstance(item, (dict, list)):
            yield from _parts(item, (*path, key))


@pytest.mark.parametrize("harm", ["gone", "a word", "a number", "null"])
def test_a_race_that_lacks_something_is_named_or_shown(tmp_path, harm):
    raced(tmp_path / "one", problem(tmp_path), names=("adam", "adamomentum"), seeds=2)
    file = next(tmp_path.glob("one/races/*/race.json"))
    whole = file.read_text()
    sample = random.Random(harm).sample(sorted(_parts(json.loads(whole)), key=str), 25)
    for path in [("spec",), ("search",), ("runs", 0), ("runs", 0, "spec"), *sample]:
        race = part = json.loads(whole)
        for key in path[:-1]:
            part = part[key]
        if harm == "gone":
            del part[path[-1]]
        else:
            part[path[-1]] = {"a word": "word", "a number": 7, "null": None}[harm]
        file.write_text(json.dumps(race))
        told = str(file)
        try:
            report.render_races(report.load(tmp_path / "one"), tmp_path / "one")
        except LabError as error:
            told = str(error)
        assert str(file) in told, path


def test_the_race_at_fault_is_named_among_others(tmp_path):
    for name in ("one", "two"):
        raced(tmp_path, problem(tmp_path, name))
    file = sorted(tmp_path.glob("races/*/race.json"))[1]
    race = json.loads(file.read_text())
    del race["workload"]
    file.write_text(json.dumps(race))
    with pytest.raises(LabError, match=f"{file.parent.name}/race.json was written by another"):
        made(tmp_path)


def test_a_page_needs_a_file(tmp_path):
    raced(tmp_path, problem(tmp_path))
    for out in (tmp_path, "."):
        result = CliRunner().invoke(app, ["report", "--runs", str(tmp_path), "--out", str(out)])
        assert isinstance(result.exception, LabError)
        assert "is a folder; --out names a file, such as" in str(result.exception)


def test_runs_outside_of_races_are_counted(tmp_path):
    origin = problem(tmp_path)
    raced(tmp_path, origin)
    other = MadeUp(noisy).one
    result = raced(tmp_path / "other", origin, names=("yogi",), seeds=1, trials=0)
    Store(tmp_path).finish(other(result.runs[0].spec))
    assert "Other runs in this folder" in made(tmp_path).read_text()
    assert [one["runs"] for one in report._count_other_runs(tmp_path, set())] == [1]


def test_profiles_over_workloads(tmp_path):
    for name, best in (("one", "adam"), ("two", "sgdm"), ("three", "sgdm")):

        def accuracy(spec, best=best):
            return {best: 95.0, "yogi": 60.0}.get(spec.optimizer, 85.0)

        raced(tmp_path, problem(tmp_path, name), accuracy, names=("adam", "sgdm", "yogi"))
    profile = data_of(made(tmp_path))["profile"]
    assert sorted(profile["workloads"]) == ["one", "three", "two"]
    # 80 per cent is reached by all but yogi in the last epoch of four: 95 * 3/4 < 80.
    assert profile["scores"] == {"adam": 1.0, "sgdm": 1.0, "yogi": 0.0}


def test_of_several_races_of_a_workload_the_best_tuned_counts(tmp_path):
    origins = [problem(tmp_path, name) for name in ("one", "two")]
    for origin in origins:
        raced(tmp_path, origin, lambda spec: 95.0)
    assert not data_of(made(tmp_path))["profile"]["several"]
    for seeds in range(5, 9):  # nobody reaches the target without tuning
        raced(tmp_path, origins[0], lambda spec: 60.0, trials=0, seeds=seeds)
    profile = data_of(made(tmp_path))["profile"]
    assert profile["several"]
    assert profile["scores"]["adam"] == 1.0
    text = (tmp_path / "page.html").read_text()
    assert "Of several races of a workload the one with the most trials" in text


def test_a_single_workload_has_no_profile(tmp_path):
    raced(tmp_path, problem(tmp_path))
    assert data_of(made(tmp_path))["profile"] is None


def test_sheets_are_embedded_and_damaged_ones_left_out(tmp_path):
    result = raced(tmp_path, problem(tmp_path))
    runs = result.finals
    first = [mine[0] for mine in runs.values()]
    for run in first:
        folder = tmp_path / run.spec.id
        folder.mkdir()
        for name in ("sheet-0000", "sheet-0002", "sheet-0005", "interpolation"):
            Image.new("RGB", (8, 8), "red").save(folder / f"{name}.png")
        Image.new("RGB", (8, 8)).save(folder / "sheet-mine.png")  # somebody else's
    (tmp_path / first[0].spec.id / "sheet-0002.png").write_bytes(b"no picture")
    text = made(tmp_path).read_text()
    assert text.count("data:image/webp;base64,") == 4 * len(runs) - 1
    assert "before training" in text
    assert "after epoch 5" in text


def test_the_worst_page_is_escaped(tmp_path):
    worst(tmp_path)
    text = made(tmp_path).read_text()
    assert EVIL not in text
    assert "<b>bold" not in text
    assert text.count("</script>") == 3


def test_the_page_names_the_baseline(tmp_path):
    origin = problem(tmp_path)
    race = Race(origin.name, origin.code, ("adam", "sgdm"), 2, 3, "mini", "fair", baseline="sgdm")
    run_and_write(race, origin, tmp_path, MadeUp(noisy))
    file = made(tmp_path)
    assert "difference to sgdm" in file.read_text()
    assert data_of(file)["races"][0]["baseline"] == "sgdm"
    race = Race(origin.name, origin.code, ("adam", "sgdm"), 2, 3, "mini", "fair", baseline=None)
    run_and_write(race, origin, tmp_path / "none", MadeUp(noisy))
    assert "difference to" not in made(tmp_path / "none").read_text()
    assert data_of(tmp_path / "none" / "page.html")["races"][0]["baseline"] is None


def test_a_report_imports_neither_scipy_nor_torch(tmp_path):
    """A page of results is made before they would be imported. NumPy takes a tenth of a second, and
    only the bootstrap over several workloads, or over budgets, imports it."""
    code = (
        "import sys; from pathlib import Path; from adamomentum_lab.report import page;"
        "folder = Path('results'); page.render_races(page.load(folder), folder);"
        "print([name for name in ('scipy', 'torch') if name in sys.modules])"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"


def test_several_workloads_are_summed_up(tmp_path):
    results = [raced(tmp_path, problem(tmp_path, name)) for name in ("one", "two")]
    found = together(results)
    assert found.workloads == ("one", "two")
    assert found.baseline == "adam"
    assert next(iter(found.scores)) == "adamomentum"  # 88 beside 85 and 80
    sides = {row.name: row.side for row in found.improvements.rows}
    assert sides == {"adamomentum": "better", "sgdm": "worse"}
    assert "needs 10 workloads; 2 are too few" in found.words[1]
    assert found.ranks is None
    assert together(results[:1]) is None
    text = made(tmp_path).read_text()
    assert "All workloads together" in text


def test_a_random_search_has_bands(tmp_path):
    origin = problem(tmp_path)
    race = race_of(origin, "adamw", "adam", search="random", seeds=2)
    run_and_write(race, origin, tmp_path, MadeUp(noisy))
    text = made(tmp_path).read_text().split('id="data">')[1].split("</script>")[0]
    bands = json.loads(text)["races"][0]["trial_bands"]["adam"]
    assert len(bands["low"]) == len(bands["high"]) == 6
    ends = zip(bands["low"], bands["high"], strict=True)
    assert all(a is None or b is None or a <= b for a, b in ends)


def test_a_report_of_one_race_imports_no_arrays(tmp_path):
    raced(tmp_path, problem(tmp_path))
    code = (
        "import sys; from pathlib import Path; from adamomentum_lab.report import page;"
        f"folder = Path({str(tmp_path)!r}); page.render_races(page.load(folder), folder);"
        "print([name for name in ('numpy', 'scipy', 'torch') if name in sys.modules])"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"
