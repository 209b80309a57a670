"""The records, the verdicts on the paper's claims, and the page of them."""

import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from scipy import stats

import claims
import keep
import paper
import rules
from adamomentum_lab.analysis import report
from adamomentum_lab.analysis.effects import effects
from adamomentum_lab.analysis.published import PAPER
from adamomentum_lab.analysis.ranking import Row
from adamomentum_lab.analysis.statistics import Estimate, compare
from adamomentum_lab.errors import LabError
from adamomentum_lab.workloads import find
from tests.adamomentum_lab.races import noisy, problem, raced

ROOT = Path(__file__).parents[1]
OURS = [90.0, 90.4, 89.7, 90.2, 89.9]
LOWER = [85.1, 85.3, 84.8, 85.4, 84.7]
HIGHER = [95.1, 95.3, 94.8, 95.4, 94.7]
NEAR = [90.3, 89.8, 90.1, 89.8, 90.3]


def race_of(scores, workload="cifar10_resnet34", larger=True, target=None, **more):
    """A race as its record holds it, with these test scores by seed, or None where one was lost.

    `epochs` has for each optimizer the validation scores of every epoch of every seed.
    """
    metric = more.get("metric", "accuracy")
    names = list(scores)
    found = {}
    if "adamomentum" in scores:
        others = {name: scores[name] for name in names if name != "adamomentum"}
        of = compare(scores["adamomentum"], others, f"test {metric}", larger)
        found = {c.other: asdict(c) for c in of}
    ranking = [
        {
            "optimizer": name,
            "rank": rank,
            "values": values,
            "score": asdict(Estimate.of([value for value in values if value is not None])),
            "comparison": found.get(name),
            "settings": {"lr": 0.001},
            "edge": None,
            "sensitivity": {
                "decades": (its := more.get("decades", {}).get(name)),
                "note": more.get("note")
                or ("no learning rate came within 2%" if its is None else None),
            },
        }
        for rank, (name, values) in enumerate(scores.items(), 1)
    ]
    curves = more.get("epochs", {name: [[]] * len(scores[name]) for name in names})
    runs = [
        {
            "stage": "final",
            "id": f"{name}{seed}",
            "spec": {"optimizer": name, "seed": seed},
            "status": "diverged" if scores[name][seed] is None else "done",
            "epochs": [
                {"epoch": i, "validation": {metric: score}} for i, score in enumerate(curve, 1)
            ],
            "machine": {"seconds": 36.0},
        }
        for name in names
        for seed, curve in enumerate(curves[name])
    ]
    spec = {
        "workload": workload,
        "scale": "mini",
        "protocol": "fair",
        "trials": 4,
        "halving": False,
    }
    spec |= {"seeds": len(next(iter(scores.values()))), **more.get("spec", {})}
    return {
        "name": more.get("name", f"{workload}-{spec['scale']}-{spec['protocol']}"),
        "spec": spec,
        "workload": {
            "about": "Made up.",
            "metric": metric,
            "larger_is_better": larger,
            "target": target,
            "selection": "validation",
            "epochs": 5,
        },
        "headline": "Somebody won.",
        "ranking": ranking,
        "runs": runs,
        "tuning": {"contenders": more.get("tuned", {})},
        "machine": {"command": "adamomentum race", "torch": "2", "adamomentum": "0"},
        "effects": more.get("effects", []),
    }


@pytest.mark.parametrize(
    ("others", "verdict", "words"),
    [
        ({"adam": LOWER, "yogi": LOWER}, "seen", "Better than adam by 4.98 (4.78 to 5.18)"),
        (
            {"adam": LOWER, "yogi": NEAR},
            "seen in part",
            "No difference detected to yogi (-0.58 to 0.62",
        ),
        ({"adam": LOWER}, "seen in part", "Not raced: yogi."),
        ({"adam": LOWER, "yogi": HIGHER}, "not seen", "Worse than yogi by"),
        ({"adam": NEAR, "yogi": NEAR}, "undecided", "could miss"),
        ({"adam": [*LOWER[:4], None]}, "undecided", "adam cannot be compared: runs were lost."),
        ({"sgdm": LOWER}, "not tested", "Not raced: adam and yogi."),
    ],
)
def test_better_than_each(others, verdict, words):
    judged = rules.better_than(race_of({"adamomentum": OURS, **others}), ("adam", "yogi"))
    assert judged.verdict == verdict
    assert words in judged.found


