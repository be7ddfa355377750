"""Remarks on recipes, from components and from core. `sentbed check` prints them in addition to problems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from sentbed._document.structuring import parts_in
from sentbed._recipe.checks import loss_of
from sentbed._recipe.data_overlap import choosing_by_test_data
from sentbed._recipe.recipe import Recipe, Stage, evaluations_of, written_path
from sentbed._recipe.task_prompt_keys import unused_keys
from sentbed.errors import SentbedError, listed
from sentbed.protocols import Component

MOST_STEPS = 1000
"""Approximate maximum number of a stage's steps at which the factor of its schedule is computed."""


def remarks_of(recipes: Iterable[Recipe]) -> tuple[list[str], list[str]]:
    """Return the remarks on recipes and their components, and the problems that components report as errors.

    Of several equal components, only one is asked. A problem names the file, the line and the key of its
    component.
    """
    remarks: list[str] = []
    problems: dict[str, str] = {}
    components: list[Component] = []
    for recipe in recipes:
        remarks += untrained_layers(recipe)
        remarks += unused_task_prompts(recipe)
        remarks += unused_similarities(recipe)
        remarks += choosing_by_test_data(recipe, Path.resolve)
        for stage in recipe.stage:
            if stage.steps is not None:
                remarks += without_effect(stage, stage.steps)

        for path, component in parts_in(recipe):
            if not isinstance(component, Component) or component in components:
                continue
            components.append(component)
            try:
                remarks += list(component.remarks())
            except SentbedError as error:
                message = str(error)
                path_in_file = written_path(recipe.document.data, path)
                problem = recipe.document.problem(message, path_in_file)
                problems.setdefault(message, str(problem))

        if reason := recipe.runtime.unavailable():
            # This is not a problem, since the recipe may be meant for another machine.
            remarks.append(f"not on this machine: {reason}")
    # Several backbones with the same model have the same remarks.
    return list(dict.fromkeys(remarks)), list(problems.values())


def untrained_layers(recipe: Recipe) -> Iterator[str]:
    """Yield a warning for each encoder whose pooler has a layer with random weights that no stage trains."""
    trained = set(chain.from_iterable(map(recipe.trained, recipe.stage)))
    for name, encoder in recipe.encoders.items():
        pooler = encoder.pooler
        if pooler.traits.new_layer and name not in trained:
            yield (
                f"the pooler `{pooler.name}` of the encoder `{name}` begins with a new layer, and no stage "
                "trains it: its vectors are random; let it take trained weights, such as those of the model "
                f"(`sentbed show pooler {pooler.name}`), or choose a pooler without a layer"
            )


def unused_task_prompts(recipe: Recipe) -> Iterator[str]:
    """Yield a warning for each encoder that has prompts in `task_prompts` that none of its evaluations uses."""
    for name, encoder in recipe.encoders.items():
        evaluators = [entry.evaluator for entry in evaluations_of(recipe, name)]
        unused = unused_keys(encoder.task_prompts or (), evaluators)
        if unused:
            yield (
                f"no evaluation of the encoder `{name}` asks for the prompts of {listed(unused)} in "
                "`task_prompts`; a key is a side, the name of an evaluator, or a task or type that it names"
            )


def unused_similarities(recipe: Recipe) -> Iterator[str]:
    """Yield a warning for each stage whose loss ignores the similarity of its encoder."""
    for stage in recipe.stage:
        # `sentbed check` asks for remarks on a faulty recipe, too, and its stage may name an unknown encoder.
        encoder = recipe.encoders.get(recipe.trained(stage)[0])
        if encoder is None:
            continue
        similarity = encoder.similarity
        if similarity is None or similarity.traits.formula == "cosine":
            continue
        if loss_of(stage, similarity) == stage.loss:
            yield (
                f"stage `{stage.name}`: the loss `{stage.loss.name}` trains as if the encoder named no "
                f"similarity, and evaluators compare its texts by `{similarity.name}`"
            )


def without_effect(stage: Stage, total_steps: int) -> Iterator[str]:
    """Yield a warning for each setting that has no effect in a stage of `total_steps` steps."""
    validate = stage.validate
    if validate is not None and validate.every > total_steps:
        yield (
            f"stage `{stage.name}`: `validate.every` is {validate.every}, and the stage has {total_steps} "
            "steps: it is validated before the first and after the last one alone; lower it"
        )

    schedule = stage.schedule
    interval = max(1, total_steps // MOST_STEPS)
    steps = [*range(0, total_steps, interval), total_steps - 1]
    highest = max(float(schedule.factor(step, total_steps)) for step in steps)
    if getattr(schedule, "warmup", 0.0) >= total_steps > 0 and highest < 1:
        yield (
            f"stage `{stage.name}`: the warm-up of the schedule `{schedule.name}` is longer than the "
            f"stage of {total_steps} steps, and the rate never rises above {highest:.0%} of `lr`; lower "
            "`warmup`"
        )
