"""Listeners that log the runs of a race elsewhere, while they train: TensorBoard, Weights & Biases
and MLflow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adamomentum_lab.engine.events import EpochEnded, RunEnded, scores_to_show
from adamomentum_lab.errors import LabError, unknown

if TYPE_CHECKING:
    from adamomentum_lab.engine.events import Event, Stage
    from adamomentum_lab.engine.spec import Spec
    from adamomentum_lab.selection import EpochRecord

PROJECT = "adamomentum"
"""The project of Weights & Biases, and the experiment of MLflow."""


class Tracker(ABC):
    """Logs the scores of each epoch, with the settings, the stage and the id of the race.

    Of a tuning run, the scores on test are not logged.
    """

    package: str
    """What has to be installed."""

    def __init__(self, folder: Path, race: str) -> None:
        self.folder, self.race = folder, race
        try:
            self.prepare()
        except ImportError as error:
            raise LabError(f"this tracker needs: pip install {self.package}.") from error
        self._runs: dict[str, Any] = {}
        self._logged: dict[str, int] = {}  # epochs by run; a worker that dies repeats some

    @abstractmethod
    def prepare(self) -> None:
        """Import the client."""

    @abstractmethod
    def begin(self, name: str, config: Mapping[str, Any]) -> Any:
        """Open a run."""

    @abstractmethod
    def log(self, run: Any, scores: Mapping[str, float], epoch: int) -> None:
        """Log the scores of an epoch."""

    @abstractmethod
    def end(self, run: Any, status: str) -> None:
        """Close a run."""

    def hear(self, event: Event) -> None:
        """A listener."""
        if isinstance(event, EpochEnded):
            self._log(event.stage, event.spec, event.record)
        elif isinstance(event, RunEnded):
            for record in event.run.epochs:
                self._log(event.stage, event.spec, record)
            if event.spec.id in self._runs:
                self.end(self._runs.pop(event.spec.id), event.run.status)

    def _log(self, stage: Stage, spec: Spec, record: EpochRecord) -> None:
        epoch = record["epoch"]
        if epoch <= self._logged.get(spec.id, 0):
            return
        self._logged[spec.id] = epoch
        if spec.id not in self._runs:
            name = f"{stage}-{spec.optimizer}-seed{spec.seed}-{spec.id[:6]}"
            config = {"race": self.race, "stage": stage, "run": spec.id, **spec.as_json()}
            config |= config.pop("settings")
            self._runs[spec.id] = self.begin(name, config)
        scores = {
            f"{metric}/{split}": value
            for split, own in scores_to_show(stage, record).items()
            for metric, value in own.items()
        }
        self.log(self._runs[spec.id], scores, epoch)


class TensorBoard(Tracker):
    """A folder of logs for each run, in the folder of the race."""

    package = "tensorboard"

    def prepare(self) -> None:
        """Import the client."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter

    def begin(self, name: str, config: Mapping[str, Any]) -> Any:
        """Open a run."""
        writer: Any = self._writer(str(self.folder / "tensorboard" / name))
        rows = [f"| {key} | {value} |" for key, value in config.items()]
        writer.add_text("settings", "\n".join(["| | |", "| --- | --- |", *rows]))
        return writer

    def log(self, run: Any, scores: Mapping[str, float], epoch: int) -> None:
        """Log the scores of an epoch."""
        for name, value in scores.items():
            run.add_scalar(name, value, epoch)
        run.flush()

    def end(self, run: Any, status: str) -> None:
        """Close a run."""
        del status
        run.close()


class WandB(Tracker):
    """A run of Weights & Biases for each run, grouped by race. WANDB_MODE=offline logs to disk."""

    package = "wandb"

    def prepare(self) -> None:
        """Import the client."""
        import wandb

        self._init = wandb.init

    def begin(self, name: str, config: Mapping[str, Any]) -> Any:
        """Open a run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self._init(
            project=PROJECT,
            group=self.race,
            job_type=config["stage"],
            name=name,
            config=dict(config),
            dir=str(self.folder),
            reinit="create_new",
        )

    def log(self, run: Any, scores: Mapping[str, float], epoch: int) -> None:
        """Log the scores of an epoch."""
        run.log(dict(scores), step=epoch)

    def end(self, run: Any, status: str) -> None:
        """Close a run."""
        run.finish(exit_code=int(status == "failed"))


class MLflow(Tracker):
    """A run of MLflow for each run, tagged with its race. MLFLOW_TRACKING_URI says where."""

    package = "mlflow"

    def prepare(self) -> None:
        """Import the client."""
        from mlflow import MlflowClient

        self._client: Any = MlflowClient()
        found = self._client.get_experiment_by_name(PROJECT)
        self._experiment = found.experiment_id if found else self._client.create_experiment(PROJECT)

    def begin(self, name: str, config: Mapping[str, Any]) -> Any:
        """Open a run."""
        tags = {"race": self.race, "stage": config["stage"]}
        run = self._client.create_run(self._experiment, tags=tags, run_name=name).info.run_id
        for key, value in config.items():
            self._client.log_param(run, key, value)
        return run

    def log(self, run: Any, scores: Mapping[str, float], epoch: int) -> None:
        """Log the scores of an epoch."""
        for name, value in scores.items():
            self._client.log_metric(run, name, value, step=epoch)

    def end(self, run: Any, status: str) -> None:
        """Close a run."""
        self._client.set_terminated(run, "FAILED" if status == "failed" else "FINISHED")


TRACKERS: Mapping[str, type[Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": WandB,
    "mlflow": MLflow,
}


def make_tracker(name: str, folder: Path, race: str) -> Tracker:
    """Return the tracker with this name. A LabError if its client is not installed."""
    if name not in TRACKERS:
        raise LabError(unknown("tracker", name, TRACKERS))
    return TRACKERS[name](folder, race)
