from __future__ import annotations

import attrs
import pytest
import torch
from sentbed.errors import RunError
from sentbed.protocols import PROGRESS, Loss, LossOutput
from sentbed_losses.cosent import CoSENT
from sentbed_losses.distill import Distill
from sentbed_losses.gist import Gist
from sentbed_losses.info_nce import InfoNCE
from sentbed_losses.matryoshka import Matryoshka
from sentbed_losses.momentum import Momentum
from sentbed_losses.nli_softmax import NLISoftmax
from sentbed_losses.queue import Queue
from sentbed_losses.spread_out import SpreadOut
from sentbed_losses.temperature import LearnableTemperature
from sentbed_losses.weighted_sum import WeightedSum


def unit(vectors):
    return vectors / (vectors * vectors).sum(dim=1, keepdim=True).sqrt()


def test_matryoshka_is_the_weighted_sum_of_its_loss_on_normalised_cuts(
    draw,
    with_gradients,
    formula,
    agrees,
):
    inner = InfoNCE(temperature=0.3, similarity="dot")
    loss = Matryoshka(inner, dimensions=(6, 2, 4), weights=(1.0, 0.5, 2.0))
    vectors = draw(rows=5, width=6, noise=2)
    ours, theirs = with_gradients(vectors)
    output = loss.build(6)(ours)
    parts = [
        formula(inner, {name: unit(value[:, :size]) for name, value in theirs.items()})[
            0
        ]
        for size in loss.dimensions
    ]
    expected = parts[0] + 0.5 * parts[1] + 2 * parts[2]
    assert output.loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert [
        output.metrics[str(size)].item() for size in loss.dimensions
    ] == pytest.approx([part.item() for part in parts], rel=1e-6)
    assert "2.accuracy" in output.metrics
    output.loss.backward()
    expected.backward()
    for name, value in ours.items():
        agrees(value.grad, theirs[name].grad)


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
    alone = [loss.build(4)(vectors).loss.item() for loss in losses]
    assert output.loss.item() == pytest.approx(
        alone[0] + 0.25 * alone[1] + 3 * alone[2]
    )
    assert [
        output.metrics[name].item() for name in ("info-nce", "spread-out", "info-nce-2")
    ] == alone
    assert "info-nce-2.accuracy" in output.metrics


@pytest.mark.parametrize("nest", [Matryoshka, WeightedSum])
def test_a_memory_is_kept_for_each_loss(draw, nest):
    inner = Queue(size=6, temperature=0.5, mask_duplicates=False)
    sizes = (4, 2) if nest is Matryoshka else (4,)
    loss = (
        Matryoshka(inner, dimensions=sizes)
        if nest is Matryoshka
        else WeightedSum((SpreadOut(), inner))
    )
    module = loss.build(4)
    state = module.initial_state()
    alone = [inner.build(size) for size in sizes]
    states = [each.initial_state() for each in alone]
    for step in range(3):
        vectors = {name: value.float() for name, value in draw(seed=step).items()}
        output = module(vectors, state)
        state = output.state
        expected = 0.0
        for number, (each, size) in enumerate(zip(alone, sizes, strict=True)):
            cut = {name: value[:, :size] for name, value in vectors.items()}
            inner_output = each(cut, states[number])
            states[number] = inner_output.state
            expected += inner_output.loss.item()
        if nest is WeightedSum:
            expected += SpreadOut().build(4)(vectors).loss.item()
        assert output.loss.item() == pytest.approx(expected, rel=1e-5)
    assert "state" in loss.needs


def test_needs_are_those_of_the_losses_together():
    losses = (
        InfoNCE(mask_duplicates=True),
        CoSENT(),
        NLISoftmax(),
        Queue(size=4),
        Gist(),
    )
    total = WeightedSum(losses)
    assert total.columns == frozenset().union(*(loss.columns for loss in losses))
    assert total.takes >= {"negative", "negative_2", "teacher_negative"}
    assert not total.takes & total.columns
    assert total.numbers == {"score"}
    assert total.classes == ("entailment", "neutral", "contradiction")
    assert total.needs == {"text-ids", "state"}
    assert total.targets == Gist().targets
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


def test_every_dimension_learns_a_temperature_of_its_own():
    loss = Matryoshka(InfoNCE(LearnableTemperature()), dimensions=(4, 2))
    assert len(list(loss.build(4).parameters())) == 2


