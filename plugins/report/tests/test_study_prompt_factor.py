"""Prompts as a third source of variance, beside items and seeds."""

from __future__ import annotations

import math

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats
from sentbed.protocols import Items, Score
from sentbed_report.statistics.item_components import (
    ComponentStore,
    MeanScore,
    PromptScores,
)
from sentbed_report.statistics.significance import (
    Judged,
    TableScores,
    average_column,
    judge_cell,
    mean_column,
    with_test,
)

PROMPTS = ("plain", "eol", "echo", "instruction", "query", "task", "cot", "knowledge")


def score_of(values, task="T"):
    items = Items("mean", np.asarray(values, float), scale=1.0)
    protocol = {"encoder": {}, "evaluator": {"id": "p"}}
    return Score(task, "accuracy", float(np.mean(values)), protocol, "en", "e", items)


def scores_of(values, are_sample=True, task="T"):
    """Scores of a cell from `(prompts, seeds, items)`."""
    column = {}
    for seed in range(values.shape[1]):
        of_prompts = {}
        for number, prompt in enumerate(PROMPTS[: len(values)]):
            of_prompts[prompt] = score_of(values[number, seed], task)
        column[seed] = PromptScores(of_prompts, are_sample)

    return column


def judged(baseline, cell):
    return judge_cell(baseline, cell, ComponentStore(500))


def naive_interval(differences):
    """Mean and 95 % interval of differences `(prompts, seeds, items)`, by loops over the definition."""
    prompts, seeds, items = differences.shape
    mean = sum(differences.ravel()) / differences.size

    def variance_of_mean(means):
        squares = sum((value - mean) ** 2 for value in means)
        return float(squares / (len(means) - 1) / len(means))

    v_prompts = variance_of_mean([differences[p].mean() for p in range(prompts)])
    v_seeds = variance_of_mean([differences[:, s].mean() for s in range(seeds)])
    v_items = variance_of_mean([differences[:, :, i].mean() for i in range(items)])
    square = v_prompts * stats.t.isf(0.025, prompts - 1) ** 2
    square += v_seeds * stats.t.isf(0.025, seeds - 1) ** 2
    square += v_items * stats.t.isf(0.025, items - 1) ** 2
    reach = math.sqrt(square)
    return float(mean), float(mean - reach), float(mean + reach)


@given(
    st.integers(2, 4),
    st.integers(2, 4),
    st.integers(3, 30),
    st.floats(0, 3),
    st.integers(0, 2**32 - 1),
)
def test_the_interval_is_that_of_a_loop_over_prompts_seeds_and_items(
    prompts, seeds, items, spread, seed
):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(2, prompts, seeds, items))
    values += spread * rng.normal(size=(2, prompts, 1, 1)) + rng.normal(
        size=(2, 1, seeds, 1)
    )
    comparison = judged(scores_of(values[0]), scores_of(values[1]))
    mean, low, high = naive_interval(values[1] - values[0])
    assert comparison.difference == pytest.approx(mean)
    assert comparison.interval == pytest.approx((low, high))
    assert comparison.basis == "items, prompts and seeds"


def test_the_p_value_is_the_level_at_which_the_difference_is_critical():
    # Over 3 seeds V = 1, over 4 prompts V = 5/3, over 42 items 1: 1/3 + 5/12 + 1 in all.
    comparison = with_test(
        Judged(
            {1: 1.0, 2: 2.0, 3: 3.0},
            1.0,
            41,
            dict(zip(PROMPTS, (0.5, 1.5, 2.5, 3.5), strict=False)),
        )
    )

    def critical(level):
        squares = stats.t.isf(level / 2, 41) ** 2 + stats.t.isf(level / 2, 2) ** 2 / 3
        return float(math.sqrt(squares + stats.t.isf(level / 2, 3) ** 2 * 5 / 12))

    expected = optimize.brentq(lambda level: critical(level) - 2, 1e-9, 1, xtol=1e-15)
    assert comparison.p_value == pytest.approx(expected)
    assert comparison.estimate.variance == pytest.approx(1 + 1 / 3 + 5 / 12)


def test_nothing_that_a_seed_does_to_an_item_is_taken_from_the_items_under_sampled_prompts():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(2, 3, 4, 50))
    values[1] += rng.normal(size=(1, 4, 50))
    expected = (values[1] - values[0]).mean((0, 1)).var(ddof=1) / 50
    assert judged(
        scores_of(values[0]), scores_of(values[1])
    ).item_variance == pytest.approx(expected)


def test_prompts_that_are_all_of_interest_are_averaged_and_have_no_variance():
    rng = np.random.default_rng(4)
    values = rng.normal(size=(2, 3, 4, 50)) + rng.normal(size=(2, 3, 1, 1))
    fixed = judged(
        scores_of(values[0], are_sample=False), scores_of(values[1], are_sample=False)
    )
    averaged = []
    for cell in values.mean(1):
        averaged.append({seed: score_of(of_seed) for seed, of_seed in enumerate(cell)})

    expected = judge_cell(averaged[0], averaged[1], ComponentStore(500))
    assert fixed.basis == "items and seeds"
    assert fixed.p_value == pytest.approx(expected.p_value)
    assert fixed.interval == pytest.approx(expected.interval)
    sampled = judged(scores_of(values[0]), scores_of(values[1]))
    assert sampled.p_value > fixed.p_value


def test_one_seed_leaves_prompts_and_items():
    rng = np.random.default_rng(5)
    values = rng.normal(size=(2, 4, 1, 30))
    comparison = judged(scores_of(values[0]), scores_of(values[1]))
    assert comparison.basis == "items and prompts"
    difference = values[1] - values[0]
    of_items = difference.mean((0, 1)).var(ddof=1) / 30
    of_prompts = difference.mean((1, 2)).var(ddof=1) / 4
    assert comparison.estimate.variance == pytest.approx(of_items + of_prompts)


