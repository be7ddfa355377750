from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import attrs
import numpy as np
import pytest
from sentbed import (
    DataError,
    Encoder,
    ModelError,
    PluginError,
    RecipeError,
    RunError,
    hookimpl,
    load_recipe,
    run,
)
from sentbed._recipe.recipe import Recipe
from sentbed._registry.registry import Plugins, load_plugins
from sentbed._run import run_directory, runner
from sentbed._run.encoder_building import build_encoder, build_encoders
from sentbed._run.run_directory import alone, remove_unfinished
from sentbed._run.runner import RunResult
from sentbed.protocols import ReportSection
from toy_dataset import ToyDataset
from toy_fixtures import exactly
from toy_plugin import (
    RECIPE,
    TOWERS,
    Engine,
    Gap,
    Recorder,
    Table,
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


def test_scores_name_the_release_of_the_plugin_that_the_run_had(ran):
    assert {score.plugin for score in ran.result.scores} == {"toy 1.0"}


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


def test_of_two_sections_with_one_key_the_second_is_left_out_with_a_warning(
    plugins, out, run_recipe
):
    class Other:
        @hookimpl(trylast=True)
        def report_sections(self):
            return [ReportSection("dice", "Other", ("a",), ((1,),))]

    plugins.manager.register(Other())
    run_recipe(RECIPE + "\n[dice]\nsides = 20\n")

    record = read(out, "report.json")
    assert record["sections"]["dice"]["title"] == "Dice"
    assert record["warnings"] == [
        "the report's section `Other` is left out: `Dice` has its key `dice`, too; its plugin must choose another"
    ]


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
            "the data of stage `pull` has 1 row, a loss over a batch needs at least 2",
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


class Dry(ToyDataset):
    """Gives a row less than it is asked for."""

    def rows(self, indices, epoch=0):
        return super().rows(indices[:-1], epoch)


def test_a_source_with_labels_that_runs_dry_is_told_before_anything_is_built(
    monkeypatch, run_recipe
):
    data = {name: ["same"] * 3 for name in ("anchor", "positive", "label")}
    monkeypatch.setattr(Table, "open", lambda _: Dry(data))
    table = (
        '{ use = "table", path = "t.tsv", columns = ["anchor", "positive", "label"] }'
    )

    with pytest.raises(
        DataError, match="the source ran dry: asked for 3 rows of `anchor`, it gave 2"
    ):
        run_recipe(RECIPE, f"stage.0.data={table}", 'stage.0.loss={ use = "sort" }')


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


def test_the_report_has_the_scores_of_the_result(ran):
    report = read(ran.result.directory, "report.json")
    assert report["status"] == "finished"
    assert report["error"] is None
    assert [(s["encoder"], s["value"]) for s in report["scores"]] == [
        (s.encoder, s.value) for s in ran.result.scores
    ]
    (stage,) = report["stages"]
    assert stage["steps"] == [1, 2, 3, 4, 5, 6]
    assert [step for step, _ in stage["validations"]] == [0, 2, 4, 6]
    assert stage["metric"] == "gap"


def test_the_saved_encoder_is_the_one_that_was_scored(ran):
    encoder = Encoder.load(
        ran.result.directory / "encoder", {"use": "toy"}, ran.plugins
    )
    assert gap_of(encoder) == pytest.approx(ran.result.scores[-1].value, rel=1e-6)


def test_the_resolved_recipe_of_a_run_is_the_same_recipe(ran):
    assert (
        load_recipe(ran.result.directory / "resolved.toml", plugins=ran.plugins)
        == ran.recipe
    )


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
    expected = ["run_started", "evaluation_started", "scores_ready", "stage_started"]
    for step in range(7):
        if step:
            expected.append("step_finished")
        if step % 2 == 0:
            expected.append("validated")
            if [d for n, d in ran.recorder.events if n == "validated"][step // 2][
                "best"
            ]:
                expected.append("checkpoint_saved")
    expected += ["stage_finished", "evaluation_started", "scores_ready", "run_finished"]
    assert ran.recorder.names == expected
    assert "checkpoint_saved" in expected
    assert ran.recorder.events[-1] == ("run_finished", {"exists": True})


def test_hooks_are_told_of_the_encoder_as_the_report_names_it(ran):
    encoders = [
        d["encoder"]
        for n, d in ran.recorder.events
        if n in ("evaluation_started", "scores_ready")
    ]
    assert encoders == ["encoder@start", "encoder@start", "encoder", "encoder"]


def test_the_log_has_the_same_events_in_the_same_order(ran):
    lines = log(ran.result.directory)
    assert [line["event"] for line in lines] == ran.recorder.names
    times = [line["time"] for line in lines]
    assert times == sorted(times)
    steps = [line for line in lines if line["event"] == "step_finished"]
    assert [line["step"] for line in steps] == [1, 2, 3, 4, 5, 6]
    losses = [d["loss"] for n, d in ran.recorder.events if n == "step_finished"]
    assert [line["loss"] for line in steps] == losses
    assert {"learning_rate", "grad_norm", "metrics", "stage"} <= set(steps[0])


def test_a_run_leaves_the_plugin_manager_as_it_was(ran):
    assert {name for name, _ in ran.plugins.manager.list_name_plugin()} == {
        "sentbed-trackers:console",
        "sentbed-trackers:jsonl",
        "toy:recorder",
        "toy:toy",
    }


def test_the_same_recipe_gives_the_same_run_and_another_seed_another(ran, run_recipe):
    def losses(directory):
        return [
            line["loss"] for line in log(directory) if line["event"] == "step_finished"
        ]

    again = run_recipe(VALIDATED, name="again")
    assert losses(again.directory) == losses(ran.result.directory)
    assert [s.value for s in again.scores] == [s.value for s in ran.result.scores]
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
    report, before = (
        read(tmp_path / name, "report.json")["stages"] for name in ("out", "plain")
    )
    assert report == before
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


def test_texts_of_a_transform_are_looked_at_before_training(out, run_recipe):
    with pytest.raises(DataError, match="the centre of one text"):
        run_recipe(RECIPE, TRANSFORM.replace("rows = 5", "rows = 0"))
    assert read(out, "report.json")["scores"] == []


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
    small, large = (load_encoder(out / "encoder" / name) for name in ("small", "large"))
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
    text = TOWERS + "\n[checkpoint]\nevery = 1\nkeep = 3\n"

    out = run_recipe(
        text, f"stage.pairs.validate={validate}", f"stage.tune.validate={validate}"
    ).directory
    ends = {
        line["stage"]: line["best_step"]
        for line in log(out)
        if line["event"] == "stage_finished"
    }
    left = {
        path.name: [kept.name for kept in path.iterdir()]
        for path in (out / "checkpoints").iterdir()
    }
    assert left == {stage: [f"kept-{step:08d}"] for stage, step in ends.items()}
    assert sum(line["event"] == "checkpoint_saved" for line in log(out)) > 2


def test_states_are_there_while_a_run_goes_on_and_gone_afterwards(plugins, run_recipe):
    seen = []

    class Look:
        @hookimpl
        def step_finished(self, run):
            seen.append(names(run.directory))

    plugins.manager.register(Look())
    out = run_recipe(TOWERS).directory
    assert all("states" in entries for entries in seen)
    assert len(seen) == 10
    assert names(out) == FILES | {"checkpoints"}


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


def test_scores_of_two_towers_name_both_and_say_how_each_encodes(
    load_encoder, run_recipe
):

    result = run_recipe(TOWERS, "encoders.en.max_length=9")
    assert [score.encoder for score in result.scores] == ["zh+en@start", "zh+en"]
    protocol = result.scores[-1].protocol["encoder"]
    assert (protocol["max_length"], protocol["second"]["max_length"]) == (16, 9)
    zh, en = (
        load_encoder(result.directory / "encoder" / name) for name in ("zh", "en")
    )
    assert result.scores[-1].value == -float(
        np.linalg.norm(zh.encode(["abc"]) - en.encode(["nop"]))
    )


# --- what encoders start with ------------------------------------------------------------------------------

RANDOM_HEADS = ("encoders.en.head.projection=3", "encoders.zh.head.projection=3")


def test_the_weights_that_an_encoder_starts_with_follow_from_its_name_and_the_seed(
    recipe_of,
):
    def head(name, recipe):
        return build_encoders(recipe, recipe.runtime.build())[name].placed.projection

    plain = recipe_of(TOWERS, *RANDOM_HEADS)
    start, end = TOWERS.index("[encoders.en]"), TOWERS.index("[encoders.zh]")
    stages = TOWERS.index("[[stage]]")
    turned = TOWERS[:start] + TOWERS[end:stages] + TOWERS[start:end] + TOWERS[stages:]
    for name in ("en", "zh"):
        np.testing.assert_array_equal(
            head(name, plain), head(name, recipe_of(turned, *RANDOM_HEADS))
        )
        np.testing.assert_array_equal(
            head(name, plain), build_encoder(plain, name).placed.projection
        )
        assert not np.allclose(
            head(name, plain),
            head(name, recipe_of(TOWERS, *RANDOM_HEADS, "run.seed=8")),
        )
    assert not np.allclose(head("en", plain), head("zh", plain))


def test_an_encoder_that_the_recipe_lacks_cannot_be_built(recipe_of):
    with pytest.raises(
        RunError,
        match="the recipe has no encoder `fr`, it has `en`, `zh`; name one of them",
    ):
        build_encoder(recipe_of(TOWERS), "fr")


# --- trackers of the recipe --------------------------------------------------------------------------------

NOTES = (
    '\n[[tracker]]\nuse = "notes"\n\n[[tracker]]\nuse = "notes"\nfile = "more.txt"\n'
)


@pytest.mark.parametrize("loss", ["pull.loss.memory=0", "pull.loss.nan_at=4"])
def test_trackers_of_the_recipe_follow_their_run_and_no_other(
    loss, plugins, tmp_path, run_recipe, out
):
    before = plugins.manager.list_name_plugin()
    try:
        run_recipe(RECIPE + NOTES, f"stage.{loss}")
    except RunError:
        assert "nan" in loss
    steps = "3" if "nan" in loss else "6"
    assert [(out / name).read_text() for name in ("notes.txt", "more.txt")] == [
        steps,
        steps,
    ]
    assert plugins.manager.list_name_plugin() == before
    run_recipe(name="next")
    assert not (tmp_path / "next" / "notes.txt").exists()


def test_two_trackers_that_keep_their_state_under_one_name_are_told_so(
    plugins, run_recipe
):
    class Same:
        @hookimpl
        def tracker_state(self):
            return "recorder", {}

    plugins.manager.register(Same())
    with pytest.raises(
        PluginError,
        match=exactly(
            "two trackers keep a state under the name `recorder`; give each its own (`tracker_state`)"
        ),
    ):
        run_recipe()


def test_an_encoder_that_cannot_be_saved_does_not_cost_the_others(
    out, monkeypatch, run_recipe
):
    save = Encoder.save

    def fail(self, path, plugins):
        if path == out / "encoder" / "en":
            raise RunError("no space for it")
        save(self, path)

    monkeypatch.setattr(Encoder, "save", fail)
    with pytest.raises(RunError, match="no space for it"):
        run_recipe(TOWERS)
    assert names(out / "encoder") == {"zh"}


# --- expected numbers --------------------------------------------------------------------------------------


def test_expected_numbers_are_compared_with_the_scores_after_training(
    ran, tmp_path, run_recipe, out
):
    start, end = (score.value for score in ran.result.scores)
    rows = {
        "gap": f"{{ value = {end}, tolerance = 0 }}",
        "gap/distance": f"{{ value = {end + 0.05}, tolerance = 0.1 }}",
        "gap/other": f"{{ value = {end}, tolerance = 100 }}",
        "missing": "{ value = 1, tolerance = 100, source = 'nowhere' }",
    }
    text = (
        VALIDATED
        + "\n[expected]\n"
        + "".join(f'"{key}" = {row}\n' for key, row in rows.items())
    )
    result = run_recipe(text)
    assert result.unmet == ("gap/other", "missing")
    report = read(out, "report.json")["expected"]
    assert [(row["key"], row["found"], row["met"]) for row in report] == [
        ("gap", end, True),
        ("gap/distance", end, True),
        ("gap/other", None, None),
        ("missing", None, None),
    ]

    assert run_recipe(text, f"expected.gap.value={start}", name="off").unmet == (
        "gap",
        "gap/other",
        "missing",
    )
    (row, *_) = read(tmp_path / "off", "report.json")["expected"]
    assert (row["met"], row["difference"]) == (False, pytest.approx(end - start))


def test_a_number_to_compare_with_stands_in_the_report_and_decides_nothing(
    ran, out, run_recipe
):
    end = ran.result.scores[1].value
    rows = (
        "gap = { value = 1000, decides = false }",
        "missing = { value = 1, decides = false }",
    )
    text = VALIDATED + "\n[expected]\n" + "\n".join(rows) + "\n"
    result = run_recipe(text)
    assert result.unmet == ()
    report = read(out, "report.json")["expected"]
    assert [
        (row["key"], row["found"], row["met"], row["decides"], row["tolerance"])
        for row in report
    ] == [
        ("gap", end, None, False, None),
        ("missing", None, None, False, None),
    ]
    assert report[0]["difference"] == pytest.approx(end - 1000)


# --- runs that end early -----------------------------------------------------------------------------------


def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_what_it_had(
    recorder, out, run_recipe
):

    with pytest.raises(
        RunError, match="the loss of stage `pull` is nan at step 3 of 6"
    ):
        run_recipe(RECIPE, "stage.pull.loss.nan_at=3")
    report = read(out, "report.json")
    assert report["status"] == "failed"
    assert report["error"].startswith("the loss of stage `pull` is nan at step 3 of 6")
    assert [s["encoder"] for s in report["scores"]] == ["encoder@start"]
    assert report["stages"][0]["steps"] == [1, 2]
    assert read(out, "manifest.json")["status"] == "failed"
    assert names(out) == FILES | {"states"}
    assert recorder.names[-1] == "run_failed"
    assert "run_finished" not in recorder.names
    last = log(out)[-1]
    assert last["event"] == "run_failed"
    assert last["error"].startswith("the loss of stage `pull`")


def test_an_interrupted_run_has_a_report_and_an_encoder_that_loads(
    recorder, out, load_encoder, run_recipe
):

    with pytest.raises(KeyboardInterrupt):
        run_recipe(RECIPE, "stage.pull.loss.interrupt_at=4")
    report = read(out, "report.json")
    assert (report["status"], report["error"]) == ("interrupted", "KeyboardInterrupt")
    assert read(out, "manifest.json")["status"] == "interrupted"
    assert [s["encoder"] for s in report["scores"]] == ["encoder@start"]
    encoder = load_encoder(out / "encoder")
    # Three steps were taken: the weights are neither those of the start nor those of the end.
    distance = -gap_of(encoder)
    assert distance < -report["scores"][0]["value"]
    assert isinstance(recorder.events[-1][1]["error"], KeyboardInterrupt)


def test_an_error_in_saving_does_not_hide_that_a_run_was_interrupted(
    out, monkeypatch, run_recipe
):
    def fail(self, path, plugins):
        raise RunError("no space for it")

    monkeypatch.setattr(Encoder, "save", fail)
    with pytest.raises(KeyboardInterrupt) as caught:
        run_recipe(RECIPE, "stage.pull.loss.interrupt_at=4")
    assert "nor could the encoders be saved: no space for it" in caught.value.__notes__
    assert read(out, "manifest.json")["status"] == "interrupted"


def test_an_interrupted_run_keeps_its_best_checkpoint(out, load_encoder, run_recipe):
    # The distance falls, so the farther target is best before the first step.

    with pytest.raises(KeyboardInterrupt):
        run_recipe(
            VALIDATED,
            "stage.pull.loss.interrupt_at=6",
            "stage.pull.validate.with.target=100",
        )
    report = read(out, "report.json")
    (stage,) = report["stages"]
    assert stage["best_step"] == 0
    encoder = load_encoder(out / "encoder")
    score = Gap(target=100).prepare().evaluate(encoder).primary
    assert score == pytest.approx(stage["validations"][0][1], rel=1e-6)


def test_plugins_can_run_again_after_a_run_that_failed(tmp_path, run_recipe):
    with pytest.raises(RunError):
        run_recipe(RECIPE, "stage.pull.loss.nan_at=1", name="one")
    result = run_recipe(name="two")
    assert [score.encoder for score in result.scores] == ["encoder@start", "encoder"]
    assert [line["event"] for line in log(tmp_path / "two")][-1] == "run_finished"
    assert all(math.isfinite(score.value) for score in result.scores)


# --- where a run may go ------------------------------------------------------------------------------------


def test_a_directory_that_holds_a_run_is_refused_and_left_alone(
    ran, recipe_of, plugins
):
    directory = ran.result.directory
    before = {
        path: path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }
    with pytest.raises(
        RunError,
        match=exactly(
            f"`{directory}` already holds a run; choose another `--out`, move it away, or, if the run has not "
            "finished, take its place with `--replace`"
        ),
    ):
        run(recipe_of(), directory, plugins)

    assert {
        path: path.read_bytes() for path in directory.rglob("*") if path.is_file()
    } == before


def test_a_run_that_has_not_finished_gives_its_place_to_another(
    recipe_of, plugins, out
):
    place = out
    run(recipe_of(), place, plugins)
    with pytest.raises(
        RunError, match="is finished, and only one that has not finished is replaced"
    ):
        remove_unfinished(place)
    manifest = json.loads((place / "manifest.json").read_text())
    (place / "manifest.json").write_text(json.dumps({**manifest, "status": "failed"}))
    remove_unfinished(place)
    assert [path.name for path in place.iterdir() if path.name != ".lock"] == []
    assert run(recipe_of(), place, plugins).scores


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"status": "odd"}', '{"status": "running"}']
)
def test_nothing_but_a_run_that_is_not_at_work_is_replaced(content, tmp_path):
    (tmp_path / "manifest.json").write_text(content)
    (tmp_path / "mine.txt").write_text("kept")
    with alone(tmp_path), pytest.raises(RunError):
        remove_unfinished(tmp_path)
    assert (tmp_path / "mine.txt").is_file()
    remove_unfinished(tmp_path / "none")


