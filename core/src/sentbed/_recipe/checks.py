"""Rules of a recipe as a whole: names that stand for nothing, and parts that cannot be combined.

A rule is a function that yields a `Fault` for each problem. `check` calls all rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from sentbed._document.structuring import in_order, parts_in
from sentbed._recipe.component_compatibility import (
    VECTORS,
    beyond_positions,
    misfits,
    misfits_within,
    runtime_misfits,
    unread_output,
)
from sentbed._recipe.data_overlap import training_on_test_data
from sentbed._registry.registry import Plugins
from sentbed._toml import Document, KeyPath
from sentbed.errors import (
    Level,
    Problem,
    RecipeError,
    RuntimeUnavailableError,
    SentbedError,
    listed,
)
from sentbed.protocols import (
    LABEL,
    PRETRAINED,
    Backbone,
    Component,
    EncoderRecipe,
    Evaluate,
    Evaluator,
    Loss,
    Recipe,
    Runtime,
    Similarity,
    Stage,
    StagePlace,
    Validate,
    Watch,
)

Fault: TypeAlias = tuple[KeyPath, str]
"""The path of a key, in the recipe or in the stage that a rule is about, and a message."""

Rule: TypeAlias = Callable[[Recipe], Iterator[Fault]]
StageRule: TypeAlias = Callable[[Recipe, Stage], Iterator[Fault]]


def check(
    recipe: Recipe,
    plugins: Plugins,
    check_files: bool = True,
) -> None:
    """Check a structured recipe, without importing heavy libraries.

    If `check_files` is false, components are not asked what is wrong with them alone.

    Raises:
        RecipeError: if the recipe has problems. The error lists all of them.
    """
    problems: list[Problem] = []
    if check_files:
        problems += _problems(recipe, component_faults(recipe))
    # Whether parts fit together is asked only if each of them is right by itself.
    are_valid = not problems

    for rule in RULES:
        problems += _problems(recipe, rule(recipe))
    if are_valid:
        for rule in FITS:
            problems += _problems(recipe, rule(recipe), level="misfit")
    for index, stage in enumerate(recipe.stage):
        at = ("stage", index)
        for stage_rule in STAGE_RULES:
            problems += _problems(recipe, stage_rule(recipe, stage), at)
        if are_valid and _each_column_has_an_encoder(recipe, stage):
            for stage_rule in STAGE_FITS:
                problems += _problems(recipe, stage_rule(recipe, stage), at, "misfit")
    if check_files:
        problems += _problems(recipe, training_on_test_data(recipe))
    for key, table in recipe.tables.items():
        faults = table.problems(recipe, plugins, check_files)
        problems += _problems(recipe, faults, (key,))
    if problems:
        raise RecipeError(in_order(dict.fromkeys(problems)))


def _problems(
    recipe: Recipe,
    faults: Iterable[Fault],
    at: KeyPath = (),
    level: Level = "error",
) -> Iterator[Problem]:
    """Yield the problems of a recipe for faults in the part of it that is at a path."""
    for path, message in faults:
        yield recipe.problem(message, (*at, *path), level)


def check_components(part: object, document: Document, at: KeyPath = ()) -> None:
    """Ask the components in a part of a recipe what is wrong with them alone, such as a missing file.

    The part was structured from the value at the path `at` of the document.

    Raises:
        RecipeError: if a component yields a problem. The error lists all of them.
    """
    problems = []
    for path, message in component_faults(part):
        problems.append(document.problem(message, (*at, *path)))
    if problems:
        raise RecipeError(in_order(problems))


def component_faults(part: object) -> Iterator[Fault]:
    """Yield what components in a part of a recipe say is wrong with them alone (`Component.check`).

    A component is asked only if those within it are right.
    """
    faulty: list[KeyPath] = []
    for path, component in reversed(list(parts_in(part))):
        if not isinstance(component, Component):
            continue
        if any(inner[: len(path)] == path for inner in faulty):
            continue
        for message in component.check():
            faulty.append(path)
            yield path, message


def require_available(runtime: Runtime) -> None:
    """Raise `RuntimeUnavailableError` if a runtime cannot be used on this machine."""
    reason = runtime.unavailable()
    if reason:
        raise RuntimeUnavailableError(reason)


def loss_of(stage: Stage, similarity: Similarity | None) -> Loss:
    """Return the loss of a stage, changed to use a similarity; with None, the loss is not changed."""
    if similarity is None:
        return stage.loss
    return stage.loss.compared_by(similarity)


# --- encoders, evaluators and trackers --------------------------------------------------------------------


def names_of_encoders(recipe: Recipe) -> Iterator[Fault]:
    """Yield a fault for each name that an encoder cannot have."""
    for name in recipe.encoders:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", name):
            yield (
                ("encoders", name),
                f"{name!r} cannot name an encoder; use at most 100 letters, digits, `_` and `-`",
            )


def unknown_encoders(recipe: Recipe) -> Iterator[Fault]:
    """Yield a fault for each name of an encoder that does not exist, or is missing."""
    names = listed(recipe.encoders)
    for path, name in _named_encoders(recipe):
        if name is not None and name not in recipe.encoders:
            yield path, f"there is no encoder `{name}`; name one of {names}"
        elif name is None and len(recipe.encoders) > 1:
            yield path, f"the recipe has several encoders; name one of {names}"


def _named_encoders(recipe: Recipe) -> Iterator[tuple[KeyPath, str | None]]:
    """Yield the path of each name of an encoder in the recipe, and the name; None if it may be missing."""
    for path, entry, name in _entries(recipe):
        if entry.encoder is not None or name is None:
            yield (*path, "encoder"), name
        if entry.second is not None:
            yield (*path, "second"), entry.second
    for index, stage in enumerate(recipe.stage):
        for name in stage.train or (None,):
            yield ("stage", index, "train"), name
        for name in stage.freeze:
            yield ("stage", index, "freeze"), name
        for column, name in stage.columns.items():
            yield ("stage", index, "columns", column), name
        for name in stage.weights:
            yield ("stage", index, "weights", name), name


def _entries(
    recipe: Recipe,
) -> Iterator[tuple[KeyPath, Evaluate | Validate | Watch, str | None]]:
    """Yield the path of each entry with an evaluator, the entry, and the name of the encoder that it scores.

    The name is None if the entry has none, and there are several.
    """
    for number, evaluate in enumerate(recipe.evaluate):
        name = evaluate.encoder
        if name is None and len(recipe.encoders) == 1:
            name = recipe.main_encoder
        yield ("evaluate", number), evaluate, name

    for index, stage in enumerate(recipe.stage):
        entries: dict[KeyPath, Validate | Watch] = {}
        if stage.validate is not None:
            entries["validate",] = stage.validate
        for number, watch in enumerate(stage.watch):
            entries["watch", number] = watch
        trained = recipe.trained(stage)
        for path, entry in entries.items():
            name = entry.encoder
            if name is None and len(trained) == 1:
                name = trained[0]
            yield ("stage", index, *path), entry, name


def evaluations(recipe: Recipe) -> Iterator[Fault]:
    """Yield what no evaluation uses: a second encoder, a start without a stage, an expected number."""
    for path, entry, _ in _entries(recipe):
        if entry.second is not None and not entry.evaluator.two_sided:
            yield (
                (*path, "second"),
                f"the evaluator `{entry.evaluator.name}` has no use for a `second` encoder; take it out",
            )
    for number, evaluate in enumerate(recipe.evaluate):
        if "start" in evaluate.at and not recipe.stage:
            yield (
                ("evaluate", number, "at"),
                '`at` has "start", but the recipe has no stage before which to evaluate; remove it',
            )
    if recipe.expected and not recipe.evaluate:
        yield (
            ("expected",),
            "`[expected]` has numbers, but the recipe has no `[[evaluate]]` that could give them",
        )


def repeated_trackers(recipe: Recipe) -> Iterator[Fault]:
    """Yield a fault for each tracker that is there twice."""
    for number, tracker in enumerate(recipe.tracker):
        if tracker in recipe.tracker[:number]:
            message = f"the tracker `{tracker.name}` is there twice; take one out"
            yield ("tracker", number), message


def parts_of_encoders(recipe: Recipe) -> Iterator[Fault]:
    """Yield why the parts of an encoder cannot be combined with each other, or with the runtime."""
    for name, encoder in recipe.encoders.items():
        for path, message in misfits(encoder):
            yield ("encoders", name, *path), message
        for message in runtime_misfits(recipe.runtime, encoder):
            yield ("runtime",), message


def evaluated_encoders(recipe: Recipe) -> Iterator[Fault]:
    """Yield why an evaluator cannot score the encoder of its entry, or compare both encoders."""
    for path, entry, name in _entries(recipe):
        encoder = recipe.encoders.get(name or "")
        if encoder is None:
            continue
        evaluator = entry.evaluator
        for _, message in misfits_within(evaluator, Evaluator, encoder):
            yield path, message
        reader = f"the evaluator `{evaluator.name}`"
        for message in unread_output(encoder, reader, evaluator.reads):
            yield path, message
        second = recipe.encoders.get(entry.second or "", encoder)
        if not _are_comparable(encoder, second):
            yield (*path, "second"), NOT_COMPARABLE


NOT_COMPARABLE = (
    "the encoders differ in the `output` of their poolers, or in `similarity`, so that their texts cannot be "
    "compared; give all the same"
)


def _are_comparable(first: EncoderRecipe, second: EncoderRecipe) -> bool:
    """Whether a text of one encoder can be compared with a text of the other."""
    if first.similarity != second.similarity:
        return False
    return first.pooler.output == second.pooler.output


RULES: tuple[Rule, ...] = (
    names_of_encoders,
    unknown_encoders,
    evaluations,
    repeated_trackers,
)

FITS: tuple[Rule, ...] = (parts_of_encoders, evaluated_encoders)
"""Rules whose faults are misfits."""


# --- stages -----------------------------------------------------------------------------------------------


def name_of_stage(recipe: Recipe, stage: Stage) -> Iterator[Fault]:
    """Yield a fault if a stage has the name of another one, or of the weights before the first one."""
    names = [PRETRAINED, *(stage.name for stage in recipe.stage)]
    if names.count(stage.name) > 1:
        message = f"`{stage.name}` names another stage, or the weights before the first; choose another name"
        yield ("name",), message


def sizes(recipe: Recipe, stage: Stage) -> Iterator[Fault]:
    """Yield a fault for each number that conflicts with another one."""
    if (stage.epochs is None) == (stage.steps is None):
        yield (), "give exactly one of `epochs` and `steps`"
    if stage.micro_batch is not None and stage.micro_batch > stage.batch_size:
        message = (
            f"`micro_batch` is more than the batch of {stage.batch_size}; take it out"
        )
        yield ("micro_batch",), message


def classes_of_labels(recipe: Recipe, stage: Stage) -> Iterator[Fault]:
    """Yield a fault if a loss needs class names and does not say which ones."""
    loss = stage.loss
    if LABEL in loss.columns - loss.numbers and not loss.classes:
        message = "the loss needs labels and does not say which `classes` they may be; its plugin must say it"
        yield ("loss",), message


def encoders_of_columns(recipe: Recipe, stage: Stage) -> Iterator[Fault]:
    """Yield a fault for each column without its encoder, and each encoder without its column."""
    encoders, texts = (*recipe.trained(stage), *stage.freeze), stage.texts
    if not _encoders_exist(recipe, stage):
        return
    if not stage.loss.columns.issubset(stage.data.columns):
        # Another rule says which columns the data lacks.
        return
    if len(set(encoders)) < len(encoders):
        message = "an encoder is named twice in `train` and `freeze`; name it once"
        yield ("freeze" if stage.freeze else "train",), message

    for column in stage.columns:
        if column not in texts:
            message = f"the loss takes no text from the column `{column}`, but from {listed(texts)}"
            yield ("columns", column), message

    encoders_by_column = dict(stage.columns)
    if len(encoders) == 1:
        encoders_by_column = recipe.towers(stage)
    for column in texts:
        if encoders_by_column.get(column) not in encoders:
            yield (
                ("columns", column),
                f"none of the stage's encoders, {listed(encoders)}, encodes the column `{column}`; name one in "
                "`columns`, or add its encoder to `train` or `freeze`",
            )
    for name in encoders:
        if name not in recipe.towers(stage).values():
            message = f"no column is encoded by `{name}`; give it one in `columns`, or take it out"
            yield ("columns",), message


def sources_of_weights(recipe: Recipe, stage: Stage) -> Iterator[Fault]:
    """Yield a fault for each of the `weights` that no earlier stage has trained."""
    sources = {}
    for earlier in recipe.stage[: recipe.stage.index(stage)]:
        sources[earlier.name] = recipe.trained(earlier)
    for name, source in stage.weights.items():
        if source != PRETRAINED and name not in sources.get(source, ()):
            yield (
                ("weights", name),
                f"no earlier stage `{source}` trains `{name}`; the stages before are {listed(sources)}, and "
                f"`{PRETRAINED}` stands for the weights before the first",
            )


def choosing_validation(recipe: Recipe, stage: Stage) -> Iterator[Fault]:
    """Yield why a validation cannot choose weights."""
    validate = stage.validate
    if validate is None:
        return
    name = validate.encoder
    if name in recipe.encoders and name not in recipe.trained(stage):
        yield (
            ("validate", "encoder"),
            f"the stage does not train `{name}`, whose validation would choose nothing; name one that it "
            "trains, or use `watch`",
        )
    if validate.chooses and not validate.evaluator.development:
        yield (
            ("validate", "with"),
            "a validation chooses weights, so it must not see test data, and its evaluator does not say that "
            "it scores development data only; choose one that does, or say in this one that its data is a "
            'development set, such as `split = "dev"` or `tasks = ["STSB-dev"]`',
        )


STAGE_RULES: tuple[StageRule, ...] = (
    name_of_stage,
    sizes,
    classes_of_labels,
    encoders_of_columns,
    sources_of_weights,
    choosing_validation,
)


def _encoders_exist(recipe: Recipe, stage: Stage) -> bool:
    """Whether the recipe has all encoders that a stage names."""
    names = {*recipe.trained(stage), *stage.freeze, *stage.columns.values()}
    return names <= recipe.encoders.keys()


def _each_column_has_an_encoder(recipe: Recipe, stage: Stage) -> bool:
    """Whether rules that need the encoders of a stage can be asked."""
    return _encoders_exist(recipe, stage) and not any(
        encoders_of_columns(recipe, stage)
    )


# --- stages whose encoders are known ----------------------------------------------------------------------


def columns_of_data(recipe: Recipe, stage: Stage) -> Iterator[Fault]:
    """Yield a fault for each column that the data lacks, or has with other values than the loss takes."""
    loss, data = stage.loss, stage.data
    columns = listed(stage.data.columns)
    for column in sorted(loss.columns - set(stage.data.columns)):
        message = f"the loss needs the column `{column}`, and the data has {columns}; choose another of the two"
        yield ("loss",), message
    for column in sorted(loss.numbers ^ data.numbers):
        if column in stage.columns_used:
            yield (
                ("loss",),
                f"the column `{column}` holds numbers for one of loss and data, and texts for the other; "
                "choose another of the two",
            )


def trainable_parts(recipe: Recipe, stage: Stage) -> Iterator[Fault]:
    """Yield why the encoders of a stage cannot be trained or frozen, whatever the loss."""
    parts: list[Backbone | Runtime] = [recipe.runtime]
    for name in recipe.trained(stage):
        encoder = recipe.encoders[name]
        parts.append(encoder.backbone)
        if len(encoder.prompts) > 1:
            message = f"`{name}` has several prompts, and a stage trains one; give it one prompt"
            yield ("train",), message
    for part in parts:
        if part.untrainable is not None:
            yield (), part.untrainable

    for name in stage.freeze:
        encoder = recipe.encoders[name]
        if encoder.head.transform is not None:
            message = f"`{name}` has a transform, which is fitted after all stages; take it out to freeze it"
            yield ("freeze",), message
        for message in unread_output(encoder, "a stage that freezes it", VECTORS):
            yield ("freeze",), message


def lengths(recipe: Recipe, stage: Stage) -> Iterator[Fault]:
    """Yield a fault if a stage reads longer texts than a backbone has positions."""
    if stage.max_length is None:
        return
    for name in {*recipe.trained(stage), *stage.freeze}:
        for message in beyond_positions(recipe.encoders[name], stage.max_length):
            yield ("max_length",), message


def text_rules(recipe: Recipe, stage: Stage) -> Iterator[Fault]:
    """Yield a fault if `normalize_text` is on, and no prompt of the stage's encoders has text rules."""
    encoders = [recipe.encoders[name] for name in recipe.towers(stage).values()]
    if stage.normalize_text and not any(map(_has_text_rules, encoders)):
        yield (
            ("normalize_text",),
            "`normalize_text` is on, but the encoder's prompt has no text rules; "
            'set `normalizer = "prompt-eol"` in its `prompt`, or take `normalize_text` out',
        )


