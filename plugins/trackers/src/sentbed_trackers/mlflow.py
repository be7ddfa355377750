"""Tracker that sends a run to the tracking service MLflow."""

from __future__ import annotations

import json
import os
import re
import time
import tomllib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from attrs.validators import min_len
from sentbed import hookimpl
from sentbed.protocols import Tracker

from sentbed_trackers.metric_series import SeriesTracker, missing

if TYPE_CHECKING:
    from sentbed.protocols import Run

_LONGEST_PARAMETER = 6000
"""MLflow's limit for the number of characters in a parameter's value."""
_LONGEST_NAME = 250
"""MLflow's limit for the number of characters in a name."""


@attrs.frozen
class MLflow(Tracker):
    """Sends a run to MLflow: the values of the recipe as parameters, every number of the run as a metric.

    Without a server, MLflow stores runs in a database file, which `mlflow ui --backend-store-uri URI` shows.
    Numbers are sent by MLflow's own queue, from a thread. A resumed run continues the same run in MLflow.
    """

    name: ClassVar[str] = "mlflow"

    uri: str | None = None
    """Tracking URI: `https://HOST`, `sqlite:////PATH/mlflow.db`, `databricks`. Default: the environment variable
    `MLFLOW_TRACKING_URI`, or the file `mlflow.db` beside the run directory. Credentials belong in MLflow's
    environment variables, not here, since a recipe is copied into every run."""
    experiment: str = attrs.field(default="sentbed", validator=min_len(1))
    """Name of the experiment in MLflow; it is created if it does not exist."""

    def check(self) -> Iterator[str]:
        """Return a problem if MLflow is not installed."""
        return missing("mlflow", self.name)

    def build(self) -> MLflowTracker:
        """Return the tracker, which connects to MLflow when the run starts."""
        return MLflowTracker(self)


class MLflowTracker(SeriesTracker):
    """Sends one run to MLflow."""

    def __init__(self, settings: MLflow) -> None:
        self._settings = settings
        self._client: Any = None
        self._id = ""
        self._sent: list[Any] = []
        """What MLflow's queue returned for each step, to wait for at the end."""

    @hookimpl
    def run_started(self, run: Run) -> Mapping[str, Any]:
        """Create a run in MLflow, with the recipe as its parameters."""
        self._connect(run)
        self._create(run)
        return self._facts()

    @hookimpl
    def run_resumed(self, run: Run) -> Mapping[str, Any]:
        """Continue the run in MLflow whose id is in the manifest; without one, create a run."""
        self._connect(run)
        facts = run.facts.get(self._name)
        if facts is not None:
            self._id = facts["run_id"]
            self._client.update_run(self._id, status="RUNNING")
        else:
            self._create(run)
        return self._facts()

    @hookimpl
    def run_finished(self) -> None:
        """Wait for the last points, and mark the run in MLflow as finished."""
        self._close("FINISHED")

    @hookimpl
    def run_failed(self, error: BaseException) -> None:
        """Wait for the last points, and mark the run as failed, or as killed if the user has ended it."""
        status = "FAILED"
        if isinstance(error, KeyboardInterrupt):
            status = "KILLED"
        self._close(status)

    def put(self, step: int, values: Mapping[str, float]) -> None:
        """Give the points of a step to MLflow's queue, which a thread sends."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = []
        for name, value in values.items():
            metrics.append(Metric(_permitted(name), float(value), now, step))
        self._sent.append(
            self._client.log_batch(self._id, metrics=metrics, synchronous=False)
        )

    def _connect(self, run: Run) -> None:
        # MLflow reads this variable on import. There is no telemetry unless the user has set it.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient

        local = f"sqlite:///{run.directory.resolve().parent / 'mlflow.db'}"
        uri = self._settings.uri or os.environ.get("MLFLOW_TRACKING_URI") or local
        self._client = MlflowClient(tracking_uri=uri)

    def _create(self, run: Run) -> None:
        """Create a run in MLflow, with the values of the recipe as parameters."""
        from mlflow.entities import Param

        client, settings = self._client, self._settings
        experiment = client.get_experiment_by_name(settings.experiment)
        if experiment:
            experiment_id = experiment.experiment_id
        else:
            experiment_id = client.create_experiment(settings.experiment)

        directory = run.directory.resolve()
        tags = {"sentbed.directory": str(directory)}
        started = client.create_run(experiment_id, run_name=directory.name, tags=tags)
        self._id = started.info.run_id

        recipe = (run.directory / "resolved.toml").read_text(encoding="utf-8")
        parameters = []
        for path, value in _flat(tomllib.loads(recipe)):
            parameters.append(Param(_permitted(path), value[:_LONGEST_PARAMETER]))
        client.log_batch(self._id, params=parameters)

    @property
    def _name(self) -> str:
        """Name of the tracker's facts; a recipe may have several trackers, each with a run of its own."""
        settings = self._settings
        parts = ("mlflow", settings.uri, settings.experiment)
        return " ".join(filter(None, parts))

    def _facts(self) -> Mapping[str, Any]:
        return {self._name: {"run_id": self._id}}

    def _close(self, status: str) -> None:
        """Wait until MLflow's queue is empty, and set the status of the run in MLflow."""
        for operations in self._sent:
            operations.wait()
        if self._id:
            self._client.set_terminated(self._id, status)


def _permitted(name: str) -> str:
    """Return a name as MLflow allows it: at most `_LONGEST_NAME` letters, digits, `_-.:/` and blanks."""
    return re.sub(r"[^\w.:/ -]", "-", name, flags=re.ASCII)[:_LONGEST_NAME]


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the dotted path and the text of every single value in a recipe.

    In the path, a table in an array, such as a stage, has its `name`; if it has none, its index.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            inner_path = f"{path}.{key}" if path else key
            yield from _flat(inner, inner_path)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, table in enumerate(value):
            yield from _flat(table, f"{path}.{table.get('name', index)}")
    elif isinstance(value, str):
        yield path, value
    else:
        yield path, json.dumps(value, ensure_ascii=False, default=str)
