from __future__ import annotations

import copy
import math
import shutil
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from sentbed import PluginError, RunError
from sentbed.protocols import Head, LossOutput, ParameterSettings
from sentbed_hardware._torch.tower import Tower
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


def test_training_learns_which_pairs_belong_together(toys, assemble, columns):
    trainer = toys.train(assemble(), toys.loss(), AdamW(lr=1e-2))
    results = [trainer.step(columns) for _ in range(40)]
    assert results[-1].loss < 0.1 * results[0].loss
    assert results[-1].metrics["accuracy"] == 1.0


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


def test_a_parameter_of_the_loss_may_have_a_rate_and_a_decay_of_its_own(
    toys, assemble, columns
):
    own = ParameterSettings(lr=0.05, weight_decay=0.2)
    loss = toys.loss(temperature=0.2, learned=True, settings=own)
    trainer = toys.train(
        assemble(), loss, AdamW(lr=0.01), schedule=Linear(), total_steps=4
    )
    plain = toys.train(
        assemble(), toys.loss(temperature=0.2, learned=True), AdamW(lr=0.01)
    )
    start = math.log(0.2)
    _, gradients = trainer.gradients(columns)
    slope = float(gradients["loss.log_temperature"])
    for one in (trainer, plain):
        one.step(columns)
    # The first update of Adam is the sign of the gradient.
    expected = start * (1 - 0.05 * 0.2) - 0.05 * math.copysign(1, slope)
    assert trainer.loss.log_temperature.item() == pytest.approx(expected, rel=1e-5)
    assert plain.loss.log_temperature.item() == pytest.approx(
        start - 0.01 * math.copysign(1, slope), rel=1e-5
    )
    before = trainer.loss.log_temperature.item()
    trainer.step(columns)
    assert trainer.optimizer.param_groups[-1]["lr"] == pytest.approx(0.05 * 3 / 4)
    assert abs(trainer.loss.log_temperature.item() - before) > 0.02
    others = {
        name: value for name, value in trainer.parameters.items() if "loss." not in name
    }
    assert len(others) == sum(
        len(group["params"]) for group in trainer.optimizer.param_groups[:-1]
    )


def test_a_decay_that_the_optimizer_does_not_have_is_refused(toys, assemble):
    loss = toys.loss(learned=True, settings=ParameterSettings(weight_decay=0.1))
    with pytest.raises(
        RunError, match=r"`loss.log_temperature` has a weight decay .* `toy-sgd` has no"
    ):
        toys.train(assemble(), loss, toys.sgd())


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


def test_training_goes_on_with_dropout_after_an_evaluation(toys, assemble, columns):
    encoder = assemble(dropout=0.5)
    trainer = toys.train(encoder, toys.loss(), toys.sgd(lr=1e-12))
    encoder.encode(toys.batch(*ANCHORS))
    assert trainer.step(columns).loss != trainer.step(columns).loss


# bf16


def test_bf16_training_keeps_fp32_weights_states_and_vectors(
    toys,
    engine_of,
    assemble,
    columns,
):
    encoder = assemble(on=engine_of(torch.bfloat16))
    exact = toys.train(assemble(), toys.loss(), AdamW(lr=1e-2)).step(columns)
    products = []
    encoder.module.backbone.dense.register_forward_hook(
        lambda *args: products.append(args[2].dtype)
    )
    trainer = toys.train(encoder, toys.loss(), AdamW(lr=1e-2))
    results = [trainer.step(columns) for _ in range(5)]
    assert set(products) == {torch.bfloat16}
    assert results[0].loss == pytest.approx(exact.loss, rel=0.02)
    assert results[-1].loss < results[0].loss
    for parameter in encoder.module.parameters():
        assert parameter.dtype == torch.float32
        assert torch.isfinite(parameter).all()
        moments = trainer.optimizer.state[parameter]
        assert {moments[key].dtype for key in ("exp_avg", "exp_avg_sq")} == {
            torch.float32
        }
    assert {value.dtype for seen in trainer.loss.seen for value in seen.values()} == {
        torch.float32
    }


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
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        states = module.backbone(*engine.placement.tensors(toys.batch(*ANCHORS)))
    with torch.no_grad():
        expected = module.projection(
            module.pooler(states._replace(last_hidden_state=states[0].float()))
        )
        expected = (
            torch.nn.functional.normalize(expected, dim=-1) if normalize else expected
        )
    torch.testing.assert_close(
        trainer.loss.seen[0]["anchor"], expected, rtol=0, atol=1e-5
    )


