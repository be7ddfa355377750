from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from sentbed import DataError
from sentbed_evaluators.sentbench_sets import SOURCES, built_sets, find_files
from sentbed_evaluators.sentbench_sets.building import (
    SPLITS,
    build_contrast,
    build_pairs,
    build_sets,
    choose,
)
from sentbed_evaluators.sentbench_sets.rows import Choice, Labelled
from sentbed_evaluators.sentbench_sets.sources import Sizes


def choices(count, wrong, start=0):
    for i in range(start, start + count):
        yield Choice(
            f"text {i}", f"right {i}", tuple(f"wrong {i} {j}" for j in range(wrong))
        )


def labelled(count, classes, start=0):
    for i in range(start, start + count):
        yield Labelled(f"{i} of {i % classes}", i % classes)


def counts(pairs):
    return Counter(label for _, _, label in pairs)


def unordered(pairs):
    return {frozenset(pair[:2]) for pair in pairs}


def sizes(pairs):
    """The number of pairs of each split."""
    numbers = []
    for split in SPLITS:
        numbers.append(len(pairs[split]))
    return numbers


def every_pair(pairs):
    """The pairs of all splits."""
    together = []
    for split in SPLITS:
        together += pairs[split]
    return together


def require_sound(pairs, triples):
    """Labels are balanced, no pair is in two splits, and the texts of a triple differ."""
    splits = []
    for split in SPLITS:
        labels = counts(pairs[split])
        assert abs(labels[0] - labels[1]) <= 1
        splits.append(unordered(pairs[split]))
    assert sum(map(len, splits)) == len(set().union(*splits))
    for triple in triples:
        assert len(set(triple)) == 3


TABLE_1 = {
    # task: rows of the source, those of the contrast file among them; train, valid, test, contrast
    "SWAG": (choices(93_552, 3), 20_006, (56_131, 18_711, 18_711, 20_006)),
    "DBpedia": (labelled(75_000, 14), 70_000, (89_965, 27_988, 27_989, 69_971)),
    "GoEmo": (labelled(45_446, 28), 4_590, (54_535, 18_178, 18_179, 4_590)),
    "ROC": (choices(1_571, 1), 1_571, (2_513, 0, 629, 1_571)),
    "ST": (choices(21_075, 0), 2_680, (24_986, 8_328, 8_330, 2_500)),
    "CQA": (choices(10_962, 4), 1_221, (13_154, 4_384, 4_386, 1_221)),
}


@pytest.mark.parametrize(
    "task",
    [
        *(
            pytest.param(task, marks=pytest.mark.slow)
            for task in ("SWAG", "DBpedia", "GoEmo")
        ),
        *("ROC", "ST", "CQA"),
    ],
)
def test_a_complete_source_gives_the_sizes_of_table_1_with_balanced_labels(
    task,
):
    stream, held_out, expected = TABLE_1[task]
    rows = list(stream)
    pairs, triples = build_sets(task, iter(rows), iter(rows[-held_out:]), seed=0)
    assert (*sizes(pairs), len(triples)) == expected
    require_sound(pairs, triples)


def test_pairs_that_belong_together_do_and_others_do_not():
    rows = list(choices(200, 3))
    pairs, triples = build_sets("SWAG", rows, rows, seed=3)
    assert sum(map(len, pairs.values())) == 400
    for text, other, label in every_pair(pairs):
        number = text.split()[1]
        beginning = f"right {number}" if label else f"wrong {number} "
        assert other.startswith(beginning)
    for text, right, wrong in triples:
        number = text.split()[1]
        assert (right, wrong[:-2]) == (f"right {number}", f"wrong {number}")


def test_classes_decide_where_texts_have_them():
    rows = list(labelled(300, 5))
    pairs, triples = build_sets("GoEmo", rows, rows, seed=3)
    for text, other, label in every_pair(pairs):
        assert text != other
        assert (text[-1] == other[-1]) == bool(label)
    assert all(a[-1] == b[-1] != c[-1] and a != b for a, b, c in triples)
    assert len(triples) == 300


def test_classes_of_two_numberings_are_never_compared():
    rows = [
        Labelled(f"{name} {i}", i % 2, name)
        for name in ("first", "second")
        for i in range(60)
    ]
    pairs, triples = build_sets("DBpedia", rows, rows, seed=0)
    for first, second, _ in every_pair(pairs):
        assert first.split()[0] == second.split()[0]
    for text, right, wrong in triples:
        assert text.split()[0] == right.split()[0] == wrong.split()[0]


