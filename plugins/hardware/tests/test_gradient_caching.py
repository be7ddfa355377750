from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from weakref import finalize

import numpy as np
import pytest
import torch
from sentbed._encoder.batching import pad
from sentbed.protocols import TokenIds
from sentbed_hardware._torch.cpu_dropout_and_attention import CpuDropoutAndAttention
from sentbed_hardware._torch.tower import plan_chunks
from sentbed_hardware.adamw import AdamW

ROWS, MICRO_BATCH = 24, 4
SHARED = {"anchor": "a", "positive": "a", "negative": "a"}
TWO = {"anchor": "a", "positive": "b", "negative": "b"}


COLUMNS = ("anchor", "positive", "negative")


def random_texts(seed):
    """Random words, 1 to 14 per text; every fourth text may have up to 30."""
    draw = np.random.default_rng(seed)
    texts = []
    for row in range(ROWS):
        longest = 30 if row % 4 == 0 else 14
        words = [f"word{draw.integers(99)}" for _ in range(draw.integers(1, longest))]
        texts.append(" ".join(words))

    return texts


def random_batch(toys, step):
    batch = {}
    for place, name in enumerate(COLUMNS):
        batch[name] = toys.tokens(*random_texts(10 * step + place))

    return batch


class OneGraph:
    """Encodes columns in the chunks of a micro-batch, all in one graph of autograd."""

    def __init__(self, toys, placement):
        self.toys = toys
        self.placement = placement

    def encode(self, module, columns):
        """Return the vectors of each column, `(ROWS, width)`."""
        if not columns:
            return {}

        tokens = TokenIds.join(columns.values())
        chunks = list(plan_chunks(tokens.lengths, len(columns), MICRO_BATCH))
        assert len(chunks) >= 4
        vectors = torch.cat([self.forward(module, tokens, rows) for rows in chunks])
        in_order = vectors[np.argsort(np.concatenate(chunks))]
        return dict(zip(columns, in_order.split(ROWS), strict=True))

    def forward(self, module, tokens, rows):
        tensors = self.placement.tensors(pad(tokens, rows, self.toys.pad_id))
        with self.placement.autocast(), CpuDropoutAndAttention():
            states = module.backbone(*tensors)
        return module.finish(states, cut=False)

    def inputs(self, modules, averages, columns, towers, keys):
        """Return the input of a loss; averages encode keys."""
        inputs = {}
        for tower, module in modules.items():
            names = [name for name in columns if towers[name] == tower]
            queries = {name: columns[name] for name in names if name not in keys}
            of_keys = {name: columns[name] for name in names if name in keys}
            module.train()
            inputs |= self.encode(module, queries)
            averages[tower].train().backbone.eval()
            with torch.no_grad():
                inputs |= self.encode(averages[tower], of_keys)

        return {name: inputs[name] for name in columns}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("towers", [SHARED, TWO])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("loss", {}),
        ("loss", {"learned": True}),
        ("loss", {"memory": 40}),
        ("momentum", {"momentum": 0.7, "memory": 40, "learned": True}),
    ],
)
def test_gradients_are_those_of_the_whole_batch_with_the_same_dropout(
    toys,
    engine_of,
    assemble,
    kind,
    options,
    towers,
    dtype,
):
    engine = engine_of(dtype)
    encoders, modules = {}, {}
    for seed, name in enumerate(sorted(set(towers.values()))):
        encoders[name] = assemble(dropout=0.4, on=engine, seed=seed)
        modules[name] = copy.deepcopy(encoders[name].module)
    averages = copy.deepcopy(modules)
    component = getattr(toys, kind)(**options)
    trainer = toys.train(
        encoders,
        component,
        toys.recorder(lr=0.5),
        towers=towers,
        micro_batch=MICRO_BATCH,
    )
    keys = getattr(component, "keys", frozenset())
    momentum = options.get("momentum", 0.0)
    one_graph = OneGraph(toys, engine.placement)
    loss = component.build(6)
    state = [loss.initial_state()] if "memory" in options else []
    expected = {}
    for name, module in {**modules, "loss": loss}.items():
        for key, parameter in module.named_parameters():
            if parameter.requires_grad:
                expected[f"{name}.{key}"] = parameter

    for step in range(3):
        columns = random_batch(toys, step)
        torch.manual_seed(step)
        result = trainer.step(columns)
        generator_state = torch.get_rng_state()

        torch.manual_seed(step)
        inputs = one_graph.inputs(modules, averages, columns, towers, keys)
        output = loss(inputs, *state)
        if state:
            state = [output.state]
        for parameter in expected.values():
            parameter.grad = None
        output.loss.backward()

        assert result.loss == pytest.approx(output.loss.item(), rel=1e-5)
        assert torch.equal(generator_state, torch.get_rng_state())
        gradients = trainer.optimizer.gradients[-1]
        assert gradients.keys() == expected.keys()
        for name, gradient in gradients.items():
            norm = expected[name].grad.norm()
            assert norm > 1e-4, name
            assert (gradient - expected[name].grad).norm() < 1e-5 * norm, name

        # Both go on from the same weights, so that rounding does not add up.
        with torch.no_grad():
            for name, parameter in expected.items():
                parameter.copy_(trainer.parameters[name])
            for name, module in modules.items():
                followed = averages[name].parameters()
                for average, weight in zip(followed, module.parameters(), strict=True):
                    average.mul_(momentum).add_(weight, alpha=1 - momentum)


