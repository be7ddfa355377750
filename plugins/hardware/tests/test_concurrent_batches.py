"""Several batches at a time: their order, threads, errors and vectors."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch
from sentbed.protocols import Head, TokenBatch, TokenStates
from sentbed_hardware._torch.concurrent_batches import MALLOC_VARIABLES, in_streams
from sentbed_hardware.engine_parts.cpu_defaults import streams_on


@pytest.fixture(autouse=True)
def _three_threads():
    torch.set_num_threads(3)


def encoding():
    return {
        thread.name
        for thread in threading.enumerate()
        if thread.name.startswith("encode")
    }


@pytest.mark.parametrize(
    ("threads", "streams"),
    [(1, 1), (2, 2), (3, 3), (4, 4), (5, 1), (6, 3), (8, 4), (10, 2), (64, 4)],
)
def test_no_thread_is_left_without_a_stream(threads, streams):
    assert streams_on(threads) == streams


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7, 12])
def test_results_come_in_order(count):
    def slower_at_first(number):
        time.sleep(0.02 / (number + 1))
        return number**2

    assert list(in_streams(slower_at_first, range(count), 3)) == [
        number**2 for number in range(count)
    ]
    assert not encoding()


def test_as_many_run_at_a_time_as_there_are_streams():
    meeting = threading.Barrier(3)
    # None of them ends before all three have begun.
    actual = list(in_streams(lambda _: meeting.wait(timeout=30), range(9), 3))
    assert sorted(actual) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_each_stream_has_its_share_of_the_threads_and_the_caller_keeps_its_own():
    torch.set_num_threads(6)

    def thread_and_count(_):
        name = threading.current_thread().name
        return name.partition("_")[0], torch.get_num_threads()

    results = list(in_streams(thread_and_count, range(8), 3))
    assert results == [("encode", 2)] * 6 + [("MainThread", 6)] * 2
    assert torch.get_num_threads() == 6
    # A thread that begins to compute later has the caller's number, not that of a stream.
    later = []
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert later == [6]


def test_a_lone_batch_starts_no_thread():
    assert list(in_streams(lambda _: encoding(), [None], 2)) == [set()]


def test_batches_are_not_made_long_before_they_are_encoded():
    batch_count = 0

    def batches():
        nonlocal batch_count
        for number in range(100):
            batch_count += 1
            yield number

    actual = in_streams(lambda number: number, batches(), 2)
    assert next(actual) == 0
    assert batch_count == 4
    actual.close()
    assert not encoding()


def test_an_error_comes_where_its_batch_would_and_ends_the_streams():
    def fails(number):
        if number == 2:
            raise ValueError("the third")
        return number

    actual = in_streams(fails, range(100), 2)
    assert [next(actual), next(actual)] == [0, 1]
    with pytest.raises(ValueError, match="the third"):
        next(actual)
    assert not encoding()
    assert torch.get_num_threads() == 3


class Places(torch.nn.Module):
    """A backbone of one multiplication that notes in which threads it runs."""

    def __init__(self, reentrant):
        super().__init__()
        self.reentrant = reentrant
        self.threads = []

    def forward(self, input_ids, attention_mask):
        self.threads.append(threading.current_thread().name)
        return TokenStates(
            input_ids[..., None] * torch.tensor([1.0, 0.5]), attention_mask
        )


class Remembers(torch.nn.Module):
    """A pooler that keeps its input during a call, which a second call would overwrite."""

    def forward(self, states):
        self.states = states.last_hidden_state
        time.sleep(0.01)
        return self.states.mean(1)


BATCHES = [
    TokenBatch(np.full((2, length), length), None) for length in (7, 6, 5, 4, 3, 2, 1)
]


@pytest.fixture
def encoder(
    engine,
    assemble,
    monkeypatch,
):
    def make(reentrant, streams):
        engine.batch_size.streams = streams
        assembled = assemble(head=Head())
        places = Places(reentrant)
        module = assembled.module
        module.pooler, module.pooled_width, module.states_width = Remembers(), 2, 2
        monkeypatch.setattr(assembled.backbone, "inference", lambda *_, **__: places)
        return assembled, places

    return make


EXPECTED = [
    np.full((2, 2), [float(length), length / 2]) for length in (7, 6, 5, 4, 3, 2, 1)
]


def test_an_encoder_runs_in_streams_and_its_pooler_in_one_at_a_time(
    encoder,
):
    assembled, places = encoder(True, 3)
    np.testing.assert_array_equal(list(assembled.encode_batches(BATCHES)), EXPECTED)
    assert sum(name.startswith("encode") for name in places.threads) == 6
    assert places.threads[-1] == "MainThread"


@pytest.mark.parametrize(("reentrant", "streams"), [(False, 3), (True, 1)])
def test_other_encoders_take_one_batch_after_the_other(
    reentrant,
    streams,
    encoder,
):
    assembled, places = encoder(reentrant, streams)
    np.testing.assert_array_equal(list(assembled.encode_batches(BATCHES)), EXPECTED)
    assert places.threads == ["MainThread"] * 7


FAULTS = """
import resource, sys, threading
import torch
from sentbed_hardware._torch.concurrent_batches import keep_freed_memory

def batches(count):
    for _ in range(count):
        states = [torch.ones(1_000_000) for _ in range(3)]
        del states

def faults(count):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    thread = threading.Thread(target=batches, args=(count,))
    thread.start()
    thread.join()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

torch.set_num_threads(1)
print(keep_freed_memory(), faults(40) * resource.getpagesize())
"""


@pytest.mark.sweep(1)
@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other C libraries have no mallopt"
)
@pytest.mark.parametrize(
    "user_variables",
    [{}, {"MALLOC_TRIM_THRESHOLD_": "1000000"}],
    ids=["sentbed", "user"],
)
def test_a_thread_keeps_the_memory_of_the_last_batch_unless_the_user_wants_otherwise(
    user_variables,
):
    environment = {
        key: value for key, value in os.environ.items() if key not in MALLOC_VARIABLES
    } | user_variables
    ran = subprocess.run(
        [sys.executable, "-c", FAULTS],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    kept, taken = ran.stdout.split()
    # A batch has three times 4 MB, forty of them 480 MB.
    assert (kept, int(taken) < 100e6) == (str(not user_variables), not user_variables)
