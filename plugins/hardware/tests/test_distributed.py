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
def found(request, tmp_path_factory):
    """What one process finds, and two of them."""
    place = tmp_path_factory.mktemp("processes")
    runtime = {"devices": 2, "parallel": request.param}
    command = [sys.executable, str(SCRIPT), str(place), json.dumps(runtime)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    results = torch.load(place / "found.pt", weights_only=False)
    assert results["two"]["facts"]["parallel"] == request.param
    return results


def close(found, expected, tolerance, path=""):
    """Compare two results part by part."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), path
        for name, value in expected.items():
            close(found[name], value, tolerance, f"{path}/{name}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), path
        for number, value in enumerate(expected):
            close(found[number], value, tolerance, f"{path}/{number}")
    elif isinstance(expected, torch.Tensor | np.ndarray | float):
        assert np.asarray(found).shape == np.asarray(expected).shape, path
        np.testing.assert_allclose(
            found, expected, rtol=tolerance, atol=tolerance, err_msg=path
        )
    else:
        assert found == expected, path


def numbers_of(gradients):
    for case, (_, named) in gradients.items():
        assert named
        for name, value in named.items():
            yield f"{case}: {name}", value


def test_loss_and_gradient_are_those_of_one_process(found):
    assert len(found["one"]["gradients"]) == 17
    moving = [
        np.abs(value).max()
        for name, value in numbers_of(found["one"]["gradients"])
        if "unused" not in name
    ]
    assert np.mean(np.array(moving) > 1e-3) > 0.7
    close(found["two"]["gradients"], found["one"]["gradients"], 1e-5)


def test_five_steps_end_at_the_weights_of_one_process(found):
    for case, expected in found["one"]["steps"].items():
        ours = found["two"]["steps"][case]
        for part in ("steps", "weights", "head"):
            close(ours[part], expected[part], 1e-4, f"{case} {part}")
        assert len({step["loss"] for step in expected["steps"]}) == 5


def test_a_state_holds_what_that_of_one_process_holds(found):
    for case, expected in found["one"]["steps"].items():
        there = {
            name: value
            for name, value in expected["state"].items()
            if not name.startswith("random.")
        }
        here = found["two"]["steps"][case]["state"]
        close({name: here[name] for name in there}, there, 1e-4, case)
        assert {name for name in here if name not in there} == {
            "random.0", "random.process-1.0", "random.loss.0"
        }  # fmt: skip
        assert any(name.startswith("optimizer.") for name in there)


def test_the_memory_of_a_loss_is_the_same_in_all_processes(
    found,
):
    for case in ("memory", "average", "average in parts"):
        (one,) = found["one"]["steps"][case]["states"]
        first, second = found["two"]["steps"][case]["states"]
        assert first.keys() == one.keys() >= {"memory"}
        assert all(torch.equal(value, second[name]) for name, value in first.items())
        close(first, one, 1e-5)
        assert one["memory"].abs().sum(1).min() > 0


def test_vectors_are_those_of_one_process_in_their_order(found):
    for case, expected in found["one"]["steps"].items():
        for what, rows in (("vectors", 5), ("one vector", 1)):
            assert expected[what].shape == (rows, 5)
            close(found["two"]["steps"][case][what], expected[what], 1e-4)


def test_a_broken_weight_is_found_in_whatever_process_it_is(
    found,
):
    before, after = found["one"]["broken"]
    assert before is None
    assert after.endswith("words.weight")
    assert found["two"]["broken"] == [before, after]


def test_a_transform_is_that_of_one_process(found):
    expected = found["one"]["transformed"]
    assert expected["widths"] == [5, 5, 3]
    assert {"transform.weight", "transform.bias"} < expected["saved"].keys()
    close(found["two"]["transformed"], expected, 1e-5)


def test_hidden_tokens_and_layers_of_texts_are_sent_with_them(
    found,
):
    expected = found["one"]["fields"]
    assert np.abs(expected["vectors"] - expected["plain"]).max(1).min() > 1e-3
    close(found["two"]["fields"], expected, 1e-5)


def test_dropout_differs_between_processes_and_is_that_of_the_seed(
    found,
):
    dropout = found["two"]["dropout"]
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
def test_a_restored_trainer_goes_on_to_the_bit(found, processes, optimizer):
    expected, resumed = found[processes]["resumed"][optimizer]
    assert resumed == expected
    assert len({step["loss"] for step in expected}) == 3


def test_a_state_of_another_number_of_processes_is_gone_on_from(
    found,
):
    steps, said = found["from another"]["one to one"]
    assert said == []
    begin = "the state's number of processes"
    drawn = "dropout is drawn anew"
    words = {
        "one to two": [f"{begin} is 1, and this run's is 2; {drawn}"],
        "two to one": [f"{begin} is 2, and this run's is 1; {drawn}"],
        "two to two": [],
    }
    for way, expected in words.items():
        again, said = found["from another"][way]
        assert said == expected
        close(again, steps, 1e-4, way)


def test_the_local_gradient_is_the_full_one_divided_by_the_processes(
    found,
):
    local, full = found["local"], found["two"]["gradients"]
    assert local.keys() == full.keys()
    seen = set()
    for (name, value), (_, expected) in zip(
        numbers_of(local), numbers_of(full), strict=True
    ):
        of_loss = ": loss." in name
        seen.add(of_loss)
        wanted = expected if of_loss else expected / 2
        np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-7, err_msg=name)
    assert seen == {True, False}
    assert {name: loss for name, (loss, _) in local.items()} == {
        name: loss for name, (loss, _) in full.items()
    }


def test_local_gradients_are_those_that_gathered_constants_leave():
    """As SimCSE's script has it: of two halves, each sees the other's vectors as constants; then the mean."""
    torch.manual_seed(0)
    weight = torch.randn(4, 3, requires_grad=True)
    rows = torch.randn(6, 4), torch.randn(6, 4)

    def loss_of(first, second):
        return torch.nn.functional.cross_entropy(first @ second.T, torch.arange(6))

    (full,) = torch.autograd.grad(loss_of(*(some @ weight for some in rows)), weight)
    found = []
    for rank in range(2):
        own = torch.arange(6) // 3 == rank
        sides = [
            torch.where(own[:, None], some @ weight, (some @ weight).detach())
            for some in rows
        ]
        found += torch.autograd.grad(loss_of(*sides), weight)
    torch.testing.assert_close((found[0] + found[1]) / 2, full / 2)


def test_what_fails_in_all_processes_is_an_error_after_which_they_go_on(
    found,
):
    message, vectors = found["one"]["refused"]
    assert message.startswith("nothing in this encoder can be trained")
    assert found["two"]["refused"][0] == message
    close(found["two"]["refused"][1], vectors, 1e-5)


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_call_that_fails_in_one_process_ends_the_others(tmp_path, rank, parallel):
    runtime = json.dumps({"devices": 2, "parallel": parallel})
    command = [sys.executable, str(SCRIPT), str(tmp_path), runtime, str(rank)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    first, second = ended.stdout.splitlines()
    if rank == 0:
        # Its own error comes through; the other process waits no longer once this one is gone.
        assert first == "raised: this one does not work"
    else:
        assert ended.returncode == 1
        assert ended.stderr.splitlines() == [
            "error: process 1: ValueError: this one does not work"
        ]
        assert first.startswith(
            "raised: process 1 has ended; if it left a message, that stands above; "
        )
    if parallel == "ddp":
        assert second == "then: True"
    else:
        assert second.startswith(
            "then: the weights were spread over processes, and are gone with one: "
        )


def test_the_engine_says_how_many_processes_it_has_and_how_they_work(
    found,
):
    one, two = found["one"], found["two"]
    assert not {"processes", "parallel", "gradient"} & one["facts"].keys()
    assert (two["facts"]["processes"], two["facts"]["gradient"]) == (2, "full")
    assert two["facts"]["precision"] == one["facts"]["precision"]
    assert two["budget"] == 2 * one["budget"]
    assert two["counters"] == one["counters"]


def test_fields_that_do_not_fit_are_named():
    assert list(Cpu(devices=4).check()) == []
    assert list(Cpu(nodes=2, rendezvous="node-1:29500").check()) == []
    (missing,) = Cpu(nodes=2).check()
    assert missing.startswith(
        "`nodes` is 2, and nothing says where they meet; add `rendezvous"
    )
    (wrong,) = Cpu(nodes=2, rendezvous="http://node-1").check()
    assert "expected HOST:PORT" in wrong
    (compiled,) = Cpu(devices=2, parallel="fsdp", compile=True).check()
    assert compiled.endswith("set `compile = false`")


def test_a_process_that_stands_alone_does_not_pretend_to_be_two():
    with pytest.raises(
        RuntimeUnavailableError, match="2 processes are asked for, and this is one"
    ):
        Cpu(devices=2).build()


def test_one_process_is_neither_launched_nor_serves():
    assert Cpu().launch(["never", "started"]) is None
    assert Cpu().serve() is False
