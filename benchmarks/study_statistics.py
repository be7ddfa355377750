"""Simulated studies: how often tests, ranks and the chosen cell's interval are wrong.

    python benchmarks/study_statistics.py [SETTING ...] [--studies 2000] [--seed 0] [--json FILE]

Each setting is a way in which a promise of a study could break: sources of variance of any size, averages over
tasks that share items, items in clusters, development data beside test data, many cells, the interval of the
best of many cells. Printed is the share of studies in per cent in which something was claimed or left out
wrongly, where at most 5 are promised, and, of settings with `power` in their name, that of studies which found
what is true. Of those, `predicted` is what `power_of` says. Skewed seeds are a limit: the test is not made for
them. The standard error of a share p of N studies is the root of p (1 - p) / N.

The score of a cell under a prompt and a seed is the mean over items of

    mean + item + item x cell + seed x cell + prompt x cell + prompt x seed x cell + what is left,

with normal parts unless a setting says otherwise. What an item does to all cells cancels in a difference.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import attrs
import numpy as np
from numpy.typing import NDArray
from sentbed.protocols import Items, Score
from sentbed_report.statistics.cell_scores import CellScores, mean_over_tasks
from sentbed_report.statistics.difference import REPLICATES, difference, estimate
from sentbed_report.statistics.power import Spread, power_of
from sentbed_report.statistics.sampling_error import components_of
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.selection import select
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData

Generator: TypeAlias = np.random.Generator
Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Study: TypeAlias = Callable[[Generator], bool]
"""Simulates one study, and returns whether the event that is counted occurred."""

LEVEL = 0.05


# --- a difference of two cells -----------------------------------------------------------------------------


@attrs.frozen
class Setting:
    """A difference of two cells; standard deviations are those of the difference."""

    seeds: int = 3
    prompts: int = 1
    items: int = 200
    item_std: float = 1.0
    """Of one item."""
    seed_std: float = 0.1
    prompt_std: float = 0.0
    prompt_seed_std: float = 0.0
    rest_std: float = 0.7
    """Of one item in one run."""
    effect: float = 0.0
    """True difference."""
    cluster: int = 1
    """Number of items that have a passage in common, with half of `item_std`'s variance."""
    draw: str = "normal"
    """Distribution of the items: `normal`, `t` (with 3 degrees of freedom) or `lognormal`."""
    skewed_seeds: bool = False
    random: tuple[str, ...] = REPLICATES

    def __call__(self, rng: Generator) -> bool:
        """Return whether a simulated study finds a difference."""
        values = self.differences(rng)
        of_runs = values.mean(2)
        clusters = np.arange(self.items) // self.cluster
        components = []
        for of_run in values.reshape(-1, self.items):
            items = Items("mean", of_run, scale=1.0, clusters=clusters)
            layout = components_of(items)
            assert layout is not None
            components.append(layout.values)
        shape = (self.seeds, self.prompts, -1)
        result = estimate(
            of_runs, np.array(components).reshape(shape), layout, self.random
        )
        return result.p_value is not None and result.p_value < LEVEL

    def differences(self, rng: Generator) -> Floats:
        """Return the differences of one study, `(seeds, prompts, items)`."""
        if self.draw == "t":
            item_cell = rng.standard_t(3, self.items) / math.sqrt(3)
        elif self.draw == "lognormal":
            item_cell = (rng.lognormal(size=self.items) - math.exp(0.5)) / 2.16
        else:
            item_cell = rng.standard_normal(self.items)
        if self.cluster > 1:
            passages = rng.standard_normal(self.items)[
                np.arange(self.items) // self.cluster
            ]
            item_cell = (item_cell + passages) / math.sqrt(2)

        of_seeds = rng.standard_normal((self.seeds, 1, 1))
        if self.skewed_seeds:
            of_seeds = (rng.lognormal(size=(self.seeds, 1, 1)) - math.exp(0.5)) / 2.16
        of_prompts = rng.standard_normal((1, self.prompts, 1))
        of_both = rng.standard_normal((self.seeds, self.prompts, 1))
        rest = rng.standard_normal((self.seeds, self.prompts, self.items))
        values: Floats = self.effect + self.item_std * item_cell + self.rest_std * rest
        values = values + self.seed_std * of_seeds
        values = values + self.prompt_std * of_prompts
        return values + self.prompt_seed_std * of_both

    @property
    def predicted(self) -> float:
        """Power by `power_of`, with the variances of what is tested; 0 where rest and items are not apart."""
        of_runs = self.rest_std**2 / self.items
        item = self.item_std**2 / self.items
        if self.prompts > 1:
            item += of_runs / (self.seeds * self.prompts)
        of_both = self.prompt_seed_std**2 + of_runs
        seed = self.seed_std**2 + of_both / self.prompts
        prompt = 0.0
        if self.prompts > 1:
            prompt = self.prompt_std**2 + of_both / self.seeds
        spread = Spread(
            math.sqrt(seed),
            math.sqrt(item),
            self.items - 1,
            math.sqrt(prompt),
            self.prompts,
        )
        return power_of(spread, self.effect, self.seeds)


