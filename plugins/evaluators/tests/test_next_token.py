from __future__ import annotations

import hashlib
import json
import math
import re
from typing import ClassVar

import attrs
import numpy as np
import pytest
from sentbed import DataError, RunError
from sentbed.protocols import (
    Backbone,
    BackboneTraits,
    BuiltBackbone,
    Head,
    Pooler,
    PoolerTraits,
)
from sentbed_evaluators.next_token import BLOCK, NextToken, NextTokenEvaluation
from sentbed_evaluators.next_token_report import sections, shown, write_predictions

WORDS = ("horse", " rain", "the", "", "\n", "\ufffd")


class Linear(BuiltBackbone):
    """A head whose logits are the states themselves."""

    vocabulary = WORDS
    width = len(WORDS)

    def __init__(self):
        self.sizes = []

    def logits(self, states):
        self.sizes.append(len(states))
        return states


@attrs.frozen
class Model(Backbone):
    """A backbone that is only asked for its traits."""

    name: ClassVar[str] = "model"
    traits = BackboneTraits(predicts=True)

    def build(self, context):
        """Return the linear head."""
        return Linear()


@attrs.frozen
class Blind(Model):
    """A backbone without a head."""

    name: ClassVar[str] = "blind"
    traits = BackboneTraits()


@attrs.frozen
class Asks(Pooler):
    """A pooler that is only asked for its needs."""

    name: ClassVar[str] = "asks"
    need: str

    @property
    def traits(self):
        return PoolerTraits(needs=frozenset({self.need}))

    def build(self, width):
        """Return nothing."""
        return


@pytest.fixture
def predict(table_encoder):
    """Evaluate sentences whose logits are given."""

    def run(table, **fields):
        encoder = table_encoder(table)
        encoder.backbone = Linear()
        evaluation = NextToken(texts=tuple(table), **fields).prepare().evaluate(encoder)
        assert isinstance(evaluation, NextTokenEvaluation)
        return evaluation

    return run


def test_predictions_and_scores_are_those_of_a_naive_loop(
    predict,
):
    table = {
        "a": [2.0, 0.5, -1.0, 0.0, 3.0, -400.0],
        "b": [0.0, 1.5, 0.1, 0.2, 0.3, -500.0],
        "c": [9, 0, 0, 0, 0, 0],
    }
    evaluation = predict(table, count=3)
    top, bits = [], []
    for text, prediction in zip(table, evaluation.predictions, strict=True):
        total = sum(math.exp(logit) for logit in table[text])
        chances = [math.exp(logit) / total for logit in table[text]]
        best = sorted(range(6), key=lambda token: (-chances[token], token))[:3]
        assert prediction.text == text
        assert [word for word, _ in prediction.tokens] == [
            WORDS[token] for token in best
        ]
        assert [chance for _, chance in prediction.tokens] == pytest.approx(
            [chances[token] for token in best]
        )
        top.append(max(chances))
        bits.append(
            -sum(chance * math.log2(chance) for chance in chances if chance > 0)
        )
    distinct, first, entropy = evaluation.scores
    assert (distinct.value, evaluation.primary) == (100.0, 100.0)
    assert first.value == pytest.approx(100 * sum(top) / 3)
    assert entropy.value == pytest.approx(sum(bits) / 3)
    assert {score.direction for score in evaluation.scores} == {"none"}
    digest = hashlib.sha256(json.dumps(["a", "b", "c"]).encode()).hexdigest()
    assert entropy.protocol == {
        "id": "next-token",
        "sentences": 3,
        "vocabulary": 6,
        "data": digest,
    }


def test_one_answer_to_all_sentences_is_not_distinct(
    predict,
):
    evaluation = predict(
        {text: [0.0, 0.0, 5.0, 0.0, 0.0, float(n)] for n, text in enumerate("abcd")}
    )
    assert evaluation.scores[0].value == 25.0


def test_many_sentences_are_scored_in_blocks_and_more_tokens_than_there_are_cannot_be_listed(
    table_encoder,
):
    texts = tuple(f"text {k}" for k in range(2 * BLOCK + 3))
    encoder = table_encoder({}, width=len(WORDS))
    encoder.backbone = Linear()
    evaluation = NextToken(texts=texts, count=99).prepare().evaluate(encoder)
    assert encoder.backbone.sizes == [BLOCK, BLOCK, 3]
    assert [prediction.text for prediction in evaluation.predictions] == list(texts)
    assert {len(prediction.tokens) for prediction in evaluation.predictions} == {6}
    for prediction in evaluation.predictions:
        assert sum(chance for _, chance in prediction.tokens) == pytest.approx(1)


