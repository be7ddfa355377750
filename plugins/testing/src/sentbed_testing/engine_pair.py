"""An engine under test and a reference engine, with encoders of equal weights."""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import attrs
from sentbed import Encoder
from sentbed.helpers import SUMS_FILE, read_json
from sentbed.protocols import (
    LABEL,
    PROGRESS,
    Columns,
    Engine,
    Loss,
    Optimizer,
    Schedule,
    Trainer,
    Training,
    TrainingEngine,
)
from sentbed.tools import EncoderRecipe, Plugins

from sentbed_testing.comparisons import Arrays
from sentbed_testing.engine_cases import OPTIMIZERS, ROWS, Case, part
from sentbed_testing.saved_weights import saved_weights
from sentbed_testing.sentences import SENTENCES

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 20
WARM_UP = 20
"""Number of warm-up steps."""
TOWER = "encoder"
"""Name of the encoder that is trained."""

# Column -> (factor, shift): row `n` has the sentence `n * factor + shift`. Some occur twice in a batch.
_TURNS = {"positive": (7, 3), "hypothesis": (7, 3), "negative": (11, 5)}


def _same(recipe: EncoderRecipe, other: EncoderRecipe) -> bool:
    """Whether two encoders have parts of the same class objects with equal fields."""
    if type(recipe.backbone) is not type(other.backbone):
        return False
    if type(recipe.pooler) is not type(other.pooler):
        return False
    return recipe == other and repr(recipe) == repr(other)


def _replace_relu(path: Path) -> None:
    """Replace ReLU by GELU in the configuration of a saved OPT or T5."""
    settings = read_json(path)
    for name in ("activation_function", "feed_forward_proj", "dense_act_fn"):
        if settings.get(name) == "relu":
            settings[name] = "gelu"
    path.write_text(json.dumps(settings), "utf-8")


def _directory() -> Path:
    return Path(tempfile.mkdtemp(prefix="sentbed-testing-"))


