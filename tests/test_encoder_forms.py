"""Encoders with prompts, interventions or vectors of tokens: saved, on JAX, in bf16, exported, told apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from random_encoders import random_encoder
from sentbed import Encoder, ModelError
from sentbed_common import fingerprint_of
from sentbed_interop.export_and_import import export_encoder
from sentbed_poolers.template_prompt import TEMPLATES
from sentbed_testing import SENTENCES

TEXTS = ("A man is playing a guitar", 'Who said "no"?', "Rain falls.", "stop!", "")
TPU = {
    "use": "tpu",
    "platform": "cpu",
    "precision": "fp32",
    "lengths": [32, 64, 96],
    "token_budget": 512,
}
BERT = {"use": "bert", "init": "random", "size": "tiny", "vocab_size": 500}
OPT = {"use": "opt", "init": "random", "size": "mini", "vocab_size": 500}
CAUSAL = {**OPT, "use": "causal"}
BOTH_WAYS = {"attention": "bidirectional"}
TOKEN_PREPENDING = {"use": "token-prepending", "first": 1, "exit": 3}
CONTRASTIVE = {"use": "contrastive-prompting", "block": 1, "scale": 3.0}
ECHO = 'First "{text}" and then "{text}" again.'
"""A template with text behind the second sentence, and quotation marks that merge with a sentence's own."""
CK = [{"template": "knowledge"}, {"template": "pretended-cot"}]


def table(backbone, pooler, prompt=None, **more):
    """Return the table `[encoder]` of a recipe."""
    encoder = {"backbone": backbone, "pooler": {"use": pooler}, "max_length": 24}
    if prompt is not None:
        encoder["prompt"] = prompt
    return {**encoder, **more}


FORMS: Mapping[str, Mapping[str, Any]] = {
    "token prepending": table({**OPT, "intervention": TOKEN_PREPENDING}, "prompt-eol"),
    "contrastive prompting": table(
        {**CAUSAL, "intervention": CONTRASTIVE}, "prompt-eol"
    ),
    "several prompts": table(OPT, "prompt-eol", CK),
    "several prompts, a layer": table({**CAUSAL, "layers": [3]}, "prompt-eol", CK),
    "echo": table(OPT, "mean", {"template": ECHO}),
    "echo, last token": table(CAUSAL, "last", {"template": ECHO}),
    "both ways": table({**CAUSAL, **BOTH_WAYS}, "mean"),
    "both ways, prompt": table(
        {**OPT, **BOTH_WAYS}, "first", {"template": "a : {text}"}
    ),
    "tokens": table(BERT, "tokens", similarity="maxsim", head={"projection": 16}),
}


def rows_of(vectors):
    """Return vectors of texts, or of all tokens of all texts, as one array."""
    if isinstance(vectors, list):
        return np.concatenate(vectors)
    return vectors


def difference(vectors, expected):
    return float(np.abs(rows_of(vectors) - rows_of(expected)).max())


@pytest.mark.sweep(3)
@pytest.mark.parametrize("form", FORMS)
def test_a_saved_encoder_has_the_vectors_and_the_protocol_of_the_one_before(
    form, tmp_path
):
    encoder = random_encoder(FORMS[form], (*SENTENCES, *TEXTS))
    encoder.save(tmp_path / "e")
    loaded = Encoder.load(tmp_path / "e")

    assert difference(loaded.encode(TEXTS), encoder.encode(TEXTS)) < 1e-6
    assert loaded.recipe.prompts == encoder.recipe.prompts
    assert loaded.similarity == encoder.similarity
    assert loaded.protocol() == encoder.protocol()


@pytest.mark.parametrize(
    ("form", "key", "value"),
    [
        (
            "several prompts",
            "prompt",
            [
                {"template": TEMPLATES["knowledge"], "normalizer": "prompt-eol"},
                {"template": TEMPLATES["pretended-cot"], "normalizer": "prompt-eol"},
            ],
        ),
        ("both ways", "attention", "bidirectional"),
        ("tokens", "similarity", {"use": "maxsim", "mean": False}),
    ],
)
def test_the_protocol_of_a_score_has_the_form(form, key, value):
    assert random_encoder(FORMS[form], SENTENCES).protocol()[key] == value


@pytest.mark.jax
@pytest.mark.parametrize(
    "form", [form for form in FORMS if form not in ("contrastive prompting", "tokens")]
)
def test_jax_gives_the_same_vectors(form):
    texts = (*SENTENCES, *TEXTS)
    expected = random_encoder(FORMS[form], texts).encode(TEXTS)
    vectors = random_encoder(FORMS[form], texts, TPU).encode(TEXTS)

    assert difference(vectors, expected) < 1e-5


@pytest.mark.sweep(2)
@pytest.mark.instructions("bf16")
@pytest.mark.parametrize("form", FORMS)
def test_bf16_vectors_point_where_those_in_fp32_do(form):
    runtime = {"use": "cpu", "threads": 1, "precision": "bf16"}
    texts = (*SENTENCES, *TEXTS)
    exact = rows_of(random_encoder(FORMS[form], texts).encode(TEXTS))
    near = rows_of(random_encoder(FORMS[form], texts, runtime).encode(TEXTS))
    lengths = np.linalg.norm(exact, axis=1) * np.linalg.norm(near, axis=1)

    assert ((exact * near).sum(1) / lengths).min() > 0.999
    assert not np.allclose(near, exact, rtol=0, atol=1e-5)


@pytest.mark.parametrize("target", ["sentence-transformers", "onnx"])
@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ("token prepending", "has the intervention `token-prepending`"),
        ("several prompts", r"the encoder has 2 prompts, and .* reads a text once"),
        ("echo", "has no way to hide the first from the pooler"),
        ("tokens", "gives a vector of each token, and the format has one of each text"),
    ],
)
def test_a_format_that_has_no_such_form_refuses_it(form, reason, target, tmp_path):
    random_encoder(FORMS[form], SENTENCES).save(tmp_path / "e")
    with pytest.raises(ModelError, match=reason):
        export_encoder(tmp_path / "e", tmp_path / "out", target)


def test_stored_vectors_of_different_forms_are_told_apart():
    tables = [
        table(OPT, "prompt-eol"),
        FORMS["token prepending"],
        table({**OPT, "intervention": {**TOKEN_PREPENDING, "exit": 2}}, "prompt-eol"),
        table({**OPT, "intervention": CONTRASTIVE}, "prompt-eol"),
        table(
            {**OPT, "intervention": {**CONTRASTIVE, "rule": "norm", "scale": 1.0}},
            "prompt-eol",
        ),
        table(OPT, "prompt-eol", CK),
        table(OPT, "prompt-eol", CK[::-1]),
        table(OPT, "prompt-eol", CK[:1]),
        table({**OPT, "layers": [1]}, "prompt-eol", CK),
        table({**OPT, **BOTH_WAYS}, "mean"),
        table(OPT, "mean"),
    ]
    fingerprints = [fingerprint_of(random_encoder(each, SENTENCES)) for each in tables]

    assert None not in fingerprints
    assert len(set(fingerprints)) == len(tables)
