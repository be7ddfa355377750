"""The benchmarks count right, and run from their options to their plots at a tiny size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sentbed
import torch
import transformers
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
def common(monkeypatch):
    return load("common", monkeypatch)


@pytest.fixture
def throughput(monkeypatch):
    pytest.importorskip(
        "sentence_transformers", reason="what sentbed is compared with is not installed"
    )
    return load("throughput", monkeypatch)


def load(name, monkeypatch):
    import importlib

    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module(name)


# --- the arithmetic ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [16, 48])
@pytest.mark.parametrize("name", BACKBONES)
def test_operations_are_those_that_torch_counts(name, length, common):
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
    assert counter.get_total_flops() == 3 * common.forward_flop(config, length)


# --- throughput --------------------------------------------------------------------------------------------


def test_a_case_is_judged_by_the_lower_of_its_two_limits(
    throughput,
):
    case = {
        "flop": 6e12,
        "bytes": 3e9,
        "texts": 2,
        "bandwidth_gb_per_s": 2.0,
        "ours": {"rounds": [1.0, 4.0, 2.0]},
        "theirs": {"rounds": [1.0, 1.0, 4.0]},
    }
    throughput.judge(case, peak=8.0)
    # Two thousand operations a byte, and two gigabytes a second.
    assert (case["limit_tflops"], case["bound"]) == (4.0, "memory")
    assert case["ratio"] == 1.0, (
        "the median of the ratios, which is not the ratio of the medians"
    )
    assert case["ours"] == {
        "rounds": [1.0, 4.0, 2.0],
        "texts_per_s": 2.0,
        "tflops": 6.0,
        "gb_per_s": 3.0,
        "share_of_limit": 1.5,
    }
    throughput.judge(case, peak=3.0)
    assert (case["limit_tflops"], case["bound"], case["theirs"]["share_of_limit"]) == (
        3.0,
        "products",
        1.0,
    )


@pytest.mark.slow
def test_the_benchmark_runs_to_its_figures_and_plots(throughput, tmp_path, capsys):
    before = torch.get_num_threads()
    options = [
        "--sizes",
        "tiny,small",
        "--families",
        "bert,opt",
        "--lengths",
        "16,24",
        "--batches",
        "1,3",
    ]
    options += [
        "--threads",
        "1",
        "--precision",
        "fp32",
        "--rounds",
        "1",
        "--seconds",
        "0",
        "--train",
    ]
    options += ["--limit-seconds", "0.01", "--bandwidth-mib", "1", "--longest", "100"]
    outputs = [tmp_path / "new" / name for name in ("f.json", "f.svg", "f-train.svg")]
    try:
        throughput.main(
            [*options, "--json", str(outputs[0]), "--plot", str(outputs[1])]
        )
    finally:
        torch.set_num_threads(before)
    figures = json.loads(outputs[0].read_text("utf-8"))
    # OPT has no size between mini and 125m.
    assert [(m["family"], m["size"]) for m in figures["models"]] == [
        ("bert", "tiny"),
        ("bert", "small"),
        ("opt", "tiny"),
    ]
    assert all(m["difference"] < 1e-5 for m in figures["models"])
    cases = [(c["what"], c["length"], c["batch"], c["texts"]) for c in figures["cases"]]
    encode = [
        ("encode", length, batch, batch) for length in (16, 24) for batch in (1, 3)
    ]
    assert cases == 3 * [*encode, ("train", 16, 3, 6), ("train", 24, 3, 6)]
    weights = figures["models"][0]["weights"]
    alone, *_, step = figures["cases"][:6]
    assert (alone["flop"], alone["bytes"]) == (
        16 * 2 * weights + 4 * 2 * 128 * 16**2,
        4 * weights,
    )
    assert step["flop"] == 3 * 6 * (24 * 2 * weights + 4 * 2 * 128 * 24**2)
    for case in figures["cases"]:
        assert (
            case["ratio"] == case["ours"]["texts_per_s"] / case["theirs"]["texts_per_s"]
        )
        assert case["limit_tflops"] <= figures["peaks_tflops"]["fp32"]
        assert case["ours"]["share_of_limit"] > 0
    assert (
        figures["machine"]["engine"]["threads"]
        == figures["machine"]["torch_threads"]
        == 1
    )
    printed = capsys.readouterr().out
    assert printed.count("encode ") == 12
    assert [Path(line) for line in printed.splitlines()[-2:]] == outputs[1:]
    for drawn in outputs[1:]:
        text = drawn.read_text("utf-8")
        for label in (
            "bert, fp32",
            "opt, fp32",
            "tiny",
            "small",
            "sentbed",
            "tokens a text",
            "16",
            "24",
        ):
            assert f">{label}<" in text


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


def test_the_recipes_models_have_the_sizes_of_the_paper(common):
    encoders = sentbed.load_recipe(RECIPE).encoders
    millions = {}
    for name, encoder in encoders.items():
        from sentbed_backbones._torch.t5 import SIZES

        backbone = encoder.backbone
        layers, width, inner, heads, head = SIZES[backbone.version][backbone.size]
        config = transformers.T5Config(
            d_model=width, d_ff=inner, d_kv=head, num_heads=heads, num_layers=layers
        )
        millions[name] = round(common.layer_weights(config) / 1e6)
    # The encoders alone, without embeddings: 12 x (4 x 768^2 + 2 x 768 x 3072) and so on.
    assert millions == {"base": 85, "large": 302, "3b": 1208, "11b": 4832}
