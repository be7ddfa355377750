"""Repositories of the hub, as directories in their layout: those of the recipes, every format, and errors."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from sentbed_data.dropout import Dropout
from sentbed_data.nsp import Nsp
from sentbed_data.pairs import Pairs
from sentbed_data.triplets import Triplets

RECIPES = Path(__file__).parents[3] / "recipes"
INLINE_TABLE = re.compile(r"\{[^{}]*\"hub:[^{}]*\}")
SOURCES = {source.name: source for source in (Dropout, Nsp, Pairs, Triplets)}

NLI = {
    "pair/train-00000-of-00001.parquet": ("anchor", "positive"),
    "pair-class/train-00000-of-00001.parquet": ("premise", "hypothesis", "label"),
    "pair-score/train-00000-of-00001.parquet": ("sentence1", "sentence2", "score"),
    "triplet/train-00000-of-00001.parquet": ("anchor", "positive", "negative"),
}
GOOAQ = {
    "pair/train-00000-of-00002.parquet": ("question", "answer"),
    "pair/train-00001-of-00002.parquet": ("question", "answer"),
}
BOOKS = {
    "data/train-00000-of-00003.parquet": ("text",),
    "data/train-00001-of-00003.parquet": ("text",),
    "data/train-00002-of-00003.parquet": ("text",),
}
SIMCSE = {
    "nli_for_simcse.csv": "sent0,sent1,hard_neg\nA man eats.,A person eats.,Nobody eats.\n",
    "senteval.tar": "",
    "wiki1m_for_simcse.txt": "The first sentence.\n\nThe second sentence.\n",
}
REPOSITORIES = {
    # The files of `triplet` are those on the hub. Other configurations and all columns are from memory.
    "sentence-transformers/all-nli": NLI,
    # The files are those on the hub, the columns those that programs read.
    "sentence-transformers/gooaq": GOOAQ,
    # Programs read Parquet, the split and the column. The names of the files are from memory.
    "rojagtap/bookcorpus": BOOKS,
    # The files are those on the hub, the columns those of the authors' code.
    "princeton-nlp/datasets-for-simcse": SIMCSE,
}
"""Id -> files: columns of a table with three rows, or the content."""

# datasets 3 leaves a file to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)


def write_repository(directory, files):
    """Write the files of a repository. Directories are configurations, unless there is only `data`."""
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, tuple):
            write_table(path, content)
        else:
            path.write_text(content)

    directories = {name.rpartition("/")[0] for name in files} - {"", "data"}
    if not directories:
        return

    lines = ["---", "configs:"]
    for name in sorted(directories):
        lines += [f"- config_name: {name}", "  data_files:"]
        lines += ["  - split: train", f"    path: {name}/train-*"]

    (directory / "README.md").write_text("\n".join([*lines, "---", ""]))


def write_table(path, columns):
    import pyarrow
    from pyarrow import parquet

    values = {}
    for column in columns:
        values[column] = [f"{path.stem} {column} {row}" for row in range(3)]

    parquet.write_table(pyarrow.table(values), path)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The directory from which the hub's libraries read repositories: `OWNER/NAME/`."""
    datasets = pytest.importorskip("datasets")
    huggingface_hub = pytest.importorskip("huggingface_hub")
    root = tmp_path / "hub"
    load_dataset = datasets.load_dataset

    def load(repository, revision, **options):
        return load_dataset(str(root / repository), **options)

    def download(repository, file, repo_type, revision):
        assert repo_type == "dataset"
        return str((root / repository / file).resolve(strict=True))

    monkeypatch.setattr(datasets, "load_dataset", load)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    return root


def read(table):
    """Return the number of rows of a source, given by its table in a recipe, and the first row."""
    fields = dict(table)
    rows = SOURCES[fields.pop("use")](**fields).open()
    first = {}
    for name, (value,) in rows.rows([0]).items():
        first[name] = value

    return len(rows), first


def hub_sources():
    """Return the data tables with a location of the hub in recipes and their comments, by their text."""
    sources = {}
    for file in sorted(RECIPES.rglob("*.toml")):
        for text in INLINE_TABLE.findall(file.read_text()):
            sources[text] = tomllib.loads(f"data = {text}")["data"]

    return sources


def test_each_data_set_of_the_recipes_is_here():
    repositories = set()
    for source in hub_sources().values():
        owner, name, *_ = source["path"].removeprefix("hub:").split("/")
        repositories.add(f"{owner}/{name}")

    assert repositories == set(REPOSITORIES)


@pytest.mark.slow
def test_the_data_sets_of_the_recipes_are_read_in_their_layout_on_the_hub(hub):
    for name, files in REPOSITORIES.items():
        write_repository(hub / name, files)

    actual = {}
    for source in hub_sources().values():
        actual[source["path"]] = read(source)

    triplet = {
        "anchor": "train-00000-of-00001 anchor 0",
        "positive": "train-00000-of-00001 positive 0",
        "negative": "train-00000-of-00001 negative 0",
    }

    assert actual["hub:sentence-transformers/all-nli"] == (3, triplet)

    question = {
        "anchor": "train-00000-of-00002 question 0",
        "positive": "train-00000-of-00002 answer 0",
    }

    assert actual["hub:sentence-transformers/gooaq"] == (6, question)

    # Sentences that follow each other: one row fewer than the nine sentences of three files.
    books, _ = actual["hub:rojagtap/bookcorpus"]

    assert books == 8

    wikipedia = "hub:princeton-nlp/datasets-for-simcse/wiki1m_for_simcse.txt"
    sentence = {"anchor": "The first sentence.", "positive": "The first sentence."}

    assert actual[wikipedia] == (2, sentence)
