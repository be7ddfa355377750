"""Two processes against one; what they do is in `several_processes.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sentbed import RuntimeUnavailableError
from sentbed_hardware.cpu import Cpu

SCRIPT = Path(__file__).with_name("several_processes.py")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not torch.distributed.is_available(), reason="needs torch.distributed"
    ),
]


@pytest.fixture(scope="module", params=["ddp", "fsdp"])
def results(request, tmp_path_factory):
    """The results of one process, and of two."""
    place = tmp_path_factory.mktemp("processes")
    runtime = {"devices": 2, "parallel": request.param}
    command = [sys.executable, str(SCRIPT), str(place), json.dumps(runtime)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=900)

    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    results = torch.load(place / "results.pt", weights_only=False)

    assert results["two"]["facts"]["parallel"] == request.param
    return results


def close(values, expected, tolerance, path=""):
    """Compare two results part by part."""
    if isinstance(expected, dict):
        assert values.keys() == expected.keys(), path
        for name, value in expected.items():
            close(values[name], value, tolerance, f"{path}/{name}")
    elif isinstance(expected, list | tuple):
        assert len(values) == len(expected), path
        for number, value in enumerate(expected):
            close(values[number], value, tolerance, f"{path}/{number}")
    elif isinstance(expected, torch.Tensor | np.ndarray | float):
        assert np.asarray(values).shape == np.asarray(expected).shape, path
        np.testing.assert_allclose(
            values, expected, rtol=tolerance, atol=tolerance, err_msg=path
        )
    else:
        assert values == expected, path


def numbers_of(gradients):
    for case, (_, named) in gradients.items():
        assert named
        for name, value in named.items():
            yield f"{case}: {name}", value


def test_loss_and_gradient_are_those_of_one_process(results):
    assert len(results["one"]["gradients"]) == 13
    largest = []

    for name, value in numbers_of(results["one"]["gradients"]):
        if "unused" not in name:
            largest.append(np.abs(value).max())

    assert np.mean(np.array(largest) > 1e-3) > 0.7
    close(results["two"]["gradients"], results["one"]["gradients"], 1e-5)


def test_five_steps_end_at_the_weights_of_one_process(results):
    for case, expected in results["one"]["steps"].items():
        ours = results["two"]["steps"][case]
        for part in ("steps", "weights", "head"):
            close(ours[part], expected[part], 1e-4, f"{case} {part}")
        assert len({step["loss"] for step in expected["steps"]}) == 5


def test_a_state_holds_what_that_of_one_process_holds(results):
    for case, expected in results["one"]["steps"].items():
        of_two = results["two"]["steps"][case]["state"]
        close(of_two, expected["state"], 1e-4, case)


def test_the_memory_of_a_loss_is_the_same_in_all_processes(results):
    for case in ("memory", "average", "average in parts"):
        (of_one,) = results["one"]["steps"][case]["states"]
        first, second = results["two"]["steps"][case]["states"]
        assert first.keys() == of_one.keys() >= {"memory"}
        for name, value in first.items():
            assert torch.equal(value, second[name])

        close(first, of_one, 1e-5)
        assert of_one["memory"].abs().sum(1).min() > 0


def test_vectors_are_those_of_one_process_in_their_order(results):
    for case, expected in results["one"]["steps"].items():
        for what, rows in (("vectors", 5), ("one vector", 1)):
            assert expected[what].shape == (rows, 5)
            close(results["two"]["steps"][case][what], expected[what], 1e-4)


def test_a_transform_is_that_of_one_process(results):
    expected = results["one"]["transformed"]

    assert expected["widths"] == [5, 5, 3]
    assert {"transform.weight", "transform.bias"} < expected["saved"].keys()
    close(results["two"]["transformed"], expected, 1e-5)


def test_hidden_tokens_and_layers_of_texts_are_sent_with_them(results):
    expected = results["one"]["fields"]

    assert np.abs(expected["vectors"] - expected["plain"]).max(1).min() > 1e-3
    close(results["two"]["fields"], expected, 1e-5)


def test_dropout_differs_between_processes_and_is_that_of_the_seed(results):
    dropout = results["two"]["dropout"]
    (first, first_common), (second, second_common) = dropout["before"]

    assert not torch.equal(first[0], second[0])
    # What a loss draws is the same in all.

    assert torch.equal(first_common[0], second_common[0])
    assert not torch.equal(first[0], first_common[0])
    close(dropout["after"], dropout["before"], 0)
    assert dropout["losses"] == dropout["again"]
    assert len(set(dropout["losses"])) == 2


@pytest.mark.parametrize("optimizer", ["adamw", "adafactor"])
@pytest.mark.parametrize("processes", ["one", "two"])
def test_a_restored_trainer_goes_on_to_the_bit(results, processes, optimizer):
    expected, resumed = results[processes]["resumed"][optimizer]

    assert resumed == expected
    assert len({step["loss"] for step in expected}) == 3


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_call_that_fails_in_one_process_ends_the_others(tmp_path, rank, parallel):
    runtime = json.dumps({"devices": 2, "parallel": parallel})
    command = [sys.executable, str(SCRIPT), str(tmp_path), runtime, str(rank)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)

    if rank == 1:
        # torchrun may end the first process before it prints what it has seen.
        assert ended.returncode == 1
        assert "error: process 1: this one does not work" in ended.stderr
        return
    raised, later = ended.stdout.splitlines()
    assert raised.startswith("a process has ended or failed (")
    assert "this one does not work" in raised
    assert later.startswith("the processes have ended after a failure; ")


def test_the_engine_says_how_many_processes_it_has_and_how_they_work(results):
    of_one, of_two = results["one"], results["two"]

    assert not {"processes", "parallel"} & of_one["facts"].keys()
    assert of_two["facts"]["processes"] == 2
    assert of_two["facts"]["precision"] == of_one["facts"]["precision"]
    assert of_two["budget"] == 2 * of_one["budget"]
    assert of_two["counters"] == of_one["counters"]


def test_a_process_that_stands_alone_does_not_pretend_to_be_two():
    with pytest.raises(
        RuntimeUnavailableError,
        match="the recipe sets 2 processes, and this is the only one",
    ):
        Cpu(devices=2).build()


def test_one_process_is_neither_launched_nor_serves():
    assert Cpu().launch(["never", "started"]) is None
    assert Cpu().serve() is False
