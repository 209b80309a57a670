"""The contract of a problem: what is checked, and the words for it."""

import json
import re

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset
from typer.testing import CliRunner

import adamomentum_lab
from adamomentum_lab import Adversarial, Constant, Cosine, Data, Source, Tensors
from adamomentum_lab.catalog import find_workload
from adamomentum_lab.cli import app
from adamomentum_lab.errors import LabError
from adamomentum_lab.rules import SCALES, at_scale
from adamomentum_lab.training.feed import feed
from adamomentum_lab.workload_checks import check_splits
from tests.adamomentum_lab.loops import continues, loop_of
from tests.adamomentum_lab.problems import HEAD
from tests.test_docs import BLOCK, ROOT

NAMES = iter(range(1000))


@pytest.fixture
def load(tmp_path):
    """The class of a file that is the plain problem and some lines more."""

    def load(*lines, head=HEAD):
        file = tmp_path / f"problem_{next(NAMES)}.py"  # imported once under each name
        file.write_text(head + "".join(f"\n    {line}" for line in lines) + "\n")
        return find_workload(str(file)).load()

    return load


WRONG = {
    "clip = -1": r"Problem\.clip in .*\.py is -1; it must be a number above 0, or None",
    "clip = 0": "clip in .* is 0; it must be a number above 0",
    "clip = '1'": "clip in .* is '1'; it must be",
    "batch = 0": r"batch in .* is 0; it must be a whole number from 1 on\.$",
    "batch = 2.5": "batch in .* is 2.5; it must be a whole number",
    "batch = True": "batch in .* is True; it must be a whole number",
    "def batch(self): pass": "batch in .* is a function; it must be a whole number",
    "larger_is_better = 'no'": "larger_is_better in .* is 'no'; it must be True or False",
    "larger_is_better = None": "larger_is_better in .* is None; it must be True or False",
    "target = 'high'": "target in .* is 'high'; it must be a number or None",
    "target = float('nan')": "target in .* is nan; it must be a number or None",
    "metric = None": "metric in .* is None; it must be the name of a score, as 'accuracy'",
    "metric = nn.Linear": "metric in .* is a class, Linear; it must be the name of a score",
    "schedule = __import__('adamomentum_lab').Cosine": (
        r"schedule in .* is a class, Cosine; it must be a schedule, as Cosine\(\)"
    ),
    "schedule = 'cosine'": "schedule in .* is 'cosine'; it must be a schedule",
    "schedule = lambda lr: lr": "schedule in .* is a function; it must be a schedule",
    "averaged = 0": "averaged in .* is 0; it must be a whole number from 1 on",
    "epochs = 0": "epochs in .* is 0; it must be a whole number from 1 on, or one for each scale",
    "epochs = 0.5": "epochs in .* is 0.5; it must be",
    "epochs = {'mini': 3}": r"epochs in .* is {'mini': 3}; it must be .* as {\"smoke\": 1, ",
    "epochs = {'smoke': 1, 'mini': 0, 'full': 2}": "epochs in .* is {.*'mini': 0.*}; it must be",
    "def batches(self, split, order=None, rank=0, world=1, skip=0): pass": (
        r"Problem\.batches in .* is not used any more: return a Source from data\(\), or write "
        r"source\(self, split, training\)"
    ),
    "def updates(self, split): return 3": r"Problem\.updates in .* is not used any more",
    "settings = {'fair': 3}": r"settings in .* is \{'fair': 3\}; it must be settings by protocol",
    "grid = 3": r"grid in .* is 3; it must be the name of a grid, or None",
    "max_grad_norm = 1.0": r"max_grad_norm in .* is not used; the attribute is called clip\.$",
}


@pytest.mark.parametrize("line", WRONG)
def test_wrong_values_raise_an_error_when_the_file_is_read(line, load):
    with pytest.raises(LabError, match=WRONG[line]) as error:
        load(line)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "line",
    [
        "clip = None",
        "clip = 1",
        "target = None",
        "target = 3",
        "target = __import__('numpy').float32(80)",
        "metric = property(lambda self: 'accuracy')",
        "schedule = __import__('adamomentum_lab').Cosine(warmup=0.1)",
        "grid = 'cnn'",
        "settings = {'fair': {'sgdm': {'lr': 1.0}}}",
        "epochs = 1",
    ],
)
def test_right_values_are_not(line, load):
    workload = load(line)("smoke")
    assert loop_of(workload).run().status == "done"


def test_epochs_are_one_number_or_one_for_each_scale(load):
    one, each = load("epochs = 3"), load("epochs = {'smoke': 1, 'mini': 2, 'full': 4}")
    assert [at_scale(one.epochs, scale) for scale in SCALES] == [3, 3, 3]
    assert [at_scale(each.epochs, scale) for scale in SCALES] == [1, 2, 4]
    assert len(loop_of(one("smoke")).run().epochs) == 3


X, Y = torch.zeros(6, 5), torch.zeros(6, dtype=torch.int64)
GOOD = (X, Y)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ((GOOD, GOOD, GOOD), r"data\(\) of Problem returns a tuple; it must return Data\(train"),
        (None, r"data\(\) of Problem returns None; it must return Data"),
        (
            Data(GOOD, None, GOOD),
            r"chooses by validation examples, but data\(\) of Problem returns none",
        ),
        (Data(None, GOOD, GOOD), "the train split of Problem cannot be used: it is None; it must"),
        (Data(GOOD, GOOD, None), "the test split of Problem cannot be used: it is None; it must"),
        (Data((X, Y[:5]), GOOD, GOOD), "the train split .*: its tensors differ in length: 6 and 5"),
        (Data(GOOD, (X[:0], Y[:0]), GOOD), "the validation split .*: it has no examples"),
        (Data(GOOD, GOOD, {"x": X}), "the test split .*: it is a dict; it must be a tuple of"),
    ],
)
def test_wrong_data_raises_an_error_at_the_start(data, words, load):
    workload = load()("smoke")
    workload.data = lambda: data
    with pytest.raises(LabError, match=words):
        loop_of(workload)


