from __future__ import annotations

import copy
import math
from itertools import chain
from typing import ClassVar

import attrs
import numpy as np
import pytest
import torch
from sentbed import RunError
from sentbed.protocols import Head, Loss, LossOutput
from sentbed_hardware.adafactor import Adafactor
from sentbed_hardware.adamw import AdamW
from sentbed_hardware.learning_rate_schedules import Linear
from transformers.optimization import Adafactor as TransformersAdafactor

ANCHORS = (
    "a small house by the sea",
    "rain",
    "two birds sing in a tree today",
    "they play chess",
)


# training


def adamw_by_hand(module):
    decayed = [
        module.backbone.words.weight,
        module.backbone.dense.weight,
        module.projection.weight,
    ]
    kept = [module.backbone.dense.bias, module.projection.bias]
    groups = [
        {"params": decayed, "weight_decay": 0.1},
        {"params": kept, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups, lr=1.0, betas=(0.9, 0.98), eps=1e-6, fused=False, foreach=False
    )


def adafactor_by_hand(module):
    return TransformersAdafactor(
        module.parameters(),
        lr=1.0,
        scale_parameter=False,
        relative_step=False,
        weight_decay=0.01,
    )


@pytest.mark.parametrize(
    ("optimizer", "reference"),
    [
        (AdamW(lr=1e-2, beta2=0.98, eps=1e-6, weight_decay=0.1), adamw_by_hand),
        (
            Adafactor(lr=1e-2, scale_parameter=False, weight_decay=0.01),
            adafactor_by_hand,
        ),
    ],
)
@pytest.mark.parametrize("max_grad_norm", [0.0, 0.3])
def test_five_steps_are_those_of_a_loop_by_hand(
    toys,
    engine,
    assemble,
    columns,
    optimizer,
    reference,
    max_grad_norm,
):
    encoder = assemble(Head(projection=6, bias=True, normalize=True))
    module, loss = copy.deepcopy(encoder.module), toys.loss().build(6)
    trainer = toys.train(
        encoder,
        toys.loss(),
        optimizer,
        schedule=Linear(2),
        total_steps=6,
        max_grad_norm=max_grad_norm,
    )
    by_hand = reference(module)
    before = toys.weights_of(encoder)
    for rate in (0.0, 0.5, 1.0, 0.75, 0.5):
        result = trainer.step(columns)

        by_hand.zero_grad()
        output = loss(toys.forward(module, engine.placement, columns))
        output.loss.backward()
        norm = torch.cat([p.grad.flatten() for p in module.parameters()]).norm().item()
        if max_grad_norm:
            assert norm > max_grad_norm
            for parameter in module.parameters():
                parameter.grad.mul_(max_grad_norm / norm)
        for group in by_hand.param_groups:
            group["lr"] = 1e-2 * rate
        by_hand.step()

        assert result.loss == pytest.approx(output.loss.item(), rel=1e-5)
        assert result.learning_rate == pytest.approx(1e-2 * rate)
        assert result.grad_norm == pytest.approx(norm, rel=1e-5)
        assert result.metrics == {
            "accuracy": pytest.approx(output.metrics["accuracy"].item())
        }
    expected = module.state_dict()
    for name, value in toys.weights_of(encoder).items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-6)
        assert (value - before[name]).abs().max() > 1e-3, name


def test_a_loss_trains_its_own_weights(toys, assemble, columns):
    trainer = toys.train(
        assemble(), toys.loss(temperature=0.2, learned=True), toys.sgd(lr=0.1)
    )
    start = trainer.loss.log_temperature.item()
    reference = copy.deepcopy(trainer.loss)
    with torch.no_grad():
        vectors = toys.forward(
            trainer.towers["encoder"].module, trainer.placement, columns
        )
    reference(vectors).loss.backward()
    trainer.step(columns)
    slope = reference.log_temperature.grad.item()
    assert abs(slope) > 1e-3
    assert trainer.loss.log_temperature.item() == pytest.approx(
        start - 0.1 * slope, rel=1e-5
    )


