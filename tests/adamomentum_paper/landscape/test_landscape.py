"""Curvature against dense Hessians, surfaces against formulas, the command as users call it."""

import json
import math
import shutil
import statistics

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from typer.testing import CliRunner

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.cli import app
from adamomentum_lab.errors import LabError
from adamomentum_lab.stats.estimates import Estimate
from adamomentum_paper.landscape.compare import compare_groups, difference, group_runs, verdict
from adamomentum_paper.landscape.curvature import Hessian, top_eigenvalue, trace
from adamomentum_paper.landscape.draw import ceiling, page, plus_minus
from adamomentum_paper.landscape.solutions import Problem, find_runs, list_runs, solution
from adamomentum_paper.landscape.surface import Surroundings, direction, spread
from adamomentum_paper.landscape.words import MEASURES, sentences
from tests.adamomentum_lab.command_line import run_here, run_process, without_machine
from tests.adamomentum_lab.problems import HEAD, write_problem

QUICK = ["--grid", "3", "--directions", "2", "--probes", "2", "--steps", "3", "--examples", "40"]
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-11}


def chance(seed=0):
    return torch.Generator().manual_seed(seed)


def network(dtype):
    """A small network with all a Hessian may stumble over, its loss in parts, its dense Hessian."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Tanh(), nn.Flatten(), nn.Linear(8, 3)
    )
    model = model.to(dtype).eval()
    x, y = torch.randn(10, 1, 4, 4, dtype=dtype), torch.randint(3, (10,))
    weights = list(model.parameters())

    def losses():
        for part in (slice(0, 6), slice(6, 10)):
            logits = model(x[part])
            yield len(y[part]) / 10, nn.functional.cross_entropy(logits, y[part])

    loss = nn.functional.cross_entropy(model(x), y)
    slopes = torch.autograd.grad(loss, weights, create_graph=True)
    flat = torch.cat([slope.flatten() for slope in slopes])
    rows = [torch.autograd.grad(entry, weights, retain_graph=True) for entry in flat]
    dense = torch.stack([torch.cat([part.flatten() for part in row]) for row in rows])
    return losses, weights, dense.detach()


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_products_are_those_of_the_dense_hessian(dtype):
    losses, weights, dense = network(dtype)
    vectors = torch.randn(3, len(dense), dtype=dtype, generator=chance())
    parts = []
    products = Hessian(losses, weights, parts.append)(vectors)
    torch.testing.assert_close(products, vectors @ dense, rtol=0, atol=10 * TOLERANCE[dtype])
    assert math.isclose(sum(parts), 3)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_lanczos_finds_the_largest_eigenvalue_within_its_error(dtype):
    losses, weights, dense = network(dtype)
    exact = torch.linalg.eigvalsh(dense.double())
    hessian = Hessian(losses, weights)
    top = float(exact[-1])
    slack = TOLERANCE[dtype] * top
    for steps in (2, 5, 10, len(dense)):
        found = top_eigenvalue(hessian, len(dense), chance(), steps=steps, tolerance=0, dtype=dtype)
        assert found.steps <= steps
        assert float((exact - found.value).abs().min()) <= found.error + slack
        assert found.value <= top + slack
    assert found.value == pytest.approx(top, rel=TOLERANCE[dtype])
    early = top_eigenvalue(hessian, len(dense), chance(), tolerance=0.01, dtype=dtype)
    assert early.error <= 0.01 * early.value
    assert early.value == pytest.approx(top, rel=0.02)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_hutchinsons_interval_holds_the_trace(dtype):
    dense = network(dtype)[2]
    exact = float(dense.double().trace())

    def product(vectors):
        return vectors @ dense

    held = 0
    for seed in range(40):
        found = trace(product, len(dense), chance(seed), probes=8, dtype=dtype)
        held += abs(found.mean - exact) <= found.half
    assert held >= 33  # 95 % of 40 are 38; fewer than 33 come once in a hundred
    many = trace(product, len(dense), chance(), probes=2000, dtype=dtype)
    assert many.mean == pytest.approx(exact, abs=2 * many.half)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=12), st.integers(0, 99))
def test_of_a_quadratic_everything_is_known(eigenvalues, seed):
    values = torch.tensor(eigenvalues, dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(2 * [len(values)], generator=chance(seed)).double()).Q
    matrix = turn @ values.diag() @ turn.T
    x = torch.randn(len(values), dtype=torch.float64, generator=chance(seed)).requires_grad_()
    hessian = Hessian(lambda: [(1.0, 0.5 * x @ matrix @ x)], [x])
    options = {"steps": len(values), "tolerance": 0.0, "dtype": torch.float64}
    found = top_eigenvalue(hessian, len(values), chance(seed), **options)
    assert found.value == pytest.approx(float(values.max()), abs=1e-6)
    diagonal = Hessian(lambda: [(1.0, 0.5 * (values * x * x).sum())], [x])
    exact = trace(diagonal, len(values), chance(seed), probes=3, dtype=torch.float64)
    assert exact.mean == pytest.approx(float(values.sum()), abs=1e-9)  # of a diagonal, each probe
    assert exact.half == pytest.approx(0, abs=1e-9)


def test_a_loss_without_curvature():
    x, unused = torch.ones(3, requires_grad=True), torch.ones(2, requires_grad=True)
    hessian = Hessian(lambda: [(1.0, 2 * x.sum())], [x, unused])
    assert top_eigenvalue(hessian, 5, chance()).value == 0
    assert trace(hessian, 5, chance(), probes=2) == Estimate(0.0, 0.0, 2)


shapes = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), min_size=1, max_size=4)


@settings(max_examples=50, deadline=None)
@given(shapes, st.integers(0, 99))
def test_every_filter_of_a_direction_is_as_long_as_that_of_the_weights(shapes, seed):
    weights = [torch.randn(shape, generator=chance(seed)) * 3 for shape in shapes]
    weights[0].flatten(0)[0] = 0
    for weight, along in zip(weights, direction(weights, chance(seed)), strict=True):
        assert along.shape == weight.shape
        if weight.ndim == 1:
            assert not along.any()
        else:
            torch.testing.assert_close(along.flatten(1).norm(dim=1), weight.flatten(1).norm(dim=1))
    # Runs with weights of other lengths get the same random numbers.
    longer = direction([2 * weight for weight in weights], chance(seed))
    for one, two in zip(direction(weights, chance(seed)), longer, strict=True):
        torch.testing.assert_close(2 * one, two)


def test_the_spread_is_that_of_directions():
    weights = [torch.randn(3, 2, 2, generator=chance()), torch.ones(4)]
    drawn = [direction(weights, chance(seed)) for seed in range(2000)]
    flat = torch.stack([torch.cat([part.flatten() for part in along]) for along in drawn])
    torch.testing.assert_close(flat.pow(2).mean(0).sqrt(), spread(weights), rtol=0.08, atol=1e-6)
    # So the mean curvature along directions is the trace of SHS.
    matrix = torch.randn(16, 16, generator=chance(1))
    matrix = matrix + matrix.T + 20 * torch.eye(16)
    mean = torch.einsum("ni,ij,nj->n", flat, matrix, flat).mean()
    exact = (spread(weights).pow(2) * matrix.diag()).sum()
    assert float(mean) == pytest.approx(float(exact), rel=0.05)


def test_the_surface_of_a_bowl():
    weight = torch.tensor([[3.0, 4.0]])
    centre = weight.clone()
    around = Surroundings([weight], lambda: float((weight - centre).pow(2).sum()) + 1)
    pair = ([torch.tensor([[5.0, 0.0]])], [torch.tensor([[0.0, 5.0]])])
    axis = [-1.0, -0.5, 0.0, 0.5, 1.0]
    expected = [[1 + 25 * (x * x + y * y) for x in axis] for y in axis]
    assert around.grid(pair, axis) == pytest.approx(np.array(expected))
    assert around.rises(pair, [0.5, 1.0]) == pytest.approx([6.25, 25.0])
    assert torch.equal(weight, centre)

    tilted = Surroundings([weight], lambda: float(weight[0, 0]))
    assert tilted.grid(pair, axis)[0] == pytest.approx([3 + 5 * x for x in axis])
    failing = Surroundings([weight], lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        failing.at((1.0, pair[0]))
    assert torch.equal(weight, centre)


def test_differences_are_paired_where_seeds_are_shared():
    gap, how = difference({1: 1.0, 2: 2.0, 3: 3.5}, {1: 2.0, 2: 3.0, 3: 4.0, 9: 100.0})
    assert how == "paired by seed"
    assert gap == Estimate.of([-1.0, -1.0, -0.5])
    gap, how = difference({1: 1.0, 2: 2.0, 3: 4.0}, {4: 2.0, 5: 3.5, 6: 3.6})
    assert how == "not paired"
    # By hand: variances 2.3333 and 0.8033 over 3 each, 3.24 degrees of freedom, t 3.054.
    assert gap.mean == pytest.approx(-0.7)
    assert gap.half == pytest.approx(3.122, rel=2e-3)
    assert difference({1: 1.0}, {1: 3.0}) == (Estimate(-2.0, None, 1), "paired by seed")
    assert difference({1: 1.0}, {2: 3.0, 3: 5.0}) == (Estimate(-3.0, None, 1), "not paired")
    assert verdict(Estimate(-2.0, 1.0, 3)) == "flatter"
    assert verdict(Estimate(2.0, 1.0, 3)) == "sharper"
    assert verdict(Estimate(2.0, 3.0, 3)) == "no difference detected"
    assert verdict(Estimate(2.0, None, 1)) == "one pair of runs"
    assert verdict(Estimate(math.inf, 3.0, 3)) == "not finite"


def fake(optimizer, seed, loss, value, **settings):
    return {
        "id": f"{optimizer}{seed}{len(settings)}",
        "spec": {
            "optimizer": optimizer,
            "seed": seed,
            "settings": {"lr": 1e-3, **settings},
            "precision": "32-true",
        },
        "loss": loss,
        "measures": {name: {"value": value, "error": 0.1} for name in MEASURES},
    }


def test_sentences_of_a_comparison():
    runs = [fake("adam", s, 0.9 + s / 100, 5 + s) for s in (1, 2, 3)]
    runs += [fake("adamomentum", s, 0.5 - s / 100, 1 + s / 2) for s in (1, 2, 3)]
    groups = group_runs(runs)
    assert [group["label"] for group in groups] == ["adamomentum", "adam"]
    assert groups[1]["measures"]["trace"]["mean"] == 7
    (words,) = sentences(compare_groups(groups, runs))
    assert words.startswith("adamomentum is flatter than adam in all 4 measures. But the loss of")
    (words,) = sentences(compare_groups(group_runs(runs[2:4]), runs))
    assert "says nothing beyond these runs" in words
    alike = [fake("adam", s, 1, s) for s in (1, 2)]
    alike += [fake("adamomentum", s, 1, 3 - s) for s in (1, 2)]
    (words,) = sentences(compare_groups(group_runs(alike), alike))
    assert words == "adamomentum and adam: no difference detected in any of 4 measures."
    several = [fake("adam", 1, 0.5, 5), fake("adam", 1, 0.5, 5, eps=0.1)]
    labels = [group["label"] for group in group_runs(several)]
    assert len(set(labels)) == 2
    assert all(label.startswith("adam (lr 0.001") for label in labels)
    assert compare_groups(group_runs(runs[:3]), runs) == []


def test_surfaces_are_cropped_and_the_page_says_so():
    def run(*losses):
        return {"loss": losses[1], "surface": {"loss": [list(losses)]}}

    assert ceiling([run(1.0, 0.5, 2.0), run(1.5, 0.2, 1.0)]) == (2.0, False)
    assert ceiling([run(1.0, 0.5, 9.0)]) == (3.5, True)
    assert ceiling([run(1.0, 0.5, math.nan)]) == (3.5, True)


def cli(*args):
    return CliRunner().invoke(app, ["landscape", *map(str, args)], env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Runs of the plain problem by two optimizers and two seeds, by the command itself."""
    folder = tmp_path_factory.mktemp("trained")
    file = write_problem(folder)
    for optimizer in ("adam", "adamomentum"):
        for seed in (1, 2):
            args = ["train", file, "--optimizer", optimizer, "--seed", seed]
            done = CliRunner().invoke(app, [*map(str, args), "--runs", str(folder / "runs")])
            assert done.exit_code == 0, done.output
    return folder


