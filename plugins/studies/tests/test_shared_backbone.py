"""Encoders over one backbone, whose vectors a store gets from one pass."""

from __future__ import annotations

import json
from functools import partial
from typing import ClassVar

import attrs
import numpy as np
import pytest
from sentbed import Encoder, RunError, build_encoder
from sentbed.protocols import (
    Evaluation,
    Head,
    PlacedEncoder,
    Prepared,
    Texts,
    Transform,
)
from sentbed.tools import run_in
from sentbed_common import fingerprint_of
from sentbed_studies.shared_forward_passes import (
    SharedCache,
    SharedPass,
    share_passes,
)
from sentbed_workbench.vector_cache import SEGMENT
from toy_plugin import RECIPE, Engine, Gap, Lottery, Placed, quicken

START = RECIPE.index("[[stage]]")
PLAIN = RECIPE[:START] + RECIPE[RECIPE.index("[[evaluate]]") :].replace(
    'at = ["start", "end"]\n', ""
)


@attrs.frozen
class Middle(Transform):
    """The dimensions in the middle, whatever the weights."""

    name: ClassVar[str] = "middle"

    def output_width(self, width):
        return width - 2

    def fit(self, vectors, backbone):
        width = vectors.shape[1]
        return np.zeros(width), np.eye(width)[:, 1:-1]


HEADS = (
    Head(),
    Head(normalize=True),
    Head(projection=3),
    Head(projection=3, normalize=True),
    Head(normalize=True, transform=Middle()),
)
TEXTS = ["abc", "de", "", "abc", "some more words"]


class Several(PlacedEncoder):
    """What `beside` of the toy engine returns; counts its passes."""

    passes: ClassVar[list[int]] = []

    def __init__(self, placed):
        self.placed = placed
        self.width = sum(encoder.width for encoder in placed)

    def encode(self, batch):
        self.passes.append(len(batch.input_ids))
        return np.concatenate([encoder.encode(batch) for encoder in self.placed], 1)

    def save(self, directory):
        raise NotImplementedError


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    quicken(monkeypatch)
    monkeypatch.setattr(Several, "passes", [])
    monkeypatch.setattr(
        Placed, "beside", lambda self, others: Several([self, *others]), raising=False
    )


@pytest.fixture
def recipes(recipe_of):
    """One recipe a head."""
    recipe = recipe_of(PLAIN)
    (encoder,) = recipe.encoders.values()
    return [
        attrs.evolve(recipe, encoders={"encoder": attrs.evolve(encoder, head=head)})
        for head in HEADS
    ]


@pytest.fixture
def encoder(recipes):
    """The first one's."""
    return build_encoder(recipes[0])


@pytest.fixture
def companions(encoder, recipes):
    """The others'."""
    return accompanied(encoder, recipes[1:])


def accompanied(encoder, recipes):
    companions = SharedPass(encoder)
    for recipe in recipes:
        companions.add(recipe.encoders["encoder"], 5)
    return companions


@pytest.fixture
def store(tmp_path):
    return SharedCache(tmp_path / "vectors")


def kept(encoder, store, texts, shared=None):
    """The vectors, by way of the store."""
    encoded = []

    def score(vectors):
        encoded.append(vectors["texts"])
        return Evaluation((), 0.0)

    prepared = Prepared({"texts": Texts(texts)}, score)
    store.passes = [shared] if shared else []
    encoder.evaluate(Gap(), "e", store=store, prepared=prepared)
    return encoded[0]


def encode_through_store(
    encoder,
    store,
    companions,
    texts=TEXTS,
):
    """Take the vectors by way of the store: they are the encoder's."""
    np.testing.assert_array_equal(
        kept(encoder, store, texts, companions), encoder.encode(texts)
    )


def segments(store):
    return sorted(store.root.glob(f"*/*{SEGMENT}"))


def spaces(store):
    return {path.parent.name for path in segments(store)}


def names(companions):
    spaces = [
        fingerprint_of(encoder) for encoder in (companions.encoder, *companions.others)
    ]
    return {space for space in spaces if space is not None}


# --- one pass for several ----------------------------------------------------------------------------------


def test_a_pass_fills_the_space_of_every_companion(encoder, companions, store):
    encode_through_store(encoder, store, companions)
    assert spaces(store) == names(companions)
    assert len(segments(store)) == len(HEADS)
    passes = len(Several.passes)
    assert passes > 0
    for companion in companions.others:
        before = len(companion.placed.batches)
        np.testing.assert_array_equal(
            kept(companion, store, TEXTS), build_alone(companion)
        )
        assert len(companion.placed.batches) == before
    assert (store.taken, store.encoded) == (4 * (len(HEADS) - 1), 4)
    assert len(Several.passes) == passes


