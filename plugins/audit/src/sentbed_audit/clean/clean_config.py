"""The table `[clean]` of a recipe: training texts in which the items of evaluations are searched for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import attrs
from sentbed import FilePath, locate
from sentbed.errors import DataError
from sentbed.protocols import (
    DataSource,
    InstalledPlugins,
    Recipe,
    RecipeTable,
    TableTraits,
)


@attrs.frozen
class Clean(RecipeTable):
    """`[clean]`: scores on items that do not occur in training texts, of which the stages' data are a part."""

    traits: ClassVar[TableTraits] = TableTraits(decides=False)

    training: tuple[FilePath, ...] = ()
    """Files of training texts, such as those of a pretrained model. All strings of a `.jsonl` file are read,
    all fields of a `.csv` file, and all tab-separated parts of the lines of any other text file. Files may be
    compressed by gzip."""
    data: tuple[DataSource, ...] = ()
    """Data components that read training texts."""

    def problems(
        self,
        recipe: Recipe,
        plugins: InstalledPlugins,
        check_files: bool,
    ) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield a problem for each missing file, and one if there are no training texts at all."""
        if not self.training and not self.data and not recipe.stage:
            yield (), "there are no training texts; name files in `training`"
        if not check_files:
            return
        for number, path in enumerate(self.training):
            try:
                locate(path)
            except DataError as error:
                yield ("training", number), str(error)
