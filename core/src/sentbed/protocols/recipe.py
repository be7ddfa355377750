"""A recipe as classes: `Recipe`, `EncoderRecipe`, `Stage` and others, and the tables that plugins offer.

The fields of a class are the keys of its table in the TOML file. `sentbed.load_recipe` makes them from a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

import attrs
from attrs.validators import and_, ge, gt, le, lt, matches_re, min_len, optional

from sentbed._toml import Document, KeyPath
from sentbed.errors import Level, Problem, SentbedError
from sentbed.protocols.components import (
    LABEL,
    Backbone,
    DataSource,
    Loss,
    Optimizer,
    Pooler,
    Schedule,
    Similarity,
    Tracker,
)
from sentbed.protocols.engine import Head, Runtime
from sentbed.protocols.evaluation import Evaluator, TextTask
from sentbed.protocols.prompts import Prompt, ResolvedPrompt

if TYPE_CHECKING:
    import pluggy

Table = TypeVar("Table")

MAIN_ENCODER = "encoder"
"""Name of the encoder that the table `[encoder]` describes."""

SHORTEST = 2
"""Smallest value of `max_length`."""

PRETRAINED = "pretrained"
"""Value in a stage's `weights` that means the weights of the encoder before the first stage."""


@attrs.frozen
class RunTable:
    """`[run]`: the name of the run and its seed."""

    name: str = attrs.field(validator=matches_re(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"))
    """Name of the run and of its directory: at most 100 letters, digits, `.`, `_` and `-`."""
    seed: int = attrs.field(default=42, validator=and_(ge(0), le(2**32 - 1)))
    """Seed of initialisation, dropout and shuffling."""
    cache: bool = True
    """Whether evaluations use the vector store of this machine, which has the vectors of texts for each encoder.

    Scores do not depend on it. See `sentbed cache info`.
    """
    allow_overlap: bool = False
    """Whether a stage may train on a file that an evaluation reads as test data."""


@attrs.frozen
class EncoderRecipe:
    """`[encoder]` or `[encoders.NAME]`: backbone, pooler, head and prompts of an encoder."""

    backbone: Backbone
    pooler: Pooler
    head: Head = attrs.field(factory=Head)
    max_length: int = attrs.field(default=128, validator=ge(SHORTEST))
    """Maximum number of tokens of a sentence, including special tokens; longer sentences are truncated.

    With a prompt, only the tokens of the sentence count, without the template and special tokens.
    """
    prompt: Prompt | tuple[Prompt, ...] | None = None
    """Text around each sentence; by default that of the pooler.

    With several prompts, each has a forward pass, and the vector is the mean of their vectors after the head.
    """
    task_prompts: Mapping[str, Prompt] | None = None
    """Prompts for the texts of tasks, which replace `prompt` in evaluations.

    A key is a task, with a side or without (`SciFact-query`, `SciFact`), a type of tasks, with a side or without
    (`Retrieval-query`, `STS`), or a side (`query`). If several keys fit a text, the first in this order is used.
    A type is one of MTEB's types, or the name of an evaluator. `{instruction}` in a template stands for the
    instruction of the task. Prompt and text are truncated to `max_length` together.
    """
    similarity: Similarity | None = None
    """Similarity with which evaluators and losses compare the texts of the encoder.

    By default, they use the cosine, or a similarity of their own.
    """

    def for_task(self, task: TextTask) -> EncoderRecipe:
        """Return the recipe with its prompt for the texts of a task, and without `task_prompts`.

        Raises:
            SentbedError: if the prompt has `{instruction}`, but the task has no instruction.
        """
        prompts = {}
        for key, prompt in (self.task_prompts or {}).items():
            prompts[key.lower()] = prompt
        recipe = attrs.evolve(self, task_prompts=None)
        for key in task.keys:
            if key in prompts:
                return attrs.evolve(recipe, prompt=prompts[key].for_task(task))
        return recipe

    @property
    def prompts(self) -> tuple[Prompt | None, ...]:
        """The prompts as a tuple; the default prompt of the pooler, which may be None, if the recipe has none."""
        if isinstance(self.prompt, tuple):
            return self.prompt
        return (self.prompt or self.pooler.prompt,)

    @property
    def resolved_prompts(self) -> tuple[ResolvedPrompt | None, ...]:
        """The prompts that are in effect; None for no text around the sentence."""
        return tuple(self.resolved(prompt) for prompt in self.prompts)

    def resolved(self, prompt: Prompt | None) -> ResolvedPrompt | None:
        """Return a prompt with the defaults of the pooler, and with what the backbone needs in it.

        Raises:
            SentbedError: if the prompt is invalid.
        """
        if prompt is None:
            return None
        resolved = prompt.resolve(self.pooler.prompt)
        if resolved is None:
            return None
        return resolved.on(self.backbone)

    @property
    def needs(self) -> frozenset[str]:
        """What the pooler and the prompts need from the backbone; see `Pooler.needs`."""
        needs = self.pooler.needs
        for prompt in self.resolved_prompts:
            if prompt is not None and prompt.template.between is not None:
                needs |= {"span"}
        return needs

    @property
    def marks(self) -> bool:
        """Whether a prompt hides tokens (`TokenIds.hidden`), or must have a placeholder.

        A placeholder is a token that the backbone requires in each prompt (`Backbone.placeholder`).
        """
        try:
            prompts = self.resolved_prompts
        except SentbedError:
            # An invalid prompt is reported elsewhere.
            return False
        for prompt in prompts:
            if prompt is not None and prompt.template.between is not None:
                return True
        return self.backbone.placeholder is not None

    @property
    def template(self) -> tuple[str, str] | None:
        """Text before and after the sentence in the only prompt; None if there is no prompt, or several."""
        first, *others = self.resolved_prompts
        if others or first is None or first.template.between is not None:
            return None
        return first.template.prefix, first.template.suffix

    @property
    def resolved_prompt(self) -> ResolvedPrompt | None:
        """The only prompt, with the defaults of the pooler.

        Raises:
            SentbedError: if there are several prompts.
        """
        if len(self.prompts) != 1:
            raise SentbedError(
                f"the encoder has {len(self.prompts)} prompts, and this takes one; give one"
            )
        return self.resolved_prompts[0]


def _names(value: str | Sequence[str]) -> tuple[str, ...]:
    """Return a name, or several, as a tuple."""
    if isinstance(value, str):
        return (value,)
    return tuple(value)


@attrs.frozen
class Validate:
    """`validate`: when to evaluate on a development set, and which weights to keep."""

    every: int = attrs.field(validator=ge(1))
    """Optimiser steps between two validations. There is also one before the first step and one after the last."""
    evaluator: Evaluator = attrs.field(metadata={"key": "with"})
    """Evaluator whose primary score is compared. It must use development data if its score chooses weights."""
    keep: Literal["best", "last"] = "best"
    """Weights that the stage keeps: those with the best validation score, or those after the last step.

    The best weights may be those before the first step.
    """
    encoder: str | None = None
    """Name of the encoder to validate; not needed if the stage trains only one."""
    second: str | None = None
    """Name of the encoder for the second sentence of each pair; by default the same encoder."""
    patience: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of successive validations without a better score after which the stage ends early.

    By default, it does not end early.
    """

    @property
    def chooses(self) -> bool:
        """Whether the validation score decides which weights the stage keeps, or when it ends."""
        return self.keep == "best" or self.patience is not None


@attrs.frozen
class Watch:
    """`watch`: an evaluation that is repeated during a stage. It does not affect training."""

    every: int = attrs.field(validator=ge(1))
    """Optimiser steps between two evaluations. There is also one before the first step and one after the last."""
    evaluator: Evaluator = attrs.field(metadata={"key": "with"})
    """Evaluator, such as `geometry`."""
    encoder: str | None = None
    """Name of the encoder to evaluate; not needed if the stage trains only one."""
    second: str | None = None
    """Name of the encoder for the second sentence of each pair; by default the same encoder."""


@attrs.frozen
class Stage:
    """`[[stage]]`: one training phase."""

    name: str = attrs.field(validator=matches_re(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"))
    data: DataSource
    loss: Loss
    optimizer: Optimizer
    schedule: Schedule
    batch_size: int = attrs.field(validator=ge(2))
    """Number of rows per optimiser step. Most losses use the other rows of the batch as negatives."""

    epochs: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of passes over the data. Exactly one of `epochs` and `steps` must be given."""
    steps: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of optimiser steps, over as many passes as needed."""

    train: str | tuple[str, ...] = attrs.field(default=(), converter=_names)
    """Name of the encoder to train, or an array of names; not needed if the recipe has only one encoder."""
    freeze: str | tuple[str, ...] = attrs.field(default=(), converter=_names)
    """Names of encoders in `columns` that are not trained: they have no gradient and are in eval mode."""
    columns: Mapping[str, str] = attrs.field(factory=dict)
    """Name of the encoder for each column of texts: `{ anchor = "en", positive = "zh" }`.

    It is not needed if the stage has only one encoder.
    """
    weights: Mapping[str, str] = attrs.field(factory=dict)
    """Source of the weights with which an encoder starts, by the name of the encoder.

    It is the name of an earlier stage, or `"pretrained"` for the weights before the first stage. An encoder
    without an entry keeps its current weights.
    """

    max_grad_norm: float = attrs.field(default=1.0, validator=ge(0))
    """L2 norm to which gradients are clipped; 0 disables clipping. SimCSE's trainer uses 1."""
    micro_batch: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of rows whose activations are in memory at a time (gradient caching); by default the whole batch.

    Gradient caching (Gao et al., 2021) computes the gradient of the whole batch nevertheless, with a second
    forward pass.
    """
    max_length: int | None = attrs.field(default=None, validator=optional(ge(SHORTEST)))
    """Maximum number of tokens of a sentence in training; by default `max_length` of the encoder."""
    normalize_text: bool = False
    """Whether the text rules of the prompt (`prompt.normalizer`) are applied to training texts.

    PromptEOL's code does not apply them.
    """
    distinct: bool = False
    """Whether two rows with a common text are kept out of the same batch, where they would be false negatives."""
    ema: float | None = attrs.field(
        default=None, validator=optional(and_(gt(0), lt(1)))
    )
    """Decay of an exponential moving average of the trained weights, such as 0.999; by default there is none.

    The average is updated after each step. `validate` and `watch` evaluate it, and the stage keeps it.
    """

    validate: Validate | None = None
    """Validation during the stage."""
    watch: tuple[Watch, ...] = ()
    """Evaluations that are repeated during the stage. Their scores are shown, but decide nothing."""

    @property
    def cites(self) -> tuple[str, ...]:
        """The paper on gradient caching, if the stage uses it."""
        if self.micro_batch is None:
            return ()
        return ("gao2021gradcache",)

    @property
    def columns_used(self) -> tuple[str, ...]:
        """Columns that the loss uses, in the order of the data's columns."""
        loss = self.loss
        takes = loss.takes
        if takes is None:
            texts = set(self.data.columns) - self.data.numbers
            takes = loss.numbers | texts
        used = loss.columns | takes - {LABEL}
        return tuple(column for column in self.data.columns if column in used)

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns of texts that the loss uses: all used columns except classes and numbers."""
        others = {LABEL, *self.loss.numbers}
        return tuple(column for column in self.columns_used if column not in others)


@attrs.frozen
class Checkpoint:
    """`[checkpoint]`: when to save the training state, from which `sentbed run RECIPE --resume DIR` continues."""

    every: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Optimiser steps between two training states; by default only `minutes` decides."""
    minutes: float = attrs.field(default=10.0, validator=ge(0))
    """Minutes since the last training state after which another is saved in any case."""


@attrs.frozen
class Evaluate:
    """`[[evaluate]]`: an evaluator, the encoder to evaluate, and when."""

    evaluator: Evaluator = attrs.field(metadata={"inline": True, "key": "use"})
    """Name of the evaluator, whose fields are keys of the same table; see `sentbed show evaluator NAME`."""
    encoder: str | None = None
    """Name of the encoder to evaluate; not needed if the recipe has only one."""
    second: str | None = None
    """Name of the encoder for the second sentence of each pair; by default the same encoder."""
    at: tuple[Literal["start", "end"], ...] = attrs.field(
        default=("end",), validator=min_len(1)
    )
    """When to evaluate: `start` is before the first stage, `end` after the last stage."""


@attrs.frozen
class Expected:
    """`[expected]`: a number that the run should reproduce.

    Its key is `TASK` (for the first metric of the task), `"TASK/METRIC"` or `"TASK/METRIC@PROTOCOL"`. If the
    recipe has several encoders, `ENCODER/` stands before it. A number whose key matches two scores counts as not
    reproduced.
    """

    value: float
    """The number."""
    tolerance: float | None = attrs.field(default=None, validator=optional(ge(0)))
    """Largest absolute difference with which the number counts as reproduced."""
    source: str = ""
    """Publication that has the number."""
    decides: bool = True
    """Whether the run fails if the number is not reproduced.

    If not, there is no tolerance, and the number is only shown beside the measured one. This is for numbers that
    cannot be reproduced, such as the speed of another machine.
    """

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
class TableTraits:
    """Traits of a plugin's recipe table."""

    decides: bool = True
    """Whether scores depend on the table. If so, a run cannot be resumed after the table has changed."""
    resolved: bool = True
    """Whether the resolved recipe of a run includes the table."""
    variants: bool = False
    """Whether the table makes several recipes of one, which `RecipeTable.variants` and `variant` return."""
    no_run: str = ""
    """Why `sentbed run` refuses a recipe with the table, and which command runs it; empty if it does not."""


@attrs.frozen(eq=False)
class Variants:
    """The recipes that a table makes of one recipe, such as the cells of a study."""

    noun: str
    """Plural noun for the recipes, such as `cells`."""
    names: tuple[str, ...]
    """Names of the recipes that can be run."""
    excluded: Mapping[str, str]
    """Why each other recipe cannot be run, by name."""
    recipes: tuple[Recipe, ...] = ()
    """The recipes that can be run. `sentbed check` prints their remarks."""
    remarks: tuple[str, ...] = ()
    """Remarks on the table itself, one sentence each, which `sentbed check` prints."""


class RecipeTable:
    """A top-level table of a recipe that a plugin offers. Its fields are the keys of the table.

    Subclasses are frozen attrs classes. A plugin offers them through the hook `recipe_tables`.
    """

    traits: ClassVar[TableTraits] = TableTraits()

    def problems(
        self,
        recipe: Recipe,
        plugins: InstalledPlugins,
        check_files: bool,
    ) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield the path of a key in the table, and a message, for each problem of the table.

        If `check_files` is false, the method must not read files.
        """
        return iter(())

    @classmethod
    def variants(
        cls,
        document: Any,
        plugins: Any,
        base: Path,
    ) -> Variants:
        """Return all recipes that the table makes of the recipe `document`, structured and checked.

        Relative paths are relative to the directory `base`.

        Raises:
            RecipeError: if the recipe or its table has problems.
        """
        raise NotImplementedError(
            f"`{cls.__qualname__}` says that it has `variants`, and does not give them"
        )

    @classmethod
    def variant(
        cls,
        document: Any,
        plugins: Any,
        base: Path,
        name: str,
    ) -> Any:
        """Return one of the recipes that the table makes of the recipe `document`, by name: a `Document`.

        Raises:
            RecipeError: if there is no such recipe.
        """
        raise NotImplementedError(
            f"`{cls.__qualname__}` says that it has `variants`, and gives none by name"
        )


class InstalledPlugins(Protocol):
    """The installed plugins: a `sentbed.tools.Plugins`."""

    @property
    def manager(self) -> pluggy.PluginManager:
        """The plugin manager of pluggy; `manager.hook` calls the hooks of all plugins."""

    def names(self, kind: str) -> list[str]:
        """Return the sorted names of all components of a kind, such as `pooler`."""

    def load(self, kind: str, name: str) -> Any:
        """Return the class of the component of this kind and name.

        Raises:
            PluginError: if there is no such component, or it cannot be imported.
        """


@attrs.frozen
class Recipe:
    """A recipe: the whole TOML file."""

    schema: int
    run: RunTable
    runtime: Runtime
    encoders: Mapping[str, EncoderRecipe] = attrs.field()
    stage: tuple[Stage, ...] = ()
    evaluate: tuple[Evaluate, ...] = ()
    checkpoint: Checkpoint = attrs.field(factory=Checkpoint)
    tracker: tuple[Tracker, ...] = ()
    """`[[tracker]]`: trackers, which send the progress of the run elsewhere."""
    expected: Mapping[str, Expected] = attrs.field(factory=dict)
    """`[expected]`: numbers that the run should reproduce, by key."""
    tables: Mapping[str, RecipeTable] = attrs.field(
        factory=dict, metadata={"spread": True}
    )
    """Tables that belong to plugins, such as `[study]`, by key."""
    document: Document = attrs.field(
        factory=lambda: Document.of({}),
        metadata={"skip": True},
        eq=False,
    )
    """The parsed file with overrides applied. It also has the file and line of each key."""

    @encoders.validator
    def _has_an_encoder(self, _: Any, encoders: Mapping[str, EncoderRecipe]) -> None:
        if not encoders:
            raise ValueError("the recipe has no encoder; add a table `[encoder]`")

    def table(self, cls: type[Table]) -> Table | None:
        """Return the table of this class (a `RecipeTable`), or None if the recipe does not have it."""
        for table in self.tables.values():
            if isinstance(table, cls):
                return table
        return None

    def without(self, cls: type[RecipeTable]) -> Recipe:
        """Return the recipe without the plugin's table of this class."""
        tables = {}
        for key, table in self.tables.items():
            if not isinstance(table, cls):
                tables[key] = table
        return attrs.evolve(self, tables=tables)

    @property
    def main_encoder(self) -> str:
        """Name of the encoder if there is only one, otherwise `encoder`."""
        if len(self.encoders) != 1:
            return MAIN_ENCODER
        return next(iter(self.encoders))

    def problem(
        self,
        message: str,
        path: KeyPath,
        level: Level = "error",
    ) -> Problem:
        """Return a problem at the path of a key, with the file and the line of the key."""
        path_in_file = written_path(self.document.data, path)
        return self.document.problem(message, path_in_file, level)

    def trained(self, stage: Stage) -> tuple[str, ...]:
        """Return the names of the encoders that a stage trains."""
        return _names(stage.train) or (self.main_encoder,)

    def towers(self, stage: Stage) -> dict[str, str]:
        """Return the name of the encoder for each column of texts that a stage uses."""
        trained = self.trained(stage)
        return {column: stage.columns.get(column, trained[0]) for column in stage.texts}


def written_path(data: Mapping[str, Any], path: KeyPath) -> KeyPath:
    """Return the path that a key of a `Recipe` has in the TOML data of the recipe.

    The two paths differ if the data describes the only encoder in the table `[encoder]`.
    """
    if path[:2] == ("encoders", MAIN_ENCODER) and MAIN_ENCODER in data:
        return (MAIN_ENCODER, *path[2:])
    return path
