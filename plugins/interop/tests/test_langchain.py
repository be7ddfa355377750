from __future__ import annotations

import asyncio
import pickle

import numpy as np
import pytest
from sentbed import Encoder, ModelError

pytest.importorskip("langchain_core", reason="needs the extra `langchain`")

from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from sentbed_interop.langchain import SentbedEmbeddings

pytestmark = pytest.mark.slow

TEXTS = ["The cat sleeps.", "A dog barks at two small birds.", "Rain falls."]


def test_documents_and_queries_get_the_encoders_vectors(tiny_bert):
    embeddings, expected = (
        SentbedEmbeddings(tiny_bert),
        Encoder.load(tiny_bert).encode(TEXTS),
    )
    vectors = embeddings.embed_documents(TEXTS)
    assert type(vectors[0][0]) is float
    np.testing.assert_array_equal(np.array(vectors, np.float32), expected)
    np.testing.assert_allclose(embeddings.embed_query(TEXTS[0]), expected[0], atol=1e-6)
    assert embeddings.embed_documents([]) == []
    assert asyncio.run(embeddings.aembed_documents(TEXTS)) == vectors
    assert asyncio.run(embeddings.aembed_query(TEXTS[2])) == embeddings.embed_query(
        TEXTS[2]
    )


def test_a_vector_store_finds_the_text(tiny_bert):
    store = InMemoryVectorStore(SentbedEmbeddings(tiny_bert, precision="fp32"))
    store.add_documents([Document(text) for text in TEXTS])
    (nearest,) = store.as_retriever(search_kwargs={"k": 1}).invoke(TEXTS[2])
    assert nearest.page_content == TEXTS[2]
    ((document, cosine),) = store.similarity_search_with_score("A puppy.", k=1)
    query, *vectors = Encoder.load(tiny_bert).encode(["A puppy.", *TEXTS])
    cosines = vectors @ query
    assert document.page_content == TEXTS[int(cosines.argmax())]
    assert cosine == pytest.approx(float(cosines.max()), abs=1e-5)


@pytest.mark.instructions("bf16")
def test_a_pickle_encodes_alike_without_the_weights(tiny_bert):
    embeddings = SentbedEmbeddings(tiny_bert, precision="bf16")
    dumped = pickle.dumps(embeddings)
    assert len(dumped) < 1000
    assert pickle.loads(dumped).embed_documents(TEXTS) == embeddings.embed_documents(
        TEXTS
    )


def test_what_is_no_encoder_is_refused_at_once(tmp_path):
    with pytest.raises(ModelError, match="is not an encoder"):
        SentbedEmbeddings(tmp_path)
