from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from sentbed import DataError
from sentbed_common import item_score
from sentbed_evaluators.senteval_sts_files import YEARS
from sentbed_evaluators.sts import SentEvalSTS


def suite(directory, *arguments, **fields):
    return SentEvalSTS(*arguments, data_dir=str(directory), check_sizes=False, **fields)


def evaluate(evaluator, encoder, *arguments, **options):
    return evaluator.prepare().evaluate(encoder, *arguments, **options)


@pytest.fixture
def directory(write, tmp_path):
    """STS15 and STS16 with unscored pairs, first, in the middle and last, and STS-B."""
    for year in ("STS15", "STS16"):
        for i, name in enumerate(YEARS[year]):
            count = 6 + i
            rows, gold = [], []
            for k in range(count):
                pair = f"{year} {name} {k} left\t{name} {k} right"
                rows.append(f"{pair}\tsource\tsource\n")
                gold.append(str((k * 7 + i) % 5))
            for unscored in (0, 3, count - 1):
                gold[unscored] = ""
            write(f"d/STS/{year}-en-test/STS.input.{name}.txt", "".join(rows))
            write(
                f"d/STS/{year}-en-test/STS.gs.{name}.txt",
                "".join(f"{score}\n" for score in gold),
            )
    rows = [f'g\tf\ty\t{k}\t{k % 5}.0\tsays "{k}\tother {k}\n' for k in range(9)]
    write("d/STS/STSBenchmark/sts-test.csv", "".join(rows))
    return tmp_path / "d"


def naive_cosine(u, v):
    dot = square_of_u = square_of_v = 0.0
    for x, y in zip(u.tolist(), v.tolist(), strict=True):
        dot += x * y
        square_of_u += x * x
        square_of_v += y * y
    return dot / (square_of_u * square_of_v) ** 0.5


def test_yearly_scores_equal_a_naive_loop(directory, encoder):
    result = evaluate(suite(directory, tasks=("STS15", "STS16")), encoder)
    scores = {(score.task, score.metric): score for score in result.scores}
    for year in ("STS15", "STS16"):
        values, sizes, all_gold, all_cosines = [], [], [], []
        for i, name in enumerate(YEARS[year]):
            gold, cosines = [], []
            for k in (1, 2, *range(4, 5 + i)):
                pair = [f"{year} {name} {k} left", f"{name} {k} right"]
                gold.append((k * 7 + i) % 5)
                cosines.append(naive_cosine(*encoder.encode(pair)))
            values.append(100 * stats.spearmanr(gold, cosines).statistic)
            sizes.append(len(gold))
            all_gold += gold
            all_cosines += cosines
        assert scores[year, "spearman"].value == pytest.approx(
            100 * stats.spearmanr(all_gold, all_cosines).statistic
        )
        assert scores[year, "spearman-mean"].value == pytest.approx(
            sum(values) / len(values)
        )
        weighted = sum(v * n for v, n in zip(values, sizes, strict=True)) / sum(sizes)
        assert scores[year, "spearman-wmean"].value == pytest.approx(weighted)
        protocol = scores[year, "spearman"].protocol
        assert (protocol["pairs"], protocol["dropped"]) == (
            sum(sizes),
            3 * len(YEARS[year]),
        )
    aggregations = [score.protocol["aggregation"] for score in result.scores]
    assert aggregations == ["all", "mean", "wmean"] * 2
    main = [score.value for score in result.scores if score.metric == "spearman"]
    assert result.primary == pytest.approx(np.mean(main))


def test_every_score_follows_from_its_items(directory, encoder):
    evaluator = suite(directory, tasks=("STS15", "STSB"))
    result = evaluate(evaluator, encoder)
    metrics = [score.metric for score in result.scores]
    assert metrics == ["spearman", "spearman-mean", "spearman-wmean", "spearman"]
    for score in result.scores:
        assert score.items is not None
        assert item_score(score.items) == pytest.approx(score.value, abs=1e-9)
        assert len(score.items.x) == score.protocol["pairs"]
        assert score.note == ""


