"""Simulated studies: how often tests and the chosen cell's interval are wrong.

    python benchmarks/study_statistics.py [SETTING ...] [--studies 2000] [--seed 0] [--json FILE]

Each setting is a way in which a promise of a study could break: averages over tasks that share items, items
in clusters, development data beside test data, the interval of the best of many cells. Printed is the share
of studies in per cent in which something was claimed or left out wrongly, where at most 5 are promised, and,
of settings with `power` in their name, that of studies which found what is true.
The standard error of a share p of N studies is the root of p (1 - p) / N.

The score of a cell under a seed is the mean over items of

    mean of the cell + item + item x cell + seed x cell + item x seed x cell,

with normal parts unless a setting says otherwise.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import attrs
import numpy as np
from scipy import stats
from sentbed.protocols import Items, Score
from sentbed_report.statistics.item_components import ComponentStore
from sentbed_report.statistics.significance import (
    Scored,
    judge_cell,
    mean_column,
)
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.selection import select
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData

Generator: TypeAlias = np.random.Generator
Study: TypeAlias = Callable[[Generator], bool]
"""Simulates one study, and returns whether the event that is counted occurred."""


# --- tests against a baseline ------------------------------------------------------------------------------


def score_of(
    values: np.ndarray,
    task: str = "T",
    clusters: np.ndarray | None = None,
    split: str = "test",
) -> Score:
    """Return a score that is the mean of `values`, one per item."""
    items = Items("mean", values, scale=1.0, clusters=clusters)
    protocol = {"encoder": {}, "evaluator": {"id": "p", "split": split}}
    return Score(task, "accuracy", float(values.mean()), protocol, "en", "e", items)


def p_value_of(baseline: Scored, cell: Scored) -> float:
    """Return the p-value of a cell against the baseline, without a correction."""
    judged = judge_cell(baseline, cell, ComponentStore())
    assert judged.p_value is not None
    return judged.p_value


def p_value_of_average(
    columns: Sequence[tuple[dict[int, Score], dict[int, Score]]],
) -> float:
    """Return the p-value of a cell against the baseline in the mean of tasks, each (baseline, cell)."""
    baseline = mean_column([of_baseline for of_baseline, _ in columns])
    cell = mean_column([of_cell for _, of_cell in columns])
    return p_value_of(baseline, cell)


def shared_items(
    rng: Generator,
    tasks: int,
    shared: float,
    effect: float = 0.0,
    items: int = 100,
    seeds: int = 3,
) -> bool:
    """Whether cell and baseline differ in the mean of tasks that share a part of their items."""
    common = round(shared * items)
    pool = common + tasks * (items - common)
    item_cell = rng.standard_normal((2, pool))
    seed_cell = 0.02 * rng.standard_normal((2, seeds))
    rest = 0.3 * rng.standard_normal((2, seeds, pool))
    values = item_cell[:, None, :] + seed_cell[:, :, None] + rest
    values[1] += effect
    columns = []
    for task in range(tasks):
        further_items = common + task * (items - common) + np.arange(items - common)
        places = np.concatenate([np.arange(common), further_items])
        baseline, cell = (
            {
                seed: score_of(values[side, seed, places], f"T{task}", places)
                for seed in range(seeds)
            }
            for side in (0, 1)
        )
        columns.append((baseline, cell))
    return p_value_of_average(columns) < 0.05


def clustered_items(
    rng: Generator,
    size: int,
    seeds: int,
    items: int = 300,
    effect: float = 0.0,
    share: float = 0.5,
) -> bool:
    """Whether a cell differs where `size` items have a passage in common, with `share` of the variance."""
    clusters = np.arange(items) // size
    passage = rng.standard_normal((2, clusters[-1] + 1))[:, clusters]
    item_cell = math.sqrt(share) * passage + math.sqrt(1 - share) * rng.standard_normal(
        (2, items)
    )
    seed_cell = 0.02 * rng.standard_normal((2, seeds, 1))
    values = (
        item_cell[:, None, :] + seed_cell + 0.3 * rng.standard_normal((2, seeds, items))
    )
    values[1] += effect
    baseline, cell = (
        {seed: score_of(values[side, seed], clusters=clusters) for seed in range(seeds)}
        for side in (0, 1)
    )
    return p_value_of(baseline, cell) < 0.05


def two_sources(
    rng: Generator,
    seeds: int,
    items: int,
    seed_std: float,
    rest_std: float,
    effect: float = 0.0,
    spearman: bool = False,
) -> bool:
    """Whether a cell differs from the baseline, over seeds and items; stds are those of seed x cell."""
    item_cell = rng.standard_normal((2, 1, items))
    rest = rest_std * rng.standard_normal((2, seeds, items))
    if not spearman:
        values = item_cell + rest + seed_std * rng.standard_normal((2, seeds, 1))
        values[1] += effect
        sides = [
            {seed: score_of(values[side, seed]) for seed in range(seeds)}
            for side in (0, 1)
        ]
    else:
        gold = rng.standard_normal(items)
        slope = 1 + seed_std * rng.standard_normal((2, seeds, 1))
        slope[1] += effect
        predicted = slope * gold + item_cell + rest
        sides = [
            {seed: spearman_score(gold, predicted[side, seed]) for seed in range(seeds)}
            for side in (0, 1)
        ]
    return p_value_of(sides[0], sides[1]) < 0.05


def spearman_score(gold: np.ndarray, predicted: np.ndarray) -> Score:
    """Return a rank correlation with its items."""
    value = 100 * float(stats.spearmanr(gold, predicted).statistic)
    protocol = {"encoder": {}, "evaluator": {"id": "p", "split": "test"}}
    return Score(
        "T", "spearman", value, protocol, "en", "e", Items("spearman", gold, predicted)
    )


def mark_by_development(rng: Generator, items: int = 50, seeds: int = 3) -> bool:
    """Whether a cell that is better by 3 points on development data alone is marked in the last column."""
    data = study_data(
        rng,
        np.array([[0.0, 0.0], [3.0, 0.0]]),
        seeds,
        items,
        item_std=1.0,
        seed_std=0.05,
    )
    tables = summarise(data)
    table = next(
        summary for summary in tables if any(c.task == "T" for c in summary.columns)
    )
    judged = table.rows[1].cells[-1].judged
    return judged is not None and judged.significant


# --- the chosen cell ---------------------------------------------------------------------------------------


def study_data(
    rng: Generator,
    means: np.ndarray,
    seeds: int,
    items: int,
    item_std: float,
    seed_std: float,
    correlation: float = 0.0,
    decide: Decide | None = None,
) -> StudyData:
    """Return a study with a task on development and one on test data; `means` are `(cells, 2)`."""
    cells = len(means)
    common = rng.standard_normal((cells, seeds, 1))
    noise = rng.standard_normal((cells, seeds, 2))
    per_run = seed_std * (
        math.sqrt(correlation) * common + math.sqrt(1 - correlation) * noise
    )
    infos = []
    item_cell = item_std * rng.standard_normal((cells, 2, items))
    for cell in range(cells):
        runs = []
        for seed in range(seeds):
            values = (
                means[cell, :, None] + per_run[cell, seed, :, None] + item_cell[cell]
            )
            scores = (score_of(values[0], "T-dev", split="dev"), score_of(values[1]))
            runs.append(CellRun(f"c{cell}", seed, "finished", scores=scores))
        infos.append(CellInfo(f"c{cell}", {}, tuple(runs)))
    baseline = None if decide is not None else "c0"
    return StudyData(
        "s",
        (),
        tuple(infos),
        baseline,
        tuple(range(seeds)),
        decide=decide,
    )


def chosen_interval(
    rng: Generator, cells: int, seeds: int = 5, confirm: int = 0
) -> bool:
    """Whether the interval of the best of equal cells misses its true mean on test data, 0."""
    decide = Decide(("T-dev",))
    data = study_data(rng, np.zeros((cells, 2)), seeds, 25, 1.0, 1.0, 0.9, decide)
    if confirm:
        fresh = study_data(
            rng, np.zeros((cells, 2)), confirm, 25, 1.0, 1.0, 0.9, decide
        )
        # The items are the same ones: only the seeds are fresh. Here their part is small and drawn anew.
        data = attrs.evolve(
            data,
            cells=tuple(
                attrs.evolve(cell, confirmation=other.runs)
                for cell, other in zip(data.cells, fresh.cells, strict=True)
            ),
        )
    selection = select(data, summarise(data))
    assert selection is not None
    (score,) = [chosen for chosen in selection.scores if chosen.task == "T"]
    assert score.low is not None
    assert score.high is not None
    return not score.low <= 0 <= score.high


# --- settings ----------------------------------------------------------------------------------------------


def chosen(cells: int, confirm: int = 0) -> Study:
    """Return the setting of the best of so many equal cells."""
    return lambda rng: chosen_interval(rng, cells, confirm=confirm)


SETTINGS: dict[str, Study] = {
    "A best of 10 cells": chosen(10),
    "A best of 30 cells": chosen(30),
    "A best of 30 cells, 3 fresh seeds": chosen(30, confirm=3),
    "B two tasks share half": lambda rng: shared_items(rng, 2, 0.5),
    "B two tasks share all": lambda rng: shared_items(rng, 2, 1.0),
    "B six tasks share all": lambda rng: shared_items(rng, 6, 1.0),
    "B six tasks share nothing": lambda rng: shared_items(rng, 6, 0.0),
    "B power: six tasks share nothing": lambda rng: shared_items(
        rng, 6, 0.0, effect=0.2
    ),
    "C development +3": mark_by_development,
    "F clusters of 3, S=3": lambda rng: clustered_items(rng, 3, 3),
    "F clusters of 10, S=3": lambda rng: clustered_items(rng, 10, 3),
    "I S=2, n=40, rest 3": lambda rng: two_sources(rng, 2, 40, 0.1, 3.0),
    "I S=3, n=40, rest 3": lambda rng: two_sources(rng, 3, 40, 0.1, 3.0),
    "I S=5, n=40, rest 3": lambda rng: two_sources(rng, 5, 40, 0.1, 3.0),
    "I S=3, n=300, seeds vary": lambda rng: two_sources(rng, 3, 300, 0.3, 1.0),
    "I S=3, n=300, items vary": lambda rng: two_sources(rng, 3, 300, 0.0, 1.0),
    "I S=5, n=300, rest 3": lambda rng: two_sources(rng, 5, 300, 0.05, 3.0),
    "I Spearman, S=3, n=40": lambda rng: two_sources(
        rng, 3, 40, 0.02, 0.5, spearman=True
    ),
    "I Spearman, S=3, n=300": lambda rng: two_sources(
        rng, 3, 300, 0.02, 0.5, spearman=True
    ),
    "I power: S=5, n=300, rest 3": lambda rng: two_sources(
        rng, 5, 300, 0.05, 3.0, effect=0.35
    ),
    "I power: Spearman, S=3, n=40": lambda rng: two_sources(
        rng, 3, 40, 0.02, 0.5, 0.8, spearman=True
    ),
}
"""Name of a setting -> its study. Those with `power` in the name count what was found."""


def options_of(description: str) -> argparse.Namespace:
    """Return the options of a simulation, of which `description` is the first line of the help."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="SETTING",
        help="Beginnings of names; by default all.",
    )
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main() -> None:
    """Simulate and print."""
    options = options_of(__doc__)
    rows = []
    print(f"{'setting':44} {'studies':>8} {'share %':>8} {'s.e.':>6} {'seconds':>8}")
    for name, study in SETTINGS.items():
        if options.settings and not name.startswith(tuple(options.settings)):
            continue
        rng = np.random.default_rng(options.seed)
        start = time.perf_counter()
        count = sum(study(rng) for _ in range(options.studies))
        share = count / options.studies
        error = math.sqrt(share * (1 - share) / options.studies)
        seconds = time.perf_counter() - start
        rows.append(
            {
                "setting": name,
                "studies": options.studies,
                "share": 100 * share,
                "error": 100 * error,
            }
        )
        print(
            f"{name:44} {options.studies:8} {100 * share:8.1f} {100 * error:6.1f} {seconds:8.0f}",
            flush=True,
        )
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
