"""The conformance suite itself: what it tries, how it measures, and that the toy engine passes."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import pytest
import sentbed_testing as testing
from sentbed import ModelError, SentbedError
from sentbed.protocols import (
    Runtime,
    Schedule,
    TokenIds,
)
from sentbed_testing import comparisons
from sentbed_testing.engine_cases import Case, cases, cover, fixed_columns
from sentbed_testing.engine_pair import EnginePair, batch
from sentbed_testing.saved_weights import saved_weights
from toy_plugin import (
    Average,
    Characters,
    Chase,
    Engine,
    Grade,
    Placed,
    Pull,
    Sgd,
    Sort,
)

PULL = Pull(memory=0.5)


class Level(Schedule):
    """A schedule that holds the rate."""

    name = "level"

    def factor(self, step, total_steps):
        return 1.0


def a_case(loss=PULL, columns=("anchor", "positive")):
    return Case(
        "characters", "average", loss.name, Characters(), Average(), loss, columns
    )


@pytest.fixture
def pair():
    return EnginePair(
        Engine(64), Engine(64), Sgd(0.1, momentum=0.9), Sgd(0.1), 0.1, Level()
    )


LABELS = a_case(Sort(), ("anchor", "positive", "label"))
NUMBERS = a_case(Grade(), ("anchor", "positive", "score"))


@pytest.mark.parametrize(
    ("check", "case"),
    [
        (testing.check_encode, a_case()),
        (testing.check_saved, a_case()),
        (testing.check_transform, a_case()),
        (testing.check_loss_and_gradients, a_case()),
        (testing.check_loss_and_gradients, LABELS),
        (testing.check_loss_and_gradients, NUMBERS),
        (testing.check_uneven_batch, a_case()),
        (testing.check_uneven_batch, NUMBERS),
        (testing.check_frozen_columns, a_case()),
        (testing.check_towers, a_case()),
        (testing.check_derivative, a_case()),
        (testing.check_clipping, a_case()),
        (testing.check_moving_average, a_case()),
        (testing.check_steps, a_case()),
        (testing.check_momentum_and_queue, a_case()),
        (testing.check_momentum_and_queue, a_case(Chase())),
        (testing.check_not_finite, a_case()),
        (testing.check_dropout_advances, a_case(Pull(noise=0.1))),
        (testing.check_state, a_case(Pull(noise=0.1, memory=0.5))),
    ],
)
def test_the_toy_engine_keeps_the_contract(pair, check, case):
    check(pair, case)


def test_the_toy_engine_describes_itself(pair):
    testing.check_counters_and_describe(pair)


def test_a_column_of_numbers_is_no_text(pair):
    assert NUMBERS.texts == ("anchor", "positive")
    score = batch(NUMBERS, pair.shared(NUMBERS, pair.engine))["score"]
    assert (score.dtype, score.shape) == (np.float32, (6,))


@pytest.mark.parametrize(
    ("described", "counted", "message"),
    [
        ({}, {}, "the precision None"),
        ({"precision": "fp32", "device": object()}, {}, "JSON cannot hold"),
        (
            {"precision": "fp32"},
            {"compile_seconds": math.nan},
            "give finite numbers that are not below 0",
        ),
    ],
)
def test_a_description_that_no_manifest_can_hold_is_found(
    pair,
    monkeypatch,
    described,
    counted,
    message,
):
    monkeypatch.setattr(Engine, "describe", lambda _: described)
    monkeypatch.setattr(Engine, "counters", lambda _: counted)
    with pytest.raises(AssertionError, match=message):
        testing.check_counters_and_describe(pair)


def test_a_batch_has_six_rows_of_many_lengths_and_what_its_loss_takes(
    pair,
):
    case = attrs.evolve(LABELS, fixed=frozenset({"positive"}))
    encoder = pair.shared(case, pair.engine)
    columns = batch(case, encoder)
    anchor = columns["anchor"]
    assert isinstance(anchor, TokenIds)
    assert len(anchor) == 6
    assert len(set(anchor.lengths.tolist())) > 1
    assert columns["label"].tolist() == [0, 1, 0, 1, 0, 1]
    positive = columns["positive"]
    assert (positive.shape, positive.dtype) == ((6, encoder.width), np.float32)
    assert not np.array_equal(batch(case, encoder, 1)["positive"], positive)


def test_both_engines_have_the_same_weights_and_training_changes_only_a_fresh_encoder(
    pair,
):
    case = a_case()
    encoder = pair.shared(case, pair.engine)
    reference = pair.shared(case, pair.reference)
    before = pair.weights(reference)
    fresh = pair.fresh(case, pair.engine)
    pair.trainer(case, pair.engine, fresh).step(batch(case, fresh))
    assert comparisons.farthest(pair.weights(encoder), before, 0.0) == (0.0, "")
    assert comparisons.farthest(pair.weights(fresh), before, 0.0)[0] > 0


def test_two_classes_of_one_name_share_no_encoder(pair):
    def another():
        @attrs.frozen
        class Same(Average):
            name = "same"

        return Same()

    of_one, of_other = (attrs.evolve(a_case(), pooler=another()) for _ in range(2))
    assert repr(of_one.recipe) == repr(of_other.recipe)
    assert pair.shared(of_one, pair.engine) is not pair.shared(of_other, pair.engine)
    assert pair.saved(of_one) != pair.saved(of_other)
    assert pair.shared(of_one, pair.engine) is pair.shared(
        attrs.evolve(of_one), pair.engine
    )
    assert pair.shared(of_one, pair.engine) is not pair.shared(of_one, pair.reference)


def test_the_directory_goes_with_the_bench():
    pair = EnginePair(Engine(64), Engine(64), Sgd(0.1), Sgd(0.1), 0.1, Level())
    directory = pair.directory
    assert directory.is_dir()
    del pair
    assert not directory.exists()


def test_the_suite_tries_only_what_is_named():
    pytest.importorskip("sentbed_hardware")
    parts = {"backbone": ["bert"], "pooler": ["mean"], "loss": ["info-nce"]}
    names = list(testing.engine_rules({"use": "cpu"}, parts=parts))
    assert {
        "encode/bert/mean/info-nce",
        "gradients/bert/mean/info-nce",
        "describe",
    } < set(names)
    assert [name for name in names if "/" in name and "bert/mean" not in name] == []
    assert [name for name in names if "/" in name and "info-nce" not in name] == []
    for wrong, message in (
        ({"pooler": ["meen"]}, "no case has the pooler `meen`. Did you mean `mean`?"),
        (
            {"data": ["pairs"]},
            "`parts` names the kind `data`; name some of backbone, pooler, loss",
        ),
    ):
        with pytest.raises(ValueError, match=message.replace("?", r"\?")):
            testing.engine_rules({"use": "cpu"}, parts=wrong)


def test_a_tolerance_of_a_rule_that_does_not_exist_is_refused():
    pytest.importorskip("sentbed_hardware")
    tolerances = {"stat": {"tolerance": 1e-6}}
    parts = {"backbone": ["bert"], "pooler": ["mean"]}
    with pytest.raises(ValueError, match=r"the rule `stat`.* Did you mean `state`"):
        testing.engine_rules({"use": "cpu"}, tolerances=tolerances, parts=parts)


@attrs.frozen
class OnlyEncodesMeans(Runtime):
    """A runtime that is never built."""

    name = "only-encodes-means"
    untrainable = "it only encodes; train with `cpu`"

    def misfits(self, place):
        if place.pooler.name != "mean":
            yield f"it has no `{place.pooler.name}`; take `mean`"

    def build(self):
        raise NotImplementedError


def test_the_suite_asks_a_runtime_that_only_encodes_for_no_training():
    pytest.importorskip("sentbed_hardware")
    names = list(testing.engine_rules(OnlyEncodesMeans()))
    assert {name.partition("/")[0] for name in names} == {
        "describe",
        "encode",
        "transform",
        "saved",
    }
    cases_of_encode = [name for name in names if name.startswith("encode/")]
    assert len(cases_of_encode) > 3
    assert {name.split("/")[2].partition("+")[0] for name in cases_of_encode} == {
        "mean"
    }


@attrs.frozen
class WithoutHeads(OnlyEncodesMeans):
    """A runtime that takes neither layers of a head nor a transform."""

    name = "without-heads"

    def misfits(self, place):
        head = place.head
        if head.projection is not None or head.transform is not None:
            yield "it has no layers; take `projection` and `transform` out"


def test_the_suite_asks_a_runtime_for_no_head_that_it_refuses():
    pytest.importorskip("sentbed_hardware")
    names = list(testing.engine_rules(WithoutHeads()))
    assert {name.partition("/")[0] for name in names} == {"describe", "encode", "saved"}
    assert [name for name in names if "+head" in name] == []


def test_the_suite_of_a_runtime_that_is_not_installed_fails_in_its_checks():
    pytest.importorskip("sentbed_hardware")
    rules = testing.engine_rules(
        {"use": "no-such"}, parts={"backbone": ["bert"], "pooler": ["mean"]}
    )
    with pytest.raises(SentbedError, match="no-such"):
        rules["describe"]()


SAVE = Placed.save


def lose_a_weight(encoder, directory):
    encoder.backbone.embedding[:] += 1
    SAVE(encoder, directory)


PLANTED: Mapping[str, tuple[str, Any]] = {
    "loaded on the same engine": ("save", lose_a_weight),
    "`protocol` is": ("protocol", property(lambda encoder: {"drawn": random.random()})),
    "`fingerprint` differs": ("fingerprint", lambda encoder: str(random.random())),
}
"""What `check_saved` says -> a method of the toy's encoder, and a broken one in its place."""


