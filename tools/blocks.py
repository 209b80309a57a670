"""Generate the tables and the picture of README and the guide from the records in results/.

python -m tools.blocks
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from adamomentum_lab.errors import LabError, unknown
from adamomentum_lab.race.judge import Row
from adamomentum_lab.race.result import Result
from adamomentum_lab.stats.estimates import Estimate
from adamomentum_lab.words import count_noun, join_words
from adamomentum_paper.claims import rules
from adamomentum_paper.claims.races import bearing
from adamomentum_paper.claims.records import Record, Records
from adamomentum_paper.claims.statements import CIFAR, GANS, PTB
from adamomentum_paper.claims.wording import estimate
from tools import keep
from tools.picture import picture

ROOT = Path(__file__).parents[1]
GUIDES = ("performance", "landscape", "cluster")
FILES = ("README.md", "docs/index.md", *(f"docs/guide/{name}.md" for name in GUIDES))
PICTURE = "docs/race.svg"
PICTURED = "cifar10_resnet34-mini-fair"

# The problems and the optimizers of the comparison. Not every optimizer was raced on every problem.
PROBLEMS = (*CIFAR, *PTB, "multi30k_transformer", *GANS, "digits_cnn", "digits_mlp")
COLUMNS = ("adamomentum", "adam", "adam-translated", "adamw", "adabelief", "sgdm")
ANSWER = ("adamomentum", "adam", "adamw")

NAMES = {
    "DenseNet-121": "DenseNet-121 (growth 12)",
    "LSTM, 3 layers": "LSTM with 3 layers",
    "one of 64 Mi": "one tensor of 64 Mi",
    "1,000 x 64": "1,000 tensors of 64",
}
ADAM, OURS, PLAIN, BFLOAT16 = keep.STEPS
COSTS = {OURS: OURS, "bfloat16 moments": BFLOAT16, "Adam(fused=True)": ADAM, "plain loop": PLAIN}
COST_MODELS = ("ResNet-34", "LSTM, 3 layers", "Transformer", "1,000 x 64")


def comparison(races: Sequence[Result], page: str) -> str:
    """Return the table of scores and verdicts, with links to `page`."""
    rows = []
    for name in PROBLEMS:
        race = bearing(races, name)
        if race is None:
            continue
        problem, scores = race.workload, {row.optimizer: row for row in race.rows}
        arrow = "↑" if problem.larger_is_better else "↓"
        seeds = count_noun(race.race.seeds, "seed")
        what = f"[{name}]({page}), {problem.metric} {arrow}, {seeds}"
        cells = [_score(scores[one]) if one in scores else "" for one in COLUMNS]
        rows.append([what, *cells, _verdicts(race)])
    heads = ["test score ± 95 % interval", *COLUMNS, "verdicts on adamomentum"]
    return _table(heads, rows, words=1)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], words: int = 0) -> str:
    """Return a Markdown table. Columns of numbers are aligned right; the first and the last
    `words` columns are text."""
    align = ["---", *["---:"] * (len(heads) - 1 - words), *["---"] * words]
    lines = ["| " + " | ".join(cells) + " |" for cells in (heads, align, *rows)]
    return "\n".join(lines) + "\n"


def answer(races: Sequence[Result], page: str) -> str:
    """Return the table that answers whether AdaMomentum is better than Adam, for README."""
    rows = []
    for name in PROBLEMS:
        race = bearing(races, name)
        if race is None:
            continue
        problem, scores = race.workload, {row.optimizer: row for row in race.rows}
        arrow = "↑" if problem.larger_is_better else "↓"
        cells = [_score(scores[one]) if one in scores else "" for one in ANSWER]
        first = [row for row in race.rows if row.rank == 1]
        best = f"{join_words([row.optimizer for row in first])}, {_score(first[0])}"
        kinds = [one.kind for one in rules.beside_ours(race) if one.b == "adam"]
        rows.append([f"[{name}]({page}), {problem.metric} {arrow}", *cells, best, *kinds])
    heads = ["test score ± 95 % interval", *ANSWER, "best mean", "adamomentum against adam"]
    return _table(heads, rows, words=2)


def _score(row: Row) -> str:
    """Format a score, such as `97.25 ± 0.46`."""
    score = estimate(row.score).partition(" (")[0]
    return f"{score}, {row.lost} failed" if row.lost else score


def _verdicts(race: Result) -> str:
    """List what is decided about AdaMomentum beside the others, and its rank."""
    ours, found = race.row(rules.OURS), rules.beside_ours(race)
    assert ours is not None
    better, worse, equal, lost = (
        join_words([one.b for one in found if one.kind == kind])
        for kind in ("better", "worse", "equivalent", "not comparable")
    )
    parts = [f"better than {better}"] if better else []
    parts += [f"worse than {worse}"] if worse else []
    parts += [f"equivalent to {equal}"] if equal else []
    if not parts and any(one.kind == "undecided" for one in found):
        parts.append("undecided")
    if lost:
        parts.append(f"not comparable with {lost}")
    return "; ".join([*parts, f"rank {ours.rank} of {len(race.rows)}"])


def speed(records: Sequence[Record]) -> str:
    """Return the table of step times compared with torch's fused Adam: medians of the records."""
    _machine(records)
    rows = []
    for model, its in records[0]["models"].items():
        name = NAMES.get(model, model)
        if its["tensors"] > 1 and model != "1,000 x 64":
            name += f", {its['parameters'] / 1e6:.1f} M"
        own = [record["models"][model]["steps"][OURS]["seconds"] for record in records]
        ms = 1e3 * statistics.median(own)
        ratios = [_ratio(records, model, other) for other in (ADAM, PLAIN)]
        rows.append([name, str(its["tensors"]), f"{ms:.3g} ms", *ratios])
    heads = ["parameters", "tensors", OURS, f"Adam(fused=True) / {OURS}", f"plain loop / {OURS}"]
    return _table(heads, rows)


