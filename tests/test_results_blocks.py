"""The tables and the picture that README and the guide show."""

import json
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

import blocks
import keep
from adamomentum_lab import contenders
from adamomentum_lab.bench.shapes import MODELS
from adamomentum_lab.errors import LabError
from tests.adamomentum_lab.races import problem, raced
from tests.test_results import HIGHER, LOWER, NEAR, OURS, race_of


def speed_records(models=("ResNet-34", "one of 64 Mi")):
    """Of three measurements of these shapes, seconds that are easy to divide."""
    sizes = {"ResNet-34": (110, 21_282_122)}
    ways = ("Adam, fused", "AdaMomentum", "  plain loop", "  bfloat16 moments")
    seconds = [
        dict(zip(ways, (ms * 1e-3 for ms in its), strict=True))
        for its in ((3, 2, 24, 1), (4, 2, 30, 2), (2, 4, 44, 4))
    ]
    machine = {"threads": 2, "processors": 2, "processor": "A Processor", "torch": "2.13.0"}

    def steps(one):
        return {
            name: {"seconds": s, "state_bytes_per_parameter": 8.0, "gb_per_second": 1e-1 / s}
            for name, s in one.items()
        }

    return [
        {
            "machine": machine,
            "add_gb_per_second": 30.0 + i,
            "models": {
                model: {"tensors": tensors, "parameters": parameters, "steps": steps(one)}
                for model in models
                for tensors, parameters in [sizes.get(model, (1, 67_108_864))]
            },
        }
        for i, one in enumerate(seconds)
    ]


def test_the_table_of_speed():
    # Adam / AdaMomentum: 1.5, 2 and 0.5; plain loop / AdaMomentum: 12, 15 and 11.
    lines = blocks.speed(speed_records()).splitlines()
    assert lines[2:] == [
        "| ResNet-34, 21.3 M | 110 | 2 ms | 1.50 (0.50 to 2.00) | 12 (11 to 15) |",
        "| one tensor of 64 Mi | 1 | 2 ms | 1.50 (0.50 to 2.00) | 12 (11 to 15) |",
    ]
    assert blocks.moments(speed_records()).splitlines()[3] == (
        "| bfloat16 | 8 | 2.00 (0.50 to 3.00) |"
    )
    words = blocks.measured_on(speed_records())
    assert "3 runs, 2 threads of a virtual machine with 2 cores (A Processor)" in words
    assert "reached 30 to 32 GB/s; on one tensor of 64 Mi AdaMomentum reached 25 to 50" in words


@pytest.mark.parametrize(
    ("key", "value"),
    [("processor", "Another"), ("processors", 4), ("threads", 1), ("torch", "2.12.0")],
)
def test_speeds_of_different_machines_are_not_one_table(key, value):
    records = speed_records()
    records[1]["machine"] = {**records[1]["machine"], key: value}
    for made in (blocks.speed, blocks.moments, blocks.measured_on):
        with pytest.raises(LabError, match=f"were measured with different {key}: .* and {value}"):
            made(records)


def test_speeds_of_different_models_are_not_one_table():
    records = [*speed_records(), *speed_records(["one of 64 Mi"])]
    for found in (records, records[::-1]):
        with pytest.raises(LabError, match="measured with different models"):
            blocks.speed(found)


def test_a_processor_without_a_name():
    records = speed_records()
    for record in records:
        record["machine"] = {k: v for k, v in record["machine"].items() if k != "processor"}
    assert "a virtual machine with 2 cores, torch 2.13.0" in blocks.measured_on(records)


def test_the_table_of_a_landscape():
    record = landscape_record()
    lines = blocks.landscape(record).splitlines()
    assert lines[2] == (
        "| loss at the solution | 0.014 ± 0.016 | 0.096 ± 0.026 | -0.082 ± 0.017 "
        "| 0.0069 ± 0.0098 |"
    )

    def without(*names):
        return {
            **record,
            "groups": [one for one in record["groups"] if one["optimizer"] not in names],
            "comparisons": [
                one for one in record["comparisons"] if not {one["first"], one["other"]} & {*names}
            ],
        }

    def first(made):
        return blocks.landscape(made).splitlines()[2]

    assert first(without("adam-translated")).endswith("| -0.082 ± 0.017 |  |")
    assert first(without("adam", "adam-translated")).endswith("| 0.014 ± 0.016 |  |  |  |")
    alone = without("adamomentum")
    alone["comparisons"] = [{**record["comparisons"][0], "first": "adam-translated"}]
    assert first(alone) == "| loss at the solution |  | 0.096 ± 0.026 |  |  |"
    twice = {**record, "groups": [*record["groups"], record["groups"][1]]}
    with pytest.raises(LabError, match="digits_cnn-mini-fair has adam more than once"):
        blocks.landscape(twice)


