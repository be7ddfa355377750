"""Values and gradients of sentence-transformers' losses on the same vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from sentbed_losses.angle import Angle
from sentbed_losses.cosent import CoSENT
from sentbed_losses.cosine_mse import CosineMSE
from sentbed_losses.distill import Distill
from sentbed_losses.gist import Gist
from sentbed_losses.info_nce import InfoNCE
from sentbed_losses.margin_mse import MarginMSE
from sentbed_losses.matryoshka import Matryoshka
from sentbed_losses.similarity_kl import SimilarityKL
from sentbed_losses.spread_out import SpreadOut

Theirs = Callable[[Any, list[torch.Tensor], dict[str, torch.Tensor]], torch.Tensor]

ROWS, WIDTH = 8, 6
SCORE = torch.tensor([0.2, 0.9, 0.2, 0.5, 0.0, 1.0, 0.7, 0.1])
TEXTS = ("anchor", "positive", "negative")


class Given(torch.nn.Module):
    """A model of sentence-transformers whose vectors come with the features."""

    max_seq_length = 32

    def forward(self, features):
        return {"sentence_embedding": features["vectors"]}

    def get_embedding_dimension(self):
        return WIDTH


class Guide(Given):
    """The same, with the teacher's vectors."""

    def forward(self, features):
        return {"sentence_embedding": features["guide"]}


@pytest.fixture(scope="module")
def library():
    # What their import warns of is theirs to mend.
    return pytest.importorskip(
        "sentence_transformers.sentence_transformer.losses",
        reason="sentence-transformers is not installed; it is in `requirements/`",
    )


def direct(name, label="score", **options):
    """The loss `name` given vectors and a label."""

    def loss(library, vectors, inputs):
        module = getattr(library, name)(Given(), **options)
        terms = module.compute_loss_from_embeddings(
            vectors, inputs[label] if label else None
        )
        return sum(terms.values()) if isinstance(terms, dict) else terms

    return loss


def distilled(metric):
    def loss(library, vectors, inputs):
        module = library.EmbedDistillLoss(Given(), distance_metric=metric)
        return module.compute_loss_from_embeddings(
            vectors, [inputs[f"teacher_{n}"] for n in TEXTS]
        )

    return loss


def divergence(library, vectors, inputs):
    anchor = inputs["teacher_anchor"]
    scores = [(anchor * inputs[f"teacher_{name}"]).sum(dim=1) for name in TEXTS[1:]]
    module = library.DistillKLDivLoss(
        Given(), student_temperature=0.7, teacher_temperature=1.5
    )
    return module.compute_loss_from_embeddings(vectors, torch.stack(scores, dim=1))


def guided(**options):
    def loss(library, vectors, inputs):
        from tokenizers import Tokenizer, models
        from transformers import PreTrainedTokenizerFast

        model, guide = Given(), Guide()
        words = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
        model.tokenizer = guide.tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=words
        )
        features = []
        for name, value in zip(TEXTS, vectors, strict=True):
            features.append({"vectors": value, "guide": inputs[f"teacher_{name}"]})
        return library.GISTEmbedLoss(model, guide, **options)(features, None)

    return loss


def nested(library, vectors, inputs):
    model = Given()
    inner = library.MultipleNegativesRankingLoss(model, scale=2.0)
    loss = library.MatryoshkaLoss(model, inner, [6, 4, 2], [1.0, 0.5, 2.0])
    return loss([{"vectors": value} for value in vectors], None)


NCE = "MultipleNegativesRankingLoss"
CASES: list[tuple[Any, Theirs, int]] = [
    (CoSENT(), direct("CoSENTLoss"), 2),
    (CoSENT(temperature=0.5), direct("CoSENTLoss", scale=2.0), 2),
    (Angle(), direct("AnglELoss"), 2),
    (Angle(temperature=1.0), direct("AnglELoss", scale=1.0), 2),
    (Angle(rows="triplets", temperature=0.5), direct("AnglELoss", None, scale=2.0), 3),
    (CosineMSE(), direct("CosineSimilarityLoss"), 2),
    (MarginMSE(), direct("MarginMSELoss"), 3),
    (
        MarginMSE(similarity="cosine"),
        direct("MarginMSELoss", similarity_fct=torch.cosine_similarity),
        3,
    ),
    (SpreadOut(TEXTS), direct("GlobalOrthogonalRegularizationLoss", None), 3),
    (
        SpreadOut(TEXTS, mean_weight=0.5, second_moment_weight=2.0, aggregation="sum"),
        direct(
            "GlobalOrthogonalRegularizationLoss",
            None,
            mean_weight=0.5,
            second_moment_weight=2.0,
            aggregation="sum",
        ),
        3,
    ),
    (Distill(), distilled("mse"), 3),
    (Distill(distance="l2"), distilled("l2"), 3),
    (Distill(distance="cosine"), distilled("cosine"), 3),
    (
        SimilarityKL(
            candidates="row", similarity="dot", temperature=0.7, teacher_temperature=1.5
        ),
        divergence,
        3,
    ),
    (Gist(temperature=0.5), guided(temperature=0.5), 3),
    (Gist(temperature=0.5, margin=0.2), guided(temperature=0.5, margin=0.2), 3),
    (
        Gist(
            temperature=0.5, margin=0.3, margin_kind="relative", contrast_anchors=False
        ),
        guided(
            temperature=0.5,
            margin=0.3,
            margin_strategy="relative",
            contrast_anchors=False,
        ),
        3,
    ),
    (
        Gist(temperature=0.5, contrast_positives=False),
        guided(temperature=0.5, contrast_positives=False),
        3,
    ),
    (
        InfoNCE(0.5, hardness=5.0),
        direct(
            NCE, None, scale=2.0, hardness_mode="hard_negatives", hardness_strength=5.0
        ),
        3,
    ),
    (
        Matryoshka(InfoNCE(0.5), dimensions=(2, 6, 4), weights=(2.0, 1.0, 0.5)),
        nested,
        3,
    ),
]


