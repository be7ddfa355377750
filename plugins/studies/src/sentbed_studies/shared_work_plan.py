"""Plan of the runs of a study, and of the work that they share: first stages of training, and forward passes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import attrs
from sentbed.helpers import key_of
from sentbed.protocols import Recipe
from sentbed.tools import first_stages
from sentbed_report.formatting import count
from sentbed_report.study.read_cell_run import manifest_status, missing_evaluations
from sentbed_report.study.read_study_directory import is_finished
from sentbed_report.study.study_data import RUNS

from sentbed_studies.axes import matches_any
from sentbed_studies.cell_keys import (
    CellKeys,
    Content,
    EvaluationKey,
    is_from_files,
    reads_texts_of_evaluations,
)
from sentbed_studies.shared_forward_passes import can_share
from sentbed_studies.study import Entries, Run

Key: TypeAlias = str
"""Key of a run; see `cell_keys`."""

LONGEST_NAME = 100
"""Maximum number of characters of a run's name; see `RunTable.name`."""


@attrs.frozen(eq=False)
class Task:
    """What is run in one directory: a run, runs with the same weights, or first stages that runs share."""

    key: Key
    """Hash of everything that determines the weights."""
    recipe: Recipe = attrs.field(repr=False)
    """Recipe of a single run, with the evaluations of all `runs`. A task of shared stages has all stages of the
    first run that shares them, since a tokenizer may be trained on texts of later stages."""
    content: Content = attrs.field(factory=dict, repr=False)
    """Data whose hash is the key; see `CellKeys.training`."""
    above: Task | None = None
    """Task of shared stages from whose end this one continues; None if it starts from the beginning."""

    runs: tuple[Run, ...] = ()
    """Runs with these weights: one, or more if they differ only in their evaluations, or in nothing."""
    evaluations: tuple[EvaluationKey, ...] = ()
    """Evaluations of all `runs`, in the order in which they are run."""

    stages: int | None = None
    """Number of shared stages, which are the first of the recipe; None if these are runs of the study."""

    @property
    def run(self) -> Run:
        """The first of the runs."""
        return self.runs[0]

    @property
    def directory(self) -> Path:
        """Run directory, relative to the directory of the study."""
        if self.stages is None:
            return RUNS / self.key
        last = self.recipe.stage[self.stages - 1]
        return Path("shared") / f"{last.name}-{self.key}"

    @property
    def before(self) -> Iterator[Task]:
        """Tasks of shared stages that are run before this one, the last of them first."""
        if self.above is not None:
            yield self.above
            yield from self.above.before

    @property
    def evaluation_keys(self) -> tuple[Key, ...]:
        """Keys of the evaluations, in the order in which they are run."""
        return tuple(evaluation.key for evaluation in self.evaluations)

    def is_done(self, study: Path) -> bool:
        """Whether the task has finished with all evaluations; `study` is the directory of the study."""
        return is_finished(study / self.directory, self.evaluation_keys)

    def missing(self, study: Path) -> list[EvaluationKey]:
        """Return the evaluations that the finished run lacks; `study` is the directory of the study."""
        keys = missing_evaluations(study / self.directory, self.evaluation_keys)
        return [evaluation for evaluation in self.evaluations if evaluation.key in keys]

    def __str__(self) -> str:
        if self.stages is not None:
            names = [stage.name for stage in self.recipe.stage[: self.stages]]
            return f"the shared stages {', '.join(names)}"
        others = len(self.runs) - 1
        if not others:
            return str(self.run)
        return f"{self.run} (and {count(others, 'cell')} with the same weights)"


@attrs.frozen(eq=False)
class Bundle:
    """Tasks that one worker does in sequence, since their runs share forward passes of a backbone."""

    tasks: tuple[Task, ...]

    def __str__(self) -> str:
        if len(self.tasks) == 1:
            return str(self.tasks[0])
        return f"{self.tasks[0]} and {len(self.tasks) - 1} more"


