"""The source `scored`: pairs of texts with a score, optionally with hard negatives."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import attrs
from sentbed import DataError
from sentbed_common import InMemoryDataset

from sentbed_data.csv_tsv_jsonl import Rows, selected_fields, tsv_rows
from sentbed_data.file_paths import as_tuple
from sentbed_data.file_source_base import FileSource
from sentbed_data.readers import (
    BLANK,
    Range,
    checked_rows,
    columns_of_rows,
    parse_number,
    resolve,
)
from sentbed_data.text_lines import decoded_lines
from sentbed_data.triplets import few_negatives, negative_columns

_SUFFIXES = {
    "sts-benchmark": (".csv", ".tsv", ".txt"),
    "sick": (".tsv", ".txt"),
    "sts": (".txt",),
}
_RANGES: Mapping[str, Range] = {
    "table": (0.0, 1.0),
    "sts-benchmark": (0.0, 5.0),
    "sick": (1.0, 5.0),
    "sts": (0.0, 5.0),
}
_SICK = ("sentence_A", "sentence_B", "relatedness_score")
_BENCHMARK = (5, 6, 4)
"""Indices of the fields with STS-B's sentences and score."""
_UNSCORED = "pairs without a score"


@attrs.frozen(kw_only=True)
class Scored(FileSource):
    """Rows of two texts and a score, such as their similarity; optionally with hard negatives.

    Scores must be in `score_range`, which is mapped to [0, 1]. A score outside the range is an error.
    """

    name: ClassVar[str] = "scored"
    numbers = frozenset({"score"})

    format: Literal["table", "sts-benchmark", "sick", "sts"] = "table"
    """Layout of the file. `table`: columns with names. `sts-benchmark`: `sts-train.csv` as published with
    STS-B, with tabs and without a header. `sick`: `SICK_train.txt`. `sts`: a file `STS.input.NAME.txt` of
    SemEval, with the scores in `STS.gs.NAME.txt` in the same directory; pairs without a score (a blank line)
    are left out."""
    anchor: str = "sentence1"
    """Column of the first text, in a table."""
    positive: str = "sentence2"
    """Column of the second text, in a table."""
    negative: str | tuple[str, ...] = attrs.field(default=(), validator=few_negatives)
    """Column of a hard negative in a table, or an array of at most 8 columns: `["negative_a", "negative_b"]`.
    Default: none."""
    score: str = "score"
    """Column of the score, in a table."""
    score_range: tuple[float, float] | None = None
    """Smallest and largest possible score, such as `[0, 5]`. Default: [0, 1] for a table, [0, 5] for the STS
    formats, [1, 5] for SICK."""
    rescale: bool = True
    """Whether `score_range` is mapped to [0, 1]. If false, scores are not changed, as for a teacher's margins
    (loss `margin-mse`)."""

    def check(self) -> Iterator[str]:
        """Yield problems that show without reading the data."""
        yield from super().check()
        low, high = self._range
        if not -math.inf < low < high < math.inf:
            yield (
                f"`score_range` is [{low:g}, {high:g}]; expected the smallest score, then a larger one, both "
                "finite; correct it"
            )

        if self.stream:
            yield "`stream` leaves texts on disk, and scores are read into memory; remove `stream`"

        if self.format != "table":
            yield from self._problems_of_format()

    def _problems_of_format(self) -> Iterator[str]:
        """Yield problems of a format other than `table`: fields of tables, or a wrong name of an STS file."""
        fields_of_tables = {
            "anchor": "sentence1",
            "positive": "sentence2",
            "negative": (),
            "score": "score",
            "blank": "refuse",
        }
        for field, default in fields_of_tables.items():
            if getattr(self, field) != default:
                yield f'`{field}` is for tables, and `format = "{self.format}"` is none; remove it'

        if self.format == "sts" and not Path(self.path).name.startswith("STS.input."):
            yield (
                f"`{self.path}` is no `STS.input.NAME.txt`, beside which the scores are found; name such a "
                "file, or choose another `format`"
            )

    @property
    def _range(self) -> Range:
        """Smallest and largest possible score, by `score_range` or the format."""
        if self.score_range is not None:
            return self.score_range

        return _RANGES[self.format]

    @property
    def _negatives(self) -> tuple[str, ...]:
        return as_tuple(self.negative)

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor`, `positive`, hard negatives if there are any, and `score`."""
        return ("anchor", "positive", *negative_columns(len(self._negatives)), "score")

    def _suffixes(self) -> Sequence[str]:
        return _SUFFIXES.get(self.format) or super()._suffixes()

    def open(self) -> InMemoryDataset:
        """Read the file. Raises `DataError`, with file and line, if a row is invalid."""
        left_out: Counter[str] = Counter()
        columns = columns_of_rows(self._scored(left_out), len(self.columns))
        if not columns[0]:
            raise DataError(
                "no pair has a score; expected at least one; check the file", self.path
            )

        low, high = self._range
        if self.rescale:
            width = high - low
            columns[-1] = [(score - low) / width for score in columns[-1]]

        values = dict(zip(self.columns, columns, strict=True))
        table = InMemoryDataset(values, left_out)
        self._require_rows(len(table) + left_out[BLANK])
        return table

    def files(self) -> Iterable[Path]:
        """Return the file of scores that belongs to a file of SemEval."""
        if self.format != "sts":
            return ()

        path = resolve(self.path, self._suffixes())
        return (_gold(path),)

    def _scored(self, left_out: Counter[str]) -> Iterator[Sequence[Any]]:
        """Yield the texts and the score of each row, and count the pairs without a score."""
        if self.format == "table":
            columns = (self.anchor, self.positive, *self._negatives, self.score)
            numbers = {self.score: self._range}
            yield from self._table_rows(columns, left_out, numbers)
            return

        path = resolve(self.path, self._suffixes())
        rows = tsv_rows(decoded_lines(path, self.encoding))
        if self.format == "sts":
            yield from self._semeval(path, rows, left_out)
            return

        if self.format == "sick":
            scored_rows = selected_fields(
                path, rows, _SICK, header=True, hint="a text must not contain a tab"
            )
        else:
            scored_rows = _benchmark(path, rows)

        names = ("anchor", "positive", "score")
        yield from checked_rows(
            scored_rows,
            names,
            path,
            self.limit,
            row_word=None,
            labels=(),
            numbers={"score": self._range},
        )

    def _semeval(
        self,
        path: Path,
        rows: Iterator[tuple[int, list[str]]],
        left_out: Counter[str],
    ) -> Iterator[Sequence[Any]]:
        """Yield the texts of each row of a SemEval file with the score in the file of scores."""
        gold = _gold(path)
        if not gold.is_file():
            raise DataError(
                "there is no such file; expected one score a line; put it there", gold
            )

        scores = list(tsv_rows(decoded_lines(gold, self.encoding)))
        pairs = list(rows)
        if len(scores) != len(pairs):
            raise DataError(
                f"there are {len(scores)} scores; expected {len(pairs)}, one for each line of `{path.name}`; "
                "get both files again",
                gold,
            )

        texts = (_first_two(path, line, fields) for line, fields in pairs)
        checked_pairs = checked_rows(
            texts,
            ("anchor", "positive"),
            path,
            self.limit,
            row_word=None,
            labels=(),
            numbers={},
        )
        # With `limit`, there are fewer pairs than scores.
        for (line, fields), pair in zip(scores, checked_pairs, strict=False):
            score = fields[0]
            if not score.strip():
                left_out[_UNSCORED] += 1
                continue

            value = parse_number(score, self._range)
            if isinstance(value, str):
                raise DataError(value, gold, line)

            yield *pair, value


def _gold(path: Path) -> Path:
    """Return the path of the file of scores that belongs to a file of SemEval."""
    return path.with_name(path.name.replace("STS.input.", "STS.gs.", 1))


def _benchmark(path: Path, rows: Iterator[tuple[int, list[str]]]) -> Rows:
    """Yield both sentences and the score of each row of STS-B."""
    for line, fields in rows:
        if len(fields) not in (7, 9):
            raise DataError(
                f"the line has {len(fields)} field(s); expected 7 or 9 between tabs, as in STS-B; "
                'correct the line, or use `format = "table"`',
                path,
                line,
            )

        yield line, [fields[place] for place in _BENCHMARK]


def _first_two(
    path: Path,
    line: int,
    fields: list[str],
) -> tuple[int, Sequence[object]]:
    """Return the line's number and its first two fields. Raises `DataError` if it has fewer."""
    if len(fields) < 2:
        raise DataError(
            "the line has no tab; expected two sentences; correct the line", path, line
        )

    return line, fields[:2]
