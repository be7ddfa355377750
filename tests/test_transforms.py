"""Transforms of the head in whole runs: against transformers' own decoders, on JAX, after training, refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sentbed import DataError, Encoder, ModelError, load_recipe, run
from sentbed.tools import load_plugins
from sentbed_common import fingerprint_of
from sentbed_poolers.template_prompt import TEMPLATES

TEXTS = ("A jockey riding a horse.", "Rain falls", 'He said "no"?')
PROMPTS = ("A jockey riding a horse.", "Rain falls.", "He said 'no'.")
"""The sentences as PromptEOL's rules leave them."""

RECIPE = """
schema = 1
run = { name = "transforms" }
runtime = { use = "cpu" }

[encoder]
max_length = 32
backbone = { use = "KIND", model = "MODEL" }
pooler = { use = "prompt-eol" }
head = { normalize = true, transform = { use = "embed-filter" } }

[[evaluate]]
use = "sts"
path = "pkg:sentbed_data/sample/sts-dev.tsv"
"""

WHITENING = '{ use = "whitening", dimensions = 7, data = { use = "sample", kind = "sentences", limit = 150 } }'


@pytest.fixture
def recipe_of(tmp_path):
    def load(kind, model, *overrides):
        text = RECIPE.replace("KIND", kind.removesuffix("-350m")).replace(
            "MODEL", str(model)
        )
        (tmp_path / "recipe.toml").write_text(text)
        return load_recipe(tmp_path / "recipe.toml", overrides)

    return load


@torch.no_grad()
def states_of(model):
    """The state that each prompt's next token is predicted from, one text at a time."""
    rows = []
    for text in PROMPTS:
        prompt = TEMPLATES["prompt-eol"].replace("{text}", text)
        ids = torch.tensor([model.tokenizer(prompt)["input_ids"]])
        rows.append(
            model.network.model(input_ids=ids).last_hidden_state[0, -1].double().numpy()
        )
    return np.stack(rows)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("kind", ["opt", "opt-350m", "causal"])
@pytest.mark.parametrize("tau", [2, 4])
def test_filtered_vectors_are_those_of_a_loop_over_transformers(
    kind,
    tau,
    decoders,
    recipe_of,
    tmp_path,
):
    model = decoders[kind]
    tau_of_filter = f"encoder.head.transform.tau={tau}"
    run(recipe_of(kind, model.directory, tau_of_filter), tmp_path / "out")
    encoder = Encoder.load(tmp_path / "out" / "encoder")
    states = states_of(model)
    head = model.network.lm_head.weight.detach().double().numpy()
    directions = np.linalg.svd(head)[2]
    width = states.shape[1]
    kept = width // tau
    first = (width - kept) // 2
    expected = np.zeros_like(states)
    for row, state in enumerate(states):
        for direction in directions[first : first + kept]:
            expected[row] += (state @ direction) * direction
        expected[row] /= np.linalg.norm(expected[row])
    # The vectors are the coordinates in these directions, so that all cosines are those of the projections.
    vectors = encoder.encode(TEXTS)

    assert vectors.shape == (len(TEXTS), kept)
    np.testing.assert_allclose(
        vectors @ vectors.T, expected @ expected.T, rtol=0, atol=1e-5
    )