def test_a_smaller_perplexity_is_better():
    race = race_of({"adamomentum": OURS, "adam": HIGHER}, larger=False, metric="perplexity")
    assert rules.better_than(race, ("adam",)).verdict == "seen"
    assert rules.as_good_as(race, "adam").verdict == "seen"
    race = race_of({"adamomentum": OURS, "adam": LOWER}, larger=False, metric="perplexity")
    assert rules.better_than(race, ("adam",)).verdict == "not seen"
    assert rules.as_good_as(race, "adam").verdict == "not seen"


def test_one_seed_decides_nothing():
    race = race_of({"adamomentum": [90.0], "sgdm": [10.0]})
    for judged in (rules.better_than(race, ("sgdm",)), rules.as_good_as(race, "sgdm")):
        assert judged.verdict == "undecided"
        assert "one seed" in judged.found


def test_without_adamomentum_nothing_is_tested():
    race = race_of({"adam": OURS, "sgdm": LOWER}, target=90.0)
    assert rules.better_than(race, ("adam",)).verdict == "not tested"
    assert rules.as_good_as(race, "sgdm").verdict == "not tested"
    assert rules.least_varied(race, ("adam",)).verdict == "not tested"
    assert rules.faster_than(race, ("adam",)).verdict == "not tested"
    assert rules.default_works(race).verdict == "not tested"
    assert rules.robust_to_lr({**race, "ranking": []}, ("adam",)).verdict == "not tested"


@pytest.mark.parametrize(
    ("ahead", "verdict"),
    [
        (0.0, "seen"),
        (-3.0, "seen"),  # better than the other is as good
        (0.3, "seen"),  # detected, and less than half a point
        (2.0, "not seen"),
    ],
)
def test_as_good_as_sgdm(ahead, verdict):
    noise = [0.02, -0.01, 0.01, -0.02, 0.0]
    other = [value + ahead + e for value, e in zip(OURS, noise, strict=True)]
    judged = rules.as_good_as(race_of({"adamomentum": OURS, "sgdm": other}), "sgdm")
    assert judged.verdict == verdict


def test_what_the_interval_leaves_open_is_undecided():
    other = [value + e for value, e in zip(OURS, [2.0, -1.5, 1.0, -2.0, 0.5], strict=True)]
    judged = rules.as_good_as(race_of({"adamomentum": OURS, "sgdm": other}), "sgdm")
    assert judged.verdict == "undecided"
    # Mean 0, standard deviation 1.7: half of the interval is t(0.975, 4) 1.6956 / sqrt(5) = 2.11.
    assert "0.0 (-2.1 to 2.1): 0.5 and more ahead is not excluded" in judged.found
    lost = race_of({"adamomentum": OURS, "sgdm": [*OURS[:4], None]})
    assert rules.as_good_as(lost, "sgdm").verdict == "undecided"
    assert rules.as_good_as(race_of({"adamomentum": OURS}), "sgdm").verdict == "not tested"


CALM = [1.00, 1.01, 0.99, 1.02, 0.98, 1.01]
WILD = [1.0, 9.0, -7.0, 4.0, -3.0, 5.0]


@pytest.mark.parametrize(
    ("ours", "others", "verdict"),
    [
        (CALM, {"adam": WILD, "sgdm": WILD}, "seen"),
        (CALM, {"adam": WILD, "sgdm": CALM[::-1]}, "seen in part"),
        (CALM, {"adam": WILD}, "seen in part"),
        (WILD, {"adam": CALM, "sgdm": WILD}, "not seen"),
        (CALM, {"adam": CALM[::-1], "sgdm": CALM[::-1]}, "undecided"),
        (CALM[:2], {"adam": WILD[:2], "sgdm": WILD[:2]}, "undecided"),
        (CALM, {"adam": [*WILD[:5], None], "sgdm": CALM}, "undecided"),
    ],
)
def test_the_lowest_variance(ours, others, verdict):
    judged = rules.least_varied(race_of({"adamomentum": ours, **others}), ("adam", "sgdm"))
    assert judged.verdict == verdict


def test_pitman_and_morgan():
    """Against the correlation of sums and differences by SciPy."""
    a, b = [1.0, 2.5, 0.3, 4.0, 2.2], [1.1, 1.4, 1.0, 1.9, 1.2]
    sums, gaps = (
        [f(x, y) for x, y in zip(a, b, strict=True)] for f in (float.__add__, float.__sub__)
    )
    assert rules._pitman_morgan(a, b) == pytest.approx(stats.pearsonr(sums, gaps).pvalue)