def ids(folder):
    return [one.run.spec.id for one in list_runs(folder / "runs")]


def test_the_centre_is_the_training_loss_in_eval_mode(trained):
    workload = find_workload(str(trained / "plain.py")).load()("mini", "fair")
    x, y = workload.data().train
    problem = Problem(workload, 10**6)
    (found,) = find_runs(ids(trained)[:1], trained / "runs")
    end = solution(found, problem)
    assert (end.epochs, end.averaged, problem.examples) == (4, 1, 100)
    with torch.no_grad():
        loss = float(nn.functional.cross_entropy(end.model(x), y))
    around = Surroundings(end.weights, lambda: problem.loss(end.model))
    pair = tuple(direction(around.centre, chance(i)) for i in range(2))
    assert around.grid(pair, [-1, 0, 1])[1][1] == pytest.approx(loss, rel=1e-6)
    assert not end.model.training
    assert Problem(workload, 30).examples == 30


def test_the_mean_of_the_last_weights_where_a_workload_averages(tmp_path):
    file = tmp_path / "averaging.py"
    file.write_text(HEAD + "\n    averaged = 3\n")
    args = ["train", file, "--optimizer", "adam", "--runs", tmp_path / "runs"]
    assert CliRunner().invoke(app, list(map(str, args))).exit_code == 0
    (found,) = list_runs(tmp_path / "runs")
    problem = Problem(find_workload(str(file)).load()("mini", "fair"), 50)
    end = solution(found, problem)
    assert end.averaged == 3
    with torch.no_grad():
        scores = problem.workload.evaluate(end.model, problem.workload.data().validation)
    assert scores["loss"] == pytest.approx(found.run.epochs[-1]["validation"]["loss"], rel=1e-6)