def test_a_parameter_of_the_loss_may_have_a_rate_of_its_own(toys, assemble, columns):
    loss = toys.loss(temperature=0.2, learned=True, lr=0.05)
    trainer = toys.train(
        assemble(), loss, AdamW(lr=0.01), schedule=Linear(), total_steps=4
    )
    _, gradients = trainer.gradients(columns)
    slope = float(gradients["loss.log_temperature"])
    trainer.step(columns)
    # The first update of Adam is the sign of the gradient.
    before = math.log(0.2) - 0.05 * math.copysign(1, slope)
    temperature = trainer.loss.log_temperature
    assert temperature.item() == pytest.approx(before, rel=1e-5)

    trainer.step(columns)
    *groups, last_group = trainer.optimizer.param_groups
    assert last_group["lr"] == pytest.approx(0.05 * 3 / 4)
    # At the rate of the optimiser, a step would move it by 0.0075 at most.
    assert abs(temperature.item() - before) > 0.015
    in_other_groups = sum(len(group["params"]) for group in groups)
    assert in_other_groups == len(trainer.parameters) - 1


class CuspModule(torch.nn.Module):
    """Zero, with a gradient that is not finite."""

    def forward(self, inputs):
        anchor = inputs["anchor"]
        return LossOutput((anchor - anchor.detach()).square().sum().sqrt(), {})


@attrs.frozen
class Cusp(Loss):
    name: ClassVar[str] = "toy-cusp"
    columns = frozenset({"anchor"})

    def build(self, width):
        return CuspModule()


def test_a_step_whose_gradient_is_not_finite_changes_no_weight(toys, assemble, columns):
    encoder = assemble()
    trainer = toys.train(encoder, Cusp(), AdamW(lr=1e-2))
    before = toys.weights_of(encoder)
    result = trainer.step({"anchor": columns["anchor"]})

    assert result.loss == 0
    assert not math.isfinite(result.grad_norm)
    for name, value in toys.weights_of(encoder).items():
        assert torch.equal(value, before[name])


def test_vectors_after_a_step_are_those_of_the_new_weights(
    toys, engine_of, assemble, columns
):
    encoder = assemble(on=engine_of(torch.bfloat16))
    batch = toys.batch(*ANCHORS)
    before = encoder.encode(batch)
    toys.train(encoder, toys.loss(), AdamW(lr=1e-1)).step(columns)
    other = assemble(on=engine_of(torch.bfloat16), seed=1)
    other.module.load_state_dict(encoder.module.state_dict())

    vectors = encoder.encode(batch)
    np.testing.assert_array_equal(vectors, other.encode(batch))
    assert abs(vectors - before).max() > 0.01


def test_frozen_weights_stay(toys, assemble, columns):
    encoder = assemble()
    encoder.module.backbone.words.requires_grad_(False)
    before = toys.weights_of(encoder)
    toys.train(encoder, toys.loss(), AdamW(lr=1e-2, weight_decay=0.5)).step(columns)
    after = toys.weights_of(encoder)
    assert torch.equal(after["backbone.words.weight"], before["backbone.words.weight"])
    assert not torch.equal(
        after["backbone.dense.weight"], before["backbone.dense.weight"]
    )


def test_one_text_in_two_columns_gets_two_dropout_masks(toys, assemble):
    trainer = toys.train(assemble(dropout=0.5), toys.loss(), AdamW(lr=1e-2))
    tokens = toys.tokens(*ANCHORS)
    trainer.step({"anchor": tokens, "positive": tokens})
    (seen,) = trainer.loss.seen
    assert not torch.allclose(seen["anchor"], seen["positive"])


# bf16


def test_bf16_training_keeps_fp32_weights_states_and_vectors(
    toys,
    engine_of,
    assemble,
    columns,
):
    exact = toys.train(assemble(), toys.loss(), AdamW(lr=1e-2)).step(columns)
    encoder = assemble(on=engine_of(torch.bfloat16))
    trainer = toys.train(encoder, toys.loss(), AdamW(lr=1e-2))
    dtypes = set()
    encoder.module.backbone.dense.register_forward_hook(
        lambda *arguments: dtypes.add(arguments[2].dtype)
    )
    results = [trainer.step(columns) for _ in range(5)]
    assert dtypes == {torch.bfloat16}
    assert results[0].loss == pytest.approx(exact.loss, rel=0.02)
    assert results[-1].loss < results[0].loss
    for parameter in encoder.module.parameters():
        moments = trainer.optimizer.state[parameter]
        for value in (parameter, moments["exp_avg"], moments["exp_avg_sq"]):
            assert value.dtype == torch.float32
            assert torch.isfinite(value).all()
    for inputs in trainer.loss.seen:
        assert {value.dtype for value in inputs.values()} == {torch.float32}


