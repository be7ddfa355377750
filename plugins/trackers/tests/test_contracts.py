"""Every tracker of this distribution keeps the contract of its kind."""

from __future__ import annotations

import pytest
import sentbed_trackers
from sentbed_testing import TrackerContract, offered

# MLflow takes seconds to load, and has mappers that warn at their first use.
MLFLOW = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy"),
]
TRACKERS = []
for tracker in offered(sentbed_trackers.trackers()):
    marks = MLFLOW if tracker.name == "mlflow" else []
    TRACKERS.append(pytest.param(tracker(), id=tracker.name, marks=marks))


class TestTrackers(TrackerContract):
    @pytest.fixture(params=TRACKERS)
    def component(self, request):
        return request.param