@pytest.mark.parametrize("message", PLANTED)
def test_what_is_saved_otherwise_than_it_was_is_found(message, pair, monkeypatch):
    name, broken = PLANTED[message]
    pair.saved(a_case())
    monkeypatch.setattr(Placed, name, broken)
    with pytest.raises(
        AssertionError, match=f"^saved: characters/average/pull: {message}"
    ):
        testing.check_saved(pair, a_case())


def test_cases_are_what_fits_with_the_columns_of_each_loss(plugins):
    fitting = cases(
        plugins,
        backbones={"small": Characters(), "wide": Characters(width=6)},
        losses={"pull": (PULL, ()), "more": (PULL, ("negative",))},
    )
    assert [case.id for case in fitting] == [
        "small/average/pull",
        "small/average/more",
        "wide/average/pull",
        "wide/average/more",
    ]
    assert [case.columns for case in fitting[:2]] == [
        ("anchor", "positive"),
        ("anchor", "positive", "negative"),
    ]


def test_installed_losses_without_parameters_are_tried_too(plugins):
    loss_names = {
        case.loss_name for case in cases(plugins, backbones={"small": Characters()})
    }
    assert loss_names == {"pull", "sort", "grade", "chase"}


def test_a_pooler_that_does_not_fit_makes_no_case(plugins):
    @attrs.frozen
    class Decoded(Average):
        name = "decoded"
        needs = frozenset({"decoder"})

    @attrs.frozen
    class Offering(Characters):
        offers = frozenset({"bidirectional"})

    poolers = {"average": Average(), "decoded": Decoded()}
    losses = {"pull": (PULL, ())}
    backbones = {"silent": Characters(), "offering": Offering()}
    ids = [case.id for case in cases(plugins, backbones, poolers, losses)]
    # A backbone that does not say what it offers is believed everything, and called by what is loaded.
    assert ids == [
        "silent/average/pull",
        "silent-decoder/decoded/pull",
        "offering/average/pull",
    ]


