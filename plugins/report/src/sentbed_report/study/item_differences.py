"""Items behind the difference of two cells in a task: predictions, gold values, and each item's share.

If the score is a mean, an item's share is its value divided by the number of items n. If the score is a
correlation, the share is the product of the item's two standardised values (standardised ranks, for Spearman's
correlation) divided by n. These shares sum to the score. Other built-in statistics are not sums over items. An
item's share is then its influence (`Items.influences`), which says how much the item moves the score; these
shares sum to 0. If the statistic is a function of a plugin, all shares are 0.

An item's share of the difference is its share in the second cell minus its share in the first cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.errors import RunError, suggest
from sentbed.protocols import START, Items

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
class _ItemsOfRun:
    """Items of a task in one run."""

    seed: int
    prompt: str
    metric: str
    items: Items


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
    cell that has items determines which items are returned; cells and runs with other items are left out.

    Raises:
        RunError: if no score of the task has items.
    """
    reference: _ItemsOfRun | None = None
    for cell in data.cells:
        runs = _items_of_runs(data, cell, task, evaluator, metric, protocol)
        if runs:
            reference = runs[0]
            break
    if reference is None:
        raise RunError(_without_items(data, task))

    cells = {}
    for cell in data.cells:
        comparable = []
        for run in _items_of_runs(
            data, cell, task, evaluator, reference.metric, protocol
        ):
            if _has_same_items(run.items, reference.items):
                comparable.append(run)
        comparable = _under_every_prompt(data, comparable)
        if comparable:
            cells[cell.name] = CellItems(tuple(run.items for run in comparable))

    first = reference.items
    gold = None
    if first.statistic != "mean":
        gold = first.x.astype(float)
    are_sums = first.statistic in SUMS
    return TaskItems(task, reference.metric, gold, first.groups, are_sums, cells)


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
        _items_of_runs(data, cell, task, evaluator, metric, protocol)
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


def _items_of_runs(
    data: StudyData,
    cell: CellInfo,
    task: str,
    evaluator: str,
    metric: str,
    protocol: Mapping[str, Any] | None,
) -> list[_ItemsOfRun]:
    """Return the items of a task in each run, from the first score after training that matches the arguments.

    As in the tables, a seed is left out if it lacks a score under any prompt.
    """
    runs = []
    for run in cell.runs:
        for score in run.scores:
            if score.items is None or score.encoder.endswith(START):
                continue
            if score.task != task:
                continue
            if evaluator not in ("", score.evaluator):
                continue
            if metric not in ("", score.metric):
                continue
            if protocol is not None and evaluation_protocol(score) != protocol:
                continue
            runs.append(_ItemsOfRun(run.seed, run.prompt, score.metric, score.items))
            break
    return _under_every_prompt(data, runs)


def _under_every_prompt(
    data: StudyData, runs: Sequence[_ItemsOfRun]
) -> list[_ItemsOfRun]:
    """Return the runs of the seeds that have a run under every prompt; in a study without prompts, all."""
    if not data.prompts:
        return list(runs)

    prompts: dict[int, set[str]] = {}
    for run in runs:
        prompts.setdefault(run.seed, set()).add(run.prompt)
    return [run for run in runs if prompts[run.seed] == set(data.prompts)]


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
