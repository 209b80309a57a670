"""The verdicts on the paper's claims."""

from dataclasses import replace

import pytest
from scipy import stats

from adamomentum_lab.race.result import Result
from adamomentum_lab.stats.comparisons import compare
from adamomentum_paper.claims import page as claims
from adamomentum_paper.claims import records, rules
from tests.tools.made import HIGHER, LOWER, NEAR, OURS, race_of, trial

UNTUNED = {"trials": 0}


@pytest.mark.parametrize(
    ("others", "verdict", "words"),
    [
        # Differences 4.9, 5.1, 4.9, 4.8, 5.2 have the mean 4.98 and the standard deviation 0.164;
        # with two pairs t(4) at 0.05 / 4 is 3.50, so half of the interval is 0.256.
        (
            {"adam": LOWER, "yogi": LOWER},
            "supported",
            "Better than adam (+4.98 (+4.72 to +5.24)) and yogi (",
        ),
        (
            {"adam": LOWER, "yogi": NEAR},
            "partly supported",
            "Undecided: yogi (-0.02 (-0.77 to +0.73)): seeds vary too much",
        ),
        ({"adam": LOWER}, "partly supported", "Not raced: yogi."),
        ({"adam": LOWER, "yogi": HIGHER}, "contradicted", "Worse than yogi (-5.0"),
        ({"adam": NEAR, "yogi": NEAR}, "undecided", "seeds vary too much"),
        ({"sgdm": LOWER}, "not tested", "Not raced: adam and yogi."),
    ],
)
def test_better_than_each(others, verdict, words):
    race = race_of({"adamomentum": OURS, **others}, spec=UNTUNED)
    judged = rules.better_than(race, ("adam", "yogi"))
    assert judged.verdict == verdict
    assert words in judged.found


def test_a_coarse_grid_decides_nothing():
    trials = {
        name: ([trial(0.001, 90.0), trial(0.01, 80.0)], 0) for name in ("adam", "adamomentum")
    }
    race = race_of({"adamomentum": OURS, "adam": LOWER}, trials=trials)
    judged = rules.better_than(race, ("adam",))
    assert judged.verdict == "undecided"
    assert "a better lr for adam" in judged.found
    assert rules.as_good_as(race, "adam").verdict == "undecided"


def test_a_smaller_perplexity_is_better():
    smaller = {"larger": False, "metric": "perplexity", "spec": UNTUNED}
    race = race_of({"adamomentum": OURS, "adam": HIGHER}, **smaller)
    assert rules.better_than(race, ("adam",)).verdict == "supported"
    assert rules.as_good_as(race, "adam").verdict == "supported"
    race = race_of({"adamomentum": OURS, "adam": LOWER}, **smaller)
    assert rules.better_than(race, ("adam",)).verdict == "contradicted"
    assert rules.as_good_as(race, "adam").verdict == "contradicted"


def test_one_seed_decides_nothing():
    race = race_of({"adamomentum": [90.0], "sgdm": [10.0]}, spec=UNTUNED)
    for judged in (rules.better_than(race, ("sgdm",)), rules.as_good_as(race, "sgdm")):
        assert judged.verdict == "undecided"
        assert "one seed" in judged.found


def test_failed_runs_are_not_comparable():
    race = race_of({"adamomentum": OURS, "adam": LOWER, "yogi": LOWER}, spec=UNTUNED)
    runs = list(race.record.runs)
    i = next(i for i, run in enumerate(runs) if run.spec.optimizer == "adam")
    runs[i] = replace(runs[i], status="failed", epochs=(), trained=0)
    failed = Result(replace(race.record, runs=tuple(runs)), race.name)
    judged = rules.better_than(failed, ("adam", "yogi"))
    assert judged.verdict == "partly supported"
    assert "Not comparable: adam." in judged.found
    assert rules.as_good_as(failed, "adam").verdict == "undecided"


