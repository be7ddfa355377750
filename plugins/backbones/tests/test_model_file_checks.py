from __future__ import annotations

import json

import pytest
from sentbed_backbones.model_file_checks import LARGEST_JSON, is_local, problems_of


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


def test_a_complete_model_has_no_problem(model):
    assert list(problems_of(model, True, False)) == []


def test_a_missing_configuration_is_the_only_problem_named(tmp_path):
    (problem,) = problems_of(tmp_path / "nowhere", True, False)
    assert f"`{tmp_path / 'nowhere'}` holds no `config.json`" in problem
    assert "save_pretrained" in problem


def test_an_adapter_named_as_the_model_is_told_apart(tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    (tmp_path / "adapter_model.safetensors").write_bytes(b"")
    (problem,) = problems_of(tmp_path, True, False)
    assert "holds an adapter and no model; name it as `adapter`" in problem


@pytest.mark.parametrize("content", [b"{", b"", b"\xff\xfe{}"])
def test_a_configuration_that_is_not_json_is_named(model, content):
    (model / "config.json").write_bytes(content)
    (problem,) = problems_of(model, True, False)
    assert f"`{model / 'config.json'}` is not JSON" in problem
    assert problem.endswith("fetch the model again")


@pytest.mark.parametrize("content", ["3", "null", '["auto_map"]'])
def test_a_configuration_that_is_not_an_object_is_named(model, content):
    (model / "config.json").write_text(content)
    (problem,) = problems_of(model, True, True)
    assert f"`{model / 'config.json'}`" in problem


def test_code_of_the_models_own_needs_trust(model):
    config = {"model_type": "own", "auto_map": {"AutoModel": "modeling.Own"}}
    (model / "config.json").write_text(json.dumps(config))
    (problem,) = problems_of(model, True, False)
    assert "`trust_remote_code = true`" in problem
    assert list(problems_of(model, True, True)) == []


@pytest.mark.parametrize(
    "name", ["model.pt", "m.ckpt", "tf_model.h5", "pytorch_model_old.bin"]
)
def test_weights_in_forms_that_are_not_read_are_named(model, name):
    (model / "model.safetensors").rename(model / name)
    (problem,) = problems_of(model, True, False)
    assert f"`{name}` is not read" in problem
    assert "expected `*.safetensors` or `pytorch_model.bin`" in problem


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin"]
)
def test_pickled_weights_are_no_problem(model, name):
    (model / "model.safetensors").rename(model / name)
    assert list(problems_of(model, True, False)) == []


def test_shards_without_an_index_are_a_problem(model):
    (model / "model.safetensors").rename(model / "model-00001-of-00002.safetensors")
    (problem,) = problems_of(model, True, False)
    assert "not `model.safetensors.index.json`" in problem
    assert "fetch that file too" in problem


@pytest.mark.parametrize(
    "name", ["model.safetensors", "tokenizer.json", "pytorch_model.bin"]
)
def test_a_pointer_of_git_lfs_is_named_before_anything_else(model, name):
    pointer = (
        "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 440449768\n"
    )
    (model / name).write_text(pointer)
    (problem,) = problems_of(model, True, False)
    assert f"`{model / name}` is a pointer of Git LFS" in problem
    assert "run `git lfs pull`" in problem


@pytest.mark.parametrize("method", ["gptq", "awq", "compressed-tensors"])
def test_quantised_weights_are_refused_where_weights_are_needed(model, method):
    (model / "config.json").write_text(
        json.dumps({"quantization_config": {"quant_method": method}})
    )
    (problem,) = problems_of(model, True, False)
    assert problem.startswith(f"in `{model}`, the weights are quantised by ")
    assert list(problems_of(model, False, False)) == []


def test_pickled_weights_beside_safetensors_are_not_in_the_way(model):
    (model / "pytorch_model.bin").write_bytes(b"")
    assert list(problems_of(model, True, False)) == []


def test_no_weights_are_a_problem_only_where_weights_are_needed(model):
    (model / "model.safetensors").unlink()
    (problem,) = problems_of(model, True, False)
    assert f"found no weights in `{model}`" in problem
    assert list(problems_of(model, False, False)) == []


def test_all_problems_are_reported_at_once(model):
    (model / "config.json").write_text('{"auto_map": {}}')
    (model / "model.safetensors").unlink()
    assert len(list(problems_of(model, True, False))) == 2


@pytest.mark.parametrize(
    "name",
    [
        "weights.bin",
        "../model.safetensors",
        "/m/model.safetensors",
        "sub/a.safetensors",
    ],
)
def test_weights_that_an_index_names_elsewhere_or_in_another_form_are_refused(
    model, name
):
    index = {"weight_map": {"a": "model.safetensors", "b": name}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    (problem,) = problems_of(model, True, False)
    assert (
        f"names the weights {name!r}, expected a `.safetensors` file beside it"
        in problem
    )
    assert list(problems_of(model, False, False)) == []


def test_an_index_that_names_what_is_there_is_accepted_and_a_missing_part_named(
    model,
):
    index = model / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"a": "model.safetensors"}}')
    assert list(problems_of(model, True, False)) == []
    index.write_text('{"weight_map": {"a": "model-2.safetensors"}}')
    (problem,) = problems_of(model, True, False)
    assert (
        problem
        == f"`{index}` names `model-2.safetensors`, which is not there; fetch the model again"
    )


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"weight_map": 3}', "{", '{"weight_map": null}']
)
def test_an_index_that_is_none_is_refused(model, content):
    (model / "model.safetensors.index.json").write_text(content)
    (problem,) = problems_of(model, True, False)
    assert "is no index of weights" in problem


@pytest.mark.parametrize("name", ["pytorch_model.bin", "../x.safetensors", 3])
def test_weights_that_the_configuration_names_elsewhere_are_refused(model, name):
    (model / "config.json").write_text(
        json.dumps({"model_type": "bert", "transformers_weights": name})
    )
    (problem,) = problems_of(model, True, False)
    assert f"config.json` names the weights {name!r}" in problem


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


@pytest.mark.parametrize(
    "name", ["tokenizer.json", "vocab.txt", "spiece.model", "added_tokens.json"]
)
def test_a_tokenizer_that_is_larger_than_any_is_refused_before_it_is_read(model, name):
    with (model / name).open("wb") as file:
        file.truncate(LARGEST_JSON + 1)
    (problem,) = problems_of(model, True, False)
    assert problem.startswith(f"`{model / name}` has more than 67,108,864 bytes")
