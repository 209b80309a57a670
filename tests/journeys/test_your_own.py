"""The four journeys of the guide: your data, your model, your notebook."""

import shutil
import subprocess
import sys

import pytest

from adamomentum_lab.catalog import find_workload, refer
from adamomentum_lab.contenders import get
from adamomentum_lab.engine.job import Job
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.engine.store import Store
from adamomentum_lab.training.checkpoints import Checkpoints
from tests.adamomentum_lab.command_line import ROOT, run_process
from tests.adamomentum_lab.loops import kill_until_done
from tests.adamomentum_lab.problems import HEAD

EXAMPLES = ("houses", "augmented_images", "fine_tune")


def copy_example(folder, name):
    for file in (f"{name}.py", "houses.csv"):
        shutil.copy(ROOT / "examples" / file, folder)
    if name == "fine_tune":
        subprocess.run([sys.executable, folder / "fine_tune.py"], check=True)
    return folder / f"{name}.py"


# Worker processes that start for each run take most of a minute.
HEAVY = pytest.param("augmented_images", marks=pytest.mark.full)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["houses", HEAVY, "fine_tune"])
def test_it_races_as_written(tmp_path, name):
    file = copy_example(tmp_path, name)
    words = ["race", file, "--optimizers", "adamw,adamomentum", "--scale", "smoke"]
    words += ["--trials", "1", "--seeds", "2", "--certify", "0", "--runs", tmp_path / "runs"]
    done = run_process(*words)
    assert done.returncode == 0, done.stderr
    assert "adamomentum" in done.stdout
    again = run_process(*words)
    assert "were already finished" in again.stderr
    assert again.stdout == done.stdout


def job_of(reference, folder):
    contender = get("adamomentum")
    spec = Spec.of(
        contender.settings,
        workload=reference.name,
        code=reference.code,
        optimizer=contender.name,
        optimizer_code="",
        seed=1,
        scale="mini",
        protocol="fair",
    )
    store = Store(folder)
    store.begin(spec, {})
    return Job(spec, reference, store.folder_of(spec), checkpoint_seconds=0.0)


def reference_of(folder, name):
    if name != "notebook":
        return find_workload(str(copy_example(folder, name)))
    scope = {"__name__": "__main__"}
    exec(compile(HEAD, "a cell", "exec"), scope)
    return refer(scope["Problem"])[0]


@pytest.mark.full
@pytest.mark.parametrize("name", [*EXAMPLES, "notebook"])
def test_killed_at_twenty_instants_it_ends_with_the_same_numbers(tmp_path, name):
    reference = reference_of(tmp_path, name)
    ends = []
    for kills in (0, 20):
        job = job_of(reference, tmp_path / f"runs{kills}")
        kill_until_done(job, kills)
        ends.append(Checkpoints(job.folder, job.spec.id).load())
    whole, killed = ends
    assert whole["epochs"] == killed["epochs"]
    for weight, other in zip(whole["model"].values(), killed["model"].values(), strict=True):
        assert weight.equal(other)
