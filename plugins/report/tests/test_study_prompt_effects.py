"""How large a source prompts are, ranks under each, and what the best of several owes to the choice."""

from __future__ import annotations

import math

import attrs
import numpy as np
import pytest
from scipy import stats
from sentbed.errors import RunError
from sentbed.protocols import Items, Score
from sentbed_report.statistics.best_prompt import best_prompt
from sentbed_report.statistics.item_components import ComponentStore, PromptScores
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.item_differences import (
    item_differences,
    task_items,
)
from sentbed_report.study.prompt_effects import rows_under_prompts, sources_of
from sentbed_report.study.selection import select
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData, with_runs
from sentbed_report.study_page.power_section import power_section
from sentbed_report.study_page.prompts_section import prompts_section

PROMPTS = tuple("pqrstuvw")


def score_of(values, direction="higher"):
    items = Items("mean", values, scale=1.0)
    protocol = {"encoder": {}, "evaluator": {"id": "p"}}
    score = Score("T", "accuracy", float(values.mean()), protocol, "en", "e", items)
    return attrs.evolve(score, direction=direction)


def column_of(values):
    """Scores of a cell from `(prompts, seeds, items)`."""
    column = {}
    for seed in range(values.shape[1]):
        scores = {
            prompt: score_of(of[seed])
            for prompt, of in zip(PROMPTS, values, strict=False)
        }
        column[seed] = PromptScores(scores)

    return column


def study_of(values, direction="higher", baseline="c0"):
    """A study from `(cells, prompts, seeds, items)`."""
    cells = []
    prompts = PROMPTS[: values.shape[1]]
    for number, of_cell in enumerate(values):
        runs = []
        for prompt, of_prompt in zip(prompts, of_cell, strict=True):
            for seed, of_run in enumerate(of_prompt):
                scores = (score_of(of_run, direction),)
                runs.append(
                    CellRun(
                        f"c{number}", seed, "finished", scores=scores, prompt=prompt
                    )
                )
        cells.append(CellInfo(f"c{number}", {}, tuple(runs)))

    seeds = tuple(range(values.shape[2]))
    return StudyData("s", (), tuple(cells), baseline, seeds, prompts=prompts)


def without_score(data, cell, prompt, seed):
    """The study after one of its runs has failed."""

    def failed(run):
        if (run.cell, run.prompt, run.seed) != (cell, prompt, seed):
            return run
        return attrs.evolve(run, status="failed", error="no memory left", scores=())

    return attrs.evolve(data, cells=with_runs(data.cells, failed))


# --- the best prompt ---------------------------------------------------------------------------------------


def test_what_is_by_chance_in_the_lead_of_the_best_prompt_is_that_of_a_loop():
    rng = np.random.default_rng(1)
    of_runs = 0.3 * rng.normal(size=(4, 3, 30))
    of_prompts = 0.2 * rng.normal(size=(4, 1, 1))
    values = of_runs + of_prompts
    best = best_prompt(column_of(values), ComponentStore(), lower=False)

    means = values.mean((1, 2))
    mean = means.mean()
    chance = 0.0
    for of_prompt in values:
        by_seed = []
        for seed in range(3):
            by_seed.append(of_prompt[seed].mean() - values[:, seed].mean())
        by_item = []
        for item in range(30):
            by_item.append(of_prompt[:, item].mean() - values[:, :, item].mean())
        chance += np.var(by_seed, ddof=1) / 3 / 3
        chance += np.var(by_item, ddof=1) / 30 / 3

    assert best.prompt == PROMPTS[int(np.argmax(means))]
    assert best.score == pytest.approx(means.max())
    assert best.mean == pytest.approx(mean)
    assert best.among == 4
    share = min(1, chance / means.var(ddof=1))
    assert best.optimism == pytest.approx(share * (means.max() - mean))


def test_where_lower_is_better_the_best_prompt_has_the_lowest_score():
    values = (
        np.random.default_rng(2).normal(size=(4, 2, 30))
        + np.arange(4)[:, None, None] * 5
    )
    best = best_prompt(column_of(values), ComponentStore(), lower=True)
    assert best.prompt == "p"
    assert best.score < best.mean
    assert 0 < best.optimism < 0.1 * best.lead


