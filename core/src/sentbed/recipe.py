"""A recipe: what one TOML file says, as frozen attrs classes.

`parse` (bytes -> document with line numbers) and `structure` (document -> `Recipe`) are two arrows of the
way of a recipe; see ARCHITECTURE.md. A recipe is closed: every unknown key, wrong type and unknown
component is reported at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import attrs
from attrs.validators import and_, ge, gt, le, lt, matches_re, min_len, optional

from sentbed.errors import Problem, RecipeError
from sentbed.extending import extend
from sentbed.overrides import apply_overrides
from sentbed.paths import FilePath
from sentbed.prompts import Prompt, ResolvedPrompt
from sentbed.protocols import (
    LABEL,
    Backbone,
    DataSource,
    Evaluator,
    Head,
    Loss,
    Optimizer,
    Pooler,
    Runtime,
    Schedule,
    Tracker,
)
from sentbed.registry import Plugins, load_plugins
from sentbed.structure import structure, unstructure
from sentbed.study.table import StudyTable
from sentbed.toml import Document

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
    def cites(self) -> tuple[str, ...]:
        """Keys of the papers behind how the stage is computed: gradient caching."""
        return ("gao2021gradcache",) if self.micro_batch is not None else ()

    @property
    def columns_used(self) -> tuple[str, ...]:
        """The data's columns that the loss uses, in the data's order."""
        takes = getattr(self.loss, "takes", None)
        wanted = self.data.columns if takes is None else self.loss.needs | frozenset(takes)
        return tuple(c for c in self.data.columns if c in wanted and (c != LABEL or c in self.loss.needs))


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
class Bootstrap:
    """`[bootstrap]`: intervals of the scores, and whether encoders of the run differ; none where left out."""

    resamples: int = attrs.field(default=1000, validator=ge(100))
    """How often the items behind each score are drawn anew."""
    confidence: float = attrs.field(default=0.95, validator=and_(gt(0), lt(1)))
    """Of an interval; above 0, below 1."""


@attrs.frozen
class Search:
    """`[search]`: which demonstration makes the prompt best (in-context learning, PromptEOL section 3.2).

    `sentbed search` scores each candidate with the encoder as it is built, before any stage.
    """

    with_: Evaluator = attrs.field(metadata={"key": "with"})
    """The evaluator whose primary score ranks the candidates; on development data, never on a test set."""
    candidates: FilePath = attrs.field(default=FilePath("pkg:sentbed/demonstrations.tsv"))
    """A `.tsv` file with the columns `sentence` and `word`, or one template with its demonstration a line,
    in PromptEOL's shell form. Default: 40 demonstrations that come with sentbed."""
    encoder: str | None = None
    """The encoder whose prompt it is; may be left out where the recipe has one."""
    limit: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Only the first so many candidates; all where left out."""


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
    search: Search | None = None
    bootstrap: Bootstrap | None = None
    checkpoint: Checkpoint = attrs.field(factory=Checkpoint)
    tracker: tuple[Tracker, ...] = ()
    """`[[tracker]]`: where else the run is shown."""
    expected: Mapping[str, Expected] = attrs.field(factory=dict)
    study: StudyTable | None = None
    """`[study]`: what `sentbed study` varies; `sentbed run` runs the recipe as it stands."""
    document: Document = attrs.field(factory=lambda: Document({}), metadata={"skip": True}, eq=False)
    """What the file said, with overrides applied: `resolved.toml` and the positions of problems."""

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


def load_recipe(
    path: str | Path, overrides: Sequence[str] = (), plugins: Plugins | None = None, look: bool = True
) -> Recipe:
    """Read, structure and check a recipe.

    `overrides` are `PATH=VALUE` as on the command line: `stage.nli.loss.temperature=0.01`; a value is TOML,
    or a string where it is not; `PATH=` takes a key out. Without `look`, components do not look for files and
    packages that they need.

    Raises:
        RecipeError: with every problem of the file.
    """
    from sentbed.checks import check

    plugins = plugins or load_plugins()
    document = read_document(path, overrides)
    recipe = structure_recipe(document, plugins, Path(path).resolve().parent, look)
    check(recipe, plugins, look)
    return recipe


def read_document(path: str | Path, overrides: Sequence[str] = ()) -> Document:
    """Read a recipe's file and those that it extends, without looking at what they mean.

    Raises `RecipeError`.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        message = f"cannot read the recipe: {error.strerror or error}; check the path"
        raise RecipeError([Problem(message, file=str(path))]) from error
    return apply_overrides(extend(content, str(path), SCHEMA), overrides)


def structure_recipe(document: Document, plugins: Plugins, base: Path, look: bool = True) -> Recipe:
    """Turn a document into a `Recipe`; paths in it are relative to `base`. Raises `RecipeError`."""
    problems: list[Problem] = []
    found = document.data.get("schema")
    if found != SCHEMA or isinstance(found, bool):
        what = "has no `schema`" if found is None else f"has `schema = {found!r}`"
        message = f"the recipe {what}, this version of sentbed reads `schema = {SCHEMA}`"
        problems.append(document.problem(message, ("schema",)))
        if found is not None:
            # Another version's keys are not ours to judge.
            raise RecipeError(problems)
    data = {**document.data, "schema": SCHEMA}
    main = data.pop("encoder", None)
    if main is not None and "encoders" in data:
        message = "the recipe has both `[encoder]` and `[encoders]`; name every encoder under `[encoders]`"
        raise RecipeError([document.problem(message, ("encoder",))])
    if main is not None:
        data["encoders"] = {MAIN_ENCODER: main}
    if not data.get("encoders"):
        problems.append(document.problem("the recipe has no encoder; add a table `[encoder]`", ()))
        data["encoders"] = {}
    recipe, more = structure(
        data, Recipe, document, plugins, base, rename=_single_encoder_path(main), check=look
    )
    problems += more
    if problems:
        raise RecipeError(problems)
    return attrs.evolve(recipe, document=document)


def _single_encoder_path(main: object) -> Mapping[tuple[str, ...], tuple[str, ...]]:
    """`[encoder]` is read as `[encoders.encoder]`; problems are reported where the file has them."""
    return {("encoders", MAIN_ENCODER): (MAIN_ENCODER,)} if main is not None else {}


def first_stages(recipe: Recipe, count: int) -> Recipe:
    """Return the recipe of the first `count` stages alone: nothing is evaluated after them."""
    starts = tuple(attrs.evolve(entry, at=("start",)) for entry in recipe.evaluate if "start" in entry.at)
    return attrs.evolve(recipe, stage=recipe.stage[:count], evaluate=starts, expected={}, bootstrap=None)


def resolved_toml(recipe: Recipe) -> str:
    """Return the recipe with every default written out; running it again is the same run."""
    import tomli_w

    # A run is one cell of its study.
    table = unstructure(attrs.evolve(recipe, study=None))
    if list(table["encoders"]) == [MAIN_ENCODER]:
        table["encoder"] = table.pop("encoders")[MAIN_ENCODER]
    return tomli_w.dumps(table)
