from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from sentbed import RecipeError, cli
from sentbed.editing import Source
from sentbed.migrating import STEPS, Migration, migrate
from sentbed.recipe import Recipe, load_recipe
from sentbed.registry import Plugins, load_plugins
from sentbed.study.cells import load_study
from toy_plugin import RECIPE

Put = Callable[[str, str | bytes], Path]
Distribute = Callable[[str, Mapping[str, str]], list[EntryPoint]]

PLUGIN = '''
from collections.abc import Mapping
from typing import ClassVar

import attrs
import sentbed
from sentbed.protocols import Evaluator, Loss


@attrs.frozen
class Ramp:
    """How the margin grows."""

    renamed: ClassVar[Mapping[str, str]] = {"begin": "start"}

    start: float = 0.0
    """The first margin."""


@attrs.frozen
class Triplet:
    """A triplet loss that was called otherwise."""

    name: ClassVar[str] = "triplet"
    formerly: ClassVar[tuple[str, ...]] = ("hinge", "old hinge")
    renamed: ClassVar[Mapping[str, str]] = {"temp": "temperature", "grow": "ramp"}
    needs: ClassVar[frozenset[str]] = frozenset({"anchor", "positive"})

    temperature: float
    """Required."""
    ramp: Ramp | None = None
    """A table."""
    inner: tuple[Loss, ...] = ()
    """Others."""

    def build(self, width):
        """Never called."""


@attrs.frozen
class Distance:
    """An evaluator that was called otherwise."""

    name: ClassVar[str] = "distance"
    formerly: ClassVar[tuple[str, ...]] = ("gap2",)
    renamed: ClassVar[Mapping[str, str]] = {"jobs": "tasks", "encoder": "wrong"}

    tasks: tuple[str, ...] = ()
    """Tasks."""
    wrong: str = ""
    """Never meant: `encoder` is a key of `[[evaluate]]`."""

    def evaluate(self, encoder):
        """Never called."""


@attrs.frozen
class Middle:
    """A pooler that was called otherwise."""

    name: ClassVar[str] = "middle"
    formerly: ClassVar[tuple[str, ...]] = ("centre",)
    renamed: ClassVar[Mapping[str, str]] = {"size": "width"}

    width: int = 1
    """Tokens."""

    def build(self, width):
        """Never called."""


@attrs.frozen
class Odd:
    """A pooler whose fields are called as what says former names."""

    name: ClassVar[str] = "odd"

    formerly: int = 1
    """No name."""
    renamed: int = 1
    """No name."""

    def build(self, width):
        """Never called."""


@attrs.frozen
class Wrong:
    """A pooler that says one former name as text, which contains others."""

    name: ClassVar[str] = "wrong"
    formerly: ClassVar[str] = "mean-pool"
    renamed: ClassVar[tuple[str, ...]] = ("a", "b")

    def build(self, width):
        """Never called."""


@sentbed.hookimpl
def poolers():
    return [Middle]


@sentbed.hookimpl
def losses():
    return [Triplet]


@sentbed.hookimpl
def evaluators():
    return [Distance]
'''

OLD = RECIPE.replace(
    'loss = { use = "pull" }', "loss = { use = 'hinge', temp = 0.5, grow = { begin = 1 } }  # ours"
).replace('use = "gap"', 'use = "gap2"   # as it was\njobs=["a"]')
NEW = RECIPE.replace(
    'loss = { use = "pull" }', "loss = { use = 'triplet', temperature = 0.5, ramp = { start = 1 } }  # ours"
).replace('use = "gap"', 'use = "distance"   # as it was\ntasks=["a"]')


@pytest.fixture
def renaming(toy_points: Iterable[EntryPoint], distribute: Distribute) -> Plugins:
    """The toy plugin, and one whose parts have other names than before."""
    return load_plugins([*toy_points, *distribute("renamed", {"renamed_plugin": PLUGIN})])


@pytest.fixture
def migrated(put: Put, renaming: Plugins) -> Callable[..., Migration]:
    def make(text: str | bytes) -> Migration:
        return migrate(put("top.toml", text), renaming)

    return make


def test_former_names_are_rewritten_and_nothing_else_is(migrated: Callable[..., Migration]):
    assert migrated(OLD).after.decode() == NEW


def test_what_was_migrated_needs_no_migration(put: Put, renaming: Plugins):
    again = migrate(put("new.toml", NEW), renaming)
    assert again.before == again.after
    assert list(again.diff()) == []
    assert load_recipe(put("new.toml", NEW), plugins=renaming).stage[0].loss.name == "triplet"


