"""The tables that README and the guide show, and what README says of them."""

import re

import pytest
from tools import blocks

from adamomentum_lab.errors import LabError
from adamomentum_paper.claims import rules
from adamomentum_paper.claims.races import bearing
from adamomentum_paper.claims.records import Records
from tests.tools.made import (
    HIGHER,
    LOWER,
    NEAR,
    OURS,
    landscape_record,
    race_of,
    speed_records,
    written,
)


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
    # Medians of 2, 2 and 4 ms, of 1, 2 and 4, of 3, 4 and 2, of 24, 30 and 44.
    assert blocks.costs(speed_records()).splitlines()[2:] == [
        "| step, ResNet-34 | 2 ms | 2 ms | 3 ms | 30 ms |",
        "| state per parameter | 8 B | 8 B | 8 B | 8 B |",
    ]
    words = blocks.machine_sentence(speed_records())
    assert "3 runs, 2 threads of a virtual machine with 2 cores (A Processor)" in words
    assert "reached 30 to 32 GB/s; on one tensor of 64 Mi AdaMomentum reached 25 to 50" in words


@pytest.mark.parametrize(
    ("key", "value"),
    [("processor", "Another"), ("processors", 4), ("threads", 1), ("torch", "2.12.0")],
)
def test_speeds_of_different_machines_are_not_one_table(key, value):
    records = speed_records()
    records[1]["machine"] = {**records[1]["machine"], key: value}
    for made in (blocks.speed, blocks.moments, blocks.machine_sentence):
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
    assert "a virtual machine with 2 cores, torch 2.13.0" in blocks.machine_sentence(records)


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
    assert first[3:7] == ["", "", "90.06 ± 0.31", ""]
    assert first[-1].startswith("better than adam; rank ")
    assert second[-1].startswith("worse than adam; rank ")


def test_the_answer_for_readme():
    races = [
        race_of({"adamomentum": OURS, "adam": LOWER, "adabelief": NEAR}, "cifar10_resnet34"),
        race_of({"adamomentum": OURS, "adam": HIGHER, "adamw": NEAR}, "digits_cnn"),
    ]
    first, second = blocks.answer(races, "x.md").splitlines()[2:]
    assert first == (
        "| [cifar10_resnet34](x.md), accuracy ↑ | 90.04 ± 0.34 | 85.06 ± 0.38 |  "
        "| adabelief, 90.06 ± 0.31 | better |"
    )
    assert second.startswith("| [digits_cnn](x.md), accuracy ↑ | 90.04 ± 0.34 | ")
    assert second.endswith(" | 90.06 ± 0.31 | adam, 95.06 ± 0.38 | worse |")


@pytest.mark.parametrize(
    ("scores", "diverged", "failed"),
    [
        ({"adam": NEAR, "sgdm": NEAR}, "undecided; rank 3 of 3", None),
        (
            {"adam": [*NEAR[:4], None], "adabelief": [None] * 5, "sgdm": NEAR, "yogi": NEAR},
            "undecided; rank 3 of 5",
            "undecided; not comparable with adam and adabelief; rank 3 of 5",
        ),
        (
            {"adam": [*NEAR[:4], None], "sgdm": LOWER, "yogi": NEAR},
            "better than sgdm; rank 2 of 4",
            "better than sgdm; not comparable with adam; rank 2 of 4",
        ),
        ({"adam": [None] * 5}, "undecided; rank 1 of 2", "not comparable with adam; rank 1 of 2"),
        ({}, "rank 1 of 1", None),
    ],
)
def test_pairs_that_cannot_be_compared(scores, diverged, failed):
    """Divergence is the optimizer's own doing and leaves a pair undecided; a fault is not."""
    for lost, words in (("diverged", diverged), ("failed", failed or diverged)):
        race = race_of({"adamomentum": OURS, **scores}, lost=lost)
        assert blocks.comparison([race], "x.md").splitlines()[2].split(" | ")[-1] == f"{words} |"


def test_nothing_is_decided_by_one_seed_or_by_lost_runs_of_ours():
    ours = {"adamomentum": [90.0], "adam": [10.0]}, {"adamomentum": [None], "adam": [1.0]}
    for rank, scores in enumerate(ours, 1):
        race = race_of(scores)
        line = blocks.comparison([race], "x.md").splitlines()[2]
        assert line.startswith("| [cifar10_resnet34](x.md), accuracy ↑, 1 seed |")
        assert line.endswith(f"| undecided; rank {rank} of 2 |")
    race = race_of(ours[1], lost="failed")
    assert "| not comparable with adam; rank 2 of 2 |" in blocks.comparison([race], "x.md")


def test_blocks_are_filled_and_the_rest_is_left():
    text = (
        "a\n<!-- results: speed -->\nold\n<!-- end -->\nb\n<!-- results: speed -->\n<!-- end -->\n"
    )
    new = blocks.fill(text, {"speed": "x | y\n"}, "a.md")
    block = "<!-- results: speed -->\nx | y\n<!-- end -->\n"
    assert new == f"a\n{block}b\n{block}"
    assert blocks.fill(new, {"speed": "x | y"}, "a.md") == new
    assert blocks.fill("a\n", {}, "a.md") == "a\n"


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
        blocks.fill(text, {"speed": "", "other": ""}, "a.md")


def test_the_command_of_blocks_says_what_is_wrong(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(blocks, "ROOT", written(tmp_path / "a.md", "<!-- results: x -->\n").parent)
    monkeypatch.setattr(blocks, "FILES", ("a.md",))
    assert blocks.main([]) == 1
    assert capsys.readouterr().err.startswith("a.md: the block 'x' is not closed")


def test_what_readme_and_guide_show_is_what_the_records_make():
    for path, content in blocks.files().items():
        assert path.read_text() == content, "`make results` makes it anew"


def test_what_readme_says_of_the_records_in_its_own_words():
    races = Records.of().races
    tuned = [race for name in blocks.PROBLEMS if (race := bearing(races, name))]
    # "our tuned races do not decide between AdaMomentum and Adam or AdamW"
    kinds = [
        one.kind for race in tuned for one in rules.beside_ours(race) if one.b in ("adam", "adamw")
    ]
    assert set(kinds) == {"undecided"}
    # "with at most 12 settings for each optimizer"
    assert max(race.race.trials for race in tuned) == 12
    # "AdaMomentum is better than Adam, and Adam with 4.36 times that lr is better"
    for race in races:
        if race.race.workload == "ptb_lstm1_long":
            rows = {row.optimizer: row for row in race.rows}
            for name in ("lr", "decoupled_weight_decay", "weight_decay"):
                assert len({row.settings[name] for row in rows.values()}) == 1
            assert rows["adam"].verdict.kind == "worse"
            assert rows["adam-translated"].verdict.kind == "better"
