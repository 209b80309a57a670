"""How the lab bears load: a store of many runs, several races at once, a page of 10,000 runs.

    python -m benchmarks.load [--runs 2000] [--races 8] [--page 10000]

Scores are made up, so that the time is that of the store, the referee and the page. The races at
once are real, on the problem of the tests, in one folder.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.adamomentum_lab.problems import write_problem
from tests.adamomentum_lab.races import MadeUp, noisy, problem, race_of, run_and_write

from adamomentum_lab.engine.store import Store
from adamomentum_lab.report.page import load, render_races


def clock(what, do):
    began, used = time.perf_counter(), time.process_time()
    found = do()
    wall, cpu = time.perf_counter() - began, time.process_time() - used
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what:45} {wall:8.2f} s {cpu:8.2f} CPU s, peak {memory:6.0f} MB", flush=True)
    return found


class Stored(MadeUp):
    """Writes the store as engines do."""

    def __init__(self, store, epochs):
        super().__init__(noisy, epochs)
        self.store = store

    def one_of(self, job):
        run = super().one_of(job)
        self.store.begin(run.spec, {})
        for record, took in zip(run.epochs, run.seconds, strict=True):
            self.store.epoch(run.spec, record, took)
        self.store.finish(run)
        return run


def many_runs(folder, count):
    origin = problem(folder)
    store = Store(folder / "runs")
    race = race_of(origin, "adam", "adamomentum", trials=0, seeds=count // 2)
    clock(f"{count} runs are stored and raced", lambda: run_and_write(
        race, origin, folder / "runs", Stored(store, 20)))  # fmt: skip
    clock(f"{count} runs are read", store.all)
    print(f"{'the store':45} {store.file.stat().st_size / 1e6:8.1f} MB")


def several_races(folder, count):
    """Each with seeds that others have too, so that they wait for each other's runs."""
    file = write_problem(folder)
    words = [sys.executable, "-m", "adamomentum_lab.cli", "race", str(file)]
    words += ["--trials", "0", "--scale", "smoke", "--jobs", "1", "--runs", str(folder / "runs")]
    names = ["adam,sgdm", "adam,adamomentum", "sgdm,adamomentum", "adamw,adam"]

    def start(i):
        own = ["--optimizers", names[i % 4], "--seeds", str(3 + i // 4)]
        return subprocess.Popen([*words, *own], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def all_at_once():
        races = [start(i) for i in range(count)]
        ends = [race.communicate()[1] for race in races]
        assert all(race.returncode == 0 for race in races), ends

    clock(f"{count} races at once in one folder", all_at_once)
    runs = Store(folder / "runs").all()
    assert {run.status for run in runs} == {"done"}
    print(f"{'runs, each trained once':45} {len(runs):8}")


def page(folder, count):
    origin = problem(folder)
    names = ["adam", "adamomentum", "sgdm", "adamw"]
    race = race_of(origin, *names, trials=0, seeds=count // 4)
    run_and_write(race, origin, folder, MadeUp(noisy, 20))
    races = clock(f"the record of {count} runs is read", lambda: load(folder))
    text = clock(f"the page of {count} runs", lambda: render_races(races, folder))
    print(f"{'its size':45} {len(text.encode()) / 1e6:8.1f} MB")
    (folder / "page.html").write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("runs", 2000), ("races", 8), ("page", 10_000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    for count, part in ((given.runs, many_runs), (given.page, page), (given.races, several_races)):
        with tempfile.TemporaryDirectory() as folder:
            if count:
                part(Path(folder), count)


if __name__ == "__main__":
    main()
