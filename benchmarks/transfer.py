"""Seconds of the seven transfer tasks with embeddings given, against SentEval.

    SENTBED_DATA=... python benchmarks/transfer.py [--tasks MR TREC ...] [--alone N] [--json FILE]

MiniLM encodes each task once, which is not timed; then the `senteval` protocol trains all its classifiers.
Beside it stand the seconds that the original toolkit took on one thread for the same embeddings, and what
this machine needs to train `--alone` such classifiers one after the other as the toolkit does, times their
number.
CR and MPQA are drawn at random with the published numbers of examples, MiniLM's width and MR's balance where
their files are missing, and marked.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from common import matmul_peak, parser_of, write_figures
from encode import encoder
from sentbed.errors import DataError
from sentbed.helpers import peak_memory
from sentbed.protocols import ANY_TASK, TextEncoder, TextTask, Vectors
from sentbed_evaluators.classifier_dataclasses import Examples
from sentbed_evaluators.data_directories import TaskFiles
from sentbed_evaluators.probe import PENALTIES, Classifier
from sentbed_evaluators.probe_task import LabelledTexts, ProbeTask, TextVectors
from sentbed_evaluators.transfer import PAPERS
from sentbed_evaluators.transfer_files import TRANSFER, find_files, read_transfer

ORIGINAL = {"TREC": 101.8, "MRPC": 66.8, "SST2": 105.9, "SUBJ": 1219.2, "MR": 1286.6}
"""Seconds of SimCSE's fork of SentEval on one thread for MiniLM's vectors, classifiers alone."""


class MiniLM(TextEncoder):
    """The pretrained model, as an evaluation sees it."""

    def encode(self, texts: Sequence[str], task: TextTask = ANY_TASK) -> Any:
        """Return one row a text."""
        return encoder("fp32").encode(texts)


def one_alone(
    data: Examples, classes: int, penalty: float, classifier: Classifier
) -> int:
    """Train one classifier as SentEval does, on the first nine tenths; returns its steps."""
    training = classifier.training
    np.random.seed(training.seed)
    torch.manual_seed(training.seed)
    rows = np.random.default_rng(0).permutation(len(data))
    x, y = torch.from_numpy(data.features), torch.from_numpy(data.labels)
    cut = len(rows) // 10
    look_x, look_y, x, y = x[rows[:cut]], y[rows[:cut]], x[rows[cut:]], y[rows[cut:]]
    model = torch.nn.Linear(x.shape[1], classes)
    optimizer = torch.optim.Adam(model.parameters(), weight_decay=penalty)
    best, worse, steps, epochs, stop = -1.0, 0, 0, 0, False
    while not stop and epochs <= training.max_epoch:
        for _ in range(training.epoch_size):
            order = np.random.permutation(len(x))
            for start in range(0, len(x), training.batch_size):
                chosen = torch.from_numpy(order[start : start + training.batch_size])
                loss = torch.nn.functional.cross_entropy(model(x[chosen]), y[chosen])
                loss.item()
                optimizer.zero_grad()
                torch.autograd.backward(loss)
                optimizer.step()
                steps += 1
        epochs += training.epoch_size
        accuracy = float((model(look_x).argmax(1) == look_y).float().mean())
        if accuracy > best:
            best = accuracy
            copy.deepcopy(model)
        else:
            stop = worse >= training.tenacity
            worse += 1
    return steps


def load(task: str, files: TaskFiles) -> tuple[ProbeTask, Examples, bool]:
    """Return a task, its examples, and whether they are real."""
    try:
        read = read_transfer(files, task)
    except DataError:
        (size,) = TRANSFER[task].sizes["all"]
        draw = np.random.default_rng(0)
        drawn = draw.normal(size=(size, 384)).astype(np.float32)
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        noise = 0.05 * draw.normal(size=len(drawn))
        labels = (drawn[:, 0] + noise > 0).astype(np.int64)
        split = LabelledTexts(((),), tuple(labels.tolist()))
        read = ProbeTask(task, {"all": split}, TRANSFER[task].classes, "")
        return read, Examples(drawn, labels), False
    vectors = Vectors({task: read.texts}, MiniLM())
    return read, read.examples(TextVectors.of(vectors, task)), True


def main() -> None:
    """Run the benchmark and print its table."""
    parser = parser_of(__doc__)
    parser.add_argument(
        "--tasks", nargs="+", default=list(PAPERS), choices=list(TRANSFER)
    )
    parser.add_argument(
        "--alone",
        type=int,
        default=2,
        help="classifiers of each task trained one by one",
    )
    options = parser.parse_args()
    files = find_files(None)
    classifier = Classifier()
    figures: list[dict[str, Any]] = []
    heading = (
        "task",
        "accuracy",
        "fits",
        "seconds",
        "original",
        "ratio",
        "one by one",
        "ratio",
    )
    print("{:<7}{:>9}{:>6}{:>9}{:>10}{:>7}{:>12}{:>7}".format(*heading))
    for task in options.tasks:
        read, examples, real = load(task, files)
        classes = TRANSFER[task].classes
        fits = 0

        def count(done: int, total: int) -> None:
            nonlocal fits
            fits = total

        start = time.perf_counter()
        outcome = classifier.probe(examples, classes, read.folds(classifier), count)
        seconds = time.perf_counter() - start
        start = time.perf_counter()
        for place in range(options.alone):
            one_alone(
                examples,
                classes,
                PENALTIES[place % len(PENALTIES)],
                classifier,
            )
        alone = (time.perf_counter() - start) / max(1, options.alone) * fits
        original = ORIGINAL.get(task)
        figure = {
            "task": task,
            "real": real,
            "accuracy": outcome.accuracy,
            "fits": fits,
            "seconds": seconds,
        }
        figures.append(figure | {"original": original, "one_by_one": alone})
        against = (
            f"{original:>10.1f}{original / seconds:>6.1f}x"
            if original
            else f"{'-':>10}{'-':>7}"
        )
        shown = f"{outcome.accuracy:>9.2f}"
        if not real:
            shown = f"{'(drawn)':>9}"
        print(
            f"{task:<7}{shown}{fits:>6}{seconds:>9.1f}{against}{alone:>12.1f}{alone / seconds:>6.1f}x"
        )
    ours = sum(figure["seconds"] for figure in figures)
    print(f"all: {ours:.1f} s, with {torch.get_num_threads()} threads")
    memory = (peak_memory() or 0) / 2**30
    peak = matmul_peak(torch.float32)
    print(
        f"peak memory {memory:.2f} GiB, the model that encodes included; fp32 product {peak:.2f} TFLOP/s"
    )
    result = {"tasks": figures, "peak_memory_gib": memory, "fp32_tflops": peak}
    write_figures(result, options.json)


if __name__ == "__main__":
    main()
