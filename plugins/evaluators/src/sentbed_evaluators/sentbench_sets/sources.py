"""The six sources of SentBench's pair and contrast sets: the names of their files, and the sizes of the sets.

The paper does not say how the sets are made. The following was inferred from the sizes in its Table 1, compared
with the files or with published numbers of rows:

- ROCStories: 1,571 rows of the Story Cloze Test (winter 2018 validation). 1,571 triples; 3,142 = 2 x 1,571
  pairs, one right and one wrong per row, split 80/20 % without validation.
- CommonsenseQA: 9,741 + 1,221 questions with answers. 1,221 triples from `dev`; 21,924 = 2 x 10,962 pairs,
  60/20/20 % (6,577, 2,192 and 2,193 questions).
- GoEmotions: 45,446 of 54,263 rows have one emotion, 4,590 of them in `test`. 4,590 triples; 90,892 =
  2 x 45,446 pairs, 60/20/20 %.
- SWAG: 73,546 + 20,006 rows with answers. 20,006 triples from `val`; 93,553 pairs, 60/20/20 %: one per row,
  and one more.
- StyleTransfer: 21,075 aligned lines, of which 431 repeat an earlier one. 41,644 = 2 x 20,822 pairs,
  60/20/20 %. These are more than there are different lines, so some lines repeat. 2,500 triples; the validation
  and test files have 2,511 different lines whose two forms differ.
- DBpedia: 70,000 rows in `test.csv`. 69,971 triples. The 27,988 and 27,989 pairs for validation and test are 20 %
  of 2 x 69,971 each; 60 % would be 83,965 pairs for training. Table 1 prints 89,965, possibly by mistake; that
  number is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
from sentbed import DataError

from sentbed_evaluators import data_directories
from sentbed_evaluators.data_directories import digest
from sentbed_evaluators.known_collections import known_collection
from sentbed_evaluators.sentbench_sets.readers import (
    read_commonsenseqa,
    read_dbpedia,
    read_goemotions,
    read_rocstories,
    read_styletransfer,
    read_swag,
)
from sentbed_evaluators.sentbench_sets.rows import Row


@attrs.frozen
class Sizes:
    """The numbers of pairs in each split, and of triples (`contrast`), that are built from a source."""

    train: int
    valid: int
    test: int
    contrast: int

    @property
    def pairs(self) -> int:
        """The number of pairs in all splits."""
        return self.train + self.valid + self.test


@attrs.frozen
class Layout:
    """The names of a source's files in one of its forms; `*` in a name is a wildcard, as in a shell."""

    pairs: tuple[str, ...]
    """Files from which pairs are built."""
    contrast: tuple[str, ...]
    """Files from which triples are built; they are also in `pairs`."""
    beside: tuple[str, ...] = ()
    """Files that the reader needs beside those."""


@attrs.frozen
class Source:
    """A source: its files, its reader and the sizes of its sets."""

    data: str
    """Name of the collection of `sentbed data get` that has the files, and the possible places of their
    folder."""
    layouts: tuple[Layout, ...]
    """Possible layouts, in the order in which they are tried. A layout is read if all its files exist."""
    read: Callable[[Path], Iterator[Row]]
    sizes: Sizes
    """Sizes of the sets in the paper (Table 1)."""
    pairs_per_row: int = 2
    """Number of pairs that are built from a row of a complete source. A source with too few rows has two per
    row."""


SOURCES: dict[str, Source] = {
    "ST": Source(
        "styletransfer",
        (
            Layout(
                ("train.modern.nltktok", "valid.modern.nltktok", "test.modern.nltktok"),
                ("valid.modern.nltktok", "test.modern.nltktok"),
                (
                    "train.original.nltktok",
                    "valid.original.nltktok",
                    "test.original.nltktok",
                ),
            ),
        ),
        read_styletransfer,
        Sizes(24_986, 8_328, 8_330, 2_500),
    ),
    "DBpedia": Source(
        "dbpedia",
        (
            Layout(("train.csv", "test.csv"), ("test.csv",)),
            Layout(("train_*.csv", "val_*.csv", "test_*.csv"), ("test_*.csv",)),
        ),
        read_dbpedia,
        Sizes(89_965, 27_988, 27_989, 69_971),
    ),
    "GoEmo": Source(
        "goemotions",
        (Layout(("train.tsv", "dev.tsv", "test.tsv"), ("test.tsv",)),),
        read_goemotions,
        Sizes(54_535, 18_178, 18_179, 4_590),
    ),
    "ROC": Source(
        "rocstories",
        (
            Layout(
                ("cloze_test_val*winter2018*.csv",), ("cloze_test_val*winter2018*.csv",)
            ),
        ),
        read_rocstories,
        Sizes(2_513, 0, 629, 1_571),
    ),
    "CQA": Source(
        "commonsenseqa",
        (
            Layout(
                ("train_rand_split.jsonl", "dev_rand_split.jsonl"),
                ("dev_rand_split.jsonl",),
            ),
        ),
        read_commonsenseqa,
        Sizes(13_154, 4_384, 4_386, 1_221),
    ),
    "SWAG": Source(
        "swag",
        (Layout(("train.csv", "val.csv"), ("val.csv",)),),
        read_swag,
        Sizes(56_131, 18_711, 18_711, 20_006),
        pairs_per_row=1,
    ),
}
"""The source of each task, in the order of the paper's tables."""


@attrs.frozen
class SourceFiles:
    """The files found for one source."""

    task: str
    pairs: tuple[Path, ...]
    contrast: tuple[Path, ...]
    all: tuple[Path, ...]

    @property
    def data(self) -> str:
        """SHA-256 over the names and contents of the files; for a single file, the SHA-256 of the file."""
        return digest(self.all)


def data_directory(data_dir: str | None) -> Path:
    """Return the directory that holds the folders of the sources; raises `DataError` if none is known."""
    return data_directories.data_directory(data_dir, "dbpedia")


def find_files(base: Path, task: str) -> SourceFiles:
    """Return the files of a task's source; raises `DataError`, with the first missing file and how to get it."""
    source = SOURCES[task]
    collection = known_collection(source.data)
    folders = [base / place for place in collection.places]
    present = [folder for folder in folders if folder.is_dir()]
    first_problem = None
    for folder in present or folders[:1]:
        for layout in source.layouts:
            files, missing = _files_of_layout(folder, layout)
            if not missing:
                pairs = tuple(files[pattern] for pattern in layout.pairs)
                contrast = tuple(files[pattern] for pattern in layout.contrast)
                return SourceFiles(task, pairs, contrast, tuple(files.values()))

            first_problem = first_problem or (folder, missing)

    assert first_problem is not None
    folder, missing = first_problem
    more = ""
    if len(missing) > 1:
        more = f" and {len(missing) - 1} more"

    raise DataError(
        f"task `{task}` needs `{missing[0]}`{more}, missing in `{folder}`; put the files there "
        f"({collection.how_to_get}), or leave the task out (`skip_missing = true`)"
    )


def _files_of_layout(folder: Path, layout: Layout) -> tuple[dict[str, Path], list[str]]:
    """Return the files of a layout, by the pattern or name that finds them, and the names of missing files."""
    files: dict[str, Path] = {}
    missing = []
    for pattern in (*layout.pairs, *layout.beside):
        matching = sorted(filter(Path.is_file, folder.glob(pattern)))
        if matching:
            files[pattern] = matching[0]
        else:
            missing.append(pattern)

    return files, missing
