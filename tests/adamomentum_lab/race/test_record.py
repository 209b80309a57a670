"""Records: what is written is read, what is damaged is named."""

import json
import math
from dataclasses import MISSING, fields, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.engine.store import Run
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.facts import run_record
from adamomentum_lab.race.looks import Look
from adamomentum_lab.race.plan import Race
from adamomentum_lab.race.record import (
    FORMAT,
    AxisFacts,
    Record,
    RunRecord,
    SearchFacts,
    WorkloadFacts,
)
from adamomentum_lab.race.result import Result, write
from adamomentum_lab.race.sampling import Sampling
from adamomentum_lab.race.search import Rung
from adamomentum_lab.report.data import as_json
from tests.adamomentum_lab.races import problem, raced

names = st.text(min_size=1, max_size=8)
numbers = st.floats(allow_nan=True, allow_infinity=True)
RECORDS = Path(__file__).parents[3] / "results" / "races"
positions = st.floats(-9, 9)
starts = st.floats(1e-9, 1e9)
plain = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5)


FINAL = "the last final run"


@st.composite
def records(draw):
    """Any that could be: names of any letters, scores of any size, runs that were lost."""
    optimizers = tuple(draw(st.lists(names, min_size=1, max_size=3, unique=True)))
    metric = draw(names.filter(lambda name: name != "loss"))
    seeds, epochs = draw(st.integers(1, 2)), draw(st.integers(0, 3))
    trials = draw(st.integers(0, 2))
    race = Race(
        workload=draw(names),
        code=draw(names),
        optimizers=optimizers,
        trials=trials,
        seeds=seeds,
        scale=draw(st.sampled_from(["smoke", "mini", "full"])),
        protocol=draw(names),
        search=draw(st.sampled_from(["bracket", "grid", "random"])),
        tune=tuple(draw(st.lists(st.sampled_from(["lr", "eps"]), unique=True))),
        halving=draw(st.booleans()),
        baseline=draw(st.none() | st.sampled_from(optimizers)),
        certify=draw(st.integers(0, 9)),
        margin=draw(st.none() | st.floats(1e-9, 9.0)),
        looks=draw(st.sampled_from(["part", "all", "until decided"])),
        own_decay=draw(st.booleans()),
        space=tuple(draw(st.lists(st.text(max_size=5), max_size=2))),
        hard=draw(st.booleans()),
    )
    searched = {
        "axes": {
            name: (
                AxisFacts("lr", draw(starts), (0.0,)),
                AxisFacts("decay", 1e-5, (None, 0.0), -1.0),
            )
            for name in optimizers
        },
        "choices": {name: {"betas": ([0.9, 0.99], [0.5, 0.9])} for name in optimizers},
    }
    places = st.tuples(positions, st.none() | positions, st.sampled_from([0.0, 1.0]))

    def run(stage, name, seed):
        options = {"lr": 0.1, "betas": (0.9, 0.99), "nesterov": True, "foreach": None}
        spec = Spec.of(
            options,
            workload=race.workload,
            code=race.code,
            optimizer=name,
            seed=seed,
            scale=race.scale,
            protocol=race.protocol,
        )
        scores = st.fixed_dictionaries({metric: numbers, "loss": numbers})
        splits = {"train": scores, "validation": scores, "test": scores}
        kept = [{"epoch": i, **draw(st.fixed_dictionaries(splits))} for i in range(1, epochs + 1)]
        status = draw(st.sampled_from(["done", "diverged", "failed", "stopped"]))
        machine = {"updates": 7, "ms_per_update": 0.5, "threads": 1, "node": draw(plain)}
        machine["resolution"] = draw(st.floats(0, 9))
        error = draw(st.none() | st.text(max_size=9))
        made = Run(spec, status, kept, [0.25] * epochs, machine, error)
        return replace(run_record(stage, made), point=draw(st.none() | places) if trials else None)

    runs = [run("tuning", name, 0) for name in optimizers for _ in range(trials)]
    runs += [run("final", name, 1 + seed) for name in optimizers for seed in range(seeds)]
    runs += [run("check", name, 1) for name in optimizers if draw(st.booleans())]
    levels = st.floats(0, 0.05)
    sampling = st.builds(Sampling, names, names, st.integers(1, 9), starts)
    looks = st.builds(Look, names, names, st.integers(1, 20), levels, levels)
    space = {"lr": (0.1, 1e-5), "betas": ([0.9, 0.99], [0.5, 0.9])}
    finite = st.floats(allow_nan=False, allow_infinity=False)
    return Record(
        spec=race,
        workload=WorkloadFacts(
            name=race.workload,
            summary=draw(st.text(max_size=9)),
            metric=metric,
            larger_is_better=draw(st.booleans()),
            target=draw(st.none() | finite),
            selection=draw(st.sampled_from(["validation", "last", "test"])),
            epochs=max(1, epochs),
        ),
        search=SearchFacts(dict.fromkeys(optimizers, space), (Rung(trials, epochs),), **searched)
        if trials
        else SearchFacts(),
        runs=tuple(runs),
        caveats=tuple(draw(st.lists(names, max_size=2))),
        machine={"command": draw(names), "torch": draw(plain)},
        digits=draw(st.none() | st.integers(1, 9)),
        looks=tuple(draw(st.lists(looks, max_size=2))),
        sampling=tuple(draw(st.lists(sampling, max_size=2))),
    )


