"""What a better setting could still give, on curves worked out by hand."""

import math

import pytest

from adamomentum_lab.stats.potential import potential

INF = math.inf


def flat(*means, seeds=2):
    """Points without noise."""
    return [[mean] * seeds for mean in means]


def test_a_symmetric_bowl_can_be_lower_by_its_rise():
    # Either line falls by 1 over the gap on the other side of the best point.
    found = potential([-1, 0, 1], flat(1, 0, 1))
    assert found.best == 1
    assert found.reach == pytest.approx(1.0)
    assert (found.weakest.place, found.weakest.left) == ("gap", 1)  # of equals the upper gap


def test_the_higher_of_two_lines_bounds_a_gap():
    # In the gap from 0 to 1, y = -x from the left and y = 0.5 + 3 (x - 1) from the right meet at
    # x = 0.625. The gap from -1 to 0 has only the line from the right, y = 0.5 x.
    found = potential([-1, 0, 1, 2], flat(1, 0, 0.5, 3.5))
    assert found.reach == pytest.approx(0.625)
    assert found.weakest.left == 1


def test_nothing_bounds_the_outside():
    above = potential([0, 1], flat(1, 0))
    assert above.reach == INF
    assert above.weakest.place == "above"
    below = potential([0, 1], flat(0, 1))
    assert below.weakest.place == "below"


def test_a_natural_end_needs_no_neighbour():
    found = potential([0, 1, 2], flat(0, 1, 3), ends_below=True)
    # The line through the two points right of the gap, y = 1 + 2 (x - 1), reaches -1 at 0.
    assert found.reach == pytest.approx(1.0)
    assert potential([0], flat(0), ends_below=True, ends_above=True).reach == 0


def test_a_cliff_bounds_the_gap_before_it_by_the_other_line():
    # Left gap: no line, because the point right of the best diverged.
    assert potential([-1, 0, 1], [[1, 1], [0, 0], [INF, 0]]).reach == INF
    # One more point on the left: y = -x on [0, 1]; y = 1 - 3 (x + 1) on [-1, 0] is the other.
    found = potential([-2, -1, 0, 1], [[4, 4], [1, 1], [0, 0], [INF, 0]])
    assert found.reach == pytest.approx(2.0)
    assert found.weakest.left == 1


def test_a_line_needs_finite_points():
    found = potential([-1, 0, 1], [[INF, 1], [0, 0], [INF, 1]])
    assert found.reach == INF
    assert found.weakest.place == "gap"


def test_a_run_that_diverges_by_chance_is_no_wall():
    """One of ten runs: a better setting may lie at that point and beyond."""
    one, most = [INF] + [0.0] * 9, [INF] * 6 + [0.0] * 4
    points = [[2.0] * 10, [1.0] * 10, one]
    assert potential([-1, 0, 1], points).weakest.place == "above"
    assert potential([-1, 0, 1], [*points[:2], most]).weakest.place == "gap"
    # Between two points that did not, it bounds nothing: y = 1 - (x - 0) over the gap from 0 to 2.
    found = potential([-1, 0, 1, 2], [*points, [1.5] * 10])
    assert (found.reach, found.weakest.left, found.weakest.right) == (2.0, 1, 3)


def test_lines_bound_nothing_in_a_gap_that_is_too_wide():
    wide = potential([-2, -1, 0, 1], flat(2, 1, 0, 2), widest=0.5)
    assert wide.reach == INF
    assert (wide.weakest.place, wide.weakest.left) == ("gap", 2)
    assert potential([-1, -0.5, 0, 0.5, 1], flat(2, 1, 0, 1, 2), widest=0.5).reach == 0


def test_everything_diverged():
    found = potential([0, 1], [[INF], [INF]])
    assert found.best is None
    assert found.reach == INF
    assert found.weakest.place == "below"


def test_a_plateau_leaves_nothing_to_find():
    found = potential([-1, 0, 1], flat(0, 0, 0))
    assert found.reach == 0
    assert found.weakest is None


def test_points_far_above_the_hull_are_dropped():
    bump = [[0, 0.1], [5, 5.1], [1, 1.1], [4, 4.1]]
    found = potential([0, 1, 2, 3], bump, ends_below=True)
    assert found.dropped == (1,)
    # The line through the points at 2 and 3 bounds the gap from 0 to 2.
    assert found.reach == pytest.approx(5.0)
    assert (found.weakest.left, found.weakest.right) == (0, 2)


def test_points_above_the_hull_within_noise_stay():
    noisy = [[0, 0], [0.6, 0.5], [-2, 4], [2, 2]]
    assert potential([0, 1, 2, 3], noisy, ends_below=True).dropped == ()


def test_a_convex_curve_never_falls_below_the_bound():
    """Whatever convex curve is sampled, its true minimum lies within reach of the best point."""
    for power in (1.0, 1.5, 2.0, 4.0):
        for at in (-0.4, -0.1, 0.0, 0.23, 0.49):
            xs = [-1, -0.5, 0, 0.5, 1]
            found = potential(xs, [[abs(x - at) ** power] * 3 for x in xs])
            best = min(abs(x - at) ** power for x in xs)
            assert best - found.reach <= 1e-12


def test_every_gap_has_a_bound_by_seed():
    """Each is a weighted sum of the points; the lowest mean is the best mean less the reach."""
    scores = [[4.0, 4.4], [1.0, 1.2], [0.0, 0.2], [0.5, 0.9], [3.5, 3.1]]
    found = potential([-2, -1, 0, 1, 2], scores)
    upper, lower = found.bounds
    assert min(sum(upper) / 2, sum(lower) / 2) == pytest.approx(0.1 - found.reach)
    # The upper gap: y = 0.1 - x from the left meets y = 0.7 + 2.6 (x - 1) at x = 5/9. The slopes
    # cancel in 2.6/3.6 of the left line and 1/3.6 of the right one.
    assert sum(upper) / 2 == pytest.approx(0.1 - 5 / 9)
    x = 5 / 9
    for seed in (0, 1):
        left = scores[2][seed] + (scores[2][seed] - scores[1][seed]) * x
        right = scores[3][seed] + (scores[4][seed] - scores[3][seed]) * (x - 1)
        assert upper[seed] == pytest.approx((2.6 * left + right) / 3.6)
    assert potential([0, 1], flat(1, 0)).bounds == ()


def test_scores_that_the_setting_does_not_change():
    scores = [-90.1 + 0.1, -89.9, -90.0 + 1e-15]
    found = potential([-3.25, -3.0, -2.75], [scores] * 3)
    assert (found.best, found.reach) == (1, 0.0)
