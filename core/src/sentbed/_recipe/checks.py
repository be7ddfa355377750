"""Checks of a structured recipe: unknown names, and parts that cannot be combined."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args, get_type_hints

import attrs

from sentbed._recipe.component_compatibility import (
    beyond_positions,
    misfits,
    runtime_misfits,
    unread_output,
)
from sentbed._recipe.data_overlap import training_on_test_data
from sentbed._recipe.recipe import (
    PRETRAINED,
    EncoderRecipe,
    Evaluate,
    Recipe,
    Stage,
    Validate,
    Watch,
    written_path,
)
from sentbed._registry.registry import Plugins
from sentbed.errors import (
    Problem,
    RecipeError,
    RuntimeUnavailableError,
    SentbedError,
    listed,
)
from sentbed.protocols import LABEL, Evaluator, Loss, Output, Runtime, Similarity

Add = Callable[..., None]
"""Function to call with each problem: a message, and the path of its key as further arguments."""


def check(
    recipe: Recipe,
    plugins: Plugins,
    check_files: bool = True,
) -> None:
    """Check a structured recipe, without importing heavy libraries.

    If `check_files` is false, no file is read.

    Raises:
        RecipeError: if the recipe has problems. The error lists all of them.
    """
    problems: list[Problem] = []

    def add(
        message: str,
        *path: str | int,
        misfit: bool = False,
    ) -> None:
        place = written_path(recipe.document.data, path)
        problems.append(recipe.document.problem(message, place, misfit))

    for name, encoder in recipe.encoders.items():
        _check_encoder(recipe, name, encoder, add)
    for i, stage in enumerate(recipe.stage):
        _check_stage(recipe, i, stage, _below(add, "stage", i))
    if check_files:
        for i, message in training_on_test_data(recipe, Path.resolve):
            add(message, "stage", i, "data")
    for i, evaluate in enumerate(recipe.evaluate):
        _check_evaluate(recipe, evaluate, _below(add, "evaluate", i))
    for key, table in recipe.tables.items():
        for path, message in table.problems(recipe, plugins, check_files):
            add(message, key, *path)
    for i, tracker in enumerate(recipe.tracker):
        if tracker in recipe.tracker[:i]:
            message = f"the tracker `{tracker.name}` is there twice; take one out"
            add(message, "tracker", i)
    if recipe.expected and not recipe.evaluate:
        add(
            "`[expected]` has numbers, but the recipe has no `[[evaluate]]` that could give them",
            "expected",
        )
    if problems:
        raise RecipeError(problems)


def _check_encoder(
    recipe: Recipe,
    name: str,
    encoder: EncoderRecipe,
    add: Add,
) -> None:
    """Add the problems of an encoder and of its name."""
    for path, message in misfits(encoder):
        add(message, "encoders", name, *path.split("."), misfit=True)
    for message in runtime_misfits(recipe.runtime, encoder):
        add(message, "runtime", misfit=True)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", name):
        message = f"{name!r} cannot name an encoder; use at most 100 letters, digits, `_` and `-`"
        add(message, "encoders", name)


def require_available(runtime: Runtime) -> None:
    """Raise `RuntimeUnavailableError` if a runtime cannot be used on this machine."""
    reason = runtime.unavailable()
    if reason:
        raise RuntimeUnavailableError(reason)


def _below(add: Add, *prefix: str | int) -> Add:
    """Return a function that adds problems of keys below the path `prefix`."""

    def add_below(
        message: str,
        *path: str | int,
        misfit: bool = False,
    ) -> None:
        add(message, *prefix, *path, misfit=misfit)

    return add_below


def _check_encoder_name(
    recipe: Recipe,
    name: str | None,
    add: Add,
    *path: str | int,
) -> bool:
    """Whether `name` is an encoder of the recipe; otherwise add a problem.

    None is allowed if the recipe has only one encoder.
    """
    names = listed(recipe.encoders)
    if name is not None and name not in recipe.encoders:
        add(
            f"there is no encoder `{name}`, the recipe has {names}; name one of them",
            *path,
        )
        return False
    if name is None and len(recipe.encoders) > 1:
        add(
            f"the recipe has several encoders ({names}); say which one with `{path[-1]}`",
            *path,
        )
        return False
    return True


def _check_evaluate(
    recipe: Recipe,
    evaluate: Evaluate,
    add: Add,
) -> None:
    """Add the problems of an entry of `[[evaluate]]`."""
    _check_encoder_name(recipe, evaluate.encoder, add, "encoder")
    _check_use(recipe, evaluate.evaluator, evaluate.encoder, evaluate.second, add)
    if "start" in evaluate.at and not recipe.stage:
        add(
            '`at` has "start", but the recipe has no stage before which to evaluate; remove it'
        )


def _check_use(
    recipe: Recipe,
    evaluator: Evaluator,
    name: str | None,
    second: str | None,
    add: Add,
) -> None:
    """Add a problem for each reason why an evaluator cannot score an encoder, or a pair of encoders."""
    encoder = recipe.encoders.get(name or recipe.main_encoder)
    if encoder is not None:
        if encoder.similarity is not None:
            messages = evaluator.similarity_misfits(encoder.similarity)
            for message in messages:
                add(message, misfit=True)
        label = f"the evaluator `{evaluator.name}`"
        problem = unread_output(encoder.pooler, label, evaluator.traits.reads)
        if problem is not None:
            add(problem, misfit=True)

    if second is None:
        return
    if _check_encoder_name(recipe, second, add, "second") and encoder is not None:
        for what in unlike_parts([encoder, recipe.encoders[second]]):
            message = f"the two encoders have different {what}, and cannot be compared; give both the same"
            add(message, "second", misfit=True)
    if not evaluator.traits.two_sided:
        add(
            f"the evaluator `{evaluator.name}` has no use for a `second` encoder; take it out",
            "second",
        )


def unlike_parts(encoders: Sequence[EncoderRecipe]) -> Iterator[str]:
    """Yield what differs between encoders whose texts are compared: their outputs, or their similarities."""
    if len({encoder.pooler.traits.output for encoder in encoders}) > 1:
        yield "outputs (one vector, token vectors or sparse vectors)"
    similarities = [encoder.similarity for encoder in encoders]
    if any(similarity != similarities[0] for similarity in similarities):
        yield "similarities"


def _check_stage(
    recipe: Recipe,
    index: int,
    stage: Stage,
    add: Add,
) -> None:
    """Add the problems of a stage."""
    if stage.name in (earlier.name for earlier in recipe.stage[:index]):
        add(f"two stages are named `{stage.name}`; give each its own name", "name")
    if stage.name == PRETRAINED:
        add(
            f"`{PRETRAINED}` cannot name a stage: it names the weights before the first one",
            "name",
        )
    _check_sizes(recipe, stage, add)
    _check_columns(stage, add)
    if _check_encoders(recipe, stage, add):
        _check_loss(recipe, stage, add)
    _check_weights(recipe, index, stage, add)
    _check_watches(recipe, stage, add)
    _check_validation(recipe, stage, add)


def _check_sizes(
    recipe: Recipe,
    stage: Stage,
    add: Add,
) -> None:
    """Add a problem for each number of a stage that conflicts with another setting."""
    if (stage.epochs is None) == (stage.steps is None):
        count = "neither" if stage.steps is None else "both"
        add(f"the stage has {count} of `epochs` and `steps`; give exactly one")
    if stage.micro_batch is not None and stage.micro_batch > stage.batch_size:
        add(
            f"`micro_batch` is {stage.micro_batch}, more than the batch of {stage.batch_size}; take it out",
            "micro_batch",
        )
    if stage.max_length is None:
        return
    for name in dict.fromkeys((*recipe.trained(stage), *stage.freeze)):
        encoder = recipe.encoders.get(name)
        if encoder is None:
            continue
        if problem := beyond_positions(encoder, stage.max_length):
            add(problem, "max_length", misfit=True)


def _check_columns(stage: Stage, add: Add) -> None:
    """Add a problem for each column that the loss needs, but that the data lacks or has with other values."""
    loss, data = stage.loss, stage.data
    numbers_of_loss, numbers_of_data = loss.traits.numbers, data.traits.numbers
    if missing := sorted(loss.traits.needs - set(data.columns)):
        add(
            f"the loss `{loss.name}` needs the column `{missing[0]}`, the data source "
            f"`{data.name}` gives {', '.join(data.columns)}; "
            f"{_setting_for(loss, data.columns)}choose another loss or data source",
            "loss",
            misfit=True,
        )

    for column in stage.columns_used:
        if (column in numbers_of_loss) == (column in numbers_of_data):
            continue
        wants, has = "texts", "numbers"
        if column in numbers_of_loss:
            wants, has = "numbers", "texts"
        add(
            f"the loss `{loss.name}` takes {wants} in the column `{column}`, of which the data source "
            f"`{data.name}` gives {has}; choose another loss or data source",
            "loss",
            misfit=True,
        )

    if LABEL in loss.traits.needs - numbers_of_loss and not loss.traits.classes:
        add(
            f"the loss `{loss.name}` needs the column `{LABEL}` and does not say which `classes` "
            "it may hold; that is for its plugin to say",
            "loss",
        )


def _check_watches(
    recipe: Recipe,
    stage: Stage,
    add: Add,
) -> None:
    """Add the problems of a stage's `watch`."""
    for i, watch in enumerate(stage.watch):
        _check_evaluation_in_stage(recipe, stage, watch, _below(add, "watch", i))


