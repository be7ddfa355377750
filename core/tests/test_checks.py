from __future__ import annotations

import attrs
import pytest
from sentbed import RecipeError, RuntimeUnavailableError, run
from sentbed._recipe.remarks import remarks_of
from sentbed.protocols import BackboneTraits, Evaluator, RuntimeTraits
from toy_plugin import RECIPE, TOWERS, Characters, Gap, Toy

NO_FR = "there is no encoder `fr`, the recipe has `en`, `zh`; name one of them"
MANY = "the recipe has several encoders (`en`, `zh`); say which one with"
DEVELOPMENT = (
    "a validation chooses weights, so it must not see test data, and `gap` does not say that it scores "
    "development data only; choose an evaluator that does, or say in this one that its data is a "
    'development set, such as `split = "dev"` or `tasks = ["STSB-dev"]`'
)
TEST_GAP = 'with = { use = "gap" }'
GAP = 'with = { use = "gap", development = true }'


def problems(load, text, *overrides):
    with pytest.raises(RecipeError) as caught:
        load(text, *overrides)
    return [(problem.path, problem.message) for problem in caught.value.problems]


# --- recipes that are right --------------------------------------------------------------------------------

MODES = {
    "shared": ("stage.pairs.train=zh", "stage.pairs.freeze=", "stage.pairs.columns="),
    "shared, said": (
        "stage.pairs.freeze=",
        'stage.pairs.columns={ anchor = "zh", positive = "zh" }',
    ),
    "dual": ('stage.pairs.train=["en", "zh"]', "stage.pairs.freeze="),
    "frozen": (),
}


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_of_two_towers_is_a_recipe(mode, recipe_of):
    recipe = recipe_of(TOWERS, *MODES[mode])
    towers = recipe.towers(recipe.stage[0])
    assert towers == {"anchor": "zh" if "shared" in mode else "en", "positive": "zh"}
    assert recipe.trained(recipe.stage[0]) == (
        ("en", "zh") if mode == "dual" else ("zh",)
    )


@pytest.mark.parametrize("source", ["pairs", "pretrained"])
def test_weights_come_from_an_earlier_stage_or_from_before_the_first(source, recipe_of):
    recipe = recipe_of(TOWERS, f"stage.tune.weights.zh={source}")
    assert recipe.stage[1].weights == {"zh": source}


def test_a_validation_that_chooses_nothing_may_see_test_data(recipe_of):
    recipe = recipe_of(
        TOWERS, f'stage.tune.validate={{ every = 1, {TEST_GAP}, keep = "last" }}'
    )
    assert recipe.stage[1].validate is not None


def test_watch_may_see_test_data_of_an_encoder_that_is_not_trained(recipe_of):
    watch = (
        f'[{{ every = 1, {TEST_GAP}, encoder = "en" }}, {{ every = 2, {TEST_GAP} }}]'
    )
    recipe = recipe_of(TOWERS, f"stage.tune.watch={watch}")
    assert [w.encoder for w in recipe.stage[1].watch] == ["en", None]


def test_an_evaluator_passes_on_the_misfits_of_the_one_within_it(monkeypatch):
    monkeypatch.setattr(
        Gap, "similarity_misfits", lambda self, similarity: iter([similarity])
    )
    outer = attrs.make_class("Outer", ["inner"], bases=(Evaluator,), frozen=True)
    monkeypatch.setattr(outer, "__abstractmethods__", frozenset())
    assert list(outer(Gap()).similarity_misfits("odd")) == ["odd"]


def test_a_moving_average_may_follow_the_tower_that_another_column_trains(recipe_of):
    recipe_of(TOWERS, 'stage.tune.loss={ use = "chase" }')


def test_a_micro_batch_may_be_as_large_as_the_batch(recipe_of):
    assert recipe_of(TOWERS, "stage.0.micro_batch=4").stage[0].micro_batch == 4


# --- one problem each --------------------------------------------------------------------------------------

