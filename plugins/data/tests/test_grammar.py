from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import chain

import pytest
from sentbed import locate
from sentbed_data.readers import read_rows
from sentbed_data.sample import grammar

FILES = ("triplets.csv", "sts-dev.tsv", "sts-test.tsv")


def graded(file):
    names = ["score", "sentence1", "sentence2"]
    return list(map(tuple, read_rows(f"pkg:sentbed_data/sample/sts-{file}.tsv", names)))


def triplets():
    names = ["sent0", "sent1", "hard_neg"]
    return list(map(tuple, read_rows("pkg:sentbed_data/sample/triplets.csv", names)))


@cache
def situation(sentence):
    """Parse a sentence back: for each slot the one concept of which a wording stands in it."""
    lowered = sentence.lower()
    numbers = []
    for concepts in grammar.SLOTS:
        hits = {}
        for number, wordings in enumerate(concepts):
            for wording in wordings:
                for form in wording if isinstance(wording, tuple) else (wording,):
                    # Most forms are in no sentence, and a search for a substring is fast.
                    if form.lower() not in lowered:
                        continue
                    if re.search(rf"\b{re.escape(form.lower())}\b", lowered):
                        hits[number] = max(hits.get(number, 0), len(form))
        assert hits, sentence
        numbers.append(max(hits, key=lambda number: hits[number]))
    return tuple(numbers)


def test_the_installed_files_are_what_the_grammar_writes(tmp_path):
    grammar.write(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)
    for name in FILES:
        assert (
            locate(f"pkg:sentbed_data/sample/{name}").read_bytes()
            == (tmp_path / name).read_bytes()
        ), name


def test_no_wording_belongs_to_two_concepts():
    for concepts in grammar.SLOTS:
        wordings = list(chain.from_iterable(concepts))
        assert len(wordings) == len(set(wordings))
        assert all(len(concept) >= 2 for concept in concepts)


def test_negated_patterns_match_the_affirmative_ones():
    assert len(grammar.PATTERNS) == len(grammar.NEGATED)
    for plain, negated in zip(grammar.PATTERNS, grammar.NEGATED, strict=True):
        assert re.sub(r"(did )?not ", "", negated).replace("{base}", "{past}") == plain


@pytest.mark.parametrize("file", ["dev", "test"])
def test_scores_spread_evenly_from_0_to_5(file):
    assert Counter(score for score, _, _ in graded(file)) == {
        f"{score}.0": 42 for score in range(6)
    }


@pytest.mark.parametrize("file", ["dev", "test"])
def test_a_score_is_the_number_of_slots_that_agree(file):
    for score, first, second in graded(file):
        agree = sum(
            a == b for a, b in zip(situation(first), situation(second), strict=True)
        )
        assert agree == float(score), (first, second)


def test_a_positive_keeps_the_situation_and_a_negative_does_not():
    negations = 0
    for anchor, positive, negative in triplets():
        assert situation(positive) == situation(anchor)
        agree = sum(
            a == b for a, b in zip(situation(anchor), situation(negative), strict=True)
        )
        negated = bool(re.search(r"\b(did|was) not\b", negative))
        assert agree == (5 if negated else 4), (anchor, negative)
        assert " not " not in anchor + positive
        negations += negated
    assert 60 <= negations <= 120


def test_no_row_stands_twice_and_no_sentence_or_situation_in_two_files():
    rows = {"train": triplets(), "dev": graded("dev"), "test": graded("test")}
    assert len(rows["train"]) == 600
    for file, content in rows.items():
        assert len(set(content)) == len(content), file
    sentences = {
        "train": set(chain.from_iterable(rows["train"])),
        **{
            file: {sentence for row in rows[file] for sentence in row[1:]}
            for file in ("dev", "test")
        },
    }
    for a, b in (("train", "dev"), ("train", "test"), ("dev", "test")):
        assert not sentences[a] & sentences[b]
        assert not set(map(situation, sentences[a])) & set(map(situation, sentences[b]))
    for anchor, positive, negative in rows["train"]:
        assert len({anchor, positive, negative}) == 3
    for _, first, second in rows["dev"] + rows["test"]:
        assert first != second


def test_every_wording_occurs_in_the_training_pairs():
    sentences = " ".join(chain.from_iterable(row[:2] for row in triplets())).lower()
    for slot, concepts in enumerate(grammar.SLOTS):
        for wording in chain.from_iterable(concepts):
            forms = wording[1:] if slot == 1 else (wording,)
            assert any(
                re.search(rf"\b{re.escape(form.lower())}\b", sentences)
                for form in forms
            ), wording


def test_sentences_look_like_sentences():
    sentences = set(chain.from_iterable(triplets()))
    sentences |= {
        sentence
        for file in ("dev", "test")
        for row in graded(file)
        for sentence in row[1:]
    }
    assert len(sentences) > 2500
    for sentence in sentences:
        assert re.fullmatch(r"[A-Z][a-zC', ]+\.", sentence), sentence
        assert not re.search(r"\ba [aeiou]|\ban [^aeiou]|  |\b(\w+) \1\b", sentence), (
            sentence
        )


def test_word_overlap_alone_does_not_give_the_scores():
    from scipy.stats import spearmanr

    def words(sentence):
        return set(re.findall(r"[a-z']+", sentence.lower()))

    for file in ("dev", "test"):
        rows = graded(file)
        overlap = [
            len(words(a) & words(b)) / len(words(a) | words(b)) for _, a, b in rows
        ]
        assert (
            0.2
            < spearmanr([float(score) for score, _, _ in rows], overlap).statistic
            < 0.6
        )
