from __future__ import annotations

import attrs
import numpy as np
import pytest
from sentbed.protocols import Items
from sentbed_report.statistics.same_items import why_not_same


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"x": np.arange(59.0), "y": np.arange(59.0)},
            "one was scored on 60 items, the other on 59",
        ),
        ({"x": np.arange(60.0)}, "their gold values differ, or stand in another order"),
        ({"groups": np.zeros(60, int)}, "their items are grouped in different ways"),
        ({"statistic": "pearson"}, "one is a `spearman`, the other a `pearson`"),
        ({"scale": 1.0}, "of another scale or weighting"),
    ],
)
def test_scores_of_other_items_are_not_paired(changed, message):
    x, y = np.arange(60.0)[::-1], np.arange(60.0)
    items = Items("spearman", x, y)
    assert message in why_not_same(items, attrs.evolve(items, **changed))