VALIDATE = "stage.tune.validate="
WATCH = "stage.tune.watch="
DUAL = ('stage.pairs.train=["en", "zh"]', "stage.pairs.freeze=")


@pytest.mark.parametrize(
    ("overrides", "path", "message"),
    [
        # names that lead nowhere
        (
            ["stage.tune.train=fr"],
            "stage.tune.train",
            NO_FR,
        ),
        (["stage.tune.train="], "stage.tune.train", f"{MANY} `train`"),
        (
            ["stage.pairs.freeze=fr"],
            "stage.pairs.freeze",
            NO_FR,
        ),
        (
            ["stage.pairs.columns.anchor=fr"],
            "stage.pairs.columns.anchor",
            NO_FR,
        ),
        (
            ["stage.tune.weights.fr=pairs"],
            "stage.tune.weights.fr",
            NO_FR,
        ),
        (
            [VALIDATE + f'{{ every = 1, {GAP}, encoder = "fr" }}'],
            "stage.tune.validate.encoder",
            NO_FR,
        ),
        (
            [WATCH + f'[{{ every = 1, {GAP}, encoder = "fr" }}]'],
            "stage.tune.watch.0.encoder",
            NO_FR,
        ),
        (
            [WATCH + '[{ every = 1, with = { use = "across" }, second = "fr" }]'],
            "stage.tune.watch.0.second",
            NO_FR,
        ),
        (
            ["evaluate.0.second=fr"],
            "evaluate.0.second",
            NO_FR,
        ),
        (["evaluate.0.encoder="], "evaluate.0.encoder", f"{MANY} `encoder`"),
        (
            [*DUAL, f"stage.pairs.validate={{ every = 1, {GAP} }}"],
            "stage.pairs.validate.encoder",
            f"{MANY} `encoder`",
        ),
        (
            [*DUAL, f"stage.pairs.watch=[{{ every = 1, {GAP} }}]"],
            "stage.pairs.watch.0.encoder",
            f"{MANY} `encoder`",
        ),
        # names of stages
        (
            ["stage.tune.name=pairs"],
            "stage.1.name",
            "two stages are named `pairs`; give each its own name",
        ),
        (
            ["stage.tune.name=pretrained"],
            "stage.pretrained.name",
            "`pretrained` cannot name a stage: it names the weights before the first one",
        ),
        # towers and columns
        (
            [
                "stage.pairs.freeze=zh",
                'stage.pairs.columns={ anchor = "zh", positive = "zh" }',
            ],
            "stage.pairs.freeze",
            "the encoder `zh` is trained and frozen; name it once",
        ),
        (
            [
                'stage.tune.train=["zh", "zh"]',
                'stage.tune.columns={ anchor = "zh", positive = "zh" }',
            ],
            "stage.tune.train",
            "the encoder `zh` is named twice; name it once",
        ),
        (
            ["stage.pairs.columns.positive="],
            "stage.pairs.columns",
            "the stage has several encoders, and nothing says which one encodes the column `positive`; "
            'add `columns = { positive = "zh", ... }`',
        ),
        (
            ["stage.pairs.freeze="],
            "stage.pairs.columns.anchor",
            "the column `anchor` is encoded by `en`, which the stage neither trains nor freezes; "
            "name it in `train` or `freeze`",
        ),
        (
            ["stage.pairs.columns.anchor=zh"],
            "stage.pairs.freeze",
            "no column is encoded by `en`; give it one in `columns`, or take it out",
        ),
        (
            ["stage.pairs.columns.positive=en"],
            "stage.pairs.train",
            "no column is encoded by `zh`; give it one in `columns`, or take it out",
        ),
        (
            ["stage.pairs.columns.negative=en"],
            "stage.pairs.columns.negative",
            "the column `negative` is not used by this stage's data and loss; "
            "the columns are anchor, positive",
        ),
        # weights
        (
            ["stage.pairs.weights.zh=tune"],
            "stage.pairs.weights.zh",
            "there is no earlier stage `tune`; the weights can come from `pretrained`",
        ),
        (
            ["stage.tune.weights.zh=tune"],
            "stage.tune.weights.zh",
            "there is no earlier stage `tune`; the weights can come from `pairs`, `pretrained`",
        ),
        (
            ["stage.tune.weights.en=pairs"],
            "stage.tune.weights.en",
            "the stage `pairs` does not train `en`; name one that does",
        ),
        # batches
        (
            ["stage.pairs.micro_batch=5"],
            "stage.pairs.micro_batch",
            "`micro_batch` is 5, more than the batch of 4; take it out",
        ),
        # validation and watch
        (
            [VALIDATE + f'{{ every = 1, {GAP}, encoder = "en" }}'],
            "stage.tune.validate.encoder",
            "the stage does not train `en`, whose validation would choose nothing; "
            "name one that it trains, or use `watch`",
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
            "the evaluator `gap` has no use for a `second` encoder; take it out",
        ),
        (
            [VALIDATE + f'{{ every = 1, {GAP}, second = "en" }}'],
            "stage.tune.validate.second",
            "the evaluator `gap` has no use for a `second` encoder; take it out",
        ),
        (
            [VALIDATE + '{ every = 1, with = { use = "across" }, second = "fr" }'],
            "stage.tune.validate.second",
            NO_FR,
        ),
        (
            ["evaluate.0.use=gap"],
            "evaluate.0.second",
            "the evaluator `gap` has no use for a `second` encoder; take it out",
        ),
        # a transform and the encoder that it is fitted to
        (
            [
                'encoders.zh.head.transform={ use = "centre", dimensions = 5, data = { use = "words" } }'
            ],
            "encoders.zh.head",
            "5 of 4 dimensions cannot be left; lower `dimensions`",
        ),
        # the loss
        (
            ['stage.tune.loss={ use = "sort" }'],
            "stage.tune.loss",
            "the loss `sort` needs the column `label`, the data source `words` gives anchor, positive; "
            "choose another loss or data source",
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
    ],
)
def test_a_problem_of_a_stage_has_its_path_and_says_what_to_do(
    overrides, path, message, recipe_of
):
    assert problems(recipe_of, TOWERS, *overrides) == [(path, message)]


def moving(column, tower):
    return (
        "stage.pairs.loss",
        f"the loss `chase` encodes the column `{column}` by a moving average of `{tower}`, which no other "
        "column trains; encode all columns by one encoder, or use a loss that keeps none",
    )


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (
            (),
            [
                ("stage.pairs.loss", "the anchor is fixed; train its encoder"),
                moving("positive", "zh"),
            ],
        ),
        (
            ('stage.pairs.columns={ anchor = "zh", positive = "en" }',),
            [moving("positive", "en")],
        ),
        (DUAL, [moving("positive", "zh")]),
        (
            ('stage.pairs.loss.keys=["anchor", "positive"]', *MODES["shared"]),
            [moving("anchor", "zh"), moving("positive", "zh")],
        ),
    ],
)
def test_a_moving_average_needs_another_column_that_trains_its_tower(
    overrides, expected, recipe_of
):
    assert (
        problems(recipe_of, TOWERS, 'stage.pairs.loss={ use = "chase" }', *overrides)
        == expected
    )


