"""Plan of the runs of a study, and of the work that they share: first stages of training, and forward passes."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import attrs
from sentbed.helpers import key_of
from sentbed.protocols import Recipe
from sentbed.tools import first_stages
from sentbed_report.formatting import count
from sentbed_report.study.read_cell_run import manifest_status, missing_evaluations
from sentbed_report.study.read_study_directory import is_finished
from sentbed_report.study.study_record import RUNS

from sentbed_studies.cell_keys import (
    CellKeys,
    Content,
    EvaluationKey,
    is_from_files,
    reads_texts_of_evaluations,
)
from sentbed_studies.shared_forward_passes import can_share
from sentbed_studies.study import Cell, Identity

Key: TypeAlias = str
"""Key of a run; see `cell_keys`."""


@attrs.frozen(eq=False)
class Prefix:
    """First stages that several cells share. They are trained in a run of their own, from which the cells
    continue."""

    key: Key
    recipe: Recipe
    """Recipe of the first cell with these stages. It has all stages of the cell, since a tokenizer may be trained
    on texts of later stages."""
    count: int
    """Number of shared stages, which are the first stages of the recipe."""
    above: Prefix | None
    """The next shorter prefix, from whose run this prefix continues; None if it starts from the beginning."""

    @property
    def directory(self) -> Path:
        """Run directory of the shared stages, relative to the directory of the study."""
        last = self.recipe.stage[self.count - 1]
        return Path("shared") / f"{last.name}-{self.key}"

    @property
    def depth(self) -> int:
        """Number of shorter prefixes that are run before this one."""
        return len(list(chain(self.above)))

    def __str__(self) -> str:
        names = [stage.name for stage in self.recipe.stage[: self.count]]
        return f"the shared stages {', '.join(names)}"


@attrs.frozen(eq=False)
class Task:
    """Run of a cell, or of several cells with the same weights."""

    cells: tuple[Cell, ...]
    """Cells that have the same weights: one, or more if they differ only in their evaluations, or in nothing."""
    recipe: Recipe = attrs.field(repr=False)
    """Recipe of the first cell, with the evaluations of all cells."""
    key: Key
    """Key of the run: the hash of `content`."""
    content: Content = attrs.field(repr=False)
    """Everything that determines the weights; see `CellKeys.training`."""
    evaluations: tuple[EvaluationKey, ...]
    """Evaluations of all cells, in the order in which they are run."""
    keys_of_cells: Mapping[Identity, tuple[Key, ...]] = attrs.field(repr=False)
    """Identity of a cell -> keys of its evaluations, in the order in which they are run."""
    above: Prefix | None
    """Longest prefix that the run shares with others, from whose run it continues; None if it shares none."""

    @property
    def cell(self) -> Cell:
        """The first of the cells."""
        return self.cells[0]

    @property
    def directory(self) -> Path:
        """Run directory, relative to the directory of the study."""
        return RUNS / self.key

    @property
    def evaluation_keys(self) -> tuple[Key, ...]:
        """Keys of the evaluations, in the order in which they are run."""
        return tuple(evaluation.key for evaluation in self.evaluations)

    def is_done(self, study: Path) -> bool:
        """Whether the run has finished with all evaluations; `study` is the directory of the study."""
        return is_finished(study / self.directory, self.evaluation_keys)

    def missing(self, study: Path) -> list[EvaluationKey]:
        """Return the evaluations that the finished run lacks; `study` is the directory of the study."""
        keys = missing_evaluations(study / self.directory, self.evaluation_keys)
        return [evaluation for evaluation in self.evaluations if evaluation.key in keys]

    def __str__(self) -> str:
        others = len(self.cells) - 1
        if not others:
            return str(self.cell)
        return f"{self.cell} (and {count(others, 'cell')} with the same weights)"


@attrs.frozen(eq=False)
class Work:
    """Runs of a study, or of a part of its cells."""

    prefixes: tuple[Prefix, ...]
    """Shared stages, shorter prefixes first."""
    bundles: tuple[tuple[Task, ...], ...]
    """Groups of runs that share forward passes of a backbone. One worker does the runs of a group in sequence."""

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All runs."""
        return tuple(itertools.chain.from_iterable(self.bundles))

    def of(self, cells: Collection[Cell]) -> Work:
        """Return the part of the work that these cells need."""
        identities = {cell.identity for cell in cells}
        bundles = []
        used: set[Prefix] = set()
        for bundle in self.bundles:
            tasks = []
            for task in bundle:
                if not identities.isdisjoint(task.keys_of_cells):
                    tasks.append(task)
                    used.update(chain(task.above))
            if tasks:
                bundles.append(tuple(tasks))

        prefixes = tuple(prefix for prefix in self.prefixes if prefix in used)
        return Work(prefixes, tuple(bundles))

    def prefixes_to_run(self, study: Path, unstarted: Iterable[Task]) -> list[Prefix]:
        """Return the shared stages that must be run before the `unstarted` tasks, shorter prefixes first.

        `study` is the directory of the study.
        """
        keys = set()
        for task in unstarted:
            for prefix in chain(task.above):
                status = manifest_status(study / prefix.directory)
                if status != "finished":
                    keys.add(prefix.key)
                if status is not None:
                    # The run of this prefix has begun, so it no longer needs the shorter ones.
                    break
        return [prefix for prefix in self.prefixes if prefix.key in keys]

    def sharing(self, prefix: Prefix) -> int:
        """Return the number of runs that continue from a prefix, directly or through longer prefixes."""
        return sum(prefix in chain(task.above) for task in self.tasks)


