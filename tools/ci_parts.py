"""Run the long tests in parts, and keep a record of when each part was green last.

python tools/ci_parts.py                   the parts that are due, as `.ci/run` does
python tools/ci_parts.py jax papers        these parts
python tools/ci_parts.py --all             all parts

A run of CI takes the parts whose last green run is oldest, for about `--minutes`. A part that was not green in
the last five runs is an error. The record, `.ci/green.json`, is committed with the change that was tested.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from datetime import date, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RUNS = 5
"""In so many runs of CI every part is green at least once."""

DAYS = 2
"""So many days may a commit be younger than the record."""

PART_MINUTES = 20.0
"""What a part counts as that has never been run."""


class Record:
    """When each part was green last: the text of `green.json`."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.runs = 1
        self.parts: dict[str, dict[str, Any]] = {}
        if file.exists():
            content = json.loads(file.read_text("utf-8"))
            self.runs = content["runs"]
            self.parts = content["parts"]

    def last_run(self, part: str) -> int:
        """Return the number of the run in which a part was green last, or in which it was new."""
        return int(self.parts[part]["run"])

    def begin(self, names: list[str]) -> None:
        """Enter parts that are new, which have the next runs to become green, and drop those that are gone."""
        entries = {}
        for name in names:
            entries[name] = self.parts.get(name, {"run": self.runs})
        self.parts = entries

    def minutes(self, part: str) -> float:
        """Return how long a part took."""
        return float(self.parts[part].get("minutes", PART_MINUTES))

    def add(self, part: str, minutes: float, result: str) -> None:
        """Enter a part that was green in this run."""
        commit = _output("git", "rev-parse", "--short", "HEAD")
        self.parts[part] = {
            "run": self.runs,
            "date": date.today().isoformat(),
            "commit": commit,
            "minutes": round(minutes, 1),
            "result": result,
        }
        self.write()

    def write(self) -> None:
        """Write the record, a part a line, so that a change of it can be read."""
        lines = [
            f"    {json.dumps(part)}: {json.dumps(entry)}"
            for part, entry in sorted(self.parts.items())
        ]
        parts = ",\n".join(lines)
        text = f'{{\n  "runs": {self.runs},\n  "parts": {{\n{parts}\n  }}\n}}\n'
        self.file.write_text(text, "utf-8")


def due_parts(names: list[str], record: Record, minutes: float) -> list[str]:
    """Return the parts of a run: those that would grow too old, then the oldest that fit in `minutes`."""
    oldest_first = sorted(names, key=record.last_run)
    due: list[str] = []
    left = minutes
    for name in oldest_first:
        too_old = record.runs - record.last_run(name) >= RUNS
        fits = record.minutes(name) <= left
        if too_old or fits:
            due.append(name)
            left -= record.minutes(name)
    return due


def stale_parts(names: list[str], record: Record) -> list[str]:
    """Return a sentence for each part that was not green in the last runs."""
    sentences = []
    for name in names:
        last = record.last_run(name)
        if record.runs - last >= RUNS:
            when = record.parts[name].get("date", "when it was new")
            sentences.append(
                f"`{name}` has not been green since run {last}, {when}; this is run {record.runs}"
            )
    return sentences


def outdated_record(record: Record, day: date) -> str | None:
    """Return a sentence if the record is older than the commit of `day` that is tested."""
    dates = [entry["date"] for entry in record.parts.values() if "date" in entry]
    if not dates:
        return "no part has ever been green"
    newest = date.fromisoformat(max(dates))
    if day - newest <= timedelta(days=DAYS):
        return None
    return (
        f"the record ends on {newest}, and the commit is of {day}: "
        "run `.ci/run`, and commit .ci/green.json with the change"
    )


def run_part(command: str) -> tuple[int, str]:
    """Run a part and show what it prints; return its exit code and pytest's last line."""
    result = ""
    with subprocess.Popen(
        command,
        shell=True,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if re.search(r"\d+ passed", line):
                result = line.strip("= \n")
    return process.returncode, result


def _output(*command: str) -> str:
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def main(arguments: list[str] | None = None) -> int:
    """Run the parts that are asked for, or due; return 1 if one failed or one is too old."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="parts to run (default: those due)")
    parser.add_argument("--all", action="store_true", help="run all parts")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--directory", type=Path, default=ROOT / ".ci")
    options = parser.parse_args(arguments)

    commands = tomllib.loads((options.directory / "parts.toml").read_text("utf-8"))
    names = list(commands)
    unknown = sorted(set(options.parts) - set(names))
    if unknown:
        parser.error(f"unknown parts {unknown}; there are {sorted(names)}")
    record = Record(options.directory / "green.json")
    record.begin(names)
    outdated = None
    if "CI" in os.environ:
        day = date.fromisoformat(_output("git", "log", "-1", "--format=%cs"))
        outdated = outdated_record(record, day)

    chosen = options.parts
    if options.all:
        chosen = names
    if not chosen:
        record.runs += 1
        chosen = due_parts(names, record, options.minutes)
    print("parts of this run:", ", ".join(chosen), flush=True)

    failed = []
    for name in chosen:
        print(f"--- {name}", flush=True)
        start = time.monotonic()
        code, result = run_part(commands[name])
        if code:
            failed.append(f"`{name}` failed with exit code {code}")
        else:
            record.add(name, (time.monotonic() - start) / 60, result)

    faults = failed + stale_parts(names, record)
    if outdated is not None:
        faults.append(outdated)
    for name in sorted(names, key=record.last_run):
        print(f"{name:18}", record.parts[name])
    for fault in faults:
        print("error:", fault)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
