from __future__ import annotations

import json

import pytest
import torch
from sentbed import RunError
from sentbed.protocols import Head
from sentbed_hardware._torch.cuda import CudaEngine
from sentbed_hardware._torch.out_of_memory import FittingTrainer
from sentbed_hardware._torch.trainer import TorchTrainer

HOST = torch.device("cpu")


@pytest.fixture
def engine():
    """The engine for a GPU, without one."""
    return CudaEngine(HOST, torch.float32, False, {}, 4096)


@pytest.fixture
def train(toys, engine, assemble):
    """A trainer of weights from one seed, with dropout."""

    def make(pooler=None, loss=None, **options):
        encoder = assemble(Head(projection=6), pooler, dropout=0.3, on=engine)
        return toys.train(encoder, loss or toys.loss(), toys.recorder(), **options)

    return make


def gradients(trainer):
    return trainer.optimizer.gradients


def tokens_of(columns):
    return sum(int(tokens.lengths.sum()) for tokens in columns.values())


def test_a_step_that_does_not_fit_is_that_of_a_smaller_micro_batch(
    toys,
    engine,
    columns,
    train,
    room_for,
):
    torch.manual_seed(5)
    expected = train(micro_batch=1)
    first = [expected.step(columns) for _ in range(2)]
    messages = []
    engine.report_to(messages.append)
    # One row of three columns has a quarter of the tokens, on average.
    tried = room_for(tokens_of(columns) // 4 + 2)
    torch.manual_seed(5)
    trainer = train()
    for step, result in enumerate(first):
        actual = trainer.step(columns)
        assert (actual.loss, actual.grad_norm) == (result.loss, result.grad_norm)
        for name, value in gradients(expected)[step].items():
            assert torch.equal(gradients(trainer)[step][name], value), name
        if step == 0:
            assert trainer.micro_batch == 1
            tried.clear()
    # The second step begins with what the first has found.
    assert max(tried) <= tokens_of(columns) // 4 + 2
    assert messages == [
        f"a step of {rows} rows at a time did not fit into the memory; going on with "
        f"`micro_batch = {rows // 2}`, which gives the gradient of the whole batch"
        for rows in (4, 2)
    ]


def test_a_step_that_fits_is_that_of_the_plain_trainer(
    toys,
    engine,
    columns,
    train,
):
    torch.manual_seed(5)
    fitting = train()
    actual = fitting.step(columns)
    torch.manual_seed(5)
    engine.trainer_class = TorchTrainer
    plain = engine.trainer(train().encoders, fitting.training)
    expected = plain.step(columns)
    assert (actual.loss, actual.grad_norm) == (expected.loss, expected.grad_norm)
    assert type(fitting) is FittingTrainer


def test_memory_that_ends_in_the_backward_pass_leaves_no_gradient_and_no_statistics_behind(
    toys,
    columns,
    train,
    monkeypatch,
):
    torch.manual_seed(5)
    expected = train(toys.norm(), micro_batch=2)
    expected.step(columns)
    torch.manual_seed(5)
    trainer = train(toys.norm())
    whole, calls = TorchTrainer._backward, []

    def fails_once(self, batch):
        output = whole(self, batch)
        calls.append(self.micro_batch)
        if len(calls) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return output

    monkeypatch.setattr(TorchTrainer, "_backward", fails_once)
    trainer.step(columns)
    assert calls == [None, 2]
    for name, value in gradients(expected)[0].items():
        assert torch.equal(gradients(trainer)[0][name], value), name
    buffers = trainer.towers["encoder"].buffers
    assert "running_mean" in " ".join(buffers)
    for name, value in expected.towers["encoder"].buffers.items():
        assert torch.equal(buffers[name], value), name


def test_a_row_that_does_not_fit_alone_ends_the_run_with_what_to_do(
    columns,
    train,
    room_for,
):
    room_for(1)
    with pytest.raises(RunError) as caught:
        train().step(columns)
    assert str(caught.value) == (
        "the activations of a single row do not fit into the memory beside weights and gradients; set a "
        "smaller `max_length`, or train fewer weights (`lora` or `freeze` of the backbone), set "
        '`precision = "bf16"`, or use an optimiser with a smaller state (`adafactor`)'
    )


@pytest.mark.parametrize("part", ["_clip_gradients", "_update"])
def test_what_does_not_fit_after_the_backward_pass_is_no_business_of_the_batch(
    part,
    columns,
    train,
    monkeypatch,
):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    trainer = train()
    monkeypatch.setattr(trainer, part, full)
    message = r"^a step does not fit into the memory outside its forward .*`adafactor`"
    with pytest.raises(RunError, match=message):
        trainer.step(columns)
    assert trainer.micro_batch is None


def test_one_of_several_processes_does_not_take_a_step_again(
    engine,
    columns,
    train,
    room_for,
):
    trainer = train()
    tried = room_for(1)
    engine.processes.world = 2
    with pytest.raises(
        RunError, match=r"one of the processes; set `micro_batch = 1` in the stage$"
    ):
        trainer.step(columns)
    assert len(tried) == 1


@pytest.mark.parametrize(("of_recipe", "expected"), [(None, 2), (3, 2), (1, 1)])
def test_a_resumed_stage_goes_on_with_what_has_fitted_or_less_if_its_recipe_says_so(
    of_recipe, expected, train, tmp_path
):
    before = train(micro_batch=5)
    before.fits = 2
    before.save(tmp_path / "state")
    trainer = train(micro_batch=of_recipe)
    trainer.load(tmp_path / "state")
    assert trainer.micro_batch == expected


def test_what_has_fitted_is_plain_json(train, tmp_path):
    trainer = train(micro_batch=2)
    trainer.save(tmp_path / "asked")
    trainer.fits = 1
    trainer.save(tmp_path / "found")
    # What the recipe asks for it may ask otherwise when it is resumed.
    for name, expected in (("asked", None), ("found", 1)):
        state = json.loads((tmp_path / name / "state.json").read_text())
        assert state["fits"] == expected
