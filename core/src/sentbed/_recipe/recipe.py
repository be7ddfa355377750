"""Recipes: the content of a TOML file as frozen attrs classes.

`load.load_recipe` reads one. Recipes are closed: all unknown keys, wrong types and unknown components are
reported together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import attrs
from attrs.validators import and_, ge, gt, le, lt, matches_re, min_len, optional

from sentbed._document.structuring import parts_in, unstructure
from sentbed._document.toml import Document, KeyPath
from sentbed._recipe.prompts import Prompt, ResolvedPrompt
from sentbed.errors import SentbedError
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
    Similarity,
    TextTask,
    Tracker,
)

Table = TypeVar("Table")

SCHEMA = 1
"""The version of the recipe format that this version of sentbed reads."""

RESOLVED = "resolved.toml"
"""The recipe with every default written out, in the run directory."""

MAIN_ENCODER = "encoder"
"""The name of the encoder that the table `[encoder]` describes."""

UNDECISIVE = ("checkpoint", "expected", "requires", "tracker")
"""Core's keys of a recipe that affect neither encoders nor scores."""

SHORTEST = 2
"""Smallest `max_length`."""


PRETRAINED = "pretrained"
"""Value in a stage's `weights`: the encoder's weights before the first stage."""


@attrs.frozen
class Run:
    """`[run]`: the name of the run and its seed."""

    name: str = attrs.field(validator=matches_re(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"))
    """Name of the run and of its directory: at most 100 letters, digits, `.`, `_` and `-`."""
    seed: int = attrs.field(default=42, validator=and_(ge(0), le(2**32 - 1)))
    """Seed of initialisation, dropout and shuffling."""
    cache: bool = True
    """Whether evaluations use this machine's vector store, which keeps the vectors of texts for each encoder; see
    `sentbed cache info`. No score depends on it."""


@attrs.frozen
class EncoderRecipe:
    """`[encoder]` or `[encoders.NAME]`: backbone + pooler + head, and the prompt around each sentence."""

    backbone: Backbone
    pooler: Pooler
    head: Head = attrs.field(factory=Head)
    max_length: int = attrs.field(default=128, validator=ge(SHORTEST))
    """Maximum tokens per sentence, including special tokens; longer input is truncated. With a prompt, only the
    tokens of the sentence count, without template and special tokens."""
    prompt: Prompt | tuple[Prompt, ...] | None = None
    """Text around each sentence; by default the pooler's. With several prompts, each is a separate pass."""
    ensemble: Literal["mean", "concatenate"] = "mean"
    """How the vectors of several prompts, after the head, are combined: by their mean, or by concatenation in the
    order of `prompt`."""

    task_prompts: Mapping[str, Prompt] | None = None
    """Prompts for the texts of tasks, which replace `prompt` in evaluations. A key is a task and a side, a task,
    a type of tasks and a side, a type, or a side: `SciFact-query`, `SciFact`, `Retrieval-query`, `STS`, `query`,
    `document`; the first that fits, in this order, is used. The type is MTEB's, or the name of an evaluator.
    `{instruction}` in a template stands for the task's instruction. Prompt and text are truncated to
    `max_length` together."""
    similarity: Similarity | None = None
    """Similarity that evaluators and losses use to compare its texts; by default the cosine, or the default of
    the evaluator or the loss."""

    def for_task(self, task: TextTask) -> EncoderRecipe:
        """Return the recipe with its prompt for the texts of a task, and without `task_prompts`.

        Raises:
            SentbedError: if the prompt has `{instruction}`, and the task has none.
        """
        prompts = {}
        for key, prompt in (self.task_prompts or {}).items():
            prompts[key.lower()] = prompt
        recipe = attrs.evolve(self, task_prompts=None)
        for key in task.keys:
            if key in prompts:
                return attrs.evolve(recipe, prompt=prompts[key].instructed(task))
        return recipe

    @property
    def task_recipes(self) -> tuple[EncoderRecipe, ...]:
        """The recipe with each of `task_prompts` as its prompt; `{instruction}` is not replaced."""
        prompts = (self.task_prompts or {}).values()
        return tuple(
            attrs.evolve(self, prompt=prompt, task_prompts=None) for prompt in prompts
        )

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """All prompts; `Prompt()` if the recipe sets none."""
        if isinstance(self.prompt, tuple):
            return self.prompt
        return (self.prompt or Prompt(),)

    @property
    def resolved_prompts(self) -> tuple[ResolvedPrompt | None, ...]:
        """The prompts in effect, including the pooler's defaults."""
        return tuple(
            prompt.resolve(self.pooler, self.backbone.traits) for prompt in self.prompts
        )

    @property
    def needs(self) -> frozenset[str]:
        """Needs of the pooler and of the prompts, in terms of `PoolerTraits.needs`."""
        needs = self.pooler.traits.needs
        for prompt in self.resolved_prompts:
            if prompt is not None and prompt.template.between is not None:
                needs |= {"span"}
        return needs

    @property
    def marks(self) -> bool:
        """Whether a prompt's tokens are not those of its text alone: some are hidden, or choose layers."""
        try:
            prompts = filter(None, self.resolved_prompts)
        except SentbedError:
            return False  # reported with the prompt
        marked = any(
            prompt.layers or prompt.template.between is not None for prompt in prompts
        )
        return marked or self.backbone.traits.placeholder is not None

    @property
    def readings(self) -> tuple[tuple[int, ...], ...]:
        """The distinct sets of layers that prompts choose."""
        layers = [prompt.layers for prompt in self.prompts if prompt.layers is not None]
        return tuple(dict.fromkeys(layers))

    @property
    def template(self) -> tuple[str, str] | None:
        """Text before and after the sentence in the only prompt; None without a prompt or with several."""
        first, *others = self.resolved_prompts
        if others or first is None or first.template.between is not None:
            return None
        return first.template.prefix, first.template.suffix

    @property
    def backbones(self) -> tuple[Backbone, ...]:
        """The backbone, and variants of it with the layers that prompts choose, if it supports that."""
        readings = map(self.backbone.reading, self.readings)
        return tuple(filter(None, (self.backbone, *readings)))

    @property
    def runs_code(self) -> bool:
        """Whether building it runs Python code that comes with a model, also for an inner backbone."""
        backbones = [part for _, part in parts_in(self) if isinstance(part, Backbone)]
        return any(backbone.traits.runs_code for backbone in backbones)

    @property
    def joined(self) -> int:
        """Number of vectors that are concatenated to the encoder's vector."""
        return len(self.prompts) if self.ensemble == "concatenate" else 1

    @property
    def resolved_prompt(self) -> ResolvedPrompt | None:
        """The only prompt in effect. Raises `SentbedError` if there are several."""
        if len(self.prompts) != 1:
            raise SentbedError(
                f"the encoder has {len(self.prompts)} prompts, and this takes one; give one"
            )
        return self.resolved_prompts[0]


def _names(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


@attrs.frozen
class Validate:
    """`validate`: when to evaluate on a development set, and which weights to keep."""

    every: int = attrs.field(validator=ge(1))
    """Optimiser steps between two validations; it is also validated before the first and after the last."""
    evaluator: Evaluator = attrs.field(metadata={"key": "with"})
    """Evaluator whose primary score ranks the checkpoints; must use development data if it selects."""
    keep: Literal["best", "last"] = "best"
    """Weights that the stage keeps: those with the best validation score, which may be its initial weights, or
    the last ones."""
    encoder: str | None = None
    """The encoder to validate; may be left out where the stage trains one."""
    second: str | None = None
    """The encoder of the second sentence of each pair, for pairs in two languages; the same if left out."""
    patience: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of successive validations without a better score after which the stage ends; by default it does not
    end early."""

    @property
    def chooses(self) -> bool:
        """Whether its score decides which weights the stage keeps."""
        return self.keep == "best" or self.patience is not None


@attrs.frozen
class Watch:
    """`watch`: an evaluator to follow during a stage; it does not affect training."""

    every: int = attrs.field(validator=ge(1))
    """Optimiser steps between two evaluations; also evaluated before the first and after the last step."""
    evaluator: Evaluator = attrs.field(metadata={"key": "with"})
    """Evaluator, such as `geometry`."""
    encoder: str | None = None
    """The encoder to evaluate; may be left out where the stage trains one."""
    second: str | None = None
    """The encoder of the second sentence of each pair, for pairs in two languages; the same if left out."""


@attrs.frozen
class Stage:
    """`[[stage]]`: one training phase."""

    name: str = attrs.field(validator=matches_re(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"))
    data: DataSource
    loss: Loss
    optimizer: Optimizer
    schedule: Schedule
    batch_size: int = attrs.field(validator=ge(2))
    """Rows per optimiser step; every other row of the batch is a negative."""
    epochs: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Passes over the data; exactly one of `epochs` and `steps` is given."""
    steps: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Optimiser steps, over as many passes as needed."""
    train: str | tuple[str, ...] = attrs.field(default=(), converter=_names)
    """Encoder to train, or several; optional if the recipe has only one."""
    freeze: str | tuple[str, ...] = attrs.field(default=(), converter=_names)
    """Encoders in `columns` that are not trained: no gradient, eval mode."""
    columns: Mapping[str, str] = attrs.field(factory=dict)
    """Column of the data -> encoder of its texts (`{ anchor = "en", positive = "zh" }`); optional if the
    stage has only one encoder."""
    weights: Mapping[str, str] = attrs.field(factory=dict)
    """Encoder -> source of its weights: the name of an earlier stage, or `"pretrained"` for those before the
    first stage. An encoder without an entry keeps its current weights."""
    max_grad_norm: float = attrs.field(default=1.0, validator=ge(0))
    """L2 norm to which gradients are clipped; 0 disables clipping. SimCSE's trainer uses 1."""
    micro_batch: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Rows whose activations are in memory at a time: gradient caching (Gao et al., 2021) computes the gradient
    of the whole batch with them, at the cost of a second forward pass. By default the whole batch."""
    max_length: int | None = attrs.field(default=None, validator=optional(ge(SHORTEST)))
    """Maximum tokens per sentence in training; by default the encoder's `max_length`."""
    normalize_text: bool = False
    """Whether the prompt's text rules (`prompt.normalizer`) are applied to training texts; PromptEOL's code does
    not apply them."""
    distinct: bool = False
    """Whether two rows that share a text are never in one batch, where they would be false negatives."""
    shuffle_buffer: int | None = attrs.field(default=None, validator=optional(ge(2)))
    """Rows shuffled at a time, for data read from disk; by default all rows."""
    ema: float | None = attrs.field(
        default=None, validator=optional(and_(gt(0), lt(1)))
    )
    """Decay of an exponential moving average of the trained weights, updated after each step, such as 0.999. The
    average is evaluated by `validate` and `watch`, and kept by the stage. By default there is none."""
    cache_frozen: bool = False
    """Whether vectors of frozen encoders are cached on disk: texts are then encoded in the first epoch only."""
    validate: Validate | None = None
    watch: tuple[Watch, ...] = ()

    @property
    def traits(self) -> ComponentTraits:
        """Papers to cite for how the stage is computed: gradient caching."""
        if self.micro_batch is None:
            return ComponentTraits()
        return ComponentTraits(cites=("gao2021gradcache",))

    @property
    def columns_used(self) -> tuple[str, ...]:
        """Columns of the data that the loss uses, in the order of the data."""
        loss = self.loss.traits
        takes = loss.takes
        if takes is None:
            texts = set(self.data.columns) - self.data.traits.numbers
            takes = loss.numbers | texts
        used = loss.needs | takes - {LABEL}
        return tuple(column for column in self.data.columns if column in used)

    @property
    def texts(self) -> tuple[str, ...]:
        """The used columns that hold texts, neither classes nor numbers."""
        others = {LABEL, *self.loss.traits.numbers}
        return tuple(column for column in self.columns_used if column not in others)

    def rows_taken(self, rows: int) -> int:
        """Return the number of rows in all steps or epochs of the stage, for data with `rows` rows."""
        if self.steps is not None:
            return self.steps * self.batch_size
        return rows * (self.epochs or 1)


@attrs.frozen
class Checkpoint:
    """`[checkpoint]`: when to save a training state, from which `sentbed run --resume` continues."""

    every: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Optimiser steps between two states; by default only `minutes` applies."""
    minutes: float = attrs.field(default=10.0, validator=ge(0))
    """Minutes after which a state is saved in any case."""
    keep: int = attrs.field(default=2, validator=ge(1))
    """Number of states to keep, the newest ones; all are removed when the run has finished."""


@attrs.frozen
class Evaluate:
    """`[[evaluate]]`: an evaluator, the encoder to evaluate, and when."""

    evaluator: Evaluator = attrs.field(metadata={"inline": True, "key": "use"})
    """Name of the evaluator, whose fields are keys of the same table; see `sentbed show evaluator NAME`."""
    encoder: str | None = None
    """The encoder to evaluate; may be left out where the recipe has one."""
    second: str | None = None
    """The encoder of the second sentence of each pair, for pairs in two languages; the same if left out."""
    at: tuple[Literal["start", "end"], ...] = attrs.field(
        default=("end",), validator=min_len(1)
    )
    """Before the first stage, after the last, or both."""


@attrs.frozen
class Expected:
    """`[expected]`: a number that the run should reproduce.

    A key is `TASK` (its first metric), `"TASK/METRIC"` or `"TASK/METRIC@PROTOCOL"`, with `ENCODER/` before it
    if there are several encoders. A key that matches two scores is not met.
    """

    value: float
    tolerance: float | None = attrs.field(default=None, validator=optional(ge(0)))
    """Largest absolute difference that counts as reproduced."""
    source: str = ""
    """Where the number is published."""
    decides: bool = True
    """Whether the run fails if it is not met. Numbers that cannot be reproduced, such as the speed of another
    machine, have `false` instead of a tolerance: they are only shown beside the measured number."""

    def __attrs_post_init__(self) -> None:
        if self.decides and self.tolerance is None:
            raise ValueError(
                "the required key `tolerance` is missing; a number that is only to be shown beside the one "
                "found has `decides = false` instead"
            )
        if not self.decides and self.tolerance is not None:
            raise ValueError(
                "a number that decides nothing has no `tolerance`; take out one of the two"
            )


@attrs.frozen
class Recipe:
    """A recipe."""

    schema: int
    run: Run
    runtime: Runtime
    encoders: Mapping[str, EncoderRecipe]
    stage: tuple[Stage, ...] = ()
    evaluate: tuple[Evaluate, ...] = ()
    checkpoint: Checkpoint = attrs.field(factory=Checkpoint)
    tracker: tuple[Tracker, ...] = ()
    """`[[tracker]]`: other places to which the run is reported."""
    expected: Mapping[str, Expected] = attrs.field(factory=dict)
    requires: Mapping[str, str] | None = None
    """Distributions that must be installed, and versions as pip reads them: `sentbed-attention = ">=0.2"`.
    `sentbed deps RECIPE` prints those of a recipe."""
    tables: Mapping[str, RecipeTable] = attrs.field(
        factory=dict, metadata={"spread": True}
    )
    """Tables of plugins, such as `[study]`, by key."""
    document: Document = attrs.field(
        factory=lambda: Document({}), metadata={"skip": True}, eq=False
    )
    """Parsed file with overrides applied; gives the positions of problems."""

    def table(self, cls: type[Table]) -> Table | None:
        """Return the plugin table of class `cls`, or None if the recipe has none."""
        for table in self.tables.values():
            if isinstance(table, cls):
                return table
        return None

    def without(self, cls: type[RecipeTable]) -> Recipe:
        """Return the recipe without the plugin table of class `cls`."""
        tables = {}
        for key, table in self.tables.items():
            if not isinstance(table, cls):
                tables[key] = table
        return attrs.evolve(self, tables=tables)

    @property
    def main_encoder(self) -> str:
        """Name of the only encoder, or `encoder` if there are several."""
        if len(self.encoders) != 1:
            return MAIN_ENCODER
        return next(iter(self.encoders))

    def trained(self, stage: Stage) -> tuple[str, ...]:
        """Return the names of the encoders that a stage trains."""
        return _names(stage.train) or (self.main_encoder,)

    def towers(self, stage: Stage) -> dict[str, str]:
        """Return column -> encoder, for the text columns that a stage uses."""
        trained = self.trained(stage)
        return {column: stage.columns.get(column, trained[0]) for column in stage.texts}


def first_stages(recipe: Recipe, count: int) -> Recipe:
    """Return the recipe with only the first `count` stages, and no evaluation after them."""
    starts = []
    for entry in recipe.evaluate:
        if "start" in entry.at:
            starts.append(attrs.evolve(entry, at=("start",)))
    return attrs.evolve(
        recipe,
        stage=recipe.stage[:count],
        evaluate=tuple(starts),
        expected={},
        tables={},
    )


def written_path(data: Mapping[str, Any], path: KeyPath) -> KeyPath:
    """Return the path in TOML data of a setting of a `Recipe`: a single encoder may be `[encoder]` there."""
    if path[:2] == ("encoders", MAIN_ENCODER) and MAIN_ENCODER in data:
        return (MAIN_ENCODER, *path[2:])
    return path


def resolved_toml(recipe: Recipe, directory: Path | None = None) -> str:
    """Return the recipe as TOML with every default written out; it reproduces the run.

    Paths are absolute. With `directory`, the text is for a file there, and paths that are relative in the
    recipe are relative to `directory`.
    """
    import tomli_w

    kept = {key: table for key, table in recipe.tables.items() if table.traits.resolved}
    table = unstructure(attrs.evolve(recipe, tables=kept), directory)
    if list(table["encoders"]) == [MAIN_ENCODER]:
        table["encoder"] = table.pop("encoders")[MAIN_ENCODER]
    return tomli_w.dumps(table)
