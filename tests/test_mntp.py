"""Masked next-token prediction, from a recipe to the weights, against transformers' own loss."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentbed
import torch
import transformers
from paper_runs import local
from run_logs import finished_steps
from sentbed import Encoder
from sentbed._recipe.recipe import EncoderRecipe
from sentbed.protocols import Head, Training
from sentbed_backbones._torch.train_tokenizer import train_byte_bpe
from sentbed_backbones.adaptation import LoRA
from sentbed_backbones.bert import Bert
from sentbed_backbones.causal import Causal
from sentbed_backbones.opt import Opt
from sentbed_hardware._torch.token_prediction import Corrupted
from sentbed_hardware.adamw import AdamW
from sentbed_hardware.cpu import Cpu
from sentbed_hardware.learning_rate_schedules import Constant
from sentbed_losses.mntp import MNTP
from sentbed_poolers.mean import Mean
from sentbed_testing import SENTENCES
from sentbed_tpu.tpu import Tpu
from sentbed_workbench.resource_plan import plan

pytestmark = pytest.mark.slow

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "initializer_range": 0.2,
}
SHAPES: dict[str, dict[str, Any]] = {
    "llama": {**SMALL, "intermediate_size": 64, "num_key_value_heads": 2},
    "mistral": {
        **SMALL,
        "intermediate_size": 64,
        "num_key_value_heads": 2,
        "sliding_window": 4,
    },
    "opt": {**SMALL, "ffn_dim": 64, "word_embed_proj_dim": 32, "init_std": 0.2},
    "bert": {**SMALL, "intermediate_size": 64},
}
CLASSES: dict[str, Any] = {"llama": Causal, "mistral": Causal, "opt": Opt, "bert": Bert}


@pytest.fixture
def save_whole(tmp_path):
    """Save a random model with its head and a tokenizer; BERT's has a mask token, the others' have none."""

    def save(kind):
        torch.manual_seed(0)
        specials = {
            "unk_token": "<unk>",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "pad_token": "<pad>",
        }
        if kind == "bert":
            specials |= {"mask_token": "<mask>"}
        tokenizer = train_byte_bpe(SENTENCES, 400, specials, "<s> $A")
        config = transformers.AutoConfig.for_model(
            kind,
            vocab_size=len(tokenizer),
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            **SHAPES[kind],
        )
        auto = (
            transformers.AutoModelForMaskedLM
            if kind == "bert"
            else transformers.AutoModelForCausalLM
        )
        model = auto.from_config(config)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, float(parameter.ndim == 1), 0.2)
        model.save_pretrained(tmp_path / kind)
        tokenizer.save_pretrained(tmp_path / kind)
        return tmp_path / kind

    return save


def placed(kind, directory, **fields):
    engine = Cpu(threads=1).build()
    engine.seed(3)
    if kind != "bert":
        fields = {"attention": "bidirectional", **fields}
    backbone = CLASSES[kind](model=str(directory), dropout=0.0, **fields)
    return Encoder.build(
        EncoderRecipe(backbone, Mean(), Head(), 32), engine, lambda: SENTENCES
    )


def trainer_of(encoder, loss, **more):
    training = Training(
        loss, AdamW(lr=1e-3), Constant(), 10, {"anchor": "encoder"}, **more
    )
    return encoder.engine.trainer({"encoder": encoder.placed}, training)


def seeded_gradients(encoder, loss, tokens, **more):
    """Loss and gradients, with the masking that `corrupted_of` repeats."""
    trainer = trainer_of(encoder, loss, **more)
    torch.manual_seed(11)
    return trainer.gradients({"anchor": tokens})


def corrupted_of(encoder, loss, tokens):
    """Padded ids as they are read, their mask, and labels as transformers has them: -100 where none is."""
    head = encoder.backbone.prediction_head()
    torch.manual_seed(11)
    special = torch.isin(
        torch.from_numpy(tokens.ids).long(), torch.tensor(head.special_ids)
    )
    read, chosen = loss.build(32).corrupt(
        torch.from_numpy(tokens.ids).long(), special, head
    )
    assert chosen.any()
    longest = int(tokens.lengths.max())
    ids = torch.full((len(tokens), longest), encoder.backbone.tokenizer.pad_id)
    mask, labels = torch.zeros_like(ids), torch.full_like(ids, -100)
    for row, start in enumerate(tokens.offsets[:-1].tolist()):
        for place in range(int(tokens.lengths[row])):
            ids[row, place] = read[start + place]
            mask[row, place] = 1
            if chosen[start + place]:
                labels[row, place] = int(tokens.ids[start + place])
    return ids, mask, labels


LOSS = MNTP(probability=0.4)


@pytest.mark.parametrize("kind", SHAPES)
def test_loss_and_gradients_are_those_of_transformers(kind, save_whole):
    """Its shifted loss of the whole model, head included, under the same masks; BERT's is not shifted."""
    directory = save_whole(kind)
    encoder = placed(kind, directory)
    tokens = encoder.tokenizer().encode(SENTENCES[:7], 32)
    value, gradients = seeded_gradients(encoder, LOSS, tokens)
    ids, mask, labels = corrupted_of(encoder, LOSS, tokens)
    auto = (
        transformers.AutoModelForMaskedLM
        if kind == "bert"
        else transformers.AutoModelForCausalLM
    )
    whole = auto.from_pretrained(directory)
    if kind != "bert":
        # A sliding window stays, on both sides.
        whole.config.is_causal = False
    # It is what the shares of masked, random and kept tokens leave that is predicted, not the special ones.
    theirs = whole.eval()(input_ids=ids, attention_mask=mask, labels=labels).loss
    theirs.backward()
    assert value == pytest.approx(theirs.item(), rel=1e-5)
    expected = dict(whole.base_model.named_parameters())
    assert len(gradients) > 10
    largest = max(
        float(p.grad.abs().max()) for p in expected.values() if p.grad is not None
    )
    for name, gradient in gradients.items():
        other = expected[name.removeprefix("encoder.backbone.model.")].grad
        assert other is not None, name
        assert np.abs(gradient - other.numpy()).max() < 1e-5 * largest, name


