from __future__ import annotations

import math

import pytest
from sentbed import DataError
from sentbed_evaluators.geometry import Geometry


def evaluate(evaluator, encoder, *arguments, **options):
    return evaluator.prepare().evaluate(encoder, *arguments, **options)


def of_length_one(vectors):
    """The vectors as lists of numbers, each vector divided by its length."""
    unit = []
    for row in vectors.astype(float):
        unit.append((row / math.hypot(*row)).tolist())
    return unit


def naive_uniformity(vectors, power):
    unit = of_length_one(vectors)
    terms = []
    for i in range(len(unit)):
        for j in range(i):
            terms.append(math.exp(-2 * math.dist(unit[i], unit[j]) ** power))
    return math.log(sum(terms) / len(terms))


def by_convention(result):
    """The values by convention and metric."""
    values = {}
    for score in result.scores:
        values[score.protocol["id"], score.metric] = score.value
    return values


def test_a_file_is_measured_under_both_conventions(write, encoder):
    gold = [5, 4, 4.5, 0, 4.2, 1]
    rows = [f"a{i}\tb{i % 4}\t{score}\n" for i, score in enumerate(gold)]
    path = write("pairs.tsv", "sentence1\tsentence2\tscore\n" + "".join(rows))
    result = evaluate(Geometry(path=str(path)), encoder)
    assert len(encoder.calls) == 1

    vectors = encoder.encode(
        ["a0", "a1", "a2", "a3", "a4", "a5", "b0", "b1", "b2", "b3", "b0", "b1"]
    )
    unit = of_length_one(vectors)
    distances = []
    for i in (0, 2, 4):
        distances.append(math.dist(unit[i], unit[6 + i]))
    expected = {
        ("wang-isola", "alignment"): sum(d * d for d in distances) / 3,
        ("wang-isola", "uniformity"): naive_uniformity(vectors, 2),
        ("st5", "alignment"): sum(distances) / 3,
        ("st5", "uniformity"): naive_uniformity(vectors, 1),
    }
    measured = by_convention(result)
    assert measured == pytest.approx(expected, abs=1e-7)
    assert list(measured) == list(expected)

    first = expected["wang-isola", "alignment"] + expected["wang-isola", "uniformity"]
    assert result.primary == pytest.approx(-first)

    facts = {"positive_pairs": 3, "sentences": 12, "duplicates": "kept"}
    assert facts.items() <= result.scores[0].protocol.items()
    assert result.scores[0].task == "pairs"


def test_without_a_path_the_pairs_are_those_of_a_senteval_task(
    write, tmp_path, encoder
):
    for split, text in (("test", "t"), ("dev", "d")):
        write(f"STS/STSBenchmark/sts-{split}.csv", f"g\tf\ty\t1\t5\t{text}1\t{text}2\n")
    for task, split, texts in (
        (None, "test", ["t1", "t2"]),
        ("STSB-dev", "dev", ["d1", "d2"]),
    ):
        result = evaluate(
            Geometry(data_dir=str(tmp_path), task=task, check_sizes=False), encoder
        )
        assert encoder.calls[-1] == texts
        assert result.scores[0].task == (task or "STSB")
        assert result.scores[0].protocol["split"] == split


def test_no_positive_pair_is_an_error(write, encoder):
    path = write("pairs.tsv", "sentence1\tsentence2\tscore\na\tb\t4\nc\td\t0\n")
    with pytest.raises(
        DataError, match="no pair of `pairs` has a gold score above `threshold` = 4"
    ):
        evaluate(Geometry(path=str(path)), encoder)