def test_a_label_is_no_text_for_an_encoder(recipe_of):
    table = (
        '{ use = "table", path = "x.tsv", columns = ["anchor", "positive", "label"] }'
    )
    overrides = (f"stage.0.data={table}", 'stage.0.loss={ use = "sort" }')
    recipe_of(RECIPE, *overrides)
    assert problems(recipe_of, RECIPE, *overrides, "stage.0.columns.label=encoder") == [
        (
            "stage.pull.columns.label",
            "the column `label` holds no text; the columns are anchor, positive",
        )
    ]


@pytest.mark.parametrize(
    ("numbers", "loss", "message"),
    [
        (["score"], "grade", None),
        (
            [],
            "grade",
            "the loss `grade` takes numbers in the column `score`, of which the data source `table` gives",
        ),
        (["score"], "chase", None),
        (
            ["anchor"],
            "chase",
            "the loss `chase` takes texts in the column `anchor`, of which the data source `table`",
        ),
        (["score"], "pull", None),
        (
            ["positive"],
            "pull",
            "the loss `pull` takes texts in the column `positive`, of which the data source",
        ),
    ],
)
def test_texts_and_numbers_are_where_the_loss_takes_them(
    numbers, loss, message, recipe_of
):
    columns = '["anchor", "positive", "score"]'
    table = (
        f'{{ use = "table", path = "x.tsv", columns = {columns}, numbers = {numbers} }}'
    )
    overrides = (f"stage.0.data={table}", f'stage.0.loss={{ use = "{loss}" }}')
    if message is None:
        recipe_of(RECIPE, *overrides)
        return
    ((path, problem),) = problems(recipe_of, RECIPE, *overrides)
    assert path == "stage.pull.loss"
    assert problem.startswith(message)
    assert "; choose another loss or data source" in problem


