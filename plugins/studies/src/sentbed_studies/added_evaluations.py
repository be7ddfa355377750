"""Evaluations that are added to finished runs, from the encoders that these have kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed import Encoder
from sentbed.errors import DataError, RunError
from sentbed.helpers import read_json, remove_directory, write_atomic
from sentbed.tools import (
    ENCODER,
    Evaluate,
    Plugins,
    Recipe,
    RunContext,
    engine_of,
    execute,
    new_directory,
    saved_encoders,
    saved_recipe,
)
from sentbed_report.study.read_cell_run import KEYS, added_run, manifest_status

from sentbed_studies.cell_keys import Content, EvaluationKey, key_of
from sentbed_studies.shared_work_plan import Task, Work


def keys_of(content: Content, evaluations: Sequence[EvaluationKey]) -> str:
    """Return the file that says what decides the weights of a run, and which evaluations it makes."""
    times = [evaluation.at for evaluation in evaluations]
    table = {
        "key": key_of(content),
        "content": content,
        **_evaluations_table(evaluations),
        "starts": times.count("start"),
    }
    return json.dumps(table, indent=1) + "\n"


def _evaluations_table(evaluations: Sequence[EvaluationKey]) -> dict[str, Any]:
    """Return what `KEYS` says of evaluations: their keys in order, and what these are hashes of."""
    return {
        "evaluations": [evaluation.key for evaluation in evaluations],
        "evaluation_contents": {
            evaluation.key: evaluation.content for evaluation in evaluations
        },
    }


def only_starts(run: Path, recipe: Recipe) -> tuple[Evaluate, ...]:
    """Let a stopped run make no evaluation after its stages, and return those that it has made before them.

    `recipe` is that of the run. Its other evaluations are not the study's any more, or not by the same code.
    """
    keys = read_json(run / KEYS)
    keys["evaluations"] = keys["evaluations"][: keys["starts"]]
    write_atomic(run / KEYS, json.dumps(keys, indent=1) + "\n")
    return tuple(
        attrs.evolve(entry, at=("start",))
        for entry in recipe.evaluate
        if "start" in entry.at
    )


def has_encoder(run: Path) -> bool:
    """Whether a finished run has kept its encoders."""
    return (run / ENCODER).is_dir()


@attrs.frozen(eq=False)
class KeptRun:
    """What the directory of a study holds of a cell's run."""

    task: Task
    status: str | None
    """The status of its manifest; None if it has not begun."""
    missing: tuple[EvaluationKey, ...]
    """Evaluations that a finished run lacks."""
    has_encoder: bool
    """Whether it has kept its encoders."""

    @property
    def is_finished(self) -> bool:
        """Whether it has finished, with or without all evaluations."""
        return self.status == "finished"

    @property
    def is_done(self) -> bool:
        """Whether it has finished, with all evaluations."""
        return self.is_finished and not self.missing

    @property
    def is_to_be_trained_again(self) -> bool:
        """Whether it lacks evaluations of trained encoders, and has kept none."""
        return not self.has_encoder and any(
            evaluation.at == "end" for evaluation in self.missing
        )


def kept_runs(study: Path, work: Work) -> list[KeptRun]:
    """Return what the directory of a study holds of each run.

    Raises:
        RunError: if a directory holds the run of another training than its name says.
    """
    runs = []
    for task in work.tasks:
        run = study / task.directory
        try:
            key = read_json(run / KEYS)["key"]
        except (OSError, ValueError, LookupError, TypeError, DataError):
            # Nothing says that it is of another training.
            key = task.key
        if key != task.key:
            raise RunError(
                f"`{run}` holds the run of another training than its name says: its directory was renamed, "
                "or exchanged with that of another cell; move it back, or away to have this cell run again"
            )
        status = manifest_status(run)
        missing: list[EvaluationKey] = []
        if status == "finished":
            missing = task.missing(study)
        runs.append(KeptRun(task, status, tuple(missing), has_encoder(run)))
    return runs


def add_evaluations(
    run: Path, recipe: Recipe, missing: Sequence[EvaluationKey], plugins: Plugins
) -> None:
    """Make evaluations that a finished run lacks, each as a run of its own below it.

    Those after the last stage are of the encoders that the run has kept, those before the first one of the
    encoders as they are built. Scores are those that the run would have given to the bit.

    Raises:
        RunError: if the run has kept no encoder.
        Also what an evaluation raises.
    """
    loaded: Mapping[str, Encoder] = {}

    for evaluation in missing:
        directory = added_run(run, evaluation.key)
        # What a killed process has left of it is no reason to keep it: nothing was trained.
        remove_directory(directory)
        new_directory(directory)
        write_atomic(
            directory / KEYS,
            json.dumps(_evaluations_table([evaluation]), indent=1) + "\n",
        )
        alone = attrs.evolve(
            recipe, evaluate=(evaluation.entry,), expected={}, tracker=()
        )
        if evaluation.at == "start":
            context = RunContext(recipe.run.name, directory, alone, stages=0)
        else:
            loaded = loaded or _load_encoders(run, recipe, plugins)
            context = RunContext(
                recipe.run.name, directory, attrs.evolve(alone, stage=())
            )
            context.built, context.loaded = loaded, True
        execute(context, plugins)


def _load_encoders(run: Path, recipe: Recipe, plugins: Plugins) -> dict[str, Encoder]:
    """Return the encoders that a run has kept, on one engine."""
    if not has_encoder(run):
        raise RunError(
            f"the run in `{run}` has kept no encoder to evaluate; remove it to train it again"
        )
    engine = engine_of(recipe.runtime, plugins)
    encoders = {}
    for name, directory in saved_encoders(run, recipe.encoders).items():
        saved = saved_recipe(directory, plugins, recipe.encoders[name].runs_code)
        encoders[name] = Encoder.build(saved, engine, saved=directory)
    return encoders
