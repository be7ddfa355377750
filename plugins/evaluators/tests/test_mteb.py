from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import random
import subprocess
import sys
import types

import numpy as np
import pytest
from scipy import stats
from sentbed import DataError, RunError
from sentbed.protocols import Similarity
from sentbed_evaluators.mteb import MTEB, as_mteb_model
from sentbed_evaluators.sts import STS

needs_mteb = pytest.mark.skipif(
    importlib.util.find_spec("mteb") is None, reason="needs the extra `mteb`"
)

PAIRS = [
    ("a dog runs", "a dog is running", 4.5),
    ("a man cooks", "the train is late", 0.5),
    ("two birds fly", "birds in the air", 3.0),
    ("it rains", "the sun shines", 1.0),
    ("she reads a book", "she is reading", 4.0),
    ("it rains", "water falls from the sky", 3.5),
]
CORPUS = {"d1": "north", "d2": "east", "d3": "south"}
QUERIES = {"q1": "up", "q2": "right"}
TABLE = {
    "north": [0.0, 1.0],
    "east": [1.0, 0.0],
    "south": [0.0, -1.0],
    "up": [0.1, 1.0],  # its document comes first
    "right": [0.5, 1.0],  # its document comes second, after north
}


def evaluate(evaluator, encoder, *arguments, **options):
    return evaluator.prepare().evaluate(encoder, *arguments, **options)


def sts_data(rows):
    import datasets

    first, second, scores = zip(*rows, strict=True)
    return datasets.Dataset.from_dict(
        {"sentence1": first, "sentence2": second, "score": scores}
    )


@pytest.fixture
def local(monkeypatch):
    """A module of mteb's tasks on data that is made here."""
    pytest.importorskip("mteb", reason="needs the extra `mteb`")
    import datasets
    from mteb import TaskMetadata
    from mteb.abstasks import AbsTaskClassification, AbsTaskRetrieval, AbsTaskSTS
    from mteb.abstasks.aggregate_task_metadata import AggregateTaskMetadata
    from mteb.abstasks.aggregated_task import AbsTaskAggregate

    def about(name, kind, main_score, **more):
        where = {"path": f"local/{name}", "revision": "1"}
        more = {"eval_langs": ["eng-Latn"], **more}
        return TaskMetadata(
            name=name,
            description="",
            type=kind,
            main_score=main_score,
            dataset=where,
            **more,
        )

    class Pairs(AbsTaskSTS):
        metadata = about("Pairs", "STS", "cosine_spearman")

        def load_data(self, **_):
            self.dataset = datasets.DatasetDict(
                test=sts_data(PAIRS), dev=sts_data(PAIRS[:4])
            )
            self.data_loaded = True

    class Shifted(Pairs):
        metadata = about("Shifted", "STS", "cosine_spearman")

        def load_data(self, **_):
            self.dataset = datasets.DatasetDict(test=sts_data(PAIRS[2:]))
            self.data_loaded = True

    class Languages(AbsTaskSTS):
        metadata = about(
            "Languages",
            "STS",
            "cosine_spearman",
            eval_langs={"en": ["eng-Latn"], "de": ["deu-Latn"]},
        )

        def load_data(self, **_):
            parts = {"en": PAIRS[:4], "de": PAIRS[2:]}
            self.dataset = {}
            for name, rows in parts.items():
                self.dataset[name] = datasets.DatasetDict(test=sts_data(rows))
            self.data_loaded = True

    class Search(AbsTaskRetrieval):
        metadata = about("Search", "Retrieval", "ndcg_at_10")

        def load_data(self, **_):
            def texts(rows):
                return datasets.Dataset.from_dict(
                    {"id": list(rows), "text": list(rows.values())}
                )

            relevant = {"q1": {"d1": 1}, "q2": {"d2": 1}}
            split = {
                "corpus": texts(CORPUS),
                "queries": texts(QUERIES),
                "relevant_docs": relevant,
            }
            self.dataset = {"default": {"test": {**split, "top_ranked": None}}}
            self.data_loaded = True

    class Topics(AbsTaskClassification):
        metadata = about("Topics", "Classification", "accuracy")
        samples_per_label = 2
        n_experiments = 2

        def load_data(self, **_):
            rows = datasets.Dataset.from_dict(
                {"text": ["x", "y", "z", "w"], "label": [0, 0, 1, 1]}
            )
            self.dataset = datasets.DatasetDict(train=rows, test=rows)
            self.data_loaded = True

    class Gone(Pairs):
        metadata = about("Gone", "STS", "cosine_spearman")

        def load_data(self, **_):
            raise ConnectionError("Couldn't reach 'local/Gone' on the Hub\nand more")

    class Both(AbsTaskAggregate):
        metadata = AggregateTaskMetadata(
            name="Both",
            description="",
            type="STS",
            main_score="cosine_spearman",
            eval_langs=["eng-Latn"],
            eval_splits=["test"],
            tasks=[Pairs(), Shifted()],
        )

    module = types.ModuleType("local_tasks")
    for cls in (Pairs, Shifted, Both, Languages, Search, Topics, Gone):
        setattr(module, cls.__name__, cls)
    monkeypatch.setitem(sys.modules, "local_tasks", module)
    return module


