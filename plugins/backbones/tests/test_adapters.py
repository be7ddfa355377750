"""Adapters, weights in 4 bits and frozen parts of backbones that are built from files."""

from __future__ import annotations

import json

import attrs
import peft
import pytest
import safetensors.torch
import torch
import transformers
from peft.tuners.lora import LoraLayer
from sentbed import ModelError
from sentbed_backbones.adaptation import Freeze, LoRA
from sentbed_backbones.bert import Bert
from sentbed_backbones.opt import Opt

KINDS = ("bert", "t5", "opt", "llama", "gpt2")
SMALL = LoRA(r=4, dropout=0.0)
NF4 = {"quantization": "nf4"}
WIDE = {"bert": {"hidden_size": 64}, "opt": {"hidden_size": 64, "ffn_dim": 128}}
"""Layers that are wide enough for blocks of 64 weights in 4 bits."""

IDS = torch.tensor(
    [
        [5, 6, 7, 8, 9],
        [10, 11, 12, 13, 14],
        [15, 16, 17, 1, 1],
        [18, 19, 1, 1, 1],
    ]
)
MASK = (IDS != 1).long()

peft_itself = pytest.mark.filterwarnings(
    # peft 0.21 asks transformers 5.23 under an old name; ours is silenced where it calls peft.
    "ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"
)


@pytest.fixture
def build(save_model, backbone_of, no_texts):
    """Save a random model of a kind, and build its backbone without dropout."""

    def built(kind, needs=(), **fields):
        directory = save_model(kind, **WIDE.get(kind, {}))
        backbone = backbone_of(kind, directory, dropout=0.0, **fields)
        return backbone.build(attrs.evolve(no_texts, needs=frozenset(needs)))

    return built


def hidden(model):
    """The last states of the real tokens from a module of ours or a model of transformers, in fp32."""
    states = model(input_ids=IDS, attention_mask=MASK)
    rows = states.last_hidden_state[MASK.bool()].float()
    decoder_state = getattr(states, "decoder_state", None)
    if decoder_state is None:
        return rows

    return torch.cat([rows, decoder_state.float()])


@torch.no_grad()
def encoded(model):
    return hidden(model.eval())


