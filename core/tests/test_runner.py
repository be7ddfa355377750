from __future__ import annotations

import json
from pathlib import Path

import attrs
import numpy as np
import pytest
from sentbed import (
    DataError,
    Encoder,
    ModelError,
    RecipeError,
    RunError,
    hookimpl,
    load_recipe,
    run,
)
from sentbed._registry.registry import Plugins, load_plugins
from sentbed._run import runner
from sentbed._run.encoder_building import build_encoder, build_encoders
from sentbed._run.runner import RunResult
from sentbed.protocols import Recipe
from toy_plugin import (
    RECIPE,
    TOWERS,
    Engine,
    Gap,
    Recorder,
    Words,
    assert_same_vectors,
    gap_of,
)

pytestmark = pytest.mark.usefixtures("quick")

FILES = {
    ".lock",
    "encoder",
    "log.jsonl",
    "manifest.json",
    "resolved.toml",
    "report.json",
}
VALIDATED = RECIPE.replace(
    "[[evaluate]]",
    '\n[stage.validate]\nevery = 2\nwith = { use = "gap", development = true }\n\n[[evaluate]]',
)
TWO_ENCODERS = RECIPE.replace("[encoder]", "[encoders.small]").replace(
    "epochs", 'train = "large"\nepochs'
) + (
    'encoder = "large"\n\n[encoders.large]\nmax_length = 16\n'
    'backbone = { use = "characters", width = 8 }\npooler = { use = "average" }\n'
)


@attrs.frozen
class Ran:
    """A run that has ended, and everything about it."""

    recipe: Recipe
    result: RunResult
    plugins: Plugins

    @property
    def recorder(self):
        recorder = self.plugins.manager.get_plugin("toy:recorder")
        assert isinstance(recorder, Recorder)
        return recorder


@pytest.fixture(scope="module")
def ran(toy_points, tmp_path_factory):
    """One run from start to end, with validation."""
    directory = tmp_path_factory.mktemp("ran")
    (directory / "recipe.toml").write_text(VALIDATED)
    plugins = load_plugins(toy_points)
    recipe = load_recipe(directory / "recipe.toml", plugins=plugins)
    return Ran(recipe, run(recipe, directory / "out", plugins), plugins)


def read(directory, name):
    return json.loads((directory / name).read_text())


def log(directory):
    return [
        json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()
    ]


def names(directory):
    return {path.name for path in directory.iterdir()}


# --- a run that finishes -----------------------------------------------------------------------------------


def test_a_run_directory_holds_encoder_log_manifest_recipe_and_reports(ran):
    assert names(ran.result.directory) == FILES | {"checkpoints"}
    assert ran.result.report == ran.result.directory / "report.json"


def test_the_record_has_the_sections_of_plugins(out, run_recipe):
    run_recipe(RECIPE + "\n[dice]\nsides = 20\n")
    assert read(out, "report.json")["sections"] == {
        "dice": {
            "key": "dice",
            "title": "Dice",
            "columns": ["sides", "status"],
            "rows": [[20, "finished"]],
            "note": "They are fair.",
        }
    }


def test_what_an_evaluator_remarks_on_its_data_is_a_warning_in_log_and_report(
    out, run_recipe, monkeypatch
):
    prepare = Gap.prepare
    remark = "a score is far from the others @ pairs.tsv:3"
    monkeypatch.setattr(
        Gap, "prepare", lambda self: attrs.evolve(prepare(self), remarks=(remark,))
    )
    run_recipe()
    assert read(out, "report.json")["warnings"] == [remark]
    messages = [line.get("message") for line in log(out)]
    assert messages.count(remark) == 1


def test_the_report_of_a_plugin_is_what_a_run_returns(plugins, out, run_recipe):
    class Pages:
        @hookimpl
        def write_report(self, run, data):
            assert (run.directory / "report.json").is_file()
            page = run.directory / f"{data.status}.txt"
            page.write_text(data.name)
            return page

    plugins.manager.register(Pages())
    result = run_recipe()
    assert (result.report, result.report.read_text()) == (
        out / "finished.txt",
        "toy-run",
    )


