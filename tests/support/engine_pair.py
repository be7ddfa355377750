"""An engine and the engine of `cpu`, with encoders of equal weights on both, and batches for their trainers."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import attrs
import numpy as np
from safetensors.torch import load_file
from sentbed import Encoder
from sentbed.protocols import (
    LABEL,
    PROGRESS,
    Backbone,
    EncoderRecipe,
    Engine,
    Head,
    Loss,
    Pooler,
    Training,
    Transform,
)
from sentbed.tools import misfits
from sentbed_backbones.bert import Bert
from sentbed_backbones.causal import Causal
from sentbed_backbones.opt import Opt
from sentbed_backbones.static import Static
from sentbed_backbones.t5 import T5
from sentbed_hardware.adamw import AdamW
from sentbed_hardware.learning_rate_schedules import Constant
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
from sentbed_poolers.cls_mlp import ClsMLP
from sentbed_poolers.decoder import Decoder
from sentbed_poolers.first import First
from sentbed_poolers.last import Last
from sentbed_poolers.mask import Mask
from sentbed_poolers.mask_mlp import MaskMLP
from sentbed_poolers.max import Max
from sentbed_poolers.mean import Mean
from sentbed_poolers.mean_first_last import MeanFirstLast
from sentbed_poolers.prompt import Prompt
from sentbed_poolers.prompt_eol import PromptEOL
from sentbed_poolers.splade import Splade
from sentbed_poolers.weighted_mean import WeightedMean
from sentbed_testing import SENTENCES

SEED = 20
ROWS = 6
"""Number of rows per batch."""
MAX_LENGTH = 20
"""Maximum number of tokens per sentence, not counting the tokens of the prompt."""
WARM_UP = 20
"""Number of training steps that the reference takes before an encoder is saved."""
TOWER = "encoder"
"""Name of the encoder if a trainer has only one."""


@attrs.frozen
class Mix(Transform):
    """A transform that halves the width, with a random mean and a random matrix."""

    name: ClassVar[str] = "mix-to-half"

    def output_width(self, width):
        return width // 2

    def fit(self, vectors, backbone):
        generator = np.random.default_rng(3)
        width = vectors.shape[1]
        mean = generator.standard_normal(width)
        return mean, generator.standard_normal((width, width // 2))


RANDOM: dict[str, Any] = {"init": "random", "vocab_size": 512}
BACKBONES: Mapping[str, Backbone] = {
    "bert": Bert(**RANDOM, dropout=0.0),
    "t5": T5(**RANDOM, dropout=0.0),
    "opt": Opt(**RANDOM, dropout=0.0),
    "llama": Causal(**RANDOM, dropout=0.0),
    "static": Static(**RANDOM),
    "opt-bidirectional": Opt(**RANDOM, dropout=0.0, attention="bidirectional"),
    "llama-bidirectional": Causal(**RANDOM, dropout=0.0, attention="bidirectional"),
    "bert-dropout": Bert(**RANDOM, dropout=0.1),
    "t5-dropout": T5(**RANDOM, dropout=0.1),
    "opt-dropout": Opt(**RANDOM, dropout=0.1),
    "llama-dropout": Causal(**RANDOM, dropout=0.1),
}
"""Backbones of the smallest size; those that are called so have dropout."""

# The plain pooler of each backbone comes first.
POOLERS: Mapping[str, Pooler] = {
    "mean": Mean(),
    "decoder": Decoder(),
    "last": Last(),
    "first": First(),
    "max": Max(),
    "weighted-mean": WeightedMean(),
    "mean-first-last": MeanFirstLast(),
    "cls-mlp": ClsMLP(),
    "cls-mlp-train": ClsMLP(mlp_only_train=True),
    "mask": Mask(),
    "mask-mlp": MaskMLP(),
    "prompt": Prompt(),
    "prompt-eol": PromptEOL(),
    "splade": Splade(),
}
HEADS: Mapping[str, Head] = {
    "none": Head(),
    "layers": Head(
        hidden=(24,),
        activation="gelu",
        projection=16,
        bias=True,
        dimensions=9,
        normalize=True,
    ),
    "transform": Head(
        projection=18, bias=True, dimensions=7, normalize=True, transform=Mix()
    ),
    "wider": Head(projection=129),
}


@attrs.frozen
class LossCase:
    """A loss, and what its batches have."""

    loss: Loss
    columns: tuple[str, ...] = ("anchor", "positive")
    vectors: tuple[str, ...] = ()
    """Columns that hold fp32 vectors in place of texts, as if a frozen encoder had computed them."""


NEGATIVES = ("anchor", "positive", "negative")
SCORED = ("anchor", "positive", "score")
TEACHERS = ("teacher_anchor", "teacher_positive")
NCE = InfoNCE(temperature=0.5)
EVERYTHING = InfoNCE(
    temperature=LearnableTemperature(initial=0.5),
    symmetric=True,
    mask_duplicates=True,
)
QUEUE = Queue(size=8, temperature=0.5)
HARD_NCE = InfoNCE(temperature=0.5, hardness=5.0)
# A memory of size 8 overflows in the second batch, since a batch has 6 rows.
LOSSES: Mapping[str, LossCase] = {
    "info-nce": LossCase(NCE),
    "info-nce-options": LossCase(EVERYTHING, NEGATIVES),
    "info-nce-vectors": LossCase(NCE, vectors=("positive",)),
    "queue": LossCase(QUEUE, vectors=("positive",)),
    "momentum": LossCase(
        Momentum(size=8, momentum=0.5, temperature=0.5, mask_duplicates=True),
        NEGATIVES,
    ),
    "sum": LossCase(
        WeightedSum((QUEUE, SpreadOut()), weights=(1.0, 0.5)), vectors=("positive",)
    ),
    "classification": LossCase(PairClassification()),
    "nli-softmax": LossCase(
        NLISoftmax(product=True), ("hypothesis", "label", "premise")
    ),
    "cosent": LossCase(CoSENT(temperature=0.5), SCORED),
    "angle": LossCase(Angle(temperature=0.5), SCORED),
    "cosine-mse": LossCase(CosineMSE(), SCORED),
    "pearson": LossCase(Pearson(), SCORED),
    "margin-mse": LossCase(MarginMSE(), (*NEGATIVES, "score")),
    "gist": LossCase(
        Gist(temperature=0.5), ("anchor", "positive", *TEACHERS), TEACHERS
    ),
    "similarity-kl": LossCase(
        SimilarityKL(temperature=0.5), ("anchor", "positive", *TEACHERS), TEACHERS
    ),
    "distill": LossCase(Distill(), ("anchor", "teacher_anchor"), ("teacher_anchor",)),
    "spread-out": LossCase(SpreadOut()),
    "flops": LossCase(
        Flops(loss=NCE, query_weight=0.1, document_weight=0.1, warmup=0.5), NEGATIVES
    ),
    "matryoshka": LossCase(
        Matryoshka(loss=HARD_NCE, dimensions=(128, 16)), (*NEGATIVES, "negative_2")
    ),
}

# With the usual `eps` of 1e-8, Adam's step is a quotient of rounding errors if a gradient is nearly 0.
ADAMW = AdamW(lr=3e-4, eps=1e-6, weight_decay=0.1)
DESCENT_RATE = 0.1
# If `eps` is far above every gradient and the betas are 0, Adam is gradient descent with the rate `lr / eps`.
DESCENT = AdamW(lr=1e3 * DESCENT_RATE, eps=1e3, beta1=0.0, beta2=0.0)


@attrs.frozen
class Case:
    """Names of the parts of an encoder, and of the loss that trains it."""

    backbone: str = "bert"
    pooler: str = "mean"
    loss: str = "info-nce"
    head: str = "none"

    def __str__(self) -> str:
        return f"{self.backbone}-{self.pooler}-{self.head}-{self.loss}"

    @property
    def recipe(self):
        return EncoderRecipe(
            BACKBONES[self.backbone],
            POOLERS[self.pooler],
            HEADS[self.head],
            MAX_LENGTH,
        )

    @property
    def texts(self):
        """Columns that the trained encoder encodes."""
        case = LOSSES[self.loss]
        others = {LABEL, "score", *case.vectors}
        return [name for name in case.columns if name not in others]


def fitting_cases(backbones):
    """Return a case for each of these backbones with each pooler that fits it."""
    cases = []
    for backbone in backbones:
        for pooler in POOLERS:
            case = Case(backbone, pooler)
            if not any(misfits(case.recipe)):
                cases.append(case)
    return cases


@attrs.define(eq=False)
class EnginePair:
    """An engine and a reference, with encoders of equal weights on both.

    The reference initialises an encoder, trains it for a few steps and saves it. Either engine then builds the
    encoder from these files. The first token of a random BERT has nearly the same state in all texts (to four
    digits): without these steps, half of the difference between two vectors would be rounding errors.
    """

    engine: Engine
    reference: Engine
    directory: Path

    def saved(self, case):
        """Return the directory in which the reference has saved the initial encoder of a case."""
        path = self.directory / f"{case.backbone}-{case.pooler}-{case.head}"
        if path.exists():
            return path

        self.reference.seed(SEED)
        encoder = Encoder.build(case.recipe, self.reference, lambda: SENTENCES)
        warm_up = attrs.evolve(case, loss="info-nce")
        optimizer = attrs.evolve(ADAMW, lr=1e-3)
        trainer = self.trainer(warm_up, encoder, optimizer=optimizer)
        for number in range(WARM_UP):
            trainer.step(batch(warm_up, encoder, number))
        encoder.save(path)
        return path

    def encoder(self, case, engine=None):
        """Return a new encoder with the saved weights, by default on the engine that is tested."""
        saved = self.saved(case)
        return Encoder.build(case.recipe, engine or self.engine, saved=saved)

    def encoders(self, case):
        """Return new encoders on the engine and on the reference."""
        return self.encoder(case), self.encoder(case, self.reference)

    def trainer(self, case, encoders, seed=SEED, **settings: Any):
        """Seed the engine of an encoder, or of several by name, and return its trainer.

        `settings` are those of `Training`; `towers` maps each column to the name of its encoder.
        """
        if isinstance(encoders, Encoder):
            encoders = {TOWER: encoders}
        defaults = {
            "loss": LOSSES[case.loss].loss,
            "optimizer": ADAMW,
            "schedule": Constant(),
            "total_steps": 10,
            "towers": dict.fromkeys(case.texts, TOWER),
        }
        training = Training(**{**defaults, **settings})
        placed = {}
        for name, encoder in encoders.items():
            placed[name] = encoder.placed
            engine = encoder.engine
        engine.seed(seed)
        return engine.trainer(placed, training)

    def gradients(self, case, encoder, rows=ROWS, **settings: Any):
        """Return loss and gradients of a batch by a new trainer; see `trainer` for `settings`."""
        trainer = self.trainer(case, encoder, **settings)
        columns = batch(case, encoder, rows=rows)
        return trainer.gradients(columns)

    def weights(self, encoder):
        """Return the saved weights of an encoder by file and name."""
        with tempfile.TemporaryDirectory() as directory:
            encoder.save(Path(directory) / "encoder")
            weights = {}
            for path in sorted(Path(directory).rglob("*.safetensors")):
                for name, value in load_file(path).items():
                    weights[f"{path.parent.name}/{path.name}:{name}"] = value.numpy()
        return weights


def batch(case, encoder, number=0, rows=ROWS):
    """Return batch `number` of a case. Its first rows follow the last rows of the batch before."""
    indices = np.arange(number * ROWS, number * ROWS + rows)
    tokenizer = encoder.tokenizer()
    loss_case = LOSSES[case.loss]
    loss = loss_case.loss
    columns: dict[str, Any] = {}
    if "progress" in loss.needs:
        columns[PROGRESS] = np.array(0.25, np.float32)

    for name in loss_case.columns:
        if name == LABEL:
            columns[name] = indices % 3
            continue
        if name == "score":
            columns[name] = (indices % 6 / 5).astype(np.float32)
            continue

        # A batch may repeat sentences.
        factor, shift = SENTENCE_ORDERS.get(name, (1, 0))
        numbers = (indices * factor + shift) % len(SENTENCES)
        if name in loss_case.vectors:
            columns[name] = fixed_vectors(encoder.width)[numbers]
        else:
            texts = [SENTENCES[sentence] for sentence in numbers]
            columns[name] = tokenizer.encode(texts, MAX_LENGTH)
        if "text-ids" in loss.needs:
            columns[f"{name}.id"] = numbers

    return columns


SENTENCE_ORDERS = {"positive": (7, 3), "hypothesis": (7, 3), "negative": (11, 5)}
"""Column -> (factor, shift): row `n` has sentence number `n * factor + shift`."""


def fixed_vectors(width):
    """Return a random vector for each sentence."""
    vectors = np.random.default_rng(SEED).standard_normal((len(SENTENCES), width))
    return vectors.astype(np.float32)
