"""Signatures of messages between the processes of a run, so that none is a program of someone else's.

Messages are pickles: they hold modules and components of any plugin. A pickle is a program, and who can reach
the port at which processes meet could send one. So every message carries a keyed hash, and is refused unread
without the key, which only processes of one user have.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from functools import lru_cache
from pathlib import Path

from sentbed import RunError
from sentbed_common import cache_root

KEY_VARIABLE = "SENTBED_PROCESS_KEY"
"""Environment variable with the key: at least `SHORTEST_KEY` characters, alike on all machines of a run."""

SHORTEST_KEY = 32
SIGNATURE_BYTES = 32


def signed(content: bytes) -> bytes:
    """Return a message with its signature before it. Raises `RunError` if there is no key."""
    return _signature(content) + content


def verified(message: bytes | bytearray | memoryview) -> memoryview:
    """Return the content of a message from `signed`.

    Raises:
        RunError: if its signature is not that of this machine's key.
    """
    view = memoryview(message)
    content = view[SIGNATURE_BYTES:]
    if not hmac.compare_digest(view[:SIGNATURE_BYTES], _signature(content)):
        raise RunError(
            "a process of this run has sent a message without this machine's key, and it was not read; if "
            f"all machines are yours, give them one key: set `{KEY_VARIABLE}` alike on all, or copy "
            f"`{_key_file()}` of one to the others"
        )
    return content


def require_key() -> None:
    """Raise `RunError` if there is no key to sign messages with."""
    _key()


def _signature(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=SIGNATURE_BYTES, key=_key()).digest()


def new_key() -> str:
    """Return a key for the processes of one machine, for `KEY_VARIABLE`."""
    return secrets.token_hex(SHORTEST_KEY)


def _key() -> bytes:
    text = os.environ.get(KEY_VARIABLE) or _key_of_user(_key_file())
    if len(text) < SHORTEST_KEY:
        raise RunError(
            f"the key in `{KEY_VARIABLE}` or `{_key_file()}` has {len(text)} characters, expected at least "
            f"{SHORTEST_KEY}; make one with `openssl rand -hex {SHORTEST_KEY}`"
        )
    return _hashed(text)


@lru_cache(maxsize=4)
def _hashed(text: str) -> bytes:
    return hashlib.blake2b(text.encode()).digest()


def _key_file() -> Path:
    return cache_root() / f"process-{os.getuid()}.key"


@lru_cache(maxsize=4)
def _key_of_user(path: Path) -> str:
    """Return the key in the user's file, which is made if there is none.

    Raises:
        RunError: if the file cannot be made or read, or others can read it.
    """
    try:
        if not path.exists():
            _make_key_file(path)
        # Neither a pipe that never ends nor a link is a key.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, encoding="ascii") as file:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode) or mode & 0o077:
                raise RunError(
                    f"others can read the key `{path}`; run `chmod 600 {path}`, or remove it"
                )
            return file.read(1 << 10).strip()
    except (OSError, UnicodeError) as error:
        raise RunError(
            f"the key of this user's processes, `{path}`, cannot be read or made: {error}; "
            f"set `{KEY_VARIABLE}`"
        ) from error


def _make_key_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{new_key()}\n")
    try:
        # Another process may have been first; unlike a rename, a link does not replace its key.
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
