from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from sentbed._registry.registry import load_plugins
from sentbed._run import runner
from sentbed.errors import RecipeError, RunError
from sentbed.tools import locked
from sentbed_studies import runner as running
from sentbed_studies.cell_keys import CellKeys
from sentbed_studies.runner import Job, run_study
from sentbed_studies.shared_work_plan import plan_work
from sentbed_studies.study import Study, read_study
from sentbed_studies.write_study_directory import lock_of, read_data
from toy_plugin import SEARCH, TOWERS

AXES = """
[study]
seeds = [1, 2]
baseline = { lr = "0.5", noise = "0.0" }
[study.axes.lr]
path = "stage.tune.optimizer.lr"
values = [0.5, 0.25]
[study.axes.noise]
path = "stage.pairs.loss.noise"
values = [0.0, 0.5]
"""

pytestmark = pytest.mark.usefixtures("installed_toy", "quick")


@pytest.fixture
def study(put: Callable[[str, str], Path]) -> Study:
    """Four cells of two seeds, which share their first stage in pairs."""
    return read_study(put("study.toml", TOWERS + AXES))


def found(directory: Path) -> dict[str, list[float]]:
    data = read_data(directory)
    return {f"{r.cell}, {r.seed}": [s.value for s in r.scores] for cell in data.cells for r in cell.runs}


def keeping(study: Study, keep: str) -> Study:
    return attrs.evolve(study, table=attrs.evolve(study.table, keep=keep))


def test_shared_stages_change_no_score(study: Study, tmp_path: Path) -> None:
    study = keeping(study, "all")
    said: list[str] = []
    run_study(study, tmp_path / "shared", say=said.append)
    run_study(study, tmp_path / "alone", work=plan_work(study.cells, CellKeys(load_plugins()), False))
    assert found(tmp_path / "shared") == found(tmp_path / "alone")
    assert len(list((tmp_path / "shared" / "shared").iterdir())) == 4
    assert not (tmp_path / "alone" / "shared").exists()
    assert [line.split(" in ")[0] for line in said[:4]] == ["the shared stages pairs: finished"] * 4
    assert said[-1].startswith("8 of 8: 0.25, 0.5, seed 2: finished in ")
    assert len({tuple(scores) for scores in found(tmp_path / "shared").values()}) == 8


def test_a_run_that_goes_on_from_shared_stages_says_so_and_keeps_their_log(
    study: Study, tmp_path: Path
) -> None:
    run_study(study, tmp_path / "study")
    run = next((tmp_path / "study" / "cells").iterdir())
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["went_on_from"].startswith("pairs-")
    events = [json.loads(line)["event"] for line in (run / "log.jsonl").read_text().splitlines()]
    assert events.count("run_started") == 1
    assert events.count("stage_started") == 2
    assert events.count("run_resumed") == 1
    report = json.loads((run / "report.json").read_text())
    assert [stage["name"] for stage in report["stages"]] == ["pairs", "tune"]


# --- what stays --------------------------------------------------------------------------------------------


def weights(directory: Path) -> set[str]:
    """Return what is there of checkpoints, encoders and shared stages."""
    runs = [*(directory / "cells").iterdir()]
    assert len(runs) == 8
    assert not [*directory.rglob(".*.gone")]
    held = {name for run in runs for name in ("checkpoints", "encoder") if (run / name).is_dir()}
    return held | ({"shared"} if [*directory.glob("shared/*")] else set())


@pytest.mark.parametrize(
    ("keep", "held"),
    [("scores", set()), ("best", {"encoder"}), ("all", {"encoder", "checkpoints", "shared"})],
)
def test_what_is_to_be_kept_stays_and_scores_in_any_case(
    keep: str, held: set[str], study: Study, tmp_path: Path
) -> None:
    run_study(keeping(study, "all"), tmp_path / "all")
    run_study(keeping(study, keep), tmp_path / "study")
    assert weights(tmp_path / "study") == held
    assert found(tmp_path / "study") == found(tmp_path / "all")
    # Also of runs that had finished before.
    said: list[str] = []
    run_study(keeping(study, keep), tmp_path / "all", say=said.append)
    assert all(": was finished" in line for line in said)
    assert weights(tmp_path / "all") == held
    assert found(tmp_path / "study") == found(tmp_path / "all")


