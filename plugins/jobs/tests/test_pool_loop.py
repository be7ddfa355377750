from __future__ import annotations

import pytest
from sentbed import DataError, RunError
from sentbed_jobs.pool_loop import Died, Done, Failed, run_pool


class Script:
    """A transport whose workers are numbers, and whose events are those of a script, one list a wait."""

    def __init__(self, *waits):
        self.waits = list(waits)
        self.started = 0

    def start_worker(self):
        self.started += 1
        return self.started

    def submit(self, worker, task):
        pass

    def wait(self, workers):
        return self.waits.pop(0)

    def shutdown(self, workers):
        pass


@pytest.mark.parametrize(
    ("event", "error"),
    [(Failed(DataError("bad row"), "traceback"), DataError), (Died("died"), RunError)],
)
def test_a_result_that_arrives_together_with_a_failure_is_not_lost(event, error):
    script = Script([(1, event), (2, Done("b")), (3, Done("c"))])
    tasks = ["a", "b", "c", "d"]
    results = run_pool(script, 3, tasks, 0, lambda _: None)
    assert [next(results), next(results)] == [("b", "b"), ("c", "c")]
    with pytest.raises(error):
        next(results)
