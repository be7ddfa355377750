"""Adapters that peft itself writes, against the vectors of peft's own model."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import torch
import transformers
from click.testing import CliRunner
from sentbed import Encoder, ModelError
from sentbed._cli.main import main
from sentbed_interop.from_peft import FromPEFT
from sentbed_testing import SENTENCES

peft = pytest.importorskip("peft", reason="needs peft")

TEXTS = (*SENTENCES[:6], "")


@pytest.fixture
def adapted(tmp_path):
    """Have peft save an adapter; returns its model, the tokenizer, and the adapter's directory."""

    def make(base, loader, targets="all-linear", **options):
        directory = tmp_path / "adapter"
        config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=targets, **options)
        with warnings.catch_warnings():
            # peft uses a name that transformers has given up.
            warnings.simplefilter("ignore")
            adapted = peft.get_peft_model(loader.from_pretrained(base), config)
        draw = torch.Generator().manual_seed(0)
        for name, value in adapted.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(value, 0, 0.1, generator=draw)
        adapted.save_pretrained(directory)
        return (
            adapted.eval(),
            transformers.AutoTokenizer.from_pretrained(base),
            directory,
        )

    return make


def states(model, tokenizer, text):
    """Return the last layer's states of one text, `(length, width)`."""
    ids = torch.tensor([tokenizer(text, truncation=True, max_length=24)["input_ids"]])
    with torch.no_grad():
        return model(input_ids=ids, output_hidden_states=True).hidden_states[-1][0]


def test_an_adapter_on_bert_is_pooled_by_its_mean(tiny_bert, adapted, tmp_path):
    base = tiny_bert / "backbone"
    model, tokenizer, directory = adapted(
        base, transformers.AutoModel, ["query", "intermediate.dense"]
    )
    assert FromPEFT().recognises(directory)
    encoder = FromPEFT(max_length=24).read(directory)
    expected = [states(model, tokenizer, text).mean(0).numpy() for text in TEXTS]
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, rtol=0, atol=1e-5)
    # Only the adapter is written, and the hashes of what lies below it.
    encoder.save(tmp_path / "saved")
    assert (
        tmp_path / "saved" / "backbone" / "adapter" / "adapter_model.safetensors"
    ).is_file()
    hashes = json.loads((tmp_path / "saved" / "backbone" / "base.json").read_text())[
        "sha256"
    ]
    assert hashes.keys() == {"model.safetensors"}
    assert not (tmp_path / "saved" / "backbone" / "model.safetensors").exists()
    again = Encoder.load(tmp_path / "saved")
    np.testing.assert_array_equal(again.encode(TEXTS), encoder.encode(TEXTS))
    assert again.recipe.backbone.adapter == str(directory)


def test_an_adapter_on_a_causal_model_takes_the_last_token_of_prompt_eol(
    tiny_opt_prompt, adapted, tmp_path
):
    model, tokenizer, directory = adapted(
        tiny_opt_prompt / "backbone",
        transformers.AutoModelForCausalLM,
        task_type="CAUSAL_LM",
    )
    result = CliRunner().invoke(
        main, ["import", str(directory), str(tmp_path / "imported")]
    )
    assert result.exit_code == 0, result.output
    encoder = Encoder.load(tmp_path / "imported")
    assert encoder.recipe.backbone.name == "opt"
    texts = ("The cat sat on the mat.", "nobody hears it.")
    # At the template's length the text is whole.
    tokenizer.model_max_length = 10**9
    prompts = [f'This sentence : "{text}" means in one word:"' for text in texts]
    expected = []
    for prompt in prompts:
        ids = torch.tensor([tokenizer(prompt)["input_ids"]])
        with torch.no_grad():
            expected.append(
                model(input_ids=ids, output_hidden_states=True)
                .hidden_states[-1][0, -1]
                .numpy()
            )
    np.testing.assert_allclose(encoder.encode(texts), expected, rtol=0, atol=1e-5)


def test_another_pooler_and_another_place_of_the_base(tiny_t5, adapted):
    base = tiny_t5 / "backbone"
    model, tokenizer, directory = adapted(base, transformers.T5EncoderModel)
    edit(directory, base_model_name_or_path="./gone")
    with pytest.raises(
        ModelError,
        match=r"`./gone`, which is not there; name the place .*`--set base=./MODEL`",
    ):
        FromPEFT().read(directory)
    edit(directory, base_model_name_or_path=None)
    with pytest.raises(
        ModelError, match="does not say which model it belongs to; name it"
    ):
        FromPEFT().read(directory)
    encoder = FromPEFT(base=str(base), pooler="first", max_length=24).read(directory)
    expected = [states(model, tokenizer, text)[0].numpy() for text in TEXTS]
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, rtol=0, atol=1e-5)
    with pytest.raises(
        ModelError, match=r"the pooler `prompt-eol` needs causal attention"
    ):
        FromPEFT(base=str(base), pooler="prompt-eol").read(directory)
    with pytest.raises(ModelError, match="means"):
        FromPEFT(base=str(base), pooler="means").read(directory)


def test_a_base_on_the_hub_is_fetched_by_its_id(tiny_bert, adapted, monkeypatch):
    import huggingface_hub

    base = tiny_bert / "backbone"
    _, _, directory = adapted(
        base, transformers.AutoModel, ["query", "intermediate.dense"]
    )
    edit(directory, base_model_name_or_path="someone/tiny", revision="abc")
    requests = []

    def config(model, file, revision):
        requests.append((model, revision))
        return str(base / file)

    def files(model, revision, **_):
        requests.append((model, revision))
        return str(base)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", config)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", files)
    encoder = FromPEFT().read(directory)
    assert requests == [("someone/tiny", "abc")] * 2
    backbone = encoder.recipe.backbone
    assert (backbone.model, backbone.revision) == ("someone/tiny", "abc")

    def fail(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fail)
    with pytest.raises(
        ModelError,
        match=r"gives no model `someone/tiny`.*: no network; check the network, or",
    ):
        FromPEFT().read(directory)


def test_other_adapters_are_refused(tiny_bert, adapted):
    _, _, directory = adapted(tiny_bert / "backbone", transformers.AutoModel)
    with pytest.raises(
        ModelError, match=r"for BERT's own pooler \(`.*pooler.dense.lora_A.weight`\)"
    ):
        FromPEFT().read(directory)
    _, _, directory = adapted(tiny_bert / "backbone", transformers.AutoModel, ["query"])
    edit(directory, peft_type="IA3")
    with pytest.raises(ModelError, match="is a `IA3`, expected `LORA`"):
        FromPEFT().read(directory)
    (directory / "adapter_model.safetensors").unlink()
    with pytest.raises(
        ModelError,
        match=r"found no weights in .*, expected `adapter_model.safetensors`",
    ):
        FromPEFT().read(directory)
    (directory / "modules.json").write_text("[]")
    assert not FromPEFT().recognises(directory)


def edit(directory, **changes):
    file = directory / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
