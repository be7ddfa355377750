"""The runtime `tpu` on JAX's CPU backend, held against PyTorch; eight virtual devices."""

from __future__ import annotations

import attrs
import jax
import numpy as np
import pytest
import torch
from sentbed import RunError, RuntimeUnavailableError
from sentbed.protocols import BuildContext, Head, TokenIds, Training
from sentbed_hardware.adafactor import Adafactor
from sentbed_hardware.adamw import AdamW
from sentbed_hardware.learning_rate_schedules import Constant, Linear, RelativeStep
from sentbed_losses.info_nce import InfoNCE
from sentbed_losses.queue import Queue
from sentbed_tpu._jax.encoder import JaxEncoder
from sentbed_tpu._jax.optax_optimizers import optax_form
from sentbed_tpu.tpu import Tpu
from small_encoder import ENGINES

pytestmark = pytest.mark.jax

SMALL = {
    "platform": "cpu",
    "precision": "fp32",
    "lengths": (4, 8, 16),
    "token_budget": 64,
}
# One device does what `tests/engines/test_tpu.py` tries.
LAYOUTS = [(8, "ddp"), (8, "fsdp")]


def engine_of(devices=1, parallel="ddp", **fields):
    return Tpu(**{**SMALL, "devices": devices, "parallel": parallel, **fields}).build()


@pytest.fixture
def place(toys, engine):
    """The encoder that `assemble` makes, on a JAX engine; `of` is the torch one that it equals."""

    def make(on, dropout=0.0, pooler=None):
        torch.manual_seed(0)
        backbone = toys.backbone(width=16, dropout=dropout).build(BuildContext(tuple))
        head = Head(projection=8, bias=True)
        encoder = on.assemble(backbone, pooler or toys.mean(), head)
        ENGINES[encoder] = on
        return encoder

    return make


@pytest.fixture
def reference(toys, engine):
    torch.manual_seed(0)
    backbone = toys.backbone(width=16).build(BuildContext(tuple))
    encoder = engine.assemble(backbone, toys.mean(), Head(projection=8, bias=True))
    ENGINES[encoder] = engine
    return encoder


def train(encoder, loss, optimizer=None, **options):
    engine = ENGINES[encoder]
    engine.seed(5)
    towers = dict.fromkeys(("anchor", "positive", "negative"), "encoder")
    settings = {"schedule": Constant(), "total_steps": 10, "towers": towers, **options}
    return engine.trainer(
        {"encoder": encoder},
        Training(loss, optimizer or AdamW(lr=0.01, eps=1e-4), **settings),
    )


def closeness(actual, expected):
    """The largest difference, relative to the largest value of all."""
    assert set(actual) == set(expected)
    largest = largest_difference = 0.0
    for name, value in expected.items():
        difference = np.abs(actual[name] - value).max()
        largest_difference = max(largest_difference, float(difference))
        largest = max(largest, float(np.abs(value).max()))

    return largest_difference / largest


def weights_of(encoder):
    if isinstance(encoder, JaxEncoder):
        encoder.to_host()

    weights = {}
    for name, value in encoder.module.named_parameters():
        weights[name] = value.detach().numpy().copy()

    return weights


class SpareModule(torch.nn.Module):
    """The mean, with a layer that no vector depends on and a weight whose gradient is zero."""

    def __init__(self, mean):
        super().__init__()
        self.mean = mean
        self.spare = torch.nn.Linear(4, 4)
        self.zero = torch.nn.Linear(4, 4)

    def forward(self, states):
        nothing = 0 * self.zero.weight.sum()
        return self.mean(states) + nothing


@pytest.fixture
def spare(toys, monkeypatch):
    """Let the toys' pooler build `SpareModule`."""
    build = toys.mean.build

    def build_spare(pooler, width):
        mean = build(pooler, width)
        return SpareModule(mean)

    monkeypatch.setattr(toys.mean, "build", build_spare)


@pytest.mark.usefixtures("spare")
@pytest.mark.parametrize("optimizer", [AdamW(lr=0.01), Adafactor(lr=0.01)])
def test_weights_decay_only_if_a_vector_depends_on_them_as_on_torch(
    toys,
    place,
    engine,
    columns,
    optimizer,
):
    optimizer = attrs.evolve(optimizer, weight_decay=0.5)
    on_torch = place(engine)
    on_jax = place(engine_of())
    before = weights_of(on_jax)
    for encoder in (on_torch, on_jax):
        trainer = train(encoder, toys.loss(), optimizer)
        trainer.step(columns)
        trainer.step(columns)

    after = weights_of(on_jax)
    assert closeness(after, weights_of(on_torch)) < 1e-5
    for name, is_kept in (("spare", True), ("zero", False)):
        weight = f"pooler.{name}.weight"
        assert np.array_equal(after[weight], before[weight]) == is_kept


