"""Which stored runs count, and why the others do not."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from adamomentum_lab import contenders
from adamomentum_lab.catalog import Reference
from adamomentum_lab.contender import Entry
from adamomentum_lab.engine.job import Job, is_complete
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.engine.store import Run, Store
from adamomentum_lab.identity import FILE, Parts
from adamomentum_lab.inputs import changed_inputs, is_missing
from adamomentum_lab.selection import FAULTS
from adamomentum_lab.words import count_noun, join_words, number

Use = Literal["reuse", "continue", "begin", "begin anew"]
Change = str
"""The name of a file, a module or a package that has changed."""
UNKNOWN = "the code of the workload or the optimizer"


@dataclass(frozen=True)
class Decision:
    """What becomes of a run."""

    use: Use
    why: str

    def about(self, spec: Spec) -> str:
        """As a line for the user."""
        what = {"reuse": "is reused", "continue": "goes on"}.get(self.use, "is run")
        lr = number(dict(spec.settings).get("lr"))
        return f"{spec}, lr {lr} ({spec.id}) {what}: {self.why}."


class Reuse:
    """Decides for each job whether what is stored of its run counts.

    Args:
        store: where runs are kept.
        fresh: whether stored runs do not count, but for those in `begun`.
        begun: ids of runs.
    """

    def __init__(
        self, store: Store, fresh: bool = False, begun: Collection[str] = frozenset()
    ) -> None:
        self.store, self.fresh, self._begun = store, fresh, begun
        self._versions: dict[tuple[str, ...], dict[Spec, Spec]] = {}

    def decide(self, job: Job, run: Run | None) -> Decision:
        """What becomes of a job's run, of which this is stored."""
        if run is None:
            return Decision("begin", self._why_missing(job))
        if self.fresh and job.spec.id not in self._begun:
            return Decision("begin anew", "stored runs are ignored (--fresh)")
        if run.inputs is not None and (changes := _changes_of_inputs(run, job.reference)):
            return Decision("begin anew", _have_changed(changes))
        if is_complete(job, run) and (run.inputs is not None or run.status != "running"):
            return Decision("reuse", "nothing that its numbers depend on has changed")
        if run.status == "damaged":
            return Decision("continue", "what is stored of it is damaged")
        if run.status in FAULTS:
            what = "failed" if run.status == "failed" else "was lost"
            return Decision("begin", f"it {what} before ({run.error})")
        done = count_noun(len(run.epochs), "epoch")
        return Decision("continue", f"{done} of it are stored" if run.epochs else "it was begun")

    def _why_missing(self, job: Job) -> str:
        spec = job.spec
        place = (spec.workload, spec.scale, spec.protocol)
        if place not in self._versions:
            ended = self.store.ended(*place)
            self._versions[place] = {_without_code(one.spec): one.spec for one in ended}
        other = self._versions[place].get(_without_code(spec))
        if other is None or other.id == spec.id:
            return "no run of these settings and this seed is stored"
        return _have_changed(_changes_of_code(self.store, other, job.reference, job.entry))


def tell_changes(
    store: Store,
    reference: Reference,
    scale: str,
    protocol: str,
    raced: Mapping[str, Entry | None],
) -> list[str]:
    """For each change since runs of these optimizers were stored, how many of them do not count.

    Optimizers that have a run that counts are left out: the change was told before.
    """
    counted: set[str] = set()
    stale: dict[Spec, tuple[Change, ...]] = {}
    for one in store.ended(reference.name, scale, protocol):
        spec = one.spec
        if spec.optimizer not in raced:
            continue
        changes = _changes_of_code(store, spec, reference, raced[spec.optimizer])
        if not changes and one.inputs:
            changes = changed_inputs(one.inputs, reference.file.parent)
        if changes:
            stale[_without_code(spec)] = tuple(changes)
        else:
            counted.add(spec.optimizer)
    counts = Counter(changes for spec, changes in stale.items() if spec.optimizer not in counted)
    return [
        f"{_have_changed(changes)}: {count_noun(count, 'stored run')} "
        f"{'does' if count == 1 else 'do'} not count."
        for changes, count in counts.items()
    ]


def _changes_of_code(
    store: Store, spec: Spec, reference: Reference, entry: Entry | None
) -> list[Change]:
    """What has changed since a run with this specification, of the workload and the optimizer."""
    found: dict[Change, None] = {}
    if spec.code != reference.code:
        changes = _compare(store.parts(spec.code), reference.parts, reference.file.name)
        found |= dict.fromkeys(changes)
    if spec.optimizer_code != contenders.origin(spec.optimizer, entry)["optimizer_code"]:
        now = contenders.parts_for(spec.optimizer, entry)
        file = entry.file.name if entry and entry.file else spec.optimizer
        changes = _compare(store.parts(spec.optimizer_code), now, file)
        found |= dict.fromkeys(changes)
    return list(found)


def _compare(before: Parts | None, now: Parts, file: str) -> list[Change]:
    if before is None:
        return [UNKNOWN]
    found = []
    for name in sorted(before.keys() | now.keys(), key=lambda name: (name != FILE, name)):
        old, new = before.get(name, ""), now.get(name, "")
        if old == new:
            continue
        is_version = "." in old + new and len(old + new) < 40
        shown = file if name == FILE else name
        found.append(f"{shown} ({old or 'none'} to {new or 'none'})" if is_version else shown)
    return found


def _changes_of_inputs(run: Run, reference: Reference) -> list[Change]:
    base = reference.file.parent
    changes = changed_inputs(run.inputs or {}, base)
    if run.machine.get("node", platform.node()) == platform.node():
        return changes
    # A node of a cluster may have files that this machine has not.
    return [name for name in changes if not is_missing(name, base)]


def _have_changed(changes: Iterable[Change]) -> str:
    names = list(changes)
    shown = names if len(names) <= 3 else [*names[:2], f"{len(names) - 2} others"]
    return f"{join_words(shown)} {'has' if len(names) == 1 else 'have'} changed"


def _without_code(spec: Spec) -> Spec:
    return replace(spec, code="", optimizer_code="")
