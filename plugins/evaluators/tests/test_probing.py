from __future__ import annotations

import numpy as np
from sentbed.helpers import sha256
from sentbed_evaluators.probe import Classifier
from sentbed_evaluators.probing import SentEvalProbing
from sentbed_evaluators.probing_files import TASKS


def evaluate(evaluator, encoder, *arguments, **options):
    return evaluator.prepare().evaluate(encoder, *arguments, **options)


def evaluator(probing_data, *tasks, **fields):
    return SentEvalProbing(
        tasks=tasks or tuple(TASKS),
        data_dir=str(probing_data),
        check_sizes=False,
        **fields,
    )


def rows(probing_data, task, part):
    """Words, label and sentence of a part, sorted as Python sorts the first two."""
    lines = [
        line.split("\t")
        for line in (probing_data / TASKS[task][0]).read_text().split("\n")[:-1]
    ]
    kept = [
        (len(text.split()), label, text)
        for row_part, label, text in lines
        if row_part == part
    ]
    return sorted(kept, key=lambda row: row[:2])


def test_a_protocol_says_what_makes_the_number_comparable(probing_data, encoder):
    suite = evaluator(probing_data, "Tense", mode="fast", seed=3)
    (score,) = evaluate(suite, encoder).scores
    assert score.protocol == {
        "id": "senteval-probing",
        "aggregation": "single",
        "split": "test",
        "features": "u",
        "classifier": Classifier("fast", 3).describe(),
        "classes": 3,
        "train": 30,
        "development": 8,
        "test": 12,
        "text": "words joined by one space",
        "data": sha256(probing_data / "past_present.txt"),
    }


def test_the_parts_are_those_of_the_file_in_sentevals_order(
    probing_data, encoder, probed
):
    evaluate(evaluator(probing_data, "Depth"), encoder)

    (call,) = probed
    parts = {"tr": call.train, "va": call.development, "te": call.test}
    for name, part in parts.items():
        lines = rows(probing_data, "Depth", name)
        vectors = encoder.encode([text for *_, text in lines])
        np.testing.assert_array_equal(part.features, vectors)
        assert part.labels.tolist() == ["ABC".index(label) for _, label, _ in lines]
