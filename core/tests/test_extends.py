from __future__ import annotations

import copy
import json
import pickle
import tempfile
from pathlib import Path

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st
from sentbed import RecipeError
from sentbed._document.extends import extend
from sentbed._document.toml import Located
from sentbed._recipe.load import load_recipe, read_document
from sentbed._recipe.recipe import resolved_toml
from toy_plugin import RECIPE


@pytest.fixture
def workdir(tmp_path, monkeypatch):
    """Work in the test's directory, so that files are named as a user would."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


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


def problems(file):
    with pytest.raises(RecipeError) as caught:
        read_document(file)
    return [str(problem) for problem in caught.value.problems]


# --- what is merged ----------------------------------------------------------------------------------------


def test_tables_are_merged_down_to_the_values(merged):
    document = merged(
        "a = 1\n[t]\nb = 1\nc = 1\n[t.u]\nd = 1\ne = 1\n",
        "f = 2\n[t]\nc = 2\nu.e = 2\nv.g = 2\n",
    )
    assert document.data == {
        "a": 1,
        "t": {"b": 1, "c": 2, "u": {"d": 1, "e": 2}, "v": {"g": 2}},
        "f": 2,
    }


def test_later_bases_have_their_say_on_earlier_ones_and_the_recipe_on_all(merged):
    assert merged("a = 1\nb = 1\nc = 1", "b = 2\nc = 2", "c = 3").data == {
        "a": 1,
        "b": 2,
        "c": 3,
    }


def test_extends_itself_is_no_part_of_the_recipe(merged):
    assert merged("a = 1", "").data == {"a": 1}


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ("[1, 2, 3]", "[4]"),
        ("{ x = 1 }", "3"),
        ("3", "{ x = 1 }"),
        ("[{ x = 1 }, { x = 2 }]", "[{ y = 1 }]"),
        ('[{ name = "n", x = 1 }]', "[{ y = 1 }]"),
        ("[{ y = 1 }]", '[{ name = "n", x = 1 }]'),
        ('[{ name = "n", x = 1 }]', "[]"),
        ('[{ name = "n", x = 1 }, { name = "n" }]', '[{ name = "n", y = 1 }]'),
        ('[{ name = "n", x = 1 }]', '[{ name = "n", y = 1 }, { name = "n" }]'),
        ("[{ name = 1, x = 1 }]", "[{ name = 1 }]"),
        ('{ name = "n", x = 1 }', '[{ name = "n" }]'),
    ],
)
def test_everything_else_is_replaced(merged, low, high):
    alone = merged(f"a = {high}")
    document = merged(f"a = {low}", f"a = {high}")
    assert document.data == alone.data
    assert set(document.places) == {
        path for path in alone.places if path[0] != "extends"
    }


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
        path: document.place(("s", *path))
        for path in [(0, "x"), (1, "t", "y"), (1, "t", "z"), (2, "name")]
    }
    assert places == {
        (0, "x"): ("1.toml", 3),
        (1, "t", "y"): ("1.toml", 7),
        (1, "t", "z"): ("top.toml", 6),
        (2, "name"): ("top.toml", 3),
    }


@pytest.mark.parametrize(
    ("low", "high", "result"),
    [
        ('use = "a", x = 1', 'use = "b"', {"use": "b"}),
        ('use = "a", x = 1', 'use = "a", y = 2', {"use": "a", "x": 1, "y": 2}),
        ('use = "a", x = 1', "y = 2", {"use": "a", "x": 1, "y": 2}),
        ("x = 1", 'use = "b"', {"use": "b", "x": 1}),
    ],
)
def test_a_component_of_another_name_takes_nothing_over(merged, low, high, result):
    assert merged(f"c = {{ {low} }}", f"c = {{ {high} }}").data == {"c": result}


def test_a_base_may_have_bases_and_one_that_is_reached_twice_counts_once(put, workdir):
    put("root.toml", "a = 0\nb = 0\nc = 0\nd = 0")
    put("left.toml", 'extends = "root.toml"\na = 1\nb = 1')
    put("right.toml", 'extends = "root.toml"\nb = 2\nc = 2')
    put("top.toml", 'extends = ["left.toml", "right.toml"]\nc = 3')
    assert read_document("top.toml").data == {"a": 1, "b": 2, "c": 3, "d": 0}


def test_a_base_may_be_in_a_package_or_among_the_data(put, workdir, monkeypatch):
    put("data/b.toml", "a = 1")
    put("site/some_recipes/__init__.py", "")
    put("site/some_recipes/c.toml", "b = 1")
    monkeypatch.setenv("SENTBED_DATA", str(workdir / "data"))
    monkeypatch.syspath_prepend(str(workdir / "site"))
    put("top.toml", 'extends = ["data:b.toml", "pkg:some_recipes/c.toml"]')
    document = read_document("top.toml")
    assert document.data == {"a": 1, "b": 1}
    assert document.place(("a",)) == (str(workdir / "data" / "b.toml"), 1)


def test_an_override_comes_after_the_merge(put, workdir):
    put("base.toml", RECIPE)
    put("top.toml", 'extends = "base.toml"\nrun.seed = 1\n')
    document = read_document(
        "top.toml", ["run.seed=2", "stage.pull.epochs=9", "run.name="]
    )
    assert document.data["run"] == {"seed": 2}
    assert document.data["stage"][0]["epochs"] == 9


# --- where it comes from -----------------------------------------------------------------------------------


def test_every_key_knows_its_file_and_line(merged):
    document = merged(
        "a = 1\n[t]\nb = 1\n\nc = 1\n", "[t]\nc = 2\nnew = { deep = 1 }\n"
    )
    paths = [
        ("a",),
        ("t",),
        ("t", "b"),
        ("t", "c"),
        ("t", "new", "deep"),
        ("t", "nowhere"),
    ]
    assert [document.place(path) for path in paths] == [
        ("1.toml", 1),
        ("top.toml", 2),
        ("1.toml", 3),
        ("top.toml", 3),
        ("top.toml", 4),
        ("top.toml", 2),
    ]
    assert document.place(("z",)) == ("top.toml", None)


NAMED = st.lists(
    st.dictionaries(st.sampled_from("xy"), st.integers(0, 9)), max_size=3, unique_by=str
).map(lambda items: [{"name": f"n{sum(item.values()) % 4}", **item} for item in items])
TABLES = st.recursive(
    st.integers(0, 9) | st.lists(st.integers(0, 9), max_size=2) | NAMED,
    lambda inner: st.dictionaries(
        st.sampled_from(["a", "b", "use"]), inner, max_size=3
    ),
    max_leaves=8,
)


def everything(value, at=()):
    yield at, value
    items = enumerate(value) if isinstance(value, list) else ()
    for key, item in value.items() if isinstance(value, dict) else items:
        yield from everything(item, (*at, key))


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["a", "b", "c"]), TABLES, max_size=3),
        min_size=2,
        max_size=3,
    )
)
def test_every_key_has_a_line_and_the_file_that_says_its_value(files):
    with tempfile.TemporaryDirectory() as directory:
        names = [str(Path(directory, f"{i}.toml")) for i in range(len(files))]
        for name, data in zip(names, files, strict=True):
            Path(name).write_text(tomli_w.dumps(data))
        text = f"extends = {json.dumps(names[:-1])}\n{tomli_w.dumps(files[-1])}"
        Path(names[-1]).write_text(text)
        document = extend(text.encode(), names[-1], 1)
    values = dict(everything(document.data))
    assert set(document.places) - {
        ("extends",),
        *(("extends", i) for i in range(3)),
    } == set(values) - {()}
    for path, value in values.items():
        file, _ = document.place(path)
        if path and not isinstance(value, dict | list):
            # Elements that are merged by name have other numbers in other files.
            places = [
                at
                for at, other in everything(files[names.index(str(file))])
                if other == value
            ]
            assert any(_alike(at, path) for at in places), (path, file)


def _alike(path, other):
    return [key for key in path if isinstance(key, str)] == [
        key for key in other if isinstance(key, str)
    ]


def test_a_problem_names_the_file_that_says_it(put, workdir, plugins):
    put("base/base.toml", RECIPE.replace("seed = 7", "sede = 7"))
    put("top.toml", 'extends = "base/base.toml"\n[encoder]\nmax_length = 1.5\n')
    with pytest.raises(RecipeError) as caught:
        load_recipe("top.toml", plugins=plugins)
    assert sorted(str(problem) for problem in caught.value.problems) == [
        "found 1.5, expected a whole number @ top.toml:3 encoder.max_length",
        "unknown key `sede`. Did you mean `seed`? @ base/base.toml:5 run.sede",
    ]


def test_encoders_over_an_encoder_are_refused_at_the_base(put, workdir, plugins):
    put("base.toml", RECIPE)
    put("top.toml", 'extends = "base.toml"\n[encoders.en]\nmax_length = 16\n')
    with pytest.raises(
        RecipeError,
        match=r"both `\[encoder\]` and `\[encoders\]`.* @ base.toml:10 encoder",
    ):
        load_recipe("top.toml", plugins=plugins)


# --- paths -------------------------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(put, workdir):
    """A recipe whose base, in another directory, names a file, a model and a package's file."""
    put("base/lines.txt", "one\ntwo\n")
    stage = RECIPE.replace(
        '{ use = "words", rows = 11 }', '{ use = "table", path = "lines.txt" }'
    )
    put("base/base.toml", stage.replace("width = 4", 'width = 4, model = "../weights"'))
    return put("top/top.toml", 'extends = "../base/base.toml"\n')


