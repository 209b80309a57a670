"""All records, and the rules for those that are not races: theory, landscapes and memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adamomentum_lab.race.result import Result
from adamomentum_lab.report.page import load
from adamomentum_lab.stats.estimates import Estimate
from adamomentum_lab.words import count_noun
from adamomentum_paper.claims.rules import OURS, Judged, Verdict
from adamomentum_paper.claims.wording import gap

RECORDS = Path("results")  # relative to the repository

Record = dict[str, Any]


@dataclass(frozen=True)
class Records:
    """All records: races as a list, the others by name."""

    races: Sequence[Result] = ()
    theory: Mapping[str, Record] = field(default_factory=dict)
    landscapes: Mapping[str, Record] = field(default_factory=dict)
    speed: Mapping[str, Record] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path = RECORDS) -> Records:
        """Read the records of a folder."""

        def read(kind: str) -> dict[str, Record]:
            files = sorted(folder.glob(f"{kind}/*.json"))
            return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}

        races = load(folder) if list(folder.glob("races/*/race.json")) else []
        return cls(races, read("theory"), read("landscape"), read("speed"))


def theory(record: Record, statement: str) -> Judged:
    """Return the verdict of a record on the statement that begins with `statement`."""
    verdicts: dict[str, Verdict] = {
        "holds": "supported",
        "holds only when": "partly supported",
        "does not hold": "contradicted",
    }
    for one in record["findings"]:
        if one["statement"].startswith(statement):
            word = one["word"].capitalize()
            return Judged(verdicts[one["word"]], f"{word}: {one['found']}")
    return Judged("not tested", "The record does not have this statement.")


def memory(state: dict[str, float]) -> Judged:
    """Judge whether AdaMomentum's state is at most as large as Adam's."""
    words = ", ".join(f"{name} {size:g}" for name, size in state.items())
    return Judged(
        "supported" if state[OURS] <= state["adam"] else "contradicted",
        f"Bytes of state per float32 parameter: {words}.",
    )


def flatter_than(record: Record, name: str) -> Judged:
    """Judge whether AdaMomentum's solutions are flatter by every measure of a landscape.

    Each measure is judged by its own 95 % interval over the seeds.
    """
    found = {
        one["measure"]: one
        for one in record["comparisons"]
        if (one["first"], one["other"]) == (OURS, name)  # one group of each
    }
    if not found:
        return Judged("not tested", f"{OURS} and {name} were not compared.")
    loss = found.pop("loss")
    words = [
        f"{record['measures'][measure]} {gap(Estimate(**one['difference']))} ({one['verdict']})"
        for measure, one in found.items()
    ]
    seeds = loss["difference"]["n"]
    text = (
        f"{OURS} minus {name}, {count_noun(seeds, 'seed')}: {'; '.join(words)}. Loss at the "
        f"solutions: {gap(Estimate(**loss['difference']))} ({loss['verdict']})."
    )
    verdicts = {one["verdict"] for one in found.values()}
    if "sharper" in verdicts:
        return Judged("undecided" if "flatter" in verdicts else "contradicted", text)
    if "flatter" in verdicts and loss["verdict"] == "lower":
        return Judged("undecided", f"{text} The lower loss alone may explain it.")
    if verdicts == {"flatter"}:
        return Judged("supported", text)
    return Judged("partly supported" if "flatter" in verdicts else "undecided", text)


def state_bytes() -> dict[str, float]:
    """Return the bytes of state per float32 parameter after one step, without step numbers."""
    import torch

    from adamomentum import AdaMomentum

    makers: dict[str, Callable[[list[Any]], torch.optim.Optimizer]] = {
        "sgdm": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9),
        "adam": torch.optim.Adam,
        OURS: AdaMomentum,
    }
    found = {}
    for name, make in makers.items():
        parameter = torch.nn.Parameter(torch.ones(1000))
        parameter.grad = torch.ones(1000)
        optimizer = make([parameter])
        optimizer.step()
        state = [s for s in optimizer.state[parameter].values() if torch.is_tensor(s) and s.dim()]
        found[name] = sum(s.nbytes for s in state) / 1000
    return found
