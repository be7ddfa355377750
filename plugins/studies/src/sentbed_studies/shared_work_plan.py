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
    cells: tuple[str, ...]
    """Cells that share it, with their seeds."""

    @property
    def directory(self) -> Path:
        """Its run directory within that of the study."""
        return Path("shared") / f"{self.recipe.stage[self.count - 1].name}-{short(self.key)}"

    @property
    def depth(self) -> int:
        """Number of prefixes that it continues from."""
        return 0 if self.above is None else 1 + self.above.depth

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
        return directory_of(self.cell.name, self.cell.seed, self.key)

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

    def of(self, cells: Sequence[Cell]) -> Work:
        """Return the work for these cells alone."""
        wanted = [tuple(task for task in bundle if task.cell in cells) for bundle in self.bundles]
        bundles = tuple(bundle for bundle in wanted if bundle)
        needed = {prefix.key for bundle in bundles for task in bundle for prefix in chain(task.above)}
        return Work(tuple(prefix for prefix in self.prefixes if prefix.key in needed), bundles)

    def without(self, tasks: Collection[Task]) -> Work:
        """Return the work without these runs."""
        return self.of([task.cell for task in self.tasks if task not in tasks]) if tasks else self

    def is_done(self, study: Path) -> bool:
        """Whether every run in the directory of a study has finished, with all evaluations."""
        return all(task.is_done(study) for task in self.tasks)

    def sharing(self, prefix: Prefix) -> int:
        """Return the number of runs that begin with a prefix."""
        return sum(prefix in chain(task.above) for task in self.tasks)


def plan_work(cells: Sequence[Cell], identities: CellKeys, share: bool = True) -> Work:
    """Return the work for `cells`; without `share`, every cell runs alone."""
    prefixes = _prefixes(cells, identities) if share else {}
    tasks = []
    for number, cell in enumerate(cells):
        content = identities.training(cell.recipe)
        evaluations = identities.evaluations(cell.recipe, key_of(content))
        tasks.append(Task(cell, content, evaluations, prefixes.get(number)))
    if not share:
        return Work((), tuple((task,) for task in tasks))
    bundles = tuple(tuple(tasks[i] for i in group) for group in groups([cell.recipe for cell in cells]))
    distinct = {prefix.key: prefix for last in prefixes.values() for prefix in chain(last)}
    return Work(tuple(sorted(distinct.values(), key=lambda prefix: prefix.depth)), bundles)


def _texts(recipe: Recipe) -> list[Any]:
    """Return the sources of texts that a recipe's encoders are built on; empty if they need no texts."""
    if all(encoder.backbone.traits.from_files for encoder in recipe.encoders.values()):
        return []
    towers = [recipe.towers(stage) for stage in recipe.stage]
    read = [[stage.data, found] for stage, found in zip(recipe.stage, towers, strict=True)]
    return [read, list(recipe.evaluate) if reads_texts_of_evaluations(recipe) else []]


def groups(recipes: Sequence[Recipe]) -> list[list[int]]:
    """Return groups of indices of recipes that can share passes, in order."""
    found: list[list[int]] = []
    for index, recipe in enumerate(recipes):
        for group in found:
            if can_share(recipes[group[0]], recipe):
                group.append(index)
                break
        else:
            found.append([index])
    return found


def _prefixes(cells: Sequence[Cell], identities: CellKeys) -> dict[int, Prefix]:
    """Return cell index -> longest prefix that the cell shares with another one."""
    members: dict[Key, list[int]] = {}
    firsts: dict[Key, tuple[Recipe, int]] = {}
    chains: list[list[Key]] = []
    for number, cell in enumerate(cells):
        keys = []
        # A search takes place before the first stage.
        stages = 0 if cell.recipe.table(Search) is not None else len(cell.recipe.stage)
        for count in range(1, stages + 1):
            key = identities.of(_as_trained(first_stages(cell.recipe, count)), *_texts(cell.recipe))
            keys.append(key)
            firsts.setdefault(key, (cell.recipe, count))
            members.setdefault(key, []).append(number)
        chains.append(keys)
    made: dict[Key, Prefix] = {}
    found = {}
    for number, keys in enumerate(chains):
        above = None
        ahead: list[Key | None] = [*keys[1:], None]
        for key, after in zip(keys, ahead, strict=False):
            # A prefix is useless if all cells that share it also share the next stage.
            if len(members[key]) < 2 or (after is not None and len(members[after]) == len(members[key])):
                continue
            if key not in made:
                names = tuple(str(cells[i]) for i in members[key])
                made[key] = Prefix(key, *firsts[key], above, names)
            above = made[key]
        if above is not None:
            found[number] = above
    return found


def _as_trained(recipe: Recipe) -> Recipe:
    """Return a recipe of stages without the heads' `dimensions`, which only encoding reads.

    Frozen encoders keep theirs: they are encoded. So do all if one is evaluated before, during or between the
    stages.
    """
    if recipe.evaluate or any(stage.validate is not None or stage.watch for stage in recipe.stage):
        return recipe
    frozen = {name for stage in recipe.stage for name in stage.freeze}
    encoders = {
        name: encoder
        if name in frozen
        else attrs.evolve(encoder, head=attrs.evolve(encoder.head, dimensions=None))
        for name, encoder in recipe.encoders.items()
    }
    return attrs.evolve(recipe, encoders=encoders)


def chain(prefix: Prefix | None) -> Iterator[Prefix]:
    """Yield a prefix and all prefixes it continues from."""
    while prefix is not None:
        yield prefix
        prefix = prefix.above
