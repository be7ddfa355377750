"""mteb's tasks: finding them, loading their data, and scoring an encoder on them."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeAlias

import attrs
import mteb
from mteb import AbsTask
from sentbed import DataError, RunError
from sentbed.errors import SentbedError
from sentbed.protocols import Score, Similarity, TextEncoder

from sentbed_evaluators._mteb.adapter import MTEBModel, model_meta
from sentbed_evaluators.similarities import is_cosine

_Results: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]
"""mteb's results of a task: split -> those of each subset."""

_ROWS = 4096
"""Texts per batch from mteb; they are gathered again, so that it affects only overhead."""

_BY_COSINE = "cosine_"
"""Beginning of the name of a score by the cosine; without it, the score is by the model's similarity."""


@attrs.frozen
class Filters:
    """The part of a task to score; empty filters select all of it."""

    languages: tuple[str, ...] = ()
    subsets: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()


def find_tasks(names: Sequence[str], filters: Filters) -> list[AbsTask]:
    """Return the tasks by name, or by `module:Class`; raises `DataError` with the names to choose from."""
    tasks = []
    for name in names:
        find = _task_of_module if ":" in name else _task_of_mteb
        tasks.append(find(name))
    for task in tasks:
        if task.is_aggregate and filters != Filters():
            parts = _listed([part.metadata.name for part in _parts(task)])
            raise DataError(
                f"`languages`, `subsets` and `splits` cannot change the task `{task.metadata.name}`, which "
                f"is the mean of others; remove them, or name its tasks: {parts}"
            )
        try:
            task.filter_languages(
                filters.languages or None, hf_subsets=filters.subsets or None
            )
        except ValueError as error:
            raise DataError(
                f"of the task `{task.metadata.name}` nothing is left by `languages` "
                f"{list(filters.languages)} and `subsets` {list(filters.subsets)} ({error}); its subsets are "
                f"{_listed(task.metadata.hf_subsets_to_langscripts)}"
            ) from error
        task.filter_eval_splits(filters.splits or None)
    subsets: set[str] = set()
    for task in tasks:
        subsets.update(task.metadata.hf_subsets_to_langscripts)
    for subset in filters.subsets:
        if subset not in subsets:
            raise DataError(
                f"no task has the subset `{subset}`; the subsets are {_listed(sorted(subsets))}"
            )
    return _of_texts(tasks)


def find_benchmark(name: str) -> list[AbsTask]:
    """Return the tasks of one of mteb's benchmarks; raises `DataError` with the closest name."""
    try:
        return _of_texts(list(mteb.get_benchmark(name).tasks))
    except KeyError as error:
        names = [benchmark.name for benchmark in mteb.get_benchmarks()]
        raise DataError(
            f"mteb has no benchmark `{name}`.{_closest(name, names)}"
        ) from error


def _task_of_mteb(name: str) -> AbsTask:
    try:
        return mteb.get_task(name)
    except KeyError as error:
        tasks = mteb.get_tasks(
            exclude_superseded=False, exclude_private=False, exclude_beta=False
        )
        names = [task.metadata.name for task in tasks]
        raise DataError(f"mteb has no task `{name}`.{_closest(name, names)}") from error


def _task_of_module(name: str) -> AbsTask:
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
    for task in tasks:
        if others := sorted(set(task.metadata.modalities) - {"text"}):
            raise DataError(
                f"mteb's task `{task.metadata.name}` needs {_listed(others)}, but an encoder reads `text`; "
                f"leave it out"
            )
    return tasks


def load(tasks: Sequence[AbsTask], filters: Filters) -> dict[str, str]:
    """Load the data of all tasks, and return the errors of unavailable ones by task name.

    Raises `DataError` if a task has data, but not the requested split.
    """
    missing = {}
    for task in tasks:
        try:
            for part in _parts(task):
                part.load_data()
        except SentbedError:
            raise
        except Exception as error:  # noqa: BLE001 - a task's loading code and the hub may raise anything
            missing[task.metadata.name] = (
                f"{part.metadata.dataset['path']}: {_reason(error)}"
            )
            continue
        for split in filters.splits:
            for part in _parts(task):
                if split not in (splits := _splits(part)):
                    raise DataError(
                        f"the task `{task.metadata.name}` has no split `{split}`; it has {_listed(splits)}"
                    )
    return missing


