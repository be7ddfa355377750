"""Messages between the first process and each other process, over sockets.

Messages are pickles, since they contain modules and components of any plugin. Loading a pickle can run code,
and everyone who can reach the first process's port can send one. So every message starts with a keyed hash
(HMAC), and a message with a wrong hash is not loaded.
"""

from __future__ import annotations

import hmac
import io
import os
import pickle
import secrets
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist
from sentbed import RunError
from torch import Tensor, nn

KEY_VARIABLE = "SENTBED_PROCESS_KEY"
"""Environment variable with the key of the messages. All machines of a run must have the same key."""

SHORTEST_KEY = 32
"""Smallest number of characters of a key."""

HASH = "sha256"
HASH_BYTES = 32

ENDED = (EOFError, OSError)
"""Exceptions that a connection raises if the process at its other end has ended."""

PORT = "port-of-messages"
"""Entry of the key-value store that all processes share: the port at which the first process accepts
connections."""
LOOPBACK = "127.0.0.1"
RANK_BYTES = 4
MEETING, GREETING = 600.0, 10.0
"""Seconds that the first process waits for another process to connect, and then for its first message."""


def new_key() -> str:
    """Return a random key for the messages of a run on one machine."""
    return secrets.token_hex(SHORTEST_KEY)


def require_key() -> bytes:
    """Return the key of this run's messages. Raises `RunError` if it is missing or too short."""
    key = os.environ.get(KEY_VARIABLE, "")
    if len(key) < SHORTEST_KEY:
        raise RunError(
            f"`{KEY_VARIABLE}` has {len(key)} characters, expected at least {SHORTEST_KEY}: the key of the "
            "messages between processes, alike on all machines; make one with "
            f"`openssl rand -hex {SHORTEST_KEY}`"
        )

    return key.encode()


def connect(
    store: Any,
    rank: int,
    world: int,
    host: str,
) -> list[Connection]:
    """Connect the first process with every other process, and return the connections of this process.

    The first process returns `world - 1` connections in rank order, every other process one connection to the
    first. `store` is the key-value store that all processes share, `host` the address of the first process.
    If `host` is `LOOPBACK`, the first process accepts no connections from other machines.

    Raises:
        RunError: if a process has another key, or does not connect in time.
    """
    if rank != 0:
        try:
            to_first = socket.create_connection((host, int(store.get(PORT))), MEETING)
        except OSError as error:
            raise RunError(
                f"the first process does not answer at `{host}`: {error}; if it left a message, that stands "
                "above"
            ) from error

        to_first.sendall(_signed(rank.to_bytes(RANK_BYTES, "big")))
        return [_connection(to_first)]

    by_rank: dict[int, Connection] = {}
    interface = LOOPBACK
    if host != LOOPBACK:
        # All interfaces of this machine.
        interface = ""

    with socket.create_server((interface, 0)) as server:
        server.settimeout(MEETING)
        store.set(PORT, str(server.getsockname()[1]))

        while len(by_rank) < world - 1:
            try:
                other, _ = server.accept()
            except TimeoutError as error:
                raise RunError(
                    f"of {world} processes, {len(by_rank) + 1} have come within {MEETING:.0f} seconds; start "
                    "them again, and look for the message of the others"
                ) from error

            # A program that is none of the processes, such as a port scanner, sends no greeting.
            with other:
                greeting = _greeting(other)
                if greeting is not None:
                    rank_of_other = int.from_bytes(_verified(greeting), "big")
                    by_rank[rank_of_other] = _connection(other)

    return [by_rank[other] for other in range(1, world)]


def _greeting(other: socket.socket) -> bytes | None:
    """Return the first message on a connection, or None if it does not arrive within `GREETING` seconds."""
    other.settimeout(GREETING)
    size = HASH_BYTES + RANK_BYTES
    with suppress(OSError), other.makefile("rb") as file:
        message = file.read(size)
        if len(message) == size:
            return message

    return None


def _connection(connected: socket.socket) -> Connection:
    """Return a connection for messages over a connected socket."""
    # Without this option, TCP holds back a short message until the previous one is acknowledged.
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # The next message comes after the current call, which may take hours.
    connected.settimeout(None)
    return Connection(connected.detach())


