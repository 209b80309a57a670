"""The tables that README and the guide show, and what README says of them."""

import re
from dataclasses import replace

import pytest
from tools import blocks

from adamomentum_lab.errors import LabError
from adamomentum_paper.claims import page as claims
from tests.tools.made import (
    HIGHER,
    LOWER,
    NEAR,
    OURS,
    judged,
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
    assert blocks.in_short(races).splitlines() == [
        "- compared with `adam` (2 problems): better on `cifar10_resnet34`, worse on `digits_cnn`",
        "- compared with `adam-translated` (0 problems): better on none, worse on none",
        "- compared with `adamw` (0 problems): better on none, worse on none",
        "- compared with `adabelief` (1 problem): better on none, worse on none",
        "- compared with `sgdm` (1 problem): better on none, worse on none",
    ]


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ({"adam": NEAR, "sgdm": NEAR}, "none; rank 3 of 3"),
        (
            {"adam": [*NEAR[:4], None], "adabelief": [None] * 5, "sgdm": NEAR, "yogi": NEAR},
            "none from sgdm and yogi; not comparable with adam and adabelief; rank 3 of 5",
        ),
        (
            {"adam": [*NEAR[:4], None], "sgdm": LOWER, "yogi": NEAR},
            "better than sgdm; not comparable with adam; rank 2 of 4",
        ),
        ({"adam": [None] * 5}, "not comparable with adam; rank 1 of 2"),
        ({}, "rank 1 of 1"),
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
            f"- compared with `adam` (1 problem): better on none, worse on none{incomparable}"
        )


def test_nothing_is_said_of_one_seed_or_of_lost_runs_of_ours():
    ours = {"adamomentum": [90.0], "adam": [10.0]}, {"adamomentum": [None], "adam": [1.0]}
    for rank, scores in enumerate(ours, 1):
        race = race_of(scores)
        line = blocks.comparison([race], "x.md").splitlines()[2]
        assert line.startswith("| [cifar10_resnet34](x.md), accuracy ↑, 1 seed |")
        assert line.endswith(f"| not comparable with adam; rank {rank} of 2 |")
        assert "worse on none, not comparable on `cif" in blocks.in_short([race]).splitlines()[0]


def test_what_the_protocol_does():
    scores = {"adamomentum": OURS, "adam": LOWER}
    fair = race_of({"adam": NEAR, "adamomentum": OURS})
    as_run = race_of(scores, spec={"protocol": "as-run", "trials": 0})
    smoke = race_of(scores, spec={"protocol": "as-run", "scale": "smoke"})
    alone = race_of(scores, "cifar10_vgg16", spec={"protocol": "as-run"})
    assert blocks.protocols([as_run, fair, smoke, alone]) == (
        "- `cifar10_resnet34`, significant differences: `as-run` better than adam; rank 1 of 2. "
        "`fair` none; rank 2 of 2\n"
    )
    assert blocks.protocols([as_run]) == ""


def test_what_a_permutation_does_not_confirm_is_said():
    race = race_of({"adamomentum": OURS, "adam": LOWER, "sgdm": LOWER, "yogi": HIGHER})
    assert race.row("adam").comparison.permutation_note  # too few seeds to confirm anything
    assert "| better than adam and sgdm; worse than yogi; " in blocks.comparison([race], "x.md")
    found = {"adam": 0.06, "sgdm": 0.04, "yogi": 0.06}
    judged(
        race,
        **{
            name: {"comparison": replace(race.row(name).comparison, permutation_holm=p)}
            for name, p in found.items()
        },
    )
    assert blocks.comparison([race], "x.md").endswith(
        "| better than adam (not confirmed by permutation) and sgdm; "
        "worse than yogi (not confirmed by permutation); rank 2 of 4 |\n"
    )


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
    races = {
        race.name: {row.optimizer: row for row in race.rows} for race in claims.Records.of().races
    }
    ptb, gan = races["ptb_lstm1-mini-fair"], races["cifar10_dcgan-mini-fair"]
    # "AdaMomentum is far ahead of Adam, and Adam with 4.36 times that lr is ahead of AdaMomentum"
    for protocol in ("as-run", "paper"):
        long = races[f"ptb_lstm1_long-mini-{protocol}"]
        for name in ("lr", "decoupled_weight_decay", "weight_decay"):
            assert len({row.settings[name] for row in long.values()}) == 1
        assert long["adam"].comparison.verdict == "worse"
        assert long["adam-translated"].comparison.verdict == "better"
    # "On Penn Treebank that is most of what Adam lacks"
    adam, adamw, ours = (ptb[n].score.mean for n in ("adam", "adamw", "adamomentum"))
    assert 0.5 < (adam - adamw) / (adam - ours) < 1
    assert {row.settings["weight_decay"] for row in ptb.values()} == {1.2e-4}
    assert {row.settings["betas"][0] for name, row in ptb.items() if name != "sgdm"} == {0.7}
    # "a lead over one alone, as with DenseNet and DCGAN"
    dense = races["cifar10_densenet121-mini-fair"]
    assert dense["adam"].comparison.verdict == "worse"
    assert dense["adam-translated"].comparison.verdict == "no difference detected"
    # "as-run Adam has no weight decay, AdaMomentum, AdaBelief and SGDM have", and its larger lr
    as_run = races["cifar10_resnet34-mini-as-run"]
    decay = {name: row.settings["weight_decay"] for name, row in as_run.items()}
    assert {name for name, value in decay.items() if value == 0} == {"adam", "adam-translated"}
    assert as_run["adam-translated"].comparison.verdict == "no difference detected"
    assert {row.settings["betas"][0] for name, row in gan.items() if name != "sgdm"} == {0.5}
    assert gan["adam-translated"].comparison.verdict == "worse"
    assert gan["adam"].comparison.verdict == "no difference detected"
    # "lr was tuned in place of eps"
    assert {row.settings.get("eps") for row in gan.values()} == {1e-8, 1e-16, None}
    # "there it is the largest that was tried"
    sgdm = {name: race["sgdm"] for name, race in races.items() if "sgdm" in race}
    assert {name for name, row in sgdm.items() if row.edge == "largest"} == {
        f"{name}-mini-fair"
        for name in ("cifar10_densenet121", "multi30k_transformer", "digits_cnn", "digits_mlp")
    }
    # "SGDM had no good lr among its trials"
    assert gan["sgdm"].score.mean > 10 * gan["adamomentum"].score.mean
