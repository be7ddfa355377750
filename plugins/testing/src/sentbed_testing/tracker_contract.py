"""The contract of a tracker: it follows a run, a run that fails, and a run that is resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pluggy
import pytest
from sentbed import hookspecs
from sentbed.protocols import (
    Evaluation,
    Recipe,
    Run,
    RunTable,
    Score,
    StepResult,
    Tracker,
)
from sentbed.tools import SCHEMA

from sentbed_testing.component_contract import ComponentContract

STEPS = 3
"""Number of steps of a stage."""


def manager_with(listener: object) -> pluggy.PluginManager:
    """Return a plugin manager of sentbed's hooks in which only this listener is registered."""
    manager = pluggy.PluginManager("sentbed")
    manager.add_hookspecs(hookspecs)
    manager.register(listener)
    return manager


class FollowedRun:
    """A run of one stage, which calls the hooks of a tracker in the order of a real run."""

    def __init__(
        self,
        tracker: Tracker,
        directory: Path,
    ) -> None:
        self.hooks = manager_with(tracker.build()).hook
        # A tracker has no business with the runtime and the parts of an encoder.
        unused: Any = None
        encoders = {"encoder": unused}
        table = RunTable("contract")
        recipe = Recipe(SCHEMA, table, unused, encoders, tracker=(tracker,))
        self.facts: dict[str, Any] = {}
        self.run = Run("contract", directory, recipe, self.facts)

    def start(self) -> None:
        """Start the run."""
        for facts in self.hooks.run_started(run=self.run):
            self.facts.update(facts)

    def resume(self, states: dict[str, Any]) -> None:
        """Resume the run after the first step of its stage."""
        self.facts["resumed"] = [{"stage": 0, "step": 1}]
        for facts in self.hooks.run_resumed(run=self.run, states=states):
            self.facts.update(facts)

    def train(self, first: int) -> None:
        """Train from step `first` on, with an evaluation on the way and one at the end."""
        hooks, run = self.hooks, self.run
        stage = {"run": run, "stage": "train"}
        hooks.stage_started(**stage, total_steps=STEPS)
        for step in range(first, STEPS + 1):
            result = StepResult(1 / step, 1e-3, 2.0, {"temperature": 0.05})
            hooks.step_finished(**stage, step=step, total_steps=STEPS, result=result)

        hooks.validated(**stage, step=STEPS, score=80.0, best=True)
        score = Score("STSB", "spearman", 80.0, {"id": "contract"})
        evaluation = Evaluation((score,), 80.0)
        of_encoder: dict[str, Any] = {"encoder": "encoder", "evaluation": evaluation}
        hooks.observed(**stage, step=STEPS, **of_encoder)
        path = run.directory / "best"
        hooks.checkpoint_saved(**stage, step=STEPS, path=path)
        hooks.stage_finished(**stage, steps=STEPS, best_score=80.0, best_step=STEPS)
        hooks.warned(run=run, message="a warning")
        names = {"run": run, "evaluator": "sts", "encoder": "encoder"}
        hooks.evaluation_started(**names)
        hooks.evaluation_progressed(**names, what="encode", done=1, total=2)
        hooks.scores_ready(run=run, evaluator="sts", **of_encoder)

    def states(self) -> dict[str, Any]:
        """Return the states of the tracker, as a training state stores them."""
        return dict(self.hooks.tracker_state(run=self.run))

    def finish(self) -> None:
        """Finish the run."""
        self.hooks.run_finished(run=self.run, report=self.run.directory / "report.html")

    def fail(self) -> None:
        """End the run with an error."""
        self.hooks.run_failed(run=self.run, error=RuntimeError("no memory"))


class TrackerContract(ComponentContract):
    """Tests of a tracker. Its hooks are called as in a run, without the guard that turns errors into warnings."""

    component: ClassVar[Tracker]

    @pytest.fixture
    def directory(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Path:
        """The directory of the run. The current directory is beside it."""
        monkeypatch.chdir(tmp_path)
        directory = tmp_path / "run"
        directory.mkdir()
        (directory / "resolved.toml").write_text("schema = 1\n", encoding="utf-8")
        return directory

    def test_hooks(self, component: Tracker) -> None:
        """`build` returns a new object with marked hooks that exist, and whose arguments exist."""
        listener = component.build()

        assert listener is not component.build()
        manager = manager_with(listener)
        manager.check_pending()
        assert manager.get_hookcallers(listener)

    def test_follows_a_run(
        self,
        component: Tracker,
        directory: Path,
    ) -> None:
        """It follows a run to its end."""
        run = FollowedRun(component, directory)
        run.start()
        run.train(first=1)
        run.states()
        run.finish()

    def test_follows_a_run_that_fails(
        self,
        component: Tracker,
        directory: Path,
    ) -> None:
        """It follows a run that fails before its first step, and one that fails later."""
        for is_early in (True, False):
            run = FollowedRun(component, directory)
            run.start()
            if not is_early:
                run.train(first=1)
            run.fail()

    def test_follows_a_resumed_run(
        self,
        component: Tracker,
        directory: Path,
    ) -> None:
        """It follows a run that is resumed from its state, and one that is resumed without a state."""
        interrupted = FollowedRun(component, directory)
        interrupted.start()
        interrupted.train(first=1)
        states = interrupted.states()
        interrupted.fail()
        for kept in (states, {}):
            resumed = FollowedRun(component, directory)
            resumed.resume(kept)
            resumed.train(first=2)
            resumed.finish()