def _check_evaluation_in_stage(
    recipe: Recipe,
    stage: Stage,
    evaluation: Validate | Watch,
    add: Add,
) -> None:
    """Add the problems of an evaluation that is repeated during a stage."""
    trained = recipe.trained(stage)
    if evaluation.encoder is not None or len(trained) > 1:
        _check_encoder_name(recipe, evaluation.encoder, add, "encoder")
    name = evaluation.encoder or trained[0]
    _check_use(recipe, evaluation.evaluator, name, evaluation.second, add)


def _check_validation(
    recipe: Recipe,
    stage: Stage,
    add: Add,
) -> None:
    """Add the problems of a stage's `validate`."""
    validate = stage.validate
    if validate is None:
        return
    add_below = _below(add, "validate")
    _check_evaluation_in_stage(recipe, stage, validate, add_below)
    name = validate.encoder
    if name in recipe.encoders and name not in recipe.trained(stage):
        add_below(
            f"the stage does not train `{name}`, whose validation would choose nothing; name one that it "
            "trains, or use `watch`",
            "encoder",
        )
    if validate.chooses and not validate.evaluator.traits.development:
        add_below(
            "a validation chooses weights, so it must not see test data, and "
            f"`{validate.evaluator.name}` does not say that it scores development data only; choose an "
            "evaluator that does, or say in this one that its data is a development set, such as "
            '`split = "dev"` or `tasks = ["STSB-dev"]`',
            "with",
        )


