"""`adamomentum race`."""

from __future__ import annotations

import functools
import signal
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adamomentum_lab import commands
from adamomentum_lab.engine.factory import ENGINES

if TYPE_CHECKING:
    from adamomentum_lab.contender import Contender
    from adamomentum_lab.workload import Workload


@commands.app.command(
    epilog="Example: adamomentum race digits_cnn --optimizers adamw,yogi --seeds 10"
)
def race(
    workload: commands.WorkloadOption,
    optimizers: Annotated[
        str,
        typer.Option(
            help="Optimizers, separated by commas: names from `adamomentum list`, package.Class or "
            "file.py:Class, as slow=torch.optim.SGD(momentum=0.99). [those marked * in `list`]"
        ),
    ] = "",
    baseline: Annotated[
        str,
        typer.Option(help="The optimizer that the others are compared with. [adamw, or the first]"),
    ] = "",
    pairs: Annotated[
        str, typer.Option(help="baseline, or all to compare every two optimizers.")
    ] = "baseline",
    trials: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=10_000,
            help="Maximum tuning runs for each optimizer; 0 compares the defaults. [10; 20 if "
            "weight decay is searched too]",
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(min=1, max=10_000, help="Final runs for each optimizer, one for each seed."),
    ] = 5,
    until_decided: Annotated[
        bool,
        typer.Option(
            "--until-decided", help="Add seeds, up to 20, while a comparison is undecided."
        ),
    ] = False,
    one_look: Annotated[
        bool,
        typer.Option(
            "--one-look",
            help="Spend the whole error rate of 5 % now. You cannot add seeds later.",
        ),
    ] = False,
    margin: Annotated[
        float | None,
        typer.Option(
            help="Call optimizers equivalent if they differ by less than this, in the unit of the "
            "metric."
        ),
    ] = None,
    budgets: Annotated[
        str,
        typer.Option(
            help="Also train the baseline for these parts of a usual run, as 0.5,1,2, to say how "
            "much training the others save. auto chooses. [off]"
        ),
    ] = "",
    tune: Annotated[
        str,
        typer.Option(
            help="Settings to search, as lr,weight_decay. [lr, and all settings of --space or of "
            "the workload's spaces]"
        ),
    ] = "",
    space: Annotated[
        list[str] | None,
        typer.Option(
            help="Values to search, as adamw.lr=1e-5:1e-1 or '*.betas=(0.9,0.95),(0.9,0.999)'. "
            "May be repeated."
        ),
    ] = None,
    studies: Annotated[
        int,
        typer.Option(
            min=1,
            help="Repeat tuning and final runs this many times, with new seeds. The verdict then "
            "covers the luck of tuning.",
        ),
    ] = 1,
    hard: Annotated[
        bool, typer.Option("--space-is-hard", help="Try nothing outside the ranges of --space.")
    ] = False,
    search: Annotated[
        str,
        typer.Option(
            help="bracket: narrow each setting down around its best value. grid: try listed "
            "values. random: draw values between them."
        ),
    ] = "bracket",
    halving: Annotated[
        bool,
        typer.Option(
            "--halving",
            help="With grid or random: train all trials for a quarter of the epochs, the better "
            "half for half, the best quarter in full.",
        ),
    ] = False,
    certify: Annotated[
        int,
        typer.Option(
            min=0,
            help="Extra settings per optimizer, next to the tuned one, that may run on the final "
            "seeds to reach a verdict.",
        ),
    ] = 8,
    own_decay: Annotated[
        bool,
        typer.Option(
            "--own-decay",
            help="Give each optimizer its usual form of weight decay, not the decoupled form.",
        ),
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Ignore stored runs; run everything again.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say for each run why it is reused or not.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Show the budget, every trial, and the time and disk it will take here; run "
            "nothing but a few updates.",
        ),
    ] = False,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Do not ask before more than an hour's work on a terminal."),
    ] = False,
    scale: commands.ScaleOption = "mini",
    protocol: commands.ProtocolOption = "fair",
    engine: Annotated[str, typer.Option(help=f"{' or '.join(ENGINES)}.")] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="Address of a Ray cluster, as 10.0.0.1:6379. [start one here]"),
    ] = None,
    cpus_per_run: Annotated[
        float,
        typer.Option(min=0.01, help="CPUs, and threads, per run (Ray only). May be a fraction."),
    ] = 1.0,
    gpus_per_run: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="GPUs per run (Ray only). May be a fraction.")
    ] = 0.0,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps or auto.")] = "cpu",
    runs_per_device: Annotated[
        int, typer.Option(min=1, help="Runs that share a GPU (local engine).")
    ] = 1,
    precision: Annotated[
        str, typer.Option(help="32-true, bf16-mixed, 16-mixed, bf16-true or 64-true.")
    ] = "32-true",
    compiled: Annotated[
        bool, typer.Option("--compile", help="Compile the networks by torch.compile.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs at a time. [as many as there is room for]")
    ] = None,
    run_timeout: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="Seconds after which a run hangs and is ended. [10 times the longest finished "
            "run, at least 600]",
        ),
    ] = None,
    runs: commands.RunsOption = Path("runs"),
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write TensorBoard logs.")
    ] = False,
    track: Annotated[
        list[str] | None,
        typer.Option(help="Also log runs to tensorboard, wandb or mlflow. May be repeated."),
    ] = None,
    as_json: commands.JsonOption = False,
) -> None:
    """Tune every optimizer with the same budget, then compare them over the same seeds.

    Run the same command again to resume: finished runs are reused, interrupted ones continue.
    """
    from adamomentum_lab import catalog, rules
    from adamomentum_lab.engine.factory import make_engine
    from adamomentum_lab.engine.store import Store
    from adamomentum_lab.errors import LabError, StoppedError
    from adamomentum_lab.files import dumps
    from adamomentum_lab.race.budgets import parse_budgets
    from adamomentum_lab.space import parse_space

    if engine != "ray" and (address or cpus_per_run != 1.0 or gpus_per_run):
        options = "--address, --cpus-per-run and --gpus-per-run"
        raise typer.BadParameter(f"{options} belong to --engine ray")
    commands.one_of("engine", engine, ENGINES)
    way = commands.one_of("search", search, ("bracket", "grid", "random"))
    every = commands.one_of("pairs", pairs, ("baseline", "all")) == "all"
    if every and baseline:
        raise typer.BadParameter("--pairs all compares every two; leave --baseline out")
    if every and budgets:
        raise typer.BadParameter("--budgets compares with a baseline; leave --pairs all out")
    for text in space or ():
        commands.parse_or_exit(functools.partial(parse_space, text))
    lengths: tuple[float, ...] = ()
    further = False
    if budgets:
        lengths, further = commands.parse_or_exit(lambda: parse_budgets(budgets))
    if one_look and until_decided:
        raise typer.BadParameter("--one-look closes the question; leave --until-decided out")
    if halving and way == "bracket":
        raise typer.BadParameter("--halving needs --search grid or random")
    if margin is not None and not 0 < margin < float("inf"):
        raise typer.BadParameter("--margin must be above 0, in the unit of the metric")
    if optimizers and not _split(optimizers):
        raise typer.BadParameter(f"--optimizers {optimizers!r} names none")
    size = commands.one_of("scale", scale, rules.SCALES)
    from adamomentum_lab.engine.devices import PRECISIONS, Kind, choose

    # The nodes of a cluster have the GPUs, not necessarily this machine.
    kind: Kind = "cuda" if gpus_per_run else commands.parse_or_exit(lambda: choose(device))
    commands.one_of("precision", precision, PRECISIONS)
    commands.parse_or_exit(lambda: rules.get(protocol))
    reference = commands.parse_or_exit(lambda: catalog.find_workload(workload))
    given = commands.parse_or_exit(lambda: commands.find_contenders(optimizers))
    cls = commands.load_workload(reference)
    tuned = cls.rules_of(protocol).tune
    if not tuned and trials:
        raise typer.BadParameter(f"the protocol {protocol!r} has its settings; --trials 0 is right")
    if trials is None:
        more = way == "bracket" and "weight_decay" in _split(tune.replace("-", "_"))
        trials = (20 if more else 10) if tuned else 0
    unused = {"tune": tune, "search": search != "bracket", "halving": halving, "space": space}
    for option in (name for name, used in unused.items() if used and not trials):
        why = "with --trials 0" if tuned else f"under the protocol {protocol!r}"
        raise typer.BadParameter(f"nothing is tuned {why}; leave --{option} out")

    from adamomentum_lab import api

    raced = given or api.default_contenders(cls, protocol)
    raced = [one.with_schedule(cls.schedule_settings) for one in raced]
    from adamomentum_lab.race.plan import Race, make_plan

    what = Race(
        workload=reference.name,
        code=reference.code,
        optimizers=tuple(one.name for one in raced),
        trials=trials,
        seeds=seeds,
        scale=size,
        protocol=protocol,
        search=way,
        tune=_settings_to_tune(tune, raced, cls),
        halving=halving,
        baseline=None if every else baseline,
        certify=certify,
        margin=cls.margin if margin is None else margin,
        looks="all" if one_look else "until decided" if until_decided else "part",
        own_decay=own_decay,
        space=tuple(space or ()),
        hard=hard,
        studies=studies,
        budgets=lengths,
        more_budgets=further,
        device="" if kind == "cpu" else kind,
        precision=precision,
        compile=compiled,
        entries={one.name: one.entry for one in raced if one.entry},
    )
    with commands.quiet_output():
        plan = make_plan(what, cls)
    from adamomentum_lab.commands import _costs

    if dry_run and as_json:
        budget: dict[str, object] = {"spec": asdict(what), "budget": plan.as_json()}
        if engine == "local":
            cost = _costs.measure_cost(plan, reference, runs)
            budget["machine"] = {"cost": asdict(cost), "hours": cost.wall(jobs or 1) / 3600}
        typer.echo(dumps(budget))
        return
    from adamomentum_lab.report.sentences import of_faults
    from adamomentum_lab.report.terminal import plan_lines, show_race, show_studies, trial_lines

    if dry_run:
        there = (runs / "runs.sqlite").exists()
        known = (plan, reference, Store(runs), fresh, explain) if there else None
        lines = api.lines_before(*known) if known else plan_lines(plan, [])
        typer.echo("\n".join([*lines, *trial_lines(plan)]))
        if engine == "local":
            typer.echo(_costs.cost_words(plan, reference, runs, jobs))
        return
    if engine == "local" and not yes:
        _costs.confirm(plan, reference, runs, jobs)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        found = api.run_studies(
            what,
            reference,
            cls,
            runs=runs,
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
            explain=explain,
            limit=run_timeout,
            trackers=[*(["tensorboard"] if tensorboard else []), *(track or [])],
            quiet=commands.quiet_output,
        )
    except KeyboardInterrupt as error:
        raise StoppedError from error
    faults = [run for one in found for run in one.faults]
    if as_json:
        from adamomentum_lab.report import data

        typer.echo(dumps(data.studies_as_json(found) if studies > 1 else data.as_json(found[0])))
    elif studies > 1:
        show_studies(found, runs)
    else:
        show_race(found[0], runs / "races" / what.id)
    if faults:
        raise LabError(of_faults(faults))


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _settings_to_tune(
    tune: str, raced: Sequence[Contender], cls: type[Workload]
) -> tuple[str, ...]:
    """The settings that shall be searched, in the one order."""
    from adamomentum_lab.errors import unknown
    from adamomentum_lab.race.search import space_of
    from adamomentum_lab.space import TUNABLE

    names = [name.replace("-", "_") for name in _split(tune)]
    if not names:
        return ()
    known = dict.fromkeys([*TUNABLE, *(name for one in raced for name in space_of(one, cls))])
    there = [name for name in known if any(name in one.settings for one in raced)]
    for name in names:
        if name not in known:
            raise typer.BadParameter(unknown("setting to tune", name, known))
        if name not in there:
            none = f"none of these optimizers has a setting {name!r}"
            raise typer.BadParameter(f"{none}; there are {', '.join(there)}")
    return tuple(name for name in known if name in names)
