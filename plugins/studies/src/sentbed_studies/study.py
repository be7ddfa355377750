"""`Study`: a recipe with `[study]`, expanded to its cells. All cells are checked before any cell is run."""

from __future__ import annotations

import importlib.util
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
    Cell,
    Entry,
    baseline_of,
    cell_document,
    combinations,
    matches_any,
    read_axes,
    unknown_labels,
)
from sentbed_studies.override_axis_conflicts import refused_overrides
from sentbed_studies.study_config import StudyTable
from sentbed_studies.study_prompts import read_prompts

Entries: TypeAlias = Sequence[Entry]
"""Selection of the cells that match one of the entries."""


@attrs.frozen
class Run:
    """Run of a cell with a seed and, in a study with `prompts`, a prompt."""

    cell: Cell
    seed: int
    recipe: Recipe = attrs.field(eq=False, repr=False)
    prompt: str = ""
    """Label of the prompt; empty in a study without `prompts`."""

    key: str = attrs.field(default="", eq=False)
    """Hash of everything that determines the weights; empty until `plan_work` computes it."""
    evaluations: tuple[str, ...] = attrs.field(default=(), eq=False)
    """Keys of the evaluations, in the order in which they are run; empty until `plan_work` computes them."""

    @property
    def name(self) -> str:
        """Name of the cell."""
        return self.cell.name

    @property
    def labels(self) -> Mapping[str, str]:
        """Axis -> label of the cell."""
        return self.cell.labels

    def __str__(self) -> str:
        name = self.name
        if self.prompt:
            name += f", prompt {self.prompt}"
        return f"{name}, seed {self.seed}"


@attrs.frozen
class Excluded:
    """Cell whose parts do not fit together."""

    cell: Cell
    reasons: tuple[str, ...]


@attrs.frozen(eq=False)
class Study:
    """A recipe with `[study]`, expanded to its cells and checked."""

    name: str
    table: StudyTable
    axes: tuple[Axis, ...]
    runs: tuple[Run, ...]
    """All runs in the order of the axes' labels, then of prompts, then of seeds."""
    excluded: tuple[Excluded, ...]
    baseline: str | None
    """Name of the cell with which the others are compared; None if the study has no baseline."""
    document: Document
    """Parsed file, with extended recipes and overrides applied."""

    @property
    def default_directory(self) -> Path:
        """Directory of the study unless another is named, relative to the current directory."""
        return Path("studies") / self.name

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the cells, without repetition."""
        return tuple(dict.fromkeys(run.name for run in self.runs))

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the runs, without repetition."""
        return tuple(dict.fromkeys(run.seed for run in self.runs))

    @property
    def prompts(self) -> tuple[str, ...]:
        """Labels of the prompts, without repetition; empty in a study without `prompts`."""
        return tuple(dict.fromkeys(run.prompt for run in self.runs if run.prompt))

    @property
    def reasons(self) -> dict[str, str]:
        """Name of each excluded cell -> why it cannot work."""
        reasons = {}
        for excluded in self.excluded:
            reasons[excluded.cell.name] = " ".join(excluded.reasons)
        return reasons

    def only(self, entries: Entries) -> Study:
        """Return the study with only the cells, excluded ones too, that match one of `entries`.

        Entries have the form of `StudyTable.exclude`.

        Raises:
            RecipeError: if an entry names an unknown axis or label, if no cell matches, or if Optuna chooses the
                cells (`StudyTable.trials`).
        """
        require_labels(entries, self.axes)
        if self.table.trials is not None:
            message = (
                "`--only` chooses cells, and so does `trials`; take one of them out"
            )
            raise RecipeError([Problem(message)])
        runs = tuple(run for run in self.runs if matches_any(run.labels, entries))
        if not runs:
            message = "no cell of the study is among those asked for; ask for others"
            raise RecipeError([Problem(message)])

        excluded = []
        for each in self.excluded:
            if matches_any(each.cell.labels, entries):
                excluded.append(each)
        return attrs.evolve(self, runs=runs, excluded=tuple(excluded))


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
    cells = combinations(table, axes, document)
    prompts = read_prompts(table, axes, document)

    if only is not None:
        require_labels(only, axes)
    _require_none(refused_overrides(document, [*axes, prompts]))

    runs: list[Run] = []
    excluded = []
    names_of_faults: dict[Problem, list[str]] = {}
    reader = _CellReader(document, table, axes, prompts, plugins, base)
    for cell in cells:
        is_run_now = only is None or matches_any(cell.labels, only)
        runs_of_cell, problems = reader.runs(cell, check_files and is_run_now)
        faults = [problem for problem in problems if problem.level != "misfit"]
        for fault in faults:
            names_of_faults.setdefault(fault, []).append(cell.name)
        # A misfit is no fault: it only excludes a cell.
        if problems and not faults:
            reasons = tuple(problem.message for problem in problems)
            excluded.append(Excluded(cell, reasons))
        runs += runs_of_cell
    _require_none(_with_cell_named(names_of_faults, len(cells)))

    labels_of_baseline = baseline_of(table, axes)
    baseline = None
    if labels_of_baseline is not None:
        baseline = Cell(labels_of_baseline).name

    study = Study(
        name=str(document.data.get("run", {}).get("name", "study")),
        table=table,
        axes=axes,
        runs=tuple(runs),
        excluded=tuple(excluded),
        baseline=baseline,
        document=document,
    )

    # The order matters: a problem may be the cause of later ones.
    _require_none(_unknown_cells(study))
    _require_none(_no_cells(study))
    _require_none(_nothing_decides(study))
    _require_none(_no_search(study))
    return study


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
    for run in study.runs:
        reason = run.recipe.runtime.unavailable()
        if reason:
            document = run.recipe.document
            message = f"{reason} (cell `{run.name}`)"
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
    cells = {cell.name: cell for cell in combinations(table, axes, document)}
    if name not in cells:
        message = unknown_cell(name, list(cells))
        raise RecipeError([document.problem(message, ("study",))])

    prompts = read_prompts(table, axes, document)
    _require_none(refused_overrides(document, [*axes, prompts]))

    labels = zip(axes, cells[name].labels.values(), strict=True)
    document_of_cell, problems = cell_document(document, labels)
    _require_none(problems)
    return document_of_cell


