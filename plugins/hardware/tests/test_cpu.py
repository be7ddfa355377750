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


def test_int8_is_refused_with_the_runtime_that_has_it():
    (problem,) = Cpu(precision="int8").check()
    assert problem == (
        "the runtime `cpu` does not compute in int8; encode with "
        '`runtime = { use = "openvino", precision = "int8" }` of sentbed-openvino'
    )
    with pytest.raises(RuntimeUnavailableError, match="does not compute in int8"):
        Cpu(precision="int8").build()


@pytest.mark.parametrize("name", ["amx_bf16", "avx512_bf16"])
@pytest.mark.parametrize("precision", ["bf16", "auto"])
def test_bf16_is_taken_where_the_processor_has_it(processor, name, precision):
    processor(**{name: True})
    engine = Cpu(precision=precision).build()
    assert engine.placement.dtype == torch.bfloat16
    assert engine.describe()["precision"] == "bf16"
    assert engine.describe()["bf16_instructions"] == [name]


def test_auto_is_fp32_where_bf16_is_emulated(processor):
    processor()
    engine = Cpu(precision="auto").build()
    assert engine.placement.dtype == torch.float32
    assert engine.describe()["precision"] == "fp32"
    assert engine.describe()["bf16_instructions"] == []


def test_instruction_sets_that_the_environment_does_not_name_are_hidden(
    processor, monkeypatch
):
    processor(avx2=True, amx_bf16=True)
    monkeypatch.setenv("SENTBED_INSTRUCTIONS", "sse4_2,avx2")
    engine = Cpu(precision="auto").build()
    assert engine.describe()["precision"] == "fp32"


def test_fp32_is_the_default_even_where_bf16_is_fast(processor):
    processor(amx_bf16=True, avx512_bf16=True)
    engine = Cpu().build()
    assert engine.placement.dtype == torch.float32
    assert engine.describe()["precision"] == "fp32"


@pytest.mark.parametrize("threads", [1, 2])
def test_the_number_of_threads_is_set(threads):
    engine = Cpu(threads=threads).build()
    assert torch.get_num_threads() == threads
    assert engine.describe()["threads"] == threads


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


@pytest.mark.parametrize("deterministic", [True, False])
def test_determinism_is_set_as_asked(deterministic):
    torch.use_deterministic_algorithms(not deterministic)
    engine = Cpu(deterministic=deterministic).build()
    assert torch.are_deterministic_algorithms_enabled() == deterministic
    assert engine.describe()["deterministic"] == deterministic


def test_the_description_holds_what_the_manifest_needs(processor):
    processor(cpu_name="Abacus", avx512_bf16=True)
    assert dict(
        Cpu(precision="auto", threads=1, deterministic=True).build().describe()
    ) == {
        "runtime": "cpu",
        "device": "Abacus",
        "precision": "bf16",
        "bf16_instructions": ["avx512_bf16"],
        "threads": 1,
        "deterministic": True,
    }


def test_no_threads_are_refused():
    with pytest.raises(ValueError, match="threads"):
        Cpu(threads=0)


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
