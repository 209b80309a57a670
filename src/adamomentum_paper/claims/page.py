"""Generate docs/results.md, the paper's claims and our measurements, from the records in results/.

python -m adamomentum_paper.claims.page
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from adamomentum_lab.race.result import Result
from adamomentum_lab.report.sentences import of_result
from adamomentum_lab.report.verdicts import sentence
from adamomentum_lab.words import join_words
from adamomentum_paper.claims import rules
from adamomentum_paper.claims.findings import findings
from adamomentum_paper.claims.races import LONG, REPORT, SCALES, bearing, beyond, how, link, source
from adamomentum_paper.claims.records import (
    RECORDS,
    Record,
    Records,
    flatter_than,
    memory,
    state_bytes,
    theory,
)
from adamomentum_paper.claims.rules import Judged, Verdict
from adamomentum_paper.claims.statements import BEYOND, CLAIMS, PTB, THEOREMS, Claim, Theorem
from adamomentum_paper.claims.wording import estimate

PAGE = Path("docs/results.md")  # relative to the repository


@dataclass(frozen=True)
class Line:
    """One row of a table."""

    claim: str
    judged: Judged
    source: str = ""
    """Where it was measured, as a link."""


MEANING: dict[Verdict, str] = {
    "supported": "The measurements agree with the claim in every case that it names.",
    "partly supported": "They agree in some cases, or under a condition. The other cases are "
    "undecided or not raced; if the row covers several workloads, some may contradict the claim.",
    "contradicted": "The opposite is the case, or a statement of the theory does not hold.",
    "undecided": "Chance, or a setting that was not tried, could still explain the difference. "
    "This does not show that there is none.",
    "not tested": "No record tests the claim.",
}

_INTRO = """\
# Results

## Findings

{findings}

## How to read this page

`make results` generates this page from the records in `results/`; only the memory row is measured
while the page is made. {report}

**Limits.** {scales} At `mini` networks and data are small ([details](guide/paper.md)). A result at
`mini`, for or against a claim, may not hold at the paper's scale. Verdicts on training come only
from races under `fair`: equal tuning for all optimizers, all choices made on validation, and the
test score of the epoch chosen on validation ([how](guide/racing.md)).

| verdict (rows) | meaning |
| --- | --- |
"""
_RULES = f"""
- **Better and worse**: the interval of the difference excludes 0. It covers the seeds, corrected
  for the number of comparisons, and the placing of the learning rate: what a better one could
  still give ([how](guide/verdicts.md)). The correction does not cover the whole page.
- **Old races**: races whose command has no `--search bracket` tried few, coarse learning rates and
  did not run the settings beside the tuned ones. A better learning rate could close almost any gap
  in them, so they decide little.
- **Differences** are AdaMomentum minus the other optimizer. In brackets stands the interval; of an
  undecided pair, that of the seeds alone.
- **As good as**: the interval excludes a lead of more than {rules.MARGIN:g} points for the other
  optimizer. The margin is our choice.
- **Epochs to the target** are counted on validation. Runs that never reach the target count as one
  epoch longer than they ran. They are compared by a paired t-test with Holm's correction.
- **The default works** if it comes within 2 % of AdaMomentum's best trial on validation. **More
  learning rates are good** if they span a decade more than the median of the others. Both use one
  seed and have no interval.
