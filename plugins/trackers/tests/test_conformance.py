"""Every tracker of this distribution keeps the contract of its kind."""

from __future__ import annotations

import sentbed_trackers
from sentbed_testing import offered, parametrize_with_rules


@parametrize_with_rules(offered(sentbed_trackers.trackers()), must_run=True)
def test_a_tracker_keeps_the_contract(rule):
    rule()