@pytest.mark.parametrize("kind", ["llama", "opt"])
@pytest.mark.parametrize("micro_batch", [1, 3])
def test_a_micro_batch_changes_neither_loss_nor_gradient(kind, micro_batch, save_whole):
    encoder = placed(kind, save_whole(kind))
    tokens = encoder.tokenizer().encode(SENTENCES[:7], 32)
    whole, parts = (
        seeded_gradients(encoder, LOSS, tokens, micro_batch=rows)
        for rows in (None, micro_batch)
    )
    assert parts[0] == pytest.approx(whole[0], rel=1e-6)
    largest = max(np.abs(value).max() for value in whole[1].values())
    assert parts[1].keys() == whole[1].keys()
    for name, value in whole[1].items():
        assert np.abs(parts[1][name] - value).max() < 1e-5 * largest, name


@pytest.mark.parametrize("kind", ["llama", "opt"])
def test_under_an_adapter_the_head_stays_as_it_is_and_the_pooler_untouched(
    kind, save_whole
):
    encoder = placed(kind, save_whole(kind), lora=LoRA(r=4))
    trainer = trainer_of(encoder, LOSS)
    assert all("lora" in name for name in trainer.parameters)
    head = trainer.heads["encoder"]
    assert not any(parameter.requires_grad for parameter in head.parameters())
    before = {name: value.clone() for name, value in head.named_parameters()}
    tokens = encoder.tokenizer().encode(SENTENCES[:7], 32)
    losses = [trainer.step({"anchor": tokens}).loss for _ in range(2)]
    assert np.isfinite(losses).all()
    assert before
    assert all(
        torch.equal(value, before[name]) for name, value in head.named_parameters()
    )


def test_a_tied_head_is_the_embedding_itself(save_whole):
    encoder = placed("opt", save_whole("opt"))
    trainer = trainer_of(encoder, LOSS)
    built = encoder.backbone
    words = built.model.get_input_embeddings().weight
    assert any(
        parameter is words for parameter in trainer.heads["encoder"].parameters()
    )


