"""Prompts of a study (`prompts` of `[study]`): every cell is run with each prompt under each seed.

A prompt sets values of the recipe, as the label of an axis does. If prompts do not affect the training of a cell,
the runs of the cell under these prompts share their stages. If they do not affect its evaluations either, the
scores are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from sentbed.errors import Problem, RecipeError
from sentbed.tools import Document, KeyPath
from sentbed_report.formatting import count

from sentbed_studies.axes import Axis, Combination, Names, leaves, names_of_path
from sentbed_studies.study_config import StudyTable

PROMPT_PATH = "encoder.prompt"
"""Path that a prompt of a study sets if it names no path: a template, or keys of a prompt."""

LONGEST_LABEL = 60
"""Maximum number of characters of a label, so that it fits a column of the tables."""

_PLACE: KeyPath = ("study", "prompts")


@attrs.frozen
class StudyPrompt:
    """One prompt of a study."""

    label: str
    settings: Mapping[str, Any]
    """Dotted path in the recipe -> value that the prompt sets."""
    place: KeyPath
    """Key path of the prompt in the document."""

    def applied_to(self, combination: Combination) -> Combination:
        """Return a combination of labels with this prompt. The prompt sets its values after the axes."""
        settings = dict(combination.settings)
        for path, value in self.settings.items():
            # A path of an axis is removed first, so that the prompt's value becomes the last one.
            settings.pop(path, None)
            settings[path] = value
        places = dict.fromkeys(self.settings, self.place)
        return attrs.evolve(combination, settings=settings, prompt_places=places)


def read_prompts(
    table: StudyTable,
    axes: Sequence[Axis],
    document: Document,
) -> tuple[StudyPrompt, ...]:
    """Return the prompts of `[study]`; empty without `prompts`.

    Raises:
        RecipeError: with all problems of the prompts.
    """
    prompts: list[StudyPrompt] = []
    problems: list[Problem] = []
    for index, content in enumerate(table.prompts):
        place = (*_PLACE, index)
        try:
            prompts.append(_prompt(content, place))
        except ValueError as error:
            problems.append(document.problem(str(error), place))

    if not problems and table.prompts:
        problems += _problems_among_prompts(prompts, document)
        problems += _problems_with_axes(prompts, axes, document)
    if problems:
        raise RecipeError(problems)
    return tuple(prompts)


def _prompt(content: str | Mapping[str, Any], place: KeyPath) -> StudyPrompt:
    """Return the prompt of one entry of `prompts`. Raises `ValueError` if the entry is wrong."""
    if isinstance(content, str):
        settings = {PROMPT_PATH: {"template": content}}
        return StudyPrompt(_checked_label(content), settings, place)

    rest = {key: value for key, value in content.items() if key != "label"}
    label = content.get("label")
    if label is not None and not isinstance(label, str):
        raise ValueError(f"the `label` is {label!r:.80}, expected a string")

    if label is None:
        label = rest.get("template")
    if not isinstance(label, str):
        message = "the prompt has no `label`, and no `template` to be called by; give it a `label`"
        raise ValueError(message)  # noqa: TRY004 - a fault of the recipe

    return StudyPrompt(_checked_label(label), _settings(rest), place)


def _settings(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return path -> value for the table of a prompt; empty if the table sets nothing. Raises `ValueError`."""
    keys = {}
    paths = {}
    for key, value in content.items():
        if "." in key or key in ("encoder", "encoders"):
            paths[key] = value
        else:
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
    return settings


def _checked_label(label: str) -> str:
    """Return `label`. Raises `ValueError` if it is empty, or too long for a table."""
    if not label.strip():
        raise ValueError(f"the label {label!r} is empty; give the prompt a `label`")
    if len(label) > LONGEST_LABEL:
        raise ValueError(
            f"the prompt {label!r:.80} would be called by its {len(label)} characters; give it a `label` of "
            f"up to {LONGEST_LABEL}"
        )
    return label


def _problems_among_prompts(
    prompts: Sequence[StudyPrompt], document: Document
) -> Iterator[Problem]:
    """Yield a problem if there is only one prompt, and for prompts with the same values or directories."""
    if len(prompts) < 2:
        message = (
            f"there is {count(len(prompts), 'prompt')}, which does not show how much prompts differ; give 2 "
            "or more, 4 to 8 where you can, or set a single one in the recipe"
        )
        yield document.problem(message, _PLACE)

    before: dict[str, StudyPrompt] = {}
    for prompt in prompts:
        if prompt.label in before:
            message = f"two prompts have the label `{prompt.label}`; give each its own"
            yield document.problem(message, prompt.place)
            continue

        for other in before.values():
            if other.settings == prompt.settings:
                message = (
                    f"the prompts `{other.label}` and `{prompt.label}` set the same values, and one prompt "
                    "that counts twice makes prompts look more alike than they are; take one out"
                )
                yield document.problem(message, prompt.place)
        before[prompt.label] = prompt


def _problems_with_axes(
    prompts: Sequence[StudyPrompt],
    axes: Sequence[Axis],
    document: Document,
) -> Iterator[Problem]:
    """Yield a problem for each axis that sets a value that a prompt sets, and for an axis named `prompt`."""
    paths_of_prompts = set()
    for prompt in prompts:
        for path in prompt.settings:
            paths_of_prompts.add(names_of_path(document, path))

    for axis in axes:
        place = ("study", "axes", axis.name)
        if axis.name == "prompt":
            message = (
                "the axis has the name of the column of `prompts`; call it otherwise"
            )
            yield document.problem(message, place)

        for path in axis.paths(document):
            names = tuple(path.split("."))
            if any(_overlap(names, of_prompt) for of_prompt in paths_of_prompts):
                message = (
                    f"the axis sets `{path}`, and so do the `prompts` of the study, which are the same in all "
                    "cells; take it out of the axis, or make the prompts labels of an axis"
                )
                yield document.problem(message, place)
                break


def _overlap(first: Names, second: Names) -> bool:
    """Whether a path is the other one, or a table that contains it."""
    length = min(len(first), len(second))
    return first[:length] == second[:length]
