"""What looks spend: at most 5 % for a question, however often it is asked."""

import random
from dataclasses import replace

import pytest
from benchmarks.verdict_laws import World
from benchmarks.verdict_looks import PEOPLE, misled

from adamomentum_lab.contender import Entry
from adamomentum_lab.engine.store import Store
from adamomentum_lab.race.looks import Look, plan_looks, record_looks
from adamomentum_lab.race.plan import Race
from adamomentum_lab.race.referee import Pair
from adamomentum_lab.report.verdicts import looks_sentence
from tests.adamomentum_lab.race.test_race import PEAKS, made_up, score_by_lr

BASE = Race(
    workload="w", code="c", optimizers=("adam", "sgdm"), trials=4, seeds=5, scale="mini",
    protocol="fair",
)  # fmt: skip
PAIR = Pair("sgdm", "adam")


def look(store, race=BASE, seeds=None, luck=0.0):
    """Take the looks of a race whose contenders have so many seeds: its levels and the looks."""
    levels = plan_looks(race, store)
    scores = {name: [luck] * (seeds or race.seeds) for name in race.optimizers}
    return levels, record_looks(race, store, levels, scores)


def spent(store, *races):
    """The level of each race's look in turn."""
    return [look(store, race)[0][PAIR][race.seeds] for race in races]


def with_seeds(*seeds, **changes):
    return [replace(BASE, seeds=count, **changes) for count in seeds]


@pytest.mark.parametrize(
    ("seeds", "levels"),
    [
        ((5, 10, 20, 40), (0.01, 0.015, 0.025, 0)),
        ((3, 5, 10), (0.01, 0, 0.015)),
        ((7, 10, 20), (0.025, 0, 0.025)),
        ((20, 5, 40), (0.05, 0, 0)),
        ((6, 11), (0.025, 0.025)),
    ],
)
def test_more_seeds_spend_what_their_number_leaves(tmp_path, seeds, levels):
    assert spent(Store(tmp_path), *with_seeds(*seeds)) == list(levels)


def test_a_look_is_kept_by_the_store_with_what_was_spent_in_all(tmp_path):
    _, looks = look(Store(tmp_path))
    assert looks == (Look("sgdm", "adam", 5, 0.01, 0.01),)
    _, looks = look(Store(tmp_path), replace(BASE, seeds=10))
    assert looks == (Look("sgdm", "adam", 10, 0.015, 0.025),)


def test_the_same_look_again_costs_nothing(tmp_path):
    store = Store(tmp_path)
    same = [*with_seeds(5, 10, 5, 10, 5), replace(BASE, margin=0.5), replace(BASE, looks="all")]
    assert spent(store, *same) == [0.01, 0.015, 0.01, 0.015, 0.01, 0.01, 0.01]
    assert sum(one.level for one in store.looks("w c mini fair")) == pytest.approx(0.025)


def test_one_look_spends_all_and_closes_the_question(tmp_path):
    store = Store(tmp_path)
    one = replace(BASE, looks="all")
    assert spent(store, one, *with_seeds(10, 20, 100), one) == [0.05, 0, 0, 0, 0.05]


def test_one_look_after_others_spends_what_is_left(tmp_path):
    assert spent(Store(tmp_path), BASE, replace(BASE, seeds=6, looks="all")) == [0.01, 0.04]


@pytest.mark.parametrize(
    "changes",
    [
        {"trials": 10}, {"search": "random"}, {"tune": ("eps",)}, {"own_decay": True},
        {"space": ("adam.lr=1e-5:1",)}, {"search": "grid", "halving": True},
    ],
)  # fmt: skip
def test_other_runs_are_another_look_at_the_same_question(tmp_path, changes):
    other = replace(BASE, **changes)
    assert spent(Store(tmp_path), BASE, other, replace(other, seeds=10)) == [0.01, 0, 0.015]


def test_more_settings_beside_the_tuned_ones_continue_a_look(tmp_path):
    """The referee stops where it may add no more: whoever allows more goes on from there."""
    assert spent(Store(tmp_path), BASE, replace(BASE, certify=16)) == [0.01, 0.01]


def test_the_baseline_does_not_make_another_question(tmp_path):
    store = Store(tmp_path)
    look(store)
    levels = plan_looks(replace(BASE, seeds=10, baseline="sgdm"), store)
    assert levels == {Pair("adam", "sgdm"): {10: 0.015}}


@pytest.mark.parametrize(
    "changes",
    [{"workload": "v"}, {"code": "d"}, {"scale": "full"}, {"protocol": "paper"}, {"trials": 0}],
)
def test_another_problem_is_another_question(tmp_path, changes):
    assert spent(Store(tmp_path), BASE, replace(BASE, **changes)) == [0.01, 0.01]


def test_every_pair_is_a_question_of_its_own(tmp_path):
    store = Store(tmp_path)
    look(store)
    wider = replace(BASE, optimizers=("adam", "sgdm", "yogi"), trials=5)
    levels = plan_looks(wider, store)
    assert levels == {PAIR: {5: 0.0}, Pair("yogi", "adam"): {5: 0.01}}


