from __future__ import annotations

import asyncio
import pickle
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pytest
from sentbed import Encoder, ModelError

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from sentbed_interop.llama_index import SentbedEmbedding

TEXTS = ["The cat sleeps.", "A dog barks at two small birds.", "Rain falls."]

Kind: TypeAlias = "type[SentbedEmbedding]"


@pytest.fixture(scope="module")
def embedding():
    """The class, which is loaded when its tests run: it takes seconds, in the other workers for nothing."""
    pytest.importorskip("llama_index.core", reason="needs the extra `llama-index`")
    from sentbed_interop.llama_index import SentbedEmbedding

    return SentbedEmbedding


def test_texts_and_queries_get_the_encoders_vectors(embedding, tiny_bert):
    model, expected = embedding(tiny_bert), Encoder.load(tiny_bert).encode(TEXTS)
    vectors = model.get_text_embedding_batch(TEXTS)
    assert type(vectors[0][0]) is float
    np.testing.assert_array_equal(np.array(vectors, np.float32), expected)
    np.testing.assert_allclose(
        model.get_text_embedding(TEXTS[1]), expected[1], atol=1e-6
    )
    np.testing.assert_allclose(
        model.get_query_embedding(TEXTS[0]), expected[0], atol=1e-6
    )

    async def later():
        return [
            await model.aget_text_embedding_batch(TEXTS),
            await model.aget_text_embedding(TEXTS[1]),
            await model.aget_query_embedding(TEXTS[0]),
        ]

    assert asyncio.run(later()) == [
        vectors,
        model.get_text_embedding(TEXTS[1]),
        model.get_query_embedding(TEXTS[0]),
    ]


def test_many_texts_are_handed_over_together(embedding, tiny_bert, monkeypatch):
    sizes = []
    encode = Encoder.encode
    monkeypatch.setattr(
        Encoder,
        "encode",
        lambda self, texts: sizes.append(len(texts)) or encode(self, texts),
    )
    embedding(tiny_bert).get_text_embedding_batch(TEXTS * 20)
    embedding(tiny_bert, embed_batch_size=50).get_text_embedding_batch(TEXTS * 20)
    assert sizes == [60, 50, 10]


def test_its_name_is_the_encoders_place(embedding, tiny_bert):
    assert embedding(tiny_bert).model_name == str(tiny_bert)
    assert embedding(tiny_bert, model_name="mine").to_dict()["model_name"] == "mine"


def test_an_index_finds_the_text(embedding, tiny_bert):
    from llama_index.core import VectorStoreIndex
    from llama_index.core.schema import TextNode

    nodes = [TextNode(text=text) for text in TEXTS]
    index = VectorStoreIndex(nodes, embed_model=embedding(tiny_bert))
    (node,) = index.as_retriever(similarity_top_k=1).retrieve("The rain falls.")
    query, *vectors = Encoder.load(tiny_bert).encode(["The rain falls.", *TEXTS])
    similarities = vectors @ query
    assert node.text == TEXTS[int(similarities.argmax())]
    assert node.score == pytest.approx(float(similarities.max()), abs=1e-5)


@pytest.mark.sweep(2)
@pytest.mark.instructions("bf16")
@pytest.mark.parametrize(
    "again",
    [
        lambda model: pickle.loads(pickle.dumps(model)),
        lambda model: type(model).from_dict(model.to_dict()),
        lambda model: type(model).from_json(model.to_json()),
        lambda model: model.model_copy(deep=True),
    ],
    ids=["pickle", "dict", "json", "copy"],
)
def test_it_can_be_made_again_of_what_is_written_of_it(
    embedding,
    again,
    tiny_bert,
):
    model = embedding(tiny_bert, precision="bf16", model_name="mine")
    restored = again(model)
    assert (restored.encoder, restored.precision, restored.model_name) == (
        str(tiny_bert),
        "bf16",
        "mine",
    )
    assert restored.get_text_embedding_batch(TEXTS) == model.get_text_embedding_batch(
        TEXTS
    )


def test_a_pickle_leaves_the_weights_out(embedding, tiny_bert):
    assert len(pickle.dumps(embedding(tiny_bert))) < 5000


def test_another_encoder_that_is_set_is_the_one_that_encodes(
    embedding, tiny_bert, tiny_t5
):
    model = embedding(tiny_bert)
    model.encoder = str(tiny_t5)
    assert model.get_text_embedding(TEXTS[0]) == embedding(tiny_t5).get_text_embedding(
        TEXTS[0]
    )


def test_what_is_no_encoder_is_refused_at_once(embedding, tmp_path):
    with pytest.raises(ModelError, match="is not an encoder"):
        embedding(tmp_path)