@attrs.frozen(eq=False)
class _CellReader:
    """Structures and checks the recipes of the cells of a study."""

    document: Document
    table: StudyTable
    axes: Sequence[Axis]
    prompts: Axis
    plugins: Plugins
    base: Path

    def runs(self, cell: Cell, check_files: bool) -> tuple[list[Run], list[Problem]]:
        """Return the runs of a cell with each prompt and seed, by default the seed of the recipe.

        If the cell has a problem with any prompt, return no runs but the problems, since cells are compared under
        all prompts.
        """
        runs = []
        labels_of_problem: dict[Problem, list[str]] = {}
        for prompt in self.prompts.labels:
            recipe, problems = self._recipe(cell, prompt, check_files)
            for problem in problems:
                labels_of_problem.setdefault(problem, []).append(prompt)
            if recipe is None:
                continue
            for seed in self.table.seeds or (recipe.run.seed,):
                run = attrs.evolve(recipe.run, seed=seed)
                seeded = attrs.evolve(recipe, run=run)
                runs.append(Run(cell, seed, seeded, prompt))

        faults = []
        for problem, labels in labels_of_problem.items():
            message = problem.message
            if len(labels) < len(self.prompts.labels):
                message = f"with the prompt `{labels[0]}`: {message}"
            faults.append(attrs.evolve(problem, message=message))
        if faults:
            return [], faults
        return runs, []

    def _recipe(
        self, cell: Cell, prompt: str, check_files: bool
    ) -> tuple[Recipe | None, list[Problem]]:
        """Return the recipe of a cell with a prompt and no problems, or None and the problems."""
        labels = [*zip(self.axes, cell.labels.values(), strict=True)]
        labels.append((self.prompts, prompt))
        document, problems = cell_document(self.document, labels)
        try:
            recipe = structure_recipe(document, self.plugins, self.base)
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
            return None, [document.problem(message, ("runtime",))]
        runtime = recipe.runtime.with_threads(self.table.threads)
        return attrs.evolve(recipe, runtime=runtime), []


def _no_cells(study: Study) -> Iterator[Problem]:
    """Yield a problem if no cell of the study can work."""
    if not study.names:
        reasons = [f"{name}: {reason}" for name, reason in study.reasons.items()]
        message = f"no cell of the study can work: {'; '.join(reasons)}"
        yield study.document.problem(message, ("study", "axes"))


def _nothing_decides(study: Study) -> Iterator[Problem]:
    """Yield a problem if no cell runs an evaluator that `[study.decide]` lets decide."""
    decide = study.table.decide
    if decide is None:
        return

    names: dict[str, None] = {}
    for run in study.runs:
        for entry in run.recipe.evaluate:
            if "end" in entry.at:
                names[entry.evaluator.name] = None
    if not names:
        message = "no cell is evaluated after its last stage; add an `[[evaluate]]`"
        yield study.document.problem(message, ("study", "decide"))
    elif decide.evaluator and decide.evaluator not in names:
        hint = suggest(decide.evaluator, list(names))
        message = f"no cell is evaluated by `{decide.evaluator}`.{hint}"
        yield study.document.problem(message, ("study", "decide", "evaluator"))


def _no_search(study: Study) -> Iterator[Problem]:
    """Yield a problem if `trials` cannot be used: by the recipe, or since Optuna is not installed."""
    if study.table.trials is None:
        return
    reason = ""
    if study.table.sample is not None:
        reason = "`sample` chooses the cells, too; take one of them out"
    elif study.table.decide is None:
        reason = "a search is led by a score; add `decide = {}` or name its tasks"
    elif importlib.util.find_spec("optuna") is None:
        reason = "Optuna is not installed; install `sentbed-studies[search]`"
    if reason:
        yield study.document.problem(reason, ("study", "trials"))


def require_cells_of_labels(study: Study) -> None:
    """Raise `RecipeError` if all cells with a label are excluded: the study would say nothing about the label."""
    problems = []
    for axis in study.axes:
        working = {run.labels[axis.name] for run in study.runs}
        reasons: dict[str, str] = {}
        for excluded in study.excluded:
            label = excluded.cell.labels[axis.name]
            reasons.setdefault(label, " ".join(excluded.reasons))
        for label in axis.labels:
            if label not in reasons or label in working:
                continue
            message = (
                f"no cell with the label `{label}` of the axis `{axis.name}` can work: {reasons[label]}; or take "
                "the label out"
            )
            place = ("study", "axes", axis.name)
            problems.append(study.document.problem(message, place))
    _require_none(problems)


def _unknown_cells(study: Study) -> Iterator[Problem]:
    """Yield a problem for each name in `[study]` that no cell has, and for a missing or excluded baseline.

    Also yield the problems of references.
    """
    problem = study.document.problem
    baseline, names, reasons = study.baseline, study.names, study.reasons
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