def loss_of(stage: Stage, similarity: Similarity | None) -> Loss:
    """Return the loss of a stage, changed to use a similarity; with None, the loss is not changed."""
    if similarity is None:
        return stage.loss
    return stage.loss.compared_by(similarity)


def _setting_for(loss: Any, columns: Iterable[str]) -> str:
    """Return advice to change a field of a loss, so that it needs only these columns; empty if no change helps.

    Only fields of `Literal` types are tried, such as `rows` of losses for triplets or scored pairs.
    """
    types_of_fields = get_type_hints(type(loss))
    for field in attrs.fields(type(loss)):
        for value in get_args(types_of_fields.get(field.name)):
            if not isinstance(value, str) or value == getattr(loss, field.name):
                continue
            with suppress(ValueError, TypeError, SentbedError):
                changed = attrs.evolve(loss, **{field.alias or field.name: value})
                if changed.traits.needs <= set(columns):
                    return f'set `{field.name} = "{value}"` of the loss, or '
    return ""


def _check_encoders(
    recipe: Recipe,
    stage: Stage,
    add: Add,
) -> bool:
    """Add the problems of a stage's encoders and of the columns they encode; return whether there are none."""
    if not stage.train and not _check_encoder_name(recipe, None, add, "train"):
        return False
    names_exist = True
    for name in stage.train:
        names_exist = _check_encoder_name(recipe, name, add, "train") and names_exist
    for name in stage.freeze:
        names_exist = _check_encoder_name(recipe, name, add, "freeze") and names_exist
    for column, name in stage.columns.items():
        exists = _check_encoder_name(recipe, name, add, "columns", column)
        names_exist = exists and names_exist
    if not names_exist:
        return False

    problems = list(_encoders_named_twice(recipe, stage))
    problems += _column_problems(recipe, stage)
    if not problems:
        problems += _encoders_without_column(recipe, stage)
    for message, *path in problems:
        add(message, *path)
    for name in recipe.trained(stage):
        if len(recipe.encoders[name].prompts) > 1:
            message = f"the encoder `{name}` has several prompts, and a stage trains one; give it one prompt"
            add(message, "train", misfit=True)
    return not problems


