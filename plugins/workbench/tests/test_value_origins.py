from __future__ import annotations

import pytest
import tomli
from sentbed import RecipeError
from sentbed_workbench.value_origins import explain, leaves, spelled
from toy_plugin import RECIPE, TOWERS

STUDY = """\
[study.axes.rate]
path = "stage.pull.optimizer.lr"
values = [0.1, 0.2]
[study.axes."the loss"]
chase = { "stage.0.loss" = { use = "chase" } }
pull = {}
"""


@pytest.fixture
def explained(put, plugins, tmp_path, monkeypatch):
    """Explain a recipe on top of `base.toml`, which is the toy recipe."""
    monkeypatch.chdir(tmp_path)
    put("base.toml", RECIPE)

    def make(text, *overrides, cell=None):
        put("top.toml", text)
        return explain("top.toml", overrides, plugins, cell)

    return make


def test_every_value_in_force_is_listed_with_its_origin(
    explained,
):
    text = 'extends = "base.toml"\n[run]\nname = "top"\n'
    lines = list(
        explained(text, "stage.pull.loss.temperature=2", "run.cache=false").listing()
    )
    assert lines[:6] == [
        "schema = 1   # base.toml:1",
        'run.name = "top"   # top.toml:3',
        "run.seed = 7   # base.toml:5",
        "run.cache = false   # --set",
        "run.allow_overlap = false   # default",
        'runtime.use = "toy"   # base.toml:8',
    ]
    assert "stage.pull.loss.temperature = 2.0   # --set" in lines
    assert "stage.pull.loss.noise = 0.0   # default" in lines
    assert 'encoder.backbone.use = "characters"   # base.toml:12' in lines
    assert 'evaluate.0.at = ["start", "end"]   # base.toml:26' in lines
    assert not any(line.startswith(("encoders", "extends")) for line in lines)


def test_the_listing_has_every_key_of_the_file(explained):
    lines = list(explained('extends = "base.toml"').listing())
    lines_of_base = [line for line in lines if "# base.toml:" in line]
    numbers = sorted(int(line.rpartition(":")[2]) for line in lines_of_base)
    # One value a line of the toy recipe, but for the inline tables.
    keys = [i for i, line in enumerate(RECIPE.splitlines(), start=1) if "=" in line]
    assert sorted(set(numbers)) == keys
    assert len(lines_of_base) == len(keys) + sum(
        line.count(", ") for line in RECIPE.splitlines() if "{" in line
    )


def test_several_encoders_are_listed_by_name(explained):
    lines = list(explained(TOWERS).listing())
    assert "encoders.zh.backbone.init_seed = 2   # top.toml:17" in lines
    assert 'stage.pairs.columns.positive = "zh"   # top.toml:24' in lines


def test_a_value_that_stands_for_more_has_its_own_place(
    explained,
):
    # `train` is a string in the file and an array in the recipe.
    lines = list(explained(TOWERS).listing("stage.pairs.train"))
    assert lines == ['stage.pairs.train = ["zh"]   # top.toml:22']


def test_keys_that_toml_wants_in_quotes_are_in_quotes(
    explained,
):
    explanation = explained(
        'extends = "base.toml"\n[expected]\n"a.b/c" = { value = 1, tolerance = 1 }\n'
    )
    assert 'expected."a.b/c".value = 1.0   # top.toml:3' in list(explanation.listing())
    lines = list(explanation.listing('expected."a.b/c".value'))
    assert lines == ['expected."a.b/c".value = 1.0   # top.toml:3']
    keys = ("a.b", 'q"x', "", "plain-1_x", 3)
    assert tomli.loads(f"{spelled(keys)} = 1") == {
        "a.b": {'q"x': {"": {"plain-1_x": {"3": 1}}}}
    }


def test_a_stage_whose_name_is_no_key_of_a_path_goes_by_its_number(
    explained,
):
    for name in ("a.b", "7"):
        explanation = explained(RECIPE.replace('name = "pull"', f'name = "{name}"'))
        assert f'stage.0.name = "{name}"   # top.toml:16' in list(explanation.listing())