@pytest.mark.parametrize(("loss", "theirs", "columns"), CASES)
def test_values_and_gradients_are_theirs(library, same_loss, loss, theirs, columns):
    generator = torch.Generator().manual_seed(7)
    drawn = {name: torch.randn(ROWS, WIDTH, generator=generator) for name in TEXTS}
    teacher = {
        f"teacher_{name}": torch.randn(ROWS, WIDTH, generator=generator)
        for name in TEXTS
    }
    ours, others = {}, {}
    for name in TEXTS[:columns]:
        ours[name] = drawn[name].clone().requires_grad_()
        others[name] = drawn[name].double().requires_grad_()

    actual = loss.build(WIDTH)({**ours, **teacher, "score": SCORE}).loss
    inputs = {"score": SCORE.double()}
    for name, value in teacher.items():
        inputs[name] = value.double()

    expected = theirs(library, list(others.values()), inputs)
    same_loss(actual, expected, ours, others)


def test_several_hard_negatives_are_theirs(library, same_loss):
    generator = torch.Generator().manual_seed(7)
    ours, others = {}, {}
    for name in ("anchor", "positive", "negative", "negative_2", "negative_3"):
        drawn = torch.randn(ROWS, WIDTH, generator=generator)
        ours[name] = drawn.clone().requires_grad_()
        others[name] = drawn.double().requires_grad_()

    actual = InfoNCE(0.5).build(WIDTH)(ours).loss
    module = library.MultipleNegativesRankingLoss(Given(), scale=2.0)
    expected = module.compute_loss_from_embeddings(list(others.values()), None)
    same_loss(actual, expected, ours, others)


class MeanOfBert(torch.nn.Module):
    """A small BERT with mean pooling, as both libraries train it; always the same weights."""

    max_seq_length = 32

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        config = transformers.BertConfig(
            vocab_size=200,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        self.bert = transformers.BertModel(config, add_pooling_layer=False)

    def forward(self, features):
        states = self.bert(input_ids=features["input_ids"]).last_hidden_state
        return {"sentence_embedding": states.mean(1)}

    def get_embedding_dimension(self):
        return 32


@pytest.mark.parametrize("eps", [1e-8, 1e-4])
def test_ten_steps_of_matryoshka_over_angle_are_theirs(library, eps):
    """With the `eps` that AdamW has by default, vectors agree, and weights do but for some by 3e-4.

    Those are the biases of attention's keys: they add the same number to all scores of a query, which a
    softmax ignores. Their gradient is rounding (4e-10 where others have 1), and Adam divides it by its own
    size. Two runs of sentence-transformers alone, one with the rows of each batch in reverse order, drift as
    far. An `eps` above rounding keeps all weights together.
    """
    ours, theirs = MeanOfBert(), MeanOfBert()
    loss = Matryoshka(Angle(), dimensions=(32, 16, 8)).build(32)
    their_loss = library.MatryoshkaLoss(theirs, library.AnglELoss(theirs), [32, 16, 8])
    optimizers = [
        torch.optim.AdamW(model.parameters(), lr=1e-3, eps=eps)
        for model in (ours, theirs)
    ]
    generator = torch.Generator().manual_seed(1)
    for _ in range(10):
        texts = [
            {"input_ids": torch.randint(200, (8, 7), generator=generator)}
            for _ in range(2)
        ]
        score = torch.rand(8, generator=generator)
        for optimizer in optimizers:
            optimizer.zero_grad()
        anchor, positive = (ours(text)["sentence_embedding"] for text in texts)
        loss({"anchor": anchor, "positive": positive, "score": score}).loss.backward()
        their_loss(texts, score).backward()
        for optimizer in optimizers:
            optimizer.step()
    # Theirs replaces `forward` while it runs; it is as before now.
    vectors, expected = (
        model(texts[0])["sentence_embedding"] for model in (ours, theirs)
    )
    torch.testing.assert_close(vectors, expected, rtol=0, atol=2e-5)
    if eps > 1e-8:
        weights = dict(theirs.named_parameters())
        for name, weight in ours.named_parameters():
            torch.testing.assert_close(weight, weights[name], rtol=0, atol=2e-5)
