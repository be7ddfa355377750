from __future__ import annotations

import json
import math
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from sentbed import Encoder, RunError, load_recipe, run
from sentbed.recipe import Recipe
from sentbed.registry import Plugins, load_plugins
from sentbed.runner import RunResult
from toy_plugin import RECIPE, Gap, Recorder

Load = Callable[..., Recipe]
FILES = {"encoder", "log.jsonl", "manifest.json", "report.html", "report.json", "report.md", "resolved.toml"}
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
    return [json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()]


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


# --- a run that finishes -----------------------------------------------------------------------------------


def test_a_run_directory_holds_encoder_log_manifest_recipe_and_reports(ran: Ran):
    assert names(ran.result.directory) == FILES | {"checkpoints"}
    assert ran.result.report == ran.result.directory / "report.html"


def test_scores_before_training_are_labelled_start(ran: Ran):
    assert [(s.encoder, s.evaluator, s.task, s.metric) for s in ran.result.scores] == [
        ("encoder@start", "gap", "gap", "distance"),
        ("encoder", "gap", "gap", "distance"),
    ]
    start, end = (score.value for score in ran.result.scores)
    assert end > start
    assert ran.result.scores[0].protocol == {
        "id": "gap",
        "target": 0.0,
        "precision": "fp64",
        "pooler": {"train": "average", "test": "average"},
        "max_length": 16,
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
    assert [step for step, _ in stage["validations"]] == [2, 4, 6]
    assert stage["metric"] == "gap"


def test_the_saved_encoder_is_the_one_that_was_scored(ran: Ran):
    encoder = Encoder.load(ran.result.directory / "encoder", {"use": "toy"}, ran.plugins)
    assert Gap().evaluate(encoder).primary == pytest.approx(ran.result.scores[-1].value, rel=1e-6)


def test_the_resolved_recipe_of_a_run_is_the_same_recipe(ran: Ran):
    assert load_recipe(ran.result.directory / "resolved.toml", plugins=ran.plugins) == ran.recipe


def test_the_manifest_says_what_the_run_was_made_of(ran: Ran):
    manifest = read(ran.result.directory, "manifest.json")
    assert (manifest["name"], manifest["status"], manifest["seed"]) == ("toy-run", "finished", 7)
    assert manifest["engine"] == {"device": "toy", "precision": "fp64", "token_budget": 64}
    assert manifest["weights"] == {"encoder": {"init": "random", "seed": 0}}
    data = ran.recipe.stage[0].data.open()
    assert manifest["data"] == {"pull": {"rows": 11, "sha256": data.fingerprint}}
    assert [p["name"] for p in manifest["plugins"]] == ["console", "jsonl", "recorder", "toy"]
    assert manifest["libraries"]["numpy"] == np.__version__
    assert manifest["machine"]["cores"] >= 1
    assert manifest["peak_memory_gib"] > 0
    assert set(manifest) >= {"command", "git", "python"}


def test_lifecycle_hooks_are_called_in_the_order_of_the_run(ran: Ran):
    expected = ["run_started", "evaluation_started", "scores_ready", "stage_started"]
    for step in range(1, 7):
        expected.append("step_finished")
        if step % 2 == 0:
            expected.append("validated")
            if [d for n, d in ran.recorder.events if n == "validated"][step // 2 - 1]["best"]:
                expected.append("checkpoint_saved")
    expected += ["stage_finished", "evaluation_started", "scores_ready", "run_finished"]
    assert ran.recorder.names == expected
    assert "checkpoint_saved" in expected
    assert ran.recorder.events[-1] == ("run_finished", {"exists": True})


def test_hooks_are_told_of_the_encoder_as_the_report_names_it(ran: Ran):
    told = [d["encoder"] for n, d in ran.recorder.events if n in ("evaluation_started", "scores_ready")]
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
        "sentbed:console",
        "sentbed:jsonl",
        "toy:recorder",
        "toy:toy",
    }


def test_the_same_recipe_gives_the_same_run_and_another_seed_another(
    ran: Ran, recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    def losses(directory: Path) -> list[float]:
        return [line["loss"] for line in log(directory) if line["event"] == "step_finished"]

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
    text = VALIDATED + "\n[expected]\n" + "".join(f'"{key}" = {row}\n' for key, row in rows.items())
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


# --- runs that end early -----------------------------------------------------------------------------------


def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_what_it_had(
    recipe_of: Load, plugins: Plugins, recorder: Recorder, tmp_path: Path
):
    recipe = recipe_of(RECIPE, "stage.pull.loss.nan_at=3")
    with pytest.raises(RunError, match="the loss of stage `pull` is nan at step 3 of 6"):
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
    distance = -Gap().evaluate(encoder).primary
    assert distance < -report["scores"][0]["value"]
    assert isinstance(recorder.events[-1][1]["error"], KeyboardInterrupt)


def test_an_interrupted_run_keeps_its_best_checkpoint(recipe_of: Load, plugins: Plugins, tmp_path: Path):
    # The distance falls, so the farther target is best at the first validation.
    recipe = recipe_of(VALIDATED, "stage.pull.loss.interrupt_at=6", "stage.pull.validate.with.target=100")
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path / "out", plugins)
    report = read(tmp_path / "out", "report.json")
    (stage,) = report["stages"]
    assert stage["best_step"] == 2
    encoder = Encoder.load(tmp_path / "out" / "encoder", {"use": "toy"}, plugins)
    assert Gap(target=100).evaluate(encoder).primary == pytest.approx(stage["validations"][0][1], rel=1e-6)


@pytest.mark.parametrize("event", ["run_started", "scores_ready", "step_finished", "stage_finished"])
def test_an_exception_in_a_tracker_ends_the_run_with_a_report(
    event: str, recipe_of: Load, plugins: Plugins, recorder: Recorder, tmp_path: Path
):
    recorder.fail_on = event
    with pytest.raises(ValueError, match=f"^the recorder fails on {event}$"):
        run(recipe_of(), tmp_path / "out", plugins)
    report = read(tmp_path / "out", "report.json")
    assert (report["status"], report["error"]) == ("failed", f"the recorder fails on {event}")
    assert (tmp_path / "out" / "report.html").is_file()
    assert recorder.names[-2:] == [event, "run_failed"]


def test_a_stage_that_cannot_read_its_data_ends_the_run_with_a_report(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    with pytest.raises(RunError, match="at least 2"):
        run(recipe_of(RECIPE, "stage.pull.data.rows=1"), tmp_path / "out", plugins)
    assert read(tmp_path / "out", "report.json")["status"] == "failed"


def test_plugins_can_run_again_after_a_run_that_failed(recipe_of: Load, plugins: Plugins, tmp_path: Path):
    with pytest.raises(RunError):
        run(recipe_of(RECIPE, "stage.pull.loss.nan_at=1"), tmp_path / "one", plugins)
    result = run(recipe_of(), tmp_path / "two", plugins)
    assert [score.encoder for score in result.scores] == ["encoder@start", "encoder"]
    assert [line["event"] for line in log(tmp_path / "two")][-1] == "run_finished"
    assert all(math.isfinite(score.value) for score in result.scores)


# --- where a run may go ------------------------------------------------------------------------------------


def test_a_directory_that_holds_a_run_is_refused_and_left_alone(ran: Ran, recipe_of: Load, plugins: Plugins):
    directory = ran.result.directory
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    with pytest.raises(RunError) as caught:
        run(recipe_of(), directory, plugins)
    assert str(caught.value) == (
        f"`{directory}` already holds a run; choose another `--out`, or move it away"
    )
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before


def test_a_directory_that_holds_something_else_is_refused_by_name(
    recipe_of: Load, plugins: Plugins, tmp_path: Path
):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").touch()
    with pytest.raises(RunError, match=r"already holds `notes\.txt`; choose another `--out`"):
        run(recipe_of(), tmp_path / "out", plugins)
    assert names(tmp_path / "out") == {"notes.txt"}


def test_a_run_directory_below_a_file_cannot_be_made(recipe_of: Load, plugins: Plugins, tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(
        RunError, match=r"cannot make the run directory `.*/file/out`: .*choose another `--out`"
    ):
        run(recipe_of(), tmp_path / "file" / "out", plugins)


def test_an_empty_directory_is_used(recipe_of: Load, plugins: Plugins, tmp_path: Path):
    (tmp_path / "out").mkdir()
    text = RECIPE[: RECIPE.index("[[stage]]")]
    assert run(recipe_of(text), tmp_path / "out", plugins).directory == tmp_path / "out"
