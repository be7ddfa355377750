from __future__ import annotations

import json
import random
import shutil
import tomllib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import toy_plugin
from click.testing import CliRunner
from sentbed import Encoder, __version__, build_encoder
from sentbed._cli import main as cli
from sentbed.protocols import TextTask
from sentbed_corpus import hard_negatives

NAMED = ("--data", "table", "--set", "path=pairs.tsv")


@pytest.fixture
def mine(encoder, tmp_path, monkeypatch):
    """Run `sentbed mine` with an encoder of the toy plugin, which is told to run on its runtime."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, data=(*NAMED, "--set", "runtime.use=toy")):
        options = " ".join(arguments).split()
        return CliRunner().invoke(
            cli.main, ["mine", "encoder", "--output", "out.jsonl", *data, *options]
        )

    return run


def words(count):
    """Different words, which differ in their letters too: the toy encoder sees no order."""
    generator = random.Random(0)
    words_by_letters = {}
    while len(words_by_letters) < count:
        letters = generator.choices("abcdefghijklmnopqrstuvwxyz", k=6)
        words_by_letters.setdefault("".join(sorted(letters)), "".join(letters))
    return list(words_by_letters.values())


def pairs_file(put, rows):
    lines = ["anchor\tpositive\n"]
    for anchor, positive in rows:
        lines.append(f"{anchor}\t{positive}\n")
    put("pairs.tsv", "".join(lines))


def mined_rows(path="out.jsonl"):
    rows = []
    for line in Path(path).read_text("utf-8").splitlines():
        rows.append(list(json.loads(line).values()))
    return rows


def cosines(texts):
    """Pair of texts -> cosine of their vectors."""
    vectors = Encoder.load("encoder", {"use": "toy"}).encode(texts).astype(float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    table = {}
    for a, x in zip(texts, vectors, strict=True):
        for b, y in zip(texts, vectors, strict=True):
            table[a, b] = float(x @ y)
    return table


def nearest_of(anchor, candidates, near):
    """The candidates, the nearest first."""
    return sorted(candidates, key=lambda candidate: -near[anchor, candidate])


@pytest.mark.parametrize("window", [4, 7, 1000])
def test_every_row_gets_the_nearest_positives_of_other_rows_whatever_the_blocks(
    window, mine, put, monkeypatch
):
    texts = words(42)
    rows = list(zip(texts[:21], texts[21:], strict=True))
    pairs_file(put, rows)
    monkeypatch.setattr(hard_negatives, "ANCHOR_BLOCK", window)
    result = mine("--negatives 3 --range-min 2 --max-score 0.9")

    assert (result.exit_code, result.stderr) == (
        0,
        "out.jsonl: 21 rows; out.jsonl.json says how they were mined\n",
    )

    near = cosines(texts)
    for (anchor, positive), mined in zip(rows, mined_rows(), strict=True):
        others = [candidate for _, candidate in rows if candidate != positive]
        expected = []
        for candidate in nearest_of(anchor, others, near)[2:]:
            if near[anchor, candidate] <= 0.9:
                expected.append(candidate)
        assert mined == [anchor, positive, *expected[:3]]
    first = json.loads(Path("out.jsonl").read_text("utf-8").splitlines()[0])
    assert [*first] == ["anchor", "positive", "negative", "negative_2", "negative_3"]


def test_a_printed_line_is_the_data_of_a_stage_whatever_the_name_of_the_output(
    mine, put
):
    pairs_file(put, list(pairwise(words(10))))
    table = {
        "use": "triplets",
        "path": 'a"b.jsonl',
        "anchor": "anchor",
        "positive": "positive",
        "negative": "negative",
    }

    assert tomllib.loads(mine('--output a"b.jsonl').stdout) == {"data": table}

    two = tomllib.loads(mine("--negatives 2").stdout)
    assert two["data"]["negative"] == ["negative", "negative_2"]


def test_neither_the_anchor_nor_any_of_its_positives_is_a_negative(mine, put):
    """Equal anchors share their positives; an anchor is another row's positive; a positive comes twice."""
    a, b, c, d, e = words(5)
    rows = [(a, b), (c, d), (a, d), (e, a), (c, d), (e, b)]
    pairs_file(put, rows)

    assert mine("--negatives 1").exit_code == 0

    allowed = {a: set(), c: {a, b}, e: {d}}
    # The candidates are a, b and d, of which the anchor a may have none.
    others = [list(row) for row in rows if row[0] != a]
    mined = mined_rows()
    assert [row[:2] for row in mined] == others
    for row in mined:
        assert row[2] in allowed[row[0]]

    record = json.loads(Path("out.jsonl.json").read_bytes())
    assert record["left_out"]["rows"] == 2
    assert (record["anchors"], record["candidates"]) == (3, 3)


