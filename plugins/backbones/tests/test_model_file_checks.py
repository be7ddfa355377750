from __future__ import annotations

import json

import pytest
from sentbed_backbones.model_file_checks import is_local, problems_of


@pytest.fixture
def model(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    (tmp_path / "tokenizer.json").write_text("{}")
    return tmp_path


def test_a_missing_tokenizer_is_a_problem(model):
    (model / "tokenizer.json").unlink()
    (problem,) = problems_of(model, True, False)
    assert problem.startswith(f"`{model}` holds no tokenizer")
    (model / "sentencepiece.bpe.model").write_bytes(b"")
    assert list(problems_of(model, True, False)) == []


@pytest.mark.parametrize(
    "name",
    ["./m", "../m", "/models/m", "~/m", "pkg:package/model", "data:models/m", "."],
)
def test_directories_and_package_files_are_local(name):
    assert is_local(name)


@pytest.mark.parametrize(
    "name", ["bert-base-uncased", "sentence-transformers/all-MiniLM-L6-v2", "data/m"]
)
def test_hub_ids_are_not_local(name):
    assert not is_local(name)


def test_a_missing_configuration_is_the_only_problem_named(tmp_path):
    (problem,) = problems_of(tmp_path / "nowhere", True, False)
    assert f"`{tmp_path / 'nowhere'}` holds no `config.json`" in problem
    assert "save_pretrained" in problem


def test_an_adapter_named_as_the_model_is_told_apart(tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    (tmp_path / "adapter_model.safetensors").write_bytes(b"")
    (problem,) = problems_of(tmp_path, True, False)
    assert "holds an adapter and no model; name it as `adapter`" in problem


def test_a_configuration_that_is_not_json_is_named(model):
    (model / "config.json").write_bytes(b"{")
    (problem,) = problems_of(model, True, False)
    assert f"`{model / 'config.json'}` cannot be read" in problem
    assert problem.endswith("fetch the model again")


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin"]
)
def test_pickled_weights_are_no_problem(model, name):
    (model / "model.safetensors").rename(model / name)
    assert list(problems_of(model, True, False)) == []


def test_quantised_weights_are_refused_where_weights_are_needed(model):
    (model / "config.json").write_text(
        json.dumps({"quantization_config": {"quant_method": "gptq"}})
    )
    (problem,) = problems_of(model, True, False)
    assert problem.startswith(f"the weights in `{model}` are quantised (`gptq`)")
    assert list(problems_of(model, False, False)) == []


def test_no_weights_are_a_problem_only_where_weights_are_needed(model):
    (model / "model.safetensors").unlink()
    (problem,) = problems_of(model, True, False)
    assert f"found no weights in `{model}`" in problem
    assert list(problems_of(model, False, False)) == []


def test_all_problems_are_reported_at_once(model):
    (model / "config.json").write_text('{"auto_map": {}}')
    (model / "model.safetensors").unlink()
    assert len(list(problems_of(model, True, False))) == 2


def test_an_adapter_beside_a_model_is_refused_since_its_base_would_be_loaded_instead(
    model,
):
    (model / "adapter_config.json").write_text(
        '{"base_model_name_or_path": "/elsewhere", "peft_type": "LORA"}'
    )
    (problem,) = problems_of(model, True, False)
    assert problem == (
        f"`{model}` holds a model and, with `adapter_config.json`, an adapter of another one; move that file "
        "away to load the model, or name the adapter's base as `model` and the adapter as `adapter`"
    )
    assert list(problems_of(model, False, False)) == []
