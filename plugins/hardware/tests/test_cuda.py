"""What of the runtime for GPUs can be seen without one; `tests/gpu` has the rest."""

from __future__ import annotations

import os
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sentbed import RunError, RuntimeUnavailableError
from sentbed._encoder.batching import encode
from sentbed.protocols import BuildContext, Head
from sentbed_hardware._torch.cuda import CudaEngine, budget
from sentbed_hardware._torch.placed_encoder import AHEAD
from sentbed_hardware.cuda import Cuda

GIB = 2**30
TEXTS = (
    "a small house by the sea",
    "rain",
    "two birds sing in a tree today",
    "they play chess",
    "no rain fell",
)


@pytest.fixture(autouse=True)
def _same_products_afterwards():
    yield
    torch.backends.cuda.matmul.allow_tf32 = False


@pytest.fixture
def gpu(monkeypatch):
    """Let there be GPUs of a capability; returns which one is made the current one."""

    def have(major=9, count=1, memory=80 * GIB):
        chosen = []
        about = SimpleNamespace(
            name="Colossus", major=major, minor=0, total_memory=memory
        )
        monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
        monkeypatch.setattr(torch.cuda, "init", lambda: None)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: about)
        monkeypatch.setattr(
            torch.cuda, "is_bf16_supported", lambda including_emulation: major >= 8
        )
        zeros = torch.zeros
        monkeypatch.setattr(torch, "zeros", lambda size, device: zeros(size))
        return chosen

    return have


def refused(runtime):
    with pytest.raises(RuntimeUnavailableError) as caught:
        runtime.build()
    return str(caught.value)


@pytest.mark.parametrize("visible", [None, "7"])
def test_a_machine_without_a_gpu_is_refused_with_what_to_do(visible, gpu, monkeypatch):
    def fails():
        raise RuntimeError("No CUDA GPUs are available")

    gpu(count=0)
    monkeypatch.setattr(torch.cuda, "init", fails)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    limited = "" if visible is None else " (`CUDA_VISIBLE_DEVICES` is '7')"
    assert refused(Cuda()) == (
        f"no GPU can be used{limited}: No CUDA GPUs are available; see whether `nvidia-smi` lists one, with "
        'a driver that is new enough for this PyTorch, or take `use = "cpu"`'
    )


def test_bf16_on_a_gpu_without_it_is_refused_with_what_to_do(gpu):
    gpu(major=7)
    assert refused(Cuda(precision="bf16")) == (
        "this GPU (Colossus, compute capability 7.0) has no bf16 instructions, which came with 8.0; use "
        '`precision = "fp32"` or "fp16", or "auto" to take bf16 only where it is present'
    )


def test_a_process_that_has_no_gpu_of_its_own_is_refused_with_what_to_do(
    gpu, monkeypatch
):
    gpu(count=2)
    torchrun = {
        "RANK": "6",
        "WORLD_SIZE": "8",
        "LOCAL_RANK": "2",
        "MASTER_ADDR": "node",
        "MASTER_PORT": "1",
    }
    for name, value in torchrun.items():
        monkeypatch.setenv(name, value)
    assert refused(Cuda()) == (
        "there is no GPU for process 2 of this machine (counted from 0), which has 2 GPUs; set `devices = 2`"
    )


@pytest.mark.parametrize(
    ("precision", "major", "dtype"),
    [
        ("fp32", 9, torch.float32),
        ("bf16", 8, torch.bfloat16),
        ("fp16", 7, torch.float16),
        ("auto", 9, torch.bfloat16),
        ("auto", 7, torch.float32),
    ],
)
def test_the_precision_is_the_one_asked_for_and_auto_is_bf16_where_it_is(
    precision, major, dtype, gpu
):
    chosen = gpu(major)
    engine = Cuda(precision=precision).build()
    assert (engine.placement.dtype, engine.device, chosen) == (
        dtype,
        torch.device("cuda", 0),
        [0],
    )
    names = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
    assert engine.describe()["precision"] == names[dtype]


def test_fp32_without_tf32_is_the_default(gpu):
    gpu()
    torch.backends.cuda.matmul.allow_tf32 = True
    assert dict(Cuda().build().describe()) == {
        "runtime": "cuda",
        "device": "Colossus",
        "precision": "fp32",
        "capability": "9.0",
        "memory_gib": 80.0,
        "tf32": False,
        "cuda": torch.version.cuda,
        "deterministic": False,
    }
    assert torch.backends.cuda.matmul.fp32_precision == "ieee"


def test_tf32_is_set_so_that_every_part_of_torch_can_ask_for_it(gpu):
    gpu()
    assert Cuda(tf32=True).build().describe()["tf32"] is True
    assert torch.backends.cuda.matmul.fp32_precision == "tf32"
    # The fingerprint of an encoder asks in the older words.
    assert torch.get_float32_matmul_precision() == "high"


