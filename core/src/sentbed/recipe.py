"""A recipe: what one TOML file says, as frozen attrs classes.

`parse` (bytes -> document with line numbers) and `structure` (document -> `Recipe`) are two arrows of the
way of a recipe; see ARCHITECTURE.md. A recipe is closed: every unknown key, wrong type and unknown
component is reported at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import attrs
from attrs.validators import and_, ge, le, matches_re, min_len, optional

from sentbed.errors import Problem, RecipeError, SentbedError
from sentbed.fit import misfits
from sentbed.overrides import apply_overrides
from sentbed.paths import FilePath
from sentbed.prompts import Prompt, ResolvedPrompt, read_candidates
from sentbed.protocols import (
    Backbone,
    DataSource,
    Evaluator,
    Head,
    Loss,
    Optimizer,
    Pooler,
    Runtime,
    Schedule,
)
from sentbed.registry import Plugins, load_plugins
from sentbed.structure import structure
from sentbed.toml import Document, parse

SCHEMA = 1
"""The version of the recipe format that this version of sentbed reads."""

MAIN_ENCODER = "encoder"
"""The name of the encoder that the table `[encoder]` describes."""


@attrs.frozen
class Run:
    """`[run]`: the name of the run and its seed."""

    name: str = attrs.field(validator=matches_re(r"[A-Za-z0-9][A-Za-z0-9._-]*"))
    """Also the name of the run directory: letters, digits, `.`, `_` and `-`."""
    seed: int = attrs.field(default=42, validator=and_(ge(0), le(2**32 - 1)))
    """Seeds initialisation, dropout and shuffling."""


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


@attrs.frozen
class Validate:
    """`validate`: when to look at a development set, and what to keep."""

    every: int = attrs.field(validator=ge(1))
    """Optimiser steps between two validations; the last step is always validated."""
    with_: Evaluator = attrs.field(metadata={"key": "with"})
    """The evaluator whose primary score ranks the checkpoints."""
    keep: Literal["best", "last"] = "best"


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
    train: str | None = None
    """The encoder to train; may be left out where the recipe has one."""
    max_grad_norm: float = attrs.field(default=1.0, validator=ge(0))
    """Gradients are clipped to this L2 norm; 0 leaves them as they are. SimCSE's trainer uses 1."""
    max_length: int | None = attrs.field(default=None, validator=optional(ge(2)))
    """Tokens a sentence in training; the encoder's `max_length` where left out."""
    normalize_text: bool = False
    """Apply the prompt's text rules (`prompt.normalizer`) to the training texts; PromptEOL's released code
    does not."""
    validate: Validate | None = None


@attrs.frozen
class Evaluate:
    """`[[evaluate]]`: an evaluator, on which encoder, and when."""

    with_: Evaluator = attrs.field(metadata={"inline": True})
    encoder: str | None = None
    """The encoder to evaluate; may be left out where the recipe has one."""
    at: tuple[Literal["start", "end"], ...] = attrs.field(default=("end",), validator=min_len(1))
    """Before the first stage, after the last, or both."""


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
    tolerance: float = attrs.field(validator=ge(0))
    """Largest absolute difference that still counts as reproduced."""
    source: str = ""
    """Where the number is published."""


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
    expected: Mapping[str, Expected] = attrs.field(factory=dict)
    document: Document = attrs.field(factory=lambda: Document({}), metadata={"skip": True}, eq=False)
    """What the file said, with overrides applied: `resolved.toml` and the positions of problems."""

    @property
    def main_encoder(self) -> str:
        """The name of the only encoder, or `encoder` where there are several."""
        return next(iter(self.encoders)) if len(self.encoders) == 1 else MAIN_ENCODER


def load_recipe(path: str | Path, overrides: Sequence[str] = (), plugins: Plugins | None = None) -> Recipe:
    """Read, structure and check a recipe.

    `overrides` are `PATH=VALUE` as on the command line: `stage.nli.loss.temperature=0.01`; a value is TOML,
    or a string where it is not; `PATH=` takes a key out.

    Raises:
        RecipeError: with every problem of the file.
    """
    file = Path(path)
    try:
        content = file.read_bytes()
    except OSError as error:
        message = f"cannot read the recipe: {error.strerror or error}; check the path"
        raise RecipeError([Problem(message, file=str(path))]) from error
    plugins = plugins or load_plugins()
    document = apply_overrides(parse(content, str(path)), overrides)
    recipe = structure_recipe(document, plugins, file.resolve().parent)
    check(recipe, plugins)
    return recipe


def structure_recipe(document: Document, plugins: Plugins, base: Path) -> Recipe:
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
    recipe, more = structure(data, Recipe, document, plugins, base, rename=_single_encoder_path(main))
    problems += more
    if problems:
        raise RecipeError(problems)
    return attrs.evolve(recipe, document=document)


