from __future__ import annotations

import pytest
from sentbed import locate
from sentbed_data import known_data
from sentbed_data.collection_files import file_states, summary
from sentbed_data.parallel import Parallel

KNOWN = {collection.name: collection for collection in known_data()}


BY_HAND = {
    "aic-en-zh",
    "cnsd-nli",
    "translation2019zh",
    "un-corpus-en-zh",
    "wmt20-en-zh",
}


@pytest.mark.parametrize("collection", KNOWN.values(), ids=KNOWN)
def test_every_file_can_be_downloaded_or_its_source_is_named(collection):
    assert collection.files
    for file in collection.files:
        assert collection.can_download(file.path) is (collection.name not in BY_HAND)

    if collection.name in BY_HAND:
        assert collection.how_to_get.endswith(collection.advice)
        assert "http" in collection.advice


@pytest.mark.parametrize("name", ["3am", "cnsd-sts"])
def test_the_real_files_are_those_that_are_known(real, name):
    collection = KNOWN[name]
    path = locate(real(f"{collection.places[0]}/{collection.files[0].path}"))
    states = file_states(collection, path.parent.parent, digests=True)
    assert summary(states) == "present"


@pytest.mark.parametrize(
    ("name", "source"),
    [
        (
            "3am",
            Parallel(
                anchor="data:enzh/3am.train.en", positive="data:enzh/3am.train.zh"
            ),
        ),
        (
            "un-corpus-en-zh",
            Parallel(
                anchor="data:un/UNv1.0.en-zh.zh", positive="data:un/UNv1.0.en-zh.en"
            ),
        ),
        (
            "wmt20-en-zh",
            Parallel(anchor="data:wmt/wmt20.en", positive="data:wmt/wmt20.zh"),
        ),
    ],
)
def test_pairs_are_read_where_their_summary_says_and_missing_ones_say_how_to_get_them(
    tmp_path, monkeypatch, name, source
):
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    problems = list(source.check())
    assert len(problems) == 2
    assert all(problem.endswith(KNOWN[name].how_to_get) for problem in problems)
    collection = KNOWN[name]
    (tmp_path / collection.places[0]).mkdir()
    for file in collection.files[:2]:
        (tmp_path / collection.places[0] / file.path).write_text("text\n" * 3)

    assert list(source.check()) == []
    assert len(source.open()) == 3
    assert any(
        f'"data:{collection.places[0]}/{file.path}"' in collection.summary
        for file in collection.files
    )
