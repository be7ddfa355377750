"""Strict reader of files of text pairs without scores."""

from __future__ import annotations

import attrs
from sentbed import DataError, locate

from sentbed_evaluators.column_files import ColumnFile
from sentbed_evaluators.text_lines import Hashes


@attrs.frozen
class TextPairFile(ColumnFile):
    """A file of text pairs: its path and its layout."""

    def read(self, hashes: Hashes | None = None) -> tuple[list[str], list[str]]:
        """Return the first and the second texts of all pairs. For `hashes` see `text_lines.lines`.

        Raises:
            DataError: if a row is malformed or a text is blank; with file and line.
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
