"""What the processes of the executor `local` have of their own: cores, GPUs, and an end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from multiprocessing import connection
from pathlib import Path

import pytest
import toy_work
from sentbed.errors import DataError, RuntimeUnavailableError
from sentbed.helpers import usable_cores
from sentbed_jobs.local import Local
from toy_work import Doubling, wait_for_sleepers


@pytest.fixture
def work(tmp_path):
    return Doubling(tmp_path)


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def closed_while_busy(work, task):
    """Close an executor while both of its workers are at such a task."""
    with closing(Local(3).run(work, [task, task, 1])) as results:
        assert next(results) == (1, 2)
        wait_for_sleepers(work, 2)


def test_a_single_worker_is_this_process_and_takes_tasks_in_turn(work):
    assert list(Local().run(work, [3, 1, 2])) == [(3, 6), (1, 2), (2, 4)]
    assert work.notes("started") == [[str(os.getpid()), "None", "-"]]
    assert list(Local().run(work, [])) == []


def test_workers_share_the_cores_and_are_not_more_than_the_tasks(work):
    assert list(Local(3).run(work, [4])) == [(4, 8)]
    ((_, threads, _),) = work.notes("started")
    assert threads == str(max(1, usable_cores() // 3))


def test_each_worker_sees_gpus_of_its_own(work, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    messages = []
    results = Local(2, gpus=2).run(work, [-1, -7], messages.append)
    # The other worker is busy meanwhile.
    assert next(results) == (-1, -2)
    (work.directory / "awake").touch()
    assert list(results) == [(-7, -14)]
    # The worker in the place of the one that died sees what that one saw.
    assert sorted(seen for *_, seen in work.notes("started")) == ["4,5", "4,5", "6,7"]
    assert messages == ["a worker ended with exit code -9; -1: done again by a new one"]


def test_fewer_gpus_than_the_workers_need_are_an_error(work, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6")
    with pytest.raises(RuntimeUnavailableError, match="`4,5,6`, and 2 workers with 2"):
        list(Local(2, gpus=2).run(work, [1, 2]))
    assert work.notes("did") == []


@pytest.mark.slow
def test_workers_that_end_save_what_is_half_done_all_at_once_and_say_nothing(
    work, capfd
):
    closed_while_busy(work, -8)
    ended = work.notes("ended")
    assert [what for what, _ in ended] == ["asked", "asked", "saved", "saved"]
    assert {pid for _, pid in ended} == {pid for (pid,) in work.notes("asleep")}
    assert all(gone(int(pid)) for pid, *_ in work.notes("started"))
    assert capfd.readouterr() == ("", "")


def test_workers_that_do_not_end_are_killed(work, monkeypatch):
    monkeypatch.setattr("sentbed_jobs.local_processes.PATIENCE", 0.2)
    closed_while_busy(work, -9)
    assert work.notes("cleaned") == []
    assert all(gone(int(pid)) for pid, *_ in work.notes("started"))


@pytest.mark.slow
def test_a_second_interruption_does_not_wait_for_workers(work):
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    results = Local(3).run(work, [-9, -9, 1])
    try:
        next(results)
        wait_for_sleepers(work, 2)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            results.close()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - started < 20
    assert all(gone(int(pid)) for pid, *_ in work.notes("started"))


def test_results_that_arrive_together_with_a_failure_are_not_lost(work, monkeypatch):
    class Together:
        @staticmethod
        def wait(waiting):
            while len(connection.wait(waiting)) < len(waiting):
                time.sleep(0.01)
            return waiting

    monkeypatch.setattr("sentbed_jobs.local_processes.connections", Together)
    results = Local(3).run(work, [-3, 1, 2])
    assert [next(results), next(results)] == [(1, 2), (2, 4)]
    with pytest.raises(DataError, match="bad row"):
        next(results)


SCRIPT = """
import sys
sys.path[:0] = {path!r}
from pathlib import Path
from sentbed_jobs.local import Local
from toy_work import Doubling
if __name__ == "__main__":
    list(Local(2).run(Doubling(Path({directory!r})), [-6, -6]))
"""


@pytest.mark.slow
def test_workers_end_with_the_process_that_started_them(work):
    script = work.directory / "script.py"
    toy = str(Path(toy_work.__file__).parent)
    script.write_text(SCRIPT.format(path=[toy], directory=str(work.directory)))
    process = subprocess.Popen(
        [sys.executable, script],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for_sleepers(work, 2)
    # Each worker writes its note before it sleeps. An interrupt within a file's finaliser would be lost.
    time.sleep(0.5)
    # As a terminal does: to all of them.
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert all(gone(int(pid)) for pid, *_ in work.notes("started"))
    assert len(work.notes("cleaned")) == 2
    assert errors.count("Traceback") == errors.count("KeyboardInterrupt") == 1
