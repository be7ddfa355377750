from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import tomli
from sentbed import RecipeError, load_recipe
from sentbed._recipe.load import component_of
from sentbed._recipe.recipe import Checkpoint, Validate, Watch, resolved_toml
from sentbed.protocols import Backbone
from toy_plugin import (
    RECIPE,
    TOWERS,
    Across,
    Average,
    Characters,
    Dice,
    Falling,
    Gap,
    Lottery,
    Notes,
    Pull,
    Sgd,
    Toy,
    Words,
)

VALIDATE = '\n[stage.validate]\nevery = 2\nwith = { use = "gap", target = 0.5, development = true }\n'
TWO_ENCODERS = RECIPE.replace("[encoder]", "[encoders.small]") + (
    '\n[encoders.large]\nbackbone = { use = "characters", width = 8 }\npooler = { use = "average" }\n'
)


def problems(load, text, *overrides):
    with pytest.raises(RecipeError) as caught:
        load(text, *overrides)
    return [
        (problem.line, problem.path, problem.message)
        for problem in caught.value.problems
    ]


def problem(load, text, *overrides):
    (fault,) = problems(load, text, *overrides)
    return fault


def line_of(text, start):
    (number,) = [
        i for i, line in enumerate(text.splitlines(), 1) if line.startswith(start)
    ]
    return number


# --- what a recipe says ------------------------------------------------------------------------------------


def test_a_component_is_made_of_keywords_or_of_a_table(plugins):
    backbone = component_of(Backbone, plugins=plugins, use="characters", width=8)
    assert backbone == Characters(width=8)
    table = {"use": "characters", "width": 8}
    assert component_of(Backbone, table, plugins) == backbone
    assert component_of(Backbone, table, plugins, width=4) == Characters(width=4)
    with pytest.raises(RecipeError, match="the backbone has no `use`"):
        component_of(Backbone, plugins=plugins, width=8)


def test_a_recipe_becomes_its_components(recipe_of):
    recipe = recipe_of()
    assert recipe.run.name == "toy-run"
    assert recipe.run.seed == 7
    assert recipe.runtime == Toy()
    encoder = recipe.encoders["encoder"]
    assert (encoder.backbone, encoder.pooler, encoder.max_length) == (
        Characters(4),
        Average(),
        16,
    )
    (stage,) = recipe.stage
    assert (stage.data, stage.loss, stage.optimizer, stage.schedule) == (
        Words(11),
        Pull(),
        Sgd(0.5),
        Falling(),
    )
    assert (stage.batch_size, stage.epochs, stage.steps, stage.train) == (
        4,
        2,
        None,
        (),
    )
    assert (recipe.evaluate[0].evaluator, recipe.evaluate[0].at) == (
        Gap(),
        ("start", "end"),
    )
    assert recipe.main_encoder == "encoder"


def test_what_a_recipe_leaves_out_has_the_documented_default(recipe_of):
    recipe = recipe_of(
        RECIPE.replace("seed = 7\n", "").replace("max_length = 16\n", "")
    )
    assert recipe.run.seed == 42
    assert recipe.encoders["encoder"].max_length == 128
    head = recipe.encoders["encoder"].head
    assert (head.projection, head.bias, head.normalize) == (None, False, False)
    assert recipe.stage[0].max_grad_norm == 1.0
    assert recipe.stage[0].validate is None
    assert recipe.expected == {}


@pytest.mark.parametrize(
    "setting", ["projection=1000000000", "hidden=[1000000000]", "projection=0"]
)
def test_a_head_has_a_width_that_can_be_held(recipe_of, setting):
    with pytest.raises(RecipeError, match=r"head\.(projection|hidden)"):
        recipe_of(RECIPE, f"encoder.head.{setting}")


def test_the_only_encoder_is_the_main_one_whatever_its_name(recipe_of):
    recipe = recipe_of(RECIPE.replace("[encoder]", "[encoders.student]"))
    assert list(recipe.encoders) == ["student"]
    assert recipe.main_encoder == "student"