def random_setting(rng: Generator) -> bool:
    """Whether equal cells differ in a setting that is drawn, too."""
    items = round(math.exp(rng.uniform(math.log(40), math.log(2000))))
    stds = np.exp(rng.uniform(math.log(0.1), math.log(10), 3)) / math.sqrt(items)
    setting = Setting(
        seeds=int(rng.integers(3, 11)),
        prompts=int(rng.integers(3, 9)),
        items=items,
        seed_std=float(stds[0]),
        prompt_std=float(stds[1]),
        prompt_seed_std=float(stds[2]),
        rest_std=float(rng.uniform(0, 2)),
    )
    return setting(rng)


# --- scores ------------------------------------------------------------------------------------------------


def score_of(items: Items, value: float, task: str = "T", split: str = "test") -> Score:
    """Return a score with its items."""
    protocol = {"encoder": {}, "evaluator": {"id": "p", "split": split}}
    return Score(task, items.statistic, value, protocol, "en", "e", items)


def mean_of(
    values: Floats,
    names: Integers | None = None,
    task: str = "T",
    split: str = "test",
) -> Score:
    """Return a score that is the mean of `values`, one per item."""
    items = Items("mean", values, scale=1.0, clusters=names)
    return score_of(items, float(values.mean()), task, split)


def spearman(
    rng: Generator, items: int, effect: float = 0.0, seeds: tuple[int, int] = (3, 3)
) -> bool:
    """Whether two cells differ whose score is a rank correlation; they may have different numbers of seeds."""
    from sentbed_common import item_score

    gold = rng.standard_normal(items)
    cells = []
    for number, slope in zip(seeds, (1.0, 1.0 + effect), strict=True):
        item_cell = rng.standard_normal(items)
        scores = {}
        for seed in range(number):
            noise = item_cell + 0.5 * rng.standard_normal(items)
            slope_of_run = slope + 0.02 * rng.standard_normal()
            predicted = slope_of_run * gold + noise
            of_run = Items("spearman", gold, predicted)
            scores[seed, ""] = (score_of(of_run, item_score(of_run)),)
        cells.append(CellScores(scores))
    p_value = difference(cells[0], cells[1]).p_value
    return p_value is not None and p_value < LEVEL


def shared_items(
    rng: Generator, tasks: int, shared: float, effect: float = 0.0
) -> bool:
    """Whether two cells differ in the mean of tasks of 100 items that share a part of these."""
    common = round(shared * 100)
    pool = common + tasks * (100 - common)
    means = []
    for side in (0, 1):
        item_cell = rng.standard_normal(pool) + side * effect
        runs = 0.3 * rng.standard_normal((3, pool))
        runs = runs + 0.02 * rng.standard_normal((3, 1))
        columns = []
        for task in range(tasks):
            start = common + task * (100 - common)
            further = np.arange(start, start + 100 - common)
            places = np.concatenate([np.arange(common), further])
            scores = {}
            for seed in range(3):
                values = (item_cell + runs[seed])[places]
                scores[seed, ""] = (mean_of(values, places, f"T{task}"),)
            columns.append(CellScores(scores))
        means.append(mean_over_tasks(columns))
    p_value = difference(means[0], means[1]).p_value
    return p_value is not None and p_value < LEVEL


# --- studies -----------------------------------------------------------------------------------------------


