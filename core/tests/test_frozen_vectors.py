from __future__ import annotations

import attrs
import numpy as np
import pytest
from damage import damages
from hypothesis import HealthCheck, given, settings
from sentbed import RunError, build_encoder
from sentbed._encoder.encoder import Encoder as EncoderClass
from sentbed._run.trainer_inputs import FrozenColumn, text_numbers
from toy_dataset import ToyDataset
from toy_fixtures import exactly
from toy_plugin import RECIPE, VaryingTable

TEXTS = ["one", "two", "three", "four", "one", "six"]
DATA = ToyDataset({"anchor": TEXTS})


@pytest.fixture
def encoder(recipe_of):
    return build_encoder(recipe_of())


@pytest.fixture
def calls(monkeypatch):
    """The texts of every call of `Encoder.encode`."""
    seen = []
    encode = EncoderClass.encode

    def count(self, texts, **how):
        seen.append(list(texts))
        return encode(self, texts, **how)

    monkeypatch.setattr(EncoderClass, "encode", count)
    return seen


def column(encoder, path, data=DATA):
    return FrozenColumn.of(encoder, 16, False, data, path)


def epoch(frozen, size=2, order=1):
    """The vectors of all rows, fetched in batches of `size`, in the order of the rows."""
    rows = np.arange(len(TEXTS))[::order]
    vectors = np.empty((len(TEXTS), frozen.encoder.width), np.float32)
    for start in range(0, len(rows), size):
        batch = rows[start : start + size]
        vectors[batch] = frozen.vectors(batch, [TEXTS[row] for row in batch])
    return vectors


def test_with_and_without_a_cache_the_vectors_are_those_of_the_encoder(
    encoder, tmp_path
):
    expected = encoder.encode(TEXTS)
    for path in (None, tmp_path / "v"):
        frozen = column(encoder, path)
        for _ in range(2):
            vectors = epoch(frozen)
            assert (vectors.dtype, vectors.shape) == (np.float32, (6, 4))
            np.testing.assert_allclose(vectors, expected, rtol=1e-6)


def test_with_a_cache_every_row_is_encoded_in_the_first_epoch_only(
    encoder, calls, tmp_path
):
    frozen = column(encoder, tmp_path / "v")
    first = epoch(frozen, order=-1)
    assert sorted(text for call in calls for text in call) == sorted(TEXTS)
    np.testing.assert_array_equal(epoch(frozen, size=4), first)
    assert len(calls) == 3
    without = column(encoder, None)
    epoch(without)
    epoch(without)
    assert len(calls) == 9


def test_another_process_finds_the_vectors_again(encoder, calls, tmp_path):
    first = epoch(column(encoder, tmp_path / "v"))
    calls.clear()
    np.testing.assert_array_equal(epoch(column(encoder, tmp_path / "v")), first)
    assert calls == []


@pytest.mark.parametrize("place", [0, 3, 8, 12, 23])
def test_a_row_whose_record_is_damaged_is_encoded_again_with_its_batch(
    place, encoder, calls, tmp_path
):
    expected = epoch(column(encoder, tmp_path / "v"))
    content = bytearray((tmp_path / "v").read_bytes())
    content[3 * 24 + place] ^= 1
    (tmp_path / "v").write_bytes(content)
    # A neighbour is not touched, even where encoding it again would give something else.
    encoder.backbone.embedding[:] += 1
    calls.clear()
    frozen = column(encoder, tmp_path / "v")
    vectors = epoch(frozen)
    assert calls == [["three", "four"]]
    np.testing.assert_allclose(vectors[3], encoder.encode(["four"])[0], rtol=1e-6)
    np.testing.assert_array_equal(np.delete(vectors, 3, 0), np.delete(expected, 3, 0))
    calls.clear()
    np.testing.assert_array_equal(epoch(frozen), vectors)
    assert calls == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damage=damages())
def test_no_damage_changes_a_vector_even_while_the_file_is_in_use(
    damage, encoder, tmp_path
):
    frozen = column(encoder, tmp_path / "v")
    expected = epoch(frozen)
    with (tmp_path / "v").open("r+b") as stream:
        content = stream.read()
        stream.truncate(0)
        stream.seek(0)
        stream.write(damage(content))
    np.testing.assert_array_equal(epoch(frozen), expected)
    np.testing.assert_array_equal(epoch(column(encoder, tmp_path / "v")), expected)


def test_a_row_that_stands_twice_in_a_batch_gets_its_vector_twice(encoder, tmp_path):
    vectors = column(encoder, tmp_path / "v").vectors(
        np.array([1, 1, 0]), ["two", "two", "one"]
    )
    np.testing.assert_allclose(
        vectors, encoder.encode(["two", "two", "one"]), rtol=1e-6
    )


def test_a_vector_is_never_that_of_another_text(encoder, tmp_path):
    frozen = column(encoder, tmp_path / "v")
    epoch(frozen)
    vectors = frozen.vectors(np.array([0, 1]), ["one", "changed"])
    np.testing.assert_allclose(vectors, encoder.encode(["one", "changed"]), rtol=1e-6)


def test_a_file_of_other_data_or_another_width_is_not_used(
    encoder, recipe_of, tmp_path
):
    epoch(column(encoder, tmp_path / "v"))
    wider = build_encoder(recipe_of(RECIPE, "encoder.backbone.width=8"))
    assert epoch(column(wider, tmp_path / "v")).shape == (6, 8)
    longer = ToyDataset({"anchor": [*TEXTS, "seven"]})
    vectors = column(wider, tmp_path / "v", longer).vectors(np.array([6]), ["seven"])
    np.testing.assert_allclose(vectors, wider.encode(["seven"]), rtol=1e-6)


def test_max_length_and_text_rules_are_those_of_the_stage(recipe_of):
    prompt = (
        'prompt = { template = "<{text}>", normalizer = "prompt-eol" }\n\n[[stage]]'
    )
    encoder = build_encoder(recipe_of(RECIPE.replace("[[stage]]", prompt)))
    encoder.backbone.tokenizer.seen.clear()
    FrozenColumn.of(encoder, 3, False, DATA, None).vectors(np.array([3]), ["four"])
    FrozenColumn.of(encoder, 16, True, DATA, None).vectors(np.array([3]), ["four"])
    assert encoder.backbone.tokenizer.seen == ["<fou>", "<four.>"]


def test_a_cache_for_which_there_is_no_space_is_refused_before_it_is_used(
    encoder, tmp_path, monkeypatch
):
    def full(handle, start, length):
        assert length == len(TEXTS) * (8 + 4 * 4)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full, raising=False)
    with pytest.raises(
        RunError, match=r"cannot write `.*v`: No space left .* free some space"
    ):
        column(encoder, tmp_path / "v")


def test_data_that_gives_other_texts_in_every_epoch_cannot_be_cached(encoder, tmp_path):
    varying = VaryingTable({"anchor": TEXTS})
    with pytest.raises(
        RunError,
        match=exactly(
            "`cache_frozen` is on, but the data gives other texts in every epoch; take it out"
        ),
    ):
        column(encoder, tmp_path / "v", varying)

    assert not (tmp_path / "v").exists()
    column(encoder, tmp_path / "v", attrs.evolve(varying, varies=False))
    assert column(encoder, None, varying).cache is None


def numbers():
    yield from text_numbers([f"text {i}" for i in range(10_000)]).tolist()


def test_the_number_of_a_text_is_its_own():
    assert len(set(numbers())) == 10_000
    assert min(numbers()) > 0
    letter, umlaut, again = text_numbers(["a", "ä", "a"]).tolist()
    assert letter == again != umlaut
