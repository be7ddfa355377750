from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

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
from sentbed._run import runner
from sentbed._run.runner import (
    RunResult,
    alone,
    build_encoder,
    build_encoders,
    remove_unfinished,
)
from sentbed.protocols import LossTraits, Prepared, ReportSection
from toy_dataset import ToyDataset
from toy_plugin import (
    RECIPE,
    TOWERS,
    Characters,
    Engine,
    Gap,
    Grade,
    Recorder,
    Table,
    Toy,
    Words,
    quicken,
)

Load = Callable[..., Recipe]
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
    def recorder(self) -> Recorder:
        found = self.plugins.manager.get_plugin("toy:recorder")
        assert isinstance(found, Recorder)
        return found


@pytest.fixture(scope="module")
def ran(toy_points: list[EntryPoint], tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One run from start to end, with validation."""
    directory = tmp_path_factory.mktemp("ran")
    (directory / "recipe.toml").write_text(VALIDATED)
    plugins = load_plugins(toy_points)
    recipe = load_recipe(directory / "recipe.toml", plugins=plugins)
    return Ran(recipe, run(recipe, directory / "out", plugins), plugins)


def read(directory: Path, name: str) -> Any:
    return json.loads((directory / name).read_text())


def log(directory: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()
    ]


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


# --- a run that finishes -----------------------------------------------------------------------------------


def test_a_run_directory_holds_encoder_log_manifest_recipe_and_reports(ran: Ran):
    assert names(ran.result.directory) == FILES | {"checkpoints"}
    assert ran.result.report == ran.result.directory / "report.json"


def test_scores_name_the_release_of_the_plugin_that_the_run_had(ran: Ran):
    assert {score.plugin for score in ran.result.scores} == {"toy 1.0"}


def test_the_record_has_the_sections_of_plugins(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    run(recipe_of(RECIPE + "\n[dice]\nsides = 20\n"), tmp_path / "out", plugins)
    assert read(tmp_path / "out", "report.json")["sections"] == {
        "dice": {
            "title": "Dice",
            "columns": ["sides", "status"],
            "rows": [[20, "finished"]],
            "note": "They are fair.",
        }
    }


def test_of_two_sections_with_one_key_the_second_is_left_out_with_a_warning(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    class Other:
        @hookimpl(trylast=True)
        def report_sections(self) -> list[ReportSection]:
            return [ReportSection("dice", "Other", ("a",), ((1,),))]

    plugins.manager.register(Other())
    run(recipe_of(RECIPE + "\n[dice]\nsides = 20\n"), tmp_path / "out", plugins)

    record = read(tmp_path / "out", "report.json")
    assert record["sections"]["dice"]["title"] == "Dice"
    assert record["warnings"] == [
        "the report's section `Other` is left out: `Dice` has its key `dice`, too; its plugin must choose another"
    ]


def test_the_report_of_a_plugin_is_what_a_run_returns(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    class Pages:
        @hookimpl
        def write_report(self, run: Any, data: Any) -> Path:
            assert (run.directory / "report.json").is_file()
            page: Path = run.directory / f"{data.status}.txt"
            page.write_text(data.name)
            return page

    plugins.manager.register(Pages())
    result = run(recipe_of(), tmp_path / "out", plugins)
    assert (result.report, result.report.read_text()) == (
        tmp_path / "out" / "finished.txt",
        "toy-run",
    )


def test_a_recipe_for_another_command_is_not_run(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    with pytest.raises(RecipeError, match=r"use `sentbed greet` @ .*:27 races"):
        run(recipe_of(RECIPE + "[races]\n"), tmp_path / "out", plugins)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("last", "options", "message"),
    [
        (
            "sane",
            'columns = ["anchor", "positive", "label"] }',
            "row 2 of stage `pull` has the label 'sane'",
        ),
        (
            "nan",
            'columns = ["anchor", "positive", "label"], numbers = ["label"] }',
            "row 2 of stage `pull` has nan",
        ),
    ],
)
def test_a_value_that_the_loss_cannot_use_is_found_before_anything_is_built(
    last: str,
    options: str,
    message: str,
    plugins: Plugins,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    good = "1" if last == "nan" else "same"
    rows = [
        ("anchor", "positive", "label"),
        ("a", "b", good),
        ("c", "d", good),
        ("e", "f", last),
    ]
    (tmp_path / "t.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    (tmp_path / "recipe.toml").write_text(RECIPE)
    built: list[object] = []
    monkeypatch.setattr(runner, "build_encoders", lambda *given: built.append(given))
    if last == "nan":
        needs = frozenset({"anchor", "positive", "label"})
        monkeypatch.setattr(
            Grade,
            "traits",
            LossTraits(needs=needs, takes=needs, numbers=frozenset({"label"})),
        )
    loss = "grade" if last == "nan" else "sort"
    overrides = (
        f'stage.0.data={{ use = "table", path = "t.tsv", {options}',
        f'stage.0.loss={{ use = "{loss}" }}',
    )
    recipe = load_recipe(tmp_path / "recipe.toml", overrides, plugins)
    with pytest.raises(DataError, match=message):
        run(recipe, tmp_path / "out", plugins)
    assert built == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "anchor\na\nb\n",
            "the data has no column `positive`; it has anchor; name another column",
        ),
        (
            "anchor\tpositive\na\tb\n",
            "the data of stage `pull` has 1 row, a loss over a batch needs at least 2",
        ),
    ],
)
def test_data_of_any_stage_that_lacks_something_is_found_before_anything_is_built(
    text: str,
    message: str,
    plugins: Plugins,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    (tmp_path / "t.tsv").write_text(text)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    built: list[object] = []
    monkeypatch.setattr(runner, "build_encoders", lambda *given: built.append(given))
    overrides = ('stage.0.data={ use = "table", path = "t.tsv" }',)
    recipe = load_recipe(tmp_path / "recipe.toml", overrides, plugins)
    with pytest.raises((DataError, RunError), match=message):
        run(recipe, tmp_path / "out", plugins)
    assert built == []


class Dry(ToyDataset):
    """Gives a row less than it is asked for."""

    def rows(self, indices: Sequence[int], epoch: int = 0) -> dict[str, list[Any]]:
        return super().rows(indices[:-1], epoch)


def test_a_source_with_labels_that_runs_dry_is_told_before_anything_is_built(
    plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    data = {name: ["same"] * 3 for name in ("anchor", "positive", "label")}
    monkeypatch.setattr(Table, "open", lambda _: Dry(data))
    (tmp_path / "recipe.toml").write_text(RECIPE)
    table = (
        '{ use = "table", path = "t.tsv", columns = ["anchor", "positive", "label"] }'
    )
    overrides = (f"stage.0.data={table}", 'stage.0.loss={ use = "sort" }')
    recipe = load_recipe(tmp_path / "recipe.toml", overrides, plugins)
    with pytest.raises(
        DataError, match="the source ran dry: asked for 3 rows of `anchor`, it gave 2"
    ):
        run(recipe, tmp_path / "out", plugins)


def test_scores_before_training_are_labelled_start(ran: Ran):
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


def test_the_report_has_the_scores_of_the_result(ran: Ran):
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


def test_the_saved_encoder_is_the_one_that_was_scored(ran: Ran):
    encoder = Encoder.load(
        ran.result.directory / "encoder", {"use": "toy"}, ran.plugins
    )
    assert Gap().prepare().evaluate(encoder).primary == pytest.approx(
        ran.result.scores[-1].value, rel=1e-6
    )


def test_the_resolved_recipe_of_a_run_is_the_same_recipe(ran: Ran):
    assert (
        load_recipe(ran.result.directory / "resolved.toml", plugins=ran.plugins)
        == ran.recipe
    )


def test_the_manifest_says_what_the_run_was_made_of(ran: Ran):
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
    assert manifest["peak_memory_gib"] > 0
    assert set(manifest) >= {"command", "git", "python"}


def test_what_a_tracker_returns_at_the_start_stands_in_the_manifest(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    class Elsewhere:
        @hookimpl
        def run_started(self) -> dict[str, Any]:
            return {"elsewhere": {"run_id": "7"}}

    plugins.manager.register(Elsewhere())
    run(recipe_of(RECIPE), tmp_path / "out", plugins)
    assert read(tmp_path / "out", "manifest.json")["elsewhere"] == {"run_id": "7"}


def test_lifecycle_hooks_are_called_in_the_order_of_the_run(ran: Ran):
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


def test_hooks_are_told_of_the_encoder_as_the_report_names_it(ran: Ran):
    told = [
        d["encoder"]
        for n, d in ran.recorder.events
        if n in ("evaluation_started", "scores_ready")
    ]
    assert told == ["encoder@start", "encoder@start", "encoder", "encoder"]


def test_the_log_has_the_same_events_in_the_same_order(ran: Ran):
    lines = log(ran.result.directory)
    assert [line["event"] for line in lines] == ran.recorder.names
    times = [line["time"] for line in lines]
    assert times == sorted(times)
    steps = [line for line in lines if line["event"] == "step_finished"]
    assert [line["step"] for line in steps] == [1, 2, 3, 4, 5, 6]
    told = [d["loss"] for n, d in ran.recorder.events if n == "step_finished"]
    assert [line["loss"] for line in steps] == told
    assert {"learning_rate", "grad_norm", "metrics", "stage"} <= set(steps[0])


def test_a_run_leaves_the_plugin_manager_as_it_was(ran: Ran):
    assert {name for name, _ in ran.plugins.manager.list_name_plugin()} == {
        "sentbed-trackers:console",
        "sentbed-trackers:jsonl",
        "toy:recorder",
        "toy:toy",
    }


def test_the_same_recipe_gives_the_same_run_and_another_seed_another(
    ran: Ran, recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    def losses(directory: Path) -> list[float]:
        return [
            line["loss"] for line in log(directory) if line["event"] == "step_finished"
        ]

    again = run(recipe_of(VALIDATED), tmp_path / "again", plugins)
    assert losses(again.directory) == losses(ran.result.directory)
    assert [s.value for s in again.scores] == [s.value for s in ran.result.scores]
    other = run(recipe_of(VALIDATED, "run.seed=8"), tmp_path / "other", plugins)
    assert losses(other.directory) != losses(ran.result.directory)


def test_a_recipe_without_stage_is_evaluated_under_the_plain_name(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    text = RECIPE[: RECIPE.index("[[stage]]")] + '[[evaluate]]\nuse = "gap"\n'
    result = run(recipe_of(text), tmp_path / "out", plugins)
    assert [score.encoder for score in result.scores] == ["encoder"]
    assert names(tmp_path / "out") == FILES


TRANSFORM = (
    'encoder.head.transform={ use = "centre", data = { use = "words", rows = 5 } }'
)


def test_a_transform_is_fitted_after_the_last_stage_and_nothing_before_sees_it(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    plain = run(recipe_of(VALIDATED), tmp_path / "plain", plugins)
    result = run(recipe_of(VALIDATED, TRANSFORM), tmp_path / "out", plugins)
    start, end = result.scores
    assert start == plain.scores[0]
    assert "transform" not in start.protocol["encoder"]
    assert end.protocol["encoder"]["transform"]["use"] == "centre"
    report, before = (
        read(tmp_path / name, "report.json")["stages"] for name in ("out", "plain")
    )
    assert report == before
    trained = Encoder.load(
        tmp_path / "plain" / "encoder", {"use": "toy"}, plugins
    ).encode(["abc", "bcd"])
    found = Encoder.load(tmp_path / "out" / "encoder", {"use": "toy"}, plugins)
    centre = Encoder.load(
        tmp_path / "plain" / "encoder", {"use": "toy"}, plugins
    ).encode(list(Words(5).open().texts()))
    expected = (trained - centre.mean(axis=0))[:, :3]
    np.testing.assert_allclose(
        found.encode(["abc", "bcd"]), expected, rtol=1e-4, atol=1e-5
    )
    assert end.value == Gap().prepare().evaluate(found).scores[0].value


def test_a_transform_is_fitted_where_there_is_no_stage(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    text = RECIPE[: RECIPE.index("[[stage]]")] + '[[evaluate]]\nuse = "gap"\n'
    (score,) = run(recipe_of(text, TRANSFORM), tmp_path / "out", plugins).scores
    assert score.protocol["encoder"]["transform"]["texts"] == 10


def test_texts_of_a_transform_are_looked_at_before_training(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    with pytest.raises(DataError, match="the centre of one text"):
        run(
            recipe_of(RECIPE, TRANSFORM.replace("rows = 5", "rows = 0")),
            tmp_path / "out",
            plugins,
        )
    assert read(tmp_path / "out", "report.json")["scores"] == []


def test_the_encoder_of_an_interrupted_run_is_not_taken_for_one_with_its_transform(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    recipe = recipe_of(RECIPE, TRANSFORM, "stage.pull.loss.interrupt_at=4")
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path / "out", plugins)
    with pytest.raises(
        ModelError, match="was saved before its transform was fitted; finish its run"
    ):
        Encoder.load(tmp_path / "out" / "encoder", {"use": "toy"}, plugins)


def test_several_encoders_are_saved_each_under_its_name_and_only_one_is_trained(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    recipe = recipe_of(TWO_ENCODERS)
    result = run(recipe, tmp_path / "out", plugins)
    assert [score.encoder for score in result.scores] == ["large@start", "large"]
    assert names(tmp_path / "out" / "encoder") == {"large", "small"}
    small, large = (
        Encoder.load(tmp_path / "out" / "encoder" / name, {"use": "toy"}, plugins)
        for name in ("small", "large")
    )
    assert (small.width, large.width) == (4, 8)
    untrained = Encoder.build(recipe.encoders["small"], recipe.runtime.build())
    np.testing.assert_array_equal(small.encode(["abc"]), untrained.encode(["abc"]))


def test_a_run_without_out_goes_below_runs_under_its_name_and_time(
    recipe_of: Load, plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quicken(monkeypatch)


def observed(directory: Path, step: int, stage: str = "again") -> float:
    """What the `watch` of a stage saw after `step`."""
    lines = [line for line in log(directory) if line["event"] == "observed"]
    (line,) = [line for line in lines if (line["stage"], line["step"]) == (stage, step)]
    value: float = line["primary"]
    return value


def gap_of(path: Path, plugins: Plugins) -> float:
    return Gap().prepare().evaluate(Encoder.load(path, {"use": "toy"}, plugins)).primary


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("source", ["pairs", "tune", "pretrained", None])
def test_a_stage_begins_with_the_weights_that_it_names(
    source: str | None, recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    weights = () if source is None else (f"stage.again.weights.zh={source}",)
    recipe = recipe_of(TOWERS + NOISY, *weights)
    out = run(recipe, tmp_path / "out", plugins).directory
    (pairs,), (tune,) = (
        (out / "checkpoints" / name).iterdir() for name in ("pairs", "tune")
    )
    expected = {
        "pairs": gap_of(pairs / "zh", plugins),
        "tune": gap_of(tune / "zh", plugins),
        "pretrained": Gap().prepare().evaluate(build_encoder(recipe, "zh")).primary,
    }
    assert len(set(expected.values())) == 3
    assert observed(out, 0) == expected[source or "tune"]


@pytest.mark.usefixtures("quick")
def test_the_chance_of_a_stage_is_its_own(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    def noisy(name: str, *overrides: str) -> float:
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


@pytest.mark.usefixtures("quick")
def test_no_two_stages_and_no_stage_and_encoder_draw_the_same_numbers(
    recipe_of: Load, plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seeds: list[int] = []
    monkeypatch.setattr(Engine, "seed", lambda self, seed: seeds.append(seed))
    run(recipe_of(TOWERS + NOISY), tmp_path / "out", plugins)
    assert len(seeds) == len(set(seeds)) == 2 * 2 + 1 + 3


@pytest.mark.usefixtures("quick")
def test_weights_that_a_stage_gives_to_an_encoder_that_it_freezes_stay(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
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
    zh = Encoder.load(out / "encoder" / "zh", {"use": "toy"}, plugins)
    np.testing.assert_array_equal(
        zh.encode(["abc"]), build_encoder(recipe, "zh").encode(["abc"])
    )


@pytest.mark.sweep(4)
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "change",
    [
        "stage.again.data.rows=10",
        "stage.again.max_length=3",
        "encoders.zh.max_length=3",
        "encoders.zh.prompt.template='<{text}>'",
        "encoders.zh.backbone.init_seed=9",
        "stage.tune.optimizer.lr=0.25",
        "stage.again.weights.zh=pairs",
        "runtime.precision=fp64",
    ],
)
def test_frozen_vectors_are_kept_apart_by_everything_that_decides_them(
    change: str, recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    seen: list[str] = []

    class Look:
        @hookimpl
        def stage_finished(self, run: Any, stage: str) -> None:
            if stage == "again":
                seen.extend(path.name for path in (run.directory / "vectors").iterdir())

    plugins.manager.register(Look())
    frozen = (
        'stage.again.train="en"',
        'stage.again.freeze="zh"',
        "stage.again.cache_frozen=true",
    )
    frozen = (*frozen, 'stage.again.columns={ anchor = "zh", positive = "en" }')
    for name, overrides in (("one", ()), ("again", ()), ("other", (change,))):
        run(recipe_of(TOWERS + NOISY, *frozen, *overrides), tmp_path / name, plugins)
    one, again, other = seen
    assert one == again != other


@pytest.mark.usefixtures("quick")
def test_the_frozen_tower_of_a_stage_has_the_weights_that_an_earlier_stage_gave_it(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    """The translation pipeline: `zh` learns from `en`, then `en` from what `zh` has become."""
    back = 'stage.tune={ train = "en", freeze = "zh", columns = { anchor = "zh", positive = "en" }, '
    back += 'name = "back", data = { use = "words", rows = 11 }, loss = { use = "pull" }, batch_size = 4, '
    back += 'optimizer = { use = "sgd", lr = 0.5 }, schedule = { use = "falling" }, epochs = 2 }'
    recipe = recipe_of(TOWERS, back)
    out = run(recipe, tmp_path / "out", plugins).directory
    zh, en = (
        Encoder.load(out / "encoder" / name, {"use": "toy"}, plugins)
        for name in ("zh", "en")
    )
    (kept,) = (out / "checkpoints" / "pairs").iterdir()
    np.testing.assert_array_equal(
        zh.encode(["abc"]),
        Encoder.load(kept / "zh", {"use": "toy"}, plugins).encode(["abc"]),
    )
    # Had `back` started from the untrained `zh`, `en` would have become something else.
    fresh = run(
        recipe_of(TOWERS, back, "stage.back.weights.zh=pretrained"),
        tmp_path / "fresh",
        plugins,
    ).directory
    other = Encoder.load(fresh / "encoder" / "en", {"use": "toy"}, plugins)
    assert not np.allclose(other.encode(["abc"]), en.encode(["abc"]))


@pytest.mark.usefixtures("quick")
def test_of_every_stage_only_the_weights_that_it_ends_with_are_left(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    validate = '{ every = 1, with = { use = "lottery" } }'
    text = TOWERS + "\n[checkpoint]\nevery = 1\nkeep = 3\n"
    recipe = recipe_of(
        text, f"stage.pairs.validate={validate}", f"stage.tune.validate={validate}"
    )
    out = run(recipe, tmp_path / "out", plugins).directory
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


@pytest.mark.usefixtures("quick")
def test_states_and_vectors_are_there_while_a_run_goes_on_and_gone_afterwards(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    seen: list[set[str]] = []

    class Look:
        @hookimpl
        def step_finished(self, run: Any) -> None:
            seen.append(names(run.directory))

    plugins.manager.register(Look())
    out = run(
        recipe_of(TOWERS, "stage.pairs.cache_frozen=true"), tmp_path / "out", plugins
    ).directory
    assert all({"states", "vectors"} <= held for held in seen)
    assert len(seen) == 10
    assert names(out) == FILES | {"checkpoints"}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("cached", [False, True])
def test_a_cache_of_frozen_vectors_does_not_change_the_result(
    cached: bool, recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    plain = run(recipe_of(TOWERS), tmp_path / "plain", plugins)
    result = run(
        recipe_of(TOWERS, f"stage.pairs.cache_frozen={str(cached).lower()}"),
        tmp_path / "out",
        plugins,
    )
    assert [s.value for s in result.scores] == pytest.approx(
        [s.value for s in plain.scores], rel=1e-6
    )


@pytest.mark.usefixtures("quick")
def test_towers_that_do_not_fit_are_found_before_anything_is_computed(
    recipe_of: Load, plugins: Plugins, recorder: Recorder, tmp_path: Path
):
    recipe = recipe_of(
        TOWERS,
        "encoders.en.backbone.width=3",
        "stage.pairs.freeze=",
        "stage.pairs.columns=",
        'stage.tune.freeze="en"',
        'stage.tune.columns={ anchor = "en", positive = "zh" }',
        'evaluate.0={ use = "gap", encoder = "zh", at = ["start"] }',
    )
    with pytest.raises(
        RunError, match="the vectors of stage `tune` have several widths"
    ):
        run(recipe, tmp_path / "out", plugins)
    assert recorder.names == ["run_started", "run_failed"]


@pytest.mark.usefixtures("quick")
def test_scores_of_two_towers_name_both_and_say_how_each_encodes(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    recipe = recipe_of(TOWERS, "encoders.en.max_length=9")
    result = run(recipe, tmp_path / "out", plugins)
    assert [score.encoder for score in result.scores] == ["zh+en@start", "zh+en"]
    protocol = result.scores[-1].protocol["encoder"]
    assert (protocol["max_length"], protocol["second"]["max_length"]) == (16, 9)
    zh, en = (
        Encoder.load(result.directory / "encoder" / name, {"use": "toy"}, plugins)
        for name in ("zh", "en")
    )
    assert result.scores[-1].value == -float(
        np.linalg.norm(zh.encode(["abc"]) - en.encode(["nop"]))
    )


# --- what encoders start with ------------------------------------------------------------------------------

RANDOM_HEADS = ("encoders.en.head.projection=3", "encoders.zh.head.projection=3")


def test_the_weights_that_an_encoder_starts_with_follow_from_its_name_and_the_seed(
    recipe_of: Load,
):
    def head(name: str, recipe: Recipe) -> Any:
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


def test_an_encoder_that_the_recipe_lacks_cannot_be_built(recipe_of: Load):
    with pytest.raises(
        RunError,
        match="the recipe has no encoder `fr`, it has `en`, `zh`; name one of them",
    ):
        build_encoder(recipe_of(TOWERS), "fr")


def test_what_a_component_returns_is_looked_at_before_a_run_too(
    recipe_of: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Words, "open", lambda _: None)
    monkeypatch.setattr(Characters, "build", lambda _, context: list(context.texts()))
    with pytest.raises(
        PluginError,
        match=r"^`open` of the data source `words` of `toy_plugin` returned ",
    ):
        build_encoder(recipe_of())
    monkeypatch.setattr(Toy, "build", lambda _: None)
    with pytest.raises(
        PluginError,
        match=r"^`build` of the runtime `toy` of `toy_plugin` returned None",
    ):
        build_encoder(recipe_of())


# --- trackers of the recipe --------------------------------------------------------------------------------

NOTES = (
    '\n[[tracker]]\nuse = "notes"\n\n[[tracker]]\nuse = "notes"\nfile = "more.txt"\n'
)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("loss", ["pull.loss.memory=0", "pull.loss.nan_at=4"])
def test_trackers_of_the_recipe_follow_their_run_and_no_other(
    loss: str, recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    before = plugins.manager.list_name_plugin()
    try:
        run(recipe_of(RECIPE + NOTES, f"stage.{loss}"), tmp_path / "out", plugins)
    except RunError:
        assert "nan" in loss
    steps = "3" if "nan" in loss else "6"
    assert [
        (tmp_path / "out" / name).read_text() for name in ("notes.txt", "more.txt")
    ] == [steps, steps]
    assert plugins.manager.list_name_plugin() == before
    run(recipe_of(), tmp_path / "next", plugins)
    assert not (tmp_path / "next" / "notes.txt").exists()


@pytest.mark.usefixtures("quick")
def test_two_trackers_that_keep_their_state_under_one_name_are_told_so(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    class Same:
        @hookimpl
        def tracker_state(self) -> tuple[str, dict[str, int]]:
            return "recorder", {}

    plugins.manager.register(Same())
    with pytest.raises(PluginError) as caught:
        run(recipe_of(), tmp_path / "out", plugins)
    assert str(caught.value) == (
        "two trackers keep a state under the name `recorder`; give each its own (`tracker_state`)"
    )


@pytest.mark.usefixtures("quick")
def test_an_encoder_that_cannot_be_saved_does_not_cost_the_others(
    recipe_of: Load, plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    save = Encoder.save

    def fail(self: Encoder, path: Path) -> None:
        if path == tmp_path / "out" / "encoder" / "en":
            raise RunError("no space for it")
        save(self, path)

    monkeypatch.setattr(Encoder, "save", fail)
    with pytest.raises(RunError, match="no space for it"):
        run(recipe_of(TOWERS), tmp_path / "out", plugins)
    assert names(tmp_path / "out" / "encoder") == {"zh"}


# --- expected numbers --------------------------------------------------------------------------------------


def test_expected_numbers_are_compared_with_the_scores_after_training(
    ran: Ran, recipe_of: Load, plugins: Plugins, tmp_path: Path
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
    result = run(recipe_of(text), tmp_path / "out", plugins)
    assert result.unmet == ("gap/other", "missing")
    report = read(tmp_path / "out", "report.json")["expected"]
    assert [(row["key"], row["found"], row["met"]) for row in report] == [
        ("gap", end, True),
        ("gap/distance", end, True),
        ("gap/other", None, None),
        ("missing", None, None),
    ]
    off = recipe_of(text, f"expected.gap.value={start}")
    assert run(off, tmp_path / "off", plugins).unmet == ("gap", "gap/other", "missing")
    (row, *_) = read(tmp_path / "off", "report.json")["expected"]
    assert (row["met"], row["difference"]) == (False, pytest.approx(end - start))


def test_a_number_to_compare_with_stands_in_the_report_and_decides_nothing(
    ran: Ran, recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    end = ran.result.scores[1].value
    rows = (
        "gap = { value = 1000, decides = false }",
        "missing = { value = 1, decides = false }",
    )
    text = VALIDATED + "\n[expected]\n" + "\n".join(rows) + "\n"
    result = run(recipe_of(text), tmp_path / "out", plugins)
    assert result.unmet == ()
    report = read(tmp_path / "out", "report.json")["expected"]
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
    recipe_of: Load, plugins: Plugins, recorder: Recorder, tmp_path: Path
):
    recipe = recipe_of(RECIPE, "stage.pull.loss.nan_at=3")
    with pytest.raises(
        RunError, match="the loss of stage `pull` is nan at step 3 of 6"
    ):
        run(recipe, tmp_path / "out", plugins)
    report = read(tmp_path / "out", "report.json")
    assert report["status"] == "failed"
    assert report["error"].startswith("the loss of stage `pull` is nan at step 3 of 6")
    assert [s["encoder"] for s in report["scores"]] == ["encoder@start"]
    assert report["stages"][0]["steps"] == [1, 2]
    assert read(tmp_path / "out", "manifest.json")["status"] == "failed"
    assert names(tmp_path / "out") == FILES | {"states"}
    assert recorder.names[-1] == "run_failed"
    assert "run_finished" not in recorder.names
    last = log(tmp_path / "out")[-1]
    assert last["event"] == "run_failed"
    assert last["error"].startswith("the loss of stage `pull`")


def test_an_interrupted_run_has_a_report_and_an_encoder_that_loads(
    recipe_of: Load, plugins: Plugins, recorder: Recorder, tmp_path: Path
):
    recipe = recipe_of(RECIPE, "stage.pull.loss.interrupt_at=4")
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path / "out", plugins)
    report = read(tmp_path / "out", "report.json")
    assert (report["status"], report["error"]) == ("interrupted", "KeyboardInterrupt")
    assert read(tmp_path / "out", "manifest.json")["status"] == "interrupted"
    assert [s["encoder"] for s in report["scores"]] == ["encoder@start"]
    encoder = Encoder.load(tmp_path / "out" / "encoder", {"use": "toy"}, plugins)
    # Three steps were taken: the weights are neither those of the start nor those of the end.
    distance = -Gap().prepare().evaluate(encoder).primary
    assert distance < -report["scores"][0]["value"]
    assert isinstance(recorder.events[-1][1]["error"], KeyboardInterrupt)


def test_an_interrupted_run_keeps_its_best_checkpoint(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    # The distance falls, so the farther target is best before the first step.
    recipe = recipe_of(
        VALIDATED,
        "stage.pull.loss.interrupt_at=6",
        "stage.pull.validate.with.target=100",
    )
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path / "out", plugins)
    report = read(tmp_path / "out", "report.json")
    (stage,) = report["stages"]
    assert stage["best_step"] == 0
    encoder = Encoder.load(tmp_path / "out" / "encoder", {"use": "toy"}, plugins)
    found = Gap(target=100).prepare().evaluate(encoder).primary
    assert found == pytest.approx(stage["validations"][0][1], rel=1e-6)


def test_a_stage_that_cannot_read_its_data_ends_the_run_with_a_report(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    with pytest.raises(RunError, match="at least 2"):
        run(recipe_of(RECIPE, "stage.pull.data.rows=1"), tmp_path / "out", plugins)
    assert read(tmp_path / "out", "report.json")["status"] == "failed"


def test_plugins_can_run_again_after_a_run_that_failed(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    with pytest.raises(RunError):
        run(recipe_of(RECIPE, "stage.pull.loss.nan_at=1"), tmp_path / "one", plugins)
    result = run(recipe_of(), tmp_path / "two", plugins)
    assert [score.encoder for score in result.scores] == ["encoder@start", "encoder"]
    assert [line["event"] for line in log(tmp_path / "two")][-1] == "run_finished"
    assert all(math.isfinite(score.value) for score in result.scores)


# --- where a run may go ------------------------------------------------------------------------------------


def test_a_directory_that_holds_a_run_is_refused_and_left_alone(
    ran: Ran, recipe_of: Load, plugins: Plugins
):
    directory = ran.result.directory
    before = {
        path: path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }
    with pytest.raises(RunError) as caught:
        run(recipe_of(), directory, plugins)
    assert str(caught.value) == (
        f"`{directory}` already holds a run; choose another `--out`, move it away, or, if the run has not "
        "finished, take its place with `--replace`"
    )
    assert {
        path: path.read_bytes() for path in directory.rglob("*") if path.is_file()
    } == before


def test_a_run_that_has_not_finished_gives_its_place_to_another(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    place = tmp_path / "out"
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
def test_nothing_but_a_run_that_is_not_at_work_is_replaced(
    content: str, tmp_path: Path
):
    (tmp_path / "manifest.json").write_text(content)
    (tmp_path / "mine.txt").write_text("kept")
    with alone(tmp_path), pytest.raises(RunError):
        remove_unfinished(tmp_path)
    assert (tmp_path / "mine.txt").is_file()
    remove_unfinished(tmp_path / "none")


def test_a_directory_that_holds_something_else_is_refused_by_name(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").touch()
    with pytest.raises(
        RunError, match=r"already holds `notes\.txt`; choose another `--out`"
    ):
        run(recipe_of(), tmp_path / "out", plugins)
    assert names(tmp_path / "out") == {"notes.txt"}


def test_a_run_directory_below_a_file_cannot_be_made(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    (tmp_path / "file").touch()
    with pytest.raises(
        RunError,
        match=r"cannot make the run directory `.*/file/out`: .*choose another `--out`",
    ):
        run(recipe_of(), tmp_path / "file" / "out", plugins)


def test_an_empty_directory_is_used(recipe_of: Load, plugins: Plugins, tmp_path: Path):
    (tmp_path / "out").mkdir()
    text = RECIPE[: RECIPE.index("[[stage]]")]
    assert run(recipe_of(text), tmp_path / "out", plugins).directory == tmp_path / "out"


@pytest.mark.parametrize("where", ["evaluate", "validate"])
def test_bad_data_of_an_evaluation_is_found_before_anything_is_built(
    where: str, recipe_of: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = Gap.prepare

    def read(self: Gap) -> Prepared:
        if self.target == (1.5 if where == "evaluate" else 0.0):
            raise DataError("a bad line", "pairs.tsv", 3)
        return prepare(self)

    def build(*_: object) -> None:
        raise AssertionError("an encoder was built")

    monkeypatch.setattr(Gap, "prepare", read)
    monkeypatch.setattr(runner, "build_encoders", build)
    text = VALIDATED.replace('use = "gap"\n', 'use = "gap"\ntarget = 1.5\n')
    assert text.count("1.5") == 1
    with pytest.raises(DataError, match=r"a bad line @ pairs.tsv:3"):
        run(recipe_of(text), tmp_path / "out")
    assert "a bad line" in (tmp_path / "out" / "report.json").read_text()


@pytest.mark.parametrize(("keep", "chooses"), [("best", True), ("last", False)])
def test_the_manifest_has_the_hashes_of_the_data_by_which_weights_were_chosen(
    keep: str,
    chooses: bool,
    recipe_of: Load,
    plugins: Plugins,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = tmp_path / "pairs.tsv"
    data.write_text("a\tb\n")
    monkeypatch.setattr(Gap, "files", lambda self: [data] if self.development else [])
    recipe = recipe_of(VALIDATED.replace("every = 2", f'every = 2\nkeep = "{keep}"'))
    directory = run(recipe, tmp_path / "out", plugins).directory
    manifest = json.loads((directory / "manifest.json").read_text())
    assert manifest["chosen_on"] == [hashlib.sha256(b"a\tb\n").hexdigest()] * chooses
    assert list(manifest["evaluation_data"]) == ["gap pairs.tsv"]
