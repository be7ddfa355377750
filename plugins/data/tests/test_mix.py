from __future__ import annotations

import attrs
import numpy as np
import pytest
from sentbed import DataError, RecipeError
from sentbed.protocols import DataSource
from sentbed.tools import (
    check_components,
    load_plugins,
    read_document,
    structure,
    unstructure,
)
from sentbed_common import InMemoryDataset
from sentbed_data.bundled_sample import Sample
from sentbed_data.mix import Mix, Mixed
from sentbed_data.pairs import Pairs
from sentbed_data.triplets import Triplets


@attrs.frozen
class Made(DataSource):
    """So many rows, each text of them with the epoch."""

    rows: int
    letter: str
    columns: tuple[str, ...] = ("anchor", "positive")
    name = "made"

    def open(self):
        columns = {}
        for column in self.columns:
            columns[column] = [f"{self.letter}{column}{i}" for i in range(self.rows)]

        return Varied(columns)


class Varied(InMemoryDataset):
    """Texts that end with the epoch."""

    def rows(self, indices, epoch=0):
        varied = {}
        for column, texts in super().rows(indices).items():
            varied[column] = [f"{text} {epoch}" for text in texts]

        return varied


def mix(*sizes, **settings):
    return Mix(sources=tuple(map(Made, sizes, "abcdef")), **settings)


def test_columns_are_those_that_all_sources_have_in_the_order_of_the_first():
    triplets = Triplets(path="a.csv")
    assert Mix(sources=(triplets, Pairs(path="a.csv"))).columns == (
        "anchor",
        "positive",
    )

    assert Mix(sources=(triplets, triplets)).columns == (
        "anchor",
        "positive",
        "negative",
    )

    table = Mix(sources=(Sample(limit=3), Sample(kind="sentences", limit=4))).open()
    assert table.columns == ("anchor", "positive")
    assert len(table) == 7


def test_rows_go_to_their_parts_in_their_epoch_and_keep_their_order():
    table = mix(3, 1, 2).open()
    assert len(table) == 6
    columns = table.rows([5, 0, 3, 4, 2, 0], epoch=7)
    assert columns["anchor"] == [
        "canchor1 7",
        "aanchor0 7",
        "banchor0 7",
        "canchor0 7",
        "aanchor2 7",
        "aanchor0 7",
    ]

    assert columns["positive"][0] == "cpositive1 7"
    assert list(table.texts(["positive"])) == [
        "apositive0",
        "apositive1",
        "apositive2",
        "bpositive0",
        "cpositive0",
        "cpositive1",
    ]

    assert len(list(table.texts())) == 12


def test_an_order_is_that_of_its_key_and_epoch():
    table = mix(40, 20).open()
    order = table.order((1, 0), 0).tolist()
    assert sorted(order) == list(range(60))
    assert table.order((1, 0), 0).tolist() == order
    assert table.order((1, 0), 1).tolist() != order
    assert table.order((2, 0), 0).tolist() != order


def test_a_batch_of_a_single_source_has_rows_of_one():
    table = mix(30, 20, batches="single").open()
    batches = table.batches(4, (1, 0), 0)
    assert sorted(map(len, batches)) == [2] + 12 * [4]
    assert sorted(np.concatenate(batches)) == list(range(50))
    of_first = [bool(batch[0] < 30) for batch in batches]
    for batch, is_of_first in zip(batches, of_first, strict=True):
        assert ((batch < 30) == is_of_first).all()

    # The first row of each batch, as the key has always drawn them.
    first_rows = []
    for batch in batches:
        first_rows.append(batch[0])

    drawn = [30, 23, 13, 42, 8, 29, 24, 1, 15, 36, 27, 40, 44]
    assert first_rows == drawn

    with pytest.raises(DataError, match="remove `distinct`"):
        table.order((1, 0), 0)


def test_the_order_of_many_rows_is_exact_and_even():
    size = 150_000
    starts = [0, size, 180_000, 180_001]
    letters = {"a": size, "b": 30_000, "c": 1}
    parts = []
    for name, count in letters.items():
        parts.append(InMemoryDataset({"x": [name] * count}))

    table = Mixed(("x",), tuple(parts))

    order = table.order((42, 1), 0)
    assert len(np.unique(order)) == len(order) == starts[-1]
    shares = [(batch < size).mean() for batch in np.array_split(order, 180)]
    # Of 1,000 draws at 5/6 the standard deviation is 0.0118.
    assert 0.78 < min(shares) < max(shares) < 0.89
    assert 0.009 < np.std(shares) < 0.015