def test_epochs_to_the_target_by_hand():
    epochs = {
        "adamomentum": [[80, 90], [91], [70, 80, 90], [90]],
        "sgdm": [[1, 2, 3, 4, 90], [1, 2, 3, 4, 5], [1] * 5, [1, 2, 3, 95]],
        "adam": [[80, 90], [1, 91], [90], [1, 90]],
    }
    scores = {name: [1.0, 2.0, 3.0, 4.0] for name in epochs}
    race = race_of(scores, target=90, epochs=epochs)
    assert rules._epochs_to_target(race, "adamomentum") == [2, 1, 3, 1]
    assert rules._epochs_to_target(race, "sgdm") == [5, 6, 6, 4]  # never is one more than 5
    judged = rules.faster_than(race, ("sgdm",))
    assert judged.verdict == "seen"
    assert (
        "adamomentum 1.8 epochs to 90 accuracy, reached by 4 of 4 runs. Faster than sgdm by 3.5 "
        "(1.9 to 5.1)." in judged.found
    )
    assert rules.faster_than(race, ("sgdm", "adam")).verdict == "seen in part"
    assert rules.faster_than(race, ("adam",)).verdict == "undecided"
    swapped = {"adamomentum": epochs["sgdm"], "sgdm": epochs["adamomentum"]}
    race = race_of({name: [1.0] * 4 for name in swapped}, target=90, epochs=swapped)
    assert rules.faster_than(race, ("sgdm",)).verdict == "not seen"
    assert rules.faster_than(race_of(scores, epochs=epochs), ("sgdm",)).verdict == "not tested"
    lost = race_of({**scores, "sgdm": [None, 1.0, 1.0, 1.0]}, target=90, epochs=epochs)
    assert rules.faster_than(lost, ("sgdm",)).verdict == "undecided"


def tuned(*trials, chosen=2, metric="accuracy"):
    """Trials of AdaMomentum by lr and validation score."""
    made = [
        {
            "settings": {"lr": lr, "betas": [0.9, 0.999], "eps": 1e-16},
            "validation": None if score is None else {metric: score},
            "status": "done",
            "epochs": 5,
        }
        for lr, score in trials
    ]
    return {"adamomentum": {"trials": made, "chosen": chosen}}


@pytest.mark.parametrize(
    ("trials", "verdict"),
    [
        ([(0.001, 98.1), (0.01, 100.0)], "seen"),
        ([(0.001, 97.9), (0.01, 100.0)], "not seen"),
        ([(0.001, None), (0.01, 100.0)], "not seen"),
        ([(0.002, 98.1), (0.01, 100.0)], "not tested"),
        ([(0.001, None), (0.01, None)], "undecided"),
    ],
)
def test_the_default_beside_the_best_trial(trials, verdict):
    race = race_of({"adamomentum": OURS}, tuned=tuned(*trials))
    assert rules.default_works(race).verdict == verdict


def test_a_default_that_halving_stopped_says_nothing():
    trials = tuned((0.001, 10.0), (0.01, 100.0))
    trials["adamomentum"]["trials"][0] |= {"status": "stopped", "epochs": 1}
    judged = rules.default_works(race_of({"adamomentum": OURS}, tuned=trials))
    assert judged.verdict == "not tested"
    assert "stopped the default after 1 of 5 epochs" in judged.found


@pytest.mark.parametrize(
    ("decades", "verdict"),
    [
        ({"adamomentum": 2.0, "adam": 1.0, "sgdm": None}, "seen"),
        ({"adamomentum": 1.0, "adam": 1.0, "sgdm": 2.0}, "undecided"),
        ({"adamomentum": None, "adam": 1.0, "sgdm": 2.0}, "not seen"),
    ],
)
def test_how_many_learning_rates_are_good(decades, verdict):
    race = race_of(dict.fromkeys(decades, OURS), decades=decades)
    assert rules.robust_to_lr(race, ("adam", "sgdm")).verdict == verdict
    stopped = race_of(dict.fromkeys(decades, OURS), note="trials were stopped at different epochs")
    judged = rules.robust_to_lr(stopped, ("adam", "sgdm"))
    assert judged.verdict == "not tested"
    assert "stopped at different epochs" in judged.found


