"""An engine under test and a reference engine, with encoders that have equal weights on both."""

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
"""Number of training steps that the reference takes before an encoder is saved."""
TOWER = "encoder"
"""Name of the encoder if a trainer has only one."""

_SENTENCE_ORDERS = {"positive": (7, 3), "hypothesis": (7, 3), "negative": (11, 5)}
"""Column -> (factor, shift): row `n` has sentence number `n * factor + shift`. A batch may repeat sentences."""


def _are_equal(recipe: EncoderRecipe, other: EncoderRecipe) -> bool:
    """Whether two encoders have parts of identical classes with equal fields."""
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
    """An engine under test and its reference, with encoders that have equal weights on both.

    The reference initialises an encoder once, trains it for a few steps and saves it. Either engine then builds
    the encoder from these files.
    """

    engine: Engine
    reference: Engine
    optimizer: Optimizer
    """Optimiser for checks that do not test optimisers."""
    descent: Optimizer
    """Gradient descent without momentum, with the learning rate `descent_rate`."""
    descent_rate: float
    schedule: Schedule
    """Constant schedule."""
    warm_up: Loss | None = None
    """Loss of the `WARM_UP` steps; None means that the reference takes no such steps.

    The first token of a random BERT has nearly the same state in all texts (to four digits). Without these steps,
    half of the difference between two vectors would be rounding errors."""
    directory: Path = attrs.field(factory=_directory)
    _saved: list[tuple[EncoderRecipe, Path]] = attrs.field(factory=list, init=False)
    _shared: list[tuple[Engine, EncoderRecipe, Encoder]] = attrs.field(
        factory=list, init=False
    )

    def __attrs_post_init__(self) -> None:
        weakref.finalize(self, shutil.rmtree, self.directory, ignore_errors=True)

    @classmethod
    def of(
        cls,
        engine: Engine,
        reference: Engine,
        plugins: Plugins,
    ) -> EnginePair:
        """Return a pair with the optimiser `adamw` and the schedule `constant`."""
        # If `eps` is far above every gradient and the betas are 0, Adam is gradient descent with the
        # learning rate `lr / eps`.
        plain = {"use": "adamw", "lr": 100.0, "eps": 1e3, "beta1": 0.0, "beta2": 0.0}
        return cls(
            engine,
            reference,
            optimizer=part("optimizer", OPTIMIZERS["adamw"], plugins),
            descent=part("optimizer", plain, plugins),
            descent_rate=0.1,
            schedule=plugins.find("schedule", "constant").cls(),
            warm_up=part("loss", {"use": "info-nce"}, plugins),
        )

    def saved(self, case: Case) -> Path:
        """Return the directory in which the reference has saved the initial encoder of a case."""
        for recipe, path in self._saved:
            if _are_equal(recipe, case.recipe):
                return path

        self.reference.seed(SEED)
        path = self.directory / str(len(self._saved))
        encoder = Encoder.build(case.recipe, self.reference, lambda: SENTENCES)
        if self.warm_up is not None:
            self._warm_up(self.warm_up, case, encoder)
        encoder.save(path)
        self._saved.append((case.recipe, path))
        return path

    def _warm_up(
        self,
        loss: Loss,
        case: Case,
        encoder: Encoder,
    ) -> None:
        """Train an encoder with the reference for `WARM_UP` steps."""
        columns = ("anchor", "positive")
        case = attrs.evolve(
            case,
            loss=loss,
            columns=columns,
            fixed=frozenset(),
        )
        optimizer: Any = self.optimizer
        optimizer = attrs.evolve(optimizer, lr=1e-3)
        trainer = self.trainer(
            case, self.reference, encoder, optimizer=optimizer, steps=WARM_UP
        )
        for number in range(WARM_UP):
            trainer.step(batch(case, encoder, number))

    def fresh(self, case: Case, engine: Engine) -> Encoder:
        """Return a new encoder with the saved weights. A check may train it."""
        return Encoder.build(case.recipe, engine, saved=self.saved(case))

    def fresh_and_smooth(self, case: Case, engine: Engine) -> Encoder:
        """Return a new encoder with the saved weights, and with GELU in place of ReLU, to train for many steps.

        The derivative of ReLU jumps at zero. Among the million inputs to ReLU in ten steps of a small OPT, one is
        so near to zero that rounding decides its sign and a gradient: two correct engines then arrive at
        different weights.
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
        """Return the encoder with the saved weights that checks share. They must not change it."""
        for its_engine, recipe, encoder in self._shared:
            if its_engine is engine and _are_equal(recipe, case.recipe):
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
        steps: int = 10,
    ) -> Trainer:
        """Seed the engine, and return a trainer of one encoder or of several encoders by name.

        `towers` maps each column to the name of the encoder that encodes it.
        """
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


def batch(
    case: Case,
    encoder: Encoder,
    number: int = 0,
    rows: int = ROWS,
) -> Columns:
    """Return batch `number` of a case. Its first rows follow the last rows of the batch before."""
    import numpy as np

    indices = [(number * ROWS + row) % len(SENTENCES) for row in range(rows)]
    tokenizer = encoder.tokenizer()
    columns: dict[str, Any] = {}
    if case.loss.scheduled:
        columns[PROGRESS] = np.array(0.25, np.float32)
    for name in case.columns:
        if name == LABEL:
            classes = len(case.loss.classes)
            columns[name] = np.array([index % classes for index in indices], np.int64)
            continue
        if name in case.loss.numbers:
            columns[name] = np.array([index % 6 / 5 for index in indices], np.float32)
            continue

        numbers = _sentence_numbers(name, indices)
        if name in case.fixed:
            columns[name] = _vectors_of_sentences(encoder.width)[numbers]
        else:
            texts = [SENTENCES[sentence] for sentence in numbers]
            columns[name] = tokenizer.encode(texts, encoder.recipe.max_length)

        if case.loss.compares_texts:
            columns[f"{name}.id"] = np.array(numbers, np.int64)

    return columns


def _sentence_numbers(column: str, indices: Sequence[int]) -> list[int]:
    """Return the number of the sentence in each row of a column; see `_SENTENCE_ORDERS`."""
    factor, shift = _SENTENCE_ORDERS.get(column, (1, 0))
    return [(index * factor + shift) % len(SENTENCES) for index in indices]


def _vectors_of_sentences(width: int) -> NDArray[Any]:
    """Return a random vector for each sentence, as if a frozen encoder had computed it."""
    import numpy as np

    vectors = np.random.default_rng(SEED).standard_normal((len(SENTENCES), width))
    return vectors.astype(np.float32)
