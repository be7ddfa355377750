"""Demonstrations for PromptEOL (appendix C) whose words are the labels of MR, made from SentEval's files."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from sentbed_common import KnownData, KnownFile, KnownMade

FILE = "mr_labels.tsv"
WORDS = {1: "Positive", 0: "Negative"}
"""Word for each class of MR. The paper uses the labels as words, but does not print the words."""

PAIRS = 300
"""Number of pairs to draw. The paper does not print the number for these demonstrations; it chooses its other
demonstrations from 300 candidates."""

SEED = 42


def make_label_pairs(directory: Path) -> Mapping[str, bytes]:
    """Return the content of `FILE`: each row has a positive and a negative sentence of MR, drawn at random.

    `directory` is `icl` below the data directory. The sentences are those of MR's part `train`, which is all
    folds except the first: a search for demonstrations with `part = "train"` then sees nothing of the
    first fold, not even among its candidates.

    Raises:
        DataError: if MR's files are missing, or have another number of sentences than SentEval's.
    """
    from sentbed_evaluators.classifier_training import Classifier
    from sentbed_evaluators.transfer import part_of, read_tasks

    (task,) = read_tasks(["MR"], str(directory.parent))
    train = part_of(task, "train", Classifier()).splits["train"]
    by_class: defaultdict[int, list[str]] = defaultdict(list)
    for sentence, label in zip(train.sentences[0], train.labels, strict=True):
        # In the template, the sentence stands in double quotes.
        by_class[label].append(sentence.replace('"', "'"))
    generator = random.Random(SEED)
    rows = ["\t".join(["sentence", "word"] * len(WORDS))]
    for _ in range(PAIRS):
        fields = []
        for label, word in WORDS.items():
            fields += [generator.choice(by_class[label]), word]
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
