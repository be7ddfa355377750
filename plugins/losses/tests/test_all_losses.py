"""What holds for every loss beside the rules of the kit, which `test_conformance.py` runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sentbed_losses
import torch
from sentbed.errors import RecipeError
from sentbed.tools import Document, structure
from sentbed_losses.angle import Angle
from sentbed_losses.cosent import CoSENT
from sentbed_losses.cosine_mse import CosineMSE
from sentbed_losses.distill import Distill
from sentbed_losses.flops import Flops
from sentbed_losses.gist import Gist
from sentbed_losses.info_nce import InfoNCE
from sentbed_losses.margin_mse import MarginMSE
from sentbed_losses.matryoshka import Matryoshka
from sentbed_losses.momentum import Momentum
from sentbed_losses.nli_softmax import NLISoftmax
from sentbed_losses.pair_classification import PairClassification
from sentbed_losses.pearson import Pearson
from sentbed_losses.queue import Queue
from sentbed_losses.similarity_kl import SimilarityKL
from sentbed_losses.spread_out import SpreadOut
from sentbed_losses.temperature import LearnableTemperature
from sentbed_losses.weighted_sum import WeightedSum
from sentbed_testing import offered

EVERYTHING: dict[str, Any] = {
    "temperature": LearnableTemperature(0.5),
    "symmetric": True,
    "margin": 0.1,
    "hard_negative_weight": 2.0,
    "mask_duplicates": True,
    "false_negative_threshold": 0.8,
}
LOSSES = [
    InfoNCE(),
    InfoNCE(**EVERYTHING),
    Queue(size=7),
    Queue(size=7, mask_duplicates=False),
    Queue(size=7, **EVERYTHING),
    Momentum(size=7, **EVERYTHING),
    Momentum(
        size=7, in_batch=False, mask_duplicates=True, false_negative_threshold=0.8
    ),
    PairClassification(),
    NLISoftmax(),
    NLISoftmax(product=True),
    InfoNCE(hardness=5.0, hardness_of="all", hard_negatives="own"),
    CoSENT(),
    CoSENT(rows="triplets"),
    Angle(),
    CosineMSE(),
    Pearson(),
    Matryoshka(InfoNCE(**EVERYTHING), dimensions=(4, 2)),
    Matryoshka(Queue(size=7), dimensions=(4, 3)),
    WeightedSum(
        (InfoNCE(), SpreadOut(), Queue(size=7, mask_duplicates=True)),
        weights=(1.0, 0.5, 2.0),
    ),
    SpreadOut(),
    Flops(InfoNCE(), warmup=0.0),
    Flops(Queue(size=7), warmup=0.0),
    Distill(projection=4),
    SimilarityKL(),
    MarginMSE(),
    Gist(margin=0.1, temperature=LearnableTemperature(0.5)),
]


def test_every_loss_is_tried():
    assert set(map(type, LOSSES)) == set(offered(sentbed_losses.losses()))


def inputs_of(loss, seed=0):
    generator = torch.Generator().manual_seed(seed)
    columns = [*sorted(loss.columns), *sorted(loss.takes)]
    inputs = {
        name: torch.randn(5, 4, generator=generator)
        for name in columns
        if name != "label"
    }
    inputs |= {name: torch.rand(5, generator=generator) for name in loss.numbers}
    if "label" in columns:
        inputs["label"] = torch.tensor([0, 1, 2, 1, 0])
    if "text-ids" in loss.needs:
        inputs |= {
            f"{name}.id": torch.randint(0, 9, (5,), generator=generator)
            for name in columns
        }
    return inputs


def arguments(loss, module):
    """Inputs and, of a loss with state, one that earlier steps left."""
    if not hasattr(module, "initial_state"):
        return (inputs_of(loss),)
    state = module.initial_state()
    for seed in (1, 2):
        state = module(inputs_of(loss, seed), state).state
    return inputs_of(loss), state


@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_is_an_fp32_scalar_and_everything_else_is_detached(loss):
    module = loss.build(4)
    inputs, *state = arguments(loss, module)
    inputs = {
        name: v.to(torch.bfloat16) if v.is_floating_point() else v
        for name, v in inputs.items()
    }
    vectors = [
        v for name, v in inputs.items() if v.ndim == 2 and name not in loss.targets
    ]
    for value in vectors:
        value.requires_grad_()
    output = module(inputs, *state)
    assert (output.loss.dtype, output.loss.shape) == (torch.float32, ())
    assert all(value.shape == () for value in output.metrics.values())
    rest = [*output.metrics.values(), *(output.state or {}).values()]
    assert rest
    assert not any(value.requires_grad for value in rest)
    output.loss.backward()
    assert all(torch.isfinite(v.grad).all() for v in vectors)


@pytest.mark.parametrize(
    ("written", "temperature"),
    [
        (0.05, 0.05),
        (1, 1.0),
        ({"initial": 1.0, "min": 0.01, "max": 100.0}, LearnableTemperature()),
        ({"initial": 2, "max": 4}, LearnableTemperature(2.0, max=4.0)),
        ({}, LearnableTemperature()),
    ],
)
def test_a_recipe_gives_the_temperature_as_a_number_or_a_table(written, temperature):
    document = Document.of({"temperature": written})
    assert structure(document, InfoNCE, None, Path()).temperature == temperature


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (0, "`temperature` divides the similarities and must be a number > 0"),
        (-0.05, "must be a number > 0"),
        ({"initial": 0}, "must be > 0: 0.0"),
        (
            {"initial": 0.001},
            "starts at 0.001, which is not between its bounds 0.01 and 100.0",
        ),
        ({"initial": 1.0, "minimum": 0.1}, "unknown key `minimum`"),
    ],
)
def test_a_recipe_with_an_impossible_temperature_is_told_why(written, message):
    document = Document.of({"temperature": written})
    with pytest.raises(RecipeError, match=message):
        structure(document, Queue, None, Path())
