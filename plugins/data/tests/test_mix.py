from __future__ import annotations

from collections import Counter

import attrs
import pytest
from sentbed import DataError, RecipeError, load_recipe
from sentbed._document.structuring import unstructure
from sentbed._run.batch_sampling import Sampler
from sentbed.protocols import (
    DataSource,
    Mixture,
)
from sentbed_common import InMemoryDataset
from sentbed_data.bundled_sample import Sample
from sentbed_data.mix import Mix
from sentbed_data.pairs import Pairs
from sentbed_data.triplets import Triplets


@attrs.frozen
class Made(DataSource):
    """So many rows, each text of them with the epoch."""

    rows: int
    letter: str
    columns: tuple[str, ...] = ("anchor", "positive")
    gives: int = 1000
    name = "made"

    def open(self):
        source = self

        class Table(InMemoryDataset):
            def rows(self, indices, epoch=0):
                columns = super().rows(indices[: source.gives])
                return {
                    column: [f"{text} {epoch}" for text in texts]
                    for column, texts in columns.items()
                }

        return Table(
            {
                column: [f"{self.letter}{column}{i}" for i in range(self.rows)]
                for column in self.columns
            }
        )


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
    assert table.rows([5, 0, 3, 4, 2, 0], epoch=7) == {
        column: [f"{text} 7" for text in (f"c{column}1", f"a{column}0", f"b{column}0", f"c{column}0",
                                           f"a{column}2", f"a{column}0")]
        for column in ("anchor", "positive")
    }  # fmt: skip
    assert list(table.texts(["positive"])) == [
        f"{letter}positive{i}"
        for letter, size in (("a", 3), ("b", 1), ("c", 2))
        for i in range(size)
    ]
    assert len(list(table.texts())) == 12


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, Mixture((100, 25, 4), (100, 25, 4))),
        (
            {"strategy": "round-robin"},
            Mixture((100, 25, 4), (100, 100, 100), in_turn=True),
        ),
        (
            {"strategy": "round-robin", "repeat": False},
            Mixture((100, 25, 4), (4, 4, 4), in_turn=True),
        ),
        # 129 rows in the proportions 10 : 5 : 2 are 75.9, 37.9 and 15.2.
        (
            {"strategy": "temperature", "temperature": 2},
            Mixture((100, 25, 4), (76, 38, 15)),
        ),
        (
            {"strategy": "temperature", "temperature": 1},
            Mixture((100, 25, 4), (100, 25, 4)),
        ),
        # The last has 4 rows, 2 parts of 17: 34 rows in all.
        (
            {"strategy": "temperature", "temperature": 2, "repeat": False},
            Mixture((100, 25, 4), (20, 10, 4)),
        ),
        (
            {"strategy": "weights", "weights": (2.0, 0.5, 0.5)},
            Mixture((100, 25, 4), (86, 22, 22)),
        ),
        (
            {"strategy": "weights", "weights": (0.3, 0.1, 0.01), "repeat": False},
            Mixture((100, 25, 4), (75, 25, 2)),
        ),
        (
            {"batches": "single"},
            Mixture((100, 25, 4), (100, 25, 4), whole_batches=True),
        ),
    ],
)
def test_shares_follow_the_strategy(settings, expected):
    assert mix(100, 25, 4, **settings).open().mixture == expected


def test_the_sampler_draws_by_share_and_starts_small_sources_again():
    table = mix(30, 4, strategy="weights", weights=(1.0, 1.0)).open()
    sampler = Sampler(table, table.columns, 6, (1, 0))
    texts = [
        text
        for _ in range(sampler.batches_an_epoch)
        for text in sampler.next().columns["anchor"]
    ]
    assert Counter(text[0] for text in texts) == {"a": 17, "b": 17}
    assert set(Counter(text for text in texts if text[0] == "b").values()) == {4, 5}
    assert set(Counter(text for text in texts if text[0] == "a").values()) == {1}


