"""A recipe: what one TOML file says, as frozen attrs classes.

`load.load_recipe` reads one. A recipe is closed: every unknown key, wrong type and unknown component is
reported at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar

import attrs
from attrs.validators import and_, ge, le, matches_re, min_len, optional

from sentbed._document.structure import unstructure
from sentbed._document.toml import Document
from sentbed._recipe.prompts import Prompt, ResolvedPrompt
from sentbed.protocols import (
    LABEL,
    Backbone,
    ComponentTraits,
    DataSource,
    Evaluator,
    Head,
    Loss,
    Optimizer,
    Pooler,
    RecipeTable,
    Runtime,
    Schedule,
    Tracker,
)

Table = TypeVar("Table", bound=RecipeTable)

SCHEMA = 1
"""The version of the recipe format that this version of sentbed reads."""

RESOLVED = "resolved.toml"
"""The recipe with every default written out, in the run directory."""

MAIN_ENCODER = "encoder"
"""The name of the encoder that the table `[encoder]` describes."""


PRETRAINED = "pretrained"
"""In `weights` of a stage: the weights that an encoder had before the first stage."""


@attrs.frozen
class Run:
    """`[run]`: the name of the run and its seed."""

    name: str = attrs.field(validator=matches_re(r"[A-Za-z0-9][A-Za-z0-9._-]*"))
    """Also the name of the run directory: letters, digits, `.`, `_` and `-`."""
    seed: int = attrs.field(default=42, validator=and_(ge(0), le(2**32 - 1)))
    """Seeds initialisation, dropout and shuffling."""
    cache: bool = True
    """Take the vectors of an evaluation from the store of this machine where the same encoder has encoded the
    same texts before, and keep new ones there; `sentbed cache info` says where. No score depends on it."""


@attrs.frozen
class EncoderRecipe:
    """`[encoder]` or `[encoders.NAME]`: backbone + pooler + head, and the prompt around each sentence."""

    backbone: Backbone
    pooler: Pooler
    head: Head = attrs.field(factory=Head)
    max_length: int = attrs.field(default=128, validator=ge(2))
    """Tokens a sentence, special tokens included; longer input is cut. Under a prompt: tokens of the sentence
    alone, template and special tokens come on top."""
    prompt: Prompt | None = None
    """The pooler's own where left out, or none."""

    @property
    def resolved_prompt(self) -> ResolvedPrompt | None:
        """The prompt in force."""
        return (self.prompt or Prompt()).resolve(self.pooler)