@pytest.mark.parametrize(
    "loss",
    [InfoNCE(mask_duplicates=True), Queue(size=6)],
    ids=["batch", "memory"],
)
def test_texts_are_compared_by_as_many_bits_as_on_torch(
    place,
    reference,
    columns,
    loss,
):
    columns["anchor.id"] = np.arange(10, 14)
    columns["positive.id"] = 1 + 2 ** np.array([31, 32, 40, 62])
    columns["negative.id"] = np.arange(20, 24)
    on_torch = train(reference, loss)
    on_jax = train(place(engine_of()), loss)
    for _ in range(3):
        expected = on_torch.step(columns).loss
        actual = on_jax.step(columns).loss
        assert actual == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("devices", "parallel"), [*LAYOUTS, (3, "ddp")])
@pytest.mark.parametrize("kind", ["memory", "learned", "graded"])
def test_loss_and_gradient_are_those_of_torch_on_any_number_of_devices(
    toys,
    place,
    reference,
    columns,
    devices,
    parallel,
    kind,
):
    """Also with a memory, in micro-batches, and of numbers beside the texts."""
    micro_batch = None
    if kind == "memory":
        loss = toys.loss(memory=6)
    elif kind == "learned":
        loss, micro_batch = toys.loss(learned=True), 1
    else:
        loss, micro_batch = toys.graded(), 1
        score = np.linspace(0, 1, len(columns["anchor"]), dtype=np.float32)
        columns = {**columns, "score": score}
        del columns["negative"]

    expected, expected_gradients = train(reference, loss).gradients(columns)
    trainer = train(place(engine_of(devices, parallel)), loss, micro_batch=micro_batch)
    actual, gradients = trainer.gradients(columns)
    assert actual == pytest.approx(expected, rel=1e-5)
    assert closeness(gradients, expected_gradients) < 1e-5
    if kind == "graded":
        assert trainer.step(columns).metrics["score"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    "optimizer",
    [AdamW(lr=0.01, weight_decay=0.1), Adafactor(lr=0.01, weight_decay=0.1)],
    ids=["adamw", "adafactor"],
)
def test_a_parameter_with_a_learning_rate_of_its_own_moves_as_on_torch(
    toys,
    engine,
    place,
    columns,
    optimizer,
):
    reached = {}
    for rate in (0.05, None):
        on_torch, on_jax = (
            train(
                place(on),
                toys.loss(learned=True, lr=rate),
                optimizer,
                schedule=Linear(),
            )
            for on in (engine, engine_of())
        )
        for _ in range(3):
            on_torch.step(columns)
            on_jax.step(columns)
        reached[rate] = on_torch.loss.log_temperature.item()

        temperature = on_jax.state.weights["loss.log_temperature"]
        assert float(temperature) == pytest.approx(reached[rate], abs=1e-4)
    assert abs(reached[0.05] - reached[None]) > 1e-3


@pytest.mark.parametrize(("devices", "parallel"), LAYOUTS)
@pytest.mark.parametrize(
    "optimizer",
    [
        AdamW(lr=0.01, weight_decay=0.1),
        Adafactor(lr=0.01, weight_decay=0.1),
        Adafactor(lr=0.01, weight_decay=0.1, scale_parameter=False),
    ],
)
def test_ten_steps_are_those_of_torch(
    toys,
    place,
    reference,
    columns,
    optimizer,
    devices,
    parallel,
):
    options = {"schedule": Linear(warmup=0.3), "max_grad_norm": 0.05}
    ours = place(engine_of(devices, parallel))
    trainers = [
        train(encoder, toys.loss(memory=6), optimizer, **options)
        for encoder in (reference, ours)
    ]
    uneven = {
        name: TokenIds.join([toys.tokens("one more", "and more")]) for name in columns
    }
    for step in range(10):
        batch = uneven if step % 3 == 2 else columns
        expected, actual = (trainer.step(batch) for trainer in trainers)
        assert actual.loss == pytest.approx(expected.loss, rel=1e-4)
        assert actual.grad_norm == pytest.approx(expected.grad_norm, rel=1e-3)
        assert actual.learning_rate == expected.learning_rate
    assert closeness(weights_of(ours), weights_of(reference)) < 1e-4


def test_dropout_is_the_same_when_activations_are_computed_again_and_on_eight_devices(
    toys, place, columns
):
    encoders = [place(engine_of(devices), dropout=0.3) for devices in (1, 8)]
    whole, cached, spread = (
        train(encoder, toys.loss(), micro_batch=micro).gradients(columns)
        for encoder, micro in (
            (encoders[0], None),
            (encoders[0], 2),
            (encoders[1], None),
        )
    )
    # Passes of other texts draw other dropout.
    assert spread[0] == pytest.approx(whole[0], rel=1e-5)
    assert closeness(spread[1], whole[1]) < 1e-5
    assert np.isfinite(cached[0])


