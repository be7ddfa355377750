from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Mapping
from weakref import finalize

import numpy as np
import pytest
import torch
from sentbed._encoder.batching import pad
from sentbed.protocols import TokenIds
from sentbed_hardware._torch.cpu_dropout_and_attention import CpuDropoutAndAttention
from sentbed_hardware._torch.tower import BatchVectors, plan_chunks
from sentbed_hardware.adamw import AdamW

ROWS, MICRO_BATCH = 24, 4
SHARED = {"anchor": "a", "positive": "a", "negative": "a"}
TWO = {"anchor": "a", "positive": "b", "negative": "b"}


def texts_of(seed, rows=ROWS):
    """Random words, 1 to 14 a text, of which every fourth has up to 30."""
    draw = np.random.default_rng(seed)
    lengths = [draw.integers(1, 30 if row % 4 == 0 else 14) for row in range(rows)]
    return [
        " ".join(f"word{draw.integers(99)}" for _ in range(length))
        for length in lengths
    ]


def batch_of(toys, step):
    return {
        name: toys.tokens(*texts_of(10 * step + place))
        for place, name in enumerate(("anchor", "positive", "negative"))
    }


def by_column(some, forward):
    """All texts of some columns in the chunks of a micro-batch, in one graph, back in their places."""
    tokens = TokenIds.join(some.values())
    chunks = list(plan_chunks(tokens.lengths, len(some), MICRO_BATCH))
    assert len(chunks) >= 4
    rows = [None] * len(tokens)
    for chunk in chunks:
        for row, vector in zip(chunk.tolist(), forward(tokens, chunk), strict=True):
            rows[row] = vector
    return {
        name: torch.stack(rows[i * ROWS : (i + 1) * ROWS])
        for i, name in enumerate(some)
    }


def encode_in_one_graph(
    modules,
    averages,
    engine,
    toys,
    columns,
    towers,
    keys,
):
    inputs = {}
    bf16 = engine.placement.dtype == torch.bfloat16
    for name, module in modules.items():

        def forward(tokens, chunk, module):
            tensors = engine.placement.tensors(pad(tokens, chunk, toys.pad_id))
            with torch.autocast("cpu", torch.bfloat16, bf16), CpuDropoutAndAttention():
                states = module.backbone(*tensors)
            return module.finish(states, cut=False)

        module.train()
        own = {c: t for c, t in columns.items() if towers[c] == name}
        queries = {c: t for c, t in own.items() if c not in keys}
        inputs |= by_column(queries, lambda t, c, module=module: forward(t, c, module))
        if queries != own:
            averages[name].train().backbone.eval()
            with torch.no_grad():
                inputs |= by_column(
                    {c: t for c, t in own.items() if c in keys},
                    lambda t, c, module=averages[name]: forward(t, c, module),
                )
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
    encoders = {
        name: assemble(dropout=0.4, on=engine, seed=seed)
        for seed, name in enumerate(sorted(set(towers.values())))
    }
    component = getattr(toys, kind)(**options)
    trainer = toys.train(
        encoders,
        component,
        toys.recorder(lr=0.5),
        towers=towers,
        micro_batch=MICRO_BATCH,
    )
    keys = getattr(component, "keys", frozenset())
    modules = {
        name: copy.deepcopy(encoder.module) for name, encoder in encoders.items()
    }
    averages = copy.deepcopy(modules)
    loss = component.build(6)
    state = loss.initial_state() if options.get("memory") else None
    for step in range(3):
        columns = batch_of(toys, step)
        torch.manual_seed(step)
        result = trainer.step(columns)
        drawn = torch.get_rng_state()

        torch.manual_seed(step)
        inputs = encode_in_one_graph(
            modules, averages, engine, toys, columns, towers, keys
        )
        output = loss(inputs) if state is None else loss(inputs, state)
        state = output.state
        for module in (*modules.values(), loss):
            module.zero_grad()
        output.loss.backward()

        assert result.loss == pytest.approx(output.loss.item(), rel=1e-5)
        assert torch.equal(drawn, torch.get_rng_state())
        expected = {
            f"{name}.{key}": p
            for name, m in modules.items()
            for key, p in m.named_parameters()
        }
        expected |= {
            f"loss.{name}": p for name, p in loss.named_parameters() if p.requires_grad
        }
        assert trainer.optimizer.gradients[-1].keys() == expected.keys()
        for name, gradient in trainer.optimizer.gradients[-1].items():
            assert expected[name].grad.norm() > 1e-4, name
            assert (gradient - expected[name].grad).norm() < 1e-5 * expected[
                name
            ].grad.norm(), name

        # Both go on from the same weights, so that rounding does not add up.
        with torch.no_grad():
            for name, parameter in expected.items():
                parameter.copy_(trainer.parameters[name])
            for name, module in modules.items():
                for average, current in zip(
                    averages[name].parameters(), module.parameters(), strict=True
                ):
                    average.mul_(options.get("momentum", 0.0)).add_(
                        current, alpha=1 - options.get("momentum", 0.0)
                    )


