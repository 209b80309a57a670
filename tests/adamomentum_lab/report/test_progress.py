"""Progress in words."""

from adamomentum_lab.report.progress import duration


def test_durations():
    assert [duration(s) for s in (0.2, 40, 100, 720, 7200, 86400 * 3)] == [
        "1 s", "40 s", "2 min", "12 min", "2 h", "3 days"
    ]  # fmt: skip
