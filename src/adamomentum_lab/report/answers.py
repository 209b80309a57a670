"""The five questions that a reader brings to the page, each answered in a sentence or two."""

from __future__ import annotations

from adamomentum_lab.race.bracket import RESOLVED
from adamomentum_lab.race.record import RunRecord
from adamomentum_lab.race.result import Result
from adamomentum_lab.report.savings import decided, share_in_words
from adamomentum_lab.report.verdicts import difference
from adamomentum_lab.words import count_noun, join_words, number

Answers = list[tuple[str, str]]


def summary(result: Result) -> str:
    """The answer in one sentence; empty if there is no baseline to compare with."""
    base, order = result.race.baseline, [row.optimizer for row in result.rows]
    if base is None or not result.verdicts:
        return ""
    found = {
        kind: sorted((v.a for v in result.verdicts if v.kind == kind), key=order.index)
        for kind in ("better", "equivalent", "worse")
    }
    if found["better"]:
        best, *others = found["better"]
        verdict = next(v for v in result.verdicts if v.a == best)
        more = (
            f" {join_words(others)} {'does' if len(others) == 1 else 'do'}, too." if others else ""
        )
        saved = ""
        if best in result.speedups and decided(best, result):
            share = share_in_words(result.speedups[best])
            saved = f", and needs {share} of the updates of {base} for the same score"
        gap = f"{difference(verdict)} test {result.workload.metric}"
        return f"{best} beats {base}: {gap}{saved}.{more}"
    parts = [f"No optimizer is shown to beat {base} here"]
    if found["equivalent"]:
        parts.append(f"{join_words(found['equivalent'])} can replace it")
    if found["worse"]:
        verb = "is" if len(found["worse"]) == 1 else "are"
        parts.append(f"{join_words(found['worse'])} {verb} worse")
    if rest := len(result.verdicts) - len(found["equivalent"]) - len(found["worse"]):
        parts.append(f"{count_noun(rest, 'comparison')} {'is' if rest == 1 else 'are'} open")
    return f"{'; '.join(parts)}."


def answers(result: Result) -> Answers:
    """Who won, by how much, how sure, whether the baseline was tuned well, what it would save."""
    base = result.race.baseline
    if base is None or not result.verdicts:
        return []
    found = [
        ("Who won?", _who(result)),
        ("By how much?", _how_much(result)),
        ("How sure?", _how_sure(result)),
    ]
    if tuned := tuning_of(base, result):
        found.append((f"Was {base} tuned well?", tuned))
    found.append(("What would it save?", _saving(result)))
    return found


def _who(result: Result) -> str:
    """By verdicts, not by means alone."""
    base = result.race.baseline
    better = [v.a for v in result.verdicts if v.kind == "better"]
    order = [row.optimizer for row in result.rows]
    better.sort(key=order.index)
    if not better:
        first = order[0]
        what = f"Nobody is shown to be better than {base}."
        return what if first == base else f"{what} {first} has the best mean, which may be chance."
    verb = "is" if len(better) == 1 else "are"
    return f"{join_words(better)} {verb} better than {base}."


def _how_much(result: Result) -> str:
    order = [row.optimizer for row in result.rows]
    known = [v for v in result.verdicts if v.difference is not None]
    shown = sorted(known, key=lambda v: (v.kind == "undecided", order.index(v.a)))[:3]
    if not shown:
        return "There is no difference to show: runs were lost."
    sign = "higher" if result.workload.larger_is_better else "lower"
    parts = [f"{v.a} {difference(v)}" for v in shown]
    return f"Test {result.workload.metric} ({sign} is better): {'; '.join(parts)}."


def _how_sure(result: Result) -> str:
    race, count = result.race, len(result.verdicts)
    open_ = sum(v.kind in ("undecided", "not comparable") for v in result.verdicts)
    closed = count - open_
    seeds = count_noun(max(v.seeds for v in result.verdicts), "seed")
    covers = "chance between seeds" + (" and the placing of the lr" if race.trials else "")
    what = f"{closed} of {count_noun(count, 'comparison')} decided over {seeds}"
    return (
        f"{what}. By chance, at most 5 % of such races have a wrong verdict. Intervals cover "
        f"{covers}."
    )


def tuning_of(name: str, result: Result) -> str:
    """Whether the learning rate of a contender lies between two that were tried and are worse."""
    own = result.tuned.get(name)
    if own is None:
        return "" if result.race.trials else f"Nothing was tuned: {name} ran with its defaults."
    known = result.contenders[name]
    if not known.space.axes or known.space.axes[0].name != "lr":
        return f"The lr of {name} was not searched."
    rates = sorted({lr for run in own.runs if (lr := _lr(run)) is not None})
    if not result.finals[name]:
        return f"No trial of {name} ended with a score."
    chosen = _lr(result.finals[name][0])
    if chosen not in rates:
        return f"The lr of {name} was not one of those tried."
    assert chosen is not None
    here = rates.index(chosen)
    tried = f"lr {number(chosen)} is the best of {count_noun(len(own.runs), 'trial')}"
    if here in (0, len(rates) - 1):
        side = "only" if len(rates) == 1 else "largest" if here else "smallest"
        return f"Perhaps not: {tried}, and the {side} one, so a better one may lie beyond."
    low, high = rates[here - 1], rates[here + 1]
    wide = max(high / chosen, chosen / low) > 10 ** (float(RESOLVED) + 1e-6)
    gap = "Roughly" if wide else "Yes"
    between = f"with worse ones on both sides ({number(low)} and {number(high)})"
    checked = _confirmed(name, result, chosen)
    return f"{gap}: {tried}, {between}.{checked}"


def _confirmed(name: str, result: Result, chosen: float) -> str:
    """What the neighbours did on the final seeds."""
    larger = result.workload.larger_is_better
    finals = [v for run in result.finals[name] if (v := result.score(run)) is not None]
    by_lr: dict[float, list[float]] = {}
    for run in result.checks[name]:
        value = result.score(run)
        if (
            value is not None
            and isinstance(lr := run.settings["lr"], (int, float))
            and lr != chosen
        ):
            by_lr.setdefault(float(lr), []).append(value)
    if not by_lr or not finals:
        return ""
    mean = sum(finals) / len(finals)
    means = {lr: sum(own) / len(own) for lr, own in by_lr.items()}
    ahead = [lr for lr, value in means.items() if (value > mean) == larger and value != mean]
    count = count_noun(len(means), "other lr")
    if ahead:
        which = join_words([number(lr) for lr in sorted(ahead)])
        return f" On the final seeds {which} did better; the verdicts allow for that."
    return f" On the final seeds {count} did worse, too."


def _lr(run: RunRecord) -> float | None:
    lr = run.settings.get("lr")
    return float(lr) if isinstance(lr, (int, float)) else None


def _saving(result: Result) -> str:
    base = result.race.baseline
    if not result.speedups:
        return "Not measured: race with --budgets 0.5,1,2."
    names = [row.optimizer for row in result.rows if row.optimizer in result.speedups][:3]
    parts = [f"{name} {share_in_words(result.speedups[name])}" for name in names]
    return f"Updates for the same score, in parts of those of {base}: {'; '.join(parts)}."
