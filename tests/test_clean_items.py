"""Items that training texts have, from a recipe to the report of a run and the comparison of a study."""

from __future__ import annotations

import json
import random
import re
from importlib import resources

import pytest
import sentbed
from click.testing import CliRunner
from sentbed._cli.main import main

SAMPLE = resources.files("sentbed_data") / "sample" / "sts-test.tsv"
PAIRS = 60
FIRST, CUT, BOTH = range(6), range(6, 12), range(12, 15)
"""Pairs of which training texts have the first sentence, eight of nine words of the second one, and both."""
SEEN = 15

RECIPE = """
schema = 1
[run]
name = "clean"
[runtime]
use = "cpu"
threads = 1
[encoder]
max_length = 32
backbone = {{ use = "bert", init = "random", size = "tiny", vocab_size = 512 }}
pooler = {{ use = "mean" }}
{tables}
[[stage]]
name = "one-step"
data = {{ use = "sample" }}
loss = {{ use = "info-nce" }}
optimizer = {{ use = "adamw", lr = 1e-4 }}
schedule = {{ use = "constant" }}
batch_size = 8
steps = 1
[[evaluate]]
use = "sts"
path = "pairs.tsv"
"""
CLEAN = '[clean]\ntraining = ["training.txt"]\n'


def sentence(pair, side):
    """Nine words of the sample, whose tokenizer knows them; no two sentences share many in order."""
    words = sorted(set(re.findall("[a-z]+", SAMPLE.read_text("utf-8").lower())))
    return " ".join(random.Random(f"{pair}{side}").choices(words, k=9))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Directory with the items of an evaluation and with training texts."""
    place = tmp_path_factory.mktemp("place")
    lines = ["sentence1\tsentence2\tscore"]
    for pair in range(PAIRS):
        lines.append(f"{sentence(pair, 'a')}\t{sentence(pair, 'b')}\t{pair % 6}")
    (place / "pairs.tsv").write_text("\n".join(lines) + "\n")
    training = [f"nothing of it {number}" for number in range(50)]
    training += [sentence(pair, "a").upper() + "!" for pair in (*FIRST, *BOTH)]
    training += [sentence(pair, "b") for pair in BOTH]
    for pair in CUT:
        training.append(f"zebra {sentence(pair, 'b').partition(' ')[2]}")
    (place / "training.txt").write_text("\n".join(training) + "\n")
    return place


@pytest.fixture(scope="module")
def result(place):
    """A run whose report has a section on clean items."""
    return sentbed.run(load(place, CLEAN), place / "run")


def write(place, tables):
    recipe = place / "recipe.toml"
    recipe.write_text(RECIPE.format(tables=tables))
    return recipe


def load(place, tables):
    return sentbed.load_recipe(write(place, tables))


def overlap(*arguments):
    """Return the rows that the command prints as JSON."""
    ended = CliRunner().invoke(main, ["overlap", "--json", *map(str, arguments)])
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.output)


def test_the_report_of_a_run_has_the_score_on_clean_items(place, result):
    record = json.loads((result.directory / "report.json").read_text("utf-8"))
    section = record["sections"]["clean"]
    rows = [dict(zip(section["columns"], row, strict=True)) for row in section["rows"]]

    assert [row["metric"] for row in rows] == ["spearman", "pearson"]

    for row in rows:
        assert row["items"] == PAIRS
        assert row["seen"] == SEEN
        assert row["from"] < row["difference"] < row["to"]
        assert row["difference"] == pytest.approx(
            row["on clean items"] - row["score"], abs=0.02
        )

    assert "training texts were read, of training.txt, sample" in section["note"]
    assert "on clean items" in (result.directory / "report.html").read_text("utf-8")

    without = sentbed.run(load(place, ""), place / "without")

    assert [score.value for score in without.scores] == [
        score.value for score in result.scores
    ]
    # A run that knew nothing of training texts is counted later.
    later = overlap(without.directory, "--training", place / "training.txt")

    assert len(later) == 2
    assert later[0]["seen"]["mean"] == SEEN
    assert later[0]["on clean items"]["mean"] == pytest.approx(
        rows[0]["on clean items"], abs=0.01
    )


def test_a_command_without_training_texts_is_refused_and_calls_nothing_clean(
    place, tmp_path
):
    recipe = write(place, "")
    document, _, _ = recipe.read_text("utf-8").partition("[[stage]]")
    evaluation = '[[evaluate]]\nuse = "sts"\npath = "pairs.tsv"\n'
    recipe.write_text(f"{document}{evaluation}")
    run = sentbed.run(sentbed.load_recipe(recipe), tmp_path / "untrained")
    ended = CliRunner().invoke(main, ["overlap", "--json", str(run.directory)])
    assert ended.exit_code != 0
    assert "there are no training texts to search" in ended.output
