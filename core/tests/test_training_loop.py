from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np
import pytest
from sentbed import (
    RunError,
    run,
)
from sentbed._run.context import RunContext
from sentbed._run.encoder_building import build_encoder, build_encoders
from sentbed._run.training_loop import train_stage
from sentbed.protocols import (
    PROGRESS,
    Evaluation,
    Evaluator,
    Prepared,
    TokenIds,
    Validate,
    Watch,
)
from toy_fixtures import exactly
from toy_plugin import (
    RECIPE,
    TOWERS,
    Across,
    Engine,
    Gap,
    Pull,
    SgdTrainer,
    Words,
    assert_same_vectors,
    gap_of,
)

KEPT = "kept-{:08d}/encoder"


@pytest.fixture
def train(recipe_of, plugins, tmp_path):
    """Train the stages of a recipe without a run around them."""

    def go(recipe=None, **changes):
        recipe = recipe or recipe_of()
        recipe = attrs.evolve(
            recipe,
            stage=tuple(attrs.evolve(stage, **changes) for stage in recipe.stage),
        )
        encoder = build_encoder(recipe)
        run = RunContext(tmp_path / "run", recipe, plugins, hooks=plugins.manager.hook)
        for index in range(len(recipe.stage)):
            train_stage(run, index, {"encoder": encoder})
        return encoder, run

    return go


@pytest.fixture
def train_towers(plugins, tmp_path):
    """Train the first stage of a recipe of several encoders."""

    def go(recipe, **changes):
        recipe = attrs.evolve(recipe, stage=(attrs.evolve(recipe.stage[0], **changes),))
        encoders = build_encoders(recipe, recipe.runtime.build())
        run = RunContext(tmp_path / "run", recipe, plugins, hooks=plugins.manager.hook)
        train_stage(run, 0, encoders)
        return encoders

    return go


@pytest.fixture
def batches(monkeypatch):
    """The columns of every step."""
    seen = []
    step = SgdTrainer.step

    def watch(self, columns):
        seen.append(dict(columns))
        return step(self, columns)

    monkeypatch.setattr(SgdTrainer, "step", watch)
    return seen


def details(recorder, event, key):
    return [fields[key] for name, fields in recorder.events if name == event]


@attrs.frozen
class Scripted(Evaluator):
    """Gives the scores that it is told, one a call; before the first step, `first`."""

    name: ClassVar[str] = "scripted"
    scores: Sequence[float]
    first: float = -1.0
    calls: list[int] = attrs.field(factory=list)

    def prepare(self):
        return Prepared({}, self._score)

    def _score(self, vectors):
        self.calls.append(1)
        scores = (self.first, *self.scores)
        return Evaluation((), scores[len(self.calls) - 1])


# --- batches -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "sizes"), [(1, [4]), (5, [4, 4, 3, 4, 4])])
def test_steps_count_over_as_many_epochs_as_they_take(
    steps, sizes, train, recorder, batches
):
    train(epochs=None, steps=steps)
    assert [len(batch["anchor"]) for batch in batches] == sizes
    assert details(recorder, "step_finished", "step") == list(range(1, steps + 1))
    assert details(recorder, "stage_started", "total_steps") == [steps]


def test_each_part_of_a_run_has_random_numbers_of_its_own(
    recipe_of, plugins, tmp_path, monkeypatch
):
    seeds = []
    seed_engine = Engine.seed

    def record(engine, seed):
        seeds.append(seed)
        seed_engine(engine, seed)

    monkeypatch.setattr(Engine, "seed", record)
    run(recipe_of(TOWERS), tmp_path / "run", plugins)

    # Those of two encoders, two stages and two evaluations are among them.
    assert len(seeds) >= 6
    assert len(set(seeds)) == len(seeds)


def test_a_moving_average_is_evaluated_and_left(recipe_of, train, monkeypatch):
    weights = []
    step = SgdTrainer.step

    def watched(self, columns):
        (embedding,) = [value for _, value in self.update.parameters]
        weights.extend([] if weights else [embedding.copy()])
        result = step(self, columns)
        weights.append(embedding.copy())
        return result

    monkeypatch.setattr(SgdTrainer, "step", watched)
    recipe = recipe_of(RECIPE, "stage.0.epochs=2")
    encoder, _ = train(recipe, ema=0.75, validate=Validate(1, Gap("ab"), keep="last"))
    average = weights[0]
    for after in weights[1:]:
        average = 0.75 * average + 0.25 * after
    assert len(weights) > 3
    np.testing.assert_allclose(encoder.backbone.embedding, average, rtol=1e-6)
    assert not np.allclose(average, weights[-1])


