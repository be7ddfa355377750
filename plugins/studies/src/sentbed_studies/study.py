"""`Study`: its cells, each a recipe, checked before the first one runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import attrs
from sentbed.errors import Problem, RecipeError
from sentbed.protocols import Variant
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

from sentbed_studies.axes import (
    Axis,
    Combination,
    baseline_of,
    combinations,
    label_of,
    matches,
    read_axes,
    unknown_labels,
)
from sentbed_studies.deciding_data import cannot_decide
from sentbed_studies.override_axis_conflicts import refused_overrides, with_overrides
from sentbed_studies.stop_config import Stop
from sentbed_studies.study_config import StudyTable

Entries: TypeAlias = Sequence[Mapping[str, str | tuple[str, ...]]]
"""Axis -> label, or several: cells that match an entry on all its axes."""


@attrs.frozen
class Cell:
    """Combination of labels with a seed: one run."""

    name: str
    """Its labels, without the seed; see `Combination.name`."""
    labels: Mapping[str, str]
    """Axis -> label."""
    seed: int
    recipe: Recipe = attrs.field(eq=False, repr=False)

    def __str__(self) -> str:
        return f"{self.name}, seed {self.seed}"


@attrs.frozen
class Excluded:
    """Combination that cannot work."""

    name: str
    reasons: tuple[str, ...]
    labels: Mapping[str, str] = attrs.field(factory=dict)
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
    """Cells, by name, then by seed."""
    excluded: tuple[Excluded, ...]
    baseline: str | None
    """Name of the cell that others are compared with."""
    document: Document
    """Parsed file, with bases and overrides applied."""
    remarks: tuple[Remark, ...] = ()
    """Problems of cells that are not to be run now."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the cells."""
        return tuple(dict.fromkeys(cell.name for cell in self.cells))

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the cells."""
        return tuple(dict.fromkeys(cell.seed for cell in self.cells))

    def only(self, entries: Entries) -> Study:
        """Return the study with only the cells that match one of `entries`; see `StudyTable.exclude`.

        Raises:
            RecipeError: if an entry names an unknown axis or label, no cell matches, or a sampler chooses.
        """
        if self.table.sampler is not None:
            message = "`--only` names cells, and `[study.sampler]` chooses them; take one of the two out"
            raise RecipeError([self.document.problem(message, ("study", "sampler"))])
        entries = known_entries(entries, self.axes)
        cells = tuple(c for c in self.cells if any(matches(c.labels, entry) for entry in entries))
        if not cells:
            raise RecipeError([Problem("no cell of the study is among those asked for; ask for others")])
        names = {cell.name for cell in cells}
        remarks = (
            Remark(one.message, tuple(name for name in one.cells if name in names)) for one in self.remarks
        )
        return attrs.evolve(self, cells=cells, remarks=tuple(one for one in remarks if one.cells))


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
    only = None if only is None else known_entries(only, axes)
    cells: list[Cell] = []
    excluded: list[Excluded] = []
    found: dict[Problem, list[str]] = {}
    remarks: dict[str, list[str]] = {}
    every = combinations(table, axes, document)
    asked = [one for one in every if not only or any(matches(one.labels, entry) for entry in only)]
    if refused := list(refused_overrides(document, asked)):
        raise RecipeError(refused)
    for combination in every:
        recipe, wrong = _cell(document, combination, table, plugins, base, look, look and here)
        if wrong and look and only is not None and not any(matches(combination.labels, one) for one in only):
            # Without a look at this machine, what is missing on it is no problem.
            recipe, elsewhere = _cell(document, combination, table, plugins, base, False, False)
            for problem in wrong if recipe is not None else ():
                remarks.setdefault(str(problem), []).append(combination.name)
            wrong = elsewhere
        if recipe is not None:
            seeds = dict.fromkeys(table.seeds) or (recipe.run.seed,)
            cells += (_seeded(combination, recipe, seed) for seed in seeds)
        elif all(problem.misfit for problem in wrong):
            reasons = tuple(problem.message for problem in wrong)
            excluded.append(Excluded(combination.name, reasons, combination.labels))
        else:
            for problem in wrong:
                # A misfit would only exclude the cell.
                if not problem.misfit:
                    found.setdefault(problem, []).append(combination.name)
    names = [cell.name for cell in cells]
    labels = baseline_of(table, axes)
    baseline = None if labels is None else ", ".join(labels.values())
    # The same fault in all cells is one fault, of the recipe.
    problems = [
        problem
        if len(set(having)) == len(every)
        else attrs.evolve(problem, path=f"{problem.path} of the cell `{having[0]}`".lstrip())
        for problem, having in found.items()
    ]
    # Cells with problems are not unknown cells.
    problems = problems or list(_unknown_cells(table, names, excluded, baseline, document))
    if not problems and table.decides_for is not None:
        ends = (entry.with_ for cell in cells for entry in cell.recipe.evaluate if "end" in entry.at)
        problems = list(cannot_decide(table, [*{repr(one): one for one in ends}.values()], document))
    if not problems and table.stop is not None:
        problems = list(_cannot_stop(table, table.stop, len(set(names)), document))
    if not problems and table.sampler is not None and (count_of := len(set(names))) < table.sampler.cells:
        message = (
            f"the sampler is to choose {table.sampler.cells} cells, and the study has {count_of}; lower "
            "`cells`, or take `[study.sampler]` out to run them all"
        )
        problems = [document.problem(message, ("study", "sampler"))]
    if not problems and not cells:
        listed = "; ".join(f"{one.name}: {' '.join(one.reasons)}" for one in excluded)
        problems = [document.problem(f"no cell of the study can work: {listed}", ("study", "axes"))]
    if problems:
        raise RecipeError(problems)
    name = str(document.data.get("run", {}).get("name", "study"))
    noted = tuple(Remark(message, tuple(having)) for message, having in remarks.items())
    return Study(name, table, axes, tuple(cells), tuple(excluded), baseline, document, noted)


def known_entries(only: Entries, axes: Sequence[Axis]) -> Entries:
    """Return the entries with each label as its axis writes it: `0.003` also names the label `3e-3`.

    Raises `RecipeError` if an entry names an unknown axis or label.
    """
    of = {axis.name: axis for axis in axes}
    found = [
        {
            name: tuple(
                label_of(of[name], label) if name in of else label
                for label in ((given,) if isinstance(given, str) else given)
            )
            for name, given in entry.items()
        }
        for entry in only
    ]
    unknown = [
        problem for entry in found for problem in unknown_labels(entry, axes, Document({}), ("--only",))
    ]
    if unknown:
        raise RecipeError(
            attrs.evolve(one, path=one.path.replace("--only.", "--only ", 1)) for one in unknown
        )
    return found


def read_table(document: Document, plugins: Plugins, base: Path) -> StudyTable:
    """Return `[study]` of a document. Raises `RecipeError` if it is missing or invalid."""
    if "study" not in document.data:
        message = "the recipe has no `[study]`; give it axes, or use `sentbed run`"
        raise RecipeError([document.problem(message, ("study",))])
    table, problems = structure(
        document.data["study"], StudyTable, document, plugins, base, rename=((), ("study",))
    )
    if problems:
        raise RecipeError(problems)
    return table


def cell_document(document: Document, combination: Combination) -> tuple[Document, list[Problem]]:
    """Return the document of a cell, with the problems of paths that lead nowhere, which are not set.

    Values from axes have their position there.
    """
    whole, places = document, {}
    for path, axis in combination.axes.items():
        label: KeyPath = ("study", "axes", axis, combination.labels[axis])
        places[path] = document.place(label if label in document.places else (*label[:-1], "values"))
    document = attrs.evolve(document, data={k: v for k, v in document.data.items() if k != "study"})
    settings, problems = dict(combination.settings), []
    try:
        changed = set_values(document, settings, "the axes' path")
    except RecipeError as error:
        for problem in error.problems:
            del settings[problem.path]
            file, line = places[problem.path]
            problems.append(attrs.evolve(problem, file=file, line=line))
        changed = set_values(document, settings, "the axes' path")
    for path, value in settings.items():
        if value is False and path.rpartition(".")[2].isdigit():
            # An array element was removed, and the next one now has its index.
            continue
        keys = changed.key_path(path)
        # A misspelt table has no line of its own: it is where the path is.
        first = next(
            end for end in range(1, len(keys) + 1) if end == len(keys) or not _has(document, keys[:end])
        )
        for end in sorted({first, len(keys)}):
            changed = placed(changed, keys[:end], *places[path])
    return with_overrides(whole, changed, combination), problems


def placed(document: Document, path: KeyPath, file: str | None, line: int | None) -> Document:
    """Return the document with `path`, and all keys below it, at the given file and line."""
    places = {known: place for known, place in document.places.items() if known[: len(path)] != path}
    if line is not None:
        places[path] = file, line
    return attrs.evolve(document, places=places)


def _has(document: Document, keys: KeyPath) -> bool:
    """Whether a document has a value there."""
    place: Any = document.data
    try:
        for key in keys:
            place = place[key]
    except (KeyError, IndexError, TypeError):
        return False
    return True


def find_cell(document: Document, plugins: Plugins, base: Path, name: str) -> Variant:
    """Return the document of the cell `name`, and the axis that sets each value.

    Raises:
        RecipeError: if there is no such cell, or a study of all cells would refuse an override.
    """
    table = read_table(document, plugins, base)
    found = {one.name: one for one in combinations(table, read_axes(table, document), document)}
    if name not in found:
        raise RecipeError([document.problem(unknown_cell(name, list(found)), ("study",))])
    if refused := list(refused_overrides(document, list(found.values()))):
        raise RecipeError(refused)
    combination = found[name]
    cell, problems = cell_document(document, combination)
    if problems:
        raise RecipeError(problems)
    setters = {
        cell.key_path(path): ("axes", combination.axes[path], combination.labels[combination.axes[path]])
        for path in combination.settings
    }
    return Variant(cell, setters)


def _cell(
    document: Document,
    combination: Combination,
    table: StudyTable,
    plugins: Plugins,
    base: Path,
    look: bool,
    here: bool,
) -> tuple[Recipe | None, Sequence[Problem]]:
    """Return the recipe of a cell, or its problems; `here`: the runtime has to be available."""
    changed, problems = cell_document(document, combination)
    try:
        recipe = structure_recipe(changed, plugins, base, look)
        check(recipe, plugins, look)
    except RecipeError as error:
        problems += error.problems
    if problems:
        return None, problems
    if recipe.runtime.traits.processes > 1:
        message = (
            "a cell of a study runs in one process; set `devices` and `nodes` to 1, or use `sentbed run` "
            "with a recipe of its own"
        )
        return None, [recipe.document.problem(message, ("runtime",))]
    if here and (reason := recipe.runtime.unavailable()):
        return None, [recipe.document.problem(reason, ("runtime",))]
    return attrs.evolve(recipe, runtime=recipe.runtime.with_threads(table.threads)), ()


def _seeded(combination: Combination, recipe: Recipe, seed: int) -> Cell:
    run = attrs.evolve(recipe.run, seed=seed)
    return Cell(combination.name, combination.labels, seed, attrs.evolve(recipe, run=run))


def _cannot_stop(table: StudyTable, stop: Stop, cells: int, document: Document) -> Iterator[Problem]:
    """Yield a problem for each reason for which no cell could ever be stopped early."""
    place = ("study", "stop")
    seeds = len(dict.fromkeys(table.seeds))
    if seeds <= stop.first_look:
        message = (
            f"the study has {count(max(seeds, 1), 'seed')}, and cells are first compared after "
            f"{stop.first_look}, so that no seed could be saved; give it more `seeds`, or take `stop` out"
        )
        yield document.problem(message, (*place, "first_look"))
    if cells < 2:
        yield document.problem("the study has one cell, and nothing to compare it with", place)
    if stop.worse_than == "baseline" and table.baseline is None:
        message = 'the study has no `baseline`; name one, or set `worse_than = "best"`'
        yield document.problem(message, (*place, "worse_than"))


def require_cells_of_labels(study: Study) -> None:
    """Raise `RecipeError` if no cell with one of the labels can work: the study would say nothing of it."""
    problems = []
    for axis in study.axes:
        working = {cell.labels[axis.name] for cell in study.cells}
        for label in axis.labels:
            out = [one for one in study.excluded if one.labels.get(axis.name) == label]
            if label in working or not out:
                continue
            message = (
                f"no cell with the label `{label}` of the axis `{axis.name}` can work: "
                f"{' '.join(out[0].reasons)}; or take the label out"
            )
            problems.append(study.document.problem(message, ("study", "axes", axis.name)))
    if problems:
        raise RecipeError(problems)


def _unknown_cells(
    table: StudyTable,
    names: Sequence[str],
    excluded: Sequence[Excluded],
    baseline: str | None,
    document: Document,
) -> Iterator[Problem]:
    """Yield a problem for a baseline or published cell that is not in the study, or is needed."""
    out = {one.name: one for one in excluded}
    if baseline in out:
        reasons = " ".join(out[baseline].reasons)
        message = f"the baseline `{baseline}` cannot work: {reasons}"
        yield document.problem(message, ("study", "baseline"))
    elif baseline is not None and names and baseline not in names:
        message = f"the baseline `{baseline}` is not a cell of the study; name one, such as `{names[0]}`"
        yield document.problem(message, ("study", "baseline"))
    if table.equivalence is not None and baseline is None:
        message = (
            f"`equivalence` is {table.equivalence:g}, and the study has no `baseline` that cells could be "
            "equivalent to; name one, or take `equivalence` out"
        )
        yield document.problem(message, ("study", "equivalence"))
    known = {*names, *out}
    for title, published in table.expected.items():
        for name in published.cells:
            if known and name not in known:
                message = unknown_cell(name, list(known))
                yield document.problem(message, ("study", "expected", title, "cells", name))
    for system, reference in table.references.items():
        place = ("study", "references", system)
        if bool(reference.cell) == bool(reference.scores):
            found = "both `cell` and `scores`" if reference.cell else "neither `cell` nor `scores`"
            yield document.problem(
                f"the reference has {found}; give it the `cell` that computes it, or published `scores`",
                place,
            )
        elif reference.cell and known and reference.cell not in known:
            yield document.problem(unknown_cell(reference.cell, list(known)), (*place, "cell"))


def unknown_cell(name: str, names: Sequence[str]) -> str:
    """Return the message for an unknown cell; `names` are the study's cells."""
    from difflib import get_close_matches

    close = get_close_matches(name, names, n=1, cutoff=0.6)
    return (
        f"there is no cell `{name}`; a cell is named by its labels in the order of the axes, "
        f"such as `{(close or names)[0]}`"
    )
