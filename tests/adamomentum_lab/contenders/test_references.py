"""Every form of a reference, and what a race makes of it."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from torch import nn

from adamomentum_lab import contenders
from adamomentum_lab.catalog import find_workload
from adamomentum_lab.contenders import find, find_all
from adamomentum_lab.contenders._written import Written, parse, split
from adamomentum_lab.engine.inline import Inline
from adamomentum_lab.engine.store import Store
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.plan import Race, base_settings, make_plan
from adamomentum_lab.race.race import run_race
from adamomentum_lab.race.record import Record
from adamomentum_lab.race.search import space_of
from adamomentum_lab.workload import Workload
from tests.adamomentum_lab.command_line import no_workers, run_here, without_machine
from tests.adamomentum_lab.contenders.user_optimizers import OWN, write_lion
from tests.adamomentum_lab.problems import write_problem

__all__ = ["no_workers"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("adam, adamw", ["adam", "adamw"]),
        ("adam,slow=adamw(betas=(0.9, 0.99)),", ["adam", "slow=adamw(betas=(0.9, 0.99))"]),
        ("a.B(x=[1,2],y='a,)b'),c", ["a.B(x=[1,2],y='a,)b')", "c"]),
        ("it's.py:A,b", ["it's.py:A", "b"]),
        ("", []),
    ],
)
def test_commas_inside_brackets_do_not_separate(text, parts):
    assert split(text) == parts


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("adamw", Written("", "adamw", {})),
        (" slow = adamw( betas=(0.9, 0.99) ) ", Written("slow", "adamw", {"betas": (0.9, 0.99)})),
        ("a.B(x=-1e-3, y=True, z='s', w=None)",
         Written("", "a.B", {"x": -1e-3, "y": True, "z": "s", "w": None})),
        ("a.B()", Written("", "a.B", {})),
        ("/a (1)/b=c.py:D(lr=1)", Written("", "/a (1)/b=c.py:D", {"lr": 1})),
        ("n=dir/l.py", Written("n", "dir/l.py", {})),
    ],
)  # fmt: skip
def test_parts_of_a_reference(text, written):
    assert parse(text) == written


def test_the_labs_own():
    assert find("adamw") is contenders.get("adamw") is find("adamw=adamw")
    slow = find("slow=adamw(betas=(0.9, 0.99))")
    assert (slow.name, slow.decay) == ("slow", "decoupled")
    assert slow.settings == {**contenders.get("adamw").settings, "betas": (0.9, 0.99)}
    assert slow.entry.reference == "adamw(betas=(0.9, 0.99))"
    assert slow.entry.code == contenders.code_of("adamw")
    # A protocol's settings of the original hold, but not in place of the user's.
    assert slow.settings_for({"adamw": {"eps": 1.0, "betas": (0.5, 0.5)}})["eps"] == 1.0


def test_a_class_of_a_package():
    for text in ("torch.optim.SGD", "torch.optim:SGD", "torch.optim.sgd:SGD"):
        assert find(text).optimizer is torch.optim.SGD
    found = find("torch.optim.SGD(nesterov=True, momentum=0.9)")
    assert (found.name, found.decay, found.needs) == ("SGD", "coupled", frozenset())
    assert found.settings["lr"] == 1e-3
    assert found.options == {"nesterov": True, "momentum": 0.9}
    group = found.build_for(nn.Linear(2, 1), **found.settings).param_groups[0]
    assert (group["nesterov"], group["momentum"], group["lr"]) == (True, 0.9, 1e-3)
    assert find("torch.optim.AdamW").decay == "decoupled"
    assert find("torch.optim.AdamW").settings["weight_decay"] == 0.01
    assert find("torch.optim.Adam(decoupled_weight_decay=True)").decay == "decoupled"
    # Its weight decay follows the scale of the parameters, but shrinks them all the same.
    assert find("torch.optim.Adafactor").decay == "decoupled"
    assert find("torch.optim.Rprop").decay is None


def test_numbers_keep_their_kind():
    """A specification has 10 as 10.0, and JSON a tuple as a list."""
    found = find("torch.optim.LBFGS(max_iter=7)")
    optimizer = found.build_for(nn.Linear(2, 1), lr=0.5, max_iter=7.0, history_size=3.0)
    group = optimizer.param_groups[0]
    assert [type(group[key]) for key in ("max_iter", "history_size", "lr")] == [int, int, float]
    adafactor = find("torch.optim.Adafactor").build_for(nn.Linear(2, 1), eps=[None, 1e-3])
    assert adafactor.param_groups[0]["eps"] == (None, 1e-3)
    # True is not 1.
    assert find("torch.optim.SGD(momentum=1)").settings["momentum"] is not True
    assert find("torch.optim.SGD(momentum=True)").settings["momentum"] is True


def test_what_a_users_file_has(tmp_path):
    file = write_lion(tmp_path)
    lion = find(f"{file}:Lion")
    assert (lion.name, lion.decay, lion.entry.label) == ("Lion", "decoupled", "lion.py:Lion")
    assert lion.settings == {"lr": 1e-4, "betas": (0.9, 0.99), "weight_decay": 0.0}
    assert lion.summary == "The sign of an average of two speeds."
    assert lion.entry.file == file.resolve()
    assert find(f"mine={file}:Lion(weight_decay=0.1)").settings["weight_decay"] == 0.1
    assert find(f"{file}:CoupledDecay").decay == "coupled"
    assert find(f"{file}:Searching").needs == {"closure"}
    strict = find(f"{file}:NoDefault")
    assert strict.settings == {"lr": 1e-3}
    assert strict.notes == ("lion.py:NoDefault has no default lr: 0.001 stands in for it",)
    assert find(f"{file}:NoDefault(lr=3.0)").notes == ()

    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    named = find(f"{file}:two_speeds")
    assert named.takes == "named parameters"
    groups = named.build_for(model, lr=1.0).param_groups
    assert [(len(group["params"]), group["lr"]) for group in groups] == [(2, 1.0), (2, 0.1)]
    of_model = find(f"{file}:last_layer")
    assert (of_model.takes, of_model.settings) == ("model", {"lr": 1e-2, "momentum": 0.9})
    assert of_model.build_for(model).param_groups[0]["params"] == [*model[1].parameters()]

    own = find(str(write_lion(tmp_path, "my_own.py", OWN)))
    assert (own.name, own.summary, own.settings["lr"]) == ("my-own", "Adagrad at my lr", 0.05)
    assert own.entry.label == "my_own.py"


def test_a_changed_file_is_another_contender(tmp_path):
    file = write_lion(tmp_path)
    before = find(f"{file}:Lion")
    assert find(f"{file}:Lion") == before
    file.write_text(file.read_text().replace("lr=1e-4", "lr=2e-4"))
    after = find(f"{file}:Lion")
    assert after.settings["lr"] == 2e-4
    assert after.entry.code != before.entry.code
    assert contenders.load("Lion", before.entry) == before  # what this process has loaded
    contenders._make.cache_clear()
    with pytest.raises(LabError, match=r"lion\.py:Lion has changed since the start; start again"):
        contenders.load("Lion", before.entry)


WRONG = {
    "adamx": "there is no optimizer 'adamx' (did you mean 'adam'?); there are sgdm, ",
    "lbfgs": "there is no optimizer 'lbfgs'; there are sgdm, ",
    "adamw,adamw": "two optimizers are called 'adamw'; name one of them, as other=adamw.",
    "torch.optim.Adam,a=adam,torch.optim.adam:Adam": "two optimizers are called 'Adam'; name one "
    "of them, as other=torch.optim.adam:Adam.",
    "adam=adamw": "'adam' is one of the lab's optimizers; give 'adam=adamw' another name, as "
    "my-adam=...",
    "x=": "'x=' names no optimizer; write a name of `adamomentum list`, package.Class, "
    "package.module:Class or file.py:Class.",
    "adamw(0.1)": "the options of 'adamw(0.1)' need names, as (betas=(0.9, 0.99)).",
    "adamw(lr=x)": "lr=x in 'adamw(lr=x)' is not usable; an option must be a number, a text, True, "
    "False, None or a list of them.",
    "adamw(lr=1e999)": "lr=1e309 in 'adamw(lr=1e999)' is not usable",
    "adamw(**{'lr': 1})": "**={'lr': 1} in",
    "adamw(lr=)": "the options of 'adamw(lr=)' are not Python; write them as (betas=(0.9, 0.99)).",
    "adamw(nesterov=True)": "adamw has no setting 'nesterov'; it has lr, betas, eps, weight_decay.",
    "torch.optim.SGD(beta=1)": "torch.optim.SGD has no setting 'beta'; it has lr, momentum, ",
    "torch.optim.SGD(momentum=-1)": "torch.optim.SGD cannot be raced: ValueError: Invalid momentum "
    "value: -1",
    "torch.optim.Adamm": "torch.optim has no 'Adamm' (did you mean 'Adam'?).",
    "tourch.optim.Adam": "tourch.optim.Adam cannot be imported: the package tourch is not "
    "installed.",
    "torch.optimm:Adam": "torch.optimm:Adam cannot be imported: there is no module torch.optimm.",
    "torch.optim.SparseAdam": "torch.optim.SparseAdam cannot be raced: RuntimeError: SparseAdam "
    "does not support dense gradients, please consider Adam instead",
    "torch.optim.Muon": "torch.optim.Muon cannot be raced: it trains matrices only",
    "math.sin": "math.sin cannot be raced: TypeError: must be real number",
    "math.pi": "math.pi is of type float; an optimizer is a class, or a function that returns one.",
    "torch.optim": "torch.optim is of type module; an optimizer is a class, or a function that",
    "a-b.c": "'a-b.c' is no optimizer; write a name of",
    "nowhere.py:Lion": "there is no file '",
    "FILE": "defines no CONTENDER = Contender(...); name what to race, as lion.py:Class.",
    "FILE:Lyon": "has no 'Lyon' (did you mean 'Lion'?).",
    "FILE:NUMBER": "lion.py:NUMBER is of type int; an optimizer is a class, or a function",
    "FILE:Needs": "lion.py:Needs cannot be raced: base has no default; give it, as "
    "lion.py:Needs(base=...), or race a function that does.",
    "FILE:no_arguments": "lion.py:no_arguments cannot be raced: it takes no parameters to train.",
    "FILE:nothing": "lion.py:nothing cannot be raced: it makes a NoneType, not a "
    "torch.optim.Optimizer.",
    "BROKEN:Lion": "broken.py:2: ZeroDivisionError: division by zero",
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_be_raced_gets_a_sentence(text, tmp_path):
    file = write_lion(tmp_path)
    (tmp_path / "broken.py").write_text("\n1 / 0\n")
    text_here = text.replace("FILE", str(file)).replace("BROKEN", str(tmp_path / "broken.py"))
    with pytest.raises(LabError, match=re.escape(WRONG[text])) as error:
        find_all(text_here)
    assert len(str(error.value).splitlines()) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        done = run_here("race", "digits_mlp", "--optimizers", text_here, "--runs", "runs")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


STRANGE = Path(__file__).with_name("strange_optimizers.py")
IN_A_SENTENCE = {
    "Sparse": "RuntimeError: coalesce expected sparse coordinate tensor layout but got Strided",
    "NoOptimizer": "it makes a NoOptimizer, not a torch.optim.Optimizer.",
    "NoGroups": "it has no param_groups; its __init__ must call super().__init__.",
    "Halves": "it changes the dtype of parameters from torch.float32 to torch.bfloat16.",
    "Doubles": "it changes the dtype of parameters from torch.float32 to torch.float64.",
    "with_scheduler": "it makes a tuple, not a torch.optim.Optimizer.",
    "StateOfAQueue": "a checkpoint cannot hold its state: it has a collections.deque.",
    "StateOfAFunction": "a checkpoint cannot hold its state: AttributeError: Can't pickle local",
    "Factory": "it makes a Factory, not a torch.optim.Optimizer.",
    "Refuses": "RuntimeError: not today",
    "Exits": "SystemExit: 0",
    "LrFirst": "its first argument is lr; it must be params.",
    "WantsALoss": "TypeError: step() needs the loss",
    "Plain(lr=0)": "its lr is 0; it must be a number above 0.",
}
WITH_A_NOTE = {
    "OwnSchedule": "changes its lr itself, but the lab sets it again before each step",
    "HiddenLr": "has no lr in its groups: schedules do not change it",
    "RenamedLr": "has no lr: nothing of it is searched, and schedules do not change it",
    "NoLr": "has no default lr: 0.001 stands in for it",
    "disguised": "has no default lr: 0.001 stands in for it",
}
PLAINLY = {
    "Sharp",
    "OfModel",
    "StateOfNumbers",
    "TensorLr",
    "Foreach",
    "Slots",
    "built",
    "shortest",
}
PLAINLY |= {"partial", "decorated", "Counting", "Talking", "Outer.Inner", "Größe"}


@pytest.mark.parametrize("name", IN_A_SENTENCE)
def test_a_strange_optimizer_that_cannot_be_raced(name):
    call = name.partition("(")[0]
    with pytest.raises(LabError) as error:
        find(f"{STRANGE}:{name}")
    words = f"{STRANGE.name}:{call} cannot be raced: {IN_A_SENTENCE[name]}"
    assert str(error.value).startswith(words)
    assert len(str(error.value).splitlines()) == 1


def test_strange_optimizers_are_raced(no_workers, tmp_path):
    found = {name: find(f"{STRANGE}:{name}") for name in [*PLAINLY, *WITH_A_NOTE]}
    for name, contender in found.items():
        notes = WITH_A_NOTE.get(name, ())
        assert contender.notes == (notes and (f"{STRANGE.name}:{name} {notes}",))
    assert found["TensorLr"].settings["lr"] == 0.01
    assert found["decorated"].settings["lr"] == 0.03
    assert found["Sharp"].needs == {"closure"}
    names = ",".join(f"{STRANGE}:{name}" for name in [*sorted(found), "NotANumber"])
    args = [write_problem(tmp_path), "--trials", "1", "--seeds", "1", "--scale", "smoke", "--json"]
    args += ["--runs", tmp_path / "runs", "--optimizers"]
    done = run_here("race", *args, f"adamw,{names}")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)  # what Talking prints goes to standard error
    assert "a step" in done.stderr
    status = {run["spec"]["optimizer"]: run["status"] for run in result["runs"]}
    assert status.pop("NotANumber") == "diverged"
    assert {*status.values()} == {"done"}
    assert {f"{STRANGE.name}:{name} {note}" for name, note in WITH_A_NOTE.items()} <= {
        *result["caveats"]
    }
    late = run_here("race", *args, f"adamw,{STRANGE}:ExitsLate")
    assert late.returncode == 1
    assert re.search(r"strange_optimizers\.py:\d+: SystemExit: 0", late.stderr.splitlines()[-1])


PACKAGE = {
    "__init__.py": "",
    "base.py": "import torch\nclass Base(torch.optim.SGD):\n    pass\n",
    "deep/__init__.py": "",
    "deep/own.py": "from ..base import Base\nclass Own(Base):\n    pass\n",
}


def test_a_package_with_relative_imports(tmp_path, monkeypatch):
    """Also one that is not installed, as PYTHONPATH has it. All that it imports counts."""
    for name, text in PACKAGE.items():
        file = tmp_path / "mine29" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    own = tmp_path / "mine29" / "deep" / "own.py"
    with pytest.raises(
        LabError, match=r"own\.py has relative imports; write package\.module:Class"
    ):
        find(f"{own}:Own")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LabError, match=r"mine29 is not installed; for the one in this folder, set"):
        find("mine29.deep.own.Own")
    monkeypatch.syspath_prepend(tmp_path)
    found = find("mine29.deep.own.Own")
    assert found.entry.label == "mine29.deep.own:Own"
    assert "mine29/base.py" in contenders.parts_for("Own", found.entry)
    base = tmp_path / "mine29" / "base.py"
    base.write_text(base.read_text() + "# changed\n")
    assert find("mine29.deep.own.Own").entry.code != found.entry.code


def test_a_file_that_ends_the_interpreter_gets_a_sentence(tmp_path):
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(0)\n")
    done = run_here("race", "digits_mlp", "--optimizers", f"{tmp_path}/exits.py:Lion")
    assert done.returncode == 2
    assert "exits.py:2: SystemExit: 0" in done.stderr.replace("\n", "")


def test_what_the_user_fixed_stays(tmp_path):
    class Mine(Workload):
        pass

    Mine.spaces = {"*": {"lr": (1e-1, 1e-2), "betas": ((0.5, 0.9), (0.9, 0.999))}}
    Mine.settings = {"fair": {"*": {"eps": 1e-3, "betas": (0.1, 0.2)}, "adamw": {"lr": 5.0}}}
    slow = find("slow=adamw(betas=(0.9, 0.99), lr=2e-3, weight_decay=0.3)")
    start = base_settings(slow, Mine, "fair")
    assert start == {"lr": 2e-3, "betas": (0.9, 0.99), "eps": 1e-3, "weight_decay": 0.3}
    assert space_of(slow, Mine) == {
        "lr": (1e-1, 1e-2), "betas": ((0.9, 0.99),), "weight_decay": (0.3,),
    }  # fmt: skip


def test_a_grid_of_a_plugin_is_for_those_it_knows(tmp_path):
    class Mine(Workload):
        grid = "cnn"

    assert "eps" in space_of(contenders.get("adam"), Mine)
    decades = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
    assert space_of(find(f"{write_lion(tmp_path)}:Lion"), Mine) == {"lr": decades}
    own = find(str(write_lion(tmp_path, "own.py", OWN)))
    assert space_of(own, Mine) == {"lr": (0.5, 0.05)}
    assert space_of(find("a=adam(betas=(0.9, 0.9))"), Mine)["betas"] == ((0.9, 0.9),)


def race_of(origin, text, **options):
    raced = find_all(text)
    given = {"trials": 2, "seeds": 1, "scale": "smoke", "protocol": "fair"} | options
    return Race(
        origin.name,
        origin.code,
        tuple(one.name for one in raced),
        entries={one.name: one.entry for one in raced if one.entry},
        **given,
    )


def forms(folder):
    file, own = write_lion(folder), write_lion(folder, "own.py", OWN)
    return (
        f"adamw,slow=adamw(betas=(0.9,0.99)),{file}:Lion,{file}:two_speeds(factor=0.5),{own},"
        f"{file}:last_layer,torch.optim.SGD(nesterov=True, momentum=0.9),torch.optim:Adagrad"
    )


def test_a_plan_of_every_form(tmp_path):
    origin = find_workload(str(write_problem(tmp_path)))
    race = race_of(origin, forms(tmp_path), space=("slow.lr=1e-3:1e-2",))
    plan = make_plan(race, origin.load())
    assert list(plan.starts) == [
        "adamw", "slow", "Lion", "two_speeds", "own", "last_layer", "SGD", "Adagrad",
    ]  # fmt: skip
    searched = {name: [axis.name for axis in own.axes] for name, own in plan.search_spaces.items()}
    assert searched == {name: ["lr"] for name in plan.starts}
    assert plan.search_spaces["Lion"].axes[0].start == 1e-4
    assert plan.starts["slow"]["betas"] == (0.9, 0.99)
    # Under `fair` everyone's weight decay is decoupled; nothing else is touched.
    assert plan.starts["SGD"]["decoupled_weight_decay"] is True
    own = {k: v for k, v in plan.starts["SGD"].items() if k != "decoupled_weight_decay"}
    assert own == find("torch.optim.SGD(nesterov=True, momentum=0.9)").settings
    assert "decoupled_weight_decay" not in plan.starts["Lion"]
    # Nobody's place is part of what the race is.
    (tmp_path / "else").mkdir()
    moved = race_of(origin, forms(tmp_path / "else"), space=("slow.lr=1e-3:1e-2",))
    assert moved.id == race.id
    assert moved.spec("Lion", {"lr": 1}, 1).id == race.spec("Lion", {"lr": 1}, 1).id
    spec = race.spec("Lion", {"lr": 1}, 1)
    assert (spec.target, spec.optimizer_code) == ("lion.py:Lion", race.entries["Lion"].code)
    assert type(spec).from_json(json.loads(json.dumps(spec.as_json()))) == spec
    assert race.spec("adamw", {"lr": 1}, 1).as_json().keys() == spec.as_json().keys() - {"target"}
    assert race_of(origin, "adamw,x=adamw").id != race_of(origin, "adamw,x=adam").id


def test_a_race_of_every_form_resumes_and_its_record_is_whole(tmp_path):
    origin = find_workload(str(write_problem(tmp_path)))
    race = race_of(origin, forms(tmp_path), trials=1)
    plan = make_plan(race, origin.load())
    store = Store(tmp_path / "runs")
    result = run_race(plan, origin, store, Inline(store))
    assert {run.status for run in result.runs} == {"done"}
    assert {run.spec.optimizer for run in result.runs} == set(race.optimizers)
    record = Record.from_json(json.loads(result.record.dumps()))
    assert record.spec.entries["slow"].reference == "adamw(betas=(0.9, 0.99))"
    assert asdict(record.spec.entries["Lion"])["defaults"]["lr"] == 1e-4
    assert record.spec.id == race.id
    assert f"slow=adamw(betas=(0.9, 0.99)),Lion={tmp_path}/lion.py:Lion" in str(
        record.machine["command"]
    )
    said = []
    again = run_race(plan, origin, store, Inline(store, said.append))
    assert without_machine(again.record.as_json()) == without_machine(result.record.as_json())
    assert "runs were already finished" in " ".join(said)
    # A changed optimizer is other data: its look is a second one at this number of seeds, and
    # there is less left to spend on it.
    assert again.record.looks == result.record.looks
    lion = tmp_path / "lion.py"
    lion.write_text(lion.read_text() + "# changed\n")
    text = f"adamw,{lion}:Lion,torch.optim.SGD(nesterov=True, momentum=0.9)"
    changed = make_plan(race_of(origin, text, trials=1), origin.load())
    third = run_race(changed, origin, store, Inline(store))
    first = {look.a: look.level for look in result.record.looks}
    now = {look.a: look.level for look in third.record.looks}
    # Of the pairs that shared the level, two are left: each keeps its share.
    pairs = len(result.race.pairs)
    assert now["SGD"] == pytest.approx(first["SGD"] * 2 / pairs)
    assert now["SGD"] > 0
    assert now["Lion"] < first["Lion"]


def test_the_command_races_and_trains_a_users_optimizer(no_workers, tmp_path):
    problem, file = write_problem(tmp_path), write_lion(tmp_path)
    args = ["--scale", "smoke", "--runs", tmp_path / "runs", "--json"]
    text = f"adamw,{file}:Lion(betas=(0.8,0.9)),{file}:NoDefault"
    done = run_here("race", problem, "--optimizers", text, "--trials", "0", "--seeds", "2", *args)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    (lion,) = (row for row in result["ranking"] if row["optimizer"] == "Lion")
    assert lion["settings"]["betas"] == [0.8, 0.9]
    assert "lion.py:NoDefault has no default lr: 0.001 stands in for it" in result["caveats"]
    words = run_here(
        "race", problem, "--optimizers", text, "--trials", "0", "--seeds", "2", *args[:-1]
    )
    shown = r"Lion +lr 0\.0001, betas \(0\.8, 0\.9\) \(lion\.py:Lion\)"
    assert re.search(shown, words.stdout), words.stdout
    assert run_here("report", "--runs", tmp_path / "runs").returncode == 0
    page = (tmp_path / "runs" / "report.html").read_text(encoding="utf-8")
    assert '<th scope="row">Lion<br><small>lion.py:Lion</small></th>' in page
    assert '<th scope="row">adamw</th>' in page
    assert "Note: lion.py:NoDefault has no default lr" in words.stdout
    # The run that `train` asks for is one of the race's.
    trained = run_here(
        "train", problem, "--optimizer", f"{file}:Lion(betas=(0.8,0.9))", "--seed", "1", *args
    )
    assert trained.returncode == 0, trained.stderr
    run = json.loads(trained.stdout)
    same = [one for one in result["runs"] if one["id"] == run_id(run)]
    assert [one["epochs"] for one in same] == [run["epochs"]]


@pytest.mark.parametrize("text", ["", "adamw,soap"])
def test_train_takes_one_optimizer(text):
    done = run_here("train", "digits_mlp", "--optimizer", text)
    assert done.returncode == 2
    assert f"--optimizer must be one optimizer, not {text!r}" in " ".join(done.stderr.split())


def run_id(run):
    from adamomentum_lab.engine.spec import Spec

    return Spec.from_json(run["spec"]).id
