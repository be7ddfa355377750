"""Prompts of a study: how they are read, what is run, and what is made of the scores."""

from __future__ import annotations

import numpy as np
import pytest
from sentbed import RecipeError
from sentbed.tools import load_plugins
from sentbed_report.statistics.cell_scores import CellScores
from sentbed_report.statistics.difference import difference
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.read_study_directory import read_data
from sentbed_report.study.selection import select
from sentbed_studies.cell_keys import CellKeys
from sentbed_studies.runner import run_study
from sentbed_studies.shared_work_plan import plan_work
from sentbed_studies.study import read_study
from sentbed_studies.study_plan import plan_study
from sentbed_studies.study_results import LoadedStudy
from toy_plugin import RECIPE, TOWERS, Characters

NEAR = '\n[[evaluate]]\nuse = "nearness"\nwords = 20\n'
AXES = """
[study.axes.lr]
path = "stage.pull.optimizer.lr"
values = [0.5, 0.02]
"""
PROMPTS = """
[study]
seeds = [1, 2, 3]
baseline = { lr = "0.5" }
prompts = [
    { label = "none" },
    "a {text} z",
    { label = "named", template = "prompt-eol", normalizer = "none" },
]
"""
"""Line 34 of the toy recipe with `NEAR` is that of `prompts`."""


@pytest.fixture
def load(put, plugins, tmp_path, monkeypatch):
    """Load the toy recipe with a study behind it."""
    monkeypatch.chdir(tmp_path)

    def read(text, *overrides):
        put(
            "s.toml",
            f"{RECIPE.replace('width = 4', 'width = 4, positions = 400')}{NEAR}{text}",
        )
        return read_study("s.toml", overrides, plugins)

    return read


def problems(load, text, *overrides):
    with pytest.raises(RecipeError) as caught:
        load(text, *overrides)
    return [str(problem) for problem in caught.value.problems]


# --- reading -----------------------------------------------------------------------------------------------


def test_every_cell_is_run_with_each_prompt_under_each_seed(load):
    study = load(PROMPTS + AXES)
    assert study.prompts == ("none", "a {text} z", "named")
    assert len(study.runs) == 2 * 3 * 3
    assert [str(cell) for cell in study.runs[:4]] == [
        "0.5, prompt none, seed 1",
        "0.5, prompt none, seed 2",
        "0.5, prompt none, seed 3",
        "0.5, prompt a {text} z, seed 1",
    ]
    assert study.names == ("0.5", "0.02")
    prompts = [cell.recipe.encoders["encoder"].prompt for cell in study.runs[::3]]
    templates = [None if prompt is None else prompt.template for prompt in prompts]
    assert templates == [None, "a {text} z", "prompt-eol"] * 2
    named = prompts[2]
    assert named is not None
    assert named.normalizer == "none"


def test_without_prompts_an_axis_may_have_their_name(load):
    axis = AXES.replace("axes.lr", "axes.prompt")
    assert load("[study]\nseeds = [1]\n" + axis).names == ("0.5", "0.02")


@pytest.mark.parametrize(
    ("prompts", "fault"),
    [
        (
            '["a {text}"]',
            "there is 1 prompt, which does not show how much prompts differ; give 2 or more",
        ),
        (
            '["a {text}", { template = 3 }]',
            "the prompt has no `label`, and no `template` to be called by",
        ),
        (
            '["a {text}", { label = "x", templet = "b" }]',
            "with the prompt `x`: unknown key `templet`. Did you mean `template`?",
        ),
        (
            '["a {text}", { label = "b", template = "a {text}" }]',
            "set the same values",
        ),
        (
            '["a {text}", { label = "a {text}", template = "b {text}" }]',
            "two prompts have the label `a {text}`; give each its own",
        ),
        ('["a {text}", { label = "" }]', "the prompt has no `label`"),
    ],
)
def test_faults_are_told_with_file_and_line(load, prompts, fault):
    (message,) = problems(load, f"[study]\nprompts = {prompts}\n{AXES}")
    assert fault in message
    assert "s.toml:32 " in message


