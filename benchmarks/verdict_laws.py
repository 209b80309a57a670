"""Contenders whose scores follow any law: what `benchmarks/verdict_traps.py` races.

Where both contenders follow the same law, any winner is false, whatever "best" means.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass

INF = math.inf


class World:
    """The luck of one race: the same for the same key."""

    def __init__(self, draw: random.Random) -> None:
        self._draw, self._known = draw, dict[Hashable, float]()

    def _once(self, key: Hashable, make: Callable[[], float]) -> float:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def z(self, *key: Hashable) -> float:
        """A standard normal number."""
        return self._once(("z", *key), lambda: self._draw.gauss(0, 1))

    def u(self, *key: Hashable) -> float:
        """A number between 0 and 1."""
        return self._once(("u", *key), self._draw.random)

    def t(self, freedom: int, *key: Hashable) -> float:
        """A number from Student's distribution."""

        def make() -> float:
            squares = sum(self._draw.gauss(0, 1) ** 2 for _ in range(freedom))
            return self._draw.gauss(0, 1) / math.sqrt(squares / freedom)

        return self._once(("t", *key), make)


@dataclass(frozen=True)
class Run:
    """What a score may depend on."""

    world: World
    b: bool
    """Whether it is the baseline's."""
    x: float
    """log10(lr)."""
    other: float
    """Of its other setting: log10 of the value, or the index of a choice."""
    seed: int
    tuning: bool

    @property
    def noise(self) -> float:
        """Independent of everything."""
        return self.world.z(self.b, self.x, self.other, self.seed)

    @property
    def luck(self) -> float:
        """Between 0 and 1, independent of everything."""
        return self.world.u(self.b, self.x, self.other, self.seed)


Law = Callable[[Run], float | None]
"""A score, smaller is better: infinite if the run diverges, None if it fails."""


@dataclass(frozen=True)
class Trap:
    """A pair of contenders with a known truth."""

    name: str
    law: Law
    truth: int = 0
    """1 if A is better at its best, -1 if B is, 0 if neither."""
    starts: tuple[float, float] = (-3.0, -3.0)
    choices: int = 0
    """Of a setting that B alone has; the first is the one it starts from."""
    axis: bool = False
    """Whether B searches a second setting, between 1e-6 and 1e-2."""
    resolution: float = 1e-6
    margin: float | None = None
    contenders: int = 1
    """How many there are beside the baseline."""
    knowable: bool = True
    """Whether the law meets what verdicts assume."""


def vee(u: float, down: float, up: float) -> float:
    return -down * u if u < 0 else up * u


def sigmoid(u: float) -> float:
    return 1 / (1 + math.exp(-u))


def accuracy(p: float, count: int, run: Run) -> float:
    """Minus the percentage of so many test examples that are right: each by chance."""
    draw = random.Random(run.luck)
    right = sum(draw.random() < p for _ in range(count))
    return -100.0 * right / count


def traps() -> list[Trap]:
    """The suite."""
    return [*_places(), *_shapes(), *_noise(), *_scores(), *_lost(), *_settings(), *_winners()]


def _places() -> list[Trap]:
    """Where the best learning rate is."""

    def far_above(run: Run) -> float:
        return vee(run.x - (2.3 if run.b else -3), 0.2, 3) + 0.02 * run.noise

    def far_below(run: Run) -> float:
        at = -8.87 if run.b else -3
        return (INF if run.x > at + 1.1 else vee(run.x - at, 1, 0.3)) + 0.02 * run.noise

    def on_the_lattice_or_not(run: Run) -> float:
        return vee(run.x - (-2.9375 if run.b else -3), 2, 2) + 0.01 * run.noise

    def nearly_vertical(run: Run) -> float:
        return vee(run.x - (-2.68 if run.b else -3), 0.05, 20) + 0.01 * run.noise

    def at_a_cliff(run: Run) -> float:
        cliff = -2.37 if run.b else -3
        return INF if run.x > cliff else 0.5 * (cliff - run.x) + 0.02 * run.noise

    def elsewhere_on_validation(run: Run) -> float:
        shift = 0.6 if run.b and run.tuning else 0.0
        return (run.x + 3 - shift) ** 2 + 0.03 * run.noise

    def drifts_with_the_seed(run: Run) -> float:
        return (run.x + 2.9 - 0.03 * run.seed) ** 2 + 0.02 * run.noise

    def same_in_other_units(run: Run) -> float:
        x = round(run.x - (0.63 if run.b else 0), 9)
        return vee(x + 3.1, 1, 2) + 0.05 * run.world.z(x, run.seed)

    return [
        Trap("best 5 decades above", far_above),
        Trap("best 6 decades below, under a cliff", far_below),
        Trap("best between the lattice", on_the_lattice_or_not),
        Trap("nearly vertical above the best", nearly_vertical),
        Trap("best at a cliff", at_a_cliff),
        Trap("validation prefers another lr", elsewhere_on_validation),
        Trap("best drifts with the seed", drifts_with_the_seed, starts=(-3, -2.3)),
        Trap("the same with lr in other units", same_in_other_units),
    ]


