"""`Study`: a recipe with `[study]`, expanded to the recipes of its cells and checked before the first runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TypeAlias

import attrs
from sentbed.errors import Problem, RecipeError
from sentbed.protocols import Evaluator, Variant
from sentbed.tools import (
    Document,
    KeyPath,
    Plugins,
    Recipe,
    check,
    load_plugins,
    read_document,
    set_values,
    structure,
    structure_recipe,
)
from sentbed_report.formatting import count
from sentbed_report.study.published_number_config import Reference
from sentbed_report.study.published_scores import PublishedSystem

from sentbed_studies.axes import (
    Axis,
    Combination,
    Entry,
    as_tuple,
    baseline_of,
    combinations,
    label_of,
    matches_any,
    read_axes,
    unknown_labels,
)
from sentbed_studies.deciding_data import cannot_decide
from sentbed_studies.override_axis_conflicts import refused_overrides, with_overrides
from sentbed_studies.published_results import read_published
from sentbed_studies.study_config import StudyTable
from sentbed_studies.study_prompts import StudyPrompt, read_prompts

Entries: TypeAlias = Sequence[Entry]
"""Selection of cells: those that match one of the entries."""


@attrs.frozen
class Cell:
    """One run of a study: a combination of labels, a seed and, in a study with `prompts`, a prompt."""

    name: str
    """Its labels, joined; see `Combination.name`."""
    labels: Mapping[str, str]
    """Axis -> label."""
    seed: int
    recipe: Recipe = attrs.field(eq=False, repr=False)
    prompt: str = ""
    """Label of its prompt; empty without `[study] prompts`."""

    @property
    def identity(self) -> tuple[str, str, int]:
        """Name, prompt and seed, which together are unique within a study."""
        return self.name, self.prompt, self.seed

    def __str__(self) -> str:
        prompt = f", prompt {self.prompt}" if self.prompt else ""
        return f"{self.name}{prompt}, seed {self.seed}"


@attrs.frozen
class Excluded:
    """Combination of labels whose parts do not fit together."""

    name: str
    reasons: tuple[str, ...]
    labels: Mapping[str, str]
    """Axis -> label."""


@attrs.frozen
class Remark:
    """Problem of cells that are not to be run now, such as a missing file."""

    message: str
    cells: tuple[str, ...]


@attrs.frozen(eq=False)
class Study:
    """Expanded and checked recipe with `[study]`."""

    name: str
    table: StudyTable
    axes: tuple[Axis, ...]
    cells: tuple[Cell, ...]
    """Cells, ordered by name, prompt and seed."""
    excluded: tuple[Excluded, ...]
    baseline: str | None
    """Name of the cell that others are compared with."""
    document: Document
    """Parsed file, with extended recipes and overrides applied."""
    remarks: tuple[Remark, ...] = ()
    """Problems of cells that are not to be run now."""
    published: tuple[PublishedSystem, ...] = ()
    """Systems whose numbers are read from the `results` of references."""

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
        """Labels of the prompts of the cells; empty without `[study] prompts`."""
        return tuple(dict.fromkeys(cell.prompt for cell in self.cells if cell.prompt))

    def only(self, entries: Entries) -> Study:
        """Return the study with only the cells that match one of `entries`; see `StudyTable.exclude`.

        Raises:
            RecipeError: if an entry names an unknown axis or label, no cell matches, or the study has a
                sampler.
        """
        if self.table.sampler is not None:
            message = "`--only` names cells, and `[study.sampler]` chooses them; take one of the two out"
            raise RecipeError([self.document.problem(message, ("study", "sampler"))])

        entries = with_labels_of_axes(entries, self.axes)
        cells = tuple(cell for cell in self.cells if matches_any(cell.labels, entries))
        if not cells:
            message = "no cell of the study is among those asked for; ask for others"
            raise RecipeError([Problem(message)])

        names = {cell.name for cell in cells}
        remarks = []
        for remark in self.remarks:
            selected = tuple(name for name in remark.cells if name in names)
            if selected:
                remarks.append(Remark(remark.message, selected))
        return attrs.evolve(self, cells=cells, remarks=tuple(remarks))


def read_study(
    path: str | Path,
    overrides: Sequence[str] = (),
    plugins: Plugins | None = None,
    look: bool = True,
    only: Entries | None = None,
    here: bool = True,
) -> Study:
    """Read a recipe with `[study]`, and structure and check all its cells.

    Args:
        path: File of the recipe.
        overrides: As in `load_recipe`. An override is applied to every cell that has its path, and is an error
            where the axes set its value.
        plugins: By default the installed ones.
        look: As in `load_recipe`: whether to check that files and models are there.
        only: Cells that are to be run, as in `Study.only`, by default all. What the other cells lack on this
            machine is a remark, not an error.
        here: Whether the cells are run on this machine, so that their runtime must be available.

    A cell whose parts are each valid but do not fit together is `excluded`, with the reasons.

    Raises:
        RecipeError: with all problems; a problem common to several cells is listed once.
    """
    plugins = plugins or load_plugins()
    document = read_document(path, overrides)
    return expand(document, plugins, Path(path).resolve().parent, look, only, here)


def expand(
    document: Document,
    plugins: Plugins,
    base: Path,
    look: bool = True,
    only: Entries | None = None,
    here: bool = True,
) -> Study:
    """Return the study of a document, with file paths relative to `base`; arguments as in `read_study`.

    Raises:
        RecipeError: with all problems.
    """
    table = read_table(document, plugins, base)
    axes = read_axes(table, document)
    every = combinations(table, axes, document)
    prompts = read_prompts(table, axes, document, base)
    entries = None if only is None else with_labels_of_axes(only, axes)
    to_run = every
    if entries:
        to_run = tuple(each for each in every if matches_any(each.labels, entries))
    _require_none(refused_overrides(document, to_run))
    reader = _CellReader(document, table, prompts, plugins, base)

    cells: list[Cell] = []
    excluded: list[Excluded] = []
    faults: dict[Problem, list[str]] = {}
    remarks: dict[str, list[str]] = {}
    for combination in every:
        name, labels = combination.name, combination.labels
        recipes, problems = reader.recipes(combination, look, here)
        is_left_out = entries is not None and not matches_any(labels, entries)
        if problems and look and is_left_out:
            # What is missing on this machine is no problem of a cell that is not run now.
            missing = problems
            recipes, problems = reader.recipes(combination, look=False, here=False)
            if recipes:
                for problem in missing:
                    remarks.setdefault(str(problem), []).append(name)

        if recipes:
            cells += _cells_of_seeds(combination, recipes, table.seeds)
        elif all(problem.misfit for problem in problems):
            reasons = tuple(problem.message for problem in problems)
            excluded.append(Excluded(name, reasons, labels))
        else:
            for problem in problems:
                # A misfit alone would only exclude the cell.
                if not problem.misfit:
                    faults.setdefault(problem, []).append(name)

    _require_none(_with_cell_named(faults, len(every)))
    of_baseline = baseline_of(table, axes)
    baseline = None if of_baseline is None else ", ".join(of_baseline.values())
    study = Study(
        name=str(document.data.get("run", {}).get("name", "study")),
        table=table,
        axes=axes,
        cells=tuple(cells),
        excluded=tuple(excluded),
        baseline=baseline,
        document=document,
        remarks=tuple(
            Remark(message, tuple(names)) for message, names in remarks.items()
        ),
    )
    # In this order, as each problem may cause the later ones.
    _require_none(_unknown_cells(study))
    if table.decides_for is not None:
        evaluators = _evaluators_at_end(cells)
        _require_none(cannot_decide(table, evaluators, document))
    _require_none(_cannot_stop(study))
    _require_none(_too_few_cells(study))
    if look:
        published = read_published(table.references, document)
        study = attrs.evolve(study, published=published)
    return study


def _cells_of_seeds(
    combination: Combination, recipes: Mapping[str, Recipe], seeds: Sequence[int]
) -> Iterator[Cell]:
    """Yield a cell for each prompt and seed; without seeds, with the seed of the recipe."""
    for prompt, recipe in recipes.items():
        for seed in dict.fromkeys(seeds) or (recipe.run.seed,):
            run = attrs.evolve(recipe.run, seed=seed)
            seeded = attrs.evolve(recipe, run=run)
            yield Cell(combination.name, combination.labels, seed, seeded, prompt)


def _with_cell_named(
    faults: Mapping[Problem, Sequence[str]], count: int
) -> Iterator[Problem]:
    """Yield each problem with the name of a cell that has it, unless all `count` cells have it."""
    for problem, names in faults.items():
        if len(set(names)) == count:
            yield problem
            continue
        path = f"{problem.path} of the cell `{names[0]}`".lstrip()
        yield attrs.evolve(problem, path=path)


def _evaluators_at_end(cells: Iterable[Cell]) -> list[Evaluator]:
    """Return the distinct evaluators that the cells run after training."""
    evaluators = {}
    for cell in cells:
        for entry in cell.recipe.evaluate:
            if "end" in entry.at:
                evaluators[repr(entry.evaluator)] = entry.evaluator
    return list(evaluators.values())


def _require_none(problems: Iterable[Problem]) -> None:
    """Raise `RecipeError` with all the problems, if there are any."""
    listed = list(problems)
    if listed:
        raise RecipeError(listed)


def with_labels_of_axes(entries: Entries, axes: Sequence[Axis]) -> Entries:
    """Return the entries with each label as the axis writes it: `0.003` becomes the label `3e-3`.

    Raises `RecipeError` if an entry names an unknown axis or label.
    """
    axis_named = {axis.name: axis for axis in axes}
    problems = []
    written = []
    for entry in entries:
        labels = {}
        for name, alternatives in entry.items():
            labels[name] = as_tuple(alternatives)
            if name in axis_named:
                axis = axis_named[name]
                labels[name] = tuple(label_of(axis, label) for label in labels[name])
        written.append(labels)
        for problem in unknown_labels(labels, axes, Document({}), ("--only",)):
            path = problem.path.replace("--only.", "--only ", 1)
            problems.append(attrs.evolve(problem, path=path))

    _require_none(problems)
    return written


def read_table(document: Document, plugins: Plugins, base: Path) -> StudyTable:
    """Return `[study]` of a document. Raises `RecipeError` if it is missing or invalid."""
    if "study" not in document.data:
        message = "the recipe has no `[study]`; give it axes, or use `sentbed run`"
        raise RecipeError([document.problem(message, ("study",))])

    content = document.data["study"]
    table, problems = structure(
        content, StudyTable, document, plugins, base, rename=((), ("study",))
    )
    _require_none(problems)
    return table


def cell_document(
    document: Document, combination: Combination
) -> tuple[Document, list[Problem]]:
    """Return the document of a cell, and a problem for each path of an axis that leads nowhere.

    In the document, a value that an axis sets has the position of the axis in the recipe.
    """
    places = {}
    for path, axis in combination.axes.items():
        label: KeyPath = ("study", "axes", axis, combination.labels[axis])
        if label not in document.places:
            label = ("study", "axes", axis, "values")
        places[path] = document.place(label)

    for path, place in combination.prompt_places.items():
        places[path] = document.place(place)

    data = {key: value for key, value in document.data.items() if key != "study"}
    cell = attrs.evolve(document, data=data)
    settings = dict(combination.settings)
    problems = []
    try:
        cell = set_values(cell, settings, "the axes' path")
    except RecipeError as error:
        for problem in error.problems:
            del settings[problem.path]
            file, line = places[problem.path]
            problems.append(attrs.evolve(problem, file=file, line=line))
        cell = set_values(cell, settings, "the axes' path")

    for path, value in settings.items():
        if value is False and path.rpartition(".")[2].isdigit():
            # `false` removes an array element: its index is now that of the next one.
            continue
        keys = cell.key_path(path)
        for end in range(1, len(keys)):
            if document.value(keys[:end]) is None:
                # A misspelt table has no position: it gets that of the path.
                cell = placed(cell, keys[:end], *places[path])
                break
        cell = placed(cell, keys, *places[path])
    return with_overrides(document, cell, combination), problems


def placed(
    document: Document, path: KeyPath, file: str | None, line: int | None
) -> Document:
    """Return the document with the position of `path`, and of all keys below it, set to a file and line."""
    places = {}
    for keys, place in document.places.items():
        if keys[: len(path)] != path:
            places[keys] = place
    if line is not None:
        places[path] = file, line
    return attrs.evolve(document, places=places)


def find_cell(document: Document, plugins: Plugins, base: Path, name: str) -> Variant:
    """Return the document of the cell `name`, and the axis that sets each value.

    Raises:
        RecipeError: if there is no such cell, or an override that the study would refuse.
    """
    table = read_table(document, plugins, base)
    every = combinations(table, read_axes(table, document), document)
    by_name = {combination.name: combination for combination in every}
    if name not in by_name:
        message = unknown_cell(name, list(by_name))
        raise RecipeError([document.problem(message, ("study",))])

    _require_none(refused_overrides(document, every))

    combination = by_name[name]
    cell, problems = cell_document(document, combination)
    _require_none(problems)
    setters = {}
    for path, axis in combination.axes.items():
        setters[cell.key_path(path)] = ("axes", axis, combination.labels[axis])
    return Variant(cell, setters)


@attrs.frozen(eq=False)
class _CellReader:
    """Structures and checks the recipes of a study's cells."""

    document: Document
    table: StudyTable
    prompts: Sequence[StudyPrompt]
    plugins: Plugins
    base: Path

    def recipes(
        self, combination: Combination, look: bool, here: bool
    ) -> tuple[dict[str, Recipe], Sequence[Problem]]:
        """Return label of a prompt -> recipe of a cell with it, or the problems; the label is empty without.

        All prompts must fit: cells are compared under all of them. See `read_study` for `look` and `here`.
        """
        if not self.prompts:
            recipe, problems = self._recipe(combination, look, here)
            return {} if recipe is None else {"": recipe}, problems

        recipes = {}
        labels: dict[Problem, list[str]] = {}
        for prompt in self.prompts:
            prompted = prompt.applied_to(combination)
            recipe, problems = self._recipe(prompted, look, here)
            if recipe is not None:
                recipes[prompt.label] = recipe
            for problem in problems:
                labels.setdefault(problem, []).append(prompt.label)

        if not labels:
            return recipes, ()

        faults = []
        for problem, labels_with_problem in labels.items():
            message = problem.message
            if len(labels_with_problem) < len(self.prompts):
                message = f"with the prompt `{labels_with_problem[0]}`: {message}"
            faults.append(attrs.evolve(problem, message=message))
        return {}, faults

    def _recipe(
        self, combination: Combination, look: bool, here: bool
    ) -> tuple[Recipe | None, Sequence[Problem]]:
        """Return the recipe of a combination, or its problems."""
        cell, problems = cell_document(self.document, combination)
        try:
            recipe = structure_recipe(cell, self.plugins, self.base, look)
            check(recipe, self.plugins, look)
        except RecipeError as error:
            problems += error.problems

        if problems:
            return None, problems

        runtime = recipe.runtime
        message = None
        if runtime.traits.processes > 1:
            message = (
                "a cell of a study runs in one process; set `devices` and `nodes` to 1, or use `sentbed run` "
                "with a recipe of its own"
            )
        elif look and here:
            message = runtime.unavailable()
        if message:
            return None, [cell.problem(message, ("runtime",))]
        return attrs.evolve(
            recipe, runtime=runtime.with_threads(self.table.threads)
        ), ()


