"""The command `adamomentum`: in a process of its own, or in this one, which is much faster."""

import contextlib
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from adamomentum_lab.cli import main
from adamomentum_lab.engine.inline import Inline

ROOT = Path(__file__).parents[2]


def words_of(args):
    return [sys.executable, "-m", "adamomentum_lab.cli", *map(str, args)]


def start_process(*args, env=None, **options):
    """The command in the background, in a session of its own."""
    return subprocess.Popen(
        words_of(args),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
        env={**os.environ, **(env or {})},
        **options,
    )


def run_process(*args, env=None, **options):
    """The command in a process of its own, to its end."""
    return subprocess.run(
        words_of(args),
        capture_output=True,
        text=True,
        check=False,
        cwd=options.pop("cwd", ROOT),
        env={**os.environ, **(env or {})},
        **options,
    )


def run_here(*args, env=None):
    """The command in this process: its `main`, with its exit status and what it writes."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for name in [name for name in sys.modules if name.startswith("_workload_")]:
        del sys.modules[name]  # a new process would read the user's file again
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["adamomentum", *map(str, args)])
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
    return subprocess.CompletedProcess(args, status, out.getvalue(), err.getvalue())


class InlinePool(Inline):
    """Takes the place of the worker processes of a race."""

    def __init__(self, store, workers, say):
        super().__init__(store, say)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


@pytest.fixture
def no_workers(monkeypatch):
    """Races train in this process."""
    monkeypatch.setattr("adamomentum_lab.engine.local.Local", InlinePool)


def without_machine(value):
    """A result without what depends on the machine."""
    if isinstance(value, dict):
        return {k: without_machine(v) for k, v in value.items() if k != "machine"}
    return [without_machine(v) for v in value] if isinstance(value, list) else value
