"""The theory's pages, each computed once: what they show, and that verdicts follow from numbers."""

import html
import json
import re
import shutil
from dataclasses import asdict, replace

import pytest
import torch
from matplotlib.figure import Figure
from typer.testing import CliRunner

from adamomentum_lab.cli import app
from adamomentum_lab.files import dumps
from adamomentum_lab.report.html import format_value
from adamomentum_paper import theory
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


def quiet(part):
    assert 0 <= part <= 1


@pytest.fixture(scope="module")
def page_of(tmp_path_factory):
    """The folder of a page at the smallest size. All tests that need one are in this file: pytest
    keeps a module in one process, so each claim is computed once."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name)
            _, fresh = _pages.make(theory.get(name), "smoke", made[name], quiet)
            assert fresh
        return made[name]

    return get


@pytest.fixture(scope="module")
def numbers_of(page_of):
    """The numbers of a page, to be spoilt."""

    def get(name):
        return json.loads((page_of(name) / f"{name}.json").read_text())["numbers"]

    return get


def test_the_eight_claims_are_there():
    assert set(theory.names()) >= {
        "curvature", "epsilon", "escape", "assumption", "regret", "nonconvex", "sphere",
        "noise_ratio",
    }  # fmt: skip


QUICK = "sphere"
"""The page that `make check` computes too."""


def slow_but_one(names):
    return [name if name == QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", slow_but_one(theory.names()))
def test_a_page_is_made_and_its_verdict_follows_from_its_numbers(name, page_of):
    claim, folder = theory.get(name), page_of(name)
    written = json.loads((folder / f"{name}.json").read_text())
    findings = claim.judge(written["numbers"])
    assert [Finding(**found) for found in written["findings"]] == findings
    assert written["verdict"] == theory.verdict(findings)
    assert all(finding.statement.endswith(".") for finding in findings), "statements end in a stop"

    page = (folder / f"{name}.html").read_text()
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    for finding in findings:
        assert html.escape(finding.found, quote=True).replace("&#x27;", "&#39;") in page
    # Every cell of the page's tables is a value of the file.
    cells = re.findall(r"<td class=\"number\">([^<\n]*)", page)
    values = [v for table in written["tables"] for row in table["rows"] for v in row]
    numbers = [v for v in values if isinstance(v, int | float)]
    assert cells == [format_value(value) for value in numbers]
    assert cells, "a page has a table with a number"

    # Again: drawn from the file, not computed.
    lazy = replace(claim, compute=lambda *_: pytest.fail("computed twice"))
    again, fresh = _pages.make(lazy, "smoke", folder, quiet)
    assert not fresh
    assert again == written


def compute(name):
    """The numbers of a page as its file holds them."""
    return json.loads(dumps(theory.get(name).compute("smoke", quiet)))


@pytest.mark.parametrize("name", slow_but_one(["sphere", "regret", "nonconvex"]))
def test_the_same_numbers_every_time(name, numbers_of):
    assert compute(name) == numbers_of(name)


def test_the_same_exits_every_time():
    first, second = (escape._equation(20, 5.0, torch.Generator().manual_seed(1), quiet)
                     for _ in range(2))  # fmt: skip
    assert first == second


def test_another_size_and_a_damaged_file_are_computed_anew(page_of, tmp_path, monkeypatch):
    claim = theory.get("sphere")
    shutil.copytree(page_of("sphere"), tmp_path, dirs_exist_ok=True)
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
    assert format_value(value) == text


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


def test_pages_of_another_version_are_left_out_of_the_index(tmp_path):
    (tmp_path / "sphere.json").write_text('{"verdict": "holds", "identity": "older"}')
    assert "sphere.html" not in _pages.write_index(tmp_path).read_text()


# Verdicts turn with made-up numbers


def words(module, numbers):
    return [finding.word for finding in module.judge(numbers)]


def test_rules_of_sphere(numbers_of):
    numbers = numbers_of("sphere")
    many = numbers["starts"]
    for name in ("adamomentum", "adam", sphere.CONTROL):
        numbers[name]["best_steps"] = [50.0 if name == "adam" else 10.0] * many
        for lr in ("0.1", "0.5", "1.0"):
            numbers[name]["steps_at"][lr] = [50.0 if name == "adam" else 10.0] * many
            numbers[name]["overshoot_at"][lr] = [5.0 if name == "adam" else 1.0] * many
    assert words(sphere, numbers) == ["holds"] * 4
    numbers[sphere.CONTROL]["best_steps"] = [60.0] * many  # all of it was the first step
    assert words(sphere, numbers)[3] == "does not hold"
    numbers["adam"]["steps_at"]["0.1"] = [5.0] * many
    numbers["adam"]["overshoot_at"] = {lr: [0.5] * many for lr in ("0.1", "0.5", "1.0")}
    assert words(sphere, numbers)[:3] == ["does not hold"] * 3
    numbers["adam"]["steps_at"]["0.1"][: many // 2] = [None] * (many // 2)  # never
    assert words(sphere, numbers)[0] == "holds only when"


@pytest.mark.slow
def test_rules_of_curvature(numbers_of):
    numbers = numbers_of("curvature")
    for case in numbers["same_path"]:
        case |= {"ratio": [1.5, 1.0, 0.5], "adam_growth": 2.0}
    for case in numbers["own_path"]:
        theirs = case["optimizer"] == "adam"
        case |= {"overshoot": 0.2 if theirs else 0.1, "settled": 20.0 if theirs else 10.0}
    assert words(curvature, numbers) == ["holds"] * 5
    ours, theirs, _ = curvature._own_paths(numbers)
    ours[0]["overshoot"] = theirs[0]["overshoot"] = 0.0
    said = curvature.judge(numbers)[4].found
    assert f"less in {len(ours) - 1} and more in 0 of the {len(ours) - 1} cases" in said
    for case in numbers["own_path"]:
        if case["optimizer"] == curvature.CONTROL:
            case["settled"] = 30.0
    assert words(curvature, numbers)[4] == "holds only when"
    for case in numbers["same_path"]:
        case |= {"ratio": [1.0, 2.0, 1.0], "adam_growth": 1.0}
    for case in numbers["own_path"]:
        case |= {"overshoot": 0.1, "settled": 10.0}
    assert words(curvature, numbers) == ["does not hold"] * 5


@pytest.mark.slow
def test_rules_of_epsilon(numbers_of):
    numbers = numbers_of("epsilon")
    for case in numbers["near"]:
        case["inside"] = [case["inside_limit"]] * len(case["inside"])
        case["outside"] = [case["outside_limit"]] * len(case["inside"])
        case["same_floor"] = [3 * case["inside_limit"]] * len(case["inside"])
    for case in numbers["rest"]:
        case |= {"inside": 0.0, "outside": 0.1, "same_floor": 0.1}
    assert words(epsilon, numbers) == ["holds"] * 4
    for case in numbers["near"]:
        case["same_floor"] = case["inside"]
    for case in numbers["rest"]:
        case["same_floor"] = 0.0
    assert words(epsilon, numbers)[2:] == ["holds only when"] * 2
    numbers["identity"][0]["worst"] = 1e-3
    for case in numbers["near"]:
        case["inside"] = case["outside"]
    for case in numbers["rest"]:
        case["inside"] = 0.1
    assert words(epsilon, numbers) == ["does not hold"] * 4


@pytest.mark.slow
def test_rules_of_escape(numbers_of):
    numbers = numbers_of("escape")
    for s in numbers["scaling"]:
        s |= {"upsilon_exponent": [1.0, 0.1], "width_exponent": [s["alpha"], 0.1]}
    long, short = ({"mean": m, "low": m - 1, "high": m + 1, "exits": 9} for m in (100, 10))
    for case in numbers["algorithm"]:
        first, second = (short, long) if case["basin"] == "sharp" else (long, short)
        case |= {"adamomentum": first, "translated": first, "adam": second, "assumption": 2.0}
    for case in numbers["algorithm"]:
        if case["basin"] != "broad":  # as both methods should
            sooner = short if case["basin"] == "sharp" else long
            case |= {"adam": sooner, "adamomentum": sooner, "translated": sooner}
    assert words(escape, numbers) == ["holds"] * 6
    for s in numbers["scaling"]:
        s |= {"upsilon_exponent": [-s["alpha"], 0.1], "width_exponent": [0.0, 0.1]}
    for case in numbers["algorithm"]:
        case |= {"adamomentum": short, "translated": short, "adam": long, "assumption": 0.1}
    assert words(escape, numbers) == ["holds only when", *["does not hold"] * 5]
    # Whether the assumption held is asked where it means something, with normal noise.
    for case in numbers["algorithm"]:
        case["assumption"] = 9.0 if case["alpha"] < 2 else 0.1
    assert words(escape, numbers)[5] == "does not hold"
    # And the proposition is judged in flat basins alone.
    for case in numbers["algorithm"]:
        if min(case["h"]) > escape.FLAT:
            case |= {"adamomentum": long, "adam": short}
    assert words(escape, numbers)[3] == "does not hold"


@pytest.mark.slow
def test_rules_of_assumption(numbers_of):
    numbers = numbers_of("assumption")
    for i, run in enumerate(numbers["runs"]):
        run |= {"steps_held": 1.0, "ratio_early": 0.5, "ratio_late": 2.0 + i,
                "coordinates_held": 1.0, "integral_least": 0.0}  # fmt: skip
    assert words(assumption, numbers) == ["holds"] * 5
    for run in numbers["runs"]:
        # It grows, and is still far from enough.
        run |= {"steps_held": 0.1, "ratio_early": 0.03, "ratio_late": 0.04,
                "coordinates_held": 0.1, "integral_least": -1.0}  # fmt: skip
    assert words(assumption, numbers) == ["does not hold"] * 5
    numbers["runs"][0] |= {"steps_held": 1.0, "ratio_late": 2.0, "coordinates_held": 1.0,
                           "integral_least": 0.0}  # fmt: skip
    assert words(assumption, numbers) == ["holds only when"] * 5


@pytest.mark.slow
def test_rules_of_noise_ratio(numbers_of):
    numbers = numbers_of("noise_ratio")
    for stream in numbers["streams"]:
        stream["measured"] = stream["predicted"]
    quadratics = numbers["quadratics"]
    quadratics |= {key: [x] * len(quadratics["measured"])
                   for key, x in (("measured", 4.0), ("half", 0.1))}  # fmt: skip
    for net in numbers["network"]:
        net["median"] = [4.3]
    assert words(noise_ratio, numbers) == ["holds"] * 4
    numbers["streams"][0]["measured"] = [9.0] * len(noise_ratio.SIGNALS)
    quadratics["measured"][-1] = 8.0
    for net in numbers["network"]:
        net["median"] = [9.0]
    expected = ["does not hold", "holds only when", "does not hold", "does not hold"]
    assert words(noise_ratio, numbers) == expected
    numbers["network"][0]["median"] = [4.0]
    assert words(noise_ratio, numbers)[2:] == ["holds only when"] * 2


# The pages on bounds


BOUNDS = pytest.mark.parametrize("name", slow_but_one(["regret", "nonconvex"]))


@BOUNDS
def test_verdicts_follow_from_the_file(name, numbers_of):
    claim, numbers = theory.get(name), numbers_of(name)
    findings = claim.judge(numbers)
    again = json.loads(json.dumps(numbers))
    assert claim.judge(again) == findings
    assert [asdict(table) for table in claim.tables(again)] == [
        asdict(table) for table in claim.tables(numbers)
    ]
    assert all(finding.found[-1] == "." for finding in findings)
    assert "nan" not in " ".join(finding.found for finding in findings)


@BOUNDS
def test_a_broken_bound_is_reported(name, numbers_of):
    claim, numbers = theory.get(name), numbers_of(name)
    assert claim.judge(numbers)[0].word != "does not hold"
    if name == "regret":
        numbers["streams"]["quadratic"]["amsgrad"][-1]["regret"][0][0][0] = 1e12
    else:
        numbers["averages"][-1][0][0] = [1e6] * numbers["trajectories"]
    assert claim.judge(numbers)[0].word == "does not hold"


@BOUNDS
def test_figures(name, numbers_of):
    claim, numbers = theory.get(name), numbers_of(name)
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    claim.draw(numbers, figure)
    assert len(figure.axes) >= 4
