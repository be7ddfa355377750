from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import attrs
import pytest
from sentbed import DataError, FilePath
from sentbed.protocols import Evaluate, Evaluator
from sentbed_studies.cell_keys import CellKeys
from toy_plugin import RECIPE

TABLE = RECIPE.replace(
    'data = { use = "words", rows = 11 }', 'data = { use = "table", path = "rows.tsv" }'
)


@attrs.frozen
class Shelf(Evaluator):
    """Reads one file of a directory."""

    name: ClassVar[str] = "shelf"

    data_dir: FilePath
    book: str = "chosen.txt"

    def prepare(self):
        raise NotImplementedError

    def files(self):
        if self.book == "":
            raise DataError("there is no book; name one")
        yield Path(self.data_dir) / self.book


@attrs.frozen
class Volumes(Evaluator):
    """Reads several files, which its field names."""

    name: ClassVar[str] = "volumes"

    paths: tuple[FilePath, ...]

    def prepare(self):
        raise NotImplementedError


@pytest.fixture
def key(recipe_of, plugins):
    """The key of the recipe of a text and overrides."""
    return lambda *arguments: CellKeys(plugins).of(recipe_of(*arguments))


@pytest.fixture
def key_with(recipe_of, plugins):
    """The key of the toy's recipe with one evaluator."""
    return lambda evaluator: CellKeys(plugins).of(
        attrs.evolve(recipe_of(), evaluate=(Evaluate(evaluator=evaluator),))
    )


@pytest.mark.parametrize(
    "override",
    [
        "stage.pull.loss.noise=0.25",
        "run.seed=8",
        "encoder.max_length=15",
        "stage.pull.epochs=3",
    ],
)
def test_what_decides_a_score_decides_the_key(override, key):
    assert key(RECIPE, override) != key()


@pytest.mark.parametrize(
    "arguments",
    [
        (RECIPE, 'run.name="other"'),
        (RECIPE, "run.cache=false"),
        (RECIPE, "run.allow_overlap=true"),
        (RECIPE, "checkpoint.every=3"),
        (RECIPE, "expected.gap.value=1.0", "expected.gap.tolerance=1.0"),
        # A default that is written out.
        (RECIPE, "stage.pull.max_grad_norm=1.0"),
        (RECIPE + '\n[[tracker]]\nuse = "notes"\n',),
    ],
)
def test_what_decides_no_score_leaves_the_key(arguments, key):
    assert key(*arguments) == key()


def test_the_content_of_a_file_decides_and_not_its_time(key, put):
    put("rows.tsv", "anchor\tpositive\n" + "one\ttwo\n" * 4)
    before = key(TABLE)
    put("rows.tsv", "anchor\tpositive\n" + "one\ttwo\n" * 4)
    assert key(TABLE) == before
    put("rows.tsv", "anchor\tpositive\n" + "one\tsix\n" * 4)
    assert key(TABLE) != before


def test_the_name_and_content_of_a_file_decide_and_not_its_place(key, put):
    def of(name, content="anchor\tpositive\none\ttwo\n"):
        put(name, content)
        return key(TABLE, f'stage.pull.data.path="{name}"')

    assert of("here/rows.tsv") == of("there/rows.tsv")
    # A suffix may say how to read, a name is often that of the score.
    assert of("there/rows.csv") != of("there/rows.tsv")
    assert of("far/rows.tsv", "anchor\tpositive\none\tsix\n") != of("there/rows.tsv")


def test_the_data_may_move_to_another_root(key, put, monkeypatch):
    keys = []
    for root, content in (("one", "same"), ("two", "same"), ("three", "else")):
        monkeypatch.setenv("SENTBED_DATA", str(put(f"{root}/rows.tsv", content).parent))
        keys.append(key(TABLE, 'stage.pull.data.path="data:rows.tsv"'))
    assert keys[0] == keys[1] != keys[2]


def test_every_file_of_a_directory_decides_with_its_name(key, put, tmp_path):
    def of(place):
        return key(TABLE, f'stage.pull.data.path="{place}/shards"')

    for place in ("here", "there"):
        put(f"{place}/shards/a.tsv", "one")
        put(f"{place}/shards/deep/b.tsv", "two")
    before = of("here")
    assert of("there") == before
    put("there/shards/deep/b.tsv", "six")
    assert of("there") != before
    put("there/shards/deep/b.tsv", "two")
    (tmp_path / "there/shards/deep/b.tsv").rename(tmp_path / "there/shards/deep/c.tsv")
    assert of("there") != before


def test_of_a_directory_only_that_decides_which_is_said_to_be_read(key_with, put):
    def of(place):
        return key_with(Shelf(FilePath(str(put(f"{place}/x", "x").parent))))

    put("here/chosen.txt", "one")
    before = of("here")
    put("here/unrelated.txt", "fetched later")
    assert of("here") == before
    put("there/chosen.txt", "one")
    assert of("there") == before
    put("there/chosen.txt", "two")
    assert of("there") != before


def test_a_component_that_finds_nothing_to_read_has_a_key(key_with, tmp_path):
    nothing, gone = (
        Shelf(FilePath(str(tmp_path)), ""),
        Shelf(FilePath(str(tmp_path / "gone"))),
    )
    keys = {key_with(shelf) for shelf in (nothing, gone)}
    assert len(keys) == 2


def test_several_files_of_a_field_decide_in_their_order(key_with, put):
    def of(*names):
        paths = tuple(
            FilePath(str(put(name, f"content of {Path(name).name}"))) for name in names
        )
        return key_with(Volumes(paths))

    assert of("here/a", "here/b") == of("there/a", "there/b")
    assert of("here/a", "here/b") != of("here/b", "here/a")


def test_a_hub_id_is_none_of_the_directories_here(key, put, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    hub = [RECIPE, 'encoder.backbone.model="org/model"']
    local = [RECIPE, 'encoder.backbone.model="./org/model"']
    of_hub = key(*hub)
    of_local = {key(*local)}
    for content in ("one", "two"):
        put("org/model/weights", content)
        assert key(*hub) == of_hub
        of_local.add(key(*local))
    assert len(of_local - {of_hub}) == 3
