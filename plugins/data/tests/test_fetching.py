"""Whether a source would have to fetch its data."""

from __future__ import annotations

import pytest
from sentbed import FilePath
from sentbed_data.bundled_sample import Sample
from sentbed_data.mix import Mix
from sentbed_data.pairs import Pairs


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "datasets"))
    return tmp_path / "datasets"


def test_a_file_is_here(tmp_path):
    assert not Pairs(path=FilePath(str(tmp_path / "pairs.csv"))).fetches


def test_a_data_set_of_the_hub_is_fetched_unless_it_was_before(cache):
    source = Pairs(path=FilePath("hub:some/pairs"))
    assert source.fetches
    (cache / "some___pairs").mkdir(parents=True)
    assert not source.fetches


def test_a_local_directory_of_the_hub_s_kind_is_here(tmp_path):
    assert not Pairs(path=FilePath(f"hub:{tmp_path}")).fetches


def test_a_mix_fetches_where_a_source_does():
    hub = Pairs(path=FilePath("hub:some/pairs"))
    assert Mix(sources=(Sample(), hub)).fetches
    assert not Mix(sources=(Sample(), Sample())).fetches