def test_an_evaluator_is_read_from_validate_with(recipe_of):
    validate = (
        recipe_of(RECIPE.replace("[[evaluate]]", VALIDATE + "\n[[evaluate]]"))
        .stage[0]
        .validate
    )
    assert (validate.every, validate.evaluator, validate.keep) == (
        2,
        Gap(target=0.5, development=True),
        "best",
    )


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
keep = 3

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
    assert (pairs.train, pairs.freeze, pairs.columns) == (
        ("zh",),
        ("en",),
        {"anchor": "en", "positive": "zh"},
    )
    for stage in (pairs, tune):
        assert (stage.micro_batch, stage.max_length, stage.max_grad_norm) == (2, 9, 0)
        assert stage.distinct
        assert stage.weights == {"zh": "pretrained"}
        assert stage.validate == Validate(3, Lottery(), encoder="zh", patience=4)
        assert stage.watch == (
            Watch(1, Across(), second="en"),
            Watch(2, Gap(), encoder="en"),
        )
    assert recipe.checkpoint == Checkpoint(7, 0.5, 3)
    assert recipe.tables == {"dice": Dice(8)}
    assert recipe.tracker == (Notes(), Notes("more.txt"))


def test_a_stage_that_says_nothing_trains_the_only_encoder_on_every_column(recipe_of):
    recipe = recipe_of()
    (stage,) = recipe.stage
    assert (stage.train, stage.freeze, stage.columns, stage.weights, stage.watch) == (
        (),
        (),
        {},
        {},
        (),
    )
    assert (stage.micro_batch, stage.distinct) == (None, False)
    assert recipe.trained(stage) == ("encoder",)
    assert recipe.towers(stage) == {"anchor": "encoder", "positive": "encoder"}
    assert recipe.checkpoint == Checkpoint(every=None, minutes=10.0, keep=2)
    assert recipe.tables == {}
    assert recipe.tracker == ()


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


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("stage.pairs.micro_batch=0", "expected at least 1"),
        ("stage.pairs.max_grad_norm=-1", "expected at least 0"),
        ("stage.pairs.validate.every=0", "expected at least 1"),
        ("stage.pairs.validate.patience=0", "expected at least 1"),
        ("stage.pairs.validate.keep=first", "choose one of `best`, `last`"),
        ("stage.pairs.watch.0.every=0", "expected at least 1"),
        ("stage.pairs.watch.1.with.use=gapp", "Did you mean `gap`?"),
        ("stage.pairs.watch.1.secnd=en", "Did you mean `second`?"),
        ("stage.pairs.train=3", "found 3, expected"),
        ("stage.pairs.train=[3]", 'found 3, expected a string: write `"3"`'),
        ("checkpoint.every=0", "expected at least 1"),
        ("checkpoint.minutes=-1", "expected at least 0"),
        ("checkpoint.keep=0", "expected at least 1"),
        ("dice.sides=1", "expected at least 2"),
        ("dice.sdes=3", "Did you mean `sides`?"),
        ('dice.loaded="de"', "there is no encoder `de`; name one"),
        ("tracker.1.use=note", "Did you mean `notes`?"),
        ("tracker.1.fil=x", "Did you mean `file`?"),
    ],
)
def test_a_wrong_value_of_training_is_reported_where_it_stands(
    override, message, recipe_of
):
    _, path, shown = problem(recipe_of, TRAINING, override)
    # Of an array, the element is named.
    assert path.removesuffix(".0") == override.partition("=")[0]
    assert message in shown


# --- one problem each --------------------------------------------------------------------------------------


def test_three_faults_are_exactly_three_problems_each_with_file_line_and_path(
    put, plugins
):
    text = (
        RECIPE.replace("seed = 7", "sede = 7")
        .replace("width = 4", "width = 4.5")
        .replace('use = "pull"', 'use = "pul"')
    )
    file = put("three.toml", text)
    with pytest.raises(RecipeError) as caught:
        load_recipe(file, plugins=plugins)
    assert [(p.file, p.line, p.path) for p in caught.value.problems] == [
        (str(file), line_of(text, "sede"), "run.sede"),
        (str(file), line_of(text, "backbone"), "encoder.backbone.width"),
        (str(file), line_of(text, "loss"), "stage.pull.loss.use"),
    ]
    shown = str(caught.value).splitlines()
    assert shown[0] == "3 problems in the recipe:"
    assert shown[1] == (
        f"  unknown key `sede`. Did you mean `seed`? @ {file}:{line_of(text, 'sede')} run.sede"
    )
    assert len(shown) == 4


