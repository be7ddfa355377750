"""`[study]`: which cells a recipe stands for, and what was published of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import attrs
from attrs.validators import deep_iterable, ge, le, min_len
from sentbed.protocols import RecipeTable, TableTraits, Variant, Variants
from sentbed.tools import Document, Plugins
from sentbed_report.study.published import Published


@attrs.frozen
class StudyTable(RecipeTable):
    """`[study]`: axes over any values of the recipe; every combination of their labels is a cell."""

    # `sentbed run` runs the recipe as it stands: one cell.
    traits: ClassVar[TableTraits] = TableTraits(decides=False, resolved=False, variants=True)

    axes: Mapping[str, Mapping[str, Any]] = attrs.field(validator=min_len(1))
    """Name of an axis -> `path` and `values`, or label -> the values that it sets, by path:
    `[study.axes.pooler]` with `path = "encoder.pooler.use"`, `values = ["first", "mean"]`, or
    `[study.axes.loss]` with `ctr = { "stage.0.loss" = { use = "info-nce" } }`. A path is that of `--set`."""
    seeds: tuple[int, ...] = attrs.field(
        default=(), validator=deep_iterable(member_validator=[ge(0), le(2**32 - 1)])
    )
    """Every cell is run with each of them as `run.seed`; with the recipe's own where left out."""
    baseline: Mapping[str, str] | None = None
    """Axis -> label of the cell that all others are compared with; an axis of one label may be left out."""
    zip: tuple[tuple[str, ...], ...] = ()
    """Groups of axes that go together, label by label, in the place of all combinations."""
    exclude: tuple[Mapping[str, str | tuple[str, ...]], ...] = ()
    """Axis -> label, or several: cells that agree with an entry in all axes that it names are left out."""
    include: tuple[Mapping[str, str | tuple[str, ...]], ...] = ()
    """As `exclude`: cells that are kept although `exclude` names them."""
    expected: Mapping[str, Published] = attrs.field(factory=dict)
    """Name of a table or figure -> what it says."""
    order: tuple[str, ...] = ()
    """Tasks in the order in which their columns are to stand; evaluators' own where left out."""

    @classmethod
    def variants(cls, document: Document, plugins: Plugins, base: Path) -> Variants:
        """Structure and check every cell; see `cells.expand`."""
        from sentbed_studies.cells import expand

        study = expand(document, plugins, base)
        return Variants("cells", study.names, {one.name: " ".join(one.reasons) for one in study.excluded})

    @classmethod
    def variant(cls, document: Document, plugins: Plugins, base: Path, name: str) -> Variant:
        """Return the recipe of one cell; see `cells.find_cell`."""
        from sentbed_studies.cells import find_cell

        return find_cell(document, plugins, base, name)
