"""State shared by the modules of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs
import pluggy

from sentbed._encoder.encoder import Encoder
from sentbed._files import leads_inside, sha256
from sentbed._recipe.recipe import PRETRAINED, Recipe, first_stages
from sentbed._run.evaluations import Evaluations
from sentbed._signals import Stop
from sentbed.errors import shortened_lines
from sentbed.protocols import Run, VectorStore


@attrs.frozen
class Kept:
    """The weights of a stage that are kept so far."""

    paths: Mapping[str, Path] = attrs.field(factory=dict)
    """Encoder -> its directory; empty if nothing has been kept."""
    sums: Mapping[str, str] = attrs.field(factory=dict)
    """Encoder -> SHA-256 of its directory."""
    step: int = 0
    """Number of steps after which the encoders had them."""
    score: float | None = None
    """Their validation score."""
    misses: int = 0
    """Number of validations since then without a better score."""

    def table(self, run: Path) -> dict[str, Any]:
        """Return a JSON-serialisable table, with paths relative to the run directory."""
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
        """Create from what `table` returned. Raises `ValueError` if a directory changed or is elsewhere."""
        paths, sums = {}, {}
        for name, (place, expected) in table["paths"].items():
            path = run / place
            if not leads_inside(path, run):
                raise ValueError(f"`{place}` is not in the run directory")
            if not path.is_dir() or sha256(path) != expected:
                raise ValueError(f"`{place}` is not what was written")
            paths[name] = path
            sums[name] = expected
        return cls(paths, sums, table["step"], table["score"], table["misses"])


@attrs.define(eq=False)
class RunContext:
    """State shared by the modules of a run; hooks receive the frozen `run`."""

    name: str
    directory: Path
    recipe: Recipe
    facts: dict[str, Any] = attrs.field(factory=dict)
    """Content of the manifest, added to during the run."""
    kept: dict[str, Kept] = attrs.field(factory=dict)
    """Finished stage -> its kept weights."""
    sources: dict[str, str] = attrs.field(factory=dict)
    """Encoder -> stage whose weights it has; if absent, the weights before the first stage."""
    changes_allowed: bool = False
    """Whether a resumed run may continue with a changed recipe or changed data."""
    stepped: bool = False
    """Whether this process has taken a training step."""
    stages: int | None = None
    """Number of stages to run, without evaluating afterwards, for other runs that continue from there; None
    means all."""
    share: (
        Callable[
            [VectorStore, Mapping[str, Encoder], Callable[[str], None]], VectorStore
        ]
        | None
    ) = None
    """Function from vector store, encoders and `warn` to the store to use, which may serve other runs, too."""
    built: Mapping[str, Encoder] = attrs.field(factory=dict)
    """Encoders to use instead of building them: untrained ones of another run, or trained ones if `loaded`."""
    loaded: bool = False
    """Whether `built` are encoders of a finished run, to be evaluated but neither fitted nor saved."""
    stop: Stop = attrs.field(factory=Stop)
    """Signal handling: whether the run was asked to end."""
    evaluations: Evaluations = attrs.field(factory=Evaluations)
    """The run's evaluators with the data they have read."""
    hooks: pluggy.HookRelay = attrs.field(factory=pluggy.HookRelay)
    """Hooks of all plugins and trackers that follow the run."""
    run: Run = attrs.field(init=False)
    """Frozen view of the run that hooks receive."""

    @run.default
    def _run(self) -> Run:
        return Run(self.name, self.directory, self.recipe, MappingProxyType(self.facts))

    def warn(self, message: str) -> None:
        """Send a warning to all plugins and trackers that follow the run."""
        self.hooks.warned(run=self.run, message=shortened_lines(message))

    @property
    def begun(self) -> Recipe:
        """The recipe, cut to the stages that are run."""
        if self.stages is None:
            return self.recipe
        return first_stages(self.recipe, self.stages)

    def source(self, encoder: str) -> Any:
        """Return a JSON-serialisable description of an encoder's current weights, for keys."""
        stage = self.sources.get(encoder, PRETRAINED)
        kept_weights = None
        if stage in self.kept:
            kept_weights = self.kept[stage].table(self.directory)["paths"][encoder]
        return [encoder, self.facts.get("weights", {}).get(encoder), kept_weights]