def test_a_source_of_another_kind_raises_an_error(load):
    workload = load("def source(self, split, training): return list(split)")("smoke")
    words = r"source\(\) of Problem returns a list for the train split; it must return a Source"
    with pytest.raises(LabError, match=words):
        loop_of(workload)


def test_an_evaluation_of_its_own_may_take_any_split(load):
    cls = load("def evaluate(self, model, split): return {'accuracy': float(split)}")
    workload = cls("smoke")
    check_splits(workload, Data(GOOD, "1", "2"))


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (nn.ReLU(), r"model\(\) of Problem returns a network without parameters\."),
        (nn.Linear, r"model\(\) of Problem returns .*Linear.*; it must return an nn.Module"),
    ],
)
def test_a_model_that_cannot_be_trained_raises_an_error(network, words, load):
    workload = load()("smoke")
    workload.model = lambda: network
    with pytest.raises(LabError, match=words):
        loop_of(workload)


DATASET = '''
import torch
from torch import nn
from adamomentum_lab import Data, Examples, Workload

class Points(torch.utils.data.Dataset):
    """Examples that are drawn anew in training: torch's random numbers, seeded by the lab."""

    def __init__(self, first, last, noise):
        self.first, self.last, self.noise = first, last, noise

    def __len__(self):
        return self.last - self.first

    def __getitem__(self, i):
        x = torch.linspace(-1, 1, 3) * (self.first + i) / 50
        return {"inputs": {"x": x + self.noise * torch.randn(3)}, "y": x.sum()}

class Problem(Workload):
    """A regression on a Dataset whose batches are nested dictionaries."""

    epochs = 3
    batch = 8

    def data(self):
        return Data(Points(0, 60, 0.1), Points(60, 80, 0.0), Points(80, 100, 0.0))

    def model(self):
        return nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.2), nn.Tanh(), nn.Linear(8, 1))

    def loss(self, model, batch):
        return nn.functional.mse_loss(model(batch["inputs"]["x"])[:, 0], batch["y"])
'''


@pytest.mark.parametrize("after", [3, 8, 13])
def test_a_dataset_is_trained_on_and_a_stopped_run_continues_bit_for_bit(after, load, tmp_path):
    workload = load(head=DATASET)("smoke")
    assert len(workload.source(workload.data().train, training=True)) == 8
    assert continues(workload, tmp_path, after)


def test_a_dataset_of_tensors_trains_as_the_tensors_do(load):
    tensors, dataset = load()("smoke"), load()("smoke")
    plain = dataset.data
    dataset.data = lambda: Data(*(TensorDataset(*split) for split in vars(plain()).values()))
    records = [loop_of(workload).run().epochs for workload in (tensors, dataset)]
    assert records[0] == records[1]


def test_without_validation_datasets_are_joined(load):
    workload = load(head=DATASET)("smoke", "paper")
    data = workload.splits()
    assert data.validation is None
    assert len(data.train) == 80
    with pytest.raises(LabError, match=r"merge the training and validation splits, .* splits\(\)"):
        Data(Tensors(GOOD, 2), Tensors(GOOD, 2), None).merged()


def test_means_count_every_example_of_nested_batches_once(load):
    workload = load(head=DATASET)("smoke")
    torch.manual_seed(0)
    model = workload.model().eval()
    split = workload.data().validation  # batches of 8, 8 and 4
    with torch.no_grad():
        whole = workload.loss(model, next(adamomentum_lab.in_order(all_at_once(split))))
        assert workload.evaluate(model, split)["loss"] == pytest.approx(float(whole), rel=1e-5)


def all_at_once(split):
    return adamomentum_lab.Examples(split, len(split))


def test_the_names_of_the_top_level():
    for name in adamomentum_lab.__all__:
        named = getattr(adamomentum_lab, name).__name__  # `race` is a module that can be called
        assert named.rpartition(".")[2] == name
    assert isinstance(Tensors(GOOD, 2), Source)
    assert Constant().lr(0.1, None) == 0.1
    assert Cosine() == Cosine(0.0, 0.0)
    assert issubclass(Adversarial, adamomentum_lab.Workload)
    with pytest.raises(AttributeError, match="has no attribute 'wrap'"):
        adamomentum_lab.wrap  # noqa: B018


PAGE = (ROOT / "docs" / "guide" / "your-own-problem.md").read_text()
BLOCKS = [code for code in BLOCK.findall(PAGE) if "class " in code]


@pytest.mark.parametrize("code", BLOCKS, ids=lambda code: re.findall(r"class (\w+)", code)[-1])
def test_what_the_guide_shows_can_be_trained(code, tmp_path, monkeypatch):
    if not re.search(r"class \w+\((Workload|Classification|Adversarial)\)", code):
        scope = {"torch": torch}
        exec(code, scope)
        for i in range(3):
            torch.save((torch.full((2, 5), i), torch.full((2,), i)), tmp_path / f"{i}.pt")
        source = scope["Parts"](tmp_path)
        assert isinstance(source, Source)
        assert sorted(int(y[0]) for _, y in feed(source, 1, 0)) == [0, 1, 2]
        return
    (tmp_path / "guide.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    words = "train guide.py --optimizer adamomentum --epochs 2 --json"
    done = CliRunner().invoke(app, words.split(), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    first, second = json.loads(done.stdout)["epochs"]
    assert second["train"]["loss"] != first["train"]["loss"]
