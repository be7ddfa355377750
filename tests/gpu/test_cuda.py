"""The runtime `cuda` against `cpu`, and what only a GPU can show."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import sentbed
import torch
from engine_suite import EveryPair, TrainingSuite
from run_logs import finished_steps
from sentbed import Encoder, RunError
from sentbed._encoder.batching import pad
from sentbed.protocols import BuildContext, EncoderRecipe, Head, Training
from sentbed_backbones.adaptation import LoRA
from sentbed_backbones.bert import Bert
from sentbed_backbones.causal import Causal
from sentbed_backbones.opt import Opt
from sentbed_backbones.t5 import T5
from sentbed_hardware.adamw import AdamW
from sentbed_hardware.cpu import Cpu
from sentbed_hardware.cuda import Cuda
from sentbed_hardware.learning_rate_schedules import Constant
from sentbed_losses.info_nce import InfoNCE
from sentbed_poolers.last import Last
from sentbed_poolers.mean import Mean
from sentbed_poolers.prompt_eol import PromptEOL
from sentbed_testing import SENTENCES

pytestmark = pytest.mark.gpu

BACKBONES: Mapping[str, tuple[Any, Any]] = {
    "bert": (Bert, Mean()),
    "t5": (T5, Mean()),
    "opt": (Opt, Last()),
    "llama": (Causal, Last()),
}
EACH = pytest.mark.parametrize("name", BACKBONES)
COLUMNS = ("anchor", "positive")
TEXTS = [
    " ".join(SENTENCES[(7 * i + j) % len(SENTENCES)] for j in range(1 + i % 4))
    for i in range(512)
]


def encoder_on(runtime, name, dropout=0.0, **fields):
    """An encoder with random weights, the same for every runtime."""
    backbone, pooler = BACKBONES[name]
    recipe = EncoderRecipe(
        backbone(init="random", vocab_size=600, dropout=dropout, **fields),
        pooler,
        Head(normalize=True),
        64,
    )
    engine = runtime if hasattr(runtime, "assemble") else runtime.build()
    engine.seed(3)
    return Encoder.build(recipe, engine, lambda: SENTENCES)


def trainer_of(encoder, micro_batch=None, lr=1e-3):
    training = Training(
        InfoNCE(temperature=0.05), AdamW(lr=lr), Constant(), 100, dict.fromkeys(COLUMNS, "encoder"),
        micro_batch=micro_batch,
    )  # fmt: skip
    encoder.engine.seed(4)
    return encoder.engine.trainer({"encoder": encoder.placed}, training)


def batch_of(encoder, start=0, rows=32):
    tokenizer = encoder.tokenizer()
    sides = (TEXTS[start : start + rows], TEXTS[start + 100 : start + 100 + rows])
    return {
        name: tokenizer.encode(texts, 64)
        for name, texts in zip(COLUMNS, sides, strict=True)
    }


def cosines(left, right):
    return (
        (left * right).sum(1)
        / np.linalg.norm(left, axis=1)
        / np.linalg.norm(right, axis=1)
    )


class TestCuda(TrainingSuite, EveryPair):
    """Products on a GPU add up in another order, over the same 24 bits."""

    runtime = Cuda(deterministic=True)
    vector_tolerance = loss_tolerance = 1e-4
    gradient_tolerance = step_tolerance = 1e-3
    movement_tolerance = 1e-2

    @pytest.fixture(autouse=True)
    def _deterministic(self):
        torch.use_deterministic_algorithms(True)


@EACH
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_vectors_in_less_precision_are_near_those_of_the_processor(name, dtype):
    if dtype == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
        pytest.skip("this GPU has no bf16")
    expected = encoder_on(Cpu(), name).encode(TEXTS)
    vectors = encoder_on(Cuda(precision=dtype), name).encode(TEXTS)
    assert cosines(vectors, expected).min() >= 0.999


def test_tf32_is_off_unless_it_is_asked_for():
    if torch.cuda.get_device_capability()[0] < 8:
        pytest.skip("this GPU has no TF32")
    left, right = (torch.randn(512, 512, dtype=torch.float64) for _ in range(2))
    errors = {}
    for tf32 in (False, True):
        Cuda(tf32=tf32).build()
        product = left.float().cuda() @ right.float().cuda()
        errors[tf32] = float((product.double().cpu() - left @ right).abs().max())
    assert errors[False] < 1e-3 < errors[True]


@EACH
def test_batches_under_way_at_once_do_not_get_into_each_others_way(name):
    encoder = encoder_on(Cuda(token_budget=64), name)
    placed = encoder.placed
    tokens = encoder.tokenizer().encode(TEXTS, 64)
    batches = [
        pad(tokens, np.arange(row, row + 4), encoder.backbone.tokenizer.pad_id)
        for row in range(0, 512, 4)
    ]
    expected = [placed.encode(batch) for batch in batches]
    encoded = list(placed.encode_batches(iter(batches)))
    assert len(encoded) == len(batches)
    for vectors, other in zip(encoded, expected, strict=True):
        np.testing.assert_array_equal(vectors, other)


@EACH
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_training_in_less_precision_learns_and_goes_on_from_a_state_to_the_bit(
    name, precision, tmp_path
):
    if precision == "bf16" and not torch.cuda.is_bf16_supported(
        including_emulation=False
    ):
        pytest.skip("this GPU has no bf16")
    if precision == "fp16" and name == "t5":
        pytest.skip("states of a T5 may exceed what fp16 holds")
    runtime = Cuda(precision=precision, deterministic=True)
    encoder = encoder_on(runtime, name, dropout=0.1)
    trainer = trainer_of(encoder)
    first = [trainer.step(batch_of(encoder, 32 * step)).loss for step in range(4)]
    trainer.save(tmp_path / "state")
    later = [trainer.step(batch_of(encoder, 32 * step)).loss for step in range(4)]
    again = encoder_on(runtime, name, dropout=0.1)
    resumed = trainer_of(again)
    resumed.load(tmp_path / "state")
    assert [resumed.step(batch_of(again, 32 * step)).loss for step in range(4)] == later
    assert sum(later) < sum(first)
    np.testing.assert_array_equal(again.encode(TEXTS[:8]), encoder.encode(TEXTS[:8]))


@pytest.mark.parametrize("quantization", [None, "nf4"])
def test_an_adapter_on_4_bit_weights_trains_as_on_the_processor(quantization, tmp_path):
    """QLoRA (Dettmers et al., 2023) in fp32: the first losses of both devices, then learning and saving."""
    pytest.importorskip("peft")
    if quantization is not None:
        pytest.importorskip("bitsandbytes")
    built = Opt(init="random", vocab_size=600, dropout=0.0).build(
        BuildContext(lambda: SENTENCES)
    )
    built.save(tmp_path / "opt")
    backbone = Opt(
        model=sentbed.ModelId(str(tmp_path / "opt")),
        lora=LoRA(r=4, dropout=0.0),
        quantization=quantization,
    )
    recipe = EncoderRecipe(backbone, PromptEOL(), max_length=64)
    losses = {}
    for runtime in (Cpu(), Cuda()):
        engine = runtime.build()
        engine.seed(3)
        encoder = Encoder.build(recipe, engine)
        trainer = trainer_of(encoder, lr=5e-3)
        losses[runtime.name] = [
            trainer.step(batch_of(encoder, 0)).loss for _ in range(8)
        ]
    assert losses["cuda"][:2] == pytest.approx(losses["cpu"][:2], rel=1e-3)
    assert losses["cuda"][-1] < losses["cuda"][0] - 0.1
    encoder.save(tmp_path / "saved")
    loaded = Encoder.load(tmp_path / "saved", Cuda())
    np.testing.assert_allclose(
        loaded.encode(TEXTS[:8]), encoder.encode(TEXTS[:8]), rtol=0, atol=1e-5
    )


# --- memory ------------------------------------------------------------------------------------------------


def leave(gib):
    """Let this process have no more than so much beside what it holds."""
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    reserved = torch.cuda.memory_reserved()
    torch.cuda.set_per_process_memory_fraction(
        min(1.0, (reserved + gib * 2**30) / total)
    )


def most(call):
    """Return how many GiB a call needs beside what is held, and what it returns."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_reserved()
    result = call()
    return (torch.cuda.max_memory_reserved() - before) / 2**30, result