def _single_encoder_path(main: object) -> Mapping[tuple[str, ...], tuple[str, ...]]:
    """`[encoder]` is read as `[encoders.encoder]`; problems are reported where the file has them."""
    return {("encoders", MAIN_ENCODER): (MAIN_ENCODER,)} if main is not None else {}


def check(recipe: Recipe, plugins: Plugins) -> None:
    """Find what is wrong with a structured recipe before anything heavy is imported.

    `plugins` are where alternatives are looked for.

    Raises:
        RecipeError: with every problem.
    """
    problems: list[Problem] = []

    def add(message: str, *path: str | int) -> None:
        if path[:2] == ("encoders", MAIN_ENCODER) and "encoder" in recipe.document.data:
            path = (MAIN_ENCODER, *path[2:])
        problems.append(recipe.document.problem(message, path))

    def encoder_name(name: str | None, *path: str | int) -> None:
        names = ", ".join(f"`{known}`" for known in recipe.encoders)
        if name is not None and name not in recipe.encoders:
            add(f"there is no encoder `{name}`, the recipe has {names}; name one of them", *path)
        elif name is None and len(recipe.encoders) > 1:
            add(f"the recipe has several encoders ({names}); say which one with `{path[-1]}`", *path)

    for name, encoder in recipe.encoders.items():
        for key, message in misfits(encoder, plugins):
            add(message, "encoders", name, key)
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
            add(f"{name!r} cannot name an encoder; use letters, digits, `_` and `-`", "encoders", name)
    encoders_fit = not problems
    seen: set[str] = set()
    for i, stage in enumerate(recipe.stage):
        if stage.name in seen:
            add(f"two stages are named `{stage.name}`; give each its own name", "stage", i, "name")
        seen.add(stage.name)
        encoder_name(stage.train, "stage", i, "train")
        if (stage.epochs is None) == (stage.steps is None):
            has = "both" if stage.steps is not None else "neither"
            add(f"the stage has {has} of `epochs` and `steps`; give exactly one", "stage", i)
        trained = recipe.encoders.get(stage.train or recipe.main_encoder)
        if trained is not None and (reason := getattr(trained.backbone, "untrainable", None)):
            add(reason, "stage", i)
        if stage.normalize_text and trained is not None and not _has_text_rules(trained):
            add(
                "`normalize_text` is on, but the encoder's prompt has no text rules; "
                'set `normalizer = "prompt-eol"` in its `prompt`, or take `normalize_text` out',
                "stage",
                i,
                "normalize_text",
            )
        if missing := sorted(stage.loss.needs - set(stage.data.columns)):
            add(
                f"the loss `{stage.loss.name}` needs the column `{missing[0]}`, the data source "
                f"`{stage.data.name}` gives {', '.join(stage.data.columns)}; choose another",
                "stage",
                i,
                "loss",
            )
    for i, evaluate in enumerate(recipe.evaluate):
        encoder_name(evaluate.encoder, "evaluate", i, "encoder")
        if "start" in evaluate.at and not recipe.stage:
            add(
                '`at` has "start", but the recipe has no stage before which to evaluate; remove it',
                "evaluate",
                i,
            )
    if recipe.search is not None:
        encoder_name(recipe.search.encoder, "search", "encoder")
        if not getattr(recipe.search.with_, "development", False):
            add(
                f"a search chooses what scores best, so it must not see test data, and "
                f"`{recipe.search.with_.name}` does not say that it scores development data only; "
                'give `senteval-sts` development tasks, such as `tasks = ["STSB-dev"]`, or tell `sts` with '
                '`split = "dev"` that its file is one',
                "search",
                "with",
            )
        searched = recipe.encoders.get(recipe.search.encoder or recipe.main_encoder)
        if searched is not None and encoders_fit:
            for message in _no_candidates(searched, recipe.search, plugins):
                add(message, "search", "candidates")
    if recipe.expected and not recipe.evaluate:
        add("`[expected]` has numbers, but the recipe has no `[[evaluate]]` that could give them", "expected")
    if problems:
        raise RecipeError(problems)


def _has_text_rules(encoder: EncoderRecipe) -> bool:
    try:
        prompt = encoder.resolved_prompt
    except SentbedError:
        return True  # reported with the prompt
    return prompt is not None and prompt.normalizer != "none"


def _no_candidates(encoder: EncoderRecipe, search: Search, plugins: Plugins) -> Iterator[str]:
    """Yield why the encoder cannot take the candidates."""
    try:
        candidates = read_candidates(search.candidates, encoder.prompt or Prompt(), encoder.pooler)
    except SentbedError as error:
        yield str(error)
        return
    for candidate in candidates:
        for _, message in misfits(attrs.evolve(encoder, prompt=candidate), plugins):
            yield f"the candidate {candidate.template or candidate.demonstration!r} does not fit: {message}"
            return
