"""The recipe in the shape of EmbeddingGemma on real files, with few steps, and the mean of two such runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import sentbed
from sentbed_workbench.model_soup import PARENTS_FILE, make_soup

RECIPE = Path(__file__).parents[2] / "recipes" / "mini" / "embedding-gemma.toml"
SHORT = [
    "stage.pairs.epochs=",
    "stage.pairs.steps=2",
    "stage.pairs.batch_size=8",
    "stage.finetuning.epochs=",
    "stage.finetuning.steps=2",
    "stage.finetuning.batch_size=8",
    "stage.finetuning.validate=",
    'evaluate.0.at=["end"]',
]
pytestmark = pytest.mark.usefixtures("data_directory", "minilm")


def test_runs_with_other_data_have_an_average(tmp_path):
    students = []
    for limit in (64, 32):
        recipe = sentbed.load_recipe(
            RECIPE, [*SHORT, f"stage.finetuning.data.source.limit={limit}"]
        )
        run = sentbed.run(recipe, tmp_path / f"{limit}")
        students.append(run.directory / "encoder" / "student")
    log = (tmp_path / "64" / "log.jsonl").read_text("utf-8").splitlines()
    steps = [
        event for event in map(json.loads, log) if event["event"] == "step_finished"
    ]
    assert [step["stage"] for step in steps] == ["pairs"] * 2 + ["finetuning"] * 2
    for step in steps:
        metrics = step["metrics"]
        assert step["loss"] == pytest.approx(
            metrics["matryoshka"] + metrics["distill"], rel=1e-4
        )
        cuts = [metrics[f"matryoshka.{width}"] for width in (384, 256, 128, 64)]
        assert metrics["matryoshka"] == pytest.approx(sum(cuts), rel=1e-4)
    soup = make_soup(tmp_path / "soup", students)
    assert [parent.kept for parent in soup.parents] == [True, True]
    assert (tmp_path / "soup" / PARENTS_FILE).is_file()
    texts = ["A cat sits on the mat.", "A dog barks at night."]
    vectors = sentbed.Encoder.load(tmp_path / "soup").encode(texts)
    assert vectors.shape == (2, 384)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1], rel=1e-5)
    parents = [sentbed.Encoder.load(student).encode(texts) for student in students]
    assert not np.allclose(parents[0], parents[1], atol=1e-6)
    assert not np.allclose(vectors, parents[0], atol=1e-6)
