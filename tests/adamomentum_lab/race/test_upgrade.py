"""Records of format 1: one by hand, and those of the repository beside what they say themselves."""

import json
from pathlib import Path

import pytest

from adamomentum_lab.errors import LabError
from adamomentum_lab.race.record import FORMAT, Record, Rung
from adamomentum_lab.race.result import Result
from adamomentum_lab.report import sentences
from adamomentum_lab.selection import reported_epoch

FILES = sorted((Path(__file__).parents[3] / "results" / "races").glob("*/race.json"))


def epoch(number, validation, test=None):
    scores = {"epoch": number, "train": {"loss": 0.5}, "validation": {"accuracy": validation}}
    return scores if test is None else {**scores, "test": {"accuracy": test}}


def old_race():
    """Adam and SGDM, two trials and one seed each, as version 0.1 kept it small."""

    def run(stage, name, lr, seed, final, *epochs, **more):
        spec = {"optimizer": name, "settings": {"lr": lr}, "seed": seed, "precision": "32-true"}
        machine = {"torch": "2.13.0", "updates": 30, "seconds": 6.5, "ms_per_update": 2.0}
        if stage == "final":
            machine["epoch_seconds"] = [2.0, 2.0, 2.5]
        return {"stage": stage, "id": f"{stage}-{name}-{lr}", "spec": spec, "status": "done",
                "epochs": list(epochs), "final": final, "machine": machine, **more}  # fmt: skip

    def tuning(name, *rates):
        trials = [{"trial": i, "settings": {"lr": lr}, "run": f"tuning-{name}-{lr}",
                   "status": "done", "epochs": 3, "validation": None}
                  for i, lr in enumerate(rates, 1)]  # fmt: skip
        ends = {"chosen": 1, "epochs": 6, "exhausted": False}
        return {"space": {"lr": {"from": 0.001, "to": 0.1}}, "trials": trials, **ends}

    return {
        "spec": {"workload": "w", "code": "c", "optimizers": ["adam", "sgdm"], "trials": 2,
                 "seeds": 1, "scale": "mini", "protocol": "fair", "search": "random",
                 "tune": ["lr"], "halving": False},
        "workload": {"about": "A workload.", "metric": "accuracy", "larger_is_better": True,
                     "target": 97.0, "selection": "validation", "epochs": 3},
        "headline": "Whatever it said.",
        "ranking": "Whatever it was.",
        "tuning": {"search": "random", "words": [], "rungs": [{"trials": 2, "epochs": 3}],
                   "contenders": {"adam": tuning("adam", 0.1, 0.01),
                                  "sgdm": tuning("sgdm", 1.0, 0.5)}},
        "runs": [
            run("tuning", "adam", 0.1, 0, epoch(2, 96.6667)),
            run("tuning", "adam", 0.01, 0, {}, status="diverged"),
            run("tuning", "sgdm", 1.0, 0, epoch(3, 90.0)),
            run("tuning", "sgdm", 0.5, 0, epoch(1, 80.5)),
            # 292 of 300 twice: five digits, and of the first, which is reported, six.
            run("final", "adam", 0.1, 1, epoch(2, 97.3333, 95.5556), epoch(1, 90.0, 88.889),
                epoch(2, 97.333, 95.556), epoch(3, 97.333)),
            # 293 of 300 twice, which five digits round up: the first is reported all the same.
            run("final", "sgdm", 1.0, 1, epoch(2, 97.6667, 96.1111), epoch(1, 90.0, 88.889),
                epoch(2, 97.667, 96.111), epoch(3, 97.667)),
        ],
        "machine": {"torch": "2.13.0", "command": "adamomentum race w"},
    }  # fmt: skip


def test_by_hand():
    record = Record.from_json(old_race())
    assert (record.format, record.digits) == (FORMAT, 6)
    assert record.spec.baseline is None  # as AdaMomentum was not raced
    assert record.spec.own_decay  # every optimizer had the form it is known by
    assert record.looks == ()
    assert {run.point for run in record.runs} == {None}
    assert record.spec.tune == ("lr",)
    assert (record.workload.name, record.workload.summary) == ("w", "A workload.")
    assert record.search.spaces == {"adam": {"lr": (0.001, 0.1)}, "sgdm": {"lr": (0.001, 0.1)}}
    assert record.search.rungs == (Rung(2, 3),)
    first, lost, *_, adam, sgdm = record.runs
    assert (first.epochs, first.trained) == ((epoch(2, 96.6667),), 3)
    assert (lost.epochs, lost.trained, lost.status) == ((), 3, "diverged")
    assert first.spec.workload == "w"
    assert (first.machine.updates, first.machine.environment) == (30, {"torch": "2.13.0"})
    assert adam.machine.epoch_seconds == (2.0, 2.0, 2.5)
    assert adam.epochs[1] == epoch(2, 97.3333, 95.5556)
    assert sgdm.epochs[1] == epoch(2, 97.667, 96.1111)
    result = Result(record)
    assert [(row.optimizer, row.values) for row in result.rows] == [
        ("sgdm", [96.1111]), ("adam", [95.5556])
    ]  # fmt: skip
    assert result.row("adam").edge == "largest"
    assert result.tuned["adam"].chosen == 0
    (verdict,) = result.verdicts
    assert (verdict.a, verdict.b, verdict.kind, verdict.level) == (
        "sgdm", "adam", "undecided", 0.05
    )  # fmt: skip
    assert verdict.difference == pytest.approx(96.1111 - 95.5556)
    assert Record.from_json(json.loads(record.dumps())) == record


