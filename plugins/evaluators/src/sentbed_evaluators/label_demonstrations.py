"""Demonstrations whose words are the labels of MR (PromptEOL, appendix C), made from SentEval's files."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from sentbed_common import KnownData, KnownFile, KnownMade

FILE = "mr_labels.tsv"
WORDS = {1: "Positive", 0: "Negative"}
"""Class of MR -> the word for it. The paper says that the labels are the words, and prints neither."""
PAIRS = 300
"""Number of pairs: as many as of the paper's other demonstrations, since it does not print from how many it
chose these."""
SEED = 42


def make_label_pairs(directory: Path) -> Mapping[str, bytes]:
    """Return the content of `FILE`: pairs of a positive and a negative sentence of MR, drawn at random.

    `directory` is `icl` below the data directory. Sentences are of the training part (all folds but the
    first), so that a search with `part = "train"` and its demonstrations see nothing of the rest.

    Raises:
        DataError: if MR's files are not there, or have another number of sentences than SentEval's.
    """
    from sentbed_evaluators.classifier_training import Classifier
    from sentbed_evaluators.transfer import part_of, read_tasks

    (task,) = read_tasks(["MR"], str(directory.parent))
    train = part_of(task, "train", Classifier()).splits["train"]
    by_class: dict[int, list[str]] = {label: [] for label in WORDS}
    for sentence, label in zip(train.sentences[0], train.labels, strict=True):
        # The template ends in a double quote.
        by_class[label].append(sentence.replace('"', "'"))
    draw = random.Random(SEED)
    rows = ["\t".join(["sentence", "word"] * len(WORDS))]
    for _ in range(PAIRS):
        fields = []
        for label, word in WORDS.items():
            fields += [draw.choice(by_class[label]), word]
        rows.append("\t".join(fields))
    return {FILE: ("\n".join(rows) + "\n").encode()}


LABEL_PAIRS = KnownData(
    name="prompteol-label-pairs",
    summary=f'pairs of MR\'s sentences, their labels as words: search, candidates = "data:icl/{FILE}"',
    places=("icl",),
    files=(KnownFile(FILE, rows=PAIRS, header=True),),
    made=(KnownMade((FILE,), sources=(), make=make_label_pairs),),
    source="https://github.com/facebookresearch/SentEval",
    licence="that of MR",
)
