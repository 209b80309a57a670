"""What is kept of races, theory, landscapes and speeds."""

import json
from dataclasses import replace

import pytest
from tools import keep

from adamomentum_lab.bench.step_time import models
from adamomentum_lab.catalog import workload_names
from adamomentum_lab.errors import LabError
from adamomentum_lab.report import page as report
from adamomentum_lab.report.sentences import of_result
from adamomentum_lab.selection import reported_epoch
from adamomentum_paper.claims import rules
from tests.adamomentum_lab.races import noisy, problem, raced
from tests.tools.made import ROOT, landscape_record, race_of, speed_records, written


def kept(folder, out):
    (file,) = keep.keep_races([folder], out)
    return json.loads(file.read_text())


def test_a_race_is_kept_small_and_whole(tmp_path):
    result = raced(tmp_path, problem(tmp_path, target=80.0))
    (source,) = tmp_path.glob("races/*/race.json")
    big, small = json.loads(source.read_text()), kept(tmp_path, tmp_path / "out")
    assert small["spec"] == big["spec"]
    (read,) = report.load(tmp_path / "out")
    assert read.rows == tuple(  # but for seconds, which have three digits
        replace(old, machine=new.machine) for old, new in zip(result.rows, read.rows, strict=True)
    )
    assert of_result(read) == of_result(result)
    for before, after in zip(big["runs"], small["runs"], strict=True):
        assert after["spec"]["settings"] == before["spec"]["settings"]
        assert (after["id"], after["status"]) == (before["id"], before["status"])
        trial = after["stage"] == "tuning"
        assert len(after["epochs"]) == (1 if trial else len(before["epochs"]))
        assert ("test" in after["epochs"][0]) != trial
        assert after["trained"] == before["trained"]
        assert after["machine"].keys() == before["machine"].keys()
    # The workload is a file of this machine; its folder is not told.
    assert str(tmp_path) in big["machine"]["command"]
    assert small["machine"]["command"].startswith("adamomentum race plain.py --optimizers")
    assert str(tmp_path) not in json.dumps(small)
    assert "platform" not in small["machine"]
    # The same page can be made from it, and the same epochs to the target be counted.
    (tmp_path / "out" / "page.html").write_text(
        report.render_races(report.load(tmp_path / "out"), tmp_path / "out")
    )
    for row in result.rows:
        epochs = rules._epochs_to_target(read, row.optimizer)
        if row.reached == len(epochs):
            assert sum(epochs) / len(epochs) == pytest.approx(row.epochs_to_target.mean)


def test_what_follows_from_a_record_follows_from_it_when_kept_again(tmp_path):
    keep.keep_races([ROOT / "results"], tmp_path)
    old, new = report.load(ROOT / "results"), report.load(tmp_path)
    for before, after in zip(old, new, strict=True):
        assert (before.name, before.effects) == (after.name, after.effects)
        assert of_result(before) == of_result(after)
        for one, two in zip(before.rows, after.rows, strict=True):
            assert replace(one, machine=two.machine) == two


def test_no_digit_is_left_out_that_decides(tmp_path):
    """97.00001 beats 97.000009, and 96.999999 does not reach 97."""
    curve = [96.999999, 97.000009, 97.00001, 50.123456789]
    options = {"target": 97.0, "epochs": {"adam": [curve]}, "spec": {"trials": 0}}
    race = race_of({"adam": [90.123456789]}, **options)
    written(tmp_path / "races" / "a" / "race.json", keep.text(keep.race_record(race)))
    (read,) = report.load(tmp_path)
    assert (read.rows[0].reached, read.rows[0].epochs_to_target.mean) == (1, 2)
    assert read.rows[0].values == [90.123456789]
    assert reported_epoch(read.runs[0], read.workload)["epoch"] == 3


