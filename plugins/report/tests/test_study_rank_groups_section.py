from __future__ import annotations

import json

from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.exports import to_json
from sentbed_report.study_page.rank_groups_section import rank_groups_section
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
    summaries = summarise(data)
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

    assert "any false difference is at most 5 %" in section.sentences[1]
    assert not any("tasks" in text for text in (*section.sentences, *section.notes))


def test_results_have_the_groups(study_of):
    data = many_tasks(study_of)
    summaries = summarise(data)
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
