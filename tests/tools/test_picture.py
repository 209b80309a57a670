"""A race as a picture."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from tools import blocks

from adamomentum_lab import contenders
from tests.tools.made import LOWER, NEAR, OURS, race_of


def test_a_race_as_a_picture():
    epochs = {
        "adamomentum": [[10.0, 60.0, 90.0]] * 5,
        "adam": [[10.0, 50.0, None]] * 2 + [[10.0, 50.0, 80.0]] * 3,
    }
    race = race_of({"adamomentum": OURS, "adam": [*LOWER[:4], None]}, epochs=epochs)
    svg = ElementTree.fromstring(blocks.picture(race))
    space = "{http://www.w3.org/2000/svg}"
    words = [text.text for text in svg.iter(f"{space}text")]
    assert {"adamomentum", "adam", "validation accuracy, by epoch"} <= set(words)
    lines = [path.get("class") for path in svg.iter(f"{space}path")]
    assert lines.count("run c0") == lines.count("run c1") == 5
    assert len(list(svg.iter(f"{space}circle"))) == 2
    for path in svg.iter(f"{space}path"):
        numbers = [float(n) for n in re.findall(r"[\d.]+", path.get("d"))]
        assert max(numbers) <= 860
    many = race_of({f"{name}": NEAR for name in contenders.names()[:9]})
    with pytest.raises(ValueError, match="room for 8"):
        blocks.picture(many)


SVG = "{http://www.w3.org/2000/svg}"


def drawn(race):
    """The picture's texts with their places, and its paths by class as lists of points."""
    svg = ElementTree.fromstring(blocks.picture(race))
    texts = [(one.text, float(one.get("x")), float(one.get("y"))) for one in svg.iter(f"{SVG}text")]
    paths = {}
    for path in svg.iter(f"{SVG}path"):
        points = re.findall(r"([\d.]+) ([\d.]+)", path.get("d"))
        paths.setdefault(path.get("class"), []).append([(float(x), float(y)) for x, y in points])
    return texts, paths


def said(race):
    return [text for text, *_ in drawn(race)[0]]


def test_a_picture_shows_bad_runs_in_full():
    curves = {
        "adamomentum": [[90.0, 91.0, 92.0]] * 5,
        "adam": [[90.0, 91.0, 92.0]] * 3 + [[30.0, 20.0, 10.0], [25.0, 15.0, 5.0]],
    }
    texts, paths = drawn(race_of({"adamomentum": OURS, "adam": NEAR}, epochs=curves))
    assert "0" in [text for text, *_ in texts]
    one, two = ([y for _, y in points] for points in paths["run c1"][-2:])
    assert one[0] < two[0] < one[1] < two[1] < one[2] < two[2]


def perplexities(larger=False):
    """Over decades, with runs that were lost."""
    curves = {
        "adamomentum": [[10_000.0, 1_000.0, 100.0, 90.0, 88.0]] * 5,
        "adam": [[10_000.0, 1_000.0, 120.0, 100.0, 95.0]] * 4 + [[9e5]],
        "sgdm": [[10_000.0, 9_000.0, 8_500.0, 8_400.0, 8_300.0]] * 5,
        "yogi": [[5e6, 4e6, 9e6]] * 5,
    }
    scores = {
        "adamomentum": [90.0, 91.0, 88.0, 89.0, 90.0],
        "sgdm": [8_300.0, 200.0, 100.0, 8_200.0, 120.0],  # an interval that reaches below 0
        "adam": [96.0, 95.0, 97.0, 94.0, None],
        "yogi": [None] * 5,
    }
    more = {"metric": "perplexity", "epochs": curves, "larger": larger}
    return race_of(scores, "ptb_lstm1", **more)


def test_a_picture_over_decades():
    texts, paths = drawn(perplexities())
    first, second, third, *_ = (y for _, y in paths["run c0"][0])
    assert second - first == pytest.approx(third - second, abs=0.2)
    words = [text for text, *_ in texts]
    assert {"100", "1000", "10000", "1e+6"} <= set(words)
    assert len(paths["run c1"]) == 5
    assert len(paths["beyond c1"]) == 1  # the interval that goes on to the left
    linear = drawn(perplexities(larger=True))[1]["run c0"][0]
    assert linear[1][1] - linear[0][1] > 5 * (linear[2][1] - linear[1][1])


@pytest.mark.parametrize("top", [3e-3, 40.0, 600.0, 8e3, 1.3e5, 2.5e6, 3e9, 1e40])
@pytest.mark.parametrize("larger", [True, False])
@pytest.mark.parametrize("low", [1.1e-4, 1.0, 95.5])
def test_labels_of_a_picture_do_not_touch(low, top, larger):
    top = max(top, low)
    curves = {"adamomentum": [[low, top] * 13] * 2, "adam": [[top]] * 2}
    scores = {"adamomentum": [low, low], "adam": [top, top]}
    race = race_of(scores, epochs=curves, larger=larger, length=26)
    texts, _ = drawn(race)
    left = sorted((y, text) for text, x, y in texts if x < 60 and y > 60)
    assert 2 <= len(left) <= 12
    assert all(b - a >= 14 for (a, _), (b, _) in pairwise(left))
    for lower, upper in ((50, 500), (550, 860)):
        below = sorted((x, text) for text, x, y in texts if y > 300 and lower < x < upper)
        assert len(below) >= 2
        for (a, one), (b, two) in pairwise(below):
            assert b - a >= 7 * (len(one) + len(two)) / 2, (one, two)


def test_a_picture_says_which_runs_were_lost():
    race = race_of({"adamomentum": OURS, "adam": [95.0] + [None] * 4, "sgdm": [None] * 5})
    assert {"4 of 5 lost", "5 of 5 lost", "no score"} <= set(said(race))
    assert "test accuracy, mean and 95 % interval" in said(race)
    assert not any("lost" in text for text in said(race_of({"adamomentum": OURS, "adam": NEAR})))


def test_a_picture_of_one_seed():
    words = said(race_of({"adamomentum": [90.0], "adam": [10.0]}))
    assert words.count("1 run") == 2
    assert "test accuracy" in words
    assert "cifar10_resnet34, mini: 1 seed each after 4 trials of tuning" in words


def test_a_picture_says_how_was_tuned():
    race = race_of({"adamomentum": OURS, "adam": NEAR}, spec={"halving": True})
    words = "cifar10_resnet34, mini: 5 seeds each after 4 trials of tuning with halving"
    assert words in said(race)


@pytest.mark.parametrize("value", [0.0, 100.0, 1e-9, 1e9, -3.0])
@pytest.mark.parametrize("larger", [True, False])
def test_a_picture_of_equal_values(value, larger):
    curves = {"adamomentum": [[value] * 5] * 3, "adam": [[value]] * 3}
    race = race_of({"adamomentum": [value] * 3, "adam": [value] * 3}, epochs=curves, larger=larger)
    _, paths = drawn(race)
    (y,) = {y for cls in ("run c0", "run c1") for points in paths[cls] for _, y in points}
    assert 100 < y < 250


def test_a_picture_of_nothing():
    race = race_of({"adamomentum": [None] * 3, "adam": [None] * 3})
    assert said(race).count("no score") == 2
    assert "no score of any epoch" in said(race)