@pytest.mark.parametrize(
    ("before", "verdict"), [(LOWER, "seen"), (HIGHER, "not seen"), (NEAR, "undecided")]
)
def test_what_a_change_buys(before, verdict):
    rows = [
        Row(name, {"lr": lr}, Estimate.of(values), values, 0, 0)
        for name, values, lr in (("eadam", before, 0.1), ("adamomentum", OURS, 0.01))
    ]
    found = effects(rows, find("digits_cnn").load()("mini", "fair"), tuned=True)
    race = race_of({"adamomentum": OURS}, effects=list(map(asdict, found)))
    judged = rules.effect(race, "eadam", "adamomentum")
    assert judged.verdict == verdict
    assert judged.found.endswith("also differ in lr, and what that does is part of the difference.")
    assert rules.effect(race, "adam", "eadam").verdict == "not tested"


@pytest.mark.parametrize(
    ("word", "verdict"),
    [("holds", "seen"), ("holds only when", "seen in part"), ("does not hold", "not seen")],
)
def test_statements_of_the_theory(word, verdict):
    found = {"statement": "The moon is far.", "word": word, "found": "By 1.3 s. " + "So far. " * 99}
    judged = rules.theory({"findings": [found]}, "The moon")
    assert judged.verdict == verdict
    assert judged.found.startswith(f"{word.capitalize()}: By 1.3 s. So far.")
    assert len(judged.found) < rules.ROOM + 100
    assert rules.theory({"findings": [found]}, "The sun").verdict == "not tested"


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        (("flatter", "flatter"), "seen"),
        (("flatter", "no difference detected"), "seen in part"),
        (("no difference detected", "no difference detected"), "undecided"),
        (("flatter", "sharper"), "undecided"),
        (("sharper", "no difference detected"), "not seen"),
    ],
)
def test_flatness(verdicts, verdict):
    def one(measure, said, other="adam", first="adamomentum"):
        gap = {"mean": -0.5, "half": 0.2, "n": 3}
        named = {"first": first, "other": other, "measure": measure}
        return {**named, "difference": gap, "verdict": said}

    record = {
        "spec": {"scale": "mini", "protocol": "fair", "examples": 300},
        "measures": {"rise": "rise", "trace": "trace of the Hessian"},
        "comparisons": [
            one("loss", "no difference detected"),
            one("rise", verdicts[0]),
            one("trace", verdicts[1]),
            one("rise", "sharper", "sgdm"),
        ],
    }
    judged = rules.flatter_than(record, "adam")
    assert judged.verdict == verdict
    assert "3 seeds: rise -0.50 (-0.70 to -0.30)" in judged.found
    assert "Loss at the solutions: -0.50 (-0.70 to -0.30) (no difference" in judged.found
    assert rules.flatter_than(record, "yogi").verdict == "not tested"
    line = claims.flat_line({"cifar10_resnet34-mini-fair": record})
    assert line.judged.verdict == verdict
    assert claims.flat_line({"digits_cnn-mini-fair": record}).judged.verdict == "not tested"
    record["comparisons"][0]["verdict"] = "lower"
    judged = rules.flatter_than(record, "adam")  # whoever was trained further is flatter
    assert judged.verdict == ("undecided" if "flatter" in verdicts else verdict)
    for one_of_two in record["comparisons"]:
        one_of_two["other"] += " (lr 0.01, 32-true)"
    assert rules.flatter_than(record, "adam").verdict == "not tested"


def test_memory():
    assert rules.memory({"adam": 8, "adamomentum": 8}).verdict == "seen"
    assert rules.memory({"adam": 8, "adamomentum": 12}).verdict == "not seen"
    assert claims.state_bytes() == {"sgdm": 4, "adam": 8, "adamomentum": 8}


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        (("seen", "seen"), "seen"),
        (("seen", "not tested"), "seen in part"),
        (("seen", "not seen"), "seen in part"),
        (("undecided", "not seen"), "not seen"),
        (("undecided", "not tested"), "undecided"),
        (("not tested", "not tested"), "not tested"),
    ],
)
def test_several_workloads_together(verdicts, verdict):
    judged = {f"w{i}": rules.Judged(one, "So.") for i, one in enumerate(verdicts)}
    assert rules.together(judged).verdict == verdict