def test_a_corpus_adds_candidates_or_takes_the_place_of_the_positives(mine, put):
    texts = words(60)
    rows = list(zip(texts[:10], texts[10:20], strict=True))
    corpus = texts[20:]
    pairs_file(put, rows)
    lines = [*corpus[:20], "", "  ", corpus[0], rows[0][1]]
    put("more/one.txt", "\n".join(lines) + "\n")
    objects = []
    for text in corpus[20:]:
        objects.append(json.dumps({"body": text}))
    put("more/two.jsonl", "\n".join(objects) + "\n")
    near = cosines(texts)
    paths = "--corpus more/one.txt --corpus more/two.jsonl --column body"
    cases = [
        ("", {*corpus, *texts[10:20]}),
        ("--corpus-only", {*corpus, rows[0][1]}),
    ]
    for option, candidates in cases:
        result = mine("--negatives 2 --overwrite", paths, option)
        assert result.exit_code == 0, result.stderr
        for (anchor, positive), mined in zip(rows, mined_rows(), strict=True):
            ranked = nearest_of(anchor, candidates - {positive}, near)
            assert mined == [anchor, positive, *ranked[:2]]
        record = json.loads(Path("out.jsonl.json").read_bytes())
        assert record["candidates"] == len(candidates)
        assert record["corpus"]["texts"] == 42


def test_the_record_says_how_the_negatives_were_mined(mine, put):
    texts = words(40)
    pairs_file(put, list(zip(texts[:20], texts[20:], strict=True)))
    rules = "--negatives 2 --relative-margin 0.1 --sampling random --seed"

    assert mine(rules, "3").exit_code == 0

    content = Path("out.jsonl").read_bytes()
    record = json.loads(Path("out.jsonl.json").read_bytes())
    assert record["version"] == __version__
    assert record["rows"] == len(mined_rows())
    assert record["rules"] == {
        "negatives": 2,
        "range_min": 0,
        "range_max": 100,
        "absolute_margin": None,
        "relative_margin": 0.1,
        "max_score": None,
        "min_score": None,
        "sampling": "random",
        "seed": 3,
    }
    assert record["data"]["source"]["use"] == "table"
    assert (record["data"]["rows"], len(record["data"]["fingerprint"])) == (20, 64)
    assert (record["encoder"]["width"], record["encoder"]["pooler"]["test"]) == (
        4,
        "average",
    )

    near = cosines(texts)
    left_out = 0
    for anchor, positive in zip(texts[:20], texts[20:], strict=True):
        of_positive = near[anchor, positive]
        limit = of_positive - 0.1 * abs(of_positive)
        for candidate in texts[20:]:
            if candidate != positive and near[anchor, candidate] > limit:
                left_out += 1
    assert record["left_out"]["candidates"] == {"relative_margin": left_out}
    # The same command gives the same bytes.
    assert mine(rules, "3 --overwrite").exit_code == 0
    assert Path("out.jsonl").read_bytes() == content
    assert mine(rules, "4 --overwrite").exit_code == 0
    assert Path("out.jsonl").read_bytes() != content


