"""The program that rewrites one pickled file of weights as safetensors, in a separate process.

`pickled_weights` starts it as a file, not as a module: it needs torch and safetensors, and nothing of sentbed.
Only tensors are read (`torch.load(weights_only=True)`), with limits on memory, time and the size of the result,
without network, and without starting other programs.
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

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
"""Flags of Linux's `unshare`: a user namespace, which ordinary users need first, and a network of its own."""

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
"""Beginnings of the names of Python's audit events that reading tensors never raises."""

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
"""Types of numbers that are written; quantised models have others."""

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

    Only Linux can, and only for a process of one thread: it is called before libraries start theirs.
    """
    if sys.platform != "linux":
        return False
    flags = CLONE_NEWNET
    if os.geteuid() != 0:
        flags |= CLONE_NEWUSER
    # A container may forbid it: then only the audit hook refuses the network.
    return bool(ctypes.CDLL(None, use_errno=True).unshare(flags) == 0)


def limit_resources(memory: int, seconds: int, written: int) -> None:
    """Limit the process's memory for data (bytes), its processor time and the largest file that it writes."""
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
        # The user's own limit may be lower.
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
    """Return the sizes in bytes of the members of torch's zip archive, with counts; None for other files.

    torch writes its archives uncompressed: a compressed one would grow in memory, or be read wrongly.

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
        RefusedError: if the file holds anything else.
    """
    import torch

    sizes = member_sizes(file)
    try:
        content = torch.load(
            file, map_location="cpu", weights_only=True, mmap=sizes is not None
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
    tensors: Mapping[str, torch.Tensor], member_sizes: Counter[int] | None, size: int
) -> None:
    """Raise `RefusedError` if the tensors need more memory than the file of `size` bytes has.

    In an archive, torch cuts off a claim beyond the end of the file, and reads the bytes that follow the
    member. In files from before version 1.6, memory that is claimed but missing is not initialised.
    """
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
    left = Counter(member_sizes)
    for name, nbytes in storages.values():
        if nbytes and not left[nbytes]:
            raise RefusedError(
                f"its entry {name!r:.80} claims more numbers than the file has"
            )
        left[nbytes] -= 1


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
    lines = []
    for line in message.splitlines():
        if line and not line.startswith(BOILERPLATE):
            lines.append(line)
    detail = " ".join(lines)[:200]
    return f"torch cannot read it ({type(error).__name__}: {detail})"


def require_plain_tensor(name: Any, tensor: Any) -> None:
    """Raise `RefusedError` unless this is a dense tensor of numbers whose memory the file has."""
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
    # A stride of 0 makes a tensor of any size from one number.
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise RefusedError(
            f"its entry {name!r:.80} claims more numbers than the file has"
        )


def write_safetensors(
    tensors: Mapping[str, torch.Tensor], file: Path, largest: int
) -> int:
    """Write the tensors, each with separate memory, and return their bytes.

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
    """Convert SOURCE to TARGET within MEMORY bytes, SECONDS of processor time and LARGEST bytes of weights.

    Prints a JSON object: `weights`, the names, and `bytes`; or `refused`, the reason.
    """
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    memory, seconds, largest = (int(argument) for argument in sys.argv[3:6])
    leave_the_network()
    # The header beside the weights has their names, twice at most.
    limit_resources(memory, seconds, 2 * largest + (1 << 24))
    # What is imported later could not be compiled and written.
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