@pytest.mark.parametrize(
    ("old", "new", "start", "path", "message"),
    [
        (
            "batch_size = 4",
            "batch_size = 1",
            "batch_size",
            "stage.pull.batch_size",
            "expected at least 2",
        ),
        (
            "batch_size = 4",
            "batch_sise = 4",
            "[[stage]]",
            "stage.pull",
            "the required key `batch_size` is missing",
        ),
        ('name = "toy-run"', 'name = "a b"', 'name = "a b"', "run.name", "found 'a b'"),
        (
            'name = "toy-run"',
            'name = "../x"',
            'name = "../x"',
            "run.name",
            "found '../x'",
        ),
        ('name = "pull"', 'name = ""', 'name = ""', "stage.0.name", "found ''"),
        ("seed = 7", "seed = -1", "seed", "run.seed", "expected at least 0"),
        (
            "seed = 7",
            "seed = 4294967296",
            "seed",
            "run.seed",
            "expected at most 4294967295",
        ),
        (
            "max_length = 16",
            "max_length = 1",
            "max_length",
            "encoder.max_length",
            "expected at least 2",
        ),
        (
            "epochs = 2",
            "epochs = 0",
            "epochs",
            "stage.pull.epochs",
            "expected at least 1",
        ),
        (
            'at = ["start", "end"]',
            'at = ["begin"]',
            "at",
            "evaluate.0.at.0",
            "found 'begin'",
        ),
        (
            'at = ["start", "end"]',
            'at = "end"',
            "at",
            "evaluate.0.at",
            "expected an array",
        ),
        ('use = "gap"', "", "[[evaluate]]", "evaluate.0", "the evaluator has no `use`"),
        (
            'use = "toy"',
            'use = "toy"\nprecision = "fp8"',
            "precision",
            "runtime.precision",
            "found 'fp8'",
        ),
        (
            "[runtime]",
            "[runtimes]",
            "[runtimes]",
            "runtimes",
            "Did you mean `runtime`?",
        ),
    ],
)
def test_a_fault_is_reported_where_it_stands(old, new, start, path, message, recipe_of):
    assert RECIPE.count(old) == 1
    text = RECIPE.replace(old, new)
    faults = [fault for fault in problems(recipe_of, text) if fault[1] == path]
    assert len(faults) == 1
    assert faults[0][0] == line_of(text, start)
    assert message in faults[0][2]


@pytest.mark.parametrize(
    ("key", "meant"),
    [("extend", "extends"), ("encodr", "encoder"), ("expcted", "expected")],
)
def test_a_misspelt_key_at_the_top_is_compared_with_all_that_a_file_may_have(
    key, meant, recipe_of
):
    assert (1, key, f"unknown key `{key}`. Did you mean `{meant}`?") in problems(
        recipe_of, f'{key} = "base.toml"\n{RECIPE}'
    )


def test_faults_inside_validate_have_the_path_of_its_evaluator(recipe_of):
    text = RECIPE.replace(
        "[[evaluate]]",
        VALIDATE.replace("target = 0.5", "taget = 0.5") + "\n[[evaluate]]",
    )
    assert problem(recipe_of, text) == (
        line_of(text, "with"),
        "stage.pull.validate.with.taget",
        "unknown key `taget`. Did you mean `target`?",
    )


def test_an_evaluator_to_install_is_named_inside_validate(recipe_of):
    text = RECIPE.replace(
        "[[evaluate]]", VALIDATE.replace('"gap"', '"sts"') + "\n[[evaluate]]"
    )
    faults = [
        fault
        for fault in problems(recipe_of, text)
        if fault[1] == "stage.pull.validate.with.use"
    ]
    assert len(faults) == 1
    assert faults[0][2].endswith("install it with `pip install sentbed-evaluators`")