def test_the_comparison_for_newcomers():
    races = [
        race_of({"adamomentum": OURS, "adam": LOWER, "adabelief": NEAR}, "cifar10_resnet34"),
        race_of({"adamomentum": OURS, "adam": HIGHER, "sgdm": NEAR}, "digits_cnn"),
    ]
    lines = blocks.comparison(races, "docs/results.md").splitlines()
    assert lines[0].startswith("| test score ± 95 % interval | adamomentum | adam | adam-tr")
    first, second = (line.split(" | ") for line in lines[2:])
    assert first[0] == "| [cifar10_resnet34](docs/results.md), accuracy ↑, 5 seeds"
    assert first[1:3] == ["90.04 ± 0.34", "85.06 ± 0.38"]
    assert first[3] == first[5] == ""
    assert first[-1].startswith("better than adam; number ")
    assert second[-1].startswith("worse than adam; number ")
    assert blocks.in_short(races).splitlines() == [
        "- beside `adam` (2 problems): better on `cifar10_resnet34`, worse on `digits_cnn`",
        "- beside `adam-translated` (0 problems): better on none, worse on none",
        "- beside `adabelief` (1 problem): better on none, worse on none",
        "- beside `sgdm` (1 problem): better on none, worse on none",
    ]


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ({"adam": NEAR, "sgdm": NEAR}, "no difference to any; number 1 of 3"),
        (
            {"adam": [*NEAR[:4], None], "adabelief": [None] * 5, "sgdm": NEAR, "yogi": NEAR},
            "no difference to sgdm and yogi; not comparable to adam and adabelief; number 1 of 5",
        ),
        (
            {"adam": [*NEAR[:4], None], "sgdm": LOWER, "yogi": NEAR},
            "better than sgdm; not comparable to adam; number 1 of 4",
        ),
        ({"adam": [None] * 5}, "not comparable to adam; number 1 of 2"),
        ({}, "number 1 of 1"),
    ],
)
def test_what_cannot_be_compared_is_said(scores, words):
    race = race_of({"adamomentum": OURS, **scores})
    assert blocks.comparison([race], "x.md").splitlines()[2].split(" | ")[-1] == f"{words} |"
    incomparable = (
        ", not comparable on `cifar10_resnet34`" if None in scores.get("adam", ()) else ""
    )
    if scores:
        assert blocks.in_short([race]).splitlines()[0] == (
            f"- beside `adam` (1 problem): better on none, worse on none{incomparable}"
        )


def test_nothing_is_said_of_one_seed_or_of_lost_runs_of_ours():
    for scores in ({"adamomentum": [90.0], "adam": [10.0]}, {"adamomentum": [None], "adam": [1.0]}):
        race = race_of(scores)
        line = blocks.comparison([race], "x.md").splitlines()[2]
        assert line.startswith("| [cifar10_resnet34](x.md), accuracy ↑, 1 seed |")
        assert line.endswith("| not comparable to adam; number 1 of 2 |")
        assert "worse on none, not comparable on `cif" in blocks.in_short([race]).splitlines()[0]


def test_what_a_permutation_does_not_confirm_is_said():
    race = race_of({"adamomentum": OURS, "adam": LOWER, "sgdm": LOWER, "yogi": HIGHER})
    for row, found in zip(race["ranking"][1:], (0.06, 0.04, 0.06), strict=True):
        row["comparison"] |= {"permutation_holm": found, "permutation_note": None}
    assert blocks.comparison([race], "x.md").endswith(
        "| better than adam (not confirmed by permutation) and sgdm; "
        "worse than yogi (not confirmed by permutation); number 1 of 4 |\n"
    )
    row = race["ranking"][1]  # too few seeds to confirm anything
    row["comparison"] |= {"permutation_note": "too few"}
    assert "better than adam and sgdm;" in blocks.comparison([race], "x.md")


def test_blocks_are_filled_and_the_rest_is_left():
    text = (
        "a\n<!-- results: speed -->\nold\n<!-- end -->\nb\n<!-- results: speed -->\n<!-- end -->\n"
    )
    new = blocks.filled(text, {"speed": "x | y\n"}, "a.md")
    block = "<!-- results: speed -->\nx | y\n<!-- end -->\n"
    assert new == f"a\n{block}b\n{block}"
    assert blocks.filled(new, {"speed": "x | y"}, "a.md") == new
    assert blocks.filled("a\n", {}, "a.md") == "a\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<!-- results: sped -->\n<!-- end -->\n", "a.md: there is no block 'sped' (did you mean"),
        ("<!-- results: speed -->\nold\n", "a.md: the block 'speed' is not closed"),
        (
            "<!-- results: speed -->\nmine\n<!-- results: other -->\n<!-- end -->\n",
            "a.md: the block 'speed' is not closed",
        ),
    ],
)
def test_a_block_that_cannot_be_filled_is_refused(text, words):
    with pytest.raises(LabError, match=re.escape(words)):
        blocks.filled(text, {"speed": "", "other": ""}, "a.md")


