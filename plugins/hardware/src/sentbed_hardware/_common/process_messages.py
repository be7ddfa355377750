"""Messages from the first process to the others: calls, with their arguments."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import torch
import torch.distributed as dist

from sentbed_hardware._common.message_signatures import signed, verified


@attrs.frozen(eq=False)
class Own:
    """An argument that stays in the calling process; the others get None."""

    value: Any


class _Pickler(pickle.Pickler):
    """A pickler that omits tensors, which are sent separately, and sends mirrored objects by number."""

    def __init__(self, file: io.BytesIO, numbers: Mapping[int, int]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.numbers = numbers
        self.tensors: list[torch.Tensor] = []
        self.places: dict[int, int] = {}

    def persistent_id(self, value: Any) -> tuple[str, int] | None:
        if isinstance(value, Own):
            return "own", 0
        if type(value) in (torch.Tensor, torch.nn.Parameter):
            if id(value) not in self.places:
                self.places[id(value)] = len(self.tensors)
                self.tensors.append(value)
            return "tensor", self.places[id(value)]
        number = self.numbers.get(id(value))
        return None if number is None else ("object", number)


class _Unpickler(pickle.Unpickler):
    def __init__(
        self, file: io.BytesIO, objects: Mapping[int, Any], tensors: list[torch.Tensor]
    ) -> None:
        super().__init__(file)
        self.objects = objects
        self.tensors = tensors

    def persistent_load(self, found: tuple[str, int]) -> Any:
        match found:
            case "tensor", number:
                return self.tensors[number]
            case "object", number:
                return self.objects[number]
        return None


def is_kept(result: object) -> bool:
    """Whether the result of a call is an encoder or a trainer, to which later calls will refer."""
    return hasattr(result, "encode") or hasattr(result, "step")


def packed(
    message: Any, numbers: Mapping[int, int]
) -> tuple[bytes, list[torch.Tensor]]:
    """Return a message in the form that `send` takes.

    `numbers` maps the `id` of each mirrored object to its number.
    """
    body = io.BytesIO()
    pickler = _Pickler(body, numbers)
    pickler.dump(message)
    shapes = [
        (
            isinstance(t, torch.nn.Parameter),
            tuple(t.shape),
            t.dtype,
            t.requires_grad,
            t.is_meta,
        )
        for t in pickler.tensors
    ]
    content = pickle.dumps((shapes, body.getvalue()), pickle.HIGHEST_PROTOCOL)
    return signed(content), pickler.tensors


def send(content: bytes, tensors: Sequence[torch.Tensor]) -> None:
    """Send the result of `packed` from the first process to all others."""
    dist.broadcast(torch.tensor([len(content)]), 0)
    dist.broadcast(torch.frombuffer(bytearray(content), dtype=torch.uint8), 0)
    for tensor in tensors:
        if tensor.numel() and not tensor.is_meta:
            dist.broadcast(_bytes_of(tensor.detach().cpu().contiguous()), 0)


def receive(objects: Mapping[int, Any]) -> Any:
    """Return the next message of the first process; `objects` are this process's mirrored objects.

    Raises:
        RunError: if the message is not signed with this machine's key.
    """
    size = torch.empty(1, dtype=torch.int64)
    dist.broadcast(size, 0)
    content = torch.empty(int(size), dtype=torch.uint8)
    dist.broadcast(content, 0)
    shapes, body = pickle.loads(verified(content.numpy().data))
    tensors = []
    for is_parameter, shape, dtype, requires_grad, meta in shapes:
        tensor = torch.empty(shape, dtype=dtype, device="meta" if meta else "cpu")
        if tensor.numel() and not meta:
            dist.broadcast(_bytes_of(tensor), 0)
        kept = (
            torch.nn.Parameter(tensor, requires_grad)
            if is_parameter
            else tensor.requires_grad_(requires_grad)
        )
        tensors.append(kept)
    return _Unpickler(io.BytesIO(body), objects, tensors).load()


def gather_in_first(value: Any, rank: int, world: int) -> list[Any] | None:
    """Return the values of all processes, in the first one; None in the others.

    Raises:
        RunError: in the first one, if a value is not signed with this machine's key.
    """
    content = signed(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    sizes = [torch.empty(1, dtype=torch.int64) for _ in range(world)]
    dist.all_gather(sizes, torch.tensor([len(content)]))
    longest = max(int(size) for size in sizes)

    padded = torch.frombuffer(
        bytearray(content.ljust(longest, b"\0")), dtype=torch.uint8
    )
    if rank != 0:
        dist.gather(padded, None)
        return None
    contents = [torch.empty(longest, dtype=torch.uint8) for _ in range(world)]
    dist.gather(padded, contents)
    messages = [
        message[: int(size)] for message, size in zip(contents, sizes, strict=True)
    ]
    return [pickle.loads(verified(message.numpy().data)) for message in messages]


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)