def test_anisotropy_is_of_all_sentences_under_a_protocol_of_its_own(
    write, table_encoder
):
    path = write("pairs.tsv", "sentence1\tsentence2\tscore\na\tb\t5\nc\ta\t0\n")
    encoder = table_encoder({"a": [2.0, 0.0], "b": [0.0, 3.0], "c": [-1.0, 0.0]})
    result = evaluate(
        Geometry(path=str(path), measures=("anisotropy", "alignment", "uniformity")),
        encoder,
    )
    assert list(by_convention(result)) == [
        ("wang-isola", "alignment"),
        ("wang-isola", "uniformity"),
        ("st5", "alignment"),
        ("st5", "uniformity"),
        ("anisotropy", "anisotropy"),
        ("anisotropy", "top-singular-share"),
    ]

    alignment, uniformity, *_, cosine, share = result.scores
    assert (alignment.direction, alignment.axis) == ("lower", "y")
    assert (uniformity.direction, uniformity.axis) == ("lower", "x")
    assert (cosine.direction, cosine.axis) == ("none", "")
    # a twice, b orthogonal to all, c opposite to a: the six cosines are 1, -1, -1 and three zeros.
    assert cosine.value == pytest.approx(-1 / 6)
    # The columns are orthogonal: squares 4 + 4 + 1 against 9.
    assert share.value == pytest.approx(9 / 18)
    assert (cosine.protocol["normalised"], share.protocol["normalised"]) == ("L2", "no")
    assert cosine.protocol["sentences"] == 4
    assert result.primary == -(result.scores[0].value + result.scores[1].value)


@pytest.mark.parametrize(
    ("measures", "metrics"),
    [
        (("uniformity",), {"uniformity"}),
        (
            ("anisotropy", "uniformity"),
            {"uniformity", "anisotropy", "top-singular-share"},
        ),
    ],
)
def test_only_what_is_asked_for_is_measured(measures, metrics, write, encoder):
    # Without alignment, no pair needs to be positive.
    path = write("pairs.tsv", "sentence1\tsentence2\tscore\na\tb\t1\nc\td\t0\n")
    result = evaluate(Geometry(path=str(path), measures=measures), encoder)
    assert {score.metric for score in result.scores} == metrics
    assert result.scores[0].protocol["positive_pairs"] == 0
    assert result.primary == -result.scores[0].value


@pytest.mark.usefixtures("no_data")
def test_check_names_every_problem(tmp_path):
    (tmp_path / "SICK").mkdir()
    cases = [
        (Geometry(), "no data directory is known"),
        (
            Geometry(data_dir=str(tmp_path)),
            "`STSB` needs `STS/STSBenchmark/sts-test.csv`",
        ),
        (Geometry(task="STSB-test"), "Did you mean `STSB-dev`?"),
        (Geometry(path=str(tmp_path / "x.tsv")), "does not exist"),
    ]
    for geometry, expected in cases:
        (problem,) = geometry.check()
        assert expected in problem
    split, _missing = Geometry(data_dir=str(tmp_path), split="dev").check()
    assert "`split` is for a file" in split

    problems = list(
        Geometry(
            protocols=("st-5", "st-5"), threshold=math.nan, path="x.tsv", data_dir="y"
        ).check()
    )
    assert len(problems) == 6
    assert "Did you mean `st5`?" in problems[1]
    assert any("exclude each other" in problem for problem in problems)


def parallel(write, first, second, **fields):
    paths = write("val.en", first), write("val.zh", second)
    return Geometry(parallel=(str(paths[0]), str(paths[1])), **fields)


EAST, NORTH, WEST, SOUTH = [2.0, 0.0], [0.0, 3.0], [-1.0, 0.0], [0.0, -1.0]


