"""What TensorBoard and MLflow read of a run, from their own readers."""

from __future__ import annotations

import math
import subprocess
import sys

import attrs
import pluggy
import pytest
import sentbed_trackers
from sentbed import hookspecs
from sentbed.protocols import Evaluation, Run, Score, StepResult
from sentbed_testing import TrackerContract, offered
from sentbed_trackers import metric_series
from sentbed_trackers.mlflow import MLflow
from sentbed_trackers.tensorboard import TensorBoard

# MLflow takes seconds to load, and has mappers that warn at their first use.
MLFLOW = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy"),
]
RECIPE = """\
schema = 1
[run]
name = "my-run"
[[stage]]
name = "nli"
loss = { use = "info-nce", temperature = 0.05 }
[[stage]]
name = "align"
epochs = 2
[[evaluate]]
use = "sts"
tasks = ["a", "b"]
[expected]
"STS12@p" = { value = 72.0 }
"""
TRACKERS = []
for tracker in offered(sentbed_trackers.trackers()):
    marks = MLFLOW if tracker.name == "mlflow" else []
    TRACKERS.append(pytest.param(tracker(), id=tracker.name, marks=marks))


class TestTrackers(TrackerContract):
    @pytest.fixture(params=TRACKERS)
    def component(self, request):
        return request.param


class Following:
    """Tells trackers, through the hooks as the runner calls them, what a run of two stages shows."""

    def __init__(self, directory, *trackers):
        directory.mkdir(exist_ok=True)
        (directory / "resolved.toml").write_text(RECIPE)
        self.facts = {}
        self.run = Run("my-run", directory, None, self.facts)
        manager = pluggy.PluginManager("sentbed")
        manager.add_hookspecs(hookspecs)
        for tracker in trackers:
            manager.register(tracker)
        self.hooks = manager.hook

    def start(self):
        for facts in self.hooks.run_started(run=self.run):
            self.facts.update(facts)

    def resume(self, states, facts):
        self.facts |= {**facts, "resumed": [{"stage": 0, "step": 0}]}
        for facts in self.hooks.run_resumed(run=self.run, states=states):
            self.facts.update(facts)

    def steps(self, stage, first, last):
        for step in range(first, last + 1):
            result = StepResult(
                1 / step, 1e-3 / step, 2.0 * step, {"temperature": 0.05 + step}
            )
            self.hooks.step_finished(
                run=self.run, stage=stage, step=step, total_steps=9, result=result
            )

    def watch(self, stage, step):
        score = Score("dev", "alignment", 0.25 * (step + 1), {"id": "st5"})
        self.hooks.observed(
            run=self.run,
            stage=stage,
            step=step,
            encoder="en",
            evaluation=Evaluation((score,), 0.0),
        )

    def validate(self, stage, step):
        self.hooks.validated(
            run=self.run, stage=stage, step=step, score=80.0 + step, best=True
        )
        self.watch(stage, step)

    def scores(self, encoder, value):
        score = Score("STS12", "spearman", value, {"id": "senteval-sts"})
        self.hooks.scores_ready(
            run=self.run,
            evaluator="sts",
            encoder=encoder,
            evaluation=Evaluation((score,), value),
        )

    def finish(self):
        self.hooks.run_finished(run=self.run, report=self.run.directory / "report.html")

    def fail(self, error):
        self.hooks.run_failed(run=self.run, error=error)


SERIES = {
    "scores/en@start/STS12/spearman/senteval-sts": [(0, 40.0)],
    "scores/en/STS12/spearman/senteval-sts": [(0, 70.0)],
}
for stage in ("nli", "align"):
    SERIES[f"{stage}/loss"] = [(1, 1.0), (2, 1 / 2), (3, 1 / 3)]
    SERIES[f"{stage}/learning_rate"] = [(1, 1e-3), (2, 1e-3 / 2), (3, 1e-3 / 3)]
    SERIES[f"{stage}/grad_norm"] = [(1, 2.0), (2, 4.0), (3, 6.0)]
    SERIES[f"{stage}/temperature"] = [(1, 1.05), (2, 2.05), (3, 3.05)]
    SERIES[f"{stage}/validation"] = [(3, 83.0)]
    SERIES[f"{stage}/watch/en/dev/alignment/st5"] = [(0, 0.25), (3, 1.0)]


