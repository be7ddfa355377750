"""Tasks of mteb: finding them by name, loading their data, and scoring an encoder on them."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import product
from typing import Any, TypeAlias

import attrs
import mteb
from mteb import AbsTask
from sentbed import DataError, RunError
from sentbed.errors import SentbedError, listed
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


@attrs.frozen
class Filters:
    """The languages, subsets and splits to score; an empty field selects all."""

    languages: tuple[str, ...] = ()
    subsets: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()


def find_tasks(names: Sequence[str], filters: Filters) -> list[AbsTask]:
    """Return the tasks of these names, restricted to `filters`; a name is one of mteb's, or `module:Class`.

    Raises:
        DataError: if a task or subset does not exist, no part of a task is left, or a task has images, audio or
            other data than texts.
    """
    tasks = []
    for name in names:
        task = _task_of_module(name) if ":" in name else _task_of_mteb(name)
        tasks.append(task)

    subsets: set[str] = set()
    for task in tasks:
        _restrict(task, filters)
        subsets.update(task.metadata.hf_subsets_to_langscripts)

    for subset in filters.subsets:
        if subset not in subsets:
            raise DataError(
                f"no task has the subset `{subset}`; the subsets are {listed(sorted(subsets))}"
            )
    return _of_texts(tasks)


def _restrict(task: AbsTask, filters: Filters) -> None:
    """Restrict a task to some languages, subsets and splits.

    Raises `DataError` if no subset is left, or if the task is a mean of other tasks: it cannot be restricted.
    """
    about = task.metadata
    if task.is_aggregate and filters != Filters():
        raise DataError(
            f"`languages`, `subsets` and `splits` cannot change the task `{about.name}`, which is "
            f"the mean of others; remove them, or name its tasks: {listed(_names(_parts(task)))}"
        )
    languages, subsets = filters.languages or None, filters.subsets or None
    try:
        task.filter_languages(languages, hf_subsets=subsets)
    except ValueError as error:
        raise DataError(
            f"`languages` {list(filters.languages)} and `subsets` {list(filters.subsets)} leave nothing of the "
            f"task `{about.name}` ({error}); its subsets are {listed(about.hf_subsets_to_langscripts)}"
        ) from error
    task.filter_eval_splits(filters.splits or None)


def find_benchmark(name: str) -> list[AbsTask]:
    """Return the tasks of one of mteb's benchmarks.

    Raises `DataError` if mteb has no benchmark of this name, or a task has other data than texts.
    """
    try:
        return _of_texts(list(mteb.get_benchmark(name).tasks))
    except KeyError as error:
        names = [benchmark.name for benchmark in mteb.get_benchmarks()]
        raise DataError(
            f"mteb has no benchmark `{name}`.{_closest(name, names)}"
        ) from error


def _task_of_mteb(name: str) -> AbsTask:
    """Return mteb's task of this name; raises `DataError` if there is none."""
    try:
        return mteb.get_task(name)
    except KeyError as error:
        tasks = mteb.get_tasks(
            exclude_superseded=False,
            exclude_private=False,
            exclude_beta=False,
        )
        raise DataError(
            f"mteb has no task `{name}`.{_closest(name, _names(tasks))}"
        ) from error


def _task_of_module(name: str) -> AbsTask:
    """Return an instance of the class `module:Class`; raises `DataError` if it is no task."""
    module, _, attribute = name.partition(":")
    try:
        cls = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise DataError(
            f"the task `{name}` cannot be imported ({error}); expected `module:Class` of a module that "
            f"Python finds, such as one below PYTHONPATH"
        ) from error
    if not (isinstance(cls, type) and issubclass(cls, AbsTask)):
        raise DataError(f"`{name}` is {cls!r}, expected a subclass of `mteb.AbsTask`")
    return cls()


def _of_texts(tasks: list[AbsTask]) -> list[AbsTask]:
    """Return the tasks; raises `DataError` if one has images, audio or other data than texts."""
    for task in tasks:
        if others := sorted(set(task.metadata.modalities) - {"text"}):
            raise DataError(
                f"mteb's task `{task.metadata.name}` needs {listed(others)}, but an encoder reads `text`; "
                f"leave it out"
            )
    return tasks


def load(tasks: Sequence[AbsTask], required_splits: Sequence[str]) -> dict[str, str]:
    """Load the data of all tasks. Return name of a task -> error, for the tasks whose data is unavailable.

    Raises `DataError` if the data of a task lacks a required split.
    """
    missing = {}
    for task in tasks:
        try:
            for part in _parts(task):
                part.load_data()
        except SentbedError:
            raise
        except Exception as error:  # noqa: BLE001 - a task's loading code and the hub may raise anything
            path = part.metadata.dataset["path"]
            missing[task.metadata.name] = f"{path}: {_reason(error)}"
            continue

        for split, part in product(required_splits, _parts(task)):
            splits = _splits(part)
            if split not in splits:
                raise DataError(
                    f"the task `{task.metadata.name}` has no split `{split}`; it has {listed(splits)}"
                )
    return missing