def test_parallel_files_are_aligned_over_the_positives_and_uniform_over_all(
    write, table_encoder
):
    encoder = table_encoder({"a0": EAST, "a1": NORTH, "a2": WEST})
    encoder.second = table_encoder({"b0": NORTH, "b1": NORTH, "b2": EAST, "b3": SOUTH})
    # Beside a2 only b3 may stand: b0 and b1 are aligned, b2 is its translation.
    geometry = parallel(
        write, "a0\na1\na2\na3\n", "b0\nb1\nb2\nb3\n", pairs=3, positives=2
    )
    result = evaluate(geometry, encoder, encoder.second)
    assert (encoder.calls, encoder.second.calls) == (
        [["a0", "a1", "a2"]],
        [["b0", "b1", "b3"]],
    )

    # Of the 15 pairs among east, north x 3, west and south, 3 are equal, 4 opposite and 8 orthogonal.
    expected = {
        ("wang-isola", "alignment"): (2 + 0) / 2,
        ("wang-isola", "uniformity"): math.log(
            (3 + 4 * math.exp(-8) + 8 * math.exp(-4)) / 15
        ),
        ("st5", "alignment"): (math.sqrt(2) + 0) / 2,
        ("st5", "uniformity"): math.log(
            (3 + 4 * math.exp(-4) + 8 * math.exp(-2 * math.sqrt(2))) / 15
        ),
    }
    measured = by_convention(result)
    assert measured == pytest.approx(expected, abs=1e-9)

    protocol = result.scores[0].protocol
    facts = {
        "positive_pairs": 2,
        "pairs": 3,
        "sentences": 6,
        "positives": "aligned lines",
    }
    assert facts.items() <= protocol.items()
    assert "seed 0" in protocol["negatives"]
    assert len(protocol["data"]) == 2
    assert result.scores[0].task == "val"


def test_the_partners_are_other_lines_drawn_once_each_by_the_seed(write, encoder):
    lines = range(40)
    sides = "".join(f"a{i}\n" for i in lines), "".join(f"b{i}\n" for i in lines)
    drawn = {}
    for seed in (0, 1):
        evaluate(parallel(write, *sides, pairs=20, positives=5, seed=seed), encoder)
        texts = encoder.calls[-1]
        assert (texts[0], texts[19]) == ("a0", "a19")
        assert texts[20:25] == ["b0", "b1", "b2", "b3", "b4"]
        drawn[seed] = []
        for text in texts[25:]:
            drawn[seed].append(int(text[1:]))
        assert len(set(drawn[seed])) == 15
        assert min(drawn[seed]) >= 5
        assert max(drawn[seed]) >= 20
        for line, partner in enumerate(drawn[seed], start=5):
            assert line != partner
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        ("a\nb\n", "c\nd\ne\n", r"has 3 lines, `.*val\.en` has 2.*@ .*val\.zh$"),
        (
            "a\nb\n",
            "c\nd\n",
            r"2 lines, but 3 pairs with 1 positives need 3.*@ .*val\.en$",
        ),
        ("a\n \nc\n", "d\ne\nf\n", r"the line is empty.*val\.en:2$"),
        ("a\nb\nc\n", "\ne\nf\n", r"the line is empty.*val\.zh:1$"),
        ("", "", r"the file is empty.*val\.en$"),
    ],
)
def test_parallel_files_that_cannot_be_paired_are_an_error(
    first, second, problem, write, encoder
):
    with pytest.raises(DataError, match=problem):
        evaluate(parallel(write, first, second, pairs=3, positives=1), encoder)


def test_check_names_what_is_wrong_with_parallel_files(write, tmp_path):
    assert list(parallel(write, "a\n", "b\n").check()) == []

    cases = [
        ({"positives": 0}, "give at least one positive pair"),
        ({"pairs": 3, "positives": 4}, "`positives` is 4 and `pairs` is 3"),
        (
            {"path": str(tmp_path / "val.en")},
            "`path` and `parallel` exclude each other",
        ),
        ({"data_dir": str(tmp_path)}, "`parallel` and `data_dir` exclude each other"),
    ]
    for fields, expected in cases:
        (problem,) = parallel(write, "a\n", "b\n", **fields).check()
        assert expected in problem
    missing = Geometry(parallel=(str(tmp_path / "x"), str(tmp_path)))
    (problem,) = missing.check()
    assert problem == f"`{tmp_path / 'x'}` does not exist; check the path"