def test_a_text_that_is_no_template_is_told_with_its_place(load):
    (message,) = problems(
        load, f'[study]\nprompts = ["a {{text}}", "none of it"]\n{AXES}'
    )
    assert "the template 'none of it' has 0 places for the sentence" in message
    assert "s.toml:32 encoder.prompt" in message


@pytest.mark.parametrize(
    ("axis", "overrides", "message"),
    [
        (
            '[study.axes.frame]\npath = "encoder.prompt.template"\nvalues = ["a {text}", "b {text}"]\n',
            (),
            "the axis sets `encoder.prompt.template`, and so do the `prompts` of the study",
        ),
        (
            '[study.axes.frame]\npath = "encoder"\nvalues = [{}, { max_length = 8 }]\nlabels = ["a", "b"]\n',
            (),
            "the axis sets `encoder`, and so do the `prompts` of the study",
        ),
        (
            AXES,
            ("encoder.prompt.normalizer=none",),
            "found the override `encoder.prompt.normalizer`, but the axis `prompt` sets `encoder.prompt`",
        ),
        (
            AXES.replace("axes.lr", "axes.prompt"),
            (),
            "the axis has the name of the column of `prompts`",
        ),
    ],
)
def test_what_the_prompts_would_replace_is_refused(load, axis, overrides, message):
    without_baseline = PROMPTS.replace('baseline = { lr = "0.5" }\n', "")
    (problem,) = problems(load, without_baseline + axis, *overrides)
    assert problem.startswith(message)


def test_a_cell_that_does_not_fit_one_of_the_prompts_is_left_out_with_the_reason(
    load,
):
    layers = PROMPTS.replace(
        '"a {text} z"', '{ label = "deep", template = "a {text}", layers = [9] }'
    )
    frames = '[study.axes.length]\npath = "encoder.max_length"\nvalues = [16, 8]\n'
    with pytest.raises(RecipeError) as caught:
        load(layers.replace('lr = "0.5"', 'length = "16"') + frames)
    assert "with the prompt `deep`: " in str(caught.value)


# --- running -----------------------------------------------------------------------------------------------


@pytest.fixture
def finished(load, copied, request):
    """A finished study with three prompts and three seeds."""
    request.getfixturevalue("installed_toy")
    request.getfixturevalue("quick")
    return copied(lambda kept: run_study(load(PROMPTS + AXES), kept))


def table_of(directory):
    """The table of the evaluator `nearness`."""
    tables = summarise(read_data(directory))
    return next(t for t in tables if t.evaluator == "nearness" and not t.metric)


def test_a_study_with_prompts_is_run_read_and_tested_over_them(finished):
    data = read_data(finished)
    assert data.prompts == ("none", "a {text} z", "named")
    assert data.finished == data.total == 18
    assert {(run.prompt, run.seed) for run in data.cells[0].runs} == {
        (prompt, seed) for prompt in data.prompts for seed in (1, 2, 3)
    }
    table = table_of(finished)
    row = table.rows[1]
    assert (row.scored, row.status) == ((1, 2, 3), "finished")
    judged = row.cells[-1].judged
    assert judged is not None
    assert judged.basis == "items, prompts and seeds"

    # The same by hand, from the runs.
    columns = []
    for cell in data.cells:
        of_runs = {}
        for seed in (1, 2, 3):
            for prompt in data.prompts:
                for run in cell.runs:
                    if (run.seed, run.prompt) == (seed, prompt):
                        near = [score for score in run.scores if score.task == "near"]
                        of_runs[seed, prompt] = tuple(near[:1])
        columns.append(CellScores(of_runs))
    assert judged.interval == pytest.approx(difference(*columns).interval())
    values = list(columns[1].by_seed.values())
    assert row.cells[-1].value == pytest.approx(np.mean(values))
    assert table.over == "Mean over 3 prompts and 3 seeds."


def test_a_frame_has_a_column_for_the_prompt(finished):
    data = read_data(finished)
    study = LoadedStudy(data)
    assert set(study.scores["prompt"]) == set(data.prompts)
    near = study.scores[
        (study.scores["task"] == "near") & (study.scores["metric"] == "distance")
    ]
    assert len(near) == 18
    assert not near.duplicated(["cell", "prompt", "seed"]).any()


