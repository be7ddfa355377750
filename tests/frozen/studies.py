"""Six studies with planted scores: means, intervals, p-values, ranks, choices; and the seeds of runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import planted
from doors import install_planted, run_command, run_recipe, steps_of_run
from records import Compared, Number
from scipy.stats import ttest_rel
from statsmodels.stats.multitest import multipletests

SUMS = 1e-8
"""Tolerance of statistics: sums of float64 in another order, and nine digits in the file."""

LOSSES = 1e-5
"""Tolerance of losses of weights that are not trained: kernels of other processors add in another order."""

ENCODER = """\
schema = 1
run = { name = "planted", cache = false }
runtime = { use = "cpu", precision = "fp32" }
[encoder]
max_length = 8
backbone = { use = "bert", init = "random", size = "tiny", vocab_size = 300 }
pooler = { use = "mean" }
"""

CELLS = """
[study.axes.cell]
plain = { "evaluate.0.cell" = "plain" }
better = { "evaluate.0.cell" = "better", "evaluate.0.effect" = 2.0 }
worse = { "evaluate.0.cell" = "worse", "evaluate.0.effect" = -1.5 }
equal = { "evaluate.0.cell" = "equal" }
"""

STUDIES = {
    "seeds": """
[[evaluate]]
use = "planted"
task = "seeds"
seeds = 1.0
[study]
seeds = [1, 2, 3, 4, 5]
baseline = { cell = "plain" }
"""
    + CELLS,
    "items": """
[[evaluate]]
use = "planted"
task = "items"
items = 120
[study]
seeds = [1]
baseline = { cell = "plain" }
"""
    + CELLS,
    "both": """
[[evaluate]]
use = "planted"
task = "both"
items = 120
statistic = "spearman"
seeds = 1.0
[study]
seeds = [1, 2, 3]
baseline = { cell = "plain" }
"""
    + CELLS,
    "prompts": """
[[evaluate]]
use = "planted"
task = "prompts"
items = 120
seeds = 0.5
prompts = 0.5
[study]
seeds = [1, 2, 3]
prompts = ["one: {text}", "two: {text}", "three: {text}", "four: {text}"]
baseline = { cell = "plain" }
"""
    + CELLS,
    "lower": """
[[evaluate]]
use = "planted"
task = "first"
direction = "lower"
seeds = 1.0
[[evaluate]]
use = "planted"
task = "second"
direction = "lower"
items = 120
seeds = 1.0
[study]
seeds = [1, 2, 3, 4]
baseline = { size = "small", loss = "old" }
[study.axes.size]
small = { "evaluate.0.cell" = "small", "evaluate.1.cell" = "small" }
large = { "evaluate.0.cell" = "large", "evaluate.1.cell" = "large" }
[study.axes.loss]
old = {}
new = { "evaluate.0.effect" = -3.0, "evaluate.1.effect" = -4.0 }
newest = { "evaluate.0.effect" = -5.0, "evaluate.1.effect" = -2.0 }
""",
    "chosen": """
[[evaluate]]
use = "planted"
task = "development"
split = "dev"
seeds = 0.5
[[evaluate]]
use = "planted"
task = "test"
items = 120
seeds = 0.5
[study]
seeds = [1, 2, 3]
baseline = { level = "0", cell = "a" }
decide = { tasks = ["development"], confirm = 2 }
exclude = [{ level = ["1", "2"], cell = "a" }, { level = "2", cell = "c" }]
[study.axes.level]
path = ["evaluate.0.effect", "evaluate.1.effect"]
values = [0, 1, 2]
[study.axes.cell]
path = ["evaluate.0.cell", "evaluate.1.cell"]
values = ["a", "b", "c"]
""",
}

TRAINING = """\
schema = 1
run = { name = "seeds", cache = false }
runtime = { use = "cpu", precision = "fp32", threads = 1 }
[encoder]
max_length = 16
backbone = { use = "bert", init = "random", size = "tiny", vocab_size = 300, dropout = 0.0 }
pooler = { use = "mean" }
[[stage]]
name = "pairs"
data = { use = "sample" }
loss = { use = "info-nce", temperature = 0.05 }
optimizer = { use = "adamw", lr = 1e-9 }
schedule = { use = "constant" }
batch_size = 16
steps = 3
"""


def numbers(directory: Path) -> Iterator[Number | Compared]:
    install_planted(directory)
    for name, study in STUDIES.items():
        (directory / f"{name}.toml").write_text(ENCODER + study)
        run_command(directory, "study", f"{name}.toml", "--workers", "1", "--out", name)
        results = json.loads((directory / name / "results.json").read_text())
        yield from table_numbers(name, results)
        yield from prompt_numbers(name, results)
        yield from choice_numbers(name, results)
        yield from outside_statistics(name, results)
    compared = run_command(directory, "compare", "items", "--json")
    yield from table_numbers("compare", json.loads(compared.stdout))
    yield from seed_numbers(directory)


def tables_of(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tables of planted scores: columns, rows, rank groups, prompts."""
    return [table for table in results["tables"] if table["evaluator"] == "planted"]