def test_whitened_vectors_have_the_identity_as_covariance_on_the_texts(
    decoders, recipe_of, tmp_path
):
    transform = f"encoder.head.transform={WHITENING}"
    model = decoders["causal"]
    run(
        recipe_of("causal", model.directory, transform, "encoder.head.normalize=false"),
        tmp_path / "out",
    )
    encoder = Encoder.load(tmp_path / "out" / "encoder")
    fitted_on = list(
        load_recipe(tmp_path / "recipe.toml", [transform])
        .encoders["encoder"]
        .head.transform.texts(32)
    )
    vectors = encoder.encode(fitted_on).astype(np.float64)

    assert vectors.shape == (len(fitted_on), 7)
    np.testing.assert_allclose(vectors.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(np.cov(vectors.T, bias=True), np.eye(7), atol=1e-4)

    (score, *_) = json.loads((tmp_path / "out" / "report.json").read_text())["scores"]
    protocol = score["protocol"]["encoder"]["transform"]

    assert (protocol["use"], protocol["dimensions"], protocol["texts"]) == (
        "whitening",
        7,
        len(fitted_on),
    )
    assert len(protocol["data"]) == 64


@pytest.mark.jax
@pytest.mark.parametrize(
    "transform", ['{ use = "embed-filter" }', WHITENING], ids=["filter", "whitening"]
)
def test_jax_fits_and_computes_what_the_processor_does(
    transform,
    decoders,
    recipe_of,
    tmp_path,
):
    pytest.importorskip("sentbed_tpu", reason="needs sentbed-tpu")
    tpu = (
        'runtime={ use = "tpu", platform = "cpu", precision = "fp32", lengths = [64] }'
    )
    vectors = {}
    for name, runtime in (("cpu", ()), ("tpu", (tpu,))):
        recipe = recipe_of(
            "opt",
            decoders["opt"].directory,
            f"encoder.head.transform={transform}",
            *runtime,
        )
        run(recipe, tmp_path / name)
        encoder = Encoder.load(tmp_path / name / "encoder")
        vectors[name] = encoder.encode(TEXTS)
        on_jax = Encoder.load(
            tmp_path / name / "encoder",
            {"use": "tpu", "platform": "cpu", "precision": "fp32"},
        )
        np.testing.assert_allclose(
            on_jax.encode(TEXTS), vectors[name], rtol=0, atol=1e-5
        )

    np.testing.assert_allclose(vectors["tpu"], vectors["cpu"], rtol=0, atol=1e-5)


def test_the_store_of_vectors_tells_an_encoder_from_its_transform(decoders, recipe_of):
    recipe = recipe_of("opt", decoders["opt"].directory).encoders["encoder"]
    engine = load_plugins().load("runtime", "cpu")().build()
    encoder = Encoder.build(recipe, engine)
    before = fingerprint_of(encoder)
    after, again = (
        fingerprint_of(encoder.fit_transform()),
        fingerprint_of(encoder.fit_transform()),
    )

    assert before is not None
    assert after is not None
    assert again is not None
    assert before != after
    assert after == again


STAGE = """
[[stage]]
name = "dropout"
data = { use = "sample", kind = "sentences", limit = 8 }
loss = { use = "info-nce" }
optimizer = { use = "adamw", lr = 1e-3 }
schedule = { use = "constant" }
batch_size = 4
steps = 2
"""


def test_after_training_the_filter_is_that_of_the_trained_embedding(
    decoders, recipe_of, tmp_path
):
    recipe_of("opt", decoders["opt"].directory)
    file = tmp_path / "recipe.toml"
    file.write_text(file.read_text() + STAGE)
    run(load_recipe(file), tmp_path / "out")
    encoder = Encoder.load(tmp_path / "out" / "encoder")
    # OPT's output embedding is its input embedding, which the stage has trained.
    trained = encoder.backbone.model.get_input_embeddings().weight.double()
    directions = np.linalg.svd(trained.detach().numpy())[2][8:24]
    matrix = encoder.placed.module.transform.weight.detach().double().numpy()

    np.testing.assert_allclose(np.abs(np.diag(matrix @ directions.T)), 1, atol=1e-5)

    untrained = np.linalg.svd(
        decoders["opt"].network.lm_head.weight.detach().double().numpy()
    )[2][8:24]

    assert np.abs(np.abs(np.diag(matrix @ untrained.T)) - 1).max() > 1e-5


def test_what_only_the_model_or_the_data_can_tell_is_refused_before_training(
    decoders, recipe_of, tmp_path
):
    few = WHITENING.replace("150", "9")

    with pytest.raises(DataError, match="32 wide is fitted on 9 different texts"):
        run(
            recipe_of(
                "opt", decoders["opt"].directory, f"encoder.head.transform={few}"
            ),
            tmp_path / "few",
        )

    wide = WHITENING.replace("7", "40")

    with pytest.raises(
        ModelError, match="keeps 40 dimensions of vectors that are 32 wide"
    ):
        run(
            recipe_of(
                "opt", decoders["opt"].directory, f"encoder.head.transform={wide}"
            ),
            tmp_path / "wide",
        )
    assert not (tmp_path / "few" / "encoder").exists()
