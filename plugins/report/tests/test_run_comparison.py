"""`sentbed compare` of two runs, score by score."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from sentbed import RunError
from sentbed.protocols import Items, Score
from sentbed_report.run_comparison import compare_runs, comparison_json, comparison_text
from sentbed_report.run_results import read_results
from sentbed_report.statistics.resampling import compare

Write = Callable[..., Path]


def score(
    task: str,
    value: float,
    encoder: str = "en",
    items: Items | None = None,
    pooler: str = "",
    **entries: Any,
) -> Score:
    """Return a score whose evaluator's protocol has these entries."""
    protocol = {"encoder": {"pooler": pooler}, "evaluator": {"id": "senteval", **entries}}
    return Score(task, "accuracy", value, protocol, encoder, "transfer", items)


def items_with(seed: int, share: float = 0.5, n: int = 200) -> Items:
    """Return items of which a share are right."""
    return Items("mean", (np.random.default_rng(seed).random(n) < share).astype(float))


def test_two_runs_are_compared_score_by_score(write_run: Write) -> None:
    a, b = items_with(1), items_with(2, 0.8)
    one = write_run("one", score("MR", 50.0, items=a, pooler="mean"), score("CR", 70.0, pooler="mean"))
    two = write_run(
        "two", score("CR", 75.0, "zh", pooler="first"), score("MR", 80.0, "zh", items=b, pooler="first")
    )
    comparison = compare_runs(one, two)
    assert (comparison.a, comparison.b) == ("one/en", "two/zh")
    assert [(row.a.task, row.b.value) for row in comparison.rows] == [("MR", 80.0), ("CR", 75.0)]
    assert comparison.rows[0].comparison == compare(a, b)
    assert comparison.rows[1].comparison is None
    assert comparison.remarks == ("The encoders differ in `pooler` (mean against first).",)

    text = comparison_text(comparison)
    (mr,) = re.findall(r"^MR .*$", text, re.MULTILINE)
    assert re.search(r"50\.00 +80\.00 +\+30\.00 +\d+\.\d\d to \d+\.\d\d +0\.002 ‡$", mr)
    assert "not corrected for the number of comparisons" in text
    assert "Where there is no p" in text

    document = json.loads(comparison_json(comparison))
    assert document["comparisons"][0]["p_value"] == pytest.approx(2 / 1001)
    assert document["comparisons"][1] == {
        "evaluator": "transfer",
        "task": "CR",
        "metric": "accuracy",
        "protocol": {"id": "senteval"},
        "a": 70.0,
        "b": 75.0,
        "difference": 5.0,
        "low": None,
        "high": None,
        "p_value": None,
    }


def test_the_method_and_the_number_of_resamples_are_those_asked_for(write_run: Write) -> None:
    a, b = items_with(1), items_with(2)
    one, two = write_run("one", score("MR", 50.0, items=a)), write_run("two", score("MR", 52.0, items=b))
    comparison = compare_runs(one, two, (), 300, "randomisation")
    assert comparison.rows[0].comparison == compare(a, b, 300, method="randomisation")
    assert "by approximate randomisation, 300 resamples" in comparison_text(comparison)


def test_scores_of_unlike_protocol_are_not_compared_and_the_entries_are_named(write_run: Write) -> None:
    one = write_run("one", score("MR", 80.0, classifier={"folds": 10}), score("CR", 70.0), score("TREC", 1.0))
    unlike = score("MR", 81.0, classifier={"folds": 5}, mode="fast")
    two = write_run("two", unlike, score("CR", 71.0), score("SST2", 1.0))
    comparison = compare_runs(one, two)
    assert [row.a.task for row in comparison.rows] == ["CR"]
    assert comparison.remarks == (
        "transfer MR accuracy (senteval): not compared, the protocols differ in `classifier.folds` "
        "(10 against 5), `mode` (nothing against fast)",
        "transfer TREC accuracy (senteval): only one/en has it",
        "transfer SST2 accuracy (senteval): only two/en has it",
    )
    reason = r"nothing of one/en and three/en can be compared:\n.*\.folds` \(10 ag"
    with pytest.raises(RunError, match=reason):
        compare_runs(one, write_run("three", unlike))