def test_one_seed_without_items_says_nothing_of_chance():
    scores = {
        prompt: attrs.evolve(score_of(np.array([number])), items=None)
        for prompt, number in zip("pq", (1, 2), strict=True)
    }
    best = best_prompt({1: PromptScores(scores)}, ComponentStore(), lower=False)
    assert (best.prompt, best.optimism) == ("q", None)


@pytest.mark.parametrize("prompt_std", [0.0, 0.1, 0.5])
def test_the_expected_loss_of_the_best_of_eight_is_found_in_simulated_studies(
    prompt_std,
):
    """The score of the best prompt less its true mean, on average over studies, is what is called chance."""
    rng = np.random.default_rng(3)
    losses, estimates = [], []
    for _ in range(150):
        true = prompt_std * rng.normal(size=8)
        values = true[:, None, None] + 0.1 * rng.normal(size=(8, 3, 1))
        values = values + rng.normal(size=(8, 1, 100))
        best = best_prompt(column_of(values), ComponentStore(), lower=False)
        # What moves all prompts alike, such as easy items, is not what makes one the best.
        moved = best.mean - true.mean()
        losses.append(best.score - true[PROMPTS.index(best.prompt)] - moved)
        assert best.optimism is not None
        estimates.append(best.optimism)

    loss = np.mean(losses)
    error = np.std(losses) / math.sqrt(len(losses))
    assert np.mean(estimates) == pytest.approx(loss, abs=3 * error + 0.15 * loss)


# --- sources and ranks -------------------------------------------------------------------------------------


def test_shares_of_the_sources_are_those_of_the_variance_of_the_mean_difference():
    rng = np.random.default_rng(5)
    values = rng.normal(size=(2, 4, 3, 50))
    values += rng.normal(size=(2, 4, 1, 1))
    values += rng.normal(size=(2, 1, 3, 1))

    (table,) = summarise(study_of(values))
    baseline, row = rows_under_prompts(table)
    assert baseline.sources is None
    difference = values[1] - values[0]
    parts = {
        "prompts": difference.mean((1, 2)).var(ddof=1) / 4,
        "seeds": difference.mean((0, 2)).var(ddof=1) / 3,
        "items": difference.mean((0, 1)).var(ddof=1) / 50,
    }
    total = sum(parts.values())
    assert dict(row.sources.shares) == pytest.approx(
        {name: part / total for name, part in parts.items()}
    )
    stds = {
        "prompts": math.sqrt(parts["prompts"] * 4),
        "seeds": math.sqrt(parts["seeds"] * 3),
    }
    assert dict(row.sources.stds) == pytest.approx(
        {**stds, "items": math.sqrt(parts["items"])}
    )


def test_without_a_baseline_the_sources_are_those_of_the_score():
    values = np.random.default_rng(6).normal(size=(1, 3, 2, 40))
    (table,) = summarise(study_of(values, baseline=None))
    (row,) = rows_under_prompts(table)
    of_prompts = values[0].mean((1, 2)).var(ddof=1) / 3
    of_seeds = values[0].mean((0, 2)).var(ddof=1) / 2
    of_items = values[0].mean((0, 1)).var(ddof=1) / 40
    share = of_prompts / (of_prompts + of_seeds + of_items)
    assert row.sources.shares["prompts"] == pytest.approx(share)


def sources_of_study(data):
    """The sources that are known of the last row, the headings of their table, and the note on them."""
    tables = summarise(data)
    sources = rows_under_prompts(tables[0])[-1].sources
    assert sources.shares.keys() == sources.stds.keys()
    assert sum(sources.shares.values()) == pytest.approx(1)
    section = prompts_section(data, tables)
    headings = [column.heading for column in section.tables[0].columns]
    return set(sources.stds), headings, section.notes[0]


def test_prompts_that_are_all_of_interest_are_no_source_though_they_differ():
    values = (
        np.random.default_rng(15).normal(size=(2, 3, 3, 40))
        + np.arange(3)[:, None, None] ** 2
    )
    data = attrs.evolve(study_of(values), prompt_factor="fixed")
    sources, headings, note = sources_of_study(data)
    assert sources == {"seeds", "items"}
    assert headings == [
        "std over seeds",
        "error of items",
        "share of seeds",
        "share of items",
    ]
    assert "over single seeds, the error of the items" in note
    assert "prompts" not in note


