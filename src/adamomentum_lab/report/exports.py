"""What papers and other programs take: CSV, a LaTeX table, figures as SVG and PDF, a schema."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from adamomentum_lab.errors import LabError
from adamomentum_lab.files import write
from adamomentum_lab.race.judge import Row
from adamomentum_lab.race.result import Result, run_row
from adamomentum_lab.race.schema import record_schema
from adamomentum_lab.report.drawings import DRAWINGS, draw
from adamomentum_lab.report.savings import of_budgets, share_in_words
from adamomentum_lab.report.verdicts import difference
from adamomentum_lab.words import count_noun, number, plus_minus

MARKS = {"better": r"$^{\ast}$", "worse": r"$^{\dagger}$", "equivalent": r"$^{=}$"}
"""Behind a score in LaTeX."""


def export(results: Sequence[Result], folder: Path) -> list[Path]:
    """Write everything about these races to a folder; the files that were written."""
    if folder.exists() and not folder.is_dir():
        raise LabError(f"{folder} is a file; --export names a folder.")
    contents: dict[Path, str | bytes] = {
        folder / "race.schema.json": json.dumps(record_schema(), indent=1) + "\n"
    }
    for result in results:
        place = folder / _folder_name(result)
        contents[place / "runs.csv"] = runs_csv(result)
        contents[place / "comparisons.csv"] = comparisons_csv(result)
        contents[place / "table.tex"] = latex_table(result)
        for name in DRAWINGS:
            for kind, data in draw(name, result).items():
                contents[place / f"{name}.{kind}"] = data
    for file, content in contents.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, content)
    return list(contents)


def _folder_name(result: Result) -> str:
    race = result.race
    words = "-".join((race.workload, race.scale, race.protocol, result.name or race.id))
    return re.sub(r"[^\w.-]+", "_", words)


def runs_csv(result: Result) -> str:
    """Every run, those at other lengths included."""
    runs = (*result.runs, *result.record.budgets)
    usual = result.workload.epochs
    return to_csv(
        {**run_row(run, result.workload), "length": run.spec.epochs or usual} for run in runs
    )


def comparisons_csv(result: Result) -> str:
    """Every pair that was compared."""
    return to_csv(
        {
            "optimizer": verdict.a,
            "compared with": verdict.b,
            "verdict": verdict.kind,
            f"difference of test {result.workload.metric}": verdict.difference,
            "from": verdict.interval[0],
            "to": verdict.interval[1],
            "from, seeds alone": verdict.seed_interval[0],
            "to, seeds alone": verdict.seed_interval[1],
            "seeds": verdict.seeds,
            "level": verdict.level / verdict.pairs,
            "reasons": " ".join(reason.why for reason in verdict.reasons),
            **_saved(verdict.a, result),
        }
        for verdict in result.verdicts
    )


def _saved(name: str, result: Result) -> dict[str, object]:
    """The speedup; `0` is less than the shortest length, `inf` more than the longest."""
    found = result.speedups.get(name)
    values = (None,) * 3 if found is None else (found.factor, found.low, found.high)
    return dict(zip(("speedup", "speedup from", "speedup to"), values, strict=True))


def to_csv(rows: Iterable[Mapping[str, object]]) -> str:
    """A table with a head."""
    made = list(rows)
    if not made:
        return ""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(made[0]))
    writer.writeheader()
    writer.writerows(made)
    return text.getvalue()


def latex_table(result: Result) -> str:
    """A table in booktabs, ready for a paper, with its marks explained in the caption."""
    race, metric = result.race, escape(result.workload.metric)
    base = race.baseline
    heads = ["Optimizer", "lr", f"Test {metric}"]
    if base:
        heads.append(f"Difference to {escape(base)}")
    if result.speedups:
        heads.append("Updates")
    rows = [" & ".join(_latex_row(row, result)) + r" \\" for row in result.rows]
    lines = [
        "% Needs \\usepackage{booktabs}.",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_caption(result)}}}",
        rf"\label{{tab:{re.sub('[^a-zA-Z0-9]+', '-', race.workload)}}}",
        rf"\begin{{tabular}}{{ll{'r' * (len(heads) - 2)}}}",
        r"\toprule",
        " & ".join(heads) + r" \\",
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_row(row: Row, result: Result) -> list[str]:
    score = "--"
    if row.score.mean is not None:
        score = plus_minus(row.score.mean, row.score.half, ".5g").replace(" ± ", r" \pm ")
        score = f"${score}$"
    mark = MARKS.get(row.verdict.kind, "") if row.verdict else ""
    cells = [escape(row.optimizer), escape(number(row.settings.get("lr", ""))), score + mark]
    if result.race.baseline:
        words = difference(row.verdict) if row.verdict else "baseline"
        cells.append(re.sub(r"[+-]?\d[\d.]*(e[+-]?\d+)?", r"$\g<0>$", words) or "--")
    if result.speedups:
        found = result.speedups.get(row.optimizer)
        cells.append(share_in_words(found) if found else "1" if not row.verdict else "--")
    return cells


def _caption(result: Result) -> str:
    """What was done, and what each mark means."""
    race, base = result.race, result.race.baseline
    lower = "larger" if result.workload.larger_is_better else "smaller"
    tuned = "Nothing was tuned."
    if race.trials:
        tuned = f"The learning rate of each optimizer was tuned with at most {race.trials} trials."
    text = escape(
        f"{race.workload} ({race.scale}, {race.protocol}): test {result.workload.metric}, "
        f"{lower} is better; mean of {count_noun(race.seeds, 'seed')} "
        f"with half a 95 % t-interval. {tuned}"
    )
    if base:
        text += (
            rf" Beside {escape(base)}, {MARKS['better']} is better, {MARKS['worse']} worse, "
            rf"{MARKS['equivalent']} equivalent; without a mark undecided, in which case the "
            r"interval covers the seeds alone. By chance, at most 5 \% of such tables have a wrong "
            "mark."
        )
    if result.budgets:
        text += f" Updates: {escape(' '.join(of_budgets(result)))}"
    return text


def escape(text: str) -> str:
    """Text for LaTeX."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {char: f"\\{char}" for char in "&%$#_{}"} | {"<": r"\textless{}"}
    special |= {">": r"\textgreater{}", "±": r"$\pm$"}
    return "".join(special.get(char, char) for char in text)
