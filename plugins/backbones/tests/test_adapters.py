from __future__ import annotations

import json

import peft
import pytest
import safetensors.torch
import torch
import transformers
from peft.tuners.lora import LoraLayer
from sentbed import ModelError
from sentbed_backbones._torch.adaptation import (
    add_lora,
    freeze,
    is_quantised,
    load_adapter,
    merged_copy,
    nf4_config,
    prepare_4bit,
    save_adapter,
)
from sentbed_backbones.adaptation import Freeze, LoRA

KINDS = ("bert", "t5-encoder", "t5", "opt", "llama", "gpt2")
SMALL = LoRA(r=4, dropout=0.0)

IDS = torch.tensor(
    [[5, 6, 7, 8, 9], [10, 11, 12, 13, 14], [15, 16, 17, 1, 1], [18, 19, 1, 1, 1]]
)
MASK = (IDS != 1).long()

peft_itself = pytest.mark.filterwarnings(
    # peft 0.21 asks transformers 5.23 under an old name; ours is silenced where it calls peft.
    "ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"
)


T5 = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "dropout_rate": 0.0,
}
LLAMA = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
BERT = {**LLAMA, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
OPT = {
    "hidden_size": 64,
    "ffn_dim": 128,
    "word_embed_proj_dim": 32,
    "do_layer_norm_before": False,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "dropout": 0.0,
}
GPT2 = {
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 16,
    "bos_token_id": 2,
    "eos_token_id": 2,
    "attn_pdrop": 0,
    "resid_pdrop": 0,
    "embd_pdrop": 0,
}
CONFIGS = {
    "bert": ("bert", BERT),
    "t5-encoder": ("t5", T5),
    "t5": ("t5", T5),
    "opt": ("opt", OPT),
    "llama": ("llama", {**LLAMA, "num_key_value_heads": 2}),
    "gpt2": ("gpt2", GPT2),
}


def tiny(kind):
    """A random model of 2 layers, without dropout, with weights as unlike as those of a trained one."""
    architecture, settings = CONFIGS[kind]
    config = transformers.AutoConfig.for_model(architecture, vocab_size=40, **settings)
    if kind == "bert":
        model = transformers.BertModel(config, add_pooling_layer=False)
    elif kind == "t5-encoder":
        model = transformers.T5EncoderModel(config)
    else:
        model = transformers.AutoModel.from_config(config)
    return randomised(model)


def randomised(model):
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, float(parameter.ndim == 1), 0.2)
    return model.eval()


def in_nf4(kind, directory, compute):
    model = tiny(kind)
    model.save_pretrained(directory)
    return read(
        model,
        directory,
        quantization_config=nf4_config(compute),
        device_map={"": "cpu"},
    )


def read(like, directory, **options):
    """Load a model of the same class."""
    if isinstance(like, transformers.BertModel):
        options["add_pooling_layer"] = False
    return type(like).from_pretrained(directory, dtype=torch.float32, **options).eval()


def states(model):
    """The real tokens' last states, `(tokens, width)`; of T5 with a decoder also its output."""
    if getattr(model.config, "is_encoder_decoder", False) and hasattr(model, "decoder"):
        start = torch.zeros((len(IDS), 1), dtype=torch.long)
        output = model(input_ids=IDS, attention_mask=MASK, decoder_input_ids=start)
        return torch.cat(
            [
                output.encoder_last_hidden_state[MASK.bool()],
                output.last_hidden_state[:, 0],
            ]
        )
    hidden = model(input_ids=IDS, attention_mask=MASK).last_hidden_state
    return hidden[MASK.bool()]


@torch.no_grad()
def encoded(model):
    return states(model.eval()).float()


