"""Which items of evaluations occur in training texts, and scores on the clean items, which do not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import attrs
from sentbed.protocols import Evaluator, Items, Prepared, Score
from sentbed_report.statistics.difference import Difference, Source

from sentbed_audit.clean.seen_texts import SeenTexts
from sentbed_audit.clean.training_texts import TrainingSource, texts_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Flags: TypeAlias = NDArray[np.bool_]

FEWEST_ITEMS = 2
"""Smallest number of clean items that have a score, and of those of a group that count in it."""


class Overlap:
    """The items of evaluations, and which of them occur in training texts."""

    def __init__(
        self,
        evaluators: Iterable[Evaluator],
        training: Sequence[TrainingSource],
    ) -> None:
        self._items: dict[tuple[str, str], list[Sequence[tuple[str, ...]]]] = {}
        texts: set[str] = set()
        for evaluator in evaluators:
            prepared = evaluator.prepare()
            if not isinstance(prepared, Prepared):
                continue
            for task, items in prepared.item_texts().items():
                tasks = self._items.setdefault((evaluator.name, task), [])
                if items not in tasks:
                    tasks.append(items)
                texts.update(*items)

        self.training = training
        search = SeenTexts(texts, chain.from_iterable(map(texts_of, training)))
        self.read = search.read
        """Number of training texts that were read."""
        self._seen = set(filter(search.is_seen, texts))

    def seen_items(self, score: Score) -> Flags | None:
        """Return whether any text of each item of a score is seen, `(items,)`.

        None if it is unknown which texts the items have.
        """
        import numpy as np

        if score.items is None:
            return None
        for task in (f"{score.task}/{score.metric}", score.task):
            tasks = self._items.get((score.evaluator, task), ())
            fitting = [items for items in tasks if len(items) == len(score.items.x)]
            # If several evaluations fit, it is unknown to which of them the score belongs.
            if len(fitting) == 1:
                return np.array(
                    [not self._seen.isdisjoint(texts) for texts in fitting[0]]
                )
        return None


def clean_score(items: Items, seen: Flags) -> tuple[float, Difference] | None:
    """Return the score on the items that are not `seen`, and its difference from the score on all items.

    It is None if there are fewer than two such items, or if their correlation is undefined. In a correlation by
    groups, the only clean item of a group is left out: alone it would count as 0. The difference is paired by
    item.
    """
    import numpy as np
    from sentbed_common import item_influences, item_score

    kept = ~seen
    if items.groups is not None and items.statistic != "mean":
        counts = np.bincount(items.groups[kept], minlength=int(items.groups.max()) + 1)
        kept &= counts[items.groups] >= FEWEST_ITEMS
    if kept.sum() < FEWEST_ITEMS:
        return None

    columns = {}
    for name in ("x", "y", "groups", "clusters"):
        column = getattr(items, name)
        if column is not None:
            columns[name] = column[kept]
    clean = attrs.evolve(items, **columns)
    if _is_undefined(clean):
        return None
    value = item_score(clean)

    # A kept item influences both scores, and the difference by the difference of its influences on them.
    influences = -item_influences(items)
    influences[kept] += item_influences(clean)
    if items.clusters is not None:
        _, cluster = np.unique(items.clusters, return_inverse=True)
        influences = np.bincount(cluster, influences).astype(np.float64)
    degrees = len(influences) - 1
    variance = float(influences @ influences) * len(influences) / max(degrees, 1)
    sources = {"items": Source(variance, degrees)}
    return value, Difference(value - item_score(items), sources)


def _is_undefined(items: Items) -> bool:
    """Whether the score is a correlation over items that have equal values, in one of their groups."""
    import numpy as np
    from sentbed_common import item_groups

    if items.statistic not in ("pearson", "spearman"):
        return False
    for group in item_groups(items):
        for values in group.columns:
            if np.ptp(values) == 0:
                return True
    return False
