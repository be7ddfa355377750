from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import save_file
from sentbed import ModelError
from sentbed.helpers import pad
from sentbed.protocols import BuildContext
from sentbed_backbones.static import Static

TEXTS = (
    "The cat sat on the mat.",
    "Rain falls.",
    "",
    "   ",
    "我们 😀",
    "two small birds sing in the tree, " * 20,
)


@pytest.fixture(scope="module")
def theirs():
    """`StaticEmbedding` of sentence-transformers."""
    modules = pytest.importorskip(
        "sentence_transformers.sentence_transformer.modules",
        reason="sentence-transformers is not installed; it is in `requirements/`",
    )
    return modules.StaticEmbedding


def means(built, texts):
    """The mean of the states of each text, of one padded batch."""
    tokens = built.tokenizer.encode(texts, 512)
    batch = pad(tokens, np.arange(len(texts)), built.tokenizer.pad_id)
    ids = torch.from_numpy(batch.input_ids)
    mask = torch.from_numpy(batch.attention_mask)
    module = built.inference(built.module, torch.float32)
    states = module(ids, mask).last_hidden_state
    kept = mask[:, :, None].float()
    return (states * kept).sum(1) / kept.sum(1)


def their_vectors(embedding, texts):
    vectors = embedding(embedding.preprocess(list(texts)))["sentence_embedding"]
    return vectors.detach()


def assert_equal(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["bert", "roberta", "electra", "t5", "opt", "gpt2"])
def test_a_models_input_embeddings_give_the_vectors_of_static_embedding(
    save_model, no_texts, theirs, kind
):
    directory = save_model(kind)
    model = transformers.AutoModel.from_pretrained(directory)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    table = model.get_input_embeddings().weight.detach()
    built = Static(model=str(directory)).build(no_texts)
    expected = their_vectors(theirs(tokenizer, embedding_weights=table), TEXTS)
    assert_equal(means(built, TEXTS), expected)
    assert built.width == table.shape[1]


def test_a_folder_of_sentence_transformers_is_a_table(
    save_model, no_texts, theirs, tmp_path
):
    tokenizer = transformers.AutoTokenizer.from_pretrained(save_model())
    embedding = theirs(tokenizer, embedding_dim=5)
    folder = tmp_path / "theirs" / "0_StaticEmbedding"
    folder.mkdir(parents=True)
    embedding.save(str(folder))
    module = {
        "idx": 0,
        "path": folder.name,
        "type": "sentence_transformers.models.StaticEmbedding",
    }
    (folder.parent / "modules.json").write_text(json.dumps([module]))

    expected = their_vectors(embedding, TEXTS)
    for directory in (folder, folder.parent):
        backbone = Static(model=str(directory))
        assert list(backbone.check()) == []
        assert_equal(means(backbone.build(no_texts), TEXTS), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_folder_of_model2vec_has_rows_and_weights_of_tokens(
    save_model, no_texts, theirs, tmp_path, dtype
):
    folder = tmp_path / "model2vec"
    folder.mkdir()
    tokenizer = transformers.AutoTokenizer.from_pretrained(save_model())
    tokenizer._tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text('{"model_type": "model2vec"}')
    count = len(tokenizer)
    rows = torch.randn(20, 4, dtype=dtype)
    row_of_token = torch.randint(20, (count,))
    weights = torch.rand(count, dtype=torch.float64)
    tensors = {
        "embeddings": rows,
        "mapping": row_of_token,
        "weights": weights,
    }
    save_file(tensors, folder / "model.safetensors")
    expected = their_vectors(theirs.load(str(folder)), TEXTS)
    built = Static(model=str(folder)).build(no_texts)
    assert_equal(means(built, TEXTS), expected)


def test_sentence_transformers_loads_what_is_saved(
    save_model, no_texts, theirs, tmp_path
):
    backbone = Static(model=str(save_model()))
    built = backbone.build(no_texts)
    with torch.no_grad():
        built.module.embedding.weight[:-1] *= 2
    built.save(tmp_path / "saved")
    expected = means(built, TEXTS)
    loaded = theirs.load(str(tmp_path / "saved"))
    assert_equal(their_vectors(loaded, TEXTS), expected)
    again = backbone.build(BuildContext(tuple, saved=tmp_path / "saved"))
    assert_equal(means(again, TEXTS), expected)
    assert again.tokenizer.fingerprint == built.tokenizer.fingerprint


@pytest.mark.parametrize("padding", ["as built", None])
def test_a_frozen_table_and_the_row_of_texts_without_a_token_are_not_trained(
    save_model, no_texts, padding
):
    directory = str(save_model())
    built = Static(model=directory).build(no_texts)
    if padding is None:
        # The engine on JAX does so.
        built.module.embedding.padding_idx = None
    last = len(built.module.rows)
    ids = torch.tensor([[3, last]])
    states = built.module(ids, None)
    states.last_hidden_state.sum().backward()
    gradient = built.module.embedding.weight.grad
    assert gradient[3].tolist() == [1.0] * built.width
    assert gradient[-1].tolist() == [0.0] * built.width
    frozen = Static(model=directory, freeze=True).build(no_texts)
    assert not any(value.requires_grad for value in frozen.module.parameters())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "no `model`"),
        ({"model": "./missing"}, "cannot be found"),
    ],
)
def test_check_says_what_is_wrong_with_the_fields(fields, message):
    assert message in " ".join(Static(**fields).check())


def test_random_rows_need_the_weights_that_say_their_number_and_width(
    save_model, no_texts
):
    directory = save_model()
    (directory / "model.safetensors").unlink()
    backbone = Static(model=str(directory), init="random")
    message = "found no weights"
    assert message in " ".join(backbone.check())
    with pytest.raises(ModelError, match=message):
        backbone.build(no_texts)


def test_a_saved_table_that_is_missing_is_named(save_model, no_texts, tmp_path):
    backbone = Static(model=str(save_model()))
    backbone.build(no_texts).save(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"holds no `model\.safetensors`"):
        backbone.build(BuildContext(tuple, saved=tmp_path))


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"other": torch.ones(3, 2)}, "holds `other`"),
    ],
)
def test_a_damaged_table_is_refused(
    save_model,
    no_texts,
    tmp_path,
    tensors,
    message,
):
    folder = tmp_path / "table"
    folder.mkdir()
    definition = (save_model() / "tokenizer.json").read_bytes()
    (folder / "tokenizer.json").write_bytes(definition)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ModelError, match=message):
        Static(model=str(folder)).build(no_texts)