def test_where_a_source_offers_nothing_else_wrong_is_what_belongs_to_another_row():
    rows = list(choices(100, 0))
    pairs, triples = build_sets("ST", rows, rows, seed=0)
    for text, other, label in every_pair(pairs):
        assert other.startswith("right ")
        assert (text.split()[1] == other.split()[1]) == bool(label)
    assert all(a.split()[1] == b.split()[1] != c.split()[1] for a, b, c in triples)


def test_partners_come_from_the_same_split():
    rows = list(labelled(2000, 14))
    pairs, _ = build_sets("DBpedia", rows, rows, seed=0)

    texts = []
    for split in SPLITS:
        texts.append({text for pair in pairs[split] for text in pair[:2]})

    # The row where two splits meet may give to both.
    assert len(texts[0] & texts[1]) <= 1
    assert len(texts[1] & texts[2]) <= 1
    assert not texts[0] & texts[2]


def test_what_is_right_for_an_equal_text_is_never_wrong():
    rows = [Choice("Yes .", answer) for answer in ("Ay .", "Yea .", "Yes .")]
    for i in range(12):
        answer = "Ay ." if i % 2 else f"Verse {i} ."
        rows.append(Choice(f"Line {i} .", answer))

    for seed in range(20):
        for text, right, wrong in build_contrast(rows, seed):
            assert wrong not in (text, right)
            if text == "Yes .":
                assert wrong.startswith("Verse")


def test_a_text_with_two_classes_is_wrong_for_neither():
    rows = [Labelled("Thanks", 0), Labelled("Thanks", 1)]
    rows += [Labelled(f"{i} of {i % 3}", i % 3) for i in range(30)]
    for seed in range(20):
        for text, right, wrong in build_contrast(rows, seed):
            assert len({text, right, wrong}) == 3
            if "Thanks" in (text, wrong):
                other = wrong if text == "Thanks" else text
                assert other.endswith("of 2")


def test_rows_that_repeat_are_taken_last_and_are_in_the_training_set():
    rows = [*choices(100, 1), *choices(100, 1)]
    distinct = {row.identity for row in choices(100, 1)}
    for seed in range(20):
        assert {row.identity for row in choose(rows, 100, seed)} == distinct
        chosen = choose(rows, 120, seed)
        assert {row.identity for row in chosen} == distinct
        pairs = build_pairs(chosen, Sizes(140, 50, 50, 0), seed)
        splits = [unordered(pairs[split]) for split in SPLITS]
        assert sizes(pairs) == [140, 50, 50]
        assert [len(split) for split in splits] == [100, 50, 50]
        assert len(set().union(*splits)) == 200


def test_rows_with_an_empty_text_are_left_out():
    rows = [
        Labelled(" ", 1),
        Choice("text", ""),
        Choice("", "right"),
        Choice("text", "right"),
    ]
    assert choose(rows, 10, seed=0) == [Choice("text", "right")]


def test_a_smaller_source_keeps_the_shares_of_the_splits():
    pairs, triples = build_sets("CQA", choices(1000, 4), choices(30, 4), seed=0)
    assert sizes(pairs) == [1199, 399, 402]
    assert len(triples) == 30


def test_a_class_with_one_text_costs_pairs_and_no_balance():
    rows = [*labelled(200, 2), Labelled("alone", 7)]
    pairs, triples = build_sets("GoEmo", rows, rows, seed=0)
    assert 390 <= sum(map(len, pairs.values())) < 402
    assert all(abs(counts(part)[0] - counts(part)[1]) <= 1 for part in pairs.values())
    assert len(triples) == 200
    assert "alone" not in {text for text, _, _ in triples}


def test_a_limit_holds_for_each_split():
    rows = list(choices(500, 1))
    pairs, triples = build_sets("CQA", rows, rows, seed=0, limit=50)
    assert sizes(pairs) == [50, 50, 50]
    assert len(triples) == 50


def test_another_seed_gives_other_sets():
    rows = list(choices(500, 3))
    first, again, other = (build_sets("SWAG", rows, rows, seed) for seed in (1, 1, 2))
    assert first == again
    assert first[0]["test"] != other[0]["test"]
    assert first[1] != other[1]
    assert set(first[1]) != set(other[1])