- **Flatter** solutions are judged by one interval per measure, without correction.
"""


def lines_of(claim: Claim, races: Sequence[Result]) -> list[Line]:
    """Return one line for each workload of a claim, or one line for all."""
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
    said = [_said(claim), *["same claim"] * len(found)]
    return [
        Line(f"{text}: `{name}`", judged[name], source(race) if race else "")
        for text, (name, race) in zip(said, found.items(), strict=False)
    ]


def _said(claim: Claim | Theorem) -> str:
    return f"{claim.says} ({claim.place})"


def theory_lines(records: Mapping[str, Record]) -> list[Line]:
    """Return one line for each theorem."""
    lines = []
    for one in THEOREMS:
        judged, where = Judged("not tested", "No record."), ""
        if record := records.get(one.record):
            judged = theory(record, one.statement)
            where = f"[`{one.record}`, simulated, size `{record['size']}`](guide/theory.md)"
        lines.append(Line(_said(one), judged, where))
    return lines


FLAT = "cifar10_resnet34"


def flat_line(landscapes: Mapping[str, Record]) -> Line:
    """Return the line for the paper's flatness figure, judged by landscape measures of `fair`."""
    said = (
        "“the basin of Adamomentum is much more flat than that of Adam” (section 5.2.1, ResNet-34)"
    )
    record = landscapes.get(f"{FLAT}-full-fair") or landscapes.get(f"{FLAT}-mini-fair")
    if record is None:
        words = "No record of `adamomentum landscape` for this workload."
        return Line(said, Judged("not tested", words), "[how](guide/landscape.md)")
    spec = record["spec"]
    how = f"`{spec['scale']}`, `{spec['protocol']}`, {spec['examples']} examples of training"
    return Line(said, flatter_than(record, "adam"), f"[{how}](guide/landscape.md)")


def page(records: Records) -> str:
    """Return the whole page in Markdown."""
    races = records.races
    trained = [line for claim in CLAIMS for line in lines_of(claim, races)]
    bytes_kept = Line(
        "“no additional memory cost” (section 1)",
        memory(state_bytes()),
        "[counted after one step](guide/performance.md)",
    )
    flat = flat_line(records.landscapes)
    simulated = theory_lines(records.theory)
    found = findings(races, records.theory, records.speed, state_bytes())
    counts = Counter(line.judged.verdict for line in (*trained, bytes_kept, flat, *simulated))
    parts = [
        _INTRO.format(
            findings="\n".join(f"{i}. {line}" for i, line in enumerate(found, 1)),
            report=_report(races),
            scales=_scales_run(races),
        ),
        *(f"| **{word}** ({counts[word]}) | {meaning} |\n" for word, meaning in MEANING.items()),
        _RULES,
    ]
    sections = {
        "Training": _table([*trained, bytes_kept]),
        "Theory and toy experiments": "Each claim is judged by the closest statement that was "
        "tested ([details](guide/theory.md)).\n\n" + _table([*simulated, flat]),
        "How the protocol changes the ranking": _protocols(races),
        "Is the lead on Penn Treebank just a larger learning rate?": _lr_question(races),
        "Other data": _beyond(races),
        "Records": _records(records),
    }
    return "".join([*parts, *(f"\n## {title}\n\n{text}" for title, text in sections.items())])


def _report(races: Sequence[Result]) -> str:
    if not races:
        return "They include no race yet."
    return (
        f"The documentation's site has a [page of all races]({REPORT}) with every run; "
        "`adamomentum report --runs results` generates it too."
    )


def _scales_run(races: Sequence[Result]) -> str:
    if any(race.race.scale == "full" for race in races):
        return "Each result names its scale."
    return "Nothing was run at the paper's scale, `full`."


def _table(lines: Sequence[Line], claim: str = "claim of the paper") -> str:
    """Return a Markdown table of three columns. The source is in the same cell as the result."""
    rows = [f"| {claim} | verdict | our measurement and its source |\n", "| --- | --- | --- |\n"]
    for line in lines:
        measured = "<br>".join(text for text in (_cell(line.judged.found), line.source) if text)
        rows.append(f"| {_cell(line.claim)} | **{line.judged.verdict}** | {measured} |\n")
    return "".join(rows)


def _cell(text: str) -> str:
    for mark in "|*":
        text = text.replace(mark, f"\\{mark}")
    return text


def _protocols(races: Sequence[Result]) -> str:
    """Show the rankings side by side for workloads that were raced under several protocols."""
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
        return "Not tested: no workload has records under `fair` and another protocol.\n"
    return (
        "`as-run` reports the best epoch on test, and uses the settings of the authors' scripts "
        "([protocols](guide/racing.md#protocols)). Compare the order of the optimizers, not the "
        "scores: the columns are not on the same scale. Differences between the protocols may be "
        "chance, because no test compares them.\n\n" + "".join(parts).rstrip("\n") + "\n"
    )