def _has_text_rules(encoder: EncoderRecipe) -> bool:
    """Whether a prompt of an encoder has text rules; True if a prompt is invalid, which is reported elsewhere."""
    try:
        prompts = encoder.resolved_prompts
    except SentbedError:
        return True
    return any(prompt is not None and prompt.normalizer != "none" for prompt in prompts)


def encoders_of_loss(recipe: Recipe, stage: Stage) -> Iterator[Fault]:
    """Yield why a loss cannot train the encoders of its stage, or compare their texts."""
    first = recipe.encoders[recipe.trained(stage)[0]]
    loss = loss_of(stage, first.similarity)
    reader = f"the loss `{loss.name}`"
    fixed = set()
    compared = None
    for column, name in recipe.towers(stage).items():
        encoder = recipe.encoders[name]
        for message in unread_output(encoder, reader, loss.reads):
            yield ("loss",), message
        if name in stage.freeze:
            fixed.add(column)
        if column in loss.targets:
            continue
        compared = compared or encoder
        if not _are_comparable(compared, encoder):
            yield ("columns", column), NOT_COMPARABLE

    place = StagePlace(stage.batch_size, frozenset(fixed))
    for path, message in misfits_within(loss, Loss, place):
        yield ("loss", *path), message


def moving_averages(recipe: Recipe, stage: Stage) -> Iterator[Fault]:
    """Yield a fault for each column that a loss encodes by the moving average of an untrained encoder.

    An encoder is trained if it also encodes a column directly, and is not frozen.
    """
    towers = recipe.towers(stage)
    keys = stage.loss.keys
    trained = {name for column, name in towers.items() if column not in keys}
    trained -= set(stage.freeze)
    for key in sorted(keys & towers.keys()):
        if towers[key] not in trained:
            yield (
                ("loss",),
                f"the loss encodes the column `{key}` by a moving average of `{towers[key]}`, which no other "
                "column trains; encode all columns by one encoder, or use a loss that keeps none",
            )


STAGE_FITS: tuple[StageRule, ...] = (
    columns_of_data,
    trainable_parts,
    lengths,
    text_rules,
    encoders_of_loss,
    moving_averages,
)
"""Rules whose faults are misfits. They are asked if each column of texts has an encoder."""