@attrs.define(eq=False)
class EnginePair:
    """An engine and its reference, with encoders that have the same weights on both.

    An encoder is initialised once, on the reference, warmed up there, saved, and built on either engine from
    the same files.
    """

    engine: Engine
    reference: Engine
    optimizer: Optimizer
    """Optimiser of checks that do not test optimisers."""
    descent: Optimizer
    """Gradient descent with the learning rate `descent_rate`."""
    descent_rate: float
    schedule: Schedule
    """Constant schedule."""
    warm_up: Loss | None = None
    """Loss with which the reference takes `WARM_UP` steps before an encoder is saved. The first token of a
    random BERT has nearly the same state in all texts (to four digits), so without these steps half of the
    difference of two vectors would be rounding."""
    directory: Path = attrs.field(factory=_directory)
    _saved: list[tuple[EncoderRecipe, Path]] = attrs.field(factory=list, init=False)
    _shared: list[tuple[Engine, EncoderRecipe, Encoder]] = attrs.field(
        factory=list, init=False
    )

    def __attrs_post_init__(self) -> None:
        weakref.finalize(self, shutil.rmtree, self.directory, ignore_errors=True)

    @classmethod
    def of(cls, engine: Engine, reference: Engine, plugins: Plugins) -> EnginePair:
        """Return a pair with the optimiser `adamw` and the schedule `constant`."""
        # With `eps` far above every gradient and no moments, Adam is gradient descent at the rate `lr / eps`.
        plain = {"use": "adamw", "lr": 100.0, "eps": 1e3, "beta1": 0.0, "beta2": 0.0}
        adamw, descent = (
            part("optimizer", table, plugins) for table in (OPTIMIZERS["adamw"], plain)
        )
        constant = plugins.find("schedule", "constant").cls()
        contrast = part("loss", {"use": "info-nce"}, plugins)
        return cls(engine, reference, adamw, descent, 0.1, constant, contrast)

    def saved(self, case: Case) -> Path:
        """Return the directory of a case's saved initial encoder."""
        for recipe, path in self._saved:
            if _same(recipe, case.recipe):
                return path
        self.reference.seed(SEED)
        path = self.directory / str(len(self._saved))
        encoder = Encoder.build(case.recipe, self.reference, lambda: SENTENCES)
        if self.warm_up is not None:
            self._warm(
                attrs.evolve(case, loss=self.warm_up, columns=("anchor", "positive")),
                encoder,
            )

        encoder.save(path)
        self._saved.append((case.recipe, path))
        return path

    def _warm(self, case: Case, encoder: Encoder) -> None:
        optimizer: Any = self.optimizer
        optimizer = attrs.evolve(optimizer, lr=1e-3)
        case = attrs.evolve(case, fixed=frozenset())
        trainer = self.trainer(
            case, self.reference, encoder, optimizer=optimizer, steps=WARM_UP
        )
        for number in range(WARM_UP):
            trainer.step(batch(case, encoder, number))

    def fresh(self, case: Case, engine: Engine) -> Encoder:
        """Return a new encoder for training."""
        return Encoder.build(case.recipe, engine, saved=self.saved(case))

    def fresh_and_smooth(self, case: Case, engine: Engine) -> Encoder:
        """Return a new encoder for training of many steps, with GELU in place of ReLU.

        The derivative of ReLU jumps at zero. Among the million inputs in ten steps of a small OPT, one is so
        near to zero that rounding decides its sign, and with it a gradient: two correct engines would then
        arrive at different weights.
        """
        saved = self.saved(case)
        smooth = saved.with_name(f"{saved.name}-smooth")
        if not smooth.exists():
            shutil.copytree(saved, smooth)
            (smooth / SUMS_FILE).unlink()
            for settings in smooth.rglob("config.json"):
                _replace_relu(settings)

        return Encoder.build(case.recipe, engine, saved=smooth)

    def shared(self, case: Case, engine: Engine) -> Encoder:
        """Return an encoder that checks share and must not change."""
        for of, recipe, encoder in self._shared:
            if of is engine and _same(recipe, case.recipe):
                return encoder
        encoder = self.fresh(case, engine)
        self._shared.append((engine, case.recipe, encoder))
        return encoder

    def trainer(  # noqa: PLR0913 - keywords
        self,
        case: Case,
        engine: Engine,
        encoders: Encoder | Mapping[str, Encoder],
        *,
        towers: Mapping[str, str] | None = None,
        seed: int = SEED,
        loss: Loss | None = None,
        optimizer: Optimizer | None = None,
        max_grad_norm: float = 1.0,
        micro_batch: int | None = None,
        ema: float | None = None,
        ensembles: Mapping[str, Any] | None = None,
        steps: int = 10,
    ) -> Trainer:
        """Seed the engine and return a trainer of one encoder, or of several named as in `towers`."""
        encoders = {TOWER: encoders} if isinstance(encoders, Encoder) else encoders
        training = Training(
            loss=loss or case.loss,
            optimizer=optimizer or self.optimizer,
            schedule=self.schedule,
            total_steps=steps,
            towers=towers or dict.fromkeys(case.texts, TOWER),
            max_grad_norm=max_grad_norm,
            micro_batch=micro_batch,
            ema=ema,
            ensembles=ensembles or {},
        )
        engine.seed(seed)
        placed = {name: encoder.placed for name, encoder in encoders.items()}
        return cast(TrainingEngine, engine).trainer(placed, training)

    def weights(self, encoder: Encoder) -> Arrays:
        """Return the arrays in an encoder's saved files."""
        path = Path(tempfile.mkdtemp(dir=self.directory))
        try:
            encoder.save(path)
            return saved_weights(path)
        finally:
            shutil.rmtree(path)


def batch(case: Case, encoder: Encoder, number: int = 0, rows: int = ROWS) -> Columns:
    """Return batch `number` of a case, of sentences of different lengths; each batch continues the last."""
    import numpy as np

    places = [(number * ROWS + row) % len(SENTENCES) for row in range(rows)]
    tokenizer = encoder.tokenizer()
    columns: dict[str, Any] = {}
    if case.loss.traits.scheduled:
        columns[PROGRESS] = np.array(0.25, np.float32)
    for name in case.columns:
        if name == LABEL:
            classes = len(case.loss.traits.classes)
            columns[name] = np.array([place % classes for place in places], np.int64)
            continue
        if name in case.loss.traits.numbers:
            columns[name] = np.array([place % 6 / 5 for place in places], np.float32)
            continue
        texts = _beside(name, places)
        if name in case.fixed:
            columns[name] = _vectors(encoder.width)[texts]
        else:
            columns[name] = tokenizer.encode(
                [SENTENCES[text] for text in texts], encoder.recipe.max_length
            )
        if case.loss.traits.compares_texts:
            columns[f"{name}.id"] = np.array(texts, np.int64)

    return columns


def _beside(column: str, places: Sequence[int]) -> list[int]:
    factor, shift = _TURNS.get(column, (1, 0))
    return [(place * factor + shift) % len(SENTENCES) for place in places]


def _vectors(width: int) -> NDArray[Any]:
    import numpy as np

    drawn = np.random.default_rng(SEED).standard_normal((len(SENTENCES), width))
    return drawn.astype(np.float32)
