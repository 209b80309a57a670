"""Short runs of every kind of workload, compared with recorded losses.

On the build that recorded them, every number must be equal to the last digit. Processors round
differently, and a few updates of a network amplify that: elsewhere the runs are repeated in
float64, and their losses must agree to 1e-5. A change of the numbers is a decision: record them
again with `python -m tests.test_golden_losses`, and say so under Numerics in the changelog. With
names of runs it records these alone. If a run that was recorded before has changed, raise `NUMBERS`
in `adamomentum_lab/identity.py` as well, so that stored runs of the old code no longer count:
golden/numbers.json has for each number a digest of every run, and recording adds to it.
"""

import hashlib
import json
import os
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from typer.testing import CliRunner

from adamomentum_lab.cli import app
from adamomentum_lab.identity import NUMBERS

FOLDER = Path(__file__).parent / "golden"
FILE = FOLDER / "losses.json"
NUMBERS_FILE = FOLDER / "numbers.json"
DATA = {
    "cifar10": "cifar-10-batches-bin",
    "ptb": "penn-treebank",
    "multi30k": "multi30k-de-en",
    "iwslt14": "iwslt14.tokenized.de-en",
    "imagenet": "tiny-imagenet-20",
}
RUNS = {
    "multilayer perceptron": "digits_mlp --optimizer adabelief",
    "small CNN": "digits_cnn --optimizer adamomentum --weight-decay 1e-3",
    "ResNet as run": "cifar10_resnet34 --optimizer radam --protocol as-run",
    "DenseNet": "cifar10_densenet121 --optimizer adabound",
    "ImageNet": "imagenet_resnet18 --optimizer sgdm --lr 1e-3 --protocol paper",
    "LSTM": "ptb_lstm1 --optimizer adamomentum",
    "LSTM as run": "ptb_lstm2 --optimizer sgdm --protocol as-run",
    "Transformer": "multi30k_transformer --optimizer yogi",
    "Transformer of the paper": "iwslt14_transformer --optimizer adamw --protocol paper",
    "small GAN": "digits_dcgan --optimizer radam",
    "DCGAN": "cifar10_dcgan --optimizer adamomentum --protocol as-run",
    "spectral norm": "cifar10_sngan --optimizer sgdm",
    "moving average": "cifar10_biggan --optimizer adam --protocol paper",
}


def run(words):
    """What a command prints as JSON."""
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def build():
    """What decides about last digits."""
    return {
        "torch": torch.__version__,
        "kernels": torch.backends.cpu.get_cpu_capability(),
        "processor": next(
            (
                line.partition(":")[2].strip()
                for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")
            ),
            "",
        ),
        "oneDNN": os.environ.get("ONEDNN_MAX_CPU_ISA", ""),
    }


def train(folder, precision, words):
    words = f"train {words} --scale smoke --precision {precision} --json --runs"
    return run([*words.split(), str(folder)])["epochs"]


def resumed(folder, precision):
    """Interrupted between two epochs."""
    train(folder, precision, "digits_cnn --optimizer radam --epochs 1")
    return train(folder, precision, "digits_cnn --optimizer radam")


def halved(folder):
    """Every run of a race with successive halving, with its epochs."""
    race = "race tests/golden/problem.py --optimizers adam,adamomentum,sgdm --trials 4 --halving"
    words = f"{race} --search grid --seeds 2 --tune lr --scale smoke --jobs 1 --json --runs"
    runs = run([*words.split(), str(folder)])["runs"]
    return [record for one in runs for record in one["epochs"]]


def in_double(weight, draw=torch.nn.init.orthogonal_):
    """An orthogonal matrix whose last digits are those of float64.

    In float32 they depend on the processor, and in the run with spectral norm a unit of the
    discriminator is so close to 0 that they decide whether it is on: 2e-4 of the loss.
    """
    weight.data = weight.data.double()
    return draw(weight)


def measure(name, folder, precision):
    if name == "resumed":
        return resumed(folder, precision)
    if name == "halving":
        return halved(folder)
    if (name, precision) != ("spectral norm", "64-true"):
        return train(folder, precision, RUNS[name])
    with patch.object(torch.nn.init, "orthogonal_", in_double):
        return train(folder, precision, RUNS[name])