def test_the_command_of_blocks_says_what_is_wrong(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(blocks, "ROOT", written(tmp_path / "a.md", "<!-- results: x -->\n").parent)
    monkeypatch.setattr(blocks, "FILES", ("a.md",))
    assert blocks.main([]) == 1
    assert capsys.readouterr().err.startswith("a.md: the block 'x' is not closed")


def test_files_are_read_and_written_as_utf_8():
    for name in ("keep", "blocks", "picture"):
        code = (blocks.HERE / f"{name}.py").read_text("utf-8")
        for call in re.findall(r"\b(?:open|read_text|write_text)\(.*", code):
            assert 'encoding="utf-8"' in call, name


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
    race = race_of(scores, epochs=curves, larger=larger)
    race["workload"]["epochs"] = 26
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


def test_what_readme_and_guide_show_is_what_the_records_make():
    for path, content in blocks.files().items():
        assert path.read_text() == content, "`make results` makes it anew"


def landscape_record():
    """The committed one, with what the command writes beside it."""
    return json.loads((blocks.HERE / "landscape" / "digits_cnn-mini-fair.json").read_text("utf-8"))


def refused(tmp_path, capsys, *words):
    """The one sentence for which nothing is kept."""
    assert keep.main([*map(str, words), "--out", str(tmp_path / "no")]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert not (tmp_path / "no").exists()
    return said


def written(file, record):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(record if isinstance(record, str) else json.dumps(record))
    return file


def test_speed_is_kept_without_the_machine(tmp_path, capsys):
    record = {**speed_records(MODELS)[0]}
    record["machine"] = {**record["machine"], "platform": "Linux-here", "folder": "/home/a/b"}
    file = written(tmp_path / "1.json", record)
    assert keep.main(["--speed", str(file), "--out", str(tmp_path / "out")]) == 0
    kept = json.loads((tmp_path / "out" / "speed" / "1.json").read_text())
    plain = kept["models"]["ResNet-34"]["steps"]["  plain loop"]
    assert plain == {"seconds": 0.024, "state_bytes_per_parameter": 8.0, "gb_per_second": 4.167}
    assert kept["machine"] == speed_records()[0]["machine"]
    file.write_text("[]")
    assert "was not written by this version" in refused(tmp_path, capsys, "--speed", file)


def test_speed_of_a_part_is_not_kept(tmp_path, capsys):
    file = written(tmp_path / "1.json", speed_records()[0])
    assert "lacks 'DenseNet-121', 'VGG-16', " in refused(tmp_path, capsys, "--speed", file)
    record = speed_records(MODELS)[0]
    del record["models"]["VGG-16"]["steps"]["  plain loop"]
    written(file, record)
    assert "lacks 'plain loop' of 'VGG-16';" in refused(tmp_path, capsys, "--speed", file)


def test_two_records_of_one_name_are_not_kept(tmp_path, capsys):
    speeds = [written(tmp_path / of / "1.json", speed_records(MODELS)[0]) for of in "ab"]
    said = refused(tmp_path, capsys, "--speed", *speeds)
    assert f"{speeds[0]} and {speeds[1]} would both be called 1.json" in said
    found = [written(tmp_path / of / "landscape.json", landscape_record()) for of in "ab"]
    said = refused(tmp_path, capsys, "--landscape", *(file.parent for file in found))
    assert "would both be called digits_cnn-mini-fair.json" in said


def test_what_is_spoiled_is_refused_in_a_sentence(tmp_path, capsys):
    record = speed_records(MODELS)[0]
    file = written(tmp_path / "1.json", {**record, "machine": None})
    assert f"{file} cannot be kept (" in refused(tmp_path, capsys, "--speed", file)
    written(file, {**record, "add_gb_per_second": float("nan")})
    assert f"{file} cannot be kept (" in refused(tmp_path, capsys, "--speed", file)
    found = landscape_record()
    del found["runs"][0]["loss"]
    file = written(tmp_path / "a" / "landscape.json", found)
    said = refused(tmp_path, capsys, "--landscape", file.parent)
    assert f"{file} cannot be kept (KeyError: 'loss')" in said
    raced(tmp_path, problem(tmp_path))
    (file,) = tmp_path.glob("races/*/race.json")
    race = json.loads(file.read_text())
    for spoiled in ({"machine": None}, {"headline": float("nan")}):
        written(file, {**race, **spoiled})
        assert f"{file.parent.name} cannot be kept (" in refused(tmp_path, capsys, tmp_path)


def test_a_landscape_with_an_optimizer_twice_is_not_kept(tmp_path, capsys):
    found = landscape_record()
    found["groups"].append({**found["groups"][1], "settings": "lr 0.01"})
    file = written(tmp_path / "landscape.json", found)
    said = refused(tmp_path, capsys, "--landscape", tmp_path)
    assert f"{file} has adam more than once (lr 0.001; lr 0.01)" in said
    del found["groups"][1]
    written(file, found)
    assert keep.main(["--landscape", str(tmp_path), "--out", str(tmp_path / "out")]) == 0


def test_the_command_of_a_workload_kept_here_runs(tmp_path):
    folder = tmp_path / "results" / "workloads"
    folder.mkdir(parents=True)
    raced(tmp_path, problem(folder))
    (file,) = keep.keep_races([tmp_path], tmp_path / "out")
    command = json.loads(file.read_text())["machine"]["command"]
    assert command.startswith("adamomentum race results/workloads/plain.py --optimizers")
