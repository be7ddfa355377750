"""Plan of the work that cells of a study share: first stages and backbone passes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import attrs
from sentbed.tools import Recipe, first_stages
from sentbed_report.study.read_cell_run import missing_evaluations
from sentbed_report.study.read_study_directory import is_finished

from sentbed_studies.cell_keys import (
    CellKeys,
    Content,
    EvaluationKey,
    directory_of,
    is_from_files,
    key_of,
    reads_texts_of_evaluations,
    short,
)
from sentbed_studies.demonstration_search_config import Search
from sentbed_studies.shared_forward_passes import can_share
from sentbed_studies.study import Cell

Key: TypeAlias = str


@attrs.frozen(eq=False)
class Prefix:
    """First stages that several cells share: a separate run, from which the cells continue."""

    key: Key
    recipe: Recipe
    """Recipe of the first cell; complete, since a tokenizer may be trained on texts of later stages."""
    count: int
    """Number of its stages that are shared."""
    above: Prefix | None
    """Shorter prefix that this one continues from."""

    @property
    def directory(self) -> Path:
        """Its run directory within that of the study."""
        return (
            Path("shared")
            / f"{self.recipe.stage[self.count - 1].name}-{short(self.key)}"
        )

    @property
    def depth(self) -> int:
        """Number of prefixes that it continues from."""
        return len(list(chain(self.above)))

    def __str__(self) -> str:
        return f"the shared stages {', '.join(stage.name for stage in self.recipe.stage[: self.count])}"


@attrs.frozen(eq=False)
class Task:
    """Run of one cell."""

    cell: Cell
    content: Content = attrs.field(repr=False)
    """What decides the weights of the cell; see `CellKeys.training`."""
    evaluations: tuple[EvaluationKey, ...]
    above: Prefix | None
    """First stages that it shares with other cells, if any."""
    key: Key = attrs.field(init=False)
    """Key of the training, by which the run is known."""

    @key.default
    def _key(self) -> Key:
        return key_of(self.content)

    @property
    def directory(self) -> Path:
        """Its run directory within that of the study."""
        return directory_of(self.cell.name, self.cell.seed, self.key, self.cell.prompt)

    @property
    def evaluation_keys(self) -> tuple[str, ...]:
        """Keys of its evaluations, in the order of the run."""
        return tuple(evaluation.key for evaluation in self.evaluations)

    def is_done(self, study: Path) -> bool:
        """Whether its run in the directory of a study has finished, with all evaluations."""
        return is_finished(study / self.directory, self.evaluation_keys)

    def missing(self, study: Path) -> list[EvaluationKey]:
        """Return the evaluations that its finished run lacks."""
        keys = missing_evaluations(study / self.directory, self.evaluation_keys)
        return [evaluation for evaluation in self.evaluations if evaluation.key in keys]

    def __str__(self) -> str:
        return str(self.cell)


@attrs.frozen(eq=False)
class Work:
    """All work of a study."""

    prefixes: tuple[Prefix, ...]
    """Shared stages, shorter ones first."""
    bundles: tuple[tuple[Task, ...], ...]
    """Groups of cells that one worker runs in sequence because they share backbone passes."""

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Runs of all cells."""
        return tuple(task for bundle in self.bundles for task in bundle)

    def of(self, cells: Collection[Cell]) -> Work:
        """Return the work for these cells alone."""
        # Cells cannot be hashed; by name, prompt and seed they are looked up.
        wanted = {cell.identity for cell in cells}
        bundles = []
        prefixes: set[Prefix] = set()

        for bundle in self.bundles:
            tasks = tuple(task for task in bundle if task.cell.identity in wanted)
            if tasks:
                bundles.append(tasks)
            for task in tasks:
                prefixes.update(chain(task.above))

        return Work(
            tuple(prefix for prefix in self.prefixes if prefix in prefixes),
            tuple(bundles),
        )

    def without(self, tasks: Collection[Task]) -> Work:
        """Return the work without these runs."""
        if not tasks:
            return self
        return self.of([task.cell for task in self.tasks if task not in tasks])

    def sharing(self, prefix: Prefix) -> int:
        """Return the number of runs that begin with a prefix."""
        return sum(prefix in chain(task.above) for task in self.tasks)