def test_shared_stages_stay_until_the_last_cell_has_gone_on_from_them(study: Study, tmp_path: Path) -> None:
    study = keeping(study, "scores")
    run_study(study, tmp_path / "study", only=[{"lr": "0.5"}])
    assert len([*tmp_path.glob("study/shared/*")]) == 4
    run_study(study, tmp_path / "study")
    assert [*tmp_path.glob("study/shared/*")] == []


def test_cells_that_are_added_later_train_the_removed_stages_again(
    study: Study, put: Callable[[str, str], Path], tmp_path: Path
) -> None:
    run_study(study, tmp_path / "study")
    more = read_study(put("more.toml", TOWERS + AXES.replace("[0.5, 0.25]", "[0.5, 0.25, 0.125]")))
    run_study(more, tmp_path / "study")
    run_study(more, tmp_path / "alone", work=plan_work(more.cells, CellKeys(load_plugins()), False))
    assert len(found(tmp_path / "study")) == 12
    assert found(tmp_path / "study") == found(tmp_path / "alone")


def test_what_cannot_be_removed_is_said(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = Path.replace

    def refuse(self: Path, target: Path) -> Path:
        if self.name == "checkpoints":
            raise PermissionError(13, "Permission denied", str(self))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(RunError, match=r"checkpoints` is not to be kept and cannot be removed: Permission"):
        run_study(study, tmp_path / "study")


def test_what_has_finished_is_not_run_again(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_study(study, tmp_path / "study")
    monkeypatch.setattr(running, "_run", lambda *_: pytest.fail("a run was started"))
    said: list[str] = []
    run_study(study, tmp_path / "study", say=said.append)
    assert len(said) == 8
    assert all(line.endswith(": was finished") for line in said)


@pytest.mark.slow
def test_a_changed_recipe_runs_the_cells_that_it_changes(
    study: Study, tmp_path: Path, put: Callable[[str, str], Path]
) -> None:
    run_study(study, tmp_path / "study")
    changed = read_study(put("study.toml", TOWERS + AXES.replace("[0.5, 0.25]", "[0.5, 0.125]")))
    said: list[str] = []
    run_study(changed, tmp_path / "study", say=said.append)
    assert [": was finished" in line for line in said if " of 8: " in line] == [True] * 4 + [False] * 4
    assert {cell.name for cell in read_data(tmp_path / "study").cells} == set(changed.names)


def test_a_cell_that_fails_ends_the_study_with_the_reason_and_keeps_the_rest(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = running._run

    def fails(directory: Path, plugins: object, job: Job, *rest: object) -> None:
        if str(job) == "0.25, 0.0, seed 1":
            raise RunError("the disk is full")
        work(directory, plugins, job, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(running, "_run", fails)
    with pytest.raises(
        RunError, match=r"0\.25, 0\.0, seed 1 failed: the disk is full; what has finished is kept"
    ):
        run_study(study, tmp_path / "study")
    assert read_data(tmp_path / "study").finished == 4
    result = run_study(study, tmp_path / "study", keep_going=True)
    assert [(str(one.job), one.error) for one in result.failed] == [("0.25, 0.0, seed 1", "the disk is full")]
    assert read_data(tmp_path / "study").finished == 7
    monkeypatch.setattr(running, "_run", work)
    assert run_study(study, tmp_path / "study").failed == ()
    assert read_data(tmp_path / "study").finished == 8


def test_a_fault_that_is_not_sentbeds_own_keeps_its_traceback(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(running, "_run", fails)
    with pytest.raises(RunError, match="ZeroDivisionError: by zero") as caught:
        run_study(study, tmp_path / "study")
    assert "in fails" in caught.value.__notes__[0]


def test_cells_of_stages_that_failed_say_so(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = running._run

    def fails(directory: Path, plugins: object, job: Job, *rest: object) -> None:
        if job.stages:
            raise RunError("no data")
        work(directory, plugins, job, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(running, "_run", fails)
    result = run_study(study, tmp_path / "study", keep_going=True)
    assert len(result.failed) == 12
    assert "which it goes on from, have not finished" in result.failed[-1].error


def test_a_cell_that_another_process_is_at_is_waited_for(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "study"
    run_study(study, directory, only=[{"lr": "0.5"}])
    run = next(d for d in (directory / "cells").iterdir() if d.name.startswith("0.5_0.0-seed1"))
    manifest = run / "manifest.json"
    finished = manifest.read_text()
    manifest.write_text(finished.replace('"finished"', '"running"'))
    looks = 0

    def wait(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            manifest.write_text(finished)
            held.__exit__(None, None, None)

    monkeypatch.setattr(running.time, "sleep", wait)
    held = locked(lock_of(directory.resolve(), run))
    assert held.__enter__()
    data = read_data(directory)
    assert [r.status for cell in data.cells for r in cell.runs][:3] == ["running", "finished", "finished"]
    run_study(study, directory)
    assert looks == 2
    assert read_data(directory).finished == 8


def test_only_some_cells_are_run_and_all_are_listed(study: Study, tmp_path: Path) -> None:
    run_study(study, tmp_path / "study", only=[{"lr": "0.5", "noise": "0.5"}])
    data = read_data(tmp_path / "study")
    assert (data.finished, data.total) == (2, 8)
    assert [run.status for cell in data.cells for run in cell.runs].count("waiting") == 6
    with pytest.raises(RecipeError, match="there is no axis `ls`"):
        run_study(study, tmp_path / "study", only=[{"ls": "0.5"}])


def test_another_study_in_the_same_directory_is_refused(
    study: Study, tmp_path: Path, put: Callable[[str, str], Path]
) -> None:
    only = [{"lr": "0.5", "noise": "0.0"}]
    run_study(study, tmp_path / "study", only=only)
    before = found(tmp_path / "study")
    text = (TOWERS + AXES).replace('name = "towers"', 'name = "bridges"').replace("[0.5, 0.25]", "[0.4, 0.3]")
    other = read_study(put("other.toml", text.replace('lr = "0.5"', 'lr = "0.4"')))
    with pytest.raises(RunError, match=r"study` holds the study `towers`, and this one is `bridges`; choose"):
        run_study(other, tmp_path / "study")
    assert found(tmp_path / "study") == before


def test_a_changed_recipe_is_refused_while_another_process_works_by_the_first(
    study: Study, tmp_path: Path, put: Callable[[str, str], Path]
) -> None:
    changed = read_study(put("study.toml", TOWERS + AXES.replace("[0.5, 0.25]", "[0.5, 0.125]")))
    only = [{"lr": "0.5", "noise": "0.0"}]
    refused: list[str] = []

    def say(line: str) -> None:
        before = (tmp_path / "study" / "study.json").read_bytes()
        with pytest.raises(RunError) as caught:
            run_study(changed, tmp_path / "study")
        refused.append(str(caught.value))
        assert (tmp_path / "study" / "study.json").read_bytes() == before
        run_study(study, tmp_path / "study", only=[{"lr": "0.25", "noise": "0.0"}])  # the same study may

    run_study(study, tmp_path / "study", only=only, say=say)
    assert len(refused) == 4  # after each of two shared stages and two cells
    assert set(refused) == {
        f"another process works in `{tmp_path}/study` on a study by another recipe; let it end first, or "
        "choose another `--out`"
    }
    run_study(changed, tmp_path / "study", only=only)
    assert not list((tmp_path / "study" / "locks").glob("at-work-*"))


def test_a_directory_that_holds_something_else_is_left_alone(study: Study, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").touch()
    with pytest.raises(RunError, match=r"already holds `thesis\.tex`"):
        run_study(study, other)


def test_cells_say_in_what_they_differ_from_the_baseline(study: Study, tmp_path: Path) -> None:
    run_study(study, tmp_path / "study", only=[{"lr": "0.25"}])
    cells = {cell.name: cell for cell in read_data(tmp_path / "study").cells}
    assert cells["0.5, 0.0"].differences == ()
    assert cells["0.25, 0.5"].differences == (
        "stage.pairs.loss.noise: 0.0 -> 0.5",
        "stage.tune.optimizer.lr: 0.5 -> 0.25",
    )
    assert cells["0.25, 0.5"].labels == {"lr": "0.25", "noise": "0.5"}


def test_a_directory_without_a_study_is_none(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"is no study \(no `study.json` in it\)"):
        read_data(tmp_path)


@pytest.mark.parametrize("left", ["study.toml", ".study.json.k2j4h5g6"])
def test_a_directory_whose_making_was_cut_short_is_taken_up(left: str, study: Study, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / left).touch()
    run_study(study, tmp_path / "new", only=[{"lr": "0.5", "noise": "0.0"}])
    assert read_data(tmp_path / "new").finished == 2


def test_stages_that_nobody_needs_any_more_are_not_trained_again(study: Study, tmp_path: Path) -> None:
    run_study(study, tmp_path / "study")
    shutil.rmtree(tmp_path / "study" / "shared")
    said: list[str] = []
    run_study(study, tmp_path / "study", say=said.append)
    assert len(said) == 8
    assert not (tmp_path / "study" / "shared").exists()


def test_shared_stages_leave_one_state_and_no_encoder(study: Study, tmp_path: Path) -> None:
    run_study(study, tmp_path / "study")
    for run in (tmp_path / "study" / "shared").iterdir():
        assert [path.name for path in (run / "states").iterdir()] == ["01-00000000"]
        assert not (run / "encoder").exists()
    assert not list((tmp_path / "study" / "cells").glob("*/states"))


def test_a_state_that_was_damaged_is_no_place_to_go_on_from(study: Study, tmp_path: Path) -> None:
    only = [{"lr": "0.5", "noise": "0.0"}]
    run_study(study, tmp_path / "study", only=only)
    shutil.rmtree(tmp_path / "study" / "cells")
    for run in (tmp_path / "study" / "shared").iterdir():
        (run / "states" / "01-00000000" / "state.json").write_text("{}")
    with pytest.raises(RunError, match="has left no state to go on from; remove it, and it is done again"):
        run_study(study, tmp_path / "study", only=only)


def test_a_study_that_was_stopped_may_be_renamed(
    study: Study, tmp_path: Path, put: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    only = [{"lr": "0.5", "noise": "0.0"}]
    evaluate = runner._evaluate

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "_evaluate", stopped)
    with pytest.raises(KeyboardInterrupt):
        run_study(study, tmp_path / "study", only=only)
    monkeypatch.setattr(runner, "_evaluate", evaluate)
    renamed = read_study(put("study.toml", (TOWERS + AXES).replace('name = "towers"', 'name = "bridges"')))
    assert run_study(renamed, tmp_path / "study", only=only).failed == ()
    assert read_data(tmp_path / "study").finished == 2


def test_a_cell_with_a_search_runs_with_the_winner_and_keeps_the_ranking(
    put: Callable[[str, str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("d.tsv", "sentence\tword\nA cat naps.\tSleep\nThe oven is hot.\tBread\n")
    axes = '\n[study.axes.width]\npath = "encoder.backbone.width"\nvalues = [4, 6]\n'
    study = read_study(put("search.toml", SEARCH + axes))
    run_study(study, tmp_path / "study")
    cells = read_data(tmp_path / "study").cells
    for cell in cells:
        rows = cell.runs[0].record["ranking"]["rows"]
        assert {row["word"] for row in rows} == {"", "Sleep", "Bread"}
        best = next(row["word"] for row in rows if row["rank"] == 1)
        assert cell.runs[0].directory is not None
        resolved = (tmp_path / "study" / cell.runs[0].directory / "resolved.toml").read_text()
        assert f'word = "{best}"' in resolved
        assert "[search]" not in resolved
    monkeypatch.setattr(running, "search", lambda *_: pytest.fail("it was searched again"))
    for manifest in (tmp_path / "study" / "cells").glob("*/manifest.json"):
        manifest.write_text(manifest.read_text().replace('"finished"', '"running"'))
    run_study(study, tmp_path / "study")
    assert read_data(tmp_path / "study").finished == 2
