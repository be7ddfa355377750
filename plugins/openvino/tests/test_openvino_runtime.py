from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sentbed import Encoder, RuntimeUnavailableError
from sentbed.protocols import EncoderRecipe
from sentbed.tools import component_of, load_plugins
from sentbed_openvino._torch.engine import streams_on
from sentbed_openvino.openvino_runtime import OpenVino
from sentbed_testing import SENTENCES

TABLE = {
    "backbone": {"use": "bert", "init": "random", "size": "tiny", "vocab_size": 600},
    "pooler": {"use": "mean"},
    "head": {"normalize": True},
    "max_length": 24,
}


def build(table):
    plugins = load_plugins()
    recipe = component_of(EncoderRecipe, table, plugins)
    engine = plugins.load("runtime", "cpu")(threads=1).build()
    engine.seed(8)
    return Encoder.build(recipe, engine, lambda: SENTENCES)


@pytest.mark.parametrize(
    ("threads", "streams"),
    [
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 4),
        (5, 1),
        (6, 3),
        (8, 4),
        (10, 2),
        (64, 4),
    ],
)
def test_no_thread_is_left_without_a_stream(threads, streams):
    assert streams_on(threads) == streams


@pytest.fixture(scope="module")
def on_cpu():
    return build(TABLE)


@pytest.fixture(scope="module")
def saved(on_cpu, tmp_path_factory):
    directory = tmp_path_factory.mktemp("saved") / "encoder"
    on_cpu.save(directory)
    return directory


@pytest.fixture(scope="module")
def in_int8(saved):
    return Encoder.load(saved, OpenVino(threads=1, precision="int8"))


@pytest.fixture(scope="module")
def in_bf16(saved):
    return Encoder.load(saved, OpenVino(threads=1, precision="bf16"))


# --- precisions ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "least"),
    [
        pytest.param("bf16", 0.999, marks=pytest.mark.instructions("bf16")),
        pytest.param("int8", 0.98, marks=pytest.mark.instructions("int8")),
    ],
)
def test_less_precision_is_close_and_another_computation(
    precision, least, on_cpu, request
):
    encoder = request.getfixturevalue(f"in_{precision}")
    vectors, expected = encoder.encode(SENTENCES), on_cpu.encode(SENTENCES)
    assert (vectors * expected).sum(1).min() > least
    # In fp32, differences are below 1e-6.
    assert np.abs(vectors - expected).max() > 1e-5

    protocol = encoder.protocol()
    assert protocol["precision"] == precision
    assert protocol["engine"].startswith("openvino 2026.")
    assert ("int8" in protocol) == (precision == "int8")


@pytest.mark.instructions("int8")
def test_int8_says_what_it_was_calibrated_on_and_by_what(in_int8):
    protocol = in_int8.protocol()["int8"]
    assert protocol.keys() == {"nncf", "smoothing", "texts", "rest"}
    assert len(protocol["texts"]) == 64


@pytest.mark.instructions("int8")
@pytest.mark.slow
def test_int8_is_the_same_each_time(in_int8, saved):
    again = Encoder.load(saved, OpenVino(threads=1, precision="int8"))
    np.testing.assert_array_equal(again.encode(SENTENCES), in_int8.encode(SENTENCES))


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_a_precision_without_instructions_is_refused_with_what_to_do(
    precision, processor
):
    processor()
    message = (
        rf'this processor has no {precision} instructions .*use `precision = "fp32"`'
    )
    with pytest.raises(RuntimeUnavailableError, match=message):
        OpenVino(precision=precision).build()


# --- streams ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_streams_give_the_vectors_of_cpu_in_order(on_cpu, saved):
    texts = [f"{text} {number}" for number in range(12) for text in SENTENCES]
    encoder = Encoder.load(saved, OpenVino(threads=3, streams=3))
    encoder.engine.token_budget = 64
    assert encoder.engine.describe()["streams"] == 3
    np.testing.assert_allclose(encoder.encode(texts), on_cpu.encode(texts), atol=1e-6)


def test_streams_are_at_most_the_threads_and_follow_them():
    for threads, streams, expected in [
        (2, None, 2),
        (2, 5, 2),
        (4, 1, 1),
        (1, None, 1),
    ]:
        engine = OpenVino(threads=threads, streams=streams).build()
        assert engine.describe()["streams"] == expected


SIGNAL_AFTER_TWO_ENGINES = """
import gc
import signal
import sys

from sentbed import Encoder
from sentbed_openvino.openvino_runtime import OpenVino

first = Encoder.load(sys.argv[1], OpenVino(threads=1))
first.encode(["A man plays."])
second = Encoder.load(sys.argv[1], OpenVino(threads=1))
second.encode(["A man plays."])
del first
gc.collect()
del second
gc.collect()
signal.signal(signal.SIGTERM, lambda *_: print("handled"))
signal.raise_signal(signal.SIGTERM)
"""


@pytest.mark.slow
def test_a_signal_is_handled_after_engines_have_ended(saved):
    command = [sys.executable, "-c", SIGNAL_AFTER_TWO_ENGINES, saved]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "handled\n"), ended.stderr
