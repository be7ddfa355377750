from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest
import torch
from sentbed import Encoder, ModelError, RecipeError, RunError, load_recipe
from sentbed.protocols import Head, Pooler, TokenStates
from sentbed.tools import load_plugins
from sentbed_common import fingerprint_of
from sentbed_onnxruntime.onnx_runtime import OnnxRuntime
from sentbed_testing import SENTENCES

TINY = {"init": "random", "size": "tiny", "vocab_size": 600}
BERT = {"use": "bert", **TINY}
MEAN = {"use": "mean"}
TEMPLATE = 'This sentence : "{text}" means {mask} .'

PLAIN: Mapping[str, Any] = {"backbone": BERT, "pooler": MEAN, "max_length": 24}
ENCODERS: Mapping[str, Mapping[str, Any]] = {
    "layers": {"backbone": {**BERT, "layers": [-1, 1]}, "pooler": MEAN},
    "lora": {"backbone": {**BERT, "lora": {"r": 4}}, "pooler": MEAN},
    "both ways": {
        "backbone": {"use": "causal", **TINY, "attention": "bidirectional"},
        "pooler": MEAN,
    },
    "prompt": {
        "backbone": BERT,
        "pooler": {"use": "mask"},
        "prompt": {"template": TEMPLATE},
        "max_length": 24,
    },
    "prompts": {
        "backbone": {"use": "opt", **TINY},
        "pooler": {"use": "last"},
        "prompt": [{"template": 'a "{text}" b'}, {"template": "c {text}"}],
        "ensemble": "concatenate",
        "max_length": 24,
    },
    "whitening": {
        **PLAIN,
        "head": {
            "normalize": True,
            "transform": {
                "use": "whitening",
                "dimensions": 8,
                "data": {"use": "sample"},
            },
        },
    },
}
"""Encoders with what the suite of engines leaves out."""

Saved = Callable[[Mapping[str, Any]], Any]
"""What the fixture `saved` is."""


def difference(vectors: Any, expected: Any) -> float:
    return float(np.abs(vectors - expected).max() / np.abs(expected).max())


QUICK = ("lora", "prompt", "whitening")
NAMES = [
    *QUICK,
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ENCODERS
        if name not in QUICK
    ),
]


@pytest.mark.parametrize("name", NAMES)
def test_vectors_are_those_of_the_runtime_cpu(name: str, saved: Saved) -> None:
    encoder = saved(ENCODERS[name])
    assert (
        difference(encoder.load().encode(SENTENCES), encoder.on_cpu.encode(SENTENCES))
        < 1e-5
    )


def test_int8_is_close_and_says_what_it_is(saved: Saved) -> None:
    encoder = saved({**PLAIN, "head": {"normalize": True}})
    vectors, expected = (
        encoder.load(precision="int8").encode(SENTENCES),
        encoder.on_cpu.encode(SENTENCES),
    )
    assert (vectors * expected).sum(1).min() > 0.98
    # It is another computation, and not the one in fp32 under another name.
    assert difference(vectors, expected) > 1e-4
    protocol = encoder.load(precision="int8").protocol()
    assert protocol["precision"] == "int8"
    assert protocol["int8"] == {
        "weights": "7 bits a channel",
        "inputs": "uint8, range of each batch",
    }
    plain = encoder.load().protocol()
    assert plain.keys() - encoder.on_cpu.protocol().keys() == {"engine"}
    assert plain["engine"].startswith("onnxruntime 1.")


def test_runs_and_cached_vectors_tell_the_runtimes_apart(saved: Saved) -> None:
    encoder = saved(PLAIN)
    encoders = (encoder.on_cpu, encoder.load(), encoder.load(precision="int8"))
    keys = set()
    for each in encoders:
        fingerprint = fingerprint_of(each)
        assert fingerprint is not None
        keys.add(fingerprint.name)
    assert len(keys) == 3
    again = fingerprint_of(encoder.load())
    assert again is not None
    assert again.name in keys
    facts = encoder.load().engine.describe()
    assert (facts["runtime"], facts["precision"], facts["threads"]) == (
        "onnxruntime",
        "fp32",
        1,
    )


def test_threads_are_the_recipes_or_those_of_a_worker() -> None:
    assert OnnxRuntime().with_threads(3).threads == 3
    assert OnnxRuntime(threads=1).with_threads(3).threads == 1


