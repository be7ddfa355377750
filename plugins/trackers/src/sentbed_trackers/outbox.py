"""Queue of items for a service, sent from a separate thread so that training never waits for the network."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

_LOG = logging.getLogger(__name__)

SECONDS = 5.0
"""Seconds between two calls of `send`."""
RETRY_SECONDS = 60.0
"""Seconds until the next call after a failed one."""
BATCH = 1000
"""Maximum number of items per call; MLflow's limit."""
LIMIT = 50_000
"""Maximum number of items kept while the service is unreachable; the oldest are dropped."""

T = TypeVar("T")


class Outbox(Generic[T]):
    """Queue that keeps items until `send` succeeds; if it raises an exception, it is called again later."""

    def __init__(self, send: Callable[[Sequence[T]], None], service: str) -> None:
        self._send = send
        self._service = service
        self._waiting: list[T] = []
        self._sending: list[T] = []
        """Items of the current call of `send`."""
        self._dropped = 0
        self._last: Callable[[], None] | None = None
        """What `close` calls after the last item; None before."""
        self._changed = threading.Condition()
        self._thread = threading.Thread(
            target=self._work, name=f"sentbed-{service}", daemon=True
        )
        self._thread.start()

    def put(self, items: Iterable[T]) -> None:
        """Queue items to be sent, without blocking."""
        with self._changed:
            self._waiting += items
            excess = len(self._waiting) - LIMIT
            if excess > 0:
                del self._waiting[:excess]
                self._dropped += excess

    def pending(self) -> list[T]:
        """Return the items that may not have arrived."""
        with self._changed:
            return [*self._sending, *self._waiting]

    def close(self, last: Callable[[], None], timeout: float) -> None:
        """Send the remaining items, then call `last`; after `timeout` seconds, give up and log a warning."""
        with self._changed:
            self._last = last
            self._changed.notify()
        self._thread.join(timeout)
        left = len(self.pending()) + self._dropped
        if left:
            _LOG.warning(
                "%s numbers could not be sent to %s; the run's `log.jsonl` has them",
                left,
                self._service,
            )

    def _work(self) -> None:
        """Send items until `close` was called and all are sent, or a call after that fails."""
        failed = False
        while True:
            seconds = RETRY_SECONDS if failed else SECONDS
            with self._changed:
                if self._last is None and (failed or len(self._waiting) < BATCH):
                    self._changed.wait(seconds)
                last = self._last
                self._sending = self._waiting[:BATCH]
                del self._waiting[:BATCH]

            try:
                if self._sending:
                    self._send(self._sending)
                elif last is not None:
                    last()
                    return
            except Exception as error:  # noqa: BLE001 - no failure of the service may end the run
                if not failed:
                    _LOG.warning(
                        "%s does not answer (%s); the run goes on, what it shows is kept and sent later",
                        self._service,
                        str(error).partition("\n")[0],
                    )
                failed = True
                with self._changed:
                    self._waiting[:0] = self._sending
                    self._sending = []
                if last is not None:
                    return
            else:
                failed = False
                with self._changed:
                    self._sending = []
