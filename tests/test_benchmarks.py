"""The benchmarks count right, and run from their options to their plots at a tiny size."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest
import sentbed
import torch
import transformers
from random_encoders import random_encoder
from sentbed.protocols import BuildContext
from sentbed_backbones.bert import Bert
from sentbed_backbones.opt import Opt
from sentbed_backbones.t5 import T5
from sentbed_evaluators.encoding_cost import EncodingCost
from torch.utils.flop_counter import FlopCounterMode

ROOT = Path(__file__).parent.parent
RECIPE = ROOT / "recipes" / "papers" / "sentence-t5-throughput.toml"
TEXTS = BuildContext(EncodingCost(lengths=(16,)).prepare().texts)
BACKBONES = {
    "bert": Bert(init="random", size="mini"),
    "opt": Opt(init="random"),
    "t5 1.0": T5(init="random", version="1.0"),
    "t5 1.1": T5(init="random", version="1.1"),
}
COUNTED = {
    "bert": transformers.BertModel,
    "opt": transformers.OPTModel,
    "t5": transformers.T5EncoderModel,
}


@pytest.fixture
def benchmark(monkeypatch):
    """Import a benchmark by its name."""
    pytest.importorskip("sentence_transformers", reason="what sentbed is compared with")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    threads = torch.get_num_threads()
    yield importlib.import_module
    torch.set_num_threads(threads)


@pytest.mark.parametrize("length", [16, 48])
@pytest.mark.parametrize("name", BACKBONES)
def test_operations_are_those_that_torch_counts(name, length, benchmark):
    built = BACKBONES[name].build(TEXTS)
    config = built.model.config
    # The counter sees products: attention is to be made of them.
    config._attn_implementation = "eager"
    options = {"add_pooling_layer": False} if name == "bert" else {}
    model = COUNTED[config.model_type](config, **options).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(
            torch.full((3, length), 7),
            attention_mask=torch.ones(3, length, dtype=torch.long),
        )
    flop = benchmark("common").forward_flop(config, length)

    assert counter.get_total_flops() == 3 * flop


def words(options):
    """Return the words of a command line that gives each option its value."""
    return [word for option in options.items() for word in option]


@pytest.mark.slow
def test_the_throughput_of_tiny_models_is_measured_and_drawn(benchmark, tmp_path):
    options = {
        "--sizes": "tiny",
        "--families": "bert",
        "--lengths": "16",
        "--batches": "1,3",
        "--threads": "1",
        "--precision": "fp32",
        "--rounds": "1",
        "--seconds": "0",
        "--limit-seconds": "0.01",
        "--bandwidth-mib": "1",
        "--longest": "100",
        "--json": str(tmp_path / "f.json"),
        "--plot": str(tmp_path / "f.svg"),
    }
    benchmark("throughput").main([*words(options), "--train"])
    figures = json.loads((tmp_path / "f.json").read_text("utf-8"))
    (model,) = figures["models"]

    assert model["difference"] < 1e-5

    alone, together, step = figures["cases"]
    weights = 16 * 2 * model["weights"]
    attention = 4 * 2 * 128 * 16**2

    assert alone["flop"] == weights + attention
    assert together["flop"] == 3 * alone["flop"]
    assert step["flop"] == 3 * 6 * alone["flop"]

    for case in figures["cases"]:
        ours, theirs = case["ours"], case["theirs"]
        assert case["ratio"] == ours["texts_per_s"] / theirs["texts_per_s"]

    assert ">bert, fp32<" in (tmp_path / "f.svg").read_text("utf-8")
    assert (tmp_path / "f-train.svg").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        (
            "gpu",
            {
                "--models": "bert:tiny,t5:tiny",
                "--seconds": "0.01",
                "--pairs": "4",
                "--length": "16",
            },
        ),
        ("gpu_opponents", {"--size": "tiny", "--texts": "60", "--rounds": "1"}),
    ],
)
def test_the_benchmarks_for_gpus_run_on_the_host(name, options, benchmark, tmp_path):
    file = tmp_path / "figures.json"
    options |= {"--device": "cpu", "--precision": "fp32", "--json": str(file)}
    benchmark(name).main(words(options))
    cases = json.loads(file.read_text("utf-8"))["cases"]
    if name == "gpu":
        assert [(case["model"], case["what"]) for case in cases] == [
            ("bert:tiny", "encode"),
            ("bert:tiny", "train"),
            ("t5:tiny", "encode"),
            ("t5:tiny", "train"),
        ]
        # Two layers of products of 128 x 128, 4 to attend and 8 in the inner layer; scores of 16 tokens.
        flop = 2 * 2 * (4 + 8) * 128**2 * 16 + 4 * 2 * 128 * 16**2
        rate = cases[0]["texts_per_s"]
        assert cases[0]["tflops"] == pytest.approx(rate * flop / 1e12)
    else:
        (case,) = cases
        assert case["least_cosine"] > 0.99999
        assert min(case["texts_per_s"].values()) > 0


def test_opponents_get_sentbeds_batches_and_give_vectors_in_the_order_of_the_texts(
    benchmark, monkeypatch
):
    texts = ["two children count the boats", "rain", "rain on the river " * 6, "rain"]
    table = {
        "backbone": {"use": "bert", "init": "random", "size": "tiny"},
        "pooler": {"use": "mean"},
        "head": {"normalize": True},
        "max_length": 32,
    }
    encoder = random_encoder(table, texts)
    monkeypatch.setattr(encoder.engine, "token_budget", 24)
    module = encoder.placed.module.eval()
    shapes = []

    def model(features):
        ids = features["input_ids"]
        shapes.append(ids.shape)
        return {"sentence_embedding": module(ids, features["attention_mask"])}

    vectors = benchmark("opponents").Batched(model, encoder)(texts)

    np.testing.assert_allclose(vectors, encoder.encode(texts), atol=1e-6)
    assert all(rows * length <= 24 or rows == 1 for rows, length in shapes)


# --- the recipe of Sentence-T5's appendix A ----------------------------------------------------------------


def test_the_recipe_shows_the_papers_numbers_beside_ours_and_fails_for_none(
    tmp_path,
):
    T5(init="random", version="1.0").build(TEXTS).save(tmp_path / "t5")
    settings = ["runtime.precision=fp32"]
    for place, name in enumerate(["base", "large", "3b", "11b"]):
        settings += [f"encoders.{name}.backbone.model={tmp_path / 't5'}"]
        settings += [f"evaluate.{place}.sample=4", f"evaluate.{place}.repeats=1"]
        settings += [
            f"evaluate.{place}.batch_sizes=[2, 3]",
            f"evaluate.{place}.lengths=[16]",
        ]
    recipe = sentbed.load_recipe(RECIPE)
    published = {
        key: (expected.value, expected.decides)
        for key, expected in recipe.expected.items()
    }

    assert published == {
        "11b/length-128-batch-1024": (274.0, False),
        "11b/length-128-batch-1024/examples/s": (27.0, False),
        "11b/length-128-batch-512": (0.5, False),
    }

    settings += [
        'expected={"11b/length-16-batch-3" = { value = 274, decides = false, source = "the paper" }}'
    ]
    result = sentbed.run(sentbed.load_recipe(RECIPE, settings), tmp_path / "run")

    assert result.unmet == ()

    rates = [score for score in result.scores if score.metric == "examples/s"]

    assert [(score.encoder, score.task) for score in rates] == [
        (name, f"length-16-batch-{size}")
        for name in ("base", "large", "3b", "11b")
        for size in (2, 3)
    ]
    assert all(score.value > 0 for score in rates)
    assert rates[0].evaluator_protocol["machine"]["precision"] == "fp32"

    (row,) = json.loads((tmp_path / "run" / "report.json").read_text("utf-8"))[
        "expected"
    ]

    assert (row["value"], row["found"], row["met"]) == (274.0, rates[-1].value, None)


def test_the_recipes_models_have_the_sizes_of_the_paper(benchmark):
    encoders = sentbed.load_recipe(RECIPE).encoders
    millions = {}
    for name, encoder in encoders.items():
        from sentbed_backbones._torch.t5 import SIZES

        backbone = encoder.backbone
        layers, width, inner, heads, head = SIZES[backbone.version][backbone.size]
        config = transformers.T5Config(
            d_model=width, d_ff=inner, d_kv=head, num_heads=heads, num_layers=layers
        )
        millions[name] = round(benchmark("common").layer_weights(config) / 1e6)
    # The encoders alone, without embeddings: 12 x (4 x 768^2 + 2 x 768 x 3072) and so on.
    assert millions == {"base": 85, "large": 302, "3b": 1208, "11b": 4832}
