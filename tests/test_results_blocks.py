"""The tables and the picture that README and the guide show."""

import json
import re
from xml.etree import ElementTree

import pytest

import blocks
import keep
from adamomentum_lab import contenders
from tests.test_results import HIGHER, LOWER, NEAR, OURS, race_of


def speed_records():
    """Of three measurements of two sets of shapes, seconds that are easy to divide."""
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
                "ResNet-34": {"tensors": 110, "parameters": 21_282_122, "steps": steps(one)},
                "one of 64 Mi": {"tensors": 1, "parameters": 67_108_864, "steps": steps(one)},
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


def test_blocks_are_filled_and_the_rest_is_left():
    text = (
        "a\n<!-- results: speed -->\nold\n<!-- end -->\nb\n<!-- results: speed -->\n<!-- end -->\n"
    )
    new = blocks.filled(text, {"speed": "x | y\n"})
    block = "<!-- results: speed -->\nx | y\n<!-- end -->\n"
    assert new == f"a\n{block}b\n{block}"
    assert blocks.filled(new, {"speed": "x | y\n"}) == new
    with pytest.raises(KeyError):
        blocks.filled(text.replace("speed", "sped"), {"speed": ""})


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


def test_what_readme_and_guide_show_is_what_the_records_make():
    for path, content in blocks.files().items():
        assert path.read_text() == content, "`make results` makes it anew"


def test_speed_is_kept_without_the_machine(tmp_path, capsys):
    record = {**speed_records()[0]}
    record["machine"] = {**record["machine"], "platform": "Linux-here", "folder": "/home/a/b"}
    file = tmp_path / "1.json"
    file.write_text(json.dumps(record))
    assert keep.main(["--speed", str(file), "--out", str(tmp_path / "out")]) == 0
    kept = json.loads((tmp_path / "out" / "speed" / "1.json").read_text())
    plain = kept["models"]["ResNet-34"]["steps"]["  plain loop"]
    assert plain == {"seconds": 0.024, "state_bytes_per_parameter": 8.0, "gb_per_second": 4.167}
    assert kept["machine"] == speed_records()[0]["machine"]
    file.write_text("[]")
    assert keep.main(["--speed", str(file), "--out", str(tmp_path / "no")]) == 1
    assert "was not written by this version" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()
