"""The theory's pages: what they rest on checked against known cases, and that verdicts follow."""

import html
import json
import math
import re
from dataclasses import replace

import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn import functional
from typer.testing import CliRunner

from adamomentum_lab import contenders, theory
from adamomentum_lab.cli import app
from adamomentum_lab.report.html import shown
from adamomentum_paper.theory import (
    Finding,
    _pages,
    assumption,
    curvature,
    epsilon,
    escape,
    noise_ratio,
    sphere,
)
from adamomentum_paper.theory._levy import Exits, exponent, stable, tail
from adamomentum_paper.theory._network import Network
from adamomentum_paper.theory._pair import Pair


def quiet(part):
    assert 0 <= part <= 1


def test_the_eight_claims_are_there():
    assert set(theory.names()) == {
        "curvature", "epsilon", "escape", "assumption", "regret", "nonconvex", "sphere",
        "noise_ratio",
    }  # fmt: skip


@pytest.mark.parametrize("name", theory.names())
def test_a_page_is_made_and_its_verdict_follows_from_its_numbers(name, tmp_path):
    claim = theory.get(name)
    _, fresh = _pages.make(claim, "smoke", tmp_path, quiet)
    assert fresh
    written = json.loads((tmp_path / f"{name}.json").read_text())
    findings = claim.judge(written["numbers"])
    assert [Finding(**found) for found in written["findings"]] == findings
    assert written["verdict"] == theory.verdict(findings)
    assert all(finding.statement.endswith(".") for finding in findings)

    page = (tmp_path / f"{name}.html").read_text()
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    for finding in findings:
        assert html.escape(finding.found, quote=True).replace("&#x27;", "&#39;") in page
    # Every cell of the page's tables is a value of the file.
    cells = re.findall(r"<td class=\"number\">([^<\n]*)", page)
    values = [v for table in written["tables"] for row in table["rows"] for v in row]
    numbers = [v for v in values if isinstance(v, int | float)]
    assert cells == [shown(value) for value in numbers]
    assert len(cells) > 5

    # Again: drawn from the file, not computed.
    lazy = replace(claim, compute=lambda *_: pytest.fail("computed twice"))
    again, fresh = _pages.make(lazy, "smoke", tmp_path, quiet)
    assert not fresh
    assert again == written


def test_the_same_numbers_every_time():
    first, second = (sphere.compute("smoke", quiet) for _ in range(2))
    assert first == second
    first, second = (escape._equation(20, 5.0, torch.Generator().manual_seed(1), quiet)
                     for _ in range(2))  # fmt: skip
    assert first == second


def test_another_size_and_a_damaged_file_are_computed_anew(tmp_path, monkeypatch):
    claim = theory.get("sphere")
    _pages.make(claim, "smoke", tmp_path, quiet)
    (tmp_path / "sphere.json").write_text("{ not JSON")
    _, fresh = _pages.make(claim, "smoke", tmp_path, quiet)
    assert fresh
    monkeypatch.setitem(sphere._SIZES, "default", (10, 50))
    _, fresh = _pages.make(claim, "default", tmp_path, quiet)
    assert fresh


def test_verdict_of_a_page():
    def of(*words):
        return theory.verdict([Finding("", word, "") for word in words])

    assert of("holds", "holds") == "holds"
    assert of("does not hold") == "does not hold"
    assert of("holds", "does not hold") == "holds only when"
    assert of("holds", "holds only when") == "holds only when"
    found = [Finding("", word, "") for word in ("holds", "does not hold", "holds")]
    assert theory.summary(found) == "of 3 statements 2 hold, 1 do not"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "none"), (3, "3"), (12345, "12,345"), (0.5, "0.500"), (1e-7, "1.00e-07"), (True, "yes"),
     (123.456, "123.5"), (0.0, "0.000"), (2e6, "2.00e+06"), ("x", "x")],
)  # fmt: skip
def test_numbers_as_people_read_them(value, text):
    assert shown(value) == text


# The command