def study_data(
    rng: Generator,
    means: Floats,
    seeds: int,
    items: int,
    seed_std: float,
    correlation: float = 0.0,
    decide: Decide | None = None,
) -> StudyData:
    """Return a study with a task on development and one on test data; `means` are `(cells, 2)`."""
    cells = []
    for number, of_cell in enumerate(means):
        item_cell = rng.standard_normal((2, items))
        runs = []
        for seed in range(seeds):
            shared = math.sqrt(correlation) * rng.standard_normal()
            luck = math.sqrt(1 - correlation) * rng.standard_normal(2)
            luck = seed_std * (luck + shared)
            values = of_cell[:, None] + item_cell
            values = values + luck[:, None]
            scores = (
                mean_of(values[0], task="T-dev", split="dev"),
                mean_of(values[1]),
            )
            runs.append(CellRun(f"c{number}", seed, "finished", scores=scores))
        cells.append(CellInfo(f"c{number}", {}, tuple(runs)))
    baseline = None
    if decide is None:
        baseline = "c0"
    seeds_of_study = tuple(range(seeds))
    return StudyData("s", (), tuple(cells), baseline, seeds_of_study, decide=decide)


def any_false_difference(
    rng: Generator, cells: int, seeds: int = 3, seed_std: float = 0.05
) -> bool:
    """Whether any pair of equal cells, with or without the baseline, is told apart in a table."""
    data = study_data(rng, np.zeros((cells, 2)), seeds, 50, seed_std)
    return any(test.significant for test in summarise(data)[0].tests.values())


def mark_is_found(rng: Generator, cells: int, effect: float) -> bool:
    """Whether the last of many cells, the only one that is better than the baseline, is marked."""
    means = np.zeros((cells, 2))
    means[-1] = effect
    data = study_data(rng, means, 5, 50, 0.05)
    judged = summarise(data)[0].rows[-1].cells[-1].judged
    return judged is not None and judged.significant


def mark_by_development(rng: Generator) -> bool:
    """Whether a cell that is better by 3 points on development data alone is marked on test data."""
    data = study_data(rng, np.array([[0.0, 0.0], [3.0, 0.0]]), 3, 50, 0.05)
    judged = summarise(data)[0].rows[1].cells[-1].judged
    return judged is not None and judged.significant


def chosen_interval(rng: Generator, cells: int, confirm: int = 0) -> bool:
    """Whether the interval of the best of equal cells misses its true mean on test data, 0."""
    decide = Decide(("T-dev",))
    data = study_data(rng, np.zeros((cells, 2)), 5, 25, 1.0, 0.9, decide)
    if confirm:
        fresh = study_data(rng, np.zeros((cells, 2)), confirm, 25, 1.0, 0.9, decide)
        confirmed = []
        for cell, other in zip(data.cells, fresh.cells, strict=True):
            confirmed.append(attrs.evolve(cell, confirmation=other.runs))
        data = attrs.evolve(data, cells=tuple(confirmed))
    selection = select(data, summarise(data))
    assert selection is not None
    for score in selection.scores:
        if score.task == "T" and score.low is not None and score.high is not None:
            return not score.low <= 0 <= score.high
    raise AssertionError("the chosen cell has no interval")


# --- settings ----------------------------------------------------------------------------------------------

