from __future__ import annotations

import json
from typing import ClassVar

import attrs
import pytest
from click.testing import CliRunner
from sentbed import RecipeError
from sentbed._cli import main as cli
from sentbed._recipe.load import load_recipe
from sentbed._recipe.recipe import resolved_toml
from sentbed.protocols import DataSource
from sentbed_workbench.recipe_diff import compare, read, text
from toy_plugin import RECIPE, TOWERS

pytestmark = pytest.mark.slow

NO_DIFFERENCE = "no difference in what is computed"


@attrs.frozen
class Several:
    """Data of others, whose order decides."""

    name: ClassVar[str] = "several"
    columns: ClassVar[tuple[str, ...]] = ("anchor", "positive")

    sources: tuple[DataSource, ...]

    def open(self):
        """Never called."""


@pytest.fixture
def plugins(plugins):
    """The toy plugin, and data of others."""
    more = attrs.evolve(plugins.find("data", "words"), name="several", offered=Several)
    return attrs.evolve(
        plugins, components={**plugins.components, ("data", "several"): more}
    )


@pytest.fixture
def diff(put, plugins, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def make(a, b, *overrides, cells=()):
        put("a.toml", a)
        put("b.toml", b)
        return compare(*read(("a.toml", "b.toml"), overrides, plugins, cells))

    return make


def changes(differences):
    sides = [
        (
            difference.path,
            difference.a and difference.a.value,
            difference.b and difference.b.value,
        )
        for difference in differences
    ]
    return [(path, a, b) for path, a, b in sides]


def origins(differences):
    return [
        (difference.a and difference.a.origin, difference.b and difference.b.origin)
        for difference in differences
    ]


def test_a_recipe_does_not_differ_from_itself_with_every_default_written_out(
    diff, put, plugins
):
    resolved = resolved_toml(load_recipe(put("recipe.toml", RECIPE), plugins=plugins))
    assert diff(RECIPE, resolved) == []
    assert list(text([], ("a", "b"))) == [NO_DIFFERENCE]


def test_a_value_is_shown_with_who_said_it_on_either_side(diff, put):
    put("base.toml", RECIPE)
    top = 'extends = "base.toml"\n[[stage]]\nname = "pull"\noptimizer.lr = 0.25\nloss.temperature = 2\n'
    differences = diff(RECIPE, top)
    assert changes(differences) == [
        ("stage.pull.loss.temperature", 1.0, 2.0),
        ("stage.pull.optimizer.lr", 0.5, 0.25),
    ]
    assert origins(differences) == [("default", "b.toml:5"), ("a.toml:19", "b.toml:4")]
    assert list(text(differences, ("a.toml", "b.toml"))) == [
        "--- a.toml",
        "+++ b.toml",
        "",
        "[stage.pull]",
        "loss.temperature",
        "  - 1.0   # default",
        "  + 2.0   # b.toml:5",
        "optimizer.lr",
        "  - 0.5   # a.toml:19",
        "  + 0.25   # b.toml:4",
    ]


def test_an_override_goes_for_both(diff):
    assert (
        changes(diff(RECIPE, RECIPE.replace("seed = 7", "seed = 8"), "run.seed=9"))
        == []
    )


def test_what_only_one_has_is_not_set_in_the_other(diff):
    differences = diff(RECIPE, RECIPE.replace("epochs = 2", "steps = 6"))
    assert changes(differences) == [
        ("stage.pull.epochs", 2, None),
        ("stage.pull.steps", None, 6),
    ]
    assert "  + not set" in list(text(differences, ("a", "b")))


def test_another_component_is_shown_by_what_files_say_of_it(diff):
    a = RECIPE.replace('loss = { use = "pull" }', 'loss = { use = "pull", noise = 1 }')
    differences = diff(
        a, RECIPE.replace('loss = { use = "pull" }', 'loss = { use = "chase" }')
    )
    assert changes(differences)[0] == ("stage.pull.loss.use", "pull", "chase")
    # `temperature` of `pull`, and all that `chase` has, are at their defaults.
    assert ("stage.pull.loss.noise", 1.0, None) in changes(differences)
    assert len(differences) == 2


def test_stages_belong_together_by_name(diff):
    first, second = TOWERS.index("[[stage]]"), TOWERS.rindex("[[stage]]")
    end = TOWERS.index("[[evaluate]]")
    differences = diff(TOWERS, TOWERS[:second] + TOWERS[end:])
    assert [(difference.path, difference.b) for difference in differences] == [
        ("stage.tune", None)
    ]
    assert differences[0].a is not None
    assert differences[0].a.origin == f"a.toml:{TOWERS[:second].count(chr(10)) + 2}"
    # What it has by default is left out.
    assert differences[0].a.value["data"] == {"use": "words", "rows": 7}
    # The first one can be the one that is left out.
    assert [
        difference.path for difference in diff(TOWERS, TOWERS[:first] + TOWERS[second:])
    ] == ["stage.pairs"]


def test_the_order_of_stages_decides(diff):
    first, second = TOWERS.index("[[stage]]"), TOWERS.rindex("[[stage]]")
    end = TOWERS.index("[[evaluate]]")
    differences = diff(
        TOWERS,
        TOWERS[:first] + TOWERS[second:end] + TOWERS[first:second] + TOWERS[end:],
    )
    assert changes(differences) == [
        ("stage.order", ["pairs", "tune"], ["tune", "pairs"])
    ]
    assert differences[0].decides


def test_a_stage_with_another_name_computes_the_same(diff):
    differences = diff(TOWERS, TOWERS.replace('name = "pairs"', 'name = "first"'))
    assert changes(differences) == [("stage.pairs.name", "pairs", "first")]
    assert not differences[0].decides
    differences = diff(
        RECIPE,
        RECIPE.replace('name = "pull"', 'name = "x"').replace("rows = 11", "rows = 12"),
    )
    assert [(difference.path, difference.decides) for difference in differences] == [
        ("stage.pull.name", False),
        ("stage.pull.data.rows", True),
    ]


def test_the_order_of_parts_without_names_decides(diff):
    data = 'data = { use = "words", rows = 11 }'
    a, b = '{ use = "words", rows = 3 }', '{ use = "lines", path = "x.txt" }'
    mixed = RECIPE.replace(data, f'data = {{ use = "several", sources = [{a}, {b}] }}')
    swapped = RECIPE.replace(
        data, f'data = {{ use = "several", sources = [{b}, {a}] }}'
    )
    assert diff(mixed, mixed) == []
    differences = diff(mixed, swapped)
    assert ("stage.pull.data.sources.0.use", "words", "lines") in changes(differences)
    assert ("stage.pull.data.sources.1.use", "lines", "words") in changes(differences)
    differences = diff(
        mixed, RECIPE.replace(data, f'data = {{ use = "several", sources = [{a}] }}')
    )
    assert [(difference.path, difference.b) for difference in differences] == [
        ("stage.pull.data.sources.1", None)
    ]


def test_the_order_of_evaluations_and_looks_decides_nothing(diff):
    def two(what, first, second):
        return f"{what}\n{first}{what}\n{second}", f"{what}\n{second}{what}\n{first}"

    a, b = two("[[evaluate]]", 'use = "gap"\n', 'use = "nearness"\n')
    c, d = two(
        "[[stage.watch]]",
        'every = 2\nwith = { use = "gap" }\n',
        'every = 3\nwith = { use = "gap" }\n',
    )
    head = RECIPE[: RECIPE.index("[[evaluate]]")]
    assert diff(head + c + a, head + d + b) == []


def test_evaluations_belong_together_by_what_they_are(diff):
    gap = '[[evaluate]]\nuse = "gap"\nat = ["start", "end"]\n'
    other = '[[evaluate]]\nuse = "gap"\nat = ["start"]\n'
    differences = diff(RECIPE, RECIPE.replace(gap, other + gap))
    assert [
        (difference.path, difference.a, difference.b and difference.b.value)
        for difference in differences
    ] == [("evaluate.0", None, {"use": "gap", "at": ["start"]})]


def test_encoders_are_named_as_in_the_file(diff):
    assert changes(diff(RECIPE, RECIPE.replace("width = 4", "width = 8"))) == [
        ("encoder.backbone.width", 4, 8)
    ]
    assert changes(diff(TOWERS, TOWERS.replace("init_seed = 2", "init_seed = 3"))) == [
        ("encoders.zh.backbone.init_seed", 2, 3)
    ]


@pytest.mark.parametrize(
    "change",
    [
        ('name = "toy-run"', 'name = "other"'),
        ("seed = 7", "seed = 7\ncache = false"),
        ("[encoder]", "[checkpoint]\nevery = 3\n[encoder]"),
        ("[encoder]", "[expected]\nx = { value = 1, tolerance = 1 }\n[encoder]"),
    ],
)
def test_what_decides_no_score_is_shown_and_said_to_compute_the_same(diff, change):
    differences = diff(RECIPE, RECIPE.replace(*change))
    assert len(differences) == 1
    assert list(text(differences, ("a", "b")))[-2:] == ["", NO_DIFFERENCE]


def test_cells_of_a_study_are_compared_by_their_labels(diff):
    axis = '[study.axes.rate]\npath = "stage.pull.optimizer.lr"\nvalues = [0.1, 0.2]\n'
    differences = diff(RECIPE + axis, RECIPE + axis, cells=("0.1", "0.2"))
    assert changes(differences) == [("stage.pull.optimizer.lr", 0.1, 0.2)]
    assert origins(differences) == [("study.axes.rate 0.1", "study.axes.rate 0.2")]
    assert diff(RECIPE + axis, RECIPE + axis.replace("0.2", "0.3"), cells=["0.1"]) == []


def test_one_cell_is_that_of_the_side_that_has_a_study(diff):
    study = (
        RECIPE
        + '[study.axes.rate]\npath = "stage.pull.optimizer.lr"\nvalues = [0.1, 0.5]\n'
    )
    assert diff(RECIPE, study, cells=["0.5"]) == []
    assert changes(diff(study, RECIPE, cells=["0.1"])) == [
        ("stage.pull.optimizer.lr", 0.1, 0.5)
    ]
    with pytest.raises(RecipeError, match="study"):
        diff(RECIPE, RECIPE, cells=["0.1"])


@pytest.mark.parametrize(
    ("before", "after", "decides"),
    [
        ("values = [0.1, 0.2]", "values = [0.1, 0.3]", True),
        ("seeds = [1]", "seeds = [1, 2]", True),
        ('exclude = [{ rate = "0.1", size = "3" }]', "", True),
        ('zip = [["rate", "size"]]', "", True),
        (
            'baseline = { rate = "0.2", size = "4" }',
            'baseline = { rate = "0.1", size = "4" }',
            False,
        ),
        ('order = ["gap"]', "", False),
        (
            'expected.t.cells."0.2, 4".gap = 1',
            'expected.t.cells."0.2, 4".gap = 2',
            False,
        ),
    ],
)
def test_studies_differ_where_their_cells_do(diff, before, after, decides):
    study = """
[study]
seeds = [1]
zip = [["rate", "size"]]
exclude = [{ rate = "0.1", size = "3" }]
baseline = { rate = "0.2", size = "4" }
order = ["gap"]
expected.t.cells."0.2, 4".gap = 1
[study.axes]
rate = { path = "stage.pull.optimizer.lr", values = [0.1, 0.2] }
size = { path = "stage.pull.batch_size", values = [3, 4] }
"""
    differences = diff(RECIPE + study, RECIPE + study.replace(before, after))
    assert differences
    assert {difference.path.partition(".")[0] for difference in differences} == {
        "study"
    }
    assert any(difference.decides for difference in differences) is decides


# --- the command -------------------------------------------------------------------------------------------


def invoke(*arguments):
    return CliRunner().invoke(cli.main, ["diff", *map(str, arguments)])


def test_the_exit_code_says_whether_a_score_can_differ(installed_toy, put):
    a = put("a.toml", RECIPE)
    named = put("b.toml", RECIPE.replace("toy-run", "other"))
    other = put("c.toml", RECIPE.replace("seed = 7", "seed = 8"))
    assert (invoke(a, a).exit_code, invoke(a, a).output) == (0, f"{NO_DIFFERENCE}\n")
    assert invoke(a, named).exit_code == 0
    assert invoke(a, other).exit_code == 1
    assert invoke(a, other, "--set", "run.seed=1").exit_code == 0
    assert invoke(a, "nowhere.toml").exit_code == 2
    too_long = invoke(a, "a" * 300)
    assert too_long.exit_code == 2
    assert "cannot read the recipe" in too_long.output


def test_a_run_directory_stands_for_its_resolved_recipe(installed_toy, put, tmp_path):
    put("run/resolved.toml", RECIPE)
    a = put("a.toml", RECIPE)
    assert invoke(a, tmp_path / "run").output == f"{NO_DIFFERENCE}\n"
    result = invoke(a, tmp_path)
    assert result.exit_code == 2
    assert (
        "the directory has no `resolved.toml`; name a recipe or a run directory"
        in result.output
    )


def test_json_says_the_same_for_programs(installed_toy, put):
    a = put("a.toml", RECIPE)
    output = json.loads(
        invoke(a, put("b.toml", RECIPE.replace("seed = 7", "")), "--json").output
    )
    assert output == {
        "a": str(a),
        "b": str(a.with_name("b.toml")),
        "same_scores": False,
        "differences": [
            {
                "path": "run.seed",
                "a": {"path": "run.seed", "value": 7, "origin": f"{a}:5"},
                "b": {"path": "run.seed", "value": 42, "origin": "default"},
                "decides": True,
            }
        ],
    }


def test_a_recipe_with_problems_is_refused(diff):
    with pytest.raises(RecipeError, match="unknown key `sede`"):
        diff(RECIPE, RECIPE.replace("seed", "sede"))
