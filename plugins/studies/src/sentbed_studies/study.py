"""`Study`: a recipe with `[study]`, expanded to its cells. All cells are checked before any cell is run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TypeAlias

import attrs
from sentbed.errors import Problem, RecipeError, suggest
from sentbed.protocols import Recipe
from sentbed.tools import (
    Document,
    Plugins,
    check,
    load_plugins,
    read_document,
    structure,
    structure_recipe,
)
from sentbed_report.study.published_number_config import Reference

from sentbed_studies.axes import (
    Axis,
    Combination,
    Entry,
    baseline_of,
    combinations,
    matches_any,
    read_axes,
    unknown_labels,
)
from sentbed_studies.cell_documents import cell_document
from sentbed_studies.override_axis_conflicts import refused_overrides
from sentbed_studies.study_config import LARGEST_SEED, StudyTable
from sentbed_studies.study_prompts import StudyPrompt, read_prompts

Entries: TypeAlias = Sequence[Entry]
"""Selection of the cells that match one of the entries."""


Identity: TypeAlias = tuple[str, str, int]
"""Name, prompt and seed of a cell, which together are unique within a study."""


@attrs.frozen
class Cell:
    """One run of a study: a combination of labels with a seed and, in a study with `prompts`, a prompt."""

    name: str
    """Labels of the cell, joined; see `Combination.name`. Runs with other seeds and prompts have the same
    name."""
    labels: Mapping[str, str]
    """Axis -> label."""
    seed: int
    recipe: Recipe = attrs.field(eq=False, repr=False)
    prompt: str = ""
    """Label of the prompt; empty in a study without `prompts`."""

    @property
    def identity(self) -> Identity:
        """Name, prompt and seed."""
        return self.name, self.prompt, self.seed

    def __str__(self) -> str:
        name = self.name
        if self.prompt:
            name += f", prompt {self.prompt}"
        return f"{name}, seed {self.seed}"


@attrs.frozen
class Excluded:
    """Combination of labels whose parts do not fit together."""

    name: str
    reasons: tuple[str, ...]
    labels: Mapping[str, str]
    """Axis -> label."""


@attrs.frozen(eq=False)
class Study:
    """A recipe with `[study]`, expanded to its cells and checked."""

    name: str
    table: StudyTable
    axes: tuple[Axis, ...]
    cells: tuple[Cell, ...]
    """Cells in the order of the axes' labels, then of prompts, then of seeds."""
    excluded: tuple[Excluded, ...]
    baseline: str | None
    """Name of the cell with which the others are compared; None if the study has no baseline."""
    document: Document
    """Parsed file, with extended recipes and overrides applied."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the cells, without repetition."""
        return tuple(dict.fromkeys(cell.name for cell in self.cells))

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the cells, without repetition."""
        return tuple(dict.fromkeys(cell.seed for cell in self.cells))

    @property
    def prompts(self) -> tuple[str, ...]:
        """Labels of the prompts, without repetition; empty in a study without `prompts`."""
        return tuple(dict.fromkeys(cell.prompt for cell in self.cells if cell.prompt))

    def only(self, entries: Entries) -> Study:
        """Return the study with only the cells, excluded ones too, that match one of `entries`.

        Entries have the form of `StudyTable.exclude`.

        Raises:
            RecipeError: if an entry names an unknown axis or label, or if no cell matches.
        """
        require_labels(entries, self.axes)
        cells = tuple(cell for cell in self.cells if matches_any(cell.labels, entries))
        if not cells:
            message = "no cell of the study is among those asked for; ask for others"
            raise RecipeError([Problem(message)])
        excluded = tuple(
            cell for cell in self.excluded if matches_any(cell.labels, entries)
        )
        return attrs.evolve(self, cells=cells, excluded=excluded)


def read_study(
    path: str | Path,
    overrides: Sequence[str] = (),
    plugins: Plugins | None = None,
    check_files: bool = True,
    only: Entries | None = None,
) -> Study:
    """Read a recipe with `[study]`, and structure and check all its cells.

    A cell whose components are valid but do not fit together is `excluded`, with the reasons.

    Args:
        path: File of the recipe.
        overrides: As in `load_recipe`. An override is applied to every cell that has its path. It is an error
            if the axes set its value.
        plugins: By default the installed ones.
        check_files: Whether to check that files and models exist, as in `load_recipe`.
        only: Cells that are to be run now, as in `Study.only`; by default all. Files of the other cells are not
            checked.

    Raises:
        RecipeError: with all problems; a problem that several cells have is listed once.
    """
    plugins = plugins or load_plugins()
    document = read_document(path, overrides)
    base = Path(path).resolve().parent
    return expand(document, plugins, base, check_files, only)


def expand(
    document: Document,
    plugins: Plugins,
    base: Path,
    check_files: bool = True,
    only: Entries | None = None,
) -> Study:
    """Return the study of a document, with file paths relative to `base`.

    `read_study` describes the other arguments.

    Raises:
        RecipeError: with all problems.
    """
    table = read_table(document, plugins, base)
    axes = read_axes(table, document)
    every = combinations(table, axes, document)
    prompts = read_prompts(table, axes, document)

    if only is not None:
        require_labels(only, axes)
    _require_none(refused_overrides(document, axes, prompts))

    reader = _CellReader(document, table, prompts, plugins, base)
    checked = _check_combinations(reader, every, only, check_files)
    _require_none(_with_cell_named(checked.faults, len(every)))

    labels_of_baseline = baseline_of(table, axes)
    baseline = None
    if labels_of_baseline is not None:
        baseline = ", ".join(labels_of_baseline.values())

    study = Study(
        name=str(document.data.get("run", {}).get("name", "study")),
        table=table,
        axes=axes,
        cells=tuple(checked.cells),
        excluded=tuple(checked.excluded),
        baseline=baseline,
        document=document,
    )

    # The order matters: a problem may be the cause of later ones.
    _require_none(_unknown_cells(study))
    _require_none(_no_cells(study))
    _require_none(_nothing_decides(study))
    _require_none(_no_fresh_seeds(study))
    return study


@attrs.frozen(eq=False)
class _CheckedCombinations:
    """Result of the check of all combinations of a study."""

    cells: list[Cell] = attrs.field(factory=list)
    excluded: list[Excluded] = attrs.field(factory=list)
    faults: dict[Problem, list[str]] = attrs.field(factory=dict)
    """Problem because of which the study cannot be run -> names of the cells that have it."""


def _check_combinations(
    reader: _CellReader,
    every: Sequence[Combination],
    only: Entries | None,
    check_files: bool,
) -> _CheckedCombinations:
    """Check every combination; `expand` describes the arguments."""
    checked = _CheckedCombinations()
    for combination in every:
        name, labels = combination.name, combination.labels
        is_run_now = only is None or matches_any(labels, only)
        recipes, problems = reader.recipes(combination, check_files and is_run_now)
        if recipes:
            seeds = reader.table.seeds
            checked.cells.extend(_cells_of_seeds(combination, recipes, seeds))
        elif all(problem.level == "misfit" for problem in problems):
            reasons = tuple(problem.message for problem in problems)
            checked.excluded.append(Excluded(name, reasons, labels))
        else:
            for problem in problems:
                # A misfit is no fault: it only excludes a cell.
                if problem.level != "misfit":
                    checked.faults.setdefault(problem, []).append(name)
    return checked


def _cells_of_seeds(
    combination: Combination,
    recipes: Mapping[str, Recipe],
    seeds: Sequence[int],
) -> Iterator[Cell]:
    """Yield a cell for each prompt and seed. If `seeds` is empty, the seed is that of the recipe.

    `recipes` maps the label of each prompt to the recipe with this prompt.
    """
    for prompt, recipe in recipes.items():
        for seed in seeds or (recipe.run.seed,):
            run = attrs.evolve(recipe.run, seed=seed)
            seeded = attrs.evolve(recipe, run=run)
            yield Cell(combination.name, combination.labels, seed, seeded, prompt)


def _with_cell_named(
    faults: Mapping[Problem, Sequence[str]], count: int
) -> Iterator[Problem]:
    """Yield each problem. If not all `count` cells have it, it gets the name of a cell that has it."""
    for problem, names in faults.items():
        if len(set(names)) == count:
            yield problem
            continue
        path = f"{problem.path} of the cell `{names[0]}`".lstrip()
        yield attrs.evolve(problem, path=path)


def _require_none(problems: Iterable[Problem]) -> None:
    """Raise `RecipeError` with all the problems, if there are any."""
    listed = list(problems)
    if listed:
        raise RecipeError(listed)


def require_labels(entries: Entries, axes: Sequence[Axis]) -> None:
    """Raise `RecipeError` if an entry of `--only` names an unknown axis or label."""
    problems: list[Problem] = []
    for entry in entries:
        for problem in unknown_labels(entry, axes, Document.of({}), ("--only",)):
            path = problem.path.replace("--only.", "--only ", 1)
            problems.append(attrs.evolve(problem, path=path))
    _require_none(problems)


def require_runtimes(study: Study) -> None:
    """Raise `RecipeError` if the runtime of a cell is not available on this machine."""
    problems: dict[str, Problem] = {}
    for cell in study.cells:
        reason = cell.recipe.runtime.unavailable()
        if reason:
            document = cell.recipe.document
            message = f"{reason} (cell `{cell.name}`)"
            problems.setdefault(reason, document.problem(message, ("runtime",)))
    _require_none(problems.values())


def read_table(
    document: Document,
    plugins: Plugins,
    base: Path,
) -> StudyTable:
    """Return `[study]` of a document. Raises `RecipeError` if it is missing or invalid."""
    if "study" not in document.data:
        message = "the recipe has no `[study]`; give it axes, or use `sentbed run`"
        raise RecipeError([document.problem(message, ("study",))])

    return structure(document, StudyTable, plugins, base, at=("study",))


def find_cell(
    document: Document,
    plugins: Plugins,
    base: Path,
    name: str,
) -> Document:
    """Return the document of the cell `name`.

    Raises:
        RecipeError: if there is no such cell, or if an override conflicts with an axis.
    """
    table = read_table(document, plugins, base)
    axes = read_axes(table, document)
    every = combinations(table, axes, document)
    by_name = {combination.name: combination for combination in every}
    if name not in by_name:
        message = unknown_cell(name, list(by_name))
        raise RecipeError([document.problem(message, ("study",))])

    prompts = read_prompts(table, axes, document)
    _require_none(refused_overrides(document, axes, prompts))

    combination = by_name[name]
    cell, problems = cell_document(document, combination)
    _require_none(problems)
    return cell


@attrs.frozen(eq=False)
class _CellReader:
    """Structures and checks the recipes of the cells of a study."""

    document: Document
    table: StudyTable
    prompts: Sequence[StudyPrompt]
    plugins: Plugins
    base: Path

    def recipes(
        self, combination: Combination, check_files: bool
    ) -> tuple[dict[str, Recipe], list[Problem]]:
        """Return the recipe of a combination with each prompt of the study: label of the prompt -> recipe.

        In a study without prompts, the label is empty. If the combination has a problem with any prompt, return
        no recipes but the problems, since cells are compared under all prompts.
        """
        if not self.prompts:
            recipe, problems = self._recipe(combination, check_files)
            return {} if recipe is None else {"": recipe}, problems

        recipes = {}
        labels_of_problem: dict[Problem, list[str]] = {}
        for prompt in self.prompts:
            recipe, problems = self._recipe(prompt.applied_to(combination), check_files)
            if recipe is not None:
                recipes[prompt.label] = recipe
            for problem in problems:
                labels_of_problem.setdefault(problem, []).append(prompt.label)

        faults = []
        for problem, labels in labels_of_problem.items():
            message = problem.message
            if len(labels) < len(self.prompts):
                message = f"with the prompt `{labels[0]}`: {message}"
            faults.append(attrs.evolve(problem, message=message))
        if faults:
            return {}, faults
        return recipes, []

    def _recipe(
        self, combination: Combination, check_files: bool
    ) -> tuple[Recipe | None, list[Problem]]:
        """Return the recipe of a combination and no problems, or None and the problems."""
        cell, problems = cell_document(self.document, combination)
        try:
            recipe = structure_recipe(cell, self.plugins, self.base)
            check(recipe, self.plugins, check_files)
        except RecipeError as error:
            problems += error.problems
        if problems:
            return None, problems

        if recipe.runtime.processes > 1:
            message = (
                "a cell of a study runs in one process; set `devices` and `nodes` to 1, or use `sentbed run` "
                "with a recipe of its own"
            )
            return None, [cell.problem(message, ("runtime",))]
        runtime = recipe.runtime.with_threads(self.table.threads)
        return attrs.evolve(recipe, runtime=runtime), []


def _no_cells(study: Study) -> Iterator[Problem]:
    """Yield a problem if no cell of the study can work."""
    if not study.names:
        reasons = [f"{cell.name}: {' '.join(cell.reasons)}" for cell in study.excluded]
        message = f"no cell of the study can work: {'; '.join(reasons)}"
        yield study.document.problem(message, ("study", "axes"))


def _nothing_decides(study: Study) -> Iterator[Problem]:
    """Yield a problem if no cell runs an evaluator that `[study.decide]` lets decide."""
    decide = study.table.decide
    if decide is None:
        return

    names: dict[str, None] = {}
    for cell in study.cells:
        for entry in cell.recipe.evaluate:
            if "end" in entry.at:
                names[entry.evaluator.name] = None
    if not names:
        message = "no cell is evaluated after its last stage; add an `[[evaluate]]`"
        yield study.document.problem(message, ("study", "decide"))
    elif decide.evaluator and decide.evaluator not in names:
        hint = suggest(decide.evaluator, list(names))
        message = f"no cell is evaluated by `{decide.evaluator}`.{hint}"
        yield study.document.problem(message, ("study", "decide", "evaluator"))


def _no_fresh_seeds(study: Study) -> Iterator[Problem]:
    """Yield a problem if the study asks for more fresh seeds than there are above its largest seed."""
    decide = study.table.decide
    if decide is None:
        return
    largest = max(study.seeds)
    if decide.confirm > LARGEST_SEED - largest:
        message = (
            f"fresh seeds are above the largest seed, which is {largest}, and seeds are at most {LARGEST_SEED}; "
            "take smaller `seeds`"
        )
        yield study.document.problem(message, ("study", "decide", "confirm"))


def require_cells_of_labels(study: Study) -> None:
    """Raise `RecipeError` if all cells with a label are excluded: the study would say nothing about the label."""
    problems = []
    for axis in study.axes:
        working = {cell.labels[axis.name] for cell in study.cells}
        failing: dict[str, Excluded] = {}
        for cell in study.excluded:
            failing.setdefault(cell.labels[axis.name], cell)
        for label in axis.labels:
            if label not in failing or label in working:
                continue
            message = (
                f"no cell with the label `{label}` of the axis `{axis.name}` can work: "
                f"{' '.join(failing[label].reasons)}; or take the label out"
            )
            place = ("study", "axes", axis.name)
            problems.append(study.document.problem(message, place))
    _require_none(problems)


def _unknown_cells(study: Study) -> Iterator[Problem]:
    """Yield a problem for each name in `[study]` that no cell has, and for a missing or excluded baseline.

    Also yield the problems of references.
    """
    problem = study.document.problem
    baseline, names = study.baseline, study.names
    reasons = {cell.name: " ".join(cell.reasons) for cell in study.excluded}
    if baseline in reasons:
        message = f"the baseline `{baseline}` cannot work: {reasons[baseline]}"
        yield problem(message, ("study", "baseline"))
    elif baseline is not None and names and baseline not in names:
        message = f"the baseline `{baseline}` is not a cell of the study; name one, such as `{names[0]}`"
        yield problem(message, ("study", "baseline"))

    cells = [*names, *reasons]
    for title, published in study.table.expected.items():
        for name in published.cells:
            if name not in cells:
                place = ("study", "expected", title, "cells", name)
                yield problem(unknown_cell(name, cells), place)

    for system, reference in study.table.references.items():
        place_of_reference = ("study", "references", system)
        for message in _faults_of_reference(reference):
            yield problem(message, place_of_reference)
        if reference.cell and reference.cell not in cells:
            message = unknown_cell(reference.cell, cells)
            yield problem(message, (*place_of_reference, "cell"))


def _faults_of_reference(reference: Reference) -> Iterator[str]:
    """Yield a message if a reference has both a cell and published scores, or none of them."""
    if reference.cell and reference.scores:
        yield "the reference has `cell` and `scores`; give it one of them"
    elif not reference.cell and not reference.scores:
        yield (
            "the reference has no numbers; give it the `cell` that computes it, or published `scores`"
        )


def unknown_cell(name: str, names: Sequence[str]) -> str:
    """Return the message for an unknown cell; `names` are the names of the study's cells."""
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    example = close[0] if close else names[0]
    return (
        f"there is no cell `{name}`; a cell is named by its labels in the order of the axes, "
        f"such as `{example}`"
    )