def unload(tasks: Sequence[AbsTask]) -> None:
    """Release the data of all tasks, which mteb otherwise keeps in memory for a benchmark."""
    for task in tasks:
        for part in _parts(task):
            if part.data_loaded:
                part.unload_data()


def _parts(task: AbsTask) -> Sequence[AbsTask]:
    """Return the tasks that an aggregate task averages; any other task is its only part."""
    return task.metadata.tasks if task.is_aggregate else [task]  # type: ignore[attr-defined]


def _names(tasks: Sequence[AbsTask]) -> list[str]:
    """Return the names of tasks."""
    return [task.metadata.name for task in tasks]


def _splits(task: AbsTask) -> list[str]:
    """Return the names of the splits that a task's data has."""
    data: Mapping[str, Any] = task.dataset or {}
    # A subset is a mapping of splits; a task without subsets is such a mapping itself.
    splits: set[str] = set()
    for part in data.values():
        if isinstance(part, Mapping):
            splits.update(part)
    return sorted(splits or data)


def score_tasks(
    encoder: TextEncoder,
    tasks: Sequence[AbsTask],
    progress: Callable[[str, int, int], None],
) -> list[list[Score]]:
    """Return each task's scores, its main score first.

    Raises:
        RunError: if an embedding is not finite (or zero, for a classifier), or mteb cannot evaluate a task.
    """
    model = MTEBModel(encoder, model_meta("sentbed/encoder", "the encoder of this run"))
    scores = []
    for number, task in enumerate(tasks):
        progress("tasks", number, len(tasks))
        try:
            result = mteb.evaluate(
                model,
                task,
                co2_tracker=False,
                cache=None,
                encode_kwargs={"batch_size": _ROWS, "show_progress_bar": False},
                show_progress_bar=False,
            )
        except SentbedError:
            raise
        except Exception as error:
            raise RunError(
                f"mteb {mteb.__version__} cannot evaluate the task `{task.metadata.name}`: {_reason(error)}; "
                f"leave it out, or try another version of mteb"
            ) from error

        results = result.task_results[0].scores
        metric = _metric(task, results, encoder.similarity)
        scores.append(list(_scores(task, results, metric)))
    progress("tasks", len(tasks), len(tasks))
    return scores


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
    key = metric
    if metric == task.metadata.main_score:
        key = "main_score"
    about = task.metadata
    datasets, dataset_revisions = [], []
    for part in _parts(task):
        datasets.append(part.metadata.dataset["path"])
        dataset_revisions.append(part.metadata.dataset["revision"])

    shared = {
        "id": "mteb",
        "mteb": mteb.__version__,
        "type": str(about.type),
        "dataset": _single(datasets),
        "revision": _single(dataset_revisions),
        "similarity": "cosine",
        "seed": task.seed,
    }
    if task.is_aggregate:
        shared["of"] = _names(_parts(task))

    values: list[float] = []
    values_protocols: list[dict[str, Any]] = []
    # A dict keeps the order of the results, which a set does not.
    subsets: dict[str, None] = {}
    languages: set[str] = set()
    for split, results_of_split in results.items():
        for result in results_of_split:
            values.append(100 * float(result[key]))
            subsets[result["hf_subset"]] = None
            languages.update(result["languages"])
            values_protocols.append(
                {
                    "split": split,
                    "subset": result["hf_subset"],
                    "languages": sorted(result["languages"]),
                }
            )

    whole = {
        **shared,
        "split": _single(list(results)),
        "subset": _single(list(subsets)),
        "languages": sorted(languages),
    }
    if len(values) == 1:
        yield _score(about.name, metric, values[0], whole)
        return

    mean = sum(values) / len(values)
    yield _score(about.name, metric, mean, {**whole, "aggregation": "mean"})
    for value, protocol in zip(values, values_protocols, strict=True):
        name = metric
        if len(results) > 1:
            name += f"-{protocol['split']}"
        if len(subsets) > 1:
            name += f"-{protocol['subset']}"
        yield _score(about.name, name, value, {**shared, **protocol})


def _score(
    task: str,
    metric: str,
    value: float,
    protocol: dict[str, Any],
) -> Score:
    """Return a score; if the value is NaN, as for collapsed vectors, it is degenerate."""
    degenerate = ""
    if math.isnan(value):
        degenerate = "mteb's score is not a number"
    return Score(task, metric, value, protocol, degenerate=degenerate)


def _single(values: Sequence[str]) -> Any:
    """Return the value if there is only one, otherwise the list of all values."""
    return values[0] if len(values) == 1 else list(values)


def _closest(name: str, names: Sequence[str]) -> str:
    # All of mteb's names would make a message of a thousand lines.
    """Return a sentence that suggests the most similar of the names, or says where mteb lists them."""
    folded = {candidate.casefold(): candidate for candidate in names}
    close = get_close_matches(name.casefold(), folded, n=1)
    if close:
        return f" Did you mean `{folded[close[0]]}`?"
    return " `mteb.get_tasks()` and `mteb.get_benchmarks()` list the names."


def _reason(error: Exception) -> str:
    """Return an error's type and the first line of its message."""
    message = str(error).strip().partition("\n")[0]
    if not message:
        return type(error).__name__
    return f"{type(error).__name__}: {message}"
