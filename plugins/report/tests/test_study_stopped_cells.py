"""What a report says of cells that were stopped, whose means are over fewer seeds than those of the others.

The later seeds are bad for every cell: the mean of a stopped cell is higher than that of the cell which it
was shown to be worse than.
"""

from __future__ import annotations

import json

import attrs
import pytest
from sentbed.protocols import Score
from sentbed_report.figures.rank_groups import rank_groups_plot
from sentbed_report.study.axis_tests import axis_findings
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.decisions import Claim, Decisions, Rule
from sentbed_report.study.exports import to_json
from sentbed_report.study.main_effects import interaction, main_effects
from sentbed_report.study.study_data import AxisInfo
from sentbed_report.study_page.effects_section import (
    effects_section,
    interactions_section,
)
from sentbed_report.study_page.rank_groups_section import rank_groups_section
from sentbed_report.study_page.score_cost_section import score_cost_section
from toy_study import with_added

SEEDS = (1, 2, 3, 4, 5)
OF_SEED = dict(zip(SEEDS, (0.0, 0.2, -10.0, -10.1, -10.3), strict=True))
"""What a seed adds to the score of every cell."""
POOLER = AxisInfo("pooler", ("first", "mean"))
LOSS = AxisInfo("loss", ("ctr", "cls"))


def stopped(than, *cells, looks=(2, 3, 4, 5)):
    """Claims at the look after two seeds."""
    rule = Rule("best", 0.0, 0.05, looks, (than, *cells), "MR")
    claims = tuple(Claim(cell, than, 2, 1.0, 0.5, 0.01) for cell in cells)
    return Decisions(rule, claims, looks, (than,), ended=True)


def numbers(
    levels,
    short,
    tasks=("MR",),
):
    """Scores of each cell under each seed, of the cells `short` under two."""
    scores = {}
    for place, (name, level) in enumerate(levels.items()):
        scores[name] = {}
        seeds = SEEDS[:2] if name in short else SEEDS
        for seed in seeds:
            # What is due to seed and cell together is small.
            score = level + OF_SEED[seed] + 0.01 * (place * seed % 4)
            scores[name][seed] = dict.fromkeys(tasks, score)

    return scores


def three_cells(study_of, **more):
    """B is worse than A by 1.0 under both seeds that both have, and better by 5 on average; C is worst."""
    levels = {"A": 80.0, "B": 79.0, "C": 70.0}
    return study_of(numbers(levels, ("B",)), decisions=stopped("A", "B"), **more)


def only_table(data):
    (summary,) = summarise(data, resamples=100)
    return summary


def test_the_example_has_the_worse_cell_with_the_higher_mean(study_of):
    first, second, _ = only_table(three_cells(study_of)).rows
    best = first.cells[0]
    worse = second.cells[0]
    for seed, score in worse.seeds.items():
        assert score < best.seeds[seed]

    assert worse.value > best.value + 4


def test_a_stopped_cell_has_no_place_and_no_rank_and_the_table_says_why(study_of):
    data = three_cells(study_of, ranked_within=(), baseline="A")
    table = only_table(data)
    best, worse, _ = table.rows
    assert (best.cells[0].place, best.cells[0].rank, best.remark) == (1, 1, "5 seeds")
    assert (worse.cells[0].place, worse.cells[0].rank, worse.remark) == (
        None,
        None,
        "stopped, 2 seeds",
    )
    (stopped_note,) = [note for note in table.notes if note.startswith("Stopped")]
    assert stopped_note.endswith("other seeds than those of cells that went on: B.")
    assert "have no rank" in stopped_note
    assert "have no rank" not in " ".join(only_table(three_cells(study_of)).notes)
    rows = json.loads(to_json(data, [table]))["tables"][0]["rows"]
    assert [row["stopped"] for row in rows] == [False, True, False]


def test_a_cell_that_lost_under_the_same_seeds_keeps_its_place(study_of):
    """The study ended when one cell was left: all have the same seeds, and their means can be compared."""
    values = numbers({"A": 80.0, "B": 79.0}, ("A", "B"))
    table = only_table(study_of(values, decisions=stopped("A", "B")))
    assert [row.cells[0].place for row in table.rows] == [1, 2]
    assert not any(note.startswith("Stopped") for note in table.notes)


def test_while_the_others_go_on_a_stopped_cell_has_no_place(study_of):
    values = numbers({"A": 80.0, "B": 79.0, "C": 70.0}, ("A", "B", "C"))
    values["A"] |= {3: {}, 4: {}, 5: {}}
    table = only_table(
        study_of(values, decisions=stopped("A", "B", "C"), statuses={"A": "waiting"})
    )
    assert [row.cells[0].place for row in table.rows] == [None, None, None]


def test_rank_groups_have_stopped_cells_last_and_differences_from_the_best_of_the_others(
    study_of,
):
    levels = {"A": 80.0, "B": 79.0, "C": 78.5, "D": 79.9}
    data = study_of(numbers(levels, ("B", "C")), decisions=stopped("A", "B", "C"))
    groups = only_table(data).groups
    assert [row.name for row in groups.rows] == ["A", "D", "B", "C"]
    differences = [row.from_best for row in groups.rows]
    assert differences == pytest.approx([0, -0.1, -1.0, -1.5], abs=0.03)
    assert [row.stopped for row in groups.rows] == [False, False, True, True]
    without = only_table(attrs.evolve(data, decisions=None)).groups
    assert without.rows[0].name == "B"


