from __future__ import annotations

import numpy as np
import pytest
from sentbed.protocols import Items


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mean", np.array([])), "`x` .* expected an array of 1 finite numbers"),
        (("mean", np.array([1.0, np.nan])), "`x` .* of 2 finite numbers"),
        (("mean", [1.0, 2.0]), r"`x` of the items is \[1.0, 2.0\], expected an array"),
        (("mean", np.array(["a"])), "`x` .* of 1 finite numbers"),
        (("spearman", np.ones(3), np.ones(2)), "`y` .* of 3 finite numbers"),
        (("spearman", np.ones(3)), "found items of `spearman`; give `y`"),
        (("mean", np.ones(3), np.ones(3)), "found items of `mean`; give `y`"),
        (("median", np.ones(3)), "'average-precision', 'f1'"),
    ],
)
def test_items_that_cannot_be_used_are_refused_when_they_are_made(arguments, message):
    with pytest.raises(ValueError, match=message):
        Items(*arguments)
