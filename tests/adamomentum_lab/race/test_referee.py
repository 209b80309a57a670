"""The referee: which runs it asks for, and that its verdicts are rarely false."""

import math
import random

import pytest
from benchmarks import verdict_laws, verdict_traps, verdicts
from benchmarks.verdict_problems import problems

from adamomentum_lab.race import referee as referee_module
from adamomentum_lab.race.bracket import Axis, Choice, SearchSpace, bracket
from adamomentum_lab.race.referee import Conduct, Pair, Referee
from adamomentum_lab.stats.verdicts import Interval, kind_of

AB = Pair("a", "b")


def race(score, conduct, names="ab", resolution=0.0, spaces=None):
    """Conduct a race on a function (contender, decades from the start, seed, stage) -> score."""
    spaces = spaces or {name: SearchSpace({}, (Axis("lr", 1e-3),)) for name in names}
    referee = Referee(spaces, conduct, {name: bracket(own) for name, own in spaces.items()})
    referee.resolution = resolution
    done, tasks = [], referee.begin()
    while tasks:
        task = tasks.pop()
        done.append(task)
        found = score(task.contender, *map(float, task.point), task.seed, task.stage)
        lost = found is not None and not math.isfinite(found)
        told = None if found is None else (found, math.inf if lost else 0.0)
        tasks += referee.tell(task, told)
    assert referee.judged
    return referee, done


def conduct(trials=10, levels=None, **others):
    return Conduct(trials, levels or {5: 0.05}, (AB,), **others)


def noise(contender, x, seed):
    return random.Random(f"{contender} {x} {seed}").gauss(0, 0.05)


def bowls(gap, at=0.0):
    def score(contender, x, seed, stage):
        best, middle = (0.0, 0.0) if contender == "a" else (gap, at)
        return best + (x - middle) ** 2 + noise(contender, x, seed)

    return score


def test_a_tie_needs_no_neighbours():
    referee, done = race(bowls(0.0), conduct())
    assert referee.kind(AB) == "undecided"
    assert all(len(own.asked) == 1 for own in referee.contenders.values())
    assert sum(task.stage == "final" for task in done) == 10


def test_only_the_loser_is_run_beside_its_tuned_setting():
    referee, _ = race(bowls(1.0, at=0.4), conduct())
    assert referee.kind(AB) == "better"
    assert len(referee.contenders["a"].asked) == 1
    assert len(referee.contenders["b"].asked) >= 3


def test_the_tuning_seed_is_not_a_final_seed():
    _, done = race(bowls(1.0), conduct())
    assert {task.seed for task in done if task.stage == "tuning"} == {0}
    assert {task.seed for task in done if task.stage == "final"} == {1, 2, 3, 4, 5}


def test_every_contender_has_at_most_the_same_trials():
    referee, done = race(bowls(0.5, at=-6.0), conduct(trials=7))
    for name, own in referee.contenders.items():
        count = sum(task.contender == name and task.stage == "tuning" for task in done)
        assert count == len(own.trials) <= 7


def test_a_search_that_ended_too_early_is_certified_or_undecided():
    """With two trials the best lr of b, a decade and a half away, was never tried."""
    referee, _ = race(bowls(0.0, at=1.5), conduct(trials=2))
    assert referee.kind(AB) == "undecided"
    assert referee.contenders["b"].certified > 0


def test_certification_is_bounded():
    referee, _ = race(bowls(0.0, at=30.0), conduct(trials=2, certify=3))
    assert referee.contenders["b"].certified == 3
    assert referee.kind(AB) == "undecided"


def test_a_lost_run_makes_a_pair_incomparable():
    def score(contender, x, seed, stage):
        lost = contender == "b" and stage == "final" and seed == 3
        return None if lost else bowls(1.0)(contender, x, seed, stage)

    referee, _ = race(score, conduct())
    assert referee.kind(AB) == "not comparable"


def test_a_contender_that_diverges_on_a_final_seed_cannot_win():
    def score(contender, x, seed, stage):
        if contender == "a" and stage == "final" and seed == 2:
            return math.inf
        return bowls(1.0)(contender, x, seed, stage)

    referee, _ = race(score, conduct())
    assert referee.kind(AB) != "better"


@pytest.mark.parametrize("axes", [(Axis("lr", 1e-3),), ()])
def test_a_loser_may_have_been_tuned_to_the_wrong_choice(axes):
    """Tuning, on one seed, takes the worse of b's two momenta. With the other one it ties."""
    momentum = (Choice("momentum", (0.9, 0.99)),)
    spaces = {"a": SearchSpace({}, axes), "b": SearchSpace({}, axes, momentum)}

    def score(contender, *rest):
        *point, seed, stage = rest
        x, better = (point[0] if axes else 0.0), contender == "b" and point[-1] == 1
        misled = 2.0 if better and stage == "tuning" else 0.0
        gap = 0.5 if contender == "b" and not better else 0.0
        return x * x + gap + misled + noise(contender, (x, better), seed)

    referee, _ = race(score, conduct(trials=20), spaces=spaces)
    b = referee.contenders["b"]
    assert b.tuned[-1] == 0
    assert {point[-1] for point in b.asked} == {0, 1}
    assert referee.kind(AB) == "undecided"


