"""The contract of executors: the local one, with one worker and with several, and Ray."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import toy_work
from sentbed import DataError, RecipeError, RunError, RuntimeUnavailableError
from sentbed.helpers import usable_cores
from sentbed.protocols import Executor
from sentbed.tools import component_of
from sentbed_jobs.local import Local
from sentbed_jobs.ray import Ray
from toy_work import Doubling, wait_for_sleepers

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="needs the package ray (the extra `ray`)",
)


@pytest.fixture
def work(tmp_path):
    return Doubling(tmp_path)


@pytest.fixture(scope="module")
def cluster():
    """A cluster of Ray with a machine of two cores, to which this process is connected; others can be added."""
    import ray
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        path = [str(Path(toy_work.__file__).parent), *sys.path]
        patch.setenv("PYTHONPATH", os.pathsep.join(path))
        cluster = Cluster()
        cluster.add_node(num_cpus=2)
        ray.init(cluster.address, log_to_driver=False)
        yield cluster
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture(
    params=["local", pytest.param("ray", marks=[pytest.mark.slow, needs_ray])]
)
def executor(request):
    """An executor with two workers."""
    if request.param == "local":
        return Local(workers=2)
    request.getfixturevalue("cluster")
    return Ray(workers=2)


@pytest.fixture
def results(executor, work):
    """Function that returns the results of tasks."""

    def run(*tasks):
        with closing(executor.run(work, tasks, lambda _: None)) as results:
            return sorted(results)

    return run


@pytest.mark.slow
@needs_ray
def test_an_address_where_no_cluster_is_says_so(work):
    handler = signal.getsignal(signal.SIGTERM)
    # There is none yet: the fixture `cluster` has not been asked for.
    with pytest.raises(
        RuntimeUnavailableError, match=r"cannot reach Ray at `auto`.*`ray start"
    ):
        list(Ray(address="auto").run(work, [1]))
    assert signal.getsignal(signal.SIGTERM) is handler


@pytest.mark.slow
@needs_ray
def test_without_an_address_no_cluster_of_this_machine_is_joined(work, monkeypatch):
    seen = {}

    def init(**options):
        seen.update(options)
        raise ConnectionError("not now")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("ray.init", init)
    with pytest.raises(RuntimeUnavailableError, match="Ray at `this machine`: not now"):
        list(Ray().run(work, [1]))
    assert (seen["address"], seen["num_cpus"]) == ("local", usable_cores())

    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    with pytest.raises(RuntimeUnavailableError):
        list(Ray().run(work, [1]))
    assert seen["address"] == "10.0.0.1:6379"


SCRIPT = """
import sys
sys.path[:0] = {path!r}
from pathlib import Path
from sentbed_jobs.ray import Ray
from toy_work import Doubling
((_, error),) = Ray().run(Doubling(Path({directory!r})), [-6])
print(error)
"""


@pytest.mark.slow
@needs_ray
def test_a_task_for_which_there_is_no_memory_is_tried_once_more(work):
    toy = str(Path(toy_work.__file__).parent)
    code = SCRIPT.format(path=[toy], directory=str(work.directory))
    # Ray then takes the memory of this machine for full.
    full = {
        "RAY_memory_usage_threshold": "0.005",
        "RAY_memory_monitor_refresh_ms": "100",
        "PYTHONPATH": os.pathsep.join([toy, *sys.path]),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **full},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "-6: 2 workers died of it" in done.stdout, done.stderr


def test_every_task_is_yielded_once_with_its_result(results, work):
    assert results(0, 1, 2, 3, 4, 5, 6) == [(n, 2 * n) for n in range(7)]
    started = work.notes("started")
    assert len({pid for pid, *_ in started}) == len(started) == 2
    assert str(os.getpid()) not in {pid for pid, *_ in started}


def test_the_task_of_a_worker_that_died_is_done_by_another(results, work):
    assert results(1, -1, 2, 3) == [(-1, -2), (1, 2), (2, 4), (3, 6)]
    assert len(work.notes("died")) == 1


def test_a_task_that_kills_two_workers_is_an_error_and_the_others_are_done(
    executor, tmp_path
):
    work = Doubling(tmp_path, deaths=9)
    done = dict(executor.run(work, [1, -1, 2], lambda _: None))
    error = done.pop(-1)
    assert done == {1: 2, 2: 4}
    assert isinstance(error, RunError)
    assert str(error).startswith("-1: 2 workers died of it, the last one ")
    assert len(work.notes("died")) == 2


@pytest.mark.parametrize(
    ("task", "error", "message"),
    [
        (-3, DataError, "bad row @ corpus.jsonl:3"),
        (-4, RecipeError, "wrong @ runtime.use"),
        (-5, Exception, "hard to carry"),
    ],
)
def test_what_a_task_raises_is_raised_here_and_not_tried_again(
    task, error, message, results, work
):
    with pytest.raises(error) as caught:
        results(task)
    assert message in str(caught.value)
    assert "toy_work.py" in str(caught.value.__cause__)
    assert len(work.notes("did")) == 1


def test_what_the_start_of_a_worker_raises_is_raised_here(results, tmp_path):
    (tmp_path / "broken").touch()
    with pytest.raises(DataError, match=r"^it cannot start$"):
        results(1, 2, 3)


def test_closing_ends_the_workers(executor, work):
    with closing(executor.run(work, [-6, 1, 2])) as results:
        assert next(results)[0] in (1, 2)
        wait_for_sleepers(work, 1)
    # Two tasks at a time would be waited for in vain if a worker still held a place.
    assert sorted(executor.run(work, [3, 4])) == [(3, 6), (4, 8)]


@pytest.mark.slow
@needs_ray
def test_a_machine_that_is_lost_does_not_hang_the_tasks(cluster, work):
    machine = cluster.add_node(num_cpus=4)
    cluster.wait_for_nodes()
    with closing(Ray(workers=3, cpus=2).run(work, [1, -7, -7])) as results:
        assert next(results) == (1, 2)
        wait_for_sleepers(work, 2)
        cluster.remove_node(machine)
        (work.directory / "awake").touch()
        assert list(results) == [(-7, -14), (-7, -14)]
    assert len(work.notes("asleep")) > 2


@pytest.mark.slow
@needs_ray
def test_a_share_of_a_cluster_has_a_place_on_its_smallest_machine(cluster, work):
    machine = cluster.add_node(num_cpus=4)
    cluster.wait_for_nodes()
    for workers in (1, 6):
        assert list(Ray(workers).run(work, [1])) == [(1, 2)]
    cluster.remove_node(machine)
    assert [threads for _, threads, _ in work.notes("started")] == ["2", "1"]


@pytest.mark.slow
@needs_ray
def test_workers_without_a_place_in_the_cluster_are_refused(cluster, work):
    with pytest.raises(
        RuntimeUnavailableError, match=r"machines with 2 CPUs and 0 GPUs; .* 1 GPUs"
    ):
        list(Ray(gpus=1).run(work, [1]))
    assert work.notes("started") == []


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("locla", {}, r"Did you mean `local`"),
        ("local", {"address": "auto"}, r"`address`"),
        ("local", {"workers": 0}, r" >= 1: 0 @ executor.workers"),
        ("ray", {"gpus": -1}, r" >= 0: -1 @ executor.gpus"),
    ],
)
def test_what_no_executor_takes_is_an_error_that_names_it(name, options, message):
    with pytest.raises(RecipeError, match=message):
        component_of(Executor, {"use": name, **options}, key="executor")


def test_an_executor_whose_package_is_missing_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    (problem,) = Ray().check()
    assert "run `pip install 'sentbed-jobs[ray]'`" in problem
