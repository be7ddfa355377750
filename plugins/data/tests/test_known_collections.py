from __future__ import annotations

from pathlib import Path

import pytest
from sentbed_common import KnownData
from sentbed_data import known_data
from sentbed_data.catalog import PRESENT, look
from sentbed_data.triplets import Triplets
from sentbed_data.wordnet import find_lexicon

KNOWN = {known.name: known for known in known_data()}


@pytest.mark.parametrize("known", KNOWN.values(), ids=KNOWN)
def test_every_file_can_be_downloaded(known: KnownData) -> None:
    assert known.files
    assert all(known.can_download(file.path) for file in known.files)
    assert known.how_to_get == f"`sentbed data get {known.name}` downloads it"


def test_wordnet_lies_where_its_summary_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wordnet").mkdir()
    for file in KNOWN["wordnet"].files:
        (tmp_path / "wordnet" / file.path).write_bytes(b"")
    assert look(KNOWN["wordnet"], tmp_path).state == PRESENT
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    assert 'lexicon = "data:wordnet"' in KNOWN["wordnet"].summary
    assert find_lexicon("data:wordnet") == tmp_path / "wordnet"


def test_the_nli_triplets_lie_where_their_summary_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nli_for_simcse.csv").write_text("sent0,sent1,hard_neg\n" + "a,b,c\n" * 275_601)
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    assert 'path = "data:nli_for_simcse.csv"' in KNOWN["nli-for-simcse"].summary
    assert look(KNOWN["nli-for-simcse"], tmp_path).state == PRESENT
    assert len(Triplets(path="data:nli_for_simcse.csv").open()) == 275_601  # type: ignore[arg-type]


@pytest.mark.parametrize(("rows", "state"), [(1_000_000, PRESENT), (999_999, "wrong row count")])
def test_a_million_sentences_are_counted(tmp_path: Path, rows: int, state: str) -> None:
    (tmp_path / "wiki1m_for_simcse.txt").write_bytes(b"s\n" * rows)
    assert look(KNOWN["wiki1m-for-simcse"], tmp_path).state == state
