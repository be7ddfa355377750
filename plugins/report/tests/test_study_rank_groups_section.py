from __future__ import annotations

import json

from sentbed_report.statistics.significance import TableScores
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.exports import to_json, write_exports
from sentbed_report.study_page.study_report import write_study_report
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
    summaries = summarise(data)
    write_exports(tmp_path, data, summaries)
    write_study_report(tmp_path, data, summaries)
    (rows,) = compared
    assert len(rows) == len(data.cells)
