"""Make docs/results.md, the paper's claims beside what was measured, from the records here.

python -m adamomentum_paper.claims.page
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adamomentum_lab.race.result import Result
from adamomentum_lab.report.page import load
from adamomentum_lab.report.sentences import of_comparison, of_result
from adamomentum_lab.words import join_words
from adamomentum_paper.claims import rules
from adamomentum_paper.claims.races import LONG, REPORT, SCALES, bearing, beyond, how, link, source
from adamomentum_paper.claims.rules import Judged, Verdict
from adamomentum_paper.claims.statements import BEYOND, CLAIMS, PTB, THEOREMS, Claim, Theorem
from adamomentum_paper.claims.wording import estimate

RECORDS, PAGE = Path("results"), Path("docs/results.md")  # of the repository

Record = dict[str, Any]


@dataclass(frozen=True)
class Records:
    """All there are: races as a list, the others by name."""

    races: Sequence[Result] = ()
    theory: Mapping[str, Record] = field(default_factory=dict)
    landscapes: Mapping[str, Record] = field(default_factory=dict)
    speed: Mapping[str, Record] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path = RECORDS) -> Records:
        """Those of a folder."""

        def named(kind: str) -> dict[str, Record]:
            files = sorted(folder.glob(f"{kind}/*.json"))
            return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}

        races = load(folder) if list(folder.glob("races/*/race.json")) else []
        return cls(races, named("theory"), named("landscape"), named("speed"))


@dataclass(frozen=True)
class Line:
    """One row of a table."""

    claim: str
    judged: Judged
    source: str = ""
    """Where it was measured, linked to more."""


MEANING: dict[Verdict, str] = {
    "seen": "What the claim says was detected, or holds, in all that it names.",
    "seen in part": "In some of what it names, or under a condition. The rest was undecided or not "
    "raced or, over several workloads, not seen.",
    "not seen": "The opposite was detected; a statement of the theory does not hold.",
    "undecided": "No difference was detected. That there is none does not follow: the interval "
    "stands beside it, and what could have been missed.",
    "not tested": "There is no record that bears on it.",
}

_INTRO = """\
# Results

What the paper claims, and what the lab has measured. This page is made from the records in
`results/` by `make results`, and follows from them alone; the row on memory is counted anew.
{report}

**Read it with its limits.** {scales} At `mini` networks and data are small
([what exactly](guide/paper.md)): what holds there need not hold at the paper's scale, nor what does
not. Verdicts on training come from races under `fair` alone: equal tuning for all, chosen on
validation, test read at the epoch that validation chose ([how](guide/racing.md)).