# encoding


def test_the_loss_is_built_for_the_width_of_the_vectors(toys, assemble, monkeypatch):
    widths = []
    build = toys.loss.build
    monkeypatch.setattr(
        toys.loss,
        "build",
        lambda self, width: widths.append(width) or build(self, width),
    )
    toys.train(assemble(Head(projection=3)), toys.loss(), AdamW(lr=1e-2))
    toys.train(assemble(Head(projection=3, dimensions=2)), toys.loss(), AdamW(lr=1e-2))
    assert widths == [3, 3]


# saving


SHORT = tuple(f"text {number}" for number in range(16))
LONG = tuple(
    " ".join(f"word{number * place}" for place in range(1, 30)) for number in range(16)
)
MIXED = tuple(text for pair in zip(SHORT, LONG, strict=True) for text in pair)


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
    columns = {
        name: toys.tokens(*column) for name, column in zip(names, texts, strict=False)
    }
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
    toys,
    engine_of,
    assemble,
    monkeypatch,
):
    encoder = assemble(on=engine_of(torch.bfloat16))
    columns = {"anchor": toys.tokens(*MIXED), "positive": toys.tokens(*SHORT, *LONG)}
    trainer = toys.train(encoder, toys.loss(), AdamW(lr=1e-2))
    shape = encoder.module.backbone.dense.weight.shape
    assert len(set(shape)) == 1

    def gradients():
        """Weights that are kept for the backward pass, how many differ, and the gradients."""
        kept = []

        def keep(tensor):
            if tensor.dtype == torch.bfloat16 and tensor.shape == shape:
                kept.append(tensor)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            _, found = trainer.gradients(columns)
        return len(kept), len({tensor.data_ptr() for tensor in kept}), found

    uses, copies, shared = gradients()
    assert (uses, copies) == (2, 1)
    monkeypatch.setattr(Tower, "shared_casts", lambda _: nullcontext())
    uses, copies, alone = gradients()
    assert (uses, copies) == (2, 2)
    for name, gradient in alone.items():
        assert np.array_equal(shared[name], gradient), name


# compiling


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:.torch.jit:DeprecationWarning"
)  # the compiler's own imports
@pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="needs a C++ compiler"
)
def test_compiled_steps_are_those_without_compiling(
    toys,
    engine_of,
    assemble,
    columns,
    tmp_path,
    monkeypatch,
):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    encoders = [assemble(on=engine_of(compile=compile)) for compile in (False, True)]
    trainers = [
        toys.train(encoder, toys.loss(), AdamW(lr=1e-2)) for encoder in encoders
    ]
    shorter = {name: columns[name] for name in ("anchor", "positive")}
    for batch in (columns, shorter):
        plain, compiled = (trainer.step(batch) for trainer in trainers)
        assert compiled.loss == pytest.approx(plain.loss, rel=1e-5)
        assert compiled.grad_norm == pytest.approx(plain.grad_norm, rel=1e-4)
    expected = toys.weights_of(encoders[0])
    for name, value in toys.weights_of(encoders[1]).items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-5)
    vectors = [encoder.encode(toys.batch(*ANCHORS)) for encoder in encoders]
    np.testing.assert_allclose(*vectors, rtol=0, atol=1e-5)


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
    stale = {
        name: encoder.encode(toys.batch(*ANCHORS)) for name, encoder in pair.items()
    }
    trainer = toys.train(pair, toys.loss(), toys.recorder(lr=0.5), towers=BOTH)
    trainer.step(columns)
    vectors = {}
    for column, tower in BOTH.items():
        vectors |= toys.forward(
            modules[tower], engine.placement, {column: columns[column]}
        )
    assert list(trainer.loss.seen[0]) == list(columns)
    for column, expected in vectors.items():
        torch.testing.assert_close(
            trainer.loss.seen[0][column], expected, rtol=0, atol=1e-6
        )
    toys.loss().build(6)(vectors).loss.backward()
    (gradients,) = trainer.optimizer.gradients
    for tower, module in modules.items():
        for name, parameter in module.named_parameters():
            torch.testing.assert_close(
                gradients[f"{tower}.{name}"], parameter.grad, rtol=1e-4, atol=1e-7
            )
    for name, encoder in pair.items():
        assert np.abs(encoder.encode(toys.batch(*ANCHORS)) - stale[name]).max() > 1e-4


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
    given = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    encoder = assemble()
    module = copy.deepcopy(encoder.module)
    trainer = toys.train(
        {"zh": encoder}, toys.loss(), toys.recorder(), towers={"positive": "zh"}
    )
    passed = []
    trainer.loss.register_forward_pre_hook(
        lambda _, args: passed.append(args[0]["anchor"])
    )
    trainer.step({"anchor": given, "positive": columns["positive"]})
    assert np.array_equal(passed[0].numpy(), given)
    assert (passed[0].dtype, passed[0].requires_grad, passed[0].grad) == (
        torch.float32,
        False,
        None,
    )
    assert list(trainer.loss.seen[0]) == ["anchor", "positive"]
    positive = toys.forward(
        module, encoder.placement, {"positive": columns["positive"]}
    )
    toys.loss().build(6)({"anchor": torch.tensor(given), **positive}).loss.backward()
    (gradients,) = trainer.optimizer.gradients
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(
            gradients[f"zh.{name}"], parameter.grad, rtol=1e-4, atol=1e-7
        )


