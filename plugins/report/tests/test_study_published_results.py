"""Published results beside a study's: which column they stand in, and what is said of the others."""

from __future__ import annotations

import csv
import io
import json

import attrs
import pytest
from sentbed.protocols import Score
from sentbed_report.score_protocols import protocol_hash
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.exports import to_json
from sentbed_report.study.published_results import NO_TEST
from sentbed_report.study.published_scores import PublishedScore, PublishedSystem
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from sentbed_report.tables.comma_separated import to_csv
from sentbed_report.tables.html import to_html
from sentbed_report.tables.json_records import to_records
from sentbed_report.tables.latex import to_latex
from sentbed_report.tables.markdown import to_markdown
from sentbed_report.tables.terminal import to_text

PROTOCOL = {
    "id": "mteb",
    "mteb": "2.26.0",
    "revision": "data1",
    "split": "test",
    "subset": "default",
    "similarity": "cosine",
}
PUBLISHED = PublishedScore(
    task="STS12",
    metrics=("cosine_spearman", "spearman"),
    split="test",
    subset="default",
    value=71.5,
    software="mteb 2.26.0",
    data_revision="data1",
)


def study(*systems, **protocols):
    """A study of one run, with a score of each task; `protocols` replace entries of `PROTOCOL`."""
    scores = []
    for task in ("STS12", "STS13"):
        of_task = {**PROTOCOL, **protocols.get(task, {})}
        protocol = {"encoder": {}, "evaluator": of_task}
        scores.append(Score(task, "cosine_spearman", 70.0, protocol, "encoder", "mteb"))
    run = CellRun("mean", 1, "finished", scores=tuple(scores))
    cell = CellInfo("mean", {}, (run,))
    return StudyData("study", (), (cell,), None, (1,), published=systems)


def system(*scores, notes=()):
    return PublishedSystem("BERT", "org/bert", "abc", "results", scores, tuple(notes))


def table_of(*systems, **protocols):
    (summary,) = summarise(study(*systems, **protocols), resamples=10)
    return summary


def test_a_number_of_the_same_protocol_and_revisions_is_said_to_be_that():
    other = attrs.evolve(PUBLISHED, task="STS13", value=80.5)
    summary = table_of(system(PUBLISHED, other))
    (reference,) = summary.references
    assert reference.values == (71.5, 80.5, 76.0)
    assert reference.same_protocol == (True, True, True)
    assert reference.source == "published, results, revision abc, mteb 2.26.0"
    assert summary.reference_notes == (
        NO_TEST,
        "BERT: protocol and revisions are those of the study in STS12; STS13.",
    )


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"data_revision": "data2"}, "revision of the data data2, here data1"),
        ({"data_revision": ""}, "revision of the data unknown, here data1"),
        ({"software": "mteb 1.12.75"}, "mteb 1.12.75, here mteb 2.26.0"),
        ({"metrics": ()}, "its file does not name the metric"),
    ],
)
def test_a_number_of_another_protocol_stands_there_with_the_difference(
    changes, difference
):
    summary = table_of(system(attrs.evolve(PUBLISHED, **changes)))
    (reference,) = summary.references
    assert reference.values == (71.5, None, None)
    assert reference.same_protocol == (False, False, False)
    assert (
        f"BERT: not known to be of the study's protocol and revisions in STS12 ({difference})."
        in summary.reference_notes
    )


def test_another_evaluators_protocol_is_not_that_of_mteb():
    protocol = {"id": "senteval-sts"}
    summary = table_of(system(PUBLISHED), STS12=protocol, STS13=protocol)
    assert summary.references[0].same_protocol == (False, False, False)
    (difference,) = [note for note in summary.reference_notes if "not known" in note]
    assert "computed by mteb 2.26.0, here by the protocol `senteval-sts`" in difference


@pytest.mark.parametrize(
    ("changes", "obstacle"),
    [
        ({"task": "STS14"}, "in STS12; STS13: the task is not among its results"),
        (
            {"metrics": ("cosine_pearson",)},
            "in STS12: its metric is cosine_pearson, that of the study cosine_spearman",
        ),
        (
            {"split": "validation"},
            "in STS12: it is on the split `validation`, the study on the split `test`",
        ),
        (
            {"subset": "de"},
            "in STS12: it is on the split `test`, subset `de`, the study on the split `test`",
        ),
    ],
)
def test_what_does_not_match_is_a_note_and_no_row(changes, obstacle):
    summary = table_of(system(attrs.evolve(PUBLISHED, **changes)))
    assert summary.references == ()
    assert f"BERT has no number {obstacle}." in summary.reference_notes
    task = changes.get("task", "STS12")
    assert f"No column has 1 task of BERT: {task}." in summary.reference_notes
    assert summary.reference_notes[-1] in summary.notes


def test_a_column_over_several_splits_and_subsets_is_the_mean_of_all_of_them():
    protocol = {"subset": ["de", "en"]}
    german = attrs.evolve(PUBLISHED, subset="de", value=60.0)
    english = attrs.evolve(PUBLISHED, subset="en", value=70.0)
    summary = table_of(system(german, english), STS12=protocol)
    assert summary.references[0].values[0] == 65.0
    assert table_of(system(german), STS12=protocol).references == ()


def test_a_study_of_ours_is_matched_by_its_whole_protocol():
    ours = PublishedScore(
        task="mteb STS12 (cosine_spearman)",
        metrics=("cosine_spearman",),
        split="test",
        subset="default",
        value=69.0,
        software="sentbed-evaluators 0.1.0",
        data_revision=protocol_hash(PROTOCOL),
        is_ours=True,
    )
    other = attrs.evolve(ours, data_revision="else")
    assert table_of(system(ours)).references[0].same_protocol[0]
    (reference,) = table_of(system(other)).references
    assert (reference.values[0], reference.same_protocol[0]) == (69.0, False)


def test_a_published_row_is_marked_in_every_format():
    data = study(system(PUBLISHED, notes=("One file cannot be read.",)))
    (summary,) = summarise(data, resamples=10)
    marked = "BERT (published, results, revision abc, mteb 2.26.0)"
    for render in (to_text, to_markdown, to_latex):
        assert marked in render(summary.table)
        assert "One file cannot be read." in render(summary.table)
    assert "published, results, revision abc" in to_html(summary.table)

    status = "published: results, revision abc, mteb 2.26.0"
    *_, line = csv.DictReader(io.StringIO(to_csv(summary.table)))
    assert (line["cell"], line["status"], line["STS12 mean"]) == (
        "BERT",
        status,
        "71.5",
    )
    *_, record = to_records(summary.table)["rows"]
    assert (record["cell"], record["status"]) == ("BERT", status)
    (table,) = json.loads(to_json(data, [summary]))["tables"]
    assert table["references"][0]["model"] == "org/bert"
