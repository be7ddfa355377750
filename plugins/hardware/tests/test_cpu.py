from __future__ import annotations

import os

import pytest
import torch
from sentbed import RuntimeUnavailableError
from sentbed_hardware.cpu import Cpu


def test_bf16_without_instructions_is_refused_with_what_to_do(processor):
    processor()
    threads = torch.get_num_threads()
    with pytest.raises(RuntimeUnavailableError) as caught:
        Cpu(precision="bf16", threads=threads + 1).build()
    assert str(caught.value) == (
        "this processor has no bf16 instructions (none of `amx_bf16`, `avx512_bf16`); "
        'use `precision = "fp32"`, or "auto" to take bf16 only where it is present'
    )
    assert torch.get_num_threads() == threads


BF16 = torch.bfloat16, "bf16"
FP32 = torch.float32, "fp32"


@pytest.mark.parametrize(
    ("precision", "instructions", "shown", "expected"),
    [
        ("bf16", ["amx_bf16"], None, BF16),
        ("auto", ["avx512_bf16"], None, BF16),
        ("auto", [], None, FP32),
        ("auto", ["amx_bf16"], "sse4_2,avx2", FP32),
        ("fp32", ["amx_bf16", "avx512_bf16"], None, FP32),
    ],
)
def test_bf16_is_taken_if_it_is_asked_for_and_the_processor_has_it(
    processor, monkeypatch, precision, instructions, shown, expected
):
    """Instruction sets that the environment does not name are hidden."""
    processor(**dict.fromkeys(instructions, True))
    if shown is not None:
        monkeypatch.setenv("SENTBED_INSTRUCTIONS", shown)
    engine = Cpu(precision=precision).build()
    assert (engine.placement.dtype, engine.describe()["precision"]) == expected


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"),
    reason="this system does not bind processes to cores",
)
def test_left_out_threads_are_the_cores_that_this_process_may_use(
    monkeypatch,
):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        engine = Cpu().build()
    finally:
        os.sched_setaffinity(0, allowed)
    assert torch.get_num_threads() == engine.describe()["threads"] == 1


def test_left_out_threads_are_those_of_the_environment(
    monkeypatch,
):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert Cpu().build().describe()["threads"] == 3
    assert Cpu(threads=2).build().describe()["threads"] == 2


def test_the_description_holds_what_is_set(processor):
    processor(cpu_name="Abacus", avx512_bf16=True)
    engine = Cpu(precision="auto", threads=1, deterministic=True).build()
    assert torch.get_num_threads() == 1
    assert torch.are_deterministic_algorithms_enabled()
    assert dict(engine.describe()) == {
        "runtime": "cpu",
        "device": "Abacus",
        "precision": "bf16",
        "bf16_instructions": ["avx512_bf16"],
        "threads": 1,
        "deterministic": True,
    }


def test_threads_are_given_only_where_the_recipe_does_not_say():
    assert Cpu(precision="fp32").with_threads(3) == Cpu(precision="fp32", threads=3)
    assert Cpu(threads=2).with_threads(3) == Cpu(threads=2)


def test_processes_that_torchrun_has_started_count_and_not_those_of_the_recipe(
    monkeypatch,
):
    environment = {
        "RANK": "0",
        "WORLD_SIZE": "4",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "1",
    }
    assert "tokens" in Cpu().offers
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    runtime = Cpu(devices=2)
    assert runtime.processes == 4
    assert "tokens" not in runtime.offers


@pytest.mark.parametrize("deterministic", [True, False])
def test_determinism_is_set_as_asked(deterministic):
    torch.use_deterministic_algorithms(not deterministic)
    engine = Cpu(deterministic=deterministic).build()
    assert torch.are_deterministic_algorithms_enabled() == deterministic
    assert engine.describe()["deterministic"] == deterministic
