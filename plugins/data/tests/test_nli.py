from __future__ import annotations

import json
from collections import Counter, defaultdict

import pytest
from sentbed import DataError
from sentbed.tools import Document, structure
from sentbed_data.nli import Nli

NAMES = ("sentence1", "sentence2", "gold_label")
ROWS = [
    ("p1", "p1 yes", "entailment"),
    ("p2", "p2 no", "contradiction"),
    ("p1", "p1 no", "contradiction"),
    ("p1", "p1 maybe", "neutral"),
    ("p1", "p1 unsure", "-"),
    ("p2", "p2 maybe", "neutral"),
    ("p3", "p3 yes", "entailment"),
]


def jsonl(rows, names):
    lines = []
    for row in rows:
        lines.append(json.dumps(dict(zip(names, row, strict=True))))
    return "\n".join(lines) + "\n"


@pytest.fixture
def path(put):
    return put("a.jsonl", jsonl(ROWS, NAMES))


def test_triplets_are_premises_that_have_both(path):
    source = Nli(path=path)
    table = source.open()
    assert source.columns == table.columns == ("anchor", "positive", "negative")
    assert table.rows([0]) == {
        "anchor": ["p1"],
        "positive": ["p1 yes"],
        "negative": ["p1 no"],
    }

    assert len(table) == 1
    assert table.left_out == {
        "rows without gold label": 1,
        "premises without entailment or contradiction": 2,
    }

    assert list(source.check()) == []


def test_pairs_are_all_entailments(path):
    source = Nli(path=path, build="pairs")
    table = source.open()
    assert source.columns == table.columns == ("anchor", "positive")
    assert table.rows([0, 1]) == {
        "anchor": ["p1", "p3"],
        "positive": ["p1 yes", "p3 yes"],
    }

    assert table.left_out == {
        "rows without gold label": 1,
        "rows that are no entailment": 4,
    }

    assert len(Nli(path=path, build="pairs", limit=1).open()) == 1


def test_labelled_rows_are_all_with_a_label(path):
    source = Nli(path=path, build="labelled")
    table = source.open()
    assert source.columns == table.columns == ("premise", "hypothesis", "label")
    rows = table.rows(range(6))
    labelled = list(zip(*rows.values(), strict=True))
    assert labelled == [*ROWS[:4], *ROWS[5:]]

    assert table.left_out == {"rows without gold label": 1}


def test_of_several_hypotheses_the_seed_chooses_one(put):
    rows = []
    for number in range(32):
        for label in ("entailment", "contradiction"):
            premise = f"p{number % 8}"
            rows.append((premise, f"{premise} {label} {number}", label))

    path = put("a.jsonl", jsonl(rows, NAMES))
    first, tables = set(), []
    for seed in range(40):
        table = Nli(path=path, seed=seed).open()
        for premise, yes, no in zip(*table.data.values(), strict=True):
            assert yes.startswith(f"{premise} entailment")
            assert no.startswith(f"{premise} contradiction")

        tables.append(table)
        first.add(table.data["positive"][0])

    assert len(first) == 4
    # A premise keeps its choice whatever else is in the file.
    last = [row for row in rows if row[0] == "p7"]
    fewer = Nli(path=put("b.jsonl", jsonl(last, NAMES)), seed=3).open()
    assert fewer.rows([0]) == tables[3].rows([7])


def test_premises_may_be_spread_over_files(put):
    entailments = put("a.tsv", "\ufeffPremise\tHypothesis\tLabel\np\tyes\tentailment\n")
    contradictions = put(
        "b.csv", 'label,text_b,id,text_a\ncontradiction,"no, never",1,p\n'
    )

    table = Nli(path=(entailments, contradictions)).open()
    assert table.rows([0]) == {
        "anchor": ["p"],
        "positive": ["yes"],
        "negative": ["no, never"],
    }


def test_columns_and_labels_may_be_named(put, tmp_path):
    rows = [
        ("p", "yes", 0),
        ("p", "no", 2),
        ("p", "unsure", -1),
    ]

    put("a.jsonl", jsonl(rows, ("a", "b", "c")))
    table = {
        "path": "a.jsonl",
        "premise": "a",
        "hypothesis": "b",
        "label": "c",
        "labels": {"0": "entailment", "1": "neutral", "2": "contradiction", "-1": "-"},
    }

    source = structure(Document.of(table), Nli, None, tmp_path)
    assert source.open().rows([0]) == {
        "anchor": ["p"],
        "positive": ["yes"],
        "negative": ["no"],
    }


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.tsv",
            "premise\thypothesis\tlabel\np\th\tyes\n",
            r"found the label 'yes'; .*a\.tsv:2$",
        ),
        (
            "a.jsonl",
            '{"premise": "p", "hypothesis": "h", "label": 0}\n',
            r"found the label 0; .*a\.jsonl:1$",
        ),
        (
            "a.tsv",
            "premise\ttext\tlabel\np\th\tneutral\n",
            r"no column `sentence2`, .*`premise`.*:1$",
        ),
        (
            "a.tsv",
            "premise\thypothesis\tlabel\np\t \tneutral\n",
            r"`hypothesis`: the text is empty.*a\.tsv:2$",
        ),
        (
            "a.jsonl",
            '{"premise": "p", "hypothesis": 3, "label": "-"}\n',
            r"`hypothesis`: found 3 .*a\.jsonl:1$",
        ),
        (
            "a.jsonl",
            '{"premise": "p", "hypothesis": "h", "label": "-"}\n',
            r"nothing is left.*1 rows without",
        ),
    ],
)
def test_a_faulty_file_is_refused_with_its_line(put, name, content, message):
    with pytest.raises(DataError, match=message):
        Nli(path=put(name, content)).open()


def test_snli_has_the_published_labels(real):
    path = real("nli/snli_subset_train.tsv")
    table = Nli(path=path, build="labelled").open()
    counts = Counter(table.data["label"])
    assert counts == {"neutral": 5899, "entailment": 6015, "contradiction": 6086}
    assert len(Nli(path=path, build="pairs").open()) == 6015
    labels = defaultdict(set)
    for premise, _, label in zip(*table.data.values(), strict=True):
        labels[premise].add(label)

    both = []
    for premise, of_premise in labels.items():
        if {"entailment", "contradiction"} <= of_premise:
            both.append(premise)

    assert Nli(path=path).open().data["anchor"] == both


def test_ocnli_gives_a_triplet_for_each_premise_of_the_derived_file(
    real,
):
    from sentbed_data.triplets import Triplets

    table = Nli(path=real("nli/ocnli_train.10k.jsonl")).open()
    derived = Triplets(path=real("nli/triplets_zh.csv")).open()
    assert table.left_out["rows without gold label"] == 15
    assert set(table.data["anchor"]) == set(derived.texts(("anchor",)))
    assert len(table) == len(set(table.data["anchor"]))
