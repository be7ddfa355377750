"""What the modules of a run share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs
import pluggy

from sentbed._encoder.encoder import Encoder
from sentbed._encoder.vector_store import SharedPasses
from sentbed._paths import sha256
from sentbed._recipe.recipe import PRETRAINED, Recipe, first_stages
from sentbed._run.evaluations import Evaluations
from sentbed._signals import Stop
from sentbed.protocols import Run


@attrs.frozen
class Kept:
    """The weights of a stage that are kept so far."""

    paths: Mapping[str, Path] = attrs.field(factory=dict)
    """Encoder -> the directory that holds it; empty where nothing has been kept."""
    sums: Mapping[str, str] = attrs.field(factory=dict)
    """Encoder -> the SHA-256 of what was written there."""
    step: int = 0
    """After so many steps."""
    score: float | None = None
    """What the validation said of them."""
    misses: int = 0
    """Validations since then."""

    def table(self, run: Path) -> dict[str, Any]:
        """Return it as JSON, with paths below the run directory."""
        places = {name: path.relative_to(run).as_posix() for name, path in self.paths.items()}
        paths = {name: [place, self.sums[name]] for name, place in places.items()}
        return {"paths": paths, "step": self.step, "score": self.score, "misses": self.misses}

    @classmethod
    def of(cls, run: Path, table: Mapping[str, Any]) -> Kept:
        """Read what `table` returned. Raises `ValueError` where a directory is not what was written."""
        paths, sums = {}, {}
        for name, (place, expected) in table["paths"].items():
            if not (run / place).is_dir() or sha256(run / place) != expected:
                raise ValueError(f"`{place}` is not what was written")
            paths[name], sums[name] = run / place, expected
        return cls(paths, sums, table["step"], table["score"], table["misses"])


@attrs.define(eq=False)
class RunContext:
    """Everything that the modules of a run share; hooks see its frozen `run`."""

    name: str
    directory: Path
    recipe: Recipe
    facts: dict[str, Any] = attrs.field(factory=dict)
    """What the manifest will say; filled as the run goes on."""
    kept: dict[str, Kept] = attrs.field(factory=dict)
    """The weights that each finished stage has kept."""
    sources: dict[str, str] = attrs.field(factory=dict)
    """Encoder -> the stage whose weights it holds; those of before the first stage where it is not named."""
    changes_allowed: bool = False
    """Whether a resumed run may go on with another recipe or other data."""
    stepped: bool = False
    """Whether this process has taken a training step."""
    stages: int | None = None
    """Only so many of the recipe's stages are run, and nothing is evaluated after them: other runs go on from
    the state that is left. All of them where None."""
    share: Callable[[Mapping[str, Encoder], Callable[[str], None]], Mapping[str, SharedPasses]] | None = None
    """Called with the encoders that were built, and `warn`: what fills the store for other runs as well."""
    stop: Stop = attrs.field(factory=Stop)
    """Whether the run was asked to end."""
    evaluations: Evaluations = attrs.field(factory=Evaluations)
    """Its evaluators with the data that they have read."""

    hooks: pluggy.HookRelay = attrs.field(factory=pluggy.HookRelay)
    """Those of all that follow the run."""

    run: Run = attrs.field(init=False)
    """What hooks are told."""

    @run.default
    def _run(self) -> Run:
        return Run(self.name, self.directory, self.recipe, MappingProxyType(self.facts))

    def warn(self, message: str) -> None:
        """Tell all that follow the run of something odd."""
        self.hooks.warned(run=self.run, message=message)

    @property
    def begun(self) -> Recipe:
        """The recipe as far as it is run."""
        return self.recipe if self.stages is None else first_stages(self.recipe, self.stages)

    def source(self, encoder: str) -> Any:
        """Return, for JSON, what decides the weights that an encoder holds."""
        stage = self.sources.get(encoder, PRETRAINED)
        held = self.kept[stage].table(self.directory)["paths"][encoder] if stage in self.kept else None
        return [encoder, self.facts.get("weights", {}).get(encoder), held]