def test_two_optimizers_over_two_seeds(trained, tmp_path):
    args = [*ids(trained), "--runs", trained / "runs", *QUICK, "--workload", trained / "plain.py"]
    done = cli(*args, "--out", tmp_path / "a", "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert json.loads((tmp_path / "a" / "landscape.json").read_text()) == result
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        "landscape.html",
        "landscape.json",
        "landscape.png",
    ]
    assert (tmp_path / "a" / "landscape.png").read_bytes()[:4] == b"\x89PNG"
    assert result["spec"]["mode"] == "eval"
    assert [group["label"] for group in result["groups"]] == ["adamomentum", "adam"]
    for run in result["runs"]:
        assert run["surface"]["loss"][1][1] == run["loss"]
        assert len(run["rises"]["by_pair"]) == 2
        assert run["measures"]["rise"]["value"] == pytest.approx(
            statistics.fmean(pair[1] for pair in run["rises"]["by_pair"])
        )
        assert run["parameters"] == 66

    # Every number of the tables is on the page.
    text = (tmp_path / "a" / "landscape.html").read_text()
    for run in result["runs"]:
        assert plus_minus(run["loss"]) in text
        for one in run["measures"].values():
            assert plus_minus(one["value"], one["error"]) in text
    for group in result["groups"]:
        for one in (group["loss"], *group["measures"].values()):
            assert plus_minus(one["mean"], one["half"]) in text
    for one in result["comparisons"]:
        gap = one["difference"]
        assert plus_minus(gap["mean"], gap["half"], True) in text
        assert one["verdict"] in text
    assert all(f"{note}." in text.replace("&#39;", "'") for note in result["notes"])
    assert "http" not in text

    # The same again, in words; and prefixes, folders and repetitions name the same runs.
    first, *rest = ids(trained)
    args = [trained / "runs" / first, first, *(name[:12] for name in rest), *args[4:]]
    again = cli(*args, "--out", tmp_path / "b")
    assert again.exit_code == 0, again.output
    assert result["verdicts"][0] in again.stdout
    twin = json.loads((tmp_path / "b" / "landscape.json").read_text())
    assert without_machine(twin) == without_machine(result)
    other = cli(*args, "--out", tmp_path / "c", "--seed", "5", "--json")
    assert json.loads(other.stdout)["runs"][0]["rises"] != result["runs"][0]["rises"]


