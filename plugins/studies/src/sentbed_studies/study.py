"""`Study`: its cells, each a recipe, checked before the first one runs."""

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
"""Cells that match one of the entries."""


@attrs.frozen
class Cell:
    """Combination of labels with a seed, and a prompt where the study has some: one run."""

    name: str
    """Its labels, without the seed; see `Combination.name`."""
    labels: Mapping[str, str]
    """Axis -> label."""
    seed: int
    recipe: Recipe = attrs.field(eq=False, repr=False)
    prompt: str = ""
    """Label of its prompt; empty without `[study] prompts`."""

    @property
    def identity(self) -> tuple[str, str, int]:
        """What tells it from the other runs of its study: name, prompt and seed."""
        return self.name, self.prompt, self.seed

    def __str__(self) -> str:
        prompt = f", prompt {self.prompt}" if self.prompt else ""
        return f"{self.name}{prompt}, seed {self.seed}"


@attrs.frozen
class Excluded:
    """Combination that cannot work."""

    name: str
    reasons: tuple[str, ...]
    labels: Mapping[str, str]
    """Axis -> label."""


@attrs.frozen
class Remark:
    """Problem of cells that are not to be run now, such as a file that is elsewhere."""

    message: str
    cells: tuple[str, ...]


@attrs.frozen(eq=False)
class Study:
    """Expanded and checked recipe with `[study]`."""

    name: str
    table: StudyTable
    axes: tuple[Axis, ...]
    cells: tuple[Cell, ...]
    """Cells, by name, then by prompt, then by seed."""
    excluded: tuple[Excluded, ...]
    baseline: str | None
    """Name of the cell that others are compared with."""
    document: Document
    """Parsed file, with bases and overrides applied."""
    remarks: tuple[Remark, ...] = ()
    """Problems of cells that are not to be run now."""
    published: tuple[PublishedSystem, ...] = ()
    """Systems whose numbers are read from the `results` of references."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the cells."""
        return tuple(dict.fromkeys(cell.name for cell in self.cells))

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the cells."""
        return tuple(dict.fromkeys(cell.seed for cell in self.cells))

    @property
    def prompts(self) -> tuple[str, ...]:
        """Labels of the prompts of the cells; empty without `[study] prompts`."""
        return tuple(dict.fromkeys(cell.prompt for cell in self.cells if cell.prompt))

    def only(self, entries: Entries) -> Study:
        """Return the study with only the cells that match one of `entries`; see `StudyTable.exclude`.

        Raises:
            RecipeError: if an entry names an unknown axis or label, no cell matches, or a sampler chooses.
        """
        if self.table.sampler is not None:
            message = "`--only` names cells, and `[study.sampler]` chooses them; take one of the two out"
            raise RecipeError([self.document.problem(message, ("study", "sampler"))])
        entries = with_labels_of_axes(entries, self.axes)
        cells = tuple(cell for cell in self.cells if matches_any(cell.labels, entries))
        if not cells:
            raise RecipeError(
                [
                    Problem(
                        "no cell of the study is among those asked for; ask for others"
                    )
                ]
            )

        names = {cell.name for cell in cells}
        remarks = []
        for remark in self.remarks:
            concerned = tuple(name for name in remark.cells if name in names)
            if concerned:
                remarks.append(Remark(remark.message, concerned))
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

    `overrides` and `look` are those of `load_recipe`; an override reaches every cell that has its place, and
    is refused where the axes decide its value. A cell whose parts are right alone and do not go together is
    `excluded`, with the reasons. `only` names the cells that are to be run, as in `Study.only`, by default
    all: what the others lack on this machine is a remark. The runtimes are to be available, unless the cells
    are not run `here`.

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
    """Return the study of a document; paths in it are relative to `base`. Raises `RecipeError`."""
    table = read_table(document, plugins, base)
    axes = read_axes(table, document)
    every = combinations(table, axes, document)
    prompts = read_prompts(table, axes, document, base)
    entries = None if only is None else with_labels_of_axes(only, axes)
    to_run = every
    if entries:
        to_run = tuple(each for each in every if matches_any(each.labels, entries))
    _require_none(refused_overrides(document, to_run))

    cells: list[Cell] = []
    excluded: list[Excluded] = []
    faults: dict[Problem, list[str]] = {}
    remarks: dict[str, list[str]] = {}
    for combination in every:
        name, labels = combination.name, combination.labels
        recipes, problems = _recipes_of(
            combination, prompts, document, table, plugins, base, look, here
        )
        is_left_out = entries is not None and not matches_any(labels, entries)
        if problems and look and is_left_out:
            # Without a look at this machine, what is missing on it is no problem.
            missing = problems
            recipes, problems = _recipes_of(
                combination, prompts, document, table, plugins, base, False, False
            )
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
                # A misfit would only exclude the cell.
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
    # In this order: one problem may be the reason for those that come later.
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
    """Yield a cell for each prompt and seed; without seeds, for that of the recipe."""
    for prompt, recipe in recipes.items():
        for seed in dict.fromkeys(seeds) or (recipe.run.seed,):
            run = attrs.evolve(recipe.run, seed=seed)
            of_seed = attrs.evolve(recipe, run=run)
            yield Cell(combination.name, combination.labels, seed, of_seed, prompt)


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
    """Return the unlike evaluators of all cells after training."""
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
    """Return the entries with each label as its axis writes it: `0.003` also names the label `3e-3`.

    Raises `RecipeError` if an entry names an unknown axis or label.
    """
    axis_named = {axis.name: axis for axis in axes}
    problems = []
    written = []
    for entry in entries:
        labels = {name: as_tuple(alternatives) for name, alternatives in entry.items()}
        for name in labels.keys() & axis_named.keys():
            labels[name] = tuple(
                label_of(axis_named[name], label) for label in labels[name]
            )
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
    """Return the document of a cell, with the problems of paths that lead nowhere, which are not set.

    Values from axes have their position there.
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
            # An array element was removed, and the next one now has its index.
            continue
        keys = cell.key_path(path)
        for end in range(1, len(keys)):
            if document.value(keys[:end]) is None:
                # A misspelt table has no line of its own: it is where the path is.
                cell = placed(cell, keys[:end], *places[path])
                break
        cell = placed(cell, keys, *places[path])
    return with_overrides(document, cell, combination), problems