def plan_work(
    cells: Sequence[Cell],
    keys: CellKeys,
    share: bool = True,
) -> Work:
    """Return the runs of `cells`.

    Args:
        cells: Cells of a study.
        keys: Keys of runs and evaluations.
        share: Whether runs share stages and forward passes.
    """
    contents: dict[Key, Content] = {}
    cells_of_key: dict[Key, list[Cell]] = {}
    for cell in cells:
        content = keys.training(cell.recipe)
        key = key_of(content)
        contents[key] = content
        cells_of_key.setdefault(key, []).append(cell)

    recipes = [_with_all_evaluations(of_key) for of_key in cells_of_key.values()]
    shared: Sequence[Prefix | None] = [None] * len(recipes)
    indices_of_bundles = [[index] for index in range(len(recipes))]
    if share:
        shared = _shared_stages(recipes, keys)
        indices_of_bundles = groups(recipes)

    tasks = []
    prefixes: dict[Prefix, None] = {}
    for (key, of_key), recipe, above in zip(
        cells_of_key.items(), recipes, shared, strict=True
    ):
        keys_of_cells = {}
        for cell in of_key:
            evaluations = keys.evaluations(cell.recipe, key)
            keys_of_cells[cell.identity] = tuple(each.key for each in evaluations)
        tasks.append(
            Task(
                tuple(of_key),
                recipe,
                key,
                contents[key],
                keys.evaluations(recipe, key),
                keys_of_cells,
                above,
            )
        )
        prefixes |= dict.fromkeys(chain(above))

    bundles = []
    for indices in indices_of_bundles:
        bundles.append(tuple(tasks[index] for index in indices))

    shorter_first = sorted(prefixes, key=lambda prefix: prefix.depth)
    return Work(tuple(shorter_first), tuple(bundles))


def _with_all_evaluations(cells: Sequence[Cell]) -> Recipe:
    """Return the recipe of the first of the cells, with the evaluations of all of them."""
    recipe = cells[0].recipe
    evaluations = list(recipe.evaluate)
    for cell in cells[1:]:
        for entry in cell.recipe.evaluate:
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


def _shared_stages(recipes: Sequence[Recipe], keys: CellKeys) -> list[Prefix | None]:
    """Return for each recipe the longest prefix that it shares with another one; None if it shares none."""
    prefix_keys_of_recipes = []
    recipes_with_prefix: dict[Key, list[Recipe]] = {}
    for recipe in recipes:
        prefix_keys = _keys_of_prefixes(recipe, keys)
        prefix_keys_of_recipes.append(prefix_keys)
        for key in prefix_keys:
            recipes_with_prefix.setdefault(key, []).append(recipe)

    prefixes: dict[Key, Prefix] = {}
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
                    prefixes[key] = Prefix(key, sharing[0], length, above)
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
    - `dimensions` of the head, unless the encoder is frozen: a frozen encoder encodes during training;
    - the prompt of an encoder that no stage uses, unless tokenizers are trained on texts.

    If an encoder is evaluated before or during training, nothing is left out.
    """
    if recipe.evaluate:
        return recipe

    frozen: set[str] = set()
    used: set[str] = set()
    for stage in recipe.stage:
        if stage.validate is not None or stage.watch:
            return recipe
        frozen.update(stage.freeze)
        used.update(recipe.trained(stage), recipe.towers(stage).values())

    encoders = {}
    for name, encoder in recipe.encoders.items():
        trained = attrs.evolve(encoder, task_prompts=None)
        if name not in frozen:
            head = attrs.evolve(encoder.head, dimensions=None)
            trained = attrs.evolve(trained, head=head)
        if name not in frozen | used and is_from_files(recipe):
            trained = attrs.evolve(trained, prompt=None)
        encoders[name] = trained
    return attrs.evolve(recipe, encoders=encoders)


def chain(prefix: Prefix | None) -> Iterator[Prefix]:
    """Yield a prefix, then the shorter prefix from which it continues, and so on."""
    while prefix is not None:
        yield prefix
        prefix = prefix.above
