"""A study as it would be found on disk, made up: plausible scores with items, curves, geometry, a ranking."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import attrs
import numpy as np
from sentbed.protocols import Items, Score
from sentbed_common import item_score
from sentbed_report.study.published_number_config import Published
from sentbed_report.study.study_data import (
    AxisInfo,
    CellInfo,
    CellRun,
    StudyData,
    with_runs,
)

Numbers = Mapping[str, Mapping[int, Mapping[str, float]]]
"""Cell -> seed -> task -> score."""

POOLER = AxisInfo("pooler", ("first", "mean"))
TEMPERATURE = AxisInfo("temperature", ("0.01", "0.05", "0.25"), (0.01, 0.05, 0.25))
TASKS = ("STS12", "STS13", "STSB", "SICKR")
PAIRS = 200

_EFFECTS = {"first": -0.1, "mean": 0.0, "0.01": -0.03, "0.05": 0.0, "0.25": -0.08}


def sts(task, quality, seed):
    """A Spearman correlation whose items do agree with it; the pairs of a task are those of every cell."""
    shared = np.random.default_rng(sum(map(ord, task)))
    gold = shared.uniform(0, 5, PAIRS).round(1)
    hard = shared.normal(size=PAIRS)
    rng = np.random.default_rng(seed)
    cosine = (
        gold / 5 + (0.15 - 0.9 * quality) * hard + rng.normal(scale=0.05, size=PAIRS)
    )
    items = Items("spearman", gold, cosine)
    facts = {"id": "senteval-sts", "aggregation": "all", "data": f"{task} v1"}
    protocol = {"encoder": {"pooler": "any"}, "evaluator": facts}
    return Score(
        task, "spearman", item_score(items), protocol, "encoder", "senteval-sts", items
    )


def transfer(task, quality, seed):
    """An accuracy of 400 sentences."""
    correct = (
        np.random.default_rng([seed, *map(ord, task)]).uniform(size=400)
        < 0.86 + quality
    )
    items = Items("mean", correct.astype(float))
    protocol = {"encoder": {}, "evaluator": {"id": "transfer"}}
    return Score(
        task,
        "accuracy",
        item_score(items),
        protocol,
        "encoder",
        "senteval-transfer",
        items,
    )


def geometry(quality, seed):
    """Alignment and uniformity."""
    noise = np.random.default_rng(seed).normal(scale=0.01, size=2)
    numbers = {
        "alignment": 0.25 - quality + noise[0],
        "uniformity": -2.4 - 4 * quality + 3 * noise[1],
    }
    protocol = {"encoder": {}, "evaluator": {"id": "wang-isola"}}
    return tuple(
        Score(
            "STSB",
            metric,
            float(number),
            protocol,
            "encoder",
            "geometry",
            direction="lower",
            axis=axis,
        )
        for (metric, number), axis in zip(numbers.items(), "yx", strict=True)
    )


def record(quality, seed):
    """What `report.json` says of training."""
    steps = list(range(25, 501, 25))
    noise = np.random.default_rng(seed).normal(scale=0.4, size=len(steps))
    top = 82 + 60 * quality
    curve = [
        [step, top - 14 * 2 ** (-step / 80) + float(n)]
        for step, n in zip(steps, noise, strict=True)
    ]
    stages = [
        {
            "name": "nli",
            "metric": "STSB-dev",
            "validations": curve,
            "best_step": 400,
            "steps": steps,
        }
    ]
    return {"schema": 1, "stages": stages}


def study(
    axes=(POOLER, TEMPERATURE),
    seeds=(1, 2, 3),
    baseline="mean, 0.05",
    several=False,
    **fields,
):
    """A study of every combination of labels, all runs finished; `several` adds two more evaluators."""
    cells = []
    for number, labels in enumerate(itertools.product(*(axis.labels for axis in axes))):
        name = ", ".join(labels)
        quality = 0.0
        for label in labels:
            quality += _EFFECTS.get(label, -0.002 * (number * 7 % 11))
        runs = []
        for seed in seeds:
            cell_seed = seed + 1000 * number
            jittered = quality + float(
                np.random.default_rng(cell_seed).normal(scale=0.006)
            )
            scores = [sts(task, jittered, cell_seed) for task in TASKS]
            if several:
                scores.append(transfer("MR", jittered, cell_seed))
                scores.append(transfer("CR", jittered, cell_seed))
                scores.extend(geometry(jittered, cell_seed))
            directory = Path("cells") / f"cell-{number}-{seed}" / f"seed-{seed}"
            report = record(quality, cell_seed)
            runs.append(
                CellRun(
                    name, seed, "finished", directory, "", 95.0, tuple(scores), report
                )
            )
        differences = (
            ()
            if name == baseline
            else (f'encoder.pooler.use: "mean" -> "{labels[0]}"',)
        )
        named = dict(zip((axis.name for axis in axes), labels, strict=True))
        cells.append(CellInfo(name, named, tuple(runs), differences))
    settings = {
        "name": "pooler-temperature",
        "excluded": (
            (
                "decoder, 0.05",
                ("the pooler `decoder` needs a decoder, `bert` has none",),
            ),
        ),
        "expected": {
            "Table 5": Published(
                {
                    "mean, 0.05": {"STSB/spearman": 87.4, "STS12": 91.2},
                    "first, 0.05": {"STSB/spearman": 76.9},
                },
                0.5,
                "SimCSE",
            )
        },
        "recipe": 'schema = 1\n[run]\nname = "pooler-temperature"\n',
        **fields,
    }
    return StudyData(
        axes=tuple(axes),
        cells=tuple(cells),
        baseline=baseline,
        seeds=tuple(seeds),
        **settings,
    )


def with_scores(data, change):
    """The study with other scores, or without those of which `change` makes nothing."""

    def changed(run):
        scores = [change(run, score) for score in run.scores]
        return attrs.evolve(
            run, scores=tuple(score for score in scores if score is not None)
        )

    return attrs.evolve(data, cells=with_runs(data.cells, changed))


def with_fields(data, cell="", task="", **fields):
    """The study with other fields of its scores: of a cell and a task, or of any."""

    def changed(run, score):
        is_meant = cell in ("", run.cell) and task in ("", score.task)
        return attrs.evolve(score, **fields) if is_meant else score

    return with_scores(data, changed)


def with_added(data, added, cell=""):
    """The study with further scores behind those of its runs, of a cell or of any."""

    def changed(run):
        if cell not in ("", run.cell):
            return run
        return attrs.evolve(run, scores=(*run.scores, *added(run)))

    return attrs.evolve(data, cells=with_runs(data.cells, changed))


def collapsed(data, cell):
    """The study with a cell whose scores are all degenerate."""
    return with_fields(data, data.cells[cell].name, degenerate="collapsed")


def unscored(data, cell):
    """The study with a cell that has no scores."""
    name = data.cells[cell].name
    return with_scores(data, lambda run, score: None if run.cell == name else score)


def cost(task, value, encoder="encoder"):
    """What an encoder takes."""
    protocol = {"encoder": {}, "evaluator": {"id": "cost"}}
    return Score(
        task,
        "",
        value,
        protocol,
        encoder,
        "encoding-cost",
        direction="lower",
        axis="cost",
    )


def with_costs(data, costs_of):
    """The study with costs among the scores of each run."""
    cells = {cell.name: cell for cell in data.cells}
    return with_added(data, lambda run: costs_of(cells[run.cell]))


def hits(share, seed):
    """300 items of a mean, of which about `share` are right; the same ones are easy under every seed."""
    easy = np.random.default_rng(99).random(300)
    noise = 0.1 * np.random.default_rng(seed).normal(size=300)
    return Items("mean", (easy + noise < share).astype(float))


def study_of(
    numbers,
    axes=(),
    baseline=None,
    statuses=None,
    items=False,
    protocol=None,
    **more,
):
    """A study out of cell -> seed -> task -> score; the labels of a cell are its name's parts."""

    def scores_of(tasks, seed):
        scores = []
        for key, value in tasks.items():
            task, _, metric = key.partition("/")
            of_score = None
            if items:
                of_score = hits(value / 100, seed)
            facts = {"encoder": {}, "evaluator": {"id": "p", **(protocol or {})}}
            scores.append(
                Score(
                    task,
                    metric or "accuracy",
                    value,
                    facts,
                    "en",
                    "transfer",
                    of_score,
                )
            )
        return tuple(scores)

    cells = []
    all_seeds = {}
    for name, seeds in numbers.items():
        labels = {}
        if axes:
            names = [axis.name for axis in axes]
            labels = dict(zip(names, name.split(", "), strict=True))
        runs = []
        for seed, tasks in seeds.items():
            all_seeds[seed] = None
            status = "finished"
            if not tasks and statuses:
                status = statuses.get(name, status)
            scores = scores_of(tasks, seed)
            runs.append(CellRun(name, seed, status, scores=scores))
        cells.append(CellInfo(name, labels, tuple(runs)))
    return StudyData(
        "toy", tuple(axes), tuple(cells), baseline, tuple(all_seeds), **more
    )
