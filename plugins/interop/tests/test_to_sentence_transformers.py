"""Exported folders against sentence-transformers itself, and what is refused."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from sentbed import ModelError
from sentbed._cli.main import main
from sentbed._encoder.encoder import Encoder
from sentbed.protocols import (
    Pooler,
)
from sentbed_interop.export_and_import import export_encoder
from sentbed_interop.from_sentence_transformers import FromSentenceTransformers
from sentbed_interop.merged_adapters import save_merged
from sentbed_interop.to_sentence_transformers import ToSentenceTransformers
from sentbed_testing import SENTENCES

NASTY = (
    'He said "no".',
    '"quoted"',
    "it's 'so'",
    "really?",
    "what?!",
    "?",
    '"',
    "...",
    "word)",
    "trailing  ",
    "  leading",
    "a\nb\n",
    "Größe 日本 🙂",
    "日本",
)
EMPTY, LONG = "", " ".join(SENTENCES)
TEXTS = (*SENTENCES, *NASTY, EMPTY, LONG)
CLOSE = 1e-5

Tables: TypeAlias = Mapping[str, Mapping[str, Any]]
Build: TypeAlias = Callable[[Mapping[str, Any]], Encoder]
Make: TypeAlias = Callable[..., Path]


def export(source, output, **options):
    """Export, and return the folder."""
    encoder = Encoder.load(source) if isinstance(source, Path) else source
    output.mkdir()
    ToSentenceTransformers(**options).write(encoder, output)
    return output


def load(folder):
    """Load a folder with sentence-transformers."""
    library = pytest.importorskip(
        "sentence_transformers", reason="needs sentence-transformers"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return library.SentenceTransformer(str(folder), device="cpu")


def vectors_of(folder, texts):
    """Encode with sentence-transformers, batches of mixed lengths."""
    return load(folder).encode(list(texts), batch_size=16, show_progress_bar=False)


def apart(vectors, expected):
    """Return the largest difference as a part of the largest value."""
    assert vectors.shape == expected.shape
    assert vectors.dtype == expected.dtype == np.float32
    return float(np.abs(vectors - expected).max() / np.abs(expected).max())


def apart_when_exported(encoder, directory, texts):
    """Return how far the vectors of sentence-transformers are from the encoder's; see `apart`."""
    folder = export(encoder, directory / "folder")
    return apart(vectors_of(folder, texts), encoder.encode(texts))


def within(encoder, texts):
    """Return the texts that are neither empty nor cut."""
    cut = encoder.backbone.tokenizer.truncate(texts, encoder.recipe.max_length)
    whole = []
    for text, short in zip(texts, cut, strict=True):
        if text and text == short:
            whole.append(text)
    return whole


@pytest.mark.parametrize(
    "name", ["tiny_bert", "tiny_t5", pytest.param("minilm", marks=pytest.mark.slow)]
)
def test_vectors_without_a_prompt_are_the_encoders(name, request, tmp_path):
    """Whatever the text: empty, beyond `max_length`, with white space."""
    source = request.getfixturevalue(name)
    assert apart_when_exported(Encoder.load(source), tmp_path, TEXTS) < CLOSE


