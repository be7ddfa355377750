"""Messages between processes are read only if they are signed with the user's key."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentbed import RunError
from sentbed_hardware._common.meeting_point import MeetingPoint, is_this_machine
from sentbed_hardware._common.message_signatures import (
    KEY_VARIABLE,
    new_key,
    signed,
    verified,
)
from torch._C._distributed_c10d import TCPStore

HOSTILE_FIRST_PROCESS = """
import os, pickle, sys
import torch, torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

class Program:
    def __reduce__(self):
        return os.mkdir, (sys.argv[1],)

store, rank, world = next(iter(rendezvous("env://")))
dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
if rank == 0:
    content = torch.frombuffer(bytearray(bytes(32) + pickle.dumps(Program())), dtype=torch.uint8)
    dist.broadcast(torch.tensor([len(content)]), 0)
    dist.broadcast(content, 0)
else:
    from sentbed_hardware._common.process_messages import receive
    receive({})
"""


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, new_key())


@given(st.binary(max_size=200))
def test_a_signed_message_is_read_as_it_was_sent(content: bytes) -> None:
    assert bytes(verified(signed(content))) == content


@given(st.binary(max_size=200), st.data())
def test_a_message_with_any_byte_changed_is_refused(
    content: bytes, data: st.DataObject
) -> None:
    message = bytearray(signed(content))
    place = data.draw(st.integers(0, len(message) - 1))
    message[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(
        RunError, match="without this machine's key, and it was not read"
    ):
        verified(message)


@given(st.binary(max_size=100))
def test_a_message_of_anyone_is_refused(message: bytes) -> None:
    with pytest.raises(RunError, match="was not read"):
        verified(message)


def test_a_message_of_another_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    message = signed(b"theirs")
    monkeypatch.setenv(KEY_VARIABLE, new_key())
    with pytest.raises(RunError, match="give them one key"):
        verified(message)


def test_a_short_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "guess")
    with pytest.raises(RunError, match="has 5 characters, expected at least 32"):
        signed(b"")


def test_the_key_of_a_user_is_a_private_file_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_VARIABLE)
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "cache"))
    message = signed(b"mine")
    (file,) = (tmp_path / "cache").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv(KEY_VARIABLE, file.read_text().strip())
    assert bytes(verified(message)) == b"mine"


def test_a_key_that_others_can_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_VARIABLE)
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path))
    file = tmp_path / f"process-{os.getuid()}.key"
    file.write_text(new_key())
    file.chmod(0o644)
    with pytest.raises(RunError, match=r"others can read the key .*; run `chmod 600"):
        signed(b"")


def test_machines_meet_by_a_counter_whatever_else_is_in_the_store(
    tmp_path: Path,
) -> None:
    """The store is a stranger's, with what torch's own rendezvous would unpickle."""
    ran = tmp_path / "ran"

    class Program:
        def __reduce__(self) -> tuple[object, ...]:
            return os.mkdir, (str(ran),)

    theirs = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    program = pickle.dumps(Program())
    for key in ("torch.rendezvous.sentbed", "sentbed/complete"):
        theirs.set(key, program)
    meeting = MeetingPoint("127.0.0.1", theirs.port, 2, "sentbed").next_rendezvous()
    assert (meeting.rank, meeting.world_size) == (1, 2)
    assert not ran.exists()


def test_an_address_is_of_this_machine_if_it_can_be_bound() -> None:
    assert is_this_machine("127.0.0.1")
    assert is_this_machine("localhost")
    assert not is_this_machine("192.0.2.1")


@pytest.mark.slow
def test_a_first_process_that_is_a_strangers_runs_nothing(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    store = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    variables = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "WORLD_SIZE": "2",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", HOSTILE_FIRST_PROCESS, str(ran)],
            env={**variables, "RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=100)[1] for process in processes]
    assert "without this machine's key, and it was not read" in said[1]
    assert not ran.exists()