def test_only_tokens_that_are_not_special_are_chosen_and_none_before_the_first_state(
    save_whole,
):
    encoder = placed("llama", save_whole("llama"))
    tokens = encoder.tokenizer().encode(SENTENCES, 32)
    loss = MNTP(probability=1.0, masked=1.0, random=0.0)
    head = encoder.backbone.prediction_head()
    assert built_tokenizer(encoder).convert_ids_to_tokens(head.mask_id) == "_"
    training = Training(loss, AdamW(lr=1e-3), Constant(), 10, {"anchor": "encoder"})
    corrupted = Corrupted(tokens, loss.build(32), head, training)
    assert len(corrupted.ids) == len(tokens.ids) - len(tokens)
    assert (corrupted.places >= 0).all()
    firsts = corrupted.read.ids[tokens.offsets[:-1]]
    assert set(firsts.tolist()) == {built_tokenizer(encoder).bos_token_id}
    others = np.delete(corrupted.read.ids, tokens.offsets[:-1])
    assert set(others.tolist()) == {head.mask_id}
    starts = tokens.offsets[corrupted.texts]
    np.testing.assert_array_equal(
        tokens.ids[starts + corrupted.places + 1], corrupted.ids
    )


def built_tokenizer(encoder):
    tokenizer = encoder.backbone.tokenizer
    return tokenizer.original


RECIPE = """\
schema = 1
run = {{ name = "mntp" }}
runtime = {{ use = "{runtime}" }}
[encoder]
backbone = {backbone}
pooler = {{ use = "mean" }}
max_length = 32
[[stage]]
name = "mntp"
data = {{ use = "sample" }}
loss = {{ use = "mntp" }}
optimizer = {{ use = "adamw", lr = 1e-3 }}
schedule = {{ use = "constant" }}
batch_size = 8
steps = 12
[[stage]]
name = "contrast"
data = {{ use = "sample" }}
loss = {{ use = "info-nce" }}
optimizer = {{ use = "adamw", lr = 1e-4 }}
schedule = {{ use = "constant" }}
batch_size = 8
steps = 2
"""


@pytest.mark.parametrize(
    ("backbone", "runtime", "reason"),
    [
        ('{ use = "t5", init = "random" }', "cpu", "`t5` has no trained head"),
        ('{ use = "causal", init = "random" }', "cpu", "`causal` has no trained head"),
        (
            '{ use = "opt", init = "random", layers = [1] }',
            "cpu",
            "`opt` has no trained head",
        ),
        (
            '{ use = "opt", init = "random" }',
            "tpu",
            "the runtime `tpu` as set here trains no such loss",
        ),
    ],
)
def test_check_refuses_what_cannot_predict(backbone, runtime, reason, tmp_path):
    file = tmp_path / "recipe.toml"
    file.write_text(RECIPE.format(backbone=backbone, runtime=runtime))
    with pytest.raises(
        sentbed.RecipeError, match=f"`mntp` predicts tokens, and {reason}"
    ):
        sentbed.load_recipe(file)


def test_check_refuses_several_processes(tmp_path):
    file = tmp_path / "recipe.toml"
    file.write_text(
        RECIPE.format(backbone='{ use = "opt", init = "random" }', runtime="cuda")
    )
    sentbed.load_recipe(file)
    with pytest.raises(
        sentbed.RecipeError, match="the runtime `cuda` as set here trains no such loss"
    ):
        sentbed.load_recipe(file, ["runtime.devices=2"])


@pytest.mark.jax
def test_the_engine_on_jax_refuses_it_too(save_whole):
    pytest.importorskip("torchax")
    engine = Tpu(platform="cpu", precision="fp32").build()
    part = EncoderRecipe(Opt(model=str(save_whole("opt"))), Mean(), Head(), 32)
    encoder = Encoder.build(part, engine, lambda: SENTENCES)
    with pytest.raises(
        sentbed.RunError,
        match="predicts tokens, and the engine on JAX cannot train that",
    ):
        trainer_of(encoder, LOSS)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
