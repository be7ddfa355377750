from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
import toy_work
from sentbed import DataError, RecipeError, RunError
from sentbed.errors import RuntimeUnavailableError
from sentbed.helpers import usable_cores
from sentbed_jobs.local_pool import LocalPool
from toy_work import AwkwardError, Doubling


@pytest.fixture
def work(tmp_path):
    return Doubling(tmp_path)


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("workers", [1, 2])
def test_every_task_is_yielded_once_with_its_result(workers, work):
    assert sorted(LocalPool(workers).run(work, range(7))) == [
        (n, 2 * n) for n in range(7)
    ]


def test_a_single_worker_is_this_process_and_takes_tasks_in_turn(work):
    assert list(LocalPool().run(work, [3, 1, 2])) == [(3, 6), (1, 2), (2, 4)]
    assert work.notes("started") == [[str(os.getpid()), "None", "-"]]


def test_each_of_several_workers_starts_once_and_they_share_the_cores(work):
    assert len(list(LocalPool(2).run(work, range(10)))) == 10
    started = work.notes("started")
    assert len({pid for pid, *_ in started}) == len(started) == 2
    assert {threads for _, threads, _ in started} == {str(max(1, usable_cores() // 2))}
    assert str(os.getpid()) not in {pid for pid, *_ in started}


def test_no_more_workers_are_started_than_there_are_tasks(work):
    assert list(LocalPool(3).run(work, [4])) == [(4, 8)]
    assert len(work.notes("started")) == 1


def test_each_worker_sees_gpus_of_its_own(work, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    list(LocalPool(2, gpus=2).run(work, [1, 2, -1]))
    # The worker in the place of the one that died sees what that one saw.
    assert {seen for *_, seen in work.notes("started")} == {"4,5", "6,7"}
    assert len(work.notes("started")) == 3


def test_fewer_gpus_than_the_workers_need_are_an_error(work, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6")
    with pytest.raises(RuntimeUnavailableError, match="`4,5,6`, and 2 workers with 2"):
        list(LocalPool(2, gpus=2).run(work, [1, 2]))
    assert work.notes("did") == []


def test_the_task_of_a_worker_that_died_is_done_by_a_new_one(work):
    messages = []
    done = dict(LocalPool(2, say=messages.append).run(work, [1, -1, 2, 3, 4]))
    assert done == {1: 2, -1: -2, 2: 4, 3: 6, 4: 8}
    assert [task for _, task in work.notes("did")].count("-1") == 2
    assert messages == ["a worker ended with exit code -9; -1: done again by a new one"]


def test_a_task_that_kills_every_worker_is_an_error_that_names_it(tmp_path):
    work = Doubling(tmp_path, deaths=9)
    results = LocalPool(2, retries=1, say=lambda _: None).run(work, [1, 2, -1])
    done = []
    with pytest.raises(RunError) as caught:
        done.extend(results)
    # Nothing is said of those that were not done before it had failed twice.
    assert set(done) <= {(1, 2), (2, 4)}
    assert done
    assert str(caught.value).startswith(
        "-1: 2 workers died of it, the last one ended with exit code -9"
    )
    assert len(work.notes("died")) == 2


def test_a_task_that_kills_every_worker_gets_the_result_of_what_is_lost(tmp_path):
    work = Doubling(tmp_path, deaths=9)
    deaths = []

    def give_up(task, message):
        deaths.append((task, message))
        return 99

    tasks = [-1, 1, 2, -2, 3]
    results = LocalPool(2, retries=1, say=lambda _: None).run(
        work, tasks, on_death=give_up
    )
    assert dict(results) == {-1: 99, 1: 2, 2: 4, -2: 99, 3: 6}
    assert dict(deaths).keys() == {-1, -2}
    assert dict(deaths)[-1].startswith(
        "2 workers died of it, the last one ended with exit code -9;"
    )
    assert dict(deaths)[-2].startswith(
        "2 workers died of it, the last one ended with exit code 7;"
    )


def test_what_the_function_raises_is_not_lost(work):
    with pytest.raises(DataError):
        list(LocalPool(2).run(work, [-3], on_death=lambda *_: 99))


@pytest.mark.parametrize("workers", [1, 2])
def test_what_the_function_raises_is_raised_here_and_not_tried_again(workers, work):
    with pytest.raises(DataError) as caught:
        list(LocalPool(workers).run(work, [-3]))
    assert str(caught.value) == "bad row @ corpus.jsonl:3"
    assert len(work.notes("did")) == 1
    if workers == 2:
        assert "toy_work.py" in str(caught.value.__cause__)


@pytest.mark.parametrize(
    ("task", "error", "message"),
    [
        (-4, RecipeError, "wrong @ runtime.use"),
        (-5, RuntimeError, "AwkwardError: hard to carry"),
    ],
)
def test_an_exception_that_cannot_be_carried_keeps_its_message(
    task, error, message, work
):
    with pytest.raises(error) as caught:
        list(LocalPool(2).run(work, [task]))
    assert message in str(caught.value)
    assert not isinstance(caught.value, AwkwardError)


def test_an_error_at_the_start_of_a_worker_is_raised_here(work, tmp_path):
    (tmp_path / "broken").touch()
    with pytest.raises(DataError, match=r"^it cannot start$"):
        list(LocalPool(2).run(work, [1, 2, 3]))


def test_closing_ends_the_workers_and_they_clean_up(work):
    with closing(LocalPool(2).run(work, [-6, 1, 2, 3])) as results:
        assert next(results)[0] in (1, 2, 3)
        while not work.notes("asleep"):
            time.sleep(0.01)
    assert work.notes("cleaned") == work.notes("asleep")
    assert all(gone(int(pid)) for pid, *_ in work.notes("started"))


def asleep(work, count):
    """Wait for so many workers that wait for their end."""
    deadline = time.monotonic() + 30
    while len(work.notes("asleep")) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def closed_while_busy(work, task):
    """Close a pool while both of its workers are at such a task."""
    with closing(LocalPool(3).run(work, [task, task, 1])) as results:
        assert next(results) == (1, 2)
        asleep(work, 2)


@pytest.mark.slow
def test_workers_that_are_told_to_end_save_what_is_half_done_all_at_once_and_say_nothing(
    work, capfd
):
    closed_while_busy(work, -8)
    ended = work.notes("ended")
    assert [what for what, _ in ended] == ["asked", "asked", "saved", "saved"]
    assert {pid for _, pid in ended} == {pid for (pid,) in work.notes("asleep")}
    assert all(gone(int(pid)) for pid, *_ in work.notes("started"))
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_worker_that_somebody_else_told_to_end_died(work):
    results = LocalPool(2, retries=0).run(work, [-8, 1])
    assert next(results) == (1, 2)
    asleep(work, 1)
    os.kill(int(work.notes("asleep")[0][0]), signal.SIGTERM)
    with pytest.raises(
        RunError,
        match=r"^-8: 1 workers died of it, the last one ended with exit code 1;",
    ):
        next(results)
    assert [what for what, _ in work.notes("ended")] == ["asked", "saved"]


def test_workers_that_do_not_end_are_killed(work, monkeypatch):
    monkeypatch.setattr("sentbed_jobs.local_pool.PATIENCE", 0.2)
    closed_while_busy(work, -9)
    assert work.notes("cleaned") == []
    assert all(gone(int(pid)) for pid, *_ in work.notes("started"))


@pytest.mark.slow
def test_a_second_interruption_does_not_wait_for_workers(work):
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    results = LocalPool(3).run(work, [-9, -9, 1])
    try:
        next(results)
        asleep(work, 2)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            results.close()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - started < 20
    assert all(gone(int(pid)) for pid, *_ in work.notes("started"))


SCRIPT = """
import sys
sys.path[:0] = {path!r}
from pathlib import Path
from sentbed.helpers import usable_cores
from sentbed_jobs.local_pool import LocalPool
from toy_work import Doubling
if __name__ == "__main__":
    list(LocalPool(2).run(Doubling(Path({directory!r})), {tasks}))
"""


@pytest.mark.slow
def test_workers_end_with_the_process_that_started_them(work):
    script = work.directory / "script.py"
    toy = str(Path(toy_work.__file__).parent)
    script.write_text(
        SCRIPT.format(path=[toy], directory=str(work.directory), tasks=[-6, -6])
    )
    process = subprocess.Popen(
        [sys.executable, script],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while len(work.notes("asleep")) < 2:
        assert process.poll() is None
        time.sleep(0.02)
    # Each worker writes its note before it sleeps. An interrupt within a file's finaliser would be lost.
    time.sleep(0.5)
    # As a terminal does: to all of them.
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    for _ in range(500):
        if all(gone(int(pid)) for pid, *_ in work.notes("started")):
            break
        time.sleep(0.02)
    else:
        pytest.fail("a worker goes on")
    assert len(work.notes("cleaned")) == 2
    assert errors.count("Traceback") == errors.count("KeyboardInterrupt") == 1