def test_a_run_that_finishes_just_before_it_is_locked_is_not_removed(
    tmp_path, monkeypatch
):
    manifest = tmp_path / "manifest.json"
    manifest.write_text('{"status": "running"}')

    def finish_and_lock(directory):
        manifest.write_text('{"status": "finished"}')
        return alone(directory)

    monkeypatch.setattr(run_directory, "alone", finish_and_lock)
    with pytest.raises(RunError, match="is finished"):
        remove_unfinished(tmp_path)
    assert manifest.is_file()


def test_a_directory_that_holds_something_else_is_refused_by_name(out, run_recipe):
    (out).mkdir()
    (out / "notes.txt").touch()
    with pytest.raises(
        RunError, match=r"already holds `notes\.txt`; choose another `--out`"
    ):
        run_recipe()
    assert names(out) == {"notes.txt"}


def test_a_run_directory_below_a_file_cannot_be_made(recipe_of, plugins, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        RunError,
        match=r"cannot make the run directory `.*/file/out`: .*choose another `--out`",
    ):
        run(recipe_of(), tmp_path / "file" / "out", plugins)


def test_an_empty_directory_is_used(out, run_recipe):
    (out).mkdir()
    text = RECIPE[: RECIPE.index("[[stage]]")]
    assert run_recipe(text).directory == out


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


@pytest.mark.parametrize(("keep", "chooses"), [("best", True), ("last", False)])
def test_the_manifest_has_the_hashes_of_the_data_by_which_weights_were_chosen(
    keep, chooses, tmp_path, monkeypatch, run_recipe
):
    data = tmp_path / "pairs.tsv"
    data.write_text("a\tb\n")
    monkeypatch.setattr(Gap, "files", lambda self: [data] if self.development else [])

    directory = run_recipe(
        VALIDATED.replace("every = 2", f'every = 2\nkeep = "{keep}"')
    ).directory
    manifest = json.loads((directory / "manifest.json").read_text())
    assert manifest["chosen_on"] == [hashlib.sha256(b"a\tb\n").hexdigest()] * chooses
    assert list(manifest["evaluation_data"]) == ["gap pairs.tsv"]