def missing_data(name):
    from adamomentum_paper.data.files import root

    needed = DATA.get(RUNS.get(name, "_").split("_")[0])
    return needed is not None and not (root() / needed).is_dir()


def losses(epochs):
    return [value for record in epochs for value in (record["epoch"], record["train"]["loss"])]


@pytest.mark.parametrize("name", [*RUNS, "resumed", "halving"])
def test_losses_are_what_they_were(name, tmp_path, monkeypatch):
    if missing_data(name):
        pytest.skip("its data is not in the data folder")
    monkeypatch.chdir(FOLDER.parents[1])
    torch.set_num_threads(1)
    recorded = json.loads(FILE.read_text(encoding="utf-8"))
    assert name in recorded["64-true"], f"record it: python -m tests.test_golden_losses '{name}'"
    if build() == recorded["build"]:
        found = measure(name, tmp_path, "32-true")
        for now, then in zip(found, recorded["32-true"][name], strict=True):
            now["train"] = {key: now["train"][key] for key in then["train"]}  # it may have more
        assert found == recorded["32-true"][name]
    else:
        found = losses(measure(name, tmp_path, "64-true"))
        assert found == pytest.approx(losses(recorded["64-true"][name]), rel=1e-5)


def digests(recorded):
    """Of each run, with both precisions: its losses, and its scores on validation and test."""
    texts = {}
    for precision, runs in recorded.items():
        for name, epochs in runs.items() if precision != "build" else ():
            scores = [(one.get("validation"), one.get("test")) for one in epochs]
            texts[name] = texts.get(name, "") + json.dumps([losses(epochs), scores])
    return {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in texts.items()}


def numbered(numbers, found):
    """The table of numbers after a recording: a run that changed begins a new number."""
    last = max(numbers, key=int, default="1")
    known = numbers.get(last, {})
    if any(known.get(name, digest) != digest for name, digest in found.items()):
        last = str(int(last) + 1)
    return {**numbers, last: found}


def test_the_number_of_the_training_code_was_raised_with_the_losses():
    """Else runs that other code has stored would count."""
    numbers = json.loads(NUMBERS_FILE.read_text(encoding="utf-8"))
    assert [*numbers] == [str(i + 1) for i in range(NUMBERS)], "see the top of this file"
    assert digests(json.loads(FILE.read_text(encoding="utf-8"))) == numbers[str(NUMBERS)]


def test_a_changed_loss_begins_a_new_number_and_a_new_run_does_not():
    numbers = {"1": {"a": "x", "b": "y"}}
    assert numbered(numbers, {"a": "x", "b": "y"}) == numbers
    more = {"a": "x", "b": "y", "c": "z"}
    assert numbered(numbers, more) == {"1": more}
    other = {"a": "x", "b": "w"}
    assert numbered(numbers, other) == {**numbers, "2": other}


def record(names):
    """Write the losses of some runs anew, or of all."""
    import tempfile

    torch.set_num_threads(1)
    known = json.loads(FILE.read_text(encoding="utf-8"))
    labels = (*RUNS, "resumed", "halving")
    if strange := [name for name in names if name not in labels]:
        sys.exit(f"there is no run {strange[0]!r}; there are {', '.join(labels)}.")
    if names and build() != known["build"]:
        sys.exit("this build is not the recorded one: record all of them, or none.")
    parts = [f'"build": {json.dumps(build())}']
    for precision in ("32-true", "64-true"):
        lines = []
        for name in labels:
            epochs = known[precision].get(name)
            if not names or name in names:
                with tempfile.TemporaryDirectory() as folder:
                    epochs = measure(name, Path(folder), precision)
            if epochs is not None:
                lines.append(f"{json.dumps(name)}: {json.dumps(epochs)}")
        parts.append(f'"{precision}": {{\n' + ",\n".join(lines) + "\n}")
    FILE.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    numbers = json.loads(NUMBERS_FILE.read_text(encoding="utf-8"))
    numbers = numbered(numbers, digests(json.loads(FILE.read_text(encoding="utf-8"))))
    NUMBERS_FILE.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    if len(numbers) != NUMBERS:
        sys.exit(f"losses have changed: set NUMBERS = {len(numbers)} in identity.py of the lab.")


if __name__ == "__main__":
    sys.exit(record(sys.argv[1:]))
