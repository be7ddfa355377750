"""Messages between the first process and the others, over one connection to each.

They are pickles, since they contain modules and components of any plugin. Loading a pickle can run code, and
anyone who can reach the first process's port could send one. So every message has a keyed hash (HMAC), and is
not loaded without the right one.
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
"""Environment variable with the key of at least `SHORTEST_KEY` characters, the same on all machines of a run."""

SHORTEST_KEY = 32
HASH = "sha256"
HASH_BYTES = 32

ENDED = (EOFError, OSError)
"""Errors of a connection whose other process has ended."""

PORT = "port-of-messages"
"""Key in the processes' store under which the first process publishes its port."""
LOOPBACK = "127.0.0.1"
RANK_BYTES = 4
MEETING, GREETING = 600.0, 10.0
"""Seconds that the first process waits for the next connection, and for its first message."""


def new_key() -> str:
    """Return a key for the processes of one machine, for `KEY_VARIABLE`."""
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


def connect(store: Any, rank: int, world: int, host: str) -> list[Connection]:
    """Connect the first process with each other one, and return this process's connections in rank order.

    `host` is the first process's address; it accepts no connection from other machines if that is `LOOPBACK`.

    Raises:
        RunError: if a process has another key, or does not come.
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

            # A port scanner, for example, closes the connection or sends nothing.
            with other:
                greeting = _greeting(other)
                if greeting is not None:
                    rank_of_other = int.from_bytes(_verified(greeting), "big")
                    by_rank[rank_of_other] = _connection(other)

    return [by_rank[other] for other in range(1, world)]


def _greeting(other: socket.socket) -> bytes | None:
    """Return the first message on a connection, or None if none comes."""
    other.settimeout(GREETING)
    size = HASH_BYTES + RANK_BYTES
    with suppress(OSError), other.makefile("rb") as file:
        message = file.read(size)
        if len(message) == size:
            return message

    return None


def _connection(connected: socket.socket) -> Connection:
    """Return a connection for messages over a connected socket."""
    # Otherwise a short message waits until the one before it is acknowledged.
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A call may take any time.
    connected.settimeout(None)
    return Connection(connected.detach())


def send(connection: Connection, value: Any) -> None:
    """Send a value. Raises `OSError` if the other process has ended."""
    connection.send_bytes(_signed(pickle.dumps(value, pickle.HIGHEST_PROTOCOL)))


def receive(connection: Connection) -> Any:
    """Return the next value.

    Raises:
        ENDED: if the other process has ended.
        RunError: if the message was not sent with this run's key.
    """
    return pickle.loads(_verified(connection.recv_bytes()))


def _signed(content: bytes) -> bytes:
    return hmac.digest(require_key(), content, HASH) + content


def _verified(message: bytes) -> memoryview:
    """Return the content of a message. Raises `RunError` if it was not sent with this run's key."""
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
    """Pickles a call without its tensors, which are broadcast, and with numbers for shared objects."""

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
    def __init__(
        self, file: io.BytesIO, objects: Mapping[int, Any], tensors: list[Tensor]
    ) -> None:
        super().__init__(file)
        self.values: dict[str, Any] = {"object": objects, "tensor": tensors}

    def persistent_load(self, place: tuple[str, int]) -> Any:
        kind, number = place
        return self.values[kind][number]


def packed(call: Any, objects: Mapping[int, Any]) -> tuple[bytes, list[Tensor]]:
    """Return a call as bytes, and its tensors, which are sent apart.

    `objects` exist in every process: the call has only their numbers.
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
    """Return a call that was `packed`, with this process's objects; receives its tensors."""
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
    """Broadcast a host tensor of the first process; in the other processes, `tensor` is overwritten."""
    if tensor.numel():
        dist.broadcast(tensor.reshape(-1).view(torch.uint8), 0)
