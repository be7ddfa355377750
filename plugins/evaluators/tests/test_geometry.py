from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentbed import DataError, RunError
from sentbed_evaluators import Geometry
from sentbed_evaluators.geometry import uniformity

Write = Callable[[str, str | bytes], Path]


def naive_uniformity(vectors: np.ndarray, power: int) -> float:
    unit = [[float(x) / math.hypot(*row) for x in row] for row in vectors.tolist()]
    terms = [math.exp(-2 * math.dist(unit[i], unit[j]) ** power) for i in range(len(unit)) for j in range(i)]
    return math.log(sum(terms) / len(terms))


@pytest.mark.parametrize("block", [1, 4, 7, 23, 100])
@pytest.mark.parametrize(("squared", "power"), [(True, 2), (False, 1)])
def test_uniformity_in_blocks_equals_a_double_loop(block: int, squared: bool, power: int) -> None:
    vectors = np.random.default_rng(1).normal(size=(23, 4)).astype(np.float32)
    found = uniformity(vectors, squared=squared, block=block)
    assert found == pytest.approx(naive_uniformity(vectors, power), abs=1e-12)


def test_uniformity_of_opposite_and_of_equal_vectors() -> None:
    opposite = np.array([[3.0, 0.0], [-2.0, 0.0]])
    assert uniformity(opposite, squared=True) == pytest.approx(-8)
    assert uniformity(opposite, squared=False) == pytest.approx(-4)
    assert uniformity(np.ones((5, 3)), squared=True) == pytest.approx(0)


def test_a_file_is_measured_under_both_conventions(write: Write, encoder: Any) -> None:
    gold = [5, 4, 4.5, 0, 4.2, 1]
    rows = [f"a{i}\tb{i % 4}\t{score}\n" for i, score in enumerate(gold)]
    path = write("pairs.tsv", "sentence1\tsentence2\tscore\n" + "".join(rows))
    result = Geometry(path=str(path)).evaluate(encoder)
    assert len(encoder.calls) == 1

    vectors = encoder.encode([f"a{i}" for i in range(6)] + [f"b{i % 4}" for i in range(6)])
    unit = [[float(x) / math.hypot(*row) for x in row] for row in vectors.tolist()]
    distances = [math.dist(unit[i], unit[6 + i]) for i in range(6) if gold[i] > 4]
    assert len(distances) == 3
    expected = {
        ("wang-isola", "alignment"): sum(d * d for d in distances) / 3,
        ("wang-isola", "uniformity"): naive_uniformity(vectors, 2),
        ("st5", "alignment"): sum(distances) / 3,
        ("st5", "uniformity"): naive_uniformity(vectors, 1),
    }
    found = {(score.protocol["id"], score.metric): score.value for score in result.scores}
    assert found == pytest.approx(expected, abs=1e-7)
    assert list(found) == list(expected)
    first = expected["wang-isola", "alignment"] + expected["wang-isola", "uniformity"]
    assert result.primary == pytest.approx(-first)
    protocol = result.scores[0].protocol
    assert (protocol["positive_pairs"], protocol["sentences"], protocol["duplicates"]) == (3, 12, "kept")
    assert result.scores[0].task == "pairs"


def test_only_the_named_convention_is_reported(write: Write, encoder: Any) -> None:
    path = write("pairs.tsv", "sentence1\tsentence2\tscore\na\tb\t1\nc\td\t0\n")
    result = Geometry(path=str(path), threshold=0.5, protocols=("st5",), task="own").evaluate(encoder)
    assert [(score.task, score.protocol["id"]) for score in result.scores] == [("own", "st5")] * 2


def test_without_a_path_the_pairs_are_those_of_a_senteval_task(
    write: Write, tmp_path: Path, encoder: Any
) -> None:
    for split, text in (("test", "t"), ("dev", "d")):
        write(f"STS/STSBenchmark/sts-{split}.csv", f"g\tf\ty\t1\t5\t{text}1\t{text}2\n")
    for task, split, texts in ((None, "test", ["t1", "t2"]), ("STSB-dev", "dev", ["d1", "d2"])):
        result = Geometry(data_dir=str(tmp_path), task=task).evaluate(encoder)
        assert encoder.calls[-1] == texts
        assert result.scores[0].task == (task or "STSB")
        assert result.scores[0].protocol["split"] == split


def test_no_positive_pair_is_an_error(write: Write, encoder: Any) -> None:
    path = write("pairs.tsv", "sentence1\tsentence2\tscore\na\tb\t4\nc\td\t0\n")
    with pytest.raises(DataError, match="no pair of `pairs` has a gold score above `threshold` = 4"):
        Geometry(path=str(path)).evaluate(encoder)


def test_a_zero_vector_is_an_error(write: Write, table_encoder: Any) -> None:
    path = write("pairs.tsv", "sentence1\tsentence2\tscore\na\tb\t5\n")
    with pytest.raises(RunError, match="1 of 2 embeddings are zero vectors"):
        Geometry(path=str(path)).evaluate(table_encoder({"a": [0.0] * 5}))


@pytest.mark.usefixtures("no_data")
def test_check_names_every_problem(tmp_path: Path) -> None:
    (tmp_path / "SICK").mkdir()
    cases = [
        (Geometry(), "no data directory is known"),
        (Geometry(data_dir=str(tmp_path)), "`STSB` needs `STS/STSBenchmark/sts-test.csv`"),
        (Geometry(task="STSB-test"), "Did you mean `STSB-dev`?"),
        (Geometry(path=str(tmp_path / "x.tsv")), "does not exist"),
    ]
    for geometry, expected in cases:
        (problem,) = geometry.check()
        assert expected in problem
    problems = list(
        Geometry(protocols=("st-5", "st-5"), threshold=math.nan, path="x.tsv", data_dir="y").check()
    )
    assert len(problems) == 6
    assert "Did you mean `st5`?" in problems[1]
    assert any("exclude each other" in problem for problem in problems)


@pytest.mark.parametrize(
    ("fields", "development"),
    [
        ({"task": "STSB-dev"}, True),
        ({"task": "SICKR-train"}, True),
        ({}, False),
        ({"task": "STSB"}, False),
        ({"task": "STSB-dev", "path": "mine.tsv"}, False),
    ],
)
def test_it_is_development_on_such_a_task_and_never_on_a_file(
    fields: dict[str, str], development: bool
) -> None:
    assert Geometry(**fields).development is development