@attrs.frozen(eq=False)
class Work:
    """Runs of a study, or of a part of its cells."""

    runs: tuple[Run, ...]
    """The runs with their keys."""
    bundles: tuple[Bundle, ...]

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Tasks of all runs, without those of shared stages."""
        tasks: list[Task] = []
        for bundle in self.bundles:
            tasks += bundle.tasks
        return tuple(tasks)

    @property
    def shared_stages(self) -> list[Task]:
        """Tasks of shared stages, those with fewer stages first."""
        shared: dict[Task, None] = {}
        for task in self.tasks:
            shared.update(dict.fromkeys(task.before))
        return sorted(shared, key=lambda task: task.stages or 0)

    def only(self, entries: Entries) -> Work:
        """Return the work of the cells that match one of `entries`; all of it if there are no entries."""
        if not entries:
            return self
        runs: list[Run] = []
        bundles = []
        for bundle in self.bundles:
            tasks = []
            for task in bundle.tasks:
                if any(matches_any(run.labels, entries) for run in task.runs):
                    tasks.append(task)
                    runs += task.runs
            if tasks:
                bundles.append(Bundle(tuple(tasks)))
        return Work(tuple(runs), tuple(bundles))

    def stages_to_run(self, study: Path) -> list[Task]:
        """Return the tasks of shared stages that must be run first, those with fewer stages first.

        `study` is the directory of the study. A run that has begun no longer needs the stages before it.
        """
        needed: set[Task] = set()
        for task in self.tasks:
            if manifest_status(study / task.directory) is not None:
                continue
            for shared in task.before:
                status = manifest_status(study / shared.directory)
                if status != "finished":
                    needed.add(shared)
                if status is not None:
                    break
        return [task for task in self.shared_stages if task in needed]

    def sharing(self, stages: Task) -> int:
        """Return the number of tasks that continue from shared stages, directly or through longer ones."""
        return sum(stages in task.before for task in self.tasks)


def unfinished(work: Work, directory: Path) -> list[Task]:
    """Return the tasks of runs that are not done; `directory` is that of the study."""
    return [task for task in work.tasks if not task.is_done(directory)]


def plan_work(
    name: str,
    runs: Sequence[Run],
    keys: CellKeys,
    share: bool = True,
    later: Sequence[Run] = (),
) -> Work:
    """Return the work of `runs`.

    Args:
        name: Name of the study.
        runs: Runs of the study.
        keys: Keys of runs and evaluations.
        share: Whether runs share stages and forward passes.
        later: Runs that may be chosen later, and would then share stages with these.
    """
    contents: dict[Key, Content] = {}
    runs_of_key: dict[Key, list[Run]] = {}
    runs_with_keys = []
    for run in runs:
        content = keys.training(run.recipe)
        key = key_of(content)
        contents[key] = content
        evaluations = keys.evaluations(run.recipe, key)
        keys_of_evaluations = tuple(evaluation.key for evaluation in evaluations)
        with_keys = attrs.evolve(run, key=key, evaluations=keys_of_evaluations)
        runs_of_key.setdefault(key, []).append(with_keys)
        runs_with_keys.append(with_keys)

    recipes = [_with_all_evaluations(of_key) for of_key in runs_of_key.values()]
    shared: Sequence[Task | None] = [None] * len(recipes)
    indices_of_bundles = [[index] for index in range(len(recipes))]
    if share:
        recipes_of_later: dict[Key, Recipe] = {}
        for run in later:
            key = key_of(keys.training(run.recipe))
            if key not in runs_of_key:
                recipes_of_later[key] = run.recipe
        shared = _shared_stages([*recipes, *recipes_of_later.values()], keys)
        shared = shared[: len(recipes)]
        indices_of_bundles = groups(recipes)

    tasks = []
    for (key, of_key), recipe, above in zip(
        runs_of_key.items(), recipes, shared, strict=True
    ):
        run_table = attrs.evolve(recipe.run, name=_run_name(name, of_key[0]))
        tasks.append(
            Task(
                key,
                attrs.evolve(recipe, run=run_table),
                contents[key],
                above,
                runs=tuple(of_key),
                evaluations=keys.evaluations(recipe, key),
            )
        )

    bundles = []
    for indices in indices_of_bundles:
        bundles.append(Bundle(tuple(tasks[index] for index in indices)))
    return Work(tuple(runs_with_keys), tuple(bundles))


def _run_name(study: str, run: Run) -> str:
    """Return the `run.name` of a run: names of the study, the cell and the prompt, the seed, and a short key."""
    name = f"{study}.{run.name.replace(', ', '_')}"
    if run.prompt:
        name += f"-{run.prompt}"
    safe = re.sub(r"[^A-Za-z0-9._-]", "-", name)
    end = f"-seed{run.seed}-{run.key[:8]}"
    return safe[: LONGEST_NAME - len(end)] + end


def _with_all_evaluations(runs: Sequence[Run]) -> Recipe:
    """Return the recipe of the first of the runs, with the evaluations of all of them."""
    recipe = runs[0].recipe
    evaluations = list(recipe.evaluate)
    for run in runs[1:]:
        for entry in run.recipe.evaluate:
            if entry not in evaluations:
                evaluations.append(entry)
    return attrs.evolve(recipe, evaluate=tuple(evaluations))


def groups(recipes: Sequence[Recipe]) -> list[list[int]]:
    """Return the indices of the recipes in groups whose recipes can share forward passes."""
    sharing: list[list[int]] = []
    for index, recipe in enumerate(recipes):
        for group in sharing:
            if can_share(recipes[group[0]], recipe):
                group.append(index)
                break
        else:
            sharing.append([index])
    return sharing


def _shared_stages(recipes: Sequence[Recipe], keys: CellKeys) -> list[Task | None]:
    """Return for each recipe the task of most stages that it shares with another one; None if it shares none."""
    prefix_keys_of_recipes = []
    recipes_with_prefix: dict[Key, list[Recipe]] = {}
    for recipe in recipes:
        prefix_keys = _keys_of_prefixes(recipe, keys)
        prefix_keys_of_recipes.append(prefix_keys)
        for key in prefix_keys:
            recipes_with_prefix.setdefault(key, []).append(recipe)

    prefixes: dict[Key, Task] = {}
    longest = []
    for prefix_keys in prefix_keys_of_recipes:
        above = None
        for length, key in enumerate(prefix_keys, start=1):
            sharing = recipes_with_prefix[key]
            with_next_stage = 1
            if length < len(prefix_keys):
                with_next_stage = len(recipes_with_prefix[prefix_keys[length]])
            # If all recipes that share this prefix also share the next stage, only the longer one is needed.
            if len(sharing) > with_next_stage:
                if key not in prefixes:
                    # Trackers record only runs of the study.
                    recipe = attrs.evolve(sharing[0], tracker=())
                    prefixes[key] = Task(key, recipe, above=above, stages=length)
                above = prefixes[key]
        longest.append(above)
    return longest


def _keys_of_prefixes(recipe: Recipe, keys: CellKeys) -> list[Key]:
    """Return the keys of a recipe's first stage, of its first two stages, and so on."""
    texts = _texts(recipe)
    prefix_keys = []
    for length in range(1, len(recipe.stage) + 1):
        stages = _as_trained(first_stages(recipe, length))
        prefix_keys.append(keys.of(stages, *texts))
    return prefix_keys


