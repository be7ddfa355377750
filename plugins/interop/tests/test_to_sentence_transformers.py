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
import transformers
from click.testing import CliRunner
from safetensors.torch import load_file
from sentbed import ModelError
from sentbed._cli.main import main
from sentbed._encoder.encoder import Encoder
from sentbed._recipe.prompts import ResolvedPrompt, Template, parse_template
from sentbed.protocols import (
    Pooler,
    PoolerTraits,
)
from sentbed_interop._torch import prompt_in_tokenizer, sentence_transformers_check
from sentbed_interop.export_and_import import export_encoder
from sentbed_interop.from_sentence_transformers import FromSentenceTransformers
from sentbed_interop.merged_adapters import save_merged
from sentbed_interop.to_sentence_transformers import ToSentenceTransformers
from sentbed_testing import SENTENCES
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

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
    return [
        text for text, short in zip(texts, cut, strict=True) if text and text == short
    ]


@pytest.mark.parametrize(
    "name", ["tiny_bert", "tiny_t5", pytest.param("minilm", marks=pytest.mark.slow)]
)
def test_vectors_without_a_prompt_are_the_encoders(name, request, tmp_path):
    """Whatever the text: empty, beyond `max_length`, with white space."""
    source = request.getfixturevalue(name)
    assert apart_when_exported(Encoder.load(source), tmp_path, TEXTS) < CLOSE


def test_transformers_finds_every_weight_and_reports_none_as_missing(
    tiny_bert, tmp_path
):
    folder = export(tiny_bert, tmp_path / "folder")
    model, loading_info = transformers.AutoModel.from_pretrained(
        folder, output_loading_info=True
    )
    assert {key: list(value) for key, value in loading_info.items() if value} == {}
    # The layer after [CLS] is there for transformers alone, and imported as what it is: nothing.
    assert not torch.any(model.pooler.dense.weight)
    weights = load_file(tiny_bert / "backbone" / "model.safetensors")
    exported = load_file(folder / "model.safetensors")
    assert {name for name in exported if name not in weights} == {
        "pooler.dense.weight",
        "pooler.dense.bias",
    }
    assert all(torch.equal(exported[name], value) for name, value in weights.items())


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
        ({"use": "first"}, {"hidden": [24], "projection": 20, "normalize": True}),
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
        ({"use": "mean"}, {"normalize": True, "transform": WHITENING}),
        ({"use": "mean"}, {"projection": 20, "dimensions": 2, "transform": WHITENING}),
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
    encoder = build_encoder({**tables["opt"], "max_length": 40, "head": head})
    assert encoder.width == encoder.backbone.width // 4
    texts = within(encoder, TEXTS)
    assert apart_when_exported(encoder, tmp_path, texts) < CLOSE


DEMONSTRATION = {"text": "A jockey riding a horse.", "word": "Equestrian"}
PROMPTS: dict[str, dict[str, Any]] = {
    "prompt-eol": {},
    "demonstration": {"prompt": {"demonstration": DEMONSTRATION}},
    "without rules": {"prompt": {"normalizer": "none"}},
    "text first": {"prompt": {"template": "{text} means in one word"}},
    "text last": {"prompt": {"template": "query: {text}"}},
}


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", PROMPTS)
def test_vectors_under_a_prompt_are_the_encoders(name, make_encoder, tables, tmp_path):
    """Of every text that is not cut."""
    source = make_encoder(
        f"opt {name}", **{**tables["opt"], "max_length": 40, **PROMPTS[name]}
    )
    encoder = Encoder.load(source)
    texts = within(encoder, TEXTS)
    assert len(texts) > len(SENTENCES)
    assert apart_when_exported(encoder, tmp_path, texts) < CLOSE


