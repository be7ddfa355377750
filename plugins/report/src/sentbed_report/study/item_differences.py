"""Items behind the difference of two cells in a task: predictions, gold values, and each item's share.

If the score is a mean, an item's share is its value divided by the number of items n. If the score is a
correlation, the share is the product of the item's two standardised values (standardised ranks, for Spearman's
correlation) divided by n. These shares sum to the score. Other built-in statistics are not sums over items. An
item's share is then its influence (`Items.influences`), which says how much the item moves the score; these
shares sum to 0. If the statistic is a function of a plugin, all shares are 0.

An item's share of the difference is its share in the second cell minus its share in the first cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.errors import RunError, suggest
from sentbed.protocols import START, Items, Score

from sentbed_report.score_protocols import evaluation_protocol
from sentbed_report.statistics.same_items import require_same
from sentbed_report.study.study_data import CellInfo, StudyData

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from numpy.typing import NDArray
    from sentbed_common.item_statistics import Floats


SUMS = ("mean", "pearson", "spearman")
"""Statistics that are sums over items, so that the items' shares sum to the score."""


@attrs.frozen(eq=False)
class CellItems:
    """Items of one task in one cell."""

    of_runs: tuple[Items, ...]
    """One entry per run of the cell, at least one. All runs have the same items."""

    @property
    def score(self) -> float:
        """Mean score over the runs."""
        from sentbed_common import item_score

        return fmean(item_score(items) for items in self.of_runs)

    @property
    def predictions(self) -> Floats:
        """`(items,)`: mean over the runs of each item's prediction, or of its value if the score is a mean."""
        import numpy as np

        predictions = []
        for items in self.of_runs:
            if items.y is None:
                predictions.append(items.x)
            else:
                predictions.append(items.y)
        mean: Floats = np.mean(predictions, axis=0, dtype=float)
        return mean

    @property
    def shares(self) -> Floats:
        """`(items,)`: each item's mean share over the runs, in the unit of the score."""
        import numpy as np

        shares_of_runs = list(map(item_shares, self.of_runs))
        mean: Floats = np.mean(shares_of_runs, axis=0)
        return mean


@attrs.frozen(eq=False)
class TaskItems:
    """Items of a task under one protocol, with the items of each cell."""

    task: str
    metric: str
    gold: Floats | None
    """`(items,)`: gold values; None if the score is a mean, whose items have no gold values."""
    groups: NDArray[np.int64] | None
    """`(items,)`: number of each item's group, such as a subset of the task; None without groups."""
    are_sums: bool
    """Whether the shares in a cell sum to the cell's score; see `SUMS`."""
    cells: Mapping[str, CellItems]
    """Name of a cell -> its items; cells without these items are left out."""


def task_items(
    data: StudyData,
    task: str,
    evaluator: str = "",
    metric: str = "",
    protocol: Mapping[str, Any] | None = None,
) -> TaskItems:
    """Return the items of a task in all cells.

    By default, `metric` is the first metric of the task that has items, and `protocol` may be any. The first
    cell that has items determines which items are returned; cells with other items are left out.

    Raises:
        RunError: if no score of the task has items.
    """
    items_of_cells: dict[str, tuple[Items, ...]] = {}
    for cell in data.cells:
        scores = _scores_with_items(data, cell, task, evaluator, metric, protocol)
        if scores:
            metric = scores[0].metric
            of_runs = [score.items for score in scores if score.items is not None]
            items_of_cells[cell.name] = tuple(of_runs)
    if not items_of_cells:
        raise RunError(_without_items(data, task))

    first = next(iter(items_of_cells.values()))[0]
    cells = {}
    for name, items in items_of_cells.items():
        if all(_has_same_items(of_run, first) for of_run in items):
            cells[name] = CellItems(items)

    gold = None
    if first.statistic != "mean":
        gold = first.x.astype(float)
    are_sums = first.statistic in SUMS
    return TaskItems(task, metric, gold, first.groups, are_sums, cells)


