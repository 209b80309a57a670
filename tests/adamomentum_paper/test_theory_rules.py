"""The rules of the theory's pages: made-up numbers must turn their words."""

import json

import pytest

from adamomentum_paper import theory
from adamomentum_paper.theory import (
    _pages,
    assumption,
    curvature,
    epsilon,
    escape,
    noise_ratio,
    sphere,
)


def quiet(part):
    """Nobody hears of the progress."""


@pytest.fixture(scope="module")
def numbers_of(tmp_path_factory):
    """Numbers of a page at the smallest size, to be spoilt."""
    made = {}

    def get(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            made[name] = _pages.make(theory.get(name), "smoke", folder, quiet)[0]["numbers"]
        return json.loads(json.dumps(made[name]))

    return get


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
