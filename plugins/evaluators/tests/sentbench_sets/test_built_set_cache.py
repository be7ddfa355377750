from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from sentbed import DataError, RunError
from sentbed_evaluators.sentbench_sets import (
    SOURCES,
    SPLITS,
    built_set_cache,
    built_sets,
    find_files,
)


def contents(cache):
    return {
        str(file.relative_to(cache)): file.read_bytes()
        for file in cache.rglob("*")
        if file.is_file()
    }


@pytest.mark.parametrize("task", SOURCES)
def test_every_source_is_built_from_its_own_files(task, sentbench_data, cache):
    sets = built_sets(find_files(sentbench_data, task), seed=0)
    for split in SPLITS:
        labels = Counter(label for _, _, label in sets.pairs[split])
        assert abs(labels[0] - labels[1]) <= 1
        assert bool(labels) == (task != "ROC" or split != "valid")
    held_out = {"ST": 17, "DBpedia": 56, "GoEmo": 32, "ROC": 20, "CQA": 11, "SWAG": 12}
    assert len(sets.triples) == held_out[task]
    name = {"CQA": "dev", "SWAG": "val", "ROC": "Story"}.get(task, "test")
    assert any(name in text for text, _, _ in sets.triples)
    assert not any("train" in text for triple in sets.triples for text in triple)


def test_the_same_seed_gives_the_same_files_byte_for_byte(
    sentbench_data, cache, monkeypatch
):
    built_sets(find_files(sentbench_data, "DBpedia"), seed=5)
    first = contents(cache)
    monkeypatch.setenv("SENTBED_CACHE", str(cache.parent / "other"))
    built_sets(find_files(sentbench_data, "DBpedia"), seed=5)
    assert len(first) == 5
    assert contents(cache.parent / "other" / "sentbench") == first


def test_another_seed_limit_or_source_gives_other_sets(sentbench_data, cache):
    files = find_files(sentbench_data, "CQA")
    first = built_sets(files, seed=0)
    others = [built_sets(files, seed=1), built_sets(files, seed=0, limit=4)]
    path = sentbench_data / "commonsenseqa" / "train_rand_split.jsonl"
    path.write_text(path.read_text().replace("train question 1?", "another question?"))
    others.append(built_sets(find_files(sentbench_data, "CQA"), seed=0))
    assert len({first.pairs_hash, *(sets.pairs_hash for sets in others)}) == 4
    assert len(list(cache.iterdir())) == 4
    assert "another question?" in {
        pair[0] for split in SPLITS for pair in others[2].pairs[split]
    }
    # The triples are from the other file.
    assert others[2].files["contrast"] == first.files["contrast"]


def test_sets_in_the_cache_are_not_built_again(sentbench_data, cache, monkeypatch):
    files = find_files(sentbench_data, "SWAG")
    first = built_sets(files, seed=0)
    monkeypatch.setattr(built_set_cache, "build_sets", None)
    again = built_sets(files, seed=0)
    assert (again.pairs, again.triples, again.files) == (
        first.pairs,
        first.triples,
        first.files,
    )


@pytest.mark.parametrize("damage", ["cut", "gone", "summary", "list"])
def test_damaged_sets_are_built_again(damage, sentbench_data, cache):
    files = find_files(sentbench_data, "SWAG")
    built_sets(files, seed=0)
    whole = contents(cache)
    (directory,) = cache.iterdir()
    if damage == "cut":
        path = directory / "test.jsonl"
        path.write_bytes(path.read_bytes()[:-10])
    elif damage == "gone":
        (directory / "contrast.jsonl").unlink()
    elif damage == "summary":
        (directory / "set.json").write_text("{")
    else:
        (directory / "set.json").write_text("[]")
    built_sets(files, seed=0)
    assert contents(cache) == whole


def test_texts_are_as_in_the_file(write, sentbench_data, cache):
    path = sentbench_data / "styletransfer" / "valid.modern.nltktok"
    path.write_bytes(
        path.read_bytes().replace(
            b"you valid 3 .", ' tab\t"quoted" \\ \u2028é\x85 '.encode()
        )
    )
    sets = built_sets(find_files(sentbench_data, "ST"), seed=0)
    assert ' tab\t"quoted" \\ \u2028é\x85 ' in {text for text, _, _ in sets.triples}
    (directory,) = cache.iterdir()
    lines = (directory / "contrast.jsonl").read_bytes().split(b"\n")
    assert [json.loads(line) for line in lines[:-1]] == [
        list(triple) for triple in sets.triples
    ]


def test_a_source_that_is_too_small_is_named(write, tmp_path, cache):
    for name in ("train", "dev", "test"):
        write(f"d/goemotions/{name}.tsv", "the same class\t1\tid\nagain\t1\tid\n")
    with pytest.raises(
        DataError, match=r"too few for the pairs of `train`; download.*train\.tsv$"
    ):
        built_sets(find_files(tmp_path / "d", "GoEmo"), seed=0)
    assert not cache.exists()


def test_a_cache_that_cannot_be_written_is_named(sentbench_data, cache):
    cache.parent.mkdir()
    cache.write_text("a file")
    with pytest.raises(RunError, match=r"cannot write.*`SENTBED_CACHE`"):
        built_sets(find_files(sentbench_data, "ROC"), seed=0)


def test_a_source_that_changes_while_it_is_read_is_an_error(
    sentbench_data, cache, monkeypatch
):
    def build(*arguments):
        result = original(*arguments)
        (sentbench_data / "swag" / "val.csv").write_text("changed")
        return result

    original = built_set_cache.build_sets
    monkeypatch.setattr(built_set_cache, "build_sets", build)
    with pytest.raises(DataError, match="changed while it was read"):
        built_sets(find_files(sentbench_data, "SWAG"), seed=0)
    assert not cache.exists()


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
def test_real_sources_give_their_sizes_with_balanced_labels(task, cache):
    root = Path(os.environ.get("SENTBED_DATA", "/"))
    if not (root / SOURCES[task].data).is_dir():
        pytest.skip(
            f"needs {SOURCES[task].data}: set SENTBED_DATA to the directory that holds it"
        )
    sets = built_sets(find_files(root, task), seed=0)
    assert (
        *(len(sets.pairs[split]) for split in SPLITS),
        len(sets.triples),
    ) == EXPECTED[task]
    pairs = []
    for split in SPLITS:
        labels = Counter(label for _, _, label in sets.pairs[split])
        assert abs(labels[0] - labels[1]) <= 1
        pairs.append({frozenset(pair[:2]) for pair in sets.pairs[split]})
    assert sum(map(len, pairs)) == len(set().union(*pairs))
    assert all(len(set(triple)) == 3 for triple in sets.triples)