def _without_items(data: StudyData, task: str) -> str:
    """Return the error message for a task whose scores have no items."""
    tasks = set()
    for run in data.runs:
        for score in run.scores:
            tasks.add(score.task)
    message = f"no score of the task `{task}` has items"
    if data.prompts:
        message += " under every prompt"
    return f"{message}.{suggest(task, sorted(tasks))}"


def has_items(
    data: StudyData,
    task: str,
    evaluator: str,
    metric: str,
    protocol: Mapping[str, Any],
) -> bool:
    """Whether any cell has items of a task; the arguments are those of `task_items`."""
    return any(
        _scores_with_items(data, cell, task, evaluator, metric, protocol)
        for cell in data.cells
    )


def item_differences(
    data: StudyData,
    first: str,
    second: str,
    task: str,
) -> pandas.DataFrame:
    """Return the items behind the difference of two cells, one per row, the largest shares first.

    Columns: `item` (its number in the data, from 0), `gold`, `first` and `second` (predictions of the two
    cells, as means over their seeds and prompts), `share` (the item's share in the second score minus its share
    in the first, in the unit of the score), `group`.

    Raises:
        RunError: if a cell has no items in the task, or there is no such cell.
    """
    import numpy as np
    import pandas

    items = task_items(data, task)
    for cell in (first, second):
        if cell not in items.cells:
            names = [cell_of_study.name for cell_of_study in data.cells]
            raise RunError(
                f"no cell `{cell}` has items of the task `{task}`.{suggest(cell, names)}"
            )

    before = items.cells[first]
    after = items.cells[second]
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
    return frame.sort_values(
        "share",
        key=abs,
        ascending=False,
        ignore_index=True,
    )


def _scores_with_items(
    data: StudyData,
    cell: CellInfo,
    task: str,
    evaluator: str,
    metric: str,
    protocol: Mapping[str, Any] | None,
) -> list[Score]:
    """Return the first score with items of each run after training that matches the arguments.

    As in the tables, a seed is left out if it lacks a score under any prompt.
    """
    by_seed: dict[int, dict[str, Score]] = {}
    for run in cell.runs:
        for score in run.scores:
            if score.items is None or score.encoder.endswith(START):
                continue
            if score.task != task or evaluator not in ("", score.evaluator):
                continue
            if metric not in ("", score.metric):
                continue
            if protocol is None or evaluation_protocol(score) == protocol:
                by_seed.setdefault(run.seed, {}).setdefault(run.prompt, score)

    scores: list[Score] = []
    for of_prompts in by_seed.values():
        if of_prompts.keys() >= set(data.prompts):
            scores += of_prompts.values()
    return scores


def _has_same_items(items: Items, first: Items) -> bool:
    """Whether `items` are the same items as `first`."""
    try:
        require_same(first, items)
    except RunError:
        return False
    return True


def item_shares(items: Items) -> Floats:
    """Return the share of each item in the score, `(n,)`."""
    import numpy as np
    from sentbed_common import item_groups, item_influences

    if items.statistic not in SUMS:
        return item_influences(items)

    shares = np.zeros(len(items.x))
    for group in item_groups(items):
        values = group.columns[0]
        if items.statistic != "mean":
            x, y = group.columns
            values = _standard(x, items.statistic) * _standard(y, items.statistic)
        shares[group.members] = items.scale * group.share * values / len(values)
    return shares


def _standard(values: Floats, statistic: object) -> Floats:
    """Return standardised values (for Spearman's correlation, standardised ranks); zeros if all are equal."""
    import numpy as np
    from scipy import stats

    if statistic == "spearman":
        values = stats.rankdata(values)
    deviation = values.std()
    if deviation == 0:
        return np.zeros(len(values))
    standard: Floats = (values - values.mean()) / deviation
    return standard