def _texts(recipe: Recipe) -> list[Any]:
    """Return the data and the evaluations on whose texts a recipe's tokenizers are trained.

    The result is empty if the tokenizers come from files.
    """
    if is_from_files(recipe):
        return []
    data = [[stage.data, recipe.towers(stage)] for stage in recipe.stage]
    if reads_texts_of_evaluations(recipe):
        return [data, list(recipe.evaluate)]
    return [data, []]


def _as_trained(recipe: Recipe) -> Recipe:
    """Return a recipe without the settings of encoders that do not affect training.

    These settings are left out:

    - the prompts of tasks;
    - `dimensions` of the head, unless the encoder is frozen: a frozen encoder encodes during training.

    If an encoder is evaluated before or during training, nothing is left out.
    """
    if recipe.evaluate:
        return recipe

    frozen: set[str] = set()
    for stage in recipe.stage:
        if stage.validate is not None or stage.watch:
            return recipe
        frozen.update(stage.freeze)

    encoders = {}
    for name, encoder in recipe.encoders.items():
        trained = attrs.evolve(encoder, task_prompts=None)
        if name not in frozen:
            head = attrs.evolve(encoder.head, dimensions=None)
            trained = attrs.evolve(trained, head=head)
        encoders[name] = trained
    return attrs.evolve(recipe, encoders=encoders)
