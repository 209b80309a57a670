"""Make the small records in results/ from what the commands of the lab have written.

python -m tools.keep RUNS...             every finished race of these folders of results
python -m tools.keep RUNS/races/ID       one of them; --name NAME calls it otherwise
python -m tools.keep --theory DIR        what `adamomentum theory all --out DIR` wrote
python -m tools.keep --landscape DIR...  what `adamomentum landscape ... --out DIR` wrote
python -m tools.keep --speed FILES...    what `adamomentum bench --out FILE` wrote, once a file
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from adamomentum_lab.bench.step_time import models
from adamomentum_lab.errors import LabError
from adamomentum_lab.files import write
from adamomentum_lab.race.judge import epochs_to_target
from adamomentum_lab.race.plan import Race
from adamomentum_lab.race.record import SHARED, RunRecord, WorkloadFacts
from adamomentum_lab.race.result import Result
from adamomentum_lab.race.typed_json import encode
from adamomentum_lab.report.page import load
from adamomentum_lab.selection import reported_epoch, select_epoch
from adamomentum_lab.words import join_words

RECORDS = Path("results")
DIGITS = {"": 6, "epochs": 5, "epoch_seconds": 3}  # of numbers, and of those under these keys
VERSIONS = ("adamomentum", "commit", "torch", "python")
# What says how a run was made, without saying where.
ENVIRONMENT = (*VERSIONS, "processors", "threads", "device")
EXACT = ("spec", "settings", "spaces", "epochs")  # what a repetition or a verdict needs
PATH = re.compile(r"(?<![\w.~/])~?/(?:[^\s/:'\"]+/)+")
STEPS = ("Adam, fused", "AdaMomentum", "  plain loop", "  bfloat16 moments")  # of the tables


def race_record(result: Result) -> dict[str, Any]:
    """The small record of a race.

    Of trials one epoch is kept, that which is reported, without test scores, which decided nothing;
    of a run's environment only what the run before did not have. Scores of reported epochs keep all
    their digits: they are what rankings and verdicts come from.
    """
    record = result.record
    before: dict[str, Any] = {}
    kept: dict[str, Any] = {**record.as_json()}
    for key, runs in (("runs", record.runs), ("budgets", record.budgets)):
        short: list[Any] = []
        for run in runs:
            environment = _pick(run.machine.environment, ENVIRONMENT)
            new = environment if environment != before else {}
            short.append(_run(run, result.workload, new))
            before = environment
        if short:
            kept[key] = short
    kept["machine"] = _pick(record.machine, (*VERSIONS, "processors", "command", "steps"))
    return _round(kept)


def _run(run: RunRecord, workload: WorkloadFacts, environment: dict[str, Any]) -> dict[str, Any]:
    selected = select_epoch(run.epochs, workload)
    kept: dict[str, Any] = encode(run)
    kept["spec"] = {key: value for key, value in kept["spec"].items() if key not in SHARED}
    kept["machine"] = {**kept["machine"], "environment": environment}
    if run.stage == "tuning":
        reported = reported_epoch(run, workload)
        hidden = "" if workload.selection == "test" else "test"
        reported = {key: value for key, value in reported.items() if key != hidden}
        kept["machine"]["epoch_seconds"] = []
        kept["epochs"] = [reported] if reported else []
        return kept
    for digits in (DIGITS["epochs"], DIGITS[""], 17):  # so few that nothing else follows from them
        epochs = tuple(one if one is selected else _round(one, digits) for one in run.epochs)
        short = replace(run, epochs=epochs)
        if select_epoch(epochs, workload) is selected and epochs_to_target(
            short, workload
        ) == epochs_to_target(run, workload):
            break
    kept["epochs"] = list(epochs)
    return kept


def _pick(machine: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: machine[key] for key in keys if machine.get(key) is not None}


def _round(record: dict[str, Any], digits: int = DIGITS[""]) -> dict[str, Any]:
    """With fewer digits, and without the folders of this machine."""
    return {
        name: item if name in EXACT else _round_value(item, DIGITS.get(name, digits))
        for name, item in record.items()
    }


def _round_value(value: Any, digits: int) -> Any:
    if isinstance(value, dict):
        return _round(value, digits)
    if isinstance(value, list):
        return [_round_value(item, digits) for item in value]
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    return PATH.sub("", value) if isinstance(value, str) else value


def theory_record(found: dict[str, Any], file: Path) -> dict[str, Any]:
    """The small record of a claim of the theory; a LabError says why there is none."""
    wanted = ("claim", "size", "verdict", "summary", "findings")
    if not all(key in found for key in (*wanted, "machine")):
        raise LabError(f"{file} was written by an older version; `adamomentum theory` makes it.")
    if found["size"] == "smoke":
        raise LabError(f"{file} is of size smoke, which is for tests.")
    versions = _pick(found["machine"], VERSIONS)
    return {**{key: found[key] for key in wanted}, "versions": versions}


def landscape_record(found: dict[str, Any], file: Path) -> dict[str, Any]:
    """The small record of a comparison of solutions, without the surfaces."""
    wanted = ("spec", "measures", "groups", "comparisons", "verdicts", "notes", "runs")
    if not isinstance(found, dict) or not all(key in found for key in wanted):
        raise LabError(f"{file} was not written by this version of `adamomentum landscape`.")
    by_optimizer(found, file)
    of_a_run = ("id", "spec", "epochs", "loss", "measures")
    kept = {key: found[key] for key in wanted}
    kept["runs"] = [{key: run[key] for key in of_a_run} for run in found["runs"]]
    return _round(kept)


def by_optimizer(found: dict[str, Any], where: object) -> dict[str, dict[str, Any]]:
    """The groups of a comparison of solutions; a LabError where one optimizer has two."""
    groups = {group["optimizer"]: group for group in found["groups"]}
    for name in groups:
        settings = [group["settings"] for group in found["groups"] if group["optimizer"] == name]
        if len(settings) > 1:
            twice = f"{where} has {name} more than once ({'; '.join(settings)})"
            raise LabError(f"{twice}; compare the runs of one setting of each.")
    return groups


def speed_record(found: dict[str, Any], file: Path) -> dict[str, Any]:
    """The small record of one measurement of step times."""
    if not isinstance(found, dict) or not {"machine", "models"} <= found.keys():
        raise LabError(f"{file} was not written by this version of `adamomentum bench`.")
    if missing := _missing_steps(found["models"]):
        raise LabError(f"{file} lacks {missing}; `adamomentum bench` without --model measures all.")
    return _round({**found, "machine": _pick(found["machine"], (*ENVIRONMENT, "processor"))}, 4)


def _missing_steps(measured: dict[str, Any]) -> str:
    """Which models of a measurement, or whose steps, the tables would miss."""
    missing = [repr(model) for model in models() if model not in measured]
    for model in () if missing else models():
        steps = [step.strip() for step in STEPS if step not in measured[model]["steps"]]
        missing += [f"{step!r} of {model!r}" for step in steps]
    return join_words(missing)


def text(record: dict[str, Any]) -> str:
    """JSON, with a line for each run and each row, so that changes can be read."""
    dump = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

    def lines(value: Any) -> str:
        several = isinstance(value, list) and value
        return "[\n" + ",\n".join(map(dump, value)) + "\n]" if several else dump(value)

    parts = [f"{dump(key)}:{lines(value)}" for key, value in record.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def races_of(place: Path) -> list[Result]:
    """Of a folder of results, or the one of a race's own folder."""
    if not (place / "race.json").is_file():
        return load(place)
    found = [race for race in load(place.parents[1]) if race.name == place.name]
    if not found:
        raise LabError(f"all runs of {place} are part of another race of its folder; keep that.")
    return found


