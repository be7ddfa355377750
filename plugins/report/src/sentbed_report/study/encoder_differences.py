"""Differences in how encoders were used (the encoder's part of protocols) that the recipes do not explain."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import product
from typing import TypeAlias

import attrs
from sentbed.protocols import Score

from sentbed_report.formatting import first_names
from sentbed_report.score_protocols import encoder_protocol, unlike
from sentbed_report.study.measurements import Measurement
from sentbed_report.study.study_data import StudyData

_NAMES_OF_ENCODERS = {"encoder", "encoders"}
"""Keys that many paths of recipes contain, so that they do not identify what differs."""


_PromptAndSeed: TypeAlias = tuple[str, int]
"""Prompt and seed, which identify a run of a cell; the prompt is empty in a study without `prompts`."""


@attrs.define
class _Entry:
    """A protocol entry in which scores differ from the reference."""

    values: dict[str, None] = attrs.field(factory=dict)
    """Texts `VALUE OF THE REFERENCE against OTHER VALUE`."""
    runs: dict[str, set[_PromptAndSeed]] = attrs.field(factory=dict)
    """Cell -> runs in which the entry differs."""


def encoder_differences(data: StudyData, measured: Sequence[Measurement]) -> str:
    """Return a sentence on differences in how encoders were used that no recipe explains; empty without any.

    The reference is the baseline, or the first cell if the baseline has no scores. Each score is compared with
    the reference's score in the same task, under the same prompt, by the encoder of the same name or by the
    reference's only encoder. Protocol entries in which the cells' recipes differ are left out.
    """
    if not measured:
        return ""

    reference = measured[0].cell.name
    if any(measurement.cell.name == data.baseline for measurement in measured):
        reference = data.baseline or ""
    compared: dict[tuple[str, str], dict[str, Score]] = {}
    for measurement in measured:
        score = measurement.score
        if measurement.cell.name == reference:
            of_task = compared.setdefault((score.task, measurement.run.prompt), {})
            of_task.setdefault(score.encoder, score)

    explained = _varied_by_recipes(data)
    entries: dict[str, _Entry] = {}
    for measurement in measured:
        score = measurement.score
        of_task = compared.get((score.task, measurement.run.prompt), {})
        before = of_task.get(score.encoder)
        if before is None and len(of_task) == 1:
            (before,) = of_task.values()
        if before is None or before.protocol["encoder"] == score.protocol["encoder"]:
            continue

        for name, values in unlike(encoder_protocol(before), encoder_protocol(score)):
            if explained.isdisjoint(name.split(".")):
                entry = entries.setdefault(name, _Entry())
                entry.values[values] = None
                run = measurement.run
                runs = entry.runs.setdefault(measurement.cell.name, set())
                runs.add((run.prompt, run.seed))
    if not entries:
        return ""

    texts = []
    for name, entry in entries.items():
        texts.append(_described(data, name, entry))
    return f"Encoded in another way than {reference}: {first_names(texts)}."


def _varied_by_recipes(data: StudyData) -> set[str]:
    """Return the keys in which the cells' recipes differ, such as `pooler` in `encoder.pooler.use`."""
    paths: list[str] = []
    keys: set[str] = set()
    for axis in data.axes:
        paths += axis.paths
    for cell in data.cells:
        for difference in cell.differences:
            paths.append(difference.partition(": ")[0])
    for path in paths:
        keys.update(path.split("."))
    return keys - _NAMES_OF_ENCODERS


def _described(
    data: StudyData,
    name: str,
    entry: _Entry,
) -> str:
    """Return a protocol entry with its first pair of values, and the cells and runs in which it differs."""
    first, *others = entry.values
    more = ""
    if others:
        more = ", …"
    places = []
    for cell in data.cells:
        runs = entry.runs.get(cell.name)
        if not runs:
            continue
        finished = []
        for run in cell.runs:
            if run.scores:
                finished.append((run.prompt, run.seed))
        places.append(f"{cell.name}{_which_runs(runs, finished)}")
    return f"{name} ({first}{more}) in {', '.join(places)}"


def _which_runs(
    runs: Collection[_PromptAndSeed], finished: Sequence[_PromptAndSeed]
) -> str:
    """Return the prompts and seeds of `runs` as text; empty if `runs` are all `finished` runs of the cell.

    If `runs` are not all combinations of some prompts with some seeds, the text lists every run.
    """
    prompts: dict[str, None] = {}
    seeds = set()
    all_prompts = set()
    all_seeds = set()
    listed = []
    for prompt, seed in finished:
        all_prompts.add(prompt)
        all_seeds.add(seed)
        if (prompt, seed) in runs:
            prompts[prompt] = None
            seeds.add(seed)
            listed.append(f"prompt {prompt} and seed {seed}")

    if set(product(prompts, seeds)).intersection(finished) != set(runs):
        return f" under {', '.join(listed)}"

    parts = []
    if len(prompts) < len(all_prompts):
        parts.append(f"prompt {', '.join(prompts)}")
    if len(seeds) < len(all_seeds):
        parts.append(f"seed {', '.join(map(str, sorted(seeds)))}")
    if not parts:
        return ""
    return f" under {' and '.join(parts)}"