def test_the_numbers_of_classes_reach_the_loss_and_its_floats_the_result(
    toys, assemble, columns
):
    trainer = toys.train(assemble(), toys.classes(), AdamW(lr=3e-2))
    batch = {name: columns[name] for name in ("anchor", "positive")} | {
        "label": np.array([0, 2, 1, 2])
    }
    results = [trainer.step(batch) for _ in range(60)]
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
    scores = [0.2, 1.0, 0.0, 0.7]
    encoder = assemble()
    module = copy.deepcopy(encoder.module)
    batch = {name: columns[name] for name in ("anchor", "positive")}
    trainer = toys.train(
        encoder, toys.graded(), toys.sgd(lr=0.5), micro_batch=micro_batch
    )
    graded = {**batch, "score": np.array(scores, np.float32)}
    loss, gradients = trainer.gradients(graded)
    vectors = toys.forward(module, engine.placement, batch)
    total = torch.zeros(())
    for u, v, score in zip(vectors["anchor"], vectors["positive"], scores, strict=True):
        total = total + ((u * v).sum() / (u.norm() * v.norm()) - score) ** 2
    (total / 4).backward()
    assert loss == pytest.approx(total.item() / 4, rel=1e-5)
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(
            torch.from_numpy(gradients[f"encoder.{name}"]), parameter.grad
        )
    assert trainer.step(graded).metrics == {"score": pytest.approx(sum(scores) / 4)}


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
        torch.testing.assert_close(trainer.state, state, rtol=0, atol=1e-5)
    assert trainer.state["steps"] == 4


@pytest.mark.parametrize("micro_batch", [None, 2])
def test_a_step_that_is_not_finite_changes_nothing(
    toys,
    assemble,
    columns,
    micro_batch,
):
    trainer = toys.train(
        assemble(dropout=0.5),
        toys.momentum(learned=True, memory=6),
        AdamW(lr=1e-2),
        micro_batch=micro_batch,
    )

    def held():
        moments = trainer.optimizer.state.items()
        found = {
            **trainer.parameters,
            **{
                f"average {name}": value
                for name, value in trainer.averages["encoder"].tensors.items()
            },
            **{f"state {name}": value for name, value in trainer.state.items()},
            **{
                f"{id(p)} {key}": value
                for p, state in moments
                for key, value in state.items()
            },
        }
        return {name: value.detach().clone() for name, value in found.items()}

    trainer.step(columns)
    before = held()
    broken = np.full((4, 6), np.nan, np.float32)
    result = trainer.step({**columns, "negative": broken})
    assert math.isnan(result.loss)
    after = held()
    assert before.keys() == after.keys()
    assert len(before) > 20
    assert all(torch.equal(value, before[name]) for name, value in after.items())
    assert math.isfinite(trainer.step(columns).loss)
    assert not torch.equal(held()["state memory"], before["state memory"])


