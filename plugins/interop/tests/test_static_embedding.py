"""Static encoders against `StaticEmbedding` of sentence-transformers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sentbed import ModelError
from sentbed_interop.from_sentence_transformers import FromSentenceTransformers
from sentbed_interop.to_sentence_transformers import ToSentenceTransformers
from sentbed_testing import SENTENCES

library: Any = pytest.importorskip(
    "sentence_transformers", reason="needs the extra `sentence-transformers`"
)

TEXTS = (*SENTENCES, "", "  ", "Größe 日本", " ".join(SENTENCES))
"""The last one is longer than the limit."""
RANDOM = {"use": "static", "init": "random", "width": 16}


def table_with(**parts):
    """The table `[encoder]` of a static encoder with other parts."""
    return {
        "backbone": RANDOM,
        "pooler": {"use": "mean"},
        "max_length": 20,
        **parts,
    }


def load(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return library.SentenceTransformer(str(folder), device="cpu")


@pytest.mark.parametrize(
    "head",
    [
        {},
        {"normalize": True},
        {"projection": 5, "bias": True, "normalize": True},
        {"dimensions": 7},
    ],
    ids=str,
)
def test_a_folder_gives_the_vectors_there_and_comes_back(tmp_path, build_encoder, head):
    encoder = build_encoder(table_with(head=head))
    folder = tmp_path / "folder"
    folder.mkdir()
    assert list(ToSentenceTransformers().write(encoder, folder)) == []
    expected = encoder.encode(TEXTS)
    theirs = load(folder).encode(list(TEXTS))
    np.testing.assert_allclose(theirs, expected, rtol=0, atol=1e-5)

    again = FromSentenceTransformers().read(folder)
    assert again.recipe.backbone.name == "static"
    assert again.recipe.max_length == 20
    np.testing.assert_allclose(again.encode(TEXTS), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"pooler": {"use": "last"}}, "takes their mean"),
        ({"prompt": {"template": "query: {text}"}}, "no place for one"),
    ],
)
def test_what_static_embedding_cannot_compute_is_refused(
    tmp_path, build_encoder, parts, message
):
    encoder = build_encoder(table_with(**parts))
    with pytest.raises(ModelError, match=message):
        ToSentenceTransformers().write(encoder, tmp_path)