@pytest.mark.parametrize(
    ("refused", "expected"),
    [
        ((), frozenset[str]()),
        ((frozenset[str](),), frozenset({"positive"})),
        ((frozenset[str](), frozenset({"positive"})), None),
    ],
)
def test_a_loss_gets_the_fixed_columns_that_it_wants(refused, expected):
    class Choosy:
        needs = frozenset()

        def misfits(self, place):
            return ["no"] if place.fixed in refused else []

    assert fixed_columns(Choosy()) == expected


def test_every_pair_that_occurs_is_covered_by_few_cases():
    every = [
        Case(b, p, loss, Characters(), Average(), PULL, ())
        for b in "abc"
        for p in "pqrs"
        for loss in "xyz"
        if (b, p) != ("a", "s")
    ]
    chosen = cover(
        every, ("backbone", "pooler"), ("backbone", "loss"), ("pooler", "loss")
    )

    def pairs(cases):
        names = [
            (case.backbone_name, case.pooler_name, case.loss_name) for case in cases
        ]
        return {pair for b, p, loss in names for pair in ((b, p), (b, loss), (p, loss))}

    assert pairs(chosen) == pairs(every)
    # Twelve pairs of pooler and loss need as many cases.
    assert 12 <= len(chosen) <= 15 < len(every)
    assert [case.backbone_name for case in cover(every, ("backbone",))] == [
        "a",
        "b",
        "c",
    ]


