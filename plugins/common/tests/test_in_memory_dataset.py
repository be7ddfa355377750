from __future__ import annotations

import pytest
from sentbed_common import InMemoryDataset


@pytest.mark.parametrize(
    ("positive", "message"),
    [
        (["c"], "found 2 of `anchor`, 1 of `positive`, expected as many values"),
        ("cd", "the column `positive` is 'cd', expected a list of values"),
        (["c", None], "`positive` has values of the type `NoneType`, expected texts"),
    ],
)
def test_columns_that_do_not_fit_are_refused_when_the_data_set_is_made(
    positive, message
):
    with pytest.raises((ValueError, TypeError), match=message):
        InMemoryDataset({"anchor": ["a", "b"], "positive": positive})
