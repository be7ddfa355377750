"""What a language model would say next: probabilities are those of transformers, and the report has them."""

from __future__ import annotations

import json
import re

import pytest
import torch
from sentbed import RecipeError, build_encoder, load_recipe, resume, run
from sentbed._recipe.prompts import TEMPLATES
from sentbed_evaluators.next_token import NextToken

pytestmark = pytest.mark.slow

TEXTS = ("A jockey riding a horse.", "Rain falls", 'He said "no"?')

RECIPE = """
schema = 1
run = { name = "words", cache = false }
runtime = { use = "cpu" }

[encoders.plain]
max_length = 32
backbone = { use = "KIND", model = "MODEL" }
pooler = { use = "prompt" }

[encoders.one-word]
max_length = 32
backbone = { use = "KIND", model = "MODEL" }
pooler = { use = "prompt-eol" }

[[evaluate]]
use = "next-token"
encoder = "plain"
texts = TEXTS

[[evaluate]]
use = "next-token"
encoder = "one-word"
texts = TEXTS
"""


@pytest.fixture
def recipe_of(tmp_path):
    def load(kind, model, *overrides):
        text = (
            RECIPE.replace("KIND", kind)
            .replace("MODEL", str(model))
            .replace("TEXTS", json.dumps(TEXTS))
        )
        (tmp_path / "recipe.toml").write_text(text)
        return load_recipe(tmp_path / "recipe.toml", overrides)

    return load


def prompts(template):
    """The prompts by hand: a final stop where there is none, single quotes, no question mark."""
    filled = ("A jockey riding a horse.", "Rain falls.", "He said 'no'.")
    return [TEMPLATES[template].replace("{text}", text) for text in filled]


@pytest.mark.sweep(1)
@pytest.mark.parametrize("kind", ["opt", "causal"])
def test_probabilities_are_those_of_transformers_and_the_report_has_them(
    kind, decoders, recipe_of, tmp_path
):
    decoder = decoders[kind]
    out = tmp_path / "out"
    run(recipe_of(kind, decoder.directory), out)
    for encoder, template in (("plain", "prompt"), ("one-word", "prompt-eol")):
        (file,) = (out / "next-token").glob(f"{encoder}-*.json")
        rows = json.loads(file.read_text())
        assert [text for text, _ in rows] == list(TEXTS)
        for prompt, (_, predictions) in zip(prompts(template), rows, strict=True):
            ids = torch.tensor([decoder.tokenizer(prompt)["input_ids"]])
            with torch.no_grad():
                chances = decoder.network(input_ids=ids).logits[0, -1].softmax(-1)
            expected = chances.topk(5)
            assert [word for word, _ in predictions] == [
                decoder.tokenizer.decode([token]) for token in expected.indices
            ]
            assert [chance for _, chance in predictions] == pytest.approx(
                expected.values.tolist(), abs=1e-6
            )
    section = json.loads((out / "report.json").read_text())["sections"]["next-token"]
    assert [name.split(":")[0] for name in section["columns"]] == [
        "Sentence",
        "plain",
        "one-word",
    ]
    assert section["columns"][2].endswith('This sentence : "…" means in one word:"')
    page = (out / "report.html").read_text()
    assert "What the model would say next" in page
    assert len(re.findall(r'<ol class="bars', page)) == 2 * len(TEXTS)


def test_logits_of_a_prompt_are_those_of_transformers_to_1e_5(decoders, recipe_of):
    for kind in ("opt", "causal"):
        decoder = decoders[kind]
        recipe = recipe_of(kind, decoder.directory)
        for name, template in (("plain", "prompt"), ("one-word", "prompt-eol")):
            encoder = build_encoder(recipe, name)
            ours = torch.from_numpy(encoder.backbone.logits(encoder.encode(TEXTS)))
            for row, prompt in zip(ours, prompts(template), strict=True):
                ids = torch.tensor([decoder.tokenizer(prompt)["input_ids"]])
                with torch.no_grad():
                    theirs = decoder.network(input_ids=ids).logits[0, -1]
                torch.testing.assert_close(row, theirs, rtol=0, atol=1e-5)


def test_a_resumed_run_shows_what_was_predicted_before_training(
    decoders,
    recipe_of,
    tmp_path,
    monkeypatch,
):
    directory = decoders["opt"].directory
    stage = (
        'stage=[{ name = "s", train = "plain", data = { use = "sample" }, loss = { use = "info-nce" }, '
        'optimizer = { use = "adamw", lr = 1e-3 }, schedule = { use = "constant" }, '
        "batch_size = 4, steps = 2 }]"
    )
    recipe = recipe_of("opt", directory, stage, 'evaluate.0.at=["start", "end"]')
    out = tmp_path / "out"
    evaluate = NextToken._evaluate
    count = 0

    def interrupted(self, texts, encoder):
        nonlocal count
        count += 1
        if count == 2:
            raise KeyboardInterrupt
        return evaluate(self, texts, encoder)

    with monkeypatch.context() as patch:
        patch.setattr(NextToken, "_evaluate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(recipe, out)
    resume(out, recipe)
    section = json.loads((out / "report.json").read_text())["sections"]["next-token"]
    names = [name.split(":")[0] for name in section["columns"]]
    assert names == ["Sentence", "plain before training", "plain", "one-word"]
    assert [row[1] for row in section["rows"]] != [row[2] for row in section["rows"]]


def test_an_encoder_of_other_layers_is_refused_by_check(decoders, recipe_of):
    layers = 'encoders.plain.backbone.layers="first-last"'
    with pytest.raises(RecipeError) as caught:
        recipe_of("opt", decoders["opt"].directory, layers)
    (problem,) = caught.value.problems
    assert problem.path == "evaluate.0"
    assert "other `layers` than the last" in problem.message


def test_a_saved_encoder_that_predicts_nothing_is_refused(
    decoders, recipe_of, tmp_path
):
    from sentbed_workbench.evaluate import evaluate_encoder

    recipe = recipe_of("opt", decoders["opt"].directory)
    build_encoder(recipe, "plain").save(tmp_path / "plain")
    evaluation = evaluate_encoder(str(tmp_path / "plain"), "next-token", [])
    assert [score.metric for score in evaluation.scores] == [
        "distinct",
        "top-1",
        "entropy",
    ]
    mean = recipe_of(
        "opt",
        decoders["opt"].directory,
        'encoders.plain.pooler={ use = "mean" }',
        "evaluate=[]",
    )
    build_encoder(mean, "plain").save(tmp_path / "mean")
    with pytest.raises(RecipeError, match="the pooler `mean` returns another vector"):
        evaluate_encoder(str(tmp_path / "mean"), "next-token", [])