def test_the_section_says_that_stopped_cells_are_last_and_may_share_a_letter(study_of):
    data = three_cells(study_of, items=True)
    section = rank_groups_section(data, [only_table(data)])
    assert [row.cell for row in section.tables[0].rows] == ["A", "C", "B"]
    notes = " ".join(section.notes)
    assert "stopped cells come last" in notes
    assert "worse than another in Decisions and still share a letter" in notes


def test_the_plot_has_a_stopped_cell_on_the_side_of_the_best_where_it_was_shown_to_be(
    study_of,
):
    data = three_cells(study_of, items=True)
    plot = rank_groups_plot(data, only_table(data))
    assert "Stopped cells are drawn at their difference" in plot.caption
    assert _means(plot)[2] < _means(plot)[0]
    plain = attrs.evolve(data, decisions=None)
    other = rank_groups_plot(plain, only_table(plain))
    assert "Stopped" not in other.caption
    assert _means(other)[0] > _means(other)[1]


def _means(plot):
    """Where the points of the rows are, the first row first."""
    lines = [line for line in plot.figure(6).axes[0].lines if line.get_marker() == "o"]
    assert len(lines) == 3
    return [float(line.get_xdata()[0]) for line in lines]


def test_ranks_over_tasks_are_over_the_seeds_that_all_cells_have(study_of):
    tasks = ("MR", "CR", "SUBJ", "MPQA", "TREC")
    values = numbers({"A": 80.0, "B": 79.0, "C": 75.0}, ("B",), tasks)
    data = study_of(values, decisions=stopped("A", "B"), items=True)
    summary = only_table(data)
    ranks = summary.groups.tasks
    assert [(row.name, row.mean_rank) for row in ranks.rows] == [
        ("A", 1.0),
        ("B", 2.0),
        ("C", 3.0),
    ]
    assert ranks.seeds == (1, 2)
    section = rank_groups_section(data, [summary])
    assert (
        "Means are over the seeds that all cells have (1, 2)."
        in section.tables[1].notes
    )


def test_ranks_over_tasks_of_cells_without_a_common_seed_say_so(study_of):
    tasks = ("MR", "CR", "SUBJ", "MPQA", "TREC")
    scores = {}
    for name, level, seeds in (
        ("A", 80.0, (1, 2)),
        ("B", 70.0, (2, 3)),
        ("C", 60.0, (3, 4)),
    ):
        scores[name] = {
            seed: dict.fromkeys(tasks, level + 0.1 * seed) for seed in seeds
        }

    data = study_of(scores, items=True)
    summary = only_table(data)
    assert summary.groups.tasks.seeds == ()
    section = rank_groups_section(data, [summary])
    assert (
        "Each cell has its mean over its own seeds, since the cells share no seed."
        in section.tables[1].notes
    )


def test_effects_are_over_the_seeds_that_the_compared_cells_have(study_of):
    levels = {
        "first, ctr": 80.0,
        "first, cls": 70.0,
        "mean, ctr": 79.0,
        "mean, cls": 69.5,
    }
    cut = ("mean, ctr",)
    data = study_of(
        numbers(levels, cut), [POOLER, LOSS], decisions=stopped("first, ctr", *cut)
    )
    summary = only_table(data)
    pooler, loss = main_effects(data, summary)
    # Seeds 1 and 2 add 0.1 on average to every cell.
    assert [label.mean for label in pooler.labels] == pytest.approx(
        [75.1, 74.35], abs=0.03
    )
    assert pooler.labels[1].difference == pytest.approx(-0.75, abs=0.03)
    assert [label.mean for label in loss.labels] == pytest.approx(
        [79.6, 69.85], abs=0.03
    )
    assert loss.labels[1].difference == pytest.approx(-9.75, abs=0.03)
    grid = interaction(data, summary, "pooler", "loss")
    assert [mean for line in grid.means for mean in line] == pytest.approx(
        [80.1, 70.1, 79.1, 69.6], abs=0.03
    )
    findings = axis_findings(data, [summary])
    effects, axes = (
        effects_section(data, findings),
        interactions_section(data, findings),
    )
    assert (
        "differences over the seeds that both cells of a pair have" in effects.notes[-1]
    )
    assert (
        "means are over the seeds that all matched cells have"
        in axes.tables[0].notes[-1]
    )


def test_effects_of_cells_without_a_common_seed_are_over_their_own(study_of):
    scores = {"first": {1: {"MR": 60.0}}, "mean": {2: {"MR": 63.0}}}
    data = study_of(scores, [POOLER])
    (effect,) = main_effects(data, only_table(data))
    assert [label.mean for label in effect.labels] == [60.0, 63.0]
    assert effect.labels[1].difference == 3.0


def test_scores_against_costs_name_stopped_cells(study_of):
    data = three_cells(study_of)
    protocol = {"encoder": {}, "evaluator": {"id": "encoding-cost"}}
    cost = Score(
        "seconds",
        "per text",
        2.0,
        protocol,
        "en",
        "encoding-cost",
        direction="lower",
        axis="cost",
    )
    data = with_added(data, lambda run: [cost])
    section = score_cost_section(data, summarise(data))
    assert (
        "Stopped, with means over other seeds than the other cells: B."
        in section.tables[0].notes
    )