def _shapes() -> list[Trap]:
    """What the curve looks like. Everywhere both contenders follow the same law."""

    def flat_bottom(run: Run) -> float:
        return abs((run.x + 2.2) / 1.3) ** 12 + 0.03 * run.noise

    def flat(run: Run) -> float:
        return 0.03 * run.noise

    def shoulder(run: Run) -> float:
        u = run.x + 2.8
        return u * u + 0.3 * sigmoid((abs(u) - 1.2) / 0.1) + 0.03 * run.noise

    def saturates(run: Run) -> float:
        return 1 - math.exp(-(((run.x + 2.8) / 0.7) ** 2)) + 0.02 * run.noise

    def cusp(run: Run) -> float:
        return math.sqrt(abs(run.x + 2.83)) + 0.02 * run.noise

    def rough(run: Run) -> float:
        bumps = run.world.z(run.b, run.x, "bump")
        return (run.x + 2.8) ** 2 + 0.03 * bumps + 0.03 * run.noise

    def two_humps(run: Run) -> float:
        near, far = (run.x + 3) ** 2 + 0.1, (run.x + 1) ** 2
        return min(near, far) + 0.03 * run.noise

    starts = (-3.0, -2.3)
    return [
        Trap("flat bottom, steep walls", flat_bottom, starts=starts),
        Trap("flat everywhere", flat, starts=starts),
        Trap("a shoulder 1.2 decades away", shoulder, starts=starts),
        Trap("a narrow well", saturates, starts=starts),
        Trap("a cusp", cusp, starts=starts, knowable=False),
        Trap("a rough curve", rough, starts=starts, knowable=False),
        Trap("two humps, other starts", two_humps, starts=(-3, -1.2), knowable=False),
    ]