def test_means_with_a_subset_of_equal_cosines_are_undefined(directory, encoder):
    usual = encoder._vector

    def collapsed_on_images(text):
        if "images" in text:
            return usual("images")
        return usual(text)

    encoder._vector = collapsed_on_images
    result = evaluate(suite(directory, tasks=("STS15", "STSB")), encoder)
    metrics = []
    for score in result.scores:
        is_undefined = math.isnan(score.value)
        assert ("collapsed" in score.degenerate) is is_undefined
        assert (score.items is None) is is_undefined
        if is_undefined:
            metrics.append(score.metric)
    assert metrics == ["spearman-mean", "spearman-wmean"]


def test_each_task_is_encoded_in_a_call_of_its_own(directory, encoder):
    result = evaluate(suite(directory, tasks=("STSB", "STS16")), encoder)
    assert len(encoder.calls) == 2
    items = result.scores[0].items
    assert items.x.tolist() == [k % 5 for k in range(9)]
    cosines = [
        naive_cosine(*encoder.encode([f'says "{k}', f"other {k}"])) for k in range(9)
    ]
    np.testing.assert_allclose(items.y, cosines, atol=1e-12)
    stsb = result.scores[0]
    assert (stsb.task, stsb.metric, stsb.protocol["aggregation"]) == (
        "STSB",
        "spearman",
        "single",
    )
    assert stsb.value == pytest.approx(
        100 * stats.spearmanr([k % 5 for k in range(9)], cosines).statistic
    )


@pytest.mark.parametrize(
    ("file", "task"),
    [
        ("STS/STS15-en-test/STS.input.belief.txt", "STS15"),
        ("STS/STSBenchmark/sts-test.csv", "STSB"),
    ],
)
def test_words_are_joined_by_single_spaces(directory, file, task):
    expected = suite(directory, tasks=(task,)).prepare().lists[task].both
    path = directory / file
    path.write_text(path.read_text().replace(" 4", " \N{NO-BREAK SPACE} 4 "))

    assert suite(directory, tasks=(task,)).prepare().lists[task].both == expected


def test_a_protocol_says_what_makes_the_number_comparable(directory, encoder):
    evaluator = suite(directory, tasks=("STSB",))
    (score,) = evaluate(evaluator, encoder).scores
    protocol = dict(score.protocol)
    data = protocol.pop("data")
    assert len(data) == 64
    assert protocol == {
        "id": "senteval-sts",
        "similarity": "cosine",
        "correlation": "spearman",
        "aggregation": "single",
        "split": "test",
        "pairs": 9,
        "dropped": 0,
        "text": "as in the file, white space as one space",
    }
    path = directory / "STS" / "STSBenchmark" / "sts-test.csv"
    path.write_text(path.read_text().replace("other 8", "another 8"))
    (changed,) = evaluate(evaluator, encoder).scores
    assert changed.protocol["data"] != data


def test_equal_gold_scores_are_an_error_that_names_the_subset(directory, encoder):
    gold = directory / "STS" / "STS15-en-test" / "STS.gs.belief.txt"
    gold.write_text("2\n" * len(gold.read_text().split("\n")[:-1]))
    with pytest.raises(DataError, match=r"1 different scores.*STS\.gs\.belief\.txt$"):
        evaluate(suite(directory, tasks=("STS15",)), encoder)


REFERENCE = [  # all-MiniLM-L6-v2, SimCSE's fork of SentEval
    ("STSB", "spearman", 82.03),
    ("STS13", "spearman", 80.60),
    ("STS13", "spearman-mean", 74.46),
    ("STS13", "spearman-wmean", 78.97),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of the reference library
def test_a_published_model_scores_as_in_senteval(real_data, minilm):
    tasks = ("STSB", "STS13")
    result = evaluate(SentEvalSTS(tasks=tasks, data_dir=str(real_data)), minilm)
    scores = {(score.task, score.metric): score.value for score in result.scores}
    assert scores == {
        (task, metric): pytest.approx(value, abs=0.05)
        for task, metric, value in REFERENCE
    }