def _encoders_named_twice(recipe: Recipe, stage: Stage) -> Iterator[tuple[str, ...]]:
    """Yield a message and its key for each encoder that a stage names twice."""
    trained = recipe.trained(stage)
    encoders = (*trained, *stage.freeze)
    for name in dict.fromkeys(encoders):
        if encoders.count(name) == 1:
            continue
        key = "freeze" if name in stage.freeze else "train"
        how = "named twice"
        if name in trained and name in stage.freeze:
            how = "trained and frozen"
        yield f"the encoder `{name}` is {how}; name it once", key


def _column_problems(recipe: Recipe, stage: Stage) -> Iterator[tuple[str, ...]]:
    """Yield a message, and the path of its key, for each column that is not used or has no encoder."""
    trained, texts = recipe.trained(stage), stage.texts
    encoders = (*trained, *stage.freeze)
    for column in stage.columns:
        if column in texts:
            continue
        why = "is not used by this stage's data and loss"
        if column in stage.columns_used:
            why = "holds no text"
        message = f"the column `{column}` {why}; the columns are {', '.join(texts)}"
        yield message, "columns", column

    for column in texts:
        tower = stage.columns.get(column)
        if tower is None and len(encoders) > 1:
            message = (
                f"the stage has several encoders, and nothing says which one encodes the column `{column}`; "
                f'add `columns = {{ {column} = "{trained[0]}", ... }}`'
            )
            yield message, "columns"
        elif tower is not None and tower not in encoders:
            message = (
                f"the column `{column}` is encoded by `{tower}`, which the stage neither trains nor "
                "freezes; name it in `train` or `freeze`"
            )
            yield message, "columns", column


def _encoders_without_column(recipe: Recipe, stage: Stage) -> Iterator[tuple[str, str]]:
    """Yield a message, and its key, for each encoder of a stage that encodes no column."""
    used = set(recipe.towers(stage).values())
    for key, names in (("train", recipe.trained(stage)), ("freeze", stage.freeze)):
        for name in names:
            if name not in used:
                message = f"no column is encoded by `{name}`; give it one in `columns`, or take it out"
                yield message, key