WHITENING = {
    "use": "whitening",
    "dimensions": 3,
    "data": {"use": "sample", "kind": "sentences"},
}


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("pooler", "head"),
    [
        ({"use": "first"}, {}),
        ({"use": "cls-mlp"}, {"projection": 20, "bias": True, "normalize": True}),
        ({"use": "cls-mlp", "mlp_only_train": True}, {"projection": 20}),
        ({"use": "last"}, {"normalize": True}),
        ({"use": "max"}, {}),
        (
            {"use": "first"},
            {"hidden": [24], "projection": 20, "normalize": True},
        ),
        (
            {"use": "cls-mlp"},
            {"hidden": [24, 12], "activation": "gelu", "projection": 20, "bias": True},
        ),
        (
            {"use": "first"},
            {"projection": 20, "bias": True, "dimensions": 7, "normalize": True},
        ),
        ({"use": "first"}, {"dimensions": 7, "normalize": True}),
        ({"use": "cls-mlp"}, {"dimensions": 7}),
        (
            {"use": "cls-mlp", "mlp_only_train": True, "mlp_width": 20},
            {"dimensions": 7},
        ),
        (
            {"use": "mean"},
            {"normalize": True, "transform": WHITENING},
        ),
        (
            {"use": "mean"},
            {"projection": 20, "dimensions": 2, "transform": WHITENING},
        ),
    ],
)
def test_poolers_and_heads_become_stock_modules(
    pooler,
    head,
    build_encoder,
    tables,
    tmp_path,
):
    encoder = build_encoder({**tables["bert"], "pooler": pooler, "head": head})
    folder = export(encoder, tmp_path / "folder")
    assert apart(vectors_of(folder, TEXTS), encoder.encode(TEXTS)) < CLOSE
    if pooler == {"use": "first"}:
        # As it came, with the layer that cuts as a projection.
        again = FromSentenceTransformers().read(folder)
        assert again.recipe.head.hidden == tuple(head.get("hidden", ()))
        assert apart(again.encode(TEXTS), encoder.encode(TEXTS)) < CLOSE


def test_a_filter_of_the_output_embedding_becomes_a_dense_layer(
    build_encoder, tables, tmp_path
):
    head = {"normalize": True, "transform": {"use": "embed-filter", "tau": 4}}
    table = {**tables["opt"], "pooler": {"use": "last"}, "max_length": 40}
    encoder = build_encoder({**table, "head": head})
    assert encoder.width == encoder.backbone.width // 4

    texts = within(encoder, TEXTS)
    assert apart_when_exported(encoder, tmp_path, texts) < CLOSE


@pytest.mark.parametrize("use", ["opt", "bert", "t5"])
def test_vectors_under_a_prompt_before_the_text_are_the_encoders(
    use, build_encoder, tables, tmp_path
):
    """Of every text that is not cut."""
    table = {**tables[use], "pooler": {"use": "mean"}, "max_length": 40}
    encoder = build_encoder({**table, "prompt": {"template": "query: {text}"}})
    texts = [text for text in within(encoder, TEXTS) if text == text.rstrip()]
    assert len(texts) > len(SENTENCES)
    assert apart_when_exported(encoder, tmp_path, texts) < CLOSE

    again = FromSentenceTransformers().read(tmp_path / "folder")
    assert apart(again.encode(texts), encoder.encode(texts)) < CLOSE


def test_what_differs_under_a_prompt_is_printed(make_encoder, tables, tmp_path):
    source = make_encoder(
        "query", **{**tables["bert"], "prompt": {"template": "query: {text}"}}
    )
    arguments = [str(source), str(tmp_path / "folder"), "--to", "sentence-transformers"]
    result = CliRunner().invoke(main, ["export", *arguments])
    assert result.stdout == f"{tmp_path / 'folder'}\n"
    assert "more than 24 tokens without the prompt" in result.stderr


def test_adapters_are_merged(build_encoder, tables, tiny_opt_prompt, tmp_path):
    pytest.importorskip("peft", reason="needs the extra `lora`")
    backbone = {
        "use": "opt",
        "model": str(tiny_opt_prompt / "backbone"),
        "lora": {"r": 2},
    }
    encoder = build_encoder(
        {**tables["opt"], "pooler": {"use": "last"}, "backbone": backbone}
    )
    for name, weight in encoder.placed.module.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.1)
    encoder.placed.weights_changed()
    texts = within(encoder, TEXTS)
    folder = export(encoder, tmp_path / "folder")
    assert not list(folder.rglob("adapter*"))

    expected = encoder.encode(texts)
    assert apart(vectors_of(folder, texts), expected) < CLOSE
    assert apart(Encoder.load(tiny_opt_prompt).encode(texts), expected) > 100 * CLOSE


def test_weights_below_fp32_are_computed_in_fp32_behind_a_projection(
    build_encoder, tables, tiny_bert, tmp_path
):
    backbone = {"use": "bert", "model": str(tiny_bert / "backbone"), "dtype": "bf16"}
    encoder = build_encoder({**tables["bert"], "backbone": backbone})
    folder = export(encoder, tmp_path / "folder")
    assert apart(vectors_of(folder, SENTENCES), encoder.encode(SENTENCES)) < 0.03
    assert "The weights were in bfloat16" in (folder / "README.md").read_text("utf-8")


