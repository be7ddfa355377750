from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sentbed import DataError
from sentbed_data.clean_pairs import CleanPairs
from sentbed_data.delete import Delete
from sentbed_data.mix import Mix
from sentbed_data.nli import Nli
from sentbed_data.pairs import Pairs
from sentbed_data.parallel import Parallel

Pair = tuple[str, str]

PAIRS: Sequence[Pair] = (
    ("the cat sat", "猫坐着"),
    ("same text", "same text"),
    ("the cat sat", "猫坐着"),
    ("no", "不"),
    ("a b c d e f g h i j", "一二三四五"),
    ("the cat sat", "另一只猫"),
    ("the cat sat down", "猫坐着"),
    ("один два три", "一二三"),
    ("12 34 56", "一二三"),
    ("yes yes no", "да да нет"),
    ("half 一二三四", "一二三四五"),
)


def source_of(put, pairs, name="pairs.tsv"):
    path = put(name, "".join(f"{first}\t{second}\n" for first, second in pairs))
    return Pairs(path=path, header=False, anchor="0", positive="1")


def pairs_of(table):
    rows = table.rows(range(len(table)))
    return list(zip(rows["anchor"], rows["positive"], strict=True))


def words(text):
    """One a character of CJK, one a run of other characters."""
    return len(re.sub("([\u2e80-\u9fff])", r" \1 ", text).split())


def naive(pairs, rules):
    """What the rules keep and count, pair by pair."""
    kept = []
    counts = Counter()
    for pair in pairs:
        lengths = list(map(words, pair))
        if pair[0] == pair[1]:
            counts["pairs with equal sides"] += 1
        elif max(lengths) / min(lengths) > rules.get("max_ratio", 1000):
            counts[f"pairs with a ratio of lengths above {rules['max_ratio']:g}"] += 1
        elif pair in kept:
            counts["pairs of an earlier row"] += 1
        else:
            kept.append(pair)

    return kept, dict(counts)


RULES: Sequence[dict[str, Any]] = ({}, {"max_ratio": 1.5}, {"max_ratio": 3.0})


@pytest.mark.parametrize("rules", RULES, ids=repr)
def test_pairs_and_counts_are_those_of_a_plain_loop(put, rules):
    source = CleanPairs(source=source_of(put, PAIRS), **rules)
    assert list(source.check()) == []
    kept, counts = naive(PAIRS, rules)
    assert 0 < len(kept) < len(PAIRS)
    table = source.open()
    assert pairs_of(table) == kept
    assert table.left_out == counts
    assert sum(counts.values()) == len(PAIRS) - len(kept)
    texts = list(table.texts(["positive"]))
    assert texts == [positive for _, positive in kept]
    assert sorted(table.texts()) == sorted(text for pair in kept for text in pair)


TEXTS = st.sampled_from(
    [
        "a",
        "b",
        "a b",
        "a b c d e",
        "一",
        "一二三",
        "a 一",
        "да",
        "да да да",
        "1 2",
        "a\u2028b",
        "ab",
        "b a",
    ]
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    pairs=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=12),
    rules=st.fixed_dictionaries(
        {},
        optional={
            "max_ratio": st.sampled_from([1.0, 1.5, 3.0]),
        },
    ),
)
def test_any_pairs_are_cleaned_as_by_a_plain_loop(put, pairs, rules):
    source = CleanPairs(source=source_of(put, pairs), **rules)
    kept, counts = naive(pairs, rules)
    if not kept:
        with pytest.raises(
            DataError,
            match=r"nothing is left of the \d+ pairs of `pairs`; left out: ",
        ):
            source.open()
    else:
        table = source.open()
        assert (pairs_of(table), table.left_out) == (kept, counts)


def test_duplicates_are_found_across_the_parts_of_a_mix(put):
    first = source_of(put, [("a", "一"), ("b", "二"), ("a", "一")], "one.tsv")
    second = source_of(put, [("b", "二"), ("c", "三"), ("d", "四")], "two.tsv")
    table = CleanPairs(source=Mix(sources=(first, second))).open()
    assert pairs_of(table) == [("a", "一"), ("b", "二"), ("c", "三"), ("d", "四")]
    assert sorted(table.order((1, 0), 0).tolist()) == [0, 1, 2, 3]


def test_what_the_source_left_out_is_counted_too(put):
    files = {"anchor": put("a", "a\n\na\n"), "positive": put("b", "b\nc\nb\n")}
    table = CleanPairs(source=Parallel(**files, skip_empty=True)).open()
    assert table.left_out == {
        "lines with an empty side": 1,
        "pairs of an earlier row": 1,
    }


def test_the_fingerprint_follows_the_rows_that_are_left(put):
    source = source_of(put, PAIRS)
    fingerprints = [
        CleanPairs(source=source, **rules).open().fingerprint
        for rules in ({}, {"max_ratio": 1.5}, {"max_ratio": 1.0})
    ]

    assert len(set(fingerprints)) == 3
    again = CleanPairs(source=source, max_ratio=1.5).open()
    assert again.fingerprint == fingerprints[1]


def test_what_does_not_go_together_is_refused(put):
    (problem,) = CleanPairs(source=Nli(path="a.tsv", build="labelled")).check()
    assert problem.startswith("`nli` has no column `anchor`, `positive`")

    source = source_of(put, PAIRS)
    single = Mix(sources=(source, source), batches="single")
    (problem,) = CleanPairs(source=single).check()
    assert problem.endswith("clean each of its sources")

    lines = put("lines.txt", "one two three\nfour five six\n")
    with pytest.raises(
        DataError, match=r"texts of `delete` change from epoch to epoch"
    ):
        CleanPairs(source=Delete(path=lines)).open()


CLEAN = """
import re, sys
from pathlib import Path
import numpy
from sentbed_data.clean_pairs import CleanPairs
from sentbed_data.pairs import Pairs

def memory():
    # Without the pages of mapped files, which the system can drop.
    return int(re.search(r"RssAnon:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])

def cleaned(path):
    columns = {"header": False, "anchor": "0", "positive": "1"}
    source = Pairs(path=path, stream=sys.argv[3] == "stream", **columns)
    return CleanPairs(source=source, max_ratio=3.0).open()

cleaned(sys.argv[2]).rows([0])
before = memory()
table = cleaned(sys.argv[1])
for start in range(0, 100_000, 10_000):
    table.rows(range(start, start + 64))
print(len(table), sum(table.left_out.values()), (memory() - before) // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="needs Linux's /proc to see the peak"
)
def test_memory_does_not_grow_with_the_texts(tmp_path):
    """300,000 lines of 2 x 100 characters, every tenth a duplicate and every thirtieth without its words."""
    small, path = tmp_path / "small.tsv", tmp_path / "a.tsv"
    small.write_text("one two three\tfour five six\n")
    with path.open("w") as file:
        for row in range(300_000):
            text = (
                ""
                if row % 30 == 1
                else f" of row {row - row % 10 // 9:07} {'and so on ' * 8}"
            )

            file.write(
                f"the anchor{text}\tthe positive{text}\n"
                if text
                else f"the\tpositive of {row} alone\n"
            )

    grown = {}
    for how in ("stream", "memory"):
        command = [sys.executable, "-c", CLEAN, str(path), str(small), how]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        rows, left, grown[how] = map(int, done.stdout.split())
        assert (rows, left) == (260_000, 40_000)

    assert grown["memory"] > 70
    assert grown["stream"] < 40
