"""Data of the hub, read from a local server: the data sets of the recipes, and what goes wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from dataset_hub import serving
from dataset_replicas import REPLICAS, Replica, Table

RECIPES = Path(__file__).parents[3] / "recipes"
INLINE_TABLE = re.compile(r"\{[^{}]*\"hub:[^{}]*\}")

CLIENT = """
import json, sys
from sentbed import DataError
from sentbed_data.dropout import Dropout
from sentbed_data.nsp import Nsp
from sentbed_data.pairs import Pairs
from sentbed_data.triplets import Triplets

sources = {source.name: source for source in (Dropout, Nsp, Pairs, Triplets)}
for table in json.loads(sys.argv[1]):
    source = sources[table.pop("use")]
    try:
        rows = source(**table).open()
        print(json.dumps({"rows": len(rows), "first": rows.rows([0])}))
    except DataError as error:
        print(json.dumps({"error": str(error)}))
"""


@pytest.fixture
def hub():
    with serving() as hub:
        yield hub


@pytest.fixture
def add(hub, tmp_path):
    """Write a replica and serve it, at a revision."""

    def write(dataset, replica, revision="main"):
        directory = tmp_path / "repositories" / revision / dataset
        directory.mkdir(parents=True)
        replica.write(directory)
        hub.add(dataset, directory, revision)

    return write


@pytest.fixture
def read(hub, tmp_path):
    """Read the first row of each source, in a process whose hub is the local one, or say what is wrong."""

    def run(*sources, **environment):
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("HF_", "HUGGING"))
        }
        kept |= {
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(tmp_path / "home"),
            "HF_HUB_DISABLE_XET": "1",
        }
        kept |= {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, json.dumps(sources)],
            env={**kept, **environment},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def errors(answers):
    """Return the errors of answers, all of which have one."""
    return [answer["error"] for answer in answers]


def hub_sources():
    """Return the data tables with a location of the hub in recipes and their comments, by their text."""
    sources = {}
    for file in sorted(RECIPES.rglob("*.toml")):
        for text in INLINE_TABLE.findall(file.read_text()):
            sources[text] = tomllib.loads(f"data = {text}")["data"]
    return sources


def test_each_data_set_of_the_recipes_has_a_replica():
    paths = [source["path"].removeprefix("hub:") for source in hub_sources().values()]
    assert {"/".join(path.split("/")[:2]) for path in paths} == set(REPLICAS)


@pytest.mark.slow
def test_the_data_sets_of_the_recipes_are_read_in_their_layout_on_the_hub(add, read):
    for dataset, replica in REPLICAS.items():
        add(dataset, replica)
    sources = hub_sources()
    answers = dict(zip(sources, read(*sources.values()), strict=True))
    for text, answer in answers.items():
        assert "error" not in answer, (text, answer)
    first = {source["path"]: answers[text]["first"] for text, source in sources.items()}
    rows = {source["path"]: answers[text]["rows"] for text, source in sources.items()}
    assert first["hub:sentence-transformers/all-nli"] == {
        column: [f"train-00000-of-00001 {column} 0"]
        for column in ("anchor", "positive", "negative")
    }
    assert first["hub:sentence-transformers/gooaq"] == {
        "anchor": ["train-00000-of-00002 question 0"],
        "positive": ["train-00000-of-00002 answer 0"],
    }
    assert rows["hub:sentence-transformers/gooaq"] == 6
    # Sentences that follow each other: one row fewer than the nine sentences of three files.
    assert rows["hub:rojagtap/bookcorpus"] == 8
    wiki = "hub:princeton-nlp/datasets-for-simcse/wiki1m_for_simcse.txt"
    assert first[wiki] == {
        "anchor": ["The first sentence."],
        "positive": ["The first sentence."],
    }
    assert rows[wiki] == 2


JSON_LINES = '{"anchor": "a", "positive": "b"}\n{"anchor": "c", "positive": "d"}\n'


@pytest.mark.slow
def test_every_format_is_read_as_a_data_set_and_as_a_file(add, read):
    files = {
        "pairs.jsonl": JSON_LINES,
        "pairs.jsonl.gz": JSON_LINES,
        "pairs.csv": "anchor,positive\na,b\nc,d\n",
        "pairs.csv.gz": "anchor,positive\na,b\nc,d\n",
        "pairs.tsv": "anchor\tpositive\na\tb\nc\td\n",
    }
    locations = []
    for number, (name, text) in enumerate(files.items()):
        add(f"acme/set-{number}", Replica("made up", texts={name: text}))
        locations += [f"hub:acme/set-{number}", f"hub:acme/set-{number}/{name}"]
    answers = read(*({"use": "pairs", "path": location} for location in locations))
    expected = {"rows": 2, "first": {"anchor": ["a"], "positive": ["b"]}}
    assert dict(zip(locations, answers, strict=True)) == dict.fromkeys(
        locations, expected
    )


@pytest.mark.slow
def test_a_file_is_streamed_and_split_into_documents_as_one_here(add, read, tmp_path):
    texts = {
        "books/a.txt": "One.\nTwo.\n\nThree.\n",
        "pairs.tsv": "anchor\tpositive\na\tb\n",
    }
    add("acme/set", Replica("made up", texts=texts))
    sentences, pairs = read(
        {"use": "nsp", "path": "hub:acme/set/books/a.txt"},
        {"use": "pairs", "path": "hub:acme/set/pairs.tsv", "stream": True},
        SENTBED_CACHE=str(tmp_path / "cache"),
    )
    assert sentences == {"rows": 1, "first": {"anchor": ["One."], "positive": ["Two."]}}
    assert pairs == {"rows": 1, "first": {"anchor": ["a"], "positive": ["b"]}}


@pytest.mark.slow
def test_the_conversion_to_parquet_is_read_where_a_data_set_is_a_program(add, read):
    add(
        "acme/books",
        Replica("made up", texts={"books.py": "", "README.md": "# Books\n"}),
    )
    converted = Replica(
        "made up", tables=(Table("plain/train/0000.parquet", ("text",)),)
    )
    add("acme/books", converted, "refs/convert/parquet")
    source = {"use": "dropout", "path": "hub:acme/books"}
    refused, default, chosen = read(
        source,
        {**source, "revision": "refs/convert/parquet"},
        {**source, "revision": "refs/convert/parquet", "config": "plain"},
    )
    assert refused["error"].startswith(
        "`acme/books` is a program (`books.py`), which version 4 and later of `datasets` does not run; "
        '`revision = "refs/convert/parquet"` reads'
    )
    assert "network" not in refused["error"]
    assert default == chosen
    assert chosen["rows"] == 3


@pytest.mark.slow
def test_an_error_says_what_a_data_set_has(add, read):
    add("acme/nli", REPLICAS["sentence-transformers/all-nli"])
    add("acme/simcse", REPLICAS["princeton-nlp/datasets-for-simcse"])
    add(
        "acme/broken",
        Replica("made up", texts={"a.jsonl.gz": '{"text": "a"}\n{"text": "b"\n'}),
    )
    add("acme/empty", Replica("made up", texts={"README.md": "# Nothing\n"}))
    nli = {"use": "dropout", "path": "hub:acme/nli"}
    messages = errors(
        read(
            nli,
            {**nli, "config": "pears"},
            {**nli, "config": "pair", "split": "validation"},
            {**nli, "config": "pair", "revision": "v9"},
            {"use": "dropout", "path": "hub:acme/simcse"},
            {"use": "dropout", "path": "hub:acme/simcse/wiki.txt"},
            {"use": "dropout", "path": "hub:acme/broken"},
            {"use": "dropout", "path": "hub:acme/broken/a.jsonl.gz"},
            {"use": "dropout", "path": "hub:acme/empty"},
        )
    )
    (
        no_config,
        wrong_config,
        wrong_split,
        wrong_revision,
        ambiguous,
        no_file,
        broken,
        line,
        empty,
    ) = messages
    assert (
        "['pair', 'pair-class', 'pair-score', 'triplet']; set `config` to one of these"
        in no_config
    )
    assert wrong_config.startswith(
        "BuilderConfig 'pears' not found. Available: ['pair', "
    )
    assert (
        "Should be one of ['train', 'dev', 'test']; set `split` to one of these"
        in wrong_split
    )
    assert wrong_revision.startswith(
        "the hub gives no dataset `acme/nli` at revision `v9`: Revision 'v9' doesn't exist for dataset "
    )
    files = "`nli_for_simcse.csv`, `senteval.tar`, `wiki1m_for_simcse.txt`"
    assert ambiguous.startswith(
        "there is no column `text`; found `sent0`, `sent1`, `hard_neg`; "
    )
    assert (
        f"the data set has {files}, of which only those of one format are read; "
        in ambiguous
    )
    assert "name the file, as in `hub:acme/simcse/wiki1m_for_simcse.txt`" in ambiguous
    assert no_file.startswith(
        f"the hub's `acme/simcse` has no file `wiki.txt`; it has {files}; "
    )
    # The cause, which `datasets` wraps into an error without words.
    assert broken.startswith(
        "the data set `acme/broken` cannot be read: ArrowInvalid: JSON parse error: "
    )
    assert "`hub:acme/broken/a.jsonl.gz` reads one of them line by line" in broken
    assert line.startswith("the line is not valid JSON (")
    assert line.endswith("/a.jsonl.gz:2")
    assert empty.startswith(
        "`acme/empty` has no files that `datasets` reads; it has `README.md`"
    )


@pytest.mark.slow
def test_the_hub_gives_nothing_in_the_words_of_its_library(hub, add, read):
    add("acme/set", Replica("made up", texts={"a.csv": "text\na\n"}))
    add("acme/closed", Replica("made up", texts={"a.csv": "text\na\n"}))
    hub.gated.add("acme/closed")
    for form in ("", "/a.csv"):
        missing, gated = errors(
            read(
                {"use": "dropout", "path": f"hub:acme/missing{form}"},
                {"use": "dropout", "path": f"hub:acme/closed{form}"},
            )
        )
        assert missing.startswith(
            "the hub gives no dataset `acme/missing`: 404 Client Error. Repository Not Found "
        )
        assert gated.startswith(
            "the hub gives no dataset `acme/closed`: 401 Client Error. "
        )
    sources = [
        {"use": "dropout", "path": f"hub:acme/set{form}"} for form in ("", "/a.csv")
    ]
    whole, file = errors(read(*sources, HF_HUB_OFFLINE="1"))
    assert whole.startswith(
        "`acme/set` is not in the cache of this machine, and `HF_HUB_OFFLINE` is set; unset it, or read "
    )
    assert file.startswith(
        "the hub gives no dataset `acme/set`: An error happened while trying "
    )
    hub.dropped.add("a.csv")
    (dropped,) = errors(read(sources[1]))
    assert dropped.startswith("the hub gives no dataset `acme/set`: ")
    hub.dropped.clear()
    fetched = read(*sources)
    assert fetched == [{"rows": 1, "first": {"anchor": ["a"], "positive": ["a"]}}] * 2
    request_count = len(hub.requests)
    assert read(*sources, HF_HUB_OFFLINE="1") == fetched
    assert len(hub.requests) == request_count


@pytest.mark.slow
def test_a_hub_that_cannot_be_reached_is_said(read):
    # Port 9 discards what it is sent, where anything listens there at all.
    (error,) = errors(
        read(
            {"use": "dropout", "path": "hub:acme/set/a.csv"},
            HF_ENDPOINT="http://127.0.0.1:9",
        )
    )
    assert error.startswith("the hub gives no dataset `acme/set`: [Errno 111] ")