def test_check_says_what_an_old_name_is_called_now(put: Put, renaming: Plugins):
    with pytest.raises(RecipeError) as caught:
        load_recipe(put("old.toml", OLD), plugins=renaming)
    said = [(problem.path, problem.message) for problem in caught.value.problems]
    assert sorted(said) == sorted(
        (path, f"`{old}` is now called `{new}`; `sentbed migrate FILE` rewrites it")
        for path, old, new in [
            ("stage.0.loss.use", "hinge", "triplet"),
            ("stage.0.loss.temp", "temp", "temperature"),
            ("stage.0.loss.grow", "grow", "ramp"),
            ("evaluate.0.use", "gap2", "distance"),
            ("evaluate.0.jobs", "jobs", "tasks"),
        ]
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('[stage.loss]\nuse = "hinge"\n"temp" = 1\n', '[stage.loss]\nuse = "triplet"\ntemperature = 1\n'),
        ('loss.use = "hinge"\nloss . temp = 1\n', 'loss.use = "triplet"\nloss . temperature = 1\n'),
        (
            '[stage.loss]\nuse = "old hinge"\ntemp = 1\n[stage.loss.grow] # why\nbegin = 2\n',
            '[stage.loss]\nuse = "triplet"\ntemperature = 1\n[stage.loss.ramp] # why\nstart = 2\n',
        ),
        ('loss.use = "triplet"\nloss.temperature = 1\n', 'loss.use = "triplet"\nloss.temperature = 1\n'),
        (
            'loss = { use = "triplet", inner = [ { use = "hinge" , temp=2 }, # one\n{} ] }\n',
            'loss = { use = "triplet", inner = [ { use = "triplet" , temperature=2 }, # one\n{} ] }\n',
        ),
    ],
)
def test_a_name_is_found_however_toml_has_it(migrated: Callable[..., Migration], old: str, new: str):
    head = '[[stage]]\nname = "a"\n'
    assert migrated(head + old).after.decode() == head + new


def test_crlf_and_a_byte_order_mark_stay(migrated: Callable[..., Migration]):
    content = b"\xef\xbb\xbf" + OLD.replace("\n", "\r\n").encode()
    found = migrated(content)
    assert found.after == b"\xef\xbb\xbf" + NEW.replace("\n", "\r\n").encode()
    assert not any(line.endswith("\r") for line in found.diff())


def test_the_diff_shows_the_lines_that_change(migrated: Callable[..., Migration]):
    found = migrated(OLD)
    lines = [line for line in found.diff() if line[0] in "+-"]
    assert lines == [
        f"--- {found.file}",
        f"+++ {found.file}",
        "-loss = { use = 'hinge', temp = 0.5, grow = { begin = 1 } }  # ours",
        "+loss = { use = 'triplet', temperature = 0.5, ramp = { start = 1 } }  # ours",
        '-use = "gap2"   # as it was',
        '-jobs=["a"]',
        '+use = "distance"   # as it was',
        '+tasks=["a"]',
    ]


def test_a_key_under_both_its_names_is_a_problem(migrated: Callable[..., Migration]):
    with pytest.raises(
        RecipeError, match=r"found both `temp` and `temperature`.*top.toml:2 stage.0.loss.temp"
    ):
        migrated('[[stage]]\nloss = { use = "hinge", temp = 1, temperature = 2 }\n')


def test_a_base_says_which_component_it_is_and_is_named_where_it_is_old(put: Put, renaming: Plugins):
    base = put("base.toml", OLD)
    top = put("top.toml", 'extends = "base.toml"\n[[stage]]\nname = "pull"\nloss.temp = 2\n')
    found = migrate(top, renaming)
    assert found.after.decode() == 'extends = "base.toml"\n[[stage]]\nname = "pull"\nloss.temperature = 2\n'
    assert [Path(one).resolve() for one in found.bases] == [base.resolve()]
    base.write_text(NEW)
    assert migrate(top, renaming).bases == ()


def test_names_in_the_axes_of_a_study_are_rewritten(migrated: Callable[..., Migration]):
    axes = """
[study.axes.a]
path = "stage.pull.loss.temp"   # by name
values = [0.1, 0.2]
[study.axes.b]
path = ["stage.0.loss.use"]
values = ["hinge", "pull"]
[study.axes.c]
one = { "stage.0.loss" = { use = "hinge", temp = 1 }, stage.0.loss.grow.begin = 3 }
two = { "evaluate.0.jobs" = [], "evaluate.0.encoder" = "x", "run.temp" = 2 }
"""
    new = """
[study.axes.a]
path = "stage.pull.loss.temperature"   # by name
values = [0.1, 0.2]
[study.axes.b]
path = ["stage.0.loss.use"]
values = ["triplet", "pull"]
[study.axes.c]
one = { "stage.0.loss" = { use = "triplet", temperature = 1 }, stage.0.loss.ramp.start = 3 }
two = { "evaluate.0.tasks" = [], "evaluate.0.encoder" = "x", "run.temp" = 2 }
"""
    assert migrated(OLD + axes).after.decode() == NEW + new


