"""Table `[clean]` of a recipe: training texts in which the items of evaluations are searched."""

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
    RecipeParts,
    RecipeTable,
    TableTraits,
)

from sentbed_audit.clean.seen_texts import NEAR


@attrs.frozen
class Clean(RecipeTable):
    """`[clean]`: scores on the items that training texts do not have; off if absent."""

    traits: ClassVar[TableTraits] = TableTraits(decides=False)

    training: tuple[FilePath, ...] = ()
    """Files of training texts, such as those of a pretrained model: `.jsonl` (all strings), `.csv` (all
    fields), any other text file (each line, or its tab-separated parts), also compressed by gzip."""
    data: tuple[DataSource, ...] = ()
    """Data components that read training texts."""
    stages: bool = True
    """Whether the data of the recipe's stages are training texts, too."""
    near: float = attrs.field(default=NEAR, validator=and_(gt(0), le(1)))
    """A text is nearly seen if at least this share of its words, in (0, 1], is in runs of 8 words that training
    texts have."""

    def problems(
        self, recipe: RecipeParts, plugins: InstalledPlugins, look: bool
    ) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield a problem for each missing file, and if there are no training texts."""
        if not self.training and not self.data and not (self.stages and recipe.stage):
            yield (), "there are no training texts; name files in `training`"
        if not look:
            return
        for number, path in enumerate(self.training):
            try:
                place = locate(path)
            except DataError as error:
                yield ("training", number), str(error)
                continue
            if not place.is_file():
                yield ("training", number), f"`{path}` is no file; name files"
