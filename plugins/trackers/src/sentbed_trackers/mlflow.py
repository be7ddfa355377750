"""Tracker that sends a run to the tracking service MLflow."""

from __future__ import annotations

import json
import logging
import os
import re
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from attrs.validators import min_len
from sentbed import RunError, hookimpl
from sentbed.protocols import Tracker

from sentbed_trackers.metric_series import SeriesTracker, missing
from sentbed_trackers.outbox import Outbox

if TYPE_CHECKING:
    from sentbed.protocols import Run

_LOG = logging.getLogger(__name__)
_CLOSE_SECONDS = 30.0
"""Maximum seconds at the end of the run for sending the last numbers."""
_PARAMETERS_PER_CALL = 100
"""MLflow's limit for the number of parameters in a call."""
_LONGEST_PARAMETER = 6000
"""MLflow's limit for the number of characters in a parameter's value."""
_LONGEST_NAME = 250
"""MLflow's limit for the number of characters in a name."""
_REFUSALS = frozenset({"INVALID_PARAMETER_VALUE", "BAD_REQUEST"})
"""Codes of errors after which it is useless to send the same numbers again."""


@attrs.frozen
class MLflow(Tracker):
    """Sends a run to MLflow: the values of the recipe as parameters, every number of the run as a metric.

    Without a server, MLflow stores runs in a database file, which `mlflow ui --backend-store-uri URI` shows. If
    MLflow cannot be reached at the start of a run, the run ends with an error. Later failures do not affect the
    run: numbers are sent from a separate thread; while MLflow does not answer, they are kept and sent again,
    and a line on standard error says so. A resumed run continues the same run in MLflow and sends no number
    twice.
    """

    name: ClassVar[str] = "mlflow"

    uri: str | None = None
    """Tracking URI: `https://HOST`, `sqlite:////PATH/mlflow.db`, `databricks`. Default: the environment variable
    `MLFLOW_TRACKING_URI`, or the file `mlflow.db` beside the run directory. Credentials belong in MLflow's
    environment variables, not here, since a recipe is copied into every run."""
    experiment: str = attrs.field(default="sentbed", validator=min_len(1))
    """Name of the experiment in MLflow; it is created if it does not exist."""
    run_name: str | None = None
    """Name of the run in MLflow; default: the name of the run directory."""
    tags: Mapping[str, str] = attrs.field(factory=dict)
    """Further tags of the run in MLflow."""

    def check(self) -> Iterator[str]:
        """Return a problem if MLflow is not installed."""
        return missing("mlflow", self.name)

    def build(self) -> MLflowTracker:
        """Return the tracker, which connects to MLflow when the run starts."""
        return MLflowTracker(self)


@attrs.frozen
class Point:
    """Value of a metric at a step."""

    name: str
    value: float
    time: int
    """Milliseconds since 1970."""
    step: int