@pytest.mark.parametrize("normalize", [False, True])
def test_bf16_training_projects_in_fp32_as_encoding_does(
    toys,
    engine_of,
    assemble,
    columns,
    normalize,
):
    engine = engine_of(torch.bfloat16)
    encoder = assemble(Head(projection=6, bias=True, normalize=normalize), on=engine)
    module = copy.deepcopy(encoder.module)
    trainer = toys.train(encoder, toys.loss(), AdamW(lr=1e-2))
    trainer.step(columns)
    with torch.no_grad():
        with torch.autocast("cpu", torch.bfloat16):
            tensors = engine.placement.tensors(toys.batch(*ANCHORS))
            states = module.backbone(*tensors)
        in_fp32 = states._replace(last_hidden_state=states.last_hidden_state.float())
        expected = module.projection(module.pooler(in_fp32))
        if normalize:
            expected = torch.nn.functional.normalize(expected, dim=-1)
    torch.testing.assert_close(
        trainer.loss.seen[0]["anchor"], expected, rtol=0, atol=1e-5
    )


# encoding


@pytest.mark.parametrize("head", [Head(projection=3), Head(projection=3, dimensions=2)])
def test_the_loss_is_built_for_the_width_of_the_vectors_in_training(
    toys, assemble, head
):
    trainer = toys.train(assemble(head), toys.loss(memory=6), AdamW(lr=1e-2))
    assert trainer.loss_state["memory"].shape == (6, 3)


SHORT = tuple(f"text {number}" for number in range(16))
LONG = tuple(f"word{number} " * 29 for number in range(16))
MIXED = tuple(chain.from_iterable(zip(SHORT, LONG, strict=True)))


@pytest.mark.parametrize(
    ("texts", "passes"),
    [
        ((("a b", "a"), ("c d e f", "g")), 1),
        ((("a b", "c d"), ("e", "f")), 1),
        ((("a b", "c d"), ("e f", "g h")), 1),
        ((SHORT, LONG), 2),
        ((LONG, SHORT), 2),
        ((MIXED, MIXED[::-1], SHORT + LONG), 2),
    ],
)
def test_the_loss_gets_each_text_in_its_place_whatever_shares_its_forward_pass(
    toys,
    engine,
    assemble,
    texts,
    passes,
):
    encoder = assemble()
    names = ("anchor", "positive", "negative")
    columns = {}
    for name, column in zip(names, texts, strict=False):
        columns[name] = toys.tokens(*column)
    with torch.no_grad():
        expected = toys.forward(encoder.module, engine.placement, columns)
    lengths = []
    encoder.module.backbone.register_forward_pre_hook(
        lambda _, args: lengths.append(args[0].shape[1])
    )
    trainer = toys.train(encoder, toys.loss(), AdamW(lr=1e-2))
    trainer.step(columns)
    assert len(lengths) == len(set(lengths)) == passes
    (seen,) = trainer.loss.seen
    assert list(seen) == list(columns)
    for name, vectors in seen.items():
        torch.testing.assert_close(vectors, expected[name], rtol=0, atol=1e-6)


def test_the_gradient_of_two_forward_passes_is_that_of_one(toys, engine, assemble):
    encoder = assemble()
    columns = {"anchor": toys.tokens(*MIXED), "positive": toys.tokens(*SHORT, *LONG)}
    module, loss = copy.deepcopy(encoder.module), toys.loss().build(6)
    before = toys.weights_of(encoder)
    toys.train(encoder, toys.loss(), toys.sgd(lr=1.0)).step(columns)
    loss(toys.forward(module, engine.placement, columns)).loss.backward()
    for name, parameter in module.named_parameters():
        moved = before[name] - toys.weights_of(encoder)[name]
        torch.testing.assert_close(moved, parameter.grad, rtol=1e-4, atol=1e-6)


