from __future__ import annotations

import math

import pytest
import torch
from sentbed.errors import RunError
from sentbed_losses.info_nce import InfoNCE
from sentbed_losses.temperature import LearnableTemperature

# Row 1 has the positive of row 0, row 2's positive is the anchor of row 3, the hard negative of row 4 is the
# anchor of row 0, and row 5's own hard negative is its positive.
IDS = {
    "anchor.id": torch.tensor([10, 11, 12, 13, 14, 15]),
    "positive.id": torch.tensor([20, 20, 13, 23, 24, 25]),
    "negative.id": torch.tensor([30, 31, 32, 33, 10, 25]),
}

CASES = [
    InfoNCE(temperature=0.05),
    InfoNCE(temperature=2.0, symmetric=True),
    InfoNCE(temperature=0.5, similarity="dot"),
    InfoNCE(temperature=2.0, similarity="dot", symmetric=True),
    InfoNCE(hardness=5.0, temperature=0.5, symmetric=True),
    InfoNCE(hardness=2.0, mask_duplicates=True),
    InfoNCE(hard_negatives="own", hardness=2.0, temperature=0.3),
    InfoNCE(mask_duplicates=True),
    InfoNCE(mask_duplicates=True, symmetric=True, temperature=0.3),
    InfoNCE(mask_duplicates=True, similarity="dot", temperature=2.0),
]


@pytest.mark.sweep(10)
@pytest.mark.parametrize("negatives", [False, True])
@pytest.mark.parametrize("parameters", CASES)
def test_loss_gradient_and_number_of_negatives_are_those_of_the_formula(
    draw,
    with_gradients,
    formula,
    same_loss,
    parameters,
    negatives,
):
    vectors = draw(rows=6, negatives=negatives, noise=2)
    ids = {name: value for name, value in IDS.items() if parameters.mask_duplicates}
    ours, theirs = with_gradients(vectors)
    output = parameters.build(4)({**ours, **ids})
    expected, count = formula(parameters, {**theirs, **ids})
    same_loss(output.loss, expected, ours, theirs)
    if parameters.counts_negatives:
        assert output.metrics["negatives"].item() == pytest.approx(count)
        assert count > 0


def test_a_row_whose_every_candidate_leaves_has_no_loss_and_a_finite_gradient():
    anchor = torch.randn(3, 4, requires_grad=True)
    same = torch.zeros(3, dtype=torch.int64)
    vectors = {"anchor": anchor, "positive": torch.ones(3, 4)}
    vectors |= {"anchor.id": same + 1, "positive.id": same}
    output = InfoNCE(mask_duplicates=True).build(4)(vectors)
    output.loss.backward()
    assert output.loss.item() == 0
    assert output.metrics["negatives"].item() == 0
    assert output.metrics["accuracy"].item() == 1
    assert torch.equal(anchor.grad, torch.zeros(3, 4))


def test_duplicates_without_numbers_of_texts_are_an_error_that_names_the_column(
    draw,
):
    module = InfoNCE(mask_duplicates=True).build(4)
    with pytest.raises(RunError, match="column `positive`"):
        module({**draw(negatives=False), "anchor.id": torch.arange(5)})


def test_the_gradient_of_a_learned_temperature_is_finite_where_candidates_are_left_out(
    draw, formula, agrees
):
    parameters = InfoNCE(
        temperature=LearnableTemperature(0.3), symmetric=True, mask_duplicates=True
    )
    module = parameters.build(4)
    batch = draw(rows=6) | IDS
    module(batch).loss.backward()
    log = torch.tensor(math.log(0.3), dtype=torch.float64, requires_grad=True)
    formula(parameters, batch, temperature=log.exp())[0].backward()
    (parameter,) = module.parameters()
    agrees(parameter.grad, log.grad)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"temperature": 0.0}, "must be a number > 0"),
        ({"temperature": math.inf}, "must be a number > 0"),
        ({"hardness": -0.1}, "hardness"),
    ],
)
def test_a_number_out_of_range_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        InfoNCE(**fields)


@pytest.mark.parametrize("of", ["batch", "own", "none"])
def test_several_hard_negatives_a_row_are_candidates_like_the_first(
    draw,
    with_gradients,
    formula,
    agrees,
    of,
):
    parameters = InfoNCE(temperature=0.5, hard_negatives=of, hardness=3.0)
    vectors = dict(draw(rows=4, noise=2))
    vectors |= {f"negative_{n}": draw(rows=4, seed=n)["negative"] for n in (2, 3)}
    ours, theirs = with_gradients(vectors)
    output = parameters.build(4)(ours)
    expected, count = formula(parameters, theirs)
    assert output.loss.item() == pytest.approx(expected.item(), rel=1e-6, abs=1e-6)
    rows_of_negatives = {"batch": 4, "own": 1, "none": 0}
    assert count == 3 + 3 * rows_of_negatives[of]
    output.loss.backward()
    expected.backward()
    for name, value in ours.items():
        if of == "none" and name.startswith("negative"):
            assert value.grad is None
        else:
            agrees(value.grad, theirs[name].grad)


def test_the_rows_own_hard_negative_never_leaves():
    ones = torch.ones(2, 3)
    ids = dict.fromkeys(
        ("anchor.id", "positive.id", "negative.id"), torch.zeros(2, dtype=torch.int64)
    )
    vectors = {"anchor": ones, "positive": ones, "negative": ones, **ids}
    loss = InfoNCE(mask_duplicates=True)
    output = loss.build(3)(vectors)
    assert output.metrics["negatives"].item() == 1
    assert output.loss.item() == pytest.approx(math.log(2))