def placed(
    document: Document, path: KeyPath, file: str | None, line: int | None
) -> Document:
    """Return the document with `path`, and all keys below it, at the given file and line."""
    places = {
        keys: place
        for keys, place in document.places.items()
        if keys[: len(path)] != path
    }
    if line is not None:
        places[path] = file, line
    return attrs.evolve(document, places=places)


def find_cell(document: Document, plugins: Plugins, base: Path, name: str) -> Variant:
    """Return the document of the cell `name`, and the axis that sets each value.

    Raises:
        RecipeError: if there is no such cell, or a study of all cells would refuse an override.
    """
    table = read_table(document, plugins, base)
    every = combinations(table, read_axes(table, document), document)
    by_name = {combination.name: combination for combination in every}
    if name not in by_name:
        raise RecipeError(
            [document.problem(unknown_cell(name, list(by_name)), ("study",))]
        )
    _require_none(refused_overrides(document, every))

    combination = by_name[name]
    cell, problems = cell_document(document, combination)
    _require_none(problems)
    setters = {}
    for path, axis in combination.axes.items():
        setters[cell.key_path(path)] = ("axes", axis, combination.labels[axis])
    return Variant(cell, setters)


def _recipes_of(
    combination: Combination,
    prompts: Sequence[StudyPrompt],
    document: Document,
    table: StudyTable,
    plugins: Plugins,
    base: Path,
    look: bool,
    here: bool,
) -> tuple[dict[str, Recipe], Sequence[Problem]]:
    """Return the recipe of a cell under each prompt, by its label, or the problems.

    A cell that does not fit together with one of the prompts cannot be compared under all of them.
    """
    if not prompts:
        recipe, problems = _recipe_of(
            combination, document, table, plugins, base, look, here
        )
        return {} if recipe is None else {"": recipe}, problems
    recipes = {}
    labels: dict[Problem, list[str]] = {}
    for prompt in prompts:
        under_prompt = prompt.applied_to(combination)
        recipe, problems = _recipe_of(
            under_prompt, document, table, plugins, base, look, here
        )
        if recipe is not None:
            recipes[prompt.label] = recipe
        for problem in problems:
            labels.setdefault(problem, []).append(prompt.label)
    if not labels:
        return recipes, ()
    faults = []
    for problem, of_problem in labels.items():
        message = problem.message
        # One of all prompts is the cell's.
        if len(of_problem) < len(prompts):
            message = f"with the prompt `{of_problem[0]}`: {message}"
        faults.append(attrs.evolve(problem, message=message))
    return {}, faults


