from __future__ import annotations

import numpy as np
from sentbed import Encoder
from sentbed.protocols import EncoderRecipe
from sentbed.tools import component_of, load_plugins
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
    recipe = component_of(EncoderRecipe, TABLE, plugins)
    engine = plugins.load("runtime", "cpu")(threads=1).build()
    engine.seed(8)
    on_cpu = Encoder.build(recipe, engine, lambda: SENTENCES)
    on_cpu.save(tmp_path / "encoder")
    encoder = Encoder.load(
        tmp_path / "encoder", OnnxRuntime(threads=1, precision="int8")
    )

    vectors = encoder.encode(SENTENCES)
    expected = on_cpu.encode(SENTENCES)
    cosines = (vectors * expected).sum(1)
    assert cosines.min() > 0.98
    # It is another computation, and not the one in fp32 under another name.
    assert np.abs(vectors - expected).max() > 1e-4

    protocol = encoder.protocol()
    added = protocol.keys() - on_cpu.protocol().keys()
    assert added == {"engine", "int8"}
    assert protocol["precision"] == "int8"
    assert protocol["int8"] == {
        "weights": "7 bits a channel",
        "inputs": "uint8, range of each batch",
    }
    assert protocol["engine"].startswith("onnxruntime 1.")