def paths_of(recipe):
    data = recipe.stage[0].data
    backbone = recipe.encoders["encoder"].backbone
    return data.path, backbone.model


def test_a_path_in_a_base_starts_at_the_base(elsewhere, workdir, plugins):
    recipe = load_recipe(elsewhere, plugins=plugins)
    assert paths_of(recipe) == (
        str(workdir / "base" / "lines.txt"),
        str(workdir / "weights"),
    )
    assert not isinstance(paths_of(recipe)[0], Located)


def test_a_path_of_the_recipe_or_of_an_override_starts_at_the_recipe(
    elsewhere, workdir, plugins
):
    elsewhere.write_text(
        f'{elsewhere.read_text()}[encoder.backbone]\nmodel = "./mine"\n'
    )
    recipe = load_recipe(elsewhere, ["stage.pull.data.path=other.txt"], plugins)
    assert paths_of(recipe) == (
        str(workdir / "top" / "other.txt"),
        str(workdir / "top" / "mine"),
    )


def test_locations_with_a_scheme_and_hub_ids_stay(elsewhere, workdir, plugins):
    base = workdir / "base" / "base.toml"
    base.write_text(
        base.read_text()
        .replace("lines.txt", "pkg:some/file")
        .replace("../weights", "org/model")
    )
    assert paths_of(load_recipe(elsewhere, plugins=plugins)) == (
        "pkg:some/file",
        "org/model",
    )


