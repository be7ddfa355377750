"""Bidirectional decoders across packages: engines, prompts, export."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sentbed import Encoder
from sentbed.protocols import EncoderRecipe, Head
from sentbed_backbones.causal import Causal
from sentbed_backbones.opt import Opt
from sentbed_hardware.cpu import Cpu
from sentbed_interop.export_and_import import export_encoder
from sentbed_interop.from_sentence_transformers import FromSentenceTransformers
from sentbed_poolers.first import First
from sentbed_poolers.last import Last
from sentbed_poolers.mean import Mean
from sentbed_poolers.template_prompt import TemplatePrompt
from sentbed_testing import SENTENCES

KINDS: dict[str, Callable[..., Any]] = {"opt": Opt, "llama": Causal}


def encoder_of(kind, pooler, prompt=None, **fields):
    engine = Cpu(threads=1).build()
    engine.seed(3)
    backbone = KINDS[kind](
        init="random", vocab_size=600, attention="bidirectional", **fields
    )
    recipe = EncoderRecipe(backbone, pooler, Head(normalize=True), 24, prompt)
    return Encoder.build(recipe, engine, lambda: SENTENCES)


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_before_every_text_is_not_shared(kind):
    """Texts with a common beginning have the vectors that each has alone."""
    prompt = TemplatePrompt(
        template="the same long beginning of every text : {text} and its end"
    )
    encoder = encoder_of(kind, First(), prompt)
    assert not encoder.placed.shares_prefix
    together = encoder.encode(SENTENCES)
    alone = np.concatenate([encoder.encode([text]) for text in SENTENCES])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-5)
    assert np.abs(together - together[0]).max() > 1e-3


@pytest.mark.sweep(1)
@pytest.mark.parametrize(
    "pooler", [First(), Mean(), Last()], ids=lambda pooler: pooler.name
)
@pytest.mark.parametrize("kind", KINDS)
def test_sentence_transformers_gives_the_same_vectors_and_what_it_wrote_is_imported(
    kind, pooler, tmp_path
):
    pytest.importorskip("sentence_transformers")
    encoder = encoder_of(kind, pooler)
    encoder.save(tmp_path / "encoder")
    # Compares the vectors of the two libraries.
    export_encoder(tmp_path / "encoder", tmp_path / "folder", "sentence-transformers")
    again = FromSentenceTransformers().read(tmp_path / "folder")
    assert again.recipe.backbone.attention == "bidirectional"
    np.testing.assert_allclose(
        again.encode(SENTENCES), encoder.encode(SENTENCES), rtol=0, atol=1e-5
    )
