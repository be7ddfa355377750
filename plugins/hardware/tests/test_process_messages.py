"""Messages between processes are read only if they have the key of the run."""

from __future__ import annotations

import os
import pickle
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentbed import RunError
from sentbed_hardware._common import process_messages
from sentbed_hardware._common.process_messages import (
    ENDED,
    HASH_BYTES,
    KEY_VARIABLE,
    LOOPBACK,
    PORT,
    RANK_BYTES,
    connect,
    new_key,
    packed,
    receive,
    send,
    unpacked,
)
from sentbed_hardware.launching import is_this_machine, meet
from torch._C._distributed_c10d import HashStore, TCPStore


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, new_key())


@pytest.fixture
def pair():
    """Two ends of a connection."""
    local, remote = Pipe()
    with local, remote:
        yield local, remote


class Program:
    """What makes a directory when it is unpickled."""

    def __init__(self, directory):
        self.directory = directory

    def __reduce__(self):
        return os.mkdir, (str(self.directory),)


@given(st.binary(max_size=200))
def test_a_message_is_read_as_it_was_sent(content):
    local, remote = Pipe()
    with local, remote:
        send(local, content)
        assert receive(remote) == content


@given(st.data())
def test_a_message_with_any_byte_changed_is_refused(data):
    local, remote = Pipe()
    with local, remote:
        send(local, "a message")
        message = bytearray(remote.recv_bytes())
        place = data.draw(st.integers(0, len(message) - 1))
        message[place] ^= data.draw(st.integers(1, 255))
        local.send_bytes(message)
        with pytest.raises(RunError, match="without the key of this run"):
            receive(remote)


@pytest.mark.parametrize("start", [b"", bytes(32)])
def test_a_strangers_program_is_not_run(pair, tmp_path, start):
    local, remote = pair
    ran = tmp_path / "ran"
    local.send_bytes(start + pickle.dumps(Program(ran)))
    with pytest.raises(RunError, match="it was not read"):
        receive(remote)
    assert not ran.exists()


def test_a_message_of_another_key_is_refused(pair, monkeypatch):
    local, remote = pair
    send(local, "theirs")
    monkeypatch.setenv(KEY_VARIABLE, new_key())
    with pytest.raises(RunError, match="alike on all"):
        receive(remote)


@pytest.mark.parametrize("key", ["", "guess"])
def test_a_run_without_a_key_or_with_a_short_one_is_refused(pair, monkeypatch, key):
    local, _ = pair
    monkeypatch.setenv(KEY_VARIABLE, key)
    with pytest.raises(RunError, match=f"has {len(key)} characters, expected at least"):
        send(local, "mine")


def test_the_end_of_a_process_is_known_by_its_connection(
    pair,
):
    local, remote = pair
    remote.close()
    with pytest.raises(ENDED):
        receive(local)
    with pytest.raises(ENDED):
        send(local, "still there?")


def test_processes_are_connected_in_the_order_of_their_ranks():
    store = HashStore()
    first = []
    thread = threading.Thread(
        target=lambda: first.append(connect(store, 0, 3, "127.0.0.1"))
    )
    thread.start()
    others = {rank: connect(store, rank, 3, "127.0.0.1")[0] for rank in (2, 1)}
    thread.join()
    for rank, connection in enumerate(first[0], 1):
        send(connection, f"to {rank}")
        assert receive(others[rank]) == f"to {rank}"
        connection.close()
        others[rank].close()


@pytest.mark.parametrize("start", [b"", b"GET / HTTP/1.1"])
@pytest.mark.parametrize("closes", [True, False])
def test_a_stranger_does_not_stop_a_run_that_starts(monkeypatch, start, closes):
    monkeypatch.setattr(process_messages, "GREETING", 0.2)
    store = HashStore()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(connect, store, 0, 2, LOOPBACK)
        with socket.create_connection((LOOPBACK, int(store.get(PORT)))) as stranger:
            stranger.sendall(start)
            if closes:
                stranger.close()
            (second,) = connect(store, 1, 2, LOOPBACK)
            (connection,) = first.result(10)
    send(connection, "to the second")
    assert receive(second) == "to the second"


def test_a_process_of_another_key_ends_the_start():
    store = HashStore()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(connect, store, 0, 2, LOOPBACK)
        with socket.create_connection((LOOPBACK, int(store.get(PORT)))) as stranger:
            stranger.sendall(bytes(HASH_BYTES + RANK_BYTES))
            with pytest.raises(RunError, match="without the key of this run"):
                first.result(10)


def test_a_process_that_does_not_come_ends_the_start(
    monkeypatch,
):
    monkeypatch.setattr(process_messages, "MEETING", 0.2)
    with pytest.raises(RunError, match="of 2 processes, 1 have come within"):
        connect(HashStore(), 0, 2, LOOPBACK)
    store = HashStore()
    store.set(PORT, "9")
    with pytest.raises(RunError, match="the first process does not answer"):
        connect(store, 1, 2, LOOPBACK)


def test_a_call_refers_to_what_every_process_has():
    theirs, ours = ["an encoder"], ["the same encoder"]
    content, tensors = packed((theirs, "and more"), {7: theirs})
    assert tensors == []
    call = unpacked(content, {7: ours})
    assert call[0] is ours
    assert call[1] == "and more"


def test_machines_meet_by_a_counter_whatever_else_is_in_the_store(
    tmp_path,
):
    """The store is a stranger's, with what another rendezvous would unpickle."""
    ran = tmp_path / "ran"
    theirs = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    program = pickle.dumps(Program(ran))
    for key in ("torch.rendezvous.sentbed", "complete"):
        theirs.set(key, program)
    _, number = meet(f"127.0.0.1:{theirs.port}", 3)
    assert number == 1
    assert not ran.exists()
    meet(f"127.0.0.1:{theirs.port}", 3)
    with pytest.raises(
        ValueError, match="the run has 3 machines, and all of them have connected"
    ):
        meet(f"127.0.0.1:{theirs.port}", 3)


def test_an_address_is_of_this_machine_if_it_can_be_bound():
    assert is_this_machine("127.0.0.1")
    assert is_this_machine("localhost")
    assert not is_this_machine("192.0.2.1")
    if socket.has_dualstack_ipv6():
        assert is_this_machine("::1")