def unload(tasks: Sequence[AbsTask]) -> None:
    """Release the data of all tasks; otherwise mteb keeps that of benchmarks alive."""
    for task in tasks:
        for part in _parts(task):
            if part.data_loaded:
                part.unload_data()


def _parts(task: AbsTask) -> Sequence[AbsTask]:
    """Return the tasks that an aggregate averages; for any other task, itself."""
    return task.metadata.tasks if task.is_aggregate else [task]  # type: ignore[attr-defined]


def _splits(task: AbsTask) -> list[str]:
    data: Mapping[str, Any] = task.dataset or {}
    # A subset is a mapping of splits; a task without subsets is such a mapping itself.
    nested = [part for part in data.values() if isinstance(part, Mapping)]
    return sorted(set().union(*(nested or [data])))


def score_tasks(
    encoder: TextEncoder,
    tasks: Sequence[AbsTask],
    progress: Callable[[str, int, int], None],
) -> list[list[Score]]:
    """Return each task's scores, its main score first.

    Raises:
        RunError: if an embedding is not finite, or mteb cannot evaluate a task.
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


def _metric(task: AbsTask, results: _Results, similarity: Similarity | None) -> str:
    """Return the name of a task's main score, by the encoder's similarity where mteb has both."""
    main: str = task.metadata.main_score
    if is_cosine(similarity) or not main.startswith(_BY_COSINE):
        return main
    metric = main.removeprefix(_BY_COSINE)
    subsets = next(iter(results.values()))
    return metric if metric in subsets[0] else main


def _scores(task: AbsTask, results: _Results, metric: str) -> Iterator[Score]:
    """Yield a task's score, then those of its splits and subsets if it has several."""
    key = "main_score" if metric == task.metadata.main_score else metric
    about = task.metadata
    sources = [part.metadata.dataset for part in _parts(task)]
    shared = {
        "id": "mteb",
        "mteb": mteb.__version__,
        "type": str(about.type),
        "dataset": _single([source["path"] for source in sources]),
        "revision": _single([source["revision"] for source in sources]),
        "similarity": "cosine",
        "seed": task.seed,
    }
    if task.is_aggregate:
        shared["of"] = [part.metadata.name for part in _parts(task)]

    parts: list[tuple[float, dict[str, Any]]] = []
    for split, of_split in results.items():
        for result in of_split:
            where = {
                "split": split,
                "subset": result["hf_subset"],
                "languages": sorted(result["languages"]),
            }
            parts.append((100 * float(result[key]), where))
    splits = list(results)
    subsets = list(dict.fromkeys(where["subset"] for _, where in parts))
    languages: set[str] = set()
    for _, where in parts:
        languages.update(where["languages"])
    whole: dict[str, Any] = {
        "split": _single(splits),
        "subset": _single(subsets),
        "languages": sorted(languages),
    }
    if len(parts) > 1:
        whole["aggregation"] = "mean"
    mean = sum(value for value, _ in parts) / len(parts)
    yield _score(about.name, metric, mean, {**shared, **whole})
    if len(parts) == 1:
        return
    for value, where in parts:
        name = metric
        if len(splits) > 1:
            name += f"-{where['split']}"
        if len(subsets) > 1:
            name += f"-{where['subset']}"
        yield _score(about.name, name, value, {**shared, **where})


def _score(task: str, metric: str, value: float, protocol: dict[str, Any]) -> Score:
    if math.isnan(value):
        # An encoder may collapse during training: that gives the lowest useful score, not an error.
        return Score(
            task,
            metric,
            0.0,
            protocol,
            note="mteb's score is not a number, and counts as 0",
        )
    return Score(task, metric, value, protocol)


def _single(values: Sequence[str]) -> Any:
    return values[0] if len(values) == 1 else list(values)


def _listed(names: Collection[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _closest(name: str, names: Sequence[str]) -> str:
    # All of mteb's names would make a message of a thousand lines.
    folded = {candidate.casefold(): candidate for candidate in names}
    close = get_close_matches(name.casefold(), folded, n=1)
    if close:
        return f" Did you mean `{folded[close[0]]}`?"
    return " `mteb.get_tasks()` and `mteb.get_benchmarks()` list what there is."


def _reason(error: Exception) -> str:
    message = str(error).strip().partition("\n")[0]
    if not message:
        return type(error).__name__
    return f"{type(error).__name__}: {message}"
