"""Opponents of the benchmark compute what sentbed computes, on the same batches, and are rated in turn."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sentbed import Encoder, SentbedError
from sentbed.protocols import Evaluation, Prepared, Score, Texts, Vectors
from sentbed.tools import Document, EncoderRecipe, load_plugins, structure

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
TEXTS = [
    "the river is high after the rain",
    "two children count the boats",
    "nobody is at home",
    "the boats on the river after the rain are high, and nobody counts them at home but two children",
    "two children count the boats",
    "rain",
]


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("opponent_engines")


@pytest.fixture
def opponents(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip(
        "sentence_transformers", reason="what sentbed is compared with is not installed"
    )
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("opponents")


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    """A random BERT of two layers, 128 wide, with mean pooling and norm."""
    table = {
        "backbone": {"use": "bert", "init": "random", "size": "tiny"},
        "pooler": {"use": "mean"},
        "head": {"normalize": True},
        "max_length": 32,
    }
    plugins = load_plugins()
    recipe, problems = structure(
        table, EncoderRecipe, Document({}), plugins, Path.cwd()
    )
    assert not problems
    engine = plugins.find("runtime", "cpu").cls(threads=1).build()
    engine.seed(0)
    return Encoder.build(recipe, engine, lambda: TEXTS)


@pytest.fixture(scope="module")
def folder(encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bert")
    encoder.backbone.save(path)
    return path


def batched(
    engines: ModuleType, encoder: Encoder, vectors_of: Any, budget: int = 64
) -> NDArray[np.float32]:
    found: NDArray[np.float32] = engines.Batched(
        encoder.backbone.tokenizer, budget, 32, vectors_of
    )(TEXTS)
    return found


def alone(engines: ModuleType, encoder: Encoder) -> list[Any]:
    tokens = encoder.backbone.tokenizer.encode(TEXTS, 32)
    pad_id = encoder.backbone.tokenizer.pad_id
    return [
        engines.batch(tokens, np.array([row]), pad_id) for row in range(len(tokens))
    ]


# --- batches and pooling -----------------------------------------------------------------------------------


def test_pooling_is_the_normalised_mean_of_the_tokens_that_count(
    engines: ModuleType,
) -> None:
    states = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    lengths = (4, 2, 1)
    mask = (np.arange(4) < np.array(lengths)[:, None]).astype(np.int64)
    for row, length, found in zip(
        states, lengths, engines.pooled(states, mask), strict=True
    ):
        mean = sum(row[place] for place in range(length)) / length
        np.testing.assert_allclose(found, mean / np.sqrt((mean**2).sum()), rtol=1e-6)


@pytest.mark.parametrize("budget", [1, 24, 4096])
def test_vectors_come_back_in_the_order_of_the_texts(
    budget: int, engines: ModuleType, encoder: Encoder
) -> None:
    module: Any = encoder.placed.module
    shapes = []

    def vectors_of(batches: Iterable[Any]) -> Iterator[NDArray[np.float32]]:
        for ids, mask in batches:
            shapes.append(ids.shape)
            with torch.no_grad():
                yield module.eval()(
                    torch.from_numpy(ids), torch.from_numpy(mask)
                ).numpy()

    found = batched(engines, encoder, vectors_of, budget)
    np.testing.assert_allclose(found, encoder.encode(TEXTS), atol=1e-6)
    assert sum(rows for rows, _ in shapes) == len(TEXTS)
    assert all(rows * length <= budget or rows == 1 for rows, length in shapes)


# --- the engines -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_onnx_runtime_computes_the_same_and_nearly_so_in_int8(
    engines: ModuleType, encoder: Encoder, folder: Path, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime", reason="comes with sentbed-interop[onnx]")
    graph, int8 = tmp_path / "fp32.onnx", tmp_path / "int8.onnx"
    engines.write_onnx(folder, graph)
    engines.quantize_onnx(graph, int8)
    exact = encoder.encode(TEXTS)
    found = batched(engines, encoder, engines.onnx_runtime_vectors(graph, 1))
    np.testing.assert_allclose(found, exact, atol=1e-5)
    rounded = batched(engines, encoder, engines.onnx_runtime_vectors(int8, 1))
    assert (rounded * exact).sum(1).min() > 0.99
    # Rounded to 8 bits, not computed as before.
    assert np.abs(rounded - exact).max() > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("streams", [1, 2])
def test_openvino_computes_the_same_and_nearly_so_in_int8(
    streams: int, engines: ModuleType, encoder: Encoder, folder: Path
) -> None:
    reason = "`make opponents` installs it: PYTHONPATH=.venv/opponents"
    pytest.importorskip("openvino", reason=reason)
    pytest.importorskip("nncf", reason=reason)
    model = engines.openvino_model(folder)
    exact = encoder.encode(TEXTS)
    found = batched(
        engines, encoder, engines.openvino_vectors(model, 2, streams, "f32")
    )
    np.testing.assert_allclose(found, exact, atol=1e-5)
    int8 = engines.quantize_openvino(model, alone(engines, encoder))
    rounded = batched(
        engines, encoder, engines.openvino_vectors(int8, 2, streams, "f32")
    )
    assert (rounded * exact).sum(1).min() > 0.99
    assert np.abs(rounded - exact).max() > 1e-4


# --- rates, scores and the table ---------------------------------------------------------------------------


def test_a_ratio_is_the_median_of_those_within_the_rounds(
    opponents: ModuleType,
) -> None:
    assert opponents.ratio([1.0, 4.0, 2.0], [1.0, 1.0, 4.0]) == 1.0
    assert opponents.ratio([6.0, 6.0], [2.0, 3.0]) == 2.5


def test_each_round_takes_every_row_in_turn_after_all_have_encoded_once(
    opponents: ModuleType,
) -> None:
    order = []

    def row(name: str) -> Any:
        return lambda texts: order.append((name, len(texts)))

    rates = opponents.rates_in_turn({"a": row("a"), "b": row("b")}, TEXTS, 2)
    assert order == [("a", 6), ("b", 6)] * 3
    assert {name: len(found) for name, found in rates.items()} == {"a": 2, "b": 2}
    assert min(rate for found in rates.values() for rate in found) > 0


def test_scores_and_cosines_are_those_of_each_rows_own_vectors(
    opponents: ModuleType, encoder: Encoder, capsys: pytest.CaptureFixture[str]
) -> None:
    def score(vectors: Vectors) -> Evaluation:
        first, second = np.split(vectors["pairs"], 2)
        value = 100 * float((first * second).sum(1).mean())
        return Evaluation(
            (Score("pairs", "spearman", value, {}), Score("pairs", "other", 0.0, {})),
            value,
        )

    prepared = Prepared({"pairs": Texts(TEXTS[:3], TEXTS[3:])}, score)
    exact = encoder.encode(TEXTS)

    def turned(texts: list[str]) -> NDArray[np.float32]:
        vectors = encoder.encode(texts).copy()
        vectors[0] *= -1
        return vectors

    found = opponents.scored({"exact": encoder.encode, "turned": turned}, prepared)
    products = (exact[:3] * exact[3:]).sum(1)
    assert found["exact"]["scores"] == {
        "pairs": pytest.approx(100 * products.mean(), abs=1e-3)
    }
    products[0] *= -1
    assert found["turned"]["scores"] == {
        "pairs": pytest.approx(100 * products.mean(), abs=1e-3)
    }
    assert found["exact"]["cosine_least"] == pytest.approx(1)
    # The repeated sentence counts once.
    assert found["turned"]["cosine_mean"] == pytest.approx(3 / 5, abs=1e-5)
    assert found["turned"]["cosine_least"] == pytest.approx(-1)
    rates = {"exact": [10.0, 30.0, 20.0], "turned": [15.0, 30.0, 40.0]}
    rows = {
        name: {
            **row,
            "rates": rates[name],
            "ratio": opponents.ratio(rates[name], rates["exact"]),
        }
        for name, row in found.items()
    }
    opponents.show(json.loads(json.dumps({"rows": rows})))
    head, *lines = capsys.readouterr().out.strip().splitlines()
    assert head.split() == ["sentences/s", "ratio", "pairs", "cosine", "least"]
    assert [line.split()[:3] for line in lines] == [
        ["exact", "20", "1.00"],
        ["turned", "30", "1.50"],
    ]


def test_a_precision_that_the_runtime_lacks_is_refused(opponents: ModuleType) -> None:
    with pytest.raises((SentbedError, ValueError), match="int3"):
        opponents.ours("int3", 1)


def test_a_sample_is_the_same_each_time_and_repeats_nothing(
    opponents: ModuleType,
) -> None:
    texts = [str(number) for number in range(50)]
    drawn = opponents.sampled(texts, 20, 0)
    assert drawn == opponents.sampled(texts, 20, 0) != opponents.sampled(texts, 20, 1)
    assert len(set(drawn)) == 20
    assert sorted(opponents.sampled(texts, 100, 0)) == sorted(texts)
