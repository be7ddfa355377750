"""Writer of MTEB's result files, from scores of the evaluator `mteb`; MTEB's `ResultCache` reads them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import tomli
from sentbed.errors import DataError, RunError
from sentbed.helpers import read_file, read_json
from sentbed.protocols import Score
from sentbed.tools import MANIFEST, UNDECISIVE
from sentbed_report.study.read_cell_run import read_run
from sentbed_report.study.read_study_directory import read_data
from sentbed_report.unique_names import unique_name

from sentbed_audit.sentbed_results import after_training

if TYPE_CHECKING:
    from mteb import TaskResult

EVALUATOR = "mteb"
RECIPE = "resolved.toml"
_TABLES_AFTER_TRAINING = ("evaluate", "report", "study")
"""Tables of a recipe that do not affect the encoder."""

AGGREGATE_REVISION = "1"
"""The revision that MTEB gives to a task that is a mean of other tasks."""


@attrs.frozen
class ModelScores:
    """The scores of one encoder, which fill one folder `MODEL/REVISION` of result files."""

    name: str
    """MTEB's name of the model, of the form `OWNER/NAME`."""
    revision: str
    max_tokens: int | None
    scores: tuple[Score, ...]


def export_results(
    directory: Path,
    output: Path,
    model: str,
) -> list[Path]:
    """Write the scores of a run or study as `output/results/MODEL/REVISION/TASK.json`.

    `model` has the form `OWNER/NAME`. For a study, the name of the cell and the label of its prompt are
    appended to it; if a run has several encoders, the name of the encoder is appended, too. The revision is a
    hash of everything in the run's recipe that affects its encoders, such as the seed. Of each split and subset,
    only the main score is written, as a number from 0 to 1; MTEB's other metrics are left out.

    Returns:
        The files, one per task and model.

    Raises:
        DataError: if `model` is not `OWNER/NAME`, or the directory does not exist.
        RunError: if the directory cannot be read or has no scores of the evaluator `mteb`, or if mteb is not
            installed.
    """
    if find_spec("mteb") is None:
        raise RunError(
            "the package `mteb` is not installed, and it writes the files; "
            "install it with `pip install 'sentbed-audit[mteb]'`"
        )

    if not re.fullmatch(r"[\w.-]+/[\w.-]+", model):
        raise DataError(
            f"found the model {model!r}; expected `OWNER/NAME` of letters, digits, `.`, `_`, `-`"
        )

    if not directory.is_dir():
        raise DataError(
            "there is no such directory; name that of a run or study", directory
        )

    exported = list(_models(directory, model))
    if not exported:
        raise RunError(
            f"`{directory}` has no scores of the evaluator `{EVALUATOR}` from finished runs; only these are "
            'computed as MTEB computes them: evaluate with `{ use = "mteb", tasks = [...] }`'
        )
    return list(_write(exported, output))


def _models(directory: Path, model: str) -> Iterator[ModelScores]:
    """Yield the scores of each encoder, from the directory of a run or from each run of a study."""
    if (directory / "study.json").is_file():
        data = read_data(directory)
        # Labels of several prompts may be equal once characters have been replaced.
        names_of_prompts = {"": ""}
        taken_labels: set[str] = set()
        for prompt in data.prompts:
            label = unique_name(reduced(prompt), taken_labels)
            names_of_prompts[prompt] = f"-{label}"
        taken: set[str] = set()
        for cell in data.cells:
            name_of_cell = unique_name(f"{model}-{reduced(cell.name)}", taken)
            for run in cell.runs:
                if run.directory is None:
                    continue
                name = name_of_cell + names_of_prompts[run.prompt]
                yield from _models_of_run(directory / run.directory, run.scores, name)
        return
    run = read_run(directory, "", 0, directory)
    yield from _models_of_run(directory, run.scores, model)


def _models_of_run(
    directory: Path,
    scores: Sequence[Score],
    model: str,
) -> Iterator[ModelScores]:
    """Yield the scores of each encoder of a run, after training if there are any."""
    scores_of_mteb = [score for score in scores if score.evaluator == EVALUATOR]
    scores_of_encoder: dict[str, list[Score]] = {}
    for score in after_training(scores_of_mteb):
        scores_of_encoder.setdefault(score.encoder, []).append(score)
    for encoder, encoder_scores in scores_of_encoder.items():
        name = model
        if len(scores_of_encoder) > 1:
            name += f"-{reduced(encoder)}"
        max_length = encoder_scores[0].protocol["encoder"].get("max_length")
        yield ModelScores(name, _revision(directory), max_length, tuple(encoder_scores))


def _revision(directory: Path) -> str:
    """Return a hash of the origin of a run's weights and of the parts of its recipe that affect encoders."""
    recipe = tomli.loads(read_file(directory / RECIPE).decode())
    for name in (*UNDECISIVE, *_TABLES_AFTER_TRAINING):
        recipe.pop(name, None)

    weights = read_json(directory / MANIFEST).get("weights")
    canonical = json.dumps([recipe, weights], sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:40]


def reduced(name: str) -> str:
    """Return a name in which characters that MTEB does not allow in names of models are replaced by hyphens."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-") or "cell"


def _write(models: Iterable[ModelScores], output: Path) -> Iterator[Path]:
    """Write a result file for each task of each model, and yield its path."""
    from mteb.cache import ResultCache
    from mteb.models import ModelMeta
    from mteb.models.model_meta import ScoringFunction

    cache = ResultCache(output)
    for model in models:
        meta = ModelMeta.create_empty(
            {
                "name": model.name,
                "revision": model.revision,
                "max_tokens": model.max_tokens,
                "similarity_fn_name": ScoringFunction.COSINE,
                "framework": ["PyTorch"],
            }
        )
        for result in _task_results(model.scores):
            cache.save_to_cache(result, meta)
            yield Path(cache.get_task_result_path(result.task_name, meta))


def _task_results(scores: Iterable[Score]) -> Iterator[TaskResult]:
    """Yield MTEB's result of each task. Means over tasks are left out, unless MTEB defines them as tasks."""
    from mteb import TaskResult

    scores_of_task: dict[str, list[Score]] = {}
    for score in scores:
        if "dataset" in score.evaluator_protocol:
            scores_of_task.setdefault(score.task, []).append(score)
    for task, (main, *parts) in scores_of_task.items():
        protocol = main.evaluator_protocol
        revision = protocol["revision"]
        if not isinstance(revision, str):
            revision = AGGREGATE_REVISION
        entries: dict[str, list[Mapping[str, Any]]] = {}
        # A task with a single split and subset has one score, which is both the main score and the only entry.
        for part in parts or [main]:
            split = part.evaluator_protocol["split"]
            entries.setdefault(split, []).append(_entry(part, main.metric))
        yield TaskResult(
            task_name=task,
            dataset_revision=revision,
            mteb_version=protocol["mteb"],
            scores=entries,
            evaluation_time=None,
        )


def _entry(score: Score, metric: str) -> Mapping[str, Any]:
    """Return a score as MTEB's entry for a split and subset."""
    protocol = score.evaluator_protocol
    value = score.value / 100
    return {
        "hf_subset": protocol["subset"],
        "languages": list(protocol["languages"]),
        "main_score": value,
        metric: value,
        "mteb_version": protocol["mteb"],
    }
