"""State of a run that its modules share: recipe, directory, facts, kept weights, history, hooks."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs

from sentbed._registry.registry import Plugins
from sentbed._run.evaluations import Evaluations
from sentbed._run.history import History
from sentbed._run.training_states import Kept, State
from sentbed._signals import Stop
from sentbed.protocols import Recipe, Run, VectorStore


@attrs.define(eq=False)
class RunContext:
    """State of a run that its modules share. Hooks receive only `run`, which they cannot change."""

    directory: Path
    recipe: Recipe
    plugins: Plugins
    resumed: State | None = None
    """Training state from which the run goes on; None for a run that begins."""

    facts: dict[str, Any] = attrs.field(factory=dict)
    """Content of the manifest so far; the modules of the run add to it."""
    history: History = attrs.field(factory=History)
    kept: dict[str, Kept] = attrs.field(factory=dict)
    """Kept weights of each finished stage."""
    stepped: bool = False
    """Whether this process has changed the weights of the encoders."""
    report: Path = attrs.field(init=False)
    """File that the user should open; set when the run has finished."""

    stop: Stop = attrs.field(factory=Stop)
    """Handles the signals that end the run."""
    evaluations: Evaluations = attrs.field(init=False)
    """The evaluations of the run, with the data that evaluators have read."""
    store: VectorStore | None = None
    """Vector store for the evaluations before and after training; None if vectors are not stored.

    Evaluations during training do not use it.
    """
    hooks: Any = None
    """Calls the lifecycle hooks of all plugins and trackers, while they follow the run."""
    run: Run = attrs.field(init=False)
    """Read-only view of the run, for hooks."""

    def __attrs_post_init__(self) -> None:
        if self.resumed is not None:
            self.facts.update(self.resumed.facts)
            self.kept.update(self.resumed.kept)
            self.history = self.resumed.history

        self.evaluations = Evaluations(self.plugins)
        facts = MappingProxyType(self.facts)
        self.run = Run(self.recipe.run.name, self.directory, self.recipe, facts)

    @property
    def first_stage(self) -> int:
        """Index of the first stage that has not finished."""
        if self.resumed is None:
            return 0
        return self.resumed.stage

    def warn(self, message: str) -> None:
        """Send a warning to all plugins and trackers that follow the run."""
        self.hooks.warned(run=self.run, message=message)