def test_started_again_nothing_is_run_and_an_added_prompt_is_run_alone(finished, load):
    study = load(PROMPTS + AXES)
    result = run_study(study, finished)
    assert not result.worked
    more = load(PROMPTS.replace('"a {text} z",', '"a {text} z", "b {text}",') + AXES)
    plan = plan_study(more, finished, load_plugins(), workers=1)
    assert (
        next(plan.lines())
        == "study toy-run: 2 cells x 4 prompts x 3 seeds = 24 runs, 18 finished"
    )
    run_study(more, finished)
    data = read_data(finished)
    assert data.prompts == ("none", "a {text} z", "b {text}", "named")
    assert data.finished == 24


def test_a_seed_without_one_of_its_prompts_does_not_count(finished):
    data = read_data(finished)
    directory = next(
        run.directory
        for run in data.cells[1].runs
        if (run.prompt, run.seed) == ("named", 3)
    )
    assert directory is not None
    (finished / directory / "manifest.json").unlink()
    table = table_of(finished)
    row = table.rows[1]
    assert row.scored == (1, 2)
    assert row.remark == "waiting, 2 of 3"
    judged = row.cells[-1].judged
    assert judged is not None
    assert judged.estimate.sources["seeds"].degrees == 1


def test_the_chosen_cell_is_confirmed_with_fresh_seeds_under_each_prompt(
    load, plugins, finished
):
    decide = 'decide = { test_data = true, tasks = ["near"], confirm = 2 }\nbaseline'
    study = load(
        PROMPTS.replace("baseline", decide).replace("[1, 2, 3]", "[1, 2]") + AXES
    )
    planned = [*plan_study(study, finished, plugins, workers=1).lines()]
    run_study(study, finished)
    assert "  then: the chosen cell with 2 fresh seeds" in planned
    data = read_data(finished)
    chosen = select(data, summarise(data))
    assert chosen is not None
    assert (chosen.seeds, chosen.prompts, chosen.fresh_seeds) == (2, 3, (3, 4))
    cell = next(cell for cell in data.cells if cell.name == chosen.cell)
    assert [(run.prompt, run.seed) for run in cell.confirmation] == [
        (prompt, seed) for prompt in data.prompts for seed in (3, 4)
    ]
    score = next(score for score in chosen.scores if score.task == "near")
    assert score.over == "items, prompts and seeds"
    assert score.seeds == 2


# --- shared work -------------------------------------------------------------------------------------------

OF_TASKS = """
[[evaluate]]
use = "nearness"
encoder = "zh"
[study]
seeds = [1]
[study.axes.lr]
path = "stage.pairs.optimizer.lr"
values = [0.5, 0.25]
[study.axes.frame]
path = "encoders.zh.task_prompts"
values = [{ nearness = { template = "a {text}" } }, { nearness = { template = "b {text}" } }]
labels = ["plain", "other"]
"""
"""The encoder that is trained has other prompts when it is evaluated."""


@pytest.mark.usefixtures("installed_toy", "quick")
def test_a_training_that_does_not_read_prompts_of_tasks_is_done_once_for_all(
    put,
    plugins,
    tmp_path,
    monkeypatch,
):
    monkeypatch.setattr(Characters, "from_files", True)
    towers = TOWERS.replace('at = ["start", "end"]', 'at = ["end"]')
    study = read_study(put("study.toml", towers + OF_TASKS), (), plugins)
    work = plan_work("towers", study.runs, CellKeys(plugins))
    # One prefix a learning rate, each of two prompts.
    assert list(map(work.sharing, work.shared_stages)) == [2, 2]

    run_study(study, tmp_path / "shared")
    run_study(study, tmp_path / "alone", share=False)
    values = []
    for shared, alone in zip(
        read_data(tmp_path / "shared").runs,
        read_data(tmp_path / "alone").runs,
        strict=True,
    ):
        assert shared.cell == alone.cell
        for score, other in zip(shared.scores, alone.scores, strict=True):
            assert score.value == other.value
        values.append(shared.scores[-1].value)
    assert len(set(values)) == len(values)


def test_a_training_that_reads_the_prompts_is_done_with_each(load, plugins):
    work = plan_work("towers", load(PROMPTS + AXES).runs, CellKeys(plugins))
    assert len({task.key for task in work.tasks}) == len(work.tasks) == 18