def test_without_adamomentum_nothing_is_tested():
    race = race_of({"adam": OURS, "sgdm": LOWER}, target=90.0)
    assert rules.better_than(race, ("adam",)).verdict == "not tested"
    assert rules.as_good_as(race, "sgdm").verdict == "not tested"
    assert rules.least_varied(race, ("adam",)).verdict == "not tested"
    assert rules.faster_than(race, ("adam",)).verdict == "not tested"
    assert rules.default_works(race).verdict == "not tested"
    assert rules.robust_to_lr(race, ("adam",)).verdict == "not tested"


@pytest.mark.parametrize(
    ("ahead", "verdict"),
    [
        (0.0, "supported"),
        (-3.0, "supported"),  # better than the other is as good
        (0.3, "supported"),  # detected, and less than half a point
        (2.0, "contradicted"),
    ],
)
def test_as_good_as_sgdm(ahead, verdict):
    noise = [0.02, -0.01, 0.01, -0.02, 0.0]
    other = [value + ahead + e for value, e in zip(OURS, noise, strict=True)]
    race = race_of({"adamomentum": OURS, "sgdm": other}, spec=UNTUNED)
    judged = rules.as_good_as(race, "sgdm")
    assert judged.verdict == verdict


def test_what_the_interval_leaves_open_is_undecided():
    other = [value + e for value, e in zip(OURS, [2.0, -1.5, 1.0, -2.0, 0.5], strict=True)]
    race = race_of({"adamomentum": OURS, "sgdm": other}, spec=UNTUNED)
    judged = rules.as_good_as(race, "sgdm")
    assert judged.verdict == "undecided"
    # Mean 0, standard deviation 1.7: half of the interval is t(0.975, 4) 1.6956 / sqrt(5) = 2.11.
    assert "sgdm (0.0 (-2.1 to +2.1))" in judged.found
    assert "A lead of 0.5 for sgdm is not excluded." in judged.found
    lost = race_of({"adamomentum": OURS, "sgdm": [*OURS[:4], None]}, spec=UNTUNED)
    assert rules.as_good_as(lost, "sgdm").verdict == "undecided"
    assert rules.as_good_as(race_of({"adamomentum": OURS}), "sgdm").verdict == "not tested"


CALM = [1.00, 1.01, 0.99, 1.02, 0.98, 1.01]
WILD = [1.0, 9.0, -7.0, 4.0, -3.0, 5.0]


