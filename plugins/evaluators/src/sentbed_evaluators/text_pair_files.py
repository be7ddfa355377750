"""Reader of files of sentence pairs without scores."""

from __future__ import annotations

import attrs
from sentbed import DataError, locate

from sentbed_evaluators.column_files import ColumnFile
from sentbed_evaluators.text_lines import Hashes


@attrs.frozen
class TextPairFile(ColumnFile):
    """The layout of a file of text pairs."""

    def read(self, hashes: Hashes | None = None) -> tuple[list[str], list[str]]:
        """Return the first and the second texts of all pairs. A blank text is a `DataError` with file and line.

        If `hashes` is given, the hash of the file is put into it (see `text_lines.lines`).
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