def test_a_recipe_for_another_command_is_not_run(out, run_recipe):
    with pytest.raises(RecipeError, match=r"use `sentbed greet` @ .*:27 races"):
        run_recipe(RECIPE + "[races]\n")
    assert not (out).exists()


@pytest.mark.parametrize(
    ("table", "columns", "loss", "message"),
    [
        (
            "anchor\tpositive\tlabel\na\tb\tsame\nc\td\tsame\ne\tf\tsane\n",
            'columns = ["anchor", "positive", "label"]',
            "sort",
            "row 2 of stage `pull` has the label 'sane'",
        ),
        (
            "anchor\tpositive\tscore\na\tb\t1\nc\td\t1\ne\tf\tnan\n",
            'columns = ["anchor", "positive", "score"], numbers = ["score"]',
            "grade",
            "row 2 of stage `pull` has nan",
        ),
        (
            "anchor\na\nb\n",
            'columns = ["anchor", "positive"]',
            "pull",
            "the data has no column `positive`; it has anchor; name another column",
        ),
        (
            "anchor\tpositive\na\tb\n",
            'columns = ["anchor", "positive"]',
            "pull",
            r"1 row\(s\) of data have no batch of at least 2",
        ),
    ],
)
def test_data_that_a_stage_cannot_use_is_found_before_anything_is_built(
    table, columns, loss, message, put, monkeypatch, run_recipe
):
    put("t.tsv", table)
    built = []
    monkeypatch.setattr(
        runner, "build_encoders", lambda *arguments: built.append(arguments)
    )

    with pytest.raises((DataError, RunError), match=message):
        run_recipe(
            RECIPE,
            f'stage.0.data={{ use = "table", path = "t.tsv", {columns} }}',
            f'stage.0.loss={{ use = "{loss}" }}',
        )
    assert built == []


def test_scores_before_training_are_labelled_start(ran):
    assert [(s.encoder, s.evaluator, s.task, s.metric) for s in ran.result.scores] == [
        ("encoder@start", "gap", "gap", "distance"),
        ("encoder", "gap", "gap", "distance"),
    ]
    start, end = (score.value for score in ran.result.scores)
    assert end > start
    assert ran.result.scores[0].protocol == {
        "encoder": {
            "precision": "fp64",
            "pooler": {"train": "average", "test": "average"},
            "max_length": 16,
        },
        "evaluator": {"id": "gap", "target": 0.0},
    }


def test_the_saved_encoder_is_the_one_that_was_scored(ran):
    encoder = Encoder.load(
        ran.result.directory / "encoder", {"use": "toy"}, ran.plugins
    )
    assert gap_of(encoder) == pytest.approx(ran.result.scores[-1].value, rel=1e-6)


def test_the_manifest_says_what_the_run_was_made_of(ran):
    manifest = read(ran.result.directory, "manifest.json")
    assert (manifest["name"], manifest["status"], manifest["seed"]) == (
        "toy-run",
        "finished",
        7,
    )
    assert manifest["engine"] == {
        "device": "toy",
        "precision": "fp64",
        "token_budget": 64,
    }
    assert manifest["weights"] == {"encoder": {"init": "random", "seed": 0}}
    data = ran.recipe.stage[0].data.open()
    assert manifest["data"] == {"pull": {"rows": 11, "sha256": data.fingerprint}}
    assert [p["name"] for p in manifest["plugins"]] == [
        "console",
        "jsonl",
        "prompts",
        "recorder",
        "toy",
    ]
    assert manifest["libraries"]["numpy"] == np.__version__
    assert manifest["machine"]["cores"] >= 1
    assert 0.01 < manifest["peak_memory_gib"] < 1000
    assert set(manifest) >= {"command", "git", "python"}