def race_name(race: Race) -> str:
    """The name of the record of a race."""
    return f"{race.workload}-{race.scale}-{race.protocol}"


def record_name(spec: dict[str, Any]) -> str:
    """The name of another record."""
    return f"{spec['workload']}-{spec['scale']}-{spec['protocol']}"


def keep_races(places: list[Path], out: Path, name: str | None = None) -> list[Path]:
    """Write a record of each race of these folders; all, or none where one cannot be kept."""
    made: dict[str, tuple[str, str]] = {}
    for race in (race for place in places for race in races_of(place)):
        its = name or race_name(race.race)
        if its in made:
            both = f"{made[its][0]} and {race.name} would both be called {its}"
            raise LabError(f"{both}; give the folder of one race, and --name for another.")
        with _explain_errors(race.name):
            made[its] = (race.name, text(race_record(race)))
    files = {out / "races" / its / "race.json": content for its, (_, content) in made.items()}
    for file, content in files.items():
        write(file, content)
    return list(files)


def keep_theory(folder: Path, out: Path) -> list[Path]:
    """Write a record of each claim in a folder."""
    found = sorted(folder.glob("*.json"))
    if not found:
        raise LabError(f"there is no theory in {folder}; `adamomentum theory all --out` makes it.")
    return _keep(found, theory_record, out / "theory")


def _keep(
    files: list[Path], record: Callable[[dict[str, Any], Path], dict[str, Any]], out: Path
) -> list[Path]:
    """Write a record of each file, under the name of its spec or the file's own; all, or none where
    one cannot be kept."""
    made: dict[str, tuple[Path, str]] = {}
    for file in files:
        with _explain_errors(file):
            one = record(json.loads(file.read_text(encoding="utf-8")), file)
            its = f"{record_name(one['spec'])}.json" if "spec" in one else file.name
            content = text(one)
        if its in made:
            raise LabError(f"{made[its][0]} and {file} would both be called {its}; keep one.")
        made[its] = (file, content)
    for its, (_, content) in made.items():
        write(out / its, content)
    return [out / its for its in made]


@contextmanager
def _explain_errors(source: object) -> Iterator[None]:
    """Say in a sentence that a source is not as its command writes it."""
    try:
        yield
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise LabError(f"{source} cannot be kept ({type(error).__name__}: {error}).") from error


def main(words: list[str] | None = None) -> int:
    """The command; 1 after a sentence on standard error if something cannot be kept."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="*", type=Path, help="folders of results, or of one race")
    parser.add_argument("--theory", type=Path, help="folder that `adamomentum theory` wrote")
    several: dict[str, Any] = {"nargs": "+", "type": Path, "default": []}
    parser.add_argument("--landscape", **several, help="folders of `landscape --out`")
    parser.add_argument("--speed", **several, help="files of `bench --out`")
    parser.add_argument("--name", help="of the record, if not WORKLOAD-SCALE-PROTOCOL")
    parser.add_argument("--out", type=Path, default=RECORDS, help="folder of the records")
    given = parser.parse_args(words)
    if not (given.runs or given.theory or given.landscape or given.speed):
        parser.error("name a folder of results, --theory, --landscape or --speed.")
    try:
        files = keep_races(given.runs, given.out, given.name) if given.runs else []
        files += keep_theory(given.theory, given.out) if given.theory else []
        landscapes = [folder / "landscape.json" for folder in given.landscape]
        files += _keep(landscapes, landscape_record, given.out / "landscape")
        files += _keep(given.speed, speed_record, given.out / "speed")
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    for file in files:
        print(f"{file}  {file.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