@pytest.mark.parametrize(
    ("written", "what"),
    [
        ("schema = 2", "has `schema = 2`"),
        ("schema = true", "has `schema = True`"),
        ('schema = "1"', "has `schema = '1'`"),
    ],
)
def test_a_recipe_of_another_schema_is_refused_before_anything_else(
    written, what, recipe_of
):
    line, path, message = problem(
        recipe_of, RECIPE.replace("schema = 1", written).replace("seed", "sede")
    )
    assert (line, path) == (1, "schema")
    assert message == f"the recipe {what}, this version of sentbed reads `schema = 1`"


def test_a_recipe_without_schema_still_has_its_other_problems_reported(recipe_of):
    with pytest.raises(RecipeError) as caught:
        recipe_of(RECIPE.replace("schema = 1", "").replace("seed", "sede"))
    assert [problem.path for problem in caught.value.problems] == ["schema", "run.sede"]


def test_a_recipe_with_encoder_and_encoders_is_refused(recipe_of):
    text = (
        RECIPE
        + '\n[encoders.other]\nbackbone = { use = "characters" }\npooler = { use = "average" }\n'
    )
    assert problem(recipe_of, text) == (
        line_of(RECIPE, "[encoder]"),
        "encoder",
        "the recipe has both `[encoder]` and `[encoders]`; name every encoder under `[encoders]`",
    )


@pytest.mark.parametrize("table", ["", "encoders = {}\n"])
def test_a_recipe_without_encoder_says_so_beside_its_other_problems(table, recipe_of):
    start, end = RECIPE.index("[encoder]"), RECIPE.index("[[stage]]")
    text = (
        (RECIPE[:start] + RECIPE[end:])
        .replace("seed", "sede")
        .replace("[run]", f"{table}[run]")
    )
    faults = problems(recipe_of, text)
    assert "the recipe has no encoder; add a table `[encoder]`" in [
        message for *_, message in faults
    ]
    assert (
        line_of(text, "sede"),
        "run.sede",
        "unknown key `sede`. Did you mean `seed`?",
    ) in faults


def test_an_encoder_that_is_no_table_is_a_problem_of_the_encoder(recipe_of):
    start, end = RECIPE.index("[encoder]"), RECIPE.index("[[stage]]")
    text = "encoder = 3\n" + RECIPE[:start] + RECIPE[end:]
    assert problem(recipe_of, text) == (1, "encoder", "found 3, expected a table")


def test_a_directory_is_no_recipe(tmp_path, plugins):
    with pytest.raises(RecipeError, match="cannot read the recipe: Is a directory"):
        load_recipe(tmp_path, plugins=plugins)


# --- check -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "has"), [("epochs = 2\nsteps = 3", "both"), ("", "neither")]
)
def test_a_stage_is_as_long_as_its_epochs_or_its_steps(length, has, recipe_of):
    text = RECIPE.replace("epochs = 2", length)
    assert problem(recipe_of, text) == (
        line_of(text, "[[stage]]"),
        "stage.pull",
        f"the stage has {has} of `epochs` and `steps`; give exactly one",
    )


def test_what_a_component_checks_itself_is_a_problem_of_its_table(recipe_of, tmp_path):
    text = RECIPE.replace('"words", rows = 11', '"lines", path = "none.txt"')
    line, path, message = problems(recipe_of, text)[0]
    assert (line, path) == (line_of(text, "data"), "stage.pull.data")
    assert message == f"there is no file `{tmp_path / 'none.txt'}`; check the path"


def test_expected_numbers_without_an_evaluation_are_a_problem(recipe_of):
    start = RECIPE.index("[[evaluate]]")
    text = RECIPE[:start] + "[expected]\ngap = { value = 1.0, tolerance = 0.1 }\n"
    line, path, message = problem(recipe_of, text)
    assert (line, path) == (line_of(text, "[expected]"), "expected")
    assert "no `[[evaluate]]`" in message


def test_an_expected_number_needs_a_tolerance_of_at_least_zero(recipe_of):
    text = (
        RECIPE
        + "\n[expected]\ngap = { value = 1.0 }\n'gap/distance' = { value = 1, tolerance = -1 }\n"
    )
    assert [(line, path) for line, path, _ in problems(recipe_of, text)] == [
        (line_of(text, "gap ="), "expected.gap"),
        (line_of(text, "'gap/"), "expected.gap/distance.tolerance"),
    ]