def plan_work(cells: Sequence[Cell], identities: CellKeys, share: bool = True) -> Work:
    """Return the work for `cells`; without `share`, every cell runs alone."""
    shared: Sequence[Prefix | None] = [None] * len(cells)
    sharing_passes: Sequence[Sequence[int]] = [[index] for index in range(len(cells))]
    if share:
        shared = _shared_stages(cells, identities)
        sharing_passes = groups([cell.recipe for cell in cells])

    tasks = []
    prefixes: dict[Prefix, None] = {}
    for cell, above in zip(cells, shared, strict=True):
        content = identities.training(cell.recipe)
        evaluations = identities.evaluations(cell.recipe, key_of(content))
        task = Task(cell, content, evaluations, above)
        tasks.append(task)
        prefixes |= dict.fromkeys(chain(above))

    bundles = []
    for indices in sharing_passes:
        bundle = tuple(tasks[index] for index in indices)
        bundles.append(bundle)
    return Work(
        tuple(sorted(prefixes, key=lambda prefix: prefix.depth)), tuple(bundles)
    )


def groups(recipes: Sequence[Recipe]) -> list[list[int]]:
    """Return groups of indices of recipes that can share passes, in order."""
    sharing: list[list[int]] = []
    for index, recipe in enumerate(recipes):
        for group in sharing:
            if can_share(recipes[group[0]], recipe):
                group.append(index)
                break
        else:
            sharing.append([index])
    return sharing


def _shared_stages(cells: Sequence[Cell], identities: CellKeys) -> list[Prefix | None]:
    """Return for each cell the longest prefix that it shares with another one."""
    keys_of_cells = []
    sharing: dict[Key, list[Cell]] = {}
    for cell in cells:
        keys = _keys_of_stages(cell.recipe, identities)
        keys_of_cells.append(keys)
        for key in keys:
            sharing.setdefault(key, []).append(cell)

    prefixes: dict[Key, Prefix] = {}
    longest = []
    for keys in keys_of_cells:
        above = None
        for count, key in enumerate(keys, start=1):
            sharing_more = 1
            if count < len(keys):
                sharing_more = len(sharing[keys[count]])
            # A prefix is useless if all cells that share it also share the next stage.
            if len(sharing[key]) > sharing_more:
                if key not in prefixes:
                    prefixes[key] = Prefix(key, sharing[key][0].recipe, count, above)
                above = prefixes[key]
        longest.append(above)
    return longest


def _keys_of_stages(recipe: Recipe, identities: CellKeys) -> list[Key]:
    """Return the keys of a recipe's first stage, of its first two stages, and so on."""
    if recipe.table(Search) is not None:
        # A search takes place before the first stage.
        return []
    texts = _texts(recipe)
    keys = []
    for count in range(1, len(recipe.stage) + 1):
        stages = _as_trained(first_stages(recipe, count))
        keys.append(identities.of(stages, *texts))
    return keys


def _texts(recipe: Recipe) -> list[Any]:
    """Return the sources of texts that a recipe's encoders are built on; empty if they need no texts."""
    if is_from_files(recipe):
        return []
    data = [[stage.data, recipe.towers(stage)] for stage in recipe.stage]
    if reads_texts_of_evaluations(recipe):
        return [data, list(recipe.evaluate)]
    return [data, []]


def _as_trained(recipe: Recipe) -> Recipe:
    """Return a recipe of stages without what no training reads: heads' `dimensions`, and prompts.

    All stay if an encoder is evaluated before, during or between the stages. Otherwise prompts of tasks are
    read after them, as are the dimensions of an encoder that is not frozen; frozen ones are encoded. Prompts
    of an encoder that no stage uses are read later, too, unless tokenizers are trained on texts.
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
        if name not in frozen:
            head = attrs.evolve(encoder.head, dimensions=None)
            encoder = attrs.evolve(encoder, head=head)  # noqa: PLW2901
        if name not in frozen | used and is_from_files(recipe):
            encoder = attrs.evolve(encoder, prompt=None)  # noqa: PLW2901
        encoder = attrs.evolve(encoder, task_prompts=None)  # noqa: PLW2901
        encoders[name] = encoder
    return attrs.evolve(recipe, encoders=encoders)


def chain(prefix: Prefix | None) -> Iterator[Prefix]:
    """Yield a prefix and all prefixes it continues from."""
    while prefix is not None:
        yield prefix
        prefix = prefix.above
