"""State of a run that its modules share: recipe, directory, facts, kept weights, hooks."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs

from sentbed._run.evaluations import Evaluations
from sentbed._run.training_states import Kept
from sentbed._signals import Stop
from sentbed.errors import shortened_lines
from sentbed.protocols import Recipe, Run


@attrs.define(eq=False)
class RunContext:
    """State of a run that its modules share. Hooks receive only `run`, which they cannot change."""

    directory: Path
    recipe: Recipe

    facts: dict[str, Any] = attrs.field(factory=dict)
    """Content of the manifest so far; the modules of the run add to it."""
    kept: dict[str, Kept] = attrs.field(factory=dict)
    """Kept weights of each finished stage."""
    stepped: bool = False
    """Whether this process has changed the weights of the encoders, or has reached the end of training.

    If not, a resumed run that fails need not save its encoders: those on disk have the same weights.
    """

    stop: Stop = attrs.field(factory=Stop)
    """Handles the signals that end the run."""
    evaluations: Evaluations = attrs.field(factory=Evaluations)
    """The evaluations of the run, with the data that evaluators have read."""
    hooks: Any = None
    """Calls the lifecycle hooks of all plugins and trackers, while they follow the run."""
    run: Run = attrs.field(init=False)
    """Read-only view of the run, for hooks."""

    @run.default
    def _run(self) -> Run:
        facts = MappingProxyType(self.facts)
        return Run(self.recipe.run.name, self.directory, self.recipe, facts)

    def warn(self, message: str) -> None:
        """Send a warning to all plugins and trackers that follow the run."""
        self.hooks.warned(run=self.run, message=shortened_lines(message))
