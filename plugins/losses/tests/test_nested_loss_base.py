from __future__ import annotations

from itertools import permutations

import attrs
import pytest
import torch
from sentbed.errors import RunError
from sentbed.protocols import PROGRESS, Loss, LossOutput
from sentbed_losses.cosent import CoSENT
from sentbed_losses.distill import Distill
from sentbed_losses.flops import Flops
from sentbed_losses.info_nce import InfoNCE
from sentbed_losses.matryoshka import Matryoshka
from sentbed_losses.momentum import Momentum
from sentbed_losses.nli_softmax import NLISoftmax
from sentbed_losses.queue import Queue
from sentbed_losses.similarity_kl import SimilarityKL
from sentbed_losses.spread_out import SpreadOut
from sentbed_losses.weighted_sum import WeightedSum


def unit(vectors):
    return vectors / (vectors * vectors).sum(dim=1, keepdim=True).sqrt()


def test_matryoshka_is_the_weighted_sum_of_its_loss_on_normalised_cuts(
    draw,
    with_gradients,
    formula,
    same_loss,
):
    inner = InfoNCE(temperature=0.3, similarity="dot")
    loss = Matryoshka(inner, dimensions=(6, 2, 4), weights=(1.0, 0.5, 2.0))
    vectors = draw(rows=5, width=6, noise=2)
    ours, theirs = with_gradients(vectors)
    output = loss.build(6)(ours)
    expected = torch.zeros((), dtype=torch.float64)
    for size, weight in zip(loss.dimensions, loss.weights, strict=True):
        cut = {}
        for name, value in theirs.items():
            cut[name] = unit(value[:, :size])
        part, _ = formula(inner, cut)
        metric = output.metrics[str(size)].item()
        assert metric == pytest.approx(part.item(), rel=1e-6)
        expected = expected + weight * part
    assert "2.accuracy" in output.metrics
    same_loss(output.loss, expected, ours, theirs)


def test_a_sum_gives_each_loss_the_columns_that_it_would_be_given_alone(
    draw,
):
    losses = (
        InfoNCE(temperature=0.5),
        SpreadOut(),
        InfoNCE(temperature=0.5, hard_negatives="none"),
    )
    vectors = {name: value.float() for name, value in draw().items()}
    output = WeightedSum(losses, weights=(1.0, 0.25, 3.0)).build(4)(vectors)
    names = ("info-nce", "spread-out", "info-nce-2")
    expected = 0.0
    for name, weight, loss in zip(names, (1.0, 0.25, 3.0), losses, strict=True):
        alone = loss.build(4)(vectors).loss.item()
        assert output.metrics[name].item() == alone
        expected += weight * alone
    assert output.loss.item() == pytest.approx(expected)
    assert "info-nce-2.accuracy" in output.metrics


QUEUE = Queue(size=6, temperature=0.5, mask_duplicates=False)


@pytest.mark.parametrize(
    ("loss", "widths"),
    [
        (Matryoshka(QUEUE, dimensions=(4, 2)), {"4": 4, "2": 2}),
        (WeightedSum((SpreadOut(), QUEUE)), {"queue": 4}),
    ],
)
def test_a_memory_is_kept_for_each_loss(draw, loss, widths):
    assert "state" in loss.needs
    module = loss.build(4)
    state = module.initial_state()
    alone = {name: QUEUE.build(width) for name, width in widths.items()}
    states = {name: queue.initial_state() for name, queue in alone.items()}
    for step in range(3):
        vectors = {name: value.float() for name, value in draw(seed=step).items()}
        output = module(vectors, state)
        state = output.state
        for name, width in widths.items():
            cut = {column: value[:, :width] for column, value in vectors.items()}
            expected = alone[name](cut, states[name])
            states[name] = expected.state
            value = output.metrics[name].item()
            assert value == pytest.approx(expected.loss.item(), rel=1e-5)


