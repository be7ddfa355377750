"""Results of others in a study: which models become rows, in which unit, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from sentbed import RecipeError
from sentbed_audit.score_rows import ScoreRow
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.published_number_config import Reference
from sentbed_report.study.read_study_directory import read_data
from sentbed_studies import published_results
from sentbed_studies.published_results import OURS
from sentbed_studies.runner import run_study
from sentbed_studies.study import read_study
from toy_plugin import RECIPE

pytestmark = pytest.mark.slow

NEAR = '\n[[evaluate]]\nuse = "nearness"\nwords = 20\n'
AXES = """
[study.axes.lr]
path = "stage.pull.optimizer.lr"
values = [0.5, 0.02]
"""
ARCHIVE = (
    Path(os.environ.get("SENTBED_DATA", ".")) / "mteb_results" / "mteb-eng-v2.tar.xz"
)


@pytest.fixture
def load(put, plugins, tmp_path, monkeypatch):
    """Load the toy recipe with a study and one reference; `s.toml` has its keys from line 34 on."""
    monkeypatch.chdir(tmp_path)

    def read(reference):
        text = f"{RECIPE}{NEAR}[study.references.Others]\n{reference}{AXES}"
        put("s.toml", text)
        return read_study("s.toml", (), plugins)

    return read


def write_result(root, model, task, score, revision="rev1"):
    """Write a result of one task as MTEB does."""
    entry = {"hf_subset": "default", "main_score": score, "accuracy": score}
    content = {
        "task_name": task,
        "mteb_version": "2.6.7",
        "dataset_revision": "data1",
        "scores": {"test": [entry]},
    }
    file = root / model.replace("/", "__") / revision / f"{task}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))


def values_of(system):
    return [(score.task, score.value) for score in system.scores]


def problems(load, reference):
    with pytest.raises(RecipeError) as caught:
        load(reference)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(("share", "expected"), [(0.85, [85.0]), (0.5, [])])
def test_scores_of_one_task_in_two_layouts_are_compared_in_per_cent(share, expected):
    names = {"model": "m", "revision": "", "task": "A", "split": "test"}
    names |= {"subset": "default", "metric": "accuracy", "software": ""}
    names |= {"data_revision": "", "file": "a.json"}
    rows = [
        ScoreRow(score=85.0, layout=OURS, **names),
        ScoreRow(score=share, layout="mteb 1.11", **names),
    ]
    scores, left_out = published_results._scores(rows, Reference(results="a.json"))
    assert [score.value for score in scores] == expected
    assert len(left_out) == 1 - len(expected)


def test_a_share_of_mteb_is_per_cent_in_the_study_and_what_is_no_share_is_left_out(
    load, tmp_path
):
    write_result(tmp_path / "results", "org/bert", "A", 0.625)
    write_result(tmp_path / "results", "org/bert", "B", 62.5)
    (system,) = load('results = "results"\n').published
    assert (system.name, system.model, system.revision) == (
        "Others",
        "org/bert",
        "rev1",
    )
    assert values_of(system) == [("A", 62.5)]
    (score,) = system.scores
    assert (score.metrics, score.software, score.data_revision) == (
        ("accuracy",),
        "mteb 2.6.7",
        "data1",
    )
    (note,) = system.notes
    assert note.startswith("Others: B (test) in ")
    assert note.endswith("its score is 62.5, expected a share of 1.")


@pytest.mark.parametrize(("unit", "expected"), [("share", 70.0), ("per cent", 0.7)])
def test_a_table_is_in_the_unit_that_the_recipe_says_and_its_seeds_are_averaged(
    load, tmp_path, unit, expected
):
    table = "model,task,score,seed\nbert,A,0.6,1\nbert,A,0.8,2\n"
    (tmp_path / "scores.csv").write_text(table)
    (system,) = load(f'results = "scores.csv"\nunit = "{unit}"\n').published
    ((task, value),) = values_of(system)
    assert (task, value) == ("A", pytest.approx(expected))


def test_several_models_and_revisions_are_a_row_each_and_tasks_have_the_studys_names(
    load, tmp_path
):
    results = tmp_path / "results"
    write_result(results, "org/bert", "A", 0.5)
    write_result(results, "org/bert", "A", 0.75, "rev2")
    write_result(results, "org/gpt", "A", 0.25)
    write_result(results, "org/other", "A", 1.0)
    study = load(
        'results = "results"\nmodels = ["org/bert", "org/gpt"]\ntasks = { A = "near@dev" }\n'
    )
    assert [(system.name, values_of(system)) for system in study.published] == [
        ("Others: org/bert@rev1", [("near", 50.0)]),
        ("Others: org/bert@rev2", [("near", 75.0)]),
        ("Others: org/gpt", [("near", 25.0)]),
    ]
    assert study.published[0].scores[0].split == "dev"
    (system,) = load('results = "results"\nmodels = ["org/bert@rev2"]\n').published
    assert (system.name, system.revision) == ("Others", "rev2")


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ('results = "reslts"\n', "does not exist"),
        ('results = "empty"\n', "found no scores in"),
        (
            'results = "results"\n',
            "there are results of 2 models, and a row is one: org/bert; org/gpt; choose with "
            "`models = [...]` @ s.toml:32 study.references.Others.results",
        ),
        (
            'results = "results"\nmodels = ["org/bart"]\n',
            "there are no results of a model `org/bart`. Did you mean `org/bert`? "
            "@ s.toml:33 study.references.Others.models.0",
        ),
        (
            'results = "results"\nmodels = ["org/bert@rev9"]\n',
            "`org/bert` has no revision that begins with `rev9`; choose among `rev1` "
            "@ s.toml:33 study.references.Others.models.0",
        ),
        (
            'results = "results"\nmodels = ["org/bert"]\ntasks = { STS = "near" }\n',
            "there are no results of a task `STS`. Choose one of `A`. "
            "@ s.toml:34 study.references.Others.tasks.STS",
        ),
        (
            'results = "scores.csv"\n',
            'a CSV does not say what its scores are; set `unit = "share"` where they are shares of 1, or '
            '`unit = "per cent"` @ s.toml:32 study.references.Others.results',
        ),
        (
            'scores = { near = 1 }\nmodels = ["org/bert"]\n',
            "`models` is of `results`, which the reference has not; name them, or take `models` out "
            "@ s.toml:31 study.references.Others",
        ),
    ],
)
def test_a_reference_that_cannot_be_read_is_refused_with_its_place(
    load, tmp_path, reference, expected
):
    write_result(tmp_path / "results", "org/bert", "A", 0.5)
    write_result(tmp_path / "results", "org/gpt", "A", 0.5)
    (tmp_path / "empty").mkdir()
    (tmp_path / "scores.csv").write_text("model,task,score\nbert,A,0.6\n")
    (problem,) = problems(load, reference)
    assert expected in problem
    assert "@ s.toml:3" in problem


def test_the_rows_stay_in_the_studys_directory_when_the_files_are_gone(
    load, tmp_path, directory
):
    file = tmp_path / "scores.csv"
    file.write_text("model,task,score,metric,split\nbert,near,0.6,nearness,test\n")
    study = load('results = "scores.csv"\nunit = "share"\n')
    run_study(study, directory)
    file.unlink()
    data = read_data(directory)
    assert data.published == study.published
    assert data.references == {}
    notes = [note for summary in summarise(data) for note in summary.notes]
    assert any("Others" in note for note in notes)


@pytest.mark.skipif(
    not ARCHIVE.is_file(), reason="needs real data: mteb_results in SENTBED_DATA"
)
@pytest.mark.slow
def test_a_model_of_the_archive_of_mteb_has_its_published_scores(load):
    model = "sentence-transformers/all-MiniLM-L6-v2"
    (system,) = load(
        'results = "data:mteb_results/mteb-eng-v2.tar.xz"\n'
        f'models = ["{model}"]\ntasks = {{ STSBenchmark = "STSB" }}\n'
    ).published
    assert system.revision == "8b3219a92973c328a8e22fadcfa821b5dc75636a"
    assert len({score.task for score in system.scores}) == 41
    (score,) = [score for score in system.scores if score.task == "STSB"]
    assert score.value == pytest.approx(82.03247283076371)
    assert "cosine_spearman" in score.metrics
    assert system.notes == ()
