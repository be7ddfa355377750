from __future__ import annotations

import json

from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.exports import to_json

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
