"""Evaluations that a study adds to finished runs; they are computed with the saved encoders of the runs.

A key is the hash of everything that determines the weights of a run or the scores of an evaluation (`cell_keys`).
The keys of a run and of its evaluations are recorded in the run's file `keys.json` (`KEYS`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs
from sentbed import Encoder
from sentbed.errors import RunError
from sentbed.helpers import key_of, read_json, remove_directory, write_atomic
from sentbed.protocols import Recipe
from sentbed.tools import (
    ENCODER,
    Plugins,
    engine_of,
    evaluate_trained,
    new_directory,
    runs_code,
    saved_encoders,
    saved_recipe,
    train_first_stages,
)
from sentbed_report.formatting import count
from sentbed_report.study.read_cell_run import (
    KEYS,
    added_run,
    manifest_status,
)

from sentbed_studies.cell_keys import Content, EvaluationKey
from sentbed_studies.shared_work_plan import Task, Work


def keys_json(
    content: Content,
    evaluations: Sequence[EvaluationKey],
    finished: Sequence[str] | None = None,
) -> str:
    """Return the text of `keys.json` for a run: its key and the keys of its evaluations.

    Each key is recorded together with its content, the data whose hash it is; `content` is that of the run's key.
    The entry `starts` is the number of evaluations before training, which come first. If the run goes on,
    `finished` has the keys of those that it has made, even if the study no longer has them.
    """
    starts = []
    ends = []
    for evaluation in evaluations:
        if evaluation.at == "start":
            starts.append(evaluation.key)
        else:
            ends.append(evaluation.key)
    if finished is not None:
        starts = list(finished)

    table = {
        "key": key_of(content),
        "content": content,
        "evaluations": [*starts, *ends],
        "evaluation_contents": _contents(evaluations),
        "starts": len(starts),
    }
    return json.dumps(table, indent=1) + "\n"


def _contents(evaluations: Sequence[EvaluationKey]) -> dict[str, Content]:
    """Return the content of each evaluation's key, by key."""
    return {evaluation.key: evaluation.content for evaluation in evaluations}


def evaluations_before_training(run: Path) -> list[str]:
    """Return the keys of the evaluations before training in the `keys.json` of a run.

    Raises:
        OSError, ValueError, LookupError, TypeError: if the file cannot be read (`UNREADABLE`).
    """
    keys = read_json(run / KEYS)
    return list(keys["evaluations"][: keys["starts"]])


def has_encoder(run: Path) -> bool:
    """Whether the directory of a finished run holds the saved encoders."""
    return (run / ENCODER).is_dir()


@attrs.frozen(eq=False)
class RunState:
    """State of a cell's run in the directory of a study."""

    task: Task
    status: str | None
    """Status in the run's manifest; None if the run has not begun."""
    missing: tuple[EvaluationKey, ...]
    """Evaluations of the study that the finished run lacks; always empty if the run has not finished."""
    has_encoder: bool
    """Whether the run's directory holds the saved encoders."""

    @property
    def is_finished(self) -> bool:
        """Whether the run has finished, even if it lacks evaluations."""
        return self.status == "finished"

    @property
    def is_done(self) -> bool:
        """Whether the run has finished and has all evaluations."""
        return self.is_finished and not self.missing

    @property
    def is_to_be_trained_again(self) -> bool:
        """Whether the run lacks evaluations after training, but has no saved encoders to compute them."""
        if self.has_encoder:
            return False
        return any(evaluation.at == "end" for evaluation in self.missing)


def run_states(study: Path, work: Work) -> list[RunState]:
    """Return the state of each run of `work` in the directory of a study."""
    runs = []
    for task in work.tasks:
        run = study / task.directory
        status = manifest_status(run)
        missing: list[EvaluationKey] = []
        if status == "finished":
            missing = task.missing(study)
        runs.append(RunState(task, status, tuple(missing), has_encoder(run)))
    return runs


def lines_on_evaluations(states: Sequence[RunState]) -> Iterator[str]:
    """Yield how many finished runs lack evaluations, and how many of them must be trained again for these."""
    evaluated: Counter[str] = Counter()
    trained_again = 0
    missing: list[EvaluationKey] = []
    for state in states:
        if state.is_to_be_trained_again:
            trained_again += 1
            missing += state.missing
        elif state.missing:
            evaluated[_names_of_evaluators(state.missing)] += 1

    for names, number in evaluated.items():
        yield f"evaluated, not trained again: {count(number, 'finished run')}, with {names}"

    if trained_again:
        yield (
            f"to be trained again (`--retrain`): {count(trained_again, 'finished run')}, which have kept no "
            f"encoder to evaluate with {_names_of_evaluators(missing)}"
        )


def _names_of_evaluators(evaluations: Iterable[EvaluationKey]) -> str:
    """Return the names of evaluators as text, without repetition."""
    names: dict[str, None] = {}
    for evaluation in evaluations:
        names[f"`{evaluation.entry.evaluator.name}`"] = None
    return ", ".join(names)


def add_evaluations(
    run: Path,
    recipe: Recipe,
    missing: Sequence[EvaluationKey],
    plugins: Plugins,
) -> None:
    """Run the evaluations that a finished run lacks, each as a run of its own in a subdirectory.

    Evaluations after training use the saved encoders of the run; evaluations before training use newly built
    encoders. The scores are bit-identical to the scores that the run itself would have given.

    Raises:
        RunError: if an evaluation after training is missing, and the run has not saved its encoder.
        SentbedError: if an evaluation fails.
    """
    loaded: Mapping[str, Encoder] = {}

    for evaluation in missing:
        directory = added_run(run, evaluation.key)
        # A killed process may have left the directory; its evaluation is run again.
        remove_directory(directory)
        new_directory(directory)
        keys = {
            "evaluations": [evaluation.key],
            "evaluation_contents": _contents([evaluation]),
        }
        write_atomic(directory / KEYS, json.dumps(keys, indent=1) + "\n")

        only_this = attrs.evolve(
            recipe,
            evaluate=(evaluation.entry,),
            expected={},
            tracker=(),
        )
        if evaluation.at == "start":
            train_first_stages(only_this, 0, directory, plugins)
        else:
            loaded = loaded or _load_encoders(run, recipe, plugins)
            entry = evaluation.entry
            for name in (entry.encoder or recipe.main_encoder, entry.second):
                if name is not None and name not in loaded:
                    raise RunError(
                        f"the run in `{run}` has not saved `{name}`, since its training diverged; take the "
                        "added evaluation of it out, or remove the run to train it again"
                    )
            evaluate_trained(only_this, loaded, directory, plugins)


def _load_encoders(
    run: Path,
    recipe: Recipe,
    plugins: Plugins,
) -> dict[str, Encoder]:
    """Return the saved encoders of a run, all on one engine. Raises `RunError` if there are none.

    An encoder whose training diverged has not been saved.
    """
    if not has_encoder(run):
        raise RunError(
            f"the run in `{run}` has kept no encoder to evaluate; remove it to train it again"
        )

    engine = engine_of(recipe.runtime, plugins)
    encoders = {}
    for name, directory in saved_encoders(run, recipe.encoders).items():
        if not directory.is_dir():
            continue
        saved = saved_recipe(directory, plugins, runs_code(recipe.encoders[name]))
        encoders[name] = Encoder.build(saved, engine, saved=directory)
    return encoders