def test_a_number_to_compare_with_has_no_tolerance(recipe_of):
    table = "\n[expected]\ngap = { value = 1.0, decides = false }\n"
    assert recipe_of(RECIPE + table).expected["gap"].tolerance is None
    wrong = RECIPE + table.replace("decides", "tolerance = 1, decides")
    line, path, message = problem(recipe_of, wrong)
    assert (line, path) == (line_of(wrong, "gap ="), "expected.gap")
    assert "a number that decides nothing has no `tolerance`" in message


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


def test_an_override_may_name_a_table_that_the_file_lacks(recipe_of):
    recipe = recipe_of(RECIPE, "expected.gap.value=1", "expected.gap.tolerance=2")
    assert (recipe.expected["gap"].value, recipe.expected["gap"].tolerance) == (
        1.0,
        2.0,
    )


def test_the_last_of_several_overrides_wins(recipe_of):
    assert recipe_of(RECIPE, "run.seed=3", "run.seed=4").run.seed == 4


def test_an_override_leaves_the_file_and_the_other_values_alone(recipe_of, tmp_path):
    changed = recipe_of(RECIPE, "stage.pull.epochs=5")
    assert (tmp_path / "recipe.toml").read_text() == RECIPE
    assert attrs.evolve(changed, stage=recipe_of().stage) == recipe_of()


def test_an_overridden_value_is_checked_like_a_written_one(recipe_of):
    with pytest.raises(RecipeError) as caught:
        recipe_of(RECIPE, "stage.pull.batch_size=big")
    (fault,) = caught.value.problems
    # What the file says in that line is not what was read.
    assert (
        str(fault)
        == "found 'big', expected a whole number @ --set stage.pull.batch_size"
    )


@pytest.mark.parametrize("value", ["nan", "inf", "0.5"])
def test_a_number_from_the_command_line_is_not_placed_in_the_file(recipe_of, value):
    with pytest.raises(RecipeError) as caught:
        recipe_of(RECIPE, f"stage.pull.batch_size={value}")
    (fault,) = caught.value.problems
    assert str(fault).endswith("@ --set stage.pull.batch_size")


@pytest.mark.parametrize("name", ["9", "007"])
def test_a_stage_whose_name_is_a_number_is_overridden_by_its_name(recipe_of, name):
    text = RECIPE.replace('name = "pull"', f'name = "{name}"')
    recipe = recipe_of(text, f"stage.{name}.epochs=5")
    assert recipe.stage[0].epochs == 5
    assert recipe.document.place(("stage", 0, "epochs")) == ("--set", None)
    assert recipe_of(text, f"stage.{name}=", "evaluate.0.at=['end']").stage == ()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "stage.nli.epochs=1",
            "the override `stage.nli.epochs` leads nowhere: there is no element `nli`, the names are `pull`; "
            "name one of them",
        ),
        (
            "stage.1.epochs=1",
            "leads nowhere: there is no element `1`, the names are `pull`; name one of them",
        ),
        (
            "stage.1={}",
            "leads nowhere: there is no element `1`, the names are `pull`; name one of them",
        ),
        (
            "run.seed.deep.er=1",
            "leads nowhere: `deep` would be inside 7, which is not a table",
        ),
        ("run.seed.deep=1", "the override `run.seed.deep` leads nowhere: "),
        ("run.name.deep=1", "the override `run.name.deep` leads nowhere: "),
        ("run.seed", "found the override 'run.seed', expected `PATH=VALUE`"),
        ("=3", "found the override '=3', expected `PATH=VALUE`"),
        ("", "found the override '', expected `PATH=VALUE`"),
    ],
)
def test_an_override_that_leads_nowhere_is_a_problem(override, message, recipe_of):
    assert message in problem(recipe_of, RECIPE, override)[2]


def test_all_wrong_overrides_are_reported_at_once(recipe_of):
    assert len(problems(recipe_of, RECIPE, "x", "stage.9.y=1", "run.seed=1")) == 2


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