def test_what_is_from_a_users_file_is_escaped():
    spec = dict.fromkeys(("scale", "protocol"), "x") | {"workload": "<script>"}
    empty = {"claim": "", "measures": {}, "groups": [], "comparisons": [], "verdicts": []}
    text = page({"spec": spec, "runs": [], "notes": ["<b>"], **empty}, b"")
    assert "<script>" not in text
    assert "<b>" not in text


def test_without_runs_it_lists_them(trained):
    done = cli("--runs", trained / "runs")
    assert done.exit_code == 0
    assert all(name in done.stdout for name in ids(trained))
    listing = json.loads(cli("--runs", trained / "runs", "--json").stdout)["runs"]
    assert [run["id"] for run in listing] == ids(trained)
    assert all(run["checkpoint"] and run["status"] == "done" for run in listing)


def fails(*args, status=1):
    done = cli(*args)
    assert done.exit_code == status or isinstance(done.exception, LabError), done.output
    return str(done.exception) if isinstance(done.exception, LabError) else done.output


def test_runs_that_are_not_there(trained, tmp_path):
    one = ids(trained)[0]
    wrong = one[:-1] + ("0" if one[-1] != "0" else "1")
    words = " ".join(fails(wrong, "--runs", trained / "runs", status=2).replace("│", "").split())
    assert f"did you mean '{one}'?" in words
    assert "lists the runs" in words
    assert "there are no results in" in fails("--runs", tmp_path)
    assert "there are no results in" in fails("abc", "--runs", tmp_path, status=2)
    assert not list(tmp_path.iterdir())
    assert "is even" in fails(one, "--grid", "4", "--runs", trained / "runs", status=2)
    assert "--radius" in fails(one, "--radius", "0", "--runs", trained / "runs", status=2)
    assert "--workload" in fails(one, "--runs", trained / "runs", status=2)


