"""The losses with a teacher, against loops over rows in fp64."""

from __future__ import annotations

import pytest
import torch
from sentbed.errors import RunError
from sentbed.protocols import StagePlace
from sentbed_losses.distill import Distill
from sentbed_losses.gist import Gist
from sentbed_losses.similarity_kl import SimilarityKL


def cosine(u, v):
    return (u @ v) / (u @ u).sqrt() / (v @ v).sqrt()


def divergence(loss, batch):
    total = torch.zeros((), dtype=torch.float64)
    rows = len(batch["anchor"])
    teacher_temperature = loss.teacher_temperature or loss.temperature
    for i in range(rows):
        places = [(name, j) for name in ("positive", "negative") for j in range(rows)]
        student = [
            torch.exp(cosine(batch["anchor"][i], batch[n][j]) / loss.temperature)
            for n, j in places
        ]
        teacher = [
            torch.exp(
                cosine(batch["teacher_anchor"][i], batch[f"teacher_{n}"][j])
                / teacher_temperature
            )
            for n, j in places
        ]
        for s, t in zip(student, teacher, strict=True):
            q, p = s / sum(student), t / sum(teacher)
            total = total + p * torch.log(p / q)
    return loss.temperature**2 * total / rows


@pytest.mark.parametrize("teacher_temperature", [None, 0.8])
def test_loss_and_gradient_are_those_of_the_formula(
    draw, with_gradients, same_loss, teacher_temperature
):
    loss = SimilarityKL(temperature=0.4, teacher_temperature=teacher_temperature)
    vectors = draw(rows=6, noise=1)
    ours, theirs = with_gradients(vectors)
    fixed, exact = {}, {}
    for name, value in draw(rows=6, width=7, noise=1, seed=1).items():
        fixed[f"teacher_{name}"] = value.float()
        exact[f"teacher_{name}"] = value.float().double()
    actual = loss.build(4)({**ours, **fixed}).loss
    expected = divergence(loss, {**theirs, **exact})
    same_loss(actual, expected, ours, theirs)


def test_a_student_of_another_width_is_projected_or_refused(
    draw,
):
    batch = {
        "anchor": draw()["anchor"].float(),
        "teacher_anchor": draw(width=9)["anchor"].float(),
    }
    with pytest.raises(
        RunError,
        match=r"width 4 with a teacher's of width 9; set `projection = 9` in the loss",
    ):
        Distill().build(4)(batch)
    torch.manual_seed(0)
    module = Distill(projection=9).build(4)
    projected = batch["anchor"] @ module.projection.weight.T + module.projection.bias
    expected = (projected - batch["teacher_anchor"]).square().mean()
    assert module(batch).loss.item() == pytest.approx(expected.item())


@pytest.mark.parametrize("distance", ["mse", "l2", "cosine"])
def test_a_student_that_equals_its_teacher_in_a_row_gets_no_nan(distance):
    student = torch.eye(3, requires_grad=True)
    teacher = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 3.0], [4.0, 0.0, 1.0]])
    loss = Distill(distance=distance).build(3)
    output = loss({"anchor": student, "teacher_anchor": teacher})
    output.loss.backward()
    assert torch.isfinite(student.grad).all()
    assert student.grad[0].abs().max() == pytest.approx(0, abs=1e-6)
    assert student.grad[1].abs().max() > 0
    if distance == "l2":
        assert output.loss.item() == pytest.approx((0 + 3 + 4) / 3)


@pytest.mark.parametrize("loss", [Gist(), SimilarityKL(), Distill()])
def test_a_teacher_that_the_stage_trains_is_a_misfit(loss):
    targets = loss.targets
    assert targets >= {name for name in loss.columns if name.startswith("teacher_")}
    assert list(loss.misfits(StagePlace(8, targets))) == []
    problem, *_ = loss.misfits(StagePlace(8))
    assert "takes the column `teacher_anchor` from a teacher" in problem
    assert "in `freeze`" in problem


def test_a_text_is_no_candidate_for_itself_even_where_the_teacher_has_one_vector_for_all():
    same = torch.ones(3, 2)
    vectors = {"anchor": torch.eye(3), "positive": torch.eye(3)}
    module = Gist(temperature=0.5).build(3)
    output = module({**vectors, "teacher_anchor": same, "teacher_positive": same})
    # cos > t does not hold where both are 1 within rounding: the other rows may stay, the own texts not.
    assert output.metrics["negatives"].item() <= 6
