"""What a race is, and what it will spend: every trial of every contender, every final run."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from adamomentum_lab import contenders
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.errors import LabError, unknown
from adamomentum_lab.race import search
from adamomentum_lab.race.search import Rung, Search
from adamomentum_lab.rules import Scale, at_scale
from adamomentum_lab.space import LOGARITHMIC, Settings, Space, ends

if TYPE_CHECKING:
    from adamomentum_lab.contender import Contender
    from adamomentum_lab.engine.store import Run, Store
    from adamomentum_lab.workload import Workload

TUNING_SEED = 0  # the seeds of the final stage begin at 1: no run is judged by what chose it


@dataclass(frozen=True)
class Race:
    """What is raced. Frozen, and the same race again gives the same numbers."""

    workload: str
    code: str
    optimizers: tuple[str, ...]
    trials: int
    seeds: int
    scale: Scale
    protocol: str
    search: Search = "grid"
    tune: tuple[str, ...] = ()
    """The settings that are searched; none stands for all of the space."""
    halving: bool = False
    baseline: str | None = contenders.BASELINE
    """Whom the others are compared with; None of those raced."""

    def __post_init__(self) -> None:
        if self.baseline is None or self.baseline in self.optimizers:
            return
        if self.baseline != contenders.BASELINE:
            raced = ", ".join(self.optimizers)
            raise LabError(f"the baseline {self.baseline!r} is not raced; it must be of {raced}.")
        object.__setattr__(self, "baseline", None)

    def spec(self, optimizer: str, settings: Settings, seed: int) -> Spec:
        """One of its runs."""
        return Spec.of(
            settings,
            workload=self.workload,
            code=self.code,
            optimizer=optimizer,
            optimizer_code=contenders.code_of(optimizer),
            seed=seed,
            scale=self.scale,
            protocol=self.protocol,
        )

    @property
    def final_seeds(self) -> range:
        """Those that are reported."""
        return range(TUNING_SEED + 1, TUNING_SEED + 1 + self.seeds)

    @property
    def id(self) -> str:
        """Of all that decides its runs; also the name of its folder."""
        decisive = {key: value for key, value in asdict(self).items() if key != "baseline"}
        text = json.dumps(decisive, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Plan:
    """What a race will spend. The same rule for every contender."""

    race: Race
    starts: dict[str, Settings]
    """What each contender starts from; in its trials, with what the space holds fixed."""
    trials: dict[str, list[Settings]]
    """What is tried for each; fewer than the race's `trials` where there is no more to try."""
    spaces: dict[str, Space]
    """What is searched for each."""
    rungs: tuple[Rung, ...]
    """How long the trials train: one rung for all, or several with successive halving."""
    epochs: int
    """Of a whole run."""

    def parts(self, optimizer: str) -> list[tuple[int, int]]:
        """Of each rung: how many trials train in it, and for how many epochs more."""
        there, ends = len(self.trials[optimizer]), [0, *(rung.epochs for rung in self.rungs)]
        more = [after - before for before, after in pairwise(ends)]
        counts = [min(rung.trials, there) for rung in self.rungs]
        return list(zip(counts, more, strict=True)) if there else []

    def runs_of(self, optimizer: str) -> int:
        """Its runs; a trial that is continued in the next rung counts in both."""
        return sum(runs for runs, _ in self.parts(optimizer)) + self.race.seeds

    def epochs_of(self, optimizer: str) -> int:
        """All its epochs, if no run diverges."""
        parts = [*self.parts(optimizer), (self.race.seeds, self.epochs)]
        return sum(runs * epochs for runs, epochs in parts)

    @property
    def all_epochs(self) -> int:
        """Of the race, if no run diverges."""
        return sum(map(self.epochs_of, self.starts))

    @property
    def exhausted(self) -> list[str]:
        """Those with fewer points to try than trials."""
        return [name for name, tried in self.trials.items() if len(tried) < self.race.trials]

    def summary(self) -> str:
        """How many runs and epochs there will be, in a sentence."""
        race, count = self.race, len(self.race.optimizers)
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


def base_settings(name: str, workload: type[Workload], protocol: str) -> Settings:
    """What an optimizer starts from on a workload: its defaults, and what the protocol says."""
    contender = contenders.get(name)
    if contender.needs:
        needs = ", ".join(sorted(contender.needs))
        raise LabError(f"{name} cannot be trained here: it needs {needs}, which no loop offers.")
    for known in workload.settings:
        workload.rules_of(known)  # refuses a protocol that does not exist
    stated = workload.settings.get(protocol, {})
    contenders.check_names(other for other in stated if other != "*")
    contender.check(stated.get(name, {}))
    return {**contender.settings, **contender.settings_for(stated)}


def make_plan(race: Race, cls: type[Workload]) -> Plan:
    """What the race will spend, and on what."""
    contenders.check_names(name for name in cls.spaces if name != "*")
    known = {key for name in contenders.names() for key in contenders.get(name).settings}
    if strange := [key for key in cls.spaces.get("*", {}) if key not in known]:
        raise LabError(f"spaces of {cls.__name__}: {unknown('setting', strange[0], sorted(known))}")
    starts, trials, spaces = {}, {}, {}
    for name in race.optimizers:
        starts[name] = base_settings(name, cls, race.protocol)
        space = search.space_of(contenders.get(name), cls, race.tune)
        trials[name] = search.trials(starts[name], space, race.trials, race.search)
        for settings in trials[name] or [starts[name]]:
            _try_settings(contenders.get(name), settings, cls)
        spaces[name] = search.choices(space)
    epochs = at_scale(cls.epochs, race.scale)
    rungs = search.rungs(race.trials, epochs, race.halving)
    return Plan(race, starts, trials, spaces, rungs, epochs)


def _try_settings(contender: Contender, settings: Settings, cls: type[Workload]) -> None:
    """Refuse settings that the optimizer refuses, before anything is trained."""
    from torch import nn, zeros

    try:
        contender.build([nn.Parameter(zeros(1, 1))], **settings)
    except (TypeError, ValueError) as error:
        where = f"spaces or settings of {cls.__name__}"
        raise LabError(f"{contender.name} refuses what {where} give it: {error}") from error


def find_stored_runs(plan: Plan, store: Store) -> list[Run]:
    """Of the runs that are known before the race, those that are in the store: the trials, or the
    final ones where nothing is tuned."""
    return list(store.get_all(_known_specs(plan)).values())


def count_outdated_runs(plan: Plan, store: Store) -> int:
    """How many runs of the store would be of this race, if their code were the same."""
    return store.count_outdated(_known_specs(plan))


def _known_specs(plan: Plan) -> list[Spec]:
    race, starts = plan.race, plan.starts.items()
    trials = [(name, settings) for name, tried in plan.trials.items() for settings in tried]
    if trials:
        return [race.spec(*trial, TUNING_SEED) for trial in trials]
    return [race.spec(*start, seed) for start in starts for seed in race.final_seeds]
