"""Program that rewrites one file of pickled weights as safetensors; it runs in a separate process.

`pickled_weights.py` starts it by its path: it imports torch and safetensors, but nothing from sentbed. It reads
only tensors (`torch.load(weights_only=True)`). Its memory, its time and the size of its result are limited, and
it may neither use the network nor start other programs.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000
"""Flags of Linux's `unshare`: a separate network, and the user namespace that ordinary users need for it."""

FORBIDDEN_EVENTS = (
    "socket.",
    "subprocess.",
    "os.system",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.spawn",
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
    "os.chown",
    "os.utime",
    "shutil.",
    "tempfile.",
    "ctypes.",
    "urllib.",
    "ftplib.",
    "smtplib.",
    "pty.",
    "webbrowser.",
    "pickle.find_class",
)
"""Audit events of Python that are refused, by the beginnings of their names. Reading tensors raises none of
them."""

LONGEST_NAME = 512
"""Largest number of characters in the name of a weight."""

MOST_WEIGHTS = 1_000_000
"""Largest number of weights in a file."""

DTYPES = frozenset(
    f"torch.{name}"
    for name in (
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "int64",
        "int32",
        "int16",
        "int8",
        "uint8",
        "bool",
    )
)
"""Types of numbers that are converted. Files with other types, such as those of quantised models, are refused."""

BOILERPLATE = (
    "Weights only load failed",
    "Please file an issue",
    "Check the documentation",
)
"""Beginnings of the lines in torch's message that do not concern the file."""


class RefusedError(Exception):
    """Raised if a file is more than a table of tensors, or is damaged."""


def leave_the_network() -> bool:
    """Move this process into a network without devices; return whether the system allows it.

    This works only on Linux, and only while the process has a single thread. It is therefore called before
    libraries start threads.
    """
    if sys.platform != "linux":
        return False

    flags = CLONE_NEWNET
    if os.geteuid() != 0:
        flags |= CLONE_NEWUSER
    # A container may forbid this; then only the audit hook refuses network access.
    return bool(ctypes.CDLL(None, use_errno=True).unshare(flags) == 0)


def limit_resources(
    memory: int,
    seconds: int,
    written: int,
) -> None:
    """Limit this process's memory for data (bytes), processor time (seconds) and files that it writes (bytes)."""
    if sys.platform == "win32":
        return

    import resource

    limits = {
        resource.RLIMIT_DATA: memory,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_FSIZE: written,
        resource.RLIMIT_CORE: 0,
    }
    for kind, limit in limits.items():
        _, hard = resource.getrlimit(kind)
        # The limit that the user has set may be lower.
        lowest = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (lowest, lowest))


def forbid_side_effects(directory: Path) -> None:
    """Make Python refuse network access, other programs, and changes of files outside `directory`."""
    inside = os.path.realpath(directory) + os.sep
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith(FORBIDDEN_EVENTS):
            raise RefusedError(f"reading it asks for `{event}`")
        if event != "open":
            return

        path, _, flags = arguments
        if (
            isinstance(flags, int)
            and flags & writing
            and not os.path.realpath(path).startswith(inside)
        ):
            raise RefusedError(f"reading it writes to `{path}`")

    sys.addaudithook(refuse)


def member_sizes(file: Path) -> Counter[int] | None:
    """Return the number of members of each size (in bytes) in a zip archive; None if the file is no zip archive.

    torch writes its archives uncompressed. A compressed member would grow in memory, or be read wrongly.

    Raises:
        RefusedError: if a member is compressed, or claims to be larger than the file.
    """
    if not zipfile.is_zipfile(file):
        return None

    size = file.stat().st_size
    sizes: Counter[int] = Counter()
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise RefusedError(
                    f"its member {member.filename!r} is compressed, which torch never writes"
                )
            if member.file_size > size:
                raise RefusedError(
                    f"its member {member.filename!r} claims to be larger than the file"
                )

            sizes[member.file_size] += 1

    return sizes


