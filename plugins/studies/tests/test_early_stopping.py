"""What is decided while a study runs: it follows from the scores, whatever happens in between."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner
from sentbed._cli.main import main
from sentbed._registry.registry import load_plugins
from sentbed.errors import RecipeError, RunError
from sentbed_jobs.local_pool import LocalPool
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.decisions import DECISIONS, Rule, read_decisions
from sentbed_report.study.read_study_directory import read_data
from sentbed_report.study.selection import select
from sentbed_studies.cell_keys import CellKeys
from sentbed_studies.deciding_evidence import DecidingEvidence
from sentbed_studies.early_stopping import _plan_of, needless_runs
from sentbed_studies.runner import run_study
from sentbed_studies.sequential_test import SequentialTest
from sentbed_studies.shared_work_plan import plan_work
from sentbed_studies.spending import shares
from sentbed_studies.study import read_study
from sentbed_studies.study_plan import StudyPlan
from sentbed_studies.study_reports import write_reports
from sentbed_studies.study_status import status_of
from sentbed_studies.time_left import TimeLeft
from toy_plugin import TOWERS

AXES = """
[[evaluate]]
use = "nearness"
words = 20
encoder = "zh"

[study]
seeds = [1, 2, 3, 4, 5]
baseline = { lr = "0.5", noise = "0.0" }
decide = { test_data = true, tasks = ["near"] }
stop = {}
[study.axes.lr]
path = "stage.tune.optimizer.lr"
values = [0.5, 0.02]
[study.axes.noise]
path = "stage.pairs.loss.noise"
values = [0.0, 0.5]
"""

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("installed_toy", "quick")]


@pytest.fixture
def study(put):
    """Four cells of five seeds, of which two are clearly worse."""
    return read_study(put("study.toml", TOWERS + AXES))


def decided(directory):
    decisions = read_decisions(directory)
    assert decisions is not None
    return decisions


def progress(lines):
    """What lines of progress count: `3 of 20` and so on."""
    counts = [line.split(": ")[0] for line in lines]
    return [count for count in counts if " of " in count]


class StopsHereError(Exception):
    """Raised in place of a kill."""


def run_until(study, directory, runs_done):
    """Run a study until so many runs have finished, and one more."""
    lines = []

    def say(line):
        lines.append(line)
        if len(progress(lines)) > runs_done:
            raise StopsHereError

    with pytest.raises(StopsHereError):
        run_study(study, directory, say=say)


def runs(directory):
    data = read_data(directory)
    assert data.finished == data.total
    return {(run.cell, run.seed) for cell in data.cells for run in cell.runs}


@pytest.fixture(scope="module")
def lines_of_whole():
    """Lines of progress of the study in `whole`."""
    return []


@pytest.fixture
def whole(study, copied, lines_of_whole):
    """Directory of a study that was not interrupted."""
    return copied(lambda kept: run_study(study, kept, say=lines_of_whole.append))


def test_the_chosen_cell_is_run_with_fresh_seeds_when_all_others_have_finished(
    put, directory
):
    axes, _, _ = AXES.partition("[study.axes.noise]")
    axes = axes.replace("stop = {}\n", "").replace(', noise = "0.0"', "")
    axes = axes.replace("seeds = [1, 2, 3, 4, 5]", "seeds = [1, 2]")
    axes = axes.replace("test_data = true", "test_data = true, confirm = 2")
    study = read_study(put("study.toml", TOWERS + axes))
    run_study(study, directory)
    assert read_decisions(directory) is None
    data = read_data(directory)
    selection = select(data, summarise(data))
    assert selection is not None
    assert selection.fresh_seeds == (3, 4)
    assert selection.confidence == 0.95
    fresh = [(cell.name, run.seed) for cell in data.cells for run in cell.confirmation]
    assert fresh == [(selection.cell, 3), (selection.cell, 4)]
    assert runs(directory) == {(cell, seed) for cell in study.names for seed in (1, 2)}
    table = status_of(data).table()
    number = 2 * len(study.names) + 2
    assert (table["finished"], table["total"], len(table["runs"])) == (
        number,
        number,
        number,
    )
    first, *_ = lines = list(status_of(data).lines())
    assert first.endswith(f": {number} runs: {number} finished")
    assert [line.split(":")[0].strip() for line in lines[-2:]] == [
        f"{selection.cell}, fresh seed {seed}" for seed in (3, 4)
    ]
    # Started again, nothing is run again.
    lines = []
    run_study(study, directory, say=lines.append)
    assert not any(line.endswith(" s") for line in lines)
    assert any("fresh seeds" in line for line in lines)


def test_worse_cells_get_no_further_seeds(study, whole, lines_of_whole):
    decisions = decided(whole)
    assert {claim.cell for claim in decisions.claims} == {"0.02, 0.0", "0.02, 0.5"}
    assert all(
        claim.than.startswith("0.5") and claim.p_value < 0.05
        for claim in decisions.claims
    )
    assert decisions.at_work == ("0.5, 0.0", "0.5, 0.5")
    assert decisions.ended
    assert decisions.winner is None
    stopped = {claim.cell: claim.seeds for claim in decisions.claims}
    expected = {
        (cell, seed)
        for cell in study.names
        for seed in range(1, stopped.get(cell, 5) + 1)
    }
    assert runs(whole) == expected
    assert read_data(whole).needless == 20 - len(expected) > 0
    for claim in decisions.claims:
        assert any(
            line.startswith(
                f"{claim.cell}: stopped after {claim.seeds} seeds: worse than"
            )
            for line in lines_of_whole
        )
    # Every run is counted once, and those that are not done are taken from the whole.
    counts = progress(lines_of_whole)
    assert counts[-1] == f"{len(expected)} of {len(expected)}"
    assert len(counts) == len(expected)


def test_a_study_that_no_longer_stops_has_all_runs_and_they_decide_the_same(
    study, whole
):
    assert read_data(whole).needless
    claims = decided(whole).claims
    full = read_study(_changed(study, "stop = {}", ""))
    run_study(full, whole)
    data = read_data(whole)
    assert (data.decisions, data.needless, data.finished) == (None, 0, 20)
    # Tests are corrected for the looks that were made.
    assert data.looks == 4

    work = plan_work(full.cells, CellKeys(load_plugins()))
    assert full.table.decide is not None
    evidence = DecidingEvidence(whole, full.table.decide, work.tasks)
    test = SequentialTest(
        full.names, (2, 3, 4, 5), shares=shares((full.seeds, (2, 3, 4, 5)))
    )
    for number_of_seeds in test.looks:
        facts = evidence.of(test.at_work, full.seeds[:number_of_seeds])
        test.look(facts.values, facts.items)
    assert tuple(test.claims) == claims


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(3, marks=pytest.mark.slow),
        9,
        pytest.param(14, marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_study_decides_the_same(after, study, whole, directory):
    run_until(study, directory, after)
    run_study(study, directory)
    assert (directory / DECISIONS).read_bytes() == (whole / DECISIONS).read_bytes()
    assert runs(directory) == runs(whole)
    lines = []
    run_study(study, directory, say=lines.append)
    assert not [line for line in lines if "finished in" in line]
    assert (directory / DECISIONS).read_bytes() == (whole / DECISIONS).read_bytes()


@pytest.mark.slow
def test_the_order_of_the_runs_changes_nothing(study, whole, directory):
    # All runs of the worst cell first, also those that would not have been needed.
    run_study(study, directory, only=[{"lr": "0.02", "noise": "0.5"}])
    assert read_decisions(directory) is None
    run_study(study, directory)
    assert decided(directory).claims == decided(whole).claims
    assert runs(whole) < runs(directory)
    # What was done although it was not needed is not counted among what was not.
    data = read_data(directory)
    assert data.needless == 20 - data.finished < read_data(whole).needless


@pytest.mark.slow
def test_a_sampled_study_stops_among_the_cells_that_were_sampled(
    study, directory, tmp_path
):
    changed = _changed(study, "stop = {}", "stop = { error_rate = 0.4 }")
    changed.write_text(
        changed.read_text() + '[study.sampler]\nuse = "nearby"\ncells = 3\nbatch = 2\n'
    )
    study = read_study(changed)
    lines = []
    run_study(study, directory, say=lines.append)
    decisions = decided(directory)
    data = read_data(directory)
    assert data.sampled is not None
    # Claims on cells that the sampler left out were possible, too.
    assert (len(data.cells), len(decisions.rule.cells)) == (3, 4)
    assert {claim.cell for claim in decisions.claims} <= {*data.sampled.names}
    assert decisions.claims
    assert data.finished == data.total == 15 - data.needless < 15
    assert progress(lines)[-1] == f"{data.total} of {data.total}"

    run_until(study, tmp_path / "again", 4)
    run_study(study, tmp_path / "again")
    assert decided(tmp_path / "again") == decisions
    assert runs(tmp_path / "again") == runs(directory)


@pytest.mark.slow
def test_two_workers_decide_the_same(study, whole, directory):
    run_study(study, directory, executor=LocalPool(2))
    assert (directory / DECISIONS).read_bytes() == (whole / DECISIONS).read_bytes()


def test_a_winner_ends_the_study(study, directory):
    study = read_study(
        _changed(study, "values = [0.0, 0.5]", "values = [0.0]"), plugins=load_plugins()
    )
    run_study(study, directory)
    decisions = decided(directory)
    assert decisions.winner == "0.5, 0.0"
    assert decisions.ended
    needless = read_data(directory).needless
    assert len(runs(directory)) == 10 - needless < 10
    write_reports(directory)
    text = (directory / "report.md").read_text()
    assert "The best cell is 0.5, 0.0: all others were shown to be worse." in text
    assert f"{needless} runs of 10" in text


def _changed(study, old, new):
    path = Path(str(study.document.file))
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


@pytest.mark.slow
def test_against_the_baseline_better_cells_go_on(study, directory):
    study = read_study(
        _changed(
            study, "stop = {}", 'stop = { worse_than = "baseline", error_rate = 0.1 }'
        )
    )
    run_study(study, directory)
    decisions = decided(directory)
    assert {claim.cell for claim in decisions.claims} == {"0.02, 0.0", "0.02, 0.5"}
    assert {claim.than for claim in decisions.claims} == {study.baseline}


def test_a_failed_cell_is_not_compared_and_says_why(study, whole, fail):
    # As before its first look, but for the runs that have finished.
    (whole / DECISIONS).unlink()
    (run,) = whole.glob("cells/0.02_0.5-seed2-*")
    shutil.rmtree(run)
    fail(
        lambda job: RunError("no") if str(job).startswith("0.02, 0.5, seed 2") else None
    )
    result = run_study(study, whole, keep_going=True)
    assert [str(outcome.job) for outcome in result.failed] == ["0.02, 0.5, seed 2"]
    decisions = decided(whole)
    assert {claim.cell for claim in decisions.claims} == {"0.02, 0.0"}
    assert decisions.left == {"0.02, 0.5": "it has no score that decides under seed 2"}
    assert "0.02, 0.5" in decisions.at_work


@pytest.mark.slow
def test_a_study_in_which_nothing_decides_ends_at_the_first_look(study, directory):
    study = read_study(_changed(study, 'tasks = ["near"]', 'tasks = ["nearer"]'))
    message = (
        r"nothing decides between the cells: of 0.5, 0.0, it has no score that decides under "
        r"seed 1; its scores are of across \(development data\), near \(test data\); name some"
    )
    with pytest.raises(RunError, match=message):
        run_study(study, directory)
    assert read_data(directory).finished == 8


@pytest.mark.slow
def test_another_rule_is_noted(study, directory):
    run_study(study, directory)
    first = decided(directory).rule
    run_study(study, directory)
    assert decided(directory).earlier == ()
    other = read_study(_changed(study, "stop = {}", "stop = { error_rate = 0.2 }"))
    run_study(other, directory)
    assert decided(directory).earlier == (first,)
    write_reports(directory)
    assert (
        "The rule or the cells were changed while the study ran (1 other rule before)"
        in (directory / "report.md").read_text()
    )


@pytest.mark.slow
def test_a_run_that_cannot_begin_stays_in_the_report_of_a_study_that_has_ended(
    study, directory, fail
):
    fail(
        lambda job: (
            RunError("no")
            if job.stages is not None and job.recipe.run.seed == 2
            else None
        )
    )
    run_study(study, directory, keep_going=True)
    assert decided(directory).ended
    data = read_data(directory)
    # Their shared stages failed, so that they have not begun.
    assert [
        run.status for cell in data.cells for run in cell.runs if run.seed == 2
    ] == ["waiting"] * 4
    assert (data.finished, data.total, data.needless) == (16, 20, 0)


def test_looks_that_are_made_again_take_nothing_back(study, whole, monkeypatch):
    before = (whole / DECISIONS).read_bytes()
    seen = []
    run = SequentialTest.look

    def recorded_look(test, *rest):
        seen.append((whole / DECISIONS).read_bytes())
        return run(test, *rest)

    monkeypatch.setattr(SequentialTest, "look", recorded_look)
    run_study(study, whole)
    assert len(seen) == 4
    assert set(seen) == {before}


def test_tests_of_tables_are_corrected_for_the_looks(study, whole, tmp_path):
    write_reports(whole)
    text = (whole / "report.md").read_text()
    assert "times the 4 looks at which cells may be stopped." in text
    assert "## Decisions" in text
    assert "at any look and about any of 4 cells, is at most 0.05," in text


def test_damaged_decisions_are_told(study, whole):
    path = whole / DECISIONS
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "claims": [1]}))
    with pytest.raises(
        RunError,
        match=r"decisions.json` is damaged: .*; remove it and run `sentbed study`",
    ):
        read_data(whole)
    path.write_text(json.dumps({**content, "schema": 1}))
    with pytest.raises(
        RunError,
        match=r"is of another version; remove it and run `sentbed study` there",
    ):
        run_study(study, whole)
    path.unlink()
    path.mkdir()
    with pytest.raises(RunError, match=r"decisions.json` cannot be read: "):
        read_data(whole)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "seeds = [1, 2, 3, 4, 5]",
            "seeds = [1, 2]",
            "the study has 2 seeds, and cells are first compared",
        ),
        (
            'baseline = { lr = "0.5", noise = "0.0" }\n',
            "",
            "the study has no `baseline`; name one",
        ),
        ("stop = {", "stop = { error_rate = 1.5, ", "error_rate"),
        ("stop = {", "stop = { first_look = 1, ", "first_look"),
    ],
)
def test_what_cannot_stop_anything_is_refused(old, new, message, put):
    text = (TOWERS + AXES).replace("stop = {}", 'stop = { worse_than = "baseline" }')
    assert old in text
    with pytest.raises(RecipeError, match=message):
        read_study(put("study.toml", text.replace(old, new)))


@pytest.mark.whole
def test_the_plan_of_a_study_that_has_ended_has_nothing_to_run(study, whole):
    needless = read_data(whole).needless
    words = ["study", str(study.document.file), "--dry-run", "--out", str(whole)]
    lines = CliRunner().invoke(main, words).output.splitlines()
    assert lines[0] == (
        f"study towers: 4 cells x 5 seeds = 20 runs, {20 - needless} finished, {needless} not needed"
    )
    assert any(line.startswith("  decided: ") and "0.5, 0.0" in line for line in lines)
    assert not any("time left" in line or "shared" in line for line in lines)
    # Named cells are run with all seeds.
    output = CliRunner().invoke(main, [*words, "--only", "lr=0.02"]).output
    assert "not needed" not in output


def waiting(work, directory):
    return [task for task in work.tasks if not task.is_done(directory)]


def test_decisions_by_another_rule_or_on_other_runs_leave_none_out(study, whole):
    work = plan_work(study.cells, CellKeys(load_plugins()))
    stopped = {claim.cell for claim in decided(whole).claims}
    needless = needless_runs(study, waiting(work, whole), whole)
    assert {task.cell.name for task in needless} == stopped
    assert len(needless) == read_data(whole).needless

    other = read_study(_changed(study, "stop = {}", "stop = { error_rate = 0.2 }"))
    assert needless_runs(other, waiting(work, whole), whole) == ()

    name = min(stopped)
    first = next(
        task for task in work.tasks if task.cell.name == name and task.cell.seed == 1
    )
    shutil.rmtree(whole / first.directory)
    needless = needless_runs(study, waiting(work, whole), whole)
    assert {task.cell.name for task in needless} == stopped - {name}


def test_the_status_says_what_was_decided(whole):
    needless = read_data(whole).needless
    words = ["study", "status", str(whole)]
    line = CliRunner().invoke(main, words).output.splitlines()[1]
    assert f" {needless} runs of 20 " in line
    assert "0.5, 0.0" in line
    status = json.loads(CliRunner().invoke(main, [*words, "--json"]).output)
    assert [claim["cell"] for claim in status["decisions"]["claims"]] == [
        claim.cell for claim in decided(whole).claims
    ]
    assert status["sampled"] is None


def test_the_plan_says_what_stops(study, tmp_path):
    work = plan_work(study.cells, CellKeys(load_plugins()))
    lines = [*StudyPlan(study, tmp_path, work, work, TimeLeft({})).lines()]
    assert (
        "  stops: what is shown to be worse than the best by more than 0, after 2 to 5 seeds; error rate of "
        "the study 0.05"
    ) in lines


def test_tasks_without_a_common_unit_end_the_study_at_its_first_look(put, directory):
    lottery = '[[evaluate]]\nuse = "lottery"\nencoder = "zh"\n'
    axes = AXES.replace('["near"]', '["near", "lottery"]').partition(
        "[study.axes.noise]"
    )[0]
    mixed = read_study(
        put("study.toml", TOWERS + lottery + axes.replace(', noise = "0.0"', ""))
    )
    unlike = r"no common unit.*: lottery \(lottery, luck\), near \(nearness, distance\)"
    with pytest.raises(RunError, match=unlike):
        run_study(mixed, directory)
    assert read_decisions(directory) is None
    # The runs stay, and one task decides.
    alone = attrs.evolve(mixed.table, decide=Decide(("near",), test_data=True))
    run_study(attrs.evolve(mixed, table=alone), directory)
    assert decided(directory).ended


def test_a_look_at_other_prompts_is_one_that_was_not_planned():
    rule = Rule(
        "best", 0.0, 0.05, (2, 3), ("a", "b"), "near", (1, 2, 3), prompts=("x", "y")
    )
    more = attrs.evolve(rule, prompts=("x", "y", "z"))
    first = shares(_plan_of(rule))
    again = shares(_plan_of(more), [_plan_of(rule)])
    assert sum(first.values()) == pytest.approx(0.9)
    # Looks 3 and 4 of which 2 were planned: of a tenth, 3 / (j (j + 1)).
    assert again == {2: pytest.approx(0.1 * 3 / 12), 3: pytest.approx(0.1 * 3 / 20)}
    # The same prompts in another order are the same looks.
    turned = attrs.evolve(rule, prompts=("y", "x"))
    assert shares(_plan_of(turned), [_plan_of(rule)]) == first
    # A test over prompts as a sample is another one than that over them as all that are of interest.
    fixed = attrs.evolve(rule, prompt_factor="fixed")
    random = attrs.evolve(rule, prompt_factor="random")
    again = shares(_plan_of(random), [_plan_of(fixed)])
    assert again == {2: pytest.approx(0.1 * 3 / 12), 3: pytest.approx(0.1 * 3 / 20)}
    without = attrs.evolve(rule, prompts=())
    assert _plan_of(without) == ((1, 2, 3), (2, 3))
