"""Eight cells of a study over one frozen backbone against one cell alone: what sharing a pass is worth.

    SENTBED_DATA=... python benchmarks/sharing.py [--rounds 2] [--precision auto fp32] [--tasks STSB ...]
        [--all] [--json FILE]

Four poolers by two heads over MiniLM, on the tasks of `recipes/papers/minilm-sts.toml`. Every round runs, in
this process and in this order: the first cell alone, then all eight, each time into an empty store and with
everything that a run does, from building encoders to the report. The ratio of each round is taken within the
round, because a shared machine drifts. Scores are compared with those of runs alone: the first cell's, or,
with `--all`, those of all eight.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from common import parser_of, write_figures
from sentbed.protocols import Recipe
from sentbed.tools import load_plugins, load_recipe, run_in
from sentbed_common import CACHE_VARIABLE
from sentbed_studies.shared_forward_passes import share_passes
from sentbed_studies.shared_work_plan import groups

RECIPE = Path(__file__).parent.parent / "recipes" / "papers" / "minilm-sts.toml"
POOLERS = ("mean", "first", "last", "cls-mlp")
HEADS = ("{ normalize = true }", "{ projection = 256, normalize = true }")
MOST = 1.35
"""What eight cells may take, in times of one."""


def cells(precision: str, tasks: Sequence[str] | None) -> list[Recipe]:
    """Return the recipes of the eight cells."""
    plugins = load_plugins()
    common = [
        f"runtime.precision={precision}",
        "evaluate.0.skip_missing=true",
    ]
    if tasks:
        common.append(f"evaluate.0.tasks={json.dumps(tasks)}")
    return [
        load_recipe(
            RECIPE,
            [*common, f"encoder.pooler.use={pooler}", f"encoder.head={head}"],
            plugins,
        )
        for pooler in POOLERS
        for head in HEADS
    ]


def run(recipes: Sequence[Recipe]) -> tuple[list[float], list[Any]]:
    """Run cells one after the other into an empty store; return the seconds and the scores of each."""
    plugins = load_plugins()
    seconds, scores = [], []
    with tempfile.TemporaryDirectory() as place:
        os.environ[CACHE_VARIABLE] = str(Path(place) / "cache")
        for number, recipe in enumerate(recipes):
            directory = Path(place) / str(number)
            directory.mkdir()
            share = partial(share_passes, recipe, recipes[number + 1 :])
            start = time.perf_counter()
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                result = run_in(recipe, directory, plugins, share)
            scores.append(result.scores)
            seconds.append(time.perf_counter() - start)
    return seconds, scores


def main() -> None:
    """Run the benchmark and print its table."""
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--precision",
        nargs="+",
        default=["auto", "fp32"],
        choices=["auto", "fp32", "bf16"],
    )
    parser.add_argument(
        "--tasks", nargs="+", default=None, help="the recipe's, if left out"
    )
    parser.add_argument(
        "--all", action="store_true", help="compare the scores of all eight cells"
    )
    options = parser.parse_args()
    figures: dict[str, Any] = {"threads": torch.get_num_threads()}
    # What is imported and set up once a process is paid for here.
    run(cells(options.precision[0], ["STSB-dev"])[:1])
    print(f"{'':<8}{'one, s':>9}{'all, s':>9}{'each more':>11}{'ratio':>8}")
    for precision in options.precision:
        recipes = cells(precision, options.tasks)
        if groups(recipes) != [list(range(len(recipes)))]:
            raise SystemExit(
                "the cells cannot share a pass; look at `sentbed_studies.shared_forward_passes`"
            )
        rounds: list[dict[str, Any]] = []
        alone: dict[int, Any] = {}
        for _ in range(options.rounds):
            (first,), (alone[0],) = run(recipes[:1])
            every, together = run(recipes)
            rounds.append(
                {
                    "one": first,
                    "all": every,
                    "ratio": sum(every) / first,
                }
            )
            more = statistics.mean(every[1:])
            print(
                f"{precision:<8}{first:>9.2f}{sum(every):>9.2f}{more:>11.2f}{sum(every) / first:>8.2f}"
            )
        for number in range(1, len(recipes) if options.all else 1):
            _, (alone[number],) = run([recipes[number]])
        differ = [
            number for number, scores in alone.items() if scores != together[number]
        ]
        ratio = statistics.median(
            figures_of_round["ratio"] for figures_of_round in rounds
        )
        print(
            f"{precision}: {ratio:.2f} x one cell for all eight, at most {MOST} is wanted"
        )
        print(
            f"{precision}: scores of {len(alone) - len(differ)} of {len(alone)} cells equal those alone"
        )
        figures[precision] = {"rounds": rounds, "ratio": ratio, "differ": differ}
    write_figures(figures, options.json)
    if any(figures[precision]["differ"] for precision in options.precision):
        raise SystemExit("a score depends on what was encoded beside it")


if __name__ == "__main__":
    main()