def train(model, steps=3):
    """Pull the states towards fixed random ones; return the losses and the optimiser."""
    generator = torch.Generator()
    generator.manual_seed(1)
    shape = encoded(model).shape
    target = torch.randn(shape, generator=generator)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2)
    losses = []
    for _ in range(steps):
        loss = (hidden(model.train()) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    return losses, optimizer


def tensors(model):
    """Weights, buffers and scales of 4-bit weights besides the adapter, by the names of the plain model."""
    values = {}
    for key, value in model.state_dict().items():
        if "lora_" not in key:
            name = key.removeprefix("base_model.model.").replace(".base_layer.", ".")
            values[name] = value.clone()

    return values


def changed(before, after):
    assert before.keys() == after.keys()
    names = set()
    for key, value in before.items():
        other = after[key]
        is_same = value.dtype == other.dtype and torch.equal(value, other)
        if not is_same:
            names.add(key)

    return names


def layers_of(model, kind):
    return {name for name, part in model.named_modules() if isinstance(part, kind)}


def refusal(backbone, context):
    with pytest.raises(ModelError) as caught:
        backbone.build(context)
    return str(caught.value)


# --- new adapters ------------------------------------------------------------------------------------------


def test_every_linear_layer_gets_an_adapter(build):
    linear = layers_of(build("opt-350m").model, torch.nn.Linear)
    assert "decoder.project_in" in linear
    adapted = build("opt-350m", lora=SMALL).model.get_base_model()
    assert layers_of(adapted, LoraLayer) == linear


def test_an_output_head_gets_no_adapter(build):
    headed = build("bert", needs=["logits"], masked_head="new", lora=SMALL)
    layers = layers_of(headed.model.get_base_model(), LoraLayer)
    assert layers
    assert "cls.predictions.decoder" not in layers


def test_named_targets_get_an_adapter_and_nothing_else(build):
    built = build("bert", lora=LoRA(targets=("query", "intermediate.dense")))
    assert layers_of(built.model.get_base_model(), LoraLayer) == {
        "encoder.layer.0.attention.self.query",
        "encoder.layer.1.attention.self.query",
        "encoder.layer.0.intermediate.dense",
        "encoder.layer.1.intermediate.dense",
    }


def test_a_target_that_no_layer_has_is_an_error(build):
    message = r"no linear layer `qeury`. Did you mean `query`\?"
    with pytest.raises(ModelError, match=message):
        build("bert", lora=LoRA(targets=("value", "qeury")))


@pytest.mark.sweep(2)
@pytest.mark.parametrize("fields", [{}, NF4, {**NF4, "dtype": "bf16"}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_training_changes_the_adapter_only(kind, fields, build):
    built = build(kind, lora=SMALL, **fields)
    before = tensors(built.model)
    losses, optimizer = train(built.module, steps=30)
    assert losses[-1] < 0.8 * losses[0]
    encoded(built.module)
    assert changed(before, tensors(built.model)) == set()
    weights = 0
    for name, parameter in built.model.named_parameters():
        if "lora_" in name:
            assert parameter.dtype == torch.float32
            weights += 2 * parameter.numel() + 1
    state_size = 0
    for state in optimizer.state.values():
        for value in state.values():
            state_size += value.numel()
    assert state_size == weights


# --- saved and trained adapters ----------------------------------------------------------------------------


@pytest.fixture
def saved(save_model, no_texts, tmp_path):
    """The directories of a model and of its trained adapter, and the vectors."""
    directory = save_model("bert")
    built = Bert(model=str(directory), lora=SMALL, dropout=0.0).build(no_texts)
    train(built.module)
    built.save(tmp_path / "saved")
    return directory, tmp_path / "saved" / "adapter", encoded(built.module)


def adapted(saved, **fields):
    """The backbone with the saved adapter."""
    directory, adapter, _ = saved
    return Bert(model=str(directory), adapter=str(adapter), **fields)


@pytest.fixture
def edit_weights(saved):
    def edit(change):
        file = saved[1] / "adapter_model.safetensors"
        weights = safetensors.torch.load_file(file)
        change(weights)
        safetensors.torch.save_file(weights, file)

    return edit


@peft_itself
def test_peft_loads_what_is_saved_and_finds_no_path_in_it(saved, tmp_path):
    directory, adapter, expected = saved
    files = {}
    for file in adapter.iterdir():
        files[file.name] = file.read_bytes()
        assert str(tmp_path).encode() not in files[file.name]

    assert files.keys() == {"adapter_config.json", "adapter_model.safetensors"}
    config = json.loads(files["adapter_config.json"])
    assert config["base_model_name_or_path"] is None
    assert config["target_modules"] == sorted(config["target_modules"])
    base = transformers.AutoModel.from_pretrained(directory, add_pooling_layer=False)
    theirs = peft.PeftModel.from_pretrained(base, str(adapter))
    assert torch.equal(encoded(theirs), expected)


def test_loading_draws_no_random_numbers(saved, no_texts):
    states = []
    for backbone in (Bert(model=str(saved[0])), adapted(saved)):
        torch.manual_seed(0)
        backbone.build(no_texts)
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("base", ["fp32", "bf16"])
def test_an_adapter_is_held_in_fp32_with_every_bit_of_its_file(
    saved, edit_weights, no_texts, stored, base
):
    def convert(weights):
        for name, value in weights.items():
            weights[name] = value.to(stored)

    edit_weights(convert)
    written = safetensors.torch.load_file(saved[1] / "adapter_model.safetensors")
    backbone = adapted(saved, dtype=base)
    model = backbone.build(no_texts).model
    loaded = peft.get_peft_model_state_dict(model, save_embedding_layers=False)
    assert loaded.keys() == written.keys()
    for name, value in loaded.items():
        assert value.dtype == torch.float32
        assert torch.equal(value, written[name].float()), name


def test_a_pickled_adapter_is_that_of_its_safetensors(saved, no_texts):
    weights = safetensors.torch.load_file(saved[1] / "adapter_model.safetensors")
    torch.save(weights, saved[1] / "adapter_model.bin")
    (saved[1] / "adapter_model.safetensors").unlink()
    assert torch.equal(encoded(adapted(saved).build(no_texts).module), saved[2])


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
    saved, edit_weights, no_texts, fault, counts
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
    assert message in refusal(adapted(saved), no_texts)


def test_an_adapter_that_is_no_lora_is_an_error(saved, no_texts, edit_json):
    edit_json(saved[1] / "adapter_config.json", peft_type="PREFIX_TUNING")
    message = refusal(adapted(saved), no_texts)
    assert "`PREFIX_TUNING`, expected `LORA`" in message


def trained_by_peft(model, adapter, **options):
    """Train an adapter with peft alone, and save it."""
    trained = peft.get_peft_model(model, peft.LoraConfig(r=4, **options))
    train(trained)
    trained.save_pretrained(str(adapter))
    return trained


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
def test_what_peft_trained_gives_its_vectors_also_merged(
    option, save_model, no_texts, tmp_path
):
    directory = save_model("bert")
    options = {"target_modules": ["query", "key"], "init_lora_weights": False, **option}
    model = transformers.AutoModel.from_pretrained(directory, add_pooling_layer=False)
    expected = encoded(trained_by_peft(model, tmp_path / "adapter", **options))

    backbone = Bert(model=str(directory), adapter=str(tmp_path / "adapter"))
    built = backbone.build(no_texts)
    _, merged = built.merged()
    for module in (built.module, merged.module):
        torch.testing.assert_close(encoded(module), expected, rtol=0, atol=1e-5)


@peft_itself
@pytest.mark.parametrize("pattern", [None, "rank_pattern", "alpha_pattern"])
@pytest.mark.parametrize(
    ("kind", "headed_class", "layers"),
    [
        ("llama", transformers.LlamaForCausalLM, "model.layers"),
        ("opt", transformers.OPTForCausalLM, "model.decoder.layers"),
    ],
)
def test_an_adapter_of_the_model_with_a_head_is_taken(
    kind, headed_class, layers, pattern, save_model, backbone_of, no_texts, tmp_path
):
    """Initialisations such as EVA name each layer in full, with a rank and an alpha of its own."""
    directory = save_model(kind)
    headed = headed_class.from_pretrained(directory)
    headed.save_pretrained(directory)
    options = {"target_modules": ["q_proj", "v_proj", "fc1", "up_proj"]}
    if pattern is not None:
        options[pattern] = {f"{layers}.1.self_attn.q_proj": 2}
    config = peft.LoraConfig(
        r=4, task_type="CAUSAL_LM", init_lora_weights=False, **options
    )
    trained = peft.get_peft_model(headed, config)
    trained.save_pretrained(str(tmp_path / "adapter"))
    expected = encoded(trained.get_base_model().model)

    plain = backbone_of(kind, directory)
    built = attrs.evolve(plain, adapter=str(tmp_path / "adapter")).build(no_texts)
    assert torch.equal(encoded(built.module), expected)
    without = encoded(plain.build(no_texts).module)
    assert not torch.allclose(expected, without, atol=0.1)


# --- merged, and in four bits ------------------------------------------------------------------------------


@pytest.mark.sweep(3)
@pytest.mark.parametrize("lora", [SMALL, None], ids=["lora", "plain"])
@pytest.mark.parametrize(
    ("kind", "dtype", "tolerance"),
    [
        ("opt", "fp32", 1e-5),
        ("opt", "bf16", 0.2),
        ("llama", "fp32", 1e-5),
        ("bert", "fp32", 1e-5),
        ("gpt2", "fp32", 1e-5),
    ],
)
def test_merged_four_bits_give_the_same_vectors_and_the_original_stays(
    kind, dtype, tolerance, lora, build
):
    built = build(kind, lora=lora, dtype=dtype, **NF4)
    if lora is not None:
        train(built.module)
    expected, before = encoded(built.module), tensors(built.model)
    _, merged = built.merged()
    assert type(merged.model) is type(build(kind).model)
    assert not layers_of(merged.model, LoraLayer)
    torch.testing.assert_close(encoded(merged.module), expected, rtol=0, atol=tolerance)
    assert changed(before, tensors(built.model)) == set()
    assert torch.equal(encoded(built.module), expected)


@peft_itself
def test_an_adapter_that_changed_the_base_is_merged_over_four_bits_once(
    save_model, no_texts, tmp_path
):
    directory = save_model("opt", **WIDE["opt"])
    model = transformers.AutoModel.from_pretrained(directory)
    options = {"target_modules": ["q_proj"], "init_lora_weights": "olora"}
    trained_by_peft(model, tmp_path / "adapter", **options)
    backbone = Opt(model=str(directory), adapter=str(tmp_path / "adapter"), **NF4)
    built = backbone.build(no_texts)
    _, merged = built.merged()
    expected = encoded(built.module)
    torch.testing.assert_close(encoded(merged.module), expected, rtol=0, atol=1e-5)


def test_merged_weights_are_the_sum_in_fp32_and_rotary_frequencies_keep_their_precision(
    build,
):
    built = build("llama", lora=SMALL, dtype="bf16")
    train(built.module)
    layer = built.model.get_base_model().layers[1].mlp.down_proj
    a = layer.lora_A["default"].weight
    b = layer.lora_B["default"].weight
    weight = layer.get_base_layer().weight
    _, merged = built.merged()
    expected = (weight.float() + 4 * (b @ a)).bfloat16()
    assert torch.equal(merged.model.layers[1].mlp.down_proj.weight, expected)
    assert {p.dtype for p in merged.model.parameters()} == {torch.bfloat16}
    plain = build("llama").model
    frequencies = merged.model.rotary_emb.inv_freq
    assert torch.equal(frequencies, plain.rotary_emb.inv_freq)


def test_nf4_has_all_linear_layers_in_four_bits_with_double_quantisation(build):
    model = build("opt", dtype="bf16", **NF4).model
    linear = layers_of(build("opt").model, torch.nn.Linear)
    assert len(linear) >= 12
    for name in linear:
        state = model.get_submodule(name).weight.quant_state
        assert state.quant_type == "nf4"
        assert state.nested


def gradients(built):
    built.module.zero_grad()
    hidden(built.module.train())[:, 0].sum().backward()
    values = {}
    for name, parameter in built.module.named_parameters():
        if parameter.grad is not None:
            values[name] = parameter.grad.clone()

    return values


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["opt", "llama"])
def test_encoding_between_steps_leaves_the_gradients_over_four_bits(kind, build):
    built = build(kind, lora=SMALL, dtype="bf16", **NF4)
    for name, parameter in built.module.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, 0, 0.1)
    before = gradients(built)
    encoded(built.module)
    after = gradients(built)
    assert len(before) >= 16
    assert before.keys() == after.keys()
    for name, gradient in before.items():
        assert torch.equal(gradient, after[name]), name


# --- frozen parts ------------------------------------------------------------------------------------------

FROZEN = {
    "bert": (("embeddings.",), "encoder.layer.0."),
    "t5": (("shared.", "encoder.embed_tokens."), "encoder.block.0."),
    "opt": (("decoder.embed_tokens.", "decoder.embed_positions."), "decoder.layers.0."),
    "llama": (("embed_tokens.",), "layers.0."),
    "gpt2": (("wte.", "wpe."), "h.0."),
}
"""Kind -> beginnings of the names of embeddings, and of the first layer."""


@pytest.mark.parametrize(
    ("kind", "needs"), [("t5", ("decoder",)), *[(kind, ()) for kind in KINDS]]
)
@pytest.mark.parametrize("embeddings", [True, False])
@pytest.mark.parametrize("layers", [0, 1])
def test_a_step_changes_all_but_what_is_frozen(kind, needs, embeddings, layers, build):
    built = build(kind, needs, freeze=Freeze(embeddings=embeddings, layers=layers))
    before = tensors(built.model)
    train(built.module, steps=1)
    embedding_names, first_layer = FROZEN[kind]
    starts = ()
    if embeddings:
        starts += embedding_names
    if embeddings and needs:
        starts += ("decoder.embed_tokens.",)
    if layers:
        starts += (first_layer,)
    frozen = {name for name in before if name.startswith(starts)}
    assert before.keys() - changed(before, tensors(built.model)) == frozen


def test_all_layers_can_be_frozen_and_more_are_an_error(build):
    built = build("opt", freeze=Freeze(layers=2))
    layers = built.model.decoder.layers
    for parameter in layers.parameters():
        assert not parameter.requires_grad
    with pytest.raises(ModelError, match="`layers` is 3, the model has 2 layers"):
        build("opt", freeze=Freeze(layers=3))


def test_the_adapters_of_frozen_layers_are_frozen_with_them(build):
    built = build("bert", lora=SMALL, freeze=Freeze(layers=1))
    for name, parameter in built.model.named_parameters():
        is_adapter = "lora_" in name
        assert parameter.requires_grad == (is_adapter and ".layer.1." in name), name