@pytest.mark.sweep(1)
@pytest.mark.parametrize("use", ["causal", "bert", "t5"])
def test_every_kind_of_tokenizer_takes_a_prompt(use, build_encoder, tables, tmp_path):
    backbone = {**tables["opt" if use == "causal" else use]["backbone"], "use": use}
    template = "prompt-bert" if use == "bert" else "prompt-eol"
    pooler = {"use": "last" if use == "causal" else "mean"}
    prompt = {"template": template, "normalizer": "prompt-eol"}
    encoder = build_encoder(
        {"backbone": backbone, "pooler": pooler, "prompt": prompt, "max_length": 40}
    )
    texts = within(encoder, TEXTS)
    assert apart_when_exported(encoder, tmp_path, texts) < CLOSE


def test_a_long_text_keeps_the_prompt_and_the_readme_says_what_it_loses(
    tiny_opt_prompt, tmp_path
):
    folder = export(tiny_opt_prompt, tmp_path / "folder")
    model, encoder = load(folder), Encoder.load(tiny_opt_prompt)
    ids = model.tokenizer(LONG, truncation=True, max_length=model.max_seq_length)[
        "input_ids"
    ]
    expected = (
        encoder.tokenizer().encode([LONG], encoder.recipe.max_length).ids.tolist()
    )
    end = encoder.backbone.tokenizer.encode([' means in one word:"'], 99).ids.tolist()[
        1:
    ]
    assert ids[-len(end) :] == expected[-len(end) :] == end
    readme = (folder / "README.md").read_text("utf-8")
    assert (
        "to 24 tokens without those of the prompt. Here, a longer text keeps a few more"
        in readme
    )
    assert "An empty text has another vector" in readme


SPECIAL = "a </s> b"


def test_what_differs_is_printed_and_true(tiny_opt_prompt, tmp_path):
    encoder = Encoder.load(tiny_opt_prompt)
    arguments = [
        str(tiny_opt_prompt),
        str(tmp_path / "folder"),
        "--to",
        "sentence-transformers",
    ]
    result = CliRunner().invoke(main, ["export", *arguments])
    assert result.stdout == f"{tmp_path / 'folder'}\n"
    notes = result.stderr
    model = load(tmp_path / "folder")
    for word, text in (("cut", LONG), ("empty", EMPTY), ("special token", SPECIAL)):
        assert word in notes
        assert (
            apart(model.encode([text], show_progress_bar=False), encoder.encode([text]))
            > 100 * CLOSE
        )
    # Text rules and seams are there twice.
    assert 'gets the text rules and ` "` and `"` again' in notes
    assert (
        model.tokenizer.decode(model.tokenizer(SPECIAL)["input_ids"]).count('."') == 2
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"prompt": {"template": "({text})"}}, "has no space behind the sentence"),
        ({"max_length": 2}, "at `max_length = 2`, even short sentences are truncated"),
    ],
)
def test_a_prompt_under_which_a_cut_text_would_be_another_is_refused(
    change,
    reason,
    build_encoder,
    tables,
    tmp_path,
):
    with pytest.raises(ModelError, match=f"{reason}.*take `--to onnx`"):
        export(build_encoder({**tables["opt"], **change}), tmp_path / "folder")


def test_a_prompt_that_a_vocabulary_merges_everywhere_goes_into_the_normalizer_whole(
    byte_pairs,
):
    """Without pre-tokenisation there is no place to cut at."""
    prompt = ResolvedPrompt(Template("say:", ":so"), "none")
    (cut,) = prompt_in_tokenizer.cuts(prompt, None)
    assert (cut.first, cut.last, cut.loses_suffix) == (0, 3, True)
    changed = prompt_in_tokenizer.with_prompt(byte_pairs, prompt, cut)
    for text in ("hello there", "?", "日本"):
        assert changed.encode(text).ids == byte_pairs.encode(prompt.apply(text)).ids


@pytest.mark.parametrize("rules", ["none", "prompt-eol"])
def test_signs_at_a_seam_merge_as_in_the_whole_prompt(byte_pairs, rules):
    """The vocabulary has tokens such as `."` and `'"`, which ids of pieces would miss."""
    template = 'This sentence : "{text}" means in one word:"'
    prompt = ResolvedPrompt(parse_template(template), rules)
    cut = next(iter(prompt_in_tokenizer.cuts(prompt, None)))
    assert (cut.prefix[: cut.first], cut.suffix[cut.last :]) == (
        "This sentence :",
        ' means in one word:"',
    )
    changed = prompt_in_tokenizer.with_prompt(byte_pairs, prompt, cut)
    for text in filter(None, TEXTS):
        assert changed.encode(text).ids == byte_pairs.encode(prompt.apply(text)).ids