@pytest.mark.sweep(8)
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("--negatives 6", 1, "none of the 6 rows has 6 negative(s) left; loosen"),
        (
            "--set columns=['anchor','other']",
            1,
            "`table` has no column `positive`, it has `anchor`, `other`",
        ),
        ("--set pfad=x", 2, "@ --set data.pfad"),
        ("--data tabel", 2, "Did you mean `table`?"),
        (
            "--output out.csv",
            1,
            "`out.csv` ends in '.csv', expected a `.jsonl` file",
        ),
        (
            "--output old.jsonl",
            1,
            "`old.jsonl` exists; choose another place, or replace a file with `--overwrite`",
        ),
        ("--corpus-only", 1, "`--corpus-only` needs a corpus"),
        (
            "--corpus blank.txt --corpus-only",
            1,
            "every text of the corpus is blank",
        ),
        ("--range-min 100", 1, "no room for 1 negatives"),
        ("--instruction Find.", 2, "`--instruction` stands in a prompt: name it"),
    ],
)
def test_faults_end_in_a_sentence_and_leave_nothing(
    arguments,
    code,
    message,
    mine,
    put,
    tmp_path,
):
    texts = words(12)
    pairs_file(put, list(zip(texts[:6], texts[6:], strict=True)))
    put("old.jsonl", "mine\n")
    put("blank.txt", "\n \n")
    before = sorted(path.name for path in tmp_path.iterdir())
    result = mine(arguments)

    assert (result.exit_code, message in result.stderr) == (code, True), result.stderr
    assert "Traceback" not in result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert Path("old.jsonl").read_text() == "mine\n"


def test_texts_that_change_from_epoch_to_epoch_are_refused(mine, put, monkeypatch):
    pairs_file(put, list(pairwise(words(10))))
    monkeypatch.setattr(toy_plugin.ToyDataset, "varies", True)
    result = mine()
    assert result.exit_code == 1
    assert "the texts of `table` change from epoch to epoch" in result.stderr


def test_data_without_rows_are_refused(mine, put):
    pairs_file(put, [])
    result = mine()
    assert result.exit_code == 1
    assert "`table` has no rows; name data with pairs of texts" in result.stderr


def test_a_row_without_negatives_is_left_out(mine, put):
    a, b, c, d = words(4)
    pairs_file(put, [(a, b), (c, d), (c, b)])
    assert mine().stderr.startswith(
        "out.jsonl: 1 rows, 2 left out for want of negatives;"
    )
    assert len(mined_rows()) == 1


def test_a_vector_of_zeros_is_named(mine, put):
    encoder = Encoder.load("encoder", {"use": "toy"})
    encoder.backbone.embedding[:] = 0
    encoder.save("encoder")
    pairs_file(put, [("one", "two"), ("three", "four")])
    result = mine()

    assert (result.exit_code, "the vector of 'two' is zero" in result.stderr) == (
        1,
        True,
    )


def test_options_have_the_defaults_of_the_rules():
    from sentbed_corpus import Rules
    from sentbed_corpus.mine_command import mine as command

    defaults = {option.name or "": option.default for option in command.params}
    for name in ("negatives", "range_min", "range_max", "sampling", "seed"):
        assert defaults[name] == getattr(Rules(), name)


def test_anchors_and_candidates_have_the_prompts_that_are_asked_for(
    mine, put, recipe_of
):
    prompts = (
        'task_prompts = { query = { template = "qq{text}" }, '
        'document = { template = "zzz{text}" } }'
    )
    encoder = build_encoder(
        recipe_of(toy_plugin.RECIPE.replace("pooler", f"{prompts}\npooler", 1))
    )
    shutil.rmtree("encoder")
    encoder.save("encoder")
    texts = words(20)
    rows = list(zip(texts[:10], texts[10:], strict=True))
    pairs_file(put, rows)
    result = mine("--anchor-prompt query --candidate-prompt document")

    assert result.exit_code == 0, result.stderr

    def unit(texts, task):
        vectors = encoder.for_task(task).encode(texts).astype(float)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    anchors, positives = texts[:10], texts[10:]
    cosines = (
        unit(anchors, TextTask(side="query"))
        @ unit(positives, TextTask(side="document")).T
    )
    np.fill_diagonal(cosines, -2)
    nearest = [positives[place] for place in cosines.argmax(axis=1)]
    assert [row[2] for row in mined_rows()] == nearest

    record = json.loads(Path("out.jsonl.json").read_text())
    assert record["encoder"]["prompts"] == {
        "anchor": "query",
        "candidates": "document",
        "instruction": "",
    }

    refused = mine("--overwrite --anchor-prompt anchors")
    assert "the encoder has no prompt `anchors`." in refused.stderr