@pytest.mark.parametrize("deterministic", [True, False])
def test_determinism_is_set_as_asked(deterministic, gpu, monkeypatch):
    gpu()
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    engine = Cuda(deterministic=deterministic).build()
    assert torch.are_deterministic_algorithms_enabled() == deterministic
    assert engine.describe()["deterministic"] == deterministic
    assert os.environ.get("CUBLAS_WORKSPACE_CONFIG") == (
        ":4096:8" if deterministic else None
    )


# --- how much at a time -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "number", "memory", "tokens"),
    [
        (768, 2, 40, 32768),  # BERT-base; the field's documentation names it
        (384, 2, 80, 65536),  # MiniLM
        (1024, 2, 80, 32768),  # T5-11B
        (8192, 2, 80, 4096),  # LLaMA-65B
        (768, 4, 16, 8192),  # a small card in fp32
        (8, 4, 80, 131072),
    ],
)
def test_the_budget_follows_width_and_memory(width, number, memory, tokens):
    assert budget(width, number, memory * GIB) == tokens


def test_the_narrowest_budget_of_all_encoders_holds_and_one_that_is_given_stays(
    toys, gpu, assemble
):
    gpu(memory=GIB)
    actual, fixed = (
        CudaEngine(torch.device("cpu"), torch.float32, {}, n) for n in (None, 777)
    )
    budgets = []
    for width in (8, 512, 8):
        backbone = toys.backbone(width=width).build(BuildContext(tuple))
        for engine in (actual, fixed):
            engine.assemble(backbone, toys.mean(), Head())
        budgets.append((actual.token_budget, fixed.token_budget))
    assert budgets == [(65536, 777), (4096, 777), (4096, 777)]


# --- encoding ahead of the host -----------------------------------------------------------------------------


@pytest.fixture
def encoder(assemble):
    """An encoder of the engine for a GPU, on the host."""
    encoder = assemble(on=CudaEngine(torch.device("cpu"), torch.float32, {}, 4096))
    encoder.asynchronous = True
    return encoder


def test_batches_are_taken_ahead_and_vectors_come_in_order(toys, encoder):
    taken = []

    def batches():
        for number, text in enumerate(TEXTS):
            taken.append(number)
            yield toys.batch(text)

    expected = []
    for text in TEXTS:
        batch = toys.batch(text)
        vectors = encoder.encode(batch)
        expected.append(vectors)

    before = []
    for actual, vector in zip(encoder.encode_batches(batches()), expected, strict=True):
        before.append(len(taken))
        assert actual.dtype == np.float32
        assert np.array_equal(actual, vector)
    assert before == [
        min(len(TEXTS), number + 1 + AHEAD) for number in range(len(TEXTS))
    ]


def test_texts_are_encoded_as_on_a_processor(
    toys,
    encoder,
    assemble,
    room_for,
):
    tokenizer, plain = encoder.backbone.tokenizer, assemble()
    expected = encode(TEXTS, tokenizer, plain, 32, 4096)
    # The batches that are planned do not fit; the engine halves them.
    tried = room_for(8)
    messages = []
    encoder.say = messages.append
    actual = encode(TEXTS, tokenizer, encoder, 32, 4096)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)
    assert max(tried) > 8
    assert messages


# --- training -----------------------------------------------------------------------------------------------


def test_a_step_in_fp16_that_overflows_is_skipped_and_the_next_ones_are_taken(
    toys, assemble, columns
):
    engine = CudaEngine(torch.device("cpu"), torch.float16, {}, 4096)
    encoder = assemble(on=engine)
    reference = toys.train(assemble(), toys.loss(), toys.sgd())
    trainer = toys.train(encoder, toys.loss(), toys.sgd())
    before = encoder.module.projection.weight.detach().clone()

    overflowing = 2.0**40
    trainer.scaler = torch.amp.GradScaler("cpu", init_scale=overflowing)
    skipped = trainer.step(columns)
    assert skipped.grad_norm == 0
    assert torch.equal(encoder.module.projection.weight, before)
    assert trainer.scaler.get_scale() == overflowing / 2

    trainer.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    taken = trainer.step(columns)
    expected = reference.step(columns)
    assert taken.loss == pytest.approx(expected.loss, rel=1e-2)
    assert taken.grad_norm == pytest.approx(expected.grad_norm, rel=1e-2)


@pytest.mark.parametrize("full", ["weights", "copy", "text", "batch", "optimizer"])
def test_what_does_not_fit_into_memory_ends_the_run_with_what_to_do(
    toys, assemble, columns, room_for, monkeypatch, full
):
    def fails(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7.00 GiB.")

    encoder = assemble()
    trainer = toys.train(encoder, toys.loss(), toys.sgd())

    def act():
        if full == "weights":
            assemble()
        elif full in ("copy", "text"):
            encoder.encode(toys.batch(*TEXTS))
        else:
            trainer.step(columns)

    if full == "weights":
        monkeypatch.setattr(torch.nn.Module, "to", fails)
    elif full == "copy":
        monkeypatch.setattr(encoder.backbone, "inference", fails)
    elif full == "optimizer":
        monkeypatch.setattr(trainer.optimizer, "step", fails)
    else:
        room_for(1)
    with pytest.raises(
        RunError, match=r"not fit into the memory; set .*`token_budget`"
    ):
        act()
