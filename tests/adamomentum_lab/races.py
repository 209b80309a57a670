"""Races with made-up scores, run by the real code, and their pages."""

import math
import random
from collections import deque

from adamomentum_lab.catalog import find_workload
from adamomentum_lab.engine.events import RunEnded
from adamomentum_lab.engine.store import Run, Store
from adamomentum_lab.race.plan import Race, make_plan
from adamomentum_lab.race.race import run_race
from adamomentum_lab.race.result import write
from adamomentum_lab.report import page as report
from tests.adamomentum_lab.problems import HEAD

EVIL = (
    "<img src=x onerror=\"document.title='owned'\"></script><script>document.title='owned'</script>"
)


def run_in_turn(jobs, do, emit, follow):
    """Do jobs and those that follow from them, first in first out, as an engine does."""
    runs, waiting = {}, deque(jobs)
    while waiting:
        job = waiting.popleft()
        run = runs[job.spec.id] = do(job)
        emit(RunEnded(job.stage, run, job.epochs))
        waiting += follow(job, run)
    return [runs[job.spec.id] for job in jobs]


class MadeUp:
    """An engine whose runs have the scores that a function of their specification says."""

    def __init__(self, accuracy, epochs=4):
        self.accuracy, self.epochs = accuracy, epochs
        self.said = []
        self.say = self.said.append

    def run(self, jobs, emit, follow=lambda *_: []):
        return run_in_turn(jobs, self.one_of, emit, follow)

    def one_of(self, job):
        return self.one(job.spec)

    def one(self, spec):
        last = self.accuracy(spec)
        status = "done"
        if isinstance(last, str):
            last, status = 50.0, last
        epochs = [
            {
                "epoch": e,
                "train": {"loss": 2.0 / e},
                "validation": {"loss": 2.0 / e, "accuracy": last * e / self.epochs},
                "test": {"loss": 2.0 / e, "accuracy": last * e / self.epochs - 1},
            }
            for e in range(1, (1 if status == "diverged" else self.epochs) + 1)
        ]
        machine = {"ms_per_update": 1.5, "seconds": 4.0, "torch": "2.13", "updates": 28}
        error = "RuntimeError: it was not to be" if status == "failed" else None
        return Run(spec, status, epochs, [1.0] * len(epochs), machine, error)


def noisy(spec):
    """An accuracy that depends on the optimizer, the lr and the seed."""
    chance = random.Random(f"{spec.seed} {dict(spec.settings)['lr']}").gauss(0, 1)
    return {"adam": 85.0, "adamomentum": 88.0}.get(spec.optimizer, 80.0) + chance


def race_of(origin, *optimizers, **options):
    options = {"trials": 6, "seeds": 1, "scale": "mini", "protocol": "fair"} | options
    return Race(workload=origin.name, code=origin.code, optimizers=optimizers, **options)


def raced(folder, origin, accuracy=noisy, names=("adam", "adamomentum", "sgdm"), **options):
    race = Race(
        origin.name,
        origin.code,
        tuple(names),
        options.pop("trials", 3),
        options.pop("seeds", 4),
        options.pop("scale", "mini"),
        options.pop("protocol", "fair"),
    )
    return run_and_write(race, origin, folder, MadeUp(accuracy, **options))


def run_and_write(race, origin, folder, engine):
    plan = make_plan(race, origin.load())
    result = run_race(plan, origin, Store(folder), engine)
    write(result, folder / "races" / race.id)
    return result


def problem(folder, name="plain", **lines):
    """A user's file, with these class attributes."""
    text = HEAD + "".join(f"\n    {key} = {value!r}" for key, value in lines.items()) + "\n"
    file = folder / f"{name}.py"
    file.write_text(text)
    return find_workload(str(file))


def made(folder):
    file = folder / "page.html"
    file.write_text(report.render_races(report.load(folder), folder))
    return file


def budgets(folder, *names, **options):
    """A race whose baseline is trained at other lengths: `yogi` needs 0.7 of the updates, `adam`
    five times as many."""

    def accuracy(spec):
        length = (spec.epochs or 4) / 4
        part = {"adamw": 1.0, "yogi": 1 / 0.7, "adam": 0.2}[spec.optimizer]
        off = math.log10(dict(spec.settings)["lr"] / 0.001) - (0.3 if length > 1.5 else 0.0)
        chance = 0.02 * math.sin(7.0 * spec.seed + 3.0 * length)
        return 90.0 + 2 * math.log2(length * part) - abs(off) + chance

    origin = problem(folder)
    options = {"seeds": 3, "budgets": (0.5, 1.0, 2.0)} | options
    race = race_of(origin, *(names or ("adamw", "yogi", "adam")), **options)
    return run_and_write(race, origin, folder, MadeUp(accuracy, 4))


def worst(folder):
    """Everything that can go wrong at once, and a name that would like to be markup."""
    origin = problem(folder, "<b>bold & co", metric=EVIL, target=None)
    lines = origin.file.read_text().replace("'''Two noisy", f"'''{EVIL} Two noisy")
    lines += """
    def scores(self, model, batch):
        return super().scores(model, batch)
"""
    origin.file.write_text(lines)
    origin = find_workload(str(origin.file))

    def accuracy(spec):
        return {"adam": "diverged", "sgdm": "failed"}.get(spec.optimizer, math.nan)

    class Engine(MadeUp):
        def one(self, spec):
            run = super().one(spec)
            for record in run.epochs:
                for scores in (record["validation"], record["test"]):
                    scores[EVIL] = scores.pop("accuracy")
            if run.error:
                run.error = EVIL
            return run

    names = ("adam", "sgdm", "yogi", "adamomentum")
    race = Race(origin.name, origin.code, names, 2, 1, "mini", "fair")
    run_and_write(race, origin, folder, Engine(accuracy))
