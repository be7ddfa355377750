"""Vectors that evaluations keep, with the engine and the backbones of sentbed."""

from __future__ import annotations

import attrs
import pytest
from sentbed import build_encoder, run
from sentbed._recipe.load import load_recipe
from sentbed_common import fingerprint_of
from sentbed_evaluators.mteb import as_mteb_model
from sentbed_workbench.vector_cache import VectorCache

RECIPE = """
schema = 1
[run]
name = "kept"
[runtime]
use = "cpu"
threads = 1
[encoder]
max_length = 32
backbone = {{ {backbone} }}
pooler = {{ use = "{pooler}" }}
head = {{ projection = 8 }}
[[stage]]
name = "one"
steps = 2
batch_size = 4
data = {{ use = "sample" }}
loss = {{ use = "info-nce" }}
optimizer = {{ use = "adamw", lr = 1e-3 }}
schedule = {{ use = "constant" }}
[[evaluate]]
use = "sts"
path = "pkg:sentbed_data/sample/sts-test.tsv"
at = ["start", "end"]
"""
ENCODERS = {
    "bert": ('use = "bert", init = "random", vocab_size = 300', "mean"),
    "opt": ('use = "opt", init = "random", vocab_size = 320', "prompt-eol"),
}


@pytest.fixture
def recipe(tmp_path):
    def load(kind, *overrides):
        backbone, pooler = ENCODERS[kind]
        (tmp_path / "r.toml").write_text(
            RECIPE.format(backbone=backbone, pooler=pooler)
        )
        return load_recipe(tmp_path / "r.toml", overrides)

    return load


@pytest.mark.parametrize(
    ("kind", "precision"),
    [
        ("bert", "fp32"),
        pytest.param("opt", "fp32", marks=pytest.mark.slow),
        pytest.param(
            "bert",
            "bf16",
            marks=[pytest.mark.slow, pytest.mark.instructions("bf16")],
        ),
    ],
)
def test_scores_are_the_same_without_with_a_cold_and_with_a_warm_cache(
    kind,
    precision,
    recipe,
    encoded_batches,
    tmp_path,
):
    results, counts = [], []
    for name, switch in (("off", "false"), ("cold", "true"), ("warm", "true")):
        encoded_batches.clear()
        loaded = recipe(
            kind,
            f"run.cache={switch}",
            f'runtime.precision="{precision}"',
            "runtime.deterministic=true",
        )
        results.append(run(loaded, tmp_path / name))
        counts.append(sum(len(batch.input_ids) for batch in encoded_batches))
    off, cold, warm = results
    assert [score.value for score in off.scores] == [
        score.value for score in cold.scores
    ]
    assert [score.value for score in off.scores] == [
        score.value for score in warm.scores
    ]
    assert counts[0] == counts[1] > 0
    assert counts[2] == 0
    spaces = {path.parent for path, _ in VectorCache().segments()}
    assert len(spaces) == 2


def test_for_mteb_the_revision_of_an_encoder_is_the_name_of_its_space(
    recipe,
):
    pytest.importorskip("mteb", reason="needs the extra `mteb`")
    encoder = build_encoder(recipe("bert"))
    space = fingerprint_of(encoder)
    assert space is not None
    meta = as_mteb_model(encoder, "me/kept").mteb_model_meta
    assert (meta.revision, meta.embed_dim, meta.max_tokens) == (space, 8, 32)
    encoder.recipe = attrs.evolve(encoder.recipe, max_length=16)
    assert as_mteb_model(encoder, "me/kept").mteb_model_meta.revision != space