def test_what_a_tracker_returns_at_the_start_stands_in_the_manifest(
    plugins, out, run_recipe
):
    class Elsewhere:
        @hookimpl
        def run_started(self):
            return {"elsewhere": {"run_id": "7"}}

    plugins.manager.register(Elsewhere())
    run_recipe(RECIPE)
    assert read(out, "manifest.json")["elsewhere"] == {"run_id": "7"}


def test_lifecycle_hooks_are_called_in_the_order_of_the_run(ran):
    names_of_hooks = [name for name in ran.recorder.names if name != "checkpoint_saved"]
    steps = ["validated", *2 * ["step_finished"]]
    assert names_of_hooks == [
        "run_started",
        "evaluation_started",
        "scores_ready",
        "stage_started",
        *3 * steps,
        "validated",
        "stage_finished",
        "evaluation_started",
        "scores_ready",
        "run_finished",
    ]
    assert "checkpoint_saved" in ran.recorder.names
    assert ran.recorder.events[-1] == ("run_finished", {"exists": True})


def losses(directory):
    report = read(directory, "report.json")
    return report["stages"][0]["losses"]


def test_the_same_recipe_gives_the_same_run_and_another_seed_another(ran, run_recipe):
    again = run_recipe(VALIDATED, name="again")
    assert losses(again.directory) == losses(ran.result.directory)
    assert again.scores == ran.result.scores
    other = run_recipe(VALIDATED, "run.seed=8", name="other")
    assert losses(other.directory) != losses(ran.result.directory)


def test_a_recipe_without_stage_is_evaluated_under_the_plain_name(out, run_recipe):
    text = RECIPE[: RECIPE.index("[[stage]]")] + '[[evaluate]]\nuse = "gap"\n'
    result = run_recipe(text)
    assert [score.encoder for score in result.scores] == ["encoder"]
    assert names(out) == FILES


TRANSFORM = (
    'encoder.head.transform={ use = "centre", data = { use = "words", rows = 5 } }'
)


def test_a_transform_is_fitted_after_the_last_stage_and_nothing_before_sees_it(
    tmp_path, run_recipe, load_encoder, out
):
    plain = run_recipe(VALIDATED, name="plain")
    result = run_recipe(VALIDATED, TRANSFORM)
    start, end = result.scores
    assert start == plain.scores[0]
    assert "transform" not in start.protocol["encoder"]
    assert end.protocol["encoder"]["transform"]["use"] == "centre"
    assert losses(out) == losses(tmp_path / "plain")
    trained = load_encoder(tmp_path / "plain" / "encoder").encode(["abc", "bcd"])
    encoder = load_encoder(out / "encoder")
    centre = load_encoder(tmp_path / "plain" / "encoder").encode(
        list(Words(5).open().texts())
    )
    expected = (trained - centre.mean(axis=0))[:, :3]
    np.testing.assert_allclose(
        encoder.encode(["abc", "bcd"]), expected, rtol=1e-4, atol=1e-5
    )
    assert end.value == Gap().prepare().evaluate(encoder).scores[0].value


def test_a_transform_is_fitted_where_there_is_no_stage(run_recipe):
    text = RECIPE[: RECIPE.index("[[stage]]")] + '[[evaluate]]\nuse = "gap"\n'
    (score,) = run_recipe(text, TRANSFORM).scores
    assert score.protocol["encoder"]["transform"]["texts"] == 10


def test_the_encoder_of_an_interrupted_run_is_not_taken_for_one_with_its_transform(
    out, load_encoder, run_recipe
):

    with pytest.raises(KeyboardInterrupt):
        run_recipe(RECIPE, TRANSFORM, "stage.pull.loss.interrupt_at=4")
    with pytest.raises(
        ModelError, match="was saved before its transform was fitted; finish its run"
    ):
        load_encoder(out / "encoder")


