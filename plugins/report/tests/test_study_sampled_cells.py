from __future__ import annotations

import attrs
from sentbed.protocols import Score
from sentbed_report.study.deciding_score import Decide, deciding_scores
from sentbed_report.study.study_data import CellInfo, CellRun, Sampled, StudyData
from sentbed_report.study_page import sampled_cells_section as section_module
from sentbed_report.study_page.sampled_cells_section import sampled_cells_section
from sentbed_report.tables.estimate import Estimate


def run(cell, seed, dev):
    scores = []
    for split, value in (("dev", dev), ("test", 99.0)):
        protocol = {"encoder": {}, "evaluator": {"id": "sts", "split": split}}
        scores.append(Score("STSB", "spearman", value, protocol, "main", "sts"))

    return CellRun(cell, seed, "finished", scores=tuple(scores))


CELLS = (
    CellInfo("mean", {}, (run("mean", 1, 70.0), run("mean", 2, 10.0))),
    CellInfo("first", {}, (run("first", 1, 60.5), run("first", 2, 10.0))),
    CellInfo("last", {}, (CellRun("last", 1, "failed"), CellRun("last", 2, "waiting"))),
)
SAMPLED = Sampled("tpe", 3, 4, 900, ("last", "mean", "first"))
STUDY = StudyData("study", (), CELLS, None, (1, 2), decide=Decide(), sampled=SAMPLED)


def test_the_section_has_the_order_and_the_deciding_scores_of_the_first_seed():
    section = sampled_cells_section(STUDY)
    assert section.sentences == [
        "3 of 900 cells were sampled by tpe, seed 3. Nothing is known of the others.",
        "The study is to run 1 more.",
    ]
    (table,) = section.tables
    assert [(row.headers, row.cells, row.cell) for row in table.rows] == [
        (("last",), (Estimate(value=1), Estimate(value=None)), "last"),
        (("mean",), (Estimate(value=2), Estimate(value=70.0)), "mean"),
        (("first",), (Estimate(value=3), Estimate(value=60.5)), "first"),
    ]


def test_scores_of_other_seeds_are_not_read(monkeypatch):
    read = []

    def counted(scores, decide):
        read.append(scores)
        return deciding_scores(scores, decide)

    monkeypatch.setattr(section_module, "deciding_scores", counted)
    sampled_cells_section(STUDY)
    assert len(read) == len(CELLS)


def test_cells_whose_deciding_scores_have_no_mean_are_without_a_score():
    def with_two_metrics(run):
        others = [attrs.evolve(score, task="x", metric="m") for score in run.scores]
        return attrs.evolve(run, scores=(*run.scores, *others))

    def mixed(cell):
        return attrs.evolve(cell, runs=tuple(map(with_two_metrics, cell.runs)))

    decide = Decide(("STSB", "x"))
    section = sampled_cells_section(
        attrs.evolve(STUDY, cells=tuple(map(mixed, CELLS)), decide=decide)
    )
    assert [row.cells[1] for row in section.tables[0].rows] == [
        Estimate(value=None)
    ] * 3


def test_cells_that_were_run_before_are_counted():
    sampled = attrs.evolve(SAMPLED, names=("last", "mean"))
    section = sampled_cells_section(attrs.evolve(STUDY, sampled=sampled))
    assert section.sentences[0] == (
        "2 of 900 cells were sampled by tpe, seed 3. 1 more was run before. Nothing is known of the others."
    )


def test_a_study_of_all_cells_has_no_such_section():
    assert sampled_cells_section(attrs.evolve(STUDY, sampled=None)) is None
