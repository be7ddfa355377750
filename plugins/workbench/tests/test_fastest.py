from __future__ import annotations

import json

import attrs
import numpy as np
import pytest
import toy_plugin
from planted_runtimes import WORDS, Order, Planted
from sentbed import RecipeError, RunError, RuntimeUnavailableError, run
from sentbed.protocols import EncodingWork
from sentbed.tools import Evaluate, check, load_plugins
from sentbed_workbench.fastest import Fastest, agreement, sample_of_lengths

pytestmark = pytest.mark.slow

SLOW = Planted(seconds=0.03)
"""A right engine that any wrong one is faster than."""

RECIPE = toy_plugin.RECIPE.partition("[[stage]]")[0]


def fastest(*candidates, **settings):
    return Fastest(
        candidates=candidates,
        reference=toy_plugin.Toy(),
        rounds=2,
        **settings,
    )


@pytest.fixture
def recipe(recipe_of):
    recipe = recipe_of(RECIPE)
    return attrs.evolve(recipe, evaluate=(Evaluate(Order()),))


def choice(runtime, recipe):
    """Return what the manifest says of a choice."""
    work = EncodingWork(recipe, lambda: {"encoder": WORDS}, print)
    return runtime.chosen(work).facts


REASONS = {
    "raises": "the kernel has no such shape; take another",
    "crashes": "its process was ended by SIGSEGV",
    "exits": "its process ended with exit code 3: the library prints this",
    "wrong": "the least cosine to the reference is",
    "wrong later": "the least cosine to the reference is -1.0000, expected 0.95 or more",
    "longer": "the shorter has 0.5000 of the other's length",
    "not finite": "its vectors have NaN or infinity",
    "narrow": "its vectors have the shape (20, 3), those of the reference (20, 4)",
}


@pytest.mark.whole
def test_fast_engines_with_a_fault_are_dropped_and_say_why(recipe):
    candidates = [Planted(fault=fault) for fault in REASONS]

    facts = choice(fastest(*candidates, SLOW), recipe)
    *faulty, right = facts["candidates"]
    for row, reason in zip(faulty, REASONS.values(), strict=True):
        assert reason in row["dropped"]
    assert right["dropped"] == ""
    assert facts["taken"] == right["runtime"]


def test_an_engine_that_hangs_is_ended(recipe):
    facts = choice(fastest(Planted(fault="hangs"), SLOW, seconds=3), recipe)

    hanging, _ = facts["candidates"]
    assert hanging["dropped"] == "no answer within 3 s; raise `seconds`"
    assert facts["taken"]["seconds"] == SLOW.seconds
    assert facts["candidates"][1]["rounds"] == 2
    assert facts["seconds"] < 30


def test_the_fastest_whose_scores_are_near_is_taken(recipe):
    near = Planted(fault="slightly wrong")

    facts = choice(fastest(near, SLOW), recipe)
    first, second = facts["candidates"]
    assert facts["scores"] == ["0/order/pearson"]
    assert first["least_cosine"] > 0.95
    assert "the score order/pearson is" in first["dropped"]
    assert second["score_difference"] == 0
    assert facts["taken"] == second["runtime"]

    # Texts that are too many are not scored.
    facts = choice(fastest(near, SLOW, scored_texts=len(WORDS) - 1), recipe)
    assert facts["taken"] == first["runtime"]
    assert facts["scores"] == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param(
            {"candidates": (Planted(fault="wrong"), Planted(fault="crashes"))},
            "none is left.*\n  planted fp32: the least cosine .*\n  planted fp32: .*SIGSEGV",
            id="no candidate is left",
        ),
        pytest.param(
            {"reference": Planted(fault="raises")},
            "the reference of `fastest` fails, `planted`: the kernel has no such shape",
            id="the reference fails",
        ),
    ],
)
def test_what_leaves_no_choice_is_an_error(settings, message, recipe):
    runtime = attrs.evolve(fastest(SLOW), **settings)
    with pytest.raises(RunError, match=message):
        choice(runtime, recipe)


def test_evaluations_without_texts_are_an_error(recipe):
    with pytest.raises(RunError, match="give no texts to time runtimes on"):
        fastest(SLOW).chosen(EncodingWork(recipe, dict, print))


def test_a_run_takes_it_and_its_manifest_has_the_figures(recipe, plugins, tmp_path):
    runtime = fastest(Planted(fault="crashes"), toy_plugin.Toy(), scored_texts=0)
    run(attrs.evolve(recipe, runtime=runtime), tmp_path / "run", plugins)

    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["engine"]["device"] == "toy"
    facts = manifest["runtime_choice"]
    assert facts["taken"] == {"use": "toy", "precision": "fp32", "token_budget": 64}
    assert facts["texts"] == {"encoder": len(WORDS)}
    assert [row["dropped"] for row in facts["candidates"]] == [
        "its process was ended by SIGSEGV",
        "",
    ]


def test_without_candidates_the_variants_of_installed_runtimes_are_tried(
    recipe, plugins, monkeypatch
):
    monkeypatch.setattr("sentbed_workbench.fastest.load_plugins", lambda: plugins)
    facts = choice(fastest(threads=3), recipe)

    assert [row["runtime"]["use"] for row in facts["candidates"]] == ["toy"]


def test_a_stage_with_it_is_refused(recipe_of, plugins):
    trained = attrs.evolve(recipe_of(), runtime=fastest(SLOW))
    with pytest.raises(RecipeError, match="only encodes; train on `cpu` or `cuda`"):
        check(trained, plugins)


def test_what_cannot_be_a_candidate_is_a_problem():
    spread = load_plugins().find("runtime", "cpu").cls(devices=2)
    problems = list(fastest(Fastest(), spread, SLOW).check())

    assert [problem.partition(";")[0] for problem in problems] == [
        "the candidate `fastest` chooses another one itself",
        "the candidate `cpu` has 2 processes, and each is tried in one",
    ]


def test_it_builds_nothing_by_itself():
    with pytest.raises(RuntimeUnavailableError, match="when the recipe is run"):
        Fastest().build()


def test_texts_of_all_lengths_are_timed():
    texts = ["a" * length for length in range(1, 101)]
    sample = sample_of_lengths([*texts, *texts], 12)

    lengths = [len(text) for text in sample]
    assert (lengths[0], lengths[-1], len(set(lengths))) == (1, 100, 12)
    assert sample_of_lengths(["b", "a", "b"], 12) == ["b", "a"]
    assert sample_of_lengths(texts, 1) == ["a"]


def test_agreement_is_that_of_the_worst_text():
    expected = np.array([[3, 4], [0, 0], [1, 0]], np.float32)
    vectors = np.array([[6, 8], [0, 0], [1, 1]], np.float32)

    cosine, ratio = agreement(vectors, expected)
    assert cosine == pytest.approx(2**-0.5)
    assert ratio == pytest.approx(0.5)
    assert np.isnan(agreement(vectors * np.nan, expected)[0])
    assert agreement(expected[:1], np.zeros((1, 2), np.float32)) == (0.0, 0.0)