def test_a_resolved_recipe_writes_out_defaults_and_overrides(recipe_of):
    data = tomli.loads(resolved_toml(recipe_of(RECIPE, "run.seed=3")))
    assert data["run"]["seed"] == 3
    assert data["encoder"]["head"] == {
        "bias": False,
        "normalize": False,
        "hidden": [],
        "activation": "none",
    }
    assert data["stage"][0]["max_grad_norm"] == 1.0
    assert data["evaluate"][0] == {
        "use": "gap",
        "left": "abc",
        "right": "nop",
        "target": 0.0,
        "development": False,
        "at": ["start", "end"],
    }


def test_relative_paths_are_absolute_in_a_resolved_recipe(
    recipe_of, tmp_path, plugins, put
):
    recipe = recipe_of(RECIPE.replace("width = 4", 'width = 4, model = "./weights"'))
    moved = load_recipe(
        put("deep/below/r.toml", resolved_toml(recipe)), plugins=plugins
    )
    assert moved.encoders["encoder"].backbone == Characters(
        4, model=str(tmp_path / "weights")
    )


def test_start_without_a_stage_is_a_problem(recipe_of):
    before, _, after = RECIPE.partition("[[stage]]")
    text = before + after[after.index("[[evaluate]]") :]
    line, path, message = problem(recipe_of, text)
    assert (line, path) == (line_of(text, "[[evaluate]]"), "evaluate.0")
    assert (
        message
        == '`at` has "start", but the recipe has no stage before which to evaluate; remove it'
    )


def test_an_empty_at_is_a_problem(recipe_of):
    _, path, message = problem(
        recipe_of, RECIPE.replace('at = ["start", "end"]', "at = []")
    )
    assert path == "evaluate.0.at"
    assert "found ()" in message


@pytest.mark.parametrize("name", ["../../evil", "a/b", "x@start", ""])
def test_an_encoder_name_that_is_no_plain_name_is_a_problem(name, recipe_of):
    text = RECIPE.replace("[encoder]", f'[encoders."{name}"]')
    assert problem(recipe_of, text)[2].startswith(f"{name!r} cannot name an encoder")


def test_what_a_component_checks_is_reported_beside_other_problems(put, plugins):
    text = RECIPE.replace("seed", "sede").replace(
        '"words", rows = 11', '"lines", path = "nowhere.txt"'
    )
    with pytest.raises(RecipeError) as caught:
        load_recipe(put("r.toml", text), (), plugins)
    assert [problem.path for problem in caught.value.problems] == [
        "run.sede",
        "stage.pull.data",
    ]


def test_an_override_without_value_takes_the_key_out(put, plugins):
    path = put("r.toml", RECIPE)
    recipe = load_recipe(path, ("stage.0.epochs=", "stage.0.steps=3"), plugins)
    assert (recipe.stage[0].epochs, recipe.stage[0].steps) == (None, 3)


@pytest.mark.parametrize(
    "override", ["typo=", "run.sede=", "stage.0.nothing.below=", "stage.7="]
)
def test_an_override_cannot_take_out_what_is_not_there(override, recipe_of):
    _, path, message = problem(recipe_of, RECIPE, override)
    assert path == override.removesuffix("=")
    assert "leads nowhere" in message


@pytest.mark.parametrize(
    "value", ["7 # a remark", "7\nrun.name = 'x'", "'a' # b", "[1, 2] #"]
)
def test_no_part_of_an_override_is_dropped(value, recipe_of):
    _, _, message = problem(recipe_of, RECIPE, f"run.seed={value}")
    assert "would be lost" in message


@pytest.mark.parametrize("value", ["a#b", "'a # b'", '"a # b"', "# b", "a, b"])
def test_a_sign_within_a_value_is_kept(value, recipe_of):
    message = problem(recipe_of, RECIPE, f"run.name={value}")[2]
    assert value.strip("'\"") in message
    assert "would be lost" not in message


@pytest.mark.parametrize("key", ["run.name", "stage.0.name"])
def test_a_name_that_no_directory_can_have_is_refused(key, recipe_of):
    assert "must match regex" in problem(recipe_of, RECIPE, f"{key}={'n' * 101}")[2]
