"""Encoders with random weights, and the rest of a recipe around one."""

from __future__ import annotations

from sentbed import Encoder
from sentbed._registry.registry import load_plugins
from sentbed.protocols import EncoderRecipe, Runtime
from sentbed.tools import component_of
from sentbed_poolers.template_prompt import TEMPLATES

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


def random_encoder(
    table,
    texts,
    runtime=None,
):
    """Build an encoder of random weights; equal arguments give equal weights and tokenizers.

    The tokenizer is trained on `texts` and all named templates; `runtime` is by default one thread of `cpu`.
    """
    plugins = load_plugins()
    recipe = component_of(EncoderRecipe, table, plugins)
    if not isinstance(runtime, Runtime):
        fields = dict(runtime or {"use": "cpu", "threads": 1})
        runtime = plugins.load("runtime", fields.pop("use"))(**fields)
    engine = runtime.build()
    engine.seed(3)
    return Encoder.build(recipe, engine, lambda: (*texts, *TEMPLATES.values()))