def test_without_dropout_gradients_are_those_of_a_plain_step(toys, assemble):
    trainers = [
        toys.train(
            assemble(),
            toys.loss(learned=True),
            toys.recorder(),
            micro_batch=micro_batch,
        )
        for micro_batch in (None, 1, 3, MICRO_BATCH, ROWS - 1, ROWS)
    ]
    for trainer in trainers:
        trainer.step(batch_of(toys, 0))
    plain, *cached = (trainer.optimizer.gradients[0] for trainer in trainers)
    for found in cached:
        for name, gradient in found.items():
            assert (gradient - plain[name]).norm() < 1e-5 * plain[name].norm(), name


def test_a_micro_batch_of_the_whole_batch_takes_one_forward_pass(toys, assemble):
    texts = toys.tokens(*["one text of one length"] * ROWS)
    for micro_batch, passes in ((None, 1), (ROWS, 1), (ROWS + 1, 1), (ROWS // 2, 4)):
        encoder = assemble()
        counted = []
        encoder.module.backbone.register_forward_pre_hook(
            lambda _, args, counted=counted: counted.append(len(args[0]))
        )
        trainer = toys.train(encoder, toys.loss(), toys.sgd(), micro_batch=micro_batch)
        trainer.step({"anchor": texts, "positive": texts})
        assert len(counted) == passes
        assert sum(counted) == 2 * ROWS * (2 if passes == 4 else 1)


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
        trainer.step(batch_of(toys, 0))
    assert len(at_start) >= 12
    assert set(at_start) == {0}
    assert most > 5


@pytest.mark.parametrize(
    "compile",
    [
        False,
        pytest.param(
            True,
            marks=[
                pytest.mark.slow,
                # the compiler's own imports
                pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),
                pytest.mark.skipif(
                    not (shutil.which("g++") or shutil.which("clang++")),
                    reason="needs a C++ compiler",
                ),
            ],
        ),
    ],
)
def test_the_second_pass_repeats_the_first_to_the_bit(
    toys,
    engine_of,
    assemble,
    tmp_path,
    monkeypatch,
    compile,
):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    encoder = assemble(dropout=0.4, on=engine_of(compile=compile))
    encoder.module.train()
    tower = toys.tower(encoder)
    tokens = toys.tokens(*texts_of(0))
    chunks = list(plan_chunks(tokens.lengths, 1, MICRO_BATCH))
    passes = []
    forward = tower.forward

    def recorded(*args):
        vectors = forward(*args)
        passes.append(vectors.detach().clone())
        return vectors

    monkeypatch.setattr(tower, "forward", recorded)
    cached = BatchVectors(tower, tokens, chunks)
    torch.rand(5)
    drawn = torch.get_rng_state()
    cached.vectors.sum().backward()
    cached.backward()
    assert torch.equal(drawn, torch.get_rng_state())
    assert len(passes) == 2 * len(chunks)
    for first, second in zip(passes, passes[len(chunks) :], strict=False):
        assert torch.equal(first, second)
    assert not torch.equal(passes[0], forward(tokens, chunks[0]))
    assert encoder.module.backbone.words.weight.grad.abs().max() > 0


def test_vectors_that_the_loss_does_not_use_cost_no_second_pass(toys, assemble):
    tower = toys.tower(assemble())
    tokens = toys.tokens(*texts_of(0))
    cached = BatchVectors(
        tower, tokens, list(plan_chunks(tokens.lengths, 1, MICRO_BATCH))
    )
    cached.backward()
    assert all(parameter.grad is None for parameter in tower.parameters.values())


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
    mean = lengths.sum() * micro_batch / 64
    chunks = list(plan_chunks(lengths, columns, micro_batch))
    assert sorted(np.concatenate(chunks).tolist()) == list(range(rows))
    for chunk in chunks:
        longest = int(lengths[chunk].max())
        assert len(chunk) <= micro_batch * columns
        assert len(chunk) * longest <= max(np.ceil(mean), lengths.max())
    tops = [lengths[chunk].max() for chunk in chunks]
    bottoms = [lengths[chunk].min() for chunk in chunks]
    assert all(bottom >= top for bottom, top in zip(bottoms, tops[1:], strict=False))
    # No more passes than three times what the bounds ask for: neither bound is met by single texts.
    fewest = max(
        lengths.sum() / max(mean, lengths.max()), rows / (micro_batch * columns)
    )
    assert len(chunks) <= 3 * fewest + 1
