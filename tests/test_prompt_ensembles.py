"""PromptEOL's successors: templates, and the mean over several prompts, against a loop in transformers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import torch
import transformers
from sentbed import Encoder, ModelError, RecipeError, SentbedError
from sentbed._document.structuring import structure
from sentbed._document.toml import Document
from sentbed._recipe.checks import check
from sentbed._recipe.load import load_recipe
from sentbed._recipe.prompts import TEMPLATES
from sentbed._recipe.recipe import EncoderRecipe
from sentbed._registry.registry import load_plugins
from sentbed_common import fingerprint_of
from sentbed_common import source_code_hashes as sources
from sentbed_hardware._torch.engine import TorchEncoder
from sentbed_interop.export_and_import import export_encoder
from sentbed_studies.study import read_study
from sentbed_testing import SENTENCES

TEXTS = ("A man is playing a guitar", 'Who said "no"?', "Rain falls.", "stop!", "two small birds")
META_EOL = [{"template": f"meta-eol-{number}"} for number in range(1, 9)]
CK = [{"template": "knowledge"}, {"template": "pretended-cot"}]
TABLE = Path(__file__).parent.parent / "recipes" / "papers" / "prompts" / "table-1.toml"
METHODS: Mapping[str, tuple[tuple[int, ...], list[str]]] = {
    "PromptEOL": ((-1,), ["prompt-eol"]),
    "Pretended CoT": ((-2,), ["pretended-cot"]),
    "Knowledge": ((-2,), ["knowledge"]),
    "MetaEOL": ((-1,), [one["template"] for one in META_EOL]),
    "CK": ((27,), ["knowledge", "pretended-cot"]),
}
"""Layers and templates of each method, from its released code."""
PUBLISHED = [name for name in TEMPLATES if name != "prompt-bert"]


def built(kind: str, prompt: Any, layers: Sequence[int] | str = "last", **more: Any) -> Encoder:
    """Return a random encoder of four layers; equal seeds give equal weights and tokenizers."""
    backbone = {"use": kind, "init": "random", "size": "mini", "vocab_size": 500}
    table = {"backbone": {**backbone, "layers": layers}, "pooler": {"use": "prompt-eol"}, "prompt": prompt}
    plugins = load_plugins()
    recipe, problems = structure(
        {**table, "max_length": 24, **more}, EncoderRecipe, Document({}), plugins, Path.cwd()
    )
    assert not problems, problems
    engine = plugins.find("runtime", "cpu").cls(threads=1).build()
    engine.seed(3)
    return Encoder.build(recipe, engine, lambda: (*SENTENCES, *TEXTS, *TEMPLATES.values()))


def ruled(text: str) -> str:
    """The text rules that all these papers' code applies, in its order."""
    if text[-1] not in (".", "?", '"', "'"):
        text += "."
    text = text.replace('"', "'")
    return text[:-1] + "." if text[-1] == "?" else text


