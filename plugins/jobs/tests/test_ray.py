from __future__ import annotations

import os
import signal
import sys
from contextlib import closing
from pathlib import Path

import pytest
import toy_work
from sentbed import DataError, RuntimeUnavailableError
from sentbed_jobs.ray import Ray
from toy_work import Doubling

ray = pytest.importorskip("ray", reason="needs the package ray (the extra `ray`)")

from sentbed_jobs._ray_pool import RayPool, actor_resources  # noqa: E402 - it needs ray

pytestmark = pytest.mark.slow
"""A cluster is started."""


@pytest.fixture(scope="module")
def _cluster():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        patch.setenv(
            "PYTHONPATH",
            os.pathsep.join([str(Path(toy_work.__file__).parent), *sys.path]),
        )
        before = signal.getsignal(signal.SIGTERM)
        ray.init(
            address="local", num_cpus=2, include_dashboard=False, log_to_driver=False
        )
        yield
        ray.shutdown()
        signal.signal(signal.SIGTERM, before)


@pytest.fixture
def work(tmp_path, _cluster):
    return Doubling(tmp_path)


def test_every_task_is_yielded_once_with_its_result(work):
    assert sorted(RayPool(2).run(work, range(7))) == [(n, 2 * n) for n in range(7)]
    started = work.notes("started")
    assert len({pid for pid, *_ in started}) == len(started) == 2
    assert {threads for _, threads, _ in started} == {"1"}


def test_the_task_of_an_actor_that_died_is_done_by_a_new_one(work):
    messages = []
    done = dict(RayPool(2, say=messages.append).run(work, [1, -1, 2, 3, 4]))
    assert done == {1: 2, -1: -2, 2: 4, 3: 6, 4: 8}
    assert len(work.notes("died")) == len(messages) == 1
    assert messages[0].startswith("a worker died (")
    assert messages[0].endswith("; -1: done again by a new one")


def test_what_the_function_raises_is_raised_here_and_not_tried_again(work):
    with pytest.raises(DataError) as caught:
        list(RayPool(1).run(work, [-3]))
    assert str(caught.value) == "bad row @ corpus.jsonl:3"
    assert len(work.notes("did")) == 1


def test_closing_gives_the_cluster_back(work):
    with closing(RayPool(2, cpus=1).run(work, [-6, 1, 2, 3])) as results:
        assert next(results)[0] in (1, 2, 3)
    # All of the cluster would be waited for in vain if an actor still held a part.
    assert list(RayPool(1, cpus=2).run(work, [8])) == [(8, 16)]


def test_more_workers_than_the_cluster_has_places_for_are_refused(work):
    with pytest.raises(
        RuntimeUnavailableError,
        match=r"machines with 2 CPUs and 0 GPUs; .* 1 workers .* 1 GPUs",
    ):
        list(RayPool(1, gpus=1).run(work, [1]))
    assert work.notes("started") == []


@pytest.mark.parametrize(
    ("nodes", "workers", "gpus", "cpus"),
    [
        ([8], 2, 0, 4),
        ([8], 3, 0, 2),
        # Twelve in all, but two workers of four on one machine of six find no place.
        ([6, 6], 3, 0, 3),
        ([16, 2], 2, 0, 8),
        ([16, 2], 3, 0, 5),
        ([16, 16], 2, 1, 16),
        ([16, 16], 4, 1, 8),
    ],
)
def test_workers_get_equal_parts_that_have_a_place(nodes, workers, gpus, cpus):
    resources = [{"CPU": float(count), "GPU": 2.0} for count in nodes]
    assert actor_resources(resources, workers, None, gpus) == {
        "num_cpus": cpus,
        "num_gpus": gpus,
    }


def test_an_address_where_no_cluster_is_says_so(monkeypatch, tmp_path):
    ray.shutdown()
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(
        RuntimeUnavailableError, match=r"cannot reach Ray at `auto`.*`ray start --head`"
    ):
        list(Ray(address="auto").build(print).run(Doubling(tmp_path), [1]))
    assert signal.getsignal(signal.SIGTERM) is before
