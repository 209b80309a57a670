"""A listener that writes TensorBoard logs, one folder for each run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from adamomentum_lab.engine.events import RunEnded, scores_to_show
from adamomentum_lab.errors import LabError

if TYPE_CHECKING:
    from adamomentum_lab.engine.events import Event


class TensorBoard:
    """Writes what each run of a race has measured as soon as the run ends."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise LabError("--tensorboard needs: pip install tensorboard") from error
        self._writer, self._folder = SummaryWriter, folder
        self._written: dict[str, int] = {}  # epochs by run: a trial may end in every rung

    def hear(self, event: Event) -> None:
        """A listener."""
        if not isinstance(event, RunEnded):
            return
        spec, epochs = event.spec, event.run.epochs
        before = self._written.get(spec.id, 0)
        if len(epochs) <= before:
            return
        self._written[spec.id] = len(epochs)
        name = f"{event.stage}-{spec.optimizer}-seed{spec.seed}-{spec.id[:6]}"
        with self._writer(str(self._folder / name)) as writer:
            for record in epochs[before:]:
                for split, scores in scores_to_show(event.stage, record).items():
                    for metric, value in scores.items():
                        writer.add_scalar(f"{metric}/{split}", value, record["epoch"])
