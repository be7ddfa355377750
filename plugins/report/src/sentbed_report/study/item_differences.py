"""The items behind the difference of two cells in one task: predictions, gold, and each item's share.

The shares of all items sum to the difference. That of an item in one score is, for a mean, its value over the
number of items; for a correlation, the product of the two standard scores (of ranks, for Spearman's) over the
number of items, which sum to it. Of other statistics, which are no sums over items, it is the item's
influence (`Items.influences`): the shares then say which items move the score, and sum to 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
from sentbed.errors import RunError, suggest
from sentbed.protocols import START, Items, Score

from sentbed_report.comparability import evaluation_protocol
from sentbed_report.statistics.same_items import require_same
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from numpy.typing import NDArray
    from sentbed.statistics.named_statistics import Floats

_RunScore: TypeAlias = tuple[CellRun, Score]
"""A run and its score of a task."""

SUMS = ("mean", "pearson", "spearman")
"""Statistics that are sums over items."""


@attrs.frozen(eq=False)
class CellItems:
    """Items of one cell in one task. Means over its runs are made when they are asked for."""

    of_runs: tuple[Items, ...]
    """Items under each seed and prompt, which are the same ones; at least one."""

    @property
    def predictions(self) -> Floats:
        """`(items,)`: the prediction, such as a cosine; for a mean the item's value."""
        import numpy as np

        predictions = []
        for items in self.of_runs:
            of_run = items.x if items.y is None else items.y
            predictions.append(of_run)
        mean: Floats = np.mean(predictions, axis=0, dtype=float)
        return mean

    @property
    def shares(self) -> Floats:
        """`(items,)`, in the unit of the score."""
        import numpy as np

        mean: Floats = np.mean([item_shares(items) for items in self.of_runs], axis=0)
        return mean


@attrs.frozen(eq=False)
class TaskItems:
    """Items of a task under one protocol, and each cell's predictions for them."""

    task: str
    metric: str
    gold: Floats | None
    """`(items,)`; None for a mean, whose items have no gold value apart."""
    groups: NDArray[np.int64] | None
    """`(items,)`: number of the subset that an item is from."""
    are_sums: bool
    """Whether the shares of a cell sum to its score."""
    cells: Mapping[str, CellItems]


def task_items(
    data: StudyData,
    task: str,
    evaluator: str = "",
    metric: str = "",
    protocol: Mapping[str, Any] | None = None,
) -> TaskItems:
    """Return the items of all cells in a task, by its first metric and under any protocol by default.

    Raises:
        RunError: if no score of the task has items.
    """
    first: Items | None = None
    name = metric
    cells = {}
    for cell in data.cells:
        scores = _scores(data, cell, task, evaluator, name, protocol)
        if first is None and scores:
            first, name = scores[0][1].items, scores[0][1].metric
        comparable = []
        for run, score in scores:
            if score.items is not None and _has_same_items(score.items, first):
                comparable.append((run, score))
        of_runs = tuple(
            score.items
            for _, score in _under_every_prompt(data, comparable)
            if score.items
        )
        if of_runs:
            cells[cell.name] = CellItems(of_runs)
    if first is None:
        tasks: set[str] = set()
        for cell in data.cells:
            for run in cell.runs:
                tasks.update(score.task for score in run.scores)
        under = " under every prompt" if data.prompts else ""
        raise RunError(
            f"no score of the task `{task}` has items{under}.{suggest(task, sorted(tasks))}"
        )
    gold = None
    if first.statistic != "mean":
        gold = first.x.astype(float)
    return TaskItems(
        task,
        name,
        gold,
        first.groups,
        first.statistic in SUMS,
        cells,
    )


def has_items(
    data: StudyData, task: str, evaluator: str, metric: str, protocol: Mapping[str, Any]
) -> bool:
    """Whether a cell has items in a task, as `task_items`."""
    return any(
        _scores(data, cell, task, evaluator, metric, protocol) for cell in data.cells
    )


def item_differences(
    data: StudyData, first: str, second: str, task: str
) -> pandas.DataFrame:
    """Return the items that make the difference of two cells, a row an item, the largest shares first.

    Columns: `item` (its number in the data, from 0), `gold`, `first` and `second` (predictions of the cells,
    as means over their seeds and prompts), `share` (of the second less the first, in the unit of the score),
    `group`.

    Raises:
        RunError: if a cell has no items in the task, or there is no such cell.
    """
    import numpy as np
    import pandas

    items = task_items(data, task)
    for cell in (first, second):
        if cell not in items.cells:
            names = [of_study.name for of_study in data.cells]
            raise RunError(
                f"no cell `{cell}` has items of the task `{task}`.{suggest(cell, names)}"
            )
    before, after = items.cells[first], items.cells[second]
    share = after.shares - before.shares
    frame = pandas.DataFrame(
        {
            "item": np.arange(len(share)),
            "gold": items.gold,
            "first": before.predictions,
            "second": after.predictions,
            "share": share,
            "group": items.groups,
        }
    )
    return frame.sort_values("share", key=abs, ascending=False, ignore_index=True)


def _scores(
    data: StudyData,
    cell: CellInfo,
    task: str,
    evaluator: str,
    metric: str,
    protocol: Mapping[str, Any] | None,
) -> list[_RunScore]:
    """Return the score of a task in each run: its first one that has items, after training.

    As in the tables, a seed counts when it has a score under every prompt.
    """
    scores = []
    for run in cell.runs:
        for score in run.scores:
            is_wanted = score.task == task and evaluator in ("", score.evaluator)
            is_wanted = (
                is_wanted
                and metric in ("", score.metric)
                and not score.encoder.endswith(START)
            )
            is_wanted = is_wanted and score.items is not None
            if is_wanted and (
                protocol is None or evaluation_protocol(score) == protocol
            ):
                scores.append((run, score))
                break
    return _under_every_prompt(data, scores)


def _under_every_prompt(
    data: StudyData, scores: Sequence[_RunScore]
) -> list[_RunScore]:
    """Return the scores of those seeds that have one under each prompt; all in a study without prompts."""
    if not data.prompts:
        return list(scores)
    prompts: dict[int, set[str]] = {}
    for run, _ in scores:
        prompts.setdefault(run.seed, set()).add(run.prompt)
    return [
        (run, score) for run, score in scores if prompts[run.seed] == set(data.prompts)
    ]


def _has_same_items(items: Items, first: Items | None) -> bool:
    if first is None:
        return False
    try:
        require_same(first, items)
        items.require_usable()
    except RunError:
        return False
    return True


def item_shares(items: Items) -> Floats:
    """Return the share of each item in the score, `(n,)`; zero where nothing is known of the statistic."""
    import numpy as np

    if callable(items.statistic):
        return np.zeros(len(items.x))
    if items.statistic not in SUMS:
        return items.influences()
    shares = np.zeros(len(items.x))
    for group in items.by_group():
        parts = group.columns[0]
        if items.statistic != "mean":
            x, y = group.columns
            parts = _standard(x, items.statistic) * _standard(y, items.statistic)
        shares[group.members] = items.scale * group.share * parts / len(parts)
    return shares


def _standard(values: Floats, statistic: object) -> Floats:
    """Return standard scores of values, or of their ranks; zeros where all are equal."""
    import numpy as np
    from scipy import stats

    if statistic == "spearman":
        values = stats.rankdata(values)
    deviation = values.std()
    if deviation == 0:
        return np.zeros(len(values))
    standard: Floats = (values - values.mean()) / deviation
    return standard
