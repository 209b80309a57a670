"""What a race will spend: every trial of every contender, and how many epochs in all."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from adamomentum_lab.analysis.wording import number
from adamomentum_lab.contenders import LOGARITHMIC
from adamomentum_lab.runs.tuning import Rung, Search, Settings, Space


@dataclass(frozen=True)
class Budget:
    """Of one race. The same rule for every contender."""

    starts: dict[str, Settings]
    """What each contender starts from; in its trials, with what the grid holds fixed."""
    trials: dict[str, list[Settings]]
    """What is tried for each; fewer than `count` where there is no more to try."""
    spaces: dict[str, Space]
    """What is searched for each."""
    search: Search
    count: int
    seeds: int
    rungs: tuple[Rung, ...]
    """How long the trials train: one rung for all, or several with successive halving."""
    epochs: int
    """Of a whole run."""

    def parts(self, optimizer: str) -> list[tuple[int, int]]:
        """Of each rung: how many trials train in it, and for how many epochs more."""
        there, before, found = len(self.trials[optimizer]), 0, []
        for rung in self.rungs if there else ():
            found.append((min(rung.trials, there), rung.epochs - before))
            before = rung.epochs
        return found

    def runs_of(self, optimizer: str) -> int:
        """Its runs; a trial that is continued in the next rung counts in both."""
        return sum(runs for runs, _ in self.parts(optimizer)) + self.seeds

    def epochs_of(self, optimizer: str) -> int:
        """All its epochs, if no run diverges."""
        tuning = sum(runs * epochs for runs, epochs in self.parts(optimizer))
        return tuning + self.seeds * self.epochs

    @property
    def all_epochs(self) -> int:
        """Of the race, if no run diverges."""
        return sum(map(self.epochs_of, self.starts))

    @property
    def exhausted(self) -> list[str]:
        """Those with fewer points to try than trials."""
        return [name for name, tried in self.trials.items() if len(tried) < self.count]

    def lines(self) -> list[str]:
        """What is searched and how, for people."""
        if not self.count:
            return []
        alike: dict[str, list[str]] = {}
        for name, space in self.spaces.items():
            alike.setdefault(self._words(space), []).append(name)
        found = [
            f"Searched ({self.search}) for {', '.join(names)}: {words or 'nothing'}."
            for words, names in alike.items()
        ]
        if len(self.rungs) > 1:
            first, *later = self.rungs
            more = "".join(f", the best {rung.trials} to {rung.epochs}" for rung in later)
            found.append(
                f"Halving, for each: {first.trials} trials up to epoch {first.epochs}{more}."
            )
        found += [
            f"{name}: {len(self.trials[name])} of {self.count} trials try all there is; nobody "
            "gets the rest."
            for name in self.exhausted
        ]
        return found

    def space_as_json(self, optimizer: str) -> dict[str, Any]:
        """What is searched: lists of values, or the two ends of a log-uniform distribution."""
        return {
            name: {"from": min(values), "to": max(values)}
            if self.search == "random" and name in LOGARITHMIC
            else [*values]
            for name, values in self.spaces[optimizer].items()
        }

    def as_json(self) -> dict[str, Any]:
        """As `adamomentum race --dry-run --json` prints it."""
        return {
            "epochs": self.all_epochs,
            "search": self.search,
            "rungs": [asdict(rung) for rung in self.rungs] if self.count else [],
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

    def _words(self, space: Space) -> str:
        return ", ".join(f"{name.replace('_', ' ')} {_range(name, space[name])}" for name in space)


def _range(name: str, values: tuple[Any, ...]) -> str:
    if name in LOGARITHMIC:
        return f"{number(min(values))}..{number(max(values))}"
    if all(isinstance(value, float) for value in values):
        return f"{number(min(values))} to {number(max(values))}"
    return " ".join(map(number, values))
