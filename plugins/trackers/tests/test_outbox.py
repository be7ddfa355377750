from __future__ import annotations

import logging
import threading
import time

import pytest
from sentbed_trackers import outbox
from sentbed_trackers.outbox import Outbox


class Service:
    """Takes what it is sent, unless it is down."""

    def __init__(self):
        self.down = False
        self.taken = []
        self.asked = threading.Semaphore(0)
        self.ended = False

    def take(self, items):
        try:
            if self.down:
                raise ConnectionError("refused\nand more lines")
            self.taken.append(list(items))
        finally:
            self.asked.release()

    def end(self):
        self.ended = True


@pytest.fixture
def service():
    return Service()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(outbox, "SECONDS", 0.01)
    monkeypatch.setattr(outbox, "RETRY_SECONDS", 0.01)


def test_everything_arrives_once_and_in_order_in_bounded_batches(service, monkeypatch):
    monkeypatch.setattr(outbox, "BATCH", 7)
    box = Outbox(service.take, "S")
    for start in range(0, 100, 10):
        box.put(range(start, start + 10))
    box.close(service.end, 10)
    assert [item for batch in service.taken for item in batch] == list(range(100))
    assert max(map(len, service.taken)) <= 7
    assert service.ended
    assert box.pending() == []


def test_what_could_not_be_sent_is_sent_later_and_told_once(service, caplog):
    service.down = True
    box = Outbox(service.take, "S")
    box.put([1, 2])
    for _ in range(3):
        assert service.asked.acquire(timeout=10)
    assert box.pending() == [1, 2]
    service.down = False
    box.put([3])
    box.close(service.end, 10)
    assert [item for batch in service.taken for item in batch] == [1, 2, 3]
    assert [record.message for record in caplog.records] == [
        "S does not answer (refused); the run goes on, what it shows is kept and sent later"
    ]


def test_putting_and_closing_do_not_wait_for_a_service_that_hangs(
    caplog,
):
    released, entered = threading.Event(), threading.Event()

    def hang(items):
        entered.set()
        released.wait(30)

    box = Outbox(hang, "S")
    box.put([1])
    assert entered.wait(10)
    before = time.monotonic()
    box.put([2, 3])
    assert box.pending() == [1, 2, 3]
    box.close(lambda: None, 0.05)
    assert time.monotonic() - before < 5
    released.set()
    assert (
        "3 numbers could not be sent to S; the run's `log.jsonl` has them"
        in caplog.messages
    )


def test_a_service_that_stays_down_costs_its_numbers_only(service, caplog, monkeypatch):
    monkeypatch.setattr(outbox, "LIMIT", 5)
    service.down = True
    box = Outbox(service.take, "S")
    box.put(range(8))
    with caplog.at_level(logging.WARNING):
        box.close(service.end, 10)
    assert box.pending() == [3, 4, 5, 6, 7]
    assert not service.ended
    assert caplog.messages[-1].startswith("8 numbers could not be sent to S")
