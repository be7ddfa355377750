from __future__ import annotations

import errno
import re
import shutil

import attrs
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentbed import ModelError, RunError
from sentbed._files import verified_sums
from sentbed.helpers import sha256, write_sums
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


def test_the_width_is_that_of_the_vectors(toys, assemble):
    for head, pooler, width in (
        (Head(), toys.mean(), 8),
        (Head(), toys.first_dense(out=5), 5),
        (Head(projection=3), toys.first_dense(out=5), 3),
    ):
        encoder = assemble(head, pooler)
        assert encoder.width == width
        assert encoder.encode(toys.batch(*ANCHORS)).shape == (4, width)


def restore(toys, engine, saved, head, pooler):
    backbone = toys.backbone().build(BuildContext(tuple, saved / "backbone"))
    return engine.assemble(backbone, pooler, head, saved)


def test_pooler_and_head_are_saved_beside_the_backbone(toys, assemble, tmp_path):
    encoder = assemble(Head(projection=6), toys.first_dense())
    encoder.save(tmp_path / "saved")
    weights = load_file(tmp_path / "saved" / "modules.safetensors")
    assert set(weights) == {
        "pooler.dense.weight",
        "pooler.dense.bias",
        "projection.weight",
    }
    assert torch.equal(weights["projection.weight"], encoder.module.projection.weight)
    assert (tmp_path / "saved" / "backbone" / "model.safetensors").is_file()


def test_the_backbone_of_a_twin_is_linked_and_its_sums_are_known(
    toys, engine, tmp_path
):
    encoder, other = two_heads(toys, engine)
    encoder.save(tmp_path / "one")
    write_sums(tmp_path / "one")
    other.twin = tmp_path / "one"
    known = other.save(tmp_path / "two")
    write_sums(tmp_path / "two", known)
    assert known.keys() == {
        f"backbone/{path.name}" for path in (tmp_path / "one" / "backbone").iterdir()
    }
    for name in known:
        assert (tmp_path / "two" / name).samefile(tmp_path / "one" / name)
    assert verified_sums(tmp_path / "two").keys() == {*known, "modules.safetensors"}
    found = restore(toys, engine, tmp_path / "two", Head(projection=3), toys.mean())
    np.testing.assert_array_equal(
        found.encode(toys.batch(*ANCHORS)), other.encode(toys.batch(*ANCHORS))
    )


@pytest.mark.parametrize("gone", ["one", "one/checksums.json", "one/backbone"])
def test_a_twin_that_has_been_removed_costs_nothing_but_time(
    gone, toys, engine, tmp_path
):
    encoder, other = two_heads(toys, engine)
    encoder.save(tmp_path / "one")
    write_sums(tmp_path / "one")
    place = tmp_path / gone
    place.unlink() if place.is_file() else shutil.rmtree(place)
    other.twin = tmp_path / "one"
    assert other.save(tmp_path / "two") == {}
    found = restore(toys, engine, tmp_path / "two", Head(projection=3), toys.mean())
    np.testing.assert_array_equal(
        found.encode(toys.batch(*ANCHORS)), other.encode(toys.batch(*ANCHORS))
    )


def test_files_are_copied_where_they_cannot_be_linked(
    toys, engine, tmp_path, monkeypatch
):
    def refuse(*_):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    encoder, other = two_heads(toys, engine)
    encoder.save(tmp_path / "one")
    write_sums(tmp_path / "one")
    other.twin = tmp_path / "one"
    monkeypatch.setattr("os.link", refuse)
    known = other.save(tmp_path / "two")
    assert known == {name: sha256(tmp_path / "two" / name) for name in known} != {}
    assert not any(
        (tmp_path / "two" / name).samefile(tmp_path / "one" / name) for name in known
    )


def two_heads(toys, engine):
    """Two encoders on one built backbone."""
    backbone = toys.backbone().build(BuildContext(tuple))
    return [
        engine.assemble(backbone, toys.mean(), head)
        for head in (Head(), Head(projection=3))
    ]


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
    found, expected = re.search(
        r"holds (.*), the pooler and head of its recipe have (.*);", message
    ).groups()
    assert found != expected