def test_a_stage_of_contrast_goes_on_with_the_weights_of_the_prediction(
    lora, save_whole, tmp_path
):
    directory = save_whole("llama")
    backbone = f'{{ use = "causal", model = "{directory}", attention = "bidirectional", dropout = 0.0'
    backbone += ", lora = { r = 4 } }" if lora else " }"
    file = tmp_path / "recipe.toml"
    file.write_text(RECIPE.format(backbone=backbone, runtime="cpu"))
    rate = ["stage.mntp.optimizer.lr=0.02"] if lora else []
    sentbed.run(sentbed.load_recipe(file, rate), tmp_path / "run")
    steps = finished_steps(tmp_path / "run")
    assert [step["stage"] for step in steps] == ["mntp"] * 12 + ["contrast"] * 2
    first = [step["loss"] for step in steps[:12]]
    assert np.mean(first[-4:]) < np.mean(first[:4])
    encoder = Encoder.load(tmp_path / "run" / "encoder")
    start = placed("llama", directory)
    assert np.abs(encoder.encode(SENTENCES) - start.encode(SENTENCES)).max() > 1e-3


def test_llm2vecs_recipe_runs_on_a_small_llama(save_whole, tmp_path):
    file = (
        Path(__file__).parent.parent / "recipes" / "papers" / "prompts" / "llm2vec.toml"
    )
    written = tomllib.loads(file.read_text("utf-8"))
    settings = [
        *local(written, tmp_path),
        f"encoder.backbone.model={save_whole('llama')}",
        "encoder.max_length=32",
        "stage.simcse.max_length=24",
        "stage.simcse.micro_batch=3",
        "runtime.precision=fp32",
        *(
            f"stage.{i}.{key}={value}"
            for i in (0, 1)
            for key, value in (("steps", 2), ("batch_size", 8))
        ),
    ]
    recipe = sentbed.load_recipe(file, settings)
    result = sentbed.run(recipe, tmp_path / "run")
    steps = [(step["stage"], step["step"]) for step in finished_steps(result.directory)]
    assert steps == [("mntp", 1), ("mntp", 2), ("simcse", 1), ("simcse", 2)]
    assert {score.protocol["encoder"]["attention"] for score in result.scores} == {
        "bidirectional"
    }


def test_a_run_that_was_stopped_masks_the_tokens_that_it_would_have_masked(
    tmp_path,
):
    backbone = '{ use = "opt", init = "random", attention = "bidirectional", vocab_size = 400 }'
    file = tmp_path / "recipe.toml"
    file.write_text(RECIPE.format(backbone=backbone, runtime="cpu"))
    recipe = sentbed.load_recipe(file)
    losses = []
    for name, resumes in (("whole", False), ("stopped", True)):
        out = tmp_path / name
        encoder = train_some(recipe, out, resumes)
        losses.append(encoder.encode(SENTENCES))
    np.testing.assert_array_equal(*losses)


def train_some(recipe, out, resumes):
    """Train in one go, or with the trainer's state saved and loaded after five steps."""
    engine = Cpu(threads=1).build()
    engine.seed(3)
    part = recipe.encoders["encoder"]
    encoder = Encoder.build(part, engine, lambda: SENTENCES)
    trainer = trainer_of(encoder, LOSS)
    tokens = encoder.tokenizer().encode(SENTENCES[:7], 32)
    for step in range(8):
        if step == 5 and resumes:
            (out / "state").mkdir(parents=True)
            trainer.save(out / "state")
            torch.manual_seed(999)
            trainer = trainer_of(encoder, LOSS)
            trainer.load(out / "state")
        trainer.step({"anchor": tokens})
    return encoder


@pytest.mark.slow
def test_a_plan_says_what_it_leaves_out(tmp_path):
    file = tmp_path / "recipe.toml"
    file.write_text(
        RECIPE.format(backbone='{ use = "opt", init = "random" }', runtime="cpu")
    )
    first, second = plan(sentbed.load_recipe(file)).stages
    assert [
        problem
        for problem in first.problems
        if "memory and time of their logits are left out" in problem
    ]
    assert not second.problems
    assert first.memory["activations"] > 0
