"""Evaluators that are added to, renamed in and taken out of a study whose cells have finished."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner
from sentbed._cli.main import main
from sentbed.errors import RunError
from sentbed.protocols import Evaluator
from sentbed.tools import Plugins, computing_code
from sentbed_studies import runner as running
from sentbed_studies.runner import run_study
from sentbed_studies.study import Study, read_study
from sentbed_studies.write_study_directory import read_data
from toy_plugin import TOWERS

AXES = """
[study]
seeds = [1, 2]
KEEP
[study.axes.lr]
path = "stage.tune.optimizer.lr"
values = [0.5, 0.25]
"""
GAP = """
[[evaluate]]
use = "gap"
encoder = "zh"
at = ["start", "end"]
"""
NEARNESS = """
[[evaluate]]
use = "nearness"
encoder = "zh"
at = ["start", "end"]
"""
RECIPE = TOWERS.partition("[[evaluate]]")[0]

pytestmark = pytest.mark.usefixtures("installed_toy", "quick")


@pytest.fixture
def study_with(put: Callable[[str, str], Path]) -> Callable[..., Study]:
    """Read two cells of two seeds with these evaluations."""

    def read(*evaluations: str, keep: str = "best") -> Study:
        axes = AXES.replace("KEEP", f'keep = "{keep}"')
        return read_study(put("study.toml", RECIPE + "".join(evaluations) + axes))

    return read


def scores_of(directory: Path) -> dict[str, list[tuple[str, str, str, float]]]:
    """Return the scores of each run, as the report has them."""
    found = {}
    for cell in read_data(directory).cells:
        for run in cell.runs:
            assert run.status == "finished"
            found[f"{cell.name}, {run.seed}"] = [
                (score.encoder, score.evaluator, score.task, score.value) for score in run.scores
            ]
    return found


def weights_of(directory: Path) -> dict[Path, tuple[int, bytes]]:
    """Return time and content of the files of all encoders."""
    files = [path for path in directory.glob("cells/*/encoder/**/*") if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def test_an_added_evaluator_is_computed_from_the_kept_encoders_to_the_bit(
    study_with: Callable[..., Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_study(study_with(GAP), tmp_path / "study")
    before = weights_of(tmp_path / "study")
    assert before
    run_study(study_with(GAP, NEARNESS), tmp_path / "whole")
    monkeypatch.setattr(running, "_run", lambda *_: pytest.fail("a cell was trained again"))
    run_study(study_with(GAP, NEARNESS), tmp_path / "study")
    assert weights_of(tmp_path / "study") == before
    added, whole = scores_of(tmp_path / "study"), scores_of(tmp_path / "whole")
    assert {name: sorted(scores) for name, scores in added.items()} == {
        name: sorted(scores) for name, scores in whole.items()
    }
    assert len({evaluator for _, evaluator, *_ in added["0.5, 1"]}) == 2
    monkeypatch.setattr(running, "add_evaluations", lambda *_: pytest.fail("it was computed again"))
    run_study(study_with(GAP, NEARNESS), tmp_path / "study")


def test_a_dropped_evaluator_reruns_nothing_and_is_left_out_of_the_scores_until_it_is_back(
    study_with: Callable[..., Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_study(study_with(GAP, NEARNESS), tmp_path / "study")
    whole = scores_of(tmp_path / "study")
    for part in ("_run", "add_evaluations"):
        monkeypatch.setattr(running, part, lambda *_: pytest.fail("something was run"))
    run_study(study_with(NEARNESS), tmp_path / "study")
    assert scores_of(tmp_path / "study") == {
        name: [score for score in scores if score[1] == "nearness"] for name, scores in whole.items()
    }
    run_study(study_with(GAP, NEARNESS), tmp_path / "study")
    assert scores_of(tmp_path / "study") == whole


def test_a_renamed_evaluator_is_computed_again_and_nothing_is_trained(
    study_with: Callable[..., Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_study(study_with(NEARNESS), tmp_path / "study")
    before = scores_of(tmp_path / "study")
    monkeypatch.setattr(running, "_run", lambda *_: pytest.fail("a cell was trained again"))
    run_study(study_with(NEARNESS + 'task = "closeness"\n'), tmp_path / "study")
    assert scores_of(tmp_path / "study") == {
        name: [(*who, "closeness", value) for *who, _, value in scores] for name, scores in before.items()
    }


def test_a_killed_evaluation_is_made_again(study_with: Callable[..., Study], tmp_path: Path) -> None:
    run_study(study_with(GAP), tmp_path / "study")
    run_study(study_with(GAP, NEARNESS), tmp_path / "study")
    whole = scores_of(tmp_path / "study")
    for number, manifest in enumerate(sorted(tmp_path.glob("study/cells/*/added/*/manifest.json"))):
        if number % 3 == 0:
            manifest.unlink()
        elif number % 3 == 1:
            manifest.write_text(json.dumps({"status": "running"}))
    run_study(study_with(GAP, NEARNESS), tmp_path / "study")
    assert scores_of(tmp_path / "study") == whole


def test_without_a_kept_encoder_it_is_asked_before_a_cell_is_trained_again(
    study_with: Callable[..., Study], tmp_path: Path
) -> None:
    run_study(study_with(GAP, keep="scores"), tmp_path / "study")
    before = scores_of(tmp_path / "study")
    study = study_with(GAP, NEARNESS, keep="scores")
    with pytest.raises(RunError, match=r"4 runs of .* have kept no encoder, .* \(`--retrain`\)"):
        run_study(study, tmp_path / "study")
    assert scores_of(tmp_path / "study") == before
    run_study(study, tmp_path / "study", retrain=True)
    run_study(study_with(GAP, NEARNESS), tmp_path / "whole")
    assert scores_of(tmp_path / "study") == scores_of(tmp_path / "whole")


def test_a_stopped_cell_goes_on_with_its_evaluations_and_is_given_the_others(
    study_with: Callable[..., Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise RunError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr("sentbed._run.runner._save", interrupted)
        with pytest.raises(RunError, match="stopped"):
            run_study(study_with(GAP), tmp_path / "study")
    assert list(tmp_path.glob("study/cells/*/manifest.json"))
    run_study(study_with(NEARNESS, GAP), tmp_path / "study")
    run_study(study_with(NEARNESS, GAP), tmp_path / "whole")
    added, whole = scores_of(tmp_path / "study"), scores_of(tmp_path / "whole")
    assert {name: sorted(scores) for name, scores in added.items()} == {
        name: sorted(scores) for name, scores in whole.items()
    }


def test_a_stopped_cell_whose_evaluators_were_edited_since_goes_on_and_is_evaluated_anew(
    study_with: Callable[..., Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise RunError("stopped")

    study = study_with(GAP, NEARNESS)
    with monkeypatch.context() as patch:
        patch.setattr("sentbed._run.runner._save", interrupted)
        with pytest.raises(RunError, match="stopped"):
            run_study(study, tmp_path / "study")
    (keys,) = tmp_path.glob("study/cells/*/keys.json")
    content = json.loads(keys.read_text())
    # As by other code of the evaluators.
    content["evaluations"] = [f"other {number}" for number in range(4)]
    keys.write_text(json.dumps(content))
    run_study(study, tmp_path / "study")
    run_study(study, tmp_path / "whole")
    assert scores_of(tmp_path / "study") == scores_of(tmp_path / "whole")
    assert len(list(keys.parent.glob("added/*"))) == 4
    assert len(list(tmp_path.glob("study/cells/*/added/*"))) == 4


@pytest.mark.parametrize("content", ["", "[]", "[" * 100_000, '{"content": 3, "evaluations": 4}'], ids=len)
def test_damaged_keys_are_no_keys(content: str, study_with: Callable[..., Study], tmp_path: Path) -> None:
    study = study_with(GAP)
    run_study(study, tmp_path / "study")
    whole = scores_of(tmp_path / "study")
    for file in tmp_path.glob("study/cells/*/keys.json"):
        file.write_text(content)
    assert "evaluated, not trained again: 4 finished runs, with `gap`" in plan(tmp_path)
    run_study(study, tmp_path / "study")
    assert scores_of(tmp_path / "study") == whole


def plan(directory: Path, *more: str) -> list[str]:
    arguments = ["study", str(directory / "study.toml"), "--out", str(directory / "study"), "--dry-run"]
    result = CliRunner().invoke(main, [*arguments, *more])
    assert result.exit_code == 0, result.output
    return [line.strip() for line in result.output.splitlines()]


def test_the_plan_says_what_is_added_left_out_trained_again_and_what_differs(
    study_with: Callable[..., Study], tmp_path: Path
) -> None:
    run_study(study_with(GAP), tmp_path / "study")
    study_with(NEARNESS, GAP)
    lines = plan(tmp_path)
    assert lines[0] == "study towers: 2 cells x 2 seeds = 4 runs, 0 finished, 4 trained that lack evaluations"
    assert "evaluated, not trained again: 4 finished runs, with `nearness`" in lines
    study_with(NEARNESS)
    assert any(
        line.startswith("left out: scores of 4 finished runs by evaluations") for line in plan(tmp_path)
    )
    lines = plan(tmp_path, "--set", "stage.pairs.batch_size=3")
    assert "run again: 4 finished runs lie under other keys: stage.pairs.batch_size: 4 -> 3" in lines
    (keys,) = tmp_path.glob("study/cells/0.5-seed1-*/keys.json")
    content = json.loads(keys.read_text())
    content["content"]["code"] |= {"torch": "2.1", "sentbed": "0.1.0 0"}
    keys.write_text(json.dumps(content))
    keys.parent.rename(keys.parent.with_name(keys.parent.name[:-10] + "0" * 10))
    (line,) = (line for line in plan(tmp_path) if line.startswith("run again: "))
    assert line.startswith(
        "run again: 1 finished run lies under other keys: sentbed: other code; torch 2.1 -> "
    )
    for encoder in tmp_path.glob("study/cells/*/encoder"):
        shutil.rmtree(encoder)
    (line,) = (line for line in plan(tmp_path) if "--retrain" in line)
    assert line.startswith("to be trained again (`--retrain`): 3 finished runs, which have kept no encoder")


LEFT_OUT = "left out: scores of 4 finished runs by evaluations that the recipe has no more; they stay on disk"


def test_the_plan_says_that_an_evaluation_which_was_added_is_left_out(
    study_with: Callable[..., Study], tmp_path: Path
) -> None:
    run_study(study_with(GAP), tmp_path / "study")
    run_study(study_with(GAP, NEARNESS), tmp_path / "study")
    assert LEFT_OUT not in plan(tmp_path)
    study_with(GAP)
    assert LEFT_OUT in plan(tmp_path)


def test_the_plan_says_what_differs_of_an_evaluation_whose_code_was_edited(
    study_with: Callable[..., Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def edited(classes: Iterable[type], plugins: Plugins) -> dict[str, str]:
        known = list(classes)
        code = computing_code(known, plugins)
        if any(issubclass(cls, Evaluator) for cls in known):
            code["toy-evaluators"] = "0.1 edited"
        return code

    run_study(study_with(GAP), tmp_path / "study")
    run_study(study_with(GAP, NEARNESS), tmp_path / "study")
    monkeypatch.setattr("sentbed_studies.cell_keys.computing_code", edited)
    changed = (
        "left out: scores of 4 finished runs, computed under other keys: toy-evaluators none -> 0.1; "
        "they stay on disk"
    )
    lines = plan(tmp_path)
    assert "evaluated, not trained again: 4 finished runs, with `gap`, `nearness`" in lines
    assert changed in lines
    assert LEFT_OUT not in lines
    run_study(study_with(GAP, NEARNESS), tmp_path / "study")
    assert changed in plan(tmp_path)
    study_with(GAP)
    assert {changed, LEFT_OUT} <= set(plan(tmp_path))


def test_evaluations_of_damaged_keys_are_left_out_of_the_plan(
    study_with: Callable[..., Study], tmp_path: Path
) -> None:
    run_study(study_with(GAP, NEARNESS), tmp_path / "study")
    for file in tmp_path.glob("study/cells/*/keys.json"):
        content = json.loads(file.read_text())
        content["evaluation_contents"] = dict.fromkeys(content["evaluation_contents"], 3)
        file.write_text(json.dumps(content))
    study_with(GAP)
    assert LEFT_OUT in plan(tmp_path)