def test_a_base_in_the_same_directory_needs_no_care(put, workdir):
    put("base.toml", 'a = "x"')
    put("top.toml", 'extends = "./base.toml"')
    assert type(read_document("top.toml").data["a"]) is str


def test_a_string_of_another_directory_keeps_it_when_copied():
    text = Located("x", Path("/there"))
    for other in (
        copy.deepcopy(text),
        pickle.loads(pickle.dumps(text)),
        copy.copy(text),
    ):
        assert (other, other.directory, type(other)) == ("x", Path("/there"), Located)


def test_text_of_another_directory_is_text(put, workdir, plugins):
    put("base/base.toml", RECIPE)
    put("alone.toml", RECIPE)
    put("top.toml", 'extends = "base/base.toml"\n')
    recipe = load_recipe("top.toml", plugins=plugins)
    assert recipe == load_recipe("alone.toml", plugins=plugins)
    assert type(recipe.run.name) is str
    assert all(type(at) is str for at in recipe.evaluate[0].at)


def test_the_resolved_recipe_stands_alone(elsewhere, put, plugins):
    recipe = load_recipe(elsewhere, plugins=plugins)
    text = resolved_toml(recipe)
    assert "extends" not in text
    assert load_recipe(put("far/away/resolved.toml", text), plugins=plugins) == recipe


