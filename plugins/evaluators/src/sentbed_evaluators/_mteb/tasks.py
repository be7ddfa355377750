"""Tasks of mteb: finding them by name, loading their data, and scoring an encoder on them."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import mteb
from mteb import AbsTask
from sentbed.protocols import Score, Similarity, TextEncoder

from sentbed_evaluators._mteb.adapter import MTEBModel, model_meta
from sentbed_evaluators.similarities import is_cosine

_Results: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]
"""mteb's results of a task: split -> the results of each subset."""

_ROWS = 4096
"""Number of texts per batch that mteb hands over. `MTEBModel` joins all batches before it encodes, so this number
affects only overhead."""

_BY_COSINE = "cosine_"
"""Prefix of the names that mteb gives to scores by cosine. Without it, the name is that of the score by the
model's own similarity."""


def find_tasks(
    names: Sequence[str],
    languages: Sequence[str],
    subsets: Sequence[str],
    splits: Sequence[str],
) -> list[AbsTask]:
    """Return the tasks of these names, restricted to languages, subsets and splits; an empty list selects all.

    A name is one of mteb's, or `module:Class`. mteb raises an error for what it does not have.
    """
    tasks = []
    for name in names:
        module, _, attribute = name.partition(":")
        if attribute:
            task = getattr(importlib.import_module(module), attribute)()
        else:
            task = mteb.get_task(name)
        task.filter_languages(languages or None, hf_subsets=subsets or None)
        task.filter_eval_splits(splits or None)
        tasks.append(task)
    return tasks


def tasks_of_benchmark(name: str) -> list[AbsTask]:
    """Return the tasks of one of mteb's benchmarks."""
    return list(mteb.get_benchmark(name).tasks)


def load(tasks: Sequence[AbsTask]) -> None:
    """Load the data of all tasks; raises what mteb or the hub raises."""
    for task in tasks:
        for part in _parts(task):
            part.load_data()


def unload(tasks: Sequence[AbsTask]) -> None:
    """Release the data of all tasks, which mteb otherwise keeps in memory for a benchmark."""
    for task in tasks:
        for part in _parts(task):
            if part.data_loaded:
                part.unload_data()


def _parts(task: AbsTask) -> Sequence[AbsTask]:
    """Return the tasks that an aggregate task averages; any other task is its only part."""
    return task.metadata.tasks if task.is_aggregate else [task]  # type: ignore[attr-defined]


def score_task(encoder: TextEncoder, task: AbsTask) -> list[Score]:
    """Return a task's scores, its main score first.

    Raises `RunError` if an embedding is not finite (or zero, for a classifier).
    """
    result = mteb.evaluate(
        MTEBModel(encoder, model_meta("sentbed/encoder", "the encoder of this run")),
        task,
        co2_tracker=False,
        cache=None,
        encode_kwargs={"batch_size": _ROWS, "show_progress_bar": False},
        show_progress_bar=False,
    )
    results = result.task_results[0].scores
    metric = _metric(task, results, encoder.similarity)
    return list(_scores(task, results, metric))


def _metric(
    task: AbsTask,
    results: _Results,
    similarity: Similarity | None,
) -> str:
    """Return the name of the score that is taken as a task's main score.

    This is mteb's main score. However, if mteb's is by cosine and the encoder names another similarity, it is the
    corresponding score by the encoder's similarity, where mteb has one.
    """
    main: str = task.metadata.main_score
    if is_cosine(similarity) or not main.startswith(_BY_COSINE):
        return main
    metric = main.removeprefix(_BY_COSINE)
    subsets = next(iter(results.values()))

    return metric if metric in subsets[0] else main


def _scores(
    task: AbsTask,
    results: _Results,
    metric: str,
) -> Iterator[Score]:
    """Yield a task's main score, then the main score of each split and subset if there are several."""
    about = task.metadata
    key = "main_score" if metric == about.main_score else metric
    parts = [part.metadata for part in _parts(task)]
    shared = {
        "id": "mteb",
        "mteb": mteb.__version__,
        "type": str(about.type),
        "dataset": _single(part.dataset["path"] for part in parts),
        "revision": _single(part.dataset["revision"] for part in parts),
        "similarity": "cosine",
        "seed": task.seed,
    }
    if task.is_aggregate:
        shared["of"] = [part.name for part in parts]

    scores = []
    languages: set[str] = set()
    for split, results_of_split in results.items():
        for result in results_of_split:
            protocol = {
                **shared,
                "split": split,
                "subset": result["hf_subset"],
                "languages": sorted(result["languages"]),
            }
            languages.update(result["languages"])
            scores.append(_score(about.name, metric, 100 * result[key], protocol))

    if len(scores) == 1:
        yield scores[0]
        return

    splits = _single(score.protocol["split"] for score in scores)
    subsets = _single(score.protocol["subset"] for score in scores)
    whole = {
        **shared,
        "split": splits,
        "subset": subsets,
        "languages": sorted(languages),
        "aggregation": "mean",
    }
    mean = sum(score.value for score in scores) / len(scores)
    yield _score(about.name, metric, mean, whole)
    for score in scores:
        name = metric
        if isinstance(splits, list):
            name += f"-{score.protocol['split']}"
        if isinstance(subsets, list):
            name += f"-{score.protocol['subset']}"
        yield _score(about.name, name, score.value, score.protocol)


def _score(
    task: str,
    metric: str,
    value: float,
    protocol: Mapping[str, Any],
) -> Score:
    """Return a score; if the value is NaN, as for collapsed vectors, it is degenerate."""
    degenerate = ""
    if math.isnan(value):
        degenerate = "mteb's score is not a number"
    return Score(task, metric, float(value), protocol, degenerate=degenerate)


def _single(values: Iterable[str]) -> Any:
    """Return the value if all are equal, otherwise the list of the different values, in their order."""
    different = list(dict.fromkeys(values))
    return different[0] if len(different) == 1 else different
