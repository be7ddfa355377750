"""Small replicas of the data sets of the hub that recipes name: the same files and columns, other texts."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence

import attrs


@attrs.frozen
class Table:
    """A Parquet file of a data set, with three rows."""

    file: str
    columns: tuple[str, ...]


@attrs.frozen
class Replica:
    """Layout of a data set of the hub."""

    known_from: str
    """Where the names of its files and columns are known from."""
    tables: tuple[Table, ...] = ()
    texts: Mapping[str, str] = attrs.field(factory=dict)
    """Other files with their content."""
    configurations: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    """Configuration -> splits, in directories of their names, as the description lists them."""

    def write(self, directory):
        """Write its files below a directory."""
        for table in self.tables:
            _write_table(directory / table.file, table.columns)
        for name, text in self.texts.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            content = text.encode()
            path.write_bytes(
                gzip.compress(content) if name.endswith(".gz") else content
            )
        if self.configurations:
            (directory / "README.md").write_text(self._description())

    def _description(self):
        lines = ["---", "configs:"]
        for configuration, splits in self.configurations.items():
            lines += [f"- config_name: {configuration}", "  data_files:"]
            for split in splits:
                lines += [f"  - split: {split}", f"    path: {configuration}/{split}-*"]
        return "\n".join([*lines, "---", "# Replica", ""])


def _write_table(path, columns):
    import pyarrow
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    values = {
        column: [f"{path.stem} {column} {row}" for row in range(3)]
        for column in columns
    }
    parquet.write_table(pyarrow.table(values), path)


_NLI_COLUMNS = {
    "pair": ("anchor", "positive"),
    "pair-class": ("premise", "hypothesis", "label"),
    "pair-score": ("sentence1", "sentence2", "score"),
    "triplet": ("anchor", "positive", "negative"),
}
_NLI_SPLITS = ("train", "dev", "test")


def _nli_tables():
    tables = []
    for configuration, columns in _NLI_COLUMNS.items():
        files = (
            f"{configuration}/{split}-00000-of-00001.parquet" for split in _NLI_SPLITS
        )
        tables.extend(Table(file, columns) for file in files)
    return tuple(tables)


REPLICAS = {
    "sentence-transformers/all-nli": Replica(
        "files of `triplet`: the list of files on the hub; the other configurations and all columns: memory",
        tables=_nli_tables(),
        configurations=dict.fromkeys(_NLI_COLUMNS, _NLI_SPLITS),
    ),
    "sentence-transformers/gooaq": Replica(
        "files: the list of files on the hub; columns: programs that read it",
        tables=(
            Table("pair/train-00000-of-00002.parquet", ("question", "answer")),
            Table("pair/train-00001-of-00002.parquet", ("question", "answer")),
        ),
        configurations={"pair": ("train",)},
    ),
    "rojagtap/bookcorpus": Replica(
        "that it is Parquet, its split and its column: programs that read it; names of files: memory",
        tables=tuple(
            Table(f"data/train-0000{part}-of-00003.parquet", ("text",))
            for part in range(3)
        ),
    ),
    "princeton-nlp/datasets-for-simcse": Replica(
        "files: the list of files on the hub, which has no description; columns: the authors' code",
        texts={
            "nli_for_simcse.csv": "sent0,sent1,hard_neg\nA man eats.,A person eats.,Nobody eats.\n",
            "senteval.tar": "",
            "wiki1m_for_simcse.txt": "The first sentence.\n\nThe second sentence.\n",
        },
    ),
}
"""Id -> layout."""