@pytest.fixture
def follow(tmp_path):
    """Follow a run in `tmp_path / "run"` with trackers."""
    return lambda *trackers: Following(tmp_path / "run", *trackers)


def read_tensorboard(directory):
    """What TensorBoard itself reads: every scalar, and the texts."""
    from tensorboard.backend.event_processing import plugin_event_accumulator
    from tensorboard.util.tensor_util import make_ndarray

    events = plugin_event_accumulator.EventAccumulator(
        str(directory / "tensorboard"),
        size_guidance=plugin_event_accumulator.STORE_EVERYTHING_SIZE_GUIDANCE,
    )
    events.Reload()
    scalars = {}
    texts = []
    for tag in events.Tags()["tensors"]:
        for event in events.Tensors(tag):
            value = make_ndarray(event.tensor_proto).item()
            if isinstance(value, bytes):
                texts.append(value.decode())
            else:
                scalars.setdefault(tag, []).append((event.step, value))
    return scalars, texts


def read_mlflow(settings):
    """What MLflow's client reads: the only run of the experiment, and its metrics."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=settings.uri)
    experiment = client.get_experiment_by_name(settings.experiment)
    (run,) = client.search_runs([experiment.experiment_id])
    histories = {}
    for name in run.data.metrics:
        history = client.get_metric_history(run.info.run_id, name)
        # MLflow permits no `@` in a name.
        series = name.replace("en-start", "en@start")
        histories[series] = [(metric.step, metric.value) for metric in history]
    return histories, run


@pytest.fixture(scope="session")
def uri(tmp_path_factory):
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow') / 'mlflow.db'}"


@pytest.fixture
def mlflow(uri, request, monkeypatch, tmp_path):
    """A tracker with an experiment of the test's own."""
    pytest.importorskip("mlflow", reason="needs the extra `mlflow`")
    pytest.importorskip("sqlalchemy", reason="needs the extra `mlflow`")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    yield MLflow(uri=uri, experiment=request.node.name)
    assert not (tmp_path / "mlruns").exists()


@pytest.fixture(params=["tensorboard", pytest.param("mlflow", marks=MLFLOW)])
def service(request, tmp_path):
    """A tracker, and a function that returns the series that its service reads."""
    if request.param == "mlflow":
        tracker = request.getfixturevalue("mlflow")
        return tracker, lambda: read_mlflow(tracker)[0]
    pytest.importorskip("tensorboard", reason="needs the extra `tensorboard`")
    return TensorBoard(), lambda: read_tensorboard(tmp_path / "run")[0]


@pytest.mark.parametrize("killed_after", ["never", "nli", "align"])
def test_a_service_reads_all_that_a_run_has_shown_and_nothing_twice(
    killed_after, service, follow
):
    tracker, read = service
    run = follow(tracker.build())
    run.start()
    run.scores("en@start", 40.0)
    for stage in ("nli", "align"):
        run.watch(stage, 0)
        run.steps(stage, 1, 3)
        if stage == killed_after:
            states = dict(run.hooks.tracker_state(run=run.run))
            facts = run.facts
            run.fail(KeyboardInterrupt())
            run = follow(tracker.build())
            run.resume(states, facts)
        run.validate(stage, 3)
    run.scores("en", 70.0)
    run.finish()

    series = read()
    assert series.keys() == SERIES.keys()
    for name, points in SERIES.items():
        # TensorBoard keeps fp32, and files of one second are in no order.
        for point, expected in zip(sorted(series[name]), points, strict=True):
            assert point == pytest.approx(expected, rel=1e-6), name


