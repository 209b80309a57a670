"""Random options, problems and bytes: never a traceback, never a wrong result taken for right."""

import contextlib
import hashlib
import shutil
import sqlite3
import warnings

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from adamomentum_lab.engine import upkeep
from adamomentum_lab.engine.store import Store
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.record import Record
from adamomentum_lab.training.checkpoints import Checkpoints, has_parts
from tests.adamomentum_lab.command_line import run_here
from tests.adamomentum_lab.engine.test_store import record, spec
from tests.adamomentum_lab.engine.test_upkeep import filled
from tests.adamomentum_lab.problems import HEAD, write_problem

pytestmark = pytest.mark.slow
quiet = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=60,
)
ODD = """0 -1 1 2 1e400 nan inf 1e-300 x , a=b = .. / adam sgdm,adam adam,adam torch.optim:Adam
torch.optim.SGD( os.system lr é lr,lr *.lr=1:2 adam.lr=2:1 adam.lr= adam.lr=1e-3 cpu \ud800"""
odd = st.sampled_from(["", "9" * 40, *ODD.split()])
RACE = ["optimizers", "baseline", "pairs", "trials", "seeds", "margin", "tune", "space", "studies",
        "search", "certify", "scale", "protocol", "engine", "address", "cpus-per-run",
        "gpus-per-run", "jobs", "run-timeout"]  # fmt: skip
TRAIN = ["optimizer", "lr", "weight-decay", "eps", "betas", "momentum", "end-lr", "final-lr",
         "seed", "epochs", "scale", "protocol", "device", "devices", "strategy", "precision",
         "threads"]  # fmt: skip


def check(done):
    """That it worked, or ended with a sentence."""
    assert done.returncode in (0, 1, 2), done.stderr
    assert "Traceback" not in done.stderr
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1]
        assert last.startswith(("adamomentum: ", "Error: ")), done.stderr
    else:
        assert done.stdout


@quiet
@given(options=st.lists(st.tuples(st.sampled_from(RACE), odd), max_size=4))
def test_options_of_race(tmp_path, options):
    words = [word for name, value in options for word in (f"--{name}", value)]
    check(run_here("race", write_problem(tmp_path), "--dry-run", *words, "--runs", tmp_path / "r"))


@settings(quiet, max_examples=30)
@given(options=st.lists(st.tuples(st.sampled_from(TRAIN), odd), max_size=3))
def test_options_of_train(tmp_path, options):
    words = [word for name, value in options for word in (f"--{name}", value)]
    words = ["--optimizer", "adam", "--scale", "smoke", *words, "--runs", tmp_path / "runs"]
    with warnings.catch_warnings(action="ignore"):
        check(run_here("train", write_problem(tmp_path), *words))


VALUES = """None;0;-1;0.5;'x';[];{};float('nan');(1, 2);lambda self: 1;True;10**30;{'mini': 1};
object();'loss';type"""
values = st.sampled_from(VALUES.replace("\n", "").split(";"))
ATTRIBUTES = """epochs batch metric larger_is_better target margin clip schedule spaces rules
settings selection caveats reads averaged data model loss scores evaluate parameter_groups
lr_factor show source"""
names = st.sampled_from(ATTRIBUTES.split())


@settings(quiet, max_examples=40)
@given(lines=st.lists(st.tuples(names, values), min_size=1, max_size=2))
def test_problem_files(tmp_path, lines):
    text = HEAD + "".join(f"\n    {name} = {value}" for name, value in lines) + "\n"
    file = tmp_path / f"p{hashlib.sha256(text.encode()).hexdigest()[:8]}.py"
    file.write_text(text)
    words = [
        "--optimizer",
        "adam",
        "--scale",
        "smoke",
        "--epochs",
        "1",
        "--runs",
        tmp_path / "runs",
    ]
    with warnings.catch_warnings(action="ignore"):
        check(run_here("train", file, *words))


def damage(content, changes):
    content = bytearray(content)
    for place, byte in changes:
        if content:
            content[int(place * len(content)) % len(content)] = byte
    return bytes(content)


changes = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=20)


@settings(quiet, max_examples=100)
@given(changes=changes, cut=st.floats(0, 1))
@example(changes=[], cut=1.0)
def test_stores_of_any_bytes_give_what_was_stored_or_nothing(tmp_path_factory, changes, cut):
    """A run that is read as finished is what was written."""
    folder = tmp_path_factory.mktemp("store")
    store = Store(folder)
    from adamomentum_lab.engine.store import Run

    for seed in range(8):
        records = [record(e) for e in range(1, 6)]
        store.finish(Run(spec(seed), "done", records, [0.1] * 5, {"threads": seed}, inputs={}))
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store._db.close()
    content = store.file.read_bytes()
    (folder / "runs.sqlite").write_bytes(damage(content[: int(cut * len(content))], changes))
    with warnings.catch_warnings(action="ignore"):
        try:
            upkeep.check(folder)
            upkeep.repair(folder)
            runs = Store(folder).all()
        except LabError:
            runs = []
    for run in runs:
        if run.status != "damaged":
            assert run.epochs == [record(e) for e in range(1, 6)]
            assert run.machine == {"threads": run.spec.seed}
    shutil.rmtree(folder)


@settings(quiet, max_examples=60)
@given(changes=changes, cut=st.floats(0, 1), sealed=st.booleans())
def test_checkpoints_of_any_bytes_load_or_are_left_out(tmp_path_factory, changes, cut, sealed):
    folder = tmp_path_factory.mktemp("checkpoint")
    filled(folder, 1)
    mine = Checkpoints(folder / spec(0).id, spec(0).id)
    content = mine.last.read_bytes()[32:]
    content = damage(content[: int(cut * len(content))], changes)
    digest = hashlib.sha256(content).digest() if sealed else b"0" * 32  # or with a digest that fits
    mine.last.write_bytes(digest + content)
    with warnings.catch_warnings(action="ignore"):
        assert mine.load(has_parts)["epoch"] is not None
    shutil.rmtree(folder)


@settings(quiet, max_examples=100)
@given(content=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_records_of_any_bytes_are_a_sentence(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("record")
    (folder / "race.json").write_bytes(content)
    with pytest.raises(LabError):
        Record.read(folder / "race.json")
    shutil.rmtree(folder)


def test_a_database_of_another_program_is_left_alone(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.sqlite")) as db:
        db.execute("CREATE TABLE runs (mine TEXT)")
        db.commit()
    with pytest.raises(LabError, match="is no store"):
        Store(tmp_path)
