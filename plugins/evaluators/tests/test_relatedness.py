"""The regression of relatedness, held against SentEval's arithmetic written out."""

from __future__ import annotations

import copy

import attrs
import numpy as np
import pytest
import torch
from scipy import stats
from sentbed import DataError
from sentbed_evaluators._torch import relatedness_regression
from sentbed_evaluators.relatedness import (
    EncodedPairs,
    Relatedness,
)
from sentbed_evaluators.sentglue import SentGLUE


def pairs(seed, count, signal):
    """Pairs of words and vectors; `signal` is how much of the score the vectors show."""
    generator = np.random.default_rng(seed)
    first = generator.normal(size=(count, 6)).astype(np.float32)
    second = generator.normal(size=(count, 6)).astype(np.float32)
    similar = stats.rankdata((first * second).sum(axis=1)) / count
    scores = np.round(
        5 * (signal * similar + (1 - signal) * generator.random(count)), 2
    )

    scores[:6] = (0.0, 0.4, 1.0, 3.8, 4.5, 5.0)

    def texts():
        return [" ".join(["word"] * generator.integers(1, 4)) for _ in range(count)]

    return EncodedPairs((first, second), (texts(), texts()), scores.tolist())


def by_hand(train, dev, test, seed):
    """The arithmetic of SentEval's `SICKRelatednessEval` and `RelatednessPytorch`, pair by pair.

    Returns the expected grades of the test pairs, and how often the development pairs were looked at.
    """

    def prepared(part):
        rows = sorted(
            zip(*part.texts, part.scores, *part.vectors, strict=True),
            key=lambda row: (len(row[0].split()), len(row[1].split()), row[2]),
        )

        inputs, targets = [], []
        for *_, score, u, v in rows:
            inputs.append(np.concatenate([np.abs(u - v), u * v]))
            target = np.zeros(5)
            below = np.floor(score)
            for grade in (1, 2, 3, 4, 5):
                if grade == below + 1:
                    target[grade - 1] = score - below

                if grade == below:
                    target[grade - 1] = below - score + 1

            targets.append(target)

        floats = (
            torch.tensor(np.array(part), dtype=torch.float32)
            for part in (inputs, targets)
        )

        return *floats, [row[2] for row in rows]

    train_x, train_y, _ = prepared(train)
    dev_x, _, dev_scores = prepared(dev)
    first, second = map(torch.from_numpy, test.vectors)
    distance = (first - second).abs()
    product = first * second
    test_x = torch.cat([distance, product], dim=1)

    np.random.seed(seed)
    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Linear(train_x.shape[1], 5), torch.nn.Softmax(dim=-1)
    )

    optimizer = torch.optim.Adam(model.parameters(), weight_decay=0.0)
    best, best_model = -1.0, None
    misses = epochs = looks = 0
    stop = False
    grades = np.arange(1, 6)
    while not stop and epochs <= 1000:
        for _ in range(50):
            order = np.random.permutation(len(train_x))
            for start in range(0, len(train_x), 64):
                rows = torch.from_numpy(order[start : start + 64])
                loss = torch.nn.MSELoss()(model(train_x[rows]), train_y[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        epochs += 50
        looks += 1
        with torch.no_grad():
            correlation = stats.pearsonr(model(dev_x).numpy() @ grades, dev_scores)[0]

        if correlation > best:
            best, best_model = correlation, copy.deepcopy(model)
        else:
            if misses >= 3:
                stop = True

            misses += 1

    with torch.no_grad():
        return best_model(test_x).numpy() @ grades, looks


@attrs.define
class Epochs:
    """Counts the looks at the development pairs."""

    seen: list[tuple[int, int]] = attrs.field(factory=list)

    def __call__(self, epochs, most):
        self.seen.append((epochs, most))


@pytest.mark.sweep(1)
@pytest.mark.parametrize(
    ("signal", "seed", "stops"), [(0.2, 3, True), (1.0, 1111, False)]
)
def test_the_regression_is_that_of_senteval(signal, seed, stops):
    train, dev, test = pairs(0, 70, signal), pairs(1, 50, signal), pairs(2, 80, signal)
    expected, looks = by_hand(train, dev, test, seed)
    progress = Epochs()
    predicted = Relatedness(seed).predict(train, dev, test, progress)
    np.testing.assert_allclose(predicted, expected, rtol=1e-5)
    assert progress.seen == [(50 * number, 1050) for number in range(1, looks + 1)]
    assert (looks < 21) == stops
    assert predicted.std() > 0.1


@pytest.fixture
def brief(monkeypatch):
    """A training of 100 epochs, where the weights do not matter."""
    monkeypatch.setattr(relatedness_regression, "MAX_EPOCH", 50)


def test_a_regression_neither_reads_nor_changes_the_state_of_the_random_generators(
    brief,
):
    part = pairs(0, 40, 0.1)
    results = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        np.random.seed(seed)
        before = torch.get_rng_state(), np.random.get_state()[1].copy()
        results.append(Relatedness().predict(part, part, part))
        assert torch.equal(torch.get_rng_state(), before[0])
        assert np.array_equal(np.random.get_state()[1], before[1])

    np.testing.assert_array_equal(*results)


# SentGLUE's STS-B


def sts_b(glue_data, **fields):
    return SentGLUE(("STS-B",), data_dir=str(glue_data), check_sizes=False, **fields)


def test_sts_b_is_scored_by_the_trained_relatedness(glue_data, encoder, brief):
    evaluator = sts_b(glue_data, similarity="relatedness", development_share=0.2)
    (score,) = evaluator.prepare().evaluate(encoder).scores

    def part(split, rows=None):
        text = (glue_data / "STS-B" / f"{split}.tsv").read_text()
        lines = [line.split("\t") for line in text.splitlines()[1:]]
        if rows is not None:
            lines = [lines[row] for row in rows]

        first, second, scores = zip(*lines, strict=True)
        vectors = encoder.encode(list(first)), encoder.encode(list(second))
        return EncodedPairs(vectors, (first, second), [float(text) for text in scores])

    order = np.random.default_rng(1111).permutation(60).tolist()
    held_out, trained = sorted(order[:12]), sorted(order[12:])
    expected = Relatedness(1111).predict(
        part("train", trained), part("train", held_out), part("dev")
    )

    np.testing.assert_array_equal(score.items.y, expected)
    assert score.value == pytest.approx(
        100 * stats.spearmanr(part("dev").scores, expected).statistic
    )

    assert (score.metric, score.task) == ("spearman", "STS-B")
    assert {name for name, *_ in encoder.steps} == {"STS-B: classifiers"}
    protocol = score.protocol
    assert (protocol["train"], protocol["held_out"], protocol["test"]) == (48, 12, 12)
    assert (protocol["similarity"], protocol["features"]) == (
        "relatedness",
        "[|u-v|, u*v]",
    )

    assert protocol["classifier"]["stop"] == "pearson"


def test_the_two_similarities_are_not_comparable_and_the_cosine_reads_no_training_set(
    glue_data, encoder, brief
):
    (cosine,) = sts_b(glue_data).prepare().evaluate(encoder).scores
    (trained,) = (
        sts_b(glue_data, similarity="relatedness").prepare().evaluate(encoder).scores
    )

    assert cosine.protocol["similarity"] == "cosine"
    assert cosine.protocol["data"] != trained.protocol["data"]
    assert [path.name for path in sts_b(glue_data).files()] == ["dev.tsv"]
    files = [path.name for path in sts_b(glue_data, similarity="relatedness").files()]
    assert files == ["train.tsv", "dev.tsv"]
    (glue_data / "STS-B" / "train.tsv").unlink()
    assert list(sts_b(glue_data).check()) == []
    with pytest.raises(DataError, match=r"`STS-B/train\.tsv`"):
        sts_b(glue_data, similarity="relatedness").prepare()