def scores_of(results: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the score of each cell and task: seeds, mean, deviation, place, difference from the baseline."""
    scores = {}
    for table in tables_of(results):
        for row in table["rows"]:
            for column, score in zip(table["columns"], row["values"], strict=True):
                scores[row["cell"], column["task"]] = score
    return scores


def table_numbers(name: str, results: dict[str, Any]) -> Iterator[Number]:
    """Yield means, tests against the baseline and rank groups."""
    for (cell, task), score in scores_of(results).items():
        key = f"{name}/{cell}/{task}"
        yield Number(f"{key}/seeds", list(score["seeds"].values()), SUMS)
        yield Number(f"{key}/mean", score["mean"], SUMS)
        yield Number(f"{key}/std", score["std"] or 0.0, SUMS)
        yield Number(f"{key}/place", score["place"] or 0)
        test = score["against_baseline"]
        if test is not None:
            difference = [test["difference"], test["low"], test["high"]]
            yield Number(f"{key}/difference", difference, SUMS)
            yield Number(f"{key}/p", [test["p_value"], test["corrected"]], SUMS)
    for table in tables_of(results):
        if table["groups"] is None:
            continue
        task = table["columns"][-1]["task"]
        for row in table["groups"]["cells"]:
            key = f"{name}/{row['cell']}/{task}/group"
            yield Number(f"{key}/ranks", [row["lowest_rank"], row["highest_rank"]])
            yield Number(
                f"{key}/from-best", [row["from_best"], row["low"], row["high"]], SUMS
            )


def prompt_numbers(name: str, results: dict[str, Any]) -> Iterator[Number]:
    """Yield each cell's mean under each prompt, and the variances over prompts, seeds and items."""
    for table in tables_of(results):
        for row in table["prompts"]:
            key = f"{name}/{row['cell']}/prompts"
            yield Number(f"{key}/means", list(row["means"].values()), SUMS)
            if row["stds"]:
                yield Number(f"{key}/stds", list(row["stds"].values()), SUMS)


def choice_numbers(name: str, results: dict[str, Any]) -> Iterator[Number]:
    """Yield the chosen cell, its fresh seeds and its scores."""
    chosen = results["chosen"]
    if chosen is None:
        return
    yield Number(f"{name}/chosen", chosen["cell"])
    yield Number(f"{name}/chosen/score", [chosen["score"], chosen["std"]], SUMS)
    yield Number(f"{name}/chosen/fresh-seeds", chosen["fresh_seeds"])
    for score in chosen["scores"]:
        value = [score["mean"], score["std"], score["low"], score["high"]]
        yield Number(f"{name}/chosen/{score['task']}", value, SUMS)


def outside_statistics(name: str, results: dict[str, Any]) -> Iterator[Compared]:
    """Compare tests over seeds alone, or items alone, with SciPy's, and Holm's correction with statsmodels'."""
    if name not in ("seeds", "items"):
        return
    scores = scores_of(results)
    samples = {
        cell: list(score["seeds"].values()) for (cell, _), score in scores.items()
    }
    if name == "items":
        for cell, effect in (
            ("plain", 0.0),
            ("better", 2.0),
            ("worse", -1.5),
            ("equal", 0.0),
        ):
            evaluator = planted.Planted("items", cell=cell, effect=effect, items=120)
            samples[cell] = 100 * evaluator.item_columns(seed=1, prompt="[None]")[0]
    p_values = []
    corrected = []
    for cell in ("better", "worse", "equal"):
        ours = scores[cell, name]["against_baseline"]
        test = ttest_rel(samples[cell], samples["plain"])
        low, high = test.confidence_interval(0.95)
        interval = [float(low), float(high)]
        key = f"{name}/{cell}/scipy"
        yield Compared(
            f"{key}/interval",
            [ours["low"], ours["high"]],
            interval,
            "scipy ttest_rel",
            SUMS,
        )
        yield Compared(
            f"{key}/p", ours["p_value"], float(test.pvalue), "scipy ttest_rel", SUMS
        )
        p_values.append(float(test.pvalue))
        corrected.append(ours["corrected"])
    # The other pairs of the column belong to the same family.
    for first, second in combinations(("better", "worse", "equal"), 2):
        p_values.append(float(ttest_rel(samples[second], samples[first]).pvalue))
    holm = multipletests(p_values, method="holm")[1].tolist()[:3]
    yield Compared(f"{name}/holm", corrected, holm, "statsmodels multipletests", SUMS)


def seed_numbers(directory: Path) -> Iterator[Number]:
    """Yield first losses at a learning rate of nearly 0, which only weights, order of rows and dropout decide."""
    path = directory / "training.toml"
    path.write_text(TRAINING)
    for seed in (1, 2):
        for dropout in (0.0, 0.1):
            settings = [f"run.seed={seed}", f"encoder.backbone.dropout={dropout}"]
            run = directory / f"training-{seed}-{dropout}"
            run_recipe(path, run, settings)
            losses = [step["loss"] for step in steps_of_run(run)]
            yield Number(f"losses/seed {seed}/dropout {dropout}", losses, LOSSES)