@pytest.mark.parametrize(
    ("adam", "translated", "answer"),
    [
        (LOWER, LOWER[::-1], "Undecided: there is a lead, but what"),
        (LOWER, [88.0, 88.2, 87.9, 88.4, 87.8], "No: AdaMomentum is ahead"),
        (LOWER, NEAR, "As far as can be seen, yes"),
        (LOWER, HIGHER, "Yes, and more"),
        (HIGHER, NEAR, "There is no lead: Adam is ahead."),
        (NEAR, NEAR, "Undecided: no lead"),
    ],
)
def test_whether_a_lead_is_one_of_the_lr(adam, translated, answer):
    if answer.startswith("Undecided: there"):
        translated = [*translated[:4], None]
    scores = {"adamomentum": OURS, "adam": adam, "adam-translated": translated}
    race = race_of(scores, spec={"trials": 0})
    found, sentences = rules.lr_effect(race)
    assert found.startswith(answer)
    assert len(sentences) == 3
    assert rules.lr_effect(race_of({"adamomentum": OURS, "adam": adam})) is None


@pytest.mark.parametrize(
    ("adam", "translated", "answer"),
    [
        (LOWER, LOWER, "Not of lr alone: AdaMomentum is ahead of Adam with a tuned lr"),
        (LOWER, NEAR, "Undecided: no lead"),
        (NEAR, LOWER, "Undecided: no lead"),
        (LOWER, HIGHER, "There is no lead"),
        (HIGHER, LOWER, "There is no lead"),
    ],
)
def test_where_lr_is_tuned_a_lead_is_one_over_both(adam, translated, answer):
    race = race_of({"adamomentum": OURS, "adam": adam, "adam-translated": translated})
    found, sentences = rules.lr_effect(race)
    assert found.startswith(answer)
    assert len(sentences) == 2
    assert not any("adam-translated and adam " in sentence for sentence in sentences)


@pytest.mark.parametrize(
    ("slower", "faster", "verdict"),
    [
        (("sgdm", "a", "b"), (), "seen"),
        (("sgdm", "a"), (), "seen in part"),
        (("a", "b"), (), "seen in part"),
        (("sgdm", "a", "b"), ("c",), "seen"),
        (("sgdm", "a"), ("b", "c"), "not seen"),
        (("a", "b", "c"), ("sgdm",), "not seen"),
        ((), (), "undecided"),
    ],
)
def test_faster_than_most(slower, faster, verdict):
    found = [{"other": name, "verdict": "worse"} for name in slower]
    found += [{"other": name, "verdict": "better"} for name in faster]
    assert rules._than_most(found, ("sgdm",), ("a", "b", "c")) == verdict


def test_which_race_a_verdict_comes_from():
    def made(name, workload="ptb_lstm1", **spec):
        return race_of({"adamomentum": OURS}, workload, name=name, spec=spec)

    races = [
        made("smoke", scale="smoke"),
        made("as-run", protocol="as-run"),
        made("untuned", trials=0),
        made("other", workload="ptb_lstm2"),
    ]
    assert claims.bearing(races, "ptb_lstm1") is None
    races.append(made("mini"))
    assert claims.bearing(races, "ptb_lstm1")["name"] == "mini"
    races.append(race_of({"adamomentum": OURS, "adam": OURS}, "ptb_lstm1", name="more"))
    assert claims.bearing(races, "ptb_lstm1")["name"] == "more"
    races.append(made("full", scale="full"))
    assert claims.bearing(races, "ptb_lstm1")["name"] == "full"


def test_the_claims_cover_the_paper():
    judged = {name for claim in paper.CLAIMS for name in claim.workloads}
    assert judged == set(PAPER) == set(paper.TUNED)


def cells(page):
    """Of every row of every table."""
    return [
        re.split(r"(?<!\\)\|", line)[1:-1] for line in page.splitlines() if line.startswith("| ")
    ]


def test_without_records_nothing_is_tested():
    page = claims.page(claims.Records())
    assert "no race among them yet" in page
    verdicts = {row[1].strip() for row in cells(page) if len(row) == 5}
    assert verdicts == {"verdict", "---", "**not tested**", "**seen**"}  # seen is the memory
    assert page.count("**seen** (1)") == 1
    assert claims.REPORT not in page


