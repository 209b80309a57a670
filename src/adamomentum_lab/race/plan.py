"""What a race is, and what it will spend: tuning runs and final runs of every contender."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from adamomentum_lab import contenders
from adamomentum_lab.contender import Contender, Entry
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.errors import LabError, unknown
from adamomentum_lab.race import search
from adamomentum_lab.race.bracket import SearchSpace, first_points
from adamomentum_lab.race.budgets import lengths
from adamomentum_lab.race.referee import Conduct, Pair
from adamomentum_lab.race.search import Rung, Search
from adamomentum_lab.race.spaces import (
    Values,
    listed_space,
    match_decay,
    search_space,
    wanted_values,
)
from adamomentum_lab.rules import Scale, at_scale
from adamomentum_lab.space import (
    LOGARITHMIC,
    Settings,
    Space,
    ends,
    parse_space,
)

if TYPE_CHECKING:
    from adamomentum_lab.workload import Workload

KIND = ("scale", "protocol", "device", "precision", "compile")  # what all runs have in common
STUDY_SEEDS = 1000
"""The seeds of a study lie between this times its number and that of the next."""
Looks = Literal["part", "all", "until decided"]
"""What a look at the results spends of the error rate that a question may cost: the part for its
number of seeds, all of it, or the parts for 5, 10 and 20 seeds in turn until there is a verdict."""
LOOK_SEEDS = (5, 10, 20)


@dataclass(frozen=True)
class Race:
    """What is raced. Frozen: the same race again gives the same numbers."""

    workload: str
    code: str
    optimizers: tuple[str, ...]
    trials: int
    seeds: int
    """Final runs of each; with `until decided`, those of the first look."""
    scale: Scale
    protocol: str
    search: Search = "bracket"
    tune: tuple[str, ...] = ()
    """The settings that are searched. Empty: lr and those with values in a search space."""
    halving: bool = False
    baseline: str | None = ""
    """The contender that the others are compared with. Empty: adamw, or the first one if adamw is
    not raced. None: every two are compared."""
    certify: int = 8
    """Settings beside the tuned ones that may be run on the final seeds, for each contender."""
    margin: float | None = None
    """A difference of the metric below this is of no interest."""
    looks: Looks = "part"
    own_decay: bool = False
    """Whether each contender has the form of weight decay that it is known by."""
    space: tuple[str, ...] = ()
    """Values to search, such as `adamw.lr=1e-5:1e-1`."""
    hard: bool = False
    """Whether nothing outside these values is tried."""
    studies: int = 1
    """How often tuning and final runs are repeated with other seeds for both."""
    study: int = 0
    """Which of these repetitions it is."""
    budgets: tuple[float, ...] = ()
    """Lengths that the baseline is trained for besides, in parts of a usual run."""
    more_budgets: bool = False
    """Whether shorter or longer ones follow where a contender lies outside."""
    device: str = ""  # the CPU
    precision: str = "32-true"
    compile: bool = False
    entries: Mapping[str, Entry] = field(default_factory=dict, hash=False)
    """Of the contenders that are not the lab's, where they come from."""

    def __post_init__(self) -> None:
        if self.baseline == "":
            first = contenders.BASELINE in self.optimizers
            chosen = contenders.BASELINE if first else next(iter(self.optimizers), None)
            object.__setattr__(self, "baseline", chosen)
        if self.baseline is not None and self.baseline not in self.optimizers:
            raced = ", ".join(self.optimizers)
            raise LabError(f"the baseline {self.baseline!r} is not raced; it must be of {raced}.")
        if self.budgets and self.baseline is None:
            raise LabError("--budgets compares with a baseline; leave --pairs all out.")
        if self.studies > 1 and max(self.look_seeds) >= STUDY_SEEDS:
            raise LabError(f"a race of several studies has fewer than {STUDY_SEEDS} seeds.")

    def spec(self, optimizer: str, settings: Settings, seed: int, epochs: int = 0) -> Spec:
        """The specification of one of its runs; `epochs` is its length, unless it is the usual."""
        return Spec.of(
            settings,
            workload=self.workload,
            code=self.code,
            optimizer=optimizer,
            **contenders.origin(optimizer, self.entries.get(optimizer)),
            seed=seed,
            epochs=epochs,
            **{name: getattr(self, name) for name in KIND},
        )

    def written(self, optimizer: str) -> str:
        """What a user writes for one of its contenders."""
        entry = self.entries.get(optimizer)
        return f"{optimizer}={entry.reference}" if entry else optimizer

    def contender(self, optimizer: str) -> Contender:
        """One of its contenders."""
        return contenders.load(optimizer, self.entries.get(optimizer))

    @property
    def tuning_seed(self) -> int:
        """The seed of all tuning runs. No run is judged by what chose its settings."""
        return STUDY_SEEDS * self.study

    @property
    def final_seeds(self) -> range:
        """The seeds of the final runs."""
        return range(self.tuning_seed + 1, self.tuning_seed + 1 + self.seeds)

    @property
    def look_seeds(self) -> tuple[int, ...]:
        """The numbers of seeds at which results are looked at."""
        later = LOOK_SEEDS if self.looks == "until decided" else ()
        return (self.seeds, *(seeds for seeds in later if seeds > self.seeds))

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs that are compared."""
        if self.baseline is None:
            return tuple(Pair(a, b) for b, a in itertools.combinations(self.optimizers, 2))
        base = self.baseline
        return tuple(Pair(name, base) for name in self.optimizers if name != base)

    @property
    def id(self) -> str:
        """Of all that decides its runs; also the name of its folder."""
        judged = ("baseline", "margin")  # these decide what is said about the runs
        decisive = {key: value for key, value in asdict(self).items() if key not in judged}
        decisive["studies"] = self.studies > 1
        if self.budgets:
            decisive["baseline"] = self.baseline  # whose runs they are
        else:  # ids without them must not change
            del decisive["budgets"], decisive["more_budgets"]
        usual = {"device": "", "precision": "32-true", "compile": False}
        decisive = {key: value for key, value in decisive.items() if usual.get(key, self) != value}
        del decisive["entries"]
        for name, entry in self.entries.items():  # wherever its file is
            decisive[f"entry {name}"] = [entry.label, entry.options, entry.code]
        text = json.dumps(decisive, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Plan:
    """What a race will spend. The rule is the same for every contender."""

    race: Race
    search_spaces: Mapping[str, SearchSpace]
    """By contender, what is searched, and the settings that are not."""
    trials: Mapping[str, list[Settings]]
    """By contender, what a grid or a random search tries: fewer than the race's `trials` if there
    is no more to try. Empty for a bracketing search, which decides as it goes."""
    spaces: Mapping[str, Space]
    """By contender, the values that a grid or a random search draws from."""
    rungs: tuple[Rung, ...]
    """How long the trials train: one rung for all, or several with successive halving."""
    epochs: int
    """Of a whole run."""

    @property
    def starts(self) -> dict[str, Settings]:
        """By contender, the settings before tuning."""
        return {name: own.settings(own.start) for name, own in self.search_spaces.items()}

    @property
    def brackets(self) -> bool:
        """Whether the search decides as it goes what to try."""
        return self.race.search == "bracket" and self.race.trials > 0

    def conduct(self, levels: Mapping[Pair, Mapping[int, float]]) -> Conduct:
        """How the referee conducts the race, with the level of each look at each pair."""
        race = self.race
        return Conduct(
            trials=race.trials,
            levels=dict.fromkeys(race.look_seeds, 0.0),
            pair_levels=levels,
            # Several studies are compared when all have been run, and only as they were tuned.
            pairs=race.pairs if race.studies == 1 else (),
            certify=race.certify,
            margin=race.margin,
            tuning_seed=race.tuning_seed,
        )

    def parts(self, optimizer: str) -> list[tuple[int, int]]:
        """Of each rung: how many trials train in it, and for how many epochs more."""
        if self.brackets:
            return [(self.race.trials, self.epochs)]
        there, ends = len(self.trials[optimizer]), [0, *(rung.epochs for rung in self.rungs)]
        more = [after - before for before, after in pairwise(ends)]
        counts = [min(rung.trials, there) for rung in self.rungs]
        return list(zip(counts, more, strict=True)) if there else []

    def at_budgets(self, optimizer: str) -> list[tuple[int, int]]:
        """Of each other length at which it trains: how many runs, and their epochs."""
        if optimizer != self.race.baseline:
            return []
        axes = self.search_spaces[optimizer].axes
        runs = self.race.seeds + (3 if axes and axes[0].name == "lr" else 0)
        return [(runs, epochs) for epochs in self.lengths]

    @property
    def lengths(self) -> tuple[int, ...]:
        """The epochs of the other lengths at which the baseline trains."""
        return lengths(self.race.budgets, self.epochs, not self.race.more_budgets)

    def runs_of(self, optimizer: str) -> int:
        """Its runs; a trial that is continued in the next rung counts in both."""
        parts = [*self.parts(optimizer), *self.at_budgets(optimizer)]
        return sum(runs for runs, _ in parts) + self.race.seeds

    def epochs_of(self, optimizer: str) -> int:
        """All its epochs, if no run diverges."""
        usual = [*self.parts(optimizer), (self.race.seeds, self.epochs)]
        return sum(runs * epochs for runs, epochs in [*usual, *self.at_budgets(optimizer)])

    @property
    def all_epochs(self) -> int:
        """Of the race, if no run diverges."""
        return sum(map(self.epochs_of, self.starts))

    @property
    def exhausted(self) -> list[str]:
        """Those with fewer points to try than trials."""
        if self.brackets:
            return []
        return [name for name, tried in self.trials.items() if len(tried) < self.race.trials]

    def summary(self) -> str:
        """How many runs and epochs there will be, in a sentence."""
        race, count = self.race, len(self.race.optimizers)
        if self.brackets:
            return (
                f"{count} optimizers on {race.workload} ({race.scale}, {race.protocol}): up to "
                f"{race.trials} tuning runs and {race.seeds} final runs each, at most "
                f"{self.all_epochs} epochs. A verdict may need runs at further settings."
            )
        runs = sum(map(len, self.trials.values())) + count * race.seeds
        return (
            f"{count} optimizers on {race.workload} ({race.scale}, {race.protocol}): "
            f"{race.trials} tuning and {race.seeds} final runs each, {runs} in all, "
            f"{self.all_epochs} epochs."
        )

    def space_as_json(self, optimizer: str) -> dict[str, object]:
        """What is searched: lists of values, or the two ends of a log-uniform distribution."""
        return {
            name: dict(zip(("from", "to"), ends(values), strict=True))
            if self.race.search == "random" and name in LOGARITHMIC
            else [*values]
            for name, values in self.spaces[optimizer].items()
        }

    def as_json(self) -> dict[str, object]:
        """As `adamomentum race --dry-run --json` prints it."""
        return {
            "epochs": self.all_epochs,
            "search": self.race.search,
            "rungs": [asdict(rung) for rung in self.rungs] if self.race.trials else [],
            "contenders": {
                name: {
                    "starts_from": (self.trials[name] or [start])[0],
                    "space": self.space_as_json(name),
                    "trials": self.trials[name],
                    "exhausted": name in self.exhausted,
                    "runs": self.runs_of(name),
                    "epochs": self.epochs_of(name),
                }
                for name, start in self.starts.items()
            },
        }


def base_settings(optimizer: str | Contender, workload: type[Workload], protocol: str) -> Settings:
    """What an optimizer starts from on a workload: its defaults, what the protocol says, and the
    options that the user gave with it."""
    contender = contenders.get(optimizer) if isinstance(optimizer, str) else optimizer
    contender = contender.with_schedule(workload.schedule_settings)
    name = contender.name
    if "closure" in contender.needs and _is_adversarial(workload):
        why = "its step evaluates the loss again, which two networks that play in turns cannot"
        raise LabError(f"{name} cannot be raced on {workload.__name__}: {why}.")
    for known in workload.settings:
        workload.rules_of(known)  # refuses a protocol that does not exist
    stated = workload.settings.get(protocol, {})
    contenders.check_names(other for other in stated if other not in ("*", name))
    contender.check(stated.get(name, {}))
    return {**contender.settings, **contender.settings_for(stated), **contender.options}


def _is_adversarial(workload: type[Workload]) -> bool:
    from adamomentum_lab.adversarial import Adversarial  # imports torch

    return issubclass(workload, Adversarial)


def make_plan(race: Race, cls: type[Workload]) -> Plan:
    """What the race will spend, and on what."""
    raced = {
        name: race.contender(name).with_schedule(cls.schedule_settings) for name in race.optimizers
    }
    contenders.check_names(name for name in cls.spaces if name not in ("*", *raced))
    known = {key for contender in contenders.available() for key in contender.settings}
    known |= {key for contender in raced.values() for key in contender.settings}
    if strange := [key for key in cls.spaces.get("*", {}) if key not in known]:
        raise LabError(f"spaces of {cls.__name__}: {unknown('setting', strange[0], sorted(known))}")
    matched = cls.rules_of(race.protocol).decay == "matched" and not race.own_decay
    given = _given_values(race)
    search_spaces: dict[str, SearchSpace] = {}
    trials: dict[str, list[Settings]] = {}
    spaces: dict[str, Space] = {}
    for name, contender in raced.items():
        start = base_settings(contender, cls, race.protocol)
        if matched and start.get("weight_decay", 0.0) != contender.settings.get(
            "weight_decay", 0.0
        ):
            raise LabError(
                f"settings of {cls.__name__} give {name} a weight_decay, but under "
                f"{race.protocol!r} all optimizers share one strength; set `decay` "
                "(lr * weight_decay) instead, or race with --own-decay."
            )
        trials[name], spaces[name] = [], {}
        if race.search == "bracket" or not race.trials:
            search_spaces[name] = search_space(
                contender,
                start,
                tune=(race.tune or ("lr",)) if race.trials else (),
                wanted=wanted_values(contender, cls.spaces, given, race.tune)
                if race.trials
                else {},
                decay=cls.decay,
                matched=matched,
                hard=race.hard,
            )
            tried = list(map(search_spaces[name].settings, first_points(search_spaces[name])))
        else:
            space = search.space_of(contender, cls, race.tune)
            tried = search.trials(start, space, race.trials, race.search)
            decay = cls.decay if matched and "weight_decay" not in space else None
            if matched:
                tried = [match_decay(contender, settings, decay) for settings in tried]
            trials[name], spaces[name] = tried, search.choices(space)
            search_spaces[name] = listed_space(tried, decay)
        for settings in tried:
            _try_settings(contender, settings, cls)
    epochs = at_scale(cls.epochs, race.scale)
    rungs = search.rungs(race.trials, epochs, race.halving)
    lengths(race.budgets, epochs, not race.more_budgets)  # raises an error if one is unusable
    return Plan(race, search_spaces, trials, spaces, rungs, epochs)


def _given_values(race: Race) -> dict[str, dict[str, Values]]:
    """What --space gives, by optimizer and setting."""
    given: dict[str, dict[str, Values]] = {}
    for text in race.space:
        optimizer, setting, values = parse_space(text)
        if optimizer not in ("*", *race.entries):
            contenders.check_names([optimizer])
        given.setdefault(optimizer, {})[setting] = values
    return given


def _try_settings(contender: Contender, settings: Settings, cls: type[Workload]) -> None:
    """Refuse settings that the optimizer refuses, before anything is trained."""
    from torch import nn

    try:
        if contender.takes != "model":  # of the user's, which a run makes
            contender.build_for(nn.Linear(1, 1), (), **settings)
    except (TypeError, ValueError) as error:
        where = f"spaces or settings of {cls.__name__}"
        raise LabError(f"{contender.name} refuses what {where} give it: {error}") from error
