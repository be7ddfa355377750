from __future__ import annotations

import json

import attrs
import pytest
from sentbed_report.figures.rank_groups import rank_groups_plot
from sentbed_report.statistics import letter_groups
from sentbed_report.statistics.significance import TableScores
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.exports import to_json, write_exports
from sentbed_report.study_page.rank_groups_section import rank_groups_section
from sentbed_report.study_page.study_report import write_study_report
from sentbed_report.tables.estimate import Estimate
from toy_study import study

TASKS = ("MR", "CR", "SUBJ", "MPQA", "TREC")


def many_tasks(study_of, **more):
    """Three cells, the first one best in all of five tasks, under three seeds."""
    levels = {"best": 90.0, "middle": 70.0, "last": 50.0}
    numbers = {}
    for name, level in levels.items():
        numbers[name] = {}
        for seed in (1, 2, 3):
            numbers[name][seed] = {
                task: level + 0.3 * seed * place for place, task in enumerate(TASKS)
            }

    return study_of(numbers, items=True, **more)


def test_cells_stand_by_rank_with_mean_letters_and_interval():
    data = study()
    summaries = summarise(data, resamples=100)
    groups = summaries[0].groups
    section = rank_groups_section(data, summaries)
    table = section.tables[0]
    headings = [column.heading for column in table.columns]
    assert headings == ["Avg", "groups", "ranks", "from the best"]
    assert (
        section.summary
        == "2 of 6 cells may be the best in senteval-sts: Avg (spearman)"
    )
    assert [row.cell for row in table.rows] == [row.cell for row in groups.rows]
    for row, group in zip(table.rows, groups.rows, strict=True):
        from_best = Estimate(value=group.from_best, interval=(group.low, group.high))
        assert row.cells == (
            Estimate(value=group.mean),
            group.letters,
            group.ranks,
            from_best,
        )

    assert "Holm's correction over all pairs" in section.sentences[1]
    assert "5 %" in section.sentences[1]
    assert not any("tasks" in text for text in (*section.sentences, *section.notes))


def test_ranks_over_tasks_say_what_they_ask(study_of):
    data = many_tasks(study_of)
    section = rank_groups_section(data, summarise(data, resamples=100))
    assert "on other tasks" in section.sentences[2]
    ranks = section.tables[1]
    assert ranks.title.endswith("ranks over 5 tasks")
    assert [(row.cell, *row.cells) for row in ranks.rows] == [
        ("best", Estimate(value=1.0), "a"),
        ("middle", Estimate(value=2.0), "ab"),
        ("last", Estimate(value=3.0), "b"),
    ]
    # q = 2.343 for three cells (Demšar, 2006, table 5): 2.343 * sqrt(3 * 4 / (6 * 5)) = 1.48.
    assert "1.48" in ranks.notes[0]


def test_what_is_left_out_and_why_is_a_remark(study_of):
    data = many_tasks(study_of)
    first, second, third = data.cells
    run, *others = third.runs
    running = attrs.evolve(run, status="running", scores=())
    third = attrs.evolve(third, runs=(running, *others))
    data = attrs.evolve(data, cells=(first, second, third))
    section = rank_groups_section(data, summarise(data, resamples=50))
    assert len(section.tables) == 1
    (remark,) = section.notes
    assert remark.endswith("left out, since it has not finished: last.")


def test_without_groups_there_is_the_reason_and_without_rows_no_section(study_of):
    data = study_of({name: {1: {"MR": 60.0}} for name in "ab"})
    alone = summarise(data)
    section = rank_groups_section(data, alone)
    assert section.tables == section.sentences == []
    (remark,) = section.notes
    assert "no groups, since there is one seed, and the score has no items" in remark
    assert rank_groups_plot(study_of({}), alone[0]) is None
    without = study_of({"a": {1: {"MR": 60.0}}})
    assert rank_groups_section(without, summarise(without)) is None


def test_without_letters_ranks_stay(monkeypatch):
    monkeypatch.setattr(letter_groups, "MOST_SETS", 1)
    data = study()
    summaries = summarise(data, resamples=100)
    section = rank_groups_section(data, summaries)
    assert section.summary.startswith("2 of 6 cells may be the best in ")
    assert {row.cells[1] for row in section.tables[0].rows} == {None}
    assert "no letters" in section.notes[0]
    plot = rank_groups_plot(study(), summaries[0])
    assert "A bar" not in plot.caption


def test_results_have_the_groups(study_of):
    data = many_tasks(study_of)
    summaries = summarise(data, resamples=100)
    (table,) = json.loads(to_json(data, summaries))["tables"]
    groups = summaries[0].groups
    json_groups = table["groups"]
    assert [cell["letters"] for cell in json_groups["cells"]] == [
        row.letters for row in groups.rows
    ]
    assert (json_groups["level"], json_groups["pairs"], json_groups["left"]) == (
        0.05,
        3,
        {},
    )
    assert json_groups["over_tasks"]["tasks"] == list(TASKS)
    assert json_groups["over_tasks"]["critical_difference"] == pytest.approx(
        groups.tasks.critical
    )


def test_the_pairs_of_a_table_are_compared_once_for_results_and_report(
    monkeypatch, tmp_path
):
    compared = []
    pairs = TableScores.pairs

    def counted(scores, rows):
        compared.append(rows)
        return pairs(scores, rows)

    monkeypatch.setattr(TableScores, "pairs", counted)
    data = study()
    summaries = summarise(data, resamples=50)
    write_exports(tmp_path, data, summaries)
    write_study_report(tmp_path, data, summaries)
    (rows,) = compared
    assert len(rows) == len(data.cells)