def train(model, steps=3, lr=1e-2):
    """Pull the states towards fixed random ones."""
    target = torch.randn(
        encoded(model).shape, generator=torch.Generator().manual_seed(1)
    )
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=lr
    )
    losses = []
    for _ in range(steps):
        loss = (states(model.train()).float() - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, optimizer


def tensors(model):
    """All that a model holds, also the scales of 4-bit weights, under the names of the plain model."""
    return {
        key.removeprefix("base_model.model.").replace(
            ".base_layer.", "."
        ): value.clone()
        for key, value in model.state_dict().items()
        if "lora_" not in key
    }


def changed(before, after):
    assert before.keys() == after.keys()
    return {
        key
        for key, value in before.items()
        if value.dtype != after[key].dtype or not torch.equal(value, after[key])
    }


def gradients(model):
    model.zero_grad()
    states(model.train())[:, 0].sum().backward()
    return {
        name: p.grad.clone()
        for name, p in model.named_parameters()
        if p.grad is not None
    }


def adapted_layers(model):
    base = model.get_base_model()
    return {
        name for name, module in base.named_modules() if isinstance(module, LoraLayer)
    }


def test_every_linear_layer_but_an_output_head_gets_an_adapter():
    model = tiny("opt")
    linear = set()
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            linear.add(name)
    assert "decoder.project_in" in linear
    assert adapted_layers(add_lora(model, SMALL)) == linear
    headed = transformers.OPTForCausalLM(tiny("opt").config)
    assert "lm_head" not in adapted_layers(add_lora(headed, SMALL))


def test_named_targets_get_an_adapter_and_nothing_else():
    targets = ("query", "intermediate.dense")
    layers = adapted_layers(add_lora(tiny("bert"), LoRA(targets=targets)))
    assert layers == {
        "encoder.layer.0.attention.self.query",
        "encoder.layer.1.attention.self.query",
        "encoder.layer.0.intermediate.dense",
        "encoder.layer.1.intermediate.dense",
    }


def test_a_target_that_no_layer_has_is_an_error_that_leaves_the_model_alone():
    model = tiny("bert")
    with pytest.raises(
        ModelError, match=r"no linear layer `qeury`. Did you mean `query`\?"
    ):
        add_lora(model, LoRA(targets=("value", "qeury")))
    assert not any(isinstance(module, LoraLayer) for module in model.modules())


@pytest.mark.sweep(2)
@pytest.mark.parametrize("bits", ["fp32", "nf4"])
@pytest.mark.parametrize("kind", KINDS)
def test_training_changes_the_adapter_only(kind, bits, tmp_path):
    plain = tiny(kind)
    if bits == "nf4":
        plain = in_nf4(kind, tmp_path, torch.bfloat16)
    model = add_lora(plain, SMALL)
    before = tensors(model)
    losses, optimizer = train(model, steps=30)
    assert losses[-1] < 0.8 * losses[0]
    encoded(model)
    assert changed(before, tensors(model)) == set()
    weights = 0
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            assert parameter.dtype == torch.float32
            weights += 2 * parameter.numel() + 1
    state_size = 0
    for state in optimizer.state.values():
        for value in state.values():
            state_size += value.numel()
    assert state_size == weights


@peft_itself
def test_peft_loads_what_is_saved_and_finds_no_path_in_it(tmp_path):
    tiny("bert").save_pretrained(tmp_path / "base")
    model = add_lora(read(tiny("bert"), tmp_path / "base"), SMALL)
    train(model)
    save_adapter(model, tmp_path / "adapter")
    files = {file.name: file.read_bytes() for file in (tmp_path / "adapter").iterdir()}
    assert files.keys() == {"adapter_config.json", "adapter_model.safetensors"}
    assert not any(str(tmp_path).encode() in content for content in files.values())
    config = json.loads(files["adapter_config.json"])
    assert config["base_model_name_or_path"] is None
    assert config["target_modules"] == sorted(config["target_modules"])
    base = read(tiny("bert"), tmp_path / "base")
    theirs = peft.PeftModel.from_pretrained(base, str(tmp_path / "adapter"))
    assert torch.equal(encoded(theirs), encoded(model))


def test_the_hub_id_of_the_base_is_recorded_where_it_is_given(tmp_path):
    save_adapter(add_lora(tiny("bert"), SMALL), tmp_path, "bert-base-uncased")
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "bert-base-uncased"


@pytest.fixture
def saved(tmp_path):
    """The adapter of a tiny BERT."""
    model = add_lora(tiny("bert"), SMALL)
    train(model)
    save_adapter(model, tmp_path / "adapter")
    return tmp_path / "adapter"


@pytest.fixture
def edit_weights(
    saved,
):
    def edit(change):
        file = saved / "adapter_model.safetensors"
        weights = safetensors.torch.load_file(file)
        change(weights)
        safetensors.torch.save_file(weights, file)

    return edit


def test_loading_draws_no_random_numbers(saved):
    model = tiny("bert")
    before = torch.get_rng_state()
    load_adapter(model, saved)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("base", [torch.float32, torch.bfloat16], ids=str)
def test_an_adapter_is_held_in_fp32_with_every_bit_of_its_file(
    saved, edit_weights, stored, base
):
    def convert(weights):
        for name, value in weights.items():
            weights[name] = value.to(stored)

    edit_weights(convert)
    written = safetensors.torch.load_file(saved / "adapter_model.safetensors")
    model = load_adapter(tiny("bert").to(base), saved)
    loaded = peft.get_peft_model_state_dict(model, save_embedding_layers=False)
    assert loaded.keys() == written.keys()
    for name, value in loaded.items():
        assert value.dtype == torch.float32
        assert torch.equal(value, written[name].float()), name


def test_a_pickled_adapter_is_that_of_its_safetensors(saved):
    torch.manual_seed(0)
    expected = encoded(load_adapter(tiny("bert"), saved))
    weights = safetensors.torch.load_file(saved / "adapter_model.safetensors")
    torch.save(weights, saved / "adapter_model.bin")
    (saved / "adapter_model.safetensors").unlink()
    torch.manual_seed(0)
    assert torch.equal(encoded(load_adapter(tiny("bert"), saved)), expected)


KEY = "base_model.model.encoder.layer.1.output.dense.lora_B.weight"


@pytest.mark.parametrize(
    ("fault", "counts"),
    [
        ("missing", "1 weights missing or of another shape, 0 for no layer"),
        ("reshaped", "1 weights missing or of another shape, 0 for no layer"),
        ("extra", "0 weights missing or of another shape, 1 for no layer"),
    ],
)
def test_an_adapter_that_does_not_fit_in_every_weight_is_an_error(
    saved, edit_weights, fault, counts
):
    def change(weights):
        if fault == "missing":
            del weights[KEY]
        elif fault == "reshaped":
            weights[KEY] = weights[KEY][:, :2].clone()
        else:
            weights[KEY.replace("output", "pooler")] = weights[KEY].clone()

    edit_weights(change)
    message = f"{counts}, the first is `base_model.model.encoder.layer.1"
    with pytest.raises(ModelError, match=message):
        load_adapter(tiny("bert"), saved)


def test_an_adapter_that_is_no_lora_is_an_error(saved, edit_json):
    edit_json(saved / "adapter_config.json", peft_type="PREFIX_TUNING")
    with pytest.raises(ModelError, match="`PREFIX_TUNING`, expected `LORA`"):
        load_adapter(tiny("bert"), saved)


@peft_itself
@pytest.mark.parametrize(
    "option",
    [
        {},
        {"use_dora": True},
        {"bias": "lora_only"},
        {"modules_to_save": ["output"]},
        {"init_lora_weights": "gaussian"},
        {"init_lora_weights": "pissa"},
    ],
    ids=str,
)
def test_what_peft_trained_gives_its_vectors_also_merged(option, tmp_path):
    options = {"init_lora_weights": False, **option}
    config = peft.LoraConfig(r=4, target_modules=["query", "key"], **options)
    base = tiny("bert")
    base.save_pretrained(tmp_path / "base")
    trained = peft.get_peft_model(base, config)
    train(trained)
    trained.save_pretrained(str(tmp_path / "adapter"))

    model = load_adapter(read(tiny("bert"), tmp_path / "base"), tmp_path / "adapter")
    expected = encoded(trained)
    torch.testing.assert_close(encoded(model), expected, rtol=0, atol=1e-5)
    merged = merged_copy(model, torch.float32)
    torch.testing.assert_close(encoded(merged), expected, rtol=0, atol=1e-5)


@peft_itself
@pytest.mark.parametrize("pattern", [None, "rank_pattern", "alpha_pattern"])
@pytest.mark.parametrize(
    "headed_class",
    [transformers.LlamaForCausalLM, transformers.OPTForCausalLM],
    ids=["llama", "opt"],
)
def test_an_adapter_of_the_model_with_a_head_is_taken(headed_class, pattern, tmp_path):
    """Initialisations such as EVA name each layer in full, with a rank and an alpha of its own."""
    name = headed_class.config_class.model_type
    headed = randomised(headed_class(tiny(name).config))
    headed.save_pretrained(tmp_path / "base")
    options = {}
    if pattern is not None:
        layers = {"llama": "model.layers", "opt": "model.decoder.layers"}
        options[pattern] = {f"{layers[name]}.1.self_attn.q_proj": 2}
    config = peft.LoraConfig(
        r=4,
        target_modules=["q_proj", "v_proj", "fc1", "up_proj"],
        task_type="CAUSAL_LM",
        init_lora_weights=False,
        **options,
    )
    trained = peft.get_peft_model(headed, config)
    trained.save_pretrained(str(tmp_path / "adapter"))
    base = transformers.AutoModel.from_pretrained(tmp_path / "base")
    without = encoded(base)
    loaded = load_adapter(base, tmp_path / "adapter")
    assert torch.equal(encoded(loaded), encoded(trained.get_base_model().model))
    assert not torch.allclose(encoded(loaded), without, atol=0.1)


FOUR_BITS = [
    ("opt", torch.float32, 1e-5),
    ("opt", torch.bfloat16, 0.1),
    ("llama", torch.float32, 1e-5),
    ("bert", torch.float32, 1e-5),
    ("gpt2", torch.float32, 1e-5),
]
UNQUANTISED = [(kind, None, 1e-5) for kind in KINDS]


@pytest.mark.sweep(3)
@pytest.mark.parametrize("adapted", [True, False], ids=["lora", "plain"])
@pytest.mark.parametrize(
    ("kind", "compute", "tolerance"), [*FOUR_BITS, *UNQUANTISED], ids=str
)
def test_a_merged_copy_gives_the_same_vectors_and_the_original_stays(
    kind, compute, tolerance, adapted, tmp_path
):
    if compute is None:
        model = tiny(kind)
    else:
        model = prepare_4bit(in_nf4(kind, tmp_path / "base", compute))
    if adapted:
        model = add_lora(model, SMALL)
        train(model)
    expected, before = encoded(model), tensors(model)
    merged = merged_copy(model, torch.float32)
    assert type(merged) is type(tiny(kind))
    assert not hasattr(merged, "peft_config")
    assert not is_quantised(merged)
    assert not merged.training
    assert {parameter.dtype for parameter in merged.parameters()} == {torch.float32}
    torch.testing.assert_close(encoded(merged), expected, rtol=0, atol=tolerance)

    assert is_quantised(model) == (compute is not None)
    assert changed(before, tensors(model)) == set()
    assert torch.equal(encoded(model), expected)
    merged.save_pretrained(tmp_path / "merged")
    assert torch.equal(encoded(read(merged, tmp_path / "merged")), encoded(merged))


@peft_itself
def test_an_adapter_that_changed_the_base_is_merged_over_four_bits_once(tmp_path):
    options = {"target_modules": ["q_proj"], "init_lora_weights": "olora"}
    trained = peft.get_peft_model(tiny("opt"), peft.LoraConfig(r=4, **options))
    train(trained)
    trained.save_pretrained(str(tmp_path / "adapter"))

    base = in_nf4("opt", tmp_path / "base", torch.float32)
    model = load_adapter(base, tmp_path / "adapter")
    merged = merged_copy(model, torch.float32)
    torch.testing.assert_close(encoded(merged), encoded(model), rtol=0, atol=1e-5)


def test_merged_weights_are_the_sum_in_fp32_and_rotary_frequencies_keep_their_precision():
    plain = tiny("llama")
    for parameter in plain.parameters():
        parameter.data = parameter.data.bfloat16()
    model = add_lora(plain, SMALL)
    train(model)
    layer = model.get_base_model().layers[1].mlp.down_proj
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    weight = layer.get_base_layer().weight
    merged = merged_copy(model, torch.bfloat16)
    assert torch.equal(
        merged.layers[1].mlp.down_proj.weight, (weight.float() + 4 * (b @ a)).bfloat16()
    )
    assert {p.dtype for p in merged.parameters()} == {torch.bfloat16}
    assert torch.equal(merged.rotary_emb.inv_freq, tiny("llama").rotary_emb.inv_freq)


def test_nf4_has_all_linear_layers_in_four_bits_with_double_quantisation(tmp_path):
    model = in_nf4("opt", tmp_path, torch.bfloat16)
    assert is_quantised(model)
    for name, module in tiny("opt").named_modules():
        if isinstance(module, torch.nn.Linear):
            state = model.get_submodule(name).weight.quant_state
            assert state.quant_type == "nf4"
            assert state.nested


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["opt", "llama"])
def test_encoding_between_steps_leaves_the_gradients_over_four_bits(kind, tmp_path):
    model = add_lora(in_nf4(kind, tmp_path, torch.bfloat16), SMALL)
    for name, p in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(p, 0, 0.1)
    before = gradients(model)
    encoded(model)
    after = gradients(model)
    assert len(before) >= 16
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_weights_that_were_loaded_in_half_precision_are_dequantised_in_fp32(
    tmp_path,
):
    plain = tiny("llama")
    plain.save_pretrained(tmp_path)
    model = type(plain).from_pretrained(
        tmp_path,
        dtype=torch.bfloat16,
        quantization_config=nf4_config(torch.float32),
        device_map={"": "cpu"},
    )
    for parameter in model.parameters():
        if parameter.is_floating_point():
            parameter.data = parameter.data.float()
    prepare_4bit(model)
    torch.testing.assert_close(
        encoded(merged_copy(model, torch.float32)), encoded(model), rtol=0, atol=1e-5
    )