@pytest.mark.parametrize(
    "rows",
    [[], [Choice("a", "b")], [Labelled("a", 0), Labelled("b", 0), Labelled("c", 0)]],
)
def test_too_few_rows_are_an_error(rows):
    with pytest.raises(DataError):
        build_sets("GoEmo", rows, rows, seed=0)


def test_pythons_own_hashes_decide_nothing():
    code = (
        "import hashlib\n"
        "from sentbed_evaluators.sentbench_sets.building import build_sets\n"
        "from sentbed_evaluators.sentbench_sets.rows import Labelled\n"
        "rows = [Labelled(f'{i} of {i % 5}', i % 5) for i in range(300)]\n"
        "print(hashlib.sha256(repr(build_sets('GoEmo', rows, rows, 7)).encode()).hexdigest())\n"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(digests) == 1


# From files


@pytest.mark.parametrize("task", SOURCES)
def test_every_source_is_built_from_its_own_files(task, sentbench_data):
    sets = built_sets(find_files(sentbench_data, task), seed=0)
    require_sound(sets.pairs, sets.triples)
    assert (sizes(sets.pairs)[1] == 0) is (task == "ROC")
    held_out = {"ST": 17, "DBpedia": 56, "GoEmo": 32, "ROC": 20, "CQA": 11, "SWAG": 12}
    assert len(sets.triples) == held_out[task]
    name = {"CQA": "dev", "SWAG": "val", "ROC": "Story"}.get(task, "test")
    assert any(name in text for text, _, _ in sets.triples)
    assert not any("train" in text for triple in sets.triples for text in triple)


def test_missing_files_are_named_with_how_to_get_them(sentbench_data):
    (sentbench_data / "styletransfer" / "test.original.nltktok").unlink()
    with pytest.raises(
        DataError,
        match=r"`ST` needs `test\.original\.nltktok`, missing in .*styletransfer",
    ) as error:
        find_files(sentbench_data, "ST")
    assert "`sentbed data get styletransfer`" in str(error.value)
    for file in (sentbench_data / "commonsenseqa").iterdir():
        file.unlink()
    with pytest.raises(
        DataError, match=r"`train_rand_split\.jsonl` and 1 more, missing"
    ):
        find_files(sentbench_data, "CQA")


def test_sources_are_found_under_their_other_names(sentbench_data):
    (sentbench_data / "swag").rename(sentbench_data / "moved")
    (sentbench_data / "swagaf").mkdir()
    (sentbench_data / "moved").rename(sentbench_data / "swagaf" / "data")
    assert [file.name for file in find_files(sentbench_data, "SWAG").pairs] == [
        "train.csv",
        "val.csv",
    ]
    for old, new in (("train", "train_112"), ("test", "test_56")):
        (sentbench_data / "dbpedia" / f"{old}.csv").rename(
            sentbench_data / "dbpedia" / f"{new}.csv"
        )
    with pytest.raises(DataError, match=r"needs `train\.csv` and 1 more"):
        find_files(sentbench_data, "DBpedia")
    (sentbench_data / "dbpedia" / "val_1.csv").write_text('1,"t","c"\n')
    files = find_files(sentbench_data, "DBpedia")
    assert [file.name for file in files.pairs] == [
        "train_112.csv",
        "val_1.csv",
        "test_56.csv",
    ]
    assert [file.name for file in files.contrast] == ["test_56.csv"]


EXPECTED = {
    # train, valid, test, contrast: of `ST` and `GoEmo` those of Table 1; of DBpedia the copy has 24,000 rows
    "ST": (24_986, 8_328, 8_330, 2_500),
    "GoEmo": (54_535, 18_178, 18_179, 4_590),
    "DBpedia": (29_589, 9_205, 9_206, 5_000),
}


@pytest.mark.parametrize(
    "task",
    [
        "ST",
        *(pytest.param(task, marks=pytest.mark.slow) for task in ("GoEmo", "DBpedia")),
    ],
)
def test_real_sources_give_their_sizes_with_balanced_labels(task):
    root = Path(os.environ.get("SENTBED_DATA", "/"))
    if not (root / SOURCES[task].data).is_dir():
        pytest.skip(
            f"needs {SOURCES[task].data}: set SENTBED_DATA to the directory that holds it"
        )
    sets = built_sets(find_files(root, task), seed=0)
    assert (*sizes(sets.pairs), len(sets.triples)) == EXPECTED[task]
    require_sound(sets.pairs, sets.triples)