def _recipe_of(
    combination: Combination,
    document: Document,
    table: StudyTable,
    plugins: Plugins,
    base: Path,
    look: bool,
    here: bool,
) -> tuple[Recipe | None, Sequence[Problem]]:
    """Return the recipe of a cell, or its problems.

    With `look` what it needs on this machine has to be there, and, if it runs `here`, its runtime.
    """
    cell, problems = cell_document(document, combination)
    try:
        recipe = structure_recipe(cell, plugins, base, look)
        check(recipe, plugins, look)
    except RecipeError as error:
        problems += error.problems
    if problems:
        return None, problems

    message = None
    if recipe.runtime.traits.processes > 1:
        message = (
            "a cell of a study runs in one process; set `devices` and `nodes` to 1, or use `sentbed run` "
            "with a recipe of its own"
        )
    elif look and here:
        message = recipe.runtime.unavailable()
    if message:
        return None, [cell.problem(message, ("runtime",))]
    return attrs.evolve(recipe, runtime=recipe.runtime.with_threads(table.threads)), ()


def _cannot_stop(study: Study) -> Iterator[Problem]:
    """Yield a problem for each reason for which no cell could ever be stopped early."""
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
    """Yield a problem if the study has fewer cells than its sampler is to choose, or none."""
    sampler = study.table.sampler
    cells = len(study.names)
    if sampler is not None and cells < sampler.cells:
        message = (
            f"the sampler is to choose {sampler.cells} cells, and the study has {cells}; lower "
            "`cells`, or take `[study.sampler]` out to run them all"
        )
        yield study.document.problem(message, ("study", "sampler"))
    elif not cells:
        listed = "; ".join(
            f"{cell.name}: {' '.join(cell.reasons)}" for cell in study.excluded
        )
        yield study.document.problem(
            f"no cell of the study can work: {listed}", ("study", "axes")
        )


def require_cells_of_labels(study: Study) -> None:
    """Raise `RecipeError` if no cell with one of the labels can work: the study would say nothing of it."""
    problems = []
    for axis in study.axes:
        working = {cell.labels[axis.name] for cell in study.cells}
        # Of several, the reasons of the first one.
        failing = {cell.labels[axis.name]: cell for cell in reversed(study.excluded)}
        for label in axis.labels:
            if label in failing and label not in working:
                message = (
                    f"no cell with the label `{label}` of the axis `{axis.name}` can work: "
                    f"{' '.join(failing[label].reasons)}; or take the label out"
                )
                problems.append(
                    study.document.problem(message, ("study", "axes", axis.name))
                )
    _require_none(problems)


def _unknown_cells(study: Study) -> Iterator[Problem]:
    """Yield a problem for a baseline, published cell or reference that is not in the study, or is needed."""
    problem = study.document.problem
    baseline, names = study.baseline, study.names
    reasons = {cell.name: " ".join(cell.reasons) for cell in study.excluded}
    if baseline in reasons:
        yield problem(
            f"the baseline `{baseline}` cannot work: {reasons[baseline]}",
            ("study", "baseline"),
        )
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
                yield problem(
                    unknown_cell(name, cells),
                    ("study", "expected", title, "cells", name),
                )
    for system, reference in study.table.references.items():
        place = ("study", "references", system)
        for message in _faults_of_reference(reference):
            yield problem(message, place)
        if reference.cell and reference.cell not in cells:
            yield problem(unknown_cell(reference.cell, cells), (*place, "cell"))


def _faults_of_reference(reference: Reference) -> Iterator[str]:
    """Yield what is wrong with the keys of a reference."""
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