def test_the_tokens_that_steps_encode_are_a_fact_of_the_run(train, batches):
    _, run = train()
    columns = [column for batch in batches for column in batch.values()]
    assert run.facts["trained_tokens"] == sum(len(column.ids) for column in columns) > 0


# --- training ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "what"), [("loss", "loss"), ("grad_norm", "gradient norm")]
)
def test_a_loss_or_gradient_that_is_not_finite_names_stage_step_and_rate(
    field, what, train, monkeypatch
):
    step = SgdTrainer.step

    def spoil(self, columns):
        result = step(self, columns)
        if result.learning_rate > 0.25:
            return result
        return attrs.evolve(result, **{field: math.nan})

    monkeypatch.setattr(SgdTrainer, "step", spoil)
    with pytest.raises(
        RunError,
        match=exactly(
            f"the {what} of stage `pull` is nan at step 4 of 6 (batch 1 of epoch 2, first rows 9, 2, 4, 1); "
            "lower the learning rate (it was 0.25) or raise the temperature"
        ),
    ):
        train()


# --- two towers --------------------------------------------------------------------------------------------

SHARED = ("stage.0.freeze=", 'stage.0.columns={ anchor = "zh", positive = "zh" }')
DUAL = ('stage.0.train=["en", "zh"]', "stage.0.freeze=")


def weights(encoders):
    return {
        name: encoder.backbone.embedding.tobytes() for name, encoder in encoders.items()
    }


@pytest.mark.parametrize(
    ("overrides", "changed"),
    [
        ((), {"zh"}),
        (SHARED, {"zh"}),
        (DUAL, {"en", "zh"}),
    ],
    ids=["frozen", "shared", "dual"],
)
def test_exactly_the_towers_that_a_stage_trains_change(
    overrides, changed, recipe_of, train_towers
):
    recipe = recipe_of(TOWERS, *overrides)
    before = weights(build_encoders(recipe, recipe.runtime.build()))
    after = weights(train_towers(recipe))
    assert {name for name in before if before[name] != after[name]} == changed


def test_the_trainer_gets_vectors_of_a_frozen_tower_and_tokens_of_the_trained_one(
    recipe_of, train_towers, batches
):
    recipe = recipe_of(TOWERS)
    encoders = train_towers(recipe)
    texts = recipe.stage[0].data.open().rows(range(11))["anchor"]
    vectors = {vector.tobytes() for vector in encoders["en"].encode(texts)}
    assert len(batches) == 6
    for batch in batches:
        assert set(batch) == {"anchor", "positive"}
        assert isinstance(batch["positive"], TokenIds)
        assert batch["anchor"].dtype == np.float32
        assert vectors.issuperset(vector.tobytes() for vector in batch["anchor"])


@attrs.frozen
class ComparingPull(Pull):
    name: ClassVar[str] = "comparing-pull"
    needs = Pull.needs | {"text-ids"}


def test_a_loss_that_needs_ids_of_texts_gets_one_number_a_text_in_every_column(
    recipe_of, train_towers, batches
):
    recipe = recipe_of(TOWERS)
    train_towers(recipe, loss=ComparingPull(), data=Same(11))
    for batch in batches:
        assert list(batch["anchor.id"]) == list(batch["positive.id"])
        assert batch["anchor.id"].dtype == np.int64
        assert len(set(batch["anchor.id"].tolist())) == len(batch["anchor.id"])


@attrs.frozen
class ScheduledPull(Pull):
    name: ClassVar[str] = "scheduled-pull"
    needs = Pull.needs | {"progress"}


def test_a_loss_that_needs_progress_gets_the_part_of_the_stage_that_is_over(
    recipe_of, train_towers, batches
):
    train_towers(recipe_of(TOWERS), loss=ScheduledPull())
    steps = len(batches)
    assert steps > 1
    for step, batch in enumerate(batches):
        assert batch[PROGRESS].dtype == np.float32
        assert float(batch[PROGRESS]) == pytest.approx(step / steps)


@attrs.frozen
class Same(Words):
    """The same text twice in each row."""

    name: ClassVar[str] = "same"

    def open(self):
        table = super().open()
        return attrs.evolve(
            table,
            data={"anchor": table.data["anchor"], "positive": table.data["anchor"]},
        )