def test_the_place_of_a_single_row_is_evenly_distributed():
    """One row of the second source among 19 of the first: each place is as likely as another."""
    table = mix(19, 1).open()
    counts = np.zeros(20)
    for epoch in range(4000):
        counts[table.order((1, 0), epoch).argmax()] += 1
    # Chi-squared with 19 degrees of freedom is above 43.8 once in a thousand.
    assert ((counts - 200) ** 2 / 200).sum() < 43.8


def test_the_fingerprint_follows_the_sources():
    prints = []
    for letters in ("ab", "ba", "ac"):
        sources = tuple(Made(5, letter) for letter in letters)
        prints.append(Mix(sources=sources).open().fingerprint)

    assert mix(5, 5).open().fingerprint == prints[0]
    assert len(set(prints)) == len(prints)


def test_sources_without_a_common_column_are_a_problem():
    (problem,) = Mix(sources=(Made(5, "a"), Made(5, "b", ("negative",)))).check()
    assert (
        "`made` has anchor, positive; `made` has negative; mix sources of one kind"
        in problem
    )
    assert list(mix(5, 5).check()) == []
    with pytest.raises(ValueError, match="sources"):
        mix(5)


def test_a_mix_in_a_mix_may_not_choose_its_batches():
    source = Made(5, "a")
    smaller = mix(5, 5)
    nested = Mix(sources=(source, smaller))
    assert list(nested.check()) == []

    smaller = mix(5, 5, batches="single")
    nested = Mix(sources=(source, smaller))
    (problem,) = nested.check()
    assert "put all sources into one mix" in problem


def test_a_source_without_rows_is_named():
    with pytest.raises(DataError, match="source 2 of the mix, `made`, has no rows"):
        mix(5, 0).open()


RECIPE = """\
schema = 1
run = {{ name = "mix" }}
runtime = {{ use = "nothing" }}
[encoder]
backbone = {{ use = "nothing" }}
pooler = {{ use = "nothing" }}
[[stage]]
name = "mixed"
loss = {{ use = "nothing" }}
optimizer = {{ use = "nothing" }}
schedule = {{ use = "nothing" }}
batch_size = 4
epochs = 1
[stage.data]
use = "mix"
[[stage.data.sources]]
use = "sample"
kind = "pairs"
[[stage.data.sources]]
use = "pairs"
path = "{path}"
"""


@pytest.fixture
def problems(tmp_path):
    """Return the problems of a recipe's data; other parts are not installed here."""

    def find(**filled):
        file = tmp_path / "recipe.toml"
        file.write_text(RECIPE.format(**filled))
        document = read_document(file)
        at = ("stage", 0, "data")
        try:
            data = structure(document, DataSource, load_plugins(), tmp_path, at)
            check_components(data, document, at)
        except RecipeError as error:
            return {p.path: (p.message, p.line) for p in error.problems}

        return {}

    return find


def test_sources_are_read_from_a_recipe_with_paths_relative_to_it(tmp_path, problems):
    (tmp_path / "a.tsv").write_text("anchor\tpositive\na\tb\n")
    assert problems(path="a.tsv") == {}
    (tmp_path / "a.tsv").unlink()
    messages = problems(path="a.tsv")
    assert messages.keys() == {"stage.mixed.data.sources.1"}
    message, line = messages["stage.mixed.data.sources.1"]
    assert f"`{tmp_path / 'a.tsv'}` does not exist" in message
    assert line == 19


def test_a_mix_is_written_out_with_its_sources():
    written = unstructure(Mix(sources=(Sample(kind="pairs"), Sample())))
    assert written["use"] == "mix"
    assert written["sources"] == [
        {"use": "sample", "kind": "pairs"},
        {"use": "sample", "kind": "triplets"},
    ]


@attrs.frozen
class Scored(DataSource):
    """Pairs with a score."""

    first: float = 0.0
    columns: tuple[str, ...] = ("anchor", "positive", "score")
    numbers = frozenset({"score"})

    def open(self):
        return InMemoryDataset(
            {"anchor": ["a", "b"], "positive": ["c", "d"], "score": [self.first, 0.5]}
        )


def test_a_mix_of_numbers_has_them():
    mix = Mix(sources=(Scored(1.0), Scored(2.0)))
    assert mix.numbers == {"score"}
    assert list(mix.check()) == []
    mixed = mix.open()
    assert mixed.rows([2, 0, 1])["score"] == [2.0, 1.0, 0.5]
    assert set(mixed.texts()) == {"a", "b", "c", "d"}
    assert (
        mixed.fingerprint != Mix(sources=(Scored(1.0), Scored(3.0))).open().fingerprint
    )

    assert Mix(sources=(Scored(), Made(2, "x"))).numbers == frozenset()


def test_a_column_of_texts_and_of_numbers_is_refused():
    (problem,) = Mix(sources=(Scored(), Made(2, "x", ("anchor", "score")))).check()
    assert problem.startswith("the column `score` holds texts in the source ")
