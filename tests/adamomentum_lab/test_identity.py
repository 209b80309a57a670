"""What a digest covers: the code that decides about the numbers of a run, and nothing else."""

import shutil
from pathlib import Path

import pytest

import adamomentum_lab
from adamomentum_lab import contenders
from adamomentum_lab.catalog import find_workload
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.engine.store import Run, Store
from adamomentum_lab.identity import digest, reached_modules
from adamomentum_lab.race.plan import Race, count_outdated_runs, make_plan
from adamomentum_lab.report.terminal import plan_lines

LAB = Path(adamomentum_lab.__file__).parent


@pytest.fixture
def problem(tmp_path):
    """A user's file with a neighbour, a neighbour of that, and a package."""
    files = {
        "problem.py": "import torch\nimport json\nfrom near import x\nfrom package import inner\n",
        "near.py": "def x():\n    import far\n",
        "far.py": "y = 1\n",
        "package/__init__.py": "",
        "package/inner.py": "from . import deep\nfrom .deep import z\n",
        "package/deep.py": "z = 1\n",
        "unused.py": "w = 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path / "problem.py"


def test_every_module_that_is_reached_counts(problem):
    modules = set(reached_modules(problem))
    assert modules == {"near", "far", "package", "package.inner", "package.deep"}
    before = digest(problem)
    for name in ("near.py", "far.py", "package/__init__.py", "package/deep.py", "problem.py"):
        file = problem.parent / name
        old = file.read_text()
        file.write_text(old + "# changed\n")
        assert digest(problem) != before, name
        file.write_text(old)
    (problem.parent / "unused.py").write_text("w = 2\n")
    assert digest(problem) == before


def test_a_package_without_init_counts(tmp_path):
    (tmp_path / "names").mkdir()
    (tmp_path / "names" / "inner.py").write_text("x = 1\n")
    (tmp_path / "problem.py").write_text("import names.inner\n")
    assert set(reached_modules(tmp_path / "problem.py")) == {"names.inner"}


def test_the_place_of_a_file_does_not_count(problem, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "copy"
    shutil.copytree(problem.parent, elsewhere)
    assert digest(elsewhere / "problem.py") == digest(problem)


def test_a_file_that_cannot_be_parsed_has_a_digest(tmp_path):
    file = tmp_path / "broken.py"
    file.write_text("def (")
    assert digest(file)


@pytest.mark.parametrize(
    ("workload", "modules"),
    [
        (
            "cifar10_resnet34",
            {"models.resnet", "data.augmentation", "workloads._cifar10", "losses"},
        ),
        ("cifar10_dcgan", {"models.dcgan", "adversarial_losses", "workloads._gan_settings"}),
        ("ptb_lstm1_long", {"models.lstm", "workloads.ptb_lstm1", "workloads._ptb"}),
        ("iwslt14_transformer", {"models.transformer", "models.beam_search", "data.bpe"}),
    ],
)
def test_networks_data_and_losses_of_an_installed_workload_count(workload, modules):
    reached = reached_modules(find_workload(workload).file)
    assert {f"adamomentum_paper.{name}" for name in modules} <= reached.keys()
    assert "adamomentum_lab.workload" in reached
    assert "adamomentum_lab.schedules" in reached
    assert not any(name.partition(".")[0] in ("torch", "numpy", "typing") for name in reached)


def test_the_code_of_a_contender_counts(tmp_path):
    reached = reached_modules(LAB / "contenders" / "yogi.py")
    assert "adamomentum_lab.contenders._formula" in reached
    assert "adamomentum.torch.optimizer" in reached_modules(LAB / "contenders" / "adamomentum.py")
    changed = tmp_path / "yogi.py"
    changed.write_text((LAB / "contenders" / "yogi.py").read_text() + "# changed\n")
    assert digest(changed) != contenders.code_of("yogi")
    race = Race("digits_mlp", "c0de", ("yogi",), 0, 1, "smoke", "fair")
    assert race.spec("yogi", {"lr": 1e-2}, 1).optimizer_code == contenders.code_of("yogi")


def test_a_specification_of_version_0_1_keeps_its_id():
    """As computed by that version."""
    old = {
        "workload": "digits_mlp", "code": "c0de", "optimizer": "adam", "seed": 1,
        "settings": {"lr": 0.001, "betas": [0.9, 0.999]}, "scale": "smoke", "protocol": "fair",
        "precision": "32-true",
    }  # fmt: skip
    spec = Spec.from_json(old)
    assert spec.as_json() == old
    assert spec.id == "040ecfd55d97724c"
    assert Spec.from_json({**old, "optimizer_code": "abc"}).id != spec.id


def test_a_race_says_that_runs_of_other_code_are_repeated(tmp_path):
    reference = find_workload("digits_mlp")
    race = Race("digits_mlp", reference.code, ("adam", "sgdm"), 0, 2, "smoke", "fair")
    plan = make_plan(race, reference.load())
    store = Store(tmp_path)
    assert count_outdated_runs(plan, store) == 0
    for seed in (1, 2):
        spec = race.spec("adam", plan.starts["adam"], seed)
        old = Spec.from_json({**spec.as_json(), "code": "of 0.1", "optimizer_code": ""})
        store.finish(Run(old, "done"))
    assert count_outdated_runs(plan, store) == 2
    assert plan_lines(plan, [], 2)[-1] == (
        "2 stored runs with these settings came from other code of the workload or the optimizer, "
        "and will be repeated."
    )
    store.finish(Run(race.spec("adam", plan.starts["adam"], 1), "done"))
    assert count_outdated_runs(plan, store) == 1
