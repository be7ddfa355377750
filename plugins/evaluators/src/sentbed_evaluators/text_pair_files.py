"""Reader of files of sentence pairs without scores."""

from __future__ import annotations

import attrs
from sentbed import DataError, locate

from sentbed_evaluators.column_files import ColumnFile
from sentbed_evaluators.text_lines import Hashes


@attrs.frozen
class TextPairFile(ColumnFile):
    """The layout of text pairs in one file."""

    def read(self, hashes: Hashes | None = None) -> tuple[list[str], list[str]]:
        """Return the first and the second texts, none blank; raises `DataError` with file and line.

        For `hashes` see `lines`.
        """
        first, second = [], []
        for line, texts in self.rows(hashes):
            for column, text in zip(self.columns, texts, strict=True):
                if not text.strip():
                    raise DataError(
                        f"column `{column}` is empty; remove the pair",
                        locate(self.path),
                        line,
                    )
            first.append(texts[0])
            second.append(texts[1])
        return first, second
