"""What looking at results costs.

Whoever adds seeds until the answer pleases is wrong far more often than 5 % of the time. So each
look at a pair spends a part of the error rate that its question is allowed, and the store of runs
remembers every look. The same race again looks at the same numbers, and spends nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from adamomentum_lab.engine.store import Store, StoredLook
from adamomentum_lab.race.plan import Race
from adamomentum_lab.race.referee import Pair
from adamomentum_lab.stats.verdicts import LEVEL, level_left

Levels = dict[Pair, dict[int, float]]
"""By pair and number of seeds: the level of a look, which the pairs of the race share."""


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


def plan_looks(race: Race, store: Store, studies: int = 0) -> Levels:
    """What each look of a race may spend, after all earlier looks at the same questions.

    One look at several studies together counts them as seeds. A pair that once shared a level with
    more pairs is judged as one of so many for ever: whoever races the closest pair again has chosen
    it by its scores.
    """
    found: Levels = {}
    known = store.looks(_question(race))
    for pair in race.pairs:
        before = [look for look in known if look.names == _names(pair)]
        share = len(race.pairs) / _most_pairs(race, before)
        spent = sum(look.level for look in before)
        found[pair] = {}
        for seeds in (studies,) if studies else race.look_seeds:
            same = [
                look for look in before if (look.data, look.seeds) == (_data(race, pair), seeds)
            ]
            if same:
                found[pair][seeds] = same[0].level * share
                continue
            left = LEVEL - spent if race.looks == "all" else level_left(seeds, spent)
            left = max(0.0, round(left, 12))
            found[pair][seeds] = left * share
            spent += left
    return found


def record_looks(
    race: Race, store: Store, levels: Levels, seeds_of: Mapping[str, int]
) -> tuple[Look, ...]:
    """Note in the store the looks that a race took, with so many seeds of each contender."""
    taken = [
        (pair, seeds, level)
        for pair, own in levels.items()
        for seeds, level in own.items()
        if seeds <= min(seeds_of[pair.a], seeds_of[pair.b])
    ]
    known = store.looks(_question(race))
    new = []
    for pair, seeds, level in taken:
        most = _most_pairs(race, [look for look in known if look.names == _names(pair)])
        whole = round(level * most / len(race.pairs), 12)
        new.append(StoredLook(*_names(pair), _data(race, pair), seeds, whole, most))
    store.add_looks(_question(race), new)
    known = store.looks(_question(race))

    def spent(pair: Pair) -> float:
        return round(sum(look.level for look in known if look.names == _names(pair)), 12)

    return tuple(Look(p.a, p.b, seeds, level, spent(p)) for p, seeds, level in taken)


def _most_pairs(race: Race, looks: Iterable[StoredLook]) -> int:
    """The largest number of pairs that a pair was ever looked at with."""
    return max([len(race.pairs), *(look.pairs for look in looks)])


def _question(race: Race) -> str:
    """Looks at the same pair on the same workload answer the same question."""
    return " ".join((race.workload, race.code, race.scale, race.protocol))


def _names(pair: Pair) -> tuple[str, str]:
    """In one order, whichever is the baseline."""
    return (pair.a, pair.b) if pair.a < pair.b else (pair.b, pair.a)


def _data(race: Race, pair: Pair) -> str:
    """A digest of all that decides which runs of a pair there are, besides the seeds.

    More settings beside the tuned ones (`certify`) continue a look where the referee had to stop.
    """
    chosen: list[object] = [race.trials, race.search, race.tune, race.halving]
    chosen += [race.own_decay, race.space, race.hard]
    chosen += [race.seeds] if race.studies > 1 else []
    chosen += [race.entries[name].code for name in _names(pair) if name in race.entries]
    text = json.dumps(chosen)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