def _check_loss(
    recipe: Recipe,
    stage: Stage,
    add: Add,
) -> None:
    """Add a problem for each reason why a stage's loss cannot train its encoders."""
    towers = recipe.towers(stage)
    encoders = [recipe.encoders[name] for name in dict.fromkeys(towers.values())]
    trained = [recipe.encoders[name].backbone for name in recipe.trained(stage)]
    for part in (recipe.runtime, *trained):
        if reason := part.traits.untrainable:
            add(reason, misfit=True)

    _check_outputs(recipe, stage, add)
    if stage.normalize_text and not any(map(_has_text_rules, encoders)):
        add(
            "`normalize_text` is on, but the encoder's prompt has no text rules; "
            'set `normalizer = "prompt-eol"` in its `prompt`, or take `normalize_text` out',
            "normalize_text",
        )

    fixed = set()
    for column, name in towers.items():
        if name in stage.freeze:
            fixed.add(column)
    loss = loss_of(stage, recipe.encoders[recipe.trained(stage)[0]].similarity)
    messages = loss.misfits(stage.batch_size, frozenset(fixed))
    for message in messages:
        add(message, "loss", misfit=True)

    for name in stage.freeze:
        if recipe.encoders[name].head.transform is not None:
            add(
                f"`{name}` has a transform, which is fitted after all stages; take it out to freeze it",
                "freeze",
            )
    for message in _keys_without_training(recipe, stage):
        add(message, "loss", misfit=True)


def _check_outputs(
    recipe: Recipe,
    stage: Stage,
    add: Add,
) -> None:
    """Add a problem for each encoder whose output the loss cannot train or compare."""
    traits = stage.loss.traits
    towers = recipe.towers(stage)
    for name in dict.fromkeys(towers.values()):
        pooler = recipe.encoders[name].pooler
        problem = unread_output(pooler, f"the loss `{stage.loss.name}`", traits.reads)
        if problem is not None:
            add(problem, "loss", misfit=True)

    outputs_of_frozen: frozenset[Output] = frozenset({"vector", "sparse"})
    for name in stage.freeze:
        pooler = recipe.encoders[name].pooler
        problem = unread_output(
            pooler, "a stage with frozen encoders", outputs_of_frozen
        )
        if problem is not None:
            add(problem, "freeze", misfit=True)

    compared = []
    for column, name in towers.items():
        if column not in traits.targets:
            compared.append(recipe.encoders[name])
    for what in unlike_parts(compared):
        message = f"the encoders of the stage have different {what}, and the loss compares their texts"
        add(f"{message}; give all the same", "train", misfit=True)


def _keys_without_training(recipe: Recipe, stage: Stage) -> Iterator[str]:
    """Yield a message for each column that a loss encodes by the moving average of an untrained encoder.

    An encoder is trained if it also encodes a column directly, and is not frozen.
    """
    towers = recipe.towers(stage)
    keys = stage.loss.traits.keys
    trained = {tower for column, tower in towers.items() if column not in keys}
    trained -= set(stage.freeze)
    for key in sorted(keys & towers.keys()):
        if towers[key] not in trained:
            yield (
                f"the loss `{stage.loss.name}` encodes the column `{key}` by a moving average of "
                f"`{towers[key]}`, which no other column trains; encode all columns by one encoder, "
                "or use a loss that keeps none"
            )


def _check_weights(
    recipe: Recipe,
    index: int,
    stage: Stage,
    add: Add,
) -> None:
    """Add a problem for each entry of a stage's `weights` that names an unknown encoder or a wrong source.

    The source must be `pretrained`, or an earlier stage that trains the encoder.
    """
    earlier = {other.name: other for other in recipe.stage[:index]}
    for name, source in stage.weights.items():
        is_encoder = _check_encoder_name(recipe, name, add, "weights", name)
        if not is_encoder or source == PRETRAINED:
            continue
        if source not in earlier:
            names = listed([*earlier, PRETRAINED])
            add(
                f"there is no earlier stage `{source}`; the weights can come from {names}",
                "weights",
                name,
            )
        elif name not in recipe.trained(earlier[source]):
            add(
                f"the stage `{source}` does not train `{name}`; name one that does",
                "weights",
                name,
            )


def _has_text_rules(encoder: EncoderRecipe) -> bool:
    """Whether a prompt of an encoder has text rules; True if a prompt is invalid, which is reported elsewhere."""
    try:
        prompts = encoder.resolved_prompts
    except SentbedError:
        return True
    return any(prompt is not None and prompt.normalizer != "none" for prompt in prompts)