def _cannot_stop(study: Study) -> Iterator[Problem]:
    """Yield a problem for each reason why no cell could ever be stopped early."""
    stop = study.table.stop
    if stop is None:
        return

    place = ("study", "stop")
    seeds = len(set(study.table.seeds))
    if seeds <= stop.first_look:
        message = (
            f"the study has {count(max(seeds, 1), 'seed')}, and cells are first compared after "
            f"{stop.first_look}, so that no seed could be saved; give it more `seeds`, or take `stop` out"
        )
        yield study.document.problem(message, (*place, "first_look"))
    if len(study.names) < 2:
        yield study.document.problem(
            "the study has one cell, and nothing to compare it with", place
        )
    if stop.worse_than == "baseline" and study.baseline is None:
        message = 'the study has no `baseline`; name one, or set `worse_than = "best"`'
        yield study.document.problem(message, (*place, "worse_than"))


def _too_few_cells(study: Study) -> Iterator[Problem]:
    """Yield a problem if the study has no cells, or fewer than its sampler is to choose."""
    sampler = study.table.sampler
    cells = len(study.names)
    if sampler is not None and cells < sampler.cells:
        message = (
            f"the sampler is to choose {sampler.cells} cells, and the study has {cells}; lower "
            "`cells`, or take `[study.sampler]` out to run them all"
        )
        yield study.document.problem(message, ("study", "sampler"))
    elif not cells:
        reasons = [f"{cell.name}: {' '.join(cell.reasons)}" for cell in study.excluded]
        message = f"no cell of the study can work: {'; '.join(reasons)}"
        yield study.document.problem(message, ("study", "axes"))


