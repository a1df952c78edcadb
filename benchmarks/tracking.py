"""MLflow, behind the few calls that the suite makes; the only module that imports it.

Every call names its run: MLflow's "current run" is never used, and the variables that set it are ignored.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag
from mlflow.utils.validation import MAX_METRICS_PER_BATCH, MAX_PARAMS_TAGS_PER_BATCH

from benchmarks.record import Status
from benchmarks.runs_folder import RunsFolder
from benchmarks.shown import Value
from sagc.errors import ConfigError

URI_VARIABLE = "MLFLOW_TRACKING_URI"
IGNORED = (
    "MLFLOW_RUN_ID",
    "MLFLOW_RUN_NAME",
    "MLFLOW_EXPERIMENT_ID",
    "MLFLOW_EXPERIMENT_NAME",
    "MLFLOW_ACTIVE_MODEL_ID",
    "MLFLOW_RUN_CONTEXT",
    "MLFLOW_ENABLE_ASYNC_LOGGING",
)
"""Variables that would send the records somewhere else, or lose them when a process is killed."""
DESCRIPTION = "mlflow.note.content"
"""The tag that MLflow shows as a run's description, in Markdown."""
PATIENCE = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "10", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
"""A server answers within 10 s or is asked again later [ours]; MLflow would block for minutes."""
_STATUS: dict[Status, str] = {
    "finished": "FINISHED",
    "killed": "KILLED",
    "failed": "FAILED",
    "diverged": "FAILED",
    "stalled": "FAILED",
}


def mlflow_status(status: Status) -> str:
    """The status that MLflow shows for a run; the tag ``sagc.outcome`` tells the rest apart."""
    return _STATUS[status]


def tracking_uri(folder: RunsFolder, environ: Mapping[str, str]) -> str:
    """Where records are mirrored: ``MLFLOW_TRACKING_URI``, else a SQLite file in the runs folder.

    A SQLite file is named absolutely, since a relative one would depend on where a command is started.
    """
    given = environ.get(URI_VARIABLE)
    if not given:
        return f"sqlite:///{(folder.path / 'mlflow.db').resolve()}"
    file = sqlite_file(given)
    return given if file is None else f"sqlite:///{file.resolve()}"


def sqlite_file(uri: str) -> Path | None:
    """The file of a SQLite address; None for any other address."""
    return Path(uri.removeprefix("sqlite:///")) if uri.startswith("sqlite:///") else None


def drop_ignored(environ: MutableMapping[str, str]) -> list[str]:
    """Remove the variables of `IGNORED`, and name those that were set."""
    return [name for name in IGNORED if environ.pop(name, None) is not None]


def connect(folder: RunsFolder, experiment: str) -> Tracker:
    """Find or make the store and the experiment, before anything starts.

    Args:
        folder: the runs folder; default home of the store and of its artifacts.
        experiment: name of the experiment.

    Raises:
        ConfigError: if the address does not answer.
    """
    uri = tracking_uri(folder, os.environ)
    for name, value in PATIENCE.items():
        os.environ.setdefault(name, value)
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        with _alone(sqlite_file(uri)):
            client = MlflowClient(tracking_uri=uri)
            return Tracker(client, uri, *_experiment(client, experiment, _artifacts(folder, uri)))
    except Exception as error:  # whatever MLflow and its store raise, the cure is the same
        reason = str(error).strip().splitlines() or [type(error).__name__]
        if not os.environ.get(URI_VARIABLE):
            raise ConfigError(
                f"runs folder must be one that a SQLite file can stand in, got {str(folder.path)!r} "
                f"({reason[0][:200]}); choose another with --runs"
            ) from error
        raise ConfigError(
            f"{URI_VARIABLE} must be an MLflow store that answers, got {uri!r} ({reason[0][:200]}); "
            "start it, or unset the variable to use a file in the runs folder"
        ) from error


@contextmanager
def _alone(file: Path | None) -> Iterator[None]:
    """Hold a lock beside a SQLite file: two processes that create its tables at once break it for good."""
    if file is None:
        yield
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.with_name(file.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _artifacts(folder: RunsFolder, uri: str) -> str | None:
    """A server decides where artifacts go; a database would put them where the command was started."""
    if uri.startswith(("http://", "https://")):
        return None
    return (folder.path / "mlartifacts").resolve().as_uri()


def _experiment(client: MlflowClient, name: str, artifacts: str | None) -> tuple[str, int]:
    """Id and time of creation of the experiment, which is made if it is not there."""
    found = client.get_experiment_by_name(name)
    if found is None:
        found = client.get_experiment(client.create_experiment(name, artifact_location=artifacts))
    if found.lifecycle_stage != "active":
        raise ConfigError(f"experiment {name} is deleted there; restore it with `mlflow experiments restore`")
    return str(found.experiment_id), found.creation_time or 0


@dataclass(frozen=True, slots=True)
class Tracker:
    """One experiment of one store."""

    client: MlflowClient
    uri: str
    experiment_id: str
    created_ms: int

    @property
    def store(self) -> str:
        """Tells this store from another at the same address: a deleted and recreated file is a new one."""
        return f"{self.uri}#{self.experiment_id}@{self.created_ms}"

    def open_run(self, name: str, tags: Mapping[str, str], parent: str | None) -> str:
        """Create a run and return its id."""
        linked = {"mlflow.runName": name, **tags} | ({"mlflow.parentRunId": parent} if parent else {})
        return str(self.client.create_run(self.experiment_id, tags=linked).info.run_id)

    def find(self, tag: str, value: str) -> str | None:
        """The run with that tag; None if there is none."""
        return self._first(f"tags.`{tag}` = '{value}'")

    def has_closed(self, tag: str, value: str) -> bool:
        """Whether a run with that tag has ended."""
        return self._first(f"tags.`{tag}` = '{value}' and attributes.status != 'RUNNING'") is not None

    def params(self, run_id: str, params: Mapping[str, str]) -> None:
        """Set parameters; the same ones again change nothing."""
        items = [Param(key, value) for key, value in params.items()]
        for start in range(0, len(items), MAX_PARAMS_TAGS_PER_BATCH):
            self.client.log_batch(run_id, params=items[start : start + MAX_PARAMS_TAGS_PER_BATCH], synchronous=True)

    def log(self, run_id: str, values: Sequence[Value], timestamp_ms: int) -> None:
        """Send numbers; those that were sent before with the same time are stored once."""
        metrics = [Metric(key, value, timestamp_ms, step) for key, value, step in values]
        for start in range(0, len(metrics), MAX_METRICS_PER_BATCH):
            self.client.log_batch(run_id, metrics=metrics[start : start + MAX_METRICS_PER_BATCH], synchronous=True)

    def tag(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Set tags, over older ones."""
        self.client.log_batch(run_id, tags=[RunTag(key, value) for key, value in tags.items()], synchronous=True)

    def artifact(self, run_id: str, path: Path) -> None:
        """Attach a file, over an older one of its name."""
        self.client.log_artifact(run_id, str(path))

    def close(self, run_id: str, status: str) -> None:
        """End a run with an MLflow status."""
        self.client.set_terminated(run_id, status)

    def exists(self, run_id: str) -> bool:
        """Whether the experiment has that run, and nobody has deleted it."""
        return self._first(f"attributes.run_id = '{run_id}'") is not None

    def reopen(self, run_id: str) -> None:
        """Set a run running again."""
        self.client.update_run(run_id, status="RUNNING")

    def _first(self, query: str) -> str | None:
        found = self.client.search_runs([self.experiment_id], query, max_results=1)
        return str(found[0].info.run_id) if found else None