def test_the_peak_memory_of_the_device_is_counted():
    encoder = encoder_on(Cuda(), "bert", size="base")
    weights = 0
    for part in encoder.backbone.module.parameters():
        weights += part.numel() * part.element_size()
    before = encoder.engine.counters()["device_memory_gib"]
    assert before >= weights / 2**30
    encoder.encode(TEXTS)
    assert encoder.engine.counters()["device_memory_gib"] > before


def test_a_batch_that_does_not_fit_is_halved_and_its_vectors_stay():
    encoder = encoder_on(Cuda(), "bert", size="base")
    placed = encoder.placed
    tokens = encoder.tokenizer().encode(TEXTS, 64)
    batch = pad(tokens, np.arange(512), encoder.backbone.tokenizer.pad_id)
    placed.encode(pad(tokens, np.arange(4), encoder.backbone.tokenizer.pad_id))
    needed, expected = most(lambda: placed.encode(batch))
    messages = []
    engine = encoder.engine
    engine.report_to(messages.append)
    budget = engine.token_budget
    leave(0.6 * needed)
    vectors = placed.encode(batch)
    assert messages
    assert "did not fit into" in messages[0]
    assert "GiB" in messages[0]
    assert engine.token_budget < min(budget, batch.input_ids.size)
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5)
    count = len(messages)
    np.testing.assert_array_equal(placed.encode(batch), vectors)
    assert len(messages) == count


