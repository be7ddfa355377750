"""The contract of an evaluator. The vectors of the encoder are pseudo-random functions of the texts."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from sentbed.protocols import (
    ANY_TASK,
    Evaluation,
    Evaluator,
    Preparation,
    Prepared,
    Score,
    TextEncoder,
    TextTask,
)
from sentbed_common import host_generator_states, item_score

from sentbed_testing.component_contract import ComponentContract

WIDTH = 16
ROUNDING = 0.006
"""Largest allowed difference between a score and what its items give, since SentEval rounds to two decimals."""


class HashEncoder(TextEncoder):
    """Text encoder without weights. The vector of a text is drawn from a seed that is the hash of the text."""

    def encode(
        self,
        texts: Sequence[str],
        task: TextTask = ANY_TASK,
    ) -> NDArray[np.float32]:
        """Return one vector per text."""
        assert isinstance(texts, Sequence), "give `encode` a list of strings"

        vectors = np.empty((len(texts), WIDTH), np.float32)
        for row, text in enumerate(texts):
            assert isinstance(text, str), "give `encode` a list of strings"
            digest = hashlib.sha256(text.encode()).digest()
            generator = np.random.default_rng(int.from_bytes(digest[:8], "little"))
            vectors[row] = generator.standard_normal(WIDTH)

        return vectors


def score_key(score: Score) -> tuple[str, str, str]:
    """Return what identifies a score within an evaluation: task, metric and protocol."""
    return score.task, score.metric, repr(sorted(score.protocol.items(), key=str))


def values_of(evaluation: Evaluation) -> dict[tuple[str, str, str], float]:
    """Return the values of all scores and `primary`, by key."""
    values = {score_key(score): score.value for score in evaluation.scores}
    values["", "primary", ""] = evaluation.primary
    return values


class EvaluatorContract(ComponentContract):
    """Tests of an evaluator, on the data that the tested component names."""

    component: ClassVar[Evaluator]

    @pytest.fixture
    def prepared(self, component: Evaluator) -> Preparation:
        """The prepared evaluation."""
        return component.prepare()

    @pytest.fixture
    def evaluation(self, prepared: Any) -> Evaluation:
        """The evaluation of the encoder."""
        evaluation: Evaluation = prepared.evaluate(HashEncoder())
        return evaluation

    def test_lists(
        self,
        component: Evaluator,
        prepared: Preparation,
    ) -> None:
        """`prepare` returns the same lists of strings in every call."""
        if not isinstance(prepared, Prepared):
            pytest.skip("the evaluator drives the encoder itself")

        again: Any = component.prepare()

        assert again.lists.keys() == prepared.lists.keys()

        for name, texts in prepared.lists.items():
            assert all(isinstance(text, str) for text in texts.both), name
            assert again.lists[name].both == texts.both, name
            if len(texts.second):
                assert component.two_sided, f"`{name}` has a second side"

    def test_scores(self, evaluation: Evaluation) -> None:
        """Scores and `primary` are finite, and scores of equal task and metric have different protocols."""
        assert isinstance(evaluation, Evaluation)
        assert evaluation.scores
        assert math.isfinite(evaluation.primary)

        for score in evaluation.scores:
            assert math.isfinite(score.value)
            assert score.protocol.get("id"), "the protocol of a score has an `id`"

        keys = [score_key(score) for score in evaluation.scores]

        assert len(set(keys)) == len(keys)

    def test_a_second_evaluation_gives_the_same(
        self,
        component: Evaluator,
        prepared: Any,
        evaluation: Evaluation,
    ) -> None:
        """A second evaluation gives the same scores, also after a second call of `prepare`.

        It leaves the global generators as they are: training goes on with them after a validation.
        """
        again: Any = component.prepare()
        # The evaluation before this one may have set them to the same seed.
        random.random()
        np.random.rand()
        generators = host_generator_states()
        for second in (prepared, again):
            assert values_of(second.evaluate(HashEncoder())) == values_of(evaluation)

        assert host_generator_states() == generators, "use a generator of its own"

    def test_items(self, evaluation: Evaluation) -> None:
        """Each score can be computed from its items."""
        for score in evaluation.scores:
            if score.items is not None:
                difference = abs(item_score(score.items) - score.value)
                assert difference <= ROUNDING, f"{score.task}/{score.metric}"

    def test_texts_of_items(
        self,
        prepared: Preparation,
        evaluation: Evaluation,
    ) -> None:
        """`item_texts` has the encoded texts of each item of a score."""
        if not isinstance(prepared, Prepared):
            pytest.skip("the evaluator drives the encoder itself")

        encoded: set[str] = set()
        for texts in prepared.lists.values():
            encoded.update(texts.both)

        item_texts = prepared.item_texts()
        for score in evaluation.scores:
            by_task = item_texts.get(score.task)
            of_score = item_texts.get(f"{score.task}/{score.metric}", by_task)
            if of_score is not None and score.items is not None:
                assert len(of_score) == len(score.items.x)
                for item in of_score:
                    assert set(item) <= encoded
