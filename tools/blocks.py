"""Make the tables and the picture that README and the guide show, from the records here.

python -m tools.blocks
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from adamomentum_lab.errors import LabError, unknown
from adamomentum_lab.stats.comparisons import LEVEL
from adamomentum_lab.words import counted, listed
from adamomentum_paper.claims import rules
from adamomentum_paper.claims.page import Record, Records, bearing
from adamomentum_paper.claims.rules import Race
from adamomentum_paper.claims.statements import CIFAR, GANS, PTB
from tools import keep
from tools.picture import picture

ROOT = Path(__file__).parents[1]
FILES = (
    "README.md",
    "docs/index.md",
    "docs/guide/performance.md",
    "docs/guide/landscape.md",
    "docs/guide/cluster.md",
)
PICTURE = "docs/race.svg"
PICTURED = "cifar10_resnet34-mini-fair"

# The problems of the comparison in README, and its optimizers; not everyone raced everywhere.
PROBLEMS = (*CIFAR, *PTB, "multi30k_transformer", *GANS, "digits_cnn", "digits_mlp")
COLUMNS = ("adamomentum", "adam", "adam-translated", "adamw", "adabelief", "sgdm")

NAMES = {
    "DenseNet-121": "DenseNet-121 (growth 12)",
    "LSTM, 3 layers": "LSTM with 3 layers",
    "one of 64 Mi": "one tensor of 64 Mi",
    "1,000 x 64": "1,000 tensors of 64",
}
ADAM, OURS, PLAIN, BFLOAT16 = keep.STEPS


def comparison(races: Sequence[Race], page: str) -> str:
    """What each optimizer reached on each problem, and what was detected; `page` says more."""
    rows = [
        "| test score ± 95 % interval | " + " | ".join(COLUMNS) + " | detected of adamomentum |",
        "| --- |" + " ---: |" * len(COLUMNS) + " --- |",
    ]
    for name in PROBLEMS:
        race = bearing(races, name)
        if race is None:
            continue
        problem, scores = race["workload"], {row["optimizer"]: row for row in race["ranking"]}
        arrow = "↑" if problem["larger_is_better"] else "↓"
        cells = [_score(scores[one]) if one in scores else "" for one in COLUMNS]
        seeds = counted(race["spec"]["seeds"], "seed")
        what = f"[{name}]({page}), {problem['metric']} {arrow}, {seeds}"
        rows.append(f"| {what} | " + " | ".join(cells) + f" | {_detected(race)} |")
    return "\n".join(rows) + "\n"


def in_short(races: Sequence[Race]) -> str:
    """Of each other optimizer, where AdaMomentum was better, worse or not comparable."""
    found = {name: race for name in PROBLEMS if (race := bearing(races, name))}
    lines = []
    for other in COLUMNS[1:]:
        by_verdict: dict[str, list[str]] = {}
        for name, race in found.items():
            for row in race["ranking"]:
                if row["optimizer"] == other:
                    by_verdict.setdefault(row["comparison"]["verdict"], []).append(f"`{name}`")
        raced = sum(map(len, by_verdict.values()))
        better, worse = by_verdict.get("worse", []), by_verdict.get("better", [])
        lost = by_verdict.get("not comparable", [])
        lines.append(
            f"- beside `{other}` ({counted(raced, 'problem')}): better on "
            f"{listed(better) or 'none'}, worse on {listed(worse) or 'none'}"
            + (f", not comparable on {listed(lost)}" if lost else "")
            + "\n"
        )
    return "".join(lines)


def protocols(races: Sequence[Race]) -> str:
    """What was detected with the authors' settings, where there is a fair race beside it."""
    return "".join(
        f"- `{name}`: `as-run` {_detected(race)}. `fair` {_detected(fair)}\n"
        for name in PROBLEMS
        if (fair := bearing(races, name))
        for race in races
        if [race["spec"][key] for key in ("workload", "protocol", "scale")]
        == [name, "as-run", fair["spec"]["scale"]]
    )


