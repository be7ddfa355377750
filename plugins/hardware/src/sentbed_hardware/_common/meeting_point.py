"""Where the launchers of a run's machines meet: a key-value store with a counter.

torch's elastic rendezvous (`c10d`) keeps its state in the store as a pickle, which whoever answers at the
address can choose. A run has a fixed number of machines and is not restarted in part, so that a counter is
enough: nothing that is read from the store is a program.
"""

from __future__ import annotations

import socket
import time
from datetime import timedelta

from torch._C._distributed_c10d import PrefixStore, TCPStore
from torch.distributed.elastic.rendezvous import (
    RendezvousConnectionError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStateError,
    RendezvousTimeoutError,
    rendezvous_handler_registry,
)
from torch.distributed.elastic.rendezvous.api import RendezvousStoreInfo

BACKEND = "sentbed"
"""Name of this rendezvous for torch's launcher."""

CONNECTING = timedelta(seconds=60)
GATHERING = timedelta(minutes=10)
"""Time limit for the other machines to come, once one is there."""

MACHINES, COMPLETE = "machines", "complete"


class MeetingPoint(RendezvousHandler):
    """Numbers the machines of a run: the one that has the store is 0, the others as they come."""

    def __init__(self, host: str, port: int, machines: int, run_id: str) -> None:
        self.host = host
        self.machines = machines
        self.run_id = run_id
        self.store, self.is_first = _store(host, port)

    def get_backend(self) -> str:
        """Return the name of this rendezvous."""
        return BACKEND

    @property
    def use_agent_store(self) -> bool:
        """The processes use this store, too."""
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        """Wait for all machines and return this one's number.

        Raises:
            RendezvousTimeoutError: if not all machines come.
            RendezvousStateError: if more machines come than the run has.
        """
        store = PrefixStore(self.run_id, self.store)
        if self.is_first:
            number = 0
            self._wait_for_others(store)
        else:
            number = store.add(MACHINES, 1)
            if not 0 < number < self.machines:
                raise RendezvousStateError(
                    f"the run has {self.machines} machines, and this is another one"
                )
            store.wait([COMPLETE], GATHERING)
        address = RendezvousStoreInfo(self.host, self.store.port)
        return RendezvousInfo(store, number, self.machines, address)

    def _wait_for_others(self, store: PrefixStore) -> None:
        deadline = time.monotonic() + GATHERING.total_seconds()
        while (others := store.add(MACHINES, 0)) < self.machines - 1:
            if time.monotonic() > deadline:
                raise RendezvousTimeoutError(
                    f"{1 + others} of {self.machines} machines have come"
                )
            time.sleep(0.1)
        store.set(COMPLETE, "")

    def is_closed(self) -> bool:
        """Return False: it is used once."""
        return False

    def set_closed(self) -> None:
        """Do nothing: it is used once."""

    def num_nodes_waiting(self) -> int:
        """Return 0: no machine joins a run that has begun."""
        return 0

    def get_run_id(self) -> str:
        """Return the name under which the machines meet."""
        return self.run_id

    def shutdown(self) -> bool:
        """Return True; the store ends with this process."""
        return True


def _store(host: str, port: int) -> tuple[TCPStore, bool]:
    """Return the store at an address, and whether this process has it.

    Raises:
        RendezvousConnectionError: if no store answers.
    """
    if is_this_machine(host):
        try:
            return TCPStore(
                host, port, None, True, CONNECTING, wait_for_workers=False
            ), True
        except RuntimeError:
            # Another launcher on this machine has it.
            pass
    try:
        return TCPStore(host, port, None, False, CONNECTING), False
    except RuntimeError as error:
        raise RendezvousConnectionError("nobody answers") from error


def is_this_machine(host: str) -> bool:
    """Return whether one of the addresses of a host is this machine's."""
    try:
        addresses = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, _, _, address in addresses:
        try:
            with socket.socket(family, kind) as probe:
                # Only an address of this machine can be bound.
                probe.bind(address)
        except OSError:
            continue
        return True
    return False


def _meeting_point(parameters: RendezvousParameters) -> MeetingPoint:
    host, _, port = parameters.endpoint.rpartition(":")
    return MeetingPoint(
        host.strip("[]"), int(port), parameters.max_nodes, parameters.run_id
    )


def register() -> None:
    """Make the meeting point known to torch's launcher."""
    if (
        BACKEND not in rendezvous_handler_registry._registry
    ):  # it has no other way to ask
        rendezvous_handler_registry.register(BACKEND, _meeting_point)
