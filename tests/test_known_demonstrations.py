"""The demonstrations of PromptEOL are downloaded, or made of data that is there."""

from __future__ import annotations

import csv
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import attrs
import pytest
import sentbed
from sentbed import DataError
from sentbed.tools import Prompt, load_plugins
from sentbed_data.find_collections import (
    KNOWN,
    MISSING,
    PRESENT,
    collections,
    inspect_collection,
)
from sentbed_data.get_collection import get_missing_files
from sentbed_evaluators.classifier_training import Classifier
from sentbed_evaluators.transfer import part_of, read_tasks
from sentbed_poolers.prompt_eol import PromptEOL
from sentbed_studies.demonstration_candidates import PUBLISHED, read_candidates

RECIPE = """\
schema = 1
[run]
name = "search"
[runtime]
use = "cpu"
[encoder]
backbone = {{ use = "opt", init = "random" }}
pooler = {{ use = "prompt-eol" }}
[search]
candidates = "{candidates}"
with = {{ use = "sts", path = "pkg:sentbed_data/sample/sts-dev.tsv", split = "dev" }}
[[evaluate]]
use = "sts"
path = "pkg:sentbed_data/sample/sts-test.tsv"
"""


def unseen(what, done, total):
    """Show no progress."""


@pytest.fixture
def data_collections():
    return dict(collections(load_plugins()))


@pytest.fixture
def reviews(tmp_path):
    """Return a data directory with MR in SentEval's sizes."""
    folder = tmp_path / "senteval" / "downstream" / "MR"
    folder.mkdir(parents=True)
    for name, word in (("rt-polarity.pos", "good"), ("rt-polarity.neg", "bad")):
        lines = [
            f'a {word} "film" number {i} {"very " * (i % 7)}.' for i in range(5331)
        ]
        (folder / name).write_text("\n".join(lines) + "\n", "latin-1")
    return tmp_path


@pytest.mark.parametrize(
    ("candidates", "command"),
    [
        (
            "data:icl/demonstrations_300.txt",
            "`sentbed data get prompteol-demonstrations` downloads it",
        ),
        (
            "data:icl/demonstrations_stsb.tsv",
            "`sentbed data get prompteol-stsb-demonstrations` makes it",
        ),
        ("data:icl/mr_labels.tsv", "`sentbed data get prompteol-label-pairs` makes it"),
    ],
)
def test_a_search_without_its_candidates_says_how_to_get_them(
    candidates, command, tmp_path, monkeypatch
):
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    file = tmp_path / "search.toml"
    file.write_text(RECIPE.format(candidates=candidates), "utf-8")
    with pytest.raises(sentbed.RecipeError) as caught:
        sentbed.load_recipe(file)
    (problem,) = caught.value.problems
    assert f"`{candidates}` does not exist" in problem.message
    assert problem.message.endswith(f"; {command}")


def test_a_search_without_a_file_that_nobody_knows_says_only_that(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    file = tmp_path / "search.toml"
    file.write_text(RECIPE.format(candidates="data:icl/mine.tsv"), "utf-8")
    with pytest.raises(sentbed.RecipeError) as caught:
        sentbed.load_recipe(file)
    assert "sentbed data get" not in str(caught.value)


def test_label_pairs_are_of_the_training_part_of_mr(reviews, data_collections):
    pairs = data_collections["prompteol-label-pairs"]
    assert inspect_collection(pairs, reviews).state == MISSING
    assert get_missing_files(pairs, reviews, unseen).state == PRESENT
    file = reviews / "icl" / "mr_labels.tsv"
    content = file.read_bytes()
    header, *rows = [line.split("\t") for line in content.decode().splitlines()]
    assert header == ["sentence", "word", "sentence", "word"]
    assert len(rows) == 300
    assert {(row[1], row[3]) for row in rows} == {("Positive", "Negative")}
    assert all(
        row[0].startswith("a good 'film'") and row[2].startswith("a bad 'film'")
        for row in rows
    )
    assert len({row[0] for row in rows}) > 280

    (task,) = read_tasks(["MR"], str(reviews))
    held_out = part_of(task, "held-out", Classifier()).splits["test"].sentences[0]
    assert len(held_out) == 1067
    assert not {sentence.replace('"', "'") for sentence in held_out} & {
        row[i] for row in rows for i in (0, 2)
    }

    file.unlink()
    get_missing_files(pairs, reviews, unseen)
    assert file.read_bytes() == content
    assert len(read_candidates(str(file), Prompt("prompt-eol"), PromptEOL())) == 300


def test_sentences_of_another_sts_b_are_refused_with_their_row(
    tmp_path, data_collections
):
    file = tmp_path / "glue" / "STS-B" / "train.tsv"
    file.parent.mkdir(parents=True)
    row = "\t".join([*("0",) * 7, "A sentence of something else.", "Another.", "5.0"])
    file.write_text("\n".join(["header", *[row] * 5749]) + "\n", "utf-8")
    with pytest.raises(
        DataError,
        match="row 5587 does not have the sentence of demonstration 1; take GLUE",
    ) as caught:
        get_missing_files(
            data_collections["prompteol-stsb-demonstrations"], tmp_path, unseen
        )
    assert str(caught.value).endswith(f"@ {file}:5589")


def test_without_sts_b_the_message_says_how_to_get_it(tmp_path, data_collections):
    with pytest.raises(
        DataError,
        match=r"has no `glue/STS-B/train\.tsv`.*`sentbed data get glue` downloads it",
    ):
        get_missing_files(
            data_collections["prompteol-stsb-demonstrations"], tmp_path, unseen
        )


def test_the_demonstrations_of_sts_b_are_the_first_of_the_authors_file(
    tmp_path, data_directory, data_collections
):
    (tmp_path / "glue").symlink_to(data_directory / "glue")
    assert (
        get_missing_files(
            data_collections["prompteol-stsb-demonstrations"], tmp_path, unseen
        ).state
        == PRESENT
    )
    candidates = read_candidates(
        str(tmp_path / "icl" / "demonstrations_stsb.tsv"),
        Prompt("prompt-eol"),
        PromptEOL(),
    )
    authors = read_candidates(
        str(data_directory / "icl" / "demonstrations_300.txt"),
        Prompt("prompt-eol"),
        PromptEOL(),
    )
    assert candidates == authors[:99]


@pytest.fixture
def replica(data_directory):
    """Return the address of a server that has the authors' file."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(data_directory / "icl"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_authors_file_is_downloaded_and_gives_300_candidates(
    tmp_path, replica, capfd
):
    (file,) = PUBLISHED.files
    local = attrs.evolve(
        PUBLISHED, files=(attrs.evolve(file, url=f"{replica}/{file.path}"),)
    )
    assert get_missing_files(local, tmp_path, unseen).state == KNOWN
    candidates = read_candidates(
        str(tmp_path / "icl" / file.path), Prompt("prompt-eol"), PromptEOL()
    )
    assert len({candidate.demonstration for candidate in candidates}) == 300


def test_the_table_of_rows_has_no_sentence():
    path = Path(sentbed.locate("pkg:sentbed_studies/stsb_demonstrations.tsv"))
    with path.open(encoding="utf-8", newline="") as file:
        facts = list(csv.DictReader(file, delimiter="\t"))
    assert [int(fact["number"]) for fact in facts] == list(range(1, 100))
    assert all(len(fact["word"].split()) == 1 for fact in facts)
    assert len({fact["row"] for fact in facts}) == 99