def _score(row: dict[str, Any]) -> str:
    """Such as `97.25 ± 0.46`."""
    lost = row["values"].count(None)
    score = rules.estimate(row["score"]).partition(" (")[0]
    return f"{score}, {lost} lost" if lost else score


def _detected(race: Race) -> str:
    """In words, with whom of all that took part there is a difference."""
    others = [row for row in race["ranking"] if row["optimizer"] != rules.OURS]
    by_verdict: dict[str, list[str]] = {}
    for row in others:
        by_verdict.setdefault(row["comparison"]["verdict"], []).append(_named(row))
    parts = [
        f"{word} than {listed(by_verdict[verdict])}"
        for verdict, word in (("worse", "better"), ("better", "worse"))
        if verdict in by_verdict
    ]
    same, lost = (by_verdict.get(word, []) for word in ("no difference detected", "not comparable"))
    if same and not parts:
        parts.append(f"no difference to {listed(same) if lost else 'any'}")
    if lost:
        parts.append(f"not comparable to {listed(lost)}")
    rank = next(row["rank"] for row in race["ranking"] if row["optimizer"] == rules.OURS)
    return "; ".join([*parts, f"number {rank} of {len(others) + 1}"])


def _named(row: dict[str, Any]) -> str:
    """With a word where the t-test found a difference that the exact test did not."""
    c = row["comparison"]
    found = c["verdict"] in ("better", "worse")
    doubted = found and c["permutation_note"] is None and c["permutation_holm"] > LEVEL
    return f"{row['optimizer']} (not confirmed by permutation)" if doubted else row["optimizer"]