@pytest.mark.parametrize(
    ("micro_batch", "passes", "times"),
    [(None, 1, 1), (ROWS, 1, 1), (ROWS + 1, 1, 1), (ROWS // 2, 4, 2)],
)
def test_a_micro_batch_of_the_whole_batch_takes_one_forward_pass(
    toys, assemble, micro_batch, passes, times
):
    encoder = assemble()
    rows = []
    encoder.module.backbone.register_forward_pre_hook(
        lambda _, arguments: rows.append(len(arguments[0]))
    )
    trainer = toys.train(encoder, toys.loss(), toys.sgd(), micro_batch=micro_batch)
    texts = toys.tokens(*["one text of one length"] * ROWS)
    trainer.step({"anchor": texts, "positive": texts})
    assert len(rows) == passes
    assert sum(rows) == 2 * ROWS * times


@pytest.mark.parametrize("kind", ["loss", "momentum"])
def test_no_graph_is_alive_where_a_chunk_begins(toys, assemble, kind):
    """Tensors that autograd keeps are counted while they live."""
    encoder = assemble(dropout=0.4)
    trainer = toys.train(
        encoder, getattr(toys, kind)(memory=8), AdamW(lr=1e-2), micro_batch=MICRO_BATCH
    )
    alive, most, at_start = 0, 0, []

    class Kept:
        def __init__(self, tensor):
            nonlocal alive, most
            self.tensor = tensor
            alive += 1
            most = max(most, alive)
            finalize(self, self.gone)

        @staticmethod
        def gone():
            nonlocal alive
            alive -= 1

    encoder.module.backbone.register_forward_pre_hook(lambda *_: at_start.append(alive))
    with torch.autograd.graph.saved_tensors_hooks(Kept, lambda kept: kept.tensor):
        trainer.step(random_batch(toys, 0))
    assert len(at_start) >= 12
    assert set(at_start) == {0}
    assert most > 5


LENGTHS: Mapping[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "uniform": lambda draw, rows: draw.integers(2, 60, rows),
    "geometric": lambda draw, rows: draw.geometric(0.1, rows) + 1,
    "equal": lambda _, rows: np.full(rows, 9),
    "one long": lambda _, rows: np.concatenate([np.full(rows - 1, 3), [128]]),
}


@pytest.mark.parametrize(("columns", "micro_batch"), [(1, 1), (2, 7), (3, 2), (3, 32)])
@pytest.mark.parametrize("shape", LENGTHS)
def test_a_chunk_has_at_most_the_tokens_and_texts_of_a_micro_batch(
    shape, columns, micro_batch
):
    rows = 64 * columns
    lengths = LENGTHS[shape](np.random.default_rng(0), rows).astype(np.int64)
    mean_tokens = lengths.sum() * micro_batch / 64
    most_tokens = max(mean_tokens, lengths.max())
    most_texts = micro_batch * columns
    chunks = list(plan_chunks(lengths, columns, micro_batch))
    assert sorted(np.concatenate(chunks).tolist()) == list(range(rows))
    shortest_before = math.inf
    for chunk in chunks:
        of_chunk = lengths[chunk]
        assert len(chunk) <= most_texts
        assert len(chunk) * of_chunk.max() <= math.ceil(most_tokens)
        assert of_chunk.max() <= shortest_before
        shortest_before = of_chunk.min()
    # No more passes than three times what the bounds ask for: neither bound is met by single texts.
    fewest = max(lengths.sum() / most_tokens, rows / most_texts)
    assert len(chunks) <= 3 * fewest + 1
