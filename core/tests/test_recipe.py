from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import tomli
from sentbed import RecipeError, load_recipe
from sentbed._recipe.load import component_of
from sentbed._recipe.recipe import resolved_toml
from sentbed.protocols import Backbone, Checkpoint, Validate, Watch
from toy_plugin import (
    RECIPE,
    TOWERS,
    Across,
    Characters,
    Dice,
    Gap,
    Lottery,
    Notes,
)

VALIDATE = '\n[stage.validate]\nevery = 2\nwith = { use = "gap", target = 0.5, development = true }\n'
TWO_ENCODERS = RECIPE.replace("[encoder]", "[encoders.small]") + (
    '\n[encoders.large]\nbackbone = { use = "characters", width = 8 }\npooler = { use = "average" }\n'
)


# --- what a recipe says ------------------------------------------------------------------------------------


def test_a_component_is_made_of_keywords_or_of_a_table(plugins):
    backbone = component_of(Backbone, plugins=plugins, use="characters", width=8)
    assert backbone == Characters(width=8)
    table = {"use": "characters", "width": 8}
    assert component_of(Backbone, table, plugins) == backbone
    assert component_of(Backbone, table, plugins, width=4) == Characters(width=4)
    with pytest.raises(RecipeError, match="the backbone has no `use`"):
        component_of(Backbone, plugins=plugins, width=8)


def test_relative_paths_start_at_the_recipe_not_at_the_working_directory(
    put, plugins, monkeypatch, tmp_path
):
    put("elsewhere/lines.txt", "one\n")
    recipe = put(
        "recipes/r.toml",
        RECIPE.replace(
            '"words", rows = 11', '"lines", path = "../elsewhere/lines.txt"'
        ),
    )
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(RecipeError) as caught:
        load_recipe(Path("..") / "recipes" / recipe.name, plugins=plugins)
    # The file is found; what is left to complain about is its one column.
    (only,) = caught.value.problems
    assert "needs the column `positive`" in only.message


TRAINING = (
    TOWERS.replace(
        "epochs = 2",
        """epochs = 2
micro_batch = 2
max_length = 9
distinct = true
max_grad_norm = 0
weights = { zh = "pretrained" }
validate = { every = 3, with = { use = "lottery" }, encoder = "zh", patience = 4 }
watch = [
    { every = 1, with = { use = "across" }, second = "en" },
    { every = 2, with = { use = "gap" }, encoder = "en" },
]
""",
    )
    + """
[dice]
sides = 8

[checkpoint]
every = 7
minutes = 0.5

[[tracker]]
use = "notes"

[[tracker]]
use = "notes"
file = "more.txt"
"""
)


def test_everything_that_a_stage_can_say_is_read(recipe_of):
    recipe = recipe_of(TRAINING)
    pairs, tune = recipe.stage
    assert pairs.train == ("zh",)
    assert pairs.freeze == ("en",)
    assert pairs.columns == {"anchor": "en", "positive": "zh"}
    for stage in (pairs, tune):
        assert stage.micro_batch == 2
        assert stage.max_length == 9
        assert stage.max_grad_norm == 0
        assert stage.distinct
        assert stage.weights == {"zh": "pretrained"}
        assert stage.validate == Validate(3, Lottery(), encoder="zh", patience=4)
        assert stage.watch == (
            Watch(1, Across(), second="en"),
            Watch(2, Gap(), encoder="en"),
        )
    assert recipe.checkpoint == Checkpoint(7, 0.5)
    assert recipe.tables == {"dice": Dice(8)}
    assert recipe.tracker == (Notes(), Notes("more.txt"))


@pytest.mark.parametrize(
    ("written", "read"),
    [('"zh"', ("zh",)), ('["zh"]', ("zh",)), ('["en", "zh"]', ("en", "zh"))],
)
def test_one_encoder_or_several_can_be_named(written, read, recipe_of):
    freeze = () if len(read) == 1 else ("stage.pairs.freeze=",)
    assert (
        recipe_of(TOWERS, f"stage.pairs.train={written}", *freeze).stage[0].train
        == read
    )


def test_the_columns_of_a_stage_are_those_that_the_loss_needs_or_takes(recipe_of):
    columns = '["label", "negative", "positive", "anchor"]'
    data = f'stage.0.data={{ use = "table", path = "x.tsv", columns = {columns} }}'
    sort = recipe_of(RECIPE, data, 'stage.0.loss={ use = "sort" }')
    assert sort.stage[0].columns_used == ("label", "positive", "anchor")
    assert list(sort.towers(sort.stage[0])) == ["positive", "anchor"]
    chase = recipe_of(RECIPE, data, 'stage.0.loss={ use = "chase" }')
    assert chase.stage[0].columns_used == ("positive", "anchor")