def test_runs_that_cannot_be_compared(trained, tmp_path):
    runs = tmp_path / "runs"
    shutil.copytree(trained / "runs", runs)
    file = write_problem(tmp_path)
    options = ["--runs", runs, "--workload", file, *QUICK, "--out", tmp_path / "out"]
    train = ["train", file, "--optimizer", "adam", "--runs", runs]
    mini = ids(tmp_path)

    def new(*more):
        known = set(ids(tmp_path))
        done = CliRunner().invoke(app, list(map(str, [*train, *more])))
        assert done.exit_code == 0, done.output
        return next(iter(set(ids(tmp_path)) - known))

    smoke = new("--scale", "smoke")
    assert "have a different scale (mini, smoke)" in fails(mini[0], smoke, *options)
    paper = new("--protocol", "paper")
    assert "have a different protocol (fair, paper)" in fails(mini[0], paper, *options)
    short = new("--seed", "7", "--epochs", "2")
    assert f"the run {short} has 2 epochs" in fails(mini[0], short, *options)
    alone = json.loads(cli(short, *options, "--json").stdout)
    assert "THE RUNS ARE NOT FINISHED" in alone["notes"]
    assert alone["verdicts"] == []

    (runs / mini[1] / "last.ckpt").write_bytes(b"rubbish")
    assert f"the checkpoint of the run {mini[1]}" in fails(*mini[:2], *options)
    shutil.rmtree(runs / mini[2])
    assert "has no checkpoint" in fails(mini[2], *options)
    changed = tmp_path / "changed" / "plain.py"
    changed.parent.mkdir()
    changed.write_text(file.read_text() + "\n    # another version\n")
    options[options.index(file)] = changed
    notes = json.loads(cli(mini[0], *options, "--json").stdout)["notes"]
    assert any(note.startswith("THE WORKLOAD HAS CHANGED") for note in notes)
    wider = file.read_text().replace("nn.Linear(5, 8)", "nn.Linear(5, 9)")
    other = tmp_path / "wider" / "plain.py"
    other.parent.mkdir()
    other.write_text(wider.replace("nn.Linear(8, 2)", "nn.Linear(9, 2)"))
    options[options.index(changed)] = other
    assert "do not fit the present network" in fails(mini[0], *options)


def test_a_loss_that_is_random_is_refused_and_state_is_not_carried(tmp_path):
    noisy = tmp_path / "noisy.py"
    text = "\n    def loss(self, model, batch):\n        return super().loss(model, batch)"
    noisy.write_text(HEAD + f"{text} + torch.rand(())\n")
    problem = Problem(find_workload(str(noisy)).load()(), 50)
    with pytest.raises(LabError, match="is random although"):
        problem.check(problem.workload.model().eval())
    broken = problem.workload.model().eval()
    for param in broken.parameters():
        param.data.fill_(float("nan"))
    with pytest.raises(LabError, match="is nan at the solution"):
        problem.check(broken)

    carrying = tmp_path / "carrying.py"
    carrying.write_text(
        HEAD
        + text.replace("return", "before = self.state or 0; self.state = before + 1; return")
        + " * (1 + before)\n"
    )
    problem = Problem(find_workload(str(carrying)).load()(), 50)
    model = problem.workload.model().eval()
    problem.check(model)
    plain = Problem(find_workload(str(write_problem(tmp_path))).load()(), 50)
    assert problem.loss(model) == plain.loss(model)
    assert problem.carries
    assert not plain.carries


@pytest.mark.slow
def test_in_a_process_of_its_own(tmp_path):
    runs = ["--runs", tmp_path / "runs"]
    for optimizer in ("adam", "adamomentum"):
        args = ["train", "digits_cnn", "--scale", "smoke", "--optimizer", optimizer]
        assert run_here(*args, *runs).returncode == 0
    names = ids(tmp_path)
    done = run_process("landscape", *names, *runs, *QUICK, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "[2/2] adamomentum, seed 1: loss" in done.stderr
    assert "says nothing beyond these runs" in done.stdout
    wrong = run_here("landscape", "nothing", *runs)
    assert wrong.returncode == 2
    (tmp_path / "file").write_text("")
    blocked = run_here("landscape", *names, *runs, *QUICK, "--out", tmp_path / "file")
    assert blocked.returncode == 1
    assert blocked.stderr.startswith("adamomentum: cannot write to ")  # before it measures
    assert "Traceback" not in blocked.stderr