def speed(records: Sequence[Record]) -> str:
    """Step times beside torch's fused Adam: of several measurements the middle one."""
    _machine(records)
    rows = [
        f"| parameters | tensors | {OURS} | Adam(fused=True) / {OURS} | plain loop / {OURS} |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for model, its in records[0]["models"].items():
        name = NAMES.get(model, model)
        if its["tensors"] > 1 and model != "1,000 x 64":
            name += f", {its['parameters'] / 1e6:.1f} M"
        ms = statistics.median(1e3 * _steps(record, model)[OURS]["seconds"] for record in records)
        ratios = [_ratio(records, model, other) for other in (ADAM, PLAIN)]
        rows.append(f"| {name} | {its['tensors']} | {ms:.3g} ms | {ratios[0]} | {ratios[1]} |")
    return "\n".join(rows) + "\n"


def moments(records: Sequence[Record]) -> str:
    """What moments in bfloat16 save and do to the step time."""
    _machine(records)
    model = "one of 64 Mi"
    rows = [
        f"| moments | state, bytes per parameter | one of 64 Mi, Adam(fused=True) / {OURS} |",
        "| --- | ---: | ---: |",
    ]
    for name, way in (("float32", OURS), ("bfloat16", BFLOAT16)):
        state = _steps(records[0], model)[way]["state_bytes_per_parameter"]
        rows.append(f"| {name} | {state:g} | {_ratio(records, model, ADAM, way)} |")
    return "\n".join(rows) + "\n"


def measured_on(records: Sequence[Record]) -> str:
    """Where the step times come from, in a sentence."""
    machine = _machine(records)
    processor = f" ({machine['processor']})" if "processor" in machine else ""
    adds = [record["add_gb_per_second"] for record in records]
    largest = [_steps(record, "one of 64 Mi")[OURS]["gb_per_second"] for record in records]
    return (
        f"`adamomentum bench`, {counted(len(records), 'run')}, {machine['threads']} threads of a "
        f"virtual machine with {machine['processors']} cores{processor}, torch "
        f"{machine['torch']}, float32, default options. An in-place add of 64 Mi floats reached "
        f"{min(adds):.0f} to {max(adds):.0f} GB/s; on one tensor of 64 Mi AdaMomentum reached "
        f"{min(largest):.0f} to {max(largest):.0f}.\n"
    )


def _machine(records: Sequence[Record]) -> Record:
    """The one that all were measured on, with the same models."""
    machine: Record = records[0]["machine"]
    for key in ("processor", "processors", "threads", "torch"):
        _one(key, [record["machine"].get(key) for record in records])
    _one("models", [listed(list(record["models"])) for record in records])
    return machine


def _one(what: str, values: Sequence[object]) -> None:
    if found := [str(value) for value in values if value != values[0]]:
        raise LabError(
            f"the records of step times were measured with different {what}: {values[0]} and "
            f"{found[0]}; keep those of one."
        )


def _steps(record: Record, model: str) -> dict[str, dict[str, float]]:
    steps: dict[str, dict[str, float]] = record["models"][model]["steps"]
    return steps


def _ratio(records: Sequence[Record], model: str, other: str, ours: str = OURS) -> str:
    """Such as `1.06 (1.05 to 1.18)`: the middle, the lowest and the highest."""
    steps = [_steps(record, model) for record in records]
    ratios = sorted(one[other]["seconds"] / one[ours]["seconds"] for one in steps)
    digits = 2 if ratios[0] < 3 else 1 if ratios[0] < 10 else 0
    low, middle, high = (
        f"{ratio:.{digits}f}" for ratio in (ratios[0], statistics.median(ratios), ratios[-1])
    )
    return f"{middle} ({low} to {high})"


def landscape(record: Record) -> str:
    """Loss and curvature at the solutions: AdaMomentum's, Adam's, and their differences."""
    groups = keep.by_optimizer(record, keep.called(record["spec"]))
    ours, adam, translated = "adamomentum", "adam", "adam-translated"
    gaps = {
        (one["other"], one["measure"]): one["difference"]
        for one in record["comparisons"]
        if one["first"] == ours
    }
    rows = [
        f"| | {ours} | {adam} | {ours} minus {adam} | {ours} minus {translated} |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for measure, words in {"loss": "loss at the solution", **record["measures"]}.items():
        values = [
            {"loss": group["loss"], **group["measures"]}[measure] if group else None
            for group in (groups.get(ours), groups.get(adam))
        ]
        values += [gaps.get((other, measure)) for other in (adam, translated)]
        cells = [rules.estimate(one).partition(" (")[0] if one else "" for one in values]
        rows.append(f"| {words} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def blocks(records: Records) -> dict[str, str]:
    """Every block by its name."""
    made = {
        "comparison": comparison(records.races, "docs/results.md"),
        "comparison on the site": comparison(records.races, "results.md"),
        "in short": in_short(records.races),
        "protocols": protocols(records.races),
    }
    if speeds := list(records.speed.values()):
        made |= {
            "speed": speed(speeds),
            "moments": moments(speeds),
            "measured on": measured_on(speeds),
        }
    for file in sorted((ROOT / "results").glob("engine/*.md")):
        made[f"engine {file.stem}"] = file.read_text(encoding="utf-8")
    if digits := records.landscapes.get("digits_cnn-mini-fair"):
        made["landscape"] = landscape(digits)
    return made


def filled(text: str, made: Mapping[str, str], file: str) -> str:
    """A text with what stands between `<!-- results: NAME -->` and `<!-- end -->` made anew."""
    before, *parts = re.split("<!-- results: *", text)
    for part in parts:
        head, _, content = part.partition("\n")
        name = head.removesuffix(" -->")
        _, end, after = content.partition("<!-- end -->")
        if not end:
            raise LabError(f"{file}: the block {name!r} is not closed by <!-- end -->.")
        if name not in made:
            raise LabError(f"{file}: {unknown('block', name, made)}")
        block = made[name].removesuffix("\n")
        before += f"<!-- results: {name} -->\n{block}\n{end}{after}"
    return before


def files() -> dict[Path, str]:
    """All that this command writes."""
    records = Records.of()
    made = blocks(records)
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in FILES}
    content = {ROOT / name: filled(text, made, name) for name, text in texts.items()}
    pictured = next((race for race in records.races if race["name"] == PICTURED), None)
    return content | ({ROOT / PICTURE: picture(pictured)} if pictured else {})


def main(words: list[str] | None = None) -> int:
    """The command; 1 after a sentence on standard error if something cannot be made."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args(words)
    try:
        made = files()
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    for path, content in made.items():
        path.write_text(content, encoding="utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
