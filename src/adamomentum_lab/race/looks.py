"""What looking at results costs.

Whoever adds seeds until the answer pleases is wrong far more often than 5 % of the time. So each
look at a pair spends a part of the error rate that its question is allowed, and the store of runs
remembers every look. The same race again looks at the same numbers, and spends nothing. A pair
that was chosen from a ranking is judged as one of all pairs in it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from adamomentum_lab.engine.store import Store, StoredLook
from adamomentum_lab.race.plan import Race
from adamomentum_lab.race.referee import Pair
from adamomentum_lab.stats.verdicts import LEVEL, level_left

Levels = dict[Pair, dict[int, float]]
"""By pair and number of seeds: the level of a look, which the pairs of the race share."""
SEEN = "seen"
"""Data of a look at a ranking that has both, where they were not compared."""


@dataclass(frozen=True)
class Look:
    """A look at a pair."""

    a: str
    b: str
    seeds: int
    level: float
    """Its level, before it is divided by the number of pairs of the race."""
    spent: float
    """What all looks at this question have spent since the store was begun."""
    uncounted: int = 0
    """Earlier looks at the pair on this workload that spent nothing of it: with other code or data
    it is another question."""


def plan_looks(race: Race, store: Store, studies: int = 0) -> Levels:
    """What each look of a race may spend, after all earlier looks at the same questions.

    One look at several studies together counts them as seeds. A pair that once shared a level with
    more pairs, or a ranking with more contenders, is judged as one of so many for ever: whoever
    races the closest pair again has chosen it by its scores.
    """
    found: Levels = {}
    known = store.looks(_question(race))
    for pair in race.pairs:
        before = [look for look in known if look.names == _names(race, pair)]
        share = len(race.pairs) / _most_pairs(race, before)
        levels = _levels(before)
        spent = sum(levels.values())
        found[pair] = {}
        for seeds in (studies,) if studies else race.look_seeds:
            if (same := (_data(race, pair), seeds)) in levels:
                found[pair][seeds] = levels[same] * share
                continue
            left = LEVEL - spent if race.looks == "all" else level_left(seeds, spent)
            left = max(0.0, round(left, 12))
            found[pair][seeds] = left * share
            spent += left
    return found


def record_looks(
    race: Race, store: Store, levels: Levels, scores: Mapping[str, Sequence[float]]
) -> tuple[Look, ...]:
    """Note in the store the looks that a race took, at these final scores of each contender."""
    taken = [
        (pair, seeds, level)
        for pair, own in levels.items()
        for seeds, level in own.items()
        if seeds <= min(len(scores[pair.a]), len(scores[pair.b]))
    ]
    known = store.looks(_question(race))
    shown = itertools.starmap(Pair, itertools.combinations(race.optimizers, 2))
    compared = [{pair.a, pair.b} for pair in race.pairs]
    count = math.comb(len(race.optimizers), 2)
    new = [
        StoredLook(*_names(race, pair), SEEN, count, 0.0, count)
        for pair in shown
        if {pair.a, pair.b} not in compared
    ]
    for pair, seeds, level in taken:
        names = _names(race, pair)
        most = _most_pairs(race, [look for look in known if look.names == names])
        whole = round(level * most / len(race.pairs), 12)
        numbers = _digest([[*scores[name]][:seeds] for name in _in_order(race, pair)])
        new.append(StoredLook(*names, f"{_data(race, pair)}:{numbers}", seeds, whole, most))
    store.add_looks(_question(race), new)
    known = store.looks(_question(race))
    others = [look for question in _other_versions(race, store) for look in store.looks(question)]

    def note(pair: Pair, seeds: int, level: float) -> Look:
        own, before = (
            [look for look in looks if look.names == _names(race, pair) and look.data != SEEN]
            for looks in (known, others)
        )
        spent = round(sum(_levels(own).values()), 12)
        return Look(pair.a, pair.b, seeds, level, spent, len(before) + len(own) - len(_levels(own)))

    return tuple(note(*look) for look in taken)


def _levels(looks: Iterable[StoredLook]) -> dict[tuple[str, int], float]:
    """By data and number of seeds, what a look spent. Other numbers from the same data count once:
    files that were read have changed since, or the machine does not repeat its numbers."""
    found: dict[tuple[str, int], float] = {}
    for look in looks:
        if look.data != SEEN:
            found.setdefault((look.data.partition(":")[0], look.seeds), look.level)
    return found


def _most_pairs(race: Race, looks: Iterable[StoredLook]) -> int:
    """The largest number of pairs that a pair was ever seen with."""
    return max([len(race.pairs), *(look.pairs for look in looks)])


def _question(race: Race) -> str:
    """Looks at the same pair on the same workload answer the same question. Who is better untuned
    is another one."""
    untuned = "" if race.trials else "-untuned"
    return " ".join((race.workload, race.code, race.scale, race.protocol + untuned))


def _other_versions(race: Race, store: Store) -> list[str]:
    """The questions about other code of the same workload."""

    def place(question: str) -> list[str]:
        name, _, *rest = question.rsplit(" ", 3)
        return [name, *rest]

    own = _question(race)
    return [one for one in store.questions() if one != own and place(one) == place(own)]


def _in_order(race: Race, pair: Pair) -> list[str]:
    """Its contenders in one order, whichever is the baseline."""
    return sorted((pair.a, pair.b), key=lambda name: _identity(race, name))


def _names(race: Race, pair: Pair) -> tuple[str, str]:
    """What its contenders are, whatever the user calls them."""
    a, b = (_identity(race, name) for name in _in_order(race, pair))
    return a, b


def _identity(race: Race, name: str) -> str:
    entry = race.entries.get(name)
    if entry is None:
        return name
    return f"{entry.label} {json.dumps(entry.options, sort_keys=True)}".removesuffix(" {}")


def _data(race: Race, pair: Pair) -> str:
    """A digest of all that decides which runs of a pair there are, besides the seeds.

    More settings beside the tuned ones (`certify`) continue a look where the referee had to stop.
    """
    chosen: list[object] = [race.trials, race.search, race.tune, race.halving]
    chosen += [race.own_decay, race.space, race.hard]
    chosen += [race.seeds] if race.studies > 1 else []
    names = _in_order(race, pair)
    chosen += [race.entries[name].code for name in names if name in race.entries]
    return _digest(chosen)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]
