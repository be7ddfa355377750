"""Recipes whose parts cannot be combined, and recipes that are right."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from sentbed import RecipeError, RuntimeUnavailableError, run
from sentbed._cli.main import main
from toy_plugin import RECIPE, TOWERS, Characters, Toy

TEST_GAP = 'with = { use = "gap" }'
GAP = 'with = { use = "gap", development = true }'
VALIDATE = "stage.tune.validate="
WATCH = "stage.tune.watch="
DUAL = ('stage.pairs.train=["en", "zh"]', "stage.pairs.freeze=")
CHASE = 'stage.pairs.loss={ use = "chase" }'
NO_FR = "there is no encoder `fr`; name one of `en`, `zh`"
SEVERAL = "the recipe has several encoders; name one of `en`, `zh`"
DEVELOPMENT = "a validation chooses weights, so it must not see test data"
NO_SECOND = "has no use for a `second` encoder"


def problems(load, text, *overrides):
    with pytest.raises(RecipeError) as caught:
        load(text, *overrides)
    return caught.value.problems


def table(columns, numbers=()):
    return (
        f'stage.0.data={{ use = "table", path = "x.tsv", columns = {list(columns)}, '
        f"numbers = {list(numbers)} }}"
    )


# --- recipes that are right --------------------------------------------------------------------------------

MODES = {
    "shared": ("stage.pairs.train=zh", "stage.pairs.freeze=", "stage.pairs.columns="),
    "shared, said": (
        "stage.pairs.freeze=",
        'stage.pairs.columns={ anchor = "zh", positive = "zh" }',
    ),
    "dual": DUAL,
    "frozen": (),
}


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_of_two_towers_is_a_recipe(mode, recipe_of):
    recipe = recipe_of(TOWERS, *MODES[mode])
    towers = recipe.towers(recipe.stage[0])
    assert towers == {"anchor": "zh" if "shared" in mode else "en", "positive": "zh"}
    trained = ("en", "zh") if mode == "dual" else ("zh",)
    assert recipe.trained(recipe.stage[0]) == trained


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        (TOWERS, ["stage.tune.weights.zh=pairs"]),
        (TOWERS, ["stage.tune.weights.zh=pretrained"]),
        (TOWERS, [VALIDATE + f'{{ every = 1, {TEST_GAP}, keep = "last" }}']),
        (TOWERS, [WATCH + f'[{{ every = 1, {TEST_GAP}, encoder = "en" }}]']),
        (TOWERS, ['stage.tune.loss={ use = "chase" }']),
        (TOWERS, ["stage.0.micro_batch=4"]),
        (RECIPE, [table(["anchor", "positive", "label"]), 'stage.0.loss.use="sort"']),
        (RECIPE, [table(["anchor", "positive", "score"], ["score"])]),
    ],
)
def test_a_recipe_that_is_right_has_no_problem(text, overrides, recipe_of):
    assert recipe_of(text, *overrides).stage


# --- one problem each --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "path", "words"),
    [
        # names of encoders
        (["stage.tune.train=fr"], "stage.tune.train", NO_FR),
        (["stage.tune.train="], "stage.tune.train", SEVERAL),
        (["stage.pairs.freeze=fr"], "stage.pairs.freeze", NO_FR),
        (["stage.pairs.columns.anchor=fr"], "stage.pairs.columns.anchor", NO_FR),
        (["stage.tune.weights.fr=pretrained"], "stage.tune.weights.fr", NO_FR),
        (
            [VALIDATE + f'{{ every = 1, {GAP}, encoder = "fr" }}'],
            "stage.tune.validate.encoder",
            NO_FR,
        ),
        (
            [WATCH + '[{ every = 1, with = { use = "across" }, second = "fr" }]'],
            "stage.tune.watch.0.second",
            NO_FR,
        ),
        (["evaluate.0.second=fr"], "evaluate.0.second", NO_FR),
        (["evaluate.0.encoder="], "evaluate.0.encoder", SEVERAL),
        (
            [*DUAL, f"stage.pairs.validate={{ every = 1, {GAP} }}"],
            "stage.pairs.validate.encoder",
            SEVERAL,
        ),
        # encoders and columns
        (
            [*DUAL, "stage.pairs.freeze=zh"],
            "stage.pairs.freeze",
            "named twice",
        ),
        (
            ["stage.pairs.columns.positive="],
            "stage.pairs.columns.positive",
            "none of the stage's encoders, `zh`, `en`, encodes the column `positive`",
        ),
        (
            ["stage.pairs.freeze="],
            "stage.pairs.columns.anchor",
            "none of the stage's encoders, `zh`, encodes the column `anchor`",
        ),
        (
            ["stage.pairs.columns.anchor=zh"],
            "stage.pairs.columns",
            "no column is encoded by `en`",
        ),
        (
            ["stage.pairs.columns.negative=en"],
            "stage.pairs.columns.negative",
            "no text from the column `negative`, but from `anchor`, `positive`",
        ),
        # names of stages
        (["stage.0.name=pretrained"], "stage.pretrained.name", "choose another name"),
        (["stage.pairs.weights.zh=tune"], "stage.pairs.weights.zh", "no earlier stage"),
        (["stage.tune.weights.en=pairs"], "stage.tune.weights.en", "trains `en`"),
        # sizes
        (["stage.tune.steps=3"], "stage.tune", "exactly one of `epochs` and `steps`"),
        (["stage.pairs.micro_batch=5"], "stage.pairs.micro_batch", "the batch of 4"),
        # validation and watch
        (
            [VALIDATE + f'{{ every = 1, {GAP}, encoder = "en" }}'],
            "stage.tune.validate.encoder",
            "the stage does not train `en`",
        ),
        (
            [VALIDATE + f"{{ every = 1, {TEST_GAP} }}"],
            "stage.tune.validate.with",
            DEVELOPMENT,
        ),
        (
            [VALIDATE + f'{{ every = 1, {TEST_GAP}, keep = "last", patience = 2 }}'],
            "stage.tune.validate.with",
            DEVELOPMENT,
        ),
        (
            [WATCH + f'[{{ every = 1, {GAP}, second = "en" }}]'],
            "stage.tune.watch.0.second",
            NO_SECOND,
        ),
        (["evaluate.0.use=gap"], "evaluate.0.second", NO_SECOND),
        # components in their places
        (
            [
                'encoders.zh.head.transform={ use = "centre", dimensions = 5, data = { use = "words" } }'
            ],
            "encoders.zh.head.transform",
            "5 of 4 dimensions cannot be left; lower `dimensions`",
        ),
        (
            ['stage.tune.loss={ use = "sort" }'],
            "stage.tune.loss",
            "needs the column `label`, and the data has `anchor`, `positive`",
        ),
        (
            ['stage.tune.loss={ use = "chase", most = 3 }'],
            "stage.tune.loss",
            "a batch of 4 is more than 3; make it smaller",
        ),
        (
            ['stage.pairs.loss={ use = "chase", keys = [] }'],
            "stage.pairs.loss",
            "the anchor is fixed; train its encoder",
        ),
        # moving averages
        (
            [CHASE, *DUAL],
            "stage.pairs.loss",
            "the column `positive` by a moving average of `zh`, which no other column trains",
        ),
        (
            [CHASE, 'stage.pairs.columns={ anchor = "zh", positive = "en" }'],
            "stage.pairs.loss",
            "the column `positive` by a moving average of `en`",
        ),
    ],
)
def test_a_problem_of_two_towers_has_its_path_and_says_what_to_do(
    overrides, path, words, recipe_of
):
    (problem,) = problems(recipe_of, TOWERS, *overrides)
    assert problem.path == path
    assert words in problem.message


LABELS = table(["anchor", "positive", "label"])
GRADE = 'stage.0.loss={ use = "grade" }'
SCORES = table(["anchor", "positive", "score"], ["score"])
TRACKERS = '\n[[tracker]]\nuse = "notes"\n\n[[tracker]]\nuse = "notes"\n'


@pytest.mark.parametrize(
    ("text", "overrides", "path", "words"),
    [
        (
            RECIPE,
            [LABELS, 'stage.0.loss={ use = "sort" }', "stage.0.columns.label=encoder"],
            "stage.pull.columns.label",
            "no text from the column `label`",
        ),
        (
            RECIPE,
            [SCORES, GRADE, "stage.0.columns.score=encoder"],
            "stage.pull.columns.score",
            "no text from the column `score`",
        ),
        (
            RECIPE,
            [LABELS, 'stage.0.loss={ use = "sort", classes = [] }'],
            "stage.pull.loss",
            "does not say which `classes`",
        ),
        (
            RECIPE,
            [table(["anchor", "positive", "score"]), GRADE],
            "stage.pull.loss",
            "the column `score` holds numbers for one of loss and data",
        ),
        (
            RECIPE,
            [table(["anchor", "positive"], ["positive"])],
            "stage.pull.loss",
            "the column `positive` holds numbers for one of loss and data",
        ),
        (RECIPE + TRACKERS, [], "tracker.1", "the tracker `notes` is there twice"),
    ],
)
def test_a_problem_of_a_recipe_has_its_path_and_says_what_to_do(
    text, overrides, path, words, recipe_of
):
    (problem,) = problems(recipe_of, text, *overrides)
    assert problem.path == path
    assert words in problem.message


def test_all_problems_of_all_stages_come_at_once(recipe_of):
    all_problems = problems(
        recipe_of,
        TOWERS,
        "stage.pairs.micro_batch=5",
        "stage.pairs.columns.negative=en",
        "stage.tune.steps=3",
        "stage.tune.train=fr",
        "stage.tune.weights={ fr = 'pairs', zh = 'later' }",
        f"stage.tune.validate={{ every = 1, {TEST_GAP}, encoder = 'fr' }}",
        f"stage.tune.watch=[{{ every = 1, {GAP}, second = 'fr', encoder = 'ja' }}]",
        "evaluate.0.second=fr",
    )
    assert {problem.path for problem in all_problems} == {
        "evaluate.0.second",
        "stage.pairs.columns.negative",
        "stage.pairs.micro_batch",
        "stage.tune",
        "stage.tune.train",
        "stage.tune.validate.encoder",
        "stage.tune.validate.with",
        "stage.tune.watch.0.encoder",
        "stage.tune.watch.0.second",
        "stage.tune.weights.fr",
        "stage.tune.weights.zh",
    }


def test_two_stages_have_different_names(recipe_of):
    new, old = problems(recipe_of, TOWERS, "stage.1.name=pairs")
    assert (new.path, old.path) == ("stage.1.name", "stage.pairs.name")


def test_a_problem_of_a_stage_has_the_line_of_its_key(recipe_of):
    text = TOWERS.replace('freeze = "en"', 'freeze = "fr"')
    (problem,) = problems(recipe_of, text)
    assert text.splitlines()[(problem.line or 0) - 1] == 'freeze = "fr"'


# --- what backbones and runtimes say of themselves ---------------------------------------------------------

BITS = "it is held in 3 bits; take 4"
TWICE = 'encoder.prompt={ template = "{text} again: {text}" }'


@pytest.mark.parametrize(
    ("part", "name", "value", "path"),
    [
        (Characters, "untrainable", BITS, "stage.pull"),
        (Toy, "untrainable", BITS, "stage.pull"),
        (Toy, "offers", frozenset({"vector"}), "runtime"),
        (Toy, "offers", frozenset({"tokens", "marked-tokens"}), "runtime"),
    ],
)
def test_what_a_part_cannot_do_is_a_misfit(
    part, name, value, path, recipe_of, monkeypatch
):
    monkeypatch.setattr(Characters, "offers", frozenset({"span"}))
    assert recipe_of(RECIPE, TWICE).encoders["encoder"].marks
    monkeypatch.setattr(part, name, value)
    (problem,) = problems(recipe_of, RECIPE, TWICE)
    assert (problem.path, problem.level) == (path, "misfit")


def test_a_runtime_says_which_encoders_do_not_run_on_it(recipe_of, monkeypatch):
    sentence = "it has no graph of characters; take another"
    monkeypatch.setattr(Toy, "misfits", lambda self, place: iter([sentence]))
    (problem,) = problems(recipe_of, RECIPE)
    assert (problem.path, problem.message) == ("runtime", sentence)


def test_texts_longer_than_the_positions_are_a_problem_before_anything_is_built(
    recipe_of, monkeypatch
):
    monkeypatch.setattr(Characters, "most_tokens", lambda self: 12)
    for override, path in (
        ("encoder.max_length=16", "encoder.max_length"),
        ("stage.pull.max_length=1300", "stage.pull.max_length"),
    ):
        (problem,) = problems(recipe_of, RECIPE, "encoder.max_length=12", override)
        assert problem.path == path
        assert "positions for 12 tokens; set `max_length` to 12" in problem.message
    recipe_of(RECIPE, "encoder.max_length=12", "stage.pull.max_length=12")


def test_a_run_on_an_unavailable_runtime_writes_nothing(
    put, installed_toy, recipe_of, plugins, tmp_path, monkeypatch
):
    reason = "there is no toy here; buy one"
    monkeypatch.setattr(Toy, "unavailable", lambda self: reason)
    with pytest.raises(RuntimeUnavailableError, match=f"^{reason}$"):
        run(recipe_of(RECIPE), tmp_path / "out", plugins)
    assert not (tmp_path / "out").exists()

    result = CliRunner().invoke(main, ["check", str(put("r.toml", RECIPE))])
    assert result.exit_code == 0
    assert result.output.endswith(f"  not on this machine: {reason}\n")
