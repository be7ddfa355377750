"""The benchmark for GPUs runs from its options to its figures, at a tiny size and on the host."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
import torch
from sentbed import RuntimeUnavailableError
from sentbed_backbones.t5 import T5
from sentbed_hardware.cuda import Cuda

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
TINY = [
    "--device",
    "cpu",
    "--precision",
    "fp32",
    "--seconds",
    "0.01",
    "--pairs",
    "4",
    "--length",
    "16",
]


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("gpu")


@pytest.mark.slow
def test_every_case_is_measured_and_written(gpu, tmp_path, capsys):
    gpu.main(
        [
            *TINY,
            "--models",
            "bert:tiny,t5:tiny",
            "--json",
            str(tmp_path / "new" / "figures.json"),
        ]
    )
    figures = json.loads((tmp_path / "new" / "figures.json").read_text())
    cases = figures["cases"]
    assert [(case["model"], case["what"]) for case in cases] == [
        ("bert:tiny", "encode"),
        ("bert:tiny", "train"),
        ("t5:tiny", "encode"),
        ("t5:tiny", "train"),
    ]
    for case in cases:
        assert case["share_of_peak"] == case["tflops"] / figures["matmul_tflops"]
        passes = 3 if case["what"] == "train" else 1
        # Two layers of products of 128 x 128, 4 to attend and 8 in the inner layer; scores of 16 tokens.
        flop = 2 * 2 * (4 + 8) * 128**2 * 16 + 4 * 2 * 128 * 16**2
        assert case["tflops"] == pytest.approx(
            case["texts_per_s"] * flop * passes / 1e12
        )
    shown = capsys.readouterr().out
    assert shown.count("bert:tiny") == shown.count("t5:tiny") == 2
    # The peak of a device is no state of the process.
    assert torch.get_default_dtype() == torch.float32


def test_the_11b_is_sentence_t5s_and_stands_beside_the_papers_figure(
    gpu,
):
    options = gpu.argparse.Namespace(length=128)
    bench = gpu.Bench(gpu.load_plugins(), "t5:11b", options)
    config = bench.config
    sizes = (
        config.num_layers,
        config.d_model,
        config.d_ff,
        config.num_heads,
        config.d_kv,
        config.is_gated_act,
    )
    assert sizes == (24, 1024, 65536, 128, 128, False)
    assert isinstance(bench.family.parameters, T5)
    # 24 layers, each with four products of 1,024 x 16,384 and two of 1,024 x 65,536; 32,128 words.
    assert bench.weights == 24 * (4 * 1024 * 16384 + 2 * 1024 * 65536) + 32128 * 1024
    assert gpu.PAPER["t5:11b"][0] == 274


def test_without_a_gpu_it_says_why_and_writes_nothing(
    gpu,
    monkeypatch,
    tmp_path,
    capsys,
):
    def build(self):
        raise RuntimeUnavailableError("no GPU can be used")

    monkeypatch.setattr(Cuda, "build", build)
    gpu.main(["--json", str(tmp_path / "figures.json")])
    assert capsys.readouterr().out == "skipped: no GPU can be used\n"
    assert not (tmp_path / "figures.json").exists()


@pytest.mark.slow
def test_the_opponent_encodes_the_same_vectors(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(BENCHMARKS)
    opponents = importlib.import_module("gpu_opponents")
    file = tmp_path / "figures.json"
    settings = [
        "--device",
        "cpu",
        "--precision",
        "fp32",
        "--size",
        "tiny",
        "--texts",
        "60",
        "--rounds",
        "1",
    ]
    opponents.main([*settings, "--json", str(file)])
    (case,) = json.loads(file.read_text())["cases"]
    assert case["least_cosine"] > 0.99999
    assert len(case["texts_per_s"]) == 3
    assert min(case["texts_per_s"].values()) > 0
    assert capsys.readouterr().out.count("texts/s") == 3
