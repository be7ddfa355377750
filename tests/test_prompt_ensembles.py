"""PromptEOL's successors: templates, and several prompts at once, against a loop in transformers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs
import numpy as np
import pytest
import torch
import transformers
from random_encoders import random_encoder
from sentbed._encoder import batching
from sentbed_backbones._torch.token_states import CausalStates
from sentbed_poolers.template_prompt import TEMPLATES
from sentbed_studies.study import read_study
from sentbed_testing import SENTENCES

TEXTS = (
    "A man is playing a guitar",
    'Who said "no"?',
    "Rain falls.",
    "stop!",
    "two small birds",
)
META_EOL = [{"template": f"meta-eol-{number}"} for number in range(1, 9)]
CK = [{"template": "knowledge"}, {"template": "pretended-cot"}]
TABLE = Path(__file__).parent.parent / "recipes" / "papers" / "prompts" / "table-1.toml"
METHODS: Mapping[str, list[tuple[str, tuple[int, ...]]]] = {
    "PromptEOL": [("prompt-eol", (-1,))],
    "Pretended CoT": [("pretended-cot", (-2,))],
    "Knowledge": [("knowledge", (-2,))],
    "MetaEOL": [(prompt["template"], (-1,)) for prompt in META_EOL],
    "CK": [("knowledge", (27,)), ("pretended-cot", (27,))],
    "Echo": [("echo", (-1,))],
}
"""Templates of each method and their layers, from its released code."""
PUBLISHED = [
    name for name in TEMPLATES if name != "prompt-bert" and not name.startswith("echo")
]


def built(
    kind,
    prompt,
    layers="last",
    runtime=None,
    **more,
):
    """Return a random encoder of four layers; equal seeds give equal weights and tokenizers."""
    backbone = {"use": kind, "init": "random", "size": "mini", "vocab_size": 500}
    table = {
        "backbone": {**backbone, "layers": layers},
        "pooler": {"use": "prompt-eol"},
        "prompt": prompt,
    }
    return random_encoder(
        {**table, "max_length": 24, **more}, (*SENTENCES, *TEXTS), runtime
    )


def ruled(text):
    """The text rules that all these papers' code applies, in its order."""
    if text[-1] not in (".", "?", '"', "'"):
        text += "."
    text = text.replace('"', "'")
    return text[:-1] + "." if text[-1] == "?" else text


@torch.no_grad()
def by_a_loop(
    encoder,
    prompts,
    directory,
):
    """One text and one prompt at a time: the last token's states, averaged over layers, then over prompts."""
    encoder.backbone.save(directory)
    model = transformers.AutoModel.from_pretrained(directory).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    rows = []
    for text in TEXTS:
        vectors = []
        for template, layers in prompts:
            inputs = tokenizer(
                template.replace("{text}", ruled(text)).strip(), return_tensors="pt"
            )
            states = model(**inputs, output_hidden_states=True).hidden_states
            vectors.append(
                torch.stack([states[layer][0, -1] for layer in layers]).mean(0)
            )
        rows.append(torch.stack(vectors).mean(0).numpy())
    return np.stack(rows)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["opt", "causal"])
def test_the_vectors_of_each_published_template_are_those_of_a_loop_in_transformers(
    kind, tmp_path
):
    base_encoder = built(kind, {"template": "knowledge"}, [-2])
    for name in PUBLISHED:
        prompt = attrs.evolve(base_encoder.recipe.prompts[0], template=name)
        encoder = attrs.evolve(
            base_encoder, recipe=attrs.evolve(base_encoder.recipe, prompt=prompt)
        )
        expected = by_a_loop(encoder, [(TEMPLATES[name], [-2])], tmp_path)
        np.testing.assert_allclose(encoder.encode(TEXTS), expected, rtol=0, atol=1e-5)


@pytest.mark.sweep(1)
@pytest.mark.parametrize(
    ("kind", "prompts", "layers"),
    [
        pytest.param("opt", META_EOL, "last", id="opt-MetaEOL-last"),
        pytest.param("opt", CK, [3], id="opt-CK-3"),
        pytest.param("causal", META_EOL, [3], id="causal-MetaEOL-3"),
        pytest.param("causal", CK, "last", id="causal-CK-last"),
        pytest.param("opt", META_EOL, [3], id="opt-MetaEOL-3", marks=pytest.mark.slow),
        pytest.param("opt", CK, "last", id="opt-CK-last", marks=pytest.mark.slow),
        pytest.param(
            "causal", META_EOL, "last", id="causal-MetaEOL-last", marks=pytest.mark.slow
        ),
        pytest.param("causal", CK, [3], id="causal-CK-3", marks=pytest.mark.slow),
    ],
)
def test_several_prompts_give_the_mean_of_their_vectors_in_one_pass_each(
    kind,
    prompts,
    layers,
    encoded_batches,
    tmp_path,
):
    encoder = built(kind, prompts, layers)
    vectors = encoder.encode(TEXTS)
    batches = list(encoded_batches)
    read = [-1] if layers == "last" else layers
    expected = by_a_loop(
        encoder, [(TEMPLATES[prompt["template"]], read) for prompt in prompts], tmp_path
    )

    np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5)

    rows = sum(len(batch.input_ids) for batch in batches)

    assert rows == len(prompts) * len(TEXTS)
    # The rows of one prompt share its prefix.
    shared = {len(batch.prefix) for batch in batches}

    assert len(shared) > 1
    assert min(shared) >= 4


def test_the_prefix_of_a_prompt_passes_once_over_all_windows(
    monkeypatch,
):
    monkeypatch.setattr(batching, "WINDOW", 2)
    seen = []
    run = CausalStates.run

    def count(module, ids, *rest, **of_prefix):
        seen.append((ids.numel(), bool(of_prefix)))
        return run(module, ids, *rest, **of_prefix)

    monkeypatch.setattr(CausalStates, "run", count)
    encoder = built("opt", [*CK, {"template": "prompt-eol"}])
    texts = [f"{text} {number}" for number, text in enumerate([*TEXTS, TEXTS[0]])]
    encoder.encode(texts)
    prefixes = [tokens for tokens, kept in seen if kept]
    lengths = [
        tokenizer.encode(texts, 24).lengths for tokenizer in encoder.tokenizers()
    ]
    # Texts of one window may begin alike, and only then is the prefix of another window another one.
    assert len(prefixes) == 3

    text_tokens = sum(tokens for tokens, kept in seen if not kept)
    least = sum(int(each.sum()) for each in lengths) - sum(
        6 * shared for shared in prefixes
    )

    assert least <= text_tokens < 1.5 * least


def test_every_cell_of_the_papers_table_has_the_layer_and_the_prompts_of_its_method():
    cells = {
        cell.name: cell.recipe for cell in read_study(TABLE, check_files=False).runs
    }
    assert cells.keys() == METHODS.keys()
    for name, expected in METHODS.items():
        encoder = cells[name].encoders["encoder"]
        encoder_layers = encoder.backbone.layer_numbers
        prompts = [
            (str(prompt.template), encoder_layers)
            for prompt in encoder.resolved_prompts
            if prompt is not None
        ]
        assert prompts == [
            (TEMPLATES[template], layers) for template, layers in expected
        ]
        assert encoder.pooler.name == ("mean" if name == "Echo" else "prompt-eol")