def build_alone(companion):
    """The vectors of an encoder that was built for itself, with a head drawn after the same seed."""
    encoder = Encoder.build(companion.recipe, Engine(64), head_seed=5).fit_transform()
    vectors = encoder.encode(TEXTS)
    assert vectors.shape == (5, companion.width)
    return vectors


def test_an_engine_that_cannot_promise_the_same_bits_encodes_one_by_one(
    encoder,
    companions,
    store,
    monkeypatch,
):
    monkeypatch.setattr(Placed, "beside", lambda self, others: None)
    encode_through_store(encoder, store, companions)
    assert len(segments(store)) == 1


# --- where one pass is not enough --------------------------------------------------------------------------


def test_a_pass_that_fails_for_several_is_made_for_one(
    encoder,
    companions,
    store,
    monkeypatch,
):
    def fail(*_):
        raise RunError("a batch does not fit into memory for several encoders")

    messages = []
    store.say = messages.append
    monkeypatch.setattr(Several, "encode", fail)
    encode_through_store(encoder, store, companions)

    assert messages == [
        f"vectors of {len(HEADS)} encoders cannot come from one pass: a batch does not fit into memory for "
        "several encoders"
    ]
    assert spaces(store) == {fingerprint_of(encoder)}


@pytest.mark.parametrize("number", [0, 1])
def test_vectors_that_are_not_finite_come_from_the_pass_of_their_own_encoder(
    number, encoder, companions, store, monkeypatch
):
    encoders = [encoder, *companions.others]
    start = sum(other.width for other in encoders[:number])
    encode = Several.encode

    def with_nan(several, batch):
        vectors = encode(several, batch).copy()
        vectors[0, start] = np.nan
        return vectors

    monkeypatch.setattr(Several, "encode", with_nan)
    encode_through_store(encoder, store, companions)

    expected = names(companions)
    if number:
        expected.remove(fingerprint_of(encoders[number]))
    assert spaces(store) == expected


# --- runs --------------------------------------------------------------------------------------------------


@pytest.fixture
def executed(tmp_path, plugins):
    count = 0

    def go(recipe, *beside):
        nonlocal count
        count += 1
        directory = tmp_path / f"run-{count}"
        directory.mkdir()
        share = partial(share_passes, recipe, beside)
        result = run_in(recipe, directory, plugins, share)
        return result.scores, json.loads((directory / "manifest.json").read_text())[
            "cache"
        ]

    return go


def test_runs_that_share_have_the_scores_of_runs_of_their_own(
    recipes,
    executed,
    tmp_path,
    monkeypatch,
):
    separate = []
    for number, recipe in enumerate(recipes):
        monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / str(number)))
        separate.append(executed(recipe)[0])
    assert Several.passes == []
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "shared"))
    shared, caches = zip(
        *(executed(recipe, *recipes) for recipe in recipes), strict=True
    )
    assert list(shared) == separate
    assert len({scores[0].value for scores in shared}) == len(HEADS)
    assert caches == (
        {"taken": 0, "encoded": 2},
        *[{"taken": 2, "encoded": 0}] * (len(HEADS) - 1),
    )


def test_a_recipe_that_must_not_share_gets_no_vectors(recipes, executed):
    longer = attrs.evolve(recipes[1].encoders["encoder"], max_length=15)
    executed(recipes[0], attrs.evolve(recipes[1], encoders={"encoder": longer}))
    assert Several.passes == []


def test_what_companions_draw_changes_no_evaluation(recipes, executed):
    recipes = [
        attrs.evolve(
            recipe, evaluate=(attrs.evolve(recipe.evaluate[0], evaluator=Lottery()),)
        )
        for recipe in recipes
    ]
    assert executed(recipes[0])[0] == executed(recipes[0], *recipes)[0]


def test_a_companion_that_cannot_be_built_is_left_to_its_own_run(
    recipes,
    executed,
    tmp_path,
    monkeypatch,
):
    expected, _ = executed(recipes[0])
    assemble = Engine.assemble

    def fail(self, backbone, pooler, head, saved=None):
        if head.projection:
            raise ValueError("no such head")
        return assemble(self, backbone, pooler, head, saved)

    monkeypatch.setattr(Engine, "assemble", fail)
    assert executed(recipes[0], *recipes)[0] == expected
    warnings = json.loads((tmp_path / "run-2" / "report.json").read_text())["warnings"]
    assert warnings
    assert all(
        "cannot be encoded in the same pass: ValueError: no such head" in warning
        for warning in warnings
    )