def require_cells_of_labels(study: Study) -> None:
    """Raise `RecipeError` if all cells with a label are excluded: the study would not evaluate the label."""
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
    """Yield a problem for each baseline, published cell or reference that is missing, or names no cell."""
    problem = study.document.problem
    baseline, names = study.baseline, study.names
    reasons = {cell.name: " ".join(cell.reasons) for cell in study.excluded}
    if baseline in reasons:
        message = f"the baseline `{baseline}` cannot work: {reasons[baseline]}"
        yield problem(message, ("study", "baseline"))
    elif baseline is not None and names and baseline not in names:
        message = f"the baseline `{baseline}` is not a cell of the study; name one, such as `{names[0]}`"
        yield problem(message, ("study", "baseline"))
    if study.table.equivalence is not None and baseline is None:
        message = (
            f"`equivalence` is {study.table.equivalence:g}, and the study has no `baseline` that cells could "
            "be equivalent to; name one, or take `equivalence` out"
        )
        yield problem(message, ("study", "equivalence"))

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
    """Yield a message for each problem with the keys of a reference."""
    sources = {
        "cell": reference.cell,
        "scores": reference.scores,
        "results": reference.results,
    }
    present = [f"`{key}`" for key, value in sources.items() if value]
    if len(present) != 1:
        yield (
            f"the reference has {' and '.join(present) or 'no numbers'}; give it one of these: the `cell` that "
            "computes it, published `scores`, or files of `results`"
        )
    of_results = {
        "models": reference.models,
        "tasks": reference.tasks,
        "unit": reference.unit,
    }
    for key, value in of_results.items():
        if value and reference.results is None:
            yield f"`{key}` is of `results`, which the reference has not; name them, or take `{key}` out"


def unknown_cell(name: str, names: Sequence[str]) -> str:
    """Return the message for an unknown cell; `names` are the study's cells."""
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    example = close[0] if close else names[0]
    return (
        f"there is no cell `{name}`; a cell is named by its labels in the order of the axes, "
        f"such as `{example}`"
    )