def send(connection: Connection, value: Any) -> None:
    """Send a value over a connection. Raises `OSError` if the process at its other end has ended."""
    connection.send_bytes(_signed(pickle.dumps(value, pickle.HIGHEST_PROTOCOL)))


def receive(connection: Connection) -> Any:
    """Return the next value that arrives on a connection.

    Raises:
        ENDED: if the process at the other end has ended.
        RunError: if the message was not signed with this run's key.
    """
    return pickle.loads(_verified(connection.recv_bytes()))


def _signed(content: bytes) -> bytes:
    """Return a message: the keyed hash of the content, followed by the content."""
    return hmac.digest(require_key(), content, HASH) + content


def _verified(message: bytes) -> memoryview:
    """Return the content of a message. Raises `RunError` if it was not signed with this run's key."""
    view = memoryview(message)
    content = view[HASH_BYTES:]
    expected = hmac.digest(require_key(), content, HASH)
    if not hmac.compare_digest(view[:HASH_BYTES], expected):
        raise RunError(
            "a process has sent a message without the key of this run, and it was not read; if all "
            f"machines are yours, set `{KEY_VARIABLE}` alike on all"
        )

    return content


class _CallPickler(pickle.Pickler):
    """Pickles a call, that is a function and its arguments. Tensors, and objects that exist in every process, are
    replaced by numbers.

    `tensors` are then sent by themselves, in the order of their numbers.
    """

    def __init__(self, file: io.BytesIO, objects: Mapping[int, Any]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.tensors: list[Tensor] = []
        self.places: dict[int, tuple[str, int]] = {}
        for number, value in objects.items():
            self.places[id(value)] = "object", number

    def persistent_id(self, value: Any) -> tuple[str, int] | None:
        is_tensor = type(value) in (Tensor, nn.Parameter)
        if is_tensor and not value.is_meta and id(value) not in self.places:
            self.places[id(value)] = "tensor", len(self.tensors)
            self.tensors.append(value)

        return self.places.get(id(value))


class _CallUnpickler(pickle.Unpickler):
    """Unpickles a call of `_CallPickler`. This process's objects and tensors take the place of the numbers."""

    def __init__(
        self,
        file: io.BytesIO,
        objects: Mapping[int, Any],
        tensors: list[Tensor],
    ) -> None:
        super().__init__(file)
        self.values: dict[str, Any] = {"object": objects, "tensor": tensors}

    def persistent_load(self, place: tuple[str, int]) -> Any:
        kind, number = place
        return self.values[kind][number]


def packed(call: Any, objects: Mapping[int, Any]) -> tuple[bytes, list[Tensor]]:
    """Return a call as bytes, and the tensors in it, which are to be sent by `send_tensors`.

    `objects` are the objects that exist in every process, by number. The bytes have only these numbers.
    """
    body = io.BytesIO()
    pickler = _CallPickler(body, objects)
    pickler.dump(call)
    kinds = []
    for tensor in pickler.tensors:
        kind = type(tensor), tuple(tensor.shape), tensor.dtype, tensor.requires_grad
        kinds.append(kind)

    content = pickle.dumps((kinds, body.getvalue()), pickle.HIGHEST_PROTOCOL)
    return content, pickler.tensors


def send_tensors(tensors: Sequence[Tensor]) -> None:
    """Broadcast the tensors of a call from the first process."""
    for tensor in tensors:
        _broadcast(tensor.detach().cpu().contiguous())


def unpacked(content: bytes, objects: Mapping[int, Any]) -> Any:
    """Return the call that `packed` has turned into bytes.

    Its tensors are received from the first process. `objects` are this process's objects, by number.
    """
    kinds, body = pickle.loads(content)
    tensors: list[Tensor] = []
    for kind, shape, dtype, requires_grad in kinds:
        tensor = torch.empty(shape, dtype=dtype)
        _broadcast(tensor)
        if kind is nn.Parameter:
            tensor = nn.Parameter(tensor, requires_grad)
        tensors.append(tensor.requires_grad_(requires_grad))

    return _CallUnpickler(io.BytesIO(body), objects, tensors).load()


def _broadcast(tensor: Tensor) -> None:
    """Copy a host tensor of the first process into `tensor` of every other process."""
    if tensor.numel():
        dist.broadcast(tensor.reshape(-1).view(torch.uint8), 0)
