"""One run in this process."""

import threading

import pytest

from adamomentum_lab.engine import job
from adamomentum_lab.engine.job import Job, execute
from adamomentum_lab.errors import LabError


def test_a_process_trains_one_run_at_a_time(monkeypatch):
    begun, end = threading.Event(), threading.Event()

    def train(*_):
        begun.set()
        end.wait(10)

    monkeypatch.setattr(job, "_execute", train)
    one = Job(None, None, None)
    thread = threading.Thread(target=execute, args=(one,))
    thread.start()
    begun.wait(10)
    with pytest.raises(LabError, match=r"^this process is training another run; it can train only"):
        execute(one)
    end.set()
    thread.join()
    execute(one)  # the other one is over
