from __future__ import annotations

import copy
import random
import re

import numpy as np
import pytest
import torch
from sentbed import ModelError
from sentbed.protocols import Head
from sentbed_hardware.adafactor import Adafactor
from sentbed_hardware.adamw import AdamW
from sentbed_hardware.learning_rate_schedules import Linear, RelativeStep

TWO = {"anchor": "zh", "positive": "en", "negative": "zh"}
ONE = dict.fromkeys(TWO, "zh")


def everything(trainer):
    """Return copies of all that determines later steps, as far as a test can see it."""
    sections = {"weights": trainer.parameters, "state": trainer.loss_state or {}}
    for name, tower in trainer.towers.items():
        sections[name] = tower.module.state_dict()
    for name, average in trainer.averages.items():
        sections[f"average {name}"] = average.tensors
    for name, parameter in trainer.parameters.items():
        sections[f"moment {name}"] = trainer.optimizer.state[parameter]

    values = {"random": torch.get_rng_state()}
    for section, tensors in sections.items():
        for name, value in tensors.items():
            values[f"{section}.{name}"] = value
    return copy.deepcopy(values)


def require_same(values, expected):
    """Compare what `everything` has returned, to the bit."""
    assert values.keys() == expected.keys()
    for name, value in values.items():
        assert type(value) is type(expected[name]), name
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, expected[name]), name
            assert value.dtype == expected[name].dtype, name
            assert value.stride() == expected[name].stride(), name
        else:
            assert value == expected[name], name


@pytest.fixture
def make_trainer(toys, assemble):
    """A trainer with everything that has state; another seed gives other weights."""

    def make(seed, optimizer=None, towers=ONE, loss=None, **options):
        # A chunk of one text has no batch statistics.
        pooler = toys.norm() if options.get("micro_batch") is None else toys.mean()
        head = Head(projection=6, bias=True)
        encoders = {}
        for place, name in enumerate(dict.fromkeys(towers.values())):
            encoders[name] = assemble(head, pooler, dropout=0.3, seed=seed + place)
        if loss is None:
            keys = frozenset({"negative"})
            loss = toys.momentum(learned=True, memory=6, keys=keys)
        settings = {
            "schedule": Linear(2),
            "total_steps": 9,
            "max_grad_norm": 0.5,
            **options,
        }
        optimizer = optimizer or AdamW(lr=1e-2, weight_decay=0.1)
        return toys.train(encoders, loss, optimizer, towers=towers, **settings)

    return make


def four_steps(trainer, columns):
    results = []
    for _ in range(4):
        result = trainer.step(columns)
        results.append(result)

    return results


@pytest.mark.sweep(6)
@pytest.mark.parametrize("micro_batch", [None, 2])
@pytest.mark.parametrize("towers", [ONE, TWO])
@pytest.mark.parametrize(
    ("optimizer", "schedule"),
    [
        (AdamW(lr=1e-2, weight_decay=0.1), Linear(2)),
        (Adafactor(lr=1e-2, scale_parameter=False), Linear(2)),
        (Adafactor(lr=1e-2, weight_decay=0.1), Linear(2)),
        (Adafactor(lr=1.0), RelativeStep()),
        (Adafactor(lr=1e3), RelativeStep(warmup_init=True)),
    ],
)
def test_a_restored_trainer_goes_on_to_the_bit(
    make_trainer,
    columns,
    tmp_path,
    optimizer,
    schedule,
    towers,
    micro_batch,
):
    options = {
        "optimizer": optimizer,
        "schedule": schedule,
        "towers": towers,
        "micro_batch": micro_batch,
    }
    trainer = make_trainer(0, **options)
    for _ in range(3):
        trainer.step(columns)
    trainer.save(tmp_path / "state")
    at_save = everything(trainer)
    expected = four_steps(trainer, columns)
    at_end = everything(trainer)

    restored = make_trainer(50, **options)
    torch.manual_seed(99)
    restored.step(columns)
    restored.load(tmp_path / "state")
    require_same(everything(restored), at_save)
    assert four_steps(restored, columns) == expected
    require_same(everything(restored), at_end)
    assert len({result.loss for result in expected}) == 4
    average = "average zh.zh.projection.weight"
    assert not torch.equal(at_end[average], at_save[average])


def test_the_generators_of_python_numpy_and_torch_go_on(make_trainer, tmp_path):
    def drawn():
        return [
            random.gauss(),
            random.random(),
            np.random.normal(),
            torch.rand(()).item(),
        ]

    trainer = make_trainer(0)
    # An odd number of normals: each generator keeps one for later.
    drawn()
    trainer.save(tmp_path)
    expected = [drawn() for _ in range(3)]
    make_trainer(50).load(tmp_path)
    assert [drawn() for _ in range(3)] == expected


# what does not fit


def test_a_state_of_another_recipe_is_refused_and_changes_nothing(
    toys,
    make_trainer,
    columns,
    tmp_path,
):
    trainer = make_trainer(0)
    trainer.step(columns)
    trainer.save(tmp_path)
    momentum = {"learned": True, "keys": frozenset({"negative"})}
    others = [
        (
            make_trainer(1, loss=toys.momentum(memory=7, **momentum)),
            "`state.memory` is (6, 6) float32 there and (7, 6)",
        ),
        (
            make_trainer(1, loss=toys.momentum(**momentum)),
            "`state.memory` is (6, 6) float32 there and missing",
        ),
        (
            make_trainer(1, loss=toys.loss(learned=True, memory=6)),
            "`average.zh.backbone.dense.bias` is (8,) float32 there and missing",
        ),
        (
            make_trainer(1, towers=TWO),
            "`weights.en.backbone.words.weight` is missing there and (64, 8) float32",
        ),
    ]
    for other, message in others:
        before = everything(other)
        with pytest.raises(ModelError, match=re.escape(message)) as caught:
            other.load(tmp_path)
        assert str(tmp_path) in str(caught.value)
        assert str(caught.value).endswith("go on from another state, or start again")
        require_same(everything(other), before)


@pytest.mark.parametrize("content", [None, b"", b"no state"])
def test_a_file_that_cannot_be_read_is_named(make_trainer, tmp_path, content):
    trainer = make_trainer(0)
    trainer.save(tmp_path)
    (file,) = tmp_path.iterdir()
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    with pytest.raises(ModelError, match=rf"`{re.escape(str(file))}` cannot be read: "):
        trainer.load(tmp_path)


def test_encoding_after_loading_uses_the_loaded_weights(
    toys,
    make_trainer,
    columns,
    tmp_path,
):
    trainer, restored = make_trainer(0), make_trainer(50)
    trainer.step(columns)
    trainer.save(tmp_path)
    batch = toys.batch("two birds", "a house")
    first, second = trainer.encoders["zh"], restored.encoders["zh"]
    assert not np.allclose(first.encode(batch), second.encode(batch))
    restored.load(tmp_path)
    assert np.array_equal(first.encode(batch), second.encode(batch))