def _noise() -> list[Trap]:
    def bowl(run: Run) -> float:
        return 0.5 * (run.x + 2.8) ** 2

    def one_noisier(run: Run) -> float:
        return bowl(run) + (0.5 if run.b else 0.01) * run.noise

    def grows_to_the_best(run: Run) -> float:
        at = -1.4 if run.b else -3.3
        return 0.3 * (run.x - at) ** 2 + 0.1 * 10 ** (0.7 * (run.x + 3)) * run.noise

    def quiet_best(run: Run) -> float:
        return bowl(run) + (0.001 + 0.3 * abs(run.x + 2.8)) * run.noise

    def bad_seeds(run: Run) -> float:
        sd = 0.5 if run.world.u(run.seed) < 0.3 else 0.02
        return bowl(run) + sd * run.noise

    def student(run: Run) -> float:
        return bowl(run) + 0.05 * run.world.t(2, run.b, run.x, run.seed)

    def cauchy(run: Run) -> float:
        return bowl(run) + 0.05 * run.world.t(1, run.b, run.x, run.seed)

    def skewed(run: Run) -> float:
        return bowl(run) + 0.1 * (math.exp(0.8 * run.noise) - math.exp(0.32))

    def one_skewed(run: Run) -> float:
        if not run.b:
            return bowl(run) + 0.05 * run.noise
        return bowl(run) + 0.1 * (math.exp(0.8 * run.noise) - math.exp(0.32))

    def seeds_move_the_best(run: Run) -> float:
        return (run.x + 2.8 - 0.4 * run.world.z(run.b, run.seed)) ** 2 + 0.02 * run.noise

    def seeds_tilt_the_curve(run: Run) -> float:
        tilt = 0.3 * run.world.z(run.b, run.seed) * (run.x + 2.8)
        return bowl(run) + tilt + 0.1 * run.world.z(run.seed) + 0.02 * run.noise

    def opposed(run: Run) -> float:
        sign = 1 if run.b else -1
        return bowl(run) + sign * 0.1 * run.world.z(run.seed) + 0.02 * run.noise

    def lucky_tuning(run: Run) -> float:
        return bowl(run) + (1.0 if run.tuning else 0.02) * run.noise

    def noisier_baseline(run: Run) -> float:
        return bowl(run) + (0.2 if run.b else 0.1) * run.noise

    def quiet(run: Run) -> float:
        return bowl(run) + 1e-4 * run.noise

    starts = (-3.0, -2.3)
    return [
        Trap("one contender is 50 times noisier", one_noisier, starts=starts),
        Trap("noise grows towards B's best", grows_to_the_best),
        Trap("no noise at the best alone", quiet_best, starts=starts),
        Trap("three seeds in ten are wild", bad_seeds, starts=starts),
        Trap("heavy tails", student, starts=starts),
        Trap("Cauchy tails", cauchy, starts=starts),
        Trap("both skewed", skewed, starts=starts),
        Trap("one skewed", one_skewed, starts=starts, knowable=False),
        Trap("seeds move the best lr", seeds_move_the_best, starts=starts),
        Trap("seeds tilt the curve", seeds_tilt_the_curve, starts=starts),
        Trap("seeds help one and hurt the other", opposed, starts=starts),
        Trap("tuning is all luck", lucky_tuning, starts=starts),
        Trap("next to no noise", quiet, starts=starts),
        Trap("seven contenders", noisier_baseline, starts=starts, contenders=7),
    ]


def _scores() -> list[Trap]:
    """What the metric can show. Everywhere both follow the same law."""

    def constant(_: Run) -> float:
        return 1.0

    def few_images(run: Run) -> float:
        return accuracy(0.8 - 0.1 * (run.x + 2.8) ** 2, 20, run)

    def near_the_bound(run: Run) -> float:
        return accuracy(0.998 - 0.02 * (run.x + 2.8) ** 2, 200, run)

    def ties_and_jumps(run: Run) -> float:
        return -100.0 if run.luck > 0.15 + 0.1 * abs(run.x + 2.8) else -95.0

    def vanishes(run: Run) -> float:
        return (30.0 if run.b else 1.0) * 10 ** (2 * run.x)

    def vanishes_noisily(run: Run) -> float:
        return (30.0 if run.b else 1.0) * 10 ** (2 * run.x + 0.3 * run.noise)

    def in_the_margin(run: Run) -> float:
        return (
            vee(run.x + (2.9 if run.b else 2.8), 0.4, 4) + (0.151 if run.b else 0) + 0.1 * run.noise
        )

    starts = (-3.0, -2.3)
    return [
        Trap("the same score always", constant, starts=starts),
        Trap("accuracy on 20 images", few_images, starts=starts, resolution=5.0),
        Trap("accuracy near 100 %", near_the_bound, starts=starts, resolution=0.5),
        Trap("two scores only", ties_and_jumps, starts=starts, resolution=1.0),
        Trap("loss vanishes with lr", vanishes),
        Trap("loss vanishes with lr, noisily", vanishes_noisily),
        Trap("just beyond the margin", in_the_margin, truth=1, margin=0.15),
    ]


