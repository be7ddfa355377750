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
    return judge_cell(baseline, cell, ComponentStore())


def naive_interval(differences):
    """Mean and 95 % interval of differences `(prompts, seeds, items)`, by loops over the definition."""
    prompts, seeds, items = differences.shape
    mean = sum(differences.ravel()) / differences.size

    def variance_of_mean(means):
        squares = sum((value - mean) ** 2 for value in means)
        return float(squares / (len(means) - 1) / len(means))

    square = 0.0
    for axis, length in enumerate((prompts, seeds, items)):
        means = []
        for place in range(length):
            means.append(differences.take(place, axis).mean())
        square += variance_of_mean(means) * stats.t.isf(0.025, length - 1) ** 2

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
    values += spread * rng.normal(size=(2, prompts, 1, 1))
    values += rng.normal(size=(2, 1, seeds, 1))
    comparison = judged(scores_of(values[0]), scores_of(values[1]))
    mean, low, high = naive_interval(values[1] - values[0])
    assert comparison.difference == pytest.approx(mean)
    assert comparison.interval == pytest.approx((low, high))
    assert comparison.basis == "items, prompts and seeds"


def test_the_p_value_is_the_level_at_which_the_difference_is_critical():
    # Over 3 seeds V = 1, over 4 prompts V = 5/3, over 42 items 1: 1/3 + 5/12 + 1 in all.
    seeds = {1: 1.0, 2: 2.0, 3: 3.0}
    prompts = {"p": 0.5, "q": 1.5, "r": 2.5, "s": 3.5}
    comparison = with_test(Judged(seeds, 1.0, 41, prompts))

    def critical(level):
        of_items = stats.t.isf(level / 2, 41)
        of_seeds = stats.t.isf(level / 2, 2)
        of_prompts = stats.t.isf(level / 2, 3)
        squares = of_items**2 + of_seeds**2 / 3 + of_prompts**2 * 5 / 12
        return float(math.sqrt(squares))

    expected = optimize.brentq(lambda level: critical(level) - 2, 1e-9, 1, xtol=1e-15)
    assert comparison.p_value == pytest.approx(expected)
    assert comparison.estimate.variance == pytest.approx(1 + 1 / 3 + 5 / 12)


def test_nothing_that_a_seed_does_to_an_item_is_taken_from_the_items_under_sampled_prompts():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(2, 3, 4, 50))
    values[1] += rng.normal(size=(1, 4, 50))
    differences = (values[1] - values[0]).mean((0, 1))
    comparison = judged(scores_of(values[0]), scores_of(values[1]))
    assert comparison.item_variance == pytest.approx(differences.var(ddof=1) / 50)


def test_prompts_that_are_all_of_interest_are_averaged_and_have_no_variance():
    rng = np.random.default_rng(4)
    values = rng.normal(size=(2, 3, 4, 50))
    values += rng.normal(size=(2, 3, 1, 1))
    baseline = scores_of(values[0], are_sample=False)
    fixed = judged(baseline, scores_of(values[1], are_sample=False))
    averaged = []
    for cell in values.mean(1):
        averaged.append({seed: score_of(of_seed) for seed, of_seed in enumerate(cell)})

    expected = judge_cell(averaged[0], averaged[1], ComponentStore())
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
            score = score_of(np.zeros(1))
            of_prompts[prompt] = attrs.evolve(score, value=number, items=None)
        scores = PromptScores(of_prompts)
        columns.append({1: scores, 2: scores})

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
        columns = []
        for number, of_task in enumerate(cell):
            columns.append(scores_of(of_task, task=f"T{number}"))
        means.append(mean_column(columns))

    comparison = judge_cell(means[0], means[1], ComponentStore())
    difference = values[1] - values[0]
    assert comparison.difference == pytest.approx(difference.mean())
    for number, prompt in enumerate(PROMPTS[:3]):
        assert comparison.prompts[prompt] == pytest.approx(difference[:, number].mean())

    of_items = difference.mean((1, 2)).var(axis=1, ddof=1) / 20
    assert comparison.item_variance == pytest.approx(of_items.sum() / 4)


def test_an_evaluators_average_that_is_the_mean_gives_way_to_the_mean_which_has_items():
    rng = np.random.default_rng(8)
    first = scores_of(rng.normal(size=(2, 2, 10)), task="A")
    second = scores_of(rng.normal(size=(2, 2, 10)), task="B")
    without_items = attrs.evolve(score_of(np.zeros(1)), items=None)
    means = {}
    for seed in (0, 1):
        of_prompts = {}
        for prompt in PROMPTS[:2]:
            total = first[seed].of_prompts[prompt].value
            total += second[seed].of_prompts[prompt].value
            of_prompts[prompt] = attrs.evolve(without_items, value=total / 2)
        means[seed] = PromptScores(of_prompts)

    columns = [{"cell": first}, {"cell": second}]
    average = average_column(columns, {"cell": means})
    score = average["cell"][0]
    assert isinstance(score, PromptScores)
    assert isinstance(score.of_prompts["plain"], MeanScore)


def test_scores_under_other_prompts_are_not_compared():
    baseline = scores_of(np.random.default_rng(9).normal(size=(2, 2, 10)))
    other = {}
    single = {}
    for seed, scores in baseline.items():
        single[seed] = scores.of_prompts["plain"]
        of_prompts = {}
        for prompt, score in scores.of_prompts.items():
            of_prompts[f"{prompt}!"] = score
        other[seed] = PromptScores(of_prompts)

    for cell in (other, single):
        assert "not under the same prompts" in judged(baseline, cell).reason


def test_pairs_and_contrasts_of_a_table_count_the_prompts():
    rng = np.random.default_rng(10)
    values = rng.normal(size=(3, 4, 3, 25))
    values += rng.normal(size=(3, 4, 1, 1))
    first, second, third = values
    column = {"0": scores_of(first), "1": scores_of(second), "2": scores_of(third)}
    table = TableScores(column, ComponentStore())

    pair = table.pairs(["0", "1"])["0", "1"]
    _, *interval = naive_interval(second - first)
    assert pair.interval == pytest.approx(interval)

    contrast = table.contrast({"0": -1.0, "1": 0.5, "2": 0.5})
    _, *interval = naive_interval((second + third) / 2 - first)
    assert contrast.interval == pytest.approx(interval)


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