STUDY = """
[study]
baseline = { loss = "hinge", use = "average" }
exclude = [{ loss = ["old hinge", "pull"], use = 'centre' }, { called = "hinge" }]
include = [{ tables = "hinge", tasks = "gap2 gap" }]
[study.axes]
loss = { path = "stage.pull.loss.use", values = ["hinge", "pull"] }
use = { path = ["encoder.pooler.use"], values = ["centre", "average"] }
tables = { path = "stage.0.loss", values = [{ use = "hinge", temp = 1 }] }
tasks = { path = "evaluate", values = [[{ use = "gap2" }, { use = "gap" }]] }
called = { path = "stage.0.loss.use", values = ["hinge"], labels = ["hinge"] }
said.hinge = { "stage.0.loss.use" = "hinge" }
word = { path = "run.name", values = ["hinge"] }
[study.expected.table.cells]
"hinge, centre, hinge, gap2 gap, hinge, hinge, hinge" = { x = 1 }
"hinge" = { x = 1 }
"""


def test_labels_that_follow_from_values_are_rewritten_wherever_the_study_names_them(
    migrated: Callable[..., Migration],
):
    assert (
        migrated(NEW + STUDY).after.decode()
        == NEW
        + """
[study]
baseline = { loss = "triplet", use = "average" }
exclude = [{ loss = ["triplet", "pull"], use = 'middle' }, { called = "hinge" }]
include = [{ tables = "triplet", tasks = "distance gap" }]
[study.axes]
loss = { path = "stage.pull.loss.use", values = ["triplet", "pull"] }
use = { path = ["encoder.pooler.use"], values = ["middle", "average"] }
tables = { path = "stage.0.loss", values = [{ use = "triplet", temperature = 1 }] }
tasks = { path = "evaluate", values = [[{ use = "distance" }, { use = "gap" }]] }
called = { path = "stage.0.loss.use", values = ["triplet"], labels = ["hinge"] }
said.hinge = { "stage.0.loss.use" = "triplet" }
word = { path = "run.name", values = ["hinge"] }
[study.expected.table.cells]
"triplet, middle, triplet, distance gap, hinge, hinge, hinge" = { x = 1 }
"hinge" = { x = 1 }
"""
    )


def test_a_study_that_was_migrated_has_the_labels_that_it_names(put: Put, renaming: Plugins):
    axes = """
[study]
baseline = { pooler = "centre", rate = "0.1" }
exclude = [{ pooler = "average", rate = "0.5" }]
expected.t.cells."centre, 0.5".gap = 1
[study.axes]
pooler = { path = "encoder.pooler.use", values = ["centre", "average"] }
rate = { path = "stage.pull.optimizer.lr", values = [0.1, 0.5] }
"""
    found = migrate(put("top.toml", RECIPE + axes), renaming)
    study = load_study(put("new.toml", found.after), plugins=renaming)
    assert study.names == ("middle, 0.1", "middle, 0.5", "average, 0.1")
    # Another file may have the axes, and be migrated before this one.
    top = put("on-top.toml", 'extends = "new.toml"\nstudy.baseline.pooler = "centre"\n')
    assert b'study.baseline.pooler = "middle"' in migrate(top, renaming).after


def test_the_file_of_an_encoder_is_migrated_too(migrated: Callable[..., Migration]):
    text = 'schema = 1\nbackbone = { use = "characters" } # kept\npooler = { use = "centre", size = 2 }\n'
    new = text.replace("centre", "middle").replace("size", "width")
    assert migrated(text).after.decode() == new


def test_types_that_cannot_be_read_hide_no_name(
    put: Put, toy_points: Iterable[EntryPoint], distribute: Distribute
):
    source = PLUGIN.replace("    width: int = 1\n", '    width: "Nowhere" = 1\n')
    plugins = load_plugins([*toy_points, *distribute("hidden", {"hidden_plugin": source})])
    old, new = (
        RECIPE.replace('use = "average"', pooler)
        for pooler in ('use = "centre", size = 1', 'use = "middle", width = 1')
    )
    assert migrate(put("x.toml", old), plugins).after.decode() == new


