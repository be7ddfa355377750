from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from sentbed import ModelError
from sentbed.protocols import BuildContext, Head

ANCHORS = (
    "a small house by the sea",
    "rain",
    "two birds sing in a tree today",
    "they play chess",
)
POSITIVES = (
    "the house near water",
    "it rains all day long",
    "birds",
    "a game of chess is played here now",
)
NEGATIVES = ("cars", "no rain fell", "fish swim", "nobody plays")


def test_in_bf16_only_the_backbone_encodes_in_bf16(toys, engine_of, assemble):
    encoder = assemble(on=engine_of(torch.bfloat16))
    dtypes = []
    encoder.module.pooler.register_forward_pre_hook(
        lambda _, args: dtypes.append(args[0].last_hidden_state.dtype)
    )
    narrow = encoder.encode(toys.batch(*ANCHORS))
    wide = assemble().encode(toys.batch(*ANCHORS))
    assert dtypes == [torch.float32]
    assert narrow.dtype == wide.dtype == np.float32
    assert 0 < np.abs(narrow - wide).max() < 0.02


def restore(toys, engine, saved, head, pooler):
    backbone = toys.backbone().build(BuildContext(tuple, saved / "backbone"))
    return engine.assemble(backbone, pooler, head, saved)


@pytest.fixture
def saved(assemble, tmp_path):
    """An encoder with a projection to 6 without bias."""
    assemble(Head(projection=6)).save(tmp_path / "saved")
    return tmp_path / "saved"


@pytest.mark.parametrize(
    "head", [Head(), Head(projection=6, bias=True), Head(projection=7)]
)
def test_files_that_do_not_belong_to_the_recipe_are_refused(toys, engine, saved, head):
    with pytest.raises(ModelError) as caught:
        restore(toys, engine, saved, head, toys.mean())
    message = str(caught.value)
    assert message.startswith(f"`{saved / 'modules.safetensors'}` holds ")
    assert message.endswith(
        "the files of this encoder do not belong together, save it again"
    )
    actual, expected = re.search(
        r"holds (.*), the pooler and head of its recipe have (.*);", message
    ).groups()
    assert actual != expected


@pytest.mark.parametrize("damage", ["missing", "cut off"])
def test_a_modules_file_that_cannot_be_read_is_refused(toys, engine, saved, damage):
    file = saved / "modules.safetensors"
    content = file.read_bytes()
    file.unlink()
    if damage == "cut off":
        file.write_bytes(content[:20])
    with pytest.raises(ModelError, match=r"modules\.safetensors"):
        restore(toys, engine, saved, Head(projection=6), toys.mean())


def test_a_batch_that_does_not_fit_is_halved_until_it_does_and_said_so(
    toys,
    engine,
    assemble,
    room_for,
):
    encoder = assemble()
    batch = toys.batch(*POSITIVES, *ANCHORS[:3])
    length = batch.input_ids.shape[1]
    expected = encoder.encode(batch)
    messages = []
    engine.report_to(messages.append)
    # Of seven rows, two fit.
    tried = room_for(2 * length)
    np.testing.assert_allclose(encoder.encode(batch), expected, rtol=0, atol=1e-6)
    assert [tokens // length for tokens in tried] == [7, 4, 2, 2, 2, 1]
    assert engine.token_budget == 2 * length
    assert messages == [
        f"a batch of {7 * length} tokens did not fit into the memory; going on with {4 * length}",
        f"a batch of {4 * length} tokens did not fit into the memory; going on with {2 * length}",
    ]
    # What is planned already is not tried whole again.
    tried.clear()
    np.testing.assert_allclose(encoder.encode(batch), expected, rtol=0, atol=1e-6)
    assert max(tried) == 2 * length
    assert len(messages) == 2


def test_other_errors_are_not_taken_for_want_of_memory(toys, assemble, monkeypatch):
    def broken(*_):
        raise RuntimeError("out of order")

    encoder = assemble()
    monkeypatch.setattr(type(encoder.module.backbone), "forward", broken)
    with pytest.raises(RuntimeError, match="out of order"):
        encoder.encode(toys.batch(*ANCHORS))