def test_passes_of_a_step_share_the_weights_that_are_cast_to_bf16(
    toys, engine_of, assemble
):
    encoder = assemble(on=engine_of(torch.bfloat16))
    columns = {"anchor": toys.tokens(*MIXED), "positive": toys.tokens(*SHORT, *LONG)}
    trainer = toys.train(encoder, toys.loss(), AdamW(lr=1e-2))
    shape = encoder.module.backbone.dense.weight.shape
    for_backward = []

    def save(tensor):
        if tensor.dtype == torch.bfloat16 and tensor.shape == shape:
            for_backward.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        trainer.gradients(columns)

    assert len(for_backward) == 2
    assert len({tensor.data_ptr() for tensor in for_backward}) == 1


# several towers, given vectors, labels, state


@pytest.fixture
def pair(assemble):
    return {"zh": assemble(seed=1), "en": assemble(seed=2)}


BOTH = {"anchor": "zh", "positive": "en", "negative": "en"}


def test_each_column_is_encoded_by_its_tower_and_both_are_trained(
    toys,
    engine,
    pair,
    columns,
):
    modules = {name: copy.deepcopy(encoder.module) for name, encoder in pair.items()}
    batch = toys.batch(*ANCHORS)
    before = {name: encoder.encode(batch) for name, encoder in pair.items()}
    trainer = toys.train(pair, toys.loss(), toys.recorder(lr=0.5), towers=BOTH)
    trainer.step(columns)
    (inputs,) = trainer.loss.seen
    (gradients,) = trainer.optimizer.gradients
    assert list(inputs) == list(columns)

    expected = {}
    for column, tower in BOTH.items():
        texts = {column: columns[column]}
        expected |= toys.forward(modules[tower], engine.placement, texts)
        torch.testing.assert_close(inputs[column], expected[column], rtol=0, atol=1e-6)
    toys.loss().build(6)(expected).loss.backward()
    for tower, module in modules.items():
        require_gradients(gradients, module, tower)
    for name, encoder in pair.items():
        assert np.abs(encoder.encode(batch) - before[name]).max() > 1e-4


def require_gradients(gradients, module, tower):
    """Compare recorded gradients with those of a module."""
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(
            gradients[f"{tower}.{name}"], parameter.grad, rtol=1e-4, atol=1e-7
        )


def test_the_gradient_of_both_towers_and_the_loss_is_cut_as_one(toys, pair, columns):
    loss = toys.loss(learned=True)
    trainer = toys.train(pair, loss, toys.recorder(), towers=BOTH, max_grad_norm=0.01)
    result = trainer.step(columns)
    (gradients,) = trainer.optimizer.gradients
    assert {name.split(".")[0] for name in gradients} == {"zh", "en", "loss"}
    total = math.sqrt(sum(value.pow(2).sum().item() for value in gradients.values()))
    assert total == pytest.approx(0.01, rel=1e-3)
    assert result.grad_norm > 0.1


def test_given_vectors_reach_the_loss_as_they_are_and_get_no_gradient(
    toys, assemble, columns
):
    anchor = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    encoder = assemble()
    module = copy.deepcopy(encoder.module)
    trainer = toys.train(
        {"zh": encoder}, toys.loss(), toys.recorder(), towers={"positive": "zh"}
    )
    passed = []
    trainer.loss.register_forward_pre_hook(
        lambda _, args: passed.append(args[0]["anchor"])
    )
    texts = {"positive": columns["positive"]}
    trainer.step({"anchor": anchor, **texts})
    (vectors,) = passed
    assert np.array_equal(vectors.numpy(), anchor)
    assert vectors.dtype == torch.float32
    assert not vectors.requires_grad
    assert list(trainer.loss.seen[0]) == ["anchor", "positive"]

    inputs = toys.forward(module, encoder.placement, texts)
    inputs["anchor"] = torch.tensor(anchor)
    toys.loss().build(6)(dict(sorted(inputs.items()))).loss.backward()
    require_gradients(trainer.optimizer.gradients[0], module, "zh")


def test_the_numbers_of_classes_reach_the_loss_and_its_floats_the_result(
    toys, assemble, columns
):
    trainer = toys.train(assemble(), toys.classes(), AdamW(lr=3e-2))
    del columns["negative"]
    columns["label"] = np.array([0, 2, 1, 2])
    results = [trainer.step(columns) for _ in range(60)]
    assert results[0].loss > 0.5
    assert results[-1].loss < 0.1
    assert results[0].metrics == {"classes": 3.0}


