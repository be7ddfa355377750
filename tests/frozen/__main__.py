"""Compute numbers at the public doors, and hold them against those that are frozen.

`python tests/frozen [--write] [ROOM...]`, or `make frozen`.

A redesign changes no number. Each room is a module beside this file; what it yields is in `frozen.json`, with a
tolerance, or an outside source computes it now. The exit code is 1 if a number is off, missing or new.
`--write` writes those of the rooms that are named, or of all, after a change that is meant to change them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from rooms import (
    ROOMS,
    RoomResult,
    deviations,
    entry,
    machine,
    read_frozen,
    run_room,
    write_frozen,
)

FROZEN = Path(__file__).with_name("frozen.json")

DATA = Path(__file__).parents[3] / "shared" / "data"
"""Directory of real data where `SENTBED_DATA` names none."""


def main() -> int:
    """Run the rooms, two at a time, and print what is off."""
    parser = argparse.ArgumentParser(prog="frozen")
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=", ".join(ROOMS))
    parser.add_argument("--write", action="store_true", help="write the numbers")
    options = parser.parse_args()
    rooms = options.rooms or ROOMS
    for room in rooms:
        if room not in ROOMS:
            parser.error(f"there is no room {room!r}; there are {', '.join(ROOMS)}")

    # One thread adds in one order; nothing is read from caches of earlier runs.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    if DATA.is_dir():
        os.environ.setdefault("SENTBED_DATA", str(DATA))
    frozen = read_frozen(FROZEN)
    failed = False
    with tempfile.TemporaryDirectory(prefix="sentbed-frozen-") as cache:
        os.environ["SENTBED_CACHE"] = cache
        with ProcessPoolExecutor(
            2, mp_context=get_context("spawn"), max_tasks_per_child=1
        ) as pool:
            for result in pool.map(run_room, rooms):
                if result.skipped:
                    print(f"{result.room}: skipped: {result.skipped}", flush=True)
                    continue
                if options.write:
                    write_room(result, frozen)
                if not show_room(result, frozen):
                    failed = True
    if options.write:
        write_frozen(FROZEN, frozen)
    return int(failed)


def write_room(result: RoomResult, frozen: dict[str, dict]) -> None:
    """Put a room's entries in the place of its old ones."""
    for key in list(frozen):
        if key.startswith(f"{result.room}/"):
            del frozen[key]
    for key, number in result.numbers.items():
        frozen[key] = entry(number)
    frozen[result.room] = machine()


def show_room(result: RoomResult, frozen: dict[str, dict]) -> bool:
    """Print a room's line and each number that is off; return whether there is none."""
    rows = list(deviations(result, frozen))
    worst = max(share for key, share, text in rows)
    print(
        f"{result.room:12} {len(rows):5} numbers {result.seconds:6.0f} s of a processor",
        f"  worst deviation {worst:.2g} of its tolerance",
        flush=True,
    )
    right = True
    for key, share, text in rows:
        # What is not a number is off as well.
        if not share <= 1:
            right = False
            print(f"  {key}: {share:.3g} of its tolerance, {text}", flush=True)
    return right


if __name__ == "__main__":
    sys.exit(main())
