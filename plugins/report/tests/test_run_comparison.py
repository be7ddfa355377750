"""`sentbed compare`: runs and encoders as a study, and the differences from its baseline."""

from __future__ import annotations

import json
import re

import attrs
import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats
from sentbed._cli.main import main
from sentbed.protocols import Items, Score


def invoke(*words):
    return CliRunner().invoke(main, ["compare", *map(str, words)])


def score(task, value, encoder="en", items=None, **entries):
    """Return a score whose evaluator's protocol has these entries."""
    protocol = {"encoder": {}, "evaluator": {"id": "senteval", **entries}}
    return Score(task, "accuracy", value, protocol, encoder, "transfer", items)


def items_with(seed, share=0.5, n=200):
    """Return items of which a share are right."""
    return Items("mean", (np.random.default_rng(seed).random(n) < share).astype(float))


def right(items):
    return 100 * float(items.x.mean())


def test_two_runs_are_compared_score_by_score(write_run):
    a, b = items_with(1), items_with(2, 0.8)
    first_run = write_run(
        "one", score("MR", right(a), items=a), score("CR", 70.0), pooler={"use": "mean"}
    )
    two = write_run(
        "two",
        score("CR", 75.0, "zh"),
        score("MR", right(b), "zh", b),
        seed=2,
        pooler={"use": "first"},
    )
    result = invoke(first_run, two)
    assert result.exit_code == 0, result.output
    assert "one (baseline)" in result.output
    assert (
        "Tests against one: paired, two-sided, Student's t over items" in result.output
    )
    assert (
        "Not tested (two): there is one seed, and the score has no items."
        in result.output
    )
    assert (
        "two differs from one in:\n  encoder.pooler.use: 'mean' -> 'first'"
        in result.output
    )

    # A paired t-test over the items.
    expected = stats.ttest_rel(100 * b.x, 100 * a.x)
    low, high = expected.confidence_interval(0.95)
    document = json.loads(invoke(first_run, two, "--json").output)
    mr, cr, _ = document["tables"][0]["rows"][1]["values"]
    judged = mr["against_baseline"]
    assert judged["p_value"] == pytest.approx(expected.pvalue)
    assert (judged["low"], judged["high"]) == pytest.approx((low, high))
    assert (
        cr["against_baseline"]["difference"],
        cr["against_baseline"]["p_value"],
    ) == (5.0, None)
    (line,) = [
        line for line in result.output.splitlines() if line.startswith("two   MR ")
    ]
    *_, corrected, margin = re.split("  +", line)
    assert corrected == "< 0.001 ‡"
    assert margin == f"{judged['equal_within']:.2f}"
    assert f"+{right(b) - right(a):.2f}, {low:.2f} to {high:.2f}" in line


@pytest.mark.parametrize(
    ("seed", "difference"),
    [
        (1, "recipe and seed are identical"),
        (2, "the recipes are identical, the seeds are not"),
    ],
)
def test_runs_of_one_recipe_differ_in_the_seed_at_most(write_run, seed, difference):
    first_run = write_run("one", score("MR", 80.0), seed=1)
    two = write_run("two", score("MR", 81.0), seed=seed)
    lines = invoke(first_run, two).output.splitlines()
    assert f"two and one: {difference}" in lines


def test_scores_of_unlike_protocol_or_items_are_not_compared(write_run):
    first_run = write_run(
        "one", score("MR", 80.0, items=items_with(1), classifier={"folds": 10})
    )
    two = write_run(
        "two", score("MR", 81.0, items=items_with(1), classifier={"folds": 5})
    )
    text = invoke(first_run, two).output
    assert "classifier.folds (10 against 5)" in text
    assert "95 % interval" not in text
    three = write_run(
        "three", score("MR", 81.0, items=items_with(1, n=199), classifier={"folds": 10})
    )
    text = invoke(first_run, three).output
    assert (
        "(three): the two scores cannot be paired: one was scored on 200 items" in text
    )


def test_a_degenerate_score_is_marked_and_not_tested(write_run):
    constant = attrs.evolve(
        score("MR", 80.0, items=items_with(1)),
        degenerate="all predictions are the same",
    )
    text = invoke(
        write_run("one", constant),
        write_run("two", score("MR", 81.0, items=items_with(2))),
    ).output
    assert "neither ranked nor tested: all predictions are the same" in text
    assert "Not tested (two): a score is not finite." in text