def test_a_step_that_does_not_fit_names_a_micro_batch():
    encoder = encoder_on(Cuda(), "bert", size="base")
    trainer = trainer_of(encoder)
    columns = batch_of(encoder, rows=256)
    needed, _ = most(lambda: trainer.gradients(columns))
    leave(0.5 * needed)
    with pytest.raises(RunError, match="smaller `micro_batch`"):
        trainer.step(columns)


# --- many GPUs ---------------------------------------------------------------------------------------------

RECIPE = """
schema = 1
[run]
name = "many"
cache = false
[runtime]
use = "cuda"
deterministic = true
[encoder]
max_length = 32
backbone = { use = "bert", init = "random", vocab_size = 600, dropout = 0.0 }
pooler = { use = "mean" }
[[stage]]
name = "train"
data = { use = "pairs", path = "pairs.csv" }
loss = { use = "info-nce", temperature = 0.05 }
optimizer = { use = "adamw", lr = 1e-3 }
schedule = { use = "constant" }
batch_size = 30
steps = 6
"""


def losses_of(directory, *settings):
    run = directory / "-".join(["run", *(s.rpartition("=")[2] for s in settings)])
    options = [
        option for setting in settings for option in ("--set", f"runtime.{setting}")
    ]
    command = [
        sys.executable,
        "-m",
        "sentbed",
        "run",
        str(directory / "recipe.toml"),
        "--output",
        str(run),
    ]
    ended = subprocess.run(
        [*command, *options],
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert ended.returncode == 0, ended.stderr
    return [step["loss"] for step in finished_steps(run)]


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_all_gpus_together_are_one(parallel, tmp_path):
    count = torch.cuda.device_count()
    if count < 2:
        pytest.skip(f"needs several GPUs, there is {count}")
    rows = [f'"{TEXTS[i]}","{TEXTS[i + 200]}"' for i in range(180)]
    (tmp_path / "pairs.csv").write_text(
        "\n".join(["anchor,positive", *rows]) + "\n", "utf-8"
    )
    (tmp_path / "recipe.toml").write_text(RECIPE, "utf-8")
    expected = losses_of(tmp_path, "devices=1")
    losses = losses_of(tmp_path, f"devices={count}", f"parallel={parallel}")
    assert len(expected) == 6
    assert losses == pytest.approx(expected, rel=1e-3)