def named(*names, **fields):
    return MTEB(tasks=tuple(f"local_tasks:{name}" for name in names), **fields)


def values_of(scores):
    return {(score.task, score.metric): score.value for score in scores}


@pytest.mark.slow
def test_a_task_scores_as_our_own_evaluator_on_the_same_pairs(local, encoder, write):
    lines = "".join(f"{first}\t{second}\t{score}\n" for first, second, score in PAIRS)
    path = write("pairs.tsv", "sentence1\tsentence2\tscore\n" + lines)
    ours = evaluate(STS(path=str(path)), encoder)
    result = evaluate(named("Pairs"), encoder)
    assert result.primary == pytest.approx(ours.primary, abs=1e-6)

    (score,) = result.scores
    assert (score.task, score.metric, score.value) == (
        "Pairs",
        "cosine_spearman",
        result.primary,
    )

    expected = {
        "id": "mteb",
        "type": "STS",
        "dataset": "local/Pairs",
        "revision": "1",
        "similarity": "cosine",
    }
    expected |= {"split": "test", "subset": "default", "languages": ["eng-Latn"]}
    assert expected.items() <= score.protocol.items()
    assert score.protocol["mteb"] == importlib.metadata.version("mteb")


class Near(Similarity):
    """Minus the squared distance."""

    name = "near"

    def similarity(self, first, second):
        return -(first[:, None] - second).square().sum(dim=-1)


def test_a_score_of_the_cosine_becomes_that_of_the_encoders_similarity(
    local, table_encoder
):
    texts = dict.fromkeys(text for row in PAIRS for text in row[:2])
    vectors = np.random.default_rng(0).normal(size=(len(texts), 3))
    table = dict(zip(texts, vectors, strict=True))
    encoder = table_encoder(table, width=3)
    encoder.similarity = Near()
    (score,) = evaluate(named("Pairs"), encoder).scores

    near = [-((table[a] - table[b]) ** 2).sum() for a, b, _ in PAIRS]
    expected = stats.spearmanr([gold for _, _, gold in PAIRS], near).statistic
    assert score.metric == "spearman"
    assert score.value == pytest.approx(100 * expected, abs=1e-3)


def test_tasks_keep_their_order_and_are_averaged(local, table_encoder):
    result = evaluate(named("Search", "Pairs"), table_encoder(TABLE, width=2))
    search = 100 * (1 + 1 / math.log2(3)) / 2
    assert list(values_of(result.scores)) == [
        ("Search", "ndcg_at_10"),
        ("Pairs", "cosine_spearman"),
        ("AVG", "main_score"),
    ]

    first, second, average = result.scores
    assert first.value == pytest.approx(search, abs=1e-3)  # mteb rounds to five places
    assert (
        average.value
        == result.primary
        == pytest.approx((first.value + second.value) / 2)
    )
    assert average.protocol["of"] == {
        "Search": "ndcg_at_10",
        "Pairs": "cosine_spearman",
    }
    assert average.protocol["mteb"] == first.protocol["mteb"]


def test_subsets_and_splits_have_scores_of_their_own(local, encoder):
    scores = evaluate(named("Languages"), encoder).scores
    values = values_of(scores)
    assert list(values) == [
        ("Languages", "cosine_spearman"),
        ("Languages", "cosine_spearman-en"),
        ("Languages", "cosine_spearman-de"),
    ]

    whole, english, german = values.values()
    assert whole == pytest.approx((english + german) / 2)
    assert scores[0].protocol["subset"] == ["en", "de"]
    assert values_of(
        evaluate(named("Languages", languages=("deu",)), encoder).scores
    ) == {("Languages", "cosine_spearman"): german}
    assert values_of(evaluate(named("Languages", subsets=("en",)), encoder).scores) == {
        ("Languages", "cosine_spearman"): english
    }

    (dev,) = evaluate(named("Pairs", splits=("dev",)), encoder).scores
    assert (dev.value, dev.protocol["split"]) == (english, "dev")


def test_a_task_that_is_the_mean_of_others_is_scored_on_them(local, encoder):
    (score,) = evaluate(named("Both"), encoder).scores
    parts = [evaluate(named(name), encoder).primary for name in ("Pairs", "Shifted")]
    assert score.value == pytest.approx(sum(parts) / 2)
    assert score.protocol["dataset"] == ["local/Pairs", "local/Shifted"]
    assert score.protocol["of"] == ["Pairs", "Shifted"]
    assert not any(part.data_loaded for part in local.Both.metadata.tasks)


