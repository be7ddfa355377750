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

from sentbed_studies.axes import Axis, labels_that_are_equal
from sentbed_studies.study_config import StudyTable

PROMPT = "prompt"
"""Name of the axis of prompts, and of their column in tables."""

PROMPT_PATH = "encoder.prompt"
"""Path that the prompts of a study set."""

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
        keys: dict[str, Any] = {"template": content}
        if isinstance(content, Mapping):
            keys = dict(content)
        label = keys.pop("label", keys.get("template"))
        if not isinstance(label, str) or not label:
            message = "the prompt has no `label`, and no `template` to be called by; give it a `label`"
            problems.append(document.problem(message, place))
            continue
        if label in settings:
            message = f"two prompts have the label `{label}`; give each its own"
            problems.append(document.problem(message, place))
        settings[label] = {}
        if keys:
            settings[label] = {PROMPT_PATH: keys}
        places[label] = place

    prompts = Axis(PROMPT, settings, places)
    if not problems:
        problems += _problems(prompts, axes, document)
    if problems:
        raise RecipeError(problems)
    return prompts


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

    for axis in axes:
        place = ("study", "axes", axis.name)
        if axis.name == PROMPT:
            message = (
                "the axis has the name of the column of `prompts`; call it otherwise"
            )
            yield document.problem(message, place)

        for path in axis.paths(document):
            is_within = f"{path}.".startswith(f"{PROMPT_PATH}.")
            if is_within or path == "encoder":
                message = (
                    f"the axis sets `{path}`, and so do the `prompts` of the study, which are the same in all "
                    "cells; take it out of the axis, or make the prompts labels of an axis"
                )
                yield document.problem(message, place)
                break