def read_tensors(file: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a pickled file by name.

    Raises:
        RefusedError: if the file holds anything but dense tensors, or is damaged.
    """
    import torch

    sizes = member_sizes(file)
    try:
        content = torch.load(
            file,
            map_location="cpu",
            weights_only=True,
            mmap=sizes is not None,
        )
    except RefusedError:
        raise
    except Exception as error:
        raise RefusedError(reason_of(error)) from error

    if not isinstance(content, Mapping):
        raise RefusedError(
            f"it holds a `{type(content).__name__}`, expected a table of tensors by name"
        )
    if not 0 < len(content) <= MOST_WEIGHTS:
        raise RefusedError(
            f"it holds {len(content):,} entries, expected 1 to {MOST_WEIGHTS:,} tensors"
        )

    for name, tensor in content.items():
        require_plain_tensor(name, tensor)
    require_memory_of_file(content, sizes, file.stat().st_size)
    return dict(content)


def require_memory_of_file(
    tensors: Mapping[str, torch.Tensor],
    member_sizes: Counter[int] | None,
    size: int,
) -> None:
    """Raise `RefusedError` if the tensors need more bytes than the file of `size` bytes holds.

    The file may claim more bytes for a tensor than it has. In a zip archive, torch then reads the bytes that
    follow the tensor's member, up to the end of the file. In a file of torch before 1.6, which is no zip
    archive (`member_sizes` is None), the missing bytes would be uninitialised memory.
    """
    # Tied weights share a storage, which is counted once.
    storages = {}
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = (name, storage.nbytes())

    total = sum(nbytes for _, nbytes in storages.values())
    if total > size:
        raise RefusedError(
            f"its entries claim {total:,} bytes, and the file has {size:,}"
        )
    if member_sizes is None:
        return

    # Each tensor's memory must be a member of the same size, and each member is used once.
    unused = Counter(member_sizes)
    for name, nbytes in storages.values():
        if nbytes and not unused[nbytes]:
            raise RefusedError(
                f"its entry {name!r:.80} claims more numbers than the file has"
            )

        unused[nbytes] -= 1


def reason_of(error: Exception) -> str:
    """Return why torch cannot read a file, in one line."""
    message = str(error)
    global_name = re.search(
        r"unsupported (?:global|class)[: ]+(?:GLOBAL )?([\w.]+)", message, re.IGNORECASE
    )
    if global_name is not None:
        return f"it asks for `{global_name[1]}`, and only tensors are read"
    if re.search(r"Unsupported operand \d+", message):
        return "it is no pickle of tensors, or is damaged"
    if message.startswith("PytorchStreamReader failed"):
        return "it is damaged, or its end is missing"

    lines = []
    for line in message.splitlines():
        if line and not line.startswith(BOILERPLATE):
            lines.append(line)

    detail = " ".join(lines)[:200]
    return f"torch cannot read it ({type(error).__name__}: {detail})"


def require_plain_tensor(name: Any, tensor: Any) -> None:
    """Raise `RefusedError` unless `name` can be a weight's name and `tensor` is a dense tensor of numbers."""
    import torch

    if not isinstance(name, str) or len(name) > LONGEST_NAME or not name.isprintable():
        raise RefusedError(
            f"it has an entry named {name!r:.80}, expected the name of a weight"
        )
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise RefusedError(
            f"its entry {name!r:.80} is a `{type(tensor).__name__}`, expected a tensor"
        )
    if (
        tensor.layout != torch.strided
        or tensor.is_quantized
        or str(tensor.dtype) not in DTYPES
    ):
        raise RefusedError(
            f"its entry {name!r:.80} is of the type {tensor.dtype} ({tensor.layout}), expected dense numbers"
        )
    if tensor.device.type != "cpu":
        raise RefusedError(f"its entry {name!r:.80} is on the device `{tensor.device}`")
    # With a stride of 0, a single stored number makes a tensor of any size.
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise RefusedError(
            f"its entry {name!r:.80} claims more numbers than the file has"
        )


def write_safetensors(
    tensors: Mapping[str, torch.Tensor],
    file: Path,
    largest: int,
) -> int:
    """Write the tensors, each with memory of its own, and return their size in bytes.

    Raises:
        RefusedError: if they need more than `largest` bytes.
    """
    import safetensors.torch

    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    if size > largest:
        raise RefusedError(
            f"its entries need {size:,} bytes, expected at most {largest:,} by the file's size"
        )

    separate: dict[str, torch.Tensor] = {}
    addresses: set[int] = set()
    for name, tensor in tensors.items():
        plain = tensor.detach().contiguous()
        # Tied weights share memory, which the format does not allow.
        address = plain.untyped_storage().data_ptr()
        if address in addresses:
            plain = plain.clone()
        addresses.add(address)
        separate[name] = plain

    safetensors.torch.save_file(separate, file, metadata={"format": "pt"})
    return size


def main() -> None:
    """Convert the file SOURCE to TARGET; the arguments are SOURCE TARGET MEMORY SECONDS LARGEST.

    The limits are MEMORY bytes of memory, SECONDS of processor time and LARGEST bytes of converted weights.

    Prints a JSON object: with `weights` (the names of the weights) and `bytes` (their size) or, if the file is
    not converted, with `refused` (the reason).
    """
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    memory, seconds, largest = (int(argument) for argument in sys.argv[3:6])
    leave_the_network()
    # The written file is larger than its weights, since its header has their names.
    limit_resources(memory, seconds, 2 * largest + (1 << 24))
    # Imported now, since `forbid_side_effects` also forbids Python to write compiled modules.
    import safetensors.torch  # noqa: F401
    import torch

    torch.set_num_threads(1)
    forbid_side_effects(target.parent)
    try:
        tensors = read_tensors(source)
        size = write_safetensors(tensors, target, largest)
        answer: dict[str, Any] = {"weights": sorted(tensors), "bytes": size}
    except RefusedError as error:
        answer = {"refused": str(error)}

    print(json.dumps(answer))


if __name__ == "__main__":
    main()