def test_the_closest_pair_of_many_stays_one_of_many(tmp_path):
    """Whoever races all, then the best two alone, has chosen these by their scores."""
    store = Store(tmp_path)
    wider = replace(BASE, optimizers=("adam", "sgdm", "yogi", "sign", "nadam"))
    levels, looks = look(store, wider)
    assert set(map(tuple, (own.items() for own in levels.values()))) == {((5, 0.01),)}
    # Alone it has a quarter of the level: what its part of the four pairs was.
    again, (one,) = look(store)
    assert again == {PAIR: {5: pytest.approx(0.0025)}}
    assert (one.level, one.spent) == (pytest.approx(0.0025), looks[0].spent)
    more, (one, *_) = look(store, replace(BASE, seeds=10))
    assert more == {PAIR: {10: pytest.approx(0.015 / 4)}}
    assert one.spent == pytest.approx(0.025)
    # Among more pairs it is one of more.
    widest = replace(wider, optimizers=(*wider.optimizers, "adamw", "radam", "rmsprop", "adabound"))
    assert plan_looks(widest, store)[PAIR] == {5: 0.01}


@pytest.mark.parametrize("baseline", ["yogi", "sign", None])
def test_a_pair_that_was_seen_in_a_ranking_is_one_of_all_its_pairs(tmp_path, baseline):
    """Whoever races the best and the worst of five has chosen them, though they were not compared:
    they are one of ten pairs."""
    store = Store(tmp_path)
    five = ("adam", "sgdm", "yogi", "sign", "nadam")
    look(store, replace(BASE, optimizers=five))
    chosen = replace(BASE, optimizers=("yogi", "sign"), baseline="yogi")
    levels, ((one),) = look(store, chosen)
    assert levels == {Pair("sign", "yogi"): {5: pytest.approx(0.01 / 10)}}
    assert one.spent == pytest.approx(0.01)
    # With another baseline, or all pairs, they are one of ten too.
    again = plan_looks(replace(BASE, optimizers=five, baseline=baseline), store)
    (pair,) = (pair for pair in again if {pair.a, pair.b} == {"yogi", "sign"})
    assert again[pair][5] / len(again) == pytest.approx(0.01 / 10)


def test_another_name_is_not_another_contender(tmp_path):
    entry = Entry("/home/me/lion.py:Lion", {"lr": 0.1}, "code", {"lr": 0.1})
    other = replace(entry, options={"lr": 0.2}, defaults={"lr": 0.2})

    def named(name, entry, seeds):
        both = ("adam", name)
        return replace(BASE, optimizers=both, entries={name: entry}, seeds=seeds, baseline="adam")

    store = Store(tmp_path)
    races = [named("lion", entry, 5), named("tiger", entry, 10), named("cat", other, 10)]
    levels = [next(iter(look(store, race)[0].values())) for race in races]
    assert levels == [{5: 0.01}, {10: 0.015}, {10: 0.025}]


def test_looks_at_other_versions_of_a_workload_are_told(tmp_path):
    store = Store(tmp_path)
    assert look(store)[1][0].uncounted == 0
    _, (other,) = look(store, replace(BASE, code="d"))
    assert (other.spent, other.uncounted) == (0.01, 1)
    assert look(store, replace(BASE, workload="v"))[1][0].uncounted == 0
    # The same race with other numbers: a file that it reads has changed.
    _, (changed,) = look(store, luck=0.5)
    assert (changed.spent, changed.uncounted) == (0.01, 2)
    assert look(store, luck=0.5)[1] == (changed,)
    assert "2 earlier looks at these optimizers" in looks_sentence([changed])
    assert "earlier" not in looks_sentence([replace(changed, uncounted=0)])


def test_until_decided_only_looks_that_were_taken_count(tmp_path):
    store = Store(tmp_path)
    race = replace(BASE, looks="until decided")
    levels, looks = look(store, race, seeds=10)
    assert levels == {PAIR: {5: 0.01, 10: 0.015, 20: 0.025}}
    assert [(one.seeds, one.level, one.spent) for one in looks] == [
        (5, 0.01, 0.025), (10, 0.015, 0.025)
    ]  # fmt: skip
    assert spent(store, replace(BASE, seeds=20)) == [0.025]


def test_a_race_until_decided_starts_where_the_others_stopped(tmp_path):
    store = Store(tmp_path)
    look(store)
    assert plan_looks(replace(BASE, seeds=10, looks="until decided"), store) == {
        PAIR: {10: 0.015, 20: 0.025}
    }


def test_repeated_races_share_the_level_and_their_intervals_show_it(tmp_path):
    """The whole way: the second race on the same question has a wider interval than it would have
    had alone, and the same race again says the same."""
    accuracy = score_by_lr({**PEAKS, "sgdm": (90.0, -2.0)}, noise=1.0)

    def run(folder, seeds):
        result, _ = made_up(folder, accuracy, "adam", "sgdm", trials=3, seeds=seeds)
        (verdict,) = result.verdicts
        return verdict

    alone = [run(tmp_path, seeds) for seeds in (5, 10)]
    assert [verdict.level for verdict in alone] == [0.01, 0.015]
    (tmp_path / "other").mkdir()
    fresh = run(tmp_path / "other", 10)
    assert fresh.level == 0.025
    assert fresh.difference == alone[1].difference

    def width(verdict):
        low, high = verdict.seed_interval
        return high - low

    assert width(alone[1]) > width(fresh)
    assert [run(tmp_path, seeds) for seeds in (5, 10)] == alone


@pytest.mark.parametrize("name", ["eight, then best and worst alone", "other names and more seeds"])
def test_asking_again_until_it_pleases_seldom_helps(tmp_path, name):
    """`benchmarks/verdict_looks.py` asks 1,000 people in ten ways. Before a ranking and a new name
    counted, 44 and 18 % of these got a false verdict."""
    person, tuned = PEOPLE[f"untuned, {name}"]
    draw = random.Random(0)
    folders = [tmp_path / str(i) for i in range(20)]
    assert sum(misled(person, tuned, World(draw), folder) for folder in folders) <= 2