@given(records())
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read(record):
    assert Record.from_json(json.loads(record.dumps())) == record


def test_from_a_file(tmp_path):
    result = raced(tmp_path, problem(tmp_path))
    (file,) = tmp_path.glob("races/*/race.json")
    assert Record.read(file) == result.record
    assert Result.read(str(file)).rows == result.rows
    assert Result.read(file).name == file.parent.name == result.race.id
    write(Result.read(file), tmp_path / "again")
    for name in ("race.json", "ranking.csv", "runs.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (file.parent / name).read_bytes()


def test_a_record_holds_nothing_that_is_derived(tmp_path):
    record = json.loads(raced(tmp_path, problem(tmp_path)).record.dumps())
    assert record.keys() == {
        "format", "spec", "workload", "search", "runs", "looks", "sampling", "caveats",
        "machine", "digits"
    }  # fmt: skip
    assert record["format"] == FORMAT
    assert record["runs"][0].keys() == {
        "stage", "id", "spec", "status", "epochs", "trained", "machine", "error", "resolution",
        "point"
    }  # fmt: skip


def test_other_keys_are_ignored(tmp_path):
    result = raced(tmp_path, problem(tmp_path))
    data = json.loads(result.record.dumps())
    for part in (data, data["spec"], data["workload"], data["search"], data["runs"][0]):
        part["from a later version"] = {"x": [1]}
    data["runs"][0]["machine"]["more"] = 1
    assert Record.from_json(data) == result.record
    # So is what `race --json` prints beside the record.
    assert Record.from_json(json.loads(json.dumps(as_json(result)))) == result.record


@pytest.mark.parametrize(
    ("path", "optional"),
    [
        ((), {"format", "digits", "looks", "sampling"}),
        (
            ("spec",),
            {one.name for one in fields(Race) if not one.default is one.default_factory is MISSING},
        ),
        (("workload",), {"flaws"}),
        (("search", "rungs", 0), set()),
        (("search", "axes", "adam", 0), {"low", "high"}),
        (("looks", 0), {"uncounted"}),
        (("runs", 3), {"machine", "error", "point", "resolution"}),
        (("runs", 3, "epochs", 0), {"train", "test"}),
    ],
)
def test_a_missing_key_is_named(tmp_path, path, optional):
    whole = raced(tmp_path, problem(tmp_path)).record.dumps()

    def find(data):
        for key in path:
            data = data[key]
        return data

    for key in find(json.loads(whole)):
        data = json.loads(whole)
        del find(data)[key]
        if key in optional - {"format"}:
            assert Record.from_json(data)
            continue
        with pytest.raises(LabError) as caught:
            Record.from_json(data, "a.json")
        said = str(caught.value)
        assert said.startswith("a.json was written by another version, or changed: ")
        assert f"has no {key!r}; the command" in said or key == "format", said


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("workload", "target"), "high", "workload.target is 'high', not a number"),
        (("workload", "larger_is_better"), 1, "workload.larger_is_better is 1, not true or false"),
        (("workload", "selection"), "best", "is 'best', not 'validation' or 'last' or 'test'"),
        (("spec", "seeds"), True, "spec.seeds is True, not a whole number"),
        (("spec", "baseline"), "yogi", "the baseline 'yogi' is not raced"),
        (("runs",), {}, "runs is no list"),
        (("runs", 0), 7, "runs[0] is no object"),
        (("runs", 0, "spec"), "adam", "runs[0].spec is no object"),
        (("runs", 0, "stage"), "warm-up", "stage is 'warm-up', not 'tuning' or 'final' or 'check'"),
        (("runs", 0, "epochs", 1, "epoch"), 2.5, "runs[0].epochs[1].epoch is no whole number"),
        (("runs", 0, "epochs", 1, "train"), [1], "runs[0].epochs[1].train is no object of numbers"),
        (("runs", 0, "epochs", 1, "validation"), {}, "validation has no 'accuracy'"),
        (("runs", 0, "machine", "seconds"), "7", "machine.seconds is '7', not a number"),
        (("runs", FINAL, "spec", "settings", "lr"), 7.0, "sgdm are those of no trial"),
        (("runs", 0, "point"), [0.0, 1.0], "runs[0].point has 2 positions, not 1"),
        (("runs", 0, "point"), ["here"], "runs[0].point[0] is 'here', not a number"),
        (("search", "axes"), {}, "runs[0].point has 1 positions, not 0"),
        (("search", "axes", "adam"), 1, "search.axes.adam is 1, not a list"),
        (("looks", 0, "level"), "all", "looks[0].level is 'all', not a number"),
        (("spec", "looks"), "twice", "is 'twice', not 'part' or 'all' or 'until decided'"),
        (("spec", "optimizers"), [], "the baseline 'adam' is not raced"),
        (("spec", "optimizers"), ["adam", "adam"], "are ('adam', 'adam'), not different names"),
        (("spec", "seeds"), 0, "spec.seeds is 0, not 1 or more"),
        (("runs", 0, "spec", "optimizer"), "me", "spec.optimizer is 'me', which was not raced"),
        (("runs", 0, "spec", "workload"), "other", "runs[0] is a run of another race"),
        (("runs", 0, "spec", "settings", "lr"), {}, "settings.lr is {}, not a setting"),
        (("runs", FINAL, "spec", "seed"), 3, "sgdm has two final runs of one seed"),
        (("runs", -1, "epochs", 0, "train", "loss"), 10**400, "train is no object of numbers"),
        (("runs", -1, "epochs", 0, "train", "loss"), True, "train is no object of numbers"),
        (("workload", "target"), 10**400, "workload.target is 1000"),
        (("runs", 0, "id"), "../../secret", "runs[0].id is '../../secret', which cannot"),
        (("runs", 0, "id"), "..", "runs[0].id is '..', which cannot be the name of a folder"),
        (("search", "rungs", 0), [3, 4], "search.rungs[0] is [3, 4], not an object"),
        (("search", "spaces", "adam", "lr"), 0.1, "search.spaces.adam.lr is 0.1, not a list"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named(tmp_path, path, value, words):
    data = part = json.loads(raced(tmp_path, problem(tmp_path)).record.dumps())
    last = max(i for i, run in enumerate(data["runs"]) if run["stage"] == "final")
    path = [last if key == FINAL else key for key in path]
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    with pytest.raises(LabError, match="was written by another version, or changed") as said:
        Record.from_json(data, "a.json")
    assert words in str(said.value)


def test_a_newer_format_is_refused():
    with pytest.raises(LabError, match=r"a.json has the format 4, .*reads up to 3; a newer"):
        Record.from_json({"format": FORMAT + 1}, "a.json")


@pytest.mark.parametrize("number", ["2", None, 2.0, True, 0, -1])
def test_what_is_no_format_is_refused(number):
    with pytest.raises(LabError, match=r"changed: format is .*, not a whole number from 1 on"):
        Record.from_json({"format": number}, "a.json")


def test_what_is_no_record_is_refused(tmp_path):
    file = tmp_path / "race.json"
    with pytest.raises(LabError, match="there is no file"):
        Record.read(file)
    for content in ("", "{", "\x00", "[" * 100_000):
        file.write_text(content)
        with pytest.raises(LabError, match=r"race.json cannot be read \("):
            Record.read(file)
    for content in ("[]", "7", "null", '"race"', "{}"):
        file.write_text(content)
        with pytest.raises(LabError, match="was written by another version, or changed"):
            Record.read(file)


def test_scores_that_are_no_numbers_are_none():
    spec = Spec.of({"lr": 0.1}, workload="", code="", optimizer="adam", seed=1, scale="mini",
                   protocol="fair")  # fmt: skip
    epochs = [
        {"epoch": 1, "test": {"a": math.nan, "b": 1.0}},
        {"epoch": 2, "test": {"a": math.inf}},
    ]
    found = run_record("final", Run(spec, "done", epochs))
    assert isinstance(found, RunRecord)
    assert found.epochs == (
        {"epoch": 1, "test": {"a": None, "b": 1.0}},
        {"epoch": 2, "test": {"a": None}},
    )


def test_a_result_is_read_from_the_folder_of_its_race_and_has_the_score_of_a_run():
    result = Result.read(RECORDS / "digits_mlp-mini-fair")
    assert result == Result.read(RECORDS / "digits_mlp-mini-fair" / "race.json")
    for row in result.rows:
        assert [result.score(run) for run in result.finals[row.optimizer]] == list(row.values)


def test_a_record_that_is_not_there():
    with pytest.raises(LabError, match=r"^there is no file 'nowhere'; a race writes races/ID/race"):
        Result.read("nowhere")