def test_the_generators_of_a_training_are_left_as_they_were(local, encoder):
    import torch

    def drawn():
        return [random.random(), float(np.random.rand()), float(torch.rand(()))]

    def seeded():
        random.seed(7), np.random.seed(7), torch.manual_seed(7)

    seeded()
    expected = drawn()
    seeded()
    evaluate(named("Pairs"), encoder)
    assert drawn() == expected


def test_what_mteb_does_not_have_ends_a_run_before_it_trains(local):
    with pytest.raises(ValueError, match="No subsets"):
        named("Languages", subsets=("fr",)).prepare()
    with pytest.raises(KeyError, match="Did you mean"):
        MTEB(tasks=("stsbenchmrk",)).prepare()


def test_data_that_cannot_be_had_ends_it_before_anything_is_encoded(local, encoder):
    with pytest.raises(ConnectionError, match="Couldn't reach"):
        evaluate(named("Pairs", "Gone"), encoder)
    assert encoder.calls == []


def test_a_zero_vector_is_refused_where_a_classifier_is_trained(local, table_encoder):
    with pytest.raises(RunError, match="embedding of 'y' is a zero vector"):
        evaluate(named("Topics"), table_encoder({"y": [0.0] * 5}))


@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_a_collapsed_encoder_has_no_score_and_says_so(local, table_encoder):
    encoder = table_encoder()
    encoder.encode = lambda texts, task: np.ones((len(texts), 2), np.float32)
    (score,) = evaluate(named("Pairs"), encoder).scores
    assert math.isnan(score.value)
    assert score.degenerate == "mteb's score is not a number"


def test_an_encoder_is_a_model_that_mteb_itself_evaluates(local, encoder, tmp_path):
    import mteb

    model = as_mteb_model(encoder, "me/hash")
    assert isinstance(model, mteb.EncoderProtocol)

    meta = model.mteb_model_meta
    assert (meta.name, meta.similarity_fn_name) == ("me/hash", "cosine")

    encoder.calls.clear()
    cache = mteb.ResultCache(tmp_path)
    result = mteb.evaluate(
        model,
        local.Pairs(),
        cache=cache,
        encode_kwargs={"batch_size": 2},
        co2_tracker=False,
    )
    assert encoder.calls == [[pair[0] for pair in PAIRS], [pair[1] for pair in PAIRS]]
    assert (
        100 * result.task_results[0].main_score
        == evaluate(named("Pairs"), encoder).primary
    )


def test_an_encoder_that_cannot_be_identified_shares_its_revision_with_nothing(
    table_encoder,
):
    pytest.importorskip("mteb", reason="needs the extra `mteb`")
    encoder = table_encoder()
    first = as_mteb_model(encoder)
    second = as_mteb_model(encoder)
    assert first.mteb_model_meta.revision != second.mteb_model_meta.revision

    with pytest.raises(DataError, match="`OWNER/NAME`"):
        as_mteb_model(encoder, "hash")


def test_without_the_library_it_says_how_to_install_it(encoder, monkeypatch):
    monkeypatch.setattr("sentbed_evaluators.mteb.find_spec", lambda _: None)
    (problem,) = MTEB(tasks=("STS12",)).check()
    assert "pip install 'sentbed-evaluators[mteb]'" in problem
    with pytest.raises(RunError, match="sentbed-evaluators"):
        as_mteb_model(encoder)


@needs_mteb
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "neither `tasks` nor `benchmark`"),
        (
            {"tasks": ("STS12",), "benchmark": "MTEB(eng, v2)"},
            "both `tasks` and `benchmark`",
        ),
        ({"tasks": ("STS12", "STS13", "STS12")}, "`STS12` is listed twice"),
        (
            {"benchmark": "MTEB(eng, v2)", "splits": ("dev",)},
            "`splits` cannot change the benchmark",
        ),
    ],
)
def test_parameters_that_exclude_each_other_are_reported(fields, message):
    (problem,) = MTEB(**fields).check()
    assert message in problem


def test_it_is_checked_without_loading_mteb_or_torch():
    code = (
        "import sys\nfrom sentbed_evaluators.mteb import MTEB\nlist(MTEB(tasks=('STS12',)).check())\n"
        "print([m for m in ('mteb', 'torch', 'numpy', 'datasets') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of the reference library
def test_a_published_model_scores_as_on_the_leaderboard(real_data, local, minilm):
    import datasets

    file = (
        real_data / "senteval" / "downstream" / "STS" / "STSBenchmark" / "sts-test.csv"
    )
    lines = [
        line.split("\t")
        for line in file.read_text(encoding="utf-8").split("\n")
        if line
    ]
    rows = [(line[5], line[6], float(line[4])) for line in lines]
    assert len(rows) == 1379

    class STSB(local.Pairs):
        def load_data(self, **_):
            self.dataset = datasets.DatasetDict(test=sts_data(rows))
            self.data_loaded = True

    local.STSB = STSB
    assert evaluate(named("STSB"), minilm).primary == pytest.approx(82.03, abs=0.05)
