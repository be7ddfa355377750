from __future__ import annotations

import copy

import pytest
import torch
from sentbed.protocols import Head
from sentbed_hardware._torch.cpu_dropout_and_attention import CpuDropoutAndAttention
from sentbed_hardware._torch.tower import Tower

# Of one length, so that they share a pass in the order given, and dropout falls as in a loop by hand.
QUERIES = ("a small house", "rain falls today", "two birds sing")
KEYS = ("the old house", "it rains now", "some birds fly")

# Small, since batch norm and long steps make 3.5e-5 of fp32's rounding where products add in another order.
LR = 0.02


def move(average, module, momentum):
    """Update an average by hand, in float64."""
    weights = module.state_dict()
    for name, value in average.state_dict().items():
        if value.is_floating_point():
            moved = momentum * value.double() + (1 - momentum) * weights[name].double()
            value.copy_(moved)


@pytest.mark.parametrize("momentum", [0.8, 0.0])
@pytest.mark.parametrize("micro_batch", [None, 1])
def test_six_steps_with_keys_from_a_moving_average_are_those_of_a_loop_by_hand(
    toys,
    engine,
    assemble,
    momentum,
    micro_batch,
):
    # Batch statistics do not survive a cut batch.
    pooler = toys.norm() if micro_batch is None else toys.mean()
    encoder = assemble(pooler=pooler, dropout=0.3)
    module, average = copy.deepcopy(encoder.module), copy.deepcopy(encoder.module)
    loss = toys.loss(memory=5).build(6)
    state = loss.initial_state()
    trainer = toys.train(
        encoder,
        toys.momentum(momentum=momentum, memory=5),
        toys.sgd(lr=LR),
        micro_batch=micro_batch,
    )

    def tensors(*texts):
        return engine.placement.tensors(toys.batch(*texts))

    passes = [QUERIES]
    if micro_batch is not None:
        passes = [(text,) for text in QUERIES]
    columns = {"anchor": toys.tokens(*QUERIES), "positive": toys.tokens(*KEYS)}
    for step in range(6):
        torch.manual_seed(step)
        result = trainer.step(columns)

        torch.manual_seed(step)
        module.train()
        average.train()
        average.backbone.eval()
        vectors = []
        for texts in passes:
            with CpuDropoutAndAttention():
                vectors.append(module(*tensors(*texts)))
        anchor = torch.cat(vectors)
        with torch.no_grad():
            positive = average(*tensors(*KEYS))
        output = loss({"anchor": anchor, "positive": positive}, state)
        module.zero_grad()
        output.loss.backward()
        state = output.state
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.sub_(LR * parameter.grad)
            move(average, module, momentum)

        assert result.loss == pytest.approx(output.loss.item(), rel=1e-4)
        torch.testing.assert_close(
            toys.weights_of(encoder), dict(module.state_dict()), rtol=1e-4, atol=1e-5
        )
        followed = trainer.averages["encoder"].tensors
        for name, value in average.state_dict().items():
            torch.testing.assert_close(
                followed[f"encoder.{name}"], value, rtol=1e-4, atol=1e-5
            )


def test_only_what_is_trained_is_held_twice(toys, engine, assemble):
    encoder = assemble(Head(projection=6), toys.norm())
    module = encoder.module
    module.backbone.words.requires_grad_(False)
    addresses = addresses_of(module)
    trainer = toys.train(encoder, toys.momentum(), toys.sgd(lr=0.5))
    average = trainer.averages["encoder"]
    followed = {name.removeprefix("encoder."): name for name in average.tensors}
    assert followed.keys() == addresses.keys() - {"backbone.words.weight"}
    columns = {"anchor": toys.tokens(*QUERIES), "positive": toys.tokens(*KEYS)}
    trainer.step(columns)
    assert addresses_of(module) == addresses

    averaged = copy.deepcopy(module)
    for name, value in averaged.state_dict().items():
        if name in followed:
            value.copy_(average.tensors[followed[name]])
    averaged.backbone.eval()
    with torch.no_grad():
        expected = averaged(*engine.placement.tensors(toys.batch(*KEYS)))
    trainer.step(columns)
    keys = trainer.loss.seen[1]["positive"]
    torch.testing.assert_close(keys, expected, rtol=0, atol=1e-6)


def addresses_of(module):
    return {name: value.data_ptr() for name, value in module.state_dict().items()}


def test_the_weights_are_back_in_place_after_an_error(toys, assemble):
    encoder = assemble()
    encoder.module.train()
    before = toys.weights_of(encoder)
    tower = Tower(
        "encoder",
        encoder.module,
        encoder.backbone,
        encoder.placement,
        encoder.processes,
    )
    average = tower.average(0.5)
    for value in average.tensors.values():
        value.add_(1)

    def fail(*_):
        raise KeyboardInterrupt

    encoder.module.pooler.register_forward_pre_hook(fail)
    tokens = toys.tokens(*KEYS)
    with pytest.raises(KeyboardInterrupt):
        tower.encode_keys(average, tokens, [torch.arange(3).numpy()])
    assert all(
        torch.equal(value, before[name])
        for name, value in toys.weights_of(encoder).items()
    )
    assert encoder.module.backbone.training
