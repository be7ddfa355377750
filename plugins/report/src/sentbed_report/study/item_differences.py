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
from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING

import attrs
from sentbed.errors import RunError, suggest
from sentbed.protocols import Items

from sentbed_report.statistics.same_items import why_not_same
from sentbed_report.study.summary_tables import Summary

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


def items_of_column(table: Summary, place: int) -> TaskItems | None:
    """Return the items behind the numbers of a table's column; None if no number has items.

    The first cell that has items determines which items are returned; cells with other items are left out.
    """
    column = table.columns[place]
    first = None
    cells: dict[str, CellItems] = {}
    for row in table.rows:
        scores = row.cells[place].scores
        if scores is None or row.cell in cells:
            continue
        items = []
        for score in chain.from_iterable(scores.of_runs.values()):
            if score.items is not None:
                items.append(score.items)
        if not items:
            continue
        first = first or items[0]
        if not any(why_not_same(first, of_run) for of_run in items):
            cells[row.cell] = CellItems(tuple(items))
    if first is None:
        return None

    gold = None
    if first.statistic != "mean":
        gold = first.x.astype(float)
    are_sums = first.statistic in SUMS
    return TaskItems(column.task, column.metric, gold, first.groups, are_sums, cells)


def item_differences(
    tables: Sequence[Summary],
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

    items = _items_of_task(tables, task)
    for cell in (first, second):
        if cell not in items.cells:
            raise RunError(
                f"no cell `{cell}` has items of the task `{task}`.{suggest(cell, list(items.cells))}"
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


def _items_of_task(tables: Sequence[Summary], task: str) -> TaskItems:
    """Return the items of the first column of a task that has any. Raises `RunError` if there is none."""
    tasks: dict[str, None] = {}
    for table in tables:
        for place, column in enumerate(table.columns):
            tasks[column.task] = None
            items = None
            if column.task == task and not column.average:
                items = items_of_column(table, place)
            if items is not None:
                return items
    raise RunError(
        f"no score of the task `{task}` has items.{suggest(task, sorted(tasks))}"
    )


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