def test_several_encoders_are_saved_each_under_its_name_and_only_one_is_trained(
    recipe_of, plugins, out, load_encoder
):
    recipe = recipe_of(TWO_ENCODERS)
    result = run(recipe, out, plugins)
    assert [score.encoder for score in result.scores] == ["large@start", "large"]
    assert names(out / "encoder") == {"large", "small"}
    small = load_encoder(out / "encoder" / "small")
    large = load_encoder(out / "encoder" / "large")
    assert (small.width, large.width) == (4, 8)
    untrained = Encoder.build(recipe.encoders["small"], recipe.runtime.build())
    assert_same_vectors(small, untrained)


def test_a_run_without_out_goes_below_runs_under_its_name_and_time(
    recipe_of, plugins, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    text = RECIPE[: RECIPE.index("[[stage]]")]
    result = run(recipe_of(text), plugins=plugins)
    assert result.directory.parent == Path("runs")
    name, day, time = result.directory.name.rsplit("-", 2)
    assert (name, len(day), len(time)) == ("toy-run", 8, 6)


# --- several stages ----------------------------------------------------------------------------------------

NOISY = """
[[stage]]
name = "again"
train = "zh"
data = { use = "words", rows = 9 }
loss = { use = "pull", noise = 0.1 }
optimizer = { use = "sgd", lr = 0.5, momentum = 0.9 }
schedule = { use = "falling" }
batch_size = 4
epochs = 2
watch = [{ every = 100, with = { use = "gap" } }]
"""
"""A third stage, whose noise tells where its random numbers begin."""


def observed(directory, step, stage="again"):
    """What the `watch` of a stage saw after `step`."""
    lines = [line for line in log(directory) if line["event"] == "observed"]
    (line,) = [line for line in lines if (line["stage"], line["step"]) == (stage, step)]
    return line["primary"]


@pytest.mark.parametrize("source", ["pairs", "tune", "pretrained", None])
def test_a_stage_begins_with_the_weights_that_it_names(
    source, recipe_of, plugins, tmp_path, load_encoder
):
    weights = () if source is None else (f"stage.again.weights.zh={source}",)
    recipe = recipe_of(TOWERS + NOISY, *weights)
    out = run(recipe, tmp_path / "out", plugins).directory
    (pairs,), (tune,) = (
        (out / "checkpoints" / name).iterdir() for name in ("pairs", "tune")
    )
    expected = {
        "pairs": gap_of(load_encoder(pairs / "zh")),
        "tune": gap_of(load_encoder(tune / "zh")),
        "pretrained": gap_of(build_encoder(recipe, "zh")),
    }
    assert len(set(expected.values())) == 3
    assert observed(out, 0) == expected[source or "tune"]


def test_the_chance_of_a_stage_is_its_own(recipe_of, plugins, tmp_path):
    def noisy(name, *overrides):
        text = (
            TOWERS
            + '\n[[evaluate]]\nuse = "lottery"\nencoder = "zh"\nat = ["start"]\n'
            + NOISY
        )
        recipe = recipe_of(text, "stage.again.train=en", *overrides)
        return observed(run(recipe, tmp_path / name, plugins).directory, 4)

    plain = noisy("plain")
    assert noisy("longer", "stage.tune.epochs=5", "stage.tune.loss.noise=0.2") == plain
    assert noisy("evaluated", 'evaluate.1.at=["end"]') == plain
    assert (
        noisy(
            "validated", 'stage.tune.validate={ every = 1, with = { use = "lottery" } }'
        )
        == plain
    )
    assert noisy("other", "run.seed=8") != plain


def test_no_two_stages_and_no_stage_and_encoder_draw_the_same_numbers(
    monkeypatch, run_recipe
):
    seeds = []
    monkeypatch.setattr(Engine, "seed", lambda self, seed: seeds.append(seed))
    run_recipe(TOWERS + NOISY)
    assert len(seeds) == len(set(seeds)) == 2 * 2 + 1 + 3


def test_weights_that_a_stage_gives_to_an_encoder_that_it_freezes_stay(
    recipe_of, plugins, tmp_path, load_encoder
):
    changes = (
        'stage.tune.train="en"',
        'stage.tune.freeze="zh"',
        "stage.tune.weights.zh=pretrained",
    )
    recipe = recipe_of(
        TOWERS, *changes, 'stage.tune.columns={ anchor = "zh", positive = "en" }'
    )
    out = run(recipe, tmp_path / "out", plugins).directory
    zh = load_encoder(out / "encoder" / "zh")
    assert_same_vectors(zh, build_encoder(recipe, "zh"))


def test_the_frozen_tower_of_a_stage_has_the_weights_that_an_earlier_stage_gave_it(
    run_recipe, load_encoder
):
    """The translation pipeline: `zh` learns from `en`, then `en` from what `zh` has become."""
    back = 'stage.tune={ train = "en", freeze = "zh", columns = { anchor = "zh", positive = "en" }, '
    back += 'name = "back", data = { use = "words", rows = 11 }, loss = { use = "pull" }, batch_size = 4, '
    back += 'optimizer = { use = "sgd", lr = 0.5 }, schedule = { use = "falling" }, epochs = 2 }'

    out = run_recipe(TOWERS, back).directory
    zh, en = (load_encoder(out / "encoder" / name) for name in ("zh", "en"))
    (kept,) = (out / "checkpoints" / "pairs").iterdir()
    assert_same_vectors(zh, load_encoder(kept / "zh"))
    # Had `back` started from the untrained `zh`, `en` would have become something else.
    fresh = run_recipe(
        TOWERS, back, "stage.back.weights.zh=pretrained", name="fresh"
    ).directory
    other = load_encoder(fresh / "encoder" / "en")
    assert not np.allclose(other.encode(["abc"]), en.encode(["abc"]))


def test_of_every_stage_only_the_weights_that_it_ends_with_are_left(run_recipe):
    validate = '{ every = 1, with = { use = "lottery" } }'
    out = run_recipe(
        TOWERS + "\n[checkpoint]\nevery = 1\n",
        f"stage.pairs.validate={validate}",
        f"stage.tune.validate={validate}",
    ).directory
    for stage in read(out, "report.json")["stages"]:
        (kept,) = (out / "checkpoints" / stage["name"]).iterdir()
        assert kept.name == f"kept-{stage['best_step']:08d}"
    events = [line["event"] for line in log(out)]
    assert events.count("checkpoint_saved") > 2


def test_towers_that_do_not_fit_are_found_before_anything_is_computed(
    recorder, run_recipe
):

    with pytest.raises(
        RunError, match="the vectors of stage `tune` have several widths"
    ):
        run_recipe(
            TOWERS,
            "encoders.en.backbone.width=3",
            "stage.pairs.freeze=",
            "stage.pairs.columns=",
            'stage.tune.freeze="en"',
            'stage.tune.columns={ anchor = "en", positive = "zh" }',
            'evaluate.0={ use = "gap", encoder = "zh", at = ["start"] }',
        )
    assert recorder.names == ["run_started", "run_failed"]


# --- what encoders start with ------------------------------------------------------------------------------

RANDOM_HEADS = ("encoders.en.head.projection=3", "encoders.zh.head.projection=3")


@pytest.mark.parametrize("name", ["en", "zh"])
def test_the_weights_that_an_encoder_starts_with_follow_from_its_name_and_the_seed(
    name, recipe_of
):
    def head(text, *overrides):
        recipe = recipe_of(text, *RANDOM_HEADS, *overrides)
        return build_encoders(recipe, recipe.runtime.build())[name].placed.projection

    start, end = TOWERS.index("[encoders.en]"), TOWERS.index("[encoders.zh]")
    stages = TOWERS.index("[[stage]]")
    turned = TOWERS[:start] + TOWERS[end:stages] + TOWERS[start:end] + TOWERS[stages:]
    expected = head(TOWERS)
    np.testing.assert_array_equal(head(turned), expected)
    alone = build_encoder(recipe_of(TOWERS, *RANDOM_HEADS), name)
    np.testing.assert_array_equal(alone.placed.projection, expected)
    assert not np.allclose(head(TOWERS, "run.seed=8"), expected)


# --- expected numbers --------------------------------------------------------------------------------------


def test_expected_numbers_are_compared_with_the_scores_after_training(
    ran, out, run_recipe
):
    start, end = ran.result.scores
    result = run_recipe(
        f"""{VALIDATED}
[expected]
gap = {{ value = {end.value}, tolerance = 0 }}
"gap/distance" = {{ value = {start.value}, tolerance = 0 }}
"gap/other" = {{ value = 0, tolerance = 1000 }}
missing = {{ value = 1, decides = false }}
"""
    )
    assert result.unmet == ("gap/distance", "gap/other")
    met, unmet, other, missing = read(out, "report.json")["expected"]
    assert (met["found"], met["met"]) == (end.value, True)
    assert (unmet["found"], unmet["met"]) == (end.value, False)
    assert unmet["difference"] == pytest.approx(end.value - start.value)
    assert (other["found"], other["met"], other["decides"]) == (None, None, True)
    assert (missing["met"], missing["decides"]) == (None, False)


# --- runs that end early -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "status", "error", "message"),
    [
        ("interrupt_at", "interrupted", KeyboardInterrupt, "KeyboardInterrupt"),
        ("nan_at", "failed", RunError, "the loss of stage `pull` is nan at step 4"),
    ],
)
def test_a_run_that_ends_early_has_a_report_and_an_encoder_that_loads(
    setting, status, error, message, recorder, out, load_encoder, run_recipe
):
    with pytest.raises(error):
        run_recipe(RECIPE, f"stage.pull.loss.{setting}=4")
    report = read(out, "report.json")
    assert report["status"] == read(out, "manifest.json")["status"] == status
    assert report["error"].startswith(message)
    assert [s["encoder"] for s in report["scores"]] == ["encoder@start"]
    assert report["stages"][0]["steps"] == [1, 2, 3]
    assert recorder.names[-1] == "run_failed"
    # Steps were taken: the weights are not those of the start.
    distance = -gap_of(load_encoder(out / "encoder"))
    assert distance < -report["scores"][0]["value"]