def test_the_best_of_all_settings_together_is_run():
    """b is worse at its tuned setting, but not with another lr and another momentum at once."""
    spaces = {
        "a": SearchSpace({}, (Axis("lr", 1e-3),)),
        "b": SearchSpace({}, (Axis("lr", 1e-3),), (Choice("momentum", (0.9, 0.99)),)),
    }

    def score(contender, *rest):
        *point, seed, stage = rest
        if contender == "a":
            return point[0] ** 2 + noise("a", point[0], seed)
        at, best = (0.0, 1) if stage == "final" else (0.75, 0)
        return (point[0] - at) ** 2 + 0.3 * (point[1] != best) + noise("b", point, seed)

    referee, _ = race(score, conduct(trials=20), spaces=spaces)
    b = referee.contenders["b"]
    assert b.tuned == (0.75, 0)
    assert min(b.asked, key=lambda point: sum(b.finals[point].values()))[1] == 1
    assert referee.kind(AB) == "undecided"


def test_a_contender_that_diverges_everywhere_leaves_it_undecided():
    def score(contender, x, seed, stage):
        return math.inf if contender == "b" else bowls(0.0)(contender, x, seed, stage)

    referee, _ = race(score, conduct(certify=2))
    assert referee.kind(AB) == "undecided"
    assert referee.contenders["b"].certified == 2


def test_equivalence_needs_both_to_be_certified():
    referee, _ = race(bowls(0.0), conduct(margin=0.3))
    assert referee.kind(AB) == "equivalent"
    assert all(len(own.asked) >= 3 for own in referee.contenders.values())


def test_more_looks_take_more_seeds_for_open_pairs_only():
    pairs = (Pair("a", "base"), Pair("b", "base"))
    levels = {3: 0.01, 6: 0.015, 12: 0.025}

    def score(contender, x, seed, stage):
        best = {"base": 0.0, "a": 5.0, "b": 0.0}[contender]
        return best + x * x + noise(contender, x, seed)

    plan = Conduct(8, levels, pairs)
    referee, _ = race(score, plan, names=("base", "a", "b"))
    seeds = {name: own.seeds for name, own in referee.contenders.items()}
    assert seeds == {"base": 12, "a": 3, "b": 12}
    assert [referee.kind(pair) for pair in pairs] == ["worse", "undecided"]


def test_untuned_contenders_are_run_at_their_start():
    referee, done = race(bowls(1.0), conduct(trials=0, certify=0))
    assert {task.stage for task in done} == {"final"}
    assert {task.point for task in done} == {referee.contenders["a"].space.start}


def test_the_same_results_lead_to_the_same_tasks():
    first, second = (race(bowls(0.3, at=0.7), conduct())[1] for _ in range(2))
    assert set(first) == set(second)


def test_a_bound_that_one_point_made_possible_needs_a_second_one():
    """B is a vee whose points lie on its lines exactly: at every step the bound is A's own score,
    and noise alone decides on which side of it. What the first bound says is not believed."""
    needed = []
    for gap in (0.25, 3.0):

        def score(contender, x, seed, stage, gap=gap):
            curve = gap + (0.5 * abs(x) if x < 0 else 2 * x) if contender == "b" else abs(x)
            return curve + noise(contender, x, seed)

        referee, _ = race(score, conduct())
        assert referee.kind(AB) == "better"
        needed.append(referee.contenders["b"].certified)
    close, clear = needed
    # A clear lead holds at the ninth part of the level: no confirmation is asked for.
    assert clear == 0
    assert close >= 1


def test_a_record_in_any_order_gives_the_same_verdict():
    """Which point was run last follows from the scores; nobody has to remember it."""
    for gap in (0.1, 0.2, 0.3):
        referee, _ = race(bowls(gap, at=0.3), conduct())
        before = referee.interval(AB)
        for own in referee.contenders.values():
            own.finals = dict(sorted(own.finals.items(), reverse=True))
            own.asked, own._known = sorted(own.asked), {}
        assert referee.interval(AB) == before


@pytest.mark.parametrize("trials", [4, 10])
def test_verdicts_are_rarely_false(trials):
    """A few races of every problem; `benchmarks/verdicts.py` runs 2,000 of each."""
    races, count, false, power = 5, 0, 0, []
    for problem in problems():
        if not problem.assumed:
            continue
        (cell,) = verdicts.simulate(problem, [trials], [10], races, rows=64)
        count += races
        false += cell.winners + cell.equals
        if problem.gap >= 1.99:
            power.append(cell.decided)
    assert len(power) > 15
    assert false <= 0.03 * count
    assert sum(power) / len(power) >= 0.7


def test_races_built_to_mislead_seldom_do():
    """A few of each; `benchmarks/verdict_traps.py` runs 1,000."""
    races, false = 10, 0
    known = [trap for trap in verdict_laws.traps() if trap.knowable]
    for trap in known:
        false += verdict_traps.count_kinds(trap, 4, [10], races)[1]
    assert len(known) > 40
    assert false <= 0.03 * races * len(known)


def test_the_simulation_notices_a_rule_that_misleads(monkeypatch):
    """Without the reach of the tuning, the same races are mostly false."""
    (problem,) = [one for one in problems() if one.name == "a tie, two vees"]
    honest = verdicts.simulate(problem, [4], [10], 30)[0]
    monkeypatch.setattr(referee_module, "kind_of", lambda found, _: kind_of(without_reach(found)))
    misled = verdicts.simulate(problem, [4], [10], 30)[0]
    assert honest.winners <= 3
    assert misled.winners > 15


def without_reach(found):
    return Interval(found.seeds_low, found.seeds_high, found.seeds_low, found.seeds_high)


def test_an_untuned_race_ends_at_the_look_that_decides_it():
    """The question is about these settings alone: nothing beside them needs to be bounded."""
    plan = conduct(trials=0, levels={5: 0.01, 10: 0.015})
    referee, done = race(bowls(1.0), plan)
    assert referee.kind(AB) == "better"
    assert len(done) == 10
    assert race(bowls(0.0), plan)[0].kind(AB) == "undecided"