SETTINGS: dict[str, Study] = {
    "A best of 10 cells": lambda rng: chosen_interval(rng, 10),
    "A best of 30 cells": lambda rng: chosen_interval(rng, 30),
    "A best of 30 cells, 3 fresh seeds": lambda rng: chosen_interval(rng, 30, 3),
    "B two tasks share half": lambda rng: shared_items(rng, 2, 0.5),
    "B two tasks share all": lambda rng: shared_items(rng, 2, 1.0),
    "B six tasks share all": lambda rng: shared_items(rng, 6, 1.0),
    "B six tasks share nothing": lambda rng: shared_items(rng, 6, 0.0),
    "B power: six tasks share nothing": lambda rng: shared_items(rng, 6, 0.0, 0.2),
    "C development +3": mark_by_development,
    "D any pair of 4 cells": lambda rng: any_false_difference(rng, 4),
    "D any pair of 10 cells": lambda rng: any_false_difference(rng, 10),
    "D any pair of 10 cells, seeds vary": lambda rng: any_false_difference(
        rng, 10, seed_std=1.0
    ),
    "D power: mark among 10 cells": lambda rng: mark_is_found(rng, 10, 0.8),
    "F clusters of 3": Setting(
        items=300,
        cluster=3,
    ),
    "F clusters of 10": Setting(
        items=300,
        cluster=10,
    ),
    "F items t with 3 degrees": Setting(
        draw="t",
        items=40,
    ),
    "F items lognormal": Setting(
        draw="lognormal",
        items=40,
    ),
    "F limit: seeds lognormal": Setting(
        skewed_seeds=True,
        seed_std=1.0,
    ),
    "F limit: 10 seeds lognormal": Setting(
        skewed_seeds=True,
        seed_std=1.0,
        seeds=10,
    ),
    "I one seed that does not vary": Setting(
        seeds=1,
        seed_std=0.0,
        rest_std=0.0,
    ),
    "I S=2, n=40, rest 3": Setting(
        seeds=2,
        items=40,
        rest_std=3.0,
    ),
    "I S=3, n=40, rest 3": Setting(
        items=40,
        rest_std=3.0,
    ),
    "I S=5, n=40, rest 3": Setting(
        seeds=5,
        items=40,
        rest_std=3.0,
    ),
    "I S=2, n=300, seeds vary": Setting(
        seeds=2,
        items=300,
        seed_std=0.3,
    ),
    "I S=3, n=300, items vary": Setting(
        items=300,
        seed_std=0.0,
    ),
    "I S=5, n=300, rest 3": Setting(
        seeds=5,
        items=300,
        seed_std=0.05,
        rest_std=3.0,
    ),
    "I Spearman, n=40": lambda rng: spearman(rng, 40),
    "I Spearman, n=300": lambda rng: spearman(rng, 300),
    "I Spearman, n=300, 3 and 5 seeds": lambda rng: spearman(rng, 300, seeds=(3, 5)),
    "I power: S=3, n=200": Setting(
        effect=0.35,
    ),
    "I power: S=5, n=300, rest 3": Setting(
        seeds=5,
        items=300,
        seed_std=0.05,
        rest_std=3.0,
        effect=0.35,
    ),
    "I power: S=5, n=200": Setting(
        seeds=5,
        effect=0.35,
    ),
    "I power: Spearman, n=40": lambda rng: spearman(rng, 40, 0.8),
    "P prompt x cell 0": Setting(
        prompts=4,
        rest_std=0.5,
    ),
    "P prompt x cell 0.3": Setting(
        prompts=4,
        rest_std=0.5,
        prompt_std=0.03,
    ),
    "P prompt x cell 1": Setting(
        prompts=4,
        rest_std=0.5,
        prompt_std=0.1,
    ),
    "P prompt x cell 3": Setting(
        prompts=4,
        rest_std=0.5,
        prompt_std=0.3,
    ),
    "P only prompts vary": Setting(
        prompts=4,
        item_std=0.01,
        seed_std=0.0,
        rest_std=0.0,
        prompt_std=1.0,
    ),
    "P only seeds vary": Setting(
        prompts=4,
        item_std=0.01,
        seed_std=1.0,
        rest_std=0.0,
    ),
    "P only items vary": Setting(
        prompts=4,
        seed_std=0.0,
        rest_std=0.0,
    ),
    "P only prompt x seed varies": Setting(
        prompts=4,
        item_std=0.01,
        seed_std=0.0,
        rest_std=0.0,
        prompt_seed_std=1.0,
    ),
    "P random settings": random_setting,
    "P wrong: prompts vary, taken for fixed": Setting(
        prompts=4,
        prompt_std=0.3,
        random=("seeds",),
    ),
    "P power: P=4, S=3": Setting(
        prompts=4,
        prompt_std=0.3,
        effect=0.8,
    ),
    "P power: P=8, S=3": Setting(
        prompts=8,
        prompt_std=0.3,
        effect=0.4,
    ),
    "P power: P=4, S=10, n=40": Setting(
        prompts=4,
        seeds=10,
        items=40,
        prompt_std=0.2,
        effect=0.7,
    ),
}
"""Name of a setting -> its study. Those with `power` in the name count what was found."""


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", nargs="*", help="beginnings of names")
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    rows = []
    print(f"{'setting':40} {'share %':>8} {'s.e.':>6} {'predicted':>10} {'seconds':>8}")
    for name, study in SETTINGS.items():
        if options.settings and not name.startswith(tuple(options.settings)):
            continue
        rng = np.random.default_rng(options.seed)
        start = time.perf_counter()
        share = sum(study(rng) for _ in range(options.studies)) / options.studies
        error = math.sqrt(share * (1 - share) / options.studies)
        predicted = ""
        if isinstance(study, Setting) and study.effect:
            predicted = f"{100 * study.predicted:.1f}"
        seconds = time.perf_counter() - start
        rows.append({"setting": name, "share": 100 * share, "error": 100 * error})
        print(
            f"{name:40} {100 * share:8.1f} {100 * error:6.1f} {predicted:>10} {seconds:8.1f}",
            flush=True,
        )
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