def costs(records: Sequence[Record]) -> str:
    """Return the table of median step times and state sizes, for README."""
    _machine(records)
    rows = []
    for model in (name for name in COST_MODELS if name in records[0]["models"]):
        steps = [record["models"][model]["steps"] for record in records]
        times = [statistics.median(one[way]["seconds"] for one in steps) for way in COSTS.values()]
        rows.append(
            [f"step, {NAMES.get(model, model)}", *(f"{1e3 * time:.3g} ms" for time in times)]
        )
    one = records[0]["models"]["one of 64 Mi"]["steps"]
    state = [f"{one[way]['state_bytes_per_parameter']:g} B" for way in COSTS.values()]
    return _table(["", *COSTS], [*rows, ["state per parameter", *state]]).replace("|  |", "| |", 1)


def moments(records: Sequence[Record]) -> str:
    """Return the table of state size and step time with float32 and bfloat16 moments."""
    _machine(records)
    model = "one of 64 Mi"
    rows = []
    for name, way in (("float32", OURS), ("bfloat16", BFLOAT16)):
        state = records[0]["models"][model]["steps"][way]["state_bytes_per_parameter"]
        rows.append([name, f"{state:g}", _ratio(records, model, ADAM, way)])
    heads = ["moments", "state, bytes per parameter", f"{model}, Adam(fused=True) / {OURS}"]
    return _table(heads, rows)


def machine_sentence(records: Sequence[Record]) -> str:
    """Describe the machine of the step times in two sentences."""
    machine = _machine(records)
    processor = f" ({machine['processor']})" if "processor" in machine else ""
    adds = [record["add_gb_per_second"] for record in records]
    steps = [record["models"]["one of 64 Mi"]["steps"] for record in records]
    largest = [one[OURS]["gb_per_second"] for one in steps]
    commit = machine.get("commit")
    at = f", commit {commit[:7]}" if commit else ""
    return (
        f"`adamomentum bench`, {count_noun(len(records), 'run')}, {machine['threads']} threads of "
        f"a virtual machine with {machine['processors']} cores{processor}, torch "
        f"{machine['torch']}{at}, float32, default options. An in-place add of 64 Mi "
        f"floats reached "
        f"{min(adds):.0f} to {max(adds):.0f} GB/s; on one tensor of 64 Mi AdaMomentum reached "
        f"{min(largest):.0f} to {max(largest):.0f}.\n"
    )


def _machine(records: Sequence[Record]) -> Record:
    """Return the machine of the records; a LabError if machines or models differ."""
    machine: Record = records[0]["machine"]
    for key in ("processor", "processors", "threads", "torch", "commit"):
        _check_same(key, [record["machine"].get(key) for record in records])
    _check_same("models", [join_words(list(record["models"])) for record in records])
    return machine


def _check_same(what: str, values: Sequence[object]) -> None:
    if found := [str(value) for value in values if value != values[0]]:
        differ = f"different {what}: {values[0]} and {found[0]}"
        raise LabError(f"the records of step times were measured with {differ}; keep one kind.")


def _ratio(records: Sequence[Record], model: str, other: str, ours: str = OURS) -> str:
    """Format a ratio of step times: median, minimum and maximum, as in `1.06 (1.05 to 1.18)`."""
    steps = [record["models"][model]["steps"] for record in records]
    ratios = sorted(one[other]["seconds"] / one[ours]["seconds"] for one in steps)
    digits = 2 if ratios[0] < 3 else 1 if ratios[0] < 10 else 0
    middle = statistics.median(ratios)
    return f"{middle:.{digits}f} ({ratios[0]:.{digits}f} to {ratios[-1]:.{digits}f})"


def landscape(record: Record) -> str:
    """Loss and curvature at the solutions: AdaMomentum's, Adam's, and their differences."""
    groups = keep.by_optimizer(record, keep.record_name(record["spec"]))
    ours, adam, translated = "adamomentum", "adam", "adam-translated"
    found = [one for one in record["comparisons"] if one["first"] == ours]
    gaps = {(one["other"], one["measure"]): one["difference"] for one in found}
    rows = []
    for measure, words in {"loss": "loss at the solution", **record["measures"]}.items():
        own = [groups.get(name) for name in (ours, adam)]
        values = [one and {"loss": one["loss"], **one["measures"]}[measure] for one in own]
        values += [gaps.get((other, measure)) for other in (adam, translated)]
        cells = [estimate(Estimate(**one)).partition(" (")[0] if one else "" for one in values]
        rows.append([words, *cells])
    heads = ["", ours, adam, f"{ours} minus {adam}", f"{ours} minus {translated}"]
    return _table(heads, rows).replace("|  |", "| |", 1)


def blocks(records: Records) -> dict[str, str]:
    """Every block by its name."""
    made = {
        "answer": answer(records.races, "docs/results.md"),
        "comparison": comparison(records.races, "results.md"),
    }
    if speeds := list(records.speed.values()):
        made |= {"costs": costs(speeds), "speed": speed(speeds), "moments": moments(speeds)}
        made["measured on"] = machine_sentence(speeds)
    for file in sorted((ROOT / "results").glob("engine/*.md")):
        made[f"engine {file.stem}"] = file.read_text(encoding="utf-8")
    if digits := records.landscapes.get("digits_cnn-mini-fair"):
        made["landscape"] = landscape(digits)
    return made


def fill(text: str, made: Mapping[str, str], file: str) -> str:
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
    content = {ROOT / name: fill(text, made, name) for name, text in texts.items()}
    pictured = next((race for race in records.races if race.name == PICTURED), None)
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
