"""State of a run that its modules share: recipe, directory, facts, kept weights, hooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs
import pluggy

from sentbed._encoder.encoder import Encoder
from sentbed._files import sha256
from sentbed._recipe.recipe import Recipe, first_stages
from sentbed._run.evaluations import Evaluations
from sentbed._signals import Stop
from sentbed.errors import shortened_lines
from sentbed.protocols import Run, VectorStore


@attrs.frozen
class Kept:
    """The weights that a stage keeps: the best so far, or those after its last step."""

    paths: Mapping[str, Path] = attrs.field(factory=dict)
    """Directory with the saved weights of each encoder; empty if no weights have been saved."""
    sums: Mapping[str, str] = attrs.field(factory=dict)
    """SHA-256 of the directory of each encoder."""
    step: int = 0
    """Number of steps after which the encoders had these weights."""
    score: float | None = None
    """Validation score of these weights; None without validation."""
    misses: int = 0
    """Number of later validations, none of which had a better score."""

    def table(self, run: Path) -> dict[str, Any]:
        """Return the kept weights as a table for JSON, with paths relative to the run directory."""
        paths = {}
        for name, path in self.paths.items():
            paths[name] = [path.relative_to(run).as_posix(), self.sums[name]]
        return {
            "paths": paths,
            "step": self.step,
            "score": self.score,
            "misses": self.misses,
        }

    @classmethod
    def of(cls, run: Path, table: Mapping[str, Any]) -> Kept:
        """Return the kept weights that a table describes.

        Raises:
            ValueError: if a directory with weights has changed, or is not in the run directory.
        """
        paths, sums = {}, {}
        for name, (place, expected) in table["paths"].items():
            path = run / place
            is_inside = path.resolve().is_relative_to(run.resolve())
            if not is_inside or not path.is_dir() or sha256(path) != expected:
                raise ValueError(f"`{place}` is not what was written")
            paths[name] = path
            sums[name] = expected
        return cls(paths, sums, table["step"], table["score"], table["misses"])


@attrs.define(eq=False)
class RunContext:
    """State of a run that its modules share. Hooks receive only `run`, which they cannot change.

    Four kinds of run differ in what they do:

    - A whole run, the default, evaluates the untrained encoders, trains all stages, fits the transforms, saves
      the encoders, and evaluates them again.
    - A resumed run goes on from a training state, an argument of `execute`. The evaluations before training
      are not repeated.
    - A run of only the first stages (`stages` is set) ends with a training state, from which other runs of a
      study go on. It saves no encoders, and there are no evaluations after training.
    - A run whose encoders another run has trained (`loaded` is true) only evaluates them.
    """

    name: str
    directory: Path
    recipe: Recipe
    """The recipe with all stages, even if only the first are run."""

    facts: dict[str, Any] = attrs.field(factory=dict)
    """Content of the manifest so far; the modules of the run add to it."""
    kept: dict[str, Kept] = attrs.field(factory=dict)
    """Kept weights of each finished stage."""
    sources: dict[str, str] = attrs.field(factory=dict)
    """For each encoder, the name of the stage whose weights it has.

    An encoder without an entry has the weights before the first stage.
    """
    stepped: bool = False
    """Whether this process has taken a training step, or has reached the end of training.

    If not, a resumed run need not save its encoders: those on disk have the same weights.
    """

    stages: int | None = None
    """Number of stages to run if only the first are run, from whose end other runs go on; None means all."""
    share: (
        Callable[
            [VectorStore, Mapping[str, Encoder], Callable[[str], None]], VectorStore
        ]
        | None
    ) = None
    """Function that returns a vector store that several runs use together. None if the run uses its store alone.

    Its arguments are the store of this run, the encoders of this run, and `warn`.
    """
    built: Mapping[str, Encoder] = attrs.field(factory=dict)
    """Encoders to use instead of building them; empty if they must be built.

    They are untrained encoders of another run, or, if `loaded`, trained encoders of a finished run.
    """
    loaded: bool = False
    """Whether `built` has trained encoders. They are evaluated, but neither fitted nor saved."""

    stop: Stop = attrs.field(factory=Stop)
    """Handles the signals that end the run."""
    evaluations: Evaluations = attrs.field(factory=Evaluations)
    """The evaluations of the run, with the data that evaluators have read."""
    hooks: pluggy.HookRelay = attrs.field(factory=pluggy.HookRelay)
    """Calls the hooks of all plugins and trackers that follow the run."""
    run: Run = attrs.field(init=False)
    """Read-only view of the run, for hooks."""

    @run.default
    def _run(self) -> Run:
        return Run(self.name, self.directory, self.recipe, MappingProxyType(self.facts))

    def warn(self, message: str) -> None:
        """Send a warning to all plugins and trackers that follow the run."""
        self.hooks.warned(run=self.run, message=shortened_lines(message))

    @property
    def is_whole(self) -> bool:
        """Whether all stages are run, and not only the first `stages`."""
        return self.stages is None

    @property
    def limited_recipe(self) -> Recipe:
        """The recipe of what this run does.

        If only the first stages are run, it has only these stages and the evaluations before training.
        """
        if self.stages is None:
            return self.recipe
        return first_stages(self.recipe, self.stages)
