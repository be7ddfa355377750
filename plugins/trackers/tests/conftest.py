"""What a run tells its trackers, without a run."""

from __future__ import annotations

from types import MappingProxyType

import pluggy
import pytest
from sentbed import hookspecs
from sentbed.protocols import Evaluation, Run, Score, StepResult

RECIPE = """\
schema = 1
[run]
name = "my-run"
[[stage]]
name = "nli"
loss = { use = "info-nce", temperature = 0.05 }
[[stage]]
name = "align"
epochs = 2
[[evaluate]]
use = "sts"
tasks = ["a", "b"]
[expected]
"STS12@p" = { value = 72.0 }
"""


class Following:
    """Tells a tracker, through the hooks as the runner calls them, what a run of two stages shows."""

    def __init__(self, directory, *trackers):
        directory.mkdir(exist_ok=True)
        (directory / "resolved.toml").write_text(RECIPE)
        self.facts = {}
        """What the trackers want the manifest to say."""
        self.run = Run("my-run", directory, None, MappingProxyType(self.facts))
        manager = pluggy.PluginManager("sentbed")
        manager.add_hookspecs(hookspecs)
        for tracker in trackers:
            manager.register(tracker)
        self.hooks = manager.hook

    def start(self):
        self._add_facts(self.hooks.run_started(run=self.run))
        return self

    def resume(self, states, **facts):
        self.facts.update(facts)
        self.facts.setdefault("resumed", [{"stage": 0, "step": 0}])
        self._add_facts(self.hooks.run_resumed(run=self.run, states=states))
        return self

    def _add_facts(self, all_facts):
        for facts in all_facts:
            self.facts.update(facts)

    def steps(self, stage, first, last):
        for step in range(first, last + 1):
            metrics = {"temperature": 0.05 + step}
            result = StepResult(
                1 / step,
                1e-3 / step,
                2.0 * step,
                metrics,
            )
            self.hooks.step_finished(
                run=self.run,
                stage=stage,
                step=step,
                total_steps=9,
                result=result,
            )
        return self

    def watch(self, stage, step):
        scores = (
            Score("STSB-dev", "alignment", 0.25 * (step + 1), {"id": "wang-isola"}),
            Score("STSB-dev", "alignment", 0.5 * (step + 1), {"id": "st5"}),
        )
        self.hooks.observed(
            run=self.run,
            stage=stage,
            step=step,
            encoder="en",
            evaluation=Evaluation(scores, 0.0),
        )
        return self

    def looks(self, stage, step):
        self.hooks.validated(
            run=self.run,
            stage=stage,
            step=step,
            score=80.0 + step,
            best=True,
        )
        return self.watch(stage, step)

    def scores(self, encoder, value):
        evaluation = Evaluation(
            (Score("STS12", "spearman", value, {"id": "senteval-sts"}),), value
        )
        self.hooks.scores_ready(
            run=self.run,
            evaluator="sts",
            encoder=encoder,
            evaluation=evaluation,
        )
        return self

    def states(self):
        return dict(self.hooks.tracker_state(run=self.run))

    def finish(self):
        self.hooks.run_finished(run=self.run, report=self.run.directory / "report.html")
        return self

    def fail(self, error):
        self.hooks.run_failed(run=self.run, error=error)
        return self


@pytest.fixture
def follow(tmp_path):
    """Follow a run in `tmp_path / "run"` with trackers."""
    return lambda *trackers: Following(tmp_path / "run", *trackers)


def expected_series(last):
    """What two stages of so many steps show, under the names that TensorBoard takes."""
    series = {}
    for stage in ("nli", "align"):
        steps = range(1, last + 1)
        series[f"{stage}/loss"] = [(step, 1 / step) for step in steps]
        series[f"{stage}/learning_rate"] = [(step, 1e-3 / step) for step in steps]
        series[f"{stage}/grad_norm"] = [(step, 2.0 * step) for step in steps]
        series[f"{stage}/temperature"] = [(step, 0.05 + step) for step in steps]
        series[f"{stage}/validation"] = [(last, 80.0 + last)]
        for protocol, value in (("wang-isola", 0.25), ("st5", 0.5)):
            name = f"{stage}/watch/en/STSB-dev/alignment/{protocol}"
            series[name] = [(0, value), (last, value * (last + 1))]
    series["scores/en@start/STS12/spearman/senteval-sts"] = [(0, 40.0)]
    series["scores/en/STS12/spearman/senteval-sts"] = [(0, 70.0)]
    return series


@pytest.fixture
def series():
    return expected_series


@pytest.fixture
def same():
    """Compare series; TensorBoard keeps fp32."""

    def compare(actual, expected):
        assert sorted(actual) == sorted(expected)
        for name, points in expected.items():
            for point, expected_point in zip(actual[name], points, strict=True):
                assert point == pytest.approx(expected_point, rel=1e-6), name

    return compare
