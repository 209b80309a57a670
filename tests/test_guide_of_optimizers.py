"""The guide to racing one's own optimizer does what it says."""

import re
import shlex

import pytest

from tests.adamomentum_lab.command_line import ROOT, no_workers, run_here

__all__ = ["no_workers"]
PAGE = (ROOT / "docs" / "guide" / "your-own-optimizer.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMANDS = [
    line
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("adamomentum")
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    lion, contender = BLOCK.findall(PAGE)
    (tmp_path / "lion.py").write_text(lion)
    (tmp_path / "parted.py").write_text(contender)
    monkeypatch.chdir(tmp_path)


def test_from_nothing_to_a_page(folder, no_workers):
    pytest.importorskip("pytorch_optimizer")
    race, report, check = COMMANDS
    words = [*shlex.split(race)[1:], "--scale", "smoke", "--trials", "1", "--seeds", "1"]
    done = run_here(*words)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in ("adamw", "Lion", "theirs", "muon"))
    assert "muon trains hidden matrices by Muon" in " ".join(done.stdout.split())
    done = run_here(*shlex.split(report)[1:])
    assert done.returncode == 0, done.stderr
    done = run_here(*shlex.split(check)[1:])
    failed = [line for line in done.stdout.splitlines() if ": failed" in line]
    assert [line.split(": ")[1] for line in failed] == [
        "only the faulty element becomes nan",
        "closures run with gradients",
    ]


def test_a_contender_of_a_file_and_every_form_of_the_table(folder, no_workers):
    forms = re.findall(r"^\| `(.*?)` \|", PAGE, re.MULTILINE)
    assert len(forms) == 7
    names = "slow=adamw(betas=(0.9, 0.99)),torch.optim.SGD(nesterov=True, momentum=0.9)"
    names += ",parted.py,lion.py:Lion,torch.optim.Adagrad"
    args = ["--trials", "0", "--seeds", "1", "--scale", "smoke"]
    done = run_here("race", "digits_mlp", "--optimizers", names, *args)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "parted trains matrices with momentum: 1.weight, 3.weight and 5.weight" in said
    space = ["--space", "Lion.betas=(0.9,0.99),(0.95,0.98)", "--dry-run"]
    assert space[1] in PAGE
    done = run_here("race", "digits_mlp", "--optimizers", "adamw,lion.py:Lion", *space)
    assert done.returncode == 0, done.stderr
    assert "betas" in done.stdout