def test_the_numbers_of_texts_go_to_the_loss_as_they_are(toys, assemble, columns):
    trainer = toys.train(assemble(), toys.loss(), toys.sgd(lr=0.1))
    trainer.step({**columns, "anchor.id": np.array([2**63 - 1, 5, 7], np.int64)})
    assert trainer.loss.seen[0]["anchor.id"].tolist() == [2**63 - 1, 5, 7]


@pytest.mark.parametrize(
    ("give", "said"),
    [
        (
            lambda output: output.loss,
            "built a module that returned a `Tensor`, expected a `LossOutput`",
        ),
        (
            lambda output: LossOutput(output.loss[None]),
            r"returned a loss of the shape \(1,\), expected a scalar",
        ),
        (
            lambda output: LossOutput(3.0),
            "returned a loss of the type float, expected a scalar tensor",
        ),
        (
            lambda output: LossOutput(output.loss.detach()),
            "returned a value without a gradient",
        ),
        (lambda output: LossOutput(output.loss), "has a state and returned none"),
    ],
)
def test_a_loss_that_does_not_keep_its_contract_is_named(
    give,
    said,
    toys,
    assemble,
    columns,
):
    trainer = toys.train(assemble(), toys.loss(memory=8), toys.sgd(lr=0.1))
    whole = trainer.loss.forward
    trainer.loss.forward = lambda *arguments: give(whole(*arguments))
    with pytest.raises(PluginError, match=said):
        trainer.step(columns)


# what cannot be trained


def test_towers_of_different_widths_are_refused(toys, assemble):
    pair = {"zh": assemble(Head(projection=6)), "en": assemble(Head())}
    with pytest.raises(RunError) as caught:
        toys.train(pair, toys.loss(), AdamW(lr=1e-2), towers=BOTH)
    assert str(caught.value) == (
        "the vectors of the encoder `zh` are 6 wide, those of `en` 8, and a loss compares them; "
        "give both one width, such as `head = { projection = 6 }`"
    )


def test_an_encoder_without_anything_to_train_is_refused_by_name_where_there_are_two(
    toys, pair
):
    pair["en"].module.requires_grad_(False)
    with pytest.raises(
        RunError,
        match="nothing in the encoder `en` can be trained: everything is frozen",
    ):
        toys.train(pair, toys.loss(), AdamW(lr=1e-2), towers=BOTH)
    with pytest.raises(RunError, match="nothing in this encoder can be trained"):
        toys.train(pair["en"], toys.loss(), AdamW(lr=1e-2))


def test_weights_below_fp32_are_refused_by_name(toys, pair):
    pair["en"].module.backbone.dense.to(torch.bfloat16)
    with pytest.raises(
        RunError, match=r"`en\.backbone\.dense\.weight` is held in torch\.bfloat16"
    ):
        toys.train(pair, toys.loss(), AdamW(lr=1e-2), towers=BOTH)


def test_fp16_weights_are_refused_under_bf16(
    toys,
    engine_of,
    assemble,
):
    encoder = assemble(on=engine_of(torch.bfloat16))
    encoder.module.backbone.requires_grad_(False).to(torch.float16)
    with pytest.raises(
        RunError,
        match="weights of this encoder that are held in fp16 cannot be trained",
    ):
        toys.train(encoder, toys.loss(), AdamW(lr=1e-2))


def test_an_encoder_that_only_encodes_keys_is_refused(toys, pair):
    with pytest.raises(RunError) as caught:
        toys.train(
            pair,
            toys.momentum(),
            AdamW(lr=1e-2),
            towers={"anchor": "zh", "positive": "en"},
        )
    assert str(caught.value) == (
        "nothing trains the encoder `en`: of its columns the loss `toy-momentum` sees only keys "
        "(`positive`), which a moving average encodes without gradient; train the encoder of another "
        "column on them, or freeze this one"
    )
