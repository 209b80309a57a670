"""Which runs count as hanging, on a clock of the test's own."""

import pytest

from adamomentum_lab.engine import watch
from adamomentum_lab.engine.watch import Watch


class Job:
    def __init__(self, name):
        self.spec = self
        self.id = name


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(watch.time, "monotonic", lambda: now[0])

    def wait(seconds, of, *alive):
        """Look every second; the first job that hangs."""
        for _ in range(int(seconds)):
            now[0] += 1
            for job in alive:
                of.hear(job)
            if found := of.hanging():
                return found
        return []

    wait.now = now
    return wait


def begun(limit=None):
    job, of = Job("a"), Watch(limit)
    of.begin(job)
    of.start(job)
    return job, of


def test_a_limit_that_is_given(clock):
    job, of = begun(30.0)
    assert not clock(30, of, job)
    [(found, why)] = clock(2, of)
    assert found is job
    assert why == (
        "it took longer than 30 s (--run-timeout) and was ended; its last sign of life is 2 s old"
    )


def test_before_any_run_has_finished_only_silence_counts(clock):
    job, of = begun()
    assert not clock(20_000, of, job)
    assert not clock(3599, of)
    [(_, why)] = clock(2, of)
    assert why == "it hung and was ended: its last sign of life is 60 min old"


@pytest.mark.parametrize(("longest", "limit"), [(5, 600), (100, 1000)])
def test_ten_times_the_longest_finished_run_and_ten_minutes_at_least(clock, longest, limit):
    job, of = begun()
    clock(longest, of, job)
    of.end(job, finished=True)
    of.begin(job)
    assert not clock(1000, of)  # it has not started: its machine may be busy
    of.start(job)
    assert not clock(limit, of, job)
    [(_, why)] = clock(1, of, job)
    assert "longer than 10 min" in why or "longer than 17 min" in why


def test_a_run_that_never_starts(clock):
    job, of = Job("a"), Watch(30.0)
    of.begin(job)
    assert not clock(150, of)
    [(_, why)] = clock(1, of)
    assert why == "it has not started in 3 min"


def test_a_driver_that_was_stopped_does_not_end_its_runs(clock):
    _, of = begun(30.0)
    clock(20, of)
    clock.now[0] += 100_000  # Ctrl-Z, and on the next day fg
    assert of.hanging() == []
    assert clock(6, of)


def test_failed_runs_say_nothing_of_how_long_runs_take(clock):
    job, of = begun()
    clock(100, of, job)
    of.end(job, finished=False)
    of.begin(job)
    of.start(job)
    assert not clock(3000, of)
