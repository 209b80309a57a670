"""`adamomentum race`."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adamomentum_lab import commands
from adamomentum_lab.engine.factory import ENGINES

if TYPE_CHECKING:
    from adamomentum_lab.engine.events import Listener
    from adamomentum_lab.workload import Workload


@commands.app.command(
    epilog="Example: adamomentum race digits_cnn --optimizers adam,yogi --seeds 3"
)
def race(
    workload: commands.WorkloadOption,
    optimizers: Annotated[
        str, typer.Option(help="Names, separated by commas; by default the first eight of `list`.")
    ] = "",
    trials: Annotated[
        int | None, typer.Option(min=0, help="Tuning runs for each; 0 races the defaults. [6]")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Final runs for each.")] = 5,
    tune: Annotated[
        str,
        typer.Option(
            help="Settings to search, as lr,weight_decay; by default all that have values in the "
            "search space of the workload or the optimizer."
        ),
    ] = "",
    search: Annotated[
        str, typer.Option(help="grid: the listed values. random: also between them.")
    ] = "grid",
    halving: Annotated[
        bool,
        typer.Option(
            "--halving",
            help="Trials train a quarter of the epochs, the better half of them one half, the "
            "better quarter all.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the budget and every trial; run nothing.")
    ] = False,
    scale: commands.ScaleOption = "mini",
    protocol: commands.ProtocolOption = "fair",
    engine: Annotated[str, typer.Option(help=f"{' or '.join(ENGINES)}.")] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="Of a Ray cluster, as 10.0.0.1:6379; without, Ray runs here."),
    ] = None,
    cpus_per_run: Annotated[
        float, typer.Option(min=0.01, help="Under Ray; threads too. May be a fraction.")
    ] = 1.0,
    gpus_per_run: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Under Ray. May be a fraction.")
    ] = 0.0,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs at a time; as many as there is room for.")
    ] = None,
    runs: commands.RunsOption = Path("runs"),
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write TensorBoard logs.")
    ] = False,
    as_json: commands.JsonOption = False,
) -> None:
    """Tune every optimizer with the same budget, then compare them over the same seeds.

    The same race again costs nothing: runs that are finished are not repeated, and those that
    were interrupted are continued.
    """
    from adamomentum_lab import catalog, contenders, rules
    from adamomentum_lab.engine.factory import make_engine
    from adamomentum_lab.engine.store import Store
    from adamomentum_lab.errors import StoppedError
    from adamomentum_lab.files import dumps

    if engine != "ray" and (address or cpus_per_run != 1.0 or gpus_per_run):
        options = "--address, --cpus-per-run and --gpus-per-run"
        raise typer.BadParameter(f"{options} belong to --engine ray")
    commands.one_of("engine", engine, ENGINES)
    way = commands.one_of("search", search, ("grid", "random"))
    size = commands.one_of("scale", scale, rules.SCALES)
    commands.parse_or_exit(lambda: rules.get(protocol))
    reference = commands.parse_or_exit(lambda: catalog.find_workload(workload))
    given = _split(optimizers)
    commands.parse_or_exit(lambda: contenders.check_names(given))
    cls = commands.load_workload(reference)
    tuned = cls.rules_of(protocol).tune
    if not tuned and trials:
        raise typer.BadParameter(f"the protocol {protocol!r} has its settings; --trials 0 is right")
    trials = (6 if tuned else 0) if trials is None else trials
    for option, used in (("tune", tune), ("search", search != "grid"), ("halving", halving)):
        if used and not trials:
            why = "with --trials 0" if tuned else f"under the protocol {protocol!r}"
            raise typer.BadParameter(f"nothing is tuned {why}; leave --{option} out")

    names = given or _default_contenders(cls, protocol)
    from adamomentum_lab.race.plan import Race, count_outdated_runs, find_stored_runs, make_plan

    what = Race(
        workload=reference.name,
        code=reference.code,
        optimizers=tuple(dict.fromkeys(names)),
        trials=trials,
        seeds=seeds,
        scale=size,
        protocol=protocol,
        search=way,
        tune=_settings_to_tune(tune, names, cls),
        halving=halving,
    )
    plan = make_plan(what, cls)
    if dry_run and as_json:
        typer.echo(dumps({"spec": asdict(what), "budget": plan.as_json()}))
        return
    from adamomentum_lab.report.progress import RaceDisplay
    from adamomentum_lab.report.terminal import plan_lines, show_race, trial_lines

    if dry_run:
        stored = find_stored_runs(plan, Store(runs)) if (runs / "runs.sqlite").exists() else []
        typer.echo("\n".join([*plan_lines(plan, stored), *trial_lines(plan)]))
        return
    store = Store(runs)
    folder = runs / "races" / what.id
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.redirect_stdout(sys.stderr):  # standard output is for results
        problem = cls(size, protocol)
    with RaceDisplay(plan, problem) as display:
        listeners: list[Listener] = [display.hear]
        if tensorboard:
            from adamomentum_lab.report.tensorboard import TensorBoard

            listeners.append(TensorBoard(folder / "tensorboard").hear)
        outdated = count_outdated_runs(plan, store)
        for line in plan_lines(plan, find_stored_runs(plan, store), outdated):
            display.say(line)
        display.start()
        pool = make_engine(
            engine,
            store,
            display.say,
            jobs=jobs,
            address=address,
            cpus=cpus_per_run,
            gpus=gpus_per_run,
        )
        # Standard output is for results; a user's file may print.
        with pool, contextlib.redirect_stdout(sys.stderr):
            from adamomentum_lab.race.race import run_race
            from adamomentum_lab.race.result import write

            try:
                result = run_race(plan, reference, store, pool, listeners)
            except KeyboardInterrupt as error:
                raise StoppedError from error
            write(result, folder)
    if as_json:
        from adamomentum_lab.report.data import as_json as result_as_json

        typer.echo(dumps(result_as_json(result)))
    else:
        show_race(result, folder)


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _default_contenders(cls: type[Workload], protocol: str) -> list[str]:
    """The standard ones; where a protocol states settings, those that it states some for."""
    from adamomentum_lab import contenders

    stated = cls.settings.get(protocol, {})
    raced = contenders.STANDARD
    return [name for name in raced if not stated or contenders.get(name).settings_for(stated)]


def _settings_to_tune(tune: str, optimizers: Iterable[str], cls: type[Workload]) -> tuple[str, ...]:
    """The settings that shall be searched, in the one order."""
    from adamomentum_lab import contenders
    from adamomentum_lab.errors import unknown
    from adamomentum_lab.race.search import space_of
    from adamomentum_lab.space import TUNABLE

    names = [name.replace("-", "_") for name in _split(tune)]
    if not names:
        return ()
    raced = [contenders.get(name) for name in optimizers]
    known = dict.fromkeys([*TUNABLE, *(name for one in raced for name in space_of(one, cls))])
    there = [name for name in known if any(name in one.settings for one in raced)]
    for name in names:
        if name not in known:
            raise typer.BadParameter(unknown("setting to tune", name, known))
        if name not in there:
            none = f"none of these optimizers has a setting {name!r}"
            raise typer.BadParameter(f"{none}; there are {', '.join(there)}")
    return tuple(name for name in known if name in names)
