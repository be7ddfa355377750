"""Processor time of the commands that compute nothing, beside that of Python with the libraries of core.

Each is a process of its own, with its bytecode cached as pip leaves it; the least of several rounds counts.
The target is 0.3 s of processor time for `--help`, `plugins` and `check`.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
SENTBED = [sys.executable, "-m", "sentbed"]
COMMANDS = {
    "python with core's libraries": [sys.executable, "-c", "import attrs, cattrs, click, pluggy"],
    "--help": [*SENTBED, "--help"],
    "plugins": [*SENTBED, "plugins"],
    "check": [*SENTBED, "check", "recipes/quickstart.toml"],
    "schema": [*SENTBED, "schema"],
}


def seconds(command: list[str], environment: dict[str, str]) -> float:
    """Return the processor time of one call."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for _ in range(options.rounds + 1):
            for name, command in COMMANDS.items():
                taken[name].append(seconds(command, environment))
    base = min(next(iter(taken.values())))
    print(f"{'command':<30}{'seconds':>9}{'ratio':>8}")
    for name, times in taken.items():
        print(f"{name:<30}{min(times[1:]):>9.2f}{min(times[1:]) / base:>8.1f}")


if __name__ == "__main__":
    main()