def test_one_seed_is_no_seed_spread_of_zero():
    values = (
        np.random.default_rng(16).normal(size=(2, 3, 1, 40))
        + np.arange(3)[:, None, None]
    )
    data = study_of(values)
    sources, headings, note = sources_of_study(data)
    assert sources == {"prompts", "items"}
    assert headings == [
        "std over prompts",
        "error of items",
        "share of prompts",
        "share of items",
    ]
    assert "over single prompts, the error of the items" in note
    assert "seeds" not in note
    assert power_section(data, summarise(data)) is None


@pytest.mark.parametrize("direction", ["higher", "lower"])
def test_ranks_are_those_under_each_prompt(direction):
    values = np.random.default_rng(7).normal(size=(4, 3, 2, 20))
    (table,) = summarise(study_of(values, direction))
    rows = rows_under_prompts(table)
    means = values.mean((2, 3))
    for number, row in enumerate(rows):
        for place, prompt in enumerate("pqr"):
            better = means[:, place] > means[number, place]
            if direction == "lower":
                better = means[:, place] < means[number, place]
            assert row.ranks[prompt] == 1 + better.sum()
            assert row.means[prompt] == pytest.approx(means[number, place])
        lowest, highest = min(row.ranks.values()), max(row.ranks.values())
        assert row.rank_range in (str(lowest), f"{lowest} to {highest}")


def test_sources_that_do_not_vary_have_no_shares():
    values = np.ones((2, 3, 2, 20))
    (table,) = summarise(study_of(values))
    rows = rows_under_prompts(table)
    assert [row.sources for row in rows] == [None, None]
    assert rows[1].ranks == dict.fromkeys("pqr", 1)
    judged = table.rows[1].cells[-1].judged
    assert judged is not None
    assert sources_of(judged) is None


# --- the chosen cell ---------------------------------------------------------------------------------------


def test_the_chosen_cells_interval_counts_sampled_prompts_also_where_each_seed_has_other_items():
    rng = np.random.default_rng(12)
    values = rng.normal(size=(1, 4, 3, 30)) + rng.normal(size=(1, 4, 1, 1))
    decide = Decide(("T",), "e", test_data=True)
    data = attrs.evolve(study_of(values, baseline=None), decide=decide)

    def without_last_items(run):
        prompt = data.prompts.index(run.prompt)
        of_run = values[0, prompt, run.seed]
        score = score_of(of_run[: 30 - run.seed])
        return attrs.evolve(run, scores=(score,))

    unlike = attrs.evolve(data, cells=with_runs(data.cells, without_last_items))
    means = np.zeros((4, 3))
    for prompt, seed in np.ndindex(4, 3):
        means[prompt, seed] = values[0, prompt, seed, : 30 - seed].mean()

    selection = select(unlike, summarise(unlike))
    (score,) = selection.scores
    of_prompts = means.mean(1).var(ddof=1) / 4
    of_seeds = means.mean(0).var(ddof=1) / 3
    squares = of_prompts * stats.t.isf(0.025, 3) ** 2
    squares += of_seeds * stats.t.isf(0.025, 2) ** 2
    half = math.sqrt(squares)
    assert score.over == "prompts and seeds"
    assert score.low == pytest.approx(means.mean() - half)
    assert score.high == pytest.approx(means.mean() + half)


# --- runs that are missing ---------------------------------------------------------------------------------


def test_item_shares_are_of_the_seeds_that_have_a_score_under_every_prompt():
    rng = np.random.default_rng(13)
    values = rng.normal(size=(2, 3, 3, 20))
    values += 5 * np.arange(3)[:, None, None]
    data = without_score(study_of(values), "c1", "q", 0)
    items = item_differences(data, "c0", "c1", "T").sort_values("item")

    first = values[0].mean((0, 1))
    second = values[1][:, 1:].mean((0, 1))
    assert items["share"].to_numpy() == pytest.approx((second - first) / 20)
    for seed in (1, 2):
        data = without_score(data, "c1", "q", seed)

    (summary,) = summarise(data)
    assert summary.rows[1].cells[0].value is None
    assert list(task_items(data, "T").cells) == ["c0"]
    with pytest.raises(RunError, match="no cell `c1` has items"):
        item_differences(data, "c0", "c1", "T")