def test_needs_are_those_of_the_losses_together():
    losses = (
        InfoNCE(mask_duplicates=True),
        CoSENT(),
        NLISoftmax(),
        Queue(size=4),
        SimilarityKL(),
    )
    total = WeightedSum(losses)
    assert total.columns == frozenset().union(*(loss.columns for loss in losses))
    assert total.takes >= {"negative", "negative_2", "teacher_negative"}
    assert not total.takes & total.columns
    assert total.numbers == {"score"}
    assert total.classes == ("entailment", "neutral", "contradiction")
    assert total.needs == {"text-ids", "state"}
    assert total.targets == SimilarityKL().targets
    nested = Matryoshka(Momentum(size=4, momentum=0.9), dimensions=(4,))
    assert (nested.momentum, nested.keys, nested.needs) == (
        0.9,
        {"positive"},
        {"state", "text-ids"},
    )
    assert nested.cites[0] == "kusupati2022matryoshka"


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (
            WeightedSum((Momentum(), InfoNCE())),
            "a moving average encodes `positive` for the loss `momentum`",
        ),
        (WeightedSum((InfoNCE(),), weights=(1.0, 2.0)), "2 number(s) for 1 loss(es)"),
        (
            WeightedSum(
                (NLISoftmax(), NLISoftmax(classes=("yes", "no"), product=True))
            ),
            "different `classes`",
        ),
        (
            Matryoshka(InfoNCE(), dimensions=(4, 2), weights=(1.0,)),
            "1 number(s) for 2 dimension(s)",
        ),
        (
            WeightedSum((CoSENT(), SpreadOut(columns=("score",)))),
            "holds numbers for the loss `cosent`",
        ),
        (SpreadOut(mean_weight=0, second_moment_weight=0), "both 0"),
    ],
)
def test_losses_that_cannot_share_a_batch_are_problems(loss, message):
    assert message in " ".join(loss.check())


def test_a_dimension_above_the_width_is_refused():
    with pytest.raises(RunError, match="dimension 512, more than the 384"):
        Matryoshka(InfoNCE(), dimensions=(512, 64)).build(384)
    with pytest.raises(ValueError, match="twice"):
        Matryoshka(InfoNCE(), dimensions=(64, 64))


def test_a_teachers_vectors_are_not_cut(draw):
    inner = SimilarityKL(temperature=0.5)
    vectors = {name: value.float() for name, value in draw(negatives=False).items()}
    teacher = {
        f"teacher_{n}": v.float()
        for n, v in draw(negatives=False, seed=3, width=6).items()
    }
    actual = Matryoshka(inner, dimensions=(2,)).build(4)({**vectors, **teacher}).loss
    cut = {name: value[:, :2] for name, value in vectors.items()}
    assert actual.item() == pytest.approx(
        inner.build(2)({**cut, **teacher}).loss.item(), rel=1e-6
    )
    distill = Matryoshka(Distill(projection=6), dimensions=(4, 2)).build(4)
    assert torch.isfinite(distill({**vectors, **teacher}).loss)


@pytest.mark.parametrize("excess", [True, False])
def test_spread_out_is_that_of_a_loop_over_pairs(
    draw,
    with_gradients,
    same_loss,
    excess,
):
    columns = ("anchor", "positive")
    loss = SpreadOut(columns, mean_weight=2.0, second_moment_weight=0.5, excess=excess)
    ours, theirs = with_gradients(draw(rows=4, width=5, negatives=False))
    terms = []
    for vectors in theirs.values():
        rows = unit(vectors)
        cosines = [rows[i] @ rows[j] for i, j in permutations(range(4), 2)]
        mean = sum(cosines) / 12
        moment = sum(cosine**2 for cosine in cosines) / 12
        if excess:
            moment = torch.relu(moment - 1 / 5)
        terms.append(2 * mean**2 + 0.5 * moment)

    same_loss(loss.build(5)(ours).loss, sum(terms) / 2, ours, theirs)


def test_the_progress_of_a_stage_reaches_the_losses_that_need_it(draw):
    vectors = {name: value.float() for name, value in draw().items()}
    inputs = {PROGRESS: torch.tensor(0.25), **vectors}
    inner = Flops(InfoNCE(), query_weight=1.0, warmup=0.5)
    outer = WeightedSum((inner, SpreadOut()))
    assert outer.needs == {"progress"}
    metrics = outer.build(4)(inputs).metrics
    assert metrics["flops"].item() == inner.build(4)(inputs).loss.item()
    alone = SpreadOut().build(4)(vectors).loss
    assert metrics["spread-out"].item() == alone.item()


@attrs.frozen
class AnyColumns(Loss):
    """The mean of all its inputs, each of which must be of vectors."""

    name = "any-columns"
    columns = frozenset({"anchor"})

    def build(self, width):
        class Mean(torch.nn.Module):
            def forward(self, inputs):
                return LossOutput(torch.cat(list(inputs.values())).mean())

        return Mean()


def test_a_loss_without_needs_is_given_vectors_alone_beside_one_that_has_needs(draw):
    vectors = {name: value.float() for name, value in draw().items()}
    ids = {f"{name}.id": torch.arange(5) for name in vectors}
    others = Flops(InfoNCE(mask_duplicates=True), query_weight=1.0, warmup=0.5)
    outer = WeightedSum((others, AnyColumns()))
    assert outer.needs == {"progress", "text-ids"}
    output = outer.build(4)({PROGRESS: torch.tensor(0.25), **vectors, **ids})
    alone = AnyColumns().build(4)(vectors).loss
    assert output.metrics["any-columns"].item() == alone.item()