def test_each_tower_cuts_its_texts_at_its_own_length(recipe_of, train_towers, batches):
    train_towers(recipe_of(TOWERS, *DUAL, "encoders.en.max_length=2"))
    assert max(batch["anchor"].lengths.max() for batch in batches) == 2
    assert max(batch["positive"].lengths.max() for batch in batches) == 6


# --- columns and labels ------------------------------------------------------------------------------------

SORTED = 'stage.0.data={ use = "table", path = "t.tsv", columns = ["anchor", "negative", "positive", "label"] }'
ROWS = [
    ("abc", "NEG", "def", "same"),
    ("ghi", "NEG", "jkl", "other"),
    ("mno", "NEG", "pqr", "same"),
]


@pytest.fixture
def table(put):
    def write(rows=ROWS):
        lines = [("anchor", "negative", "positive", "label"), *rows]
        return put("t.tsv", "".join("\t".join(line) + "\n" for line in lines))

    return write


@pytest.mark.parametrize("classes", [["same", "other"], ["third", "other", "same"]])
def test_labels_are_numbers_in_the_order_of_the_classes(
    classes, recipe_of, train, table, batches
):
    table()
    loss = f'stage.0.loss={{ use = "sort", classes = {classes} }}'
    train(recipe_of(RECIPE, SORTED, loss))
    for batch in batches:
        assert batch["label"].dtype == np.int64
        # Two rows have the class `same`, and one has `other`.
        expected = [classes.index("same"), classes.index("same"), 1]
        assert sorted(batch["label"].tolist()) == sorted(expected)


def test_a_column_that_the_loss_does_not_use_is_not_even_tokenised(
    recipe_of, train, table, batches
):
    table()
    recipe = recipe_of(RECIPE, SORTED, 'stage.0.loss={ use = "chase" }')
    assert recipe.stage[0].columns_used == ("anchor", "positive")
    encoder, _ = train(recipe)
    assert "NEG" not in encoder.backbone.tokenizer.seen
    assert {*batches[0]} == {"anchor", "positive"}


SCORED = (
    'stage.0.data={ use = "table", path = "t.tsv", columns = ["anchor", "positive", "score"], '
    'numbers = ["score"] }',
    'stage.0.loss={ use = "grade" }',
)


@pytest.fixture
def scored(put):
    def write(*scores):
        lines = [
            "anchor\tpositive\tscore",
            *(f"a{n}\tb{n}\t{score}" for n, score in enumerate(scores)),
        ]
        return put("t.tsv", "\n".join(lines) + "\n")

    return write


def test_numbers_are_given_to_the_loss_as_they_are(recipe_of, train, scored, batches):
    scored("0.25", "-1", "3e2")
    recipe = recipe_of(RECIPE, *SCORED)
    assert recipe.stage[0].columns_used == ("anchor", "positive", "score")
    assert recipe.stage[0].texts == ("anchor", "positive")
    train(recipe)
    assert batches
    for batch in batches:
        assert batch["score"].dtype == np.float32
        assert sorted(batch["score"].tolist()) == [-1.0, 0.25, 300.0]


# --- text rules --------------------------------------------------------------------------------------------

PROMPTED = RECIPE.replace(
    "[[stage]]",
    'prompt = { template = "<{text}>", normalizer = "prompt-eol" }\n\n[[stage]]',
)


@pytest.mark.parametrize(("normalize", "end"), [(False, ">"), (True, ".>")])
def test_text_rules_are_applied_to_training_texts_only_where_the_stage_says_so(
    normalize, end, recipe_of, train
):
    recipe = recipe_of(PROMPTED)
    encoder, _ = train(recipe, normalize_text=normalize)
    # The template alone is measured.
    expected = {"<>"}
    for words in recipe.stage[0].data.open().rows(range(11)).values():
        expected.update(f"<{word}{end}" for word in words)
    assert set(encoder.backbone.tokenizer.seen) == expected


def test_validation_always_uses_the_text_rules(recipe_of, train):
    validate = Validate(2, Gap(left='say "ab"?', right="no"), keep="last")
    encoder, _ = train(recipe_of(PROMPTED), validate=validate)
    seen = encoder.backbone.tokenizer.seen
    assert seen.count('<say "ab"?>') == seen.count("<no>") == 0
    assert seen.count("<say 'ab'.>") == seen.count("<no.>") == 4