def test_differences_are_relative_to_each_array_with_a_floor():
    actual = {"a": np.array([3.0, 4.0]), "b": np.array([0.001])}
    reference = {"a": np.array([3.0, 4.5]), "b": np.array([0.002])}
    size = math.hypot(3.0, 4.5)
    assert comparisons.farthest(actual, reference, 0.0) == pytest.approx((0.5, "b"))
    # With a floor of a tenth of the whole, `b` is next to nothing.
    assert comparisons.farthest(actual, reference, 0.1) == (
        pytest.approx(0.5 / size),
        "a",
    )
    assert comparisons.farthest({"a": actual["a"]}, reference, 0.1) == (math.inf, "b")
    assert comparisons.farthest({**actual, "b": np.zeros(2)}, reference, 0.1) == (
        math.inf,
        "b",
    )
    for name in ("a", "b"):
        broken = {**actual, name: actual[name] * math.nan}
        worst, where = comparisons.farthest(broken, reference, 0.1)
        assert (math.isnan(worst), where) == (True, name)


def test_parameters_without_gradient_are_found_and_left_out_by_the_end_of_their_name():
    gradients = {
        "en.model.key.bias": np.array([1e-9]),
        "en.model.key.weight": np.array([1.0]),
    }
    tiny = comparisons.parameters_without_gradient(gradients)
    assert tiny == {"en.model.key.bias"}
    weights = {
        "m.safetensors:key.bias": np.ones(1),
        "m.safetensors:monkey.bias": np.ones(1),
    }
    assert set(comparisons.without_parameters(weights, tiny)) == {
        "m.safetensors:monkey.bias"
    }


def test_a_figure_that_is_not_a_number_is_too_much():
    compare = comparisons.Comparison("rule", "case")
    with pytest.raises(
        AssertionError, match=r"^rule: case: it differs by nan, allowed 1; look there$"
    ):
        compare.at_most("it differs", math.nan, 1.0, "look there")
    compare.at_most("it differs", 1.0, 1.0, "look there")


def test_saved_weights_are_read_as_the_format_defines(tmp_path):
    values = {
        "ints": ("I64", np.array([[1, -2]], "<i8"), np.array([[1, -2]])),
        "halves": ("BF16", np.array([0x3FC0, 0xC000], "<u2"), np.array([1.5, -2.0])),
        "floats": ("F32", np.array(0.25, "<f4"), np.array(0.25)),
    }
    header = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, (kind, raw, _) in values.items():
        offsets = [len(data), len(data) + raw.nbytes]
        header[name] = {
            "dtype": kind,
            "shape": list(raw.shape),
            "data_offsets": offsets,
        }
        data += raw.tobytes()
    text = json.dumps(header).encode()
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "m.safetensors").write_bytes(
        len(text).to_bytes(8, "little") + text + data
    )
    np.save(tmp_path / "x.npy", np.arange(3))
    weights = saved_weights(tmp_path)
    expected = {
        f"inner/m.safetensors:{name}": value for name, (_, _, value) in values.items()
    }
    expected["x.npy:x"] = np.arange(3)
    assert weights.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(weights[name], value)
        assert weights[name].shape == value.shape


def test_weights_in_another_format_are_no_agreement(tmp_path):
    (tmp_path / "weights.bin").touch()
    with pytest.raises(ModelError, match="no weights in"):
        saved_weights(tmp_path)


def test_core_does_not_import_the_suite_and_the_suite_no_tensor_library():
    code = (
        "import sys, sentbed; assert 'sentbed_testing' not in sys.modules; import sentbed_testing; "
        "print([m for m in ('torch', 'jax', 'numpy', 'pytest', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