EMBEDDINGS = {
    "bert": {
        *(
            f"embeddings.{name}_embeddings.weight"
            for name in ("word", "position", "token_type")
        ),
        *("embeddings.LayerNorm.weight", "embeddings.LayerNorm.bias"),
    },
    "t5-encoder": {"shared.weight", "encoder.embed_tokens.weight"},
    "t5": {
        "shared.weight",
        "encoder.embed_tokens.weight",
        "decoder.embed_tokens.weight",
    },
    "opt": {"decoder.embed_tokens.weight", "decoder.embed_positions.weight"},
    "llama": {"embed_tokens.weight"},
    "gpt2": {"wte.weight", "wpe.weight"},
}
FIRST = {
    "bert": "encoder.layer.0.",
    "t5-encoder": "encoder.block.0.",
    "t5": "encoder.block.0.",
    "opt": "decoder.layers.0.",
    "llama": "layers.0.",
    "gpt2": "h.0.",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("embeddings", [True, False])
@pytest.mark.parametrize("layers", [0, 1])
def test_a_step_changes_all_but_what_is_frozen(kind, embeddings, layers):
    model = tiny(kind)
    freeze(model, Freeze(embeddings=embeddings, layers=layers))
    before = tensors(model)
    train(model, steps=1)
    frozen = {
        name
        for name in before
        if (embeddings and name in EMBEDDINGS[kind])
        or (layers and name.startswith(FIRST[kind]))
    }
    assert {n for n in before if n not in changed(before, tensors(model))} == frozen


def test_all_layers_can_be_frozen_and_more_are_an_error():
    model = tiny("opt")
    freeze(model, Freeze(layers=2))
    assert not any(p.requires_grad for p in model.decoder.layers.parameters())
    with pytest.raises(ModelError, match="`layers` is 3, the model has 2 layers"):
        freeze(tiny("opt"), Freeze(layers=3))


def test_the_adapters_of_frozen_layers_are_frozen_with_them():
    model = add_lora(tiny("bert"), SMALL)
    freeze(model, Freeze(layers=1))
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert trained == {
        n for n, _ in model.named_parameters() if "lora_" in n and ".layer.1." in n
    }