# --- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            '"none.toml"',
            "cannot read the base: `{workdir}/none.toml` does not exist; check the path",
        ),
        ('"dir"', "cannot read the base `dir`: Is a directory; check the path"),
        ("3", "found 3, expected the path of a recipe, or an array of them"),
        (
            "{ a = 1 }",
            "found {{'a': 1}}, expected the path of a recipe, or an array of them",
        ),
        (
            '"pkg:no_such/x"',
            "cannot read the base: `pkg:no_such/x` names the Python package `no_such`, ",
        ),
    ],
)
def test_a_base_that_cannot_be_had_is_reported_where_it_is_named(
    put, workdir, written, message
):
    (workdir / "dir").mkdir()
    put("top.toml", f"a = 1\nextends = {written}")
    (problem,) = problems("top.toml")
    assert problem.startswith(message.format(workdir=workdir))
    assert problem.endswith(" @ top.toml:2 extends")


def test_all_bases_that_cannot_be_had_are_reported_at_once(put, workdir):
    put("sub/half.toml", '\nextends = "none.toml"')
    put("sub/broken.toml", "a = 1\nb =\n")
    put("top.toml", 'extends = [\n"sub/half.toml",\n"sub/broken.toml",\ntrue]')
    half, broken, wrong = problems("top.toml")
    assert half.endswith("does not exist; check the path @ sub/half.toml:2 extends")
    assert broken.startswith("this is not TOML: ")
    assert broken.endswith(" @ sub/broken.toml:2")
    assert wrong.endswith("or an array of them @ top.toml:4 extends.2")


def test_a_circle_is_refused_and_names_its_files(put, workdir):
    put("top.toml", 'extends = "a.toml"')
    put("a.toml", 'extends = "sub/b.toml"')
    put("sub/b.toml", '\nextends = ["../a.toml"]')
    assert problems("top.toml") == [
        "the recipe extends itself: a.toml -> sub/b.toml -> a.toml; take one `extends` out "
        "@ sub/b.toml:2 extends.0"
    ]


def test_a_recipe_that_extends_itself_is_refused(put, workdir):
    put("top.toml", 'extends = "../' + workdir.name + '/top.toml"')
    assert problems("top.toml") == [
        "the recipe extends itself: top.toml -> top.toml; take one `extends` out @ top.toml:1 extends"
    ]


@pytest.mark.parametrize("schema", ["2", "true", '"1"'])
def test_a_base_of_another_schema_is_refused(put, workdir, schema):
    put("base.toml", f"\nschema = {schema}\nextends = 3")
    put("top.toml", 'schema = 1\nextends = "base.toml"')
    (problem,) = problems("top.toml")
    assert problem.startswith("the base has `schema = ")
    assert problem.endswith(
        "this version of sentbed reads `schema = 1` @ base.toml:2 schema"
    )


def test_a_base_without_a_schema_is_a_fragment(put, workdir, plugins):
    put("base.toml", RECIPE.replace("schema = 1\n", ""))
    put("top.toml", 'schema = 1\nextends = "base.toml"')
    assert load_recipe("top.toml", plugins=plugins).run.seed == 7