# --- where a run may go ------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["evaluate", "validate"])
def test_bad_data_of_an_evaluation_is_found_before_anything_is_built(
    where, recipe_of, out, monkeypatch
):
    prepare = Gap.prepare

    def read(self):
        if self.target == (1.5 if where == "evaluate" else 0.0):
            raise DataError("a bad line", "pairs.tsv", 3)
        return prepare(self)

    def build(*_):
        raise AssertionError("an encoder was built")

    monkeypatch.setattr(Gap, "prepare", read)
    monkeypatch.setattr(runner, "build_encoders", build)
    text = VALIDATED.replace('use = "gap"\n', 'use = "gap"\ntarget = 1.5\n')
    assert text.count("1.5") == 1
    with pytest.raises(DataError, match=r"a bad line @ pairs.tsv:3"):
        run(recipe_of(text), out)
    assert "a bad line" in (out / "report.json").read_text()


def test_a_directory_that_holds_something_is_refused_and_left_alone(
    ran, recipe_of, plugins, tmp_path
):
    (tmp_path / "notes.txt").touch()
    for directory in (ran.result.directory, tmp_path):
        before = names(directory)
        with pytest.raises(RunError, match=r"already holds .*choose another `--out`"):
            run(recipe_of(), directory, plugins)
        assert names(directory) >= before
