from __future__ import annotations

import attrs
import pytest
from sentbed_trackers.mlflow import MLflow

# MLflow's own mappings, at their first use.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy"),
]


@pytest.fixture(scope="module", autouse=True)
def _library():
    """Load MLflow when its tests run: it takes seconds, in the other workers for nothing."""
    pytest.importorskip("mlflow", reason="needs the extra `mlflow`")
    pytest.importorskip("sqlalchemy", reason="needs the extra `mlflow`")


@pytest.fixture(scope="session")
def uri(tmp_path_factory):
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow') / 'mlflow.db'}"


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    yield
    assert not (tmp_path / "mlruns").exists()


@pytest.fixture
def settings(uri, request):
    """A run in an experiment of the test's own."""
    return MLflow(uri=uri, experiment=request.node.name)


def read(settings):
    """What MLflow's client reads: the only run of the experiment, and its metrics."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=settings.uri)
    experiment = client.get_experiment_by_name(settings.experiment)
    (run,) = client.search_runs([experiment.experiment_id])
    histories = {}
    for name in run.data.metrics:
        points = []
        for metric in client.get_metric_history(run.info.run_id, name):
            points.append((metric.step, metric.value))
        histories[name] = points
    return run, histories


def permitted(series):
    return {name.replace("@", "-"): points for name, points in series.items()}


def test_mlflow_reads_everything_that_the_run_has_shown(
    follow, settings, series, same, tmp_path
):
    events = follow(settings.build())
    events.start()
    events.scores("en@start", 40.0)
    for stage in ("nli", "align"):
        events.watch(stage, 0)
        events.steps(stage, 1, 3)
        events.looks(stage, 3)
    events.scores("en", 70.0)
    events.finish()
    run, recorded = read(settings)
    same(recorded, permitted(series(3)))
    assert (run.info.status, run.info.run_name) == ("FINISHED", "run")
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
    assert run.data.tags["sentbed.directory"] == str(tmp_path / "run")
    assert list(events.facts.values()) == [{"run_id": run.info.run_id}]


def test_a_resumed_run_goes_on_in_its_run(
    follow,
    settings,
    series,
    same,
):
    killed = follow(settings.build())
    killed.start()
    killed.scores("en@start", 40.0)
    killed.watch("nli", 0)
    killed.steps("nli", 1, 3)
    killed.looks("nli", 3)
    killed.watch("align", 0)
    killed.steps("align", 1, 1)
    killed.fail(KeyboardInterrupt())
    assert read(settings)[0].info.status == "KILLED"

    resumed = follow(settings.build()).resume({}, **killed.facts)
    assert read(settings)[0].info.status == "RUNNING"
    resumed.steps("align", 2, 3)
    resumed.looks("align", 3)
    resumed.scores("en", 70.0)
    resumed.finish()
    run, recorded = read(settings)
    same(recorded, permitted(series(3)))
    assert run.info.status == "FINISHED"


def test_two_trackers_of_a_run_go_on_each_in_its_own(follow, settings):
    other = attrs.evolve(settings, experiment=f"{settings.experiment}-other")
    killed = follow(settings.build(), other.build())
    killed.start()
    killed.steps("nli", 1, 2)
    killed.fail(KeyboardInterrupt())

    resumed = follow(settings.build(), other.build())
    resumed.resume({}, **killed.facts)
    resumed.steps("nli", 3, 3)
    resumed.finish()
    for tracker in (settings, other):
        run, recorded = read(tracker)
        assert run.info.status == "FINISHED"
        assert recorded["nli/loss"] == [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3))]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ValueError("x"), "FAILED"),
        (KeyboardInterrupt(), "KILLED"),
    ],
)
def test_a_run_that_ends_early_is_marked(error, status, follow, settings):
    events = follow(settings.build())
    events.start()
    events.fail(error)
    assert read(settings)[0].info.status == status


def test_without_a_uri_it_is_the_environments_or_a_file_beside_the_run(
    follow,
    uri,
    tmp_path,
    monkeypatch,
):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    named = MLflow(experiment="of-the-environment")
    events = follow(named.build())
    events.start()
    events.finish()
    run, _ = read(attrs.evolve(named, uri=uri))
    assert run.info.status == "FINISHED"
    assert not (tmp_path / "mlflow.db").exists()

    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    events = follow(MLflow().build())
    events.start()
    events.finish()
    run, _ = read(MLflow(uri=f"sqlite:///{tmp_path / 'mlflow.db'}"))
    assert run.info.status == "FINISHED"