def test_a_directory_is_no_recipe(tmp_path, plugins):
    with pytest.raises(RecipeError, match="cannot read the recipe: Is a directory"):
        load_recipe(tmp_path, plugins=plugins)


# --- overrides ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("run.seed=3", ("run", "seed"), 3),
        ("run.name=other", ("run", "name"), "other"),
        ('run.name="quoted"', ("run", "name"), "quoted"),
        (" run.name =x", ("run", "name"), "x"),
        ("stage.pull.batch_size=8", ("stage", 0, "batch_size"), 8),
        ("stage.0.batch_size=8", ("stage", 0, "batch_size"), 8),
        ("stage.pull.loss.temperature=0.01", ("stage", 0, "loss", "temperature"), 0.01),
        ("encoder.head.normalize=true", ("encoder", "head", "normalize"), True),
        ('evaluate.0.at=["end"]', ("evaluate", 0, "at"), ["end"]),
        ("evaluate.0.left=a=b", ("evaluate", 0, "left"), "a=b"),
        ("evaluate.0.left= b c ", ("evaluate", 0, "left"), " b c "),
        ('evaluate.0.left=""', ("evaluate", 0, "left"), ""),
        (
            "encoder.backbone={use='characters', width=9}",
            ("encoder", "backbone", "width"),
            9,
        ),
        ("expected.gap={value=1, tolerance=2}", ("expected", "gap", "tolerance"), 2.0),
        ("expected.gap.value=1", ("expected", "gap", "value"), 1.0),
    ],
)
def test_an_override_sets_a_value_of_the_recipe(override, path, value, recipe_of):
    text = RECIPE + "\n[expected]\ngap = { value = 0, tolerance = 0 }\n"
    before, after = (
        tomli.loads(resolved_toml(recipe_of(text, *over))) for over in ([], [override])
    )
    for part in path[:-1]:
        before, after = before[part], after[part]
    assert before[path[-1]] != value
    assert after[path[-1]] == value


def test_the_last_of_several_overrides_wins(recipe_of):
    assert recipe_of(RECIPE, "run.seed=3", "run.seed=4").run.seed == 4


@pytest.mark.parametrize("name", ["9", "007"])
def test_a_stage_whose_name_is_a_number_is_overridden_by_its_name(recipe_of, name):
    text = RECIPE.replace('name = "pull"', f'name = "{name}"')
    recipe = recipe_of(text, f"stage.{name}.epochs=5")
    assert recipe.stage[0].epochs == 5
    assert recipe.document.place(("stage", 0, "epochs")) == ("--set", None)
    assert recipe_of(text, f"stage.{name}=", "evaluate.0.at=['end']").stage == ()


# --- and back ----------------------------------------------------------------------------------------------

ROUND_TRIPS = {
    "plain": RECIPE,
    "validated": RECIPE.replace("[[evaluate]]", VALIDATE + "\n[[evaluate]]"),
    "expected": RECIPE
    + "\n[expected]\n\"gap/distance\" = { value = 1, tolerance = 0.5, source = 'here' }\n",
    "to compare with": RECIPE + "\n[expected]\ngap = { value = 1, decides = false }\n",
    "one named encoder": RECIPE.replace("[encoder]", "[encoders.student]"),
    "two encoders": TWO_ENCODERS.replace("epochs", 'train = "large"\nepochs').replace(
        "at =", 'encoder = "small"\nat ='
    ),
    "no stage": RECIPE[: RECIPE.index("[[stage]]")],
    "steps": RECIPE.replace("epochs = 2", "steps = 5"),
    "two towers": TOWERS,
    "training": TRAINING,
}


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_a_resolved_recipe_reads_as_the_same_recipe(name, recipe_of):
    recipe = recipe_of(ROUND_TRIPS[name])
    resolved = resolved_toml(recipe)
    assert recipe_of(resolved) == recipe
    assert resolved_toml(recipe_of(resolved)) == resolved


# --- prompts -----------------------------------------------------------------------------------------------

PROMPT = "encoder.prompt={ template = '%s' }"


@pytest.mark.parametrize(
    ("template", "texts"),
    [("a {text} b{mask}", ("a ", " b{mask}")), ("{text} again {text}", None)],
)
def test_the_template_of_an_encoder_is_that_of_its_only_prompt(
    template, texts, recipe_of
):
    encoder = recipe_of(RECIPE, PROMPT % template).encoders["encoder"]
    assert encoder.template == texts
    several = attrs.evolve(encoder, prompt=(encoder.prompt, encoder.prompt))
    assert several.template is None


def test_a_file_of_templates_is_looked_for_beside_the_recipe(put, recipe_of):
    put("templates/t.txt", "*sent_0*\n<*sent_0*>\n")
    recipe = recipe_of(RECIPE, 'encoder.prompt={ file = "templates/t.txt", line = 2 }')
    resolved = recipe.encoders["encoder"].resolved_prompt
    assert str(resolved.template) == "<{text}>"
