from __future__ import annotations

import json

import attrs
from sentbed_report.figures.rank_groups import rank_groups_plot
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


def test_cells_stand_by_rank_with_mean_and_interval():
    data = study()
    summaries = summarise(data, resamples=100)
    groups = summaries[0].groups
    section = rank_groups_section(data, summaries)
    table = section.tables[0]
    headings = [column.heading for column in table.columns]
    assert headings == ["Avg", "beaten", "ranks", "from the best"]
    assert (
        section.summary
        == "2 of 6 cells may be the best in senteval-sts: Avg (spearman)"
    )
    assert [row.cell for row in table.rows] == [row.cell for row in groups.rows]
    for row, group in zip(table.rows, groups.rows, strict=True):
        from_best = Estimate(value=group.from_best, interval=(group.low, group.high))
        assert row.cells == (
            Estimate(value=group.mean),
            "yes" if group.beaten else "no",
            group.ranks,
            from_best,
        )

    assert "Holm's correction over all pairs" in section.sentences[1]
    assert "5 %" in section.sentences[1]
    assert not any("tasks" in text for text in (*section.sentences, *section.notes))


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


def test_results_have_the_groups(study_of):
    data = many_tasks(study_of)
    summaries = summarise(data, resamples=100)
    (table,) = json.loads(to_json(data, summaries))["tables"]
    groups = summaries[0].groups
    json_groups = table["groups"]
    assert [cell["beaten"] for cell in json_groups["cells"]] == [
        row.beaten for row in groups.rows
    ]
    assert (json_groups["level"], json_groups["pairs"], json_groups["left"]) == (
        0.05,
        3,
        {},
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