def test_a_column_of_numbers_is_no_text_for_an_encoder(recipe_of):
    columns = '["anchor", "positive", "score"]'
    table = (
        f'{{ use = "table", path = "x.tsv", columns = {columns}, numbers = ["score"] }}'
    )
    overrides = (
        f"stage.0.data={table}",
        'stage.0.loss={ use = "grade" }',
        "stage.0.columns.score=encoder",
    )
    assert problems(recipe_of, RECIPE, *overrides) == [
        (
            "stage.pull.columns.score",
            "the column `score` holds no text; the columns are anchor, positive",
        )
    ]


def test_a_loss_with_labels_must_say_which(recipe_of):
    table = (
        '{ use = "table", path = "x.tsv", columns = ["anchor", "positive", "label"] }'
    )
    loss = 'stage.0.loss={ use = "sort", classes = [] }'
    assert problems(recipe_of, RECIPE, f"stage.0.data={table}", loss) == [
        (
            "stage.pull.loss",
            "the loss `sort` needs the column `label` and does not say which `classes` it may hold; "
            "that is for its plugin to say",
        )
    ]


def test_a_tracker_that_is_there_twice_is_a_problem(recipe_of):
    trackers = (
        '\n[[tracker]]\nuse = "notes"\n\n[[tracker]]\nuse = "notes"\nfile = "b"\n'
    )
    recipe_of(RECIPE + trackers)
    assert problems(recipe_of, RECIPE + trackers, "tracker.1.file=notes.txt") == [
        ("tracker.1", "the tracker `notes` is there twice; take one out")
    ]


def test_what_cannot_be_trained_is_a_problem_of_the_stage(recipe_of, monkeypatch):
    monkeypatch.setattr(
        Characters, "traits", BackboneTraits(untrainable="it is held in 3 bits; take 4")
    )
    assert problems(recipe_of, TOWERS) == [
        ("stage.pairs", "it is held in 3 bits; take 4"),
        ("stage.tune", "it is held in 3 bits; take 4"),
    ]


def test_a_runtime_that_cannot_train_is_a_problem_of_the_stage(recipe_of, monkeypatch):
    monkeypatch.setattr(
        Toy, "traits", RuntimeTraits(untrainable="it only encodes; take another")
    )
    assert ("stage.pairs", "it only encodes; take another") in problems(
        recipe_of, TOWERS
    )


def test_a_runtime_says_which_encoders_do_not_run_on_it(recipe_of, monkeypatch):
    def misfits(runtime, backbone, pooler, head):
        yield f"it has no graph of {backbone.name} and {pooler.name}, {head.normalize}; take another"

    monkeypatch.setattr(Toy, "misfits", misfits)
    sentence = "it has no graph of characters and average, False; take another"
    assert problems(recipe_of, RECIPE) == [("runtime", sentence)]