@pytest.mark.parametrize("micro_batch", [None, 1, 3])
def test_numbers_reach_the_loss_as_they_are(
    toys,
    engine,
    assemble,
    columns,
    micro_batch,
):
    scores = np.array([0.2, 1.0, 0.0, 0.7], np.float32)
    encoder = assemble()
    module = copy.deepcopy(encoder.module)
    del columns["negative"]
    vectors = toys.forward(module, engine.placement, columns)
    trainer = toys.train(
        encoder, toys.graded(), toys.sgd(lr=0.5), micro_batch=micro_batch
    )
    columns["score"] = scores
    loss, gradients = trainer.gradients(columns)

    u, v = vectors["anchor"], vectors["positive"]
    cosines = (u * v).sum(1) / (u.norm(dim=1) * v.norm(dim=1))
    expected = (cosines - torch.tensor(scores)).square().mean()
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    for name, parameter in module.named_parameters():
        gradient = torch.from_numpy(gradients[f"encoder.{name}"])
        torch.testing.assert_close(gradient, parameter.grad)
    metrics = trainer.step(columns).metrics
    assert metrics == {"score": pytest.approx(scores.mean())}


def test_a_loss_with_state_is_given_what_it_returned(
    toys,
    engine,
    assemble,
    columns,
):
    encoder = assemble()
    module, loss = copy.deepcopy(encoder.module), toys.loss(memory=6).build(6)
    trainer = toys.train(encoder, toys.loss(memory=6), toys.sgd(lr=0.5))
    state = loss.initial_state()
    for _ in range(4):
        result = trainer.step(columns)
        output = loss(toys.forward(module, engine.placement, columns), state)
        module.zero_grad()
        output.loss.backward()
        state = output.state
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.sub_(0.5 * parameter.grad)
        assert result.loss == pytest.approx(output.loss.item(), rel=1e-4)
        torch.testing.assert_close(trainer.loss_state, state, rtol=0, atol=1e-5)
    assert trainer.loss_state["steps"] == 4


# what cannot be trained


def test_towers_of_different_widths_are_refused(toys, assemble):
    pair = {"zh": assemble(Head(projection=6)), "en": assemble(Head())}
    with pytest.raises(RunError) as caught:
        toys.train(pair, toys.loss(), AdamW(lr=1e-2), towers=BOTH)
    assert str(caught.value) == (
        "vectors of the encoder `zh` have the width 6, those of `en` 8, and the loss compares them; "
        "give both the same width, for example by `head = { projection = 6 }`"
    )


def freeze(module):
    module.requires_grad_(False)


def in_bf16(module):
    module.backbone.dense.to(torch.bfloat16)


def frozen_in_fp16(module):
    module.backbone.requires_grad_(False).to(torch.float16)


@pytest.mark.parametrize(
    ("change", "dtype", "message"),
    [
        (freeze, torch.float32, "nothing in the encoder `en` can be trained: every"),
        (
            in_bf16,
            torch.float32,
            "`en.backbone.dense.weight` is held in torch.bfloat16",
        ),
        (
            frozen_in_fp16,
            torch.bfloat16,
            "the encoder `en` that are held in fp16 cannot",
        ),
    ],
)
def test_an_encoder_that_cannot_be_trained_is_named(
    toys, engine_of, assemble, change, dtype, message
):
    engine = engine_of(dtype)
    pair = {name: assemble(on=engine) for name in ("zh", "en")}
    change(pair["en"].module)
    with pytest.raises(RunError, match=message):
        toys.train(pair, toys.loss(), AdamW(lr=1e-2), towers=BOTH)


def test_an_encoder_that_only_encodes_keys_is_refused(toys, pair):
    with pytest.raises(RunError) as caught:
        toys.train(
            pair,
            toys.momentum(),
            AdamW(lr=1e-2),
            towers={"anchor": "zh", "positive": "en"},
        )
    assert str(caught.value) == (
        "nothing trains the encoder `en`: all its columns (`positive`) are keys for the loss "
        "`toy-momentum`, and a moving average encodes keys without gradient; use the encoder of another "
        "column for them, or freeze this one"
    )
