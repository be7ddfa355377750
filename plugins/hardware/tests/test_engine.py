from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
import torch
from sentbed import ModelError, RunError
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


def test_bf16_encoding_is_near_fp32_and_returns_fp32(
    toys,
    engine_of,
    assemble,
):
    narrow = assemble(on=engine_of(torch.bfloat16)).encode(toys.batch(*ANCHORS))
    wide = assemble().encode(toys.batch(*ANCHORS))
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


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:.torch.jit:DeprecationWarning"
)  # the compiler's own imports
@pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="needs a C++ compiler"
)
def test_compiled_encoding_is_that_without_and_compiles_once_a_bucket(
    toys,
    engine_of,
    assemble,
    tmp_path,
    monkeypatch,
):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    plain_engine = engine_of(compile=False)
    engine = engine_of(compile=True)
    plain, compiled = assemble(on=plain_engine), assemble(on=engine)
    first_bucket = [ANCHORS, POSITIVES, NEGATIVES[:3], ANCHORS[:1]]
    second_bucket = [("word " * 20, "rain"), ("word " * 25,)]
    counts = []
    for texts in first_bucket + second_bucket:
        batch = toys.batch(*texts)
        vectors = compiled.encode(batch)
        np.testing.assert_allclose(vectors, plain.encode(batch), rtol=0, atol=1e-5)
        counts.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    first = counts[0]
    assert counts == [first] * 4 + [first + 1] * 2
    counters = engine.counters()
    assert counters["compiled_shapes"] >= 2
    assert counters["compile_seconds"] > 0
    assert plain_engine.counters() == {}
    # The next run of a study, in the same process, has compiled nothing yet.
    nothing = {"compiled_shapes": 0, "compile_seconds": 0}
    assert engine_of(compile=True).counters() == nothing


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


def test_a_text_that_does_not_fit_alone_ends_the_run_with_what_to_do(
    toys,
    assemble,
    room_for,
):
    encoder = assemble()
    batch = toys.batch(*POSITIVES)
    room_for(1)
    with pytest.raises(RunError) as caught:
        encoder.encode(batch)
    length = batch.input_ids.shape[1]
    assert str(caught.value) == (
        f"a single text of {length} tokens does not fit into the memory beside the weights; set a smaller "
        '`max_length`, encode in bf16 (`precision = "bf16"`), or free the device of other programs'
    )


def test_weights_that_do_not_fit_end_the_run_with_what_to_do(
    toys, assemble, monkeypatch
):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    encoder = assemble()
    monkeypatch.setattr(encoder.backbone, "inference", full)
    with pytest.raises(
        RunError, match=r'copy of the weights.*`dtype = "bf16"` in the backbone'
    ):
        encoder.encode(toys.batch(*ANCHORS))
    monkeypatch.setattr(torch.nn.Module, "to", full)
    with pytest.raises(
        RunError, match=r'^the weights do not fit .*`device_map = "auto"`\)$'
    ):
        assemble()


def test_other_errors_are_not_taken_for_want_of_memory(toys, assemble, monkeypatch):
    def broken(*_):
        raise RuntimeError("out of order")

    encoder = assemble()
    monkeypatch.setattr(type(encoder.module.backbone), "forward", broken)
    with pytest.raises(RuntimeError, match="out of order"):
        encoder.encode(toys.batch(*ANCHORS))