def test_sentences_may_be_the_lines_of_a_file(write):
    path = write("sentences.txt", "One.\nTwo.\n")
    prepared = NextToken(path=str(path)).prepare()
    assert tuple(prepared.texts()) == ("One.", "Two.")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"texts": ()}, "`texts` is empty"),
        ({"texts": ("a", " ")}, "has an empty sentence"),
        ({"texts": ("a",), "path": "a.txt"}, "exclude each other"),
        ({"path": "."}, "is a directory"),
    ],
)
def test_sentences_that_cannot_be_read_are_refused(fields, problem):
    problems = list(NextToken(**fields).check())
    assert problem in problems[0]
    with pytest.raises(DataError):
        NextToken(**fields).prepare()


@pytest.mark.parametrize("need", ["causal", "mask-token"])
def test_a_language_model_with_a_prompt_fits(need):
    assert list(NextToken().misfits(Model(), Asks(need), Head())) == []


@pytest.mark.parametrize(
    ("backbone", "need", "head", "pattern"),
    [
        (
            Blind(),
            "causal",
            Head(),
            "the backbone `blind`.*use a pretrained causal model",
        ),
        (
            Model(),
            "layers",
            Head(),
            "the pooler `asks` returns another vector; use `prompt`",
        ),
        (Model(), "causal", Head(normalize=True), "take `head` out"),
    ],
)
def test_parts_that_predict_nothing_are_refused(backbone, need, head, pattern):
    (problem,) = NextToken().misfits(backbone, Asks(need), head)
    assert re.search(pattern, problem)


def test_an_encoder_without_a_backbone_is_refused(encoder):
    with pytest.raises(RunError, match="this encoder has none"):
        NextToken().prepare().evaluate(encoder)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_logits_that_are_not_finite_are_refused(table_encoder, value):
    class Broken(Linear):
        def logits(self, states):
            return np.full((len(states), 6), value, np.float32)

    encoder = table_encoder({"a": [0.0] * 6})
    encoder.backbone = Broken()
    with pytest.raises(RunError, match="logits have NaN or infinite"):
        NextToken(texts=("a",)).prepare().evaluate(encoder)


# --- tables ------------------------------------------------------------------------------------------------


def scores_of_run(evaluation, encoder, template='{text} "'):
    """Return the scores as a run has them."""
    how = {"prompt": {"template": template, "normalizer": "none"}}
    return [
        attrs.evolve(
            score,
            encoder=encoder,
            evaluator="next-token",
            protocol={"encoder": how, "evaluator": score.protocol},
        )
        for score in evaluation.scores
    ]


def test_each_list_of_sentences_has_a_table_with_a_column_per_encoder(
    predict, tmp_path
):
    before = predict({"a": [5.0, 0, 0, 0, 0, 0], "b": [0, 5.0, 0, 0, 0, 0]}, count=2)
    after = predict({"a": [0, 0, 5.0, 0, 0, 0], "b": [0, 0, 0, 0, 5.0, 0]}, count=1)
    other = predict({"c": [0, 0, 0, 0, 0, 5.0]}, count=1)
    scores = []
    for name, evaluation in (("m@start", before), ("m", after), ("m", other)):
        write_predictions(tmp_path, name, evaluation)
        scores += scores_of_run(evaluation, name)
    first, second = sections(tmp_path, scores)
    assert (first.key, second.key) == ("next-token", "next-token-2")
    assert first.columns == ("Sentence", 'm before training:\n… "', 'm:\n… "')
    chance = math.exp(5) / (math.exp(5) + 5)
    assert [row[0] for row in first.rows] == ["a", "b"]
    ((horse, rain), (rain_too, _)) = (row[1] for row in first.rows)
    assert (horse[0], rain_too[0]) == ("horse", "rain")
    assert (horse[1], rain[1]) == (
        pytest.approx(chance),
        pytest.approx(1 / (math.exp(5) + 5)),
    )
    assert [row[2][0][0] for row in first.rows] == ["the", "(line end)"]
    assert second.rows == (("c", (("(bytes)", pytest.approx(chance)),)),)


def test_a_token_without_a_visible_character_has_a_name():
    tokens = (" Horse", "", " ", "\n", "\t\t", "\ufffd", "a\ufffd", "\x07")
    assert [shown(token) for token in tokens] == [
        "Horse", "(nothing)", "(space)", "(line end)", "(white space)", "(bytes)", "a\ufffd", "(bytes)",
    ]  # fmt: skip


def test_predictions_that_have_been_lost_are_named(predict, tmp_path):
    evaluation = predict({"a": [5.0, 0, 0, 0, 0, 0]})
    with pytest.raises(RunError, match=r"next-token/m-.*\.json` cannot be read"):
        sections(tmp_path, scores_of_run(evaluation, "m"))