def test_the_fingerprint_follows_sources_and_shares():
    def fingerprint(*letters, **settings):
        return (
            Mix(sources=tuple(Made(5, letter) for letter in letters), **settings)
            .open()
            .fingerprint
        )

    prints = [
        fingerprint("a", "b"),
        fingerprint("b", "a"),
        fingerprint("a", "c"),
        fingerprint("a", "b", batches="single"),
        fingerprint("a", "b", strategy="weights", weights=(1.0, 2.0)),
    ]
    assert fingerprint("a", "b") == prints[0]
    assert len(set(prints)) == len(prints)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strategy": "temperature"}, "needs `temperature`; add it"),
        ({"strategy": "weights"}, "needs `weights`; add it"),
        (
            {"temperature": 2.0},
            "`temperature` is for `strategy = \"temperature\"`, not for 'proportional'",
        ),
        ({"weights": (1.0, 2.0)}, "`weights` is for"),
        (
            {"strategy": "weights", "weights": (1.0, 2.0, 3.0)},
            "has 3 number(s) for 2 sources",
        ),
    ],
)
def test_fields_that_do_not_fit_the_strategy_are_problems(settings, message):
    (problem,) = mix(5, 5, **settings).check()
    assert message in problem


def test_sources_without_a_common_column_and_a_mix_in_a_mix_are_problems():
    (problem,) = Mix(sources=(Made(5, "a"), Made(5, "b", ("negative",)))).check()
    assert (
        "`made` has anchor, positive; `made` has negative; mix sources of one kind"
        in problem
    )
    (problem,) = Mix(sources=(mix(5, 5), Made(5, "a"))).check()
    assert "put all sources into one" in problem
    assert list(mix(5, 5).check()) == []


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"sources": (Made(5, "a"),)}, "sources"),
        ({"temperature": 0.5}, "temperature"),
        ({"weights": (1.0, 0.0)}, "weights"),
        ({"weights": (1.0, float("inf"))}, "weights"),
    ],
)
def test_values_out_of_range_are_refused(settings, field):
    with pytest.raises(ValueError, match=field):
        Mix(**{"sources": (Made(5, "a"), Made(5, "b")), **settings})


def test_a_source_without_rows_or_that_runs_dry_is_named():
    with pytest.raises(DataError, match="source 2 of the mix, `made`, has no rows"):
        mix(5, 0).open()
    table = Mix(sources=(Made(5, "a"), Made(5, "b", gives=1))).open()
    with pytest.raises(
        DataError,
        match=r"source 2 of the mix ran dry: asked for 2 rows .* it gave 1 in epoch 4",
    ):
        table.rows([0, 5, 1, 6], epoch=3)


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
strategy = "weights"
weights = {weights}
[[stage.data.sources]]
use = "sample"
kind = "pairs"
[[stage.data.sources]]
use = "pairs"
path = "{path}"
"""


@pytest.fixture
def problems(tmp_path):
    """Return the problems that a recipe has with its data; other parts are not installed here."""

    def find(**filled):
        file = tmp_path / "recipe.toml"
        file.write_text(RECIPE.format(**filled))
        with pytest.raises(RecipeError) as fault:
            load_recipe(file)
        messages = fault.value.problems
        return {
            p.path: (p.message, p.line)
            for p in messages
            if p.path.startswith("stage.mixed.data")
        }

    return find


def test_sources_are_read_from_a_recipe_with_paths_relative_to_it(tmp_path, problems):
    (tmp_path / "a.tsv").write_text("anchor\tpositive\na\tb\n")
    assert problems(weights="[1, 2.5]", path="a.tsv") == {}
    (tmp_path / "a.tsv").unlink()
    messages = problems(weights='["1", 2]', path="a.tsv")
    assert messages.keys() == {
        "stage.mixed.data.weights.0",
        "stage.mixed.data.sources.1",
    }
    message, line = messages["stage.mixed.data.sources.1"]
    assert f"`{tmp_path / 'a.tsv'}` does not exist" in message
    assert line == 21


def test_the_mixs_own_problems_are_at_its_own_place(tmp_path, problems):
    (tmp_path / "a.tsv").write_text("anchor\tpositive\na\tb\n")
    messages = problems(weights="[1, 2, 3]", path="a.tsv")
    assert messages.keys() == {"stage.mixed.data"}
    assert "`weights` has 3 number(s) for 2 sources" in messages["stage.mixed.data"][0]


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
