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
from sentbed_studies.shared_work_plan import Work


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
    """Return the keys of the evaluations before training in the `keys.json` of a run."""
    keys = read_json(run / KEYS)
    return list(keys["evaluations"][: keys["starts"]])


def lines_on_evaluations(study: Path, work: Work) -> Iterator[str]:
    """Yield which evaluations finished runs lack, and how many runs; `study` is the directory of the study."""
    runs: Counter[str] = Counter()
    for task in work.tasks:
        if manifest_status(study / task.directory) == "finished":
            missing = task.missing(study)
            if missing:
                runs[_names_of_evaluators(missing)] += 1
    for names, number in runs.items():
        yield f"evaluated, not trained again: {count(number, 'finished run')}, with {names}"


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
    if not (run / ENCODER).is_dir():
        raise RunError(
            f"the run in `{run}` has kept no encoder to evaluate; remove it to train it again, or take the added "
            "evaluation out"
        )

    engine = engine_of(recipe.runtime, plugins)
    encoders = {}
    for name, directory in saved_encoders(run, recipe.encoders).items():
        if not directory.is_dir():
            continue
        saved = saved_recipe(directory, plugins, runs_code(recipe.encoders[name]))
        encoders[name] = Encoder.build(saved, engine, saved=directory)
    return encoders