@pytest.mark.parametrize(
    ("ours", "others", "verdict"),
    [
        (CALM, {"adam": WILD, "sgdm": WILD}, "supported"),
        (CALM, {"adam": WILD, "sgdm": CALM[::-1]}, "partly supported"),
        (CALM, {"adam": WILD}, "partly supported"),
        (WILD, {"adam": CALM, "sgdm": WILD}, "contradicted"),
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
    assert judged.verdict == "supported"
    assert (
        "adamomentum 1.8 epochs to 90 accuracy, reached by 4 of 4 runs. Faster than sgdm by 3.5 "
        "(1.9 to 5.1)." in judged.found
    )
    assert rules.faster_than(race, ("sgdm", "adam")).verdict == "partly supported"
    assert rules.faster_than(race, ("adam",)).verdict == "undecided"
    always = {"adamomentum": [[1, 90]] * 3, "sgdm": [[90]] * 3}
    race = race_of({name: [1.0] * 3 for name in always}, target=90, epochs=always)
    judged = rules.faster_than(race, ("sgdm",))
    assert judged.verdict == "undecided"
    assert "No significant difference from sgdm (-1 for every seed)." in judged.found
    swapped = {"adamomentum": epochs["sgdm"], "sgdm": epochs["adamomentum"]}
    race = race_of({name: [1.0] * 4 for name in swapped}, target=90, epochs=swapped)
    assert rules.faster_than(race, ("sgdm",)).verdict == "contradicted"
    assert rules.faster_than(race_of(scores, epochs=epochs), ("sgdm",)).verdict == "not tested"
    lost = race_of({**scores, "sgdm": [None, 1.0, 1.0, 1.0]}, target=90, epochs=epochs)
    assert rules.faster_than(lost, ("sgdm",)).verdict == "undecided"


def tuned(*trials, **first):
    """Trials of AdaMomentum by lr and validation score, of which the second was chosen."""
    options = {"betas": [0.9, 0.999], "eps": 1e-16}
    one, *rest = trials
    made = [trial(*one, **options, **first), *(trial(*two, **options) for two in rest)]
    return {"adamomentum": (made, 1)}


@pytest.mark.parametrize(
    ("trials", "verdict"),
    [
        ([(0.001, 98.1), (0.01, 100.0)], "supported"),
        ([(0.001, 97.9), (0.01, 100.0)], "contradicted"),
        ([(0.001, None), (0.01, 100.0)], "contradicted"),
        ([(0.002, 98.1), (0.01, 100.0)], "not tested"),
        ([(0.001, None), (0.01, None)], "undecided"),
    ],
)
def test_the_default_beside_the_best_trial(trials, verdict):
    race = race_of({"adamomentum": OURS}, trials=tuned(*trials))
    assert rules.default_works(race).verdict == verdict


def test_a_default_that_halving_stopped_says_nothing():
    trials = tuned((0.001, 10.0), (0.01, 100.0), status="stopped", trained=1)
    judged = rules.default_works(race_of({"adamomentum": OURS}, trials=trials))
    assert judged.verdict == "not tested"
    assert "stopped the default after 1 of 5 epochs" in judged.found


@pytest.mark.parametrize(
    ("decades", "verdict"),
    [
        ({"adamomentum": 2.0, "adam": 1.0, "sgdm": None}, "supported"),
        ({"adamomentum": 1.0, "adam": 1.0, "sgdm": 2.0}, "undecided"),
        ({"adamomentum": None, "adam": 1.0, "sgdm": 2.0}, "contradicted"),
    ],
)
def test_how_many_learning_rates_are_good(decades, verdict):
    def race(status):
        trials = {
            name: ([trial(lr, 99.0 if lr <= 1e-3 * 10 ** (good or -9) else 50.0, status)
                    for lr in (1e-3, 1e-2, 1e-1)], 0)
            for name, good in decades.items()
        }  # fmt: skip
        return race_of(dict.fromkeys(decades, OURS), trials=trials)

    found = {row.optimizer: row.sensitivity.decades for row in race("done").rows}
    assert found == pytest.approx(decades)
    assert rules.robust_to_lr(race("done"), ("adam", "sgdm")).verdict == verdict
    judged = rules.robust_to_lr(race("stopped"), ("adam", "sgdm"))
    assert judged.verdict == "not tested"
    assert "stopped at different epochs" in judged.found


@pytest.mark.parametrize(
    ("before", "verdict"), [(LOWER, "supported"), (HIGHER, "contradicted"), (NEAR, "undecided")]
)
def test_what_a_change_buys(before, verdict):
    trials = {"eadam": ([trial(0.1)], 0), "adamomentum": ([trial(0.01)], 0)}
    race = race_of({"eadam": before, "adamomentum": OURS}, trials=trials, spec=UNTUNED)
    judged = rules.effect(race, "eadam", "adamomentum")
    assert judged.verdict == verdict
    assert judged.found.endswith("also differ in lr, which is part of the difference.")
    assert rules.effect(race, "adam", "eadam").verdict == "not tested"


@pytest.mark.parametrize(
    ("word", "verdict"),
    [
        ("holds", "supported"),
        ("holds only when", "partly supported"),
        ("does not hold", "contradicted"),
    ],
)
def test_statements_of_the_theory(word, verdict):
    found = {"statement": "The moon is far.", "word": word, "found": "By 1.3 s." + " So far." * 99}
    judged = records.theory({"findings": [found]}, "The moon")
    assert judged.verdict == verdict
    assert judged.found == f"{word.capitalize()}: {found['found']}"  # whole
    assert records.theory({"findings": [found]}, "The sun").verdict == "not tested"


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        (("flatter", "flatter"), "supported"),
        (("flatter", "no difference detected"), "partly supported"),
        (("no difference detected", "no difference detected"), "undecided"),
        (("flatter", "sharper"), "undecided"),
        (("sharper", "no difference detected"), "contradicted"),
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
    judged = records.flatter_than(record, "adam")
    assert judged.verdict == verdict
    assert "3 seeds: rise -0.50 (-0.70 to -0.30)" in judged.found
    assert "Loss at the solutions: -0.50 (-0.70 to -0.30) (no difference" in judged.found
    assert records.flatter_than(record, "yogi").verdict == "not tested"
    line = claims.flat_line({"cifar10_resnet34-mini-fair": record})
    assert line.judged.verdict == verdict
    assert claims.flat_line({"digits_cnn-mini-fair": record}).judged.verdict == "not tested"
    record["comparisons"][0]["verdict"] = "lower"
    judged = records.flatter_than(record, "adam")  # whoever was trained further is flatter
    assert judged.verdict == ("undecided" if "flatter" in verdicts else verdict)
    for one_of_two in record["comparisons"]:
        one_of_two["other"] += " (lr 0.01, 32-true)"
    assert records.flatter_than(record, "adam").verdict == "not tested"


def test_memory():
    assert records.memory({"adam": 8, "adamomentum": 8}).verdict == "supported"
    assert records.memory({"adam": 8, "adamomentum": 12}).verdict == "contradicted"
    assert records.state_bytes() == {"sgdm": 4, "adam": 8, "adamomentum": 8}


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        (("supported", "supported"), "supported"),
        (("supported", "not tested"), "partly supported"),
        (("supported", "contradicted"), "partly supported"),
        (("undecided", "contradicted"), "contradicted"),
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
        (LOWER, LOWER[::-1], "Undecided: there is a lead, but the effect"),
        (LOWER, [88.0, 88.2, 87.9, 88.4, 87.8], "No: AdaMomentum is also better"),
        (LOWER, NEAR, "Probably yes"),
        (LOWER, HIGHER, "Yes: Adam at the translated lr is even better"),
        (HIGHER, NEAR, "There is no lead: Adam is better."),
        (NEAR, NEAR, "Undecided: there is no significant lead"),
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
        (LOWER, LOWER, "Not lr alone: AdaMomentum is better than Adam with a tuned lr"),
        (LOWER, NEAR, "Undecided: there is no significant lead"),
        (NEAR, LOWER, "Undecided: there is no significant lead"),
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
        (("sgdm", "a", "b"), (), "supported"),
        (("sgdm", "a"), (), "partly supported"),
        (("a", "b"), (), "partly supported"),
        (("sgdm", "a", "b"), ("c",), "supported"),
        (("sgdm", "a"), ("b", "c"), "contradicted"),
        (("a", "b", "c"), ("sgdm",), "contradicted"),
        ((), (), "undecided"),
    ],
)
def test_faster_than_most(slower, faster, verdict):
    values = dict.fromkeys(slower, LOWER) | dict.fromkeys(faster, HIGHER)
    found = compare("adamomentum", OURS, values | {"other": NEAR}, True)
    assert rules._than_most(found, ("sgdm",), ("a", "b", "c")) == verdict


def test_a_race_with_another_baseline_says_the_same():
    scores = {"adamomentum": OURS, "adam": LOWER, "yogi": NEAR}
    race, other = race_of(scores), race_of(scores, spec={"baseline": "adam"})
    assert other.row("adam").verdict is None
    assert rules.better_than(other, ("adam", "yogi")) == rules.better_than(race, ("adam", "yogi"))
    assert rules.as_good_as(other, "yogi") == rules.as_good_as(race, "yogi")


def test_a_diverged_run_leaves_a_pair_undecided():
    lost = race_of({"adamomentum": [90.0, 91.0], "adam": [80.0, None]})
    judged = rules.better_than(lost, ("adam",))
    assert judged.verdict == "undecided"
    assert "adam diverged on a final seed" in judged.found
