"""Numbers that papers print for one and the same encoder, training, protocol and task."""

from __future__ import annotations

import json
from typing import NamedTuple

from paper_coverage import keys
from paper_studies import cells, files, name_of, study
from sentbed.tools import unstructure
from sentbed_evaluators.sentbench import SentBench

NEUTRAL_BACKBONE_KEYS = ("dtype", "device_map")
"""Keys of a backbone that say how it is computed, and not what."""
NEUTRAL_STAGE_KEYS = ("validate", "watch", "micro_batch")
NEUTRAL_EVALUATOR_KEYS = ("use", "tasks", "runs", "skip_missing")
SENTEVAL_NAMES = {"SST": "SST2"}
"""SentBench's name of a task of SentEval -> SentEval's."""


class Claim(NamedTuple):
    """One number that a study expects of a cell."""

    study: str
    """`PAPER/FILE`, below `recipes/papers` and without suffix."""
    cell: str
    table: str
    task: str
    value: float
    tolerance: float | None
    """None where the study does not count the number."""


def claims():
    """Yield every expected number of every study, with a text of all that decides it."""
    for path in files():
        name = name_of(path)
        # The checks repeat numbers of the tables, and what contradicts them.
        if path.name != "verify.toml" and "" not in cells(name):
            yield from _claims_of(name)


def _claims_of(name):
    recipes = cells(name)
    for table, published in study(name).table.expected.items():
        for cell, numbers in published.cells.items():
            tolerance = None if cell in published.contradicted else published.tolerance
            for task, value in numbers.items():
                claim = Claim(name, cell, table, task, value, tolerance)
                yield _decided_by(recipes[cell], task), claim


def _decided_by(recipe, task):
    """Return encoders, training, search, runtime's platform, evaluators and task as one text."""
    table = unstructure(recipe)
    for encoder in table["encoders"].values():
        encoder.pop("max_length", None)
        for key in NEUTRAL_BACKBONE_KEYS:
            encoder["backbone"].pop(key, None)
    for stage in table["stage"]:
        for key in NEUTRAL_STAGE_KEYS:
            stage.pop(key, None)
    protocols = []
    for evaluate, settings in zip(recipe.evaluate, table["evaluate"], strict=True):
        # A speed is of its machine.
        if getattr(evaluate.evaluator, "lengths", ()):
            protocols.append({"runtime": table["runtime"], **settings})
        elif keys(evaluate.evaluator).get(task):
            protocols.append(_protocol(evaluate.evaluator, settings))
    name = SENTEVAL_NAMES.get(task, task)
    parts = [table["encoders"], table["stage"], table.get("search"), protocols, name]
    return json.dumps(parts, sort_keys=True, default=str)


def _protocol(evaluator, settings):
    if evaluator.name == "senteval-transfer" or _is_senteval(evaluator):
        return {"protocol": "senteval-transfer"}
    kept = {
        key: value
        for key, value in settings.items()
        if key not in NEUTRAL_EVALUATOR_KEYS
    }
    return {"protocol": settings["use"], **kept}


def _is_senteval(evaluator):
    """Whether SentBench's evaluator classifies single sentences, which it does as SentEval does."""
    return (
        isinstance(evaluator, SentBench)
        and evaluator.paradigms == ("single",)
        and evaluator.protocol == "senteval"
    )