def _lost() -> list[Trap]:
    """Runs that diverge or fail. Everywhere both follow the same law."""

    def bowl(run: Run) -> float:
        return 0.5 * (run.x + 2.8) ** 2 + 0.05 * run.noise

    def diverges_sometimes(run: Run) -> float:
        return INF if run.luck < 0.05 else bowl(run)

    def seeds_have_cliffs(run: Run) -> float:
        cliff = -2.4 + 0.2 * run.world.z(run.b, run.seed, "cliff")
        return INF if run.x > cliff else 0.3 * (-2.4 - run.x) + 0.02 * run.noise

    def diverges_more_above(run: Run) -> float:
        return INF if run.luck < 0.3 * sigmoid((run.x + 2.5) / 0.1) else bowl(run)

    def fails(run: Run) -> float | None:
        return None if run.luck < 0.01 else bowl(run)

    def fails_when_bad(run: Run) -> float | None:
        return None if run.b and run.noise > 1.3 else bowl(run)

    starts = (-3.0, -2.3)
    return [
        Trap("one run in twenty diverges", diverges_sometimes, starts=starts),
        Trap("each seed has its cliff", seeds_have_cliffs, starts=starts),
        Trap("divergence begins beside the best", diverges_more_above, starts=starts),
        Trap("one run in a hundred fails", fails, starts=starts),
        Trap("bad runs of B fail", fails_when_bad),
    ]


def _settings() -> list[Trap]:
    """B has a setting that A has not, or both are tuned in other ways."""

    def choice(run: Run) -> float:
        worse = (0.1, 0.0, 0.2)[int(run.other)] if run.b else 0.0
        return 0.5 * (run.x + 2.8) ** 2 + worse + 0.1 * run.noise

    def choice_lucky(run: Run) -> float:
        worse = (0.1, 0.0, 0.2)[int(run.other)] if run.b else 0.0
        return 0.5 * (run.x + 2.8) ** 2 + worse + (0.5 if run.tuning else 0.05) * run.noise

    def choice_of_nothing(run: Run) -> float:
        return 0.5 * (run.x + 2.8) ** 2 + 0.1 * run.noise

    def choice_moves_lr(run: Run) -> float:
        at, worse = ((-2.8, 0.15), (-1.8, 0.0))[int(run.other)] if run.b else (-2.8, 0.0)
        return 0.5 * (run.x - at) ** 2 + worse + 0.03 * run.noise

    def second_axis(run: Run) -> float:
        more = 0.1 * (run.other + 3.6) ** 2 if run.b else 0.0
        return 0.5 * (run.x + 2.8) ** 2 + more + 0.03 * run.noise

    def coupled(run: Run) -> float:
        more = (run.other + 3.6 - (run.x + 2.8)) ** 2 if run.b else 0.0
        return 0.2 * (run.x + 2.8) ** 2 + 0.3 * more + 0.03 * run.noise

    return [
        Trap("B has a choice", choice, choices=3),
        Trap("B has a choice, tuning is noisy", choice_lucky, choices=3),
        Trap("B has a choice of no effect", choice_of_nothing, choices=5),
        Trap("B's choice moves its lr by a decade", choice_moves_lr, choices=2, knowable=False),
        Trap("B searches a second axis", second_axis, axis=True),
        Trap("B's second axis is coupled with lr", coupled, axis=True, knowable=False),
    ]


def _winners() -> list[Trap]:
    """One is better, and looks worse where the search begins."""

    def small_gap(run: Run) -> float:
        return 0.5 * (run.x + 2.8) ** 2 + (0.02 if run.b else 0) + 0.1 * run.noise

    def hidden_far(run: Run) -> float:
        at, best = (0.9, 0.0) if run.b else (-3, 0.3)
        return best + vee(run.x - at, 0.5, 3) + 0.05 * run.noise

    def between(run: Run) -> float:
        at, best = (-2.87, 0.0) if run.b else (-3, 0.03)
        return best + vee(run.x - at, 2, 5) + 0.01 * run.noise

    def noisy_but_better(run: Run) -> float:
        return 0.5 * (run.x + 2.8) ** 2 + (0.6 if run.b else 0.02) * run.noise - 0.1 * run.b

    def clear(run: Run) -> float:
        return 0.5 * (run.x + 2.8) ** 2 + (0.3 if run.b else 0) + 0.1 * run.noise

    return [
        Trap("a gap of 0.2 sd", small_gap, truth=1, starts=(-3, -2.3)),
        Trap("B is better, 4 decades away", hidden_far, truth=-1),
        Trap("B is better, between the lattice", between, truth=-1),
        Trap("B is better, and noisier", noisy_but_better, truth=-1),
        Trap("a clear winner", clear, truth=1, starts=(-3, -2.3)),
    ]