def _ranked(race: Result, i: int) -> str:
    if i >= len(race.rows):
        return ""
    row = race.rows[i]
    name = f"**{row.optimizer}**" if row.optimizer == rules.OURS else row.optimizer
    return f"{name} {estimate(row.score)}{f', {row.lost} failed' if row.lost else ''}"


def _lr_question(races: Sequence[Result]) -> str:
    text = (
        "With noisy gradients and the same lr, AdaMomentum's steps are sqrt((1+b1)/(1-b1)) times "
        "as long as Adam's: 4.36 times with b1 = 0.9. `adam-translated` is Adam with its lr "
        "multiplied by this factor. If it does as well as AdaMomentum, the lead is an effect of "
        "step length.\n\n"
        "Under `as-run` and `paper` nothing is tuned: the three optimizers have the same lr, and "
        "b1 is 0.9. The recurrent matrices are frozen under `as-run`, as in the authors' scripts, "
        "and trained under `paper`. Under `fair` they are trained, and lr, eps and betas are tuned "
        "for each optimizer. Weight decay is 1.2e-4 for all, as in the paper, in the usual form "
        "of each optimizer. `ptb_lstm1_long` is `ptb_lstm1` with 24 epochs.\n\n"
    )
    asked = [
        (race, found)
        for race in races
        if race.race.workload in (*PTB, LONG)
        and race.race.scale in SCALES
        and (found := rules.lr_effect(race))
    ]
    if not asked:
        return text + "Not tested.\n"
    for race, (answer, sentences) in asked:
        rates = ", ".join(
            f"{row.optimizer} {row.settings['lr']:g}"
            + (f" (the {row.edge} tried)" if row.edge else "")
            for row in race.rows
            if row.optimizer in ("adam", "adam-translated", rules.OURS)
        )
        text += f"**{race.race.workload}**, {how(race)} ({link(race)}). {answer}\n\n"
        sentences += [  # other differences between the two
            one.caveat for one in race.effects if one.verdict.b == "adam-translated" and one.caveat
        ]
        sentences += [
            f"Adam with decoupled weight decay (adamw) reaches {estimate(row.score)}: "
            + sentence(found, f"test {race.workload.metric}")
            for found in rules.beside_ours(race)
            if found.b == "adamw" and (row := race.row("adamw"))
        ]
        text += "".join(f"- {said}\n" for said in (*sentences, f"lr: {rates}.")) + "\n"
    return text.rstrip("\n") + "\n"


def _beyond(races: Sequence[Result]) -> str:
    names = list(dict.fromkeys(race.race.workload for race in races if beyond(race)))
    found = [race for name in names if (race := bearing(races, name)) and beyond(race)]
    text = (
        "These workloads use data that the paper does not use. They are not verdicts on the "
        "paper.\n\n"
    )
    if not found:
        return text + "Not tested.\n"
    for race in found:
        lines = [Line(says, rule(race), source(race)) for says, rule in BEYOND]
        text += f"### {race.race.workload}\n\n{race.workload.summary} {of_result(race)}"
        text += "\n\n" + _table(lines, "question") + "\n"
    return text.rstrip("\n") + "\n"


def _records(records: Records) -> str:
    text = (
        "The records are small files without weights or logs, written by `tools/keep.py`. To "
        "reproduce the numbers of a race, run its command. `adamomentum report --runs results` "
        "generates a page of all races.\n\n"
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
            f"- landscape: {name}. `adamomentum landscape` lists the ids of the runs in a results "
            f"folder.\n\n    ```bash\n    adamomentum landscape {ids}\n    ```\n\n"
        )
    return text.rstrip("\n") + "\n"


def main(words: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=Path, default=RECORDS, help="folder of the records")
    parser.add_argument("--out", type=Path, default=PAGE, help="file to write")
    given = parser.parse_args(words)
    given.out.write_text(page(Records.of(given.records)), encoding="utf-8")
    sys.stdout.write(f"{given.out}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