def test_a_page_of_made_up_records():
    full = {"adamomentum": OURS, **dict.fromkeys(paper.SEVEN, LOWER)}
    three = {"adamomentum": OURS, "adam": HIGHER, "adam-translated": HIGHER}
    races = [
        race_of(full),
        race_of(dict(reversed(full.items())), spec={"protocol": "as-run", "trials": 0}),
        race_of(three, "ptb_lstm1", larger=False, metric="perplexity"),
        race_of(full, "imagenet_resnet18"),
        race_of(full, "cifar10_dcgan", metric="fd-cnn"),
    ]
    finding = {
        "statement": "In area A|B",
        "word": "does not hold",
        "found": "Of |x| nothing *held*.",
    }
    theory = {"curvature": {"size": "default", "findings": [finding]}}
    page = claims.page(claims.Records(races, theory))
    assert {len(row) for row in cells(page)} <= {2, 3, 5}
    text = " ".join(page.split())
    assert "the same: `cifar10_resnet34` | **seen**" in text
    # On other data than the paper's, nothing is said about its claim.
    assert (
        "slightly better than SGDM” (section 5.2.1, ImageNet): `imagenet_resnet18` | **not" in text
    )
    assert "### imagenet_resnet18 Made up." in text
    assert "fd-cnn, where the paper has fid" in text
    assert "| **not seen** | Does not hold: Of \\|x\\| nothing \\*held\\*." in text
    assert "### cifar10_resnet34, mini" in text
    assert "**not tested** | eadam was not raced beside adamomentum." in text
    assert "| 1 | **adamomentum** 90.04 ± 0.34 (n = 5) | adabelief 85.06" in text
    assert "Not of lr alone: AdaMomentum is ahead of Adam with a tuned lr, on either grid." in text
    assert f"({claims.REPORT}#race-ptb_lstm1-mini-fair)" in text
    assert "Nothing was run at the paper's scale" in text


def test_the_committed_page_is_what_the_records_make(tmp_path):
    assert claims.main(["--out", str(tmp_path / "results.md")]) == 0
    made = (tmp_path / "results.md").read_text()
    assert made == claims.PAGE.read_text(), "run `make results`"


def test_the_committed_records_have_what_is_asked_of_them():
    theory = claims.Records.of().theory
    for one in paper.THEOREMS:
        assert rules.theory(theory[one.record], one.statement).verdict != "not tested", one


def test_committed_records_tell_of_no_machine():
    for file in (ROOT / "results").rglob("*.json"):
        text = file.read_text()
        assert not re.search(r"[\"' ]~?/(?:[\w.-]+/)+|platform|\"(?:node|folder|host)\"", text), (
            file
        )
        assert len(text) < 700_000, f"{file}: a record is small"


def kept(folder, out):
    (file,) = keep.keep_races([folder], out)
    return json.loads(file.read_text())


def test_a_race_is_kept_small_and_whole(tmp_path):
    result = raced(tmp_path, problem(tmp_path, target=80.0))
    (source,) = tmp_path.glob("races/*/race.json")
    big, small = json.loads(source.read_text()), kept(tmp_path, tmp_path / "out")
    assert small["spec"] == big["spec"]
    assert [row["optimizer"] for row in small["ranking"]] == [row.optimizer for row in result.rows]
    assert small["ranking"][0]["score"]["mean"] == pytest.approx(result.rows[0].score.mean, 1e-5)
    for before, after in zip(big["runs"], small["runs"], strict=True):
        assert after["spec"]["settings"] == before["spec"]["settings"]
        assert (after["id"], after["status"]) == (before["id"], before["status"])
        trial = after["stage"] == "tuning"
        assert (after["epochs"] == []) == trial
        assert ("test" in after["final"]) != trial
    # The workload is a file of this machine; its folder is not told.
    assert str(tmp_path) in big["machine"]["command"]
    assert small["machine"]["command"].startswith("adamomentum race plain.py --optimizers")
    assert str(tmp_path) not in json.dumps(small)
    assert "platform" not in small["machine"]
    # The same page can be made from it, and the same epochs to the target be counted.
    (tmp_path / "out" / "page.html").write_text(
        report.page(report.load(tmp_path / "out"), tmp_path / "out")
    )
    for row in result.rows:
        epochs = rules._epochs_to_target(small, row.optimizer)
        if row.reached == len(epochs):
            assert sum(epochs) / len(epochs) == pytest.approx(row.epochs_to_target.mean)


