from __future__ import annotations

from pathlib import Path

import pytest
from sentbed import DataError, FilePath
from sentbed_testing import DataContract

from sentbed_attention import JsonlPairs

ROWS = """{"anchor": "a", "positive": "A", "no": "Z", "id": 1}

{"anchor": "ö\\nb", "positive": "B", "no": "Y"}
"""


def put(directory: Path, content: str | bytes) -> FilePath:
    path = directory / "pairs.jsonl"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return FilePath(str(path))


class TestJsonlPairs(DataContract):
    @pytest.fixture(params=[None, "no"], ids=["pairs", "triplets"])
    def component(self, request: pytest.FixtureRequest, tmp_path: Path) -> JsonlPairs:  # type: ignore[override]
        return JsonlPairs(path=put(tmp_path, ROWS), negative=request.param)


def test_rows_are_those_of_the_file(tmp_path: Path) -> None:
    data = JsonlPairs(path=put(tmp_path, ROWS)).open()
    assert data.columns == ("anchor", "positive")
    assert data.rows([1, 0]) == {"anchor": ["ö\nb", "a"], "positive": ["B", "A"]}


def test_keys_may_have_any_name(tmp_path: Path) -> None:
    source = JsonlPairs(path=put(tmp_path, ROWS), anchor="positive", positive="anchor", negative="no")
    assert source.columns == ("anchor", "positive", "negative")
    assert source.open().rows([0]) == {"anchor": ["A"], "positive": ["a"], "negative": ["Z"]}


def test_the_fingerprint_follows_the_texts_and_nothing_else(tmp_path: Path) -> None:
    first = JsonlPairs(path=put(tmp_path, ROWS)).open().fingerprint
    assert JsonlPairs(path=put(tmp_path, ROWS.replace('"id": 1', '"id": 2'))).open().fingerprint == first
    assert JsonlPairs(path=put(tmp_path, ROWS.replace('"B"', '"C"'))).open().fingerprint != first


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"anchor": "a"', "not JSON"),
        ('["a", "b"]', "expected an object"),
        ('{"anchor": "a"}', "`positive` is missing among"),
        ('{"anchor": "a", "positive": 3}', "`positive` is 3, expected a string"),
    ],
)
def test_a_fault_is_said_with_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    path = put(tmp_path, ROWS + line + "\n")
    with pytest.raises(DataError, match=message) as caught:
        JsonlPairs(path=path).open()
    assert str(caught.value).endswith(f"@ {path}:4")


@pytest.mark.parametrize(("content", "message"), [(b"\n", "no row"), (b"\xff\n", "not UTF-8")])
def test_a_file_that_cannot_be_used_is_said(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        JsonlPairs(path=put(tmp_path, content)).open()


def test_a_missing_file_is_said_before_anything_is_read(tmp_path: Path) -> None:
    (problem,) = JsonlPairs(path=FilePath(str(tmp_path / "none.jsonl"))).check()
    assert "none.jsonl" in problem
