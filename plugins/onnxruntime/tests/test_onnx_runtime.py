from __future__ import annotations

from pathlib import Path

import numpy as np
from sentbed import Encoder
from sentbed.tools import Document, EncoderRecipe, load_plugins, structure
from sentbed_onnxruntime.onnx_runtime import OnnxRuntime
from sentbed_testing import SENTENCES

TABLE = {
    "backbone": {"use": "bert", "init": "random", "size": "tiny", "vocab_size": 600},
    "pooler": {"use": "mean"},
    "head": {"normalize": True},
    "max_length": 24,
}


def test_int8_is_close_and_says_what_it_is(tmp_path):
    plugins = load_plugins()
    recipe, problems = structure(
        TABLE, EncoderRecipe, Document({}), plugins, Path.cwd()
    )
    assert not problems
    engine = plugins.load("runtime", "cpu")(threads=1).build()
    engine.seed(8)
    on_cpu = Encoder.build(recipe, engine, lambda: SENTENCES)
    on_cpu.save(tmp_path / "encoder")
    encoder = Encoder.load(
        tmp_path / "encoder", OnnxRuntime(threads=1, precision="int8")
    )

    vectors, expected = encoder.encode(SENTENCES), on_cpu.encode(SENTENCES)
    assert (vectors * expected).sum(1).min() > 0.98
    # It is another computation, and not the one in fp32 under another name.
    assert np.abs(vectors - expected).max() > 1e-4

    protocol = encoder.protocol()
    assert protocol["precision"] == "int8"
    assert protocol["int8"] == {
        "weights": "7 bits a channel",
        "inputs": "uint8, range of each batch",
    }
    assert protocol["engine"].startswith("onnxruntime 1.")
    assert protocol.keys() - on_cpu.protocol().keys() == {"engine", "int8"}
