"""Races from Python: in a script, and in a notebook."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adamomentum_lab import catalog, contenders, rules
from adamomentum_lab.catalog import Reference
from adamomentum_lab.contender import Contender
from adamomentum_lab.engine.devices import PRECISIONS, choose
from adamomentum_lab.engine.driver import Driver
from adamomentum_lab.engine.events import Listener
from adamomentum_lab.engine.factory import ENGINES, make_engine
from adamomentum_lab.engine.store import Store
from adamomentum_lab.errors import LabError, unknown
from adamomentum_lab.race import result as results
from adamomentum_lab.race.looks import plan_looks
from adamomentum_lab.race.plan import Looks, Plan, Race, make_plan
from adamomentum_lab.race.race import run_race
from adamomentum_lab.race.reuse import show_stored_runs
from adamomentum_lab.race.search import Search
from adamomentum_lab.race.steps import with_known_steps, with_steps
from adamomentum_lab.race.studies import record_studies, studies_of
from adamomentum_lab.report import notebook, page, sentences, terminal
from adamomentum_lab.report.progress import RaceDisplay
from adamomentum_lab.report.trackers import make_tracker
from adamomentum_lab.rules import Scale
from adamomentum_lab.workload import Workload

if TYPE_CHECKING:
    import pandas

Optimizer = str | Callable[..., Any] | Contender
"""A name or a reference as on the command line, a class, a function that returns an optimizer, or a
Contender."""


@dataclass(frozen=True)
class Result(results.Result):
    """Who won, how sure that is, and every run. A notebook shows it as a table and a plot."""

    folder: Path = Path("runs")
    """The folder of results that it belongs to."""

    @property
    def summary(self) -> str:
        """The verdicts, in sentences."""
        return terminal.statements(self)

    def frame(self) -> pandas.DataFrame:
        """Return every run as a row of a pandas DataFrame: the columns of `runs.csv`, and one for
        each setting."""
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise LabError("frame() needs pandas: pip install pandas.") from error
        rows = [results.run_row(run, self.workload) for run in self.runs]
        settings = [dict(run.settings) for run in self.runs]
        for row in rows:
            del row["settings"]
        return pandas.concat([pandas.DataFrame(rows), pandas.DataFrame(settings)], axis=1)

    def report(self, file: Path | str) -> Path:
        """Write the page of this race, one HTML file that needs no network. Return its path."""
        from adamomentum_lab.files import write

        write(Path(file), page.render_races([self], self.folder))
        return Path(file)

    def __str__(self) -> str:
        return self.summary

    def _repr_html_(self) -> str:
        return notebook.show(self)


def race(
    workload: str | Path | type[Workload],
    optimizers: str | Sequence[Optimizer] | Mapping[str, Optimizer] = (),
    *,
    trials: int | None = None,
    seeds: int = 5,
    baseline: str | None = "",
    margin: float | None = None,
    search: Search = "bracket",
    tune: Sequence[str] = (),
    space: Sequence[str] = (),
    hard: bool = False,
    halving: bool = False,
    certify: int = 8,
    looks: Looks = "part",
    own_decay: bool = False,
    scale: Scale = "mini",
    protocol: str = "fair",
    device: str = "cpu",
    runs_per_device: int = 1,
    precision: str = "32-true",
    compiled: bool = False,
    jobs: int | None = None,
    engine: str = "local",
    address: str | None = None,
    cpus_per_run: float = 1.0,
    gpus_per_run: float = 0.0,
    runs: Path | str = "runs",
    fresh: bool = False,
    run_timeout: float | None = None,
    trackers: Sequence[str] = (),
    listeners: Iterable[Listener] = (),
) -> Result:
    """Tune every optimizer with the same budget, then compare them over the same seeds.

    The arguments are the options of `adamomentum race`, with the same defaults. Classes that are
    defined in a script or a notebook are sent to the workers; a script needs no
    `if __name__ == "__main__"`. After Ctrl-C the same call continues the race: finished runs are
    not repeated unless the class, the data it uses or the settings have changed.

    Args:
        workload: a name, a file or a class.
        optimizers: names, references and classes; a mapping gives them names. Empty: the standard
            ones.
        trials: maximum tuning runs for each optimizer; 0 compares the defaults. None is 10, or 20
            if weight decay is searched too.
        seeds: final runs for each optimizer.
        baseline: the optimizer that the others are compared with. Empty: adamw, or the first. None
            compares every two.
        margin: optimizers are equivalent if they differ by less, in the unit of the metric.
        search: how settings are tuned: bracket, grid or random.
        tune: settings to search.
        space: values to search, such as "adamw.lr=1e-5:1e-1".
        hard: try nothing outside the ranges of `space`.
        halving: with grid or random, end the worse trials early.
        certify: extra settings per optimizer that may run on the final seeds.
        looks: "all" spends the whole error rate now; "until decided" adds seeds, up to 20.
        own_decay: give each optimizer its usual form of weight decay.
        scale: smoke, mini or full.
        protocol: the rules of the race.
        device: cpu, cuda, mps or auto. Each run has one GPU.
        runs_per_device: runs that share a GPU (local engine).
        precision: 32-true, bf16-mixed, 16-mixed, bf16-true or 64-true.
        compiled: compile the networks by torch.compile.
        jobs: runs at a time; None is as many as there is room for.
        engine: local or ray.
        address: of a Ray cluster.
        cpus_per_run: CPUs of each run (Ray only).
        gpus_per_run: GPUs of each run (Ray only).
        runs: folder of results.
        fresh: ignore stored runs.
        run_timeout: seconds after which a run hangs and is ended.
        trackers: where to log runs too: tensorboard, wandb, mlflow.
        listeners: called with every event of the race.
    """
    if engine not in ENGINES:
        raise LabError(unknown("engine", engine, ENGINES))
    if scale not in rules.SCALES:
        raise LabError(unknown("scale", scale, rules.SCALES))
    if precision not in PRECISIONS:
        raise LabError(unknown("precision", precision, PRECISIONS))
    kind = "cuda" if gpus_per_run else choose(device)
    unclear: list[str] = []
    reference = _find_workload(workload, unclear)
    cls = reference.load()
    raced = _find_contenders(optimizers, unclear) or default_contenders(cls, protocol)
    raced = [one.with_schedule(cls.schedule_settings) for one in raced]
    tuned = cls.rules_of(protocol).tune
    if trials is None:
        more = search == "bracket" and "weight_decay" in tune
        trials = (20 if more else 10) if tuned else 0
    what = Race(
        workload=reference.name,
        code=reference.code,
        optimizers=tuple(one.name for one in raced),
        trials=trials,
        seeds=seeds,
        scale=scale,
        protocol=protocol,
        search=search,
        tune=tuple(tune),
        halving=halving,
        baseline=baseline,
        certify=certify,
        margin=cls.margin if margin is None else margin,
        looks=looks,
        own_decay=own_decay,
        space=tuple(space),
        hard=hard,
        device="" if kind == "cpu" else kind,
        precision=precision,
        compile=compiled,
        entries={one.name: one.entry for one in raced if one.entry},
    )
    [found] = run_studies(
        what,
        reference,
        cls,
        runs=Path(runs),
        engine=functools.partial(
            make_engine,
            engine,
            jobs=jobs,
            address=address,
            cpus=cpus_per_run,
            gpus=gpus_per_run,
            device=kind,
            runs_per_device=runs_per_device,
        ),
        fresh=fresh,
        limit=run_timeout,
        trackers=trackers,
        listeners=listeners,
        notes=unclear,
    )
    if found.faults:
        warnings.warn(sentences.of_faults(found.faults), stacklevel=2)
    return Result(found.record, found.name, Path(runs))


def load(place: Path | str = "runs") -> list[Result]:
    """Return the races in a folder of results, or that of one folder or file of a race."""
    folder = Path(place)
    file = folder / "race.json" if folder.is_dir() else folder
    if file.is_file():
        one = results.Result.read(file)
        return [Result(one.record, one.name, file.resolve().parents[2])]
    return [Result(one.record, one.name, folder) for one in page.load(folder)]


def _find_workload(workload: str | Path | type[Workload], notes: list[str]) -> Reference:
    if not isinstance(workload, type):
        return catalog.find_workload(str(workload))
    if not issubclass(workload, Workload):
        raise LabError(f"{workload.__name__} is no workload; derive it from lab.Workload.")
    reference, why = catalog.refer(workload)
    _note(workload.__name__, why, notes)
    return reference


def _find_contenders(
    optimizers: str | Sequence[Optimizer] | Mapping[str, Optimizer], notes: list[str]
) -> list[Contender]:
    if isinstance(optimizers, str):
        return contenders.find_all(optimizers)
    named = isinstance(optimizers, Mapping)
    pairs = optimizers.items() if isinstance(optimizers, Mapping) else [("", x) for x in optimizers]
    found = []
    for name, value in pairs:
        if isinstance(value, str):
            one, why = contenders.find(f"{name}={value}" if named else value), None
        else:
            one, why = contenders.refer(value, name)
        _note(one.name, why, notes)
        found.append(one)
    contenders.check_distinct(found)
    return found


def _note(name: str, why: str | None, notes: list[str]) -> None:
    if why is not None:
        what = f"{name} cannot be identified exactly: {why}. Its runs are kept for this race alone"
        notes.append(f"{what}; the next one repeats them.")


def default_contenders(cls: type[Workload], protocol: str) -> list[Contender]:
    """The standard ones; where a protocol states settings, those that it states some for."""
    stated = {} if cls.rules_of(protocol).tune else cls.settings.get(protocol, {})
    raced = map(contenders.get, contenders.STANDARD)
    return [one for one in raced if not stated or one.settings_for(stated)]


def lines_before(
    plan: Plan, reference: Reference, store: Store, fresh: bool = False, explain: bool = False
) -> list[str]:
    """What a race will do, and which of its runs are stored."""
    stored, lines = show_stored_runs(plan, reference, store, fresh, explain)
    return [*terminal.plan_lines(plan, stored), *lines]


def run_studies(
    what: Race,
    reference: Reference,
    cls: type[Workload],
    *,
    runs: Path,
    engine: Callable[..., Driver],
    fresh: bool = False,
    explain: bool = False,
    limit: float | None = None,
    trackers: Sequence[str] = (),
    listeners: Iterable[Listener] = (),
    notes: Sequence[str] = (),
    quiet: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
) -> list[results.Result]:
    """Run a race, or each of its studies, and write what was found.

    `notes` are lines for the user. `quiet` redirects what the user's code prints.
    """
    store = Store(runs)

    def run(one: Race) -> results.Result:
        folder = runs / "races" / one.id
        with quiet():
            plan, problem = make_plan(one, cls), cls(one.scale, one.protocol)
        with RaceDisplay(plan, problem) as display:
            logs = [make_tracker(name, folder, one.id).hear for name in trackers]
            heard = [display.hear, *logs, *listeners]
            if one.studies > 1:
                display.say(f"Study {one.study + 1} of {one.studies}")
            levels = plan_looks(one, store, one.studies if one.studies > 1 else 0)
            lines = lines_before(plan, reference, store, fresh)
            for line in (*notes, *lines, *sentences.of_sight(one, levels)):
                display.say(line)
            display.start()
            pool = engine(store, display.say)
            pool.fresh, pool.explain, pool.limit = fresh, explain, limit
            with pool, quiet():
                found = run_race(plan, reference, store, pool, heard)
                known = None if fresh else with_known_steps(found.record, folder / "race.json")
                found = replace(found, record=known) if known else found
                results.write(found, folder)
            if pool.here and not found.faults and not known:
                try:
                    with quiet():  # apart from the race, with no worker at work
                        timed = with_steps(found.record, reference, store)
                except Exception as error:  # a race is not lost for this
                    display.say(f"Times of an update were not measured ({error}).")
                else:
                    found = replace(found, record=timed)
                    results.write(found, folder)
        return found

    found = [run(one) for one in studies_of(what)]
    if what.studies > 1:
        found = record_studies(found, store)
        for one in found:
            results.write(one, runs / "races" / one.race.id)
    return found
