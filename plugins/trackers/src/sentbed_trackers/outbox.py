"""Queue of numbers for a tracking service. A thread sends them, so that training never waits for the network."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

_LOG = logging.getLogger(__name__)

SECONDS = 5.0
"""Seconds between two calls of `send`."""
RETRY_SECONDS = 60.0
"""Seconds until `send` is called again after it has failed."""
BATCH = 1000
"""Maximum number of items per call of `send`, which is MLflow's limit."""
LIMIT = 50_000
"""Maximum number of items that are kept while the service cannot be reached. The oldest items are dropped."""

T = TypeVar("T")


class Outbox(Generic[T]):
    """Queue that keeps items until `send` succeeds. If `send` raises an exception, it is called again later."""

    def __init__(self, send: Callable[[Sequence[T]], None], service: str) -> None:
        self._send = send
        self._service = service
        self._waiting: list[T] = []
        self._sending: list[T] = []
        """Items that the current call of `send` has."""
        self._dropped = 0
        """Number of dropped items."""
        self._last_call: Callable[[], None] | None = None
        """Function to call after the last item; None until `close` sets it."""
        self._changed = threading.Condition()
        # A daemon, since a call of a service that never answers must not keep the process from ending.
        self._thread = threading.Thread(
            target=self._work,
            name=f"sentbed-{service}",
            daemon=True,
        )
        self._thread.start()

    def put(self, items: Iterable[T]) -> None:
        """Queue items for sending; return at once."""
        with self._changed:
            self._waiting += items
            excess = len(self._waiting) - LIMIT
            if excess > 0:
                del self._waiting[:excess]
                self._dropped += excess

    def pending(self) -> list[T]:
        """Return the items that the service may not have received yet."""
        with self._changed:
            return [*self._sending, *self._waiting]

    def close(self, last_call: Callable[[], None], timeout: float) -> None:
        """Send the remaining items, then call `last_call`; give up after `timeout` seconds.

        If items were dropped, or could not be sent, log a warning.
        """
        with self._changed:
            self._last_call = last_call
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
        """Send items. After `close` was called, end when all items are sent, or when a call of `send` fails."""
        failed = False
        while True:
            seconds = RETRY_SECONDS if failed else SECONDS
            with self._changed:
                # After a failure, a full batch waits as well, so that the service is not asked without a pause.
                is_batch_full = len(self._waiting) >= BATCH
                if self._last_call is None and (failed or not is_batch_full):
                    self._changed.wait(seconds)
                last_call = self._last_call
                self._sending = self._waiting[:BATCH]
                del self._waiting[:BATCH]

            try:
                if self._sending:
                    self._send(self._sending)
                elif last_call is not None:
                    last_call()
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
                if last_call is not None:
                    return
            else:
                failed = False
                with self._changed:
                    self._sending = []
