"""Run a room in a process of its own, and hold its numbers against the frozen ones."""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import platform
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
from records import EQUAL, Compared, Number, SkippedError, deviation

ROOMS = (
    "training",
    "evaluation",
    "papers",
    "encoding",
    "studies",
    "exchange",
    "resume",
)
"""Modules beside this one that have `numbers(directory)`; the longest first."""


@attrs.frozen
class RoomResult:
    """What came out of a room."""

    room: str
    numbers: dict[str, Number | Compared]
    seconds: float
    """Processor time, that of started processes included."""
    skipped: str = ""


def run_room(room: str) -> RoomResult:
    """Compute the numbers of a room; what it prints goes to a file that is dropped."""
    numbers = {}
    skipped = ""
    module = importlib.import_module(room)
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        printed = stack.enter_context((directory / "printed").open("w"))
        stack.enter_context(contextlib.redirect_stdout(printed))
        stack.enter_context(contextlib.redirect_stderr(printed))
        try:
            for number in module.numbers(directory):
                key = f"{room}/{number.key}"
                if key in numbers:
                    raise ValueError(f"the key {key!r} comes twice")
                numbers[key] = number
        except SkippedError as error:
            skipped = str(error)
    return RoomResult(room, numbers, sum(os.times()[:4]), skipped)


def entry(number: Number | Compared) -> dict:
    """Return what `frozen.json` has of a number."""
    if isinstance(number, Compared):
        return {"source": number.source}
    value = number.value
    if number.tolerance != EQUAL:
        value = rounded(value)
    return {"value": value, "tolerance": number.tolerance}


def rounded(value):
    """Return a value with nine digits, which float32 has, so that lines stay short."""
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return float(f"{value:.9g}")


def deviations(
    result: RoomResult, frozen: Mapping[str, dict]
) -> Iterator[tuple[str, float, str]]:
    """Yield, for each key of a room, how far it is off as a share of its tolerance, and a text that shows it."""
    for key, number in result.numbers.items():
        if key not in frozen:
            yield key, math.inf, f"new: {number.value}"
            continue

        if isinstance(number, Compared):
            expected, tolerance = number.reference, number.tolerance
            source = number.source
        else:
            expected, tolerance = frozen[key]["value"], frozen[key]["tolerance"]
            source = "frozen"
        share = deviation(expected, number.value, tolerance)
        text = (
            f"tolerance {tolerance}\n    {source}: {expected}\n    now: {number.value}"
        )
        yield key, share, text

    for key in frozen:
        if key.startswith(f"{result.room}/") and key not in result.numbers:
            yield key, math.inf, "missing"


def machine() -> dict[str, str]:
    """Return what wrote a room's numbers."""
    import torch
    import transformers

    processor = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                processor = line.partition(":")[2].strip()
    return {
        "processor": processor,
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def read_frozen(path: Path) -> dict[str, dict]:
    """Return the entries of `frozen.json` by key; that of a room's name says what wrote the room."""
    if not path.exists():
        return {}
    return json.loads(path.read_text("utf-8"))


def write_frozen(path: Path, entries: Mapping[str, dict]) -> None:
    """Write entries, a line each, so that a change reads plainly."""
    lines = []
    for key in sorted(entries):
        lines.append(f"{json.dumps(key)}: {json.dumps(entries[key])}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