def test_of_a_path_the_values_at_and_below_it_are_listed(explained):
    explanation = explained('extends = "base.toml"\nrun.seed = 8\n', "run.seed=9")
    assert list(explanation.listing("run.seed")) == ["run.seed = 9   # --set"]
    assert list(explanation.listing("stage.pull.optimizer")) == [
        'stage.pull.optimizer.use = "sgd"   # base.toml:19',
        "stage.pull.optimizer.lr = 0.5   # base.toml:19",
        "stage.pull.optimizer.momentum = 0.0   # default",
    ]
    by_number = list(explanation.listing("stage.0.optimizer"))
    assert by_number == list(explanation.listing("stage.pull.optimizer"))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("run.sede", r"has no value at `run.sede`\. Did you mean `run.seed`\?"),
        ("stage.pull.los", r"has no value at `stage.pull.los`"),
        ("run.seed.more", r"has no value at `run.seed.more`"),
    ],
)
def test_a_path_that_is_not_there_gets_a_suggestion(explained, path, message):
    with pytest.raises(RecipeError, match=message):
        list(explained('extends = "base.toml"').listing(path))


# --- run directories ---------------------------------------------------------------------------------------


def test_of_a_run_directory_the_resolved_recipe_is_explained(put, plugins, tmp_path):
    resolved = put("run/resolved.toml", RECIPE)
    explanation = explain(tmp_path / "run", (), plugins)
    lines = list(explanation.listing("run.seed"))
    assert lines == [f"run.seed = 7   # {resolved}:5"]
    with pytest.raises(
        RecipeError,
        match=r"the directory has no `resolved.toml`; name a recipe or a run",
    ):
        explain(tmp_path, (), plugins)


def test_leaves_are_values_and_what_is_empty():
    value = {
        "a": {"b": 1, "c": {}},
        "d": [{"e": [1, 2]}, {}],
        "f": [],
        "g": [1, {"h": 1}],
    }
    assert dict(leaves(value)) == {
        ("a", "b"): 1,
        ("a", "c"): {},
        ("d", 0, "e"): [1, 2],
        ("d", 1): {},
        ("f",): [],
        ("g",): [1, {"h": 1}],
    }


# --- cells -------------------------------------------------------------------------------------------------


def test_a_cell_has_the_values_that_its_axes_set(explained):
    text = f'extends = "base.toml"\n{STUDY}'
    explanation = explained(text, cell="0.2, chase")
    line = "stage.pull.optimizer.lr = 0.2   # top.toml:4"
    lines = list(explanation.listing())
    assert line in lines
    assert 'stage.pull.loss.use = "chase"   # top.toml:6' in lines
    assert "stage.pull.loss.most = 100   # default" in lines
    assert not any(line.startswith("study") for line in lines)


def test_without_a_cell_a_study_is_explained_as_it_stands(
    explained,
):
    lines = list(explained(f'extends = "base.toml"\n{STUDY}').listing())
    assert "stage.pull.optimizer.lr = 0.5   # base.toml:19" in lines
    assert "study.axes.rate.values = [0.1, 0.2]   # top.toml:4" in lines
    assert (
        'study.axes."the loss".chase."stage.0.loss".use = "chase"   # top.toml:6'
        in lines
    )


def test_an_unknown_cell_gets_a_suggestion(explained):
    with pytest.raises(
        RecipeError, match=r"there is no cell `0.2, chas`; .* such as `0.2, chase`"
    ):
        explained(f'extends = "base.toml"\n{STUDY}', cell="0.2, chas")


def test_a_cell_of_a_recipe_without_a_study_is_refused(
    explained,
):
    with pytest.raises(
        RecipeError, match=r"the recipe has no table such as `\[study\]`, whose cells"
    ):
        explained('extends = "base.toml"', cell="x")
