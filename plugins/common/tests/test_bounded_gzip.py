from __future__ import annotations

import gzip
import io
import random

import pytest
from sentbed import DataError
from sentbed_common import bounded_gzip
from sentbed_common.bounded_gzip import unpacked_stream

LIMIT = 1 << 16


@pytest.fixture(autouse=True)
def limit(monkeypatch):
    monkeypatch.setattr(bounded_gzip, "MOST_UNPACKED", LIMIT)


def lines_of(stream):
    return b"".join(stream)


def small_parts_of(stream):
    return b"".join(iter(lambda: stream.read(1000), b""))


def whole(stream):
    return stream.read()


READERS = [lines_of, small_parts_of, whole]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("beyond", [0, 1])
def test_a_file_unpacks_to_the_limit_and_not_a_byte_further(reader, beyond, tmp_path):
    content = (b"one text\n" * LIMIT)[: LIMIT + beyond]
    file = tmp_path / "a.txt.gz"
    file.write_bytes(gzip.compress(content))
    assert file.stat().st_size * bounded_gzip.MOST_GROWTH < LIMIT
    with file.open("rb") as packed, unpacked_stream(packed, file) as stream:
        if not beyond:
            assert reader(stream) == content
            return
        with pytest.raises(DataError) as caught:
            reader(stream)
    assert str(caught.value) == (
        "the file unpacks to more than 65,536 bytes, over 100 times its size; repeat texts less often, "
        f"or unpack it first @ {file}"
    )


@pytest.mark.parametrize("reader", READERS)
def test_a_large_file_that_grows_as_texts_do_is_read_whole(reader, tmp_path):
    rng = random.Random(0)
    content = b"".join(
        b"%d texts and no more\n" % rng.randrange(10**6) for _ in range(20_000)
    )
    file = tmp_path / "a.txt.gz"
    file.write_bytes(gzip.compress(content))
    assert len(content) > LIMIT
    with file.open("rb") as packed, unpacked_stream(packed, file) as stream:
        assert reader(stream) == content
        assert stream.seek(1000, io.SEEK_SET) == 1000
        assert stream.readline() == content[1000:].partition(b"\n")[0] + b"\n"


def test_members_that_repeat_are_bounded_together(tmp_path):
    file = tmp_path / "a.txt.gz"
    file.write_bytes(gzip.compress((b"a" * 999 + b"\n") * 100) * 500)
    with file.open("rb") as packed, unpacked_stream(packed, file) as stream:
        largest = bounded_gzip.MOST_GROWTH * file.stat().st_size
        with pytest.raises(
            DataError, match=rf"^the file unpacks to more than {largest:,} bytes"
        ):
            lines_of(stream)
        assert stream.raw.tell() == largest + 1
