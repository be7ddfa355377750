"""Evaluations that are added to finished runs, computed with the encoders that the runs have saved."""

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
    """Return the text of `KEYS`: the content of a run's key, and the keys and contents of its evaluations."""
    times = [evaluation.at for evaluation in evaluations]
    table = {
        "key": key_of(content),
        "content": content,
        **_evaluations_table(evaluations),
        "starts": times.count("start"),
    }
    return json.dumps(table, indent=1) + "\n"


def _evaluations_table(evaluations: Sequence[EvaluationKey]) -> dict[str, Any]:
    """Return the keys of evaluations in order, and their contents, as in `KEYS`."""
    keys = [evaluation.key for evaluation in evaluations]
    contents = {evaluation.key: evaluation.content for evaluation in evaluations}
    return {"evaluations": keys, "evaluation_contents": contents}


def only_starts(run: Path, recipe: Recipe) -> tuple[Evaluate, ...]:
    """Remove the evaluations after training from the keys of a stopped run; return those before training.

    The run began with `recipe`. The study no longer has the evaluations that are removed, or their code has
    changed.
    """
    keys = read_json(run / KEYS)
    keys["evaluations"] = keys["evaluations"][: keys["starts"]]
    write_atomic(run / KEYS, json.dumps(keys, indent=1) + "\n")
    starts = [entry for entry in recipe.evaluate if "start" in entry.at]
    return tuple(attrs.evolve(entry, at=("start",)) for entry in starts)


def has_encoder(run: Path) -> bool:
    """Whether a finished run has its saved encoders."""
    return (run / ENCODER).is_dir()


@attrs.frozen(eq=False)
class KeptRun:
    """State of a cell's run in the directory of a study."""

    task: Task
    status: str | None
    """Status in its manifest; None if it has not begun."""
    missing: tuple[EvaluationKey, ...]
    """Evaluations that a finished run lacks."""
    has_encoder: bool
    """Whether it has its saved encoders."""

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
        """Whether it lacks evaluations after training, and has no saved encoders for them."""
        if self.has_encoder:
            return False
        return any(evaluation.at == "end" for evaluation in self.missing)


def kept_runs(study: Path, work: Work) -> list[KeptRun]:
    """Return the state of each run in the directory of a study.

    Raises:
        RunError: if the key in a run's directory differs from the key in the directory's name.
    """
    runs = []
    for task in work.tasks:
        run = study / task.directory
        try:
            key = read_json(run / KEYS)["key"]
        except (OSError, ValueError, LookupError, TypeError, DataError):
            # Without a readable key, the name of the directory counts.
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
    """Run evaluations that a finished run lacks, each as a run in a subdirectory.

    Evaluations after training use the saved encoders of the run, those before training newly built ones. The
    scores are bit-identical to those that the run itself would have given.

    Raises:
        RunError: if the run has no saved encoder.
        Also any error of an evaluation.
    """
    loaded: Mapping[str, Encoder] = {}

    for evaluation in missing:
        directory = added_run(run, evaluation.key)
        # A killed process may have left it; nothing in it was trained.
        remove_directory(directory)
        new_directory(directory)
        keys = json.dumps(_evaluations_table([evaluation]), indent=1)
        write_atomic(directory / KEYS, keys + "\n")
        only_this = attrs.evolve(
            recipe, evaluate=(evaluation.entry,), expected={}, tracker=()
        )
        if evaluation.at == "start":
            context = RunContext(recipe.run.name, directory, only_this, stages=0)
        else:
            loaded = loaded or _load_encoders(run, recipe, plugins)
            only_this = attrs.evolve(only_this, stage=())
            context = RunContext(recipe.run.name, directory, only_this)
            context.built, context.loaded = loaded, True
        execute(context, plugins)


def _load_encoders(run: Path, recipe: Recipe, plugins: Plugins) -> dict[str, Encoder]:
    """Return the saved encoders of a run, on one engine."""
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