REFUSED: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "decoder": (
        "t5",
        {},
        {"pooler": {"use": "decoder"}},
        "it reads the decoder's output",
    ),
    "layers": (
        "bert",
        {},
        {"pooler": {"use": "mean-first-last"}},
        "it reads several layers",
    ),
    "mask": (
        "bert",
        {},
        {"pooler": {"use": "mask"}},
        "it reads the state of the mask token",
    ),
    "averaged": (
        "bert",
        {"layers": "last-two"},
        {},
        r"the backbone averages the layers \[-2, -1\]",
    ),
}
"""Which table, what else its backbone has and it has, and the reason that is given."""


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", REFUSED)
def test_what_stock_modules_cannot_compute_is_refused(
    name, build_encoder, tables, tmp_path
):
    use, backbone, others, reason = REFUSED[name]
    table = tables[use]
    build_encoder(
        {**table, "backbone": {**table["backbone"], **backbone}, **others}
    ).save(tmp_path / "encoder")
    with pytest.raises(
        ModelError, match=f"{reason}.*; train with .*, or take `--to onnx`"
    ):
        export_encoder(
            tmp_path / "encoder", tmp_path / "folder", "sentence-transformers"
        )
    assert not (tmp_path / "folder").exists()


def test_a_pooler_that_says_what_it_is_not_is_found_out(tiny_bert, tmp_path):
    @attrs.frozen
    class Liar(Pooler):
        """Says `max` and takes the mean."""

        name = "liar"
        pooling = "max"

        def build(self, width):
            raise NotImplementedError

    encoder = Encoder.load(tiny_bert)
    encoder.recipe = attrs.evolve(encoder.recipe, pooler=Liar())
    with pytest.raises(ModelError, match="the pooler `liar` is not what it says"):
        export(encoder, tmp_path / "folder")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"auto_map": {"AutoModel": "mine.Model"}}, "comes with code of its own"),
        ({"model_type": None}, "does not save its model as transformers"),
    ],
)
def test_a_model_that_transformers_does_not_load_is_refused(
    changes, message, tiny_bert, tmp_path, monkeypatch
):
    encoder = Encoder.load(tiny_bert)

    def save_changed(encoder, path):
        save_merged(encoder, path)
        file = path / "backbone" / "config.json"
        config = json.loads(file.read_text("utf-8")) | changes
        if config["model_type"] is None:
            del config["model_type"]
        file.write_text(json.dumps(config), "utf-8")

    monkeypatch.setattr(
        "sentbed_interop._torch.sentence_transformers_folder.save_merged",
        save_changed,
    )
    with pytest.raises(ModelError, match=message):
        export(encoder, tmp_path / "folder")


RANDOM = {"use": "static", "init": "random", "width": 16}


@pytest.mark.parametrize(
    "head",
    [
        {},
        {"projection": 5, "bias": True, "normalize": True},
        {"dimensions": 7},
    ],
    ids=str,
)
def test_a_static_encoder_becomes_a_table_and_comes_back(build_encoder, head, tmp_path):
    table = {"backbone": RANDOM, "pooler": {"use": "mean"}, "max_length": 20}
    encoder = build_encoder({**table, "head": head})
    assert apart_when_exported(encoder, tmp_path, TEXTS) < CLOSE

    again = FromSentenceTransformers().read(tmp_path / "folder")
    assert again.recipe.backbone.name == "static"
    assert again.recipe.max_length == 20
    assert apart(again.encode(TEXTS), encoder.encode(TEXTS)) < CLOSE


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"pooler": {"use": "last"}}, "takes their mean"),
        ({"prompt": {"template": "query: {text}"}}, "no place for one"),
    ],
)
def test_what_static_embedding_cannot_compute_is_refused(
    build_encoder, parts, message, tmp_path
):
    table = {"backbone": RANDOM, "pooler": {"use": "mean"}, "max_length": 20}
    encoder = build_encoder({**table, **parts})
    with pytest.raises(ModelError, match=message):
        export(encoder, tmp_path / "folder")
