"""Prompts of a study (`prompts` of `[study]`): every cell is run with each prompt under each seed.

A prompt sets values of the recipe, as the label of an axis does. If prompts do not affect the training of a cell,
the runs of the cell under these prompts share their stages. If they do not affect its evaluations either, the
scores are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed import locate
from sentbed.errors import Problem, RecipeError, SentbedError, printable
from sentbed.helpers import read_lines
from sentbed.tools import Document, KeyPath
from sentbed_report.formatting import count

from sentbed_studies.axes import Axis, Combination, leaves, names_of_path
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
    base: Path,
) -> tuple[StudyPrompt, ...]:
    """Return the prompts of `[study]`; empty without `prompts`.

    Paths of files are relative to the recipe file that names them; to `base` if the document has no file.

    Raises:
        RecipeError: with all problems of the prompts.
    """
    prompts: list[StudyPrompt] = []
    problems: list[Problem] = []
    for index, content in enumerate(table.prompts):
        place = (*_PLACE, index)
        try:
            prompts += _prompts_of(content, place, document, base)
        except (ValueError, SentbedError, OSError) as error:
            problems.append(document.problem(str(error), place))

    if not problems and table.prompts:
        problems += _problems_among_prompts(prompts, document)
        problems += _problems_with_axes(prompts, axes, document)
        problems += _problems_with_overrides(prompts, document)
    if problems:
        raise RecipeError(problems)
    return tuple(prompts)


def _prompts_of(
    content: str | Mapping[str, Any],
    place: KeyPath,
    document: Document,
    base: Path,
) -> Iterator[StudyPrompt]:
    """Yield the prompts of one entry of `prompts`.

    Raises:
        ValueError: if the entry is wrong.
        SentbedError, OSError: if its file cannot be read.
    """
    if isinstance(content, str):
        settings = {PROMPT_PATH: {"template": content}}
        yield StudyPrompt(_checked_label(content), settings, place)
        return

    rest = {key: value for key, value in content.items() if key != "label"}
    label = content.get("label")
    if label is not None and not isinstance(label, str):
        raise ValueError(f"the `label` is {label!r:.80}, expected a string")

    if "file" in rest and "line" not in rest and label is None:
        yield from _prompts_of_file(rest, place, document, base)
        return

    if label is None:
        label = rest.get("template")
    if not isinstance(label, str):
        message = "the prompt has no `label`, and no `template` to be called by; give it a `label`"
        raise ValueError(message)  # noqa: TRY004 - a fault of the recipe

    yield StudyPrompt(_checked_label(label), _settings(rest), place)


def _prompts_of_file(
    content: Mapping[str, Any],
    place: KeyPath,
    document: Document,
    base: Path,
) -> Iterator[StudyPrompt]:
    """Yield a prompt for each line of a file of templates."""
    location = content["file"]
    if not isinstance(location, str):
        raise ValueError(f"the `file` is {location!r:.80}, expected a path")  # noqa: TRY004 - of the recipe

    if ":" in location:
        path = locate(location)
    else:
        path = _directory_of(place, document, base) / location
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            label = _checked_label(f"{path.name}:{number}")
            yield StudyPrompt(label, _settings({**content, "line": number}), place)


def _directory_of(
    place: KeyPath,
    document: Document,
    base: Path,
) -> Path:
    """Return the directory of the recipe file that sets the value at a key path."""
    file, _ = document.place(place)
    return base if file is None else Path(file).resolve().parent


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
    """Return `label`. Raises `ValueError` if it cannot be printed, or is too long for a table."""
    if not label.strip() or printable(label) != label:
        raise ValueError(
            f"the label {label!r} is empty or has control characters; give the prompt a `label`"
        )
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
    for axis in axes:
        if axis.name == "prompt":
            message = (
                "the axis has the name of the column of `prompts`; call it otherwise"
            )
            yield document.problem(message, ("study", "axes", axis.name))

        paths: dict[str, None] = {}
        for settings in axis.settings.values():
            for path, value in settings.items():
                paths |= dict.fromkeys(_paths_of_values(path, value))
        for path in paths:
            if _is_replaced(path, prompts, document):
                message = (
                    f"the axis sets `{path}`, and so do the `prompts` of the study, which are the same in "
                    "all cells, as cells are compared prompt by prompt: take it out of the axis, or, for "
                    "prompts of a cell's own, take `prompts` out and give the axis a label for each; tests "
                    "then compare these labels, and count no prompts as a source of chance"
                )
                yield document.problem(message, ("study", "axes", axis.name))
                break


def _problems_with_overrides(
    prompts: Sequence[StudyPrompt], document: Document
) -> Iterator[Problem]:
    """Yield a problem for each override of a value that a prompt sets."""
    for override in document.overrides:
        path = override.partition("=")[0].strip()
        value = document.value(document.key_path(path))
        paths = _paths_of_values(path, value)
        if any(_is_replaced(inner, prompts, document) for inner in paths):
            message = (
                f"found the override `{path}`, but its value is that of the study's `prompts`; take it out, "
                "or change the prompts (`--set study.prompts=[...]`)"
            )
            yield Problem(message, path)


def _paths_of_values(path: str, value: Any) -> Iterator[str]:
    """Yield `path`; if `value` is a table or an array, yield the path of each single value in it instead."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if not isinstance(value, Mapping) or not value:
        yield path
        return
    for key, inner in value.items():
        yield from _paths_of_values(f"{path}.{key}", inner)


def _is_replaced(
    path: str,
    prompts: Sequence[StudyPrompt],
    document: Document,
) -> bool:
    """Whether a prompt sets the value at `path`, or a table that contains this value."""
    names = names_of_path(document, path)
    for prompt in prompts:
        for of_prompt in prompt.settings:
            names_of_prompt = names_of_path(document, of_prompt)
            if names[: len(names_of_prompt)] == names_of_prompt:
                return True
    return False