REFUSED: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "weights": (
        {**PLAIN, "backbone": {**BERT, "dtype": "bf16"}},
        "computes from weights in fp32",
    ),
    "denoising": (
        {
            **PLAIN,
            "pooler": {"use": "mask", "denoise": True},
            "prompt": {"template": TEMPLATE},
        },
        "has no state of a template alone, which the pooler `mask` subtracts",
    ),
    "hidden tokens": (
        {
            "backbone": {"use": "causal", **TINY},
            "pooler": MEAN,
            "prompt": {"template": "{text} again: {text}"},
            "max_length": 16,
        },
        "takes no prompt that hides tokens, chooses layers or has a placeholder",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_graph_has_no_form_of_is_refused_before_anything_is_built(
    what: str, saved: Saved
) -> None:
    table, message = REFUSED[what]
    encoder = saved(table)
    with pytest.raises(ModelError, match=message):
        encoder.load()


def test_an_intervention_is_refused() -> None:
    plugins = load_plugins()
    intervention = plugins.find("intervention", "token-prepending").cls()
    backbone = plugins.find("backbone", "opt").cls(
        init="random", intervention=intervention
    )
    (message,) = OnnxRuntime().misfits(
        backbone, plugins.find("pooler", "last").cls(), Head()
    )
    assert message.startswith("the runtime `onnxruntime` has no interventions")


STAGE = """
[[stage]]
name = "triplets"
data = { use = "sample" }
loss = { use = "info-nce" }
optimizer = { use = "adamw", lr = 5e-5 }
schedule = { use = "constant" }
batch_size = 4
steps = 1
"""


def test_a_stage_is_refused_by_the_check_of_a_recipe(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        'schema = 1\n[run]\nname = "r"\nseed = 1\n[runtime]\nuse = "onnxruntime"\n[encoder]\n'
        'backbone = { use = "bert", init = "random" }\npooler = { use = "mean" }\nmax_length = 16\n'
        + STAGE
    )
    with pytest.raises(
        RecipeError,
        match="the runtime `onnxruntime` only encodes; train on `cpu` or `cuda`",
    ):
        load_recipe(recipe)


# --- what no check can foresee ------------------------------------------------------------------------------


class ByNumber(torch.nn.Module):
    """A mean that takes the number of tokens for a constant."""

    def forward(self, states: TokenStates) -> torch.Tensor:
        return states.last_hidden_state.sum(1) / int(states.last_hidden_state.shape[1])


class ByValue(torch.nn.Module):
    """Raises when it is traced."""

    def forward(self, states: TokenStates) -> torch.Tensor:
        if torch.jit.is_tracing():
            raise ValueError("no tracing\nof this")
        return states.last_hidden_state.sum(1)


@attrs.frozen
class Odd(Pooler):
    """A pooler of a stranger."""

    name: ClassVar[str] = "odd"

    module: Any = ByNumber

    def build(self, width: int) -> Any:
        return self.module()


def odd_encoder(saved: Saved, module: Any) -> Encoder:
    on_cpu = saved(PLAIN).on_cpu
    engine = OnnxRuntime(threads=1).build()
    placed = engine.assemble(on_cpu.backbone, Odd(module), on_cpu.recipe.head)
    return attrs.evolve(on_cpu, engine=engine, placed=placed)


def test_a_size_taken_for_a_constant_is_an_error_and_no_wrong_vector(
    saved: Saved,
) -> None:
    encoder = odd_encoder(saved, ByNumber)
    with pytest.raises(
        ModelError,
        match=r"with the pooler `odd` gives vectors that differ from PyTorch's by",
    ):
        encoder.encode(SENTENCES)


def test_what_cannot_be_traced_is_told_in_one_sentence(saved: Saved) -> None:
    encoder = odd_encoder(saved, ByValue)
    message = r"with the pooler `odd` cannot be traced into a graph: .*no tracing of this; use the runtime `cpu`"
    with pytest.raises(ModelError, match=message) as caught:
        encoder.encode(SENTENCES)
    assert "\n" not in str(caught.value)


def test_an_error_of_the_library_is_told_in_one_sentence(saved: Saved) -> None:
    encoder = saved(PLAIN).load()
    project = encoder.placed.project()
    with pytest.raises(
        RunError, match="does not encode a batch of 2 texts of 3 tokens: "
    ) as caught:
        project(np.full((2, 3), 10**6), np.ones((2, 3), np.int64))
    assert "\n" not in str(caught.value)