@torch.no_grad()
def by_a_loop(encoder: Encoder, templates: Sequence[str], layer: int, directory: Path) -> Any:
    """One text and one prompt at a time: the mean of the last token's states, as MetaEOL's code takes it."""
    encoder.backbone.save(directory)
    model = transformers.AutoModel.from_pretrained(directory).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    rows = []
    for text in TEXTS:
        prompts = [template.replace("{text}", ruled(text)).strip() for template in templates]
        inputs = (tokenizer(prompt, return_tensors="pt") for prompt in prompts)
        outputs = (model(**one, output_hidden_states=True).hidden_states[layer][0, -1] for one in inputs)
        rows.append(torch.stack(list(outputs)).mean(0).numpy())
    return np.stack(rows)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Rows, and tokens of the shared prefix, of each batch that is encoded."""
    seen: list[tuple[int, int]] = []
    encode = TorchEncoder.encode

    def count(encoder: TorchEncoder, batch: Any) -> Any:
        seen.append((len(batch.input_ids), 0 if batch.prefix is None else len(batch.prefix)))
        return encode(encoder, batch)

    monkeypatch.setattr(TorchEncoder, "encode", count)
    return seen


@pytest.mark.parametrize("kind", ["opt", "causal"])
def test_the_vectors_of_each_published_template_are_those_of_a_loop_in_transformers(
    kind: str, tmp_path: Path
) -> None:
    one = built(kind, {"template": "knowledge"}, [-2])
    for name in PUBLISHED:
        prompt = attrs.evolve(one.recipe.prompts[0], template=name)
        encoder = attrs.evolve(one, recipe=attrs.evolve(one.recipe, prompt=prompt))
        expected = by_a_loop(encoder, [TEMPLATES[name]], -2, tmp_path)
        np.testing.assert_allclose(encoder.encode(TEXTS), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("layers", ["last", [3]], ids=str)
@pytest.mark.parametrize("prompts", [META_EOL, CK], ids=["MetaEOL", "CK"])
@pytest.mark.parametrize("kind", ["opt", "causal"])
def test_several_prompts_give_the_mean_of_their_vectors_in_one_pass_each(
    kind: str, prompts: list[dict[str, str]], layers: Any, passes: list[tuple[int, int]], tmp_path: Path
) -> None:
    encoder = built(kind, prompts, layers)
    found = encoder.encode(TEXTS)
    counted = list(passes)
    layer = -1 if layers == "last" else layers[0]
    expected = by_a_loop(encoder, [TEMPLATES[one["template"]] for one in prompts], layer, tmp_path)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    assert sum(rows for rows, _ in counted) == len(prompts) * len(TEXTS)
    # Every prompt has a prefix of its own, which its rows share.
    assert len({shared for _, shared in counted}) > 1
    assert min(shared for _, shared in counted) >= 4


def test_a_saved_encoder_keeps_its_prompts_and_its_protocol_has_all_of_them(tmp_path: Path) -> None:
    encoder = built("opt", CK)
    encoder.save(tmp_path / "e")
    loaded = Encoder.load(tmp_path / "e")
    assert loaded.recipe.prompts == encoder.recipe.prompts
    np.testing.assert_allclose(loaded.encode(TEXTS), encoder.encode(TEXTS), rtol=0, atol=1e-6)
    expected = [{"template": TEMPLATES[one["template"]], "normalizer": "prompt-eol"} for one in CK]
    assert loaded.protocol()["prompt"] == expected


def test_the_store_tells_encoders_with_other_prompts_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "STARTED", math.inf)
    both, one = built("opt", CK), built("opt", CK[:1])
    spaces = [fingerprint_of(encoder) for encoder in (both, built("opt", CK[::-1]), one)]
    assert None not in spaces
    assert len({repr(space) for space in spaces}) == 3


def test_what_takes_one_prompt_refuses_several(tmp_path: Path) -> None:
    built("opt", CK).save(tmp_path / "e")
    with pytest.raises((ModelError, SentbedError), match=r"averages over 2 prompts, and this takes one"):
        export_encoder(tmp_path / "e", tmp_path / "st", "sentence-transformers")


def test_every_cell_of_the_papers_table_has_the_layer_and_the_prompts_of_its_method() -> None:
    cells = {cell.name: cell.recipe for cell in read_study(TABLE, look=False).cells}
    assert cells.keys() == METHODS.keys()
    for name, (layers, templates) in METHODS.items():
        encoder = cells[name].encoders["encoder"]
        found = [str(one.template) for one in encoder.resolved_prompts if one is not None]
        assert encoder.backbone.layer_numbers == layers  # type: ignore[attr-defined]
        assert found == [TEMPLATES[template] for template in templates]


RECIPE = """
schema = 1
[run]
name = "prompts"
[runtime]
use = "cpu"
[encoder]
backbone = { use = "opt", init = "random" }
pooler = { use = "prompt-eol" }
prompt = PROMPT
"""
STAGE = """
[[stage]]
name = "one"
steps = 2
batch_size = 4
data = { use = "sample" }
loss = { use = "info-nce" }
optimizer = { use = "adamw", lr = 1e-3 }
schedule = { use = "constant" }
"""
EVALUATE = """
[[evaluate]]
use = "sts"
path = "pkg:sentbed_data/sample/sts-test.tsv"
"""


@pytest.mark.parametrize(
    ("prompt", "rest", "message"),
    [
        ("[]", EVALUATE, "`prompt` is an empty array; give at least one prompt"),
        ('[{ template = "knowledge" }, { template = "x" }]', EVALUATE, "there is no template `x`"),
        ('[{ template = "knowledge" }, { template = "prompt" }]', STAGE, "has several prompts, which cannot"),
    ],
)
def test_prompts_that_cannot_work_are_problems_of_the_recipe(
    prompt: str, rest: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "r.toml").write_text(RECIPE.replace("PROMPT", prompt) + rest)
    with pytest.raises(RecipeError, match=message):
        check(load_recipe(tmp_path / "r.toml"), load_plugins())
