from __future__ import annotations

import importlib.util
from pathlib import Path

import attrs
import pytest
from sentbed import ModelId
from sentbed.tools import Document, structure
from sentbed_backbones.adaptation import (
    Freeze,
    LoRA,
    problems_of_adaptation,
    problems_of_adapter,
)


@attrs.frozen
class Holder:
    """A backbone, as far as its nested tables go."""

    lora: LoRA | None = None
    freeze: Freeze | None = None


def structured(**tables):
    return structure(Document.of(tables), Holder, None, Path())


def problems(
    lora=None,
    adapter=None,
    quantization=None,
    init="pretrained",
):
    return list(
        problems_of_adaptation(
            lora, None if adapter is None else ModelId(adapter), quantization, init
        )
    )


@pytest.fixture
def without(monkeypatch):
    find = importlib.util.find_spec

    def hide(*names):
        monkeypatch.setattr(
            importlib.util,
            "find_spec",
            lambda name, *rest: None if name in names else find(name, *rest),
        )

    return hide


@pytest.fixture
def adapter(tmp_path):
    """A directory that looks like an adapter from outside."""
    directory = tmp_path / "adapter"
    directory.mkdir()
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (directory / name).write_bytes(b"")
    return directory


@pytest.mark.parametrize(
    ("table", "value"),
    [
        ("lora", {"r": 0}),
        ("lora", {"alpha": 0}),
        ("lora", {"dropout": 1.0}),
        ("lora", {"dropout": -0.1}),
        ("lora", {"targets": "query"}),
        ("lora", {"targets": []}),
        ("lora", {"targets": 3}),
        ("lora", {"rank": 8}),
        ("freeze", {"layers": -1}),
        ("freeze", {"embeddings": 1}),
    ],
)
def test_a_value_that_does_not_fit_is_refused(table, value):
    name = next(iter(value))
    with pytest.raises(Exception, match=r"expected|must be|unknown key") as caught:
        structured(**{table: value})
    assert [problem.path for problem in caught.value.problems] == [f"{table}.{name}"]


def test_a_new_and_a_trained_adapter_exclude_each_other(adapter):
    assert problems(lora=LoRA()) == problems(adapter=str(adapter)) == []
    (problem,) = problems(lora=LoRA(), adapter=str(adapter))
    assert "`lora`" in problem
    assert "`adapter`" in problem
    assert "remove one" in problem


def test_four_bits_need_pretrained_weights():
    assert problems(quantization="nf4") == []
    (problem,) = problems(quantization="nf4", init="random")
    assert "pretrained weights" in problem
    assert problems(lora=LoRA(), init="random") == []


@pytest.mark.parametrize("package", ["peft", "bitsandbytes", "accelerate"])
def test_four_bits_without_their_packages_say_what_to_install(without, package):
    without(package)
    (problem,) = problems(quantization="nf4", lora=LoRA())
    assert f"`{package}`" in problem
    assert "pip install 'sentbed-backbones[qlora]'" in problem
    lora_needs_it = package == "peft"
    assert bool(problems(lora=LoRA())) == lora_needs_it


def test_an_adapter_that_is_not_there_is_a_problem(tmp_path):
    (problem,) = problems(adapter=str(tmp_path / "none"))
    assert "cannot be found" in problem


def test_an_adapter_without_configuration_is_a_problem(adapter):
    (adapter / "adapter_config.json").unlink()
    (problem,) = problems(adapter=str(adapter))
    assert "no `adapter_config.json`" in problem


def test_missing_weights_are_a_problem_and_pickled_ones_are_not(adapter):
    (adapter / "adapter_model.safetensors").unlink()
    (problem,) = problems_of_adapter(adapter)
    assert "found no weights" in problem
    (adapter / "adapter_model.bin").write_bytes(b"")
    assert list(problems_of_adapter(adapter)) == []