@pytest.mark.parametrize(
    ("override", "longest"),
    [("encoder.max_length=2", "<ab>"), ("stage.0.max_length=3", "<abc>")],
)
def test_training_texts_are_cut_at_the_length_of_the_stage_or_the_encoder(
    override, longest, recipe_of, train
):
    encoder, _ = train(recipe_of(PROMPTED, override))
    assert max(map(len, encoder.backbone.tokenizer.seen)) == len(longest)


# --- validation --------------------------------------------------------------------------------------------


def test_the_checkpoint_with_the_best_score_is_kept_and_restored(
    train, recorder, tmp_path, load_encoder
):
    last, _ = train()
    encoder, _ = train(validate=Validate(1, Scripted([1, 2, 9, 4, 5, 6])))
    assert recorder.events[-1] == (
        "stage_finished",
        {"steps": 6, "best_score": 9, "best_step": 3},
    )
    kept = tmp_path / "run" / "checkpoints" / "pull" / KEPT.format(3)
    assert_same_vectors(load_encoder(kept), encoder)
    assert not np.allclose(encoder.encode(["abc"]), last.encode(["abc"]))


def test_a_checkpoint_is_saved_at_each_new_best_only(train, recorder, tmp_path):
    train(validate=Validate(1, Scripted([3, 1, 4, 4, math.nan, 5])))
    best = [True, True, False, True, False, False, True]
    assert details(recorder, "validated", "best") == best
    assert details(recorder, "checkpoint_saved", "step") == [0, 1, 3, 6]
    assert all(details(recorder, "checkpoint_saved", "exists"))
    (kept,) = (tmp_path / "run" / "checkpoints" / "pull").iterdir()
    assert kept.name == "kept-00000006"


@pytest.mark.parametrize("patience", [None, 9])
def test_with_keep_last_the_weights_of_the_last_step_stay(
    patience, train, recorder, tmp_path
):
    plain, _ = train()
    recorder.events.clear()
    validate = Validate(2, Scripted([3, 2, 1]), keep="last", patience=patience)
    encoder, _ = train(validate=validate)
    assert_same_vectors(encoder, plain)
    assert recorder.events[-1][1] == {"steps": 6, "best_score": 1, "best_step": 6}
    assert "checkpoint_saved" not in recorder.names
    (kept,) = (tmp_path / "run" / "checkpoints" / "pull").iterdir()
    assert kept.name == "kept-00000006"


@pytest.mark.parametrize(
    "looks",
    [
        {"validate": Validate(1, Scripted([1, 2, 3, 4, 5, 6]))},
        {"watch": (Watch(1, Gap()),)},
    ],
    ids=["validation", "watch"],
)
def test_looking_at_an_encoder_does_not_change_what_is_learned(looks, train):
    plain, _ = train()
    seen, _ = train(**looks)
    assert_same_vectors(seen, plain)


def stopped(recipe, plugins, directory, loss, validate):
    """Train until the loss ends the stage; returns the encoder as it is then."""
    recipe = attrs.evolve(
        recipe, stage=(attrs.evolve(recipe.stage[0], loss=loss, validate=validate),)
    )
    encoder = build_encoder(recipe)
    run = RunContext(directory, recipe, plugins, hooks=plugins.manager.hook)
    with pytest.raises((RunError, KeyboardInterrupt)):
        train_stage(run, 0, {"encoder": encoder})
    return encoder


@pytest.mark.parametrize(
    ("loss", "scores", "best"),
    [
        (Pull(interrupt_at=5), [1, 3, 2, 2], 2),
        (Pull(nan_at=5), [1, 3, 2, 2], 2),
        (Pull(nan_at=5), [1, 2, 3, 4], 4),
    ],
    ids=["interrupted", "not finite", "not finite right after the best step"],
)
def test_a_stage_that_is_ended_early_goes_back_to_its_best_checkpoint(
    loss, scores, best, recipe_of, plugins, tmp_path, load_encoder
):
    validate = Validate(1, Scripted(scores))
    encoder = stopped(recipe_of(), plugins, tmp_path, loss, validate)
    saved = load_encoder(tmp_path / "checkpoints" / "pull" / KEPT.format(best))
    assert_same_vectors(encoder, saved)