def test_a_score_under_two_protocols_is_compared_with_its_like(write_run: Write) -> None:
    one = write_run("one", score("MR", 80.0, folds=10), score("MR", 79.0, folds=5))
    two = write_run("two", score("MR", 69.0, folds=5), score("MR", 70.0, folds=10))
    assert [(row.a.value, row.b.value) for row in compare_runs(one, two).rows] == [(80, 70), (79, 69)]


def test_items_that_cannot_be_paired_are_a_remark(write_run: Write) -> None:
    one = write_run("one", score("MR", 80.0, items=items_with(1)), score("CR", 1.0))
    two = write_run("two", score("MR", 81.0, items=items_with(1, n=199)), score("CR", 2.0))
    (remark,) = compare_runs(one, two).remarks
    assert "MR accuracy (senteval): the two scores cannot be paired: one was scored on 200 items" in remark


def test_a_degenerate_score_is_a_remark_and_not_tested(write_run: Write) -> None:
    constant = attrs.evolve(score("MR", 80.0, items=items_with(1)), degenerate="all predictions are the same")
    one, two = write_run("one", constant), write_run("two", score("MR", 81.0, items=items_with(2)))
    comparison = compare_runs(one, two)
    assert comparison.rows[0].comparison is None
    assert comparison.remarks == (
        "transfer MR accuracy (senteval): not tested, the score of A is degenerate: "
        "all predictions are the same.",
    )


def test_scores_of_two_versions_of_a_plugin_are_compared_and_the_versions_remarked(write_run: Write) -> None:
    def by(version: str, value: float) -> Score:
        measured = score("MR", value, items=items_with(3))
        return attrs.evolve(measured, plugin=f"sentbed-evaluators {version}")

    one, two = write_run("one", by("0.1.0", 80.0)), write_run("two", by("0.2.0", 81.0))
    comparison = compare_runs(one, two)
    assert comparison.rows[0].comparison is not None
    assert comparison.remarks == ("A was scored by sentbed-evaluators 0.1.0, B by sentbed-evaluators 0.2.0.",)
    assert compare_runs(one, write_run("three", by("0.1.0", 82.0))).remarks == ()


def test_the_encoder_is_the_trained_one_or_has_to_be_named(write_run: Write) -> None:
    one = write_run("one", score("MR", 70.0, "en@start"), score("MR", 80.0))
    two = write_run("two", score("MR", 60.0), score("MR", 50.0, "zh"))
    assert compare_runs(one, write_run("three", score("MR", 1.0))).a == "one/en"
    assert compare_runs(one, two, ["en"]).b == "two/en"
    assert compare_runs(one, two, ["en@start", "zh"]).rows[0].b.value == 50.0
    assert compare_runs(one, one, ["en@start", "en"]).rows[0].b.value == 80.0
    with pytest.raises(RunError, match="has scores of `en`, `zh`; choose one with `--encoder`"):
        compare_runs(one, two)
    with pytest.raises(RunError, match=r"no scores of an encoder `e`\. "):
        compare_runs(one, two, ["e"])
    with pytest.raises(RunError, match="both are the encoder `en` of one run; name two of `en@start`, `en`"):
        compare_runs(one, one)


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"name": "x", "scores": [{}]}', b"[]"])
def test_what_is_no_run_directory_is_named(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "report.json").write_bytes(content)
    with pytest.raises(RunError, match="is not a run directory"):
        read_results(tmp_path)


def test_a_run_without_scores_says_what_to_add(write_run: Write) -> None:
    with pytest.raises(RunError, match=r"has no scores; add an `\[\[evaluate\]\]`"):
        read_results(write_run("empty"))
