from __future__ import annotations

import math

import numpy as np
import pytest
from sentbed import RunError
from sentbed_evaluators.bitext import Bitext


def evaluate(evaluator, encoder, *arguments, **options):
    return evaluator.prepare().evaluate(encoder, *arguments, **options)


def at(degrees):
    return [math.cos(math.radians(degrees)), math.sin(math.radians(degrees))]


def files(write, first, second):
    english = write("dev.en", "\n".join(first))
    chinese = write("dev.zh", "\n".join(second))
    return str(english), str(chinese)


def values(result):
    by_metric = {}
    for score in result.scores:
        by_metric[score.metric] = score.value
    return by_metric


def test_each_line_looks_for_its_own_on_the_other_side(write, table_encoder):
    """a finds x, b finds x (wrong), c finds z; x finds a, y finds b, z finds c."""
    encoder = table_encoder(
        {"a": at(0), "b": at(20), "c": at(90), "x": at(8), "y": at(40), "z": at(85)}
    )
    result = evaluate(
        Bitext(parallel=files(write, ["a", "b", "c"], ["x", "y", "z"])), encoder
    )
    forward, backward = [1, 0, 1], [1, 1, 1]
    assert values(result) == pytest.approx(
        {"accuracy": 500 / 6, "accuracy-forward": 200 / 3, "accuracy-backward": 100}
    )
    assert result.primary == pytest.approx(500 / 6)

    items = {}
    for score in result.scores:
        items[score.metric] = score.items.x.tolist()
    assert items == {
        "accuracy": [1, 0.5, 1],
        "accuracy-forward": forward,
        "accuracy-backward": backward,
    }

    protocol = result.scores[0].protocol
    assert result.scores[0].task == "dev"
    assert protocol["pairs"] == 3
    assert protocol["ranked_by"] == "cosine"


def test_either_translation_of_a_repeated_text_is_right(write, table_encoder):
    """hi stands beside salut and bonjour; bonjour stands beside hi and morning."""
    encoder = table_encoder(
        {
            "hi": at(0),
            "morning": at(30),
            "bye": at(90),
            "salut": at(-5),
            "bonjour": at(9),
            "adieu": at(80),
        }
    )
    first = ["hi", "hi", "morning", "bye"]
    second = ["salut", "bonjour", "bonjour", "adieu"]
    result = evaluate(Bitext(parallel=files(write, first, second)), encoder)
    assert values(result) == {
        "accuracy": 100,
        "accuracy-forward": 100,
        "accuracy-backward": 100,
    }


def naive_margin(a, b, k):
    cosines = a @ b.T / np.linalg.norm(a, axis=1)[:, None] / np.linalg.norm(b, axis=1)
    best = []
    for i in range(len(a)):
        near = sorted(range(len(b)), key=lambda j, i=i: -cosines[i, j])[:k]

        def margin(j, i=i, near=near):
            of_i = sum(cosines[i, z] for z in near) / (2 * k)
            of_j = sum(sorted(cosines[:, j])[-k:]) / (2 * k)
            return float(cosines[i, j] / (of_i + of_j))

        best.append(max(near, key=margin))
    return best


@pytest.mark.parametrize("k", [2, 4])
def test_the_margin_equals_a_naive_one(k, write, table_encoder):
    generator = np.random.default_rng(5)
    a = generator.normal(size=(30, 8)) + 1.5
    b = a + 0.8 * generator.normal(size=(30, 8))
    b[::7, 0] += 3  # hubs
    first = []
    second = []
    table = {}
    for row in range(30):
        first.append(f"a{row}")
        second.append(f"b{row}")
        table[f"a{row}"] = a[row].tolist()
        table[f"b{row}"] = b[row].tolist()

    encoder = table_encoder(table)
    paths = files(write, first, second)
    result = evaluate(Bitext(parallel=paths, score="margin", neighbours=k), encoder)
    margin_scores = values(result)
    rows = np.arange(30)
    forward = 100 * np.mean(naive_margin(a, b, k) == rows)
    backward = 100 * np.mean(naive_margin(b, a, k) == rows)
    assert margin_scores["accuracy-forward"] == pytest.approx(forward)
    assert margin_scores["accuracy-backward"] == pytest.approx(backward)

    cosine = evaluate(Bitext(parallel=paths), encoder)
    assert values(cosine) != margin_scores
    assert result.scores[0].protocol["ranked_by"] == f"ratio margin, k = {k}"


def test_a_margin_over_few_or_opposite_lines_is_a_number(write, table_encoder):
    encoder = table_encoder({"a": at(0), "b": at(180), "x": at(0), "y": at(180)})
    result = evaluate(
        Bitext(parallel=files(write, ["a", "b"], ["x", "y"]), score="margin"), encoder
    )
    assert values(result)["accuracy"] == 100


def test_the_second_file_is_encoded_by_the_second_encoder(write, table_encoder):
    encoder = table_encoder({"a": at(0), "b": at(90)})
    encoder.second = table_encoder({"a": at(90), "b": at(0)})
    result = evaluate(
        Bitext(parallel=files(write, ["a", "b"], ["b", "a"])), encoder, encoder.second
    )
    assert values(result)["accuracy"] == 100
    assert (encoder.calls, encoder.second.calls) == ([["a", "b"]], [["b", "a"]])


def test_only_the_first_pairs_are_taken(write, encoder):
    result = evaluate(
        Bitext(parallel=files(write, ["a", "b", "c"], ["a", "b", "d"]), pairs=2),
        encoder,
    )
    assert values(result)["accuracy"] == 100
    protocol = result.scores[0].protocol
    assert (protocol["pairs"], protocol["split"]) == (2, "first lines")


def test_a_zero_vector_is_refused_by_name(write, table_encoder):
    with pytest.raises(RunError, match="the embedding of 'y' is a zero vector"):
        evaluate(
            Bitext(parallel=files(write, ["a", "b"], ["x", "y"])),
            table_encoder({"y": [0.0] * 5}),
        )


def test_check_names_every_problem(write, tmp_path):
    paths = files(write, ["a"], ["b"])
    cases = [
        ({"parallel": (paths[0], str(tmp_path / "x"))}, "does not exist"),
        ({"parallel": (paths[0], str(tmp_path))}, "is a directory"),
    ]
    for fields, expected in cases:
        (problem,) = Bitext(**{"parallel": paths, **fields}).check()
        assert expected in problem