class MLflowTracker(SeriesTracker):
    """Sends one run to MLflow."""

    def __init__(self, settings: MLflow) -> None:
        self._settings = settings
        self._client: Any = None
        self._id = ""
        self._outbox: Outbox[Point] | None = None
        self._last_steps: dict[str, int] = {}
        """For each metric, the last step that MLflow had when the run was resumed."""

    @property
    def _key(self) -> str:
        """Name under which a checkpoint stores the state of this tracker."""
        return f"mlflow {self._settings.uri or ''} {self._settings.experiment}"

    @hookimpl
    def run_started(self, run: Run) -> Mapping[str, Any]:
        """Create a run in MLflow, with the recipe as its parameters."""
        return self._open(run, None)

    @hookimpl
    def run_resumed(
        self, run: Run, states: Mapping[str, Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        """Continue the run in MLflow whose id is in the checkpoint."""
        return self._open(run, states.get(self._key))

    @hookimpl
    def tracker_state(self) -> tuple[str, Mapping[str, Any]] | None:
        """Return the id of the run in MLflow, and the points that MLflow may not have received yet."""
        if self._outbox is None:
            return None
        pending = [attrs.astuple(point) for point in self._outbox.pending()]
        return self._key, {"run_id": self._id, "pending": pending}

    @hookimpl
    def run_finished(self) -> None:
        """Send the last points, and mark the run in MLflow as finished."""
        self._close("FINISHED")

    @hookimpl
    def run_failed(self, error: BaseException) -> None:
        """Send the last points, and mark the run in MLflow as failed, or as killed if the user has ended it."""
        is_killed = isinstance(error, KeyboardInterrupt)
        status = "KILLED" if is_killed else "FAILED"
        self._close(status)

    def put(self, step: int, values: Mapping[str, float]) -> None:
        """Queue the points of a step for sending, except points that MLflow has already."""
        if self._outbox is None:
            return

        now = int(time.time() * 1000)
        points = []
        for name, value in values.items():
            points.append(Point(_permitted(name), float(value), now, step))

        self._outbox.put(filter(self._is_new, points))

    def _is_new(self, point: Point) -> bool:
        """Whether the point was not sent before the run was resumed."""
        return point.step > self._last_steps.get(point.name, -1)

    def _open(self, run: Run, state: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """Continue the run in MLflow that `state` of a checkpoint names, or create one; return facts on it.

        Raises:
            RunError: if MLflow cannot be used.
        """
        # MLflow reads this variable on import. There is no telemetry unless the user has set it.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        local = f"sqlite:///{run.directory.resolve().parent / 'mlflow.db'}"
        uri = self._settings.uri or os.environ.get("MLFLOW_TRACKING_URI") or local
        pending: Sequence[Sequence[Any]] = ()

        try:
            from mlflow import MlflowClient

            self._client = MlflowClient(tracking_uri=uri)
            if state is not None and self._continue(state["run_id"]):
                pending = state["pending"]
            else:
                self._start(run)
        except Exception as error:
            reason = str(error).partition("\n")[0]
            raise RunError(
                f"MLflow cannot be used at `{_without_credentials(uri)}`: {reason}; "
                f"check `uri` and the service, or take the tracker out of the recipe"
            ) from error

        self._outbox = Outbox(self._send, "MLflow")
        points = [Point(*values) for values in pending]
        self._outbox.put(filter(self._is_new, points))
        return {"mlflow": {"experiment": self._settings.experiment, "run_id": self._id}}

    def _start(self, run: Run) -> None:
        """Create a run in MLflow, with the values of the recipe as parameters."""
        from mlflow.entities import Param

        client, settings = self._client, self._settings
        experiment = client.get_experiment_by_name(settings.experiment)
        if experiment:
            experiment_id = experiment.experiment_id
        else:
            experiment_id = client.create_experiment(settings.experiment)

        directory = run.directory.resolve()
        tags = {"sentbed.directory": str(directory), **settings.tags}
        name = settings.run_name or directory.name
        started = client.create_run(experiment_id, run_name=name, tags=tags)
        self._id = started.info.run_id
        self._last_steps = {}

        recipe = run.directory / "resolved.toml"
        if not recipe.is_file():
            return

        values = {}
        for path, value in _flat(tomllib.loads(recipe.read_text(encoding="utf-8"))):
            values[_permitted(path)] = value[:_LONGEST_PARAMETER]

        parameters = [Param(path, value) for path, value in values.items()]
        for first in range(0, len(parameters), _PARAMETERS_PER_CALL):
            batch = parameters[first : first + _PARAMETERS_PER_CALL]
            client.log_batch(self._id, params=batch)

    def _continue(self, run_id: str) -> bool:
        """Continue the run `run_id` in MLflow; return False if MLflow no longer has it."""
        from mlflow.exceptions import MlflowException

        try:
            names = list(self._client.get_run(run_id).data.metrics)
            self._client.update_run(run_id, status="RUNNING")
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            _LOG.warning("MLflow no longer has the run `%s`; a new one is made", run_id)
            return False

        self._id = run_id
        self._last_steps = {}
        for name in names:
            history = self._client.get_metric_history(run_id, name)
            self._last_steps[name] = max(metric.step for metric in history)
        return True

    def _send(self, points: Sequence[Point]) -> None:
        """Send points to MLflow. If MLflow refuses them, log a warning; other errors are raised."""
        from mlflow.entities import Metric
        from mlflow.exceptions import MlflowException

        metrics = [Metric(*attrs.astuple(point)) for point in points]
        try:
            self._client.log_batch(self._id, metrics=metrics)
        except MlflowException as error:
            if error.error_code not in _REFUSALS:
                raise
            reason = str(error).partition("\n")[0]
            _LOG.warning("MLflow refuses %s numbers: %s", len(points), reason)

    def _close(self, status: str) -> None:
        """Send the last points, and set the status of the run in MLflow."""
        if self._outbox is None:
            return
        client, run_id = self._client, self._id
        outbox, self._outbox = self._outbox, None
        outbox.close(lambda: client.set_terminated(run_id, status), _CLOSE_SECONDS)


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
    elif _is_array_of_tables(value):
        for index, table in enumerate(value):
            yield from _flat(table, f"{path}.{table.get('name', index)}")
    elif isinstance(value, str):
        yield path, value
    else:
        yield path, json.dumps(value, ensure_ascii=False, default=str)


def _is_array_of_tables(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(element, dict) for element in value)


def _without_credentials(uri: str) -> str:
    return re.sub(r"//[^/@]*@", "//", uri)
