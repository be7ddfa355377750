"""Prompts of a study (`prompts` of `[study]`): every cell is run with each prompt under each seed.

Prompts are read as an axis whose labels do not form cells. If prompts do not affect the training of a cell, the
runs of the cell under these prompts share their stages. If they do not affect its evaluations either, the scores
are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sentbed.errors import Problem, RecipeError
from sentbed.tools import Document, KeyPath

from sentbed_studies.axes import (
    Axis,
    labels_that_are_equal,
    leaves,
)
from sentbed_studies.study_config import StudyTable

PROMPT = "prompt"
"""Name of the axis of prompts, and of their column in tables."""

PROMPT_PATH = "encoder.prompt"
"""Path that a prompt of a study sets if it names no path: a template, or keys of a prompt."""

LONGEST_LABEL = 60
"""Maximum number of characters of a label, so that it fits a column of the tables."""

_PLACE: KeyPath = ("study", "prompts")


def read_prompts(
    table: StudyTable,
    axes: Sequence[Axis],
    document: Document,
) -> Axis:
    """Return the prompts of `[study]` as an axis. Without `prompts`, its only label is empty and sets nothing.

    Raises:
        RecipeError: with all problems of the prompts.
    """
    if not table.prompts:
        return Axis(PROMPT, {"": {}}, {"": _PLACE})

    problems: list[Problem] = []
    settings: dict[str, Mapping[str, Any]] = {}
    places: dict[str, KeyPath] = {}
    for index, content in enumerate(table.prompts):
        place = (*_PLACE, index)
        try:
            label, values = _label_and_settings(content)
        except ValueError as error:
            problems.append(document.problem(str(error), place))
            continue
        if label in settings:
            message = f"two prompts have the label `{label}`; give each its own"
            problems.append(document.problem(message, place))
        settings[label] = values
        places[label] = place

    prompts = Axis(PROMPT, settings, places)
    if not problems:
        problems += _problems(prompts, axes, document)
    if problems:
        raise RecipeError(problems)
    return prompts


def _label_and_settings(
    content: str | Mapping[str, Any],
) -> tuple[str, dict[str, Any]]:
    """Return the label of a prompt, and path -> value. Raises `ValueError` if the prompt is wrong."""
    if isinstance(content, str):
        content = {"template": content}
    label = content.get("label", content.get("template"))
    if not isinstance(label, str):
        message = "the prompt has no `label`, and no `template` to be called by; give it a `label`"
        raise ValueError(message)  # noqa: TRY004 - a fault of the recipe
    if not label.strip() or len(label) > LONGEST_LABEL:
        raise ValueError(
            f"the label {label!r:.80} has {len(label)} characters; give the prompt a `label` of up to "
            f"{LONGEST_LABEL}"
        )

    keys = {}
    paths = {}
    for key, value in content.items():
        if "." in key or key in ("encoder", "encoders"):
            paths[key] = value
        elif key != "label":
            keys[key] = value

    settings = dict(leaves(paths))
    for path in settings:
        if not path.startswith(("encoder.", "encoders.")):
            raise ValueError(
                f"the prompt sets `{path}`, and a prompt is a part of an encoder, such as "
                "`encoders.NAME.prompt`: scores of unlike evaluations or trainings are not averaged"
            )
    if keys:
        settings[PROMPT_PATH] = keys
    return label, settings


def _problems(
    prompts: Axis,
    axes: Sequence[Axis],
    document: Document,
) -> Iterator[Problem]:
    """Yield a problem if there is one prompt, if two are equal, and for axes that set what prompts set."""
    if len(prompts.labels) < 2:
        message = (
            "there is 1 prompt, which does not show how much prompts differ; give 2 or more, 4 to 8 where you "
            "can, or set a single one in the recipe"
        )
        yield document.problem(message, _PLACE)
    for message in labels_that_are_equal([prompts]):
        yield document.problem(message, _PLACE)

    paths_of_prompts = prompts.paths(document)
    for axis in axes:
        place = ("study", "axes", axis.name)
        if axis.name == PROMPT:
            message = (
                "the axis has the name of the column of `prompts`; call it otherwise"
            )
            yield document.problem(message, place)

        for path in axis.paths(document):
            if any(_overlap(path, of_prompt) for of_prompt in paths_of_prompts):
                message = (
                    f"the axis sets `{path}`, and so do the `prompts` of the study, which are the same in all "
                    "cells; take it out of the axis, or make the prompts labels of an axis"
                )
                yield document.problem(message, place)
                break


def _overlap(first: str, second: str) -> bool:
    """Whether a path is the other one, or a table that contains it."""
    return f"{first}.".startswith(f"{second}.") or f"{second}.".startswith(f"{first}.")
