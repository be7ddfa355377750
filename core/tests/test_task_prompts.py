"""Prompts of tasks: which one a text gets, and what scores and saved encoders say of it."""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np
import pytest
from sentbed import ModelError, SentbedError, build_encoder
from sentbed.protocols import (
    DrivesEncoder,
    Evaluation,
    Evaluator,
    Prepared,
    Score,
    Texts,
    TextTask,
)
from sentbed_poolers.template_prompt import TemplatePrompt
from toy_plugin import RECIPE, assert_same_vectors

TASK_PROMPTS = (
    'task_prompts = { query = { template = "q {text}" }, "Facts-query" = { template = "f {text}" }, '
    'sts = { template = "s {text}" }, search-document = { template = "{instruction}; {text}" } }'
)
TEXT = "abc"


def encoder_with(recipe_of, task_prompts=TASK_PROMPTS):
    return build_encoder(
        recipe_of(RECIPE.replace("pooler", f"{task_prompts}\npooler", 1))
    )


def with_prompt(encoder, template):
    """Return the encoder with one prompt for all texts."""
    prompt = None if template is None else TemplatePrompt(template)
    return attrs.evolve(
        encoder, recipe=attrs.evolve(encoder.recipe, prompt=prompt, task_prompts=None)
    )


@attrs.frozen
class Lists(Evaluator):
    """Scores lists of one text by the first number of their vectors."""

    name: ClassVar[str] = "sts"
    two_sided = True

    lists: dict[str, Texts]

    def prepare(self):
        return Prepared(self.lists, self._score)

    def _score(self, vectors):
        scores = []
        for name in self.lists:
            scores.append(Score(name, "first", float(vectors[name][0, 0]), {}))
        return Evaluation(tuple(scores), 0.0)


def score_of(encoder, *tasks):
    lists = {}
    for task in tasks:
        lists[task.name or "only"] = Texts([TEXT], task=task)
    return encoder.evaluate(Lists(lists), "encoder").scores


@pytest.mark.parametrize(
    ("task", "template"),
    [
        (TextTask("Other", "Retrieval", "query"), "q {text}"),
        (TextTask("FACTS", "Retrieval", "query"), "f {text}"),
        (TextTask("Facts", "STS", "query"), "f {text}"),
        (TextTask("STS12", "STS", "query"), "s {text}"),
        (TextTask("Facts", "Retrieval", "document"), None),
        (TextTask("STS12"), "s {text}"),
        (TextTask("STS12", "Clustering"), None),
        (TextTask("Notes", "Search", "document", "Find notes"), "Find notes; {text}"),
    ],
)
def test_a_text_gets_the_prompt_of_the_most_specific_key(recipe_of, task, template):
    encoder = encoder_with(recipe_of)
    expected = with_prompt(encoder, template)
    (score,) = score_of(encoder, task)
    assert score.value == expected.encode([TEXT])[0, 0]
    name = TextTask(task.name, task.type or "sts", task.side, task.instruction)
    assert_same_vectors(encoder.for_task(name), expected, [TEXT])
    described = expected.protocol().get("prompt", {})
    if described:
        described["max_length_with_prompt"] = 16
    assert score.protocol["encoder"]["prompt"] == (
        {task.side: described} if task.side else described
    )


def test_each_task_has_the_prompts_of_its_own_texts_and_a_mean_all_of_them(recipe_of):
    @attrs.frozen
    class Library(Evaluator):
        name: ClassVar[str] = "library"

        def prepare(self):
            return DrivesEncoder(self._evaluate)

        def _evaluate(self, encoder):
            for task in ("Facts", "Notes"):
                for side in ("query", "document"):
                    encoder.encode([TEXT], TextTask(task, "Retrieval", side))
            scores = [
                Score(name, "first", 0.0, {}) for name in ("Facts", "Notes", "AVG")
            ]
            scores.append(Score("Part", "first", 0.0, {"of": ["Notes"]}))
            return Evaluation(tuple(scores), 0.0)

    facts, notes, average, part = (
        encoder_with(recipe_of).evaluate(Library(), "encoder").scores
    )

    def templates(prompts):
        if not isinstance(prompts, dict) or "template" in prompts:
            return prompts["template"]
        return {key: templates(value) for key, value in prompts.items() if value}

    assert templates(facts.protocol["encoder"]["prompt"]) == {"query": "f {text}"}
    assert templates(notes.protocol["encoder"]["prompt"]) == {"query": "q {text}"}
    assert templates(average.protocol["encoder"]["prompt"]) == {
        "Facts": {"query": "f {text}"},
        "Notes": {"query": "q {text}"},
    }
    assert templates(part.protocol["encoder"]["prompt"]) == {
        "Notes": {"query": "q {text}"}
    }