| verdict | means |
| --- | --- |
"""
_RULES = f"""
A difference is detected if a paired t-test over the seeds has p of at most 0.05 after Holm's
correction: for all optimizers of the race, for all changes of the paper that a race tells of, or
for the three comparisons of the question of lr.
Over many rows a false alarm is likelier than in one. With three seeds only differences of several
standard deviations are detected. Solutions are called flatter by an interval each, not corrected.
Intervals are 95 %, each for itself: one may leave out 0
although nothing was detected. Those of undetected differences are of the other optimizer minus
AdaMomentum, and what the test *could miss* is the true difference that it would have seen in four
of five races. *As good as* means: the other is nowhere in the interval more than {rules.MARGIN:g}
points ahead, our choice. Epochs to the target are those on validation; a run that ended without it
counts as one more than it had. The default *works* if it comes within 2 % of the best trial of
AdaMomentum on validation, and more learning rates are good for it if they span a decade more than
in the middle of the others: both are of one seed and have no interval.
Where an optimizer ran at the largest or smallest lr tried, as SGDM often did, a better one may lie
beyond: the list of records names them.
"""


def lines_of(claim: Claim, races: Sequence[Result]) -> list[Line]:
    """One for each workload of a claim, or one for all."""
    own = [race for race in races if not beyond(race)]
    found = {name: bearing(own, name) for name in claim.workloads}
    judged = {
        name: claim.rule(race) if race else Judged("not tested", claim.untested)
        for name, race in found.items()
    }
    if claim.joint:
        one = rules.together(judged)
        if one.verdict == "not tested":
            words = (judged[name].found for name, race in found.items() if race)
            one = Judged("not tested", next(words, claim.untested))
        bear = {name: race for name, race in found.items()
                if race and judged[name].verdict != "not tested"}  # fmt: skip
        sources = "<br>".join(f"{name}: {source(race)}" for name, race in bear.items())
        return [Line(_said(claim), one, sources)]
    said = [_said(claim), *["the same"] * len(found)]
    return [
        Line(f"{text}: `{name}`", judged[name], source(race) if race else "")
        for text, (name, race) in zip(said, found.items(), strict=False)
    ]


def _said(claim: Claim | Theorem) -> str:
    return f"{claim.says} ({claim.place})"


def theory_lines(records: Mapping[str, Record]) -> list[Line]:
    """One for each theorem."""
    lines = []
    for one in THEOREMS:
        judged, where = Judged("not tested", "No record yet."), ""
        if record := records.get(one.record):
            judged = rules.theory(record, one.statement)
            where = f"[`{one.record}`, simulated, size `{record['size']}`](guide/theory.md)"
        lines.append(Line(_said(one), judged, where))
    return lines


def state_bytes() -> dict[str, float]:
    """Bytes of state for each float32 parameter, counted after a step; step numbers left out."""
    import torch

    from adamomentum import AdaMomentum

    makers: dict[str, Callable[[list[Any]], torch.optim.Optimizer]] = {
        "sgdm": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9),
        "adam": torch.optim.Adam,
        rules.OURS: AdaMomentum,
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


FLAT = "cifar10_resnet34"


def flat_line(landscapes: Mapping[str, Record]) -> Line:
    """The claim that a figure of the paper makes, by the measures of solutions under `fair`."""
    said = (
        "“the basin of Adamomentum is much more flat than that of Adam” (section 5.2.1, ResNet-34)"
    )
    record = landscapes.get(f"{FLAT}-full-fair") or landscapes.get(f"{FLAT}-mini-fair")
    if record is None:
        words = "No record yet of what `adamomentum landscape` measures."
        return Line(said, Judged("not tested", words), "[how](guide/landscape.md)")
    spec = record["spec"]
    how = f"`{spec['scale']}`, `{spec['protocol']}`, {spec['examples']} examples of training"
    return Line(said, rules.flatter_than(record, "adam"), f"[{how}](guide/landscape.md)")


def page(records: Records) -> str:
    """The whole page, in Markdown."""
    races = records.races
    trained = [line for claim in CLAIMS for line in lines_of(claim, races)]
    memory = Line(
        "“no additional memory cost” (section 1)",
        rules.memory(state_bytes()),
        "[counted after one step](guide/performance.md)",
    )
    flat = flat_line(records.landscapes)
    simulated = theory_lines(records.theory)
    counts = Counter(line.judged.verdict for line in (*trained, memory, flat, *simulated))
    parts = [
        _INTRO.format(report=_report(races), scales=_scales_run(races)),
        *(f"| **{word}** ({counts[word]}) | {meaning} |\n" for word, meaning in MEANING.items()),
        "\nIn brackets: how many of the rows on the paper's claims have it.\n",
        _RULES,
    ]
    sections = {
        "Training": _table([*trained, memory]),
        "Theory and toy experiments": "Each by the statement that comes closest; "
        "[more](guide/theory.md) on a page.\n\n" + _table([*simulated, flat]),
        "What the protocol does to the ranking": _protocols(races),
        "Is AdaMomentum's lead on Penn Treebank a learning-rate effect?": _lr_question(races),
        "Beyond the paper": _beyond(races),
        "The records": _records(records),
    }
    return "".join([*parts, *(f"\n## {title}\n\n{text}" for title, text in sections.items())])


def _report(races: Sequence[Result]) -> str:
    if not races:
        return "There is no race among them yet."
    return (
        f"The races themselves, every run included, are on [their page]({REPORT}) of the "
        "documentation's site; `adamomentum report --runs results` makes it too."
    )


def _scales_run(races: Sequence[Result]) -> str:
    if any(race.race.scale == "full" for race in races):
        return "The scale stands beside each result."
    return "Nothing was run at the paper's scale, `full`: no row says anything about that."


def _table(lines: Sequence[Line], claim: str = "claim of the paper") -> str:
    """Three columns: what was measured needs the room; where it was measured stands below it."""
    rows = [f"| {claim} | verdict | measured here, and where |\n", "| --- | --- | --- |\n"]
    for line in lines:
        measured = "<br>".join(text for text in (_cell(line.judged.found), line.source) if text)
        rows.append(f"| {_cell(line.claim)} | **{line.judged.verdict}** | {measured} |\n")
    return "".join(rows)


def _cell(text: str) -> str:
    for mark in "|*":
        text = text.replace(mark, f"\\{mark}")
    return text


def _protocols(races: Sequence[Result]) -> str:
    """The rankings side by side, where a workload was raced under several protocols."""
    by_problem: dict[tuple[str, str], dict[str, Result]] = {}
    for race in sorted(races, key=lambda race: (len(race.runs), race.name)):
        spec = race.race
        if spec.scale in SCALES and (spec.protocol != "fair" or spec.trials):
            problem = (spec.workload, spec.scale)
            by_problem.setdefault(problem, {})[spec.protocol] = race
    parts = []
    for (workload, scale), found in sorted(by_problem.items()):
        if len(found) < 2 or "fair" not in found:
            continue
        names = [name for name in ("fair", "paper", "as-run") if name in found]
        both = [found[name] for name in names]
        metric = both[0].workload.metric
        parts += [f"### {workload}, {scale}\n\n", f"Test {metric}, best first.\n\n"]
        rows = [["|", *map(link, both)], ["| ---"] + ["---"] * len(both)]
        for i in range(max(len(race.rows) for race in both)):
            rows.append([f"| {i + 1}", *(_ranked(race, i) for race in both)])
        parts += [" | ".join(row) + " |\n" for row in rows]
        parts += [f"\n- `{race.race.protocol}`: {of_result(race)}" for race in both]
        parts.append("\n\n")
    if not parts:
        return "Not tested yet: no workload has records under `fair` and another protocol.\n"
    return (
        "`as-run` reports the best epoch on test and gives each optimizer the settings of the "
        "authors' scripts ([protocols](guide/racing.md#protocols)); the columns are not on one "
        "scale, their orders can be compared. That orders differ, or that a difference is detected "
        "under one alone, may be chance: no test compares the protocols.\n\n"
        + "".join(parts).rstrip("\n")
        + "\n"
    )


def _ranked(race: Result, i: int) -> str:
    if i >= len(race.rows):
        return ""
    row = race.rows[i]
    name = f"**{row.optimizer}**" if row.optimizer == rules.OURS else row.optimizer
    return f"{name} {estimate(row.score)}{f', {row.lost} lost' if row.lost else ''}"


def _lr_question(races: Sequence[Result]) -> str:
    text = (
        "At the same lr and on noisy gradients AdaMomentum's steps are sqrt((1+b1)/(1-b1)) times "
        "Adam's: 4.36 times with b1 = 0.9. `adam-translated` is Adam at as many times the lr it is "
        "given: if it does what AdaMomentum does, the lead is one of step length. Under `as-run` "
        "and `paper` nothing is tuned, and these three have one lr and one b1, 0.9; the recurrent "
        "matrices stay untrained under the one, as in the authors' scripts, and are trained under "
        "the other. Under `fair` they are trained, and each optimizer has its own lr, eps and "
        "betas; weight decay is 1.2e-4 for all, as in the paper, in the form that each is known "
        "by. `ptb_lstm1_long` is `ptb_lstm1` over 24 epochs.\n\n"
    )
    asked = [
        (race, found)
        for race in races
        if race.race.workload in (*PTB, LONG)
        and race.race.scale in SCALES
        and (found := rules.lr_effect(race))
    ]
    if not asked:
        return text + "Not tested yet.\n"
    for race, (answer, sentences) in asked:
        rates = ", ".join(
            f"{row.optimizer} {row.settings['lr']:g}"
            + (f" (the {row.edge} tried)" if row.edge else "")
            for row in race.rows
            if row.optimizer in ("adam", "adam-translated", rules.OURS)
        )
        text += f"**{race.race.workload}**, {how(race)} ({link(race)}). {answer}\n\n"
        sentences += [  # what else differs
            one.caveat
            for one in race.effects
            if one.comparison.base == "adam-translated" and one.caveat
        ]
        sentences += [
            f"With decoupled weight decay Adam, as adamw, reaches {estimate(row.score)}: "
            + of_comparison(c, f"test {race.workload.metric}")
            for c in rules.beside_ours(race)
            if c.other == "adamw" and (row := race.row("adamw"))
        ]
        text += "".join(f"- {said}\n" for said in (*sentences, f"lr: {rates}.")) + "\n"
    return text.rstrip("\n") + "\n"


def _beyond(races: Sequence[Result]) -> str:
    names = list(dict.fromkeys(race.race.workload for race in races if beyond(race)))
    found = [race for name in names if (race := bearing(races, name)) and beyond(race)]
    text = (
        "Workloads on data that the paper does not have. What they show is no verdict on the "
        "paper.\n\n"
    )
    if not found:
        return text + "Not tested yet.\n"
    for race in found:
        lines = [Line(says, rule(race), source(race)) for says, rule in BEYOND]
        text += f"### {race.race.workload}\n\n{race.workload.summary} {of_result(race)}"
        text += "\n\n" + _table(lines, "question") + "\n"
    return text.rstrip("\n") + "\n"


def _records(records: Records) -> str:
    text = (
        "Small files without weights or logs, made by `tools/keep.py`. `adamomentum report "
        "--runs results` makes the page of the races; a race's command, run again, gives its "
        "numbers.\n\n"
    )
    for race in records.races:
        runs, machine = race.runs, race.record.machine
        hours = sum(run.machine.seconds or 0.0 for run in runs) / 3600
        versions = f"torch {machine['torch']}, adamomentum {machine['adamomentum']}"
        told = [
            f"{link(race)}: {len(runs)} runs, {hours:.1f} hours of training, {versions}",
            *race.record.caveats,
            *(
                f"at the {edge} lr tried: {join_words(there)}"
                for edge in ("largest", "smallest")
                if (there := [row.optimizer for row in race.rows if row.edge == edge])
            ),
        ]
        text += f"- {'; '.join(told)}.\n\n    ```bash\n    {race.command}\n    ```\n\n"
    if records.theory:
        names = ", ".join(records.theory)
        text += f"- theory: {names}.\n\n    ```bash\n    adamomentum theory all\n    ```\n\n"
    for name, record in records.landscapes.items():
        ids = " ".join(run["id"] for run in record["runs"])
        text += (
            f"- landscape: {name}, of runs that `adamomentum landscape` lists in the folder of "
            f"their results.\n\n    ```bash\n    adamomentum landscape {ids}\n    ```\n\n"
        )
    return text.rstrip("\n") + "\n"


def main(words: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=Path, default=RECORDS, help="their folder")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page")
    given = parser.parse_args(words)
    given.out.write_text(page(Records.of(given.records)), encoding="utf-8")
    sys.stdout.write(f"{given.out}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