def test_a_runtime_that_knows_no_marked_tokens_gets_no_prompt_that_marks_them(
    recipe_of, monkeypatch
):
    twice = 'encoder.prompt={ template = "{text} again: {text}" }'
    monkeypatch.setattr(
        Characters, "traits", BackboneTraits(offers=frozenset({"span"}))
    )
    assert recipe_of(RECIPE, twice).encoders["encoder"].marks
    monkeypatch.setattr(Toy, "traits", RuntimeTraits(marked_tokens=False))
    assert problems(recipe_of, RECIPE, twice) == [
        (
            "runtime",
            "the runtime `toy`, as it is set, takes no prompt that hides tokens, chooses layers or has a "
            "placeholder; use another, such as `cpu`, or another prompt",
        )
    ]
    assert (
        not recipe_of(RECIPE, 'encoder.prompt={ template = "{text}!" }')
        .encoders["encoder"]
        .marks
    )


def test_all_problems_of_all_stages_come_at_once(recipe_of):
    all_problems = problems(
        recipe_of,
        TOWERS,
        "stage.pairs.micro_batch=5",
        "stage.pairs.columns.anchor=zh",
        "stage.pairs.columns.negative=en",
        "stage.tune.steps=3",
        "stage.tune.train=fr",
        "stage.tune.weights={ fr = 'pairs', zh = 'later' }",
        f"stage.tune.validate={{ every = 1, {TEST_GAP}, encoder = 'fr' }}",
        f"stage.tune.watch=[{{ every = 1, {GAP}, second = 'fr', encoder = 'ja' }}]",
        "evaluate.0.second=fr",
    )
    assert sorted(path for path, _ in all_problems) == [
        "evaluate.0.second",
        "stage.pairs.columns.negative",
        "stage.pairs.micro_batch",
        "stage.tune",
        "stage.tune.train",
        "stage.tune.validate.encoder",
        "stage.tune.validate.with",
        "stage.tune.watch.0.encoder",
        "stage.tune.watch.0.second",
        "stage.tune.watch.0.second",
        "stage.tune.weights.fr",
        "stage.tune.weights.zh",
    ]


def test_a_problem_of_a_stage_has_the_line_of_its_key(recipe_of):
    text = TOWERS.replace('freeze = "en"', 'freeze = "fr"')
    with pytest.raises(RecipeError) as caught:
        recipe_of(text)
    (problem,) = caught.value.problems
    assert text.splitlines()[(problem.line or 0) - 1] == 'freeze = "fr"'


# --- lengths and devices -----------------------------------------------------------------------------------


def test_texts_longer_than_the_positions_are_a_problem_before_anything_is_built(
    recipe_of, monkeypatch
):
    monkeypatch.setattr(Characters, "most_tokens", lambda self: 12)
    what = "is {}, and the backbone `characters` has positions for 12 tokens; set `max_length` to 12 or less"
    assert problems(recipe_of, RECIPE) == [
        ("encoder.max_length", f"`max_length` {what.format(16)}")
    ]
    overrides = ("encoder.max_length=12", "stage.pull.max_length=1300")
    expected = [("stage.pull.max_length", f"`max_length` {what.format('1,300')}")]
    assert problems(recipe_of, RECIPE, *overrides) == expected
    recipe_of(RECIPE, "encoder.max_length=12", "stage.pull.max_length=12")


def test_a_run_on_an_unavailable_runtime_writes_nothing(
    recipe_of, plugins, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        Toy, "unavailable", lambda self: "there is no toy here; buy one"
    )
    recipe = recipe_of(RECIPE)
    with pytest.raises(
        RuntimeUnavailableError, match=r"^there is no toy here; buy one$"
    ):
        run(recipe, tmp_path / "out", plugins)
    assert not (tmp_path / "out").exists()
    remarks, refused = remarks_of([recipe])
    assert (remarks, refused) == (
        ["not on this machine: there is no toy here; buy one"],
        [],
    )