def test_what_fails_keeps_its_words_without_folders(tmp_path):
    def failing(spec):
        return "failed" if spec.optimizer == "sgdm" and spec.seed == 2 else noisy(spec)

    raced(tmp_path, problem(tmp_path), failing)
    (file,) = tmp_path.glob("races/*/race.json")
    race = json.loads(file.read_text())
    for run in race["runs"]:
        if run["error"]:
            run["error"] = f"OSError: cannot write '{tmp_path}/a.pt', 3 of 7/8 done"
    file.write_text(json.dumps(race))
    errors = [run["error"] for run in kept(tmp_path, tmp_path / "out")["runs"] if run["error"]]
    assert errors == ["OSError: cannot write 'a.pt', 3 of 7/8 done"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            lambda race: race["runs"].remove(
                next(r for r in race["runs"] if r["stage"] == "final")
            ),
            "or changed: adam has 3 final runs, not 4; the command",
        ),
        (
            lambda race: race["runs"][-1].update(status="running"),
            "status is 'running', not",
        ),
        (lambda race: race["spec"].pop("trials"), "spec has no 'trials'"),
        (lambda race: race["search"].update(rungs=7), "search.rungs is 7, not a list"),
        (lambda race: race.pop("search"), "it has no 'search'"),
        (lambda race: race["runs"][0].pop("trained"), "runs[0] has no 'trained'"),
        (lambda race: race.pop("workload"), "it has no 'workload'"),
        (lambda race: race.update(machine=None), "machine is None, not an object"),
        (lambda race: race.update(caveats=float("nan")), "caveats is nan, not a list"),
    ],
)
def test_what_is_not_whole_is_refused(tmp_path, capsys, spoil, words):
    raced(tmp_path, problem(tmp_path))
    (file,) = tmp_path.glob("races/*/race.json")
    race = json.loads(file.read_text())
    spoil(race)
    file.write_text(json.dumps(race))
    assert keep.main([str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_races_of_one_name(tmp_path, capsys):
    out = tmp_path / "out"
    raced(tmp_path, problem(tmp_path))
    raced(tmp_path, problem(tmp_path), trials=0, seeds=2)
    assert keep.main([str(tmp_path), "--out", str(out)]) == 1
    assert "would both be called plain-mini-fair" in capsys.readouterr().err
    one, two = sorted(tmp_path.glob("races/*"))
    assert keep.main([str(one), "--out", str(out)]) == 0
    assert keep.main([str(two), "--name", "plain-other", "--out", str(out)]) == 0
    assert {file.parent.name for file in out.glob("races/*/race.json")} == {
        "plain-mini-fair",
        "plain-other",
    }
    assert keep.main([str(tmp_path / "nowhere")]) == 1
    assert "no finished race" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        keep.main([])


def test_theory_is_kept_without_its_numbers(tmp_path, capsys):
    found = {
        "claim": "sphere",
        "size": "default",
        "verdict": "holds",
        "summary": "of 1 statement 1 holds.",
        "findings": [{"statement": "a", "word": "holds", "found": "b"}],
        "numbers": {"x": [1.0] * 1000},
        "machine": {"torch": "2", "commit": None, "platform": "secret", "seconds": 1.0},
    }
    file = tmp_path / "sphere.json"
    file.write_text(json.dumps(found))
    assert keep.main(["--theory", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    (record,) = (tmp_path / "out" / "theory").glob("*.json")
    read = json.loads(record.read_text())
    assert read["versions"] == {"torch": "2"}
    assert read.keys() == {"claim", "size", "verdict", "summary", "findings", "versions"}
    for change, words in (
        ({"size": "smoke"}, "is of size smoke"),
        ({"summary": ...}, "older version"),
    ):
        spoiled = {key: value for key, value in {**found, **change}.items() if value is not ...}
        with pytest.raises(LabError, match=words):
            keep.theory_record(spoiled, file)
    file.write_text("[]")
    assert keep.main(["--theory", str(tmp_path)]) == 1
    file.unlink()
    assert keep.main(["--theory", str(tmp_path)]) == 1
    assert "there is no theory in" in capsys.readouterr().err


def refused(tmp_path, capsys, *words):
    """The one sentence for which nothing is kept."""
    assert keep.main([*map(str, words), "--out", str(tmp_path / "no")]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert not (tmp_path / "no").exists()
    return said


def test_speed_is_kept_without_the_machine(tmp_path, capsys):
    record = {**speed_records(models())[0]}
    record["machine"] = {**record["machine"], "platform": "Linux-here", "folder": "/home/a/b"}
    file = written(tmp_path / "1.json", record)
    assert keep.main(["--speed", str(file), "--out", str(tmp_path / "out")]) == 0
    kept = json.loads((tmp_path / "out" / "speed" / "1.json").read_text())
    plain = kept["models"]["ResNet-34"]["steps"]["  plain loop"]
    assert plain == {"seconds": 0.024, "state_bytes_per_parameter": 8.0, "gb_per_second": 4.167}
    assert kept["machine"] == speed_records()[0]["machine"]
    file.write_text("[]")
    assert "was not written by this version" in refused(tmp_path, capsys, "--speed", file)


def test_speed_of_a_part_is_not_kept(tmp_path, capsys):
    file = written(tmp_path / "1.json", speed_records()[0])
    assert "lacks 'DenseNet-121', 'VGG-16', " in refused(tmp_path, capsys, "--speed", file)
    record = speed_records(models())[0]
    del record["models"]["VGG-16"]["steps"]["  plain loop"]
    written(file, record)
    assert "lacks 'plain loop' of 'VGG-16';" in refused(tmp_path, capsys, "--speed", file)


def test_two_records_of_one_name_are_not_kept(tmp_path, capsys):
    speeds = [written(tmp_path / of / "1.json", speed_records(models())[0]) for of in "ab"]
    said = refused(tmp_path, capsys, "--speed", *speeds)
    assert f"{speeds[0]} and {speeds[1]} would both be called 1.json" in said
    found = [written(tmp_path / of / "landscape.json", landscape_record()) for of in "ab"]
    said = refused(tmp_path, capsys, "--landscape", *(file.parent for file in found))
    assert "would both be called digits_cnn-mini-fair.json" in said


def test_what_is_spoiled_is_refused_in_a_sentence(tmp_path, capsys):
    record = speed_records(models())[0]
    file = written(tmp_path / "1.json", {**record, "machine": None})
    assert f"{file} cannot be kept (" in refused(tmp_path, capsys, "--speed", file)
    written(file, {**record, "add_gb_per_second": float("nan")})
    assert f"{file} cannot be kept (" in refused(tmp_path, capsys, "--speed", file)
    found = landscape_record()
    del found["runs"][0]["loss"]
    file = written(tmp_path / "a" / "landscape.json", found)
    said = refused(tmp_path, capsys, "--landscape", file.parent)
    assert f"{file} cannot be kept (KeyError: 'loss')" in said


def test_a_landscape_with_an_optimizer_twice_is_not_kept(tmp_path, capsys):
    found = landscape_record()
    found["groups"].append({**found["groups"][1], "settings": "lr 0.01"})
    file = written(tmp_path / "landscape.json", found)
    said = refused(tmp_path, capsys, "--landscape", tmp_path)
    assert f"{file} has adam more than once (lr 0.001; lr 0.01)" in said
    del found["groups"][1]
    written(file, found)
    assert keep.main(["--landscape", str(tmp_path), "--out", str(tmp_path / "out")]) == 0


def test_no_folder_of_a_workload_is_kept(tmp_path):
    folder = tmp_path / "results" / "workloads"
    folder.mkdir(parents=True)
    raced(tmp_path, problem(folder))
    (file,) = keep.keep_races([tmp_path], tmp_path / "out")
    command = json.loads(file.read_text())["machine"]["command"]
    assert command.startswith("adamomentum race plain.py --optimizers")


def test_the_command_of_every_record_runs_anywhere():
    """Each workload is installed: no command needs a file of the machine that made the record."""
    files = sorted((ROOT / "results" / "races").glob("*/race.json"))
    assert files
    for file in files:
        race = json.loads(file.read_text())
        name = race["machine"]["command"].removeprefix("adamomentum race ").split()[0]
        assert name == race["spec"]["workload"], file
        assert name in workload_names(), file
