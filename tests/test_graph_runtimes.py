"""Runtimes that encode with a graph of another library give the vectors of the runtime `cpu`, or refuse."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest
import torch
from random_encoders import random_encoder
from sentbed import Encoder, ModelError
from sentbed.protocols import EncoderRecipe, Pooler
from sentbed.tools import load_plugins
from sentbed_common import fingerprint_of
from sentbed_onnxruntime.onnx_runtime import OnnxRuntime
from sentbed_openvino.openvino_runtime import OpenVino
from sentbed_testing import SENTENCES

TINY = {"init": "random", "size": "tiny", "vocab_size": 600}
BERT = {"use": "bert", **TINY}
MEAN = {"use": "mean"}
TEMPLATE = 'This sentence : "{text}" means {mask} .'

PLAIN: Mapping[str, Any] = {"backbone": BERT, "pooler": MEAN, "max_length": 24}
ENCODERS: Mapping[str, Mapping[str, Any]] = {
    "lora": {"backbone": {**BERT, "lora": {"r": 4}}, "pooler": MEAN},
    "prompt": {
        "backbone": BERT,
        "pooler": {"use": "mask"},
        "prompt": {"template": TEMPLATE},
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
    "layers": {"backbone": {**BERT, "layers": [-1, 1]}, "pooler": MEAN},
    "prompts": {
        "backbone": {"use": "opt", **TINY},
        "pooler": {"use": "last"},
        "prompt": [{"template": 'a "{text}" b'}, {"template": "c {text}"}],
        "max_length": 24,
    },
}
"""Encoders with what the suite of engines leaves out."""


@attrs.frozen
class SavedEncoder:
    """An encoder on the runtime `cpu`, and the directory that it was saved to."""

    on_cpu: Encoder
    directory: Path

    def load(self, runtime, **settings):
        """Load it on another runtime."""
        return Encoder.load(self.directory, runtime(threads=1, **settings))


@pytest.fixture
def saved(tmp_path):
    """Return what builds, fits and saves the encoder of a table `[encoder]`."""

    def make(table):
        encoder = random_encoder(dict(table), SENTENCES).fit_transform()
        encoder.save(tmp_path / "encoder")
        return SavedEncoder(encoder, tmp_path / "encoder")

    return make


@pytest.fixture(params=[OnnxRuntime, OpenVino], ids=["onnxruntime", "openvino"])
def runtime(request):
    return request.param


def difference(vectors, expected):
    return float(np.abs(vectors - expected).max() / np.abs(expected).max())


# --- vectors ------------------------------------------------------------------------------------------------


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", ENCODERS)
def test_vectors_are_those_of_the_runtime_cpu(name, runtime, saved):
    encoder = saved(ENCODERS[name])
    vectors = encoder.load(runtime).encode(SENTENCES)
    assert difference(vectors, encoder.on_cpu.encode(SENTENCES)) < 1e-5


@pytest.mark.parametrize(
    "runtime",
    [
        OnnxRuntime,
        pytest.param(OpenVino, marks=pytest.mark.instructions("int8")),
    ],
    ids=["onnxruntime", "openvino"],
)
def test_runs_and_cached_vectors_tell_the_runtimes_apart(runtime, saved):
    encoder = saved(PLAIN)
    encoders = (
        encoder.on_cpu,
        encoder.load(runtime),
        encoder.load(runtime, precision="int8"),
    )
    keys = set()
    for each in encoders:
        fingerprint = fingerprint_of(each)
        assert fingerprint is not None
        keys.add(fingerprint)
    assert len(keys) == 3
    again = fingerprint_of(encoder.load(runtime))
    assert again is not None
    assert again in keys
    facts = encoder.load(runtime).engine.describe()
    assert (facts["runtime"], facts["precision"], facts["threads"]) == (
        runtime.name,
        "fp32",
        1,
    )


# --- what is refused ----------------------------------------------------------------------------------------

REFUSED: Mapping[str, tuple[Mapping[str, Any], str]] = {
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
        "runs no prompt that hides tokens or has a placeholder",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_graph_has_no_form_of_is_refused_before_anything_is_built(
    what, runtime, saved
):
    table, message = REFUSED[what]
    encoder = saved(table)
    with pytest.raises(ModelError, match=message):
        encoder.load(runtime)


def test_an_intervention_is_refused(runtime):
    plugins = load_plugins()
    intervention = plugins.load("intervention", "token-prepending")()
    backbone = plugins.load("backbone", "opt")(init="random", intervention=intervention)
    encoder = EncoderRecipe(backbone, plugins.load("pooler", "last")())
    (message,) = runtime().misfits(encoder)
    assert message.startswith(f"the runtime `{runtime.name}` has no interventions")


# --- what no check can foresee ------------------------------------------------------------------------------


class ByNumber(torch.nn.Module):
    """A mean that takes the number of tokens for a constant."""

    def forward(self, states):
        return states.last_hidden_state.sum(1) / int(states.last_hidden_state.shape[1])


@attrs.frozen
class Odd(Pooler):
    """A pooler of a stranger."""

    name: ClassVar[str] = "odd"

    def build(self, width):
        return ByNumber()


def test_a_size_taken_for_a_constant_is_an_error_and_no_wrong_vector(runtime, saved):
    on_cpu = saved(PLAIN).on_cpu
    engine = runtime(threads=1).build()
    placed = engine.assemble(on_cpu.backbone, Odd(), on_cpu.recipe.head)
    encoder = attrs.evolve(on_cpu, engine=engine, placed=placed)
    message = r"with the pooler `odd` gives vectors that differ from PyTorch's by"
    with pytest.raises(ModelError, match=message):
        encoder.encode(SENTENCES)