def test_what_fails_keeps_its_words_without_folders(tmp_path):
    def failing(spec):
        return "failed" if spec.optimizer == "sgdm" and spec.seed == 2 else noisy(spec)

    raced(tmp_path, problem(tmp_path), failing)
    (file,) = tmp_path.glob("races/*/race.json")
    race = json.loads(file.read_text())
    for run in race["runs"]:
        if "error" in run:
            run["error"] = f"OSError: cannot write '{tmp_path}/a.pt', 3 of 7/8 done"
    file.write_text(json.dumps(race))
    errors = [run["error"] for run in kept(tmp_path, tmp_path / "out")["runs"] if "error" in run]
    assert errors == ["OSError: cannot write 'a.pt', 3 of 7/8 done"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda race: race["runs"].pop(), "is half-finished: it has 11 final runs; the command"),
        (lambda race: race["runs"][-1].update(status="running"), "half-finished: a run is running"),
        (lambda race: race["spec"].pop("search"), "was written by an older version"),
        (lambda race: race["tuning"].pop("words"), "was written by an older version"),
        (lambda race: race.pop("tuning"), "was written by an older version"),
        (lambda race: race["ranking"][0].pop("edge"), "was written by an older version"),
        (lambda race: race.pop("workload"), "was written by another version"),
    ],
)
def test_what_is_not_whole_is_refused(tmp_path, capsys, spoil, words):
    raced(tmp_path, problem(tmp_path))
    (file,) = tmp_path.glob("races/*/race.json")
    race = json.loads(file.read_text())
    spoil(race)
    file.write_text(json.dumps(race))
    assert keep.main([str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_races_of_one_name(tmp_path, capsys):
    out = tmp_path / "out"
    raced(tmp_path, problem(tmp_path))
    raced(tmp_path, problem(tmp_path), trials=0, seeds=2)
    assert keep.main([str(tmp_path), "--out", str(out)]) == 1
    assert "would both be called plain-mini-fair" in capsys.readouterr().err
    one, two = sorted(tmp_path.glob("races/*"))
    assert keep.main([str(one), "--out", str(out)]) == 0
    assert keep.main([str(two), "--name", "plain-other", "--out", str(out)]) == 0
    assert {file.parent.name for file in out.glob("races/*/race.json")} == {
        "plain-mini-fair",
        "plain-other",
    }
    assert keep.main([str(tmp_path / "nowhere")]) == 1
    assert "no finished race" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        keep.main([])


def test_theory_is_kept_without_its_numbers(tmp_path, capsys):
    found = {
        "claim": "sphere",
        "size": "default",
        "verdict": "holds",
        "summary": "of 1 statement 1 holds.",
        "findings": [{"statement": "a", "word": "holds", "found": "b"}],
        "numbers": {"x": [1.0] * 1000},
        "machine": {"torch": "2", "commit": None, "platform": "secret", "seconds": 1.0},
    }
    file = tmp_path / "sphere.json"
    file.write_text(json.dumps(found))
    assert keep.main(["--theory", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    (record,) = (tmp_path / "out" / "theory").glob("*.json")
    read = json.loads(record.read_text())
    assert read["versions"] == {"torch": "2"}
    assert read.keys() == {"claim", "size", "verdict", "summary", "findings", "versions"}
    for change, words in (
        ({"size": "smoke"}, "is of size smoke"),
        ({"summary": ...}, "older version"),
    ):
        spoiled = {key: value for key, value in {**found, **change}.items() if value is not ...}
        with pytest.raises(LabError, match=words):
            keep.theory_record(spoiled, file)
    file.write_text("[]")
    assert keep.main(["--theory", str(tmp_path)]) == 1
    file.unlink()
    assert keep.main(["--theory", str(tmp_path)]) == 1
    assert "there is no theory in" in capsys.readouterr().err


@pytest.mark.slow
def test_the_site_has_the_races_and_the_changes(tmp_path):
    for package in ("material", "mkdocstrings_handlers.python"):
        pytest.importorskip(package, reason="of the extra docs")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    races = (tmp_path / "results" / "races.html").read_text()
    links = re.findall(r'href="races.html#([^"]+)"', (tmp_path / "results/index.html").read_text())
    assert links
    assert {f'id="{anchor}"' in races for anchor in links} == {True}
    assert "Unreleased" in (tmp_path / "changelog" / "index.html").read_text()
    found = json.loads((tmp_path / "search" / "search_index.json").read_text())["docs"]
    assert {"results/", "changelog/"} <= {page["location"] for page in found}
