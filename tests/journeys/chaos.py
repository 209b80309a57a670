"""Faults of machines, put into a race that is under way."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import time
from collections import Counter
from pathlib import Path

from tests.adamomentum_lab.command_line import start_process, without_machine
from tests.adamomentum_lab.problems import PROBLEMS

# Slow enough to be hit. A run that was stopped goes on from its checkpoint.
PROBLEM = PROBLEMS["slow"]
STOPPED = 0.5  # seconds


def write_slow(folder: Path) -> Path:
    file = folder / "slow.py"
    file.write_text(PROBLEM)
    return file


def children(process: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, task.read_text().split())
    return found


def is_called(process: int, words: bytes) -> bool:
    with contextlib.suppress(OSError):
        return words in Path(f"/proc/{process}/cmdline").read_bytes()
    return False


def find_local(driver: int) -> tuple[list[int], list[int]]:
    """The workers of a driver, and the processes of their runs."""
    workers = [one for one in children(driver) if is_called(one, b"adamomentum_lab.engine.worker")]
    return workers, [one for worker in workers for one in children(worker)]


def find_ray(driver: int) -> tuple[list[int], list[int]]:
    """The process of the node that a driver started, and those of its tasks and actors."""
    nodes = [one for one in children(driver) if is_called(one, b"raylet")]
    inside = [one for node in nodes for one in children(node)]
    return nodes, [one for one in inside if is_called(one, b"ray::")]


class Chaos:
    """Runs a command again and again, under faults, until it succeeds without any.

    Args:
        words: the command.
        seed: of what happens when.
        find: finds the processes of a driver.
    """

    def __init__(self, words, seed: int, env=None, find=find_local) -> None:
        self.words, self.env, self.find = words, env, find
        self.random = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.starts = 0
        self.said: list[str] = []

    def run(self, faults: int):
        """What the command prints in the end."""
        while True:
            self.starts += 1
            process = start_process(*self.words, env=self.env)
            while process.poll() is None and sum(self.done.values()) < faults:
                time.sleep(self.random.uniform(0.1, 1.5))
                self._hit(process.pid)
            try:
                out, err = process.communicate(timeout=600)
            finally:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
            self.said.append(err)
            assert "Traceback" not in err, err
            if process.returncode == 0 and sum(self.done.values()) >= faults:
                return json.loads(out)
            # Killed, a full disk, or runs that were lost twice: said, and started again.
            if process.returncode == 1:
                assert "again" in err.splitlines()[-1], err
            assert self.starts < 20 + 3 * faults, self.said[-3:]
            if process.returncode == 0:  # all is done before all faults were: begin a part anew
                self.words = [word for word in self.words if word != "--fresh"] + ["--fresh"]

    def _hit(self, driver: int) -> None:
        workers, runs = self.find(driver)
        kind = self.random.choice(["driver", "worker", "run", "run", "stop", "memory", "disk"])
        which = {"driver": [driver], "worker": workers}.get(kind, runs)
        if not runs:  # nothing is under way yet
            return
        victim = self.random.choice(which)
        with contextlib.suppress(ProcessLookupError, PermissionError, ValueError):
            if kind == "stop":
                os.kill(victim, signal.SIGSTOP)
                time.sleep(STOPPED)
                os.kill(victim, signal.SIGCONT)
            elif kind == "memory":  # no more than it has
                pages = int(Path(f"/proc/{victim}/statm").read_text().split()[0])
                limit = pages * resource.getpagesize()
                resource.prlimit(victim, resource.RLIMIT_AS, (limit, limit))
            elif kind == "disk":  # no file may grow, as on a full disk
                resource.prlimit(victim, resource.RLIMIT_FSIZE, (1000, 1000))
            else:
                os.kill(victim, signal.SIGKILL)
            self.done[kind] += 1


def compare(result, undisturbed) -> tuple[int, int]:
    """How many runs of the undisturbed race are lost, and how many are there with other numbers."""

    def of(data):
        return {run["id"]: (run["status"], run["epochs"], run["stage"]) for run in data["runs"]}

    ours, theirs = of(without_machine(result)), of(without_machine(undisturbed))
    lost = sum(name not in ours for name in theirs)
    return lost, sum(ours[name] != theirs[name] for name in theirs if name in ours)
