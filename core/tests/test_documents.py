"""Documents: lines of keys, `extends`, values that are set at paths, and their conversion to classes and back."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import attrs
import pytest
import tomli
import tomli_w
import toy_plugin
from attrs.validators import ge
from sentbed import FilePath, ModelId, RecipeError, load_recipe
from sentbed._registry.registry import load_plugins
from sentbed._toml import parse
from sentbed.protocols import Evaluator, Loss
from sentbed.tools import (
    Document,
    apply_overrides,
    read_document,
    resolved_toml,
    structure,
    unstructure,
)
from toy_plugin import RECIPE

BASE = Path("/recipes/here")
Q3, A3 = '"""', "'''"


@pytest.fixture
def workdir(tmp_path, monkeypatch):
    """Work in the test's directory, so that files are named as a user would."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- lines -------------------------------------------------------------------------------------------------


def paths(value, path=()):
    if path:
        yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from paths(item, (*path, index))


def lines(text):
    """The line of every value: `a:1 a.b:2`."""
    document = parse(text.encode())
    shown = []
    for path in paths(document.data):
        _, line = document.place(path)
        shown.append(f"{'.'.join(map(str, path))}:{line}")
    return " ".join(shown)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1\n\n[t]\nb = 2\n[t.u]\nc = 3\n", "a:1 t:3 t.b:4 t.u:5 t.u.c:6"),
        (
            "[[s]]\na = 1\n[[s]]\na = 2\n[s.sub]\nb = 1\n[[s.t]]\nc = 1\n[[s.t]]\nc = 2\n",
            "s:1 s.0:1 s.0.a:2 s.1:3 s.1.a:4 s.1.sub:5 s.1.sub.b:6 s.1.t:7 s.1.t.0:7 s.1.t.0.c:8 "
            "s.1.t.1:9 s.1.t.1.c:10",
        ),
        (
            "[[s]]\n[[s.t]]\na = 1\n[[s]]\n[[s.t]]\na = 2\n",
            "s:1 s.0:1 s.0.t:2 s.0.t.0:2 s.0.t.0.a:3 s.1:4 s.1.t:5 s.1.t.0:5 s.1.t.0.a:6",
        ),
        ("x = 1\na . b.c = 2\na.d = 3\n", "x:1 a:2 a.b:2 a.b.c:2 a.d:3"),
        (
            'a = { b = 1, c.d = [ 2, "}" ] }\nf = 1',
            "a:1 a.b:1 a.c:1 a.c.d:1 a.c.d.0:1 a.c.d.1:1 f:2",
        ),
        (
            "a = [\n  1, # one ] \n\n  [3,\n 4],\n]\nb = 1",
            "a:1 a.0:1 a.1:1 a.1.0:1 a.1.1:1 b:7",
        ),
        ("# [no]\na = 1 # b = 2\n[t] # [u]\n# c = 1\nd = 4 # end", "a:2 t:3 t.d:5"),
        (f"a = 1\r\n\r\n[t]\r\nb = {Q3}x\r\ny{Q3}\r\nc = 1\r\n", "a:1 t:3 t.b:4 t.c:6"),
        (f"a = {A3}\n]\n[t]\nx = 1 \\{A3}\n'b.c' = 1\n\"\" = 2", "a:1 b.c:5 :6"),
        ("", ""),
    ],
)
def test_values_have_the_line_of_the_statement_that_sets_them(text, expected):
    assert lines(text) == expected


@pytest.mark.parametrize(
    ("names", "index", "shown"),
    [
        (["nli", "qa"], 1, "qa"),
        (["nli", "nli"], 1, "1"),
        (["a.b"], 0, "0"),
        (["1", "x"], 0, "0"),
        ([3, ""], 1, "1"),
        (["x"], 7, "7"),
    ],
)
def test_the_path_of_a_problem_is_the_one_that_an_override_takes(names, index, shown):
    document = Document.of({"stage": [{"name": name} for name in names]})
    path = document.problem("wrong", ("stage", index, "loss")).path
    assert path == f"stage.{shown}.loss"
    assert document.key_path(path) == ("stage", index, "loss")


# --- extends -----------------------------------------------------------------------------------------------


@pytest.fixture
def merged(put, workdir):
    """Read the last of several files, each of which but the last is a base of it, in order."""

    def read(*texts):
        names = [f"{i}.toml" for i in range(1, len(texts))]
        for name, text in zip(names, texts, strict=False):
            put(name, text)
        put("top.toml", f"extends = {names}\n{texts[-1]}")
        return read_document("top.toml")

    return read


def test_tables_are_merged_down_to_the_values_which_keep_their_places(merged):
    document = merged(
        "a = 1\n[t]\nb = 1\nc = 1\n[t.u]\nd = 1\ne = 1\n",
        "a = 2\nf = 2\n[t]\nc = 2\nu.e = 2\nv.g = 2\n",
        "a = 3\n",
    )
    assert document.data == {
        "a": 3,
        "t": {"b": 1, "c": 2, "u": {"d": 1, "e": 2}, "v": {"g": 2}},
        "f": 2,
    }
    places = {
        ("a",): ("top.toml", 2),
        ("t",): ("2.toml", 3),
        ("t", "b"): ("1.toml", 3),
        ("t", "u", "d"): ("1.toml", 6),
        ("t", "u", "e"): ("2.toml", 5),
        ("z",): ("top.toml", None),
    }
    assert {path: document.place(path) for path in places} == places


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ("[1, 2, 3]", "[4]"),
        ("{ x = 1 }", "3"),
        ("[{ x = 1 }, { x = 2 }]", "[{ y = 1 }]"),
        ('[{ name = "n", x = 1 }]', "[{ y = 1 }]"),
        ('[{ name = "n", x = 1 }]', "[]"),
        ('[{ name = "n", x = 1 }, { name = "n" }]', '[{ name = "n", y = 1 }]'),
        ("[{ name = 1, x = 1 }]", "[{ name = 1 }]"),
        ('{ name = "n", x = 1 }', '[{ name = "n" }]'),
        ('{ use = "a", x = 1 }', '{ use = "b" }'),
    ],
)
def test_everything_else_is_replaced(merged, low, high):
    document = merged(f"a = {low}", f"a = {high}")
    assert document.data == tomli.loads(f"a = {high}")
    assert document.place(("a", 0)) == ("top.toml", 2)


@pytest.mark.parametrize(
    ("low", "high", "result"),
    [
        ('use = "a", x = 1', 'use = "a", y = 2', {"use": "a", "x": 1, "y": 2}),
        ('use = "a", x = 1', "y = 2", {"use": "a", "x": 1, "y": 2}),
        ("x = 1", 'use = "b"', {"use": "b", "x": 1}),
    ],
)
def test_a_component_of_the_same_name_is_merged(merged, low, high, result):
    assert merged(f"c = {{ {low} }}", f"c = {{ {high} }}").data == {"c": result}


def test_arrays_of_tables_with_names_are_merged_by_name_and_new_names_come_last(merged):
    document = merged(
        '[[s]]\nname = "a"\nx = 1\n[[s]]\nname = "b"\nx = 1\nt = { y = 1, z = 1 }\n',
        '[[s]]\nname = "new"\n[[s]]\nname = "b"\nt.z = 2\n',
    )
    assert document.data["s"] == [
        {"name": "a", "x": 1},
        {"name": "b", "x": 1, "t": {"y": 1, "z": 2}},
        {"name": "new"},
    ]
    places = {
        ("s", 0, "x"): ("1.toml", 3),
        ("s", 1, "t", "y"): ("1.toml", 7),
        ("s", 1, "t", "z"): ("top.toml", 6),
        ("s", 2, "name"): ("top.toml", 3),
    }
    assert {path: document.place(path) for path in places} == places


def test_a_base_may_have_bases_and_one_that_is_reached_twice_counts_once(put, workdir):
    put("root.toml", "a = 0\nb = 0\nc = 0\nd = 0")
    put("left.toml", 'extends = "root.toml"\na = 1\nb = 1')
    put("right.toml", 'extends = "root.toml"\nb = 2\nc = 2')
    put("top.toml", 'extends = ["left.toml", "right.toml"]\nc = 3')
    assert read_document("top.toml").data == {"a": 1, "b": 2, "c": 3, "d": 0}


def test_a_path_starts_at_the_file_that_has_it(put, workdir, plugins):
    stage = RECIPE.replace(
        '{ use = "words", rows = 11 }', '{ use = "table", path = "lines.txt" }'
    )
    put("base/lines.txt", "one\ntwo\n")
    put("base/base.toml", stage.replace("width = 4", 'width = 4, model = "../weights"'))
    top = put("top/top.toml", 'extends = "../base/base.toml"\n')

    def paths_of(*overrides):
        recipe = pickle.loads(pickle.dumps(load_recipe(top, overrides, plugins)))
        backbone = recipe.encoders["encoder"].backbone
        return recipe.stage[0].data.path, backbone.model

    assert paths_of() == (
        str(workdir / "base" / "lines.txt"),
        str(workdir / "weights"),
    )
    assert paths_of("stage.pull.data.path=a", "encoder.backbone.model=./b") == (
        str(workdir / "top" / "a"),
        str(workdir / "top" / "b"),
    )
    assert paths_of("encoder.backbone.model=org/b")[1] == "org/b"


def test_the_resolved_recipe_stands_alone(put, workdir, plugins):
    put("base/base.toml", RECIPE)
    put("top.toml", 'extends = "base/base.toml"\n')
    recipe = load_recipe("top.toml", plugins=plugins)
    assert recipe == load_recipe("base/base.toml", plugins=plugins)
    assert type(recipe.run.name) is str
    resolved = put("far/away/resolved.toml", resolved_toml(recipe))
    assert load_recipe(resolved, plugins=plugins) == recipe


# --- overrides ---------------------------------------------------------------------------------------------

STAGES = (
    b'[[stage]]\nname = "a"\nsteps = 1\n[[stage]]\nname = "b"\n[[stage]]\nname = "c"\n'
)


@pytest.mark.parametrize(
    ("overrides", "stages"),
    [
        (
            ["stage.b=false", "stage.0.steps=3"],
            [{"name": "a", "steps": 3}, {"name": "c"}],
        ),
        (["stage.0=", "stage.1=false", "stage.b.steps=9"], [{"name": "b", "steps": 9}]),
        (["stage.0.steps="], [{"name": "a"}, {"name": "b"}, {"name": "c"}]),
        (["stage.0=", "stage=[]"], []),
        (["stage=[{}]", "stage.0.loss.use=x"], [{"loss": {"use": "x"}}]),
    ],
)
def test_elements_are_set_and_removed_in_the_order_of_the_overrides(overrides, stages):
    document = apply_overrides(parse(STAGES, "f.toml"), overrides)
    assert document.data["stage"] == stages
    assert document.overrides == tuple(overrides)


# --- classes -----------------------------------------------------------------------------------------------


@attrs.frozen
class Inner:
    size: int = attrs.field(validator=ge(1))
    other_size: int = 1


@attrs.frozen
class Values:
    whole: int = 1
    number: float = 1.0
    flag: bool = False
    text: str = ""
    choice: Literal["red", "green", 3] = "red"
    maybe: int | None = None
    either: int | str = 0
    number_or_text: float | str = ""
    many: tuple[int, ...] = ()
    pair: tuple[int, str] = (0, "")
    named: Mapping[str, float] = attrs.field(factory=dict)
    tables: tuple[Inner, ...] = ()
    one_or_more: Inner | tuple[Inner, ...] | None = None
    inner: Inner | None = None
    file: FilePath | None = None
    model: ModelId | None = None


def read(text, cls, plugins):
    return structure(parse(text.encode(), "r.toml"), cls, plugins, BASE)


def problems_of(text, cls, plugins):
    with pytest.raises(RecipeError) as caught:
        read(text, cls, plugins)
    places = []
    for problem in caught.value.problems:
        places.append((problem.line, problem.path, problem.message))
    return places


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("whole = -3", -3),
        ("number = 2", 2.0),
        ("flag = true", True),
        ("text = 'x'", "x"),
        ("choice = 'green'", "green"),
        ("choice = 3", 3),
        ("maybe = 4", 4),
        ("either = 5", 5),
        ("either = '5'", "5"),
        ("number_or_text = 1", 1.0),
        ("many = []", ()),
        ("many = [3, 1, 2]", (3, 1, 2)),
        ("pair = [1, 'a']", (1, "a")),
        ("named = { a = 1, 'b c' = 0.5 }", {"a": 1.0, "b c": 0.5}),
        ("tables = [{ size = 1 }, { size = 2 }]", (Inner(1), Inner(2))),
        ("one_or_more = [{ size = 1 }]", (Inner(1),)),
        ("one_or_more = { size = 1 }", Inner(1)),
        ("inner.size = 3", Inner(3)),
        ("file = '../data/x.tsv'", "/recipes/data/x.tsv"),
        ("file = '/abs/x.tsv'", "/abs/x.tsv"),
        ("file = '~/x.tsv'", "/home/someone/x.tsv"),
        ("file = 'pkg:some_package/x.tsv'", "pkg:some_package/x.tsv"),
        ("file = 'data:x.tsv'", "data:x.tsv"),
        ("file = 'hub:owner/name'", "hub:owner/name"),
        ("model = 'owner/name'", "owner/name"),
        ("model = './model'", "/recipes/here/model"),
        ("model = '~/m'", "/home/someone/m"),
    ],
)
def test_a_value_of_the_right_type_is_kept_with_its_type(
    text, value, plugins, monkeypatch
):
    monkeypatch.setenv("HOME", "/home/someone")
    structured = read(text, Values, plugins)
    (field,) = tomli.loads(text)
    assert getattr(structured, field) == value
    assert type(getattr(structured, field)) is type(value)
    # What is written with all defaults reads as the same.
    assert read(tomli_w.dumps(unstructure(structured)), Values, plugins) == structured


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("either = true", "either", "found True, expected a whole number or a string"),
        ("pair = [1]", "pair", "found the array [1], expected an array of 2"),
        ("pair = ['a', 'a']", "pair", "found 'a', expected a whole number"),
        ("one_or_more = 3", "one_or_more", "found 3, expected a table or an array"),
        ("choice = 3.0", "choice", "expected one of `3`, `green`, `red`"),
        ("choice = true", "choice", "expected one of `3`, `green`, `red`"),
        ("tables = [{ size = 0 }]", "tables.0.size", "must be >= 1: 0"),
        ("inner = { siz = 1 }", "inner", "the required key `size` is missing"),
    ],
)
def test_a_value_of_another_type_is_a_problem_and_is_never_converted(
    text, path, message, plugins
):
    line, path_of_problem, shown = problems_of(f"\n{text}", Values, plugins)[0]
    assert (line, path_of_problem) == (2, path)
    assert message in shown


@attrs.frozen
class Range:
    low: int = 0
    high: int = attrs.field(default=1)

    @high.validator
    def _above_low(self, attribute, value):
        if value <= self.low:
            raise ValueError("`high` must be above `low`")


def test_a_validator_that_looks_at_another_field_is_a_problem_of_the_table(plugins):
    message = "`high` must be above `low`"
    assert problems_of("low = 3\nhigh = 2", Range, plugins) == [(None, "", message)]
    assert read("low = 3\nhigh = 4", Range, plugins) == Range(3, 4)


@attrs.frozen
class Inline:
    evaluator: Evaluator = attrs.field(metadata={"inline": True})
    at: str = "end"


def test_keys_of_an_inline_component_stand_beside_those_of_its_table(plugins):
    value = read("at = 'start'\nuse = 'gap'\ntarget = 0.5", Inline, plugins)
    assert value == Inline(toy_plugin.Gap(target=0.5), "start")
    assert unstructure(value) == {
        "use": "gap",
        "left": "abc",
        "right": "nop",
        "target": 0.5,
        "development": False,
        "at": "start",
    }


@attrs.frozen
class Parts:
    loss: Loss | None = None


FAULTY = """
from __future__ import annotations
import attrs
import sentbed
from sentbed.protocols import Loss
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pathlib import Path

@attrs.frozen
class Mine(Loss):
    '''A loss.'''
    name: ClassVar[str] = "mine"
    size: int = 1
    FIELD
    columns = frozenset()
    def build(self, width): ...

@sentbed.hookimpl
def losses(): return [Mine]
"""


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("file: Path | None = None", "NameError: name 'Path' is not defined"),
        ("def __attrs_post_init__(self): 1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_class_that_cannot_be_made_is_a_problem_that_names_its_plugin(
    field, reason, distribute
):
    points = distribute("d", {"faulty_plugin": FAULTY.replace("FIELD", field)})
    text = '[loss]\nuse = "mine"\n'
    [(line, path, message)] = problems_of(text, Parts, load_plugins(points))
    assert (line, path) == (1, "loss")
    assert message.startswith("making `Mine` of `d` 1.0 raised ")
    assert reason in message
