"""A queue to a service, sent from its own thread so that training never waits for a network."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

_LOG = logging.getLogger(__name__)

SECONDS = 5.0
"""Seconds between two sendings."""
RETRY_SECONDS = 60.0
"""Seconds after a failed sending."""
BATCH = 1000
"""Largest number of items per sending; MLflow's limit."""
LIMIT = 50_000
"""Largest number of items kept while the service is unreachable; the oldest are dropped."""

T = TypeVar("T")


class Outbox(Generic[T]):
    """A queue that keeps items until `send` succeeds; after an exception it is called again later."""

    def __init__(self, send: Callable[[Sequence[T]], None], service: str) -> None:
        self._send = send
        self._service = service
        self._waiting: list[T] = []
        self._flying: list[T] = []
        self._dropped = 0
        self._last: Callable[[], None] | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(
            target=self._work, name=f"sentbed-{service}", daemon=True
        )
        self._thread.start()

    def put(self, items: Iterable[T]) -> None:
        """Queue items to be sent, without blocking."""
        with self._changed:
            self._waiting += items
            if (excess := len(self._waiting) - LIMIT) > 0:
                del self._waiting[:excess]
                self._dropped += excess

    def pending(self) -> list[T]:
        """Return the items that may not have arrived."""
        with self._changed:
            return [*self._flying, *self._waiting]

    def close(self, last: Callable[[], None], timeout: float) -> None:
        """Send the remaining items, then call `last`; give up after `timeout` seconds, reporting the loss."""
        with self._changed:
            self._last = last
            self._changed.notify()
        self._thread.join(timeout)
        if left := len(self.pending()) + self._dropped:
            _LOG.warning(
                "%s numbers could not be sent to %s; the run's `log.jsonl` has them",
                left,
                self._service,
            )

    def _work(self) -> None:
        failed = False
        while True:
            seconds = RETRY_SECONDS if failed else SECONDS
            with self._changed:
                if self._last is None and (failed or len(self._waiting) < BATCH):
                    self._changed.wait(seconds)
                last = self._last
                self._flying = self._waiting[:BATCH]
                del self._waiting[:BATCH]
            try:
                if self._flying:
                    self._send(self._flying)
                elif last is not None:
                    last()
                    return
            except Exception as error:  # noqa: BLE001 - whatever a service does, the run must go on
                if not failed:
                    _LOG.warning(
                        "%s does not answer (%s); the run goes on, what it shows is kept and sent later",
                        self._service,
                        str(error).partition("\n")[0],
                    )
                failed = True
                with self._changed:
                    self._waiting[:0] = self._flying
                    self._flying = []
                if last is not None:
                    return
            else:
                failed = False
                with self._changed:
                    self._flying = []