def test_only_what_says_former_names_is_taken_for_it(put: Put, renaming: Plugins):
    import renamed_plugin

    info = renaming.find("pooler", "middle")
    odd, wrong = (
        attrs.evolve(info, name=cls.name, cls=cls) for cls in (renamed_plugin.Odd, renamed_plugin.Wrong)
    )
    more = {("pooler", "odd"): odd, ("pooler", "wrong"): wrong}
    plugins = attrs.evolve(renaming, components={**renaming.components, **more})

    def load(pooler: str) -> Recipe:
        return load_recipe(put("x.toml", RECIPE.replace('use = "average"', pooler)), plugins=plugins)

    assert load('use = "odd", renamed = 3, formerly = 2').encoders["encoder"].pooler.name == "odd"
    assert load('use = "wrong"').encoders["encoder"].pooler.name == "wrong"
    with pytest.raises(RecipeError, match="there is no pooler `pool`"):
        load('use = "pool"')
    with pytest.raises(RecipeError, match="unknown key `a`"):
        load('use = "wrong", a = 1')


# --- schema ------------------------------------------------------------------------------------------------


def test_a_recipe_without_schema_gets_one_behind_its_first_comments(migrated: Callable[..., Migration]):
    text = "# Ours\n\n" + RECIPE.replace("schema = 1\n\n", "")
    assert migrated(text).after.decode() == "# Ours\n\nschema = 1\n\n" + RECIPE.replace("schema = 1\n\n", "")


def test_a_part_that_others_extend_needs_no_schema(migrated: Callable[..., Migration]):
    found = migrated('[run]\nname = "x"\n')
    assert found.before == found.after


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("2", "install a newer sentbed"),
        ("0", "there is no way from that one"),
        ("[1]", "no way"),
        ("true", "no way"),
    ],
)
def test_another_schema_is_a_problem(migrated: Callable[..., Migration], said: str, advice: str):
    with pytest.raises(RecipeError, match=f"this version of sentbed reads 1: .*{advice}.*top.toml:1 schema"):
        migrated(RECIPE.replace("schema = 1", f"schema = {said}"))


def test_steps_lead_from_version_to_version(
    migrated: Callable[..., Migration], monkeypatch: pytest.MonkeyPatch
):
    def first(source: Source) -> None:
        source.rename(("job",), "run")

    def second(source: Source) -> None:
        # It sees what the first has made.
        source.rename(("run", "title"), "name")

    monkeypatch.setitem(STEPS, -1, first)
    monkeypatch.setitem(STEPS, 0, second)
    old = OLD.replace("schema = 1", "schema = -1").replace("[run]\nname", "[job]\ntitle")
    assert migrated(old).after.decode() == NEW


# --- edits -------------------------------------------------------------------------------------------------

names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=5)


@given(old=names, new=names, value=st.text(max_size=8))
def test_an_edited_file_says_what_it_is_to_say(old: str, new: str, value: str):
    import tomli_w

    table = {"t": {old: {"x": "before", "y": [1, {"z": 2.5}]}}, "u": 1}
    source = Source(tomli_w.dumps(table), "x.toml")
    if old != new:
        source.rename(("t", old), new)
    source.replace(("t", old, "x"), value)
    changed = source.changed().document.data
    assert changed == {"t": {new: {"x": value, "y": [1, {"z": 2.5}]}}, "u": 1}


# --- the command -------------------------------------------------------------------------------------------


@pytest.fixture
def command(renaming: Plugins, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.setattr("sentbed.registry.load_plugins", lambda: renaming)

    def run(*arguments: str | Path) -> str:
        result = CliRunner().invoke(cli.main, ["migrate", *map(str, arguments)])
        assert result.exit_code == 0
        return result.output

    return run


def test_nothing_is_written_without_write(put: Put, command: Callable[..., str]):
    recipe = put("old.toml", OLD)
    output = command(recipe)
    assert output.endswith(f"`sentbed migrate {recipe} --write` writes this\n")
    assert recipe.read_text() == OLD
    assert command(recipe, "--write").endswith(f"{recipe}: written\n")
    assert recipe.read_text() == NEW
    assert command(recipe) == f"{recipe}: nothing to do\n"


def test_a_base_that_is_old_is_named(put: Put, command: Callable[..., str]):
    base = put("base.toml", OLD)
    top = put("top.toml", 'extends = "base.toml"\n')
    said = f"{top} extends {base}, which is old too: `sentbed migrate {base}`"
    assert command(top).splitlines() == [f"{top}: nothing to do", said]
