"""The table `[clean]` of a recipe: training texts in which the items of evaluations are searched for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import attrs
from attrs.validators import and_, gt, le
from sentbed import FilePath, locate
from sentbed.errors import DataError
from sentbed.protocols import (
    DataSource,
    InstalledPlugins,
    Recipe,
    RecipeTable,
    TableTraits,
)

from sentbed_audit.clean.seen_texts import NEAR


@attrs.frozen
class Clean(RecipeTable):
    """`[clean]`: scores on items that do not occur in training texts; off if absent."""

    traits: ClassVar[TableTraits] = TableTraits(decides=False)

    training: tuple[FilePath, ...] = ()
    """Files of training texts, such as those of a pretrained model. All strings of a `.jsonl` file are read,
    all fields of a `.csv` file, and all tab-separated parts of the lines of any other text file. Files may be
    compressed by gzip."""
    data: tuple[DataSource, ...] = ()
    """Data components that read training texts."""
    stages: bool = True
    """Whether the data of the recipe's stages are training texts, too."""
    near: float = attrs.field(default=NEAR, validator=and_(gt(0), le(1)))
    """Share of a text's words, in (0, 1]. A text counts as nearly seen if at least this share is in runs of 8
    words that training texts have, too."""

    def problems(
        self,
        recipe: Recipe,
        plugins: InstalledPlugins,
        check_files: bool,
    ) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield a problem for each missing file, and one if there are no training texts at all."""
        if not self.training and not self.data and not (self.stages and recipe.stage):
            yield (), "there are no training texts; name files in `training`"
        if not check_files:
            return
        for number, path in enumerate(self.training):
            try:
                place = locate(path)
            except DataError as error:
                yield ("training", number), str(error)
                continue
            if not place.is_file():
                yield (
                    ("training", number),
                    f"`{path}` is a directory or does not exist; name a file",
                )
