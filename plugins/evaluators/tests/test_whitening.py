from __future__ import annotations

import hashlib
import json

import attrs
import numpy as np
import pytest
from scipy import stats
from sentbed import RunError
from sentbed_evaluators.geometry import Geometry
from sentbed_evaluators.senteval_sts import SentEvalSTS
from sentbed_evaluators.sts import STS
from sentbed_evaluators.whitening import Whitening, fit_whitening


def drawn(rows, width, seed=0):
    """Vectors with a mean and correlated components of different sizes, as those of a language model."""
    generator = np.random.default_rng(seed)
    mixing = generator.normal(size=(width, width)) * np.geomspace(5, 0.05, width)
    return (3 + generator.normal(size=(rows, width)) @ mixing).astype(np.float32)


def naive(fitted, vectors, width):
    """Whiten one vector after the other; mean and covariance are sums in a loop."""
    rows = fitted.astype(np.float64)
    size = rows.shape[1]
    mean = np.zeros(size)
    for row in rows:
        mean += row / len(rows)
    covariance = np.zeros((size, size))
    for row in rows:
        for i in range(size):
            for j in range(size):
                covariance[i, j] += (row[i] - mean[i]) * (row[j] - mean[j]) / len(rows)
    values, components = np.linalg.eigh(covariance)
    largest = sorted(range(size), key=lambda k: -values[k])[:width]

    whitened = []
    for row in vectors:
        centred = row.astype(np.float64) - mean
        whitened.append(
            [float(centred @ components[:, k] / values[k] ** 0.5) for k in largest]
        )
    return whitened


@pytest.mark.parametrize(("rows", "kept"), [(40, 6), (40, 3), (7, 6)])
def test_the_vectors_are_those_of_a_naive_loop_up_to_the_sign_of_a_component(
    rows, kept
):
    fitted, others = drawn(rows, 6), drawn(9, 6, seed=1)
    mean, kernel = fit_whitening(fitted, kept)
    ours, theirs = (others - mean) @ kernel, np.array(naive(fitted, others, kept))
    signs = np.sign((ours * theirs).sum(axis=0))
    np.testing.assert_allclose(ours * signs, theirs, rtol=1e-5, atol=1e-6)


def test_the_vectors_that_it_is_fitted_on_have_mean_0_and_covariance_1():
    fitted = drawn(50, 8)
    mean, kernel = fit_whitening(fitted, None)
    white = (fitted - mean) @ kernel
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-8)
    np.testing.assert_allclose(white.T @ white / 50, np.eye(8), atol=1e-8)


def test_components_without_variance_are_left_out_and_cannot_be_asked_for():
    """Five vectors span four dimensions around their mean; a component that repeats another adds none."""
    assert fit_whitening(drawn(5, 8), None)[1].shape == (8, 4)
    repeated = np.repeat(drawn(40, 4), 2, axis=1)
    assert fit_whitening(repeated, None)[1].shape == (8, 4)
    with pytest.raises(RunError, match="vary in 4 dimensions; lower `width`"):
        fit_whitening(repeated, 5)


@pytest.fixture
def pairs(write):
    rows = "".join(f"a {k}\tb {k}\t{k % 6}\n" for k in range(30))
    return STS(
        path=str(write("pairs.tsv", "sentence1\tsentence2\tscore\n" + rows)),
        split="dev",
    )


def spearman_of(first, second):
    cosine = [
        np.dot(a, b) / (np.linalg.norm(a) * np.linalg.norm(b))
        for a, b in zip(first, second, strict=True)
    ]
    return 100 * float(stats.spearmanr([k % 6 for k in range(30)], cosine).statistic)


def whole(pairs, **fields):
    """Prepare the evaluation of whitened vectors."""
    return attrs.evolve(pairs, whitening=Whitening(**fields)).prepare()