def test_scores_without_prompts_of_tasks_have_the_protocol_of_the_encoder(recipe_of):
    encoder = encoder_with(recipe_of, 'prompt = { template = "p {text}" }')
    (score,) = score_of(encoder, TextTask("Facts", side="query"))
    assert score.protocol["encoder"] == encoder.protocol()
    assert score.value == encoder.encode([TEXT])[0, 0]


def test_a_second_encoder_has_prompts_of_its_own(recipe_of):
    encoder = encoder_with(recipe_of, 'prompt = { template = "p {text}" }')
    second = encoder_with(recipe_of)
    lists = {"right": Texts(second=[TEXT], task=TextTask("right", side="query"))}
    (score,) = encoder.evaluate(Lists(lists), "encoder", ("other", second)).scores
    # The type of the task, here the evaluator's name, goes before its side.
    assert score.value == with_prompt(second, "s {text}").encode([TEXT])[0, 0]
    assert (
        score.protocol["encoder"]["second"]["prompt"]["query"]["template"] == "s {text}"
    )
    assert score.protocol["encoder"]["prompt"]["template"] == "p {text}"


def test_an_instruction_that_a_task_lacks_is_missed(recipe_of):
    encoder = encoder_with(recipe_of)
    with pytest.raises(
        SentbedError,
        match="the task `Notes` gives none; put a prompt that spells it out",
    ):
        score_of(encoder, TextTask("Notes", "Search", "document"))


def test_a_saved_encoder_keeps_its_prompts_of_tasks(recipe_of, tmp_path, load_encoder):
    (tmp_path / "templates.txt").write_text("q: {text}\n")
    encoder = encoder_with(
        recipe_of,
        f"task_prompts = {{ query = {{ file = '{tmp_path}/templates.txt', line = 1 }} }}",
    )
    encoder.save(tmp_path / "e")
    (tmp_path / "templates.txt").unlink()
    loaded = load_encoder(tmp_path / "e")
    task = TextTask(side="query")
    expected = with_prompt(encoder, "q: {text}").encode([TEXT])
    np.testing.assert_array_equal(loaded.for_task(task).encode([TEXT]), expected)


@pytest.mark.parametrize(
    ("prompt_setting", "template", "limit", "beginning"),
    [
        ("", "xxxx{text}", 16, "abcdefghijk"),
        ('prompt = { template = "yy{text}" }', "xxxx{text}", 19, "abcdefghijklmn"),
    ],
)
def test_a_prompt_of_a_task_and_a_text_are_cut_together(
    recipe_of, prompt_setting, template, limit, beginning
):
    encoder = encoder_with(
        recipe_of,
        f'task_prompts = {{ query = {{ template = "{template}" }} }}\n{prompt_setting}',
    )
    # The toy tokenizer has a token for each character and for the start.
    assert encoder.recipe.max_length == 16
    text = "abcdefghijklmnopqrst"
    under_prompt = encoder.for_task(TextTask(side="query"))
    tokens = under_prompt.tokenizer().encode([text], under_prompt.recipe.max_length)
    assert list(tokens.lengths) == [limit]
    np.testing.assert_array_equal(
        under_prompt.encode([text]), under_prompt.encode([beginning])
    )
    (score,) = score_of(encoder, TextTask("Facts", side="query"))
    facts = score.protocol["encoder"]
    assert facts["prompt"]["query"]["max_length_with_prompt"] == limit
    assert facts["max_length"] == 16


@pytest.mark.parametrize(
    ("length", "message"),
    [
        (70, "a prompt has 71 tokens, the backbone has positions for 64"),
        (14, "has 15 tokens, and an input has up to 16: too few are left for a text"),
    ],
)
def test_a_prompt_of_a_task_that_leaves_no_token_is_refused_when_the_encoder_is_built(
    recipe_of, length, message
):
    with pytest.raises(ModelError, match=message):
        encoder_with(
            recipe_of,
            f'task_prompts = {{ query = {{ template = "{"x" * length}{{text}}" }} }}',
        )
