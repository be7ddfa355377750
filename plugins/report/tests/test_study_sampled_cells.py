from __future__ import annotations

import attrs
from sentbed.protocols import Score
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.study_data import CellInfo, CellRun, Sampled, StudyData
from sentbed_report.study_page.sampled_cells_section import sampled_cells
from sentbed_report.study_page.study_sections import sections_of


def run(cell: str, seed: int, dev: float) -> CellRun:
    scores = tuple(
        Score(
            "STSB",
            "spearman",
            value,
            {"encoder": {}, "evaluator": {"id": "sts", "split": split}},
            "main",
            "sts",
        )
        for split, value in (("dev", dev), ("test", 99.0))
    )
    return CellRun(cell, seed, "finished", scores=scores)


CELLS = (
    CellInfo("mean", {}, (run("mean", 1, 70.0), run("mean", 2, 10.0))),
    CellInfo("first", {}, (run("first", 1, 60.5), run("first", 2, 10.0))),
    CellInfo("last", {}, (CellRun("last", 1, "failed"), CellRun("last", 2, "waiting"))),
)
SAMPLED = Sampled("tpe", 3, 4, 900, ("last", "mean", "first"))
STUDY = StudyData("study", (), CELLS, None, (1, 2), decide=Decide(), sampled=SAMPLED)


def test_the_section_has_the_order_and_the_deciding_scores_of_the_first_seed() -> None:
    (section,) = sampled_cells(STUDY)
    assert section.sentences == (
        "3 of 900 cells were sampled by tpe, seed 3. Nothing is known of the others.",
        "The study is to run 1 more.",
    )
    (table,) = section.tables
    assert [(row.name, *row.entries, row.cell) for row in table.rows] == [
        ("last", "1", "–", "last"),
        ("mean", "2", "70.00", "mean"),
        ("first", "3", "60.50", "first"),
    ]
    assert section in sections_of(STUDY, ())


def test_cells_whose_deciding_scores_have_no_mean_are_without_a_score() -> None:
    def mixed(cell: CellInfo) -> CellInfo:
        runs = (
            attrs.evolve(
                one, scores=(*one.scores, *(attrs.evolve(s, task="x", metric="m") for s in one.scores))
            )
            for one in cell.runs
        )
        return attrs.evolve(cell, runs=tuple(runs))

    decide = Decide(("STSB", "x"))
    (section,) = sampled_cells(attrs.evolve(STUDY, cells=tuple(map(mixed, CELLS)), decide=decide))
    assert [row.entries[1] for row in section.tables[0].rows] == ["–", "–", "–"]


def test_cells_that_were_run_before_are_counted() -> None:
    (section,) = sampled_cells(attrs.evolve(STUDY, sampled=attrs.evolve(SAMPLED, names=("last", "mean"))))
    assert section.sentences[0] == (
        "2 of 900 cells were sampled by tpe, seed 3. 1 more was run before. Nothing is known of the others."
    )


def test_a_study_of_all_cells_has_no_such_section() -> None:
    assert list(sampled_cells(attrs.evolve(STUDY, sampled=None))) == []