def test_a_missing_modules_file_is_refused_where_weights_are_expected(
    toys, engine, saved
):
    (saved / "modules.safetensors").unlink()
    with pytest.raises(ModelError, match=r"modules\.safetensors"):
        restore(toys, engine, saved, Head(projection=6), toys.mean())


def test_a_modules_file_that_was_cut_off_is_a_model_error(toys, engine, saved):
    file = saved / "modules.safetensors"
    file.write_bytes(file.read_bytes()[:20])
    with pytest.raises(ModelError, match=r"modules\.safetensors"):
        restore(toys, engine, saved, Head(projection=6), toys.mean())


@pytest.mark.parametrize(
    "change",
    [lambda w: w * float("nan"), lambda w: w / 0, lambda w: w.to(torch.int32)],
    ids=["nan", "inf", "int"],
)
def test_weights_of_pooler_and_head_that_are_no_finite_numbers_are_refused(
    toys,
    engine,
    saved,
    change,
):
    file = saved / "modules.safetensors"
    save_file({name: change(value) for name, value in load_file(file).items()}, file)
    with pytest.raises(
        ModelError,
        match=r"`projection\.weight` in .* has NaN, infinite or whole numbers",
    ):
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
    counts = []
    for texts in (
        ANCHORS,
        POSITIVES,
        NEGATIVES[:3],
        ANCHORS[:1],
        ("word " * 20, "rain"),
        ("word " * 25,),
    ):
        batch = toys.batch(*texts)
        np.testing.assert_allclose(
            compiled.encode(batch), plain.encode(batch), rtol=0, atol=1e-5
        )
        counts.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert [count - counts[0] for count in counts] == [0, 0, 0, 0, 1, 1]
    counters = engine.counters()
    assert counters["compiled_shapes"] >= 2
    assert counters["compile_seconds"] > 0
    assert plain_engine.counters() == {}


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
    said = []
    engine.report_to(said.append)
    # Of seven rows, two fit.
    tried = room_for(2 * length)
    np.testing.assert_allclose(encoder.encode(batch), expected, rtol=0, atol=1e-6)
    assert [tokens // length for tokens in tried] == [7, 4, 2, 2, 2, 1]
    assert engine.token_budget == 2 * length
    assert said == [
        f"a batch of {7 * length} tokens did not fit into the memory; going on with {4 * length}",
        f"a batch of {4 * length} tokens did not fit into the memory; going on with {2 * length}",
    ]
    # What is planned already is not tried whole again.
    tried.clear()
    np.testing.assert_allclose(encoder.encode(batch), expected, rtol=0, atol=1e-6)
    assert max(tried) == 2 * length
    assert len(said) == 2


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
        RunError, match=r'copy of the weights .* \(`dtype = "bf16"` of the backbone\)'
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


def test_a_prefix_follows_ids_and_mask(toys, engine):
    plain = toys.batch("rain")
    shared = np.array([4, 7, 9], np.int64)
    (_, _, prefix), _ = engine.placement.arguments(attrs.evolve(plain, prefix=shared))
    assert prefix is not None
    assert prefix.tolist() == [4, 7, 9]
    tensors, _ = engine.placement.arguments(plain)
    assert len(tensors) == 2


def test_a_module_gets_every_field_of_a_batch(toys, engine):
    plain = toys.batch(*ANCHORS)
    rows, length = plain.input_ids.shape
    hidden, readings = np.ones((rows, length), bool), np.arange(rows)
    auxiliary = toys.batch(*ANCHORS[::-1])
    batch = attrs.evolve(plain, hidden=hidden, readings=readings, auxiliary=auxiliary)
    (ids, mask), keywords = engine.placement.arguments(batch)
    assert ids is not None
    assert mask is not None
    assert (ids.numpy() == plain.input_ids).all()
    assert (mask.numpy() == plain.attention_mask).all()
    assert sorted(keywords) == ["auxiliary", "hidden", "readings"]
    assert keywords["hidden"].numpy().all()
    assert keywords["readings"].tolist() == list(range(rows))
    assert (keywords["auxiliary"][0].numpy() == auxiliary.input_ids).all()
    assert engine.placement.arguments(plain)[1] == {}
