"""Every example runs as its docstring says, and those that continue end with the same bits."""

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.test_docs import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# breast_cancer.py is a workload: the lab's tests race it.
CLIENTS = {
    "accelerate_loop": ["accelerate", "sklearn"],
    "jax_loop": ["optax", "sklearn"],
    "keras_fit": ["keras", "sklearn"],
    "lightning_module": ["lightning", "sklearn"],
    "transformers_trainer": ["transformers", "accelerate"],
}


def run(name, *arguments, cwd, code=None, **environment):
    """What an example prints, or `code` that may import it."""
    for package in CLIENTS[name]:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{name}.py needs {package}")
    start = ["-c", code] if code else [ROOT / "examples" / f"{name}.py"]
    folders = [str(ROOT / "examples"), os.environ.get("PYTHONPATH", "")]
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run(
        [sys.executable, *start, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def result(printed):
    """The number in the last line."""
    return float(re.search(r"test (?:accuracy|loss) ([\d.]+)", printed.splitlines()[-1]).group(1))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_is_short_and_says_how_to_start_it(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 100
    assert f"examples/{path.name}" in ast.get_docstring(ast.parse(text))
    if path.stem in CLIENTS:
        assert "\npip install -c constraints.txt '.[" in text


@pytest.mark.slow
def test_transformers_trainer_continues_in_the_middle(tmp_path):
    printed = run("transformers_trainer", "whole", cwd=tmp_path)
    # A byte guessed at random costs 5.5, by its frequency 3.3.
    assert result(printed) < 2.6
    assert "'loss':" in printed
    shutil.copytree(tmp_path / "whole" / "checkpoint-50", tmp_path / "half" / "checkpoint-50")
    again = run("transformers_trainer", "half", cwd=tmp_path)
    assert result(again) == result(printed)
    assert again.count("'loss':") < printed.count("'loss':")
    weights = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("whole", "half")]
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_accelerate_continues_in_the_middle(tmp_path):
    printed = run("accelerate_loop", "whole", cwd=tmp_path)
    assert result(printed) > 90
    shutil.copytree(tmp_path / "whole" / "4", tmp_path / "half" / "4")
    again = run("accelerate_loop", "half", cwd=tmp_path)
    assert again.splitlines() == printed.splitlines()[4:]
    weights = [(tmp_path / run / "10/model.safetensors").read_bytes() for run in ("whole", "half")]
    assert weights[0] == weights[1]


# Without what Lightning does not save, the states of random generators: in order, no dropout.
IN_ORDER = """
import sys
import lightning_module as example

class Fixed(example.Digits):
    def __init__(self):
        super().__init__()
        self.network[3].p = 0.0

    def train_dataloader(self):
        return example.DataLoader(self.train_set, batch_size=32)

example.Digits, example.EPOCHS = Fixed, 4
example.main(*sys.argv[1:])
"""


@pytest.mark.slow
def test_lightning_continues_in_the_middle(tmp_path):
    torch = pytest.importorskip("torch")
    printed = run("lightning_module", "shuffled", cwd=tmp_path)
    assert printed.count("epoch") == 10
    assert result(printed) > 90

    fixed = run("lightning_module", "whole", cwd=tmp_path, code=IN_ORDER)
    (tmp_path / "half").mkdir()
    shutil.copy(tmp_path / "whole" / "epoch=1.ckpt", tmp_path / "half" / "last.ckpt")
    again = run("lightning_module", "half", cwd=tmp_path, code=IN_ORDER)
    assert again.splitlines() == fixed.splitlines()[2:]
    whole, half = (
        torch.load(tmp_path / folder / "epoch=3.ckpt", weights_only=True)
        for folder in ("whole", "half")
    )
    assert whole["optimizer_states"][0]["state"][0]["step"] == 4 * 47
    for name, weight in whole["state_dict"].items():
        assert torch.equal(weight, half["state_dict"][name]), name


@pytest.mark.slow
def test_jax(tmp_path):
    printed = run("jax_loop", cwd=tmp_path)
    assert printed.count("epoch") == 10
    assert result(printed) > 90


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_keras(tmp_path, backend):
    pytest.importorskip(backend)
    assert result(run("keras_fit", cwd=tmp_path, KERAS_BACKEND=backend)) > 90
    assert (tmp_path / "digits.keras").exists()
