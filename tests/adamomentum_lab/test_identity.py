"""What a digest covers: the code that decides about the numbers of a run, and nothing else."""

import importlib
import shutil
from pathlib import Path

import pytest
import torch

import adamomentum_lab
from adamomentum_lab import contenders
from adamomentum_lab.catalog import find_workload
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.identity import digest, parts, reached_modules
from adamomentum_lab.race.plan import Race

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
    assert not any(name.partition(".")[0] == "adamomentum_lab" for name in reached)
    assert not any(name.partition(".")[0] in ("torch", "numpy", "typing") for name in reached)


def test_the_code_of_a_contender_counts(tmp_path):
    reached = reached_modules(LAB / "contenders" / "yogi.py")
    assert "adamomentum_lab.contenders._formula" in reached
    assert "adamomentum.torch.optimizer" in reached_modules(LAB / "contenders" / "adamomentum.py")
    assert "adamomentum/torch/_cpu_step.h" in contenders.parts_of("adamomentum")
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


def test_what_a_digest_stands_for_has_names(problem):
    found = parts(problem)
    assert {*found} == {
        "the file itself", "near.py", "far.py", "package.py", "package/inner.py",
        "package/deep.py", "torch", "the lab's training code",
    }  # fmt: skip
    assert found["torch"] == torch.__version__.partition("+")[0]


def test_the_versions_of_installed_packages_count(tmp_path):
    """By the name that a package is imported by, which may not be that of what is installed."""
    (tmp_path / "problem.py").write_text(
        "import numpy\nfrom sklearn import datasets\nimport json\n"
    )
    found = parts(tmp_path / "problem.py")
    for name in ("numpy", "sklearn"):
        assert found[name] == importlib.import_module(name).__version__
    assert "json" not in found


def test_an_edit_of_the_lab_keeps_stored_runs():
    """Nothing but the number stands for modules that train, none of which a digest reads."""
    for file in (find_workload("digits_cnn").file, LAB / "contenders" / "adam.py"):
        lab = {*reached_modules(file)} - {"adamomentum_lab.contenders._formula"}
        assert {name for name in lab if name.startswith("adamomentum_lab")} <= {
            "adamomentum_lab.digits"
        }
    assert "the lab's training code" in find_workload("digits_cnn").parts


def test_two_files_may_have_neighbours_of_the_same_name(tmp_path):
    """One after the other in one process: each finds its own, before and after the import."""
    text = (
        "from adamomentum_lab import Workload\nfrom near import SLOPE\n"
        "class Mine(Workload):\n    slope = SLOPE\n    data = model = loss = None\n"
    )
    found = []
    for name, slope in (("one", 1.0), ("other", 2.0), ("one", 1.0)):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "mine.py").write_text(text)
        (tmp_path / name / "near.py").write_text(f"SLOPE = {slope}\n")
        reference = find_workload(str(tmp_path / name / "mine.py"))
        assert reference.load().slope == slope
        assert find_workload(str(reference.file)) == reference
        found.append(reference.code)
    assert found[0] == found[2] != found[1]


def test_an_edited_file_is_imported_again(tmp_path):
    file = tmp_path / "mine.py"
    text = "from adamomentum_lab import Workload\nclass Mine(Workload):\n    batch = {}\n"
    for batch in (1, 22, 333):
        file.write_text(text.format(batch) + "    data = model = loss = None\n")
        assert find_workload(str(file)).load().batch == batch