def test_a_teachers_vectors_are_not_cut(draw):
    inner = Gist(temperature=0.5)
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


@pytest.mark.parametrize("columns", [("anchor",), ("anchor", "positive")])
@pytest.mark.parametrize("aggregation", ["mean", "sum"])
@pytest.mark.parametrize("excess", [True, False])
def test_spread_out_is_that_of_a_loop_over_pairs(
    draw,
    with_gradients,
    agrees,
    columns,
    aggregation,
    excess,
):
    loss = SpreadOut(
        columns,
        mean_weight=2.0,
        second_moment_weight=0.5,
        excess=excess,
        aggregation=aggregation,
    )
    vectors = draw(rows=4, width=5)
    ours, theirs = with_gradients(vectors)
    terms = []
    for name in columns:
        rows = unit(theirs[name])
        cosines = [rows[i] @ rows[j] for i in range(4) for j in range(4) if i != j]
        first, second = sum(cosines) / 12, sum(c**2 for c in cosines) / 12
        terms.append(
            2 * first**2 + 0.5 * (torch.relu(second - 1 / 5) if excess else second)
        )
    expected = sum(terms) / (1 if aggregation == "sum" else len(terms))
    actual = loss.build(5)(ours).loss
    assert actual.item() == pytest.approx(expected.item(), rel=1e-6, abs=1e-7)
    actual.backward()
    expected.backward()
    for name in columns:
        agrees(ours[name].grad, theirs[name].grad)


@attrs.frozen
class Annealed(Loss):
    """InfoNCE with a temperature that falls from 1 to 0.1."""

    name = "annealed"
    columns = frozenset({"anchor", "positive"})
    needs = frozenset({"progress"})

    def build(self, width):
        class Falling(torch.nn.Module):
            def forward(self, inputs):
                temperature = 1 - 0.9 * inputs[PROGRESS]
                cosines = unit(inputs["anchor"]) @ unit(inputs["positive"]).T
                targets = torch.arange(len(cosines))
                loss = torch.nn.functional.cross_entropy(cosines / temperature, targets)
                return LossOutput(loss)

        return Falling()


@pytest.mark.parametrize("progress", [0.0, 0.5])
@pytest.mark.parametrize(
    "outer", [Matryoshka(Annealed(), dimensions=(4,)), WeightedSum((Annealed(),))]
)
def test_the_progress_of_a_stage_reaches_a_loss_in_another(draw, outer, progress):
    vectors = {name: value.float() for name, value in draw().items()}
    temperature = 1 - 0.9 * progress
    expected = InfoNCE(temperature=temperature, hard_negatives="none").build(4)(vectors)
    assert outer.needs == {"progress"}
    output = outer.build(4)({PROGRESS: torch.tensor(progress), **vectors})
    assert output.loss.item() == pytest.approx(expected.loss.item(), rel=1e-5)


def test_a_loss_that_needs_no_progress_sees_none_beside_one_that_does(
    draw,
):
    vectors = {name: value.float() for name, value in draw().items()}
    pair = WeightedSum((Annealed(), SpreadOut()))
    output = pair.build(4)({PROGRESS: torch.tensor(0.0), **vectors})
    expected = SpreadOut().build(4)(vectors).loss.item()
    assert output.metrics["spread-out"].item() == expected


@attrs.frozen
class Doubled(Loss):
    """A stranger's loss: twice another one."""

    name = "doubled"
    loss: Loss

    @property
    def columns(self):
        return self.loss.columns

    def build(self, width):
        inner = self.loss.build(width)

        class Twice(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = inner

            def forward(self, inputs):
                return LossOutput(2 * self.inner(inputs).loss)

        return Twice()


def test_a_strangers_loss_contains_ours_and_ours_a_strangers(
    draw,
):
    vectors = {name: value.float() for name, value in draw().items()}
    ours = WeightedSum((InfoNCE(), SpreadOut()))
    plain = ours.build(4)(vectors).loss.item()
    assert Doubled(ours).build(4)(vectors).loss.item() == pytest.approx(2 * plain)
    outer = WeightedSum((Doubled(ours), Doubled(InfoNCE())))
    assert outer.columns == {"anchor", "positive"}
    expected = 2 * plain + 2 * InfoNCE().build(4)(vectors).loss.item()
    assert outer.build(4)(vectors).loss.item() == pytest.approx(expected)
