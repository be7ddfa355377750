"""Every tracker of this distribution keeps the contract of its kind."""

from __future__ import annotations

import pytest
import sentbed_trackers
from sentbed_testing import check_component, offered


@pytest.mark.parametrize("tracker", offered(sentbed_trackers.trackers()))
def test_a_tracker_keeps_the_contract(tracker: type) -> None:
    assert check_component(tracker, kind="tracker").not_run == {}