def test_what_came_after_the_checkpoint_of_a_resumed_run_is_removed(follow, tmp_path):
    pytest.importorskip("tensorboard", reason="needs the extra `tensorboard`")
    killed = follow(TensorBoard().build())
    killed.start()
    killed.steps("nli", 1, 3)
    states = dict(killed.hooks.tracker_state(run=killed.run))
    killed.validate("nli", 3)
    killed.fail(KeyboardInterrupt())

    resumed = follow(TensorBoard().build())
    resumed.resume(states, {})
    result = StepResult(math.nan, 0.0, math.inf)
    resumed.hooks.step_finished(
        run=resumed.run, stage="nli", step=4, total_steps=4, result=result
    )
    resumed.finish()
    scalars, (recipe,) = read_tensorboard(tmp_path / "run")
    assert "nli/validation" not in scalars
    assert math.isnan(scalars["nli/loss"][3][1])
    assert scalars["nli/grad_norm"] == [(1, 2.0), (2, 4.0), (3, 6.0), (4, math.inf)]
    assert recipe.startswith("```toml\nschema = 1\n")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")
@pytest.mark.parametrize(
    ("error", "status"),
    [(None, "FINISHED"), (ValueError("x"), "FAILED"), (KeyboardInterrupt(), "KILLED")],
)
def test_mlflow_has_the_recipe_and_the_end_of_each_of_two_trackers(
    error, status, follow, mlflow, tmp_path
):
    other = attrs.evolve(mlflow, experiment=f"{mlflow.experiment}-other")
    run = follow(mlflow.build(), other.build())
    run.start()
    run.fail(KeyboardInterrupt())
    resumed = follow(mlflow.build(), other.build())
    resumed.resume({}, run.facts)
    if error is None:
        resumed.finish()
    else:
        resumed.fail(error)

    for tracker in (mlflow, other):
        _, run = read_mlflow(tracker)
        assert (run.info.status, run.info.run_name) == (status, "run")
        assert run.data.tags["sentbed.directory"] == str(tmp_path / "run")
        assert run.data.params == {
            "schema": "1",
            "run.name": "my-run",
            "stage.nli.name": "nli",
            "stage.nli.loss.use": "info-nce",
            "stage.nli.loss.temperature": "0.05",
            "stage.align.name": "align",
            "stage.align.epochs": "2",
            "evaluate.0.use": "sts",
            "evaluate.0.tasks": '["a", "b"]',
            "expected.STS12-p.value": "72.0",
        }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")
def test_without_a_uri_it_is_the_environments_or_a_file_beside_the_run(
    follow, mlflow, tmp_path, monkeypatch
):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow.uri)
    follow(attrs.evolve(mlflow, uri=None).build()).start()
    read_mlflow(mlflow)
    assert not (tmp_path / "mlflow.db").exists()

    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    follow(MLflow().build()).start()
    read_mlflow(MLflow(uri=f"sqlite:///{tmp_path / 'mlflow.db'}"))


@pytest.mark.parametrize(
    ("tracker", "library"), [(TensorBoard(), "tensorboard"), (MLflow(), "mlflow")]
)
def test_a_missing_library_is_a_problem_that_names_the_extra(
    tracker, library, monkeypatch
):
    monkeypatch.setattr(metric_series, "find_spec", {library: None}.__getitem__)
    (problem,) = tracker.check()
    assert problem.endswith(
        f"install it with `pip install 'sentbed-trackers[{library}]'`"
    )


def test_tensorboard_writes_without_a_tensor_library(tmp_path):
    pytest.importorskip("tensorboard", reason="needs the extra `tensorboard`")
    (tmp_path / "resolved.toml").touch()
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from types import SimpleNamespace\n"
        "from sentbed_trackers.tensorboard import TensorBoard\n"
        "tracker = TensorBoard().build()\n"
        f"tracker.run_started(SimpleNamespace(directory=Path({str(tmp_path)!r}), facts={{}}))\n"
        "tracker.put(1, {'loss': 1.0})\n"
        "tracker.run_finished()\n"
        "heavy = {'torch', 'tensorflow', 'jax'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "tensorboard").iterdir())