def test_theory_command(tmp_path, monkeypatch):
    monkeypatch.setitem(sphere._SIZES, "default", (40, 300))
    result = CliRunner().invoke(app, ["theory", "sphere", "--out", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)["sphere"]
    assert report["verdict"] in ("holds", "holds only when", "does not hold")
    assert "sphere.html" in (tmp_path / "index.html").read_text()
    result = CliRunner().invoke(app, ["theory"])
    assert all(name in result.output for name in theory.names())


def test_theory_command_and_mistakes(tmp_path):
    result = CliRunner().invoke(app, ["theory", "escpe"])
    assert result.exit_code == 2
    assert "did you mean 'escape'?" in result.output.replace("\n", " ")
    file = tmp_path / "file"
    file.write_text("")
    result = CliRunner().invoke(app, ["theory", "sphere", "--out", str(file)])
    assert "cannot write" in str(result.exception)


def test_theory_stops_and_keeps_what_is_done(tmp_path, monkeypatch):
    monkeypatch.setitem(sphere._SIZES, "default", (40, 300))
    monkeypatch.setattr(theory, "names", lambda: ["sphere", "epsilon"])

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(epsilon, "rest", interrupted)
    monkeypatch.setattr(epsilon, "accumulated", lambda *_: 0.0)
    monkeypatch.setattr(epsilon, "effective_step", lambda *_: torch.zeros(1))
    result = CliRunner().invoke(app, ["theory", "all", "--out", str(tmp_path)])
    assert type(result.exception).__name__ == "StoppedError"
    assert (tmp_path / "sphere.html").exists()
    assert not (tmp_path / "epsilon.json").exists()


# Noise and exits


def test_stable_numbers_are_normal_at_2_and_cauchy_at_1():
    random = torch.Generator().manual_seed(0)
    many = 20_000
    normal = stable(torch.full((many,), 2.0, dtype=torch.float64), random)
    assert stats.kstest(normal, stats.norm(scale=math.sqrt(2)).cdf).pvalue > 0.01
    cauchy = stable(torch.full((many,), 1.0, dtype=torch.float64), random)
    assert stats.kstest(cauchy, stats.cauchy.cdf).pvalue > 0.01


@pytest.mark.parametrize("alpha", [0.7, 1.3, 1.8])
def test_stable_numbers_have_their_characteristic_function_and_tails(alpha):
    random = torch.Generator().manual_seed(1)
    x = stable(torch.full((400_000,), alpha, dtype=torch.float64), random)
    for t in (0.3, 1.0, 2.0):
        expected = math.exp(-(t**alpha))
        assert abs(float(torch.cos(t * x).mean()) - expected) < 4 / math.sqrt(2 * len(x))
        assert abs(float(torch.sin(t * x).mean())) < 4 / math.sqrt(2 * len(x))
    far = 50.0
    rate = float((x.abs() > far).double().mean()) * far**alpha
    error = tail(alpha) * 4 / math.sqrt(len(x) * tail(alpha) * far**-alpha)
    assert abs(rate - tail(alpha)) < error + 0.1 * tail(alpha)  # and the next term of the series


def test_tail_of_cauchy():
    assert tail(1.0) == pytest.approx(2 / math.pi)


def test_brownian_exit_time():
    """Of noise with variance 2t the mean exit time from (-a, a) is a^2/2."""
    random = torch.Generator().manual_seed(2)
    step, a = 0.002, 1.0
    alpha = torch.full((4_000,), 2.0, dtype=torch.float64)
    x, exits = torch.zeros_like(alpha), Exits(alpha.shape)
    for _ in range(4_000):
        x += step**0.5 * stable(alpha, random)
        exits.pass_time(step, x.abs() < a)
    assert not exits.inside.any()
    # Looked at in steps, the border is 0.5826 deviations of a step further out.
    further = a + 0.5826 * math.sqrt(2 * step)
    spread = float(exits.time.std()) / math.sqrt(len(alpha))
    assert abs(exits.mean()[0]["mean"] - further**2 / 2) < 3 * spread


def test_exits_by_hand():
    exits = Exits(torch.Size([3]))
    exits.pass_time(2.0, torch.tensor([True, False, True]))
    exits.pass_time(2.0, torch.tensor([False, True, True]))
    assert exits.time.tolist() == [4.0, 2.0, 4.0]
    (found,) = exits.mean()
    assert found["mean"] == 5.0  # ten units of time, two exits
    assert found["exits"] == 2
    never = Exits(torch.Size([3]))
    never.pass_time(1.0, torch.ones(3, dtype=torch.bool))
    (found,) = never.mean()
    assert found["mean"] is None
    assert found["high"] is None
    assert found["low"] == pytest.approx(3 / -math.log(0.025))  # no exit in three units


def test_intervals_of_exit_times_cover_as_they_say():
    random = torch.Generator().manual_seed(3)
    times = -5 * torch.rand(2_000, 30, generator=random, dtype=torch.float64).log()
    exits = Exits(times.shape)
    exits.time, exits.inside = times.clamp(max=6.0), times > 6
    covered = sum(found["low"] <= 5 <= found["high"] for found in exits.mean()) / 2_000
    assert abs(covered - 0.95) < 0.02


def test_exponent_of_a_power_law():
    x = [1.0, 2.0, 4.0]
    times = [{"mean": 3 * a**-1.5, "exits": 100} for a in x]
    slope, half = exponent(x, times)
    assert slope == pytest.approx(-1.5)
    assert half == pytest.approx(1.96 / math.sqrt(100 * 2 * math.log(2) ** 2))
    assert exponent([*x, 8.0], [*times, {"mean": None, "exits": 0}])[0] == pytest.approx(-1.5)


def test_whoever_stays_longer():
    def case(a, b):
        return {"adamomentum": dict(zip(("low", "high"), a, strict=True)),
                "adam": dict(zip(("low", "high"), b, strict=True))}  # fmt: skip

    assert escape.longer(case((3, 4), (1, 2))) is True
    assert escape.longer(case((1, 2), (3, 4))) is False
    assert escape.longer(case((1, 3), (2, 4))) is None
    assert escape.longer(case((3, None), (1, 2))) is True
    assert escape.longer(case((1, 2), (3, None))) is False
    assert escape.longer(case((1, None), (2, None))) is None


# What the pages compute


@pytest.mark.parametrize("name", ["adam", "adamomentum"])
def test_descent_of_the_sphere_is_the_optimizer_s(name):
    start, lr = torch.tensor([[3.0, -1.0]], dtype=torch.float64), 0.25
    run = sphere.Descent(name, start, torch.tensor([[lr]], dtype=torch.float64))
    x = nn.Parameter(start.clone())
    optimizer = contenders.get(name).build([x], lr=lr, eps=0.0)
    beyond = torch.zeros(2, dtype=torch.float64)
    for _ in range(60):
        run.step()
        x.grad = 2 * x.detach()
        optimizer.step()
        torch.testing.assert_close(run.x, x.detach(), rtol=1e-9, atol=1e-12)
        beyond = torch.maximum(beyond, -x.detach()[0] * start[0].sign())
    assert run.overshoot.item() == pytest.approx(float(beyond.norm() / start.norm()))


def test_settling_by_hand(monkeypatch):
    run = sphere.Descent("adam", torch.ones(1, 2).double(), torch.ones(1, 1).double())
    places = iter([0.5, *[0.001] * 60, 0.5])
    monkeypatch.setattr(
        run._optimizer, "step", lambda: run._scaled.data.fill_(next(places)), raising=True
    )
    for _ in range(1 + sphere.STAY):
        assert run.settled.isinf().all()
        run.step()
    assert run.settled.tolist() == [2.0]  # the second step was the first within
    assert not run.left.any()
    for _ in range(11):
        run.step()
    assert run.left.all()
    assert run.settled.tolist() == [2.0]


@pytest.mark.parametrize("beta1", [0.0, 0.5, 0.9])
def test_noise_ratio_between_its_ends(beta1):
    assert noise_ratio.predicted(0.0, beta1) == pytest.approx(math.sqrt((1 + beta1) / (1 - beta1)))
    assert noise_ratio.predicted(1e6, beta1) == pytest.approx(1.0)


def test_pair_divides_the_same_momentum():
    x = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    pair = Pair(x, 0.1, (0.9, 0.99))
    random = torch.Generator().manual_seed(0)
    for _ in range(20):
        pair.step(torch.randn(3, generator=random, dtype=torch.float64))
    theirs, ours = pair.squares()
    before = x.detach().clone(), pair._shadow.detach().clone()
    pair.step(torch.randn(3, generator=random, dtype=torch.float64))
    steps = [now.detach() - then for now, then in zip((x, pair._shadow), before, strict=True)]
    theirs, ours = pair.squares()
    torch.testing.assert_close(steps[1] / steps[0], (theirs / ours).sqrt())


def test_ratio_over_replicas_by_hand():
    factor, half = noise_ratio.over_replicas(
        torch.tensor([[2.0, 6.0]]).double(), torch.tensor([[1.0, 1.0]]).double()
    )
    assert factor == [2.0]
    # theirs/mean is 0.5 and 1.5, deviation sqrt(0.5); relative error of a root: half of it.
    assert half[0] == pytest.approx(1.96 * 2 * math.sqrt(0.5) / (2 * math.sqrt(2)))


def test_effective_step_with_eps_in_both_places():
    g = torch.tensor([1e-18, 1.0], dtype=torch.float64)
    inside = epsilon.effective_step("adamomentum", 1e-8, g, 3_000)
    assert inside[0].item() == pytest.approx(math.sqrt(1e-3) * epsilon.LR / 1e-4, rel=1e-3)
    outside = epsilon.effective_step("adamomentum-outer-eps", 1e-8, g, 3_000)
    assert outside[0].item() == pytest.approx(epsilon.LR / 1e-8, rel=1e-3)
    # Far from the floor both are lr over the root of v, whose start is remembered for 1,000 steps.
    assert inside[1].item() == pytest.approx(outside[1].item(), rel=1e-4)


def test_height_of_the_curve_has_its_slope():
    xs = [k / 1000 for k in range(4001)]
    f = torch.tensor(curvature.height(xs, 0.05))
    assert f.min() == 0
    assert f.argmin().item() == pytest.approx(1000 * curvature.MINIMUM, abs=2)
    numeric = (f[2:] - f[:-2]) / 0.002
    exact = curvature.slope(torch.tensor(xs[1:-1]).double(), torch.tensor(0.05))
    torch.testing.assert_close(numeric.double(), exact, atol=2e-3, rtol=0)


def test_network_of_figure_2():
    net = Network(0)
    # 64-30-30-30-30-10
    assert net.weights.numel() == 64 * 30 + 30 + 3 * (30 * 30 + 30) + 30 * 10 + 10
    loss, gradient = net.gradient()
    assert loss == pytest.approx(math.log(10), abs=0.1)
    # The whole gradient is the mean of the parts'.
    rows = torch.arange(len(net.labels))
    thirds = [net.gradient(part)[1] for part in rows.split(299)]
    torch.testing.assert_close(torch.stack(thirds).mean(0), gradient, atol=1e-6, rtol=1e-4)
    # And it is the loss's.
    with torch.no_grad():
        net.weights -= 1e-2 * gradient
    assert net.gradient()[0] == pytest.approx(loss - 1e-2 * float(gradient @ gradient), rel=1e-4)
    assert functional.one_hot(net.labels).sum(0).min() > 80  # all classes


def test_pure_noise_misses_assumption_5_by_23():
    assert pytest.approx(0.9 / 1.1 * 0.1 / 1.9) == assumption.PURE_NOISE
    assert round(1 / assumption.PURE_NOISE) == 23


def test_pages_of_another_version_are_left_out_of_the_index(tmp_path):
    (tmp_path / "sphere.json").write_text('{"verdict": "holds", "identity": "older"}')
    assert "sphere.html" not in _pages.write_index(tmp_path).read_text()