def test_without_a_file_it_is_fitted_on_the_texts_of_the_task(pairs, encoder):
    texts = [f"{side} {k}" for side in "ab" for k in range(30)]
    evaluation = whole(pairs, width=4).evaluate(encoder)
    vectors = encoder.encode(texts)
    white = naive(vectors, vectors, 4)
    spearman, pearson = evaluation.scores
    assert spearman.value == pytest.approx(spearman_of(white[:30], white[30:]))
    assert evaluation.primary == spearman.value
    plain = pairs.prepare().evaluate(encoder).scores[0]
    assert spearman.value != pytest.approx(plain.value)
    assert spearman.protocol == plain.protocol
    assert plain.transform == {}
    assert spearman.transform == pearson.transform
    assert spearman.transform == {
        "whitening": {
            "fitted_on": "the texts of the task",
            "texts": 60,
            "data": hashlib.sha256(json.dumps(texts).encode()).hexdigest(),
            "width": 4,
        }
    }
    # Every list is encoded once.
    assert [len(call) for call in encoder.calls] == [60, 60, 60]


def test_a_file_is_what_it_is_fitted_on_and_the_score_says_so(pairs, encoder, write):
    content = "".join(f"another sentence {k}\n" for k in range(20))
    evaluation = whole(pairs, path=str(write("nli.txt", content))).evaluate(encoder)
    fitted = encoder.encode(content.splitlines())
    white = naive(
        fitted, encoder.encode([f"{side} {k}" for side in "ab" for k in range(30)]), 5
    )
    assert evaluation.scores[0].value == pytest.approx(
        spearman_of(white[:30], white[30:])
    )
    assert evaluation.scores[0].transform["whitening"] == {
        "fitted_on": "nli.txt",
        "texts": 20,
        "data": hashlib.sha256(content.encode()).hexdigest(),
        "width": 5,
    }


def test_each_task_is_whitened_on_its_own_texts(write, tmp_path, encoder):
    for part, other in (("dev", "test"), ("test", "dev")):
        rows = "".join(
            f"g\tf\ty\t{k}\t{k % 6}.0\t{part} says {k}\t{other} says {k}\n"
            for k in range(30)
        )
        write(f"downstream/STS/STSBenchmark/sts-{part}.csv", rows)
    fields = {"data_dir": str(tmp_path / "downstream"), "check_sizes": False}
    both = SentEvalSTS(
        tasks=("STSB", "STSB-dev"), whitening=Whitening(), **fields
    ).prepare()
    scores = both.evaluate(encoder).scores
    for task, score in zip(("STSB", "STSB-dev"), scores, strict=True):
        (alone,) = (
            SentEvalSTS(tasks=(task,), whitening=Whitening(), **fields)
            .prepare()
            .evaluate(encoder)
            .scores
        )
        assert (score.value, score.transform) == (alone.value, alone.transform)
    assert scores[0].transform != scores[1].transform


def test_the_geometry_of_whitened_vectors_is_isotropic(pairs, encoder):
    """Of n vectors of mean 0 the mean cosine is about 0, and no direction has more than its share."""
    geometry = Geometry(
        path=pairs.path, measures=("anisotropy",), whitening=Whitening()
    )
    cosine, top = geometry.prepare().evaluate(encoder).scores
    assert abs(cosine.value) < 0.05
    assert top.value == pytest.approx(1 / 5, abs=1e-4)


def test_an_evaluator_with_it_cites_it_and_looks_for_its_file(pairs, tmp_path):
    assert pairs.traits.cites == ()
    traits = attrs.evolve(pairs, whitening=Whitening()).traits
    assert (traits.development, traits.cites) == (True, ("su2021whitening",))
    (problem,) = attrs.evolve(
        pairs, whitening=Whitening(str(tmp_path / "none.txt"))
    ).check()
    assert "none.txt" in problem
    (problem,) = attrs.evolve(pairs, whitening=Whitening(str(tmp_path))).check()
    assert "is a directory" in problem


def test_vectors_that_are_all_equal_have_no_score_and_say_so(pairs, table_encoder):
    texts = [f"{side} {k}" for side in "ab" for k in range(30)]
    score = (
        whole(pairs)
        .evaluate(table_encoder({text: [0.3, 0.1, 0.7] for text in texts}))
        .scores[0]
    )
    assert np.isnan(score.value)
    assert score.degenerate


def test_a_vector_that_is_not_finite_is_named(pairs, table_encoder):
    with pytest.raises(RunError, match="'b 7' has NaN"):
        whole(pairs).evaluate(table_encoder({"b 7": [float("nan")] * 5}))