@pytest.mark.parametrize(("devices", "parallel"), LAYOUTS)
@pytest.mark.parametrize(
    ("optimizer", "schedule"),
    [
        (AdamW(lr=0.01, eps=1e-4), Constant()),
        (Adafactor(lr=0.01, weight_decay=0.1), Linear()),
        (Adafactor(lr=1.0, scale_parameter=False), RelativeStep()),
    ],
)
def test_a_trainer_goes_on_from_its_state_to_the_bit(
    toys,
    place,
    columns,
    tmp_path,
    optimizer,
    schedule,
    devices,
    parallel,
):
    def start():
        encoder = place(engine_of(devices, parallel), dropout=0.2)
        loss = toys.momentum(memory=6, learned=True)
        return encoder, train(encoder, loss, optimizer, schedule=schedule)

    del columns["negative"]
    encoder, trainer = start()
    for step in range(6):
        if step == 3:
            trainer.save(tmp_path / "state")
        trainer.step(columns)
    other, resumed = start()
    resumed.load(tmp_path / "state")
    losses = [resumed.step(columns).loss for _ in range(3)]
    assert resumed.steps == 6
    assert all(np.isfinite(losses))
    for name, value in weights_of(encoder).items():
        np.testing.assert_array_equal(weights_of(other)[name], value)


def test_a_step_is_compiled_once_for_each_length(toys, place):
    compiled = []

    def note(event, duration, fun_name="", **_):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(fun_name)

    jax.monitoring.register_event_duration_secs_listener(note)
    trainer = train(place(engine_of()), toys.loss(), AdamW(lr=1e-3), total_steps=50)
    rng = np.random.default_rng(0)
    for _ in range(20):
        columns = {}
        for name in ("anchor", "positive", "negative"):
            texts = []
            for _ in range(3):
                words = rng.choice(list("abcdef"), int(rng.integers(1, 15)))
                texts.append(" ".join(words))
            columns[name] = toys.tokens(*texts)

        trainer.step(columns)

    jax.monitoring.unregister_event_duration_listener(note)
    steps = [name for name in compiled if "_step" in name]
    assert 1 <= len(steps) <= 3


def test_bf16_computes_the_backbone_in_bf16_and_keeps_weights_and_vectors_in_fp32(
    toys, place, reference, columns
):
    encoder = place(engine_of(precision="bf16"))
    batch = toys.batch("a small house by the sea", "rain")
    actual, exact = encoder.encode(batch), reference.encode(batch)
    assert actual.dtype == np.float32
    assert 1e-5 < np.abs(actual - exact).max() < 0.03
    train(encoder, toys.loss()).step(columns)
    assert {str(value.dtype) for value in encoder.weights.values()} == {"float32"}


def test_a_module_that_changes_in_a_forward_pass_is_refused(toys, place, columns):
    trainer = train(place(engine_of(), pooler=toys.norm()), toys.loss())
    with pytest.raises(
        RunError, match=r"`pooler.norm.num_batches_tracked` changes in a forward pass"
    ):
        trainer.step(columns)


def test_adafactor_refuses_a_weight_with_three_axes():
    with pytest.raises(RunError, match="`kernel` has 3 axes"):
        optax_form(Adafactor(), {"kernel": (2, 3, 4)})


def test_an_optimizer_without_a_twin_is_named(toys, place):
    with pytest.raises(RunError, match="`toy-sgd` has no form for JAX"):
        train(place(engine_of()), toys.loss(), toys.sgd())


def test_more_devices_than_there_are_is_an_error_that_says_how_many():
    with pytest.raises(
        RuntimeUnavailableError, match="`devices` is 9, and JAX has only 8"
    ):
        engine_of(9)


def test_a_tpu_that_is_not_there_is_an_error_that_says_what_to_do():
    with pytest.raises(
        RuntimeUnavailableError, match=r'finds no TPU: .*use `platform = "cpu"`'
    ):
        Tpu().build()


def test_lengths_ascend():
    assert list(Tpu(lengths=(8, 4)).check()) == [
        "`lengths` are [8, 4], expected ascending numbers; sort them"
    ]


def test_the_engine_says_what_it_is():
    facts = engine_of(8, "fsdp").describe()
    assert (facts["platform"], facts["devices"]) == ("cpu", 8)
    assert (facts["parallel"], facts["precision"]) == ("fsdp", "fp32")
    assert engine_of(precision="auto").describe()["precision"] == "bf16"