def test_prompts_without_items_and_with_equal_seeds_are_a_paired_t_test_over_the_prompts():
    numbers = np.random.default_rng(6).normal(size=(2, 4))
    columns = []
    for cell in numbers:
        of_prompts = {}
        for prompt, number in zip(PROMPTS, cell, strict=False):
            of_prompts[prompt] = attrs.evolve(
                score_of(np.zeros(1)), value=number, items=None
            )
        columns.append({seed: PromptScores(of_prompts) for seed in (1, 2)})

    comparison = judged(columns[0], columns[1])
    expected = stats.ttest_rel(numbers[1], numbers[0])
    assert comparison.basis == "prompts"
    assert comparison.degrees == 3
    assert comparison.p_value == pytest.approx(expected.pvalue)


def test_a_mean_over_tasks_has_the_mean_over_tasks_under_each_prompt():
    rng = np.random.default_rng(7)
    values = rng.normal(size=(2, 2, 3, 4, 20))  # cell, task, prompt, seed, item
    means = []
    for cell in values:
        columns = [
            scores_of(of_task, task=f"T{number}") for number, of_task in enumerate(cell)
        ]
        means.append(mean_column(columns))

    comparison = judge_cell(means[0], means[1], ComponentStore(500))
    difference = values[1] - values[0]
    assert comparison.difference == pytest.approx(difference.mean())
    for number, prompt in enumerate(PROMPTS[:3]):
        assert comparison.prompts[prompt] == pytest.approx(difference[:, number].mean())

    of_items = difference.mean((1, 2)).var(axis=1, ddof=1) / 20
    assert comparison.item_variance == pytest.approx(of_items.sum() / 4)


def test_an_evaluators_average_that_is_the_mean_gives_way_to_the_mean_which_has_items():
    rng = np.random.default_rng(8)
    columns = [
        {"cell": scores_of(rng.normal(size=(2, 2, 10)), task=task)}
        for task in ("A", "B")
    ]
    means = {}
    for seed in (0, 1):
        of_prompts = {}
        for prompt in PROMPTS[:2]:
            value = (
                sum(column["cell"][seed].of_prompts[prompt].value for column in columns)
                / 2
            )
            of_prompts[prompt] = attrs.evolve(
                score_of(np.zeros(1)), value=value, items=None
            )
        means[seed] = PromptScores(of_prompts)

    average = average_column(columns, {"cell": means})
    score = average["cell"][0]
    assert isinstance(score, PromptScores)
    assert isinstance(score.of_prompts["plain"], MeanScore)


def test_scores_under_other_prompts_are_not_compared():
    values = np.random.default_rng(9).normal(size=(2, 2, 10))
    other = {}
    for seed, scores in scores_of(values).items():
        other[seed] = PromptScores(
            {f"{prompt}!": score for prompt, score in scores.of_prompts.items()}
        )

    assert "not under the same prompts" in judged(scores_of(values), other).reason
    single = {
        seed: scores.of_prompts["plain"] for seed, scores in scores_of(values).items()
    }
    assert (
        "not under the same prompts"
        in judge_cell(scores_of(values), single, ComponentStore(500)).reason
    )


def test_pairs_and_contrasts_of_a_table_count_the_prompts():
    rng = np.random.default_rng(10)
    values = rng.normal(size=(3, 4, 3, 25)) + rng.normal(size=(3, 4, 1, 1))
    table = TableScores(
        {str(number): scores_of(of_cell) for number, of_cell in enumerate(values)},
        ComponentStore(500),
    )
    pair = table.pairs(["0", "1"])["0", "1"]
    assert pair.interval == pytest.approx(naive_interval(values[1] - values[0])[1:])
    contrast = table.contrast({"0": -1.0, "1": 0.5, "2": 0.5})
    assert contrast.interval == pytest.approx(
        naive_interval(values[1:].mean(0) - values[0])[1:]
    )


# --- error rate --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stds", "shape", "averaged_is_wrong"),
    [
        # Standard deviations of the difference over prompts, seeds and items, and of what is left.
        ((0.0, 0.1, 1.0, 0.5), (4, 3, 200), False),
        ((1.0, 0.0, 0.1, 0.0), (4, 3, 200), True),
        ((1.0, 0.1, 1.0, 0.5), (8, 5, 40), True),
        ((0.1, 0.3, 0.5, 0.5), (3, 10, 40), False),
    ],
)
def test_equal_cells_are_rarely_told_apart_whatever_varies_most(
    stds, shape, averaged_is_wrong
):
    """200 studies each; `benchmarks/prompt_statistics.py` has thousands, and more kinds."""
    rng = np.random.default_rng(0)
    prompts, seeds, items = shape
    wrong = averaged = covered = 0
    for _ in range(200):
        values = stds[0] * rng.normal(size=(prompts, 1, 1))
        values = values + stds[1] * rng.normal(size=(1, seeds, 1))
        values = values + stds[2] * rng.normal(size=(1, 1, items))
        values = values + stds[3] * rng.normal(size=shape)

        comparison = judged(scores_of(np.zeros(shape)), scores_of(values))
        if comparison.p_value < 0.05:
            wrong += 1
        low, high = comparison.interval
        if low <= 0 <= high:
            covered += 1

        fixed = judged(scores_of(np.zeros(shape), False), scores_of(values, False))
        if fixed.p_value < 0.05:
            averaged += 1

    # 5 % and three standard errors of 200 studies.
    assert wrong <= 200 * 0.096
    assert covered >= 200 * 0.904
    assert (averaged > 200 * 0.096) == averaged_is_wrong
