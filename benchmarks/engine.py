"""What an engine costs: time of a run that takes next to none, and of many runs that are done.

    python benchmarks/engine.py [overhead [RUNS [UPDATES]]]
    python benchmarks/engine.py load [RUNS]

`overhead` sends runs of one update each through the local engine and through a Ray on this machine,
with one worker and with two, after a first round that starts the workers; more updates show how
throughput grows with workers. A run without an engine is measured in this process. `load` fills a
store with runs of 15 epochs and times what a race does with it that finds all of them finished.
What the guide shows is kept in results/engine/.
"""

import contextlib
import io
import random
import sys
import tempfile
import time
from pathlib import Path

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.cli import app
from adamomentum_lab.contenders import STANDARD, code_of
from adamomentum_lab.engine.environment import environment
from adamomentum_lab.engine.job import Job, execute
from adamomentum_lab.engine.local import Local
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.engine.store import Run, Store
from adamomentum_lab.race.plan import base_settings

FEW_UPDATES = """
import torch
from torch import nn
from adamomentum_lab import Classification, Data

class FewUpdates(Classification):
    '''Some updates of one layer.'''
    epochs = {"smoke": 1, "mini": 1, "full": 1}
    batch = 2

    def data(self):
        two = (torch.ones(2, 2), torch.tensor([0, 1]))
        return Data((two[0].repeat(UPDATES, 1), two[1].repeat(UPDATES)), two, two)

    def model(self):
        return nn.Linear(2, 2)
"""


def seconds_of(compute, *arguments):
    started = time.perf_counter()
    compute(*arguments)
    return time.perf_counter() - started


def spec_of(origin, optimizer, settings, seed):
    about = {"workload": origin.name, "code": origin.code, "scale": "mini", "protocol": "fair"}
    code = code_of(optimizer)  # as a race has it, which would not find these runs otherwise
    return Spec.of(settings, optimizer=optimizer, optimizer_code=code, seed=seed, **about)


def overhead(folder: Path, count: int, updates: int) -> None:
    file = folder / "few_updates.py"
    file.write_text(FEW_UPDATES.replace("UPDATES", str(updates)))
    origin = find_workload(str(file))

    def jobs_in(store, seeds):
        specs = [spec_of(origin, "adam", {"lr": 1e-3}, seed) for seed in seeds]
        return [Job(spec, origin, store.folder_of(spec)) for spec in specs]

    def in_this_process():
        for job in jobs_in(Store(folder / "here"), range(count)):
            job.folder.mkdir()
            execute(job)

    execute(Job(spec_of(origin, "adam", {"lr": 1e-3}, -1), origin, folder))
    alone = seconds_of(in_this_process) / count
    print(
        f"{count} runs of {updates} updates; busy {1e3 * alone:.1f} ms a run, without an engine\n"
    )
    print("| engine | workers | ms a run | runs a second | to one worker |")
    print("| --- | --- | --- | --- | --- |")

    def local(store, workers):
        return Local(store, workers, print)

    def on_ray(store, workers):
        from adamomentum_lab.engine.ray import Ray

        return Ray(store, print, jobs=workers)

    for name, make in (("local", local), ("ray", on_ray)):
        first = 0.0
        for workers in (1, 2):
            store = Store(folder / f"{name}-{workers}")
            with make(store, workers) as engine:
                engine.run(jobs_in(store, range(-2 * workers, 0)))
                took = seconds_of(engine.run, jobs_in(store, range(count)))
            first = first or took
            print(
                f"| {name} | {workers} | {1e3 * took / count:.1f} | {count / took:.1f} "
                f"| {first / took:.2f} |"
            )


def load(folder: Path, count: int) -> None:
    origin = find_workload("digits_mlp")
    cls = origin.load()
    seeds = count // len(STANDARD)
    specs = [
        spec_of(origin, name, base_settings(name, cls, "fair"), seed)
        for name in STANDARD
        for seed in range(1, seeds + 1)
    ]
    store, machine, drawn = Store(folder), environment("cpu"), random.Random(0)
    scores = ("loss", "accuracy")

    def fill():
        for spec in specs:
            epochs = [
                {"epoch": epoch}
                | {split: {score: drawn.random() for score in scores} for split in
                   ("train", "validation", "test")}
                for epoch in range(1, 16)
            ]  # fmt: skip
            about = {**machine, "seconds": 3.0, "ms_per_update": 0.5, "folder": str(folder)}
            store.finish(Run(spec, "done", epochs, [drawn.random() for _ in epochs], about))

    def race():
        args = ["race", "digits_mlp", "--trials", "0", "--seeds", str(seeds), "--jobs", "1"]
        quiet = io.StringIO()
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            app([*args, "--runs", str(folder)], standalone_mode=False)

    print(f"{len(specs)} runs of 15 epochs\n\n| | seconds |\n| --- | --- |")
    for what, compute in (
        ("written, each in its transaction", fill),
        ("read one by one (Store.get)", lambda: [store.get(spec) for spec in specs]),
        ("read at once (Store.get_all)", lambda: store.get_all(specs)),
        ("all read (Store.all)", store.all),
        ("a race that finds all of them finished", race),
    ):
        print(f"| {what} | {seconds_of(compute):.2f} |")


def main(what: str = "overhead", count: str = "", updates: str = "1") -> None:
    with tempfile.TemporaryDirectory() as folder:
        if what == "load":
            load(Path(folder), int(count or 10_000))
        else:
            overhead(Path(folder), int(count or 200), int(updates))


if __name__ == "__main__":
    main(*sys.argv[1:])