@pytest.fixture(scope="module")
def byte_pairs():
    """A byte-level BPE that has merged whatever signs stand together at the end of a quotation."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    texts = [
        f'A "{sentence[:-1]}{end}" B'
        for sentence in SENTENCES
        for end in (".", "?", "'", "'.", ").", "..")
    ]
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=["</s>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    assert {'."', "'\"", ')."'} <= tokenizer.get_vocab().keys()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="</s> $A", special_tokens=[("</s>", tokenizer.token_to_id("</s>"))]
    )
    return tokenizer


def test_adapters_are_merged(build_encoder, tables, tiny_opt_prompt, tmp_path):
    pytest.importorskip("peft", reason="needs the extra `lora`")
    backbone = {
        "use": "opt",
        "model": str(tiny_opt_prompt / "backbone"),
        "lora": {"r": 2},
    }
    encoder = build_encoder({**tables["opt"], "backbone": backbone})
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
    "latents": (
        "bert",
        {},
        {"pooler": {"use": "latent-attention"}},
        "it has layers of its own",
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
        traits = PoolerTraits(pooling="max")

        def build(self, width):
            raise NotImplementedError

    encoder = Encoder.load(tiny_bert)
    encoder.recipe = attrs.evolve(encoder.recipe, pooler=Liar())
    with pytest.raises(ModelError, match="the pooler `liar` is not what it says"):
        export(encoder, tmp_path / "folder")
    (tmp_path / "unverified").mkdir()
    ToSentenceTransformers(verify=False).write(encoder, tmp_path / "unverified")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"auto_map": {"AutoModel": "mine.Model"}}, "comes with code of its own"),
        ({"model_type": "unheard-of"}, "transformers cannot load"),
    ],
)
def test_a_model_that_transformers_does_not_know_is_refused(
    change,
    sentence,
    tiny_bert,
    tmp_path,
    monkeypatch,
):
    encoder = Encoder.load(tiny_bert)

    def save_changed(encoder, path):
        save_merged(encoder, path)
        file = path / "backbone" / "config.json"
        file.write_text(
            json.dumps(json.loads(file.read_text("utf-8")) | change), "utf-8"
        )

    monkeypatch.setattr(
        "sentbed_interop._torch.sentence_transformers_folder.save_merged", save_changed
    )
    with pytest.raises(ModelError, match=sentence):
        export(encoder, tmp_path / "folder")


def test_only_stock_modules_and_their_files_are_written(tiny_bert, tmp_path):
    folder = export(tiny_bert, tmp_path / "folder")
    modules = json.loads((folder / "modules.json").read_text("utf-8"))
    assert [module["type"].rsplit(".", 1)[1] for module in modules] == [
        "Transformer",
        "Pooling",
        "Dense",
        "Normalize",
    ]
    assert {
        file.relative_to(folder).as_posix()
        for file in folder.rglob("*")
        if file.is_file()
    } == {
        *(
            "modules.json",
            "sentence_bert_config.json",
            "config_sentence_transformers.json",
            "README.md",
        ),
        *(
            "config.json",
            "model.safetensors",
            "tokenizer.json",
            "tokenizer_config.json",
        ),
        *("1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors"),
    }


@pytest.mark.parametrize(
    "mode", ["cls", "lasttoken", "max", "mean", "mean_sqrt_len_tokens", "weightedmean"]
)
def test_verification_pools_as_sentence_transformers_does(mode):
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    states = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(1))
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]])
    features = {"token_embeddings": states, "attention_mask": mask}
    expected = modules.Pooling(4, mode)(features)["sentence_embedding"]
    torch.testing.assert_close(
        sentence_transformers_check.pool(states, mask, mode), expected
    )