@pytest.mark.parametrize("ema", [None, 0.9])
def test_a_stage_that_makes_the_encoder_worse_keeps_what_it_began_with_and_says_so(
    ema, recipe_of, train, recorder
):
    untrained = build_encoder(recipe_of())
    validate = Validate(2, Scripted([8.0, 9.0, 7.0], first=9.0))
    encoder, run = train(validate=validate, ema=ema)
    assert run.kept["pull"].step == 0
    assert recorder.events[-1] == (
        "stage_finished",
        {"steps": 6, "best_score": 9.0, "best_step": 0},
    )
    assert_same_vectors(encoder, untrained)
    (warned,) = details(recorder, "warned", "message")
    assert warned.startswith(
        "training in `pull` did not help: no validation beat the initial "
    )


def test_a_stage_without_a_defined_validation_keeps_its_last_step_and_says_so(
    train, recorder
):
    _, run = train(validate=Validate(3, Scripted([math.nan] * 2, first=math.nan)))
    assert run.kept["pull"].step == 6
    (warned,) = details(recorder, "warned", "message")
    assert warned.startswith("the validation of the stage `pull` has no defined score")


# --- what is kept on disk ----------------------------------------------------------------------------------


def test_all_towers_that_are_trained_are_kept_and_go_back_to_the_best_step_together(
    recipe_of, train_towers, tmp_path, load_encoder
):
    encoders = train_towers(
        recipe_of(TOWERS, *DUAL),
        validate=Validate(2, Scripted([1, 3, 2]), encoder="en"),
    )
    (kept,) = (tmp_path / "run" / "checkpoints" / "pairs").iterdir()
    assert kept.name == "kept-00000004"
    assert {"en", "zh"} <= {path.name for path in kept.iterdir()}
    for name, encoder in encoders.items():
        saved = load_encoder(kept / name)
        assert_same_vectors(saved, encoder)


# --- patience ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patience", "scores", "steps", "best"),
    [
        # The first score of all is that before the first step.
        (1, [1, 2, 2, 9, 9, 9], 3, 2),
        (2, [1, 2, 1, 3, 2, 2], 6, 4),
        (2, [1, 2, 3, 2, 1, 9], 5, 3),
        (1, [math.nan, 9, 9, 9, 9, 9], 1, 0),
    ],
)
@pytest.mark.parametrize("keep", ["best", "last"])
def test_a_stage_ends_after_so_many_validations_without_a_better_score(
    keep, patience, scores, steps, best, train, recorder
):
    validate = Validate(1, Scripted(scores), keep=keep, patience=patience)
    _, run = train(validate=validate, watch=(Watch(100, Gap()),))
    assert details(recorder, "stage_finished", "steps") == [steps]
    assert details(recorder, "observed", "step") == [0, steps]
    expected = {"best": best, "last": steps}
    assert run.kept["pull"].step == expected[keep]


# --- watch -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("every", "steps"),
    [
        (1, [0, 1, 2, 3, 4, 5, 6]),
        (4, [0, 4, 6]),
        (100, [0, 6]),
    ],
)
def test_validation_and_watch_are_before_the_first_step_every_so_many_and_after_the_last(
    every, steps, recipe_of, train, recorder
):
    before = gap_of(build_encoder(recipe_of()))
    # The last score is the best, so the weights of the last step stay.
    encoder, _ = train(validate=Validate(every, Gap()), watch=(Watch(every, Gap()),))
    assert details(recorder, "validated", "step") == steps
    assert details(recorder, "observed", "step") == steps
    seen = details(recorder, "observed", "primary")
    assert (seen[0], seen[-1]) == (before, gap_of(encoder))
    assert len(set(seen)) == len(seen)


def test_each_watch_has_its_encoder_and_its_second_one(
    recipe_of, train_towers, recorder
):
    watch = (
        Watch(6, Gap(), encoder="en"),
        Watch(6, Gap()),
        Watch(6, Across(), second="en"),
    )
    towers = train_towers(recipe_of(TOWERS), watch=watch)
    assert details(recorder, "observed", "encoder") == ["en", "zh", "zh+en"] * 2
    across = towers["zh"].encode(["abc"]) - towers["en"].encode(["nop"])
    assert details(recorder, "observed", "primary")[3:] == [
        gap_of(towers["en"]),
        gap_of(towers["zh"]),
        -float(np.linalg.norm(across)),
    ]


def test_a_validation_may_have_a_second_encoder(recipe_of, train_towers, recorder):
    trained = train_towers(
        recipe_of(TOWERS), validate=Validate(6, Across(), second="en", keep="last")
    )
    expected = -float(
        np.linalg.norm(trained["zh"].encode(["abc"]) - trained["en"].encode(["nop"]))
    )
    assert details(recorder, "validated", "score")[1:] == [expected]