def test_a_record_of_format_2_is_one_of_format_3_without_looks_and_points():
    """It was searched by a grid unless it says otherwise, and took one look at 5 %."""
    now = json.loads(Record.from_json(old_race()).dumps())
    old = {**now, "format": 2}
    del old["looks"]
    old["spec"] = {
        key: value
        for key, value in now["spec"].items()
        if key in ("workload", "code", "optimizers", "trials", "seeds", "scale", "protocol",
                   "tune", "halving", "baseline")
    }  # fmt: skip
    old["search"] = {"spaces": now["search"]["spaces"], "rungs": now["search"]["rungs"]}
    for run in old["runs"]:
        del run["point"], run["resolution"]
    record = Record.from_json(old)
    assert (record.format, record.spec.search, record.spec.own_decay) == (FORMAT, "grid", True)
    old["spec"]["search"] = "random"
    assert Record.from_json(old) == Record.from_json(now)


def test_adamomentum_is_the_baseline_of_old_races():
    race = old_race()
    text = json.dumps(race).replace("sgdm", "adamomentum")
    assert Record.from_json(json.loads(text)).spec.baseline == "adamomentum"


def test_a_whole_record_has_all_its_digits():
    race = old_race()
    for run in race["runs"]:
        if run["final"]:
            run["final"]["validation"]["accuracy"] = 96.66666666666667
            run["epochs"] = [run["final"]]
    record = Record.from_json(race)
    assert record.digits is None
    assert record.runs[0].epochs[0]["validation"]["accuracy"] == 96.66666666666667


@pytest.mark.parametrize(
    ("part", "key", "words"),
    [
        ("", "spec", "it has no 'spec'"),
        ("", "workload", "it has no 'workload'"),
        ("", "runs", "it has no 'runs'"),
        ("", "tuning", "it has no 'tuning'"),
        ("", "machine", "it has no 'machine'"),
        ("spec", "optimizers", "spec has no 'optimizers'"),
        ("spec", "trials", "spec has no 'trials'"),
        ("spec", "seeds", "spec has no 'seeds'"),
        ("workload", "about", "workload has no 'about'"),
        ("workload", "metric", "workload has no 'metric'"),
        ("tuning", "rungs", "tuning has no 'rungs'"),
        ("tuning", "contenders", "tuning has no 'contenders'"),
    ],
)
def test_what_is_missing_is_named(part, key, words):
    race = old_race()
    del (race[part] if part else race)[key]
    with pytest.raises(LabError, match=f"or changed: {words}; the command"):
        Record.from_json(race)


def test_there_are_records_of_format_1():
    assert len([file for file in FILES if "format" not in json.loads(file.read_text())]) >= 2


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_a_record_of_the_repository_says_what_it_said(file):
    """Facts and rankings are the same. What is said of pairs is new, and never bolder."""
    old, new = json.loads(file.read_text()), Result.read(file)
    if "format" in old:
        pytest.skip("it says nothing that is derived")
    assert [row.optimizer for row in new.rows] == [row["optimizer"] for row in old["ranking"]]
    for row, was in zip(new.rows, old["ranking"], strict=True):
        same = ("rank", "values", "settings", "diverged", "failed", "reached", "edge")
        assert [getattr(row, key) for key in same] == [was[key] for key in same]
        close(row.score.mean, was["score"]["mean"])
        close(row.epochs_to_target.mean, was["epochs_to_target"]["mean"])
        close(row.steps_to_target.mean, was["steps_to_target"]["mean"])
        assert row.machine.ms_per_update == pytest.approx(was["machine"]["ms_per_update"], 1e-5)
        compared(row.verdict, was["comparison"], was["comparison"] and was["comparison"]["verdict"])
        if was["sensitivity"]:
            assert row.sensitivity.note == was["sensitivity"]["note"]
            close(row.sensitivity.decades, was["sensitivity"]["decades"])
    tuning = old.get("tuning", {"contenders": {}, "words": []})
    assert list(new.tuned) == list(tuning["contenders"])
    for name, own in tuning["contenders"].items():
        assert new.tuned[name].chosen + 1 == own["chosen"]
        assert (new.tuned[name].epochs, new.tuned[name].exhausted) == (
            own["epochs"], own["exhausted"]
        )  # fmt: skip
    assert sentences.of_search(new) == tuning["words"]
    effects = old.get("effects", [])
    assert [(one.what, one.differing, bool(one.caveat)) for one in new.effects] == [
        (one["what"], one["differing"], bool(one["caveat"])) for one in effects
    ]
    for effect, was in zip(new.effects, effects, strict=True):
        compared(effect.verdict, was["comparison"], was["comparison"]["verdict"])
    for run, was in zip(new.record.runs, old["runs"], strict=True):
        assert run.id == was["id"] == run.spec.id
        assert reported_epoch(run, new.workload).get("epoch") == was["final"].get("epoch")


def compared(found, was, said):
    assert (found is None) == (was is None)
    if found is None:
        return
    assert (found.a, found.b, found.level) == (was["other"], was["base"], 0.05)
    assert found.pairs == was["comparisons"]
    if was["n"] == found.seeds:
        # From scores of six digits: a difference of 0.01 has three of them.
        close(found.difference, was["difference"]["mean"], 2e-3, 2e-5)
    else:
        assert found.difference is None
    if found.kind in ("better", "worse"):
        assert found.kind == said


def close(value, was, rel=2e-5, zero=None):
    assert value == (None if was is None else pytest.approx(was, rel=rel, abs=zero))