def _names(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


@attrs.frozen
class Validate:
    """`validate`: when to look at a development set, and what to keep."""

    every: int = attrs.field(validator=ge(1))
    """Optimiser steps between two validations; the last step is always validated."""
    with_: Evaluator = attrs.field(metadata={"key": "with"})
    """The evaluator whose primary score ranks the checkpoints; on development data where it chooses."""
    keep: Literal["best", "last"] = "best"
    """The weights that the stage ends with: the best validated ones, or the last ones."""
    encoder: str | None = None
    """The encoder to validate; may be left out where the stage trains one."""
    second: str | None = None
    """The encoder of the second sentence of each pair, for pairs in two languages; the same if left out."""
    patience: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """End the stage after so many validations in a row without a better score; never where left out."""


@attrs.frozen
class Watch:
    """`watch`: an evaluator to follow during a stage; it chooses nothing."""

    every: int = attrs.field(validator=ge(1))
    """Optimiser steps between two looks; there is one before the first step and one after the last."""
    with_: Evaluator = attrs.field(metadata={"key": "with"})
    """The evaluator, such as `geometry`."""
    encoder: str | None = None
    """The encoder to evaluate; may be left out where the stage trains one."""
    second: str | None = None
    """The encoder of the second sentence of each pair, for pairs in two languages; the same if left out."""


@attrs.frozen
class Stage:
    """`[[stage]]`: one training phase."""

    name: str = attrs.field(validator=matches_re(r"[A-Za-z0-9][A-Za-z0-9._-]*"))
    data: DataSource
    loss: Loss
    optimizer: Optimizer
    schedule: Schedule
    batch_size: int = attrs.field(validator=ge(2))
    """Rows an optimiser step; every other row of the batch is a negative."""
    epochs: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Passes over the data; exactly one of `epochs` and `steps` is given."""
    steps: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Optimiser steps, over as many passes as that takes."""
    train: str | tuple[str, ...] = attrs.field(default=(), converter=_names)
    """The encoder to train, or several; may be left out where the recipe has one."""
    freeze: str | tuple[str, ...] = attrs.field(default=(), converter=_names)
    """Encoders that `columns` uses and that stay as they are: without gradient, in eval mode."""
    columns: Mapping[str, str] = attrs.field(factory=dict)
    """Column of the data -> the encoder of its texts (`{ anchor = "en", positive = "zh" }`); may be left out
    where the stage has one encoder."""
    weights: Mapping[str, str] = attrs.field(factory=dict)
    """Encoder -> where its weights come from: the name of an earlier stage, or `"pretrained"`, those that it
    had before the first stage. Without an entry an encoder goes on with the weights that it has."""
    max_grad_norm: float = attrs.field(default=1.0, validator=ge(0))
    """Gradients are clipped to this L2 norm; 0 leaves them as they are. SimCSE's trainer uses 1."""
    micro_batch: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Rows whose activations are held at a time: gradient caching (Gao et al., 2021) gives the whole batch's
    gradient in their memory, for one more forward pass. The whole batch where left out."""
    max_length: int | None = attrs.field(default=None, validator=optional(ge(2)))
    """Tokens a sentence in training; the encoder's `max_length` where left out."""
    normalize_text: bool = False
    """Apply the prompt's text rules (`prompt.normalizer`) to the training texts; PromptEOL's released code
    does not."""
    distinct: bool = False
    """Never put two rows that share a text into one batch: they would be each other's false negatives."""
    shuffle_buffer: int | None = attrs.field(default=None, validator=optional(ge(2)))
    """Rows that are shuffled at a time, for data that is read from disk; all rows where left out."""
    cache_frozen: bool = False
    """Keep the vectors of frozen encoders on disk: each text is then encoded in the first epoch only."""
    validate: Validate | None = None
    watch: tuple[Watch, ...] = ()

    @property
    def traits(self) -> ComponentTraits:
        """The paper behind how the stage is computed: gradient caching."""
        return ComponentTraits(cites=("gao2021gradcache",) if self.micro_batch is not None else ())

    @property
    def columns_used(self) -> tuple[str, ...]:
        """The data's columns that the loss uses, in the data's order."""
        loss = self.loss.traits
        wanted = self.data.columns if loss.takes is None else loss.needs | loss.takes
        return tuple(c for c in self.data.columns if c in wanted and (c != LABEL or c in loss.needs))


@attrs.frozen
class Checkpoint:
    """`[checkpoint]`: when a training state is saved, from which `sentbed run --resume` goes on."""

    every: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Optimiser steps between two states; only by `minutes` where left out."""
    minutes: float = attrs.field(default=10.0, validator=ge(0))
    """A state is also saved when so many minutes have passed since the last one."""
    keep: int = attrs.field(default=2, validator=ge(1))
    """How many of the newest states are kept; all are removed when the run has finished."""


@attrs.frozen
class Evaluate:
    """`[[evaluate]]`: an evaluator, on which encoder, and when."""

    with_: Evaluator = attrs.field(metadata={"inline": True, "key": "use"})
    """The evaluator by its name, with its fields beside it: `sentbed show evaluator NAME`."""
    encoder: str | None = None
    """The encoder to evaluate; may be left out where the recipe has one."""
    second: str | None = None
    """The encoder of the second sentence of each pair, for pairs in two languages; the same if left out."""
    at: tuple[Literal["start", "end"], ...] = attrs.field(default=("end",), validator=min_len(1))
    """Before the first stage, after the last, or both."""


@attrs.frozen
class Expected:
    """`[expected]`: a number that the run should reproduce, under its key.

    A key is `TASK` (its first metric), `"TASK/METRIC"` or `"TASK/METRIC@PROTOCOL"`, with `ENCODER/` before it
    where there are several encoders. A key that fits two scores is not met.
    """

    value: float
    tolerance: float | None = attrs.field(default=None, validator=optional(ge(0)))
    """Largest absolute difference that still counts as reproduced."""
    source: str = ""
    """Where the number is published."""
    decides: bool = True
    """Whether the run fails without it. `false`, instead of a tolerance, for what cannot be reproduced, such
    as the speed of another machine: it is shown beside the number found."""

    def __attrs_post_init__(self) -> None:
        if self.decides and self.tolerance is None:
            raise ValueError(
                "the required key `tolerance` is missing; a number that is only to be shown beside the one "
                "found has `decides = false` instead"
            )
        if not self.decides and self.tolerance is not None:
            raise ValueError("a number that decides nothing has no `tolerance`; take out one of the two")


@attrs.frozen
class Recipe:
    """One recipe, checked."""

    schema: int
    run: Run
    runtime: Runtime
    encoders: Mapping[str, EncoderRecipe]
    stage: tuple[Stage, ...] = ()
    evaluate: tuple[Evaluate, ...] = ()
    checkpoint: Checkpoint = attrs.field(factory=Checkpoint)
    tracker: tuple[Tracker, ...] = ()
    """`[[tracker]]`: where else the run is shown."""
    expected: Mapping[str, Expected] = attrs.field(factory=dict)
    tables: Mapping[str, RecipeTable] = attrs.field(factory=dict, metadata={"spread": True})
    """Tables that belong to plugins, such as `[study]`, by key."""
    document: Document = attrs.field(factory=lambda: Document({}), metadata={"skip": True}, eq=False)
    """What the file said, with overrides applied: `resolved.toml` and the positions of problems."""

    def table(self, cls: type[Table]) -> Table | None:
        """Return the recipe's table of a plugin, by its class; None where there is none."""
        return next((table for table in self.tables.values() if isinstance(table, cls)), None)

    def without(self, cls: type[RecipeTable]) -> Recipe:
        """Return the recipe without the table of this class."""
        return attrs.evolve(
            self, tables={key: table for key, table in self.tables.items() if not isinstance(table, cls)}
        )

    @property
    def main_encoder(self) -> str:
        """The name of the only encoder, or `encoder` where there are several."""
        return next(iter(self.encoders)) if len(self.encoders) == 1 else MAIN_ENCODER

    def trained(self, stage: Stage) -> tuple[str, ...]:
        """The names of the encoders that a stage trains."""
        return _names(stage.train) or (self.main_encoder,)

    def towers(self, stage: Stage) -> dict[str, str]:
        """The encoder of each column of texts that a stage uses."""
        trained = self.trained(stage)
        return {c: stage.columns.get(c, trained[0]) for c in stage.columns_used if c != LABEL}


def first_stages(recipe: Recipe, count: int) -> Recipe:
    """Return the recipe of the first `count` stages alone: nothing is evaluated after them."""
    starts = tuple(attrs.evolve(entry, at=("start",)) for entry in recipe.evaluate if "start" in entry.at)
    return attrs.evolve(recipe, stage=recipe.stage[:count], evaluate=starts, expected={}, tables={})


def resolved_toml(recipe: Recipe) -> str:
    """Return the recipe with every default written out; running it again is the same run."""
    import tomli_w

    kept = {key: table for key, table in recipe.tables.items() if table.traits.resolved}
    table = unstructure(attrs.evolve(recipe, tables=kept))
    if list(table["encoders"]) == [MAIN_ENCODER]:
        table["encoder"] = table.pop("encoders")[MAIN_ENCODER]
    return tomli_w.dumps(table)
